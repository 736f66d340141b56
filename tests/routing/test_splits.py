"""Splits of an order over slots against itertools, and the paper's numbers of actions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.core.text import count_text
from riskroute.learning.problem import random_problem
from riskroute.routing import splits
from riskroute.routing.instances import random_routing_problem
from riskroute.routing.splits import count_splits, list_splits, split_actions


@given(shares=st.integers(1, 7), slots=st.integers(1, 5))
@settings(max_examples=35)
def test_splits_are_the_vectors_of_whole_numbers_that_sum_to_the_order(shares: int, slots: int) -> None:
    expected = [list(row) for row in itertools.product(range(shares + 1), repeat=slots) if sum(row) == shares]
    found = list_splits(shares, slots)
    assert found.dtype == np.int64
    assert found.tolist() == expected  # product runs in ascending lexicographic order too
    assert count_splits(shares, slots) == len(expected)


@pytest.mark.parametrize(
    ("shares", "slots", "actions"), [(4, 4, 35), (4, 5, 70), (6, 6, 462), (8, 6, 1287), (10, 5, 1001)]
)
def test_numbers_of_actions_of_the_figures_and_the_table(shares: int, slots: int, actions: int) -> None:
    """Figure 2's panels and the table of parameters: d counts slots there."""
    assert count_splits(shares, slots) == actions
    assert len(list_splits(shares, slots)) == actions


@given(shares=st.integers(1, 200), slots=st.integers(1, 200))
@settings(max_examples=30)
def test_count_obeys_the_recursion_over_the_first_slot(shares: int, slots: int) -> None:
    """Either the first slot gets nothing, or one share of it can be taken away: Pascal's rule, in exact integers."""
    if slots > 1 and shares > 1:
        assert count_splits(shares, slots) == count_splits(shares, slots - 1) + count_splits(shares - 1, slots)
    assert count_splits(shares, 1) == 1
    assert count_splits(1, slots) == slots


def test_count_is_exact_where_floats_are_not() -> None:
    assert count_splits(1000, 20) == 9928648649789007111289430252718014636201


def test_list_is_distinct_and_complete_for_a_larger_order() -> None:
    found = list_splits(12, 6)
    assert len(np.unique(found, axis=0)) == count_splits(12, 6) == len(found)
    assert (found.sum(axis=1) == 12).all()
    assert found.min() == 0
    assert found[0].tolist() == [0, 0, 0, 0, 0, 12]
    assert found[-1].tolist() == [12, 0, 0, 0, 0, 0]


def test_numpy_integers_are_whole_numbers_too() -> None:
    assert list_splits(np.uint8(3), np.int32(2)).tolist() == [[0, 3], [1, 2], [2, 1], [3, 0]]  # type: ignore[arg-type]  # NumPy's integers will do


def test_the_limit_of_the_list_is_inclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_LARGEST_LIST", 35)
    assert len(list_splits(4, 4)) == 35
    monkeypatch.setattr(splits, "_LARGEST_LIST", 34)
    with pytest.raises(InputError, match=r"too many splits to list \(limit 34\): 35 for 4 shares over 4 slots"):
        list_splits(4, 4)


def test_sets_too_large_to_list_are_refused_before_any_work() -> None:
    with pytest.raises(InputError, match=r"limit 1,000,000\).* for 1000 shares over 20 slots"):
        split_actions(1000, 20)


@pytest.mark.parametrize(("shares", "slots"), [(4, 4), (1, 3), (5, 1), (3, 6)])
def test_features_are_the_numbers_and_their_squares_over_the_largest_norm(shares: int, slots: int) -> None:
    """Section on modelling SOR: A = (a, a^2), scaled by one scalar so that no norm exceeds one."""
    actions = split_actions(shares, slots)
    corner = math.sqrt(shares**2 + shares**4)  # a whole order in one slot is the longest vector
    for row, split in zip(actions.rows, list_splits(shares, slots).tolist(), strict=True):
        expected = [number / corner for number in split] + [number**2 / corner for number in split]
        assert row == pytest.approx(expected, rel=1e-14)
    assert actions.dim == 2 * slots
    assert actions.coordinates == slots
    assert actions.largest_norm() == pytest.approx(1.0, rel=1e-14)


def test_random_routing_problem_is_the_random_problem_over_the_splits() -> None:
    problem = random_routing_problem(3, 4, 11, risk_tolerance=0.5, base_variance=3.0)
    twin = random_problem(split_actions(3, 4), 11, risk_tolerance=0.5, base_variance=3.0)
    assert problem.actions.fingerprint == twin.actions.fingerprint
    assert problem.mean_coef.tolist() == twin.mean_coef.tolist()
    assert problem.var_coef.tolist() == twin.var_coef.tolist()
    assert (problem.risk_tolerance, problem.base_variance) == (0.5, 3.0)


def test_defaults_are_those_of_the_synthetic_example() -> None:
    """rho = 2 and omega = 1 throughout the synthetic experiments."""
    problem = random_routing_problem(2, 2, 0)
    assert (problem.risk_tolerance, problem.base_variance) == (2.0, 1.0)


@pytest.mark.parametrize("make", [count_splits, list_splits, split_actions])
@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, math.nan, "3", True, None, [2]])
def test_shares_and_slots_are_positive_integers(make: Any, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        make(value, 2)
    assert str(caught.value) == f"shares must be a positive integer, was {value!r}"
    with pytest.raises(InputError) as caught:
        make(2, value)
    assert str(caught.value) == f"slots must be a positive integer, was {value!r}"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"shares": 0}, "shares must be a positive integer, was 0"),
        ({"slots": "two"}, "slots must be a positive integer, was 'two'"),
        ({"seed": -1}, "seed must be a non-negative integer, was -1"),
        ({"seed": None}, "seed must be a non-negative integer, was None"),
        ({"risk_tolerance": -0.5}, "risk_tolerance must be a number of at least 0, was -0.5"),
        ({"base_variance": 0}, "base_variance must be a number above 0, was 0"),
        ({"base_variance": math.nan}, "base_variance must be a number above 0, was nan"),
    ],
)
def test_random_routing_problem_names_what_is_wrong(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        random_routing_problem(**{"shares": 2, "slots": 2, "seed": 0, **change})
    assert str(caught.value) == expected


def test_large_counts_are_printed_in_scientific_notation() -> None:
    assert (count_text(1287), count_text(10**40 + 1)) == ("1,287", "about 1.0e+40")
