"""Counting, ranking and drawing bounded vectors: against itertools, closed formulas and chi-square tests."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from riskroute import Allocations
from riskroute.routing.lattice import Lattice, _random_integer


def lattice_of(units: int, lows: list[int], highs: list[int]) -> Lattice:
    return Lattice(units, np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64))


def vectors(lattice: Lattice) -> list[tuple[int, ...]]:
    """All vectors, in lexicographic order."""
    ranges = (range(a, min(b, lattice.units) + 1) for a, b in zip(lattice.lows, lattice.highs, strict=True))
    return [tuple(map(int, row)) for row in itertools.product(*ranges) if sum(row) == lattice.units]


@st.composite
def lattices(draw: Any) -> Lattice:
    """At most 8 units over at most 5 slots, around a vector that is inside."""
    inside = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    assume(1 <= sum(inside) <= 8)
    lows = [v - draw(st.integers(0, v)) for v in inside]
    highs = [v + draw(st.integers(0, 8)) for v in inside]
    return lattice_of(sum(inside), lows, highs)


@given(lattice=lattices())
def test_size_rank_and_unrank_against_enumeration(lattice: Lattice) -> None:
    rows = vectors(lattice)
    assert lattice.size == len(rows)
    assert [tuple(lattice.unrank(i).tolist()) for i in range(len(rows))] == rows
    assert [lattice.rank(np.array(row)) for row in rows] == list(range(len(rows)))


@given(lattice=lattices(), seed=st.integers(0, 1000))
def test_draws_are_members(lattice: Lattice, seed: int) -> None:
    drawn = lattice.sample(np.random.default_rng(seed), 20)
    assert drawn.shape == (20, len(lattice.lows))
    assert {tuple(row) for row in drawn.tolist()} <= set(vectors(lattice))


@pytest.mark.parametrize(
    ("units", "lows", "highs"), [(5, [3, 3], [9, 9]), (5, [0, 0], [2, 2]), (0, [1], [1]), (9, [0, 0, 0], [2, 3, 3])]
)
def test_empty_sets_have_size_zero(units: int, lows: list[int], highs: list[int]) -> None:
    assert lattice_of(units, lows, highs).size == 0


def test_size_without_caps_is_a_binomial() -> None:
    """K = C(S + m - 1, m - 1), the paper's count; with minimums the units they take are gone."""
    assert lattice_of(1000, [0] * 20, [1000] * 20).size == math.comb(1019, 19)
    assert lattice_of(1000, [7] * 20, [1000] * 20).size == math.comb(860 + 19, 19)
    assert lattice_of(10_000, [0] * 30, [10_000] * 30).size == math.comb(10_029, 29)


@pytest.mark.parametrize(("units", "slots", "cap"), [(1000, 20, 200), (1000, 20, 51), (300, 12, 40), (20, 40, 1)])
def test_size_with_equal_caps_by_inclusion_and_exclusion(units: int, slots: int, cap: int) -> None:
    expected = sum(
        (-1) ** k * math.comb(slots, k) * math.comb(units - k * (cap + 1) + slots - 1, slots - 1)
        for k in range(slots + 1)
        if units - k * (cap + 1) >= 0
    )
    assert lattice_of(units, [0] * slots, [cap] * slots).size == expected


@pytest.mark.parametrize("highs", [[1000] * 20, [200] * 20, [60] * 10 + [300] * 10])
def test_ranks_of_a_set_too_large_to_list(highs: list[int]) -> None:
    lattice = lattice_of(1000, [0] * 20, highs)
    rng = np.random.default_rng(0)
    for rank in [
        0,
        1,
        lattice.size - 2,
        lattice.size - 1,
        *(_random_integer(rng, lattice.size) for _ in range(30)),
    ]:
        vector = lattice.unrank(rank)
        assert vector.sum() == 1000
        assert (vector <= lattice.highs).all()
        assert (vector >= 0).all()
        assert lattice.rank(vector) == rank
    assert lattice.unrank(5).tolist() < lattice.unrank(6).tolist() < lattice.unrank(lattice.size // 2).tolist()


@pytest.mark.parametrize(
    ("units", "lows", "highs"),
    [
        (6, [0, 0, 0, 0], [6, 6, 6, 6]),  # stars and bars
        (9, [1, 0, 2, 0], [9, 9, 9, 9]),
        (6, [0, 0, 0, 0], [2, 3, 6, 4]),  # unranked draws
        (7, [0, 1, 0], [4, 6, 5]),
    ],
)
def test_draws_are_uniform(units: int, lows: list[int], highs: list[int]) -> None:
    """Chi-square with 200 draws expected per member; a fixed seed, and 1e-3 is the chance of a bad one."""
    lattice = lattice_of(units, lows, highs)
    rows = vectors(lattice)
    drawn = lattice.sample(np.random.default_rng(1), 200 * len(rows))
    counts = np.bincount([lattice.rank(row) for row in drawn], minlength=len(rows))
    assert len(counts) == len(rows)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("caps", [None, 200])
def test_slots_of_large_draws_share_evenly(caps: int | None) -> None:
    """Each slot's mean is 50 by symmetry; its standard error over 400 draws is below 50 / 20, and five of them fit."""
    allocations = Allocations(1000, 20, caps=caps)
    drawn = allocations.sample(np.random.default_rng(2), 400)
    assert allocations.contains(drawn).all()
    np.testing.assert_allclose(drawn.mean(axis=0), 50, atol=12.5)


@pytest.mark.parametrize("limit", [1, 7, 2**63 - 1, 2**63, 2**64, 2**64 + 1, 10**40])
def test__random_integers_stay_below_their_limit(limit: int) -> None:
    rng = np.random.default_rng(3)
    drawn = [_random_integer(rng, limit) for _ in range(2000)]
    assert 0 <= min(drawn) <= max(drawn) < limit
    if limit > 100:  # deciles: 200 expected in each
        counts = np.bincount([10 * x // limit for x in drawn], minlength=10)
        assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_small__random_integers_are_uniform() -> None:
    rng = np.random.default_rng(4)
    assert scipy.stats.chisquare(np.bincount([_random_integer(rng, 7) for _ in range(7000)])).pvalue > 1e-3


@pytest.mark.parametrize("caps", [None, 2])
def test_no_draws_are_an_empty_batch(caps: int | None) -> None:
    assert Allocations(4, 3, caps=caps).sample(np.random.default_rng(0), 0).shape == (0, 3)


def test_two_vectors_are_ranked_in_order() -> None:
    lattice = Lattice(2, np.array([0, 0]), np.array([2, 1]))
    assert (lattice.size, lattice.unrank(0).tolist(), lattice.rank(np.array([2, 0]))) == (2, [1, 1], 1)
