"""G-optimal designs: which actions to play how often, to estimate the mean rewards of all actions accurately."""
