"""Families of shifted arrangements, against counts of meetings done slot by slot."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from riskroute.routing.designs.support import (
    _balanced_families,
    _family_length,
    _meetings,
    _orbit_size,
    _spread_meetings,
)
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups

SIZES = ([7], [8], [4, 6], [3, 3, 5])


def random_arrangements(sizes: list[int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (5, sum(sizes))), rng.standard_normal((4, 2)), rng.random(5)


def second_moments(level: np.ndarray, values: np.ndarray, weights: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Weighted sum of ``z z'`` over all common shifts of all arrangements, over their number."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    total = np.zeros((2 * sum(sizes), 2 * sum(sizes)))
    shifts = int(np.lcm.reduce(sizes))
    for row, weight in zip(level, weights, strict=True):
        for shift in range(shifts):
            shifted = np.concatenate([np.roll(row[a:b], shift) for a, b in itertools.pairwise(first)])
            z = values[shifted].reshape(-1)
            total += weight * np.outer(z, z) / shifts
    return total


def unevenness(level: np.ndarray, values: np.ndarray, weights: np.ndarray, sizes: list[int]) -> float:
    """Squared entries of the second moments between different slots, each group in units of its size."""
    total = second_moments(level, values * 1.0, weights, sizes)
    size = np.repeat(np.repeat(sizes, sizes), 2)
    blocks = np.kron(np.eye(sum(sizes)), np.ones((2, 2)))
    return float(((total * np.sqrt(np.outer(size, size))) ** 2 * (1 - blocks)).sum())


@pytest.mark.parametrize("sizes", SIZES)
def test_meetings_are_the_second_moments_of_all_shifts(sizes: list[int]) -> None:
    level, values, weights = random_arrangements(sizes, 0)
    found = _meetings(level, values, weights, np.array(sizes))
    expected = second_moments(level, values, weights, sizes)
    first = np.concatenate([[0], np.cumsum(sizes)])
    for g, h in itertools.product(range(len(sizes)), repeat=2):
        modulus = int(np.gcd(sizes[g], sizes[h]))
        pairs = sizes[g] * sizes[h] // modulus  # of slots at each distance
        for s, t in itertools.product(range(sizes[g]), range(sizes[h])):
            if g != h or s != t:
                a, b = 2 * (first[g] + s), 2 * (first[h] + t)
                np.testing.assert_allclose(found[g, h, (t - s) % modulus] / pairs, expected[a : a + 2, b : b + 2])


@pytest.mark.parametrize("sizes", SIZES)
def test_exchanges_are_made_exactly_where_they_make_meetings_more_even(sizes: list[int]) -> None:
    level, values, weights = random_arrangements(sizes, 1)
    amounts = 10 * level
    group = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(2)
    made = 0
    for _ in range(60):
        family, one = rng.integers(len(level), size=1), rng.integers(sum(sizes), size=1)
        other = rng.choice(np.flatnonzero(group == group[one[0]]), size=1)
        exchanged = level.copy()
        exchanged[family[0], [one[0], other[0]]] = level[family[0], [other[0], one[0]]]
        gain = unevenness(level, values, weights, sizes) - unevenness(exchanged, values, weights, sizes)
        _spread_meetings(level, amounts, values, weights, np.array(sizes), family, one, other)
        assert (level == exchanged).all() == (gain > 1e-9 or level[family[0], one[0]] == level[family[0], other[0]])
        assert (amounts == 10 * level).all()
        made += gain > 1e-9
    assert made > 5


CASES: dict[str, tuple[list[int], list[Orbit]]] = {
    "one group": ([0] * 9, [((6, 0, 0, 0, 0, 0, 0, 0, 0),), ((2, 2, 2, 0, 0, 0, 0, 0, 0),)]),
    "two groups": ([0] * 6 + [1] * 4, [((3, 0, 0, 0, 0, 0), (3, 0, 0, 0)), ((1, 1, 1, 0, 0, 0), (1, 1, 1, 0))]),
}


@pytest.mark.parametrize("name", CASES)
def test_families_are_disjoint_members_of_their_orbits(name: str) -> None:
    kind, orbits = CASES[name]
    groups = SymmetryGroups.of(6, np.zeros(len(kind), dtype=np.int64), np.where(np.array(kind) == 1, 6, 5))
    weights = np.array([0.5, 0.5])
    information = SymmetricInformation.of(groups, groups.moments(orbits), weights)
    families = _balanced_families(information, orbits, weights, 8, seed=0)
    rows = np.concatenate(families)
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert {groups.orbit(row) for row in rows} == set(orbits)
    assert all(len(family) <= _family_length(groups) for family in families)
    for family in families:  # every slot of a group is visited equally often
        for slots in groups.members:
            assert len(set(family[:, slots].sum(axis=0).tolist())) == 1


def test_small_orbits_are_taken_whole() -> None:
    groups = SymmetryGroups.of(2, np.zeros(7, dtype=np.int64), np.full(7, 2))
    orbits: list[Orbit] = [((2, 0, 0, 0, 0, 0, 0),), ((1, 1, 0, 0, 0, 0, 0),)]
    weights = np.array([0.4, 0.6])
    information = SymmetricInformation.of(groups, groups.moments(orbits), weights)
    rows = np.concatenate(_balanced_families(information, orbits, weights, 50, seed=0))
    assert len(rows) == sum(map(_orbit_size, orbits)) == 28
