"""Limits hold whatever the router says: nonsense, exceptions and slowness lead to the safe router, never past a cap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from live_engines import CENT, World, parent_order
from riskroute.core.errors import RefusedError
from riskroute.live.children import context_of
from riskroute.live.limits import Limits
from riskroute.live.log.recovery import verify_log
from riskroute.live.state.amounts import NANO
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router

LIMITS = Limits(order_quantity=2000, symbol_quantity=6000, venue_open=12, collar=50, unknown=10**6)


@dataclass
class Hostile(Router):
    """Answers with a different kind of nonsense every time."""

    name: ClassVar[str] = "hostile"
    memory: ClassVar[tuple[str, ...]] = ("count",)
    seed: int = 0

    def begin(self) -> None:
        self.count = 0

    def decide(self, context: Context) -> Any:
        rng = np.random.default_rng([self.seed, self.count])
        self.count += 1
        big = int(rng.integers(1, 10**7))
        answers: list[Callable[[], Any]] = [
            lambda: Plan(context.order, take={"A": big}),
            lambda: Plan(context.order, take={"A": -big}),
            lambda: Plan(context.order, take={"A": context.shares}, take_limits={"A": 1e6 * float(rng.random())}),
            lambda: Plan(context.order, take={"NOWHERE": 100}),
            lambda: Plan(context.order, take={"A": 0.5}),  # type: ignore[dict-item]  # nonsense
            lambda: Plan(context.order, take={"A": float("nan")}),  # type: ignore[dict-item]  # nonsense
            lambda: Plan("another order", take={"A": 100}),
            lambda: Plan(context.order, limit={"A": context.shares}, rest="post:A", recall=-1.0),
            lambda: Plan(context.order, dark={"P": context.shares}, in_turn=True, before=True),
            lambda: "buy everything",
            lambda: None,
            lambda: 1 / 0,
            lambda: dict[str, int]()["missing"],
            lambda: Plan(context.order, rest="venue:NOWHERE"),
            lambda: Plan(context.order, take=[("A", 100)]),  # type: ignore[arg-type]  # nonsense
            lambda: Plan(context.order, take={"A": 10**30}),
        ]
        return answers[int(rng.integers(len(answers)))]()

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        self.count += 1


def test_limits_hold_for_hostile_routers() -> None:
    world = World(limits=LIMITS)
    engine = world.start(Hostile())
    reasons, refused = set(), 0
    for number in range(150):
        order = parent_order(f"order {number}", 300 + 10 * (number % 7), received=world.clock.now)
        try:
            decision = engine.submit(order).result(0)
            reasons.add(decision.safe.split(":")[0])
            assert (decision.router == "sweep") == bool(decision.safe)
        except RefusedError:
            refused += 1
        for venue in world.state.venues.values():
            assert venue.open <= LIMITS.venue_open
        for use in world.state.symbols.values():
            assert use.quantity <= LIMITS.symbol_quantity
        world.pass_time(0.02)
    world.pass_time(30)
    assert refused < 50
    assert reasons.issuperset(
        {"", "hostile failed", "hostile returned no plan", "hostile returned a plan that cannot be executed"}
    )
    for parent in world.state.parents.values():
        assert parent.filled <= parent.order.quantity
    for child in world.state.children.values():
        assert child.order.limit is not None
        assert child.order.limit <= 1001 * CENT * 10_050 // 10_000
    assert world.state.positions["QVEX"].shares == world.shares_at_venues()
    assert not world.state.halted
    assert verify_log(engine.log, Hostile).holds
    world.die()
    world.start(Hostile())
    assert world.engine.learner.router.count == engine.learner.router.count  # type: ignore[attr-defined]


@pytest.mark.parametrize("side", ["buy", "sell"])
def test_a_sweep_pays_no_more_than_the_collar_or_the_limit_of_its_order(side: str) -> None:
    world = World(limits=LIMITS)
    engine = world.start(Sweepable())
    touch = 1002 * CENT if side == "buy" else 1000 * CENT
    for key, limit in (("collared", None), ("limited", touch)):
        engine.submit(parent_order(key, 1500, side=side, limit=limit, received=world.clock.now))
        world.pass_time(0.02)
        sweeps = [child for child in world.state.children.values() if child.order.parent == key]
        assert {(child.order.kind, child.order.limit) for child in sweeps} == {
            ("sweep", limit or (1006 if side == "buy" else 996) * CENT)  # a whole tick inside the collar
        }


@dataclass
class Stuck(Router):
    """Does not come back until it is let go."""

    name: ClassVar[str] = "stuck"
    let_go: ClassVar[threading.Event] = threading.Event()

    def decide(self, context: Context) -> Plan:
        self.let_go.wait(60)
        return Plan(context.order)


@dataclass
class Sweepable(Router):
    """Decides at once, so that an engine can warm up with it."""

    name: ClassVar[str] = "stuck"

    def decide(self, context: Context) -> Plan:
        return Plan(context.order)


@dataclass
class Failing(Router):
    """Sends everything to A and cannot learn."""

    name: ClassVar[str] = "failing"

    def decide(self, context: Context) -> Plan:
        return Plan(context.order, take={"A": context.shares})

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        raise MemoryError("no room left in the head")


def test_a_router_that_fails_to_learn_is_put_out_of_service() -> None:
    world = World()
    engine = world.start(Failing())
    assert engine.submit(parent_order()).result(0).router == "failing"
    world.pass_time(1)
    decision = engine.submit(parent_order("two", received=world.clock.now)).result(0)
    assert decision.router == "sweep"
    assert decision.safe == "failing failed to learn: no room left in the head"
    assert engine.learner.disabled
    world.pass_time(1)
    assert verify_log(engine.log, Failing).holds
    world.die()
    engine = world.start(Failing())  # a restart gives it another chance
    assert engine.submit(parent_order("three", received=world.clock.now)).result(0).router == "failing"


def test_a_slow_router_is_not_waited_for() -> None:
    world = World(decision_seconds=0.01)
    engine = world.start(Sweepable())
    Stuck.let_go.clear()
    engine.learner.router = Stuck()
    engine.learner.kind = Stuck
    try:
        for number in range(3):
            decision = engine.submit(parent_order(f"order {number}")).result(0)
            assert decision.router == "sweep"
            assert decision.safe == "the router took longer than 0.01 s"
            assert not decision.consulted
        world.pass_time(5)
        assert world.state.settled == 3
    finally:
        Stuck.let_go.set()
        engine.close()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(order_quantity=99), "quantity must be at most 99 shares, was 100 shares"),
        (Limits(order_notional=1000 * NANO), "notional must be at most 1,000.00 USD, was 1,001.00 USD"),
        (Limits(symbol_quantity=250), "quantity of open orders in QVEX must be at most 250 shares, was 300 shares"),
        (
            Limits(symbol_notional=2500 * NANO),
            "notional of open orders in QVEX must be at most 2,500.00 USD, was 3,003.00 USD",
        ),
        (Limits(day_orders=2), "orders of the day must be at most 2, was 3"),
        (Limits(day_notional=2100 * NANO), "notional of the day must be at most 2,100.00 USD, was 3,003.00 USD"),
        (Limits(venue_open=2), "open children at A must be at most 2, was 3"),
        (Limits(collar=0), ""),
    ],
)
def test_limits_by_order_symbol_venue_and_day(limits: Limits, message: str) -> None:
    world = World(limits=limits)
    engine = world.start()

    def submit_three() -> None:
        for number in range(3):
            engine.submit(parent_order(f"order {number}", received=world.clock.now))

    if message:
        with pytest.raises(RefusedError, match=message):
            submit_three()
    else:  # nothing may be paid above the mid: nothing is sent, and all is marked
        submit_three()
        world.pass_time(20)
        assert not world.state.positions
        assert world.state.settled == 3


def test_a_refusal_after_a_decision_is_logged_for_verification() -> None:
    world = World(limits=Limits(venue_open=2))
    engine = world.start(Hostile(seed=2))
    refused = 0
    for number in range(12):
        try:
            engine.submit(parent_order(f"order {number}", received=world.clock.now))
        except RefusedError:
            refused += 1
    assert refused
    assert world.state.declined > 0
    assert verify_log(engine.log, Hostile).holds
    count = engine.learner.router.count  # type: ignore[attr-defined]  # its own field
    world.die()
    assert world.start(Hostile(seed=2)).learner.router.count == count  # type: ignore[attr-defined]  # its own field


def test_a_router_that_mutates_its_context_harms_no_other_order() -> None:
    order = parent_order()
    seen = context_of(order, order.received)
    for name in ("bid_px", "bid_sz", "ask_px", "ask_sz", "takers", "makers"):
        getattr(seen.books, name)[:] = 99.0
    again = context_of(order, order.received)
    assert again.books.takers.max() < 1
    assert again.books.bid_px.max() < 11
