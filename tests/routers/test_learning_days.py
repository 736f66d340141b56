"""Routers that learn from public data on a recorded day: saved states, and no data before it is public."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import riskroute as rr
from riskroute.core.errors import StateError
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.policy_router import PolicyRouter
from riskroute.routers.public_data import PublicData
from riskroute.routers.registry import ROUTERS, make_router, restore_router
from riskroute.routers.router import Router
from riskroute.routing.fees import fee_rows
from riskroute.simulation.play_day import PlayableDay, play_day, spaced_playable_orders


@pytest.fixture(scope="module")
def day(half_hour: rr.market.RecordingStore) -> PlayableDay:
    recordings = half_hour.of_symbol("QVEX")
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=5)
    queue = QueueReplay(books, {one.venue: half_hour.events(one) for one in recordings})
    orders = spaced_playable_orders(books, 80, 40, horizon=20.0, rng=np.random.default_rng(5))
    fees = fee_rows([0.003, -0.001, 0.002]), fee_rows([-0.002, 0.002, -0.001])
    return PlayableDay("d", books, orders, *fees, (rr.DarkMarketPool("P", 0.5),), queue)


def part(day: PlayableDay, name: str, some: slice) -> PlayableDay:
    orders = day.orders
    fields = {field: getattr(orders, field)[some] for field in ("times", "signs", "shares", "horizons")}
    return dataclasses.replace(day, name=name, orders=dataclasses.replace(orders, **fields))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("cont-kukanov", {"least": 5}),
        ("dark-first+cont-kukanov", {"least": 5}),
        ("hidden+sweep", {}),
        ("bayes-fill", {}),
        ("bayes-fill", {"sample": True}),
        ("delay+sweep", {}),
    ],
)
def test_saved_at_noon_it_decides_alike(name: str, parameters: dict[str, int], day: PlayableDay) -> None:
    router = make_router(name, **parameters)
    play_day(router, part(day, "morning", slice(0, 40)))
    again = restore_router(json.loads(json.dumps(router.state())))
    afternoon = part(day, "afternoon", slice(40, 80))
    played = [[order.done.children for order in play_day(one, afternoon).orders] for one in (router, again)]
    assert played[0] == played[1]
    assert again.state() == router.state()


def floats_in(value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield container, key and path of one float per field: of a list, the first entry that holds one."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, float):
                yield value, key, f"{path}.{key}"
            yield from floats_in(item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, float):
                yield value, place, f"{path}[{place}]"
                break
            if found := list(floats_in(item, f"{path}[{place}]")):
                yield from found
                break


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("name", ROUTERS)
def test_states_with_numbers_that_are_not_finite_are_refused(name: str, number: float, day: PlayableDay) -> None:
    small: dict[str, Any] = {"policy": "thompson", "units": 2, "rounds": 100} if name == PolicyRouter.name else {}
    router = make_router(name, **small)
    play_day(router, part(day, "morning", slice(0, 25)))
    state = json.loads(json.dumps(router.state()))
    restore_router(state)
    for container, key, path in list(floats_in(state["memory"], "")):
        saved, container[key] = container[key], number
        with pytest.raises(StateError, match=re.escape(f"{path[1:]} must be a finite number, was {number}")):
            restore_router(state)
        container[key] = saved


@dataclass
class Reading(Router):
    """Writes down the trades that it is told, and when."""

    name: ClassVar[str] = "reading"
    feedback: ClassVar[str] = "F3"

    def begin(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.decided = 0

    def decide(self, context: Context) -> Plan:
        self.decided += 1
        return Plan(context.order)

    def on_public_data(self, public: PublicData) -> None:
        trades = public.trades["XNAS"]["ask"]
        self.told.append((self.decided, len(trades)))


def test_trades_are_published_once_and_never_before_they_happen(day: PlayableDay) -> None:
    """With every decision, the number told so far is that of all trades before it."""
    router = Reading()
    play_day(router, day)
    assert day.queue is not None
    venue, times = day.books.venues.index("XNAS"), day.orders.times
    total = 0
    for decided, count in router.told:
        total += count
        assert total == len(day.queue.trades(venue, 1, 0, int(times[decided])))
    assert total > 5
    assert len(router.told) > 60
    assert times[router.told[0][0]] > times[0] + 20 * SECOND
