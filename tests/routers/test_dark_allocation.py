"""What the dark-pool methods share: units, greedy splits, systematic sampling, and learning each child once."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riskroute as rr
from riskroute.core.errors import StateError
from riskroute.routers.literature.cmab import Cmab
from riskroute.routers.literature.dark_allocation import (
    DarkAllocation,
    KaplanMeier,
    ParMl,
    PendingDarkAllocation,
    RaUcb,
    _comb_sample,
    _greedy_units,
    sample_dark_allocation,
)
from riskroute.routers.literature.exponential_weights import Exp3, ExpGrad
from riskroute.routers.literature.lagrangian import Lagrangian, Reinforcement
from riskroute.routers.report import Report
from riskroute.routing.allocations import allocation_unit_shares
from router_cases import draw_pools, play_pools, pools_context, reported

KINDS: list[type[DarkAllocation]] = [KaplanMeier, ParMl, ExpGrad, Exp3, Lagrangian, Reinforcement, Cmab, RaUcb]
VARIANTS: list[DarkAllocation] = [
    *(kind() for kind in KINDS),
    KaplanMeier(mode="discounted", delay_cost=0.001),
    Cmab(index="bayes-ucb", share=False),
    Exp3(rounds=60, printed=True),
]
everyone = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("router", VARIANTS, ids=repr)
def test_the_public_checks(router: DarkAllocation) -> None:
    rr.check_router(router)


@everyone
def test_a_restored_router_makes_the_same_decisions(kind: type[DarkAllocation]) -> None:
    sizes, context = draw_pools(((0.5, 0.2), (0.6, 1.0), (0.3, 2.0)), 40, seed=1), pools_context(3, 50)
    expected = play_pools(kind(), sizes, context)
    for saved_at in (1, 17):
        np.testing.assert_array_equal(play_pools(kind(), sizes, context, saved_at=saved_at), expected)


@everyone
def test_all_of_an_order_is_sent_or_taken_at_once(kind: type[DarkAllocation]) -> None:
    for shares, lot in ((1, 1), (7, 100), (150, 100), (999, 1), (20_001, 1), (10**6, 100)):
        context = pools_context(2, shares, lot)
        plan = kind().route(context).checked(context)
        assert sum(plan.dark.values()) + sum(plan.take.values()) == min(shares, plan.sent)
        assert sum(plan.dark.values()) == shares, "nothing is known of the pools yet, so all of it is tried"


@everyone
def test_pools_that_save_nothing_are_left_out(kind: type[DarkAllocation]) -> None:
    plan = kind().route(pools_context(3, 100, fees=(0.0, 0.02, 0.001)))
    assert plan.dark.keys() <= {"P0", "P2"}
    nothing = kind().route(pools_context(1, 100, fees=(0.02,)))
    assert (nothing.dark, nothing.take, nothing.rest) == ({}, {}, "sweep")


@everyone
def test_a_pool_may_appear_later_and_is_tried(kind: type[DarkAllocation]) -> None:
    router = kind()
    play_pools(router, np.full((30, 2), 20), pools_context(2, 60))
    tried = 0
    for t in range(30):
        now = pools_context(3, 60, order=f"later {t}", time=(40 + t) * 10**9)
        plan = router.route(now).checked(now)
        tried += plan.dark.get("P2", 0)
        router.learn(reported(now, plan, np.array([20, 20, 60])))
    assert tried > 30


@everyone
def test_a_child_is_learned_once_and_orders_without_reports_are_forgotten(kind: type[DarkAllocation]) -> None:
    one, two = kind(), kind()
    context = pools_context(2, 60)
    for router, times in ((one, 1), (two, 3)):
        report = reported(context, router.route(context), np.array([5, 60]))
        for child in report.children:
            for _ in range(times):
                router.learn(Report(report.order, (child,)))
        for _ in range(times):
            router.learn(report)
    assert one.state() == two.state()
    assert one.pending == {}
    router = kind()
    now = pools_context(1, 5)
    router.pending = {f"o{k}": PendingDarkAllocation(1, 1, 0, {}, {}) for k in range(router.most_pending)}
    router.route(now)
    assert len(router.pending) == router.most_pending
    assert "o0" not in router.pending


def test_a_saved_state_is_a_copy_and_must_be_plain() -> None:
    router = KaplanMeier()
    context = pools_context(2, 60)
    router.learn(reported(context, router.route(context), np.array([5, 60])))
    state = router.state()
    before = json.dumps(state)
    again = KaplanMeier.restore(state)
    later = dataclasses.replace(context, order="later")
    again.learn(reported(later, again.route(later), np.array([5, 60])))
    assert json.dumps(state) == before
    with pytest.raises(StateError, match="counts"):
        KaplanMeier.restore(state | {"memory": {"pending": {}, "played": 1, "counts": {"P": None}}})


def test_units_double_until_there_are_few_enough() -> None:
    assert allocation_unit_shares(200, 1, 200) == 1
    assert allocation_unit_shares(201, 1, 200) == 2
    assert allocation_unit_shares(10**9, 1, 200) == 2**23


@given(
    st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=1, max_size=3),
    st.integers(1, 4),
)
@settings(max_examples=30, deadline=None)
def test_greedy_is_best_of_all_splits(values: list[list[float]], units: int) -> None:
    falling = -np.sort(-np.array(values), axis=1)
    given_units = _greedy_units(falling, units)
    worth = [np.concatenate([[0.0], np.cumsum(row)]) for row in falling]
    splits = (some for some in itertools.product(range(5), repeat=len(values)) if sum(some) <= units)
    best = max(sum(row[n] for row, n in zip(worth, some, strict=True)) for some in splits)
    assert sum(row[n] for row, n in zip(worth, given_units, strict=True)) == pytest.approx(best)
    assert given_units.sum() <= units


def test_equal_pools_get_the_same_and_the_odd_unit_goes_by_chance() -> None:
    splits = {tuple(_greedy_units(np.ones((2, 5)), 5, np.random.default_rng(seed)).tolist()) for seed in range(20)}
    assert splits == {(2, 3), (3, 2)}


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_systematic_sampling_has_exact_probabilities(raw: list[float], whole: int) -> None:
    """The start is uniform, so lengths of the intervals of starts that draw a pool are the probabilities."""
    chances = np.array(raw)
    total = min(whole, int(chances.sum()))
    chances = chances * total / chances.sum() if total else np.zeros(len(raw))
    ends = np.cumsum(chances)
    cuts = np.unique(np.concatenate([[0.0, 1.0], np.mod(ends, 1)]))
    found = np.zeros(len(raw))
    for low, high in itertools.pairwise(cuts):
        drawn = _comb_sample(chances, (low + high) / 2)
        if high - low > 1e-9:
            assert drawn.sum() == total
            assert set(drawn.tolist()) <= {0, 1}
        found += (high - low) * drawn
    np.testing.assert_allclose(found, chances, atol=1e-9)


def test_rounding_by_chance_leaves_the_expected_fill() -> None:
    """E min(u, s) = min(v, s) for whole s: over a grid of starts, which integrates the step function exactly."""
    parts = np.array([2.25, 0.5, 3.25])
    starts = (np.arange(400) + 0.5) / 400
    fractions = parts - np.floor(parts)
    units = np.array([np.floor(parts) + _comb_sample(fractions, start) for start in starts])
    assert set(units.sum(axis=1)) == {6.0}
    for size in range(6):
        np.testing.assert_allclose(np.minimum(units, size).mean(axis=0), np.minimum(parts, size))
    assert sample_dark_allocation(np.array([1.0, 2.0]), np.random.default_rng(0)).tolist() == [1, 2]


def test_three_units_by_hand() -> None:
    assert _greedy_units(np.array([[0.8, 0.6, 0.1], [0.7, 0.3, 0.0]]), 3).tolist() == [2, 1]


def test_parts_of_units_are_rounded_at_random() -> None:
    assert sample_dark_allocation(np.array([3.2, 0.5, 1.3]), np.random.default_rng(1)).tolist() == [3, 1, 1]
