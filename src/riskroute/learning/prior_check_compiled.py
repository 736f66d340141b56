"""The factor that weakens a contradicted prior in compiled code.

The steps are those of `riskroute.learning.prior_check`, in the same sequence. Sums are formed in a fixed sequence too,
whatever the processor.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE
from riskroute.learning.belief_fit import BeliefArrays
from riskroute.learning.observations import Columns
from riskroute.learning.small_matrices import upper_root

SURPRISE = 3.0
"""Standard deviations by which the squared distance from the prior may exceed its expectation."""

WEAKEST = 1e-18
"""The smallest factor: means may be off by very many noise deviations, and then the prior must not matter."""

TAILS = 2.0
"""Squared residuals vary by more than Gaussian ones would, by this factor."""

STEP = 0.05
"""The logarithm of the factor is known this well."""


@njit(cache=True, error_model="numpy")
def temper_factor_compiled(
    columns: Columns, prior: BeliefArrays, base_variance: float, vague: Matrix, surprise: float
) -> float:
    """Return the factor, at most 1, that leaves the prior unsurprised; not a number where a matrix has no root."""
    features, counts, means, spreads, free = columns
    n, dim = features.shape
    variance, missed, weights = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        expected, mean = base_variance, 0.0
        for a in range(dim):
            expected += features[i, a] * prior.var_coef[a]
            mean += features[i, a] * prior.mean_coef[a]
        variance[i] = max(max(expected, LEAST_VARIANCE * prior.variance), spreads[i] / counts[i])
        missed[i] = means[i] - mean
        weights[i] = counts[i] / variance[i]
    factor = _factor(prior.mean_precision, features, weights, missed, vague, prior.variance, surprise)
    for i in range(n):
        expected = base_variance
        for a in range(dim):
            expected += features[i, a] * prior.var_coef[a]
        missed[i] = spreads[i] / free[i] - expected if free[i] > 0 else 0.0
        weights[i] = free[i] / (2 * TAILS * variance[i] ** 2)
    other = _factor(prior.var_precision, features, weights, missed, vague, 2 * prior.variance**2, surprise)
    return other if other < factor or math.isnan(other) else factor


@register_jitable(error_model="numpy")
def _factor(
    precision: Matrix,
    features: Matrix,
    weights: Vector,
    missed: Vector,
    vague: Matrix,
    noise: float,
    surprise: float,
) -> float:
    """Return the largest factor, at most 1, with which the weakened prior is not surprised by what it missed."""
    n, dim = features.shape
    information, pull = np.empty((dim, dim)), np.zeros(dim)
    for a in range(dim):
        for b in range(a, dim):
            total = vague[a, b] / noise
            for i in range(n):
                total += weights[i] * features[i, a] * features[i, b]
            information[a, b] = total
        for i in range(n):
            pull[a] += weights[i] * features[i, a] * missed[i]
    allowed = dim + surprise * math.sqrt(2 * dim)
    root, work = np.empty((dim, dim)), np.empty(dim)
    alone = _size(information, precision, 0.0, pull, root, work)
    if math.isnan(alone) or alone - _size(information, precision, 1.0, pull, root, work) <= allowed:
        return alone if math.isnan(alone) else 1.0
    low, high = math.log(WEAKEST), 0.0  # the distance rises with the factor
    while high - low > STEP:
        middle = (low + high) / 2
        if alone - _size(information, precision, math.exp(middle), pull, root, work) <= allowed:
            low = middle
        else:
            high = middle
    return math.exp(low)


@register_jitable(error_model="numpy")
def _size(information: Matrix, precision: Matrix, factor: float, pull: Vector, root: Matrix, work: Vector) -> float:
    """Return the squared length of ``pull`` in the inverse of information and weakened prior."""
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
