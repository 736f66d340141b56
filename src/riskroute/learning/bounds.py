"""The regret bounds the paper states or quotes, as functions, with the constants its proofs give.

Where the paper writes only an order, the constant is a parameter and says so. ``gaps`` are mean-variance gaps (Delta)
and ``mean_differences`` differences of mean to the best action (Gamma); horizons are the paper's T.
"""

from __future__ import annotations

import math

import numpy as np

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import finite_array, real_number, whole_number


def temporal_remainder(horizon: int, max_deviation: float, max_mean_difference: float, var_range: float) -> float:
    """Bound the term that Proposition 2 leaves out: expected regret is at most expected pseudo-regret plus this.

    The noise term sums ``2 G s sqrt(2 pi t) / (t + 1)`` (``s`` the largest standard deviation, ``G`` the largest
    difference of means) and is of order ``sqrt(T)``; the variance term sums ``var_range / (t + 1)`` and is of order
    ``log(T)``; the first round may cost ``var_range`` more, because one reward has no variance to be compared.
    """
    root = math.sqrt(whole_number("horizon", horizon))
    noise_sum = 0.5 + 2 * (root - 1) - 2 * (math.atan(root) - math.atan(1))  # first term, then the integral from 1 to T
    noise = 2 * max_mean_difference * max_deviation * math.sqrt(2 * math.pi) * noise_sum
    return float(noise + var_range * math.log(horizon) + var_range)


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
    """Instance-independent bound of RISE: eqs. (instance_independent_1) and (_2), plus the remainder.

    ``epsilon`` is the accuracy of the estimated mean-variances after ``explore_rounds`` rounds.
    """
    n = whole_number("explore_rounds", explore_rounds, maximum=whole_number("horizon", horizon))
    square = max_mean_difference**2
    exploring = 2 * n * (max_variance - min_variance + 2 * risk_tolerance) + square * n
    committed = 2 * (horizon - n) * epsilon + square * n * math.log(horizon / n)
    spread = max_variance - min_variance
    return exploring + committed + temporal_remainder(horizon, math.sqrt(max_variance), max_mean_difference, spread)


def rise_plus_plus_bound(
    horizon: int, dim: int, gaps: Vector, mean_differences: Vector, *, constant: float = 1.0
) -> float:
    """Instance-dependent bound of RISE++ (Theorem 2), up to its unstated ``constant``."""
    gaps, differences = _suboptimal(gaps, mean_differences)
    if len(gaps) == 0:
        return 0.0
    smallest = float(gaps.min())
    hardest = float(((gaps + differences**2) / gaps**2).max())
    learning = hardest * dim**3 * math.log(max(dim, 2)) * math.log(horizon) ** 3
    return constant * (learning + dim**2 * max(math.log2(1 / smallest), 0.0) + dim**2 * smallest)


def risk_ucb_bound(
    horizon: int, gaps: Vector, mean_differences: Vector, *, risk_tolerance: float, best_variance: float
) -> float:
    """Bound of Vakili and Zhao (2016) for the index policy, as the paper quotes it: a sum over all arms."""
    gaps, differences = _suboptimal(gaps, mean_differences)
    pulls = 4 * math.log(horizon) / np.minimum(gaps**2, 4 * (2 + risk_tolerance) ** 2) + 5
    return float(np.sum(pulls * (gaps + differences**2)) + best_variance)


def risk_exp_exp_bound(horizon: int, n_actions: int) -> float:
    """Bound ``2 K T^(2/3)`` of Sani et al. (2012, Theorem 2) on the pseudo-regret of RiskExpExp."""
    return float(2 * whole_number("n_actions", n_actions) * whole_number("horizon", horizon) ** (2 / 3))


def restart_bound(
    horizon: int, changes: int, *, deviation: float = 1.0, largest_mean: float = 1.0, constant: float = 1.0
) -> float:
    """Bound of the restart scheme (Theorem 3) for ``changes`` changes, up to its unstated ``constant``."""
    changes = whole_number("changes", changes, minimum=0)
    rate = horizon ** (8 / 9) * math.log(horizon) + changes * horizon ** (2 / 3)
    return float(constant * largest_mean**2 * (rate + deviation**2 * math.sqrt(changes * horizon)))


def _suboptimal(gaps: Vector, mean_differences: Vector) -> tuple[Vector, Vector]:
    gaps = finite_array("gaps", gaps, ndim=1)
    differences = finite_array("mean_differences", mean_differences, ndim=1, length=len(gaps))
    if (gaps < 0).any():
        raise InputError(f"gaps must be non-negative, was {real_number('gap', gaps.min()):g}")
    return gaps[gaps > 0], differences[gaps > 0]
