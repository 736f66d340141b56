"""List, count, sample and optimise the allocations that pass separable cuts.

Amounts are in units. A cut limits a total cost, with a cost per unit and per squared unit in every slot. ``L`` cuts
are arrays ``alphas`` and ``betas`` ``(L, m)`` and ``limits`` ``(L,)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Units, Vector
from riskroute.routing.lattice import Lattice
from riskroute.routing.separable import check_separable_size, convolve_separable, tabulate_separable

MEMBER_SLACK = 1e-12  # relative slack of a limit for rounding errors: members may lie exactly on the limit

Cut = tuple[Vector, Vector, float]


class CutLattice:
    """Vectors of a lattice that pass separable cuts ``(cost per unit, cost per squared unit, limit)``."""

    def __init__(self, lattice: Lattice, cuts: Sequence[Cut] = ()) -> None:
        self.lattice = lattice
        slots = len(lattice.lows)
        self.alphas = np.array([alpha for alpha, _, _ in cuts]).reshape(len(cuts), slots)
        self.betas = np.array([beta for _, beta, _ in cuts]).reshape(len(cuts), slots)
        self.limits = np.array([limit for _, _, limit in cuts], dtype=np.float64)

    def _relaxed(self, slack: float) -> Vector:
        """Return the limits, relaxed by a relative slack for rounding."""
        return self.limits + slack * np.maximum(1.0, np.abs(self.limits))

    def listed(self, limit: int, visits: int = 60_000_000) -> Units | None:
        """Return all vectors ``(n, m)`` in lexicographic order; None above ``limit`` vectors or ``visits`` steps.

        Limits have a relative slack of 1e-9, so the caller must test the vectors exactly.
        """
        slots = len(self.lattice.lows)
        arguments = self._search_arguments(1e-9)
        count = _traverse(*arguments, np.zeros((0, slots), dtype=np.int64), limit, visits)
        if count < 0:
            return None
        rows = np.empty((count, slots), dtype=np.int64)
        return rows if count == 0 or _traverse(*arguments, rows, limit, visits) == count else None

    def count(self, visits: int = 300_000_000) -> int | None:
        """Return the exact number of vectors; None above ``visits`` steps, or if the lattice has 2^63 vectors or more.

        The search visits only the boundary of the set. With few slots it counts sets that are far too large to list.
        """
        if self.lattice.size >= 2**63:
            return None
        nothing = np.zeros((0, len(self.lattice.lows)), dtype=np.int64)
        count = _traverse(*self._search_arguments(MEMBER_SLACK), nothing, 2**63 - 1, visits)
        return None if count < 0 else int(count)

    def random_walk(self, start: Units, count: int, burn_in: int, thin: int, rng: np.random.Generator) -> Units:
        """Return ``count`` states of a random walk over the vectors, ``thin`` steps apart, after ``burn_in`` steps.

        A step draws two slots and an amount (log-uniform, independent of the state), and moves the amount from one slot
        to the other if bounds and cuts allow. Proposals are symmetric, so the stationary distribution is uniform on the
        vectors that such moves connect.
        """
        limits, lattice = self._relaxed(MEMBER_SLACK), self.lattice
        drawn: Units = _random_walk(
            start, self.alphas, self.betas, limits, lattice.lows, lattice.highs, count, burn_in, thin, rng
        )
        return drawn

    def descend(self, start: Units, alpha: Vector, beta: Vector) -> Units:
        """Lower ``sum alpha v + beta v^2`` within the cuts by moving 1, 2, 4 .. units between two slots at a time."""
        limits, lattice = self._relaxed(MEMBER_SLACK), self.lattice
        end: Units = _descend(start, alpha, beta, self.alphas, self.betas, limits, lattice.lows, lattice.highs)
        return end

    def _search_arguments(
        self, slack: float
    ) -> tuple[Vector, Vector, Vector, Vector, Vector, Units, Units, Units, int]:
        lattice, alphas, betas = self.lattice, self.alphas, self.betas
        cheapest = _cheapest_completions(lattice, alphas, betas)
        costliest = -_cheapest_completions(lattice, -alphas, -betas)
        bounds = lattice.lows, lattice.highs, lattice.units
        return alphas, betas, self._relaxed(slack), cheapest, costliest, lattice.ways, *bounds


def _cheapest_completions(lattice: Lattice, alphas: Vector, betas: Vector) -> Vector:
    """Return the least cost of ``n`` units in the slots from ``k`` on, for every cut: ``(L, m + 1, units + 1)``."""
    slots = len(lattice.lows)
    check_separable_size(slots, lattice.units)
    costs = np.full((len(alphas), slots + 1, lattice.units + 1), np.inf)
    costs[:, slots, 0] = 0.0
    for i, (alpha, beta) in enumerate(zip(alphas, betas, strict=True)):
        tables = tabulate_separable(alpha, beta, lattice.lows, lattice.highs, lattice.units)
        for k in range(slots - 1, -1, -1):
            costs[i, k] = -convolve_separable(tables[k], -costs[i, k + 1], lattice.units)[0]
    return costs


@njit(cache=True)
def _traverse(
    alphas: Vector,
    betas: Vector,
    limits: Vector,
    cheapest: Vector,
    costliest: Vector,
    ways: Units,
    lows: Units,
    highs: Units,
    units: int,
    rows: Units,
    limit: int,
    visits: int,
) -> int:
    """Search depth-first for the vectors that pass all cuts; return their number, -1 above ``limit`` or ``visits``.

    Write vectors to ``rows`` unless it is empty. Backtrack where even the cheapest completion breaks a cut; without
    ``rows``, count all ``ways[k, n]`` completions at once where even the costliest passes.
    """
    slots = len(lows)
    n_cuts = len(limits)
    chosen = lows - 1
    left = np.zeros(slots + 1, dtype=np.int64)
    left[0] = units
    spent = np.zeros((slots + 1, n_cuts))
    count = 0
    k = 0
    for _ in range(visits):
        chosen[k] += 1
        after = left[k] - chosen[k]
        if chosen[k] > highs[k] or after < 0:
            k -= 1
            if k < 0:
                return count
            continue
        some = ways[k + 1, after] > 0
        every = some
        for i in range(n_cuts):
            if some:
                spent[k + 1, i] = spent[k, i] + alphas[i, k] * chosen[k] + betas[i, k] * chosen[k] * chosen[k]
                some = spent[k + 1, i] + cheapest[i, k + 1, after] <= limits[i]
                every = every and spent[k + 1, i] + costliest[i, k + 1, after] <= limits[i]
        if not some:
            continue
        if k == slots - 1 or (every and len(rows) == 0):
            if ways[k + 1, after] > limit - count:
                return -1
            if len(rows) > 0:
                for j in range(slots):
                    rows[count, j] = chosen[j]
            count += ways[k + 1, after]
            continue
        k += 1
        left[k] = after
        chosen[k] = lows[k] - 1
    return -1


@register_jitable
def _keeps_cuts(
    scores: Vector, alphas: Vector, betas: Vector, limits: Vector, units: Units, i: int, j: int, amount: int
) -> bool:
    """Return whether moving ``amount`` from slot ``i`` to ``j`` keeps every cut; ``scores`` belong to ``units``."""
    for c in range(len(limits)):
        a, b = units[i], units[j]
        change = -alphas[c, i] * amount + betas[c, i] * ((a - amount) * (a - amount) - a * a)
        change += alphas[c, j] * amount + betas[c, j] * ((b + amount) * (b + amount) - b * b)
        if scores[c] + change > limits[c]:
            return False
    return True


@register_jitable
def _cut_scores(alphas: Vector, betas: Vector, units: Units) -> Vector:
    scores = np.zeros(len(alphas))
    for c in range(len(alphas)):
        for k in range(len(units)):
            scores[c] += alphas[c, k] * units[k] + betas[c, k] * units[k] * units[k]
    return scores


@njit(cache=True)
def _random_walk(
    start: Units,
    alphas: Vector,
    betas: Vector,
    limits: Vector,
    lows: Units,
    highs: Units,
    count: int,
    burn_in: int,
    thin: int,
    rng: np.random.Generator,
) -> Units:
    slots = len(start)
    units = start.copy()
    scores = _cut_scores(alphas, betas, units)
    drawn = np.empty((count, slots), dtype=np.int64)
    largest = np.log(max(units.sum(), 1) + 1.0)
    for n in range(count):
        for _ in range(burn_in if n == 0 else thin):
            if slots == 1:
                break
            i = int(rng.random() * slots)
            j = int(rng.random() * (slots - 1))
            j += j >= i
            amount = int(np.exp(rng.random() * largest))
            if units[i] - amount < lows[i] or units[j] + amount > highs[j]:
                continue
            if _keeps_cuts(scores, alphas, betas, limits, units, i, j, amount):
                units[i] -= amount
                units[j] += amount
                scores = _cut_scores(alphas, betas, units)
        for k in range(slots):
            drawn[n, k] = units[k]
    return drawn


@njit(cache=True)
def _descend(
    start: Units, alpha: Vector, beta: Vector, alphas: Vector, betas: Vector, limits: Vector, lows: Units, highs: Units
) -> Units:
    slots = len(start)
    units = start.copy()
    better = True
    while better:
        better = False
        scores = _cut_scores(alphas, betas, units)
        best, best_i, best_j, best_amount = -1e-12, -1, -1, 0
        for i in range(slots):
            for j in range(slots):
                amount = 1
                while i != j and units[i] - amount >= lows[i] and units[j] + amount <= highs[j]:
                    a, b = units[i], units[j]
                    change = -alpha[i] * amount + beta[i] * ((a - amount) * (a - amount) - a * a)
                    change += alpha[j] * amount + beta[j] * ((b + amount) * (b + amount) - b * b)
                    if change < best and _keeps_cuts(scores, alphas, betas, limits, units, i, j, amount):
                        best, best_i, best_j, best_amount = change, i, j, amount
                    amount *= 2
        if best_i >= 0:
            units[best_i] -= best_amount
            units[best_j] += best_amount
            better = True
    return units
