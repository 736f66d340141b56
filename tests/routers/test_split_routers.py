"""Routers that split every order alike: fixed shares, fixed shares before a sweep, and policies that learn one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import InputError, StateError
from riskroute.learning.registry import POLICIES
from riskroute.routers.context import Context, read_context
from riskroute.routers.plan import Plan
from riskroute.routers.policy_router import PolicyRouter
from riskroute.routers.registry import make_router, restore_router
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.rules import StaticSplitRule, StaticSweepRule
from riskroute.simulation import checks
from riskroute.simulation.checks import check_router
from router_cases import TWO_VENUES, sale

STATIC = [
    StaticSplitRule(),
    StaticSplitRule({"V0": 0.97, "V1": 0.03}),
    StaticSplitRule({"V0": 1}, {"P0": 2, "P1": 1}, "V1"),
    StaticSplitRule({}, {"P0": 1}),
    StaticSweepRule(),
    StaticSweepRule(["P1", "P0"], 0.25, 0.5),
    StaticSweepRule(["P0"], 1.0, 0.0),
]


@pytest.fixture
def _fewer_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many routers are checked: 24 orders each will do."""
    monkeypatch.setattr(checks, "_ORDERS", 24)


@pytest.mark.usefixtures("_fewer_orders")
@pytest.mark.parametrize("router", STATIC, ids=lambda router: f"{router.name} {router.parameters}")
def test_fixed_splits_pass_the_checks(router: StaticSplitRule | StaticSweepRule) -> None:
    check_router(router)


@pytest.mark.usefixtures("_fewer_orders")
@pytest.mark.parametrize("name", [name for name in POLICIES if name != "oracle"])
def test_every_policy_passes_the_checks_as_a_router(name: str) -> None:
    """Twelve rounds for twice as many orders: it explores, and then sends what it recommends."""
    check_router(make_router(name, units=3, rounds=12))


def test_shares_are_in_proportion_and_whole_lots() -> None:
    plan = StaticSplitRule({"A": 0.7, "B": 0.2}, {"P": 0.1}, "B").route(sale(1000, lot=100))
    assert (plan.take, plan.dark, plan.rest) == ({"A": 700, "B": 200}, {"P": 100}, "venue:B")
    assert plan.trade_through
    assert StaticSplitRule().route(sale(300)).take == {"A": 150, "B": 150}


def test_a_place_that_is_not_there_today_gives_its_shares_back() -> None:
    plan = StaticSplitRule({"A": 1, "GONE": 1}, {"NOPOOL": 2}, "GONE").route(sale(400))
    assert (plan.take, plan.dark, plan.rest) == ({"A": 100}, {}, "sweep")
    assert plan.checked(sale(400)).sent == 100
    sweep = StaticSweepRule(["NOPOOL", "Q"]).route(sale(400))
    assert sweep.dark == {"Q": 400}


def test_before_a_sweep_orders_without_time_only_try() -> None:
    router = StaticSweepRule(["P"], 0.5, 0.25)
    assert router.route(sale(400)).dark == {"P": 400}
    waits = router.route(sale(400, order="b", horizon=60.0))
    assert (waits.dark, waits.dark_rest, sum(waits.limit.values())) == ({"P": 100}, {"P": 100, "Q": 100}, 100)
    alone = StaticSweepRule(["P"], 1.0, 0.0).route(sale(400, order="c", horizon=60.0))
    assert (alone.dark, alone.dark_rest) == ({}, {"P": 200, "Q": 200})
    costly = read_context(TWO_VENUES | {"pools": {"P": {"fee": 0.5}}}, side="sell", shares=400, horizon=60.0)
    assert StaticSweepRule(["P"], 0.5, 0.25).route(costly).dark_rest == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StaticSplitRule({"A": -1.0}), "weight of A must be"),
        (lambda: StaticSplitRule({"A": 0.0}), "take and dark must hold at least one weight above 0, was 0 in total"),
        (lambda: StaticSplitRule({"A": float("nan")}), "weight of A must be"),
        (lambda: StaticSplitRule(["A"]), r"take must hold weights by name, was \['A'\]"),  # type: ignore[arg-type]
        (lambda: StaticSweepRule(rest=0.6, post=0.6), "rest plus post must be at most 1, was 1.2"),
        (lambda: StaticSweepRule(rest=-0.1), "rest must be"),
        (lambda: StaticSweepRule("POOL"), "pools must be a list of names, was 'POOL'"),
        (lambda: StaticSweepRule([3]), r"pools must be a list of names, was 3 at \[0\]"),  # type: ignore[list-item]
        (lambda: PolicyRouter("rize"), "did you mean rise"),
        (lambda: PolicyRouter("rise", risk=-1.0), "risk must be"),  # type: ignore[arg-type]
        (lambda: PolicyRouter("rise", units=0), "units must be a positive integer, was 0"),
        (lambda: PolicyRouter("rise", rounds=0), "rounds must be a positive integer, was 0"),
        (lambda: PolicyRouter("rise", seed=-1), "seed must be"),
        (lambda: PolicyRouter("rise", parameters_of_policy={"no_such": 1}), "no_such"),
        (lambda: make_router("thompson", unit=3), "thompson has no parameter 'unit'; its parameters are .*units"),
    ],
)
def test_invalid_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def order(number: int, shares: int = 1000, **books: Any) -> Context:
    return read_context(TWO_VENUES | books, side="sell", shares=shares, order=f"order {number}", time=number)


def told(context: Context, plan: Plan, profit: float) -> Report:
    children = tuple(
        ChildReport(k, kind, place, shares, shares, 10.0, 0.0, 1, 1)
        for k, (kind, place, shares) in enumerate(
            [*(("take", *item) for item in plan.take.items()), *(("dark", *item) for item in plan.dark.items())]
        )
    )
    return Report(context.order, children, complete=True, profit=profit)


def profit_of(plan: Plan, rng: np.random.Generator) -> float:
    """More at A, with some luck; in dollars."""
    return float(0.01 * plan.take.get("A", 0) + rng.normal(0, 0.5))


def test_only_the_order_that_was_asked_about_is_learned_from() -> None:
    """Orders that come while an answer is awaited are split the same way, and what they earn changes nothing."""
    plans = []
    for stray in (-1e6, 1e6):
        router, rng = PolicyRouter("thompson", units=4, rounds=100), np.random.default_rng(0)
        mine = []
        for number in range(0, 60, 3):
            asked, *others = (order(number + k) for k in range(3))
            first = router.route(asked)
            more = [router.route(other) for other in others]
            assert all((plan.take, plan.dark) == (first.take, first.dark) for plan in more)
            for other, plan in zip(others, more, strict=True):
                router.learn(told(other, plan, stray))
            assert list(router.awaiting) == [asked.order]
            router.learn(told(asked, first, profit_of(first, rng)))
            assert not router.awaiting
            mine.append(first.to_json())
        plans.append(mine)
    assert plans[0] == plans[1]
    assert len({json.dumps([plan["take"], plan["dark"]]) for plan in plans[0]}) > 3


def test_many_orders_are_awaited_and_learned_from_in_any_sequence() -> None:
    router, rng = PolicyRouter("thompson", units=4, rounds=400, awaited=20), np.random.default_rng(0)
    out: list[tuple[Context, Plan]] = []
    for number in range(300):
        context = order(number)
        out.append((context, router.route(context)))
        if len(out) > 15:
            then, plan = out.pop(int(rng.integers(len(out))))
            if number % 20 == 0:
                router.abandon(then.order)
            else:
                router.learn(told(then, plan, profit_of(plan, rng)))
    assert len(router.awaiting) == 15
    learned = router.learned
    assert learned is not None
    assert learned["policy"]["memory"]["played"] > 200
    best = router.greedy(order(999))
    assert best is not None
    assert best.take.get("A", 0) >= 750


def test_an_order_split_by_others_is_learned_as_it_was_split() -> None:
    router = PolicyRouter("uniform", units=4, rounds=100, awaited=9)
    for number, take in enumerate(({"A": 750, "B": 250}, {"A": 333, "B": 667})):
        context = order(number)
        router.follow(context, Plan(context.order, take=take))
    assert [one.other for one in router.awaiting.values()] == [[3, 1] + [0] * (len(router.places) - 2)]
    ours = PolicyRouter("uniform", units=4, rounds=100)
    twin = PolicyRouter("uniform", units=4, rounds=100)
    twin.follow(order(7), ours.route(order(7)))
    assert twin.state() == ours.state()


def test_rewards_are_basis_points_of_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten dollars of an order of 1,000 shares at 10.01 are 9.99 bps, those of one of 100 shares ten times as many."""
    for shares, bps in ((1000, 10 / 10_010), (100, 10 / 1001)):
        router = PolicyRouter("uniform", units=2, rounds=10)
        context = order(0, shares)
        plan = router.route(context)
        seen: list[float] = []
        assert router._tickets is not None
        monkeypatch.setattr(router._tickets, "settle", lambda number, reward, action, seen=seen: seen.append(reward))
        router.learn(told(context, plan, 10.0))
        assert seen == pytest.approx([1e4 * bps])


@pytest.mark.parametrize("name", ["adaptive", "thompson", "rise", "lin-ucb"])
def test_a_router_restored_on_the_way_decides_as_its_twin(name: str) -> None:
    """Saved between orders and while an answer is awaited."""

    def played(saved_at: set[int]) -> list[Any]:
        router: Any = make_router(name, units=4, rounds=80, seed=5)
        rng, found = np.random.default_rng(1), []
        for number in range(100):
            context = order(number, 700)
            if number in saved_at:
                router = restore_router(json.loads(json.dumps(router.state())))
            plan = router.route(context)
            if number in saved_at:
                router = restore_router(json.loads(json.dumps(router.state())))
            router.learn(told(context, plan, profit_of(plan, rng)))
            found.append(plan.to_json())
        return found

    assert played({1, 7, 40, 79, 95}) == played(set())


def test_after_its_rounds_it_sends_what_it_recommends() -> None:
    router, rng = PolicyRouter("thompson", units=4, rounds=40), np.random.default_rng(2)
    plans = []
    for number in range(60):
        context = order(number)
        plan = router.route(context)
        router.learn(told(context, plan, profit_of(plan, rng)))
        plans.append((plan.take, plan.dark))
    assert all(plan == plans[40] for plan in plans[40:])
    assert plans[40][0].get("A", 0) >= 750  # what earned most


def test_venues_that_come_and_go() -> None:
    """Places are those of the first order; shares of one that is gone are swept, and a new one gets none."""
    router = PolicyRouter("uniform", units=6, rounds=1000)
    first = router.route(order(0))
    router.learn(told(order(0), first, 1.0))
    fewer: dict[str, Any] = {"venues": {"A": TWO_VENUES["venues"]["A"], "NEW": TWO_VENUES["venues"]["B"]}, "pools": {}}
    sent = []
    for number in range(1, 30):
        context = order(number, **fewer)
        plan = router.route(context).checked(context)
        assert set(plan.take) <= {"A"}
        assert plan.dark == {}
        sent.append(plan.sent)
        router.learn(told(context, plan, 1.0))
    assert min(sent) < 1000
    assert sum(router.route(order(99)).take.values()) + sum(router.route(order(98)).dark.values()) > 0


def test_a_state_of_another_policy_is_refused() -> None:
    router = PolicyRouter("thompson", units=2, rounds=5)
    router.route(order(0))
    state = router.state()
    state["memory"]["learned"] = {"no": "policy"}
    with pytest.raises(StateError, match="state of policy must be one that state"):
        restore_router(state)
