"""Designs with proven leverage bounds over allocation sets of any size.

A design takes three steps. `symmetry` finds optimal weights on the known orbits (allocations up to permutations of
equal slots). `certificate` proves a bound for every allocation. If it finds an allocation that exceeds the bound, its
orbit is added and the first step is repeated. `support` selects a few allocations with nearly the same information. The
bound returned is the proven bound times the factor by which leverages may grow in the last step.

Sets with many kinds of slots have next to no symmetry. A search then finds candidates: allocations that fill some slots
and spread the rest evenly over others, and allocations farthest along the gradient of the leverage. The leverage is
convex, so a step along its gradient never lowers it. A design on these candidates is close to optimal on the whole set;
its proven bound is looser (`certify_by_majorant`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.core.errors import DesignError
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.wide import few_wide_rows, wide_design
from riskroute.routing.designs.certificate import certify, certify_by_majorant
from riskroute.routing.designs.support import explicit_support
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups, solve_orbit_design
from riskroute.routing.lattice import Lattice
from riskroute.routing.separable import (
    greedy_separable,
    maximise_tables,
    minimise_separable_one_concave,
    tabulate_separable,
)

OUTSIDE = 1e-6  # features are of order one, so a component above this is not a rounding error
MOST_KINDS = 4  # with more kinds of slots (slots with equal bounds), symmetry reduces the problem too little


def large_design(lattice: Lattice, tolerance: float) -> Design:
    """Return a design over all vectors of the lattice; its handles are vectors of units.

    The target is ``bound <= (1 + tolerance) * rank``; ``bound`` may be larger if slots have many different bounds.
    """
    # the sum is fixed, so amounts above the minimums span the same features, and more slots are identical
    lows = np.maximum(lattice.lows, lattice.units - (lattice.highs.sum() - lattice.highs))
    free = lattice.units - int(lows.sum())
    if free == 0:  # a single vector
        return Design(lows[None, :].copy(), np.ones(1), 1.0, 1)
    above = Lattice(free, np.zeros_like(lows), np.minimum(lattice.highs - lows, free))
    found = _design_from_zero(above, tolerance)
    return Design(found.actions + lows, found.weights, found.bound, found.rank)


def _design_from_zero(lattice: Lattice, tolerance: float) -> Design:
    groups = SymmetryGroups.of(lattice.units, lattice.lows, lattice.highs)
    if len(groups) > MOST_KINDS and (found := _asymmetric_design(lattice, tolerance)) is not None:
        return found
    orbits = _first_orbits(lattice, groups)
    best: tuple[float, SymmetricInformation, list[Orbit], Floats] | None = None
    for _ in range(60):
        weights = solve_orbit_design(groups, orbits, tolerance / 100)
        information = SymmetricInformation.of(groups, groups.moments(orbits), weights)
        stray = _outside(information, lattice)
        if stray is not None:
            orbits = sorted({*orbits, stray})
            continue
        target = information.rank * (1 + tolerance / 2)
        certificate = certify(information, target, max_parts=300)
        if best is None or certificate.bound < best[0]:
            best = certificate.bound, information, orbits, weights
        known = set(orbits)
        refuting = {orbit for leverage, orbit in certificate.found if leverage > information.rank * (1 + tolerance / 8)}
        if certificate.bound <= target or not refuting - known:
            break
        orbits = sorted(known | refuting)
    if best is None:
        raise DesignError("no design: 60 rounds of search found no orbits that span every allocation")
    bound, information, orbits, weights = best
    rank = information.rank
    limit = rank * (rank + 1) // 2
    points, fitted, price = explicit_support(information, orbits, weights, limit, 1 + tolerance / 4)
    if not np.isfinite(price):
        raise DesignError(f"no design: no {limit} allocations were found that span all {rank} dimensions")
    return Design(points, fitted, bound * price * (1 + 1e-9), rank)


def _outside(information: SymmetricInformation, lattice: Lattice) -> Orbit | None:
    """Return an orbit that the information matrix does not span; None if all leverages are finite."""
    groups = information.groups
    values, vectors = np.linalg.eigh(information.explicit())
    unseen = vectors[:, : len(values) - information.rank]
    slots, scale = len(lattice.lows), groups.slot_scales
    for direction in np.concatenate([unseen.T, -unseen.T]):
        alpha, beta = -direction[:slots] / scale, -direction[slots:] / scale**2
        tables = tabulate_separable(alpha, beta, lattice.lows, lattice.highs, lattice.units)
        if sum(float(table.max()) for table in tables) <= OUTSIDE:  # even without the constraint on the sum
            continue
        if (lattice.highs >= lattice.units).all():
            units = minimise_separable_one_concave(alpha, beta, lattice.units, lattice.lows)[0]
        else:
            units = maximise_tables(tables, lattice.units)[1]
        if -float(alpha @ units + beta @ units**2) > OUTSIDE:
            return groups.orbit(units)
    return None


def _first_orbits(lattice: Lattice, groups: SymmetryGroups) -> list[Orbit]:
    """Return initial orbits: some that fill a few slots and spread the rest evenly over others, and random ones.

    Under an invariant design, the first kind has the largest leverages. A slot's own term is convex, then concave, then
    convex again in its amount, so the amounts of a maximum are equal or at an end of their range.
    """
    rng = np.random.default_rng(0)
    slots = len(lattice.lows)
    orbits = {groups.orbit(_any_member(lattice, rng)) for _ in range(8 + 4 * len(groups))}
    orders = [np.arange(slots), np.arange(slots)[::-1]]
    if len(groups) > 1:
        orders += [rng.permutation(slots) for _ in range(8 * len(groups))]
    for order in orders:
        for count in _counts(1, slots):
            cost = np.full(slots, 10.0)  # the first ``count`` slots share evenly, the others take what exceeds caps
            cost[order[:count]] = 0.0
            steep = np.where(cost == 0, 1.0 / lattice.units, 10.0)
            orbits.add(groups.orbit(greedy_separable(100 * cost, steep, lattice.units, lattice.lows, lattice.highs)))
    if len(groups) == 1:
        orbits |= {(amounts,) for amounts in _full_and_even(lattice.units, slots, groups.highs[0])}
    return sorted(orbits)


def _any_member(lattice: Lattice, rng: np.random.Generator) -> Units:
    """Draw a vector of a lattice without minimums: slots in random order take random parts of the remainder."""
    chosen = np.zeros_like(lattice.highs)
    left, room = lattice.units, int(np.minimum(lattice.highs, lattice.units).sum())
    for k in rng.permutation(len(chosen)):
        high = min(int(lattice.highs[k]), lattice.units)
        room -= high
        chosen[k] = rng.integers(max(left - room, 0), min(high, left) + 1)
        left -= int(chosen[k])
    return chosen


def _full_and_even(units: int, slots: int, cap: int) -> Iterator[tuple[int, ...]]:
    """Yield allocations with some slots at the cap, the rest spread evenly over others, and zero elsewhere."""
    for full in _counts(0, min(units // cap, slots)):
        left = units - full * cap
        for count in _counts(1, slots - full):
            if left <= count * cap:
                even = [left // count + (k < left % count) for k in range(count)]
                yield tuple([cap] * full + even + [0] * (slots - full - count))


def _counts(first: int, last: int) -> list[int]:
    """Return the first 13 integers from ``first`` to ``last``, and about 13 evenly spaced ones."""
    some = np.linspace(first, max(first, last), 13).tolist()
    return sorted({*range(first, min(last, first + 12) + 1), *(round(k) for k in some)})


def _asymmetric_design(lattice: Lattice, tolerance: float) -> Design | None:
    """Return a design on candidates, with a leverage bound for every vector; None if they do not span all features."""
    highs, units = np.minimum(lattice.highs, lattice.units), lattice.units
    scale = np.maximum(highs, 1).astype(np.float64)
    tolerance = max(tolerance, 0.1)  # a tighter design is not worth its time: candidates are only a sample
    rng = np.random.default_rng(0)
    candidates = np.unique(_first_candidates(highs, units, rng), axis=0)
    weights, goal = np.ones(len(candidates)), 0.5  # goal: excess of the first, rough design
    for left in reversed(range(10)):
        features = np.hstack([candidates / scale, (candidates / scale) ** 2])
        found = wide_design(features, goal, weights)
        used = found.weights > 0
        support = candidates[used]
        starts = np.concatenate([support, _first_candidates(highs, units, rng)])
        climbed, levers = _climb(starts, found.form(), scale, highs, units)
        highest = float(levers.max()) / found.rank - 1
        if left == 0 or (highest <= tolerance and goal <= tolerance):
            break
        higher = climbed[levers > found.rank * (1 + tolerance / 2)]
        candidates, place = np.unique(np.concatenate([support, higher]), axis=0, return_index=True)
        weights = np.concatenate([found.weights[used], np.zeros(len(higher))])[place]
        goal = max(tolerance / 2, min(goal, highest / 8))
    index, chosen, whitening = few_wide_rows(features, found)
    if whitening.shape[1] < int(np.minimum(highs, 2).sum()):
        return None
    bound = certify_by_majorant(lattice, whitening / np.concatenate([scale, scale**2])[:, None])
    return Design(candidates[index], chosen, bound, whitening.shape[1])


def _first_candidates(highs: Units, units: int, rng: np.random.Generator) -> Units:
    """Return vectors that fill some slots and spread the rest over others, some of them also with one unit moved."""
    slots, patterns = len(highs), 6
    rows = []
    for k in range(slots):
        for pattern in range(patterns):
            order = rng.permutation(slots)
            order = np.concatenate([[k], order[order != k]])
            full = int(rng.integers(0, slots)) if pattern % 2 else pattern // 2
            even = int(rng.integers(1, slots + 1)) if pattern % 3 else int(rng.integers(1, 5))
            rows.append(_filled(order, full, even, highs, units))
    moved = [row.copy() for row in rows[:: patterns // 2]]
    for row in moved:
        i, j = rng.integers(slots, size=2)
        amount = min(1, int(row[i]), int(highs[j] - row[j]))
        row[i] -= amount
        row[j] += amount
    return np.array([*rows, *moved])


@njit(cache=True)
def _filled(order: Units, full: int, even: int, highs: Units, units: int) -> Units:
    """Fill the first ``full`` slots of ``order``, then spread the rest evenly over the next ``even``, then over all."""
    chosen = np.zeros(len(highs), dtype=np.int64)
    left = units
    for k in order[:full]:
        chosen[k] = min(highs[k], left)
        left -= chosen[k]
    for last in (min(full + even, len(order)), len(order)):
        while left > 0:
            open_slots = 0
            for k in order[:last]:
                open_slots += chosen[k] < highs[k]
            if open_slots == 0:
                break
            part = max(left // open_slots, 1)
            for k in order[:last]:
                taken = min(part, highs[k] - chosen[k], left)
                chosen[k] += taken
                left -= taken
    return chosen


@njit(cache=True)
def _climb(starts: Units, form: Matrix, scale: Vector, highs: Units, units: int) -> tuple[Units, Vector]:
    """Climb the leverage ``f' form f`` from every start; return the ends and lower bounds on their leverages."""
    ends = starts.copy()
    levers = np.zeros(len(starts))
    slots = len(scale)
    for n in range(len(starts)):
        for _ in range(8):
            gradient = np.zeros(2 * slots)
            for k in range(slots):
                y = ends[n, k] / scale[k]
                if y != 0:
                    for j in range(2 * slots):
                        gradient[j] += y * form[k, j] + y * y * form[slots + k, j]
            there = _near_best(gradient[:slots] / scale, gradient[slots:] / scale**2, highs, units)
            here, gain = 0.0, 0.0
            for k in range(slots):
                y, z = ends[n, k] / scale[k], there[k] / scale[k]
                here += gradient[k] * y + gradient[slots + k] * y * y
                gain += gradient[k] * (z - y) + gradient[slots + k] * (z * z - y * y)
            levers[n] = here
            if gain <= 1e-9 * here:
                break
            ends[n] = there
    return ends, levers


@njit(cache=True)
def _near_best(linear: Vector, square: Vector, highs: Units, units: int) -> Units:
    """Approximately maximise ``sum linear v + square v^2`` slot by slot, with a common multiplier per unit."""
    size = 0.0
    for k in range(len(highs)):
        size = max(size, abs(linear[k]) + 2 * abs(square[k]) * highs[k])
    low, high = -2 * size - 1e-300, 2 * size + 1e-300
    for _ in range(60):
        price = (low + high) / 2
        if _choices(linear, square, highs, price).sum() > units:
            low = price
        else:
            high = price
    chosen, more = _choices(linear, square, highs, high), _choices(linear, square, highs, low)
    left = units - chosen.sum()
    for most in (more, highs):  # first the slots that take more at a slightly lower price
        for k in range(len(highs)):
            taken = min(left, max(most[k] - chosen[k], 0))
            chosen[k] += taken
            left -= taken
    return chosen


@njit(cache=True)
def _choices(linear: Vector, square: Vector, highs: Units, price: float) -> Units:
    """Return the amount of each slot that maximises ``(linear - price) v + square v^2`` within its bound."""
    chosen = np.zeros(len(highs), dtype=np.int64)
    for k in range(len(highs)):
        slope = linear[k] - price
        if square[k] < 0:
            chosen[k] = min(max(int(np.floor(slope / (-2 * square[k]) + 0.5)), 0), highs[k])
        elif slope + square[k] * highs[k] > 0:
            chosen[k] = highs[k]
    return chosen
