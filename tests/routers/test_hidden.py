"""Reserves that nobody displays: the recursion, what is sent, and what it saves where they are there."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import riskroute as rr
from riskroute.core.errors import InputError, StateError
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import read_context
from riskroute.routers.router import PublicData
from riskroute.routers.rules import Hidden, Sweep
from riskroute.simulation.exchange import Exchange
from riskroute.simulation.execution import execute_plan
from router_books import random_context, sale


def trades(**by_side: list[tuple[int, int]]) -> PublicData:
    return PublicData(sale(), {}, trades={"A": by_side})


def test_the_recursion() -> None:
    router, found = Hidden(delta=0.9), []
    for trade in ((150, 100), (80, 100), (300, 100)):
        router.on_public_data(trades(bid=[trade]))
        found.append(router.reserves["A"]["bid"])
    assert found == pytest.approx([50, 45, 240.5])


def test_the_recursion_is_a_discounted_sum() -> None:
    """Worked out the other way round, and its mean for independent excesses: mean excess over 1 - delta."""
    rng = np.random.default_rng(0)
    sizes, shown = rng.integers(1, 500, 2000), rng.integers(1, 500, 2000)
    router, excess = Hidden(delta=0.98), np.maximum(sizes - shown, 0)
    reached = []
    for size, displayed in zip(sizes.tolist(), shown.tolist(), strict=True):
        router.on_public_data(trades(ask=[(size, displayed)]))
        reached.append(router.reserves["A"]["ask"])
    assert reached[-1] == pytest.approx(float(excess @ 0.98 ** np.arange(1999, -1, -1)))
    assert np.mean(reached[500:]) == pytest.approx(excess.mean() / 0.02, rel=0.1)


def test_sides_and_venues_are_apart() -> None:
    router = Hidden()
    router.on_public_data(trades(bid=[(300, 100)]))
    assert Sweep().route(sale(300, order="a")).take == {"A": 150, "B": 150}
    assert router.route(sale(300, order="a")).take == {"A": 200, "B": 100}
    bought = read_context(sale().to_json(), side="buy", shares=100, order="b")
    assert router.route(bought) == Sweep().route(bought)


def test_counting_on_none_is_the_sweep() -> None:
    rng, router, sweep = np.random.default_rng(1), Hidden(eta=0.0), Sweep()
    router.on_public_data(
        PublicData(sale(), {}, trades={f"V{v}": {"bid": [(900, 1)], "ask": [(900, 1)]} for v in range(6)})
    )
    for number in range(60):
        context = random_context(rng, number)
        assert router.route(context) == sweep.route(context)


def reserve_at_a(reserve: float) -> DayBooks:
    """A shows 100 shares and holds a reserve, B shows 100 there and 300 a cent worse."""
    prices, sizes = np.array([[10.0, 9.98], [10.0, 9.99]]), np.array([[100.0 + reserve, 900], [100, 300]])
    one = np.full((2, 2), np.nan), np.zeros((2, 2))
    one[0][:, 0], one[1][:, 0] = 10.02, 500.0
    stamps = np.zeros(2, dtype=np.int64)
    return DayBooks(("A", "B"), np.arange(3), stamps, stamps, prices, sizes, one[0], one[1])


def test_where_a_reserve_stands_it_sends_more_and_pays_less() -> None:
    """300 shares always stand behind A's 100: it sends all 400 there, and the sweep goes a cent down at B.

    Nothing displayed forbids the latter, so children may trade through what is hidden.
    """
    fees = np.zeros(2), np.zeros(2)
    shown, real = (Exchange(reserve_at_a(reserve), *fees) for reserve in (0.0, 300.0))
    router, sweep, costs = Hidden(), Sweep(), {"hidden+sweep": 0.0, "sweep": 0.0}
    for number in range(20):
        router.on_public_data(trades(bid=[(400, 100)]))
        order = rr.routers.Context(f"o{number}", "sell", 400, shown.venue_books(1), time=1)
        for one in (router, sweep):
            plan = dataclasses.replace(one.route(order), trade_through=True)
            costs[one.name] += execute_plan(real, 0, order, plan.checked(order)).cost / 20
            assert (plan.take["A"] > 100) == (one is router)
    assert costs["hidden+sweep"] == pytest.approx(400 * 0.01)
    assert costs["sweep"] == pytest.approx(200 * 0.01 + 200 * 0.02)


def test_shares_that_are_not_there_come_back_and_are_swept() -> None:
    exchange = Exchange(reserve_at_a(0.0), np.zeros(2), np.zeros(2))
    router = Hidden()
    router.on_public_data(trades(bid=[(400, 100)]))
    order = rr.routers.Context("o", "sell", 400, exchange.venue_books(1), time=1)
    done = execute_plan(exchange, 0, order, router.route(order))
    assert [(child.kind, child.place, child.sent, child.filled) for child in done.children] == [
        ("take", "A", 400, 100),
        ("sweep", "B", 300, 300),
    ]


def test_it_is_a_router_like_all_others() -> None:
    rr.check_router(Hidden())
    router = Hidden()
    router.on_public_data(trades(bid=[(400, 100)]))
    again = Hidden.restore(json.loads(json.dumps(router.state())))
    again.on_public_data(trades(bid=[(200, 100)]))
    router.on_public_data(trades(bid=[(200, 100)]))
    assert again.route(sale()) == router.route(sale())
    broken = dataclasses.replace(router).state() | {"memory": {"reserves": {"A": {"left": 1.0}}}}
    with pytest.raises(StateError, match="sides of reserves must be among bid, ask, was 'left'"):
        Hidden.restore(broken)
    with pytest.raises(InputError, match="delta must be a number above 0 and below 1, was 1"):
        Hidden(delta=1.0)
    with pytest.raises(InputError, match="eta must be a number of at least 0"):
        Hidden(eta=-0.1)
