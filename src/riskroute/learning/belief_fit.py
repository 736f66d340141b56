"""Fit of a `riskroute.learning.belief.Belief` to rewards, by weighted least squares.

The fit alternates a few times between mean and variance, since each weights rewards by the variances being estimated. A
reward of variance ``v`` carries the information ``1 / v`` about its mean; its squared error carries ``1 / (2 v^2)``
about its variance (exact for Gaussian rewards).

The variance is estimated from two kinds of squared errors: of rewards around the sample mean of their action, and of
these sample means around the fitted mean. An error of the second kind has one degree of freedom minus its leverage,
because the mean is fitted to the same rewards. Errors of the second kind are ignored if they clearly exceed the noise
estimated from the first kind. In that case they are not noise: the prior is wrong, or the means are not linear in the
features.

The vague prior has the mean of the informative prior (zero if there is none) and the information of a fraction of one
reward, spread over an optimal design. The variance of this reward is the noise plus the squared signal, the average
squared distance of the actions' means from the prior mean. Without the signal, the vague prior would bias the fit if
means lie many noise deviations apart.
Noise and signal scale with the rewards, so the fit does not depend on the units of rewards and features.

`_fit_numpy` defines the fit by array operations. Up to 64 dimensions `fit_belief` runs the same steps in kernels, which
add in a fixed order on every processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.kernels import LONGEST, padded_kernel_length, upper_triangular_inverse, upper_triangular_root
from riskroute.learning.observations import Observations

ITERATIONS = 3  # iterations of the two fits: mean, then variance
SURPRISE = 3.0  # standard deviations by which errors of fitted means may exceed the noise within actions
TRACE = 1e-9  # fraction of the vague prior that regularises the fit of the typical variance
ROUNDING = 1e-12  # relative ridge: keeps the matrix regular if rewards are concentrated in few directions


def fit_belief(
    observations: Observations,
    *,
    base_variance: float,
    vague: Matrix,
    prior: Belief | None = None,
    variance_floor: float = 0.3,
    unit: float = 1.0,
) -> Belief:
    """Fit the posterior to rewards, given the ``vague`` information and, if any, an informative ``prior``.

    ``base_variance`` is the known constant in the variance. Rewards are weighted by the inverses of their variances,
    which are floored at ``variance_floor`` times the typical variance. ``unit`` is the typical variance if rewards,
    prior and base variance are all zero.
    """
    dim = observations.features.shape[1]
    before = _no_prior(dim) if prior is None else prior
    given = observations, float(base_variance), vague, before, prior is not None, variance_floor, unit
    found = _fit_compiled(*given) if dim <= LONGEST else None
    return _fit_numpy(*given) if found is None else found


def fit_vague_information(features: Matrix, weights: Vector, rewards: float) -> Matrix:
    """Return the information of ``rewards`` unit-variance rewards, allocated to the rows of ``features`` by weight."""
    information: Matrix = rewards * (features * weights[:, None]).T @ features
    size = float(np.trace(information)) / len(information)
    # the ridge keeps the matrix regular in directions orthogonal to all features
    return information + 1e-9 * (size if size > 0 else 1.0) * np.eye(len(information))


@cache
def _no_prior(dim: int) -> Belief:
    return Belief(np.zeros(dim), np.zeros((dim, dim)), np.zeros(dim), np.zeros((dim, dim)), 0.0, 0.0)


def _fit_numpy(
    observations: Observations,
    base_variance: float,
    vague: Matrix,
    prior: Belief,
    has_prior: bool,
    variance_floor: float,
    unit: float,
) -> Belief:
    features, counts, means = observations.features, observations.counts, observations.means

    # typical variance, pooled over all rewards
    known = TRACE * vague + prior.mean_precision * prior.variance
    precision, coef = _solve(features, counts, counts * means, known, prior.mean_coef)
    squares, freedom = _squared_errors(observations, coef, _levers(features, precision), np.ones(len(counts)))
    pooled = prior.variance * prior.rounds + float(squares.sum()), prior.rounds + float(freedom.sum())
    typical = _typical_variance(*pooled, prior.variance, base_variance, _average_square(observations, means), unit)

    # vague prior: a fraction of one reward with the typical variance plus the squared signal
    expected = features @ prior.var_coef + base_variance
    signal = _average_square(observations, means - features @ prior.mean_coef, typical)
    mean_known = prior.mean_precision + vague / (typical + signal)
    var_known = prior.var_precision + vague / (2 * typical**2 + _average_square(observations, typical - expected))

    # alternate the two weighted fits
    variance = np.maximum(expected, variance_floor * typical) if has_prior else np.full(len(counts), typical)
    for _ in range(ITERATIONS):
        weights = counts / variance
        mean_precision, mean_coef = _solve(features, weights, weights * means, mean_known, prior.mean_coef)
        levers = _levers(features, mean_precision) / variance
        squares, freedom = _squared_errors(observations, mean_coef, levers, variance)
        weights = freedom / (2 * variance**2)
        totals = (squares - freedom * base_variance) / (2 * variance**2)
        var_precision, var_coef = _solve(features, weights, totals, var_known, prior.var_coef)
        variance = np.maximum(features @ var_coef + base_variance, variance_floor * typical)
    rounds = prior.rounds + observations.rounds
    return Belief(mean_coef, mean_precision, var_coef, var_precision, typical, rounds)


def _typical_variance(
    squares: float, freedom: float, prior: float, base_variance: float, size: float, unit: float
) -> float:
    """Return squared errors per degree of freedom or, if unreliable, the first positive one of the other arguments."""
    # fewer degrees of freedom are too few for an estimate
    found = squares / freedom if freedom > 0.5 else 0.0
    # squared errors below this fraction of squared rewards are rounding errors
    found = found if found > 1e-20 * size else 0.0
    # squares of smaller variances are too small to divide by
    return next(choice for choice in (found, prior, base_variance, size, unit, 1.0) if choice > 1e-75)


def _solve(features: Matrix, weights: Vector, totals: Vector, known: Matrix, center: Vector) -> tuple[Matrix, Vector]:
    """Return precision and mean of the posterior, given a prior and ``totals``, the targets times their weights."""
    precision = known + (features * weights[:, None]).T @ features
    precision.flat[:: len(precision) + 1] *= 1 + ROUNDING  # the diagonal
    step = np.zeros(len(center))
    for _ in range(2):  # refine once: the ridge biases the first step, noticeably if the signal is strong
        missed = totals - weights * (features @ (center + step))
        step = step + np.linalg.solve(precision, features.T @ missed - known @ step)
    return precision, center + step


def _levers(features: Matrix, precision: Matrix) -> Vector:
    """Return the variance of each row's fitted value."""
    return np.asarray(np.einsum("ij,ij->i", features, np.linalg.solve(precision, features.T).T))


def _squared_errors(
    observations: Observations, coef: Vector, levers: Vector, variance: Vector
) -> tuple[Vector, Vector]:
    """Return the sum of squared errors of each row and its degrees of freedom, given the leverage of one reward."""
    missed = observations.counts * (observations.means - observations.features @ coef) ** 2
    left = np.maximum(observations.counts * (1 - levers) - observations.free, 0.0)
    inside, outside = float(observations.free.sum()), float(left.sum())
    if inside >= outside > 0:  # ignore errors of the fit that clearly exceed the noise within rows
        explained = np.sum(observations.spreads / variance) / inside * outside
        if np.sum(missed / variance) > explained * (1 + SURPRISE * math.sqrt(2 / inside + 2 / outside)):
            return observations.spreads, observations.free
    return observations.spreads + missed, observations.free + left


def _average_square(
    observations: Observations, values: Vector, noise: float = 0.0, add: Callable[[Vector], float] = np.sum
) -> float:
    """Return the average square of ``values``, one per row, minus the part due to noise; zero if negative."""
    if len(observations) == 0:
        return 0.0
    counts, weights = observations.counts, np.minimum(observations.counts, 1.0)
    squares = values * values - noise * (1 - observations.free / counts)
    return max(float(add(weights * squares) / add(weights)), 0.0)


def _total(values: Vector, start: float = 0.0) -> float:
    """Add in a fixed order: NumPy's sum depends on the processor."""
    return float(np.cumsum(np.append(start, values))[-1])


def _fit_compiled(
    observations: Observations,
    base_variance: float,
    vague: Matrix,
    prior: Belief,
    has_prior: bool,
    variance_floor: float,
    unit: float,
) -> Belief | None:
    """Compute `_fit_numpy` with kernels; None if a matrix cannot be factored."""
    features, counts, means, spreads, free = observations.columns
    n, dim = features.shape
    width = padded_kernel_length(n)
    columns = np.zeros((dim, width))
    columns[:, :n] = features.T
    rows, others = _upper_triangle(dim)
    pairs = np.zeros((n + 1, padded_kernel_length(len(rows))))  # products of every two features of a row
    pairs[:n, : len(rows)] = features[:, rows] * features[:, others]
    squares, freedom, fitted, root, work = np.empty(width), np.empty(n), np.empty(width), *np.zeros((2, dim, dim))
    mean_precision, var_precision, mean_coef, var_coef = *np.empty((2, dim, dim)), *np.empty((2, dim))

    def errors(variance: Vector, levers: Vector) -> None:
        _squared_errors_kernel(columns, counts, means, spreads, free, mean_coef, levers, variance, squares, freedom)

    center, totals = prior.mean_coef, counts * means
    known = TRACE * vague + prior.mean_precision * prior.variance
    if not _solve_kernel(pairs, columns, counts, totals, known, center, mean_precision, root, mean_coef, fitted):
        return None
    _levers_kernel(columns, root, work, fitted)
    errors(np.ones(n), fitted[:n])
    pooled = _total(squares[:n]) + prior.variance * prior.rounds, _total(freedom) + prior.rounds
    size = _average_square(observations, means, add=_total)
    typical = _typical_variance(*pooled, prior.variance, base_variance, size, unit)

    values, expected = np.zeros((2, width))
    _add_products(columns, center, values)
    _add_products(columns, prior.var_coef, expected)
    expected = expected[:n] + base_variance
    signal = _average_square(observations, means - values[:n], typical, _total)
    mean_known = prior.mean_precision + vague / (typical + signal)
    var_signal = _average_square(observations, typical - expected, add=_total)
    var_known = prior.var_precision + vague / (2 * (typical * typical) + var_signal)

    variance = np.maximum(expected, variance_floor * typical) if has_prior else np.full(n, typical)
    for _ in range(ITERATIONS):
        weights = counts / variance
        totals = weights * means
        if not _solve_kernel(
            pairs, columns, weights, totals, mean_known, center, mean_precision, root, mean_coef, fitted
        ):
            return None
        _levers_kernel(columns, root, work, fitted)
        errors(variance, fitted[:n] / variance)
        scale = 2 * (variance * variance)
        weights, totals = freedom / scale, (squares[:n] - freedom * base_variance) / scale
        if not _solve_kernel(
            pairs, columns, weights, totals, var_known, prior.var_coef, var_precision, root, var_coef, fitted
        ):
            return None
        values = np.zeros(width)
        _add_products(columns, var_coef, values)
        variance = np.maximum(values[:n] + base_variance, variance_floor * typical)
    rounds = _total(counts, prior.rounds)
    return Belief(mean_coef, mean_precision, var_coef, var_precision, typical, rounds)


@cache
def _upper_triangle(dim: int) -> tuple[Integers, Integers]:
    return np.triu_indices(dim)


@njit(cache=True, error_model="numpy")
def _add_products(columns: Matrix, coef: Vector, found: Vector) -> None:
    """Add ``columns' coef`` to ``found``, for ``columns`` of shape ``(dim, n)``."""
    for a in range(len(coef)):
        factor = coef[a]
        for i in range(columns.shape[1]):
            found[i] += columns[a, i] * factor


@njit(cache=True, error_model="numpy")
def _solve_by_root(root: Matrix, vector: Vector) -> None:
    """Replace ``vector`` by the solution ``x`` of ``U' U x = vector``."""
    size = len(root)
    for k in range(size):
        vector[k] /= root[k, k]
        for b in range(k + 1, size):
            vector[b] -= root[k, b] * vector[k]
    for k in range(size - 1, -1, -1):
        total = vector[k]
        for b in range(k + 1, size):
            total -= root[k, b] * vector[b]
        vector[k] = total / root[k, k]


@njit(cache=True, error_model="numpy")
def _product(first: Vector, second: Vector, length: int) -> float:
    """Return the inner product of the first ``length`` entries, as four partial sums that vectorise."""
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


@njit(cache=True, error_model="numpy")
def _solve_kernel(
    pairs: Matrix,
    columns: Matrix,
    weights: Vector,
    totals: Vector,
    known: Matrix,
    center: Vector,
    precision: Matrix,
    root: Matrix,
    coef: Vector,
    fitted: Vector,
) -> bool:
    """Write posterior precision, its Cholesky factor and the mean, like `_solve`; return False if it has no factor."""
    dim, n = len(center), len(weights)
    flat = np.zeros(pairs.shape[1])
    for i in range(0, n, 2):  # two rows at a time; `pairs` ends with a row of zeros
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
    if not upper_triangular_root(precision, root):
        return False
    step, right = np.zeros(dim), np.zeros(dim)
    for a in range(dim):
        coef[a] = center[a]
    for _ in range(2):
        for i in range(len(fitted)):
            fitted[i] = 0.0
        _add_products(columns, coef, fitted)
        for i in range(n):
            fitted[i] = totals[i] - weights[i] * fitted[i]  # weighted residuals
        for a in range(dim):
            right[a] = _product(columns[a], fitted, n) - _product(known[a], step, dim)
        _solve_by_root(root, right)
        for a in range(dim):
            step[a] += right[a]
            coef[a] = center[a] + step[a]
    return True


@njit(cache=True, error_model="numpy")
def _levers_kernel(columns: Matrix, root: Matrix, work: Matrix, levers: Vector) -> None:
    dim, n = columns.shape
    upper_triangular_inverse(root, work)
    for i in range(n):
        levers[i] = 0.0
    for a in range(dim):
        for i in range(n):
            part = 0.0
            for b in range(a + 1):
                part += columns[b, i] * work[b, a]
            levers[i] += part * part


@njit(cache=True, error_model="numpy")
def _squared_errors_kernel(
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
    n = len(counts)
    for i in range(len(squares)):
        squares[i] = 0.0
    _add_products(columns, coef, squares)
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


PRIOR_SURPRISE = 3.0  # standard deviations by which the squared distance from the prior may exceed its expectation
_TAILS = 2.0  # assumed variance of squared residuals, relative to their variance under Gaussian rewards


def temper_prior(
    prior: Belief, observations: Observations, *, base_variance: float, vague: Matrix, surprise: float = PRIOR_SURPRISE
) -> Belief:
    """Down-weight the prior until it is consistent with the rewards; return a consistent prior unchanged.

    Under a correct prior, the squared Mahalanobis distance between the prior mean and the coefficients fitted to the
    rewards alone is chi-squared with ``dim`` degrees of freedom. The distance may exceed ``dim`` by ``surprise``
    standard deviations. Coefficients of mean and variance are tested separately; the smaller factor is used for both.
    """
    given = prior, observations, float(base_variance), vague, surprise
    factor = _temper_factor(*given) if prior.dim <= LONGEST else math.nan
    if math.isnan(factor):
        factor = _temper_factor_numpy(*given)
    return prior if factor >= 1 else prior.weakened(factor)


def _temper_factor_numpy(
    prior: Belief, observations: Observations, base_variance: float, vague: Matrix, surprise: float
) -> float:
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
    """Return the largest factor, at most 1, at which the down-weighted prior is consistent with the rewards."""
    # `length(f)` is `s' (I + f P)^-1 s`: `s` is the rewards' score at the prior mean, `I` their information, `P` the
    # prior precision. The squared distance from the prior is `length(0) - length(f)`, which increases with `f`.
    allowed = dim + surprise * math.sqrt(2 * dim)
    alone = length(0.0)
    if math.isnan(alone) or alone - length(1.0) <= allowed:
        return alone if math.isnan(alone) else 1.0
    # a prior with the smallest factor is negligible, even if its means are wrong by many noise deviations
    low, high = math.log(1e-18), 0.0
    while high - low > 0.05:
        middle = (low + high) / 2
        low, high = (middle, high) if alone - length(math.exp(middle)) <= allowed else (low, middle)
    return math.exp(low)


def _temper_factor(
    prior: Belief, observations: Observations, base_variance: float, vague: Matrix, surprise: float
) -> float:
    """Compute the factor of `temper_prior` with kernels; NaN if a matrix cannot be factored."""
    features, counts, means, spreads, free = observations.columns
    n, dim = features.shape
    columns, expected, mean = np.ascontiguousarray(features.T), np.full(n, base_variance), np.zeros(n)
    _add_products(columns, prior.var_coef, expected)
    _add_products(columns, prior.mean_coef, mean)
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
    """Add the weighted outer products of the features to the upper triangle of ``information``.

    Add the features times the weighted errors ``missed`` to ``pull``.
    """
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
    """Return ``pull' (information + factor precision)^-1 pull``; NaN if there is no Cholesky factor."""
    dim = len(pull)
    for a in range(dim):
        work[a] = pull[a]
        for b in range(a, dim):
            root[a, b] = information[a, b] + factor * precision[a, b]
    if not upper_triangular_root(root, root):
        return np.nan
    total = 0.0
    for a in range(dim):
        value = work[a] / root[a, a]
        total += value * value
        for b in range(a + 1, dim):
            work[b] -= root[a, b] * value
    return total
