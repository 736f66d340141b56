"""Risk-aware linear bandits: problems, action sets, optimal design, estimation, policies, regret.

Nothing in this package refers to markets: an action is a feature vector, a reward a number.
"""

from riskroute._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
