"""Splits of orders over venues and pools: action sets, designs, venue models, fees and exact optima."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
