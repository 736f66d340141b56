"""Separable optimisation against enumeration: greedy, dynamic programming, second best, many scores, all totals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from riskroute import Allocations, InputError
from riskroute.learning.actions import ActionSet
from riskroute.routing import routing_actions
from riskroute.routing.allocations import _best_exchange
from riskroute.routing.separable import (
    SeparableScores,
    cheapest_separable_totals,
    convolve_separable,
    greedy_separable,
    maximise_tables,
    minimise_separable,
    minimise_separable_one_concave,
    separable_units,
    tabulate_separable,
    two_best_of_tables,
)

Bounded = tuple[int, np.ndarray, np.ndarray]


@st.composite
def bounded_sums(draw: Any) -> Bounded:
    """At most 8 units over at most 5 slots with bounds that leave at least one vector: units, lows, highs."""
    inside = np.array(draw(st.lists(st.integers(0, 4), min_size=1, max_size=5)))
    assume(1 <= inside.sum() <= 8)
    slots = len(inside)
    lows = inside - np.array([draw(st.integers(0, int(v))) for v in inside])
    highs = inside + np.array(draw(st.lists(st.integers(0, 8), min_size=slots, max_size=slots)))
    return int(inside.sum()), lows, highs


def vectors(units: int, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """All vectors within bounds with the given sum, in lexicographic order."""
    ranges = (range(low, min(high, units) + 1) for low, high in zip(lows.tolist(), highs.tolist(), strict=True))
    return np.array([row for row in itertools.product(*ranges) if sum(row) == units])


def whole(draw: Any, slots: int, least: int = -3, most: int = 3) -> np.ndarray:
    """Whole numbers as floats: sums and products of them are exact, and ties are frequent."""
    return np.array(draw(st.lists(st.integers(least, most), min_size=slots, max_size=slots)), dtype=float)


def scores(alpha: np.ndarray, beta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return rows @ alpha + rows**2 @ beta


@given(case=bounded_sums(), data=st.data())
def test_minimise_returns_the_lexicographically_smallest_minimiser(case: Bounded, data: Any) -> None:
    units, lows, highs = case
    alpha, beta = whole(data.draw, len(lows)), whole(data.draw, len(lows))
    rows = vectors(*case)
    expected = rows[int(np.argmin(scores(alpha, beta, rows)))]
    assert minimise_separable(alpha, beta, units, lows, highs).tolist() == expected.tolist()


@given(case=bounded_sums(), data=st.data())
def test_greedy_and_dynamic_programming_return_the_same_vector(case: Bounded, data: Any) -> None:
    units, lows, highs = case
    alpha, beta = whole(data.draw, len(lows)), whole(data.draw, len(lows), least=0)
    rows = vectors(*case)
    expected = rows[int(np.argmin(scores(alpha, beta, rows)))].tolist()
    assert greedy_separable(alpha, beta, units, lows, highs).tolist() == expected
    value, chosen = maximise_tables(tabulate_separable(alpha, beta, lows, highs, units), units)
    assert chosen.tolist() == expected
    assert value == -scores(alpha, beta, rows).min()


@given(case=bounded_sums(), seed=st.integers(0, 10**6))
def test_greedy_and_dynamic_programming_agree_on_real_coefficients(case: Bounded, seed: int) -> None:
    units, lows, highs = case
    rng = np.random.default_rng(seed)
    alpha, beta = rng.standard_normal(len(lows)), rng.exponential(size=len(lows))
    greedy = greedy_separable(alpha, beta, units, lows, highs)
    value, _ = maximise_tables(tabulate_separable(alpha, beta, lows, highs, units), units)
    assert scores(alpha, beta, greedy[None, :])[0] == pytest.approx(-value, abs=1e-9)


@pytest.mark.parametrize(("units", "slots"), [(1000, 20), (777, 7), (50, 60)])
def test_greedy_and_dynamic_programming_agree_on_large_sets(units: int, slots: int) -> None:
    rng = np.random.default_rng(units)
    lows = rng.integers(0, 1 + units // (4 * slots), slots)
    highs = lows + rng.integers(2 * units // slots + 1, units, slots)
    alpha, beta = rng.integers(-50, 50, slots).astype(float), rng.integers(0, 5, slots).astype(float)
    greedy = greedy_separable(alpha, beta, units, lows, highs)
    value, chosen = maximise_tables(tabulate_separable(alpha, beta, lows, highs, units), units)
    assert greedy.tolist() == chosen.tolist()
    assert greedy.sum() == units
    assert scores(alpha, beta, greedy[None, :])[0] == -value


@given(case=bounded_sums(), data=st.data())
def test_two_best_are_the_two_smallest_scores(case: Bounded, data: Any) -> None:
    units, lows, highs = case
    alpha, beta = whole(data.draw, len(lows)), whole(data.draw, len(lows))
    rows = vectors(*case)
    expected = np.sort(scores(alpha, beta, rows))
    first, second = two_best_of_tables(tabulate_separable(alpha, beta, lows, highs, units), units)
    assert first.tolist() == rows[int(np.argmin(scores(alpha, beta, rows)))].tolist()
    if len(rows) == 1:
        assert second is None
        return
    assert second is not None
    assert second.tolist() in rows.tolist()
    assert second.tolist() != first.tolist()
    assert scores(alpha, beta, second[None, :])[0] == expected[1]


@given(case=bounded_sums(), data=st.data())
def test_best_exchange_is_the_cheapest_move_of_one_unit(case: Bounded, data: Any) -> None:
    _, lows, highs = case
    alpha, beta = whole(data.draw, len(lows)), whole(data.draw, len(lows))
    rows = vectors(*case)
    here = rows[data.draw(st.integers(0, len(rows) - 1))]
    near = rows[np.abs(rows - here).sum(axis=1) == 2]
    cost, i, j = _best_exchange(alpha, beta, here, lows, highs)
    if len(near) == 0:
        assert cost == np.inf
        return
    moved = here.copy()
    moved[i] -= 1
    moved[j] += 1
    start = scores(alpha, beta, here[None, :])[0]
    assert moved.tolist() in near.tolist()
    assert cost == scores(alpha, beta, moved[None, :])[0] - start == scores(alpha, beta, near).min() - start


@given(case=bounded_sums(), data=st.data())
def test_with_convex_costs_the_margin_is_the_gap_to_the_second_best(case: Bounded, data: Any) -> None:
    """The paper's claim on the gap, ``Delta_a >= gamma`` for every other ``a``; one exchange attains it."""
    units, lows, highs = case
    alpha, beta = whole(data.draw, len(lows)), whole(data.draw, len(lows), least=0)
    rows = vectors(*case)
    assume(len(rows) > 1)
    values = np.sort(scores(alpha, beta, rows))
    best = minimise_separable(alpha, beta, units, lows, highs)
    assert _best_exchange(alpha, beta, best, lows, highs)[0] == values[1] - values[0]


@given(data=st.data(), limit=st.integers(0, 12))
def test_convolution_is_the_best_sum_of_two_entries(data: Any, limit: int) -> None:
    entries = st.one_of(st.integers(-5, 5).map(float), st.just(-np.inf))
    first, second = (np.array(data.draw(st.lists(entries, min_size=1, max_size=8))) for _ in range(2))
    best, choice = convolve_separable(first, second, limit)
    for n in range(limit + 1):
        sums = {j: first[j] + second[n - j] for j in range(len(first)) if 0 <= n - j < len(second)}
        expected = max(sums.values(), default=-np.inf)
        assert best[n] == expected
        if expected > -np.inf:
            assert choice[n] == min(j for j, value in sums.items() if value == expected)


def test_maximum_over_nothing_is_minus_infinity() -> None:
    tables = [np.zeros(3), np.zeros(2)]  # at most 2 + 1 units fit
    assert maximise_tables(tables, 4)[0] == -np.inf
    assert maximise_tables([np.array([-np.inf, 0.0])], 0)[0] == -np.inf
    assert maximise_tables(tables, 3)[1].tolist() == [2, 1]


def test_one_slot_takes_everything() -> None:
    lows, highs = np.array([0]), np.array([9])
    for beta in (1.0, -1.0):
        assert minimise_separable(np.array([2.0]), np.array([beta]), 5, lows, highs).tolist() == [5]
    assert two_best_of_tables(tabulate_separable(np.array([2.0]), np.array([-1.0]), lows, highs, 5), 5)[1] is None


@given(bounded_sums(), st.data())
def test_without_upper_bounds_ties_are_still_broken_lexicographically(case: Bounded, data: Any) -> None:
    units, lows, _ = case
    highs = np.full(len(lows), units)
    alpha, beta = whole(data.draw, len(lows)), whole(data.draw, len(lows))
    rows = vectors(units, lows, highs)
    values = scores(alpha, beta, rows)
    assert minimise_separable(alpha, beta, units, lows, highs).tolist() == rows[int(np.argmin(values))].tolist()


@pytest.mark.parametrize(("units", "slots"), [(60, 3), (200, 12), (1000, 20)])
def test_one_concave_slot_is_what_dynamic_programming_finds(units: int, slots: int) -> None:
    rng = np.random.default_rng(units)
    for curvature in (0.0, 1.0, -1.0):
        alpha, beta = rng.standard_normal(slots), (rng.standard_normal(slots) + curvature) / units
        lows = rng.integers(0, 3, slots)
        chosen, clear = minimise_separable_one_concave(alpha, beta, units, lows)
        tables = tabulate_separable(alpha, beta, lows, np.full(slots, units), units)
        assert clear
        assert chosen.tolist() == maximise_tables(tables, units)[1].tolist()


def test_two_equally_good_solutions_are_not_called_clear() -> None:
    alpha, beta = np.array([1.0, 1.0, 5.0]), np.array([-1.0, -1.0, 0.0])
    assert not minimise_separable_one_concave(alpha, beta, 4, np.zeros(3, dtype=np.int64))[1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_each_row_is_what_one_call_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots, units = int(rng.integers(1, 20)), int(rng.integers(0, 60))
    lows = rng.multinomial(units // 3, np.full(slots, 1 / slots)).astype(np.int64)
    highs = np.minimum(lows + rng.integers(0, units + 1, slots), units) if rng.random() < 0.5 else np.full(slots, units)
    highs = np.maximum(highs, lows)
    if highs.sum() < units:
        highs[0] = units
    whole = rng.random() < 0.3  # ties
    alphas, betas = rng.standard_normal((2, 9, slots)) * (2 if whole else 1)
    if whole:
        alphas, betas = np.round(alphas), np.round(betas)
    betas[: int(rng.integers(0, 9))] = np.abs(betas[: int(rng.integers(0, 9)) or 1][:1])
    found = SeparableScores(units, 1, lows, highs, 1.0).best_each(np.hstack([alphas, betas]))
    for row, alpha, beta in zip(found, alphas, betas, strict=True):
        assert row.tolist() == minimise_separable(alpha, beta, units, lows, highs).tolist()


@pytest.mark.parametrize("lot", [1, 5])
@pytest.mark.parametrize("caps", [None, 10])
def test_implicit_and_listed_sets_find_the_same_allocations(lot: int, caps: int | None) -> None:
    implicit = Allocations(8 * lot, 6, lot=lot, caps=None if caps is None else caps * lot // 2)
    listed = implicit.listed()
    coefs = np.random.default_rng(lot).standard_normal((300, implicit.dim))
    expected = ActionSet.best_each(implicit, coefs)
    np.testing.assert_array_equal(implicit.best_each(coefs), expected)
    np.testing.assert_array_equal(listed.best_each(coefs), expected)
    half = listed.top(coefs[0], listed.size // 2)  # no longer all allocations: every row is looked at
    np.testing.assert_array_equal(half.best_each(coefs), ActionSet.best_each(half, coefs))


def test_lists_of_splits_find_them_too() -> None:
    listed = routing_actions(8, 6).listed()
    coefs = np.random.default_rng(0).standard_normal((100, 12))
    np.testing.assert_array_equal(listed.best_each(coefs), ActionSet.best_each(listed, coefs))
    np.testing.assert_array_equal(listed.shrunk().best_each(coefs), ActionSet.best_each(listed, coefs))


def test_tables_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskroute.routing.separable._LARGEST_TABLES", 10)
    allocations = Allocations(40, 6, caps=20)
    with pytest.raises(InputError, match="lots times slots"):
        allocations.best_each(-np.ones((2, 12)))
    assert allocations.best_each(np.ones((2, 12))).sum() == 80  # convex scores need no tables


def test_scores_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="coefs must have 12 columns, had 11"):
        Allocations(8, 6).best_each(np.zeros((2, 11)))


def test_the_cheapest_way_to_every_total_is_that_of_enumeration() -> None:
    slots, most = 4, 7
    rows_of_all = np.array([row for row in itertools.product(range(most + 1), repeat=slots) if sum(row) <= most])
    rng = np.random.default_rng(3)
    totals = rows_of_all.sum(axis=1)
    for _ in range(20):
        tables = rng.integers(-4, 5, (slots, most + 1)).astype(float)
        tables[rng.random(tables.shape) < 0.2] = np.inf
        best, choices = cheapest_separable_totals(tables)
        costs = sum(tables[k, rows_of_all[:, k]] for k in range(slots))
        for n in range(most + 1):
            rows = np.flatnonzero(totals == n)
            first = rows[int(np.argmin(costs[rows]))]
            assert best[n] == costs[first]
            if np.isfinite(best[n]):
                assert separable_units(choices, n).tolist() == rows_of_all[first].tolist()


def test_convex_tables_add_the_cheapest_units_one_by_one() -> None:
    """With convex tables the next unit goes where it costs least: costs are the cumulated sorted marginal costs."""
    rng = np.random.default_rng(4)
    marginal = np.sort(rng.integers(0, 50, (4, 30)).astype(float), axis=1)
    tables = np.hstack([np.zeros((4, 1)), np.cumsum(marginal, axis=1)])
    best, _ = cheapest_separable_totals(tables)
    assert best[1:].tolist() == np.cumsum(np.sort(marginal.ravel())[:30]).tolist()


def test_cheapest_totals_of_two_slots_by_hand() -> None:
    best, choices = cheapest_separable_totals(np.array([[0.0, 3.0, 4.0], [0.0, 2.0, 7.0]]))
    assert (best.tolist(), separable_units(choices, 2).tolist()) == ([0.0, 2.0, 4.0], [2, 0])
