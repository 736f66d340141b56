"""Binance streams as JSON lines: depth updates, best prices and trades, with snapshots from its REST interface.

One JSON object per line, possibly as ``data`` of a combined stream, possibly preceded by the time of receipt (Unix
time). Books follow Binance's rules for a local book. An update covers the numbers ``U`` to ``u``. Spot updates with
``u <= lastUpdateId`` of the snapshot are dropped (futures: ``u < lastUpdateId``). The first update kept must have
``U <= lastUpdateId + 1``, and every later one ``U <= u + 1`` (futures: ``pu = u``), where ``u`` belongs to the previous
update. After a gap the book is unknown until the next snapshot.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Container, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars

from riskroute.core.errors import DataError, NoBooksError
from riskroute.core.text import one_line_text, shown
from riskroute.core.validation import LONGEST_SYMBOL, is_valid_name, valid_name_rule
from riskroute.market.readers.columns import TimeColumn
from riskroute.market.readers.csv_files import unpacked_file_lines
from riskroute.market.readers.level_book import LevelBookMessages, LevelBookPart, Levels
from riskroute.market.readers.reading import ReadingOptions

LEVELS_PER_PART = 200_000  # levels and trades collected before they are handed on, approximately


class DepthUpdate(NamedTuple):
    """New sizes of levels; ``previous`` is the number of the update before, if the feed states it."""

    line: int
    time: int
    first: int
    last: int
    previous: int | None
    bids: Levels
    asks: Levels


class DepthChain:
    """Chains updates to snapshots by their numbers, and finds gaps.

    >>> book = LevelBookMessages("binance", "X", Path("x.jsonl"))
    >>> chain = DepthChain(book)
    >>> chain.update(DepthUpdate(1, 5, 3, 4, None, [(9.0, 1.0)], []))
    >>> chain.snapshot(2, 3, [(9.0, 7.0)], [])
    >>> updates = book.take().updates
    >>> updates.prices.tolist(), updates.sizes.tolist(), chain.last
    ([9.0, 9.0], [7.0, 1.0], 4)
    """

    def __init__(self, book: LevelBookMessages) -> None:
        self.book = book
        self.last: int | None = None  # number of the last update, None while the book is unknown
        self.lost = ""  # the fault that opened the current gap
        self._snapshot: tuple[int, int, Levels, Levels] | None = None
        self._waiting: deque[DepthUpdate] = deque(maxlen=10_000)

    def snapshot(self, line: int, number: int, bids: Levels, asks: Levels) -> None:
        """Keep a snapshot that is newer than the book; without a book, apply the waiting updates to it."""
        if self.last is not None and number <= self.last:
            return
        self._snapshot = line, number, bids, asks
        if self.last is None:
            waiting = list(self._waiting)
            self._waiting.clear()
            for update in waiting:
                self.update(update)

    def update(self, one: DepthUpdate) -> None:
        """Apply an update that continues book or snapshot, drop one they contain, keep others for the next snapshot."""
        if self.last is not None:
            if one.last <= self.last:
                return
            if one.first <= self.last + 1 if one.previous is None else one.previous == self.last:
                self._apply(one)
                return
            self._lose(one, f"U up to {self.last + 1}" if one.previous is None else f"pu = {self.last}")
        if self._snapshot is not None:
            line, number, bids, asks = self._snapshot
            if one.last < number + (one.previous is None):
                return
            if one.first <= number + 1:
                self.book.gaps += bool(self.lost)
                self.lost = ""
                self.book.add(one.line, one.time, bids, asks, reset=True)
                self._apply(one)
                return
            self._lose(one, f"U up to {number + 1}, after the snapshot in line {line}", "U")
            self._snapshot = None
        self._waiting.append(one)

    def _apply(self, one: DepthUpdate) -> None:
        self.book.add(one.line, one.time, one.bids, one.asks)
        self.last = one.last
        if self._snapshot is not None and self._snapshot[1] <= one.last:
            self._snapshot = None

    def _lose(self, one: DepthUpdate, expected: str, name: str = "") -> None:
        """Record the first fault, and empty the book until the next snapshot."""
        was = f"U = {one.first}" if name or one.previous is None else f"pu = {one.previous}"
        where = f"line {one.line:,} of {self.book.source.name}"
        self.lost = self.lost or f"{where} must have {expected}, was {was}"
        if self.last is not None:
            self.book.add(one.line, one.time, [], [], reset=True)
        self.last = None


class _BinanceEvent(msgspec.Struct):
    """Used fields of depth updates, best prices, trades and snapshots; numbers may be given as text."""

    e: str = ""
    E: int | None = None
    T: int | None = None
    s: str = ""
    U: int | None = None
    u: int | None = None
    pu: int | None = None
    b: list[tuple[float, float]] | float | None = None
    a: list[tuple[float, float]] | float | None = None
    B: float | None = None
    A: float | None = None
    p: float | None = None
    q: float | None = None
    m: bool | None = None
    X: str = "MARKET"
    lastUpdateId: int | None = None  # noqa: N815 - Binance's name
    bids: list[tuple[float, float]] | None = None
    asks: list[tuple[float, float]] | None = None
    data: _BinanceEvent | None = None


_DECODER = msgspec.json.Decoder(_BinanceEvent, strict=False)
_TRADES = ("trade", "aggTrade")


class BinanceStream:
    """One file of streams of one symbol: its depth updates, or its best prices if it has none."""

    word = "line"

    def __init__(self, path: Path, options: ReadingOptions, zone: str) -> None:
        self.path, self.names = path, dict[str, None]()
        depth, ticker = self._first()
        first = depth or ticker
        if first is None:
            raise NoBooksError(
                f'{path} has no depth updates ("e": "depthUpdate") and no best prices; trades alone make no book'
            )
        receipt, event = first
        if event.E is None and receipt < 0:
            raise NoBooksError(f"{path} has best prices without a time; record the time of receipt before each object")
        self._times = TimeColumn(path, "E", zone)
        self._by_receipt = event.E is None  # best prices of the spot market carry no time
        self.first: int | None = self._times.read(polars.Series([receipt if self._by_receipt else event.E])).cast(
            polars.Int64
        )[0]
        self.levels = 1 if depth is None else None
        futures = event.pu is not None if depth else event.e == "bookTicker"
        self.venue = options.venue or ("binance-futures" if futures else "binance")
        self.symbol = event.s.upper()
        self.key = "binance", self.venue, self.symbol, self.levels
        self._chain = DepthChain(LevelBookMessages(self.venue, self.symbol, path))
        self._trades, self._ticker, self._lines = "", -1, 0

    def continues(self, before: BinanceStream) -> bool:
        """Return True: books carry over from the file ``before``, and the numbers of updates show gaps."""
        return True

    def parts(self, before: BinanceStream | None) -> Generator[LevelBookPart]:
        """Yield books and trades, continuing the file ``before``; a snapshot takes the time of the next update."""
        self.names[self.symbol] = None
        if before is not None:
            self._chain, self._trades, self._ticker = before._chain, before._trades, before._ticker
            self._chain.book.before += before._lines
        chain, book = self._chain, self._chain.book
        book.source = self.path
        ticker = self.levels is not None
        for line, receipt, event in self._events():
            self._lines = line
            if event.U is not None:
                assert event.E is not None
                assert event.u is not None
                bids, asks = event.b, event.a
                chain.update(DepthUpdate(line, event.E, event.U, event.u, event.pu, bids, asks))  # type: ignore[arg-type]  # lists of a depth update
            elif event.lastUpdateId is not None:
                chain.snapshot(line, event.lastUpdateId, event.bids or [], event.asks or [])
            elif event.e in _TRADES:
                self._trade(line, event)
            elif ticker:
                self._tick(line, receipt if self._by_receipt else event.E, event)
            if len(book) >= LEVELS_PER_PART:
                yield book.take(self._times)
        yield book.take(self._times)

    def finish(self) -> None:
        """Refuse updates that end without a book."""
        if self._chain.lost:
            raise DataError(f"{self._chain.lost}: updates are missing and no later snapshot continues the book")
        if self.levels is None and self._chain.last is None:
            raise DataError(
                f'{self.path} has no snapshot ("lastUpdateId") that its updates continue; add the '
                "exchange's snapshot as a separate line"
            )

    def _trade(self, line: int, event: _BinanceEvent) -> None:
        """Add a trade of the kind that comes first: single and aggregated trades report the same executions."""
        self._trades = self._trades or event.e
        if event.e == self._trades and event.X == "MARKET":  # futures also report trades of the insurance fund
            time = event.E if event.T is None else event.T
            self._chain.book.trade(line, time, event.p, event.q, "B" if event.m else "A")  # type: ignore[arg-type]  # sound

    def _tick(self, line: int, time: int | None, event: _BinanceEvent) -> None:
        if time is None:
            raise DataError(f"line {line:,} of {self.path.name} must have a time of receipt or E, had neither")
        if event.u is not None and event.u > self._ticker:
            self._ticker = event.u
            bids, asks = [(event.b, event.B)], [(event.a, event.A)]
            self._chain.book.add(line, time, bids, asks, reset=True)  # type: ignore[arg-type]  # numbers of a ticker

    def _first(self) -> tuple[tuple[int, _BinanceEvent] | None, tuple[int, _BinanceEvent] | None]:
        """Return the first depth update and the first best prices before it, with times of receipt; None if absent."""
        ticker = None
        with closing(self._events()) as events:
            for _, receipt, event in events:
                if event.U is not None:
                    return (receipt, event), ticker
                if ticker is None and event.B is not None:
                    ticker = receipt, event
        return None, ticker

    def _events(self) -> Generator[tuple[int, int, _BinanceEvent]]:
        """Yield the events that make books and trades with their line numbers and times of receipt (-1: none)."""
        for line, text in enumerate(unpacked_file_lines(self.path), 1):
            begin = 0 if text[:1] == b"{" else _object_start(text)
            try:
                event = _DECODER.decode(text[begin:] if begin else text)
                if event.data is not None:
                    event = event.data
                if not _is_sound(event, self.names):
                    raise msgspec.ValidationError
            except (msgspec.DecodeError, UnicodeDecodeError):
                slow = self._checked(f"line {line:,} of {self.path.name}", text[begin:])
                if slow is None:
                    continue
                event = slow
            if self.names and event.s and event.s.upper() not in self.names:
                mine = next(iter(self.names))
                raise DataError(
                    f"line {line:,} of {self.path.name}: s must be {mine}, was {event.s}; snapshots name no symbol, so "
                    "use one file per symbol"
                )
            yield line, int(text[:begin]) if begin else -1, event

    def _checked(self, where: str, text: bytes) -> _BinanceEvent | None:
        """Return the event of an unusual line, None if its type is not used; raise `DataError` for a faulty line."""
        if not text.strip():
            return None
        try:
            one = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} must be a complete JSON object: {one_line_text(error)}") from error
        if isinstance(one, dict) and isinstance(one.get("data"), dict):
            one = one["data"]  # the message of a combined stream
        if not isinstance(one, dict):
            raise DataError(f"{where} must be a JSON object, was {shown(one)}")
        name = one.get("e", "bookTicker" if {"B", "A"} <= set(one) else "")
        if name not in ("depthUpdate", "bookTicker", "", *_TRADES) or "result" in one:
            return None
        levels, numbers = {"depthUpdate": (("b", "a"), ("E", "U", "u")), "": (("bids", "asks"), ("lastUpdateId",))}.get(
            name, ((), ())
        )
        what = "depth update" if name else "snapshot"
        for key in (*numbers, *(["pu"] if "pu" in one and name else [])):
            if type(one.get(key)) is not int or not 0 <= one[key] < 2**62:
                raise DataError(f"{where}: {key} of a {what} must be a whole number, was {shown(one.get(key))}")
        if name and not is_valid_name(one.get("s"), longest=LONGEST_SYMBOL):
            raise DataError(f"{where}: s must be {valid_name_rule(LONGEST_SYMBOL)}, was {shown(one.get('s'))}")
        if name == "depthUpdate" and one["U"] > one["u"]:
            raise DataError(f"{where}: U must be at most u = {one['u']}, was {one['U']}")
        for key in levels:
            if not isinstance(one.get(key), list):
                raise DataError(f"{where}: {key} must be a list of levels, was {shown(one.get(key))}")
            one[key] = [_level(where, level) for level in one[key]]
        try:
            event = msgspec.convert(one, _BinanceEvent, strict=False)
        except msgspec.ValidationError as error:
            raise DataError(f"{where} must be a {name or what}: {one_line_text(error)}") from error
        if not levels and not _is_sound(event, self.names):
            raise DataError(f"{where} must have prices and sizes of a {name}, was {shown(one)}")
        return event


def _level(where: str, level: Any) -> tuple[float, float]:
    try:
        return float(level[0]), float(level[1])
    except (TypeError, ValueError, IndexError, KeyError):
        text = f"{where}: a level must be two numbers, price and quantity"
        raise DataError(f"{text}, was {shown(level)}") from None


def _is_sound(one: _BinanceEvent, names: Container[str]) -> bool:
    """Return whether an event has a supported type and all fields of that type; ``names`` are known symbols."""
    if one.lastUpdateId is not None:
        return not one.e and one.lastUpdateId >= 0 and one.bids is not None and one.asks is not None
    if one.s.upper() not in names and not is_valid_name(one.s, longest=LONGEST_SYMBOL):
        return False
    if not all(number is None or 0 <= number < 2**62 for number in (one.E, one.T, one.u, one.pu)):
        return False
    if one.e == "depthUpdate":
        whole = one.E is not None and one.U is not None and one.u is not None and 0 <= one.U <= one.u
        return whole and isinstance(one.b, list) and isinstance(one.a, list)
    if one.e in _TRADES:
        return None not in (one.p, one.q, one.m) and not one.E is one.T is None
    ticker = not one.e or one.e == "bookTicker"
    return ticker and one.u is not None and None not in (one.B, one.A) and type(one.b) is type(one.a) is float


def _object_start(line: bytes) -> int:
    """Return the index at which the JSON object of a line begins, after the time of receipt if there is one.

    >>> _object_start(b'1723161253937085768 {"e": 1}'), _object_start(b'{"e": 1}')
    (20, 0)
    """
    found = re.match(rb"\s*\d+\s+(?=\{)", line)
    return found.end() if found else 0
