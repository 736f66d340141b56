"""The best allocations for many separable scores at once, in one compiled call.

What is chosen for each score is what `riskroute.routing.separable.minimise_separable` chooses, which defines it.
Dynamic programming over few units is done for many scores side by side: the innermost loop runs over scores, and the
compiler turns it into vector instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Floats, Integers, Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, finite_array
from riskroute.learning.small_matrices import padded_length
from riskroute.routing.separable import (
    LARGEST_TABLES,
    check_separable_size,
    convolve_compiled,
    write_separable_greedy,
    write_separable_one_concave,
)

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
