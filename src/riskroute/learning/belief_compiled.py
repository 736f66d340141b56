"""Compiled arithmetic of `riskroute.learning.belief`, whose plain functions define what is computed here.

The steps of the fit are those of `fit_belief_plainly`, in the same sequence, without temporary arrays. Where a matrix
has no Cholesky factor in floating-point numbers the kernels give up, and the plain functions decide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.arrays import Matrix, Vector
from riskroute.learning.small_matrices import inverse_from_root, solve_by_root, upper_inverse, upper_root
from riskroute.validation import check_array

LONGEST = 64
"""For longer coefficient vectors the matrix products of a linear algebra library are faster than these kernels."""

_REAL = np.dtype(np.float64)


class BeliefArrays(NamedTuple):
    """Fields of a belief, as `riskroute.learning.belief.Belief` has them."""

    mean_coef: Vector
    mean_precision: Matrix
    var_coef: Vector
    var_precision: Matrix
    variance: float
    rounds: float


class BeliefRows(NamedTuple):
    """Columns of observations, as `riskroute.learning.observations.Observations` has them."""

    features: Matrix
    counts: Vector
    means: Vector
    spreads: Vector
    free: Vector


class BeliefLimits(NamedTuple):
    """Numbers that the fit is made with: what is known, and the constants of `riskroute.learning.belief`."""

    base_variance: float
    variance_floor: float
    unit: float
    trace: float
    least_freedom: float
    surprise: float
    least: float
    noiseless: float
    rounding: float
    iterations: int


def fit_belief_arrays(
    rows: BeliefRows, vague: Matrix, prior: BeliefArrays | None, limits: BeliefLimits
) -> BeliefArrays | None:
    """Fit the fields of a belief to observations; None where a matrix cannot be factored.

    Parameters
    ----------
    rows : BeliefRows
        The rewards.
    vague : Matrix
        Information of the vague belief, ``(dim, dim)``.
    prior : BeliefArrays, optional
        What was believed before.
    limits : BeliefLimits
        Numbers that the fit is made with.
    """
    dim = len(vague) if isinstance(vague, np.ndarray) and vague.ndim else 0
    given = prior or BeliefArrays(np.zeros(dim), np.zeros((dim, dim)), np.zeros(dim), np.zeros((dim, dim)), 0.0, 0.0)
    if not (_fits(vague, (dim, dim)) and _are_fields(given, dim) and _are_columns(rows, dim)):
        check_array("vague", vague, np.float64, (dim, dim))
        for name, shape in zip(BeliefArrays._fields[:4], ((dim,), (dim, dim)) * 2, strict=True):
            check_array(f"{name} of prior", getattr(given, name), np.float64, shape)
        n = len(np.atleast_1d(rows.counts))
        for name, shape in zip(BeliefRows._fields, ((n, dim), *((n,),) * 4), strict=True):
            check_array(name, getattr(rows, name), np.float64, shape)
        vague, given = np.ascontiguousarray(vague), BeliefArrays(*map(np.ascontiguousarray, given[:4]), *given[4:])
        rows = BeliefRows(*map(np.ascontiguousarray, rows))
    *found, fine = _fit(*rows, vague, *given, prior is not None, *limits)
    return BeliefArrays(*found) if fine else None


def _fits(array: Any, shape: tuple[int, ...]) -> bool:
    """Whether this is what kernels take: real numbers of a shape, row after row in memory."""
    return (
        type(array) is np.ndarray and array.shape == shape and array.dtype == _REAL and bool(array.flags.c_contiguous)
    )


def _are_fields(prior: BeliefArrays, dim: int) -> bool:
    vectors = _fits(prior.mean_coef, (dim,)) and _fits(prior.var_coef, (dim,))
    return vectors and _fits(prior.mean_precision, (dim, dim)) and _fits(prior.var_precision, (dim, dim))


def _are_columns(rows: BeliefRows, dim: int) -> bool:
    n = len(rows.counts) if isinstance(rows.counts, np.ndarray) and rows.counts.ndim else 0
    return _fits(rows.features, (n, dim)) and all(_fits(column, (n,)) for column in rows[1:])


@register_jitable(error_model="numpy")
def _values(columns: Matrix, coef: Vector, found: Vector) -> None:
    """Write the product of features, given as columns ``(dim, n)``, with coefficients."""
    for i in range(len(found)):
        found[i] = 0.0
    for a in range(len(coef)):
        factor = coef[a]
        for i in range(len(found)):
            found[i] += columns[a, i] * factor


@register_jitable(error_model="numpy")
def _product(first: Vector, second: Vector) -> float:
    """Return the inner product, from four sums side by side, which a processor adds up at once."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = len(first) // 4 * 4
    for i in range(0, whole, 4):
        one += first[i] * second[i]
        two += first[i + 1] * second[i + 1]
        three += first[i + 2] * second[i + 2]
        four += first[i + 3] * second[i + 3]
    for i in range(whole, len(first)):
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
    rounding: float,
    precision: Matrix,
    root: Matrix,
    coef: Vector,
) -> bool:
    """Write precision, its factor and centre of a belief updated by weighted targets; False if there is no factor."""
    dim, n = columns.shape
    flat = np.zeros(pairs.shape[1])
    for i in range(n):
        weight = weights[i]
        for p in range(len(flat)):
            flat[p] += weight * pairs[i, p]
    p = 0
    for a in range(dim):
        for b in range(a, dim):
            precision[a, b] = known[a, b] + flat[p]
            p += 1
        precision[a, a] *= 1 + rounding
        for b in range(a):
            precision[a, b] = precision[b, a]
    if not upper_root(precision, root):
        return False
    step, moved, right, fitted = np.zeros(dim), np.empty(dim), np.empty(dim), np.empty(n)
    for _ in range(2):
        for a in range(dim):
            moved[a] = center[a] + step[a]
        _values(columns, moved, fitted)
        for i in range(n):
            fitted[i] = totals[i] - weights[i] * fitted[i]  # what the step misses
        for a in range(dim):
            right[a] = _product(columns[a], fitted) - _product(known[a], step)
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
    surprise: float,
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
        surprising = beyond > explained * (1 + surprise * np.sqrt(2 / inside + 2 / outside))
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
def _fit(
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
    trace: float,
    least_freedom: float,
    surprise: float,
    least: float,
    noiseless: float,
    rounding: float,
    iterations: int,
) -> tuple[Vector, Matrix, Vector, Matrix, float, float, bool]:
    n, dim = features.shape
    columns = np.empty((dim, n))
    for i in range(n):
        for a in range(dim):
            columns[a, i] = features[i, a]
    pairs = np.empty((n, dim * (dim + 1) // 2))  # products of every two features of a row
    for i in range(n):
        p = 0
        for a in range(dim):
            for b in range(a, dim):
                pairs[i, p] = features[i, a] * features[i, b]
                p += 1
    mean_precision, var_precision = np.zeros((dim, dim)), np.zeros((dim, dim))
    root, work, mean_known, var_known = (
        np.zeros((dim, dim)),
        np.zeros((dim, dim)),
        np.empty((dim, dim)),
        np.empty((dim, dim)),
    )
    mean_coef, var_coef = np.zeros(dim), np.zeros(dim)
    weights, totals, variance, levers = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    squares, freedom, values, expected = np.empty(n), np.empty(n), np.empty(n), np.empty(n)

    # The typical variance
    for a in range(dim):
        for b in range(dim):
            mean_known[a, b] = trace * vague[a, b] + prior_mean_precision[a, b] * prior_variance
    rounds = prior_rounds
    for i in range(n):
        totals[i] = counts[i] * means[i]
        variance[i] = 1.0
        rounds += counts[i]
    fine = _solve(
        pairs, columns, counts, totals, mean_known, prior_mean, rounding, mean_precision, root, mean_coef
    )
    if not fine:
        return mean_coef, mean_precision, var_coef, var_precision, 0.0, rounds, False
    _levers(columns, root, work, levers)
    _squared_errors(
        columns, counts, means, spreads, free, mean_coef, levers, variance, surprise, squares, freedom
    )
    total, free_total = 0.0, 0.0
    for i in range(n):
        total += squares[i]
        free_total += freedom[i]
    total += prior_variance * prior_rounds
    free_total += prior_rounds
    typical = total / free_total if free_total > least_freedom else 0.0
    size = _average_square(counts, free, means, 0.0)
    if not typical > noiseless * size:
        typical = 0.0
    for choice in (prior_variance, base_variance, size, unit, 1.0):
        if not typical > least:
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
    for _ in range(iterations):
        for i in range(n):
            weights[i] = counts[i] / variance[i]
            totals[i] = weights[i] * means[i]
        fine = fine and _solve(
            pairs, columns, weights, totals, mean_known, prior_mean, rounding, mean_precision, root, mean_coef
        )
        _levers(columns, root, work, levers)
        for i in range(n):
            levers[i] /= variance[i]
        _squared_errors(
            columns, counts, means, spreads, free, mean_coef, levers, variance, surprise, squares, freedom
        )
        for i in range(n):
            scale = 2 * (variance[i] * variance[i])
            weights[i] = freedom[i] / scale
            totals[i] = (squares[i] - freedom[i] * base_variance) / scale
        fine = fine and _solve(
            pairs, columns, weights, totals, var_known, prior_var, rounding, var_precision, root, var_coef
        )
        if not fine:
            break
        _values(columns, var_coef, values)
        for i in range(n):
            variance[i] = max(values[i] + base_variance, variance_floor * typical)
    return mean_coef, mean_precision, var_coef, var_precision, typical, rounds, fine


def belief_inverse(matrix: Matrix) -> Matrix | None:
    """Return the inverse of a symmetric matrix, positive definite however ill-conditioned; None if it has no factor."""
    check_array("matrix", matrix, np.float64, (None, None))
    check_array("matrix", matrix, np.float64, (len(matrix), len(matrix)))
    inverse, fine = _inverse(np.ascontiguousarray(matrix))
    return inverse if fine else None


@njit(cache=True, error_model="numpy")
def _inverse(matrix: Matrix) -> tuple[Matrix, bool]:
    root, work, inverse = np.zeros(matrix.shape), np.zeros(matrix.shape), np.zeros(matrix.shape)
    fine = upper_root(matrix, root)
    if fine:
        inverse_from_root(root, work, inverse)
    return inverse, fine


def belief_draws(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix | None:
    """Turn standard normal numbers ``(n, dim)`` into draws; None if the covariance has no factor."""
    check_array("center", center, np.float64, (None,))
    check_array("covariance", covariance, np.float64, (len(center), len(center)))
    check_array("normals", normals, np.float64, (None, len(center)))
    drawn, fine = _draws(center, np.ascontiguousarray(covariance), np.ascontiguousarray(normals))
    return drawn if fine else None


@njit(cache=True, error_model="numpy")
def _draws(center: Vector, covariance: Matrix, normals: Matrix) -> tuple[Matrix, bool]:
    n, dim = normals.shape
    root = np.zeros((dim, dim))
    drawn, part, columns = np.empty((n, dim)), np.empty(n), np.empty((dim, n))
    if not upper_root(covariance, root):
        return drawn, False
    for i in range(n):
        for a in range(dim):
            columns[a, i] = normals[i, a]
    for a in range(dim):
        for i in range(n):
            part[i] = 0.0
        for b in range(a + 1):
            factor = root[b, a]
            for i in range(n):
                part[i] += columns[b, i] * factor
        for i in range(n):
            drawn[i, a] = center[a] + part[i]
    return drawn, True
