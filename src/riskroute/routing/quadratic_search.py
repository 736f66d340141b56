"""Splits of whole units that minimise a quadratic form plus tabulated costs of each slot, with a proven lower bound.

Minimise ``a' S a + linear' a + sum_k tables[k, a_k]`` over whole numbers ``0 <= a_k <= cap_k`` with ``sum a = units``.
``S`` couples the slots, so dynamic programming does not apply. The search has three steps:

1. Solve the continuous relaxation: move units between the pair of slots whose marginal costs differ most, with the
   exact step length. Tables are replaced by their convex envelopes and interpolated. An indefinite ``S`` is made
   semi-definite by adding ``s`` to its diagonal; the added cost ``s a_k^2`` is at most its chord on ``[0, cap_k]``,
   which is subtracted. The relaxed minimum less its duality gap is a lower bound on the cost of every split.
2. Round the relaxed solution by largest remainders, and improve it by moving single units between pairs of slots.
3. If the cost is more than 0.1 % above the bound, or the problem is not convex, improve seven other splits too.

References
----------
S. Lacoste-Julien, M. Jaggi, "On the global linear convergence of Frank-Wolfe optimization variants" (2015),
https://arxiv.org/abs/1511.05932
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from riskroute.core.arrays import Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, finite_array, whole_number
from riskroute.routing.separable import check_separable_size

_ROUNDING = 1e-12  # smaller relative differences count as rounding errors


@dataclass(frozen=True)
class QuadraticResult:
    """Split ``units``, its cost ``value``, and a lower ``bound`` on the cost of every split."""

    value: float
    units: tuple[int, ...]
    bound: float

    @property
    def gap(self) -> float:
        """Relative distance of the cost from the bound: 0 proves that the split is optimal."""
        size = max(abs(self.value), abs(self.bound))
        return (self.value - self.bound) / size if size > 0 else 0.0


def minimise_quadratic(
    matrix: Matrix, linear: Vector, units: int, *, caps: Units | None = None, tables: Matrix | None = None
) -> QuadraticResult:
    """Minimise ``a' matrix a + linear' a + sum_k tables[k, a_k]`` over splits ``a`` of ``units``.

    Parameters
    ----------
    matrix : Matrix
        Symmetric, ``(m, m)``: covariances per unit, for a mean-variance objective.
    linear : Vector
        Cost per unit, ``(m,)``: minus risk tolerance times mean, for a mean-variance objective.
    units : int
        Units to split.
    caps : Units, optional
        Largest amount of each slot, ``(m,)``.
    tables : Matrix, optional
        Additional cost of ``0 .. units`` units in each slot, ``(m, units + 1)``; need not be convex.

    Returns
    -------
    QuadraticResult
        The best split found, which no move of a single unit improves, with a certified bound.

    Examples
    --------
    The first two slots are perfectly correlated, the third is independent: splitting over the first two diversifies
    nothing.

    >>> covariance = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> result = minimise_quadratic(covariance, np.array([0.0, 0.1, 0.0]), 10)
    >>> result.units, result.value, result.gap < 1e-6
    ((5, 0, 5), 50.0, True)
    """
    linear = finite_array("linear", linear, ndim=1)
    m = len(linear)
    matrix = finite_array("matrix", matrix, ndim=2, length=m)
    if matrix.shape != (m, m) or np.abs(matrix - matrix.T).max() > _ROUNDING * np.abs(matrix).max():
        was = "was not symmetric" if matrix.shape == (m, m) else f"got shape {matrix.shape}"
        raise InputError(f"matrix must be symmetric of shape ({m}, {m}), {was}")
    units = whole_number("units", units, minimum=0)
    check_separable_size(m, units)
    most = np.full(m, units) if caps is None else np.minimum(exact_array("caps", caps, np.int64, (m,)), units)
    if most.min() < 0 or most.sum() < units:
        raise InputError(f"caps must be at least 0 and add up to at least {units}, was {most.tolist()[:6]}")
    costs = np.zeros((m, units + 1))
    if tables is not None:
        costs = finite_array("tables", tables, ndim=2, length=m)
        if costs.shape[1] != units + 1:
            raise InputError(f"tables must have {units + 1} columns, had {costs.shape[1]}")
    costs = costs + linear[:, None] * np.arange(units + 1)
    lower, bound = _bounded(matrix, costs, most, units)
    found = [_exchanged(matrix, costs, most, _rounded(lower, most, units))]
    convex = np.linalg.eigvalsh(matrix)[0] >= -_ROUNDING * np.abs(matrix).max() and _convex(costs, most)
    best = QuadraticResult(*found[0], bound)
    if not convex or best.gap > 1e-3:
        found += [_exchanged(matrix, costs, most, start) for start in _starts(most, units)]
        value, chosen = min(found)
        best = QuadraticResult(value, chosen, bound)
    return best


def _bounded(matrix: Matrix, costs: Matrix, most: Units, units: int) -> tuple[Vector, float]:
    shift = max(-float(np.linalg.eigvalsh(matrix)[0]), 0.0)
    hull = costs.copy()
    if shift > 0:  # s a^2 is at most its chord s cap a on [0, cap], so subtracting the chord keeps the bound valid
        matrix = matrix + shift * np.eye(len(matrix))
        hull = hull - shift * most[:, None] * np.arange(units + 1)
    for k, cap in enumerate(most.tolist()):
        _envelope(hull[k, : cap + 1])
    split = most * (units / max(int(most.sum()), 1))
    split, gap = _relax(matrix, hull, most, np.asarray(split, dtype=np.float64), units)
    floor = np.minimum(split.astype(np.int64), np.maximum(most - 1, 0))
    part = split - floor
    above = np.minimum(floor + 1, most)
    rows = np.arange(len(most))
    cost = split @ matrix @ split + np.sum(hull[rows, floor] * (1 - part) + hull[rows, above] * part)
    return split, float(cost - gap - _ROUNDING * abs(cost))


def _convex(costs: Matrix, most: Units) -> bool:
    size = np.abs(costs).max()
    return all((np.diff(row[: cap + 1], 2) >= -_ROUNDING * size).all() for row, cap in zip(costs, most, strict=True))


def _rounded(split: Vector, most: Units, units: int) -> Units:
    chosen = np.minimum(np.floor(split + 1e-9).astype(np.int64), most)
    remainder = np.where(chosen < most, split - chosen, -np.inf)
    for k in np.argsort(-remainder, kind="stable")[: units - int(chosen.sum())]:
        chosen[k] += 1
    return _filled(chosen, most, units)


def _filled(chosen: Units, most: Units, units: int) -> Units:
    for k in range(len(chosen)):
        chosen[k] += min(int(most[k] - chosen[k]), units - int(chosen.sum()))
    return chosen


def _starts(most: Units, units: int) -> list[Units]:
    """Return seven starting splits: up to three that fill a slot with a large cap first, then random ones."""
    rng, starts = np.random.default_rng(0), []
    for number in range(7):
        weights = rng.exponential(size=len(most)) * (most > 0)
        if number < min(len(most), 3):
            weights = np.zeros(len(most))
            weights[np.argsort(-most, kind="stable")[number]] = 1.0
        even = np.minimum(np.floor(weights / max(float(weights.sum()), 1e-300) * units).astype(np.int64), most)
        starts.append(_filled(even, most, units))
    return starts


def _exchanged(matrix: Matrix, costs: Matrix, most: Units, start: Units) -> tuple[float, tuple[int, ...]]:
    """Return cost and units of the local optimum that single-unit moves reach from ``start``."""
    chosen = start.copy()
    _exchange(matrix, costs, most, chosen)
    value = float(chosen @ matrix @ chosen + costs[np.arange(len(chosen)), chosen].sum())
    return value, tuple(int(v) for v in chosen)


@njit(cache=True)
def _envelope(row: Vector) -> None:
    """Replace a table by its convex envelope, in place."""
    corners = np.zeros(len(row), dtype=np.int64)
    count = 0
    for v in range(len(row)):
        while count >= 2:
            a, b = corners[count - 2], corners[count - 1]
            if (row[b] - row[a]) * (v - b) < (row[v] - row[b]) * (b - a):
                break
            count -= 1
        corners[count] = v
        count += 1
    for i in range(count - 1):
        a, b = corners[i], corners[i + 1]
        slope = (row[b] - row[a]) / (b - a)
        for v in range(a + 1, b):
            row[v] = row[a] + slope * (v - a)


@njit(cache=True)
def _relax(matrix: Matrix, hull: Matrix, most: Units, split: Vector, units: int) -> tuple[Vector, float]:
    """Minimise the relaxation by moves between pairs of slots; return the solution and its duality gap."""
    m = len(split)
    slope = 2 * (matrix @ split)
    left, right, scale = 0.0, 0.0, 0.0
    for step in range(200_000):  # far more steps than needed; the gap is valid after any number of steps
        giver, taker = -1, -1
        scale = 0.0
        for k in range(m):
            if split[k] > 0:
                cell = int(np.ceil(split[k])) - 1
                marginal = slope[k] + hull[k, cell + 1] - hull[k, cell]
                scale = max(scale, abs(marginal))
                if giver < 0 or marginal > left:
                    giver, left = k, marginal
            if split[k] < most[k]:
                cell = int(np.floor(split[k]))
                marginal = slope[k] + hull[k, cell + 1] - hull[k, cell]
                scale = max(scale, abs(marginal))
                if taker < 0 or marginal < right:
                    taker, right = k, marginal
        if giver < 0 or taker < 0 or left - right <= 1e-8 * scale or giver == taker:
            break
        length = min(split[giver] - (np.ceil(split[giver]) - 1), np.floor(split[taker]) + 1 - split[taker])
        bend = 2 * (matrix[giver, giver] + matrix[taker, taker] - 2 * matrix[giver, taker])
        if bend > 0:
            length = min(length, (left - right) / bend)
        split[giver] = _snapped(split[giver] - length)
        split[taker] = _snapped(split[taker] + length)
        if step % 64 == 63:  # recompute, since rounding errors of the steps accumulate
            slope = 2 * (matrix @ split)
        else:
            for k in range(m):
                slope[k] += 2 * length * (matrix[k, taker] - matrix[k, giver])
    return split, _duality_gap(2 * (matrix @ split), hull, most, split, units)


@njit(cache=True)
def _snapped(value: float) -> float:
    """Round a number that is whole up to rounding errors, since the cells of a table end at whole numbers."""
    whole = np.round(value)
    return whole if abs(value - whole) < 1e-12 * max(1.0, abs(value)) else value


@njit(cache=True)
def _duality_gap(slope: Vector, hull: Matrix, most: Units, split: Vector, units: int) -> float:
    """Return the Frank-Wolfe gap: the saving of the cheapest split if the quadratic form is linearised at ``split``."""
    m = len(split)
    taken = np.zeros(m, dtype=np.int64)
    gap = 0.0
    for k in range(m):
        cell = min(int(split[k]), max(most[k] - 1, 0))
        part = split[k] - cell
        above = min(cell + 1, most[k])
        gap += slope[k] * split[k] + hull[k, cell] * (1 - part) + hull[k, above] * part - hull[k, 0]
    for _ in range(units):
        best, where = np.inf, -1
        for k in range(m):
            if taken[k] < most[k]:
                marginal = slope[k] + hull[k, taken[k] + 1] - hull[k, taken[k]]
                if marginal < best:
                    best, where = marginal, k
        taken[where] += 1
        gap -= best
    return max(gap, 0.0)


@njit(cache=True)
def _exchange(matrix: Matrix, costs: Matrix, most: Units, split: Units) -> None:
    """Move single units between pairs, the best move first, until none lowers the cost."""
    m = len(split)
    slope = np.zeros(m)
    size = 0.0
    for k in range(m):
        for j in range(m):
            slope[k] += 2 * matrix[k, j] * split[j]
        size = max(size, abs(slope[k]), abs(costs[k, split[k]]))
    while True:
        best, giver, taker = -_ROUNDING * size, -1, -1
        for i in range(m):
            if split[i] == 0:
                continue
            for j in range(m):
                if j == i or split[j] == most[j]:
                    continue
                change = slope[j] - slope[i] + matrix[i, i] + matrix[j, j] - 2 * matrix[i, j]
                change += costs[j, split[j] + 1] - costs[j, split[j]] + costs[i, split[i] - 1] - costs[i, split[i]]
                if change < best:
                    best, giver, taker = change, i, j
        if giver < 0:
            return
        split[giver] -= 1
        split[taker] += 1
        for k in range(m):
            slope[k] += 2 * (matrix[k, taker] - matrix[k, giver])
