"""The venues of the simulation: the project's own simulated venues behind a line that may break.

They outlive the service. Beside their own faults they go silent and come back, lose their connection, bust fills, and
start their exec ids again every day. What they know is the account that the service's book is compared with.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from riskroute.core.instrument import instrument_terms
from riskroute.live.state.amounts import amount_scale
from riskroute.live.state.execution_reports import ExecutionReport, ReportKind
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.gateway import GatewaySink, VenueAccount, VenueTerms, wire_id
from riskroute.live.venues.simulated import SimulatedVenue, _VenueChild
from simulated_service.scheduler import Scheduler, SimpleQueue, Thread

_DAY = 86_400 * 10**9
WIRED = ("B", "Q")  # places that report children by their wire ids


class Venue(SimulatedVenue):
    """A venue or pool that goes on whatever the service does."""

    def __init__(self, timer: Scheduler, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.timer = timer
        self.silent_until = 0
        self.line = 0  # number of the connection
        self.last_arrival = self.last_report = 0
        self.dropped: set[int] = set()  # connections whose messages under way are lost
        self.on_arrival: Callable[[ChildOrder, bool], None] = lambda child, again: None
        self.on_report: Callable[[ExecutionReport], None] = lambda report: None
        self.delivered: list[ExecutionReport] = []  # since the line was opened
        self._last_day = 0
        self.raises = False  # whether the gateway notices a cut
        self.cut_lines: set[GatewaySink] = set()

    # messages of the service take a while, arrive in sequence, and are lost with the line

    def send(self, child: ChildOrder) -> None:
        if self._rng.random() >= self.faults.lost:
            self._arrive_later(lambda: self._arrive(child))

    def cancel(self, child: ChildOrder) -> None:
        self._arrive_later(lambda: self._cancelled(child.id))

    def query(self, child: ChildOrder) -> None:
        self._arrive_later(lambda: self._answer_query(child))

    def _arrive_later(self, action: Callable[[], None]) -> None:
        line = self.line

        def arrive() -> None:
            if line not in self.dropped:
                action()

        when = max(
            self.timer.now + int(self.latency * (0.5 + self._rng.random())), self.last_arrival, self.silent_until
        )
        self.last_arrival = when
        self.timer.at(when, arrive)

    def _later(self, wait: int, action: Callable[[], None]) -> None:
        self.timer.after(wait, action)

    def _arrive(self, child: ChildOrder) -> None:
        self.on_arrival(child, child.id in self.children)
        super()._arrive(child)

    def _report(self, child: ChildOrder, kind: ReportKind, cum: int, leaves: int, **more: Any) -> ExecutionReport:
        day = self.clock() // _DAY
        if day != self._last_day:
            self._last_day, self._exec_ids = day, 0
        report = super()._report(child, kind, cum, leaves, **more)
        self.on_report(report)
        return report

    def _post(self, report: ExecutionReport, wait: int) -> None:
        def arrive() -> None:
            if self.silent_until > self.timer.now:
                self.timer.at(self.silent_until, arrive)
            elif self._sink is None:
                self._missed.append(report)
            else:
                self.delivered.append(report)
                self._sink(report)

        self._later(wait, arrive)

    def break_line(self, rng: random.Random, booked: Callable[[ExecutionReport], bool]) -> None:
        """End the connection: what is under way may be lost, and what was not booked is reported again.

        A child that is open is asked for by the service, so its reports may be lost; others never are.
        """
        if rng.random() < 0.5:
            self.dropped.add(self.line)
        self.line += 1
        self.close()
        for report in self.delivered:
            if not booked(report) and (report.kind in ("busted", "corrected") or rng.random() < 0.5):
                self._missed.append(report)
        self.delivered = []

    def cut(self, seconds: float, rng: random.Random, why: str) -> None:
        """Cut the connection of a living service for some seconds: its messages under way are lost, ours come later."""
        sink = self._sink
        if sink is None:
            return
        self.dropped.add(self.line)  # nothing arrives during the cut
        self.close()
        self.raises = rng.random() < 0.5
        self.cut_lines.add(sink)
        sink.down(why)
        self.timer.after(int(seconds * 1e9), self._mend, sink)

    def _mend(self, sink: GatewaySink) -> None:
        self.cut_lines.discard(sink)
        if self._sink is None and not getattr(sink, "closed", False):
            self.line += 1
            self.connect(sink)

    def fall_silent(self, seconds: float) -> None:
        """Neither hear nor say anything for some seconds."""
        self.silent_until = max(self.silent_until, self.timer.now + int(seconds * 1e9))

    def bust_one(self, rng: random.Random) -> bool:
        """Bust a fill of one of the newest children; return whether there was one."""
        names = [name for name in list(self.children)[-20:] if self.children[name].cum > 0]
        if not names:
            return False
        there = self.children[names[rng.randrange(len(names))]]
        today = self._day[1]  # that of the last report: a bust names a fill of the same day
        found = [one for one in fills(there) if one.day == today]
        if not found or self.clock() // _DAY != self._last_day:
            return False
        fill = found[rng.randrange(len(found))]
        there.cum -= fill.quantity
        report = self._report(
            there.child,
            "busted",
            there.cum,
            there.leaves,
            reference=fill.exec_id,
            quantity=fill.quantity,
            price=fill.price,
        )
        there.reports.append(report)
        self._post(report, self.latency)  # never lost: nobody asks for a child that is done
        return True


class Line:
    """The gateway of one life of the service to a venue: reports come in a thread of their own."""

    def __init__(self, venue: Venue, on_point: Callable[[str], None], on_send: Callable[[ChildOrder], None]) -> None:
        self.venue, self._on_point, self._on_send = venue, on_point, on_send
        self.session = venue.place
        self.closed = False
        self.is_known: Callable[[str], bool] = lambda child: False  # whether its wire id leads back
        self._said: Any = SimpleQueue()

    def connect(self, sink: GatewaySink) -> None:
        Thread(target=self._run, args=(sink,), name=f"line {self.venue.place}").start()
        self.venue.connect(self)

    def terms(self, symbol: str) -> VenueTerms | None:
        return self.venue.terms(symbol)

    # what the venue says, for the thread

    def __call__(self, *reports: ExecutionReport) -> None:
        for report in reports:
            if self.session in WIRED and self.is_known(report.child):
                report = msgspec.structs.replace(report, child=wire_id(report.child))
            self._said.put(report)

    def up(self) -> None:
        self._said.put(lambda sink: sink.up())

    def down(self, reason: str) -> None:
        self._said.put(lambda sink: sink.down(reason))

    def account(self, account: VenueAccount) -> None:
        self._said.put(lambda sink: sink.account(account))

    def _run(self, sink: GatewaySink) -> None:
        reports: list[ExecutionReport] = []
        while (said := self._said.get()) is not None:
            if isinstance(said, ExecutionReport):
                reports.append(said)
            if reports and (self._said.empty() or not isinstance(said, ExecutionReport)):
                sink(*reports)
                reports = []
            if not isinstance(said, ExecutionReport):
                said(sink)

    # what the service says

    def send(self, child: ChildOrder) -> None:
        self._on_point("send")
        if self.venue.raises and self in self.venue.cut_lines:
            raise ConnectionError("cut")
        self._on_send(child)
        self.venue.send(child)

    def cancel(self, child: ChildOrder) -> None:
        self._on_point("cancel")
        self.venue.cancel(child)

    def query(self, child: ChildOrder) -> None:
        self._on_point("query")
        self.venue.query(child)

    def request_account(self) -> None:
        self.venue.request_account()

    def close(self) -> None:
        self.closed = True
        self.venue.close()
        self._said.put(None)


def shares(venue: Venue) -> dict[str, list[int]]:
    """Return shares, cash and fees that a venue has traded for the service, by symbol."""
    totals: dict[str, list[int]] = {}
    for there in venue.children.values():
        total = totals.setdefault(there.child.symbol, [0, 0, 0])
        unit = amount_scale(instrument_terms(venue.market.instrument(there.child.symbol))).unit
        sign = 1 if there.child.side == "buy" else -1
        for one in fills(there):
            total[0] += sign * one.quantity
            total[1] -= sign * one.quantity * one.price * unit
            total[2] += one.fee
    return totals


def fills(there: _VenueChild) -> list[ExecutionReport]:
    """Return the fills of a child that count."""
    gone = {(one.day, one.reference) for one in there.reports if one.kind == "busted"}
    return [one for one in there.reports if one.kind == "filled" and (one.day, one.exec_id) not in gone]
