"""Simulated venues for a service: each in a thread of its own, with a journal, so that it remembers after a crash."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from riskroute.live.state.events import NANO, ChildOrder, ExecutionReport, ReportKind, VenueQuote
from riskroute.live.venues.gateway import ReportSink
from riskroute.live.venues.simulated import QuotedMarket, SimulatedVenue, VenueChild

_LOGGER = logging.getLogger("riskroute.live")


class FeeMarket(QuotedMarket):
    """Books that stand still, with fees.

    Parameters
    ----------
    fees : Mapping[str, tuple[int, int]]
        For taking and for resting, by venue or pool, in 1e-9 dollars a share.
    """

    def __init__(
        self,
        quotes: Callable[[str], tuple[VenueQuote, ...]],
        fees: Mapping[str, tuple[int, int]],
        seed: int = 0,
        hidden: Mapping[str, int] | None = None,
        come: float = 1.0,
    ) -> None:
        super().__init__(quotes, seed, hidden, come)
        self.fees = dict(fees)

    def fee(self, place: str, kind: str) -> int:
        taker, maker = self.fees[place]
        return maker if kind == "limit" else taker


class _Line(msgspec.Struct, omit_defaults=True):
    """What a venue has done with a child so far, and its newest report; the child itself in its first line alone."""

    leaves: int
    cum: int
    open: bool
    end: ReportKind
    child: ChildOrder | None = None
    report: ExecutionReport | None = None


_ENCODER = msgspec.json.Encoder()


class JournalledVenue(SimulatedVenue):
    """A simulated venue that writes down what it does, before anybody hears of it, and goes on from there.

    The journal is read when somebody connects, who must be the only one then.

    Parameters
    ----------
    journal : Path
        The file, which is made if it is not there.
    """

    def __init__(self, *arguments: Any, journal: Path, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.path = journal
        self._journal: BinaryIO | None = None
        self._lines: list[_Line] = []
        self._news: list[ExecutionReport] = []
        self._told: ReportSink | None = None

    def connect(self, reports: ReportSink) -> None:
        if self._journal is None:
            self._exec_ids = self.clock()  # no exec id of an earlier run comes again
            self._read()
        self._told = reports
        super().connect(lambda *some: self._news.extend(some))

    def close(self) -> None:
        self._told = None
        super().close()

    def deliver(self) -> int:
        """Play everything that is due, write it down, and only then tell of it."""
        try:
            return super().deliver()
        finally:
            if self._lines and self._journal is not None:
                self._journal.write(_ENCODER.encode_lines(self._lines))
            self._lines.clear()
            news, self._news = self._news, []
            if news and self._told is not None:
                self._told(*news)

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(_Line)
        read = self.path.read_bytes() if self.path.exists() else b""
        self._journal = self.path.open("ab", buffering=0)
        if read and not read.endswith(b"\n"):
            self._journal.write(b"\n")  # or the next line would be lost with the one that was cut off
        for line in read.splitlines():
            try:
                one = decoder.decode(line)
            except msgspec.MsgspecError:
                continue  # the end of a line that a crash cut off
            if one.child is not None:
                there = self.children.setdefault(one.child.id, VenueChild(one.child, one.leaves))
            elif one.report is not None and one.report.child in self.children:
                there = self.children[one.report.child]
            else:
                continue  # of a child whose first line was lost
            there.leaves, there.cum, there.open, there.end = one.leaves, one.cum, one.open, one.end
            if one.report is not None:
                there.reports.append(one.report)
        for there in self.children.values():
            if there.open:
                self._go_on(there)

    def _go_on(self, there: VenueChild) -> None:
        now, child = self.clock(), there.child
        until = now if child.immediate else max(child.until, now)
        before = there.cum
        for time, price, shares in self.market.trades(child, now, until):
            before, shares = max(before - shares, 0), shares - min(before, shares)
            self._later(time - now, lambda price=price, shares=shares: self._fill(there, price, shares))  # type: ignore[misc]  # bound now
        self._later(until - now, lambda: self._end(there, "cancelled" if child.immediate else "expired"))

    def _say(self, there: VenueChild, kind: ReportKind, **more: Any) -> None:
        super()._say(there, kind, **more)
        if self._journal is not None:
            child = there.child if len(there.reports) == 1 else None
            self._lines.append(_Line(there.leaves, there.cum, there.open, there.end, child, there.reports[-1]))

    def stop(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()


class ServedVenue:
    """A gateway to a journalled venue that runs in a thread of its own."""

    def __init__(self, venue: JournalledVenue) -> None:
        self.venue = venue
        self._calls: deque[Callable[[], None]] = deque()
        self._woken: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """Wakes the thread: whether to go on."""
        self._thread: threading.Thread | None = None

    def connect(self, reports: ReportSink) -> None:
        self._call(lambda: self.venue.connect(reports))
        self._thread = threading.Thread(target=self._run, name=f"venue {self.venue.place}", daemon=True)
        self._thread.start()

    def send(self, child: ChildOrder) -> None:
        self._call(lambda: self.venue.send(child))

    def cancel(self, child: ChildOrder) -> None:
        self._call(lambda: self.venue.cancel(child))

    def query(self, child: ChildOrder) -> None:
        self._call(lambda: self.venue.query(child))

    def _call(self, call: Callable[[], None]) -> None:
        """Let the thread make a call; it is woken only if it has not been since it last looked."""
        self._calls.append(call)
        if self._woken.empty():
            self._woken.put(True)

    def close(self) -> None:
        if self._thread is not None:
            self._woken.put(False)
            self._thread.join()
        self.venue.close()
        self.venue.stop()

    def _run(self) -> None:
        """Make calls, all that wait, and deliver what is due, until the end."""
        goes_on = True
        while goes_on:
            due = self.venue.next_due
            wait = None if due is None else max((due - self.venue.clock()) / NANO, 0)
            with suppress(queue.Empty):
                goes_on = self._woken.get(timeout=wait)
            while self._calls:
                self._attempt(self._calls.popleft())
            self._attempt(self.venue.deliver)

    def _attempt(self, call: Callable[[], Any]) -> None:
        """Make a call; one that fails, or a report that cannot be booked, must not end the venue."""
        try:
            call()
        except Exception:
            _LOGGER.exception("venue %s", self.venue.place)
