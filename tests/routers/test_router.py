"""The router interface: executable plans, reports learned once, saved states, and displayed beliefs."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from riskroute.core.errors import InputError, RiskrouteError, StateError
from riskroute.routers.context import Context, read_context
from riskroute.routers.plan import Plan
from riskroute.routers.registry import make_router
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.router import FEEDBACK, Router
from riskroute.routers.rules import (
    DarkFirstPostRule,
    DarkFirstRule,
    NbboRule,
    PrimaryRule,
    RawSweepRule,
    RestEvenRule,
    SprayRule,
    SweepRule,
)
from router_cases import random_context, sale

ROUTERS = [SweepRule, RawSweepRule, PrimaryRule, SprayRule, NbboRule, DarkFirstRule, DarkFirstPostRule, RestEvenRule]


@dataclass
class Counting(Router):
    """Notes what it learns."""

    name: ClassVar[str] = "counting"
    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("learned",)

    def begin(self) -> None:
        self.learned: list[Any] = []

    def decide(self, context: Context) -> Plan:
        return Plan(context.order)

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        self.learned += [[order, child.child] for child in children]
        if profit is not None:
            self.learned.append([order, profit])


def child(number: int) -> ChildReport:
    return ChildReport(number, "take", "A", sent=100, filled=40, price=10.0, fee=0.1, last_fill=5, known=7)


@pytest.mark.parametrize("kind", ROUTERS)
def test_every_plan_can_be_played_and_survives_json(kind: type[Router]) -> None:
    rng, router = np.random.default_rng(1), kind()
    assert router.feedback in FEEDBACK
    for number in range(60):
        context = random_context(rng, number)
        plan = router.route(context).checked(context)
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
        assert plan.sent <= context.shares


@pytest.mark.parametrize("kind", ROUTERS)
def test_an_order_is_routed_once(kind: type[Router]) -> None:
    router = kind()
    router.route(sale())
    with pytest.raises(StateError, match="order 'order' was routed before"):
        router.route(sale())


def test_reports_come_in_any_order_and_children_count_once() -> None:
    router = Counting()
    for order in "ab":
        router.route(sale(order=order))
    router.learn(Report("b", (child(1),)))
    router.learn(Report("a", (child(0),)))
    router.learn(Report("b", (child(1), child(0))))
    router.learn(Report("b", (child(0), child(2)), complete=True, profit=-3.0))
    router.learn(Report("b", (child(2), child(3)), complete=True, profit=-3.0))  # once more, from a careless sender
    assert router.learned == [["b", 1], ["a", 0], ["b", 0], ["b", 2], ["b", -3.0]]
    assert router.under_way == ("a",)


def test_a_report_of_an_unknown_order_is_refused() -> None:
    with pytest.raises(StateError, match="order 'z' was never routed"):
        Counting().learn(Report("z", ()))


def test_a_restored_router_resumes() -> None:
    router = Counting()
    router.route(sale(order="a"))
    router.learn(Report("a", (child(0),)))
    again = Counting.restore(json.loads(json.dumps(router.state())))
    for one in (router, again):
        one.learn(Report("a", (child(0), child(1)), complete=True, profit=1.0))
    assert again.state() == router.state()
    with pytest.raises(StateError, match="was routed before"):
        again.route(sale(order="a"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "state version must be 2, was 1"),
        ({"router": "other"}, "state router must be 'counting', was 'other'"),
        ({"memory": {}}, r"state memory must hold \['learned'\]"),
        ({"parameters": {"x": 1}}, "state of counting must be one that state.. returned"),
        ({"under_way": 3}, "state of counting must be one that state.. returned"),
    ],
)
def test_invalid_states_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        Counting.restore(Counting().state() | change)


def test_a_state_must_be_a_dictionary() -> None:
    with pytest.raises(StateError, match="state must be a dictionary"):
        Counting.restore([1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"take": {"C": 100}}, "take place must be one of A, B, was 'C'"),
        ({"dark": {"A": 100}}, "dark place must be one of P, Q, was 'A'"),
        ({"limit": {"A": -1}}, "limit shares of A must be a non-negative integer, was -1"),
        ({"take": {"A": 200, "B": 200}}, "child orders total 400 shares, expected at most 300 shares"),
        ({"take": {"A": 1}, "take_limits": {"B": 10.0}}, "take_limits venue must be one of A, was 'B'"),
        ({"rest": "wait"}, "rest must be one of sweep, touch, venue:NAME, post:NAME, was 'wait'"),
        ({"rest": "post:C"}, "venue of rest must be one of A, B, was 'C'"),
        ({"recall": -1.0}, "recall must be a number of at least 0, was -1"),
        ({"order": "z"}, "order must be 'order', was 'z'"),
    ],
)
def test_invalid_plans_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Plan(**{"order": "order"} | values).checked(sale())


def test_pools_in_turn_are_pinged_with_the_remainder() -> None:
    plan = Plan("order", dark={"P": 300, "Q": 300}, in_turn=True)
    assert plan.sent == 0
    assert plan.checked(sale()) is plan
    with pytest.raises(InputError, match=r"^child orders total 600 shares, expected at most 300 shares$"):
        Plan("order", dark={"P": 300, "Q": 300}).checked(sale())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"filled": 101}, "filled must be at most the 100 shares sent, was 101"),
        ({"kind": "light"}, "kind must be one of dark, dark_rest, limit, take, sweep, was 'light'"),
        ({"sent": -1}, "sent must be a non-negative integer, was -1"),
    ],
)
def test_invalid_reports_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ChildReport(**vars(child(0)) | change)


def test_plans_of_other_json_are_refused() -> None:
    with pytest.raises(RiskrouteError, match="order is missing in the plan"):
        Plan.from_json({"take": {}})


BOOKS = {
    "venues": {name: {"bids": [[10.0, 900]], "asks": [[10.02, 900]]} for name in ("A", "B")},
    "pools": {"P": {}, "Q": {"fee": 0.001}},
}


def taught(name: str, orders: int, **parameters: object) -> Router:
    """A router after some orders of 400 shares, of which P fills a quarter and Q nothing."""
    router = make_router(name, **parameters)
    for number in range(orders):
        context = read_context(BOOKS, side="sell", shares=400, order=str(number), time=number)
        plan = router.route(context)
        children = tuple(
            ChildReport(k, "dark", pool, sent, sent // 4 if pool == "P" else 0, 10.01, 0.0, 5, 9)
            for k, (pool, sent) in enumerate(plan.dark.items())
            if sent
        )
        router.learn(Report(str(number), children, complete=True, profit=-1.0 - 0.1 * (number % 3)))
    return router


@pytest.mark.parametrize("name", ["dark-first+sweep", "thompson", "contextual", "sweep"])
def test_displaying_beliefs_does_not_change_the_router(name: str) -> None:
    assert make_router(name).beliefs() == ()
    router = taught(name, 12)
    before = copy.deepcopy(router.state())
    said = router.beliefs()
    assert router.state() == before
    assert all(one.unit in ("bp", "$/share", "probability") for one in said)
    assert all(np.isfinite(one.mean) and (one.deviation is None or one.deviation >= 0) for one in said)


def test_dark_first_displays_savings_by_pool() -> None:
    score = {one.place: one for one in taught("dark-first+sweep", 60).beliefs()}
    assert score["P"].mean > score["Q"].mean
    assert score["P"].deviation is None


def test_policies_display_profits_with_shrinking_deviations() -> None:
    early, late = ({one.place: one for one in taught("thompson", orders).beliefs()} for orders in (40, 200))
    assert set(early) == {"A", "B", "P", "Q"}
    assert sum(float(one.deviation or 0) for one in late.values()) < sum(
        float(one.deviation or 0) for one in early.values()
    )
    assert late["A"].seen is not None
    assert late["A"].seen > 100


def test_contextual_displays_fill_probabilities_of_pools() -> None:
    said = {one.place: one for one in taught("contextual-greedy", 60).beliefs()}
    assert said["P"].what == "ping finds shares"
    assert said["P"].mean > 0.9
    assert "Q" not in said or said["Q"].mean < said["P"].mean
    assert said["P"].seen is not None
