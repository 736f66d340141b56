"""G-optimal designs: which actions to play, and how often, to learn most about all of them."""
