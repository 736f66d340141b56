"""Group search against enumeration: any shape of tables, one group and two, ties, and nothing allowed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Units
from riskroute.core.errors import InputError
from riskroute.routing.group_search import group_minimum, group_minimum_compiled, group_profile, group_units

SLOTS, UNITS = 5, 10
ROWS = np.array([row for row in itertools.product(range(UNITS + 1), repeat=SLOTS) if sum(row) <= UNITS])
"""All ways to give at most 10 units to 5 slots, in lexicographic order."""


def enumerated(tables: Matrix, groups: Integers, joint: Floats) -> tuple[float, list[int]]:
    """The naive twin: every vector of units, the first of the best."""
    costs = np.zeros(len(ROWS))
    for k in range(SLOTS):
        costs += tables[k, ROWS[:, k]]
    if joint.ndim == 1:
        costs += joint[ROWS.sum(axis=1)]
    else:
        costs += joint[ROWS[:, groups == 0].sum(axis=1), ROWS[:, groups == 1].sum(axis=1)]
    best = int(np.argmin(costs))
    return float(costs[best]), ROWS[best].tolist() if costs[best] < np.inf else [0] * SLOTS


@pytest.mark.parametrize("two", [False, True])
def test_it_equals_enumeration_whatever_the_shape_of_the_tables(two: bool) -> None:
    """Whole numbers are added exactly, so that ties are ties: the lexicographically smallest units are expected."""
    rng = np.random.default_rng(1)
    for case in range(500):
        groups = rng.integers(0, 2, SLOTS) if two else np.zeros(SLOTS, dtype=np.int64)
        tables = rng.integers(-4, 5, (SLOTS, UNITS + 1)).astype(float)
        joint = rng.integers(-6, 7, (UNITS + 1,) * (1 + two)).astype(float)
        if case % 3:
            tables[rng.random(tables.shape) < case % 3 * 0.3] = np.inf
            joint[rng.random(joint.shape) < 0.5] = np.inf
        value, units = group_minimum(tables, groups, joint)
        assert (value, units.tolist()) == enumerated(tables, groups, joint), case


def test_it_equals_enumeration_on_real_costs() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        groups, tables = rng.integers(0, 2, SLOTS), rng.standard_normal((SLOTS, UNITS + 1))
        joint = rng.standard_normal((UNITS + 1, UNITS + 1))
        value, units = group_minimum(tables, groups, joint)
        expected, best = enumerated(tables, groups, joint)
        assert value == pytest.approx(expected, abs=1e-12)
        assert units.tolist() == best


def test_nothing_allowed_costs_infinitely_much() -> None:
    value, units = group_minimum(np.full((2, 4), np.inf), np.array([0, 1]), np.zeros((4, 4)))
    assert (value, units.tolist()) == (np.inf, [0, 0])


def test_without_slots_nothing_is_given() -> None:
    value, units = group_minimum(np.zeros((0, 4)), np.zeros(0, dtype=np.int64), np.array([3.0, 1, 1, 1]))
    assert (value, units.tolist()) == (3.0, [])


def test_a_profile_has_the_best_of_every_total() -> None:
    rng = np.random.default_rng(3)
    totals = ROWS.sum(axis=1)
    for _ in range(20):
        tables = rng.integers(-4, 5, (SLOTS, UNITS + 1)).astype(float)
        tables[rng.random(tables.shape) < 0.2] = np.inf
        best, choices = group_profile(tables)
        costs = sum(tables[k, ROWS[:, k]] for k in range(SLOTS))
        for n in range(UNITS + 1):
            rows = np.flatnonzero(totals == n)
            first = rows[int(np.argmin(costs[rows]))]
            assert best[n] == costs[first]
            if np.isfinite(best[n]):
                assert group_units(choices, n).tolist() == ROWS[first].tolist()


def test_convex_tables_are_given_unit_by_unit() -> None:
    """With convex tables the next unit goes where it costs least: the profile is the sorted marginal costs added up."""
    rng = np.random.default_rng(4)
    marginal = np.sort(rng.integers(0, 50, (4, 30)).astype(float), axis=1)
    tables = np.hstack([np.zeros((4, 1)), np.cumsum(marginal, axis=1)])
    best, _ = group_profile(tables)
    assert best[1:].tolist() == np.cumsum(np.sort(marginal.ravel())[:30]).tolist()


@njit(cache=True)
def from_compiled_code(tables: Matrix, groups: Integers, joint: Matrix) -> tuple[float, Units]:
    found: tuple[float, Units] = group_minimum_compiled(tables, groups, joint)
    return found


def test_other_compiled_code_calls_it_and_is_refused_what_does_not_fit() -> None:
    tables, groups = np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([0, 0])
    value, units = from_compiled_code(tables, groups, np.array([[5.0], [0.0]]))
    assert (value, units.tolist()) == (1.0, [1, 0])
    for wrong in (np.zeros((1, 1)), np.zeros((2, 3)), np.zeros((3, 1))):
        with pytest.raises(InputError, match="must belong to the same slots and units"):
            from_compiled_code(tables, groups, wrong)
    with pytest.raises(InputError, match="0 where joint is of a single group"):
        from_compiled_code(tables, np.array([0, 1]), np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("tables", "groups", "joint", "message"),
    [
        (np.array([[0.0, np.nan]]), [0], np.zeros(2), "tables must be numbers or positive infinity, was nan"),
        (np.zeros((1, 2)), [0], np.array([0.0, -np.inf]), "joint must be numbers or positive infinity, was -inf"),
        (np.zeros((2, 2)), [0, 2], np.zeros((2, 2)), r"groups must be 0 or 1, was 2 at \[1\]"),
        (np.zeros((2, 2)), [0, 1], np.zeros(2), r"groups must be 0, was 1 at \[1\]"),
        (np.zeros((2, 2)), [-1, 1], np.zeros((2, 2)), r"groups must be 0 or 1, was -1 at \[0\]"),
        (np.zeros((1, 0)), [0], np.zeros(0), "tables must have a column for no units"),
        (np.zeros((1, 2)), [0], np.zeros((2, 3)), r"joint must have shape \(2, 2\), was \(2, 3\)"),
    ],
)
def test_costs_and_groups_that_cannot_be_are_refused(
    tables: Matrix, groups: list[int], joint: Floats, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        group_minimum(tables, np.array(groups, dtype=np.int64), joint)


def test_a_total_beyond_the_tables_is_refused() -> None:
    _, choices = group_profile(np.zeros((2, 4)))
    with pytest.raises(InputError, match="total must be at most 3, was 4"):
        group_units(choices, 4)
