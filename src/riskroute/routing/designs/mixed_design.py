"""Designs over allocation sets whose slots have many different bounds: candidates by search, and a true bound.

With few kinds of slots, symmetry makes the problem small (`large_design`). With many, candidates are searched for:
allocations with some slots full and others sharing the rest evenly, and then, step by step, those farthest along the
gradient of the leverage. A leverage is convex, so following its gradient never lowers it. The design on these
candidates (`riskroute.learning.design.wide`) is close to optimal on the whole set; the proven bound is looser
(`majorant`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.core.arrays import Matrix, Units, Vector
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.wide import few_wide_rows, wide_design
from riskroute.routing.designs.majorant import majorant_of_leverages
from riskroute.routing.lattice import Lattice

COARSEST = 0.1
"""The finest tolerance worth solving for: candidates are only some of the members."""

_ROUNDS = 10
_CLIMB = 8  # gradients followed from each start
_FIRST_GOAL = 0.5  # excess of the first, rough design
_PATTERNS = 6  # first candidates per slot


def mixed_design(lattice: Lattice, tolerance: float) -> Design | None:
    """Return a design over a lattice without minimums, in units; None if no candidates were found that span the set.

    It aims at ``(1 + tolerance)`` times the rank on the candidates; the bound stated holds for every vector.
    """
    highs, units = np.minimum(lattice.highs, lattice.units), lattice.units
    scale = np.maximum(highs, 1).astype(np.float64)
    tolerance = max(tolerance, COARSEST)
    rng = np.random.default_rng(0)
    candidates = np.unique(_first_candidates(highs, units, rng), axis=0)
    weights, goal = np.ones(len(candidates)), _FIRST_GOAL
    for left in reversed(range(_ROUNDS)):
        features = np.hstack([candidates / scale, (candidates / scale) ** 2])
        found = wide_design(features, goal, weights)
        used = found.weights > 0
        support = candidates[used]
        starts = np.concatenate([support, _first_candidates(highs, units, rng)])
        climbed, levers = climb_mixed_design(starts, found.form(), scale, highs, units)
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
    bound = majorant_of_leverages(lattice, whitening / np.concatenate([scale, scale**2])[:, None])
    return Design(candidates[index], chosen, bound, whitening.shape[1])


def _first_candidates(highs: Units, units: int, rng: np.random.Generator) -> Units:
    """Return vectors in which some slots are full and others share the rest evenly, and some with one unit moved."""
    slots = len(highs)
    rows = []
    for k in range(slots):
        for pattern in range(_PATTERNS):
            order = rng.permutation(slots)
            order = np.concatenate([[k], order[order != k]])
            full = int(rng.integers(0, slots)) if pattern % 2 else pattern // 2
            even = int(rng.integers(1, slots + 1)) if pattern % 3 else int(rng.integers(1, 5))
            rows.append(mixed_design_filled(order, full, even, highs, units))
    moved = [row.copy() for row in rows[:: max(_PATTERNS // 2, 1)]]
    for row in moved:
        i, j = rng.integers(slots, size=2)
        amount = min(1, int(row[i]), int(highs[j] - row[j]))
        row[i] -= amount
        row[j] += amount
    return np.array([*rows, *moved])


@njit(cache=True)
def mixed_design_filled(order: Units, full: int, even: int, highs: Units, units: int) -> Units:
    """Fill ``full`` slots one by one while units last, share the rest evenly over ``even`` more, then over all."""
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
def climb_mixed_design(starts: Units, form: Matrix, scale: Vector, highs: Units, units: int) -> tuple[Units, Vector]:
    """Follow the leverage uphill from every start; also returns the leverages reached.

    Leverages are ``f' form f`` for features ``f = (y, y^2)``, ``(2 m,)``, of amounts divided by ``scale``.
    """
    ends = starts.copy()
    levers = np.zeros(len(starts))
    slots = len(scale)
    for n in range(len(starts)):
        for _ in range(_CLIMB):
            gradient = np.zeros(2 * slots)
            for k in range(slots):
                y = ends[n, k] / scale[k]
                if y != 0:
                    for j in range(2 * slots):
                        gradient[j] += y * form[k, j] + y * y * form[slots + k, j]
            there = mixed_design_near_best(gradient[:slots] / scale, gradient[slots:] / scale**2, highs, units)
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
def mixed_design_near_best(linear: Vector, square: Vector, highs: Units, units: int) -> Units:
    """Return about the vector with the largest ``sum linear v + square v^2``: each slot's choice at a common price."""
    size = 0.0
    for k in range(len(highs)):
        size = max(size, abs(linear[k]) + 2 * abs(square[k]) * highs[k])
    low, high = -2 * size - 1e-300, 2 * size + 1e-300
    for _ in range(60):
        price = (low + high) / 2
        if mixed_design_choices(linear, square, highs, price).sum() > units:
            low = price
        else:
            high = price
    chosen, more = mixed_design_choices(linear, square, highs, high), mixed_design_choices(linear, square, highs, low)
    left = units - chosen.sum()
    for k in range(len(highs)):  # slots that are about to choose more
        taken = min(left, max(more[k] - chosen[k], 0))
        chosen[k] += taken
        left -= taken
    for k in range(len(highs)):
        taken = min(left, highs[k] - chosen[k])
        chosen[k] += taken
        left -= taken
    return chosen


@njit(cache=True)
def mixed_design_choices(linear: Vector, square: Vector, highs: Units, price: float) -> Units:
    """Return, slot by slot, the whole number from 0 to its bound that maximises ``(linear - price) v + square v^2``."""
    chosen = np.zeros(len(highs), dtype=np.int64)
    for k in range(len(highs)):
        slope = linear[k] - price
        if square[k] < 0:
            chosen[k] = min(max(int(np.floor(slope / (-2 * square[k]) + 0.5)), 0), highs[k])
        elif slope + square[k] * highs[k] > 0:
            chosen[k] = highs[k]
    return chosen
