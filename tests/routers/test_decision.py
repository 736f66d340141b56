"""Decisions: names of routers, and what a plan costs on the displayed books."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.errors import InputError, StateError
from riskroute.core.instrument import PROTECTIONS
from riskroute.routers.context import Context, read_context
from riskroute.routers.decision import DecisionChild, price_decision
from riskroute.routers.plan import Plan
from riskroute.routers.registry import ROUTERS, make_router, restore_router
from riskroute.routers.rules import SweepRule
from router_cases import random_context, sale


def test_the_sweep_of_two_venues_has_the_proceeds_computed_by_hand() -> None:
    context = sale(300, lot=100)
    decision = price_decision(context, SweepRule().route(context))
    assert decision.net == pytest.approx(2999.10, abs=1e-9)
    assert decision.to_json()["take"] == {"A": 100, "B": 200}


@pytest.mark.parametrize("seed", range(30))
def test_a_sweep_costs_what_the_books_say_and_no_plan_costs_less(seed: int) -> None:
    context = random_context(np.random.default_rng(seed), lot=1)
    cheapest = float(context.displayed.costs(context.shares))
    for name in ROUTERS:
        cost = price_decision(context, make_router(name).route(context)).expected_cost
        assert cost >= cheapest - 1e-9
        if name == "sweep":
            assert cost == pytest.approx(cheapest, abs=1e-9)


def test_shares_that_no_child_holds_are_swept() -> None:
    context = sale(300)
    assert price_decision(context, Plan("order")).expected_cost == pytest.approx(3.65)
    assert price_decision(context, Plan("order", take={"A": 150})).expected_cost == pytest.approx(3.65)


def test_a_purchase_costs_its_price_and_more() -> None:
    context = random_context(np.random.default_rng(0), side="buy", shares=10)
    decision = price_decision(context, SweepRule().route(context))
    assert decision.net == pytest.approx(context.mid * 10 + decision.expected_cost)


def two_venues(**order: Any) -> Context:
    """Two venues whose fees differ by more than a tick."""
    books = {
        "A": {"bids": [[10.00, 1], [9.99, 1]], "asks": [[10.02, 1], [10.03, 1]], "taker": 0.03},
        "B": {"bids": [[9.99, 1], [9.98, 1]], "asks": [[10.03, 1], [10.04, 1]]},
    }
    return read_context({"venues": books}, **{"side": "sell", "shares": 2, **order})


@pytest.mark.parametrize(
    ("protection", "take", "net"),
    [("none", {"B": 2}, 9.99 + 9.98), ("reg-nms", {"A": 1, "B": 1}, 10.00 - 0.03 + 9.99)],
)
def test_fees_that_differ_by_more_than_a_tick(protection: str, take: dict[str, int], net: float) -> None:
    context = two_venues(protection=protection)
    decision = price_decision(context, SweepRule().route(context))
    assert decision.plan.take == take
    assert decision.net == pytest.approx(net, abs=1e-9)


def test_a_child_that_trades_through_is_rejected_under_protection_alone() -> None:
    """Both shares to B: without protection at B's prices; with it A's better quote goes first."""
    plan = Plan("order", take={"B": 2})
    nets = {kind: price_decision(two_venues(protection=kind), plan).net for kind in PROTECTIONS}
    assert nets["none"] == pytest.approx(9.99 + 9.98)
    assert nets["reg-nms"] == pytest.approx(10.00 - 0.03 + 9.99)
    allowed = dataclasses.replace(plan, trade_through=True)
    assert price_decision(two_venues(protection="reg-nms"), allowed).net == pytest.approx(9.99 + 9.98)


@st.composite
def small_books(draw: st.DrawFn) -> dict[str, Any]:
    """Up to three venues of up to three levels and a few shares, with fees of up to several ticks."""
    venues: dict[str, Any] = {}
    for name in draw(st.sampled_from([("A", "B"), ("A", "B", "C")])):
        side = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=3, unique_by=lambda level: level[0])
        bids, asks = (sorted(draw(side)) for _ in range(2))
        venues[name] = {
            "bids": [[(1000 - ticks) / 100, size] for ticks, size in bids],
            "asks": [[(1000 + ticks) / 100, size] for ticks, size in asks],
            "taker": draw(st.integers(-30, 50)) / 1000,
        }
    venues["A"]["bids"].insert(0, [10.00, 1])
    venues["A"]["asks"] = [[10.005, 1], *venues["A"]["asks"]]
    return {"venues": venues}


def walked(levels: list[list[float]], shares: int) -> float:
    """Dollars for some shares of one venue, its best level first."""
    prices = [price for price, size in levels for _ in range(int(size))]
    return sum(prices[:shares]) if shares <= len(prices) else np.nan


@given(books=small_books(), side=st.sampled_from(["buy", "sell"]), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_sweep_is_the_best_of_all_splits_or_takes_better_prices_first(
    books: dict[str, Any], side: str, data: st.DataObject
) -> None:
    sign, shown = (1, "asks") if side == "buy" else (-1, "bids")
    venues = list(books["venues"].values())
    depths = [int(sum(size for _, size in one[shown])) for one in venues]
    shares = data.draw(st.integers(1, min(sum(depths), 6)))
    costs = {}
    for protection in PROTECTIONS:
        context = read_context(books, side=side, shares=shares, protection=protection)
        decision = price_decision(context, SweepRule().route(context))
        assert decision.estimated_shares == 0
        assert sum(decision.plan.take.values()) == shares
        assert decision.cost_if_filled == decision.cost_if_swept == decision.expected_cost
        costs[protection] = decision.cost_if_swept + sign * context.mid * shares
    splits = (split for split in product(*(range(depth + 1) for depth in depths)) if sum(split) == shares)
    cheapest = min(
        sum(sign * walked(one[shown], n) + n * one["taker"] for one, n in zip(venues, split, strict=True))
        for split in splits
    )
    assert costs["none"] == pytest.approx(cheapest, abs=1e-9)
    singly = sorted(
        (sign * price, sign * price + one["taker"]) for one in venues for price, size in one[shown] for _ in range(size)
    )
    assert costs["reg-nms"] == pytest.approx(sum(net for _, net in singly[:shares]), abs=1e-9)


@pytest.mark.parametrize(
    ("plan", "estimated"),
    [
        (Plan("order"), 98_950),
        (Plan("order", take={"A": 150}), 98_950),
        (Plan("order", rest="venue:A"), 99_350),
        (Plan("order", take={"B": 100}, rest="venue:A"), 99_250),
        (Plan("order", dark_rest={"P": 99_000}), 98_950),
    ],
)
def test_shares_beyond_the_displayed_depth_are_counted(plan: Plan, estimated: int) -> None:
    """1,050 shares are bid for, 650 of them at A."""
    decision = price_decision(sale(100_000), plan)
    assert decision.estimated_shares == decision.to_json()["estimated_quantity"] == estimated
    (warning,) = decision.warnings
    assert f"{estimated:,} of 100,000 shares are beyond the displayed depth: their price is an estimate" in warning


def test_an_order_of_the_displayed_depth_is_not_estimated() -> None:
    assert price_decision(sale(1050), Plan("order")).estimated_shares == 0
    assert price_decision(sale(1050), Plan("order")).warnings == ()


def test_the_range_of_a_plan_that_waits() -> None:
    """By hand, against a mid of 10.01: asks are at 10.02; B's maker fee is 0.1 cents, P's fee too."""
    context = sale(300, horizon=60.0)
    posted = price_decision(context, Plan("order", limit={"B": 300}))
    assert posted.cost_if_filled == pytest.approx(300 * (-0.01 + 0.001))
    rested = price_decision(context, Plan("order", dark_rest={"P": 200}, take={"A": 100}))
    assert rested.cost_if_filled == pytest.approx(200 * 0.001 + 100 * 0.013)
    turns = price_decision(context, Plan("order", dark={"P": 200, "Q": 300}, in_turn=True))
    assert turns.cost_if_filled == pytest.approx(200 * 0.001 + 100 * 0.002)
    first = Plan("order", dark={"P": 250}, in_turn=True, before=True, take={"A": 100}, limit={"B": 20})
    assert price_decision(context, first).cost_if_filled == pytest.approx(250 * 0.001 + 30 * 0.013 + 20 * -0.009)
    then = price_decision(context, Plan("order", rest="post:B"))
    assert then.cost_if_filled == pytest.approx(300 * (-0.01 + 0.001))
    assert then.children == (DecisionChild("post", "B", 300, 10.02, "0.001 USD per share"),)
    swept = price_decision(context, Plan("order")).cost_if_swept
    for decision in (posted, turns, then):
        assert decision.cost_if_swept == pytest.approx(swept)


def test_a_pool_that_improves_on_the_mid_and_a_venue_without_a_price() -> None:
    books = {
        "venues": {"A": {"bids": [[9.98, 500]], "asks": [[10.02, 500]]}, "B": {"asks": [[10.03, 500]]}},
        "pools": {"P": {"fee": 0.001, "improvement": 0.5}},
    }
    context = read_context(books, side="buy", shares=100, horizon=60)
    pinged = price_decision(context, Plan("order", dark={"P": 100}))
    assert pinged.children == (DecisionChild("ping", "P", 100, 10.0 - 0.5 * (10.02 - 9.98) / 2, "0.001 USD per share"),)
    assert pinged.cost_if_filled == pytest.approx(100 * (-0.01 + 0.001))
    back = price_decision(context, Plan("order", limit={"B": 100}))
    assert back.children == (DecisionChild("post", "B", 100, None, "0 USD per share"),)
    assert back.cost_if_filled == pytest.approx(back.cost_if_swept)


def test_children_have_their_prices_and_fees() -> None:
    plan = Plan(
        "order", dark={"Q": 10}, dark_rest={"P": 20}, limit={"B": 30}, take={"A": 40, "B": 50}, take_limits={"A": 9.98}
    )
    decision = price_decision(sale(300, horizon=60.0), plan)
    assert decision.children == (
        DecisionChild("ping", "Q", 10, 10.01, "0.002 USD per share"),
        DecisionChild("rest", "P", 20, 10.01, "0.001 USD per share"),
        DecisionChild("post", "B", 30, 10.02, "0.001 USD per share"),
        DecisionChild("take", "A", 40, 9.98, "0.003 USD per share"),
        DecisionChild("take", "B", 50, None, "-0.002 USD per share"),
    )
    first = decision.to_json()["children"][0]
    assert first == {"kind": "ping", "place": "Q", "quantity": 10, "limit": 10.01, "fee": "0.002 USD per share"}


@pytest.mark.parametrize(("bid", "word"), [(10.02, "locked"), (10.03, "crossed")])
def test_locked_and_crossed_books_are_reported(bid: float, word: str) -> None:
    books = {"A": {"bids": [[bid, 100]], "asks": [[10.05, 100]]}, "B": {"bids": [[9.99, 100]], "asks": [[10.02, 100]]}}
    context = read_context({"venues": books}, side="buy", shares=10)
    (warning,) = price_decision(context, Plan("order")).warnings
    assert warning.startswith(f"books are {word}: bid {bid:g} at A, ask 10.02 at B")


def test_routers_are_made_and_restored_by_name() -> None:
    for name in ROUTERS:
        router = make_router(name)
        assert restore_router(router.state()).state() == router.state()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_router("swep"), r"unknown router 'swep'; did you mean 'sweep'\?$"),
        (
            lambda: make_router("sweep", pace=1),
            "sweep has no parameter 'pace'; its parameters are discretion, minimums",
        ),
        (lambda: make_router("spray", pace=1), "spray has no parameter 'pace'; its parameters are none"),
    ],
)
def test_unknown_routers_and_parameters_are_refused(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("state", [3, {}, {"router": "swep"}])
def test_states_of_unknown_routers_are_refused(state: Any) -> None:
    with pytest.raises(StateError, match=r"state must be one that a router's state|unknown router"):
        restore_router(state)
