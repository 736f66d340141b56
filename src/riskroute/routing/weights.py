"""From weights to splits: whole lots in proportion, within caps and minimums."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from riskroute.core.arrays import Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import finite_array
from riskroute.routing.allocations import Allocations


def apportion_weights(weights: ArrayLike, allocations: Allocations) -> tuple[int, ...]:
    """Whole lots in proportion to non-negative ``weights (slots,)``, by largest remainders.

    Weights share out what is free above the minimums; only their proportions matter, and none at all are as good as
    equal ones. What a cap cuts off goes to the other slots in proportion, evenly to slots without weight when all
    others are full. Everybody gets the whole lots of his part, and lots left over go to the largest remainders, of
    equals to the first.

    Examples
    --------
    >>> apportion_weights([0.5, 0.3, 0.2], Allocations(shares=8, slots=3))
    (4, 2, 2)
    >>> apportion_weights([0.5, 0.3, 0.2], Allocations(shares=8, slots=3, caps=[2, 8, 8]))
    (2, 4, 2)
    """
    given = finite_array("weights", weights, ndim=1, length=allocations.slots)
    if (given < 0).any():
        raise InputError(f"weights must be non-negative, was {given.tolist()[:6]}")
    lattice = allocations.lattice
    part = _shared_out(given / max(float(given.max()), np.finfo(float).tiny), lattice.free, lattice.room)
    units = np.floor(part).astype(np.int64)
    first = np.argsort(np.round(units - part, 6), kind="stable")  # what differs by rounding only is equal
    units[first[: lattice.free - int(units.sum())]] += 1
    return tuple(int(amount) for amount in (units + lattice.lows) * allocations.lot)


def proportional_lots(weights: Vector, shares: int, lot: int = 1) -> Units:
    """Shares in proportion to non-negative ``weights (n,)``, in whole lots by largest remainders, ``(n,)``.

    What is less than a lot goes to the largest weight. Without any weight nobody gets anything.

    Examples
    --------
    >>> proportional_lots(np.array([0.5, 0.3, 0.2]), 850, 100).tolist()
    [450, 200, 200]
    """
    total = float(weights.sum())
    if not total > 0:
        return np.zeros(len(weights), dtype=np.int64)
    part = weights / total * (shares // lot)
    units = np.floor(part + 1e-9).astype(np.int64)
    first = np.argsort(np.round(units - part, 6), kind="stable")  # what differs by rounding only is equal
    units[first[: shares // lot - int(units.sum())]] += 1
    units *= lot
    units[int(np.argmax(weights))] += shares % lot
    return units


def _shared_out(weights: Vector, free: int, room: Units) -> Vector:
    """Divide ``free`` in proportion to weights, with at most ``room (slots,)`` each; fractions are left."""
    part, unfilled = np.zeros(len(weights)), np.ones(len(weights), dtype=bool)
    while unfilled.any():
        pull = np.where(unfilled, weights, 0.0)
        if not pull.any():
            pull = unfilled.astype(np.float64)
        left = free - int(room[~unfilled].sum())
        part = np.where(unfilled, left * (pull / pull.sum()), room)
        over = unfilled & (part > room)
        if not over.any():
            break
        unfilled &= ~over
    return np.minimum(part, room)
