"""No router knows more than the moment of its decision shows, and the wrong past changes what it does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.registry import ROUTERS, make_router
from riskroute.simulation.play_day import PlayableDay, play_day
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play
from small_days import noting_plans

KNOWN: dict[str, dict[str, Any]] = {
    "static": {"take": {"XNAS": 2, "EDGA": 1}, "dark": {"POOL1": 1}, "rest": "EDGA"},
    "static+sweep": {"pools": ["POOL2", "POOL1"], "rest": 0.25, "post": 0.5},
}
POLICIES = ("adaptive", "thompson", "uniform")
LAST = 26
"""Number of the last decision before everything changes."""


def quiet(day: MarketDay, horizon: float) -> PlayableDay:
    """A day whose pools neither see ahead, which they do by design, nor compare spreads with those of the whole day."""
    pools = tuple(dataclasses.replace(pool, adverse=0.0, spread=0.0) for pool in day.pools)
    return day_to_play(
        dataclasses.replace(day, pools=pools), BacktestConfig(orders=40, seeds=1, quantities=(700,), horizon=horizon)
    )


def garbled(day: PlayableDay, moment: int) -> PlayableDay:
    """The same day until a moment; then prices are a dollar off, sizes a third, and queues trade all the time."""
    books = day.books
    later = books.stamps > moment
    moved = dataclasses.replace(
        books,
        bid_px=books.bid_px + later[:, None],
        ask_px=books.ask_px + later[:, None],
        bid_sz=np.where(later[:, None], books.bid_sz // 3, books.bid_sz),
        ask_sz=np.where(later[:, None], books.ask_sz // 3, books.ask_sz),
    )
    assert isinstance(day.queue, QueueReplay)
    flows = {
        key: flow._replace(
            sizes=np.where(flow.stamps > moment, 3 * flow.sizes, flow.sizes),
            gone_sizes=np.where(flow.stamps > moment, 5 * flow.gone_sizes + 100, flow.gone_sizes),
        )
        for key, flow in day.queue.flows.items()
    }
    hidden = {
        venue: np.stack([stamps, sequences, prices, np.where(stamps > moment, 7 * sizes, sizes)])
        for venue, (stamps, sequences, prices, sizes) in day.queue.hidden.items()
    }
    queue = QueueReplay.of_flows(moved, flows, day.queue.pro_rata, hidden)
    return dataclasses.replace(day, books=moved, queue=queue)


def plans_and_costs(name: str, day: PlayableDay) -> tuple[list[dict[str, Any]], list[float]]:
    more = {"rounds": 200, "units": 4} if name in POLICIES else {}
    router = make_router(name, **KNOWN.get(name, {}), **more)
    plans = noting_plans(router)
    return plans, [one.done.cost for one in play_day(router, day).orders]


@pytest.fixture(scope="module")
def twice(dark_days: list[MarketDay]) -> Callable[[float], tuple[PlayableDay, PlayableDay]]:
    """The day as it was and as it might have gone on, for orders of a horizon: made once for all routers."""

    @cache
    def make(horizon: float) -> tuple[PlayableDay, PlayableDay]:
        day = quiet(dark_days[0], horizon)
        return day, garbled(day, int(day.orders.times[LAST]))

    return make


@pytest.mark.parametrize(
    ("name", "horizon"),
    [
        *((name, 30.0) for name in (*ROUTERS, *POLICIES) if name != "policy"),
        *((name, 0.0) for name in ("sweep", "dark-first+sweep", "thompson")),
    ],
)
def test_what_comes_after_a_decision_changes_no_plan_up_to_it(
    name: str, horizon: float, twice: Callable[[float], tuple[PlayableDay, PlayableDay]]
) -> None:
    day, changed = twice(horizon)
    plans, costs = plans_and_costs(name, day)
    others, other_costs = plans_and_costs(name, changed)
    assert plans[: LAST + 1] == others[: LAST + 1]
    assert costs[-10:] != other_costs[-10:]  # it did change


def test_decisions_differ_once_something_else_was_seen(dark_days: list[MarketDay]) -> None:
    """The test above could see a difference: plans for the orders after it are other ones."""
    day = quiet(dark_days[0], 0.0)
    for name in ("sweep", "spray", "adaptive"):
        plans, _ = plans_and_costs(name, day)
        others, _ = plans_and_costs(name, garbled(day, int(day.orders.times[10])))
        assert plans[11:] != others[11:], name
