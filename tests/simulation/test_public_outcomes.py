"""Public outcomes equal the profits of orders that were really sent."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import riskroute as rr
from naive_queues import hidden_ids
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.queue_models import QueueModel
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.router import Router
from riskroute.routing.fees import fee_rows
from riskroute.simulation.exchange import Exchange, ExchangeLatency
from riskroute.simulation.execute_plan import execute_plan
from riskroute.simulation.play_day import PlayableDay, play_day, spaced_playable_orders

TAKERS, MAKERS = fee_rows([0.003, -0.001, 0.002]), fee_rows([-0.002, 0.002, -0.001])


@pytest.fixture(scope="module", params=["exact", "estimated"])
def day(half_hour: rr.market.RecordingStore, request: pytest.FixtureRequest) -> tuple[DayBooks, QueueReplay]:
    """Half an hour with order ids, and with public trades instead."""
    recordings = half_hour.of_symbol("QVEX")
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=5)
    events = {one.venue: half_hour.events(one) for one in recordings}
    if request.param == "exact":
        return books, QueueReplay(books, events)
    public = {venue: hidden_ids(table) for venue, table in events.items()}
    return books, QueueReplay(books, public, model=QueueModel("power", 0.5))


@pytest.mark.parametrize("horizon", [0.0, 10.0])
@pytest.mark.parametrize("side", ["buy", "sell"])
def test_public_outcomes_equal_the_profits_of_such_plans(
    day: tuple[DayBooks, QueueReplay], horizon: float, side: str
) -> None:
    books, queue = day
    exchange = Exchange(books, TAKERS, MAKERS, None, queue, ExchangeLatency(0.001, 0.005))
    compared = 0
    for moment in np.linspace(books.first + SECOND, books.last - 20 * SECOND, 7).astype(np.int64).tolist():
        context = Context("a", side, 40, exchange.venue_books(moment), lot=10, horizon=horizon, time=moment)
        found = exchange.public_outcomes(context).outcomes
        for venue in books.venues:
            for kind, profits in found[venue].items():
                for size, profit in zip(PublicData.outcome_sizes(40, 10), profits, strict=True):
                    rest = f"venue:{venue}" if kind == "take" else "sweep"
                    smaller = dataclasses.replace(context, shares=size)
                    child: dict[str, Any] = {kind: {venue: size}}
                    plan = Plan("a", trade_through=True, rest=rest, **child)
                    done = execute_plan(exchange, 0, smaller, plan.checked(smaller))
                    if not done.estimated:
                        assert profit == pytest.approx(-done.cost, abs=1e-9)
                        compared += 1
        assert ("limit" in found[books.venues[0]]) == (horizon > 0)
    assert compared > 40


def test_queue_outflow_gives_the_fills_of_any_order_behind_it(day: tuple[DayBooks, QueueReplay]) -> None:
    """At venues that serve who came first; the market at the horizon is what a late sweep would have met."""
    books, queue = day
    exchange = Exchange(books, TAKERS, MAKERS, None, queue, ExchangeLatency(0.001, 0.005))
    reached = 0
    for moment in np.linspace(books.first + SECOND, books.last - 70 * SECOND, 20).astype(np.int64).tolist():
        context = Context("a", "buy", 40, exchange.venue_books(moment), horizon=60.0, time=moment)
        public = exchange.public_outcomes(context)
        for v, venue in enumerate(books.venues):
            one = public.queues[venue]
            price, fills = queue.fills(v, 1, moment + SECOND // 1000, moment + 60 * SECOND, 40)
            assert one.price == price
            if not queue.pro_rata[v]:
                assert one.filled(40) == sum(some for _, some in fills)
            reached += one.filled(40) > 0
        later = dataclasses.replace(context, time=moment + 60 * SECOND, horizon=0.0)
        assert public.at_horizon is not None
        assert public.at_horizon.mid == pytest.approx(float(books.mids(np.array([later.time]))[0]))
        done = execute_plan(dataclasses.replace(exchange, latency=ExchangeLatency(0.0, 0.0)), 0, later, Plan("a"))
        assert public.at_horizon.sweep == pytest.approx(done.cost / 40)
    assert reached > 5
    none = dataclasses.replace(context, horizon=0.0)
    assert exchange.public_outcomes(none).queues == {}
    assert exchange.public_outcomes(none).at_horizon is None


@dataclass
class Watching(Router):
    """Records public data and the time at which it was shown."""

    name: ClassVar[str] = "watching"
    feedback: ClassVar[str] = "F3"

    def begin(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.decided: list[tuple[str, int]] = []

    def decide(self, context: Context) -> Plan:
        self.decided.append((context.order, len(self.seen)))
        return Plan(context.order)

    def on_public_data(self, public: PublicData) -> None:
        self.seen.append((public.context.order, len(self.decided)))


def test_public_outcomes_are_shown_only_after_the_horizon(day: tuple[DayBooks, QueueReplay]) -> None:
    books, queue = day
    rng = np.random.default_rng(0)
    orders = spaced_playable_orders(books, 40, 20, horizon=60.0, rng=rng)
    router = Watching()
    play_day(router, PlayableDay("d", books, orders, TAKERS, MAKERS, (), queue))
    times = dict(zip((order for order, _ in router.decided), orders.times.tolist(), strict=True))
    for order, decisions in router.seen:
        told_at = orders.times[decisions]  # with the decision that follows
        assert times[order] + 61 * SECOND <= told_at
    assert [order for order, _ in router.seen] == [order for order, _ in router.decided][: len(router.seen)]
    assert len(router.seen) > 30
