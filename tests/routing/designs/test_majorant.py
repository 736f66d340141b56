"""Separable bounds on leverages against enumeration, with and without a cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from riskroute.routing.designs.certificate import _dual_bound, certify_by_majorant
from riskroute.routing.designs.large import MOST_KINDS, _asymmetric_design, _choices, _near_best, large_design
from riskroute.routing.lattice import Lattice
from riskroute.routing.separable import maximise_tables

SETS = {
    "six kinds": (12, [3, 4, 5, 6, 7, 12]),
    "seven kinds, one fixed at zero": (10, [0, 2, 3, 4, 5, 6, 7]),
    "two values among others": (9, [1, 1, 2, 3, 4, 5, 6]),
}


def members(units: int, highs: list[int]) -> np.ndarray:
    return np.array([row for row in itertools.product(*(range(h + 1) for h in highs)) if sum(row) == units])


def lattice_of(units: int, highs: list[int]) -> Lattice:
    return Lattice(units, np.zeros(len(highs), dtype=np.int64), np.array(highs, dtype=np.int64))


def features(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows, rows**2]).astype(np.float64)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", range(3))
def test_bound_is_above_every_leverage(name: str, seed: int) -> None:
    """Of random forms, far from any design's."""
    units, highs = SETS[name]
    whitening = np.random.default_rng(seed).standard_normal((2 * len(highs), 4))
    levers = np.sum((features(members(units, highs)) @ whitening) ** 2, axis=1)
    assert levers.max() <= certify_by_majorant(lattice_of(units, highs), whitening) * (1 + 1e-9)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", range(3))
def test_bound_within_a_cut_is_above_what_passes_it_and_not_above_that_of_all(name: str, seed: int) -> None:
    units, highs = SETS[name]
    rng = np.random.default_rng(seed + 10)
    whitening, (alpha, beta) = rng.standard_normal((2 * len(highs), 4)), rng.standard_normal((2, len(highs)))
    rows = members(units, highs)
    scores = rows @ alpha + rows**2 @ beta
    limit = float(np.quantile(scores, 0.1))
    levers = np.sum((features(rows[scores <= limit]) @ whitening) ** 2, axis=1)
    lattice = lattice_of(units, highs)
    bound = certify_by_majorant(lattice, whitening, (alpha, beta, limit))
    assert levers.max() <= bound * (1 + 1e-9)
    assert bound <= certify_by_majorant(lattice, whitening) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_dual_is_above_the_maximum_and_equal_for_concave_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal(int(n)) for n in rng.integers(3, 9, 4)]
    if seed % 2:
        tables = [-np.sort(-np.diff(table, prepend=0.0)).cumsum() for table in tables]
    units = int(sum(map(len, tables)) // 3)
    bound = _dual_bound(np.concatenate(tables), np.cumsum([0, *map(len, tables)]), units)
    highest = maximise_tables(tables, units)[0]
    assert bound >= highest - 1e-9
    if seed % 2:
        assert bound == pytest.approx(highest, abs=1e-9)


def test_dual_of_tables_with_values_that_are_not_allowed() -> None:
    tables = [np.array([-np.inf, 1.0, 5.0]), np.array([0.0, 1.0, 1.5])]
    assert _dual_bound(np.concatenate(tables), np.array([0, 3, 6]), 3) == pytest.approx(6.0)


@pytest.mark.parametrize("seed", range(10))
def test_own_choices_are_best_at_their_price(seed: int) -> None:
    rng = np.random.default_rng(seed)
    highs = rng.integers(0, 9, 6)
    linear, square = rng.standard_normal((2, 6))
    price = float(rng.standard_normal())
    for k, chosen in enumerate(_choices(linear, square, highs, price)):
        v = np.arange(highs[k] + 1)
        worth = (linear[k] - price) * v + square[k] * v**2
        assert worth[chosen] == pytest.approx(worth.max(), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_near_best_is_a_member_and_comes_near_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    highs = rng.integers(1, 30, 12)
    units = int(highs.sum() // 3)
    linear, square = rng.standard_normal(12), 0.05 * rng.standard_normal(12)
    found = _near_best(linear, square, highs, units)
    assert found.sum() == units
    assert (found >= 0).all()
    assert (found <= highs).all()
    tables = [linear[k] * np.arange(h + 1) + square[k] * np.arange(h + 1) ** 2 for k, h in enumerate(highs)]
    best = maximise_tables(tables, units)[0]
    worst = -maximise_tables([-table for table in tables], units)[0]
    assert float(linear @ found + square @ found**2) >= best - 0.1 * (best - worst)


@pytest.mark.parametrize("name", SETS)
def test_design_of_many_kinds_is_bounded_for_every_member(name: str) -> None:
    units, highs = SETS[name]
    assert len(set(highs)) > MOST_KINDS
    design = _asymmetric_design(lattice_of(units, highs), 0.01)
    assert design is not None
    rows = members(units, highs)
    scale = np.concatenate([np.maximum(highs, 1), np.square(np.maximum(highs, 1))])
    support, every = features(design.actions) / scale, features(rows) / scale
    assert design.rank == np.linalg.matrix_rank(every)
    assert len(design) <= design.rank * (design.rank + 1) // 2
    inverse = np.linalg.pinv((support * design.weights[:, None]).T @ support, rcond=1e-10, hermitian=True)
    levers = np.einsum("ni,ij,nj->n", every, inverse, every)
    assert levers.max() <= design.bound * (1 + 1e-6)
    assert levers.max() <= 1.3 * design.rank  # what the search found is close to optimal; the proof is not
    assert design.bound <= 6 * design.rank


def test_design_of_many_kinds_counts_minimums_and_is_used_by_large_sets() -> None:
    """Minimums are taken off before: the same set, moved."""
    highs = np.array([10, 14, 18, 22, 26, 30, 40])
    moved = large_design(Lattice(67, np.full(7, 1), highs + 1), 0.01)
    plain = _asymmetric_design(Lattice(60, np.zeros(7, dtype=np.int64), highs), 0.01)
    assert plain is not None
    np.testing.assert_array_equal(moved.actions - 1, plain.actions)
    assert moved.bound == plain.bound
