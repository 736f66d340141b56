"""Splits of orders over venues and dark pools: action sets, designs, venue models, fees and exact optimisation."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
