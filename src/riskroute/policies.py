"""The policies, and base classes for new ones. `riskroute.make_policy` creates a policy by its name."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
