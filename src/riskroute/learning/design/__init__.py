"""G-optimal designs: how often to play which actions, to estimate the mean rewards of all actions accurately."""
