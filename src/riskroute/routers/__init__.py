"""Routers: they plan every order from the current books, and learn from its fills."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
