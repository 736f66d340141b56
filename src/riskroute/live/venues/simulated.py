"""A simulated venue behind the gateway interface: it trades on books, and answers as unreliably as it is told to.

Nothing happens by itself: `SimulatedVenue.deliver` plays everything that is due by the clock. What it knows of orders
and fills survives an engine that dies, so that tests can compare. All chance comes from the seed.
"""

from __future__ import annotations

import datetime as dt
import heapq
import logging
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
import numpy as np

from riskroute.core.seeding import seed_stream, seeded_uniform
from riskroute.core.validation import real_number
from riskroute.live.state.events import NANO, ChildOrder, ExecutionReport, ReportKind, VenueQuote, touch_prices
from riskroute.live.venues.gateway import ReportSink

_DAY = 86_400 * NANO

Trade = tuple[int, int, int]
"""When, at what price, and how many shares."""


class Market(Protocol):
    """What a venue trades on: prices in 1e-9 dollars, times in nanoseconds."""

    def trades(self, child: ChildOrder, begin: int, end: int) -> list[Trade]:
        """Return what an order trades that comes at ``begin`` and stays until ``end``: no time if it is immediate."""
        ...

    def fee(self, place: str, kind: str) -> int:
        """Return the fee a share."""
        ...


class QuotedMarket:
    """Books that stand still: takers walk them, limit orders and pools meet others at random times.

    Nothing trades in a symbol that has no books.

    What a child meets depends on its id and the seed alone, whatever else happens.

    Parameters
    ----------
    quotes : Callable
        Returns the books of a symbol.
    seed : int
        Seed of what pools hold and of who comes to resting orders.
    hidden : Mapping[str, int]
        Shares that a pool holds on average; 0 for those not named.
    come : float
        Seconds between others who trade with a resting order, on average.
    """

    def __init__(
        self,
        quotes: Callable[[str], tuple[VenueQuote, ...]],
        seed: int = 0,
        hidden: Mapping[str, int] | None = None,
        come: float = 1.0,
    ) -> None:
        self.quotes, self.hidden, self.come, self.seed = quotes, dict(hidden or {}), come, seed

    def trades(self, child: ChildOrder, begin: int, end: int) -> list[Trade]:
        books, place, shares, limit = self.quotes(child.symbol), child.place, child.quantity, child.limit
        if not books:
            return []
        sign = 1 if child.side == "buy" else -1
        allowed = [quote for quote in books if quote.venue == place]
        found: list[Trade] = []
        if child.kind in ("take", "sweep") and allowed:
            for price, size in allowed[0].asks if sign > 0 else allowed[0].bids:
                if shares > 0 and size > 0 and (limit is None or sign * price <= sign * limit):
                    found.append((begin, price, min(shares, size)))
                    shares -= min(shares, size)
            return found
        bid, ask = touch_prices(books)
        price = (limit or bid) if child.kind == "limit" else (bid + ask) // 2
        if limit is not None and sign * price > sign * limit:
            return []
        if child.kind == "dark":
            held = self._held(child)
            return [(begin, price, min(held, shares))] if held > 0 else []
        rng = np.random.default_rng(seed_stream(self.seed, "market", child.id))
        time = begin
        while shares > 0 and (time := time + int(rng.exponential(self.come) * NANO) + 1) < end:
            some = min(shares, 100 * int(rng.integers(1, 4)))
            found.append((time, price, some))
            shares -= some
        return found

    def _held(self, child: ChildOrder) -> int:
        """Shares that a pool holds when a child comes: geometrically distributed."""
        mean = self.hidden.get(child.place, 0)
        return int(math.log(seeded_uniform(self.seed, "market", child.id)) / math.log(mean / (1 + mean))) if mean else 0

    def fee(self, place: str, kind: str) -> int:
        return 0


@dataclass(frozen=True)
class Faults:
    """How often something goes wrong, each from 0 to 1.

    ``reject``: a child is rejected. ``partial``: a fill comes in two parts. ``duplicate``: a report comes twice.
    ``disorder``: a report is late, and others overtake it. ``silence``: a report is lost, until somebody asks.
    ``lost``: a child never arrives.
    """

    reject: float = 0.0
    partial: float = 0.0
    duplicate: float = 0.0
    disorder: float = 0.0
    silence: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            real_number(name, value, minimum=0, maximum=1)


@dataclass
class VenueChild:
    """A child as the venue knows it."""

    child: ChildOrder
    leaves: int
    cum: int = 0
    open: bool = True
    end: ReportKind = "acknowledged"
    reports: list[ExecutionReport] = field(default_factory=list)


class SimulatedVenue:
    """One venue or pool.

    Parameters
    ----------
    place : str
        Its name.
    market : Market
        What it trades on.
    clock : Callable[[], int]
        The time, in nanoseconds since 1970.
    latency : float
        Seconds from here to there, and from there to here.
    faults : Faults
        What goes wrong.
    seed : int
        Seed of that.

    Attributes
    ----------
    children : dict[str, VenueChild]
        All children that arrived, by id.
    arrivals : list[str]
        Ids as they arrived, those that came twice included.
    """

    def __init__(
        self,
        place: str,
        market: Market,
        clock: Callable[[], int],
        *,
        latency: float = 0.001,
        faults: Faults | None = None,
        seed: int = 0,
    ) -> None:
        self.place, self.market, self.clock = place, market, clock
        self.latency = int(real_number("latency", latency, minimum=0, maximum=60) * NANO)
        self.faults = faults or Faults()
        self._reliable = self.faults == Faults()
        self._day = (0, "")
        self.children: dict[str, VenueChild] = {}
        self.arrivals: list[str] = []
        self._rng = np.random.default_rng(seed_stream(seed, "venue", place))
        self._sink: ReportSink | None = None
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = self._exec_ids = 0
        self._missed: list[ExecutionReport] = []
        self._playing = False

    # the gateway

    def connect(self, reports: ReportSink) -> None:
        self._sink = reports
        missed, self._missed = self._missed, []
        for report in missed:
            self._post(report, self.latency)

    def send(self, child: ChildOrder) -> None:
        if self._reliable or self._rng.random() >= self.faults.lost:
            self._later(self.latency, lambda: self._arrive(child))

    def cancel(self, child: ChildOrder) -> None:
        self._later(self.latency, lambda: self._cancelled(child.id))

    def query(self, child: ChildOrder) -> None:
        self._later(self.latency, lambda: self._asked(child))

    def close(self) -> None:
        self._sink = None

    # what happens there

    @property
    def next_due(self) -> int | None:
        """When something is due next; None if nothing is."""
        return self._due[0][0] if self._due else None

    def deliver(self) -> int:
        """Play everything that is due by the clock; return how much that was."""
        played = 0
        self._playing = True
        try:
            while self._due and self._due[0][0] <= self.clock():
                heapq.heappop(self._due)[2]()
                played += 1
        finally:
            self._playing = False
        return played

    def _later(self, wait: int, what: Callable[[], None]) -> None:
        """Let something happen after a time; at once if that is none and other things are being played anyway."""
        if wait == 0 and self._playing:
            what()
            return
        self._count += 1
        heapq.heappush(self._due, (self.clock() + wait, self._count, what))

    def _arrive(self, child: ChildOrder) -> None:
        self.arrivals.append(child.id)
        if child.id in self.children:  # sent twice: traded once
            return
        there = self.children[child.id] = VenueChild(child, child.quantity)
        if not self._reliable and self._rng.random() < self.faults.reject:
            self._end(there, "rejected")
            return
        self._say(there, "acknowledged")
        now = self.clock()
        until = now if child.immediate else child.until
        for time, price, shares in self.market.trades(child, now, until):
            self._later(time - now, lambda price=price, shares=shares: self._fill(there, price, shares))  # type: ignore[misc]  # bound now
        self._later(max(until - now, 0), lambda: self._end(there, "cancelled" if child.immediate else "expired"))

    def _fill(self, there: VenueChild, price: int, shares: int) -> None:
        shares = min(shares, there.leaves)
        if not there.open or shares == 0:
            return
        parts = [shares]
        if not self._reliable and shares > 1 and self._rng.random() < self.faults.partial:
            first = int(self._rng.integers(1, shares))
            parts = [first, shares - first]
        for part in parts:
            there.cum, there.leaves = there.cum + part, there.leaves - part
            there.open = there.leaves > 0
            there.end = "acknowledged" if there.open else "filled"
            fee = part * self.market.fee(self.place, there.child.kind)
            self._say(there, "filled", quantity=part, price=price, fee=fee)

    def _end(self, there: VenueChild, kind: ReportKind) -> None:
        if there.open:
            there.open, there.end, there.leaves = False, kind, 0
            self._say(there, kind)

    def _cancelled(self, name: str) -> None:
        there = self.children.get(name)
        if there is not None:
            self._end(there, "cancelled")

    def bust(self, name: str, exec_id: str) -> None:
        """Take a fill back."""
        there = self.children[name]
        old = next(one for one in there.reports if one.exec_id == exec_id)
        there.cum -= old.quantity
        self._say(there, "busted", reference=exec_id, quantity=old.quantity, price=old.price)

    def _asked(self, child: ChildOrder) -> None:
        there = self.children.get(child.id)
        if there is None:
            self._post(self._report(child, "not_known", 0, 0), self.latency)
            return
        for report in there.reports:
            self._post(report, self.latency)
        kind = "cancelled" if there.end == "filled" else there.end
        self._post(self._report(child, kind, there.cum, there.leaves), self.latency)

    # reports

    def _report(self, child: ChildOrder, kind: ReportKind, cum: int, leaves: int, **more: Any) -> ExecutionReport:
        self._exec_ids += 1
        now = self.clock()
        if now // _DAY != self._day[0]:
            self._day = now // _DAY, dt.datetime.fromtimestamp(now // NANO, dt.UTC).strftime("%Y%m%d")
        return ExecutionReport(
            venue=self.place,
            day=self._day[1],
            exec_id=str(self._exec_ids),
            child=child.id,
            kind=kind,
            at=now,
            cum=cum,
            leaves=leaves,
            **more,
        )

    def _say(self, there: VenueChild, kind: ReportKind, **more: Any) -> None:
        report = self._report(there.child, kind, there.cum, there.leaves, **more)
        there.reports.append(report)
        if self._reliable:
            self._post(report, self.latency)
            return
        faults, rng = self.faults, self._rng
        if rng.random() < faults.silence:
            return
        late = int(rng.exponential(20) * self.latency) if rng.random() < faults.disorder else 0
        self._post(report, self.latency + late)
        if rng.random() < faults.duplicate:
            self._post(report, self.latency + late + int(rng.exponential(5) * self.latency))

    def _post(self, report: ExecutionReport, wait: int) -> None:
        def come() -> None:
            if self._sink is None:
                self._missed.append(report)
            else:
                self._sink(report)

        self._later(wait, come)


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
