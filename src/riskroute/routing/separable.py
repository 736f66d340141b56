"""Exact optimisation of separable scores over whole numbers with a fixed sum.

Minimise or maximise ``sum_k f_k(v_k)`` over whole numbers ``low_k <= v_k <= high_k`` with ``sum_k v_k = units``. The
best allocation of an order under a linear score is such an optimum.

Greedy allocation by marginal cost minimises convex quadratics. Dynamic programming optimises any other function: it
adds one slot at a time by a (max, +) convolution of tables. Of several optima, the lexicographically smallest is
returned. `SeparableScores` minimises many scores in one compiled call; `minimise_separable` is the reference
implementation for a single score and gives the same results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from riskroute.core.arrays import Flags, Floats, Integers, Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import finite_array
from riskroute.learning.kernels import padded_kernel_length
from riskroute.learning.tournament import build_tournament, padded_tournament, update_tournament

Choices = NDArray[np.int32]  # optimal amount in a slot for each total over this slot and all later ones

_LARGEST_TABLES = 30_000_000  # entries per problem: a value and a choice take 12 bytes, so 360 MB in all


@njit(cache=True)
def _offer(value: float, j: int, second: Vector, best: Vector, choice: Choices) -> None:
    """Update ``best`` and ``choice`` where ``value + second`` exceeds ``best``; the compiler vectorises this loop."""
    for i in range(len(second)):
        total = value + second[i]
        if total > best[i]:
            best[i] = total
            choice[i] = j


@njit(cache=True)
def convolve_separable(first: Vector, second: Vector, limit: int) -> tuple[Vector, Choices]:
    """Return ``out[n] = max_j first[j] + second[n - j]`` for ``n <= limit``, and the smallest maximising ``j``."""
    best = np.full(limit + 1, -np.inf)
    choice = np.zeros(limit + 1, dtype=np.int32)
    block = 1024  # number of results computed at a time, so that their operands stay in the first-level cache
    for start in range(0, limit + 1, block):
        end = min(start + block, limit + 1)
        for j in range(min(len(first), end)):
            value = first[j]
            if value == -np.inf:
                continue
            low, high = max(start - j, 0), min(len(second), end - j)
            if low < high:
                _offer(value, j, second[low:high], best[low + j : high + j], choice[low + j : high + j])
    return best, choice


@njit(cache=True)
def greedy_separable(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units) -> Units:
    """Minimise ``sum alpha v + beta v^2`` with every ``beta >= 0``, greedily by marginal cost.

    Ties go to the last slot, which makes the result lexicographically smallest.
    """
    chosen = np.empty_like(lows)
    _write_greedy(alpha, beta, units, lows, highs, chosen)
    return chosen


@register_jitable
def _write_greedy(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units, chosen: Units) -> None:
    slots = len(alpha)
    free = units
    for k in range(slots):
        chosen[k] = lows[k]
        free -= lows[k]
    if slots <= 16:  # with few slots, a scan is faster than a tournament tree
        for _ in range(free):
            cheapest, taker = np.inf, -1
            for j in range(slots):
                cost_of_one = alpha[j] + beta[j] * (2 * chosen[j] + 1) if chosen[j] < highs[j] else np.inf
                if cost_of_one <= cheapest:
                    cheapest, taker = cost_of_one, j
            chosen[taker] += 1
        return
    cost = np.empty(slots)  # marginal costs, slots in reverse order so that ties go to the last
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


def check_separable_size(slots: int, units: int) -> None:
    """Raise `InputError` if tables with an entry for every slot and number of lots would not fit in memory."""
    if slots * (units + 1) > _LARGEST_TABLES:
        raise InputError(
            f"too many amounts for tables: {units:,} lots over {slots} slots "
            f"(limit on lots times slots: {_LARGEST_TABLES:,})"
        )


def tabulate_separable(alpha: Vector, beta: Vector, lows: Units, highs: Units, units: int) -> list[Vector]:
    """Return tables ``-(alpha_k v + beta_k v^2)``, ``v = 0 .. min(high_k, units)``, minus infinity below ``low_k``."""
    check_separable_size(len(alpha), units)
    tables = []
    for k in range(len(alpha)):
        v = np.arange(min(int(highs[k]), units) + 1, dtype=np.float64)
        tables.append(np.where(v >= lows[k], -(alpha[k] * v + beta[k] * v * v), -np.inf))
    return tables


def maximise_tables(tables: list[Vector], units: int) -> tuple[float, Units]:
    """Return the maximum of ``sum_k tables[k][v_k]`` with ``sum v = units``, and its lexicographically first maximiser.

    The maximum is minus infinity if no ``v`` is feasible.
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
) -> tuple[Vector, Vector, Choices, Choices, Flags]:
    """Return best and second best of ``table[j] + {best, second}[n - j]`` for each ``n``, and their choices."""
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


def two_best_of_tables(tables: list[Vector], units: int) -> tuple[Units, Units | None]:
    """Return the units with the largest sum of table entries, and those with the second-largest, None if infeasible."""
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


@njit(cache=True)
def minimise_separable_one_concave(alpha: Vector, beta: Vector, units: int, lows: Units) -> tuple[Units, bool]:
    """Minimise ``sum alpha v + beta v^2`` without upper bounds; also return whether the minimiser is clearly unique.

    Between two slots with ``beta < 0`` the cost is concave in the amount moved from one to the other. Some optimum
    therefore has at most one such slot above its lower bound. Every such slot is tried with every amount; greedy
    allocation splits the remainder over the convex slots.
    """
    free = units - lows.sum()
    chosen, order, spent = np.empty_like(lows), np.empty(free, dtype=np.int64), np.empty(free + 1)
    return chosen, _write_one_concave(alpha, beta, lows, order, spent, chosen)


@register_jitable
def _write_one_concave(alpha: Vector, beta: Vector, lows: Units, order: Units, spent: Vector, chosen: Units) -> bool:
    """Write the minimiser; return whether it is unique. ``order`` (n,) and ``spent`` (n + 1,) are work space."""
    slots, free = len(alpha), len(order)
    reach = 0
    for k in range(slots):
        chosen[k] = lows[k]
        if beta[k] >= 0:
            reach = free
    spent[0] = 0.0  # spent[n]: cost of the greedy slots after n units
    size, lost = 0.0, 0.0
    for n in range(reach):
        best, taker = np.inf, -1
        for j in range(slots):
            cost = alpha[j] + beta[j] * (2 * chosen[j] + 1) if beta[j] >= 0 else np.inf
            if cost <= best:  # ties go to the last slot
                best, taker = cost, j
        order[n] = taker
        chosen[taker] += 1
        step = best - lost  # Kahan summation: errors do not accumulate over the terms
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
    for n in range(free - taken, reach):  # the concave slot takes these units instead
        chosen[order[n]] -= 1
    if slot >= 0:
        chosen[slot] += taken
    return bool(second - lowest > 1e-13 * size)  # a smaller difference is a rounding error


def minimise_separable(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units) -> Units:
    """Minimise ``sum alpha v + beta v^2`` exactly: greedily where that is optimal, else by dynamic programming."""
    if (beta >= 0).all():
        chosen: Units = greedy_separable(alpha, beta, units, lows, highs)
        return chosen
    if (highs >= units).all():
        chosen, clear = minimise_separable_one_concave(alpha, beta, units, lows)
        if clear:
            return chosen
    return maximise_tables(tabulate_separable(alpha, beta, lows, highs, units), units)[1]


# Infimal convolution of cost tables ``(m, U + 1)``, for routers that tabulate the cost of every amount in every slot.


@njit(cache=True)
def cheapest_separable_totals(tables: Matrix) -> tuple[Vector, Choices]:
    """Return the smallest cost of every total ``n = 0 .. U`` over all slots, and choices for `separable_units`.

    ``tables[k, v]`` is the cost of ``v`` units in slot ``k``, infinite where not allowed. ``choices[k, n]`` is the
    amount of slot ``k`` when it and all later slots have ``n`` units together. Tables need not be convex.
    """
    slots, width = tables.shape
    choices = np.zeros((slots, width), dtype=np.int32)
    suffix = np.full(width, -np.inf)  # costs are negated, since the convolution maximises
    suffix[0] = 0.0
    gain = np.empty(width)
    for k in range(slots - 1, -1, -1):
        for v in range(width):
            gain[v] = -tables[k, v]
        if k == slots - 1:  # the last slot takes the remainder
            for v in range(width):
                suffix[v], choices[k, v] = gain[v], v
        else:
            suffix, choice = convolve_separable(gain, suffix, width - 1)
            for v in range(width):
                choices[k, v] = choice[v]
    for v in range(width):
        suffix[v] = -suffix[v] + 0.0  # adding zero turns a negative zero into a positive one
    return suffix, choices


@njit(cache=True)
def separable_units(choices: Choices, total: int) -> Units:
    """Return the cheapest split ``(m,)`` of ``total`` units; ties go to the lexicographically smallest."""
    units = np.zeros(len(choices), dtype=np.int64)
    for k in range(len(choices)):
        units[k] = choices[k, total]
        total -= choices[k, total]
    return units


@dataclass(frozen=True, eq=False)
class SeparableScores:
    """Minimiser of linear scores of ``(shares, shares^2) / scale`` over splits of ``units`` lots within bounds (m,)."""

    units: int
    lot: int
    lows: Units
    highs: Units
    scale: float

    def best_each(self, coefs: Floats) -> Integers:
        """Return the split (n, m), in shares, that minimises each score (n, 2 m); ties go to the first in order."""
        slots, fewest, most = len(self.lows), int(self.lows.sum()), int(self.highs.sum())
        if not fewest <= self.units <= most:
            raise InputError(f"expected bounds that admit {self.units} units in total, got {fewest} to {most}")
        coefs = finite_array("coefs", coefs, ndim=2)
        if coefs.shape[1] != 2 * slots:
            raise InputError(f"coefs must have {2 * slots} columns, had {coefs.shape[1]}")
        chosen = np.zeros((len(coefs), slots), dtype=np.int64)
        # convert coefficients of shares and squared shares to costs per lot and per squared lot
        factors = self.lot / self.scale, self.lot**2 / self.scale
        tables_fit = slots * (self.units + 1) <= _LARGEST_TABLES
        if not _minimise_each(coefs, *factors, self.units, self.lows, self.highs, tables_fit, chosen):
            check_separable_size(slots, self.units)  # raises an error
        return chosen * self.lot if self.lot > 1 else chosen


@njit(cache=True)
def _minimise_each(
    coefs: Matrix,
    linear: float,
    square: float,
    units: int,
    lows: Units,
    highs: Units,
    tables_fit: bool,
    chosen: Units,
) -> bool:
    """Write the minimiser of each row of scores to ``chosen``; return False if a row needs tables that do not fit."""
    rows, slots = chosen.shape
    alphas, betas = np.empty((rows, slots)), np.empty((rows, slots))
    free = units - lows.sum()
    order, spent = np.empty(max(free, 0), dtype=np.int64), np.empty(max(free, 0) + 1)
    few = units <= 24  # tables of many scores side by side then stay in the first-level cache
    unbounded = not few
    for k in range(slots):
        unbounded = unbounded and highs[k] >= units
    left, waiting = np.empty(rows, dtype=np.int64), 0
    for i in range(rows):
        concave = 0
        for k in range(slots):
            alphas[i, k], betas[i, k] = coefs[i, k] * linear, coefs[i, slots + k] * square
            concave += betas[i, k] < 0
        if concave == 0:
            _write_greedy(alphas[i], betas[i], units, lows, highs, chosen[i])
        elif not (unbounded and _write_one_concave(alphas[i], betas[i], lows, order, spent, chosen[i])):
            left[waiting] = i
            waiting += 1
    if waiting and not tables_fit:
        return False
    if few:
        batch = 256  # number of scores side by side
        for first in range(0, waiting, batch):
            _tables_abreast(alphas, betas, units, lows, highs, left[first : min(first + batch, waiting)], chosen)
    else:
        for n in range(waiting):
            _table(alphas[left[n]], betas[left[n]], units, lows, highs, chosen[left[n]])
    return True


@njit(cache=True)
def _offer_each(value: Vector, suffix: Vector, best: Vector, choice: Integers, v: int) -> None:
    """Update ``best`` and ``choice`` in each row where ``v`` units are better; the compiler vectorises this loop."""
    for i in range(len(value)):
        total = value[i] + suffix[i]
        before, chosen = best[i], choice[i]
        best[i] = total if total > before else before
        choice[i] = v if total > before else chosen


@register_jitable
def _tables_abreast(
    alphas: Matrix, betas: Matrix, units: int, lows: Units, highs: Units, rows: Integers, chosen: Units
) -> None:
    """Solve ``rows`` of scores by dynamic programming; the innermost loop runs over rows, so that it vectorises."""
    count, slots = padded_kernel_length(len(rows)), len(lows)
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
            for n in range(units if k == 0 else v, units + 1):  # the first slot must use up all units
                _offer_each(value, suffix[n - v], best[n], choices[k, n], v)
    for i in range(len(rows)):
        remainder = units
        if best[units, i] > -np.inf:
            for k in range(slots):
                chosen[rows[i], k] = choices[k, remainder, i]
                remainder -= chosen[rows[i], k]


@register_jitable
def _table(alpha: Vector, beta: Vector, units: int, lows: Units, highs: Units, chosen: Units) -> None:
    costs = np.full((len(alpha), units + 1), np.inf)
    for k in range(len(alpha)):
        for v in range(lows[k], min(highs[k], units) + 1):
            amount = float(v)
            costs[k, v] = alpha[k] * amount + beta[k] * amount * amount
    totals, choices = cheapest_separable_totals(costs)
    if totals[units] < np.inf:
        best = separable_units(choices, units)
        for k in range(len(alpha)):
            chosen[k] = best[k]
