"""Which venues and pools can be used: sessions come and go, and what becomes of the children that were open meanwhile.

A place is up once its session works and every child that was open there is answered for. Places go up and down by
logged events, since decisions depend on them; at a start, all are down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from riskroute.core.errors import StateError
from riskroute.live.ledger import Ledger, LedgerTimers, Task
from riskroute.live.state.amounts import NANO
from riskroute.live.state.effects import CancelEffect, QueryEffect
from riskroute.live.state.events import PlaceDownEvent, PlaceUpEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.venues.gateway import Gateway, GatewaySink


class Places:
    """The places of an engine; call every method with the ledger's lock held."""

    longest_backoff = 60  # seconds; the wait after failed sends doubles from one second up to this

    def __init__(
        self,
        gateways: Mapping[str, Gateway],
        ledger: Ledger,
        timers: LedgerTimers,
        patience: int,
        post: Callable[[list[Task]], None],
    ) -> None:
        self.gateways, self.patience = dict(gateways), patience
        self._ledger, self._timers, self._post = ledger, timers, post
        self.connected: set[str] = set()  # places whose gateways say that their sessions work
        self.unresolved: dict[str, set[str]] = {}  # by place, children that are not answered for
        self._failures: Counter[str] = Counter()  # failed sends in a row
        self._retry_at: dict[str, int] = {}
        self._begun = 0
        self._late = False

    def begin(self, reason: str) -> None:
        """Take all places down, and await answers for all open children."""
        ledger, now = self._ledger, self._ledger.clock()
        self.unresolved = {place: set() for place in self.gateways}
        for name, child in ledger.state.children.items():
            if not child.done:
                self.unresolved.setdefault(child.order.place, set()).add(name)
        if lost := set(self.unresolved) - set(self.gateways):
            raise StateError(f"no gateway reaches {', '.join(sorted(lost))}, where children are open")
        self._begun, self._late = ledger.monotonic(), False
        up = [place for place in self.gateways if place not in ledger.state.down]
        ledger.record(*[PlaceDownEvent(at=now, place=place, reason=reason) for place in up])

    def connect(self, sink: Callable[[str], GatewaySink]) -> None:
        """Connect all gateways."""
        for place, gateway in self.gateways.items():
            gateway.connect(sink(place))

    @property
    def begun(self) -> bool:
        """Whether the start is over: all places have come up, or had time enough to."""
        if not self._late:
            down = self._ledger.state.down
            waited = self._ledger.monotonic() - self._begun >= self.patience
            self._late = waited or not any(place in down for place in self.gateways)
        return self._late

    @property
    def unusable(self) -> str:
        """Why no place can be used; empty if one can, or if there are none."""
        down = self._ledger.state.down
        if any(place not in down for place in self.gateways):
            return ""
        return "; ".join(f"{place} is down: {down[place]}" for place in self.gateways)

    def up(self, place: str) -> None:
        """Note that a session works; the place is up once its open children are answered for."""
        self.connected.add(place)
        if self._retry_at.get(place, 0) <= self._ledger.clock():
            self.resolve(place)

    def down(self, place: str, reason: str) -> None:
        """Note that a session does not work."""
        self.connected.discard(place)
        self._take_down(place, reason)

    def send_failed(self, place: str, reason: str) -> None:
        """Take a place down whose gateway did not send, and try it again after a while."""
        self._take_down(place, f"send failed: {reason}")
        wait = min(2 ** self._failures[place], self.longest_backoff) * NANO
        self._failures[place] += 1
        self._retry_at[place] = self._ledger.clock() + wait
        self._timers.add(self._retry_at[place], "place", place)

    def sent(self, place: str) -> None:
        """Note that a gateway has sent."""
        if self._failures:
            self._failures.pop(place, None)

    def _take_down(self, place: str, reason: str) -> None:
        if place not in self._ledger.state.down:
            self._ledger.record(PlaceDownEvent(at=self._ledger.clock(), place=place, reason=reason))

    def resolve(self, place: str) -> None:
        """Query the children that are open at a place; without any, it is up."""
        if place not in self.connected:
            return
        ledger, now, tasks = self._ledger, self._ledger.clock(), list[Task]()
        awaited = self.unresolved.setdefault(place, set())
        for name, child in ledger.state.children.items():
            if child.done or child.order.place != place or not (child.sends or name in awaited):
                continue  # one that waits in the outbox is sent or withheld there
            awaited.add(name)
            tasks.append(QueryEffect(child.order))
            if child.cancelling:
                tasks.append(CancelEffect(child.order))  # the first cancel may be lost
            self._timers.add(now + self.patience, "child", name)
        awaited.intersection_update([name for name in awaited if not ledger.state.children[name].done])
        if tasks:
            self._post(tasks)
        self._raise_if_resolved(place)

    def answered(self, reports: Iterable[ExecutionReport]) -> None:
        """Note that the children of these reports are answered for."""
        if not any(self.unresolved.values()):
            return
        for report in reports:
            for place, awaited in self.unresolved.items():
                if report.child in awaited:
                    awaited.discard(report.child)
                    self._raise_if_resolved(place)

    def _raise_if_resolved(self, place: str) -> None:
        resolved = place in self.connected and not self.unresolved.get(place)
        if resolved and place in self._ledger.state.down:
            self._ledger.record(PlaceUpEvent(at=self._ledger.clock(), place=place))

    def close(self) -> None:
        """Close the gateways."""
        for gateway in self.gateways.values():
            gateway.close()
