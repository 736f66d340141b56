"""The policies: one file each, named after the algorithm."""
