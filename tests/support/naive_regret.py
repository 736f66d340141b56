"""Mean-variance of a path, its comparator and its pseudo-regret, as the paper defines them."""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Integers, Vector
from riskroute.learning.tally import Tally


def path_mean_variance(rewards: Vector, risk_tolerance: float) -> float:
    """Return the mean-variance ``xi`` of a path of rewards."""
    tally = Tally.of(rewards)
    return tally.spread - risk_tolerance * tally.count * tally.mean


def comparator(rounds: Integers, mean: float, variance: float, risk_tolerance: float) -> Vector:
    """Return the expected mean-variance of one action over ``t`` rounds."""
    t = np.asarray(rounds, dtype=float)
    return np.asarray((t - 1) * variance - risk_tolerance * t * mean)


def pseudo_regret(means: Vector, gaps: Vector) -> Vector:
    """Return the first two terms of the temporal decomposition (Proposition 2), summed up to every round.

    ``means`` and ``gaps`` ``(T,)`` are those of the actions played. The first term adds up the gaps; the second is the
    cost of switching, ``1 / (t + 1)`` times the sum of squared differences to the means of all earlier rounds.
    """
    switching = np.zeros(len(means))
    for t in range(1, len(means)):
        switching[t] = np.sum((means[t] - means[:t]) ** 2) / (t + 1)
    return np.asarray(np.cumsum(gaps + switching))
