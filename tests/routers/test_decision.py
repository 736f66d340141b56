"""Decisions: names of routers, and what a plan costs on the displayed books."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riskroute.errors import InputError, StateError
from riskroute.routers.decision import price_plan
from riskroute.routers.plan import Plan
from riskroute.routers.registry import ROUTERS, make_router, restore_router
from riskroute.routers.sweep import Sweep
from router_books import random_context, sale


def test_the_sweep_of_the_two_venues_brings_in_what_was_worked_out() -> None:
    context = sale(300, lot=100)
    decision = price_plan(context, Sweep().route(context))
    assert decision.net == pytest.approx(2999.10, abs=1e-9)
    assert decision.to_json()["take"] == {"A": 100, "B": 200}


@pytest.mark.parametrize("seed", range(30))
def test_a_sweep_costs_what_the_books_say_and_no_plan_costs_less(seed: int) -> None:
    context = random_context(np.random.default_rng(seed), lot=1)
    cheapest = float(context.displayed.costs(context.shares))
    for name in ROUTERS:
        cost = price_plan(context, make_router(name).route(context)).expected_cost
        assert cost >= cheapest - 1e-9
        if name == "sweep":
            assert cost == pytest.approx(cheapest, abs=1e-9)


def test_shares_that_no_child_holds_are_swept() -> None:
    context = sale(300)
    assert price_plan(context, Plan("order")).expected_cost == pytest.approx(3.65)
    assert price_plan(context, Plan("order", take={"A": 150})).expected_cost == pytest.approx(3.65)


def test_a_purchase_costs_its_price_and_more() -> None:
    context = random_context(np.random.default_rng(0), side="buy", shares=10)
    decision = price_plan(context, Sweep().route(context))
    assert decision.net == pytest.approx(context.mid * 10 + decision.expected_cost)


def test_routers_are_made_and_restored_by_name() -> None:
    for name in ROUTERS:
        router = make_router(name)
        assert restore_router(router.state()).state() == router.state()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_router("swep"), r"unknown router 'swep'; did you mean 'sweep'\? \(--router list shows all\)"),
        (lambda: make_router("sweep", pace=1), "parameters of sweep must be among discretion, minimums, was pace"),
        (lambda: make_router("spray", pace=1), "parameters of spray must be among none, was pace"),
    ],
)
def test_routers_that_are_not_there(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("state", [3, {}, {"router": "swep"}])
def test_states_of_no_router(state: Any) -> None:
    with pytest.raises(StateError, match="state must be one that a router's state"):
        restore_router(state)
