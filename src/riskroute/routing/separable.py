"""Exact optimisation of separable scores over whole numbers with a fixed sum.

Everything an allocation set is asked comes down to this: choose units ``v_k`` with ``low_k <= v_k <= high_k`` and
``sum_k v_k = units`` so that ``sum_k f_k(v_k)`` is smallest (or largest).

Convex quadratics are solved by greedy marginal costs. Any other functions are solved by dynamic programming: the
suffix optimum is a (max, +) convolution of tables, whose inner loop is one vectorised addition and maximum.
Among equally good solutions the lexicographically smallest is returned, by both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from riskroute.core.arrays import Flags, Floats, Integers, Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, finite_array
from riskroute.learning.policies.tournament import build_tournament, padded_tournament, update_tournament
from riskroute.learning.small_matrices import padded_length

LARGEST_TABLES = 30_000_000
"""Entries that the tables of one question may have: with what is kept beside them, a third of a gigabyte."""

BLOCK = 1024
_FEW_SLOTS = 16  # up to here a look at every slot is faster than a tournament
_CLEAR = 1e-13  # of the costs added up: less than this between the best two is rounding

_WHOLE, _REAL = np.dtype(np.int64), np.dtype(np.float64)


@njit(cache=True)
def _offer(value: float, j: int, second: Vector, best: Vector, choice: NDArray[np.int32]) -> None:
    """Improve ``best`` to ``value + second`` where that is more: a loop the compiler turns into vector instructions."""
    for i in range(len(second)):
        total = value + second[i]
        if total > best[i]:
            best[i] = total
            choice[i] = j


def convolve_separable(first: Vector, second: Vector, limit: int) -> tuple[Vector, NDArray[np.int32]]:
    """(max, +) convolution: ``out[n] = max_j first[j] + second[n - j]`` for ``n <= limit``, and the smallest such j."""
    check_array("first", first, np.float64, (None,))
    check_array("second", second, np.float64, (None,))
    best, choice = convolve_compiled(first, second, limit)
    return best, choice


@njit(cache=True)
def convolve_compiled(first: Vector, second: Vector, limit: int) -> tuple[Vector, NDArray[np.int32]]:
    """`convolve_separable` for other compiled code: vectors of any lengths, of which no entry beyond is read."""
    best = np.full(limit + 1, -np.inf)
    choice = np.zeros(limit + 1, dtype=np.int32)
    for start in range(0, limit + 1, BLOCK):  # a block of results at a time: all it needs stays in the nearest cache
        end = min(start + BLOCK, limit + 1)
        for j in range(min(len(first), end)):
            value = first[j]
            if value == -np.inf:
                continue
            low, high = max(start - j, 0), min(len(second), end - j)
            if low < high:
                _offer(value, j, second[low:high], best[low + j : high + j], choice[low + j : high + j])
    return best, choice


def separable_greedy_units(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units) -> Units:
    """Minimise ``sum alpha v + beta v^2`` with every ``beta >= 0``: give each unit where it costs least.

    Of equal costs the last slot takes the unit, which makes the result lexicographically smallest.
    """
    _check_slots(alpha, beta, lows, highs)
    chosen: Units = _greedy_units(alpha, beta, units, lows, highs)
    return chosen


@njit(cache=True)
def _greedy_units(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units) -> Units:
    chosen = np.empty_like(lows)
    write_separable_greedy(alpha, beta, units, lows, highs, chosen)
    return chosen


@register_jitable
def write_separable_greedy(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units, chosen: Units) -> None:
    """Write the units that the greedy rule chooses into ``chosen``."""
    slots = len(alpha)
    free = units
    for k in range(slots):
        chosen[k] = lows[k]
        free -= lows[k]
    if slots <= _FEW_SLOTS:
        for _ in range(free):
            cheapest, taker = np.inf, -1
            for j in range(slots):
                cost_of_one = alpha[j] + beta[j] * (2 * chosen[j] + 1) if chosen[j] < highs[j] else np.inf
                if cost_of_one <= cheapest:
                    cheapest, taker = cost_of_one, j
            chosen[taker] += 1
        return
    cost = np.empty(slots)  # of one more unit, slots in reverse order so that ties go to the last
    for k in range(slots):
        j = slots - 1 - k
        cost[k] = alpha[j] + beta[j] * (2 * chosen[j] + 1) if chosen[j] < highs[j] else np.inf
    values = padded_tournament(cost)
    winners = build_tournament(values)
    for _ in range(free):
        k = winners[1]
        j = slots - 1 - k
        chosen[j] += 1
        values[k] = alpha[j] + beta[j] * (2 * chosen[j] + 1) if chosen[j] < highs[j] else np.inf
        update_tournament(winners, values, k)


def _check_slots(alpha: Any, beta: Any, lows: Any, highs: Any) -> None:
    """Refuse costs and bounds of different numbers of slots; the first test alone is cheap enough for every score."""
    if (
        type(alpha) is type(beta) is type(lows) is type(highs) is np.ndarray
        and alpha.ndim == beta.ndim == lows.ndim == highs.ndim == 1
        and len(alpha) == len(beta) == len(lows) == len(highs)
        and alpha.dtype == beta.dtype == _REAL
        and lows.dtype == highs.dtype == _WHOLE
    ):
        return
    check_array("lows", lows, np.int64, (None,))
    check_array("highs", highs, np.int64, lows.shape)
    for name, cost in (("alpha", alpha), ("beta", beta)):
        check_array(name, cost, np.float64, lows.shape)


def check_separable_size(slots: int, units: int) -> None:
    """Refuse tables of all amounts of every slot that would not fit, before memory is taken."""
    if slots * (units + 1) > LARGEST_TABLES:
        raise InputError(
            f"lots times slots must be at most {LARGEST_TABLES:,} for tables of all amounts, "
            f"was {units:,} lots over {slots} slots"
        )


def tabulate_separable(alpha: Vector, beta: Vector, lows: Units, highs: Units, units: int) -> list[Vector]:
    """Tables ``-(alpha_k v + beta_k v^2)`` for ``v = 0 .. min(high_k, units)``, minus infinity below ``low_k``."""
    check_separable_size(len(alpha), units)
    tables = []
    for k in range(len(alpha)):
        v = np.arange(min(int(highs[k]), units) + 1, dtype=np.float64)
        tables.append(np.where(v >= lows[k], -(alpha[k] * v + beta[k] * v * v), -np.inf))
    return tables


def separable_table_maximum(tables: list[Vector], units: int) -> tuple[float, Units]:
    """Maximise ``sum_k tables[k][v_k]`` with ``sum v = units``: value and lexicographically smallest maximiser.

    The value is minus infinity when nothing is feasible.
    """
    suffix = np.full(units + 1, -np.inf)
    last = tables[-1][: units + 1]
    suffix[: len(last)] = last
    choices = []
    for table in reversed(tables[:-1]):
        suffix, choice = convolve_separable(table, suffix, units)
        choices.append(choice)
    chosen, left = np.zeros(len(tables), dtype=np.int64), units
    if np.isfinite(suffix[units]):
        for k, choice in enumerate(reversed(choices)):
            chosen[k] = choice[left]
            left -= int(chosen[k])
        chosen[-1] = left
    return float(suffix[units]), chosen


@njit(cache=True)
def _convolve_two(
    table: Vector, best: Vector, second: Vector, limit: int
) -> tuple[Vector, Vector, NDArray[np.int32], NDArray[np.int32], Flags]:
    """Best and second best of ``table[j] + {best, second}[n - j]``, with the choices that lead to them."""
    out = np.full(limit + 1, -np.inf)
    runner = np.full(limit + 1, -np.inf)
    choice = np.zeros(limit + 1, dtype=np.int32)
    runner_choice = np.zeros(limit + 1, dtype=np.int32)
    runner_from_second = np.zeros(limit + 1, dtype=np.bool_)
    for n in range(limit + 1):
        for j in range(min(len(table), n + 1)):
            if table[j] == -np.inf:
                continue
            for again in range(2):
                value = table[j] + (second[n - j] if again else best[n - j])
                if value > out[n]:
                    runner[n], runner_choice[n], runner_from_second[n] = out[n], choice[n], False
                    out[n], choice[n] = value, j
                elif value > runner[n]:
                    runner[n], runner_choice[n], runner_from_second[n] = value, j, again == 1
    return out, runner, choice, runner_choice, runner_from_second


def separable_two_best(tables: list[Vector], units: int) -> tuple[Units, Units | None]:
    """Return the best and the second best choice of units for tables to be maximised; None if there is only one."""
    best = np.full(units + 1, -np.inf)
    last = tables[-1][: units + 1]
    best[: len(last)] = last
    second = np.full(units + 1, -np.inf)
    steps = []
    for table in reversed(tables[:-1]):
        best, second, *step = _convolve_two(table, best, second, units)
        steps.append(step)
    steps.reverse()

    def follow(runner_up: bool) -> Units:
        chosen, left = np.zeros(len(tables), dtype=np.int64), units
        for k, (choice, runner_choice, from_second) in enumerate(steps):
            chosen[k] = runner_choice[left] if runner_up else choice[left]
            runner_up = bool(from_second[left]) if runner_up else False
            left -= int(chosen[k])
        chosen[-1] = left
        return chosen

    return follow(False), follow(True) if np.isfinite(second[units]) else None


def separable_one_concave(alpha: Vector, beta: Vector, units: int, lows: Units) -> tuple[Units, bool]:
    """Minimise ``sum alpha v + beta v^2`` without upper bounds; also says whether the minimum is clearly the only one.

    Between two slots with ``beta < 0`` the cost is concave in what is moved from one to the other, so in some best
    solution one of them is at its lower bound: at most one such slot takes more. The other slots are served greedily,
    and every amount left to the one is tried.
    """
    _check_slots(alpha, beta, lows, lows)
    chosen, clear = _one_concave(alpha, beta, units, lows)
    return chosen, bool(clear)


@njit(cache=True)
def _one_concave(alpha: Vector, beta: Vector, units: int, lows: Units) -> tuple[Units, bool]:
    free = units - lows.sum()
    chosen, order, spent = np.empty_like(lows), np.empty(free, dtype=np.int64), np.empty(free + 1)
    return chosen, write_separable_one_concave(alpha, beta, lows, order, spent, chosen)


@register_jitable
def write_separable_one_concave(
    alpha: Vector, beta: Vector, lows: Units, order: Units, spent: Vector, chosen: Units
) -> bool:
    """Write what `separable_one_concave` chooses; ``order`` ``(n,)`` and ``spent`` ``(n + 1,)`` are for ``n`` units."""
    slots, free = len(alpha), len(order)
    reach = 0
    for k in range(slots):
        chosen[k] = lows[k]
        if beta[k] >= 0:
            reach = free
    spent[0] = 0.0  # of the greedy part after n units
    size, lost = 0.0, 0.0
    for n in range(reach):
        best, taker = np.inf, -1
        for j in range(slots):
            cost = alpha[j] + beta[j] * (2 * chosen[j] + 1) if beta[j] >= 0 else np.inf
            if cost <= best:  # of equal costs the last slot takes the unit
                best, taker = cost, j
        order[n] = taker
        chosen[taker] += 1
        step = best - lost  # compensated: sums of many units are as exact as their terms
        spent[n + 1] = spent[n] + step
        lost = (spent[n + 1] - spent[n]) - step
        size += abs(best)
    lowest, second, slot, taken = (spent[free] if reach == free else np.inf), np.inf, -1, 0
    for k in range(slots):
        if beta[k] < 0:
            for v in range(max(free - reach, 1), free + 1):
                own = (alpha[k] + beta[k] * (2 * lows[k] + v)) * v
                size = max(size, abs(own), abs(alpha[k] * v))
                total = own + spent[free - v]
                if total < lowest:
                    lowest, second, slot, taken = total, lowest, k, v
                elif total < second:
                    second = total
    for n in range(free - taken, reach):  # these units go to the one slot instead
        chosen[order[n]] -= 1
    if slot >= 0:
        chosen[slot] += taken
    return bool(second - lowest > _CLEAR * size)


def minimise_separable(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units) -> Units:
    """Units that minimise ``sum alpha v + beta v^2``: greedy where that is exact, dynamic programming otherwise."""
    _check_slots(alpha, beta, lows, highs)
    if (beta >= 0).all():
        chosen: Units = _greedy_units(alpha, beta, units, lows, highs)
        return chosen
    if (highs >= units).all():
        chosen, clear = _one_concave(alpha, beta, units, lows)
        if clear:
            return chosen
    return separable_table_maximum(tabulate_separable(alpha, beta, lows, highs, units), units)[1]


def separable_best_exchange(
    alpha: Vector, beta: Vector, units: Units, lows: Units, highs: Units
) -> tuple[float, int, int]:
    """Cheapest move of one unit from slot ``i`` to slot ``j``: its cost, ``i`` and ``j`` (infinite cost if none)."""
    adding = np.where(units < highs, alpha + beta * (2 * units + 1), np.inf)
    taking = np.where(units > lows, -alpha - beta * (2 * units - 1), np.inf)
    cost = taking[:, None] + adding[None, :]
    np.fill_diagonal(cost, np.inf)
    i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return float(cost[i, j]), int(i), int(j)


# The best allocations for many separable scores at once, in one compiled call.
#
# What is chosen for each score is what `riskroute.routing.separable.minimise_separable` chooses, which defines it.
# Dynamic programming over few units is done for many scores side by side: the innermost loop runs over scores, and
# the compiler turns it into vector instructions.


_ABREAST = 256  # scores side by side
_FEW_UNITS = 24  # up to here the tables of that many scores stay in the nearest cache


@dataclass(frozen=True, eq=False)
class SeparableScores:
    """All allocations of ``units`` lots within bounds, for linear scores of ``(shares, shares^2) / scale``.

    Attributes
    ----------
    units, lot : int
        Lots to allocate, and shares in a lot.
    lows, highs : Units
        Fewest and most lots of every slot, ``(m,)``.
    scale : float
        What shares and squared shares are divided by.
    """

    units: int
    lot: int
    lows: Units
    highs: Units
    scale: float

    @cached_property
    def _room(self) -> tuple[int, int]:
        """Fewest and most lots that fit within the bounds."""
        return int(self.lows.sum()), int(self.highs.sum())

    @cached_property
    def factors(self) -> tuple[float, float]:
        """What turns coefficients of shares and squared shares into costs of lots and squared lots."""
        return self.lot / self.scale, self.lot**2 / self.scale

    @cached_property
    def tables_fit(self) -> bool:
        """Whether tables of all lots in all slots can be held in memory."""
        return len(self.lows) * (self.units + 1) <= LARGEST_TABLES

    def best_each(self, coefs: Floats) -> Integers:
        """Shares ``(n, m)`` of the best allocation for each of several scores ``(n, 2 m)``; of equals, the first."""
        slots, (fewest, most) = len(self.lows), self._room
        if not fewest <= self.units <= most:
            raise InputError(f"bounds must leave room for {self.units} units, was {fewest} to {most}")
        coefs = finite_array("coefs", coefs, ndim=2)
        if coefs.shape[1] != 2 * slots:
            raise InputError(f"coefs must have {2 * slots} columns, had {coefs.shape[1]}")
        chosen = np.zeros((len(coefs), slots), dtype=np.int64)
        if not minimise_each_compiled(coefs, *self.factors, self.units, self.lows, self.highs, self.tables_fit, chosen):
            check_separable_size(slots, self.units)
        return chosen * self.lot if self.lot > 1 else chosen


def minimise_separable_each(alphas: Matrix, betas: Matrix, units: int, lows: Units, highs: Units) -> Units:
    """Units that minimise ``sum alpha v + beta v^2`` for every row of ``alphas`` and ``betas`` ``(n, m)``, ``(n, m)``.

    Examples
    --------
    >>> alphas, betas = np.array([[0.0, 4.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [-1.0, -2.0]])
    >>> minimise_separable_each(alphas, betas, 4, np.zeros(2, dtype=np.int64), np.full(2, 3)).tolist()
    [[2, 2], [1, 3]]
    """
    check_array("lows", lows, np.int64, (None,))
    check_array("highs", highs, np.int64, lows.shape)
    check_array("alphas", alphas, np.float64, (None, len(lows)))
    check_array("betas", betas, np.float64, alphas.shape)
    return SeparableScores(units, 1, lows, highs, 1.0).best_each(np.hstack([alphas, betas]))


@njit(cache=True)
def minimise_each_compiled(
    coefs: Matrix,
    linear: float,
    square: float,
    units: int,
    lows: Units,
    highs: Units,
    tables_fit: bool,
    chosen: Units,
) -> bool:
    """Write what is chosen for each row of scores; return whether no row needed tables that do not fit."""
    rows, slots = chosen.shape
    alphas, betas = np.empty((rows, slots)), np.empty((rows, slots))
    free = units - lows.sum()
    order, spent = np.empty(max(free, 0), dtype=np.int64), np.empty(max(free, 0) + 1)
    unbounded = units > _FEW_UNITS
    for k in range(slots):
        unbounded = unbounded and highs[k] >= units
    left, waiting = np.empty(rows, dtype=np.int64), 0
    for i in range(rows):
        concave = 0
        for k in range(slots):
            alphas[i, k], betas[i, k] = coefs[i, k] * linear, coefs[i, slots + k] * square
            concave += betas[i, k] < 0
        if concave == 0:
            write_separable_greedy(alphas[i], betas[i], units, lows, highs, chosen[i])
        elif not (unbounded and write_separable_one_concave(alphas[i], betas[i], lows, order, spent, chosen[i])):
            left[waiting] = i
            waiting += 1
    if waiting and not tables_fit:
        return False
    if units <= _FEW_UNITS:
        for first in range(0, waiting, _ABREAST):
            _tables_abreast(alphas, betas, units, lows, highs, left[first : min(first + _ABREAST, waiting)], chosen)
    else:
        for n in range(waiting):
            _table(alphas[left[n]], betas[left[n]], units, lows, highs, chosen[left[n]])
    return True


@njit(cache=True)
def _offer_each(value: Vector, suffix: Vector, best: Vector, choice: Integers, v: int) -> None:
    """Take ``v`` units where that is better: a loop the compiler turns into vector instructions."""
    for i in range(len(value)):
        total = value[i] + suffix[i]
        before, chosen = best[i], choice[i]
        best[i] = total if total > before else before
        choice[i] = v if total > before else chosen


@register_jitable
def _tables_abreast(
    alphas: Matrix, betas: Matrix, units: int, lows: Units, highs: Units, rows: Integers, chosen: Units
) -> None:
    """Write the lexicographically smallest best units of some rows, by dynamic programming from the last slot on."""
    count, slots = padded_length(len(rows)), len(lows)
    best, suffix = np.empty((units + 1, count)), np.empty((units + 1, count))
    choices = np.zeros((slots, units + 1, count), dtype=np.int64)
    alpha, beta, value = np.zeros(count), np.zeros(count), np.empty(count)
    for k in range(slots - 1, -1, -1):
        suffix, best = best, suffix
        for i in range(len(rows)):
            alpha[i], beta[i] = alphas[rows[i], k], betas[rows[i], k]
        for n in range(units + 1):
            for i in range(count):
                best[n, i] = -np.inf
        for v in range(lows[k], min(highs[k], units) + 1):
            amount = float(v)
            for i in range(count):
                value[i] = -(alpha[i] * amount + beta[i] * amount * amount)
            if k == slots - 1:
                for i in range(count):
                    best[v, i] = value[i]
                    choices[k, v, i] = v
                continue
            for n in range(units if k == 0 else v, units + 1):  # of the first slot only what leaves nothing counts
                _offer_each(value, suffix[n - v], best[n], choices[k, n], v)
    for i in range(len(rows)):
        remainder = units
        if best[units, i] > -np.inf:
            for k in range(slots):
                chosen[rows[i], k] = choices[k, remainder, i]
                remainder -= chosen[rows[i], k]


@register_jitable
def _table(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units, chosen: Units) -> None:
    """Do the same for one row and many units."""
    slots = len(alpha)
    suffix = np.full(units + 1, -np.inf)
    choices = np.zeros((slots, units + 1), dtype=np.int32)
    for k in range(slots - 1, -1, -1):
        table = np.full(min(highs[k], units) + 1, -np.inf)
        for v in range(lows[k], len(table)):
            amount = float(v)
            table[v] = -(alpha[k] * amount + beta[k] * amount * amount)
        if k == slots - 1:
            for v in range(len(table)):
                suffix[v] = table[v]
                choices[k, v] = v
        else:
            suffix, choice = convolve_compiled(table, suffix, units)
            for n in range(units + 1):
                choices[k, n] = choice[n]
    if suffix[units] > -np.inf:
        remainder = units
        for k in range(slots):
            chosen[k] = choices[k, remainder]
            remainder -= chosen[k]
