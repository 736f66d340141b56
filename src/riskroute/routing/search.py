"""Searching allocations under several separable cuts: listing them, walking among them at random, descending.

Amounts are in units. A cut is a cost per unit and per squared unit of every slot, and a limit on the sum; several
cuts are arrays ``alphas`` and ``betas`` ``(L, m)`` and ``limits`` ``(L,)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from riskroute.routing.counting import Lattice
from riskroute.routing.separable import convolve, tabulate

Vector = NDArray[np.float64]
Units = NDArray[np.int64]

VISITS = 60_000_000
"""Steps of an enumeration before it gives up."""

MEMBER_SLACK = 1e-12
"""Relative room in a limit, for rounding: a member may sit on it."""

_SLACK = 1e-9  # scores are sums of many terms: the enumeration prunes with more room, and an exact test follows


def enumerate_all(lattice: Lattice) -> Units:
    """All vectors ``(n, m)`` of the lattice, in lexicographic order."""
    return np.asarray(enumerate_within(lattice, [], lattice.size, visits=np.iinfo(np.int64).max))


def enumerate_within(
    lattice: Lattice, cuts: list[tuple[Vector, Vector, float]], limit: int, visits: int = VISITS
) -> Units | None:
    """All vectors ``(n, m)`` of the lattice that pass the cuts, in lexicographic order; None if more than ``limit``.

    ``cuts`` are (cost per unit, cost per squared unit, limit). A depth-first walk that turns back where even the
    cheapest completion breaks a cut.
    """
    slots = len(lattice.lows)
    alphas, betas, limits = stacked(cuts, slots, _SLACK)
    suffix = completions(lattice, alphas, betas)
    arguments = alphas, betas, limits, suffix, lattice.lows, lattice.highs, lattice.units
    count = visit(*arguments, np.zeros((0, slots), dtype=np.int64), limit, visits)
    if count < 0:
        return None
    rows = np.empty((count, slots), dtype=np.int64)
    visit(*arguments, rows, limit, visits)
    return rows


def stacked(cuts: Sequence[tuple[Vector, Vector, float]], slots: int, slack: float) -> tuple[Vector, Vector, Vector]:
    """Cuts as arrays ``(L, m)``, ``(L, m)`` and ``(L,)``, their limits relaxed by a relative slack."""
    alphas = np.array([alpha for alpha, _, _ in cuts]).reshape(len(cuts), slots)
    betas = np.array([beta for _, beta, _ in cuts]).reshape(len(cuts), slots)
    return alphas, betas, np.array([limit + slack * max(1.0, abs(limit)) for _, _, limit in cuts])


def completions(lattice: Lattice, alphas: Vector, betas: Vector) -> Vector:
    """Least cost at which the slots from ``k`` on can take ``n`` units, for every cut: ``(L, m + 1, units + 1)``."""
    slots = len(lattice.lows)
    costs = np.full((len(alphas), slots + 1, lattice.units + 1), np.inf)
    costs[:, slots, 0] = 0.0
    for i, (alpha, beta) in enumerate(zip(alphas, betas, strict=True)):
        tables = tabulate(alpha, beta, lattice.lows, lattice.highs, lattice.units)
        for k in range(slots - 1, -1, -1):
            costs[i, k] = -convolve(tables[k], -costs[i, k + 1], lattice.units)[0]
    return costs


def count_within(
    lattice: Lattice, cuts: Sequence[tuple[Vector, Vector, float]], visits: int = 5 * VISITS
) -> int | None:
    """Exact number of vectors of the lattice that pass the cuts; None if it would take too much work.

    The same walk as the enumeration, but where even the dearest completion passes every cut, all completions are
    counted at once. Only the surface of the set is walked, so sets far too large to list can be counted while slots
    are few.
    """
    if lattice.size >= 2**63:
        return None
    slots = len(lattice.lows)
    alphas, betas, limits = stacked(cuts, slots, MEMBER_SLACK)
    cheapest, dearest = completions(lattice, alphas, betas), -completions(lattice, -alphas, -betas)
    ways = lattice.ways()
    count = count_surface(
        alphas, betas, limits, cheapest, dearest, ways, lattice.lows, lattice.highs, lattice.units, visits
    )
    return None if count < 0 else int(count)


@njit(cache=True)
def count_surface(
    alphas: Vector,
    betas: Vector,
    limits: Vector,
    cheapest: Vector,
    dearest: Vector,
    ways: Units,
    lows: Units,
    highs: Units,
    units: int,
    visits: int,
) -> int:
    """Count the members; -1 if it takes more than ``visits`` steps. ``ways[k, n]``: completions by the slots from k."""
    slots = len(lows)
    n_cuts = len(limits)
    chosen = lows - 1
    left = np.zeros(slots + 1, dtype=np.int64)
    left[0] = units
    spent = np.zeros((slots + 1, n_cuts))
    count = 0
    steps = 0
    k = 0
    while k >= 0:
        steps += 1
        if steps > visits:
            return -1
        chosen[k] += 1
        after = left[k] - chosen[k]
        if chosen[k] > highs[k] or after < 0:
            k -= 1
            continue
        some = ways[k + 1, after] > 0
        every = some
        for i in range(n_cuts):
            if some:
                spent[k + 1, i] = spent[k, i] + alphas[i, k] * chosen[k] + betas[i, k] * chosen[k] * chosen[k]
                some = spent[k + 1, i] + cheapest[i, k + 1, after] <= limits[i]
                every = every and spent[k + 1, i] + dearest[i, k + 1, after] <= limits[i]
        if not some:
            continue
        if every or k == slots - 1:
            count += ways[k + 1, after]
            continue
        k += 1
        left[k] = after
        chosen[k] = lows[k] - 1
    return count


@njit(cache=True)
def visit(
    alphas: Vector,
    betas: Vector,
    limits: Vector,
    suffix: Vector,
    lows: Units,
    highs: Units,
    units: int,
    rows: Units,
    limit: int,
    visits: int,
) -> int:
    """Count the members and write them into ``rows`` as far as they fit; -1 if more than ``limit`` or too much work."""
    slots = len(lows)
    n_cuts = len(limits)
    room_low = np.zeros(slots + 1, dtype=np.int64)  # least and most that the slots from k on can take
    room_high = np.zeros(slots + 1, dtype=np.int64)
    for k in range(slots - 1, -1, -1):
        room_low[k] = room_low[k + 1] + lows[k]
        room_high[k] = room_high[k + 1] + highs[k]
    chosen = np.zeros(slots, dtype=np.int64)
    left = np.zeros(slots + 1, dtype=np.int64)
    left[0] = units
    spent = np.zeros((slots + 1, n_cuts))
    count = 0
    steps = 0
    k = 0
    chosen[0] = max(lows[0], units - room_high[1]) - 1
    while k >= 0:
        steps += 1
        if steps > visits:
            return -1
        chosen[k] += 1
        if chosen[k] > highs[k] or chosen[k] > left[k] - room_low[k + 1]:
            k -= 1
            continue
        after = left[k] - chosen[k]
        fits = after <= room_high[k + 1]
        for i in range(n_cuts):
            spent[k + 1, i] = spent[k, i] + alphas[i, k] * chosen[k] + betas[i, k] * chosen[k] * chosen[k]
            fits = fits and spent[k + 1, i] + suffix[i, k + 1, after] <= limits[i]
        if not fits:
            continue
        if k == slots - 1:
            if count >= limit:
                return -1
            if count < len(rows):
                rows[count] = chosen
            count += 1
            continue
        k += 1
        left[k] = after
        chosen[k] = max(lows[k], after - room_high[k + 1]) - 1
    return count


@njit(cache=True)
def allowed(
    scores: Vector, alphas: Vector, betas: Vector, limits: Vector, units: Units, i: int, j: int, amount: int
) -> bool:
    """Whether moving ``amount`` from slot ``i`` to slot ``j`` keeps every cut; ``scores`` are the current ones."""
    for c in range(len(limits)):
        a, b = units[i], units[j]
        change = -alphas[c, i] * amount + betas[c, i] * ((a - amount) * (a - amount) - a * a)
        change += alphas[c, j] * amount + betas[c, j] * ((b + amount) * (b + amount) - b * b)
        if scores[c] + change > limits[c]:
            return False
    return True


@njit(cache=True)
def cut_scores(alphas: Vector, betas: Vector, units: Units) -> Vector:
    """Scores of one allocation under all cuts."""
    scores = np.zeros(len(alphas))
    for c in range(len(alphas)):
        for k in range(len(units)):
            scores[c] += alphas[c, k] * units[k] + betas[c, k] * units[k] * units[k]
    return scores


@njit(cache=True)
def walk(
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
    """``count`` states of a random walk of exchanges, ``thin`` steps apart, after ``burn_in`` steps.

    A step picks two slots and an amount (log-uniform, whatever the state) and moves it if bounds and cuts allow; since
    the way back is as likely, the walk is in the long run uniform on all members that exchanges reach from the start.
    """
    slots = len(start)
    units = start.copy()
    scores = cut_scores(alphas, betas, units)
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
            if allowed(scores, alphas, betas, limits, units, i, j, amount):
                units[i] -= amount
                units[j] += amount
                scores = cut_scores(alphas, betas, units)
        drawn[n] = units
    return drawn


@njit(cache=True)
def descend(
    start: Units, alpha: Vector, beta: Vector, alphas: Vector, betas: Vector, limits: Vector, lows: Units, highs: Units
) -> Units:
    """Move 1, 2, 4 .. units between two slots while that lowers ``sum alpha v + beta v^2`` and keeps the cuts."""
    slots = len(start)
    units = start.copy()
    better = True
    while better:
        better = False
        scores = cut_scores(alphas, betas, units)
        best, best_i, best_j, best_amount = -1e-12, -1, -1, 0
        for i in range(slots):
            for j in range(slots):
                amount = 1
                while i != j and units[i] - amount >= lows[i] and units[j] + amount <= highs[j]:
                    a, b = units[i], units[j]
                    change = -alpha[i] * amount + beta[i] * ((a - amount) * (a - amount) - a * a)
                    change += alpha[j] * amount + beta[j] * ((b + amount) * (b + amount) - b * b)
                    if change < best and allowed(scores, alphas, betas, limits, units, i, j, amount):
                        best, best_i, best_j, best_amount = change, i, j, amount
                    amount *= 2
        if best_i >= 0:
            units[best_i] -= best_amount
            units[best_j] += best_amount
            better = True
    return units
