"""Orders, children and reports for tests of the live router, and an engine on simulated venues with a movable clock."""

from __future__ import annotations

import time
from typing import Any, Self

from live_logs import MemoryLog, MemoryStateStore, MemoryStore
from riskroute.live.children import child_id
from riskroute.live.engine import TradingEngine
from riskroute.live.limits import Limits
from riskroute.live.log.interface import NO_CHAIN, Log, chained, log_entries_of, log_events_after, log_row_events
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import AcceptedEvent, AnyEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder, OrderDecision, ParentOrder
from riskroute.live.state.quotes import PoolQuote, VenueQuote
from riskroute.live.state.trading_state import TradingState
from riskroute.live.venues.gateway import VenueAccount
from riskroute.live.venues.simulated import Faults, SimulatedVenue, SimulatedVenueMarket
from riskroute.routers.router import Router
from riskroute.routers.rules import SweepRule

START = 1_700_000_000 * NANO
CENT = NANO // 100


def quotes(at: int = START, size: int = 1000) -> tuple[VenueQuote, ...]:
    """Two venues that show 10.00 to 10.02 on the best two levels."""
    bids = ((1000 * CENT, size), (999 * CENT, size))
    asks = ((1002 * CENT, size), (1003 * CENT, size))
    return tuple(VenueQuote(venue=name, bids=bids, asks=asks, taker=3 * CENT // 10, at=at) for name in ("A", "B"))


def parent_order(key: str = "one", quantity: int = 100, **more: Any) -> ParentOrder:
    at = more.get("received", START)
    given: dict[str, Any] = {
        "quotes": quotes(at),
        "pools": (PoolQuote(pool="P"),),
        "received": at,
        "deadline": at + 10 * NANO,
    } | more
    given = {"symbol": "QVEX", "side": "buy"} | given
    return ParentOrder(key=key, quantity=quantity, **given)


def order_now(key: str = "one", quantity: int = 100) -> ParentOrder:
    """An order of this moment, for a world in real time."""
    now = time.time_ns()
    return parent_order(key, quantity, received=now, deadline=now + 600 * NANO)


def child_order(order: ParentOrder, slot: int, quantity: int, place: str = "A", **more: Any) -> ChildOrder:
    attempt = more.pop("attempt", 0)
    given: dict[str, Any] = {"kind": "limit", "until": order.deadline, "limit": None} | more
    name = child_id("main", order.key, slot, attempt)
    about: dict[str, Any] = {
        "id": name,
        "parent": order.key,
        "slot": slot,
        "attempt": attempt,
        "place": place,
        "quantity": quantity,
    }
    return ChildOrder(symbol=order.symbol, side=order.side, **about, **given)


def accepted(order: ParentOrder, *children: ChildOrder, at: int = START) -> AcceptedEvent:
    decision = OrderDecision(parent=order.key, router="test", belief=0, ticket=0, plan={"order": order.key}, at=at)
    return AcceptedEvent(at=at, order=order, decision=decision, children=children)


def report(child: ChildOrder, kind: Any, exec_id: str, **more: Any) -> ExecutionReport:
    given: dict[str, Any] = {"venue": child.place, "day": "1", "at": START} | more
    return ExecutionReport(exec_id=exec_id, child=child.id, kind=kind, **given)


def stored_events(store: MemoryStore) -> list[Any]:
    """All events of a log."""
    return [event for _, event in log_events_after(MemoryLog(store))]


def stored_again(event: AnyEvent) -> AnyEvent:
    """An event as it comes back from a row of its own."""
    (entry,) = log_entries_of([event])
    (again,) = log_row_events(chained(NO_CHAIN, 1, entry))
    return again


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Listener:
    """A sink that keeps what a gateway says."""

    def __init__(self, heard: list[ExecutionReport]) -> None:
        self.heard, self.states, self.accounts = heard, list[str](), list[VenueAccount]()

    def __call__(self, *reports: ExecutionReport) -> None:
        self.heard += reports

    def up(self) -> None:
        self.states.append("up")

    def down(self, reason: str) -> None:
        self.states.append(reason)

    def account(self, account: VenueAccount) -> None:
        self.accounts.append(account)


class World:
    """Venues A and B and the pool P, and an engine that may die and start again."""

    def __init__(self, *, faults: Faults | None = None, seed: int = 0, log: Any = None, **engine: Any) -> None:
        self.clock = Clock()
        market = SimulatedVenueMarket(self.books, seed, hidden={"P": 100})
        self.venues = {
            name: SimulatedVenue(name, market, self.clock, faults=faults, seed=seed) for name in ("A", "B", "P")
        }
        self.store, self.states = MemoryStore(), MemoryStateStore()
        self.make_log = log or (lambda: MemoryLog(self.store))
        self.arguments = {"patience": 0.1, "snapshot_every": 0} | engine
        self.engine: TradingEngine

    @classmethod
    def in_real_time(cls, **engine: Any) -> Self:
        """A world on the clocks of the machine; no limit and no patience depends on its speed."""
        limits = Limits(quote_age=3600 * NANO, clock_jump=600 * NANO, slow_write=600 * NANO)
        made = cls(clock=time.time_ns, monotonic=time.monotonic_ns, limits=limits, patience=600.0, **engine)
        made.books = lambda symbol: quotes(time.time_ns())  # type: ignore[method-assign]  # stand-in
        for venue in made.venues.values():
            venue.clock = time.time_ns
            venue.market.quotes = made.books  # type: ignore[attr-defined]  # stand-in
        return made

    def books(self, symbol: str) -> tuple[VenueQuote, ...]:
        return quotes(self.clock.now)

    def start(self, router: Router | None = None, **more: Any) -> TradingEngine:
        log: Log = self.make_log()
        more.setdefault("store", self.states)
        arguments: dict[str, Any] = (
            {"clock": self.clock, "monotonic": self.clock, "quotes": self.books} | self.arguments | more
        )
        self.engine = TradingEngine(log, self.venues, router or SweepRule(), **arguments)
        self.engine.start()
        self.engine.flush()
        return self.engine

    def pass_time(self, seconds: float, step: float = 0.01) -> None:
        """Let venues and engine go on, from one thing that is due to the next."""
        end = self.clock.now + int(seconds * NANO)
        while self.clock.now < end:
            due = [venue.next_due for venue in self.venues.values() if venue.next_due is not None]
            if (timer := self.engine.timers.next_due) is not None:
                due.append(timer)
            self.clock.now = min(max(min([*due, end]), self.clock.now + 1000), end)
            for venue in self.venues.values():
                venue.deliver()
            self.engine.flush()
            self.engine.tick()
            self.engine.flush()

    def die(self) -> None:
        """The process ends here: nothing is closed, but the lease is given back and venues lose the line."""
        for venue in self.venues.values():
            venue.close()
        self.engine._closed = True
        self.engine.log.close()

    @property
    def state(self) -> TradingState:
        return self.engine.state

    def shares_at_venues(self) -> int:
        """What the venues have traded for us."""
        return sum(
            (1 if there.child.side == "buy" else -1) * there.cum
            for venue in self.venues.values()
            for there in venue.children.values()
        )
