"""Designs over sets of allocations that are never listed."""
