"""riskroute: risk-aware linear bandits for smart order routing.

The most used names are here; more are in `policies`, `environments`, `market`, `routing` and `learning`.
Importing the package is light: each name loads its module when it is first used.
"""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
