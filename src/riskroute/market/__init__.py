"""From market data to venue models: readers, snapshots, sampling, calibration, a synthetic market."""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
