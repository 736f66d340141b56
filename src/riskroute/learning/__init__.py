"""Risk-aware linear bandits: problems, action sets, optimal design, estimation, policies, regret.

Pure mathematics: an action is a feature vector.
"""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
