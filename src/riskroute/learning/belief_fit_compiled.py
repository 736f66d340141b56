"""The fit of a belief in compiled code.

The steps are those of `riskroute.learning.belief_fit`, in the same sequence, without temporary arrays. Sums are formed
in a fixed sequence too, whatever the processor.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.validation import kernel_array
from riskroute.learning.belief_fit import (
    ITERATIONS,
    LEAST,
    LEAST_FREEDOM,
    NOISELESS,
    ROUNDING,
    SURPRISE,
    TRACE,
    BeliefArrays,
)
from riskroute.learning.observations import Observations
from riskroute.learning.small_matrices import padded_length, solve_by_root, upper_inverse, upper_root


def fit_belief_arrays(
    observations: Observations,
    base_variance: float,
    vague: Matrix,
    prior: BeliefArrays | None,
    variance_floor: float,
    unit: float,
) -> BeliefArrays | None:
    """Do what `riskroute.learning.belief_fit.fit_belief_plainly` does; None where a matrix cannot be factored."""
    one, dim = observations, observations.features.shape[1]
    before = _no_belief(dim) if prior is None else _checked(prior, dim)
    found = _belief_of_zeros(dim)
    variance, rounds, fine = fit_belief_compiled(
        one.features,
        one.counts,
        one.means,
        one.spreads,
        one.free,
        kernel_array("vague", vague, (dim, dim)),
        *before,
        prior is not None,
        base_variance,
        variance_floor,
        unit,
        *found,
    )
    return BeliefArrays(*found, variance, rounds) if fine else None


def _checked(prior: BeliefArrays, dim: int) -> BeliefArrays:
    return prior._replace(
        mean_coef=kernel_array("mean_coef of prior", prior.mean_coef, (dim,)),
        mean_precision=kernel_array("mean_precision of prior", prior.mean_precision, (dim, dim)),
        var_coef=kernel_array("var_coef of prior", prior.var_coef, (dim,)),
        var_precision=kernel_array("var_precision of prior", prior.var_precision, (dim, dim)),
    )


@cache
def _no_belief(dim: int) -> BeliefArrays:
    """Return what stands for a prior where there is none; it is only read."""
    return BeliefArrays(*_belief_of_zeros(dim), 0.0, 0.0)


def _belief_of_zeros(dim: int) -> tuple[Vector, Matrix, Vector, Matrix]:
    return np.zeros(dim), np.zeros((dim, dim)), np.zeros(dim), np.zeros((dim, dim))


@register_jitable(error_model="numpy")
def _values(columns: Matrix, coef: Vector, found: Vector) -> None:
    """Write the product of features, given as columns ``(dim, n)``, with coefficients."""
    for i in range(len(found)):
        found[i] = 0.0
    for a in range(len(coef)):
        factor = coef[a]
        for i in range(columns.shape[1]):
            found[i] += columns[a, i] * factor


@register_jitable(error_model="numpy")
def _product(first: Vector, second: Vector, length: int) -> float:
    """Return the inner product of the first entries, from four sums side by side, which a processor adds up at once."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = length // 4 * 4
    for i in range(0, whole, 4):
        one += first[i] * second[i]
        two += first[i + 1] * second[i + 1]
        three += first[i + 2] * second[i + 2]
        four += first[i + 3] * second[i + 3]
    for i in range(whole, length):
        one += first[i] * second[i]
    return (one + two) + (three + four)


@register_jitable(error_model="numpy")
def _solve(
    pairs: Matrix,
    columns: Matrix,
    weights: Vector,
    totals: Vector,
    known: Matrix,
    center: Vector,
    precision: Matrix,
    root: Matrix,
    coef: Vector,
) -> bool:
    """Write precision, its factor and centre of a belief updated by weighted targets; False if there is no factor."""
    dim, n = len(center), len(weights)
    flat = np.zeros(pairs.shape[1])
    for i in range(0, n, 2):  # two rows at a time, and `pairs` has a row of zeros at the end
        one, two = weights[i], weights[i + 1] if i + 1 < n else 0.0
        for p in range(len(flat)):
            flat[p] += one * pairs[i, p] + two * pairs[i + 1, p]
    p = 0
    for a in range(dim):
        for b in range(a, dim):
            precision[a, b] = known[a, b] + flat[p]
            p += 1
        precision[a, a] *= 1 + ROUNDING
        for b in range(a):
            precision[a, b] = precision[b, a]
    if not upper_root(precision, root):
        return False
    step, moved, right, fitted = np.zeros(dim), np.empty(dim), np.empty(dim), np.empty(columns.shape[1])
    for _ in range(2):
        for a in range(dim):
            moved[a] = center[a] + step[a]
        _values(columns, moved, fitted)
        for i in range(n):
            fitted[i] = totals[i] - weights[i] * fitted[i]  # what the step misses
        for a in range(dim):
            right[a] = _product(columns[a], fitted, n) - _product(known[a], step, dim)
        solve_by_root(root, right)
        for a in range(dim):
            step[a] += right[a]
    for a in range(dim):
        coef[a] = center[a] + step[a]
    return True


@register_jitable(error_model="numpy")
def _levers(columns: Matrix, root: Matrix, work: Matrix, levers: Vector) -> None:
    """Write the variance of each row's fitted value."""
    dim, n = columns.shape
    upper_inverse(root, work)
    part = np.empty(n)
    for i in range(n):
        levers[i] = 0.0
    for a in range(dim):
        for i in range(n):
            part[i] = 0.0
        for b in range(a + 1):
            factor = work[b, a]
            for i in range(n):
                part[i] += columns[b, i] * factor
        for i in range(n):
            levers[i] += part[i] * part[i]


@register_jitable(error_model="numpy")
def _squared_errors(
    columns: Matrix,
    counts: Vector,
    means: Vector,
    spreads: Vector,
    free: Vector,
    coef: Vector,
    levers: Vector,
    variance: Vector,
    squares: Vector,
    freedom: Vector,
) -> None:
    """Write the sum of squared errors of each row and its degrees of freedom, given the leverage of one reward."""
    n = len(counts)
    _values(columns, coef, squares)
    inside, outside, within, beyond = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        error = means[i] - squares[i]
        squares[i] = counts[i] * (error * error)
        freedom[i] = max(counts[i] * (1 - levers[i]) - free[i], 0.0)
        inside += free[i]
        outside += freedom[i]
        within += spreads[i] / variance[i]
        beyond += squares[i] / variance[i]
    surprising = False
    if inside >= outside and outside > 0:
        explained = within / inside * outside
        surprising = beyond > explained * (1 + SURPRISE * np.sqrt(2 / inside + 2 / outside))
    for i in range(n):
        squares[i] = spreads[i] if surprising else spreads[i] + squares[i]
        freedom[i] = free[i] if surprising else free[i] + freedom[i]


@register_jitable(error_model="numpy")
def _average_square(counts: Vector, free: Vector, values: Vector, noise: float) -> float:
    """Return the average square of one value per row, less the part due to noise, and at least zero."""
    total, weight = 0.0, 0.0
    for i in range(len(counts)):
        one = min(counts[i], 1.0)
        total += one * (values[i] * values[i] - noise * (1 - free[i] / counts[i]))
        weight += one
    return max(total / weight, 0.0) if len(counts) > 0 else 0.0


@njit(cache=True, error_model="numpy")
def fit_belief_compiled(
    features: Matrix,
    counts: Vector,
    means: Vector,
    spreads: Vector,
    free: Vector,
    vague: Matrix,
    prior_mean: Vector,
    prior_mean_precision: Matrix,
    prior_var: Vector,
    prior_var_precision: Matrix,
    prior_variance: float,
    prior_rounds: float,
    has_prior: bool,
    base_variance: float,
    variance_floor: float,
    unit: float,
    mean_coef: Vector,
    mean_precision: Matrix,
    var_coef: Vector,
    var_precision: Matrix,
) -> tuple[float, float, bool]:
    """Write the fit of both coefficient vectors; return the typical variance, the rounds, and whether it worked."""
    n, dim = features.shape
    columns = np.zeros((dim, padded_length(n)))
    for i in range(n):
        for a in range(dim):
            columns[a, i] = features[i, a]
    pairs = np.zeros((n + 1, padded_length(dim * (dim + 1) // 2)))  # products of every two features of a row
    for i in range(n):
        p = 0
        for a in range(dim):
            for b in range(a, dim):
                pairs[i, p] = features[i, a] * features[i, b]
                p += 1
    root, work, mean_known, var_known = (
        np.zeros((dim, dim)),
        np.zeros((dim, dim)),
        np.empty((dim, dim)),
        np.empty((dim, dim)),
    )
    weights, totals, variance, freedom = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    width = columns.shape[1]  # what comes from columns is as long as they are
    levers, squares, values, expected = np.empty(width), np.empty(width), np.empty(width), np.empty(width)

    # The typical variance
    for a in range(dim):
        for b in range(dim):
            mean_known[a, b] = TRACE * vague[a, b] + prior_mean_precision[a, b] * prior_variance
    rounds = prior_rounds
    for i in range(n):
        totals[i] = counts[i] * means[i]
        variance[i] = 1.0
        rounds += counts[i]
    fine = _solve(pairs, columns, counts, totals, mean_known, prior_mean, mean_precision, root, mean_coef)
    if not fine:
        return 0.0, rounds, False
    _levers(columns, root, work, levers)
    _squared_errors(columns, counts, means, spreads, free, mean_coef, levers, variance, squares, freedom)
    total, free_total = 0.0, 0.0
    for i in range(n):
        total += squares[i]
        free_total += freedom[i]
    total += prior_variance * prior_rounds
    free_total += prior_rounds
    typical = total / free_total if free_total > LEAST_FREEDOM else 0.0
    size = _average_square(counts, free, means, 0.0)
    if not typical > NOISELESS * size:
        typical = 0.0
    for choice in (prior_variance, base_variance, size, unit, 1.0):
        if not typical > LEAST:
            typical = choice

    # The vague belief, as informative as a fraction of one reward of that variance and of the signal's
    _values(columns, prior_mean, values)
    _values(columns, prior_var, expected)
    for i in range(n):
        values[i] = means[i] - values[i]
        expected[i] += base_variance
        levers[i] = typical - expected[i]
    signal = _average_square(counts, free, values, typical)
    mean_scale = typical + signal
    var_scale = 2 * typical**2 + _average_square(counts, free, levers, 0.0)
    for a in range(dim):
        for b in range(dim):
            mean_known[a, b] = prior_mean_precision[a, b] + vague[a, b] / mean_scale
            var_known[a, b] = prior_var_precision[a, b] + vague[a, b] / var_scale
    for i in range(n):
        variance[i] = max(expected[i], variance_floor * typical) if has_prior else typical

    # Means and variances, each weighted by the variances of the other fit
    for _ in range(ITERATIONS):
        for i in range(n):
            weights[i] = counts[i] / variance[i]
            totals[i] = weights[i] * means[i]
        fine = fine and _solve(pairs, columns, weights, totals, mean_known, prior_mean, mean_precision, root, mean_coef)
        _levers(columns, root, work, levers)
        for i in range(n):
            levers[i] /= variance[i]
        _squared_errors(columns, counts, means, spreads, free, mean_coef, levers, variance, squares, freedom)
        for i in range(n):
            scale = 2 * (variance[i] * variance[i])
            weights[i] = freedom[i] / scale
            totals[i] = (squares[i] - freedom[i] * base_variance) / scale
        fine = fine and _solve(pairs, columns, weights, totals, var_known, prior_var, var_precision, root, var_coef)
        if not fine:
            break
        _values(columns, var_coef, values)
        for i in range(n):
            variance[i] = max(values[i] + base_variance, variance_floor * typical)
    return typical, rounds, fine
