"""Memory of an engine: nothing in it grows with the number of orders that it has ever accepted."""

from __future__ import annotations

import gc
import sys
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from live_engines import World, parent_order
from riskroute.live.ledger import LedgerTimers
from riskroute.live.limits import Limits
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import SqliteStateStore
from riskroute.live.market_history import MarketHistory
from riskroute.live.places import Places
from riskroute.live.state import fold
from riskroute.live.state.amounts import NANO
from riskroute.live.state.trading_state import DAY
from riskroute.live.venues.simulated import JournalledVenue, SimulatedVenueMarket
from riskroute.routers.rules import RestEvenRule

ORDERS, MOST = 120, 300  # orders a day for six days, and the items that a collection may hold


class FewDone(RestEvenRule):
    """Rests everywhere, and remembers a few orders that are done."""

    name: ClassVar[str] = "few done"
    remembered_orders: ClassVar[int] = 20


def collections_of(root: object) -> list[Any]:
    """Every collection that can be reached from an object, but not through a module or a class."""
    modules = {id(vars(module)) for module in sys.modules.values()}
    seen, todo, found = {id(root)}, [root], []
    while todo:
        one = todo.pop()
        if isinstance(one, (dict, list, set, deque, tuple)):
            found.append(one)
        for other in gc.get_referents(one):
            if id(other) not in seen and id(other) not in modules and not isinstance(other, (ModuleType, type)):
                seen.add(id(other))
                todo.append(other)
    return found


def test_no_collection_grows_with_the_number_of_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "SETTLED_KEPT", 20)
    monkeypatch.setattr(fold, "ARCHIVED_TOGETHER", 5)
    monkeypatch.setattr(JournalledVenue, "most_ended", 20)
    monkeypatch.setattr(LedgerTimers, "least_pruned", 40)
    monkeypatch.setattr(Places, "most_wired", 20)
    many = {"day_orders": 10**9, "day_notional": 10**30, "day_loss": 10**30, "clock_jump": 2 * DAY}
    world = World(log=lambda: SqliteLog(tmp_path / "live.db"), limits=Limits(**many), snapshot_every=300)
    market = SimulatedVenueMarket(world.books, 1, hidden={"P": 100})
    world.venues = {
        name: JournalledVenue(name, market, world.clock, journal=tmp_path / f"{name}.jsonl") for name in ("A", "B", "P")
    }
    first, history = world.clock.now // DAY * DAY, MarketHistory()
    world.clock.now = first
    engine = world.start(FewDone(), store=SqliteStateStore(tmp_path / "state", "main"), history=history)
    for day in range(6):
        world.clock.now = first + day * DAY
        for number in range(ORDERS):
            now = world.clock.now
            order = parent_order(f"{day} {number}", 150 + number, received=now, deadline=now + (1 + number % 3) * NANO)
            history.put(order.symbol, order.quotes)
            engine.submit(order)
            world.pass_time(0.1)
        world.pass_time(5)
    assert engine.state.settled == 6 * ORDERS
    engine._take(0.0)  # wake-ups, which the thread of a served engine takes
    found = collections_of(engine)
    assert any(one is engine.timers.answer_by for one in found)
    large = [(type(one).__name__, len(one), str(one)[:200]) for one in found if len(one) > MOST]
    assert large == []
    engine.close()
    for venue in world.venues.values():
        assert isinstance(venue, JournalledVenue)
        venue.stop()
