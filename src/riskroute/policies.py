"""The policies, and the base classes for your own: `riskroute.make_policy` makes one by its name."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
