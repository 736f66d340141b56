"""Certified designs over allocation sets of any size.

Three steps, each in a module of its own: the best weights on orbits known so far (`orbit_design`); a proof over every
allocation, or an allocation that refutes it and joins the orbits (`certificate`); a few real allocations that do as
well (`support`). The bound returned is the proven one times the loss factor of the last step. Sets with many kinds of
slots have next to no symmetry, and are left to `mixed_design`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from riskroute.core.arrays import Floats, Units
from riskroute.learning.design.g_optimal import Design, DesignError
from riskroute.routing.designs.certificate import Certificate, certify
from riskroute.routing.designs.mixed_design import mixed_design
from riskroute.routing.designs.orbit_design import solve_orbit_design
from riskroute.routing.designs.support import explicit_support
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups, SymmetryParts
from riskroute.routing.lattice import Lattice
from riskroute.routing.separable import (
    separable_greedy_units,
    separable_one_concave,
    separable_table_maximum,
    tabulate_separable,
)

OUTSIDE = 1e-6
"""What reaches farther than this in a direction is not a rounding error: features are of order one."""

MOST_KINDS = 4
"""With more kinds of slots than this, there is too little symmetry to build a design on."""

_MAX_ROUNDS = 60
_MAX_PARTS = 300  # parts that the branch and bound may visit per round


def large_design(lattice: Lattice, tolerance: float) -> Design:
    """Return a design over all vectors of the lattice; its handles are vectors of units.

    It aims at ``bound <= (1 + tolerance) * rank``. Sets in which all slots are alike reach it; with many different
    bounds the proof may stop earlier, and the bound stated is then larger.

    The least amount of every slot is subtracted first. Since the sum is fixed, the amounts above it and their squares
    span the same features, leverages stay the same, and slots that differ in their minimum only become alike.
    """
    lows = np.maximum(lattice.lows, lattice.units - (lattice.highs.sum() - lattice.highs))
    free = lattice.units - int(lows.sum())
    if free == 0:  # one vector only
        return Design(lows[None, :].copy(), np.ones(1), 1.0, 1)
    above = Lattice(free, np.zeros_like(lows), np.minimum(lattice.highs - lows, free))
    found = _design_from_zero(above, tolerance)
    return Design(found.actions + lows, found.weights, found.bound, found.rank)


def _design_from_zero(lattice: Lattice, tolerance: float) -> Design:
    """Return a design over a lattice whose least amounts are all zero."""
    groups = SymmetryGroups.of(lattice.units, lattice.lows, lattice.highs)
    if len(groups) > MOST_KINDS and (found := mixed_design(lattice, tolerance)) is not None:
        return found
    orbits = _first_orbits(lattice, groups)
    best: tuple[Certificate, SymmetricInformation, list[Orbit], Floats] | None = None
    for _ in range(_MAX_ROUNDS):
        weights = solve_orbit_design(groups, orbits, tolerance / 100)
        information = SymmetricInformation.of(groups, SymmetryParts.of(groups, orbits), weights)
        stray = _outside(information, lattice)
        if stray is not None:
            orbits = sorted({*orbits, stray})
            continue
        target = information.rank * (1 + tolerance / 2)
        certificate = certify(information, target, _MAX_PARTS)
        if best is None or certificate.bound < best[0].bound:
            best = certificate, information, orbits, weights
        known = set(orbits)
        refuting = {orbit for leverage, orbit in certificate.found if leverage > information.rank * (1 + tolerance / 8)}
        if certificate.bound <= target or not refuting - known:
            break
        orbits = sorted(known | refuting)
    if best is None:
        raise DesignError("design did not find orbits that span every allocation")
    certificate, information, orbits, weights = best
    rank = information.rank
    limit = rank * (rank + 1) // 2
    points, fitted, price = explicit_support(information, orbits, weights, limit, 1 + tolerance / 4)
    if not np.isfinite(price):
        raise DesignError(f"design could not be written as {limit} allocations that span all {rank} directions")
    return Design(points, fitted, certificate.bound * price * (1 + 1e-9), rank)


def _outside(information: SymmetricInformation, lattice: Lattice) -> Orbit | None:
    """Return an orbit outside the range of the information matrix; None if there is none, and all leverages are finite.

    No vector may lie in a direction that the matrix does not see: the exact maximum over all of them must be zero.
    """
    groups = information.groups
    values, vectors = np.linalg.eigh(information.explicit())
    unseen = vectors[:, : len(values) - information.rank]
    slots, scale = len(lattice.lows), groups.slot_scales
    for direction in np.concatenate([unseen.T, -unseen.T]):
        alpha, beta = -direction[:slots] / scale, -direction[slots:] / scale**2
        tables = tabulate_separable(alpha, beta, lattice.lows, lattice.highs, lattice.units)
        if sum(float(table.max()) for table in tables) <= OUTSIDE:  # whatever the amounts add up to
            continue
        if (lattice.highs >= lattice.units).all():
            units = separable_one_concave(alpha, beta, lattice.units, lattice.lows)[0]
        else:
            units = separable_table_maximum(tables, lattice.units)[1]
        if -float(alpha @ units + beta @ units**2) > OUTSIDE:
            return groups.orbit(units)
    return None


def _first_orbits(lattice: Lattice, groups: SymmetryGroups) -> list[Orbit]:
    """Return orbits to start from: some slots full, others sharing the rest evenly, and random ones, so that all span.

    Under an invariant design the largest leverages are of the first kind: the slots' own terms are convex in an amount,
    then concave, then convex again, so amounts are at an end of their range or alike.
    """
    rng = np.random.default_rng(0)
    slots = len(lattice.lows)
    orbits = {groups.orbit(_any_member(lattice, rng)) for _ in range(8 + 4 * len(groups))}
    orders = [np.arange(slots), np.arange(slots)[::-1]]
    if len(groups) > 1:
        orders += [rng.permutation(slots) for _ in range(8 * len(groups))]
    for order in orders:
        for count in _counts(1, slots):
            cost = np.full(slots, 10.0)  # preferred slots share evenly, the others take what does not fit
            cost[order[:count]] = 0.0
            steep = np.where(cost == 0, 1.0 / lattice.units, 10.0)
            orbits.add(
                groups.orbit(separable_greedy_units(100 * cost, steep, lattice.units, lattice.lows, lattice.highs))
            )
    if len(groups) == 1:
        orbits |= {(amounts,) for amounts in _full_and_even(lattice.units, slots, groups.highs[0])}
    return sorted(orbits)


def _any_member(lattice: Lattice, rng: np.random.Generator) -> Units:
    """Draw a vector of a lattice without minimums: slot by slot, in random sequence, a random part of the remainder."""
    chosen = np.zeros_like(lattice.highs)
    left, room = lattice.units, int(np.minimum(lattice.highs, lattice.units).sum())
    for k in rng.permutation(len(chosen)):
        high = min(int(lattice.highs[k]), lattice.units)
        room -= high
        chosen[k] = rng.integers(max(left - room, 0), min(high, left) + 1)
        left -= int(chosen[k])
    return chosen


def _full_and_even(units: int, slots: int, cap: int) -> Iterator[tuple[int, ...]]:
    """Return amounts that are the cap, an even part of the rest, or nothing, for some numbers of slots of each."""
    for full in _counts(0, min(units // cap, slots)):
        left = units - full * cap
        for count in _counts(1, slots - full):
            if left <= count * cap:
                even = [left // count + (k < left % count) for k in range(count)]
                yield tuple([cap] * full + even + [0] * (slots - full - count))


def _counts(first: int, last: int) -> list[int]:
    """Return the small whole numbers from ``first`` to ``last``, and about a dozen of the others."""
    some = np.linspace(first, max(first, last), 13).tolist()
    return sorted({*range(first, min(last, first + 12) + 1), *(round(k) for k in some)})
