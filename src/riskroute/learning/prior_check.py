"""Tempering: down-weight a prior that the rewards contradict, so that a policy notices a world that has changed.

`temper_factor_plainly` defines the factor in terms of whole arrays. Up to 64 dimensions kernels compute it; they add in
a fixed order, whatever the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from riskroute.core.arrays import Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.observations import Observations
from riskroute.learning.small_matrices import LONGEST, add_products, upper_root

SURPRISE = 3.0  # standard deviations by which the squared distance from the prior may exceed its expectation
_TAILS = 2.0  # variance of squared residuals over that of Gaussian ones


def temper_prior(
    prior: Belief, observations: Observations, *, base_variance: float, vague: Matrix, surprise: float = SURPRISE
) -> Belief:
    """Down-weight the prior until it is consistent with the rewards; return the prior itself if it is.

    The squared distance between the coefficients fitted to the rewards alone and those of the prior, in units of their
    joint standard error, has as many degrees of freedom as there are coefficients. It may exceed them by ``surprise``
    standard deviations. Means and variances are compared separately, and the stronger contradiction down-weights both.
    """
    given = prior, observations, float(base_variance), vague, surprise
    factor = temper_factor(*given) if prior.dim <= LONGEST else math.nan
    if math.isnan(factor):
        factor = temper_factor_plainly(*given)
    return prior if factor >= 1 else prior.weakened(factor)


def temper_factor_plainly(
    prior: Belief, observations: Observations, base_variance: float, vague: Matrix, surprise: float
) -> float:
    """Define the factor of `temper_prior` in terms of whole arrays."""
    features, counts = observations.features, observations.counts
    variance = np.maximum(features @ prior.var_coef + base_variance, LEAST_VARIANCE * prior.variance)
    variance = np.maximum(variance, observations.spreads / counts)
    missed = observations.means - features @ prior.mean_coef
    several = observations.free > 0
    found = np.divide(observations.spreads, observations.free, out=np.zeros(len(counts)), where=several)
    missed_variance = np.where(several, found - features @ prior.var_coef - base_variance, 0.0)
    var_weights = observations.free / (2 * _TAILS * variance**2)

    def factor(precision: Matrix, weights: Vector, missed: Vector, vague: Matrix) -> float:
        weighted = features * weights[:, None]
        information, pull = vague + weighted.T @ features, weighted.T @ missed
        return _largest_factor(
            lambda part: float(pull @ np.linalg.solve(information + part * precision, pull)), len(pull), surprise
        )

    return min(
        factor(prior.mean_precision, counts / variance, missed, vague / prior.variance),
        factor(prior.var_precision, var_weights, missed_variance, vague / (2 * prior.variance**2)),
    )


def _largest_factor(length: Callable[[float], float], dim: int, surprise: float) -> float:
    """Return the largest factor, at most 1, with which the down-weighted prior is consistent with the rewards.

    ``length(factor)`` is the squared length of the rewards' pull in the inverse of the joint information; the squared
    distance from the prior is what the prior takes away from it, and rises with the factor.
    """
    allowed = dim + surprise * math.sqrt(2 * dim)
    alone = length(0.0)
    if math.isnan(alone) or alone - length(1.0) <= allowed:
        return alone if math.isnan(alone) else 1.0
    # means may be off by very many noise deviations, and then the prior must not matter
    low, high = math.log(1e-18), 0.0
    while high - low > 0.05:
        middle = (low + high) / 2
        low, high = (middle, high) if alone - length(math.exp(middle)) <= allowed else (low, middle)
    return math.exp(low)


def temper_factor(
    prior: Belief, observations: Observations, base_variance: float, vague: Matrix, surprise: float
) -> float:
    """Return the factor of `temper_prior` by kernels; not a number where a matrix cannot be factored."""
    features, counts, means, spreads, free = observations.columns
    n, dim = features.shape
    columns, expected, mean = np.ascontiguousarray(features.T), np.full(n, base_variance), np.zeros(n)
    add_products(columns, prior.var_coef, expected)
    add_products(columns, prior.mean_coef, mean)
    variance = np.maximum(np.maximum(expected, LEAST_VARIANCE * prior.variance), spreads / counts)
    found = np.divide(spreads, free, out=np.zeros(n), where=free > 0)
    missed_variance = np.where(free > 0, found - expected, 0.0)

    def factor(precision: Matrix, weights: Vector, missed: Vector, vague: Matrix) -> float:
        information, pull = np.ascontiguousarray(vague), np.zeros(dim)
        root, work = np.empty((dim, dim)), np.empty(dim)
        _add_information(columns, weights, missed, information, pull)
        return _largest_factor(
            lambda part: _squared_length(information, precision, part, pull, root, work), dim, surprise
        )

    of_means = factor(prior.mean_precision, counts / variance, means - mean, vague / prior.variance)
    var_weights, scale = free / (2 * _TAILS * (variance * variance)), 2 * (prior.variance * prior.variance)
    of_variances = factor(prior.var_precision, var_weights, missed_variance, vague / scale)
    return of_variances if of_variances < of_means or math.isnan(of_variances) else of_means


@njit(cache=True, error_model="numpy")
def _add_information(columns: Matrix, weights: Vector, missed: Vector, information: Matrix, pull: Vector) -> None:
    """Add weighted squares of features to the upper triangle of ``information``, and weighted errors to ``pull``."""
    dim, n = columns.shape
    for a in range(dim):
        for b in range(a, dim):
            total = information[a, b]
            for i in range(n):
                total += weights[i] * columns[a, i] * columns[b, i]
            information[a, b] = total
        for i in range(n):
            pull[a] += weights[i] * columns[a, i] * missed[i]


@njit(cache=True, error_model="numpy")
def _squared_length(
    information: Matrix, precision: Matrix, factor: float, pull: Vector, root: Matrix, work: Vector
) -> float:
    """Return the squared length of ``pull`` in the inverse of information plus ``factor`` times the prior's."""
    dim = len(pull)
    for a in range(dim):
        work[a] = pull[a]
        for b in range(a, dim):
            root[a, b] = information[a, b] + factor * precision[a, b]
    if not upper_root(root, root):
        return np.nan
    total = 0.0
    for a in range(dim):
        value = work[a] / root[a, a]
        total += value * value
        for b in range(a + 1, dim):
            work[b] -= root[a, b] * value
    return total
