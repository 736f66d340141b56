"""An engine on simulated venues, with a clock that tests move."""

from __future__ import annotations

from typing import Any

from live_orders import START, quotes
from log_memory import MemoryLog, MemoryStore
from riskroute.live.engine import TradingEngine
from riskroute.live.log.interface import NO_CHAIN, Log, chained, entries_of, events_after, row_events
from riskroute.live.state.events import NANO, AnyEvent, VenueQuote
from riskroute.live.state.trading_state import TradingState
from riskroute.live.venues.simulated import Faults, QuotedMarket, SimulatedVenue
from riskroute.routers.router import Router
from riskroute.routers.rules import Sweep


def stored_events(store: MemoryStore) -> list[Any]:
    """All events of a log."""
    return [event for _, event in events_after(MemoryLog(store))]


def stored_again(event: AnyEvent) -> AnyEvent:
    """An event as it comes back from a row of its own."""
    (entry,) = entries_of([event])
    (again,) = row_events(chained(NO_CHAIN, 1, entry))
    return again


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class World:
    """Venues A and B and the pool P, and an engine that may die and start again."""

    def __init__(self, *, faults: Faults | None = None, seed: int = 0, log: Any = None, **engine: Any) -> None:
        self.clock = Clock()
        market = QuotedMarket(self.books, seed, hidden={"P": 100})
        self.venues = {
            name: SimulatedVenue(name, market, self.clock, faults=faults, seed=seed) for name in ("A", "B", "P")
        }
        self.store = MemoryStore()
        self.make_log = log or (lambda: MemoryLog(self.store))
        self.arguments = {"patience": 0.1, "snapshot_every": 0} | engine
        self.engine: TradingEngine

    def books(self, symbol: str) -> tuple[VenueQuote, ...]:
        return quotes(self.clock.now)

    def start(self, router: Router | None = None, **more: Any) -> TradingEngine:
        log: Log = self.make_log()
        arguments: dict[str, Any] = (
            {"clock": self.clock, "monotonic": self.clock, "quotes": self.books} | self.arguments | more
        )
        self.engine = TradingEngine(log, self.venues, router or Sweep(), **arguments)
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
