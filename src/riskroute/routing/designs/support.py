"""Explicit support of an invariant design: allocations with weights.

An orbit stands for all permutations of its amounts, which may be astronomically many. A few *families* of allocations
per orbit are nearly as informative. Their weights are fitted so that the explicit information matrix is close to the
invariant one: if the invariant matrix is at most ``1 / s`` times the explicit one (in the Loewner order), no leverage
grows by more than a factor of ``1 / s``. In coordinates in which the invariant matrix is the identity, ``s`` is the
smallest eigenvalue of the explicit matrix, so the factor is known exactly. Every family has one weight, and there are
at most a few hundred families, so neither time nor memory grows with the square of the number of allocations.

A family is the set of cyclic shifts of one arrangement of an orbit's amounts over the slots. A design depends only on
second moments: how often any two amounts *meet* in any two slots. Over all shifts, every amount visits every slot
equally often, but which amounts meet at which distance depends on the arrangement. As in a difference family, several
arrangements together are as good as the orbit if their meetings are equally frequent at every distance. Swaps of two
slots of one arrangement therefore make the meetings of all arrangements more even.

Results do not depend on the processor. Arrangements are whole numbers, swaps that gain no more than a rounding error
are not made, and the weights, the unique solution of a strictly convex problem, are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import scipy
from numba import njit

from riskroute.core.arrays import Integers, Units, Vector
from riskroute.learning.design.canonical import canonical_least_norm, canonical_weights, on_canonical_grid
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups


def _orbit_size(orbit: Orbit) -> int:
    total = 1
    for amounts in orbit:
        total *= math.factorial(len(amounts))
        for repeat in np.unique(amounts, return_counts=True)[1].tolist():
            total //= math.factorial(repeat)
    return total


def _balanced_families(
    information: SymmetricInformation, orbits: Sequence[Orbit], weights: Vector, count: int, seed: int
) -> list[Units]:
    """Return about ``count`` disjoint families, each ``(n, m)`` in units, with at least one family per orbit."""
    groups = information.groups
    rng = np.random.default_rng(seed)
    shifts = _family_length(groups)
    most = [-(-_orbit_size(orbit) // shifts) for orbit in orbits]
    numbers = _shared_out(weights, count, most)
    whole = [i for i, number in enumerate(numbers.tolist()) if number == most[i]]
    first = np.concatenate([[0], np.cumsum(groups.sizes)[:-1]])
    group = np.repeat(np.arange(len(groups)), groups.sizes)
    place = np.arange(len(group)) - first[group]
    shifted = first[group] + (place - np.arange(shifts)[:, None]) % groups.sizes[group]
    fixed = [row for i in whole for row in _every_family(orbits[i], shifted, rng)]
    owner = [i for i, number in enumerate(numbers.tolist()) if i not in whole for _ in range(number)]
    amounts = np.array([*(_arranged(orbits[i], rng) for i in owner), *fixed])
    if len(owner):
        shares = np.concatenate([(weights / numbers)[owner], np.zeros(len(fixed))])
        tries = 6 * len(owner) * len(group)
        family, one = rng.integers(len(owner), size=tries), rng.integers(len(group), size=tries)
        other = first[group[one]] + rng.integers(groups.sizes[group[one]])
        level, values = _levels(information, amounts)
        _spread_meetings(level, amounts, values, shares, groups.sizes, family, one, other)
    slots = np.argsort(np.concatenate(groups.members))
    return _different(arrangement[shifted][:, slots] for arrangement in amounts)


def _arranged(orbit: Orbit, rng: np.random.Generator) -> Units:
    return np.concatenate([rng.permutation(np.array(amounts, dtype=np.int64)) for amounts in orbit])


def _every_family(orbit: Orbit, shifted: Units, rng: np.random.Generator) -> list[Units]:
    """Return arrangements of a small orbit whose families cover it: one arrangement per family."""
    size = _orbit_size(orbit)
    seen: set[bytes] = set()
    arrangements = []
    while len(seen) < size:
        arrangement = _arranged(orbit, rng)
        if arrangement.tobytes() not in seen:
            seen.update(row.tobytes() for row in arrangement[shifted])
            arrangements.append(arrangement)
    return arrangements


def _family_length(groups: SymmetryGroups) -> int:
    """Return the number of shifts: a full cycle of every group or, if that is long, of the largest group."""
    largest = int(groups.sizes.max())
    whole = math.lcm(*groups.sizes.tolist())
    return whole if whole <= 4 * largest else largest


def _different(families: Iterable[Units]) -> list[Units]:
    """Remove allocations that occur earlier in the same or a previous family."""
    seen: set[bytes] = set()
    different = []
    for points in families:
        fresh = {point.tobytes(): point for point in points if point.tobytes() not in seen}
        seen.update(fresh)
        if fresh:
            different.append(np.array(list(fresh.values())))
    return different


def _levels(information: SymmetricInformation, amounts: Units) -> tuple[Units, Vector]:
    """Return the level (index of a distinct amount) of every slot, and the whitened ``(y, y^2)`` of every level."""
    groups = information.groups
    level, values, begin, known = np.empty_like(amounts), [], 0, 0
    for size, scale, block in zip(groups.sizes.tolist(), groups.scales, information.deviations, strict=True):
        kinds, place = np.unique(amounts[:, begin : begin + size], return_inverse=True)
        level[:, begin : begin + size] = known + place.reshape(len(amounts), size)
        y = kinds / scale
        values.append(_whitened(y, y**2, block) / math.sqrt(size))
        begin, known = begin + size, known + len(kinds)
    return level, np.concatenate(values)


def _whitened(first: Vector, second: Vector, covariance: Vector) -> Vector:
    """Whiten two coordinates by elimination; a coordinate without variance becomes zero."""
    (a, b), (_, d) = covariance.tolist()
    if a <= 0:
        return np.zeros((len(first), 2))
    left = d - b * b / a
    rest = (second - b / a * first) / math.sqrt(left) if left > 1e-9 * d else np.zeros(len(first))
    return np.column_stack([first / math.sqrt(a), rest])


def _shared_out(weights: Vector, count: int, most: Sequence[int]) -> Integers:
    """Apportion ``count`` in proportion to weights: part ``k`` is at least one and at most ``most[k]``."""
    part = np.ones(len(weights), dtype=np.int64)
    while (left := count - int(part.sum())) > 0:
        free = np.array([n < limit for n, limit in zip(part.tolist(), most, strict=True)])
        if not free.any():
            break
        wanted = left * np.where(free, weights, 0.0) / float(weights[free].sum())
        extra = np.floor(wanted + 1e-9).astype(np.int64)
        if not extra.any():
            extra[np.argmax(np.round(wanted, 9))] = 1
        part = np.array([min(n, limit) for n, limit in zip((part + extra).tolist(), most, strict=True)])
    return part


@njit(cache=True)
def _spread_meetings(
    level: Units,
    amounts: Units,
    values: Vector,
    weights: Vector,
    sizes: Units,
    family: Units,
    one: Units,
    other: Units,
) -> None:
    """Swap slots ``one[k]`` and ``other[k]`` of arrangement ``family[k]``, in place, where meetings get more even.

    ``values[level]`` are the values of slots, group by group. Meetings have a constant sum over distances, so they are
    most even where their sum of squares is smallest.
    """
    total = _meetings(level, values, weights, sizes)
    longest = sizes.max()
    change, moved = np.zeros((len(sizes), longest, 2, 2)), np.zeros(2)
    for k in range(len(family)):
        j, s, t = family[k], one[k], other[k]
        if level[j, s] == level[j, t]:
            continue
        g, begin = 0, 0
        while s >= begin + sizes[g]:
            begin += sizes[g]
            g += 1
        for a in range(2):
            moved[a] = weights[j] * (values[level[j, t], a] - values[level[j, s], a])
        for h in range(len(sizes)):
            for d in range(longest):
                for a in range(2):
                    change[h, d, a, 0] = change[h, d, a, 1] = 0.0
        start, gain = 0, 0.0
        for h in range(len(sizes)):
            modulus = _common(sizes[g], sizes[h])
            for u in range(start, start + sizes[h]):
                if u not in (s, t):
                    _add(change[h, (u - start - s + begin) % modulus], moved, values[level[j, u]], 1.0)
                    _add(change[h, (u - start - t + begin) % modulus], moved, values[level[j, u]], -1.0)
            if h == g:  # both slots of a meeting belong to this group, and may meet each other
                _both_ways(change[g], modulus)
                was, now = values[level[j, s]], values[level[j, t]]
                _add(change[g, (t - s) % modulus], now, was, weights[j])
                _add(change[g, (t - s) % modulus], was, now, -weights[j])
                _add(change[g, (s - t) % modulus], was, now, weights[j])
                _add(change[g, (s - t) % modulus], now, was, -weights[j])
            gain += (1.0 if h == g else 2.0) * modulus * _lowered(total[g, h], change[h], modulus)
            start += sizes[h]
        if gain > 1e-9:  # sums of squares are about one, so a smaller gain is a rounding error
            level[j, s], level[j, t] = level[j, t], level[j, s]
            amounts[j, s], amounts[j, t] = amounts[j, t], amounts[j, s]
            for h in range(len(sizes)):
                modulus = _common(sizes[g], sizes[h])
                for d in range(modulus):
                    for a in range(2):
                        for b in range(2):
                            total[g, h, d, a, b] += change[h, d, a, b]
                            if h != g:
                                total[h, g, -d % modulus, b, a] += change[h, d, a, b]


@njit(cache=True)
def _meetings(level: Units, values: Vector, weights: Vector, sizes: Units) -> Vector:
    """Return weighted sums of ``value(s) value(t)'`` over slots of two groups, by distance: ``(G, G, d, 2, 2)``.

    Shifts have the period of the group's size, so distances count modulo the greatest common divisor of both sizes.
    """
    count = len(sizes)
    total = np.zeros((count, count, sizes.max(), 2, 2))
    for j in range(len(level)):
        begin = 0
        for g in range(count):
            start = 0
            for h in range(count):
                modulus = _common(sizes[g], sizes[h])
                for s in range(sizes[g]):
                    for t in range(sizes[h]):
                        if g != h or s != t:
                            one, other = values[level[j, begin + s]], values[level[j, start + t]]
                            _add(total[g, h, (t - s) % modulus], one, other, weights[j])
                start += sizes[h]
            begin += sizes[g]
    return total


@njit(cache=True)
def _common(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@njit(cache=True)
def _add(matrix: Vector, one: Vector, other: Vector, weight: float) -> None:
    """Add ``weight one other'`` to a matrix ``(2, 2)``."""
    for a in range(2):
        for b in range(2):
            matrix[a, b] += weight * one[a] * other[b]


@njit(cache=True)
def _both_ways(change: Vector, modulus: int) -> None:
    """Add to every distance the transpose of the opposite distance."""
    for d in range(modulus // 2 + 1):
        back = -d % modulus
        for a in range(2):
            change[d, a, a] = change[back, a, a] = change[d, a, a] + change[back, a, a]
        rising, falling = change[d, 0, 1] + change[back, 1, 0], change[d, 1, 0] + change[back, 0, 1]
        change[d, 0, 1] = change[back, 1, 0] = rising
        change[d, 1, 0] = change[back, 0, 1] = falling


@njit(cache=True)
def _lowered(total: Vector, change: Vector, modulus: int) -> float:
    """Return how much the sum of squares of ``total`` decreases if ``change`` is added."""
    gain = 0.0
    for d in range(modulus):
        for a in range(2):
            for b in range(2):
                gain -= (2 * total[d, a, b] + change[d, a, b]) * change[d, a, b]
    return gain


def explicit_support(
    information: SymmetricInformation, orbits: list[Orbit], weights: Vector, limit: int, enough: float
) -> tuple[Units, Vector, float]:
    """Return allocations ``(n, m)`` in units, ``n <= limit``, their weights, and the factor by which leverages grow.

    The number of families grows until the factor is at most ``enough``. If ``limit`` prevents that, many more families
    are built and the best of them selected.
    """
    used = np.flatnonzero(weights > 1e-9)
    kept, shares = [orbits[i] for i in used], weights[used]
    allowed = min(limit, 30_000)  # more allocations would take too long; the growth factor includes this loss
    shifts = _family_length(information.groups)
    most = allowed // shifts
    every = sum(-(-_orbit_size(orbit) // shifts) for orbit in kept)
    root = information.explicit_root()
    best: tuple[Units, Vector, float] | None = None
    count = len(used)
    while best is None or count <= most:
        families = _balanced_families(information, kept, shares, count, seed=count)
        found = _fitted(information.groups, families, root, allowed)
        if best is None or found[2] < best[2]:
            best = found
        if best[2] <= enough or count >= every:
            break
        count = math.ceil(1.5 * count)
    for multiple in (2, 8) if allowed == limit and best[2] > enough else ():
        families = _balanced_families(information, kept, shares, multiple * max(most, 1), seed=0)
        chosen = _exact(information, families, most)
        found = _fitted(information.groups, families if chosen is None else chosen, root, allowed)
        if found[2] < best[2]:
            best = found
        if chosen is not None:
            break
    return best


def _exact(information: SymmetricInformation, families: list[Units], most: int) -> list[Units] | None:
    """Return about ``most`` families that match the invariant matrix exactly with some weights; None if none do."""
    groups = information.groups
    matrix = information.explicit()
    size = np.sqrt(np.diag(matrix))
    size[size == 0] = 1.0
    firsts = np.array([slots[0] for slots in groups.members])
    firsts = np.concatenate([firsts, firsts + len(size) // 2])
    # the rows of the first slot of each group determine a shift-invariant matrix
    rows = np.ones((len(families), len(firsts) * len(size) + 1))  # the last column makes the weights sum to one
    for k, points in enumerate(families):
        features = _features(groups, points) / size
        rows[k, :-1] = (features[:, firsts].T @ features).reshape(-1) / len(points)
    target = np.append((matrix / np.outer(size, size))[firsts].reshape(-1), 1.0)
    shares = canonical_least_norm(rows, target)
    if shares is None:
        return None
    shares = canonical_weights(np.ascontiguousarray(rows.T), on_canonical_grid(shares), most)
    return [families[k] for k in np.flatnonzero(shares > 0)]


def _fitted(groups: SymmetryGroups, families: list[Units], root: Vector, limit: int) -> tuple[Units, Vector, float]:
    """Return at most ``limit`` allocations of some families, the best-fitting weights, and the growth factor."""
    rank = root.shape[1]
    upper = np.triu_indices(rank)
    twice = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))  # entries off the diagonal count twice
    rows = np.empty((len(families), len(upper[0])))
    for k, points in enumerate(families):
        white = _features(groups, points) @ root
        rows[k] = (white.T @ white / len(points))[upper] * twice
    gram, own = rows @ rows.T, rows[:, upper[0] == upper[1]].sum(axis=1)
    lengths = np.array([len(points) for points in families])
    kept = np.arange(len(families))
    while True:
        shares = _closest(gram[np.ix_(kept, kept)], own[kept])
        kept, shares = kept[shares > 0], shares[shares > 0]
        if lengths[kept].sum() <= limit:
            break
        heaviest = kept[np.argsort(-np.round(shares, 9), kind="stable")]
        kept = np.sort(heaviest[np.cumsum(lengths[heaviest]) <= limit])
    of_each = np.zeros(len(families))
    of_each[kept] = shares
    matrix = np.zeros((rank, rank))
    matrix[upper] = (of_each @ rows) / twice
    smallest = float(np.linalg.eigvalsh(matrix, UPLO="U")[0])
    points = np.concatenate([families[k] for k in kept])
    weights = np.repeat(shares / lengths[kept], lengths[kept])
    return points, weights / weights.sum(), 1 / smallest if smallest > 1e-9 else math.inf


def _closest(gram: Vector, own: Vector) -> Vector:
    """Return the minimiser ``w >= 0`` of ``w' gram w / 2 - own . w``, scaled to sum to one."""
    ridged = gram + np.diag(1e-7 * np.diag(gram))  # the small ridge makes the weights unique
    lower = np.linalg.cholesky(ridged)
    weights, _ = scipy.optimize.nnls(lower.T, np.linalg.solve(lower, own))
    return on_canonical_grid(weights / weights.sum(), 2.0**40)  # this grid is fine enough for any tolerance


def _features(groups: SymmetryGroups, allocations: Units) -> Vector:
    """Return features ``(y, y^2)`` scaled by group, ``(n, 2 m)``."""
    y = allocations / groups.slot_scales
    return np.hstack([y, y**2])
