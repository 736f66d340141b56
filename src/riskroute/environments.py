"""More environments: other noise, changing coefficients, violated assumptions. See also `riskroute.Environment`."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
