"""Splits from weights: against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riskroute import Allocations


def naive_allocation(weights: list[int], allocations: Allocations) -> tuple[int, ...]:
    """By fractions: fill up slots that would get more than they may until none would, then deal the rest."""
    lattice = allocations.lattice
    room, free = lattice.room.tolist(), lattice.free
    full: set[int] = set()
    while True:
        others = [k for k in range(len(room)) if k not in full]
        pull = {k: Fraction(weights[k]) for k in others}
        if not sum(pull.values()):
            pull = dict.fromkeys(others, Fraction(1))
        left = free - sum(room[k] for k in full)
        part = {k: left * pull[k] / sum(pull.values()) for k in others}
        over = {k for k in others if part[k] > room[k]}
        if not over:
            break
        full |= over
    units = [room[k] if k in full else int(part[k]) for k in range(len(room))]
    for k in sorted(others, key=lambda k: int(part[k]) - part[k])[: free - sum(units)]:
        units[k] += 1
    return tuple((u + int(low)) * allocations.lot for u, low in zip(units, lattice.lows, strict=True))


@st.composite
def weighted(draw: st.DrawFn) -> tuple[list[int], Allocations]:
    slots, lot = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    lows = draw(st.lists(st.integers(0, 3), min_size=slots, max_size=slots))
    rooms = draw(st.lists(st.integers(0, 9), min_size=slots, max_size=slots))
    units = sum(lows) + draw(st.integers(0, sum(rooms)))
    caps = [lot * (low + room) for low, room in zip(lows, rooms, strict=True)]
    weights = draw(st.lists(st.integers(0, 12), min_size=slots, max_size=slots))
    minimums = [lot * low for low in lows]
    return weights, Allocations(max(units, 1) * lot, slots, lot, [max(cap, lot) for cap in caps], minimums)


@given(weighted())
def test_weights_become_the_split_of_exact_fractions(case: tuple[list[int], Allocations]) -> None:
    weights, allocations = case
    found = allocations.apportion(weights)
    assert found == naive_allocation(weights, allocations)
    assert allocations.contains(np.array([found]))[0]
    assert allocations.apportion(np.array(weights) * 1e300) == found
    assert allocations.apportion(np.array(weights) * 1e-300) == found


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.integers(1, 10**6))
def test_without_caps_everybody_gets_his_part_within_one_share(weights: list[float], shares: int) -> None:
    found = np.array(Allocations(shares, len(weights)).apportion(weights))
    part = np.array(weights) / max(weights) if any(weights) else np.ones(len(weights))
    assert found.sum() == shares
    assert (np.abs(found - shares * part / part.sum()) < 1 + 1e-6).all()
