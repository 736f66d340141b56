"""Routers: one decision per order, made from the books of the moment, and what is learned from its child orders."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
