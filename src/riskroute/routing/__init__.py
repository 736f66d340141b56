"""Orders, slots and the ways to split one over the other."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
