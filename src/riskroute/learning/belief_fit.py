"""The fit of a `riskroute.learning.belief.Belief` to rewards, step by step, as formulas of whole arrays.

Squared errors are of two kinds: those of rewards around the mean of their own action, and those of these means around
the fit. The fit follows the rewards, so an error of the second kind has one degree of freedom less its leverage. The
second kind is left out where it is clearly larger than the first explains: then the prior is wrong, or means are not
linear in the features, and what the fit misses is not noise.

Before any reward the belief is vague: worth a fraction of one reward, spread over an optimal design, around the
coefficients of the prior or around zero. The variance of that reward is the noise plus the squared signal, which is the
average squared distance of the actions' means from those coefficients. Without the signal, the vague belief would be a
firm belief in zero wherever means lie many noise deviations apart, and what the fit then misses would look like noise.
With it, the belief is the same whatever the units of rewards and features are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from riskroute.core.arrays import Matrix, Vector
from riskroute.learning.observations import Observations

TRACE = 1e-9
"""Fraction of the vague belief that makes the fit behind the typical variance just solvable."""

LEAST_FREEDOM = 0.5
"""Degrees of freedom without which the typical variance is not estimated."""

SURPRISE = 3.0
"""Standard deviations by which errors of the fit may exceed those within actions."""

LEAST = 1e-75
"""The smallest variance that can be squared and divided by."""

NOISELESS = 1e-20
"""Squared errors below this fraction of squared rewards are rounding errors."""

ROUNDING = 1e-12
"""Relative addition to the diagonal, which keeps it regular where very many rewards were seen in other directions."""

ITERATIONS = 3
"""How often means and variances are fitted in turn."""


class BeliefArrays(NamedTuple):
    """Fields of a belief, as `riskroute.learning.belief.Belief` has them."""

    mean_coef: Vector
    mean_precision: Matrix
    var_coef: Vector
    var_precision: Matrix
    variance: float
    rounds: float


def fit_belief_plainly(
    observations: Observations,
    base_variance: float,
    vague: Matrix,
    prior: BeliefArrays | None,
    variance_floor: float,
    unit: float,
) -> BeliefArrays:
    """Fit the belief: the definition of what is compiled. See `riskroute.learning.belief.fit_belief`."""
    features, counts, dim = observations.features, observations.counts, observations.features.shape[1]
    typical, rounds = _typical_variance(observations, base_variance, vague, prior, unit)
    nothing, nowhere = np.zeros((dim, dim)), np.zeros(dim)
    mean_known, mean_center = (nothing, nowhere) if prior is None else (prior.mean_precision, prior.mean_coef)
    var_known, var_center = (nothing, nowhere) if prior is None else (prior.var_precision, prior.var_coef)
    expected = features @ var_center + base_variance
    signal = _average_square(observations, observations.means - features @ mean_center, noise=typical)
    mean_known = mean_known + vague / (typical + signal)
    var_known = var_known + vague / (2 * typical**2 + _average_square(observations, typical - expected))
    variance = np.full(len(counts), typical) if prior is None else np.maximum(expected, variance_floor * typical)
    for _ in range(ITERATIONS):
        weights = counts / variance
        mean_precision, mean_coef = _solve(features, weights, weights * observations.means, mean_known, mean_center)
        squares, freedom = _squared_errors(
            observations, mean_coef, _levers(features, mean_precision) / variance, variance
        )
        weights = freedom / (2 * variance**2)
        totals = (squares - freedom * base_variance) / (2 * variance**2)
        var_precision, var_coef = _solve(features, weights, totals, var_known, var_center)
        variance = np.maximum(features @ var_coef + base_variance, variance_floor * typical)
    return BeliefArrays(mean_coef, mean_precision, var_coef, var_precision, typical, rounds)


def _solve(features: Matrix, weights: Vector, totals: Vector, known: Matrix, center: Vector) -> tuple[Matrix, Vector]:
    """Update a belief of precision ``known`` around ``center`` by weighted targets; return its precision and centre.

    ``totals`` are targets times weights. The step away from the old centre is refined once: the guard against rounding
    would otherwise hold the new centre back a little, which matters where means lie many noise deviations apart.
    """
    precision = known + (features * weights[:, None]).T @ features
    precision.flat[:: len(precision) + 1] *= 1 + ROUNDING  # the diagonal
    step = np.zeros(len(center))
    for _ in range(2):
        missed = totals - weights * (features @ (center + step))
        step = step + np.linalg.solve(precision, features.T @ missed - known @ step)
    return precision, center + step


def _levers(features: Matrix, precision: Matrix) -> Vector:
    """Variance of each row's fitted value."""
    return np.asarray(np.einsum("ij,ij->i", features, np.linalg.solve(precision, features.T).T))


def _squared_errors(
    observations: Observations, coef: Vector, levers: Vector, variance: Vector
) -> tuple[Vector, Vector]:
    """Return the sum of squared errors of each row and its degrees of freedom, given the leverage of one reward.

    Errors within rows are right whatever the fit is. Errors of the fit are added to them unless they are clearly larger
    than those within rows explain, in units of the ``variance`` of each row.
    """
    missed = observations.counts * (observations.means - observations.features @ coef) ** 2
    left = np.maximum(observations.counts * (1 - levers) - observations.free, 0.0)
    inside, outside = float(observations.free.sum()), float(left.sum())
    if inside >= outside > 0:
        explained = np.sum(observations.spreads / variance) / inside * outside
        if np.sum(missed / variance) > explained * (1 + SURPRISE * math.sqrt(2 / inside + 2 / outside)):
            return observations.spreads, observations.free
    return observations.spreads + missed, observations.free + left


def _average_square(observations: Observations, values: Vector, noise: float = 0.0) -> float:
    """Return the average square of one value per row, less the part due to the rewards' noise, and at least zero.

    Every row counts once, however often it was played.
    """
    if len(observations) == 0:
        return 0.0
    counts, weights = observations.counts, np.minimum(observations.counts, 1.0)
    squares = values**2 - noise * (1 - observations.free / counts)
    return max(float(np.sum(weights * squares) / np.sum(weights)), 0.0)


def _typical_variance(
    observations: Observations, base_variance: float, vague: Matrix, prior: BeliefArrays | None, unit: float
) -> tuple[float, float]:
    """Return the variance pooled over all rewards, per degree of freedom, and the number of rewards.

    Where rewards are too few to tell, it is the prior's; without a prior, the known constant; and if that is zero, the
    average square of the rewards.
    """
    features, counts = observations.features, observations.counts
    known, center = TRACE * vague, np.zeros(len(vague))
    squares = freedom = rounds = 0.0
    if prior is not None:
        known, center = known + prior.mean_precision * prior.variance, prior.mean_coef
        squares, freedom, rounds = prior.variance * prior.rounds, prior.rounds, prior.rounds
    precision, coef = _solve(features, counts, counts * observations.means, known, center)
    errors = _squared_errors(observations, coef, _levers(features, precision), np.ones(len(counts)))
    squares, freedom = squares + float(errors[0].sum()), freedom + float(errors[1].sum())
    found = squares / freedom if freedom > LEAST_FREEDOM else 0.0
    size = _average_square(observations, observations.means)
    found = found if found > NOISELESS * size else 0.0
    choices = (found, prior.variance if prior else 0.0, base_variance, size, unit, 1.0)
    return next(choice for choice in choices if choice > LEAST), rounds + observations.rounds


def draw_belief_plainly(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    """Turn standard normal numbers ``(count, dim)`` into draws: the definition of what is compiled."""
    drawn: Matrix = center + normals @ np.linalg.cholesky(covariance).T
    return drawn


def invert_belief_plainly(matrix: Matrix) -> Matrix:
    """Invert a precision: the definition of what is compiled."""
    root = solve_triangular(np.linalg.cholesky(matrix), np.eye(len(matrix)), lower=True)
    inverse: Matrix = root.T @ root
    return inverse
