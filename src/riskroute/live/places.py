"""Availability of venues and pools: the status of their sessions, and the children that are not answered for.

A place is up once its session works and every child that was open there is answered for. Places go up and down by
logged events, since decisions depend on them; at a start, all are down.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from riskroute.core.errors import StateError
from riskroute.core.records import Record
from riskroute.core.runtime import DurationHistogram
from riskroute.core.text import shown
from riskroute.live.ledger import Ledger, LedgerTimers, Task
from riskroute.live.state.amounts import NANO
from riskroute.live.state.effects import CancelEffect, QueryEffect
from riskroute.live.state.events import PlaceDownEvent, PlaceUpEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.venues.gateway import Gateway, GatewaySink, wire_id


class PlaceRules(Record, frozen=True):
    """Limits on the use of a place.

    ``foreign``: what becomes of trading if the place reports an order that is not ours. At most ``orders_per_second``
    orders, cancels and queries are sent in the long run, and ``burst`` at once; children that would exceed this wait
    for ``hold`` nanoseconds at most, and are then withheld.
    """

    foreign: Literal["halt", "ignore"] = "halt"
    orders_per_second: float = math.inf
    burst: int = 10
    hold: int = 50_000_000


class SessionBudget:
    """Messages that a session may send: a token bucket; a fifth, at least 1, is only for cancels and queries.

    Times are on the monotonic clock: a clock that is set back would stop the session.

    Examples
    --------
    >>> budget = SessionBudget(10.0, 5)
    >>> [budget.take(0, urgent=False) for _ in range(5)], budget.take(0, urgent=True)
    ([True, True, True, True, False], True)
    >>> budget.wait(0, urgent=False) / NANO
    0.2
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second, self.burst = per_second, burst
        self._reserve = max(burst // 5, 1)
        self._tokens, self._at = float(burst), 0

    def left(self, now: int) -> float:
        """Return how many messages may be sent at once."""
        self._tokens = min(self._tokens + (now - self._at) * self.per_second / NANO, float(self.burst))
        self._at = now
        return self._tokens

    def take(self, now: int, *, urgent: bool) -> bool:
        """Count a message, and return True, if it may be sent now; cancels and queries are ``urgent``."""
        if self.left(now) + 1e-6 < 1 + (0 if urgent else self._reserve):
            return False
        self._tokens -= 1
        return True

    def wait(self, now: int, *, urgent: bool) -> int:
        """Return the nanoseconds until a message may be sent."""
        lacking = 1 + (0 if urgent else self._reserve) - self.left(now)
        return max(math.ceil(lacking / self.per_second * NANO), 0)


class Places:
    """The places of an engine; call every method with the ledger's lock held.

    Gateways may report a child by its `wire_id`: a table of the newest ``most_wired`` children leads back.
    """

    longest_backoff = 60  # seconds; the wait after failed sends doubles from one second up to this
    most_wired = 20_000
    our_form = re.compile(r"[A-Z2-7]{16}(-\d+-\d+)?")  # of child ids and wire ids

    def __init__(
        self,
        gateways: Mapping[str, Gateway],
        ledger: Ledger,
        timers: LedgerTimers,
        patience: int,
        post: Callable[[list[Task]], None],
        rules: Mapping[str, PlaceRules] | None = None,
    ) -> None:
        self.gateways, self.patience = dict(gateways), patience
        self.rules = {place: (rules or {}).get(place) or PlaceRules() for place in self.gateways}
        self.budgets = self._make_budgets()
        self._ledger, self._timers, self._post = ledger, timers, post
        self.connected: set[str] = set()  # places whose gateways say that their sessions work
        self.unresolved: dict[str, set[str]] = {}  # by place, children that are not answered for
        self._failures: Counter[str] = Counter()  # failed sends in a row
        self._retry_at: dict[str, int] = {}
        self._begun = 0
        self._late = False
        self._wired: dict[str, str] = {}  # child by wire id
        self.foreign: Counter[str] = Counter()  # by place, reports of foreign orders
        self.answer_times: defaultdict[str, DurationHistogram] = defaultdict(DurationHistogram)

    def _make_budgets(self) -> dict[str, SessionBudget]:
        """Return the budgets of sessions with a limit; places in one session share the lowest budget."""
        found: dict[str, SessionBudget] = {}
        for place, rules in self.rules.items():
            session = self.session(place)
            before = found.get(session)
            if rules.orders_per_second < (math.inf if before is None else before.per_second):
                found[session] = SessionBudget(rules.orders_per_second, rules.burst)
        return found

    def session(self, place: str) -> str:
        """Return the session of a place; by default the name of the place."""
        return getattr(self.gateways[place], "session", "") or place

    def begin(self, reason: str) -> None:
        """Take all places down, and await answers for all open children."""
        ledger, now = self._ledger, self._ledger.clock()
        self._wired = {}
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

    def sending(self, child: str) -> None:
        """Note that a child is sent, so that its wire id leads back to it."""
        wired = self._wired
        wired[wire_id(child)] = child
        if len(wired) > 2 * self.most_wired:
            for name in list(wired)[: -self.most_wired]:
                if wired[name] not in self._ledger.state.children:
                    del wired[name]

    def child_of(self, name: str) -> str | None:
        """Return the id of the child that a venue names, or None for a foreign order.

        A name in the form of our ids that leads to no known child is returned unchanged.
        """
        children = self._ledger.state.children
        if name in children or not self.our_form.fullmatch(name):
            return name if name in children else None
        if name not in self._wired and "-" not in name:  # from an earlier process, or its order was archived
            self._wired |= {wire_id(one): one for one in children}
        return self._wired.get(name, name)

    def ours(self, reports: Iterable[ExecutionReport]) -> list[ExecutionReport]:
        """Return the reports of our children, with child ids; ignore reports of foreign orders, or halt trading."""
        found, heard, state = [], set[str](), self._ledger.state
        for report in reports:
            child = state.children.get(report.child)
            if child is None:
                if (name := self.child_of(report.child)) is None:
                    self.note_foreign(report.venue, report.child)
                    continue
                if name != report.child:
                    report = msgspec.structs.replace(report, child=name)
                    child = state.children.get(name)
            if child is not None and child.status == "sent" and report.child not in heard:
                heard.add(report.child)
                self.answer_times[report.venue].observe((self._ledger.clock() - child.sent_at) / NANO)
            found.append(report)
        return found

    def note_foreign(self, place: str, order: str) -> None:
        """Count an order that is not ours, and halt trading unless the place's rules ignore it."""
        self.foreign[place] += 1
        if place not in self.rules or self.rules[place].foreign == "halt":
            self._ledger.halt(f"{place} has an order that is not ours, {shown(order)}", "book")

    def sent(self, place: str) -> None:
        """Note that a gateway has sent."""
        if self._failures:
            self._failures.pop(place, None)

    def _take_down(self, place: str, reason: str) -> None:
        if place not in self._ledger.state.down:
            self._ledger.record(PlaceDownEvent(at=self._ledger.clock(), place=place, reason=reason))

    def resolve(self, place: str) -> None:
        """Query the children that are open at a place; if there are none, the place is up."""
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
            now = self._ledger.clock()
            self._ledger.record(PlaceUpEvent(at=now, place=place))
            self._timers.add(now, "account", place, 1)

    def close(self) -> None:
        """Close the gateways."""
        for gateway in self.gateways.values():
            gateway.close()
