"""The paper's regret bounds as functions, with the constants of its proofs.

If the paper states only an order of growth, the constant is a parameter. ``gaps`` are mean-variance gaps (Delta) and
``mean_differences`` the best action's mean minus each mean (Gamma), both ``(K,)``; ``horizon`` is the paper's T.
"""

from __future__ import annotations

import math

import numpy as np

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import LARGEST, finite_array, valid_magnitude, whole_number
from riskroute.learning.plan import LONGEST_HORIZON


def temporal_remainder(horizon: int, max_deviation: float, max_mean_difference: float, var_range: float) -> float:
    """Bound the remainder of Proposition 2: expected regret is at most expected pseudo-regret plus the remainder.

    The noise term is the sum over rounds ``t`` of ``2 G s sqrt(2 pi t) / (t + 1)``, with ``s`` the largest standard
    deviation and ``G`` the largest difference of means. It grows as ``sqrt(T)``. The variance term is the sum of
    ``var_range / (t + 1)`` and grows as ``log(T)``. The first round adds at most ``var_range``, since the variance of a
    single reward is zero.
    """
    root = math.sqrt(_horizon(horizon))
    noise_sum = 0.5 + 2 * (root - 1) - 2 * (math.atan(root) - math.atan(1))  # first term, then the integral from 1 to T
    spread = _size("var_range", var_range)
    noise = 2 * _size("max_mean_difference", max_mean_difference) * _size("max_deviation", max_deviation)
    return float(noise * math.sqrt(2 * math.pi) * noise_sum + spread * math.log(horizon) + spread)


def rise_bound(
    horizon: int,
    explore_rounds: int,
    epsilon: float,
    *,
    risk_tolerance: float,
    min_variance: float,
    max_variance: float,
    max_mean_difference: float,
) -> float:
    """Bound the regret of RISE on every instance: Theorem 1, plus `temporal_remainder`.

    ``epsilon`` is the accuracy of the estimated mean-variances after ``explore_rounds`` exploration rounds.
    """
    n = whole_number("explore_rounds", explore_rounds, maximum=_horizon(horizon))
    square = _size("max_mean_difference", max_mean_difference) ** 2
    spread = _size("max_variance", max_variance) - _size("min_variance", min_variance, maximum=max_variance)
    exploring = 2 * n * (spread + 2 * _size("risk_tolerance", risk_tolerance)) + square * n
    committed = 2 * (horizon - n) * _size("epsilon", epsilon) + square * n * math.log(horizon / n)
    return exploring + committed + temporal_remainder(horizon, math.sqrt(max_variance), max_mean_difference, spread)


def rise_plus_plus_bound(
    horizon: int, dim: int, gaps: Vector, mean_differences: Vector, *, constant: float = 1.0
) -> float:
    """Bound the regret of RISE++ on one instance (Theorem 2). The paper does not state ``constant``."""
    gaps, differences = _suboptimal(gaps, mean_differences)
    dim, horizon = whole_number("dim", dim, maximum=10**6), _horizon(horizon)
    constant = _size("constant", constant)
    if len(gaps) == 0:
        return 0.0
    smallest = float(gaps.min())
    hardest = float(((gaps + differences**2) / gaps**2).max())
    learning = hardest * dim**3 * math.log(max(dim, 2)) * math.log(horizon) ** 3  # log(d) is 0 for d = 1
    return constant * (learning + dim**2 * max(math.log2(1 / smallest), 0.0) + dim**2 * smallest)


def risk_ucb_bound(
    horizon: int, gaps: Vector, mean_differences: Vector, *, risk_tolerance: float, best_variance: float
) -> float:
    """Bound the regret of RiskUCB by a sum over the suboptimal arms (Vakili and Zhao 2016, quoted by the paper)."""
    gaps, differences = _suboptimal(gaps, mean_differences)
    tolerance = _size("risk_tolerance", risk_tolerance)
    pulls = 4 * math.log(_horizon(horizon)) / np.minimum(gaps**2, 4 * (2 + tolerance) ** 2) + 5
    return float(np.sum(pulls * (gaps + differences**2)) + _size("best_variance", best_variance))


def risk_exp_exp_bound(horizon: int, n_actions: int) -> float:
    """Bound the pseudo-regret of RiskExpExp by ``2 K T^(2/3)`` (Sani et al. 2012, Theorem 2).

    Examples
    --------
    >>> round(risk_exp_exp_bound(1000, 35))
    7000
    """
    return float(2 * whole_number("n_actions", n_actions, maximum=10**300) * _horizon(horizon) ** (2 / 3))


def restart_bound(
    horizon: int, changes: int, *, deviation: float = 1.0, largest_mean: float = 1.0, constant: float = 1.0
) -> float:
    """Bound the regret of the restart scheme (Theorem 3). The paper does not state ``constant``."""
    horizon = _horizon(horizon)
    changes = whole_number("changes", changes, minimum=0, maximum=horizon)
    rate = horizon ** (8 / 9) * math.log(horizon) + changes * horizon ** (2 / 3)
    noise = _size("deviation", deviation) ** 2 * math.sqrt(changes * horizon)
    return float(_size("constant", constant) * _size("largest_mean", largest_mean) ** 2 * (rate + noise))


def _horizon(value: int) -> int:
    return whole_number("horizon", value, maximum=LONGEST_HORIZON)


def _size(name: str, value: float, **limits: float) -> float:
    return valid_magnitude(name, value, minimum=0, smallest=0, **limits)


def _suboptimal(gaps: Vector, mean_differences: Vector) -> tuple[Vector, Vector]:
    gaps = finite_array("gaps", gaps, ndim=1, largest=LARGEST)
    differences = finite_array("mean_differences", mean_differences, ndim=1, length=len(gaps), largest=LARGEST)
    if (gaps < 0).any():
        raise InputError(f"gaps must be non-negative, was {gaps.min():g}")
    return gaps[gaps > 0], differences[gaps > 0]
