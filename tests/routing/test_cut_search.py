"""Listing and counting the vectors of a lattice, with and without cuts, against plain enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from riskroute.routing.cut_search import CutLattice
from riskroute.routing.lattice import Lattice


@st.composite
def lattices(draw: Any) -> Lattice:
    """At most 8 units over at most 5 slots, around a vector that is inside."""
    inside = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    assume(1 <= sum(inside) <= 8)
    lows = [v - draw(st.integers(0, v)) for v in inside]
    highs = [v + draw(st.integers(0, 8)) for v in inside]
    return Lattice(sum(inside), np.array(lows), np.array(highs))


def vectors(lattice: Lattice) -> np.ndarray:
    ranges = (range(a, min(b, lattice.units) + 1) for a, b in zip(lattice.lows, lattice.highs, strict=True))
    return np.array([row for row in itertools.product(*ranges) if sum(row) == lattice.units], dtype=np.int64)


def whole_cuts(draw: Any, rows: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Cuts with whole coefficients, whose limits some members meet exactly."""
    slots, cuts = rows.shape[1], []
    coefficients = st.lists(st.integers(-3, 3), min_size=slots, max_size=slots)
    for _ in range(count):
        alpha, beta = (np.array(draw(coefficients), dtype=float) for _ in range(2))
        scores = np.sort(rows @ alpha + rows**2 @ beta)
        cuts.append((alpha, beta, float(scores[draw(st.integers(0, len(scores) - 1))])))
    return cuts


def passing(rows: np.ndarray, cuts: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    inside = np.ones(len(rows), dtype=bool)
    for alpha, beta, limit in cuts:
        inside &= rows @ alpha + rows**2 @ beta <= limit
    return rows[inside]


@given(lattice=lattices())
def test_enumeration_lists_every_vector_in_order(lattice: Lattice) -> None:
    found = CutLattice(lattice).listed(lattice.size)
    assert found is not None
    assert found.tolist() == vectors(lattice).tolist()


@given(lattice=lattices(), count=st.integers(1, 3), data=st.data())
def test_enumeration_under_cuts(lattice: Lattice, count: int, data: Any) -> None:
    rows = vectors(lattice)
    cuts = whole_cuts(data.draw, rows, count)
    expected = passing(rows, cuts).tolist()
    found = CutLattice(lattice, cuts).listed(len(rows))
    assert found is not None
    assert found.tolist() == expected
    exactly = CutLattice(lattice, cuts).listed(len(expected))
    assert exactly is not None
    assert exactly.tolist() == expected
    if expected:
        assert CutLattice(lattice, cuts).listed(len(expected) - 1) is None


@given(lattice=lattices(), count=st.integers(0, 3), data=st.data())
def test_count_under_cuts(lattice: Lattice, count: int, data: Any) -> None:
    rows = vectors(lattice)
    cuts = whole_cuts(data.draw, rows, count)
    assert CutLattice(lattice, cuts).count() == len(passing(rows, cuts))


def test_count_gives_up_after_too_many_steps_and_on_huge_sets() -> None:
    zeros = np.zeros(5, dtype=np.int64)
    cut = np.arange(5.0), np.zeros(5), 9.5
    assert CutLattice(Lattice(8, zeros, np.full(5, 8)), [cut]).count(visits=10) is None
    huge = Lattice(1000, np.zeros(20, dtype=np.int64), np.full(20, 1000))
    assert CutLattice(huge, [(np.arange(20.0), np.zeros(20), 9.5)]).count() is None


def test_count_when_caps_leave_little_room() -> None:
    """All but two of 1,000 units that fit: 5,050 vectors, though half as many units would fit in 1e100 ways."""
    lattice = Lattice(998, np.zeros(100, dtype=np.int64), np.full(100, 10))
    assert CutLattice(lattice, [(np.zeros(100), np.zeros(100), 1.0)]).count() == lattice.size == 5050


def test_enumeration_gives_up_after_too_many_steps() -> None:
    lattice = Lattice(8, np.zeros(5, dtype=np.int64), np.full(5, 8))
    assert CutLattice(lattice, []).listed(10**6, visits=100) is None
    found = CutLattice(lattice, []).listed(10**6, visits=10**5)
    assert found is not None
    assert len(found) == lattice.size
