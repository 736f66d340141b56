"""Simulated venues behind the gateway interface: they trade on books, and report as unreliably as configured.

`SimulatedVenue` is passive: `SimulatedVenue.deliver` runs what is due by the clock, so that tests control time; its
state survives an engine that dies. `JournalledVenue` also survives the process, and `ServedSimulatedVenue` runs one in
a thread for the service. All randomness comes from the seed.
"""

from __future__ import annotations

import datetime as dt
import heapq
import logging
import math
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
import numpy as np

from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.seeding import seed_stream, seeded_uniform
from riskroute.core.validation import real_number
from riskroute.live.fees import LivePlaceFees
from riskroute.live.state.amounts import NANO
from riskroute.live.state.execution_reports import ExecutionReport, ReportKind
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.quotes import VenueQuote, quoted_touch
from riskroute.live.venues.gateway import (
    GatewaySink,
    OpenOrder,
    VenueAccount,
    VenueTerms,
    instrument_venue_terms,
    wire_id,
)

_Trade = tuple[int, int, int]  # time, price and shares


class _Market(Protocol):
    """The liquidity of a venue: prices in 1e-9, quantities in units, times in nanoseconds."""

    def instrument(self, symbol: str) -> Instrument:
        """Return the instrument of a symbol."""

    def trades(self, child: ChildOrder, begin: int, end: int) -> list[_Trade]:
        """Return the trades of a child between ``begin`` and ``end``, which are equal for an immediate child."""

    def fee(self, child: ChildOrder, fills: Sequence[tuple[int, int]]) -> int:
        """Return the fee of a child with fills of price and units, as an amount."""


class SimulatedVenueMarket:
    """A market on given books: takers walk them, pools have hidden sizes, resting orders trade at random times.

    Given the books, the trades of a child depend on the child and the seed alone. Nothing trades in a symbol without
    books. ``hidden`` are the mean hidden quantities of pools, ``fill_seconds`` is the mean time between trades with a
    resting order, ``fees`` returns the fees of an instrument at a place; default: none. ``instruments`` maps symbols to
    instruments; a missing symbol is traded in shares.
    """

    def __init__(
        self,
        quotes: Callable[[str], tuple[VenueQuote, ...] | None],
        seed: int = 0,
        hidden: Mapping[str, float] | None = None,
        fill_seconds: float = 1.0,
        fees: Callable[[str, Instrument], LivePlaceFees] = lambda place, instrument: LivePlaceFees(),
        instruments: Mapping[str, Instrument] | None = None,
    ) -> None:
        self.quotes, self.hidden, self.seed = quotes, dict(hidden or {}), seed
        self._fill_seconds, self._fees, self._instruments = fill_seconds, fees, dict(instruments or {})

    def instrument(self, symbol: str) -> Instrument:
        return self._instruments.get(symbol, SHARES)

    def trades(self, child: ChildOrder, begin: int, end: int) -> list[_Trade]:
        books, place, shares, limit = self.quotes(child.symbol), child.place, child.quantity, child.limit
        if not books:
            return []
        sign = 1 if child.side == "buy" else -1
        allowed = [quote for quote in books if quote.venue == place]
        found: list[_Trade] = []
        if child.kind in ("take", "sweep") and allowed:
            for price, size in allowed[0].asks if sign > 0 else allowed[0].bids:
                if shares > 0 and size > 0 and (limit is None or sign * price <= sign * limit):
                    found.append((begin, price, min(shares, size)))
                    shares -= min(shares, size)
            return found
        bid, ask = quoted_touch(books)
        price = (limit or bid) if child.kind == "limit" else (bid + ask) // 2
        if limit is not None and sign * price > sign * limit:
            return []
        if child.kind == "dark":
            instrument = self.instrument(child.symbol)
            mean = self.hidden.get(place, 0) / (instrument.lot_units * instrument.unit_size)  # in lots
            draw = seeded_uniform(self.seed, "market", child.id)
            lots = int(math.log(draw) / math.log(mean / (1 + mean))) if mean else 0  # geometrically distributed
            held = min(lots * instrument.lot_units, shares)
            return [(begin, price, held)] if held > 0 else []
        rng = np.random.default_rng(seed_stream(self.seed, "market", child.id))
        time = begin
        while shares > 0 and (time := time + int(rng.exponential(self._fill_seconds) * NANO) + 1) < end:
            some = min(shares, 100 * self.instrument(child.symbol).lot_units * int(rng.integers(1, 4)))
            found.append((time, price, some))
            shares -= some
        return found

    def fee(self, child: ChildOrder, fills: Sequence[tuple[int, int]]) -> int:
        instrument = self.instrument(child.symbol)
        taker, maker = self._fees(child.place, instrument)
        return (maker if child.kind == "limit" else taker).total(instrument, fills)


@dataclass(frozen=True)
class Faults:
    """Probabilities of faults.

    ``reject``: a child is rejected. ``partial``: a fill is split in two. ``duplicate``: a report is sent twice.
    ``disorder``: a report is delayed, and others may overtake it. ``silence``: a report is lost until a query.
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
class _VenueChild:
    """A child order at its venue."""

    child: ChildOrder
    leaves: int
    cum: int = 0
    open: bool = True
    end: ReportKind = "acknowledged"
    reports: list[ExecutionReport] = field(default_factory=list)


class SimulatedVenue:
    """A venue or pool; ``latency`` is in seconds in each direction, ``seed`` is the seed of its faults."""

    def __init__(
        self,
        place: str,
        market: _Market,
        clock: Callable[[], int],
        *,
        latency: float = 0.001,
        faults: Faults | None = None,
        seed: int = 0,
    ) -> None:
        self.place, self.session, self.market, self.clock = place, place, market, clock
        self.latency = int(real_number("latency", latency, minimum=0, maximum=60) * NANO)
        self.faults = faults or Faults()
        self._reliable = self.faults == Faults()
        self._day = (0, "")
        self._terms: dict[str, VenueTerms] = {}
        self.children: dict[str, _VenueChild] = {}  # children that arrived, by id
        self.arrivals: list[str] = []  # ids in the sequence of arrival, repeated ones included
        self._rng = np.random.default_rng(seed_stream(seed, "venue", place))
        self._sink: GatewaySink | None = None
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = self._exec_ids = 0
        self._missed: list[ExecutionReport] = []
        self._playing = False

    # the gateway

    def connect(self, sink: GatewaySink) -> None:
        self._sink = sink
        missed, self._missed = self._missed, []
        for report in missed:
            self._post(report, self.latency)
        sink.up()

    def terms(self, symbol: str) -> VenueTerms | None:
        if symbol not in self._terms:
            self._terms[symbol] = instrument_venue_terms(self.market.instrument(symbol), idempotent=True)
        return self._terms[symbol]

    def send(self, child: ChildOrder) -> None:
        if self._reliable or self._rng.random() >= self.faults.lost:
            self._later(self.latency, lambda: self._arrive(child))

    def cancel(self, child: ChildOrder) -> None:
        self._later(self.latency, lambda: self._cancelled(child.id))

    def query(self, child: ChildOrder) -> None:
        self._later(self.latency, lambda: self._answer_query(child))

    def request_account(self) -> None:
        self._later(2 * self.latency, self._answer_account)

    def close(self) -> None:
        self._sink = None

    # the venue

    @property
    def next_due(self) -> int | None:
        """The time of the next action; None if there is none."""
        return self._due[0][0] if self._due else None

    def deliver(self) -> int:
        """Run all actions that are due by the clock; return their number."""
        played = 0
        self._playing = True
        try:
            while self._due and self._due[0][0] <= self.clock():
                heapq.heappop(self._due)[2]()
                played += 1
        finally:
            self._playing = False
        return played

    def _later(self, wait: int, action: Callable[[], None]) -> None:
        """Schedule an action after a time; run it at once if this time is zero and `deliver` is running."""
        if wait == 0 and self._playing:
            action()
            return
        self._count += 1
        heapq.heappush(self._due, (self.clock() + wait, self._count, action))

    def _arrive(self, child: ChildOrder) -> None:
        self.arrivals.append(child.id)
        if child.id in self.children:  # sent twice: traded once
            return
        there = self.children[child.id] = _VenueChild(child, child.quantity)
        if not self._reliable and self._rng.random() < self.faults.reject:
            self._end(there, "rejected")
            return
        self._say(there, "acknowledged")
        now = self.clock()
        self._schedule(there, now, now if child.immediate else child.until)

    def _schedule(self, there: _VenueChild, now: int, until: int) -> None:
        """Schedule the end of a child, and its fills beyond those that it already has."""
        child, before = there.child, there.cum
        for time, price, shares in self.market.trades(child, now, until):
            before, shares = max(before - shares, 0), shares - min(before, shares)
            self._later(time - now, lambda price=price, shares=shares: self._fill(there, price, shares))  # type: ignore[misc]  # bound now
        self._later(max(until - now, 0), lambda: self._end(there, "cancelled" if child.immediate else "expired"))

    def _fill(self, there: _VenueChild, price: int, shares: int) -> None:
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
            fills = [(one.price, one.quantity) for one in there.reports if one.kind == "filled"]
            fee = self.market.fee(there.child, [*fills, (price, part)])
            fee -= sum([one.fee for one in there.reports if one.kind == "filled"])
            self._say(there, "filled", quantity=part, price=price, fee=fee)

    def _end(self, there: _VenueChild, kind: ReportKind) -> None:
        if there.open:
            there.open, there.end, there.leaves = False, kind, 0
            self._say(there, kind)

    def _cancelled(self, name: str) -> None:
        there = self.children.get(name)
        if there is not None:
            self._end(there, "cancelled")

    def bust(self, name: str, exec_id: str) -> None:
        """Bust a fill."""
        there = self.children[name]
        old = next(one for one in there.reports if one.exec_id == exec_id)
        there.cum -= old.quantity
        self._say(there, "busted", reference=exec_id, quantity=old.quantity, price=old.price)

    def _answer_query(self, child: ChildOrder) -> None:
        there = self.children.get(child.id)
        if there is None:
            self._post(self._report(child, "not_known", 0, 0), self.latency)
            return
        for report in there.reports:
            self._post(report, self.latency)
        kind = "cancelled" if there.end == "filled" else there.end
        self._post(self._report(child, kind, there.cum, there.leaves), self.latency)

    def _answer_account(self) -> None:
        there = [one for one in self.children.values() if one.open]
        found = [
            OpenOrder(wire_id=wire_id(one.child.id), symbol=one.child.symbol, side=one.child.side, leaves=one.leaves)
            for one in there
        ]
        if self._sink is not None:
            self._tell(VenueAccount(at=self.clock(), open_orders=tuple(found)))

    # reports

    def _tell(self, said: ExecutionReport | VenueAccount) -> None:
        assert self._sink is not None
        if isinstance(said, VenueAccount):
            self._sink.account(said)
        else:
            self._sink(said)

    def _report(self, child: ChildOrder, kind: ReportKind, cum: int, leaves: int, **more: Any) -> ExecutionReport:
        self._exec_ids += 1
        now = self.clock()
        day = now // (86_400 * NANO)
        if day != self._day[0]:
            self._day = day, dt.datetime.fromtimestamp(now // NANO, dt.UTC).strftime("%Y%m%d")
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

    def _say(self, there: _VenueChild, kind: ReportKind, **more: Any) -> None:
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
        def arrive() -> None:
            if self._sink is None:
                self._missed.append(report)
            else:
                self._tell(report)

        self._later(wait, arrive)


class _Line(msgspec.Struct, omit_defaults=True):
    """A line of the journal: the state of a child and its newest report; the first line of each child has its order."""

    leaves: int
    cum: int
    open: bool
    end: ReportKind
    child: ChildOrder | None = None
    report: ExecutionReport | None = None


class JournalledVenue(SimulatedVenue):
    """A simulated venue that journals its actions before it reports them, and recovers from the journal.

    It reads the journal, or creates it, when an engine connects for the first time. With twice ``most_ended`` children,
    it forgets all ended children but the newest ``most_ended`` and writes the journal anew.
    """

    most_ended = 20_000  # ended children kept for queries, which come long before as many others end

    def __init__(self, *arguments: Any, journal: Path, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.path = journal
        self._journal: BinaryIO | None = None
        self._lines: list[_Line] = []
        self._news: list[ExecutionReport | VenueAccount] = []

    def connect(self, sink: GatewaySink) -> None:
        if self._journal is None:
            self._exec_ids = self.clock()  # exec ids of an earlier run must not be reused
            self._read()
        super().connect(sink)

    def _tell(self, said: ExecutionReport | VenueAccount) -> None:
        self._news.append(said)

    def deliver(self) -> int:
        """Run all actions that are due, journal them, and only then report them."""
        try:
            return super().deliver()
        finally:
            if self._lines and self._journal is not None:
                self._journal.write(msgspec.json.Encoder().encode_lines(self._lines))
            self._lines.clear()
            news, self._news = self._news, []
            if self._sink is not None:
                if reports := [one for one in news if isinstance(one, ExecutionReport)]:
                    self._sink(*reports)
                for one in news:
                    if isinstance(one, VenueAccount):
                        self._sink.account(one)
            if len(self.children) >= 2 * self.most_ended:
                self._forget()
                if self._journal is not None:
                    self._write_anew()

    def _forget(self) -> None:
        """Forget the oldest ended children."""
        ended = [name for name, there in self.children.items() if not there.open]
        for name in ended[: -self.most_ended]:
            del self.children[name]
        del self.arrivals[: -self.most_ended]

    def _write_anew(self) -> None:
        """Replace the journal by a new one of the children that are not forgotten."""
        new = self.path.with_name(f"{self.path.name}-new")
        new.unlink(missing_ok=True)
        journal, encode = self._opened(new), msgspec.json.Encoder().encode_lines
        for there in self.children.values():
            state = there.leaves, there.cum, there.open, there.end
            reports = enumerate(there.reports)
            journal.write(encode([_Line(*state, None if k else there.child, report) for k, report in reports]))
        new.rename(self.path)  # a crash before this leaves the old journal, which has all of it
        if self._journal is not None:
            self._journal.close()
        self._journal = journal

    @staticmethod
    def _opened(path: Path) -> BinaryIO:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0)

    def _read(self) -> None:
        decoder, line = msgspec.json.Decoder(_Line), b""
        self._journal = self._opened(self.path)
        self.path.chmod(0o600)
        forgotten = False
        with self.path.open("rb") as lines:  # one by one: the journal may be large
            for line in lines:
                self._recall(line, decoder)
                if len(self.children) >= 2 * self.most_ended:
                    self._forget()
                    forgotten = True
        if line and not line.endswith(b"\n"):
            self._journal.write(b"\n")  # otherwise the next line would be lost with the truncated one
        if forgotten:
            self._write_anew()
        for there in self.children.values():
            if there.open:
                now, child = self.clock(), there.child
                self._schedule(there, now, now if child.immediate else max(child.until, now))

    def _recall(self, line: bytes, decoder: msgspec.json.Decoder[_Line]) -> None:
        """Restore the state of a child and its report from a line of the journal."""
        try:
            one = decoder.decode(line)
        except msgspec.MsgspecError:
            return  # truncated by a crash
        if one.child is not None:
            there = self.children.setdefault(one.child.id, _VenueChild(one.child, one.leaves))
        elif one.report is not None and one.report.child in self.children:
            there = self.children[one.report.child]
        else:
            return  # the first line of its child was lost
        there.leaves, there.cum, there.open, there.end = one.leaves, one.cum, one.open, one.end
        if one.report is not None:
            there.reports.append(one.report)

    def _say(self, there: _VenueChild, kind: ReportKind, **more: Any) -> None:
        super()._say(there, kind, **more)
        if self._journal is not None:
            child = there.child if len(there.reports) == 1 else None
            self._lines.append(_Line(there.leaves, there.cum, there.open, there.end, child, there.reports[-1]))

    def stop(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()


class ServedSimulatedVenue:
    """A gateway to a journalled venue that runs in a thread of its own."""

    def __init__(self, venue: JournalledVenue) -> None:
        self.venue, self.session = venue, venue.session
        self._calls: deque[Callable[[], None]] = deque()
        self._woken: queue.SimpleQueue[bool] = queue.SimpleQueue()  # False ends the thread
        self._thread: threading.Thread | None = None

    def connect(self, sink: GatewaySink) -> None:
        self.call(lambda: self.venue.connect(sink))
        self.start()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name=f"venue {self.venue.place}", daemon=True)
        self._thread.start()

    def send(self, child: ChildOrder) -> None:
        self.call(lambda: self.venue.send(child))

    def cancel(self, child: ChildOrder) -> None:
        self.call(lambda: self.venue.cancel(child))

    def query(self, child: ChildOrder) -> None:
        self.call(lambda: self.venue.query(child))

    def terms(self, symbol: str) -> VenueTerms | None:
        return self.venue.terms(symbol)

    def request_account(self) -> None:
        self.call(self.venue.request_account)

    def call(self, call: Callable[[], None]) -> None:
        """Queue a call for the thread; wake it unless it is about to wake anyway."""
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
        """Make waiting calls and deliver what is due, until `close`."""
        running = True
        while running:
            due = self.venue.next_due
            wait = None if due is None else max((due - self.venue.clock()) / NANO, 0)
            with suppress(queue.Empty):
                running = self._woken.get(timeout=wait)
            while self._calls:
                self._attempt(self._calls.popleft())
            self._attempt(self.venue.deliver)

    def _attempt(self, call: Callable[[], Any]) -> None:
        """Make a call; an error, such as a report that cannot be booked, must not end the venue."""
        try:
            call()
        except Exception:
            logging.getLogger("riskroute.live").exception("venue %s", self.venue.place)
