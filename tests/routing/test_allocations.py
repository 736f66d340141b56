"""Allocation sets against itertools: every question they answer, for every small order and random bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from riskroute import Actions, Allocations
from riskroute.core.errors import InputError
from riskroute.routing import split_actions
from riskroute.routing.allocations import allocation_unit_shares, proportional_allocation

ORDERS = [(units, slots, lot) for units in range(1, 9) for slots in range(1, 6) for lot in (1, 2)]
EVERY_ORDER = pytest.mark.parametrize(("units", "slots", "lot"), ORDERS)


def random_bounds(units: int, slots: int, lot: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Minimums and caps around a random member, not always multiples of the lot."""
    inside = rng.multinomial(units, np.full(slots, 1 / slots))
    lows = inside - rng.integers(0, inside + 1)
    highs = inside + rng.integers(0, units + 1, slots)
    minimums = np.maximum(lots_below(lows, lot, rng), 0)
    return minimums.tolist(), (highs * lot + rng.integers(0, lot, slots)).tolist()


def lots_below(lows: np.ndarray, lot: int, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(lows * lot - rng.integers(0, lot, len(lows)))


def members(shares: int, slots: int, lot: int, minimums: list[int], caps: list[int]) -> np.ndarray:
    """All allocations, in lexicographic order."""
    rows = itertools.product(range(0, shares + 1, lot), repeat=slots)
    kept = [r for r in rows if sum(r) == shares and all(map(_between, minimums, r, caps))]
    return np.array(kept)


def _between(low: int, value: int, high: int) -> bool:
    return low <= value <= high


def cases(units: int, slots: int, lot: int, count: int = 3) -> list[tuple[Allocations, np.ndarray]]:
    """The set without bounds, and some with random bounds, each with its members."""
    rng = np.random.default_rng([units, slots, lot])
    shares = units * lot
    found = [(Allocations(shares, slots, lot), members(shares, slots, lot, [0] * slots, [shares] * slots))]
    for _ in range(count):
        minimums, caps = random_bounds(units, slots, lot, rng)
        found.append((Allocations(shares, slots, lot, caps, minimums), members(shares, slots, lot, minimums, caps)))
    return found


def plain(rows: np.ndarray) -> np.ndarray:
    """Features written out: ``(a, a^2)`` over the largest norm."""
    features = np.hstack([rows, rows**2]).astype(float)
    return features / np.linalg.norm(features, axis=1).max()


def as_set(rows: Any) -> set[tuple[int, ...]]:
    return {tuple(int(x) for x in row) for row in rows}


@EVERY_ORDER
def test_count_rank_unrank_and_membership_are_exact(units: int, slots: int, lot: int) -> None:
    for allocations, rows in cases(units, slots, lot):
        handles = [tuple(row) for row in rows.tolist()]
        assert allocations.size == len(handles)
        assert [allocations.unrank(i) for i in range(len(handles))] == handles
        assert [allocations.rank(handle) for handle in handles] == list(range(len(handles)))
        rng = np.random.default_rng(0)
        probes = np.concatenate([rows, rng.integers(-1, units * lot + 1, (50, slots)), rows[:, ::-1], rows + 1])
        known = set(handles)
        assert allocations.contains(probes).tolist() == [tuple(row) in known for row in probes.tolist()]


@EVERY_ORDER
def test_list_and_features_are_those_of_the_members(units: int, slots: int, lot: int) -> None:
    for allocations, rows in cases(units, slots, lot):
        listed = allocations.listed()
        assert listed.handles.tolist() == rows.tolist()
        np.testing.assert_allclose(allocations.features(rows), plain(rows), rtol=1e-12)
        np.testing.assert_allclose(listed.features(rows), plain(rows), rtol=1e-12)
        assert allocations.largest_norm() == 1
    whole, rows = cases(units, slots, lot, count=0)[0]
    if lot == 1:
        np.testing.assert_allclose(whole.listed().matrix, split_actions(units, slots).matrix, rtol=1e-12)


@EVERY_ORDER
def test_best_second_best_and_gap(units: int, slots: int, lot: int) -> None:
    rng = np.random.default_rng([units, slots, lot, 1])
    for allocations, rows in cases(units, slots, lot):
        for convex in (True, False):
            coef = rng.standard_normal(2 * slots)
            coef[slots:] = np.abs(coef[slots:]) if convex else coef[slots:]
            scores = plain(rows) @ coef
            order = np.sort(scores)
            assert allocations.action_features(allocations.best(coef)) @ coef == pytest.approx(order[0], abs=1e-9)
            best, second = allocations.two_best(coef)
            margin = allocations.margin(coef)
            assert best in as_set(rows)
            assert margin.best == best
            assert allocations.action_features(best) @ coef == pytest.approx(order[0], abs=1e-9)
            if len(rows) == 1:
                assert second is None
                assert margin.gap == margin.margin == math.inf
                continue
            assert second in as_set(rows)
            assert second != best
            assert allocations.action_features(second) @ coef == pytest.approx(order[1], abs=1e-9)
            assert margin.gap == pytest.approx(order[1] - order[0], abs=1e-9)
            moves = np.abs(rows - np.array(best)).sum(axis=1) == 2 * lot
            expected = scores[moves].min() - order[0] if moves.any() else math.inf
            assert margin.margin == pytest.approx(expected, abs=1e-9)
            if convex:  # the paper's claim, and equality: the second best is one exchange away
                assert margin.convex
                assert margin.claim_holds
                assert margin.gap == pytest.approx(margin.margin, abs=1e-9)


@EVERY_ORDER
def test_within_keeps_the_members_near_the_best(units: int, slots: int, lot: int) -> None:
    rng = np.random.default_rng([units, slots, lot, 2])
    for allocations, rows in cases(units, slots, lot):
        coef, other = rng.standard_normal((2, 2 * slots))
        scores, others = plain(rows) @ coef, plain(rows) @ other
        limit = np.quantile(scores, 0.6) - scores.min()
        once = allocations.within(coef, limit)
        kept = as_set(once.listed().handles)
        inside = scores <= scores.min() + limit
        unclear = np.abs(scores - scores.min() - limit) <= 1e-9
        assert kept - as_set(rows[unclear]) == as_set(rows[inside & ~unclear])
        # a second cut, among the survivors of the first
        inside = np.array([tuple(row) in kept for row in rows.tolist()])
        twice = once.within(other, 0.3)
        limit = others[inside].min() + 0.3
        unclear = np.abs(others - limit) <= 1e-9
        expected = as_set(rows[inside & (others <= limit) & ~unclear])
        assert as_set(twice.listed().handles) - as_set(rows[unclear]) == expected
        assert as_set(allocations.within(coef, 1e6).listed().handles) == as_set(rows)


@EVERY_ORDER
def test_top_keeps_the_best(units: int, slots: int, lot: int) -> None:
    rng = np.random.default_rng([units, slots, lot, 3])
    for allocations, rows in cases(units, slots, lot):
        coef = rng.standard_normal(2 * slots)
        scores = plain(rows) @ coef
        for count in {1, (len(rows) + 1) // 2, len(rows)}:
            kept = as_set(allocations.top(coef, count).listed().handles)
            assert len(kept) == count
            worst = max(scores[[tuple(row) in kept for row in rows.tolist()]])
            assert worst <= np.sort(scores)[count - 1] + 1e-9


@EVERY_ORDER
def test_design_bound_holds_for_every_member(units: int, slots: int, lot: int) -> None:
    for allocations, rows in cases(units, slots, lot, count=1):
        design = allocations.design(0.01)
        features = plain(rows)
        support = plain_of(allocations, design.actions)
        _, singular, axes = np.linalg.svd(np.sqrt(design.weights)[:, None] * support, full_matrices=False)
        kept = singular > 1e-9 * singular[0]
        inside = features @ axes[kept].T
        np.testing.assert_allclose(inside @ axes[kept], features, atol=1e-8)
        assert np.sum((inside / singular[kept]) ** 2, axis=1).max() <= design.bound * (1 + 1e-6)
        assert design.rank == np.linalg.matrix_rank(features / np.maximum(np.abs(features).max(axis=0), 1e-300))
        assert design.bound <= design.rank * 1.01 * (1 + 1e-9)
        assert design.weights.sum() == pytest.approx(1)
        assert len(as_set(design.actions)) == len(design) <= design.rank * (design.rank + 1) // 2
        assert as_set(design.actions) <= as_set(rows)


def plain_of(allocations: Allocations, rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows, rows**2]) / allocations.scale


def test_answers_of_the_list_and_of_the_set_are_the_same() -> None:
    allocations = Allocations(shares=12, slots=4, lot=2, caps=[8, 6, 12, 5], minimums=[0, 1, 2, 0])
    listed = allocations.listed()
    rng = np.random.default_rng(4)
    for _ in range(20):
        coef = rng.standard_normal(8)
        assert allocations.best(coef) == listed.best(coef)
        assert as_set(allocations.top(coef, 5).listed().handles) == as_set(listed.top(coef, 5).handles)
    assert isinstance(listed, Actions)


def test_paper_example_of_a_margin() -> None:
    """S = d, equal alpha and equal beta > 0: best is (1, .., 1) and gamma = 2 beta, in units of scores."""
    for slots in range(2, 9):
        allocations = Allocations(shares=slots, slots=slots)
        beta = 0.7
        # features are (a, a^2) / scale, so MV = sum alpha a + beta a^2 has coefficients times the scale
        coef = np.repeat([0.3, beta], slots) * allocations.scale
        margin = allocations.margin(coef)
        assert margin.best == (1,) * slots
        assert margin.margin == pytest.approx(2 * beta)
        assert margin.gap == pytest.approx(2 * beta)
        assert margin.claim_holds
        assert margin.convex


def test_claim_fails_without_convexity() -> None:
    """With concave costs the second best may be far away in shares and near in score: all in the other slot."""
    allocations = Allocations(shares=4, slots=2)
    coef = np.array([0.0, 0.1, -1.0, -1.0]) * allocations.scale
    margin = allocations.margin(coef)
    assert margin.best == (4, 0)
    assert allocations.two_best(coef)[1] == (0, 4)
    assert margin.gap == pytest.approx(0.4)
    assert margin.margin == pytest.approx(6.1)  # (3, 1): -10 + 0.1 against -16
    assert not margin.convex
    assert not margin.claim_holds


def test_margin_of_a_large_set_is_found_without_listing() -> None:
    allocations = Allocations(shares=1000, slots=20)
    rng = np.random.default_rng(5)
    coef = np.concatenate([rng.standard_normal(20), rng.exponential(size=20)])
    margin = allocations.margin(coef)
    assert margin.gap == pytest.approx(margin.margin)
    best = np.array(margin.best)
    score = allocations.action_features(margin.best) @ coef
    for i, j in itertools.permutations(range(20), 2):
        moved = best.copy()
        moved[i] -= 1
        moved[j] += 1
        if moved[i] >= 0:
            assert allocations.features(moved[None, :])[0] @ coef >= score + margin.margin - 1e-9


def test_fingerprints_tell_sets_apart() -> None:
    sets = [
        Allocations(8, 3),
        Allocations(8, 4),
        Allocations(6, 3),
        Allocations(8, 3, lot=2),
        Allocations(8, 3, caps=4),
        Allocations(8, 3, minimums=1),
        Allocations(8, 3, caps=[4, 8, 8]),
        Allocations(8, 3, caps=[8, 4, 8]),
    ]
    assert len({allocations.fingerprint for allocations in sets}) == len(sets)
    assert Allocations(8, 3, caps=[4, 4, 4]).fingerprint == Allocations(8, 3, caps=4).fingerprint


def test_text_names_the_set() -> None:
    assert repr(Allocations(8, 6)) == "Allocations(8 shares over 6 slots, 1,287 allocations)"
    assert repr(Allocations(1000, 20, lot=10)).startswith("Allocations(1000 shares over 20 slots, lot 10, about ")


COEF = np.ones(4)
BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: Allocations(0, 2), "shares .* was 0"),
    (lambda: Allocations(-4, 2), "shares .* was -4"),
    (lambda: Allocations(2.5, 2), r"shares .* was 2\.5"),  # type: ignore[arg-type]
    (lambda: Allocations(True, 2), "shares .* was True"),
    (lambda: Allocations("8", 2), "shares .* was '8'"),  # type: ignore[arg-type]
    (lambda: Allocations(4, 0), "slots .* was 0"),
    (lambda: Allocations(4, -1), "slots .* was -1"),
    (lambda: Allocations(4, 2, lot=0), "lot .* was 0"),
    (lambda: Allocations(4, 2, lot=3), "shares .* multiple of the lot of 3, was 4"),
    (lambda: Allocations(4, 2, lot=1.0), r"lot .* was 1\.0"),  # type: ignore[arg-type]
    (lambda: Allocations(4, 3, caps=1), "caps .* at least 4 shares, was 3"),
    (lambda: Allocations(4, 2, lot=2, caps=1), "caps .* at least 4 shares, was 0"),
    (lambda: Allocations(4, 2, caps=-1), "caps .* was -1"),
    (lambda: Allocations(4, 2, caps=[4, -2]), "caps .* was -2"),
    (lambda: Allocations(4, 2, caps=[3, 2.5]), r"caps .* was 2\.5"),  # type: ignore[list-item]
    (lambda: Allocations(4, 2, caps=[4, 4, 4]), "caps .* 2, one per slot, got 3"),
    (lambda: Allocations(4, 2, caps=[]), "caps .* 2, one per slot, got 0"),
    (lambda: Allocations(4, 2, minimums=3), "minimums .* at most 4 shares, was 6"),
    (lambda: Allocations(4, 3, lot=2, minimums=1), "minimums .* at most 4 shares, was 6"),
    (lambda: Allocations(4, 2, minimums=[1]), "minimums .* 2, one per slot, got 1"),
    (lambda: Allocations(4, 2, minimums=-1), "minimums .* was -1"),
    (lambda: Allocations(4, 2, minimums=[3, 0], caps=[2, 4]), "slot 0 has minimum 3 and cap 2"),
    (lambda: Allocations(4, 2, minimums=[0, 5]), "slot 1 has minimum 5"),
    (lambda: Allocations(4, 2).best(np.ones(3)), "coef must have 4 entries, had 3"),
    (lambda: Allocations(4, 2).best(np.array([1.0, 0.0, np.nan, 0.0])), r"coef must be finite, was nan at \[2\]"),
    (lambda: Allocations(4, 2).best(np.ones((2, 2))), r"coef .* was of shape \(2, 2\)"),
    (lambda: Allocations(4, 2).two_best(np.array([np.inf, 0, 0, 0])), "coef must be finite, was inf"),
    (lambda: Allocations(4, 2).margin(np.ones(5)), "coef must have 4 entries, had 5"),
    (lambda: Allocations(4, 2).within(np.ones(3), 1.0), "coef must have 4 entries, had 3"),
    (lambda: Allocations(4, 2).within(COEF, -1.0), r"tolerance .* was -1\.0"),
    (lambda: Allocations(4, 2).within(COEF, math.nan), "tolerance .* was nan"),
    (lambda: Allocations(4, 2).top(COEF, 0), "count .* was 0"),
    (lambda: Allocations(4, 2).top(COEF, 6), "count must be at most 5, was 6"),
    (lambda: Allocations(4, 2).sample(np.random.default_rng(0), -1), "count .* was -1"),
    (lambda: Allocations(4, 2).design(0), "tolerance .* was 0"),
    (lambda: Allocations(4, 2).unrank(-1), "rank .* was -1"),
    (lambda: Allocations(4, 2).unrank(5), "rank must be at most 4, was 5"),
    (lambda: Allocations(4, 2).unrank(1.5), r"rank .* was 1\.5"),  # type: ignore[arg-type]
    (lambda: Allocations(4, 2).rank((1, 2)), r"action .* was \(1, 2\)"),
    (lambda: Allocations(4, 2).rank((1, 2, 1)), r"action .* was \(1, 2, 1\)"),
    (lambda: Allocations(4, 2).rank((-1, 5)), r"action .* was \(-1, 5\)"),
    (lambda: Allocations(4, 2, lot=2).rank((1, 3)), r"action .* was \(1, 3\)"),
    (lambda: Allocations(4, 2, caps=3).rank((0, 4)), r"action .* was \(0, 4\)"),
    (
        lambda: Allocations(1000, 20).listed(),
        r"limit 1,000,000\): about 9\.9e\+39",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_lots_and_units_by_hand() -> None:
    assert proportional_allocation(np.array([0.5, 0.3, 0.2]), 850, 100).tolist() == [450, 200, 200]
    assert (allocation_unit_shares(1000, 1, 200), allocation_unit_shares(1000, 100, 200)) == (8, 100)
