"""Experiments of the literature on order routing, remade."""
