"""Exact minimum of costs per slot plus a cost of the totals of one or two groups of slots.

Choose whole units ``v_k >= 0`` for every slot so that ``sum_k tables[k, v_k] + joint[n_0, n_1]`` is smallest, where
``n_g`` are the units of the slots of group ``g`` and ``n_0 + n_1 <= U``. Tables may have any shape: nothing here needs
convexity. The best of each group for every total is an infimal convolution of its tables, done slot by slot; then all
pairs of totals are tried, and the choices are traced back. That takes of the order of ``m U^2`` additions.

What depends on totals alone belongs in ``joint``: a risk that all slots of a group share, and the cost of the
``U - n`` units that no slot takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from riskroute.core.arrays import Floats, Integers, Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, exact_array, finite_array, whole_number
from riskroute.routing.separable import check_separable_size, convolve_compiled

Choices = NDArray[np.int32]
"""``choices[k, n]``: the units of slot ``k`` where it and all slots after it have ``n`` together, ``(m, U+1)``."""


def group_minimum(tables: Matrix, groups: Integers, joint: Floats) -> tuple[float, Units]:
    """Minimise the cost of every slot's units plus the joint cost of the totals of the groups.

    Parameters
    ----------
    tables : Matrix
        ``tables[k, v]`` is the cost of ``v`` units in slot ``k``, ``(m, U+1)``; infinite where that is not allowed.
    groups : Integers
        The group of every slot, 0 or 1, ``(m,)``.
    joint : Floats
        The cost of the totals: ``joint[n_0]``, ``(U+1,)``, for one group, or ``joint[n_0, n_1]``, ``(U+1, U+1)``, for
        two, of which entries with ``n_0 + n_1 > U`` are not looked at; infinite where that is not allowed.

    Returns
    -------
    value : float
        The smallest cost; infinite if nothing is allowed.
    units : Units
        The units of every slot, ``(m,)``: of equally good ones the lexicographically smallest.

    Examples
    --------
    Two units, two slots; a unit costs 1 in the first and 1.5 in the second, each unit in neither costs 2, and what the
    slots have together is charged its square over four.

    >>> tables = np.array([[0.0, 1.0, 2.0], [0.0, 1.5, 3.0]])
    >>> joint = np.array([4.0, 2.0 + 0.25, 0.0 + 1.0])
    >>> value, units = group_minimum(tables, np.array([0, 0]), joint)
    >>> value, units.tolist()
    (3.0, [2, 0])
    >>> value, units = group_minimum(tables, np.array([0, 1]), np.array([[4, 2, 9], [2, 0, 0], [0, 0, 0.0]]))
    >>> value, units.tolist()
    (2.0, [2, 0])
    """
    check_array("tables", tables, np.float64, (None, None))
    slots, width = tables.shape
    _check_tables(tables)
    check_array("groups", groups, np.int64, (slots,))
    two = getattr(joint, "ndim", 1) == 2
    check_array("joint", joint, np.float64, (width, width) if two else (width,))
    if slots and not (groups.min() >= 0 and groups.max() <= two):
        place = int(np.argmax((groups < 0) | (groups > two)))
        raise InputError(f"groups must be {'0 or 1' if two else '0'}, was {groups[place]} at [{place}]")
    _check_costs("joint", joint)
    value, units = group_minimum_compiled(tables, groups, joint if two else joint.reshape(width, 1))
    return value, units


def group_profile(tables: Matrix) -> tuple[Vector, Choices]:
    """Return the smallest cost of every total of one group of slots, ``(U+1,)``, and the choices behind it.

    Parameters
    ----------
    tables : Matrix
        Cost of every number of units in every slot, ``(m, U+1)``; infinite where that is not allowed.

    Returns
    -------
    best : Vector
        Smallest cost of exactly ``n`` units together, for ``n = 0 .. U``; infinite where none is allowed.
    choices : Choices
        For `group_units`, which traces any total back to the units of every slot.

    Examples
    --------
    >>> best, choices = group_profile(np.array([[0.0, 3.0, 4.0], [0.0, 2.0, 7.0]]))
    >>> best.tolist()
    [0.0, 2.0, 4.0]
    >>> group_units(choices, 2).tolist()
    [2, 0]
    """
    check_array("tables", tables, np.float64, (None, None))
    _check_tables(tables)
    best, choices = group_profile_compiled(tables)
    return best, choices


def group_units(choices: Choices, total: int) -> Units:
    """Return the units of every slot that `group_profile` found best for a total that has a finite cost, ``(m,)``."""
    check_array("choices", choices, np.int32, (None, None))
    units: Units = group_units_compiled(choices, whole_number("total", total, minimum=0, maximum=choices.shape[1] - 1))
    return units


def _check_tables(tables: Matrix) -> None:
    slots, width = tables.shape
    if width == 0:
        raise InputError(f"tables must have a column for no units, was of shape {tables.shape}")
    check_separable_size(slots, width - 1)
    _check_costs("tables", tables)


def _check_costs(name: str, costs: Floats) -> None:
    if not _are_costs(costs.ravel()):
        raise InputError(f"{name} must be numbers or positive infinity, was {costs[~(costs > -np.inf)][0]}")


@njit(cache=True)
def _are_costs(costs: Vector) -> bool:
    """Whether all are above minus infinity, which what is not a number is not."""
    above = 0
    for cost in costs:
        above += cost > -np.inf
    return above == len(costs)


@njit(cache=True)
def _profile(tables: Matrix, rows: Integers) -> tuple[Vector, Choices]:
    """Infimal convolution of some rows of the tables, from the last to the first."""
    width = tables.shape[1]
    choices = np.zeros((len(rows), width), dtype=np.int32)
    suffix = np.full(width, -np.inf)  # negative costs, since the convolution maximises
    suffix[0] = 0.0
    gain = np.empty(width)
    for i in range(len(rows) - 1, -1, -1):
        for v in range(width):
            gain[v] = -tables[rows[i], v]
        if i == len(rows) - 1:  # the last slot takes the remainder
            for v in range(width):
                suffix[v], choices[i, v] = gain[v], v
        else:
            suffix, choice = convolve_compiled(gain, suffix, width - 1)
            for v in range(width):
                choices[i, v] = choice[v]
    for v in range(width):
        suffix[v] = -suffix[v] + 0.0  # no negative zero
    return suffix, choices


@njit(cache=True)
def group_profile_compiled(tables: Matrix) -> tuple[Vector, Choices]:
    """`group_profile` for other compiled code."""
    return _profile(tables, np.arange(len(tables)))


@njit(cache=True)
def group_units_compiled(choices: Choices, total: int) -> Units:
    """`group_units` for other compiled code."""
    if total < 0 or total >= choices.shape[1]:
        raise InputError("total must be one of those that the choices are for, was not")
    units = np.zeros(len(choices), dtype=np.int64)
    for k in range(len(choices)):
        units[k] = choices[k, total]
        total -= choices[k, total]
    return units


@njit(cache=True)
def _trace(choices: Choices, rows: Integers, total: int, units: Units) -> None:
    """Write the units of the slots ``rows``, which have ``total`` together."""
    for i in range(len(rows)):
        units[rows[i]] = choices[i, total]
        total -= choices[i, total]


@njit(cache=True)
def _smaller(one: Units, other: Units) -> bool:
    for k in range(len(one)):
        if one[k] != other[k]:
            return bool(one[k] < other[k])
    return False


@njit(cache=True)
def _lowest(best: Vector, other: Vector, joint: Matrix) -> float:
    """Smallest cost of all pairs of totals."""
    width, lowest = len(best), np.inf
    for n in range(width):
        for k in range(min(joint.shape[1], width - n)):
            cost = (best[n] + other[k]) + joint[n, k]
            lowest = min(lowest, cost)
    return lowest


@njit(cache=True)
def group_minimum_compiled(tables: Matrix, groups: Integers, joint: Matrix) -> tuple[float, Units]:
    """`group_minimum` for other compiled code: ``joint`` has two axes, and ``(U+1, 1)`` stands for a single group."""
    slots, width = tables.shape
    if len(groups) != slots or joint.shape[0] != width or not (joint.shape[1] == 1 or joint.shape[1] == width):
        raise InputError("tables, groups and joint must belong to the same slots and units, and did not")
    for k in range(slots):
        if not (groups[k] == 0 or (groups[k] == 1 and joint.shape[1] == width)):
            raise InputError("groups must be 0 or 1, and 0 where joint is of a single group, one was not")
    first, second = np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)
    best, choices = _profile(tables, first)
    other, other_choices = _profile(tables, second)
    lowest = _lowest(best, other, joint)
    units, rival, found = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64), False
    if lowest == np.inf:
        return lowest, units
    for n in range(width):
        for k in range(min(joint.shape[1], width - n)):
            if (best[n] + other[k]) + joint[n, k] == lowest:
                _trace(choices, first, n, rival)
                _trace(other_choices, second, k, rival)
                if not found or _smaller(rival, units):
                    found = True
                    for i in range(slots):
                        units[i] = rival[i]
    return lowest, units


# Minimum of a quadratic form plus a cost per slot over whole units with a fixed sum, with a certified lower bound.
#
# Minimise ``a' S a + linear' a + sum_k tables[k, a_k]`` over whole numbers ``0 <= a_k <= cap_k`` with ``sum a =
# units``. Slots hang together through ``S``, so no dynamic programme is exact here. Instead:
#
# 1. The relaxation to real numbers is solved by moving units between the pair of slots whose marginal costs differ
#    most, with the exact step; tables are interpolated, by their convex envelope where they are not convex. If ``S``
#    is indefinite, it is shifted to a semi-definite one and the excess ``s a_k^2`` is bounded by its chord on ``[0,
#    cap_k]``. What the relaxation costs, less its duality gap, is below every split.
# 2. The relaxed solution is rounded by largest remainders, and single units are moved between pairs as long as one
#    helps.
# 3. If the result is more than 0.1 % above the bound, or nothing is convex, seven more starts are tried.
#
# References ---------- S. Lacoste-Julien, M. Jaggi, "On the global linear convergence of Frank-Wolfe optimization
# variants" (2015), https://arxiv.org/abs/1511.05932


STARTS = 8
CLOSE = 1e-3
"""A result no farther than this part above its bound is taken without further starts."""

_NEAR = 1e-8  # difference of marginal costs, relative to their size, at which the relaxation is solved
_STEPS = 200_000
_ROUNDING = 1e-12


@dataclass(frozen=True)
class QuadraticResult:
    """A split, what it costs, and a bound below every split.

    Attributes
    ----------
    value : float
        The cost.
    units : tuple of int
        Units of every slot.
    bound : float
        No split costs less.
    """

    value: float
    units: tuple[int, ...]
    bound: float

    @property
    def gap(self) -> float:
        """How far the cost is above the bound, as a part of the larger of the two in size."""
        size = max(abs(self.value), abs(self.bound))
        return (self.value - self.bound) / size if size > 0 else 0.0


def quadratic_minimum(
    matrix: Matrix, linear: Vector, units: int, *, caps: Units | None = None, tables: Matrix | None = None
) -> QuadraticResult:
    """Split units over slots so that a quadratic form plus a cost per slot is small.

    Parameters
    ----------
    matrix : Matrix
        ``S``, symmetric, ``(m, m)``.
    linear : Vector
        Cost per unit, ``(m,)``: for a mean-variance objective, minus risk tolerance times mean.
    units : int
        Units to split.
    caps : Units, optional
        The most that each slot takes, ``(m,)``.
    tables : Matrix, optional
        Further cost of ``0 .. units`` units in each slot, ``(m, units + 1)``, best convex.

    Returns
    -------
    QuadraticResult
        The best split found, which no move of a single unit improves, and how far from the best it can be.

    Examples
    --------
    Two slots that always move together, and one on its own: nothing is gained by dividing between the first two.

    >>> together = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> result = quadratic_minimum(together, np.array([0.0, 0.1, 0.0]), 10)
    >>> result.units, result.value, result.gap < 1e-6
    ((5, 0, 5), 50.0, True)
    """
    linear = finite_array("linear", linear, ndim=1)
    m = len(linear)
    matrix = finite_array("matrix", matrix, ndim=2, length=m)
    if matrix.shape != (m, m) or np.abs(matrix - matrix.T).max() > _ROUNDING * np.abs(matrix).max():
        raise InputError(f"matrix must be symmetric of shape ({m}, {m}), and was not")
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
    if not convex or best.gap > CLOSE:
        found += [_exchanged(matrix, costs, most, start) for start in _starts(most, units)]
        value, chosen = min(found)
        best = QuadraticResult(value, chosen, bound)
    return best


def quadratic_cost(matrix: Matrix, costs: Matrix, split: Units) -> float:
    """``a' S a`` and the cost of every slot's units from tables ``(m, units + 1)``, for checks."""
    return float(split @ matrix @ split + costs[np.arange(len(split)), split].sum())


def _bounded(matrix: Matrix, costs: Matrix, most: Units, units: int) -> tuple[Vector, float]:
    """Solution of the relaxation, and a bound below every split."""
    shift = max(-float(np.linalg.eigvalsh(matrix)[0]), 0.0)
    hull = costs.copy()
    if shift > 0:  # s a^2 is at most its chord s cap a on [0, cap]
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
    """Largest remainders, within the caps."""
    chosen = np.minimum(np.floor(split + 1e-9).astype(np.int64), most)
    remainder = np.where(chosen < most, split - chosen, -np.inf)
    for k in np.argsort(-remainder, kind="stable")[: units - int(chosen.sum())]:
        chosen[k] += 1
    return _filled(chosen, most, units)


def _filled(chosen: Units, most: Units, units: int) -> Units:
    """Give what is missing to the first slots that have room."""
    for k in range(len(chosen)):
        chosen[k] += min(int(most[k] - chosen[k]), units - int(chosen.sum()))
    return chosen


def _starts(most: Units, units: int) -> list[Units]:
    """Splits to start from, beside the rounded one: as much as possible in one slot, then random ones."""
    rng, starts = np.random.default_rng(0), []
    for number in range(STARTS - 1):
        weights = rng.exponential(size=len(most)) * (most > 0)
        if number < min(len(most), (STARTS - 1) // 2):
            weights = np.zeros(len(most))
            weights[np.argsort(-most, kind="stable")[number]] = 1.0
        even = np.minimum(np.floor(weights / max(float(weights.sum()), 1e-300) * units).astype(np.int64), most)
        starts.append(_filled(even, most, units))
    return starts


def _exchanged(matrix: Matrix, costs: Matrix, most: Units, start: Units) -> tuple[float, tuple[int, ...]]:
    chosen = start.copy()
    _exchange(matrix, costs, most, chosen)
    return quadratic_cost(matrix, costs, chosen), tuple(int(v) for v in chosen)


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
    """Minimise the relaxation by moves between pairs; also returns a bound on how far it is from the minimum."""
    m = len(split)
    slope = 2 * (matrix @ split)
    left, right, scale = 0.0, 0.0, 0.0
    for step in range(_STEPS):
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
        if giver < 0 or taker < 0 or left - right <= _NEAR * scale or giver == taker:
            break
        length = min(split[giver] - (np.ceil(split[giver]) - 1), np.floor(split[taker]) + 1 - split[taker])
        bend = 2 * (matrix[giver, giver] + matrix[taker, taker] - 2 * matrix[giver, taker])
        if bend > 0:
            length = min(length, (left - right) / bend)
        split[giver] = _snapped(split[giver] - length)
        split[taker] = _snapped(split[taker] + length)
        if step % 64 == 63:  # sums of many small steps drift
            slope = 2 * (matrix @ split)
        else:
            for k in range(m):
                slope[k] += 2 * length * (matrix[k, taker] - matrix[k, giver])
    return split, _duality_gap(2 * (matrix @ split), hull, most, split, units)


@njit(cache=True)
def _snapped(value: float) -> float:
    """A number that is whole but for rounding as that whole number: cells of tables end there."""
    whole = np.round(value)
    return whole if abs(value - whole) < 1e-12 * max(1.0, abs(value)) else value


@njit(cache=True)
def _duality_gap(slope: Vector, hull: Matrix, most: Units, split: Vector, units: int) -> float:
    """What the cheapest split under the costs linearised here would save, at most: all next units, cheapest first."""
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
    """Move single units between pairs, the best move first, until none helps."""
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
