"""Designs by symmetry on small sets: blocks against brute force, and bounds against every member.

Leverages are recomputed here from the support and its weights alone, by singular values of the weighted support.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from naive_learning import check_support, lattice_of
from riskroute.learning.design.g_optimal import Design
from riskroute.routing.designs import certificate as certificate_module
from riskroute.routing.designs.certificate import _Power, certify
from riskroute.routing.designs.large import large_design
from riskroute.routing.designs.support import _features, _orbit_size, explicit_support
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups, _blocks, solve_orbit_design

SMALL = {
    "one group": (12, [0] * 4, [12] * 4),
    "one group with caps": (14, [0] * 5, [5] * 5),
    "one group with minimums": (16, [2] * 4, [9] * 4),
    "two groups": (12, [0] * 5, [3, 3, 7, 7, 7]),
    "three groups": (11, [0, 0, 1, 1, 0], [4, 4, 6, 6, 11]),
    "every slot different": (12, [0, 1, 2, 0], [5, 7, 9, 12]),
    "fixed slot": (13, [0, 0, 0, 4], [6, 6, 6, 4]),
    "fixed at zero": (9, [0, 0, 0, 0], [9, 9, 9, 0]),
    "two fixed slots": (15, [0, 0, 0, 3, 3], [9, 9, 9, 3, 3]),
    "two values": (4, [0] * 9, [1] * 9),
    "two values above zero": (14, [1] * 9, [2] * 9),
    "two values and free slots": (9, [0] * 7, [1, 1, 1, 1, 9, 9, 9]),
    "two slots": (30, [0, 0], [30, 30]),
    "one slot": (7, [0], [7]),
}
PINNED = {"one member": (6, [2, 2, 2], [6, 6, 6])}
NARROW = {"narrow": (999 * 6, [998] * 6, [1000] * 6), "less narrow": (999 * 6, [990] * 6, [1000] * 6)}
CASES = pytest.mark.parametrize("name", list(SMALL))


@cache
def members_of(name: str) -> np.ndarray:
    """All members of a small set, by itertools."""
    units, lows, highs = SMALL[name]
    ranges = (range(low, min(high, units) + 1) for low, high in zip(lows, highs, strict=True))
    return np.array([row for row in itertools.product(*ranges) if sum(row) == units])


@cache
def groups_of(name: str) -> SymmetryGroups:
    lattice = lattice_of(*SMALL[name])
    return SymmetryGroups.of(lattice.units, lattice.lows, lattice.highs)


def allocation_of(groups: SymmetryGroups, parts: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
    """The allocation with the given amounts of each group."""
    return np.concatenate(parts)[np.argsort(np.concatenate(groups.members))]


@cache
def orbits_of(name: str) -> list[Orbit]:
    return sorted({groups_of(name).orbit(row) for row in members_of(name)})


@cache
def design_of(name: str, tolerance: float = 0.01) -> Design:
    return large_design(lattice_of(*SMALL[name]), tolerance)


def plain_features(rows: np.ndarray) -> np.ndarray:
    """``(a, a^2)``, each column divided by the largest amount, which leaves leverages as they are."""
    size = max(float(rows.max()), 1.0)
    return np.hstack([rows / size, (rows / size) ** 2])


def leverages(support: np.ndarray, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
    """``x' M^+ x`` of each row of ``features``, which must lie in the span of the support."""
    _, singular, rows = np.linalg.svd(np.sqrt(weights)[:, None] * support, full_matrices=False)
    kept = singular > 1e-9 * singular[0]
    inside = features @ rows[kept].T
    np.testing.assert_allclose(inside @ rows[kept], features, atol=1e-7)  # else a leverage would be infinite
    return np.sum((inside / singular[kept]) ** 2, axis=1)


def random_designs(name: str, count: int, seed: int) -> list[tuple[list[Orbit], np.ndarray, SymmetricInformation]]:
    """Invariant designs that span, far from optimal: a few orbits with very uneven weights."""
    rng = np.random.default_rng(seed)
    groups, orbits = groups_of(name), orbits_of(name)
    rank = int(np.linalg.matrix_rank(plain_features(members_of(name))))
    found = []
    for trial in range(50 * count):
        size = int(rng.integers(1, min(len(orbits), 3 + trial) + 1))
        chosen = [orbits[i] for i in rng.choice(len(orbits), size, replace=False)]
        weights = rng.dirichlet(np.full(size, 0.7)) + 1e-3
        weights /= weights.sum()
        information = SymmetricInformation.of(groups, groups.moments(chosen), weights)
        if information.rank == rank:
            found.append((chosen, weights, information))
        if len(found) == count:
            break
    assert len(found) == count
    return found


def images(groups: SymmetryGroups, orbit: Orbit) -> np.ndarray:
    """An orbit under every permutation within groups, with repeats."""
    arrangements = itertools.product(*(itertools.permutations(amounts) for amounts in orbit))
    return np.array([allocation_of(groups, parts) for parts in arrangements])


@CASES
def test_bound_holds_for_every_member(name: str) -> None:
    design, members = design_of(name), members_of(name)
    check_support(design, lattice_of(*SMALL[name]))
    # columns divided by the same number on both sides
    both = plain_features(np.concatenate([design.actions, members]))
    levers = leverages(both[: len(design)], design.weights, both[len(design) :])
    assert levers.max() <= design.bound * (1 + 1e-6)
    assert design.rank == np.linalg.matrix_rank(plain_features(members))
    assert design.bound >= design.rank * (1 - 1e-9)  # Kiefer and Wolfowitz: nothing is below the rank


@pytest.mark.parametrize("name", ["one group", "one group with caps", "one group with minimums", "two values"])
def test_sets_of_equal_slots_reach_the_tolerance(name: str) -> None:
    # Small orbits are used whole, but a set of equal slots can still be too small for thinning to be free of charge:
    # 5 % leaves room for that and is far below the factors a wrong certificate would give.
    assert design_of(name).excess <= 0.05


@CASES
@pytest.mark.parametrize("tolerance", [0.3, 0.001])
def test_bound_holds_at_other_tolerances(name: str, tolerance: float) -> None:
    design, members = design_of(name, tolerance), members_of(name)
    check_support(design, lattice_of(*SMALL[name]))
    both = plain_features(np.concatenate([design.actions, members]))
    assert leverages(both[: len(design)], design.weights, both[len(design) :]).max() <= design.bound * (1 + 1e-6)


def test_bound_holds_when_minimums_leave_one_member() -> None:
    design = large_design(lattice_of(*PINNED["one member"]), 0.01)
    assert design.rank == 1
    assert design.bound == pytest.approx(1)


@pytest.mark.parametrize("name", list(NARROW))
def test_bound_holds_when_caps_are_close_to_minimums(name: str) -> None:
    """Features are compared as ``(v - low, (v - low)^2, 1)``, which span the same space as all amounts sum to S."""
    units, lows, highs = NARROW[name]
    design = large_design(lattice_of(units, lows, highs), 0.01)
    ranges = (range(high - low + 1) for low, high in zip(lows, highs, strict=True))
    members = np.array([row for row in itertools.product(*ranges) if sum(row) == units - sum(lows)])
    both = np.concatenate([design.actions - np.array(lows), members]).astype(float)
    features = np.hstack([both, both**2, np.ones((len(both), 1))])
    assert design.rank == np.linalg.matrix_rank(features[len(design) :])
    assert leverages(features[: len(design)], design.weights, features[len(design) :]).max() <= design.bound * 1.001


FIXED = {
    "six slots, two fixed": (31, [1, 5, 1, 5, 5, 5], [1, 11, 1, 21, 11, 11]),
    "four slots, one fixed": (35, [3, 2, 3, 3], [19, 2, 9, 9]),
}


@pytest.mark.parametrize("name", list(FIXED))
def test_bound_holds_with_fixed_slots_among_several_groups(name: str) -> None:
    units, lows, highs = FIXED[name]
    design = large_design(lattice_of(units, lows, highs), 0.01)
    ranges = (range(low, high + 1) for low, high in zip(lows, highs, strict=True))
    members = np.array([row for row in itertools.product(*ranges) if sum(row) == units])
    both = plain_features(np.concatenate([design.actions, members]))
    assert leverages(both[: len(design)], design.weights, both[len(design) :]).max() <= design.bound * (1 + 1e-6)


def test_groups_gather_slots_with_equal_bounds() -> None:
    groups = SymmetryGroups.of(10, np.array([0, 1, 0, 1, 0]), np.array([4, 6, 4, 6, 99]))
    assert [slots.tolist() for slots in groups.members] == [[0, 2], [4], [1, 3]]
    assert (groups.lows, groups.highs) == ((0, 0, 1), (4, 10, 6))
    allocation = np.array([1, 2, 3, 4, 0])
    assert groups.orbit(allocation) == ((3, 1), (0,), (4, 2))
    assert allocation_of(groups, [[1, 3], [0], [2, 4]]).tolist() == allocation.tolist()


@CASES
def test_orbits_have_as_many_members_as_they_say(name: str) -> None:
    groups, orbits = groups_of(name), orbits_of(name)
    assert sum(_orbit_size(orbit) for orbit in orbits) == len(members_of(name))
    assert all(groups.orbit(allocation_of(groups, orbit)) == orbit for orbit in orbits)


@pytest.mark.parametrize("name", ["one group", "two groups", "three groups", "fixed slot", "two fixed slots"])
def test_explicit_information_is_the_average_over_all_permutations(name: str) -> None:
    groups = groups_of(name)
    for orbits, weights, information in random_designs(name, 3, seed=1):
        expected = np.zeros((2 * int(groups.sizes.sum()),) * 2)
        for orbit, weight in zip(orbits, weights, strict=True):
            x = _features(groups, images(groups, orbit))
            expected += weight * x.T @ x / len(x)
        np.testing.assert_allclose(information.explicit(), expected, atol=1e-12)


@CASES
def test_rank_and_leverages_by_blocks_are_those_of_the_matrix(name: str) -> None:
    groups, orbits, members = groups_of(name), orbits_of(name), members_of(name)
    every = groups.moments(orbits)
    for _, _, information in random_designs(name, 3, seed=2):
        assert information.rank == np.linalg.matrix_rank(plain_features(members))
        inverse = np.linalg.pinv(information.explicit(), rcond=1e-10, hermitian=True)
        x = _features(groups, np.array([allocation_of(groups, orbit) for orbit in orbits]))
        expected = np.einsum("ni,ij,nj->n", x, inverse, x)
        rows, target = _blocks(information, every)
        np.testing.assert_allclose(rows @ target, expected, rtol=1e-6)
        assert target @ target == pytest.approx(information.rank)


@pytest.mark.parametrize("name", SMALL)
def test_certified_bound_holds_for_bad_designs_too(name: str) -> None:
    """However few parts may be visited, and whether or not the target can be met."""
    groups, orbits = groups_of(name), orbits_of(name)
    every = groups.moments(orbits)
    for _, _, information in random_designs(name, 4, seed=3):
        rows, target = _blocks(information, every)
        levers = dict(zip(orbits, rows @ target, strict=True))
        highest = max(levers.values())
        for goal, parts in ((information.rank, 1), (1.05 * highest, 5), (1.05 * highest, 3000), (0.5 * highest, 100)):
            certificate = certify(information, goal, parts)
            assert certificate.bound >= highest * (1 - 1e-9)
            for leverage, orbit in certificate.found:
                assert leverage == pytest.approx(levers[orbit], rel=1e-6)


@pytest.mark.parametrize(
    "name", ["one group", "one group with caps", "two groups", "every slot different", "two slots"]
)
@pytest.mark.parametrize("steps", [3, 7])
def test_certified_bound_holds_on_a_coarse_grid(name: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for large orders, with far fewer steps than units: looser, but never below the largest leverage."""
    monkeypatch.setattr(certificate_module, "_GRID", steps)
    monkeypatch.setattr(certificate_module, "_CAP_STEPS", 1)
    groups, orbits = groups_of(name), orbits_of(name)
    every = groups.moments(orbits)
    for _, _, information in random_designs(name, 3, seed=3):
        rows, target = _blocks(information, every)
        levers = dict(zip(orbits, rows @ target, strict=True))
        highest = max(levers.values())
        for goal, parts in ((information.rank, 1), (1.05 * highest, 300)):
            certificate = certify(information, goal, parts)
            assert certificate.bound >= highest * (1 - 1e-9)
            for leverage, orbit in certificate.found:  # real allocations, near what the grid has
                assert leverage == pytest.approx(levers[orbit], rel=1e-6)


def test_grid_has_no_more_steps_for_larger_orders() -> None:
    """What a proof costs does not depend on the units; its bound hardly does either."""
    bounds = []
    for units in (1000, 10_000, 100_000):
        groups = SymmetryGroups.of(units, np.zeros(10, dtype=np.int64), np.full(10, units))
        third = units // 3
        orbits: list[Orbit] = [((units, *[0] * 9),), ((units - 2 * third, third, third, *[0] * 7),)]
        weights = np.array([0.5, 0.5])
        information = SymmetricInformation.of(groups, groups.moments(orbits), weights)
        assert certificate_module._Grid.of(groups).steps <= 1000
        bounds.append(certify(information, 20 * 1.005, 300).bound)
    np.testing.assert_allclose(bounds, bounds[0], rtol=1e-3)
    assert max(bounds) <= 20 * 1.005


@CASES
def test_branch_and_bound_closes_on_small_sets(name: str) -> None:
    for _, _, information in random_designs(name, 2, seed=4):
        rows, target = _blocks(information, groups_of(name).moments(orbits_of(name)))
        highest = float((rows @ target).max())
        assert certify(information, highest * 1.01, 20_000).bound <= highest * (1.01 + 1e-9)


@CASES
def test_weights_on_all_orbits_are_optimal(name: str) -> None:
    groups, orbits = groups_of(name), orbits_of(name)
    weights = solve_orbit_design(groups, orbits, 1e-4)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    parts = groups.moments(orbits)
    information = SymmetricInformation.of(groups, parts, weights)
    rows, target = _blocks(information, parts)
    assert (rows @ target).max() <= information.rank * (1 + 1e-4 + 1e-9)


@pytest.mark.parametrize("name", ["one group", "two groups", "three groups", "two values"])
def test_price_of_a_support_is_the_largest_growth_of_a_leverage(name: str) -> None:
    groups, members = groups_of(name), members_of(name)
    for orbits, weights, information in random_designs(name, 2, seed=6):
        limit = information.rank * (information.rank + 1) // 2
        points, fitted, price = explicit_support(information, orbits, weights, limit, 1.001)
        assert len(points) <= limit
        assert math.isfinite(price)
        x = _features(groups, members)
        inverse = np.linalg.pinv(information.explicit(), rcond=1e-10, hermitian=True)
        before = np.einsum("ni,ij,nj->n", x, inverse, x)
        after = leverages(_features(groups, points), fitted, x)
        assert (after <= price * before * (1 + 1e-6)).all()


@pytest.mark.parametrize("copies", range(1, 8))
def test_power_of_a_table_is_the_best_of_all_choices(copies: int) -> None:
    rng = np.random.default_rng(copies)
    table, limit = rng.integers(-9, 9, 4).astype(float), 10
    table[0] = -np.inf if copies % 2 else table[0]
    power = _Power(table, copies, limit)
    best = dict.fromkeys(range(limit + 1), -np.inf)
    for amounts in itertools.product(range(4), repeat=copies):
        if sum(amounts) <= limit:
            best[sum(amounts)] = max(best[sum(amounts)], table[list(amounts)].sum())
    for n, expected in best.items():
        assert (power.values[n] if n < len(power.values) else -np.inf) == expected
        if expected > -np.inf:
            choice = power.choice(n)
            assert (len(choice), sum(choice), table[choice].sum()) == (copies, n, expected)
