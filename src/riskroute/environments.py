"""Environments besides `riskroute.Environment` and `riskroute.Replay`: noise, changes and broken assumptions."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
