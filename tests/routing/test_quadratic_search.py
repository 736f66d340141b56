"""Quadratic search against enumeration: bounds hold, results are as good as they say, convex and not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from riskroute.core.arrays import Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.routing.quadratic_search import QuadraticResult, minimise_quadratic

SLOTS, UNITS = 4, 12
ROWS = np.array([row for row in itertools.product(range(UNITS + 1), repeat=SLOTS) if sum(row) == UNITS])


def enumerated(matrix: Matrix, linear: Vector, caps: Units, tables: Matrix) -> float:
    rows = ROWS[(caps >= ROWS).all(axis=1)]
    costs = np.einsum("ij,jk,ik->i", rows, matrix, rows) + rows @ linear
    return float((costs + tables[np.arange(SLOTS), rows].sum(axis=1)).min())


def drawn(rng: np.random.Generator, *, definite: bool, convex: bool) -> dict[str, Any]:
    root = rng.standard_normal((SLOTS, int(rng.integers(1, SLOTS + 1))))
    matrix = root @ root.T if definite else rng.standard_normal((SLOTS, SLOTS))
    steps = rng.standard_normal((SLOTS, UNITS)) * 3
    tables = np.hstack([np.zeros((SLOTS, 1)), np.cumsum(np.sort(steps, axis=1) if convex else steps, axis=1)])
    caps = rng.integers(3, UNITS + 1, SLOTS)
    return {
        "matrix": (matrix + matrix.T) / 2,
        "linear": 5 * rng.standard_normal(SLOTS),
        "caps": caps,
        "tables": tables,
    }


def results(definite: bool, convex: bool) -> list[tuple[QuadraticResult, float]]:
    rng = np.random.default_rng(1)
    cases = [drawn(rng, definite=definite, convex=convex) for _ in range(150)]
    return [(minimise_quadratic(units=UNITS, **case), enumerated(**case)) for case in cases]


@pytest.mark.parametrize(("definite", "convex", "least"), [(True, True, 0.98), (True, False, 0.9), (False, True, 0.9)])
def test_bounds_hold_and_most_results_are_the_best_there_is(definite: bool, convex: bool, least: float) -> None:
    found = results(definite, convex)
    for result, best in found:
        size = max(abs(best), 1.0)
        assert result.bound <= best + 1e-9 * size
        assert result.value >= best - 1e-9 * size
        assert sum(result.units) == UNITS
    exact = [result.value <= best + 1e-9 * max(abs(best), 1.0) for result, best in found]
    assert np.mean(exact) >= least


def test_the_relaxation_is_solved_where_it_is_whole() -> None:
    """Where the best real numbers are whole, the bound is the minimum: independent slots of variance one over n."""
    variances = np.array([1.0, 2.0, 4.0, 4.0])
    result = minimise_quadratic(np.diag(variances), np.zeros(4), 100)
    assert result.units == (50, 25, 12, 13) or result.units == (50, 25, 13, 12)
    even = minimise_quadratic(np.eye(4), np.zeros(4), 100)
    assert (even.units, even.value) == ((25, 25, 25, 25), 2500.0)
    assert even.gap < 1e-7


def test_a_result_is_improved_by_no_move_of_a_unit() -> None:
    rng = np.random.default_rng(2)
    root = rng.standard_normal((8, 8))
    matrix, linear = root @ root.T, 200 * rng.standard_normal(8)
    result = minimise_quadratic(matrix, linear, 100)
    split = np.array(result.units)
    for i, j in itertools.permutations(range(8), 2):
        if split[i]:
            moved = split - np.eye(8, dtype=np.int64)[i] + np.eye(8, dtype=np.int64)[j]
            assert moved @ matrix @ moved + linear @ moved >= result.value - 1e-9 * abs(result.value)
    assert 0 <= result.gap < 1e-3


def test_the_result_does_not_depend_on_how_often_one_asks() -> None:
    case = drawn(np.random.default_rng(3), definite=False, convex=False)
    assert minimise_quadratic(units=UNITS, **case) == minimise_quadratic(units=UNITS, **case)


def test_caps_and_nothing_to_split() -> None:
    result = minimise_quadratic(np.eye(2), np.zeros(2), 5, caps=np.array([1, 9]))
    assert (result.units, result.value) == ((1, 4), 17.0)
    nothing = minimise_quadratic(np.eye(2), np.zeros(2), 0)
    assert (nothing.units, nothing.value, nothing.gap) == ((0, 0), 0.0, 0.0)


GOOD: dict[str, Any] = {"matrix": np.eye(2), "linear": np.zeros(2), "units": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matrix": np.array([[1.0, 2.0], [0.0, 1.0]])}, "matrix must be symmetric of shape"),
        ({"matrix": np.ones((2, 3))}, "matrix must be symmetric of shape"),
        ({"linear": np.array([0.0, np.inf])}, "linear must be finite"),
        ({"caps": np.array([1, 2])}, "caps must be at least 0 and add up to at least 4"),
        ({"caps": np.array([-1, 9])}, "caps must be at least 0"),
        ({"tables": np.zeros((2, 4))}, "tables must have 5 columns, had 4"),
        ({"units": -1}, "units must be a non-negative integer, was -1"),
    ],
)
def test_invalid_problems_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        minimise_quadratic(**GOOD | change)
