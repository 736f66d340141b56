"""G-optimal designs: which actions to play, and how often, to estimate all actions well."""
