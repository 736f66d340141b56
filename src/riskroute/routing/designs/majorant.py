"""Bounds on leverages over sets without symmetry, by a separable function that is nowhere below the leverage.

A leverage is a quadratic form ``f' P f`` of the features, two per slot. Something is added to ``P`` that leaves one
block per slot: the form is then a sum over slots, and its largest value is bounded by its dual, in which a price on
units makes the slots' own choices add up. Three steps keep what is added small. Amounts add up to the units, so any
multiple of the square of their sum is a known number. In the few directions in which slots are most coupled, the square
is bounded by its chord over the range it takes. The rest is covered by enlarging the blocks a little.

For survivors of cuts, the excess of a cut's score over its limit may be subtracted at any price: members have none.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.routing.lattice import Lattice

LinearCut = tuple[Vector, Vector, float]
"""Cost per unit and per squared unit of every slot, and the limit on their sum."""

_CHORDS = 2
_PRICES = -4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0  # prices of the known sum, in units of the rank
_MULTIPLIERS = 4.0 ** np.arange(-2, 16)  # prices of a cut, in units of the rank over the range of its score


def majorant_of_leverages(lattice: Lattice, whitening: Matrix, cut: LinearCut | None = None) -> float:
    """Bound ``|f @ whitening|^2`` over all vectors of the lattice, or those that pass a cut.

    Features ``f`` are ``(v, v^2)`` of amounts in units, all ``v`` first; ``whitening`` is ``(2 m, r)``.
    """
    form = _Form(lattice, whitening, cut)
    tried = {price: form.bound(price) for price in _PRICES}
    for width in (0.5, 0.25):
        best = min(tried, key=lambda price: tried[price])
        for price in (best * (1 - width), best * (1 + width)):
            tried[price] = form.bound(price)
    return max(min(tried.values()), float(form.rank))  # no design's largest leverage is below the rank


class _Form:
    """The quadratic form of a design's leverages, in features ``(y, y^2)`` slot by slot, amounts ``y`` up to one."""

    def __init__(self, lattice: Lattice, whitening: Matrix, cut: LinearCut | None) -> None:
        self.lattice = lattice
        slots, self.rank = len(lattice.lows), whitening.shape[1]
        self.highs = np.minimum(lattice.highs, lattice.units)
        scale = np.maximum(self.highs, 1).astype(np.float64)
        self.amounts = [np.arange(high + 1) / one for high, one in zip(self.highs.tolist(), scale, strict=True)]
        interleaved = np.arange(2 * slots).reshape(2, slots).T.reshape(-1)
        units = np.concatenate([scale, scale**2])[interleaved]
        white = whitening[interleaved] * units[:, None]
        self.form = white @ white.T
        self.form[np.diag_indices_from(self.form)] += 1e-10 * float(np.trace(self.form))  # some slots have none
        self.total = np.zeros(2 * slots)
        self.total[::2] = scale / lattice.units  # the sum of amounts, as a part of the units: always one
        pairs = np.arange(2 * slots).reshape(slots, 2)
        self.blocks = self.form[pairs[:, :, None], pairs[:, None, :]]
        self.roots = np.linalg.cholesky(self.blocks)
        self.cut: tuple[Vector, float] | None = None
        if cut is not None:
            alpha, beta, limit = cut
            score = np.concatenate([alpha, beta])[interleaved] * units
            width = max(self.reach(score) + self.reach(-score), 1e-300)
            self.cut = score * (self.rank / width), limit * (self.rank / width)

    def bound(self, price: float) -> float:
        """Return the bound with the square of the sum at a price, in units of the rank."""
        slots = len(self.blocks)
        rest = self.form - price * self.rank * np.outer(self.total, self.total)
        pairs = np.arange(2 * slots).reshape(slots, 2)
        rest[pairs[:, :, None], pairs[:, None, :]] -= self.blocks
        for _ in range(2):  # in coordinates in which the blocks are the identity
            rest = np.linalg.solve(self.roots, rest.reshape(slots, 2, -1)).reshape(2 * slots, -1).T
        values, axes = np.linalg.eigh((rest + rest.T) / 2)
        chords = min(_CHORDS, 2 * slots - 1)
        larger = float(values[-chords - 1])
        slope, offset = np.zeros(2 * slots), price * self.rank
        for value, axis in zip(values[-chords:], axes[:, -chords:].T, strict=True):
            direction = np.einsum("kij,kj->ki", self.roots, axis.reshape(slots, 2)).reshape(-1)
            low, high = -self.reach_within(-direction), self.reach_within(direction)
            slope += (value - larger) * (low + high) * direction
            offset -= (value - larger) * low * high
        return float(offset) + self.reach_within(slope, (1 + larger) * self.blocks)

    def reach_within(self, slope: Vector, blocks: Matrix | None = None) -> float:
        """Bound the same function as `reach` over the vectors that pass the cut, at the best of some prices."""
        best = self.reach(slope, blocks)
        if self.cut is not None:
            score, limit = self.cut
            for multiplier in _MULTIPLIERS:  # the bound is convex in the price
                found = multiplier * limit + self.reach(slope - multiplier * score, blocks)
                if found > best:
                    break
                best = found
        return best

    def reach(self, slope: Vector, blocks: Matrix | None = None) -> float:
        """Bound ``slope . f``, plus a quadratic form of one block per slot, over all vectors of the lattice."""
        tables = []
        for k, y in enumerate(self.amounts):
            table = y * (slope[2 * k] + y * slope[2 * k + 1])
            if blocks is not None:
                (a, b), (_, d) = blocks[k]
                table = table + y * y * (a + y * (2 * b + y * d))
            table[: int(self.lattice.lows[k])] = -np.inf
            tables.append(table)
        return float(majorant_dual_bound(np.concatenate(tables), np.cumsum([0, *map(len, tables)]), self.lattice.units))


@njit(cache=True)
def majorant_dual_bound(tables: Vector, ends: Integers, units: int) -> float:
    """Bound the largest ``sum_k table_k[v_k]`` with ``sum v = units``: its Lagrangian dual, by bisection.

    Tables lie one after the other in ``tables``, table ``k`` from ``ends[k]`` on.
    """
    size = 0.0
    for value in tables:
        if np.isfinite(value):
            size = max(size, abs(value))
    low, high, best = -2 * size - 1, 2 * size + 1, np.inf
    for _ in range(50):
        price = (low + high) / 2
        total, taken = price * units, 0
        for k in range(len(ends) - 1):
            most, at = -np.inf, 0
            for v in range(ends[k + 1] - ends[k]):
                value = tables[ends[k] + v] - price * v
                if value > most:
                    most, at = value, v
            total += most
            taken += at
        best = min(best, total)
        if taken > units:
            low = price
        else:
            high = price
    return best
