"""Designs over allocation sets too large to list, with proven bounds on the leverage."""
