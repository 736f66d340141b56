"""Certified designs over allocation sets too large to list."""
