"""Environments to play in, and the runner that plays policies in them."""
