"""Books from their updates: Tardis' ``incremental_book_L2`` tables, and depth updates of Binance as JSON lines."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars

from riskroute.core.errors import DataError, InputError, RiskrouteError, one_line_error, shown
from riskroute.core.runtime import require_extra
from riskroute.core.validation import LONGEST_SYMBOL, LONGEST_VENUE, is_name, name_rule
from riskroute.market.clock import date_in_name, day_limits, local_day
from riskroute.market.readers.columns import TimeColumn
from riskroute.market.readers.level_book import LevelBook, LevelUpdates
from riskroute.market.readers.reading import (
    ImportOptions,
    NoBooksError,
    ReaderPart,
    label_rows,
    refuse_unknown_symbol,
    to_snapshots,
)
from riskroute.market.readers.streams import csv_frames, csv_members, text_lines

# What files of book updates have in common: rows that are checked, and their columns as arrays.


UPDATE_SCHEMA = {
    "stamp": polars.Int64,
    "number": polars.Int64,
    "group": polars.Int64,
    "reset": polars.Boolean,
    "bid": polars.Boolean,
    "price": polars.Float64,
    "size": polars.Float64,
}
"""Columns of updates, as `LevelUpdates` has them: UTC nanoseconds, row or line, message, a level with its new size."""


class BookUpdates(NamedTuple):
    """Updates of one book, and how often some were missing before them."""

    venue: str
    symbol: str
    updates: LevelUpdates
    gaps: int


class UpdateFile(Protocol):
    """A file of book updates: the time of its first one (UTC nanoseconds, None if not told), and names of symbols."""

    first: int | None
    names: dict[str, None]

    def pieces(self, begin: int, end: int) -> Iterator[BookUpdates]:
        """Updates of the symbols that are asked for; refuses times outside of a day, but for a recorder's clock."""


class UpdateCheck:
    """Refuses rows that are no updates, or out of the order of time; ``word`` is what a row is called.

    Rows may be ``spill`` nanoseconds outside of the day from ``begin`` to ``end``.
    """

    def __init__(self, source: Path, word: str, begin: int, end: int, spill: int = 0) -> None:
        self.source, self.word, self.begin, self.end, self.spill = source, word, begin, end, spill
        self.latest = 0

    def times(self, frame: polars.DataFrame) -> None:
        """Look at ``stamp`` of all rows."""
        stamp = polars.col("stamp")
        before = stamp.shift(1).fill_null(self.latest)
        self._refuse(frame, "stamp", "a time", stamp.is_null())
        self._refuse(frame, "stamp", f"a time not before that of the {self.word} above", stamp < before)
        day = f"a time from {_time(self.begin)} on and before {_time(self.end)}, the day of the first"
        inside = stamp.is_between(self.begin - self.spill, self.end + self.spill, closed="left")
        self._refuse(frame, "stamp", day, ~inside)
        self.latest = int(frame["stamp"][-1]) if frame.height else self.latest

    def levels(self, frame: polars.DataFrame) -> None:
        """Look at ``bid``, ``price`` and ``size`` of the rows that are wanted."""
        price, size = polars.col("price"), polars.col("size")
        self._refuse(frame, "side", "bid or ask as side", polars.col("bid").is_null())
        self._refuse(frame, "price", "a price above 0", ~((price > 0) & price.is_finite()).fill_null(False))
        self._refuse(frame, "size", "an amount of 0 or more", ~((size >= 0) & size.is_finite()).fill_null(False))

    def _refuse(self, frame: polars.DataFrame, name: str, expected: str, rule: polars.Expr) -> None:
        odd = frame.filter(rule)
        if odd.height:
            value = odd[name][0] if name in odd.columns else None
            was = _time(value) if name == "stamp" and value is not None else repr(value)
            where = f"{self.word} {odd['number'][0]} of {self.source.name}"
            raise DataError(f"{where} must have {expected}, was {was}")


def update_arrays(frame: polars.DataFrame) -> LevelUpdates:
    """The columns of `UPDATE_SCHEMA` as arrays."""
    arrays: list[Any] = [frame[name].cast(kind).to_numpy() for name, kind in UPDATE_SCHEMA.items()]
    return LevelUpdates(*map(np.ascontiguousarray, arrays))


def _time(stamp: int) -> str:
    """UTC nanoseconds as a date and time.

    >>> _time(1_577_836_800_000_001_000)
    '2020-01-01 00:00:00.000001 UTC'
    """
    seconds, rest = divmod(stamp, 10**9)
    text = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{text}.{rest // 1000:06d} UTC" if rest else f"{text} UTC"


# Tardis' ``incremental_book_L2`` tables: the new amount of one price level per row, after the levels of a snapshot.
#
# Rows of one message share a ``local_timestamp`` and are sorted by it. The first row of a snapshot empties the
# book. Rows before the first snapshot change an unknown book and are skipped.
#


COLUMNS = ("exchange", "symbol", "timestamp", "local_timestamp", "is_snapshot", "side", "price", "amount")

_ARRIVED = "local_timestamp"
_YES = {"true": True, "1": True, "false": False, "0": False}


def is_tardis_updates(header: Sequence[str]) -> bool:
    """Whether a table with these columns is one of book updates."""
    return {"is_snapshot", "side", "price", "amount"} <= set(header)


class TardisUpdates:
    """Updates of the symbols of a file."""

    def __init__(self, path: Path, options: ImportOptions, zone: str) -> None:
        self.source, self.options = path, options
        members = csv_members(path)
        if len(members) != 1:
            raise DataError(f"{path} must hold one CSV file, was {len(members)}")
        self._member = members[0]
        self._time = options.columns.get("ts_event", _ARRIVED)
        if set(options.columns) - {"ts_event"} or self._time not in COLUMNS[2:4]:
            raise InputError(
                f"columns of book updates must be told for ts_event alone, timestamp or local_timestamp, "
                f"was {options.columns}"
            )
        with closing(self._frames()) as frames:
            first = next(frames, None)
        if first is None:
            raise DataError(f"{path} must hold a header and at least one row, was empty")
        missing = [name for name in COLUMNS if name not in first.columns]
        if missing:
            raise DataError(f"{path} must have columns for {', '.join(missing)}, was {', '.join(first.columns)}")
        self._times = {name: TimeColumn(path, name, zone) for name in dict.fromkeys((_ARRIVED, self._time))}
        self.first: int | None = self._times[self._time].read(first[self._time]).cast(polars.Int64)[0]
        self.names: dict[str, None] = {}
        self._snapshot: dict[tuple[str, str], bool] = {}  # whether the last row of a book was of one, if there was one
        self._lost: set[tuple[str, str]] = set()

    def pieces(self, begin: int, end: int) -> Iterator[BookUpdates]:
        """Rows of each book, without those before its first snapshot."""
        check, row = UpdateCheck(self.source, "row", begin, end), 0
        for frame in self._frames():
            table = self._typed(frame, row)
            row += frame.height
            check.times(table)
            wanted = self._wanted(table)
            check.levels(wanted)
            for (venue, symbol), mine in wanted.group_by(["venue", "symbol"], maintain_order=True):
                known, gaps = self._known((str(venue), str(symbol)), mine)
                yield BookUpdates(str(venue), str(symbol), update_arrays(known), gaps)
        for venue, symbol in sorted(self._lost):
            raise DataError(
                f"{self.source} must hold a snapshot of {symbol} at {venue}, was without (is_snapshot true)"
            )

    def _frames(self) -> Generator[polars.DataFrame]:
        require_extra("book updates", "market", "pyarrow")
        import pyarrow

        kinds = dict.fromkeys(("exchange", "symbol", "is_snapshot", "side"), pyarrow.string())
        kinds |= dict.fromkeys(("price", "amount"), pyarrow.float64())
        yield from csv_frames(self.source, self._member, kinds, header=True)

    def _typed(self, frame: polars.DataFrame, row: int) -> polars.DataFrame:
        stamps = {name: times.read(frame[name]).cast(polars.Int64) for name, times in self._times.items()}
        side, flag = polars.col("side").str.to_lowercase(), polars.col("is_snapshot").str.to_lowercase()
        return frame.select(
            polars.int_range(row + 1, row + 1 + polars.len(), dtype=polars.Int64).alias("number"),
            polars.col("exchange").str.strip_chars().alias("venue"),
            polars.col("symbol").str.strip_chars().str.to_uppercase(),
            stamps[self._time].alias("stamp"),
            stamps[_ARRIVED].alias("group"),
            flag.replace_strict(_YES, default=None, return_dtype=polars.Boolean).alias("snapshot"),
            side.replace_strict({"bid": True, "ask": False}, default=None, return_dtype=polars.Boolean).alias("bid"),
            "is_snapshot",
            "side",
            "price",
            polars.col("amount").alias("size"),
        )

    def _wanted(self, table: polars.DataFrame) -> polars.DataFrame:
        """Rows of the symbols that are asked for; refuses those that do not name their venue and symbol."""
        self.names |= dict.fromkeys(table["symbol"].drop_nulls().unique(maintain_order=True))
        if self.options.symbols:
            table = table.filter(polars.col("symbol").is_in(self.options.symbols).fill_null(True))
        for name, theirs, longest in (("venue", "exchange", LONGEST_VENUE), ("symbol", "symbol", LONGEST_SYMBOL)):
            odd = [
                value for value in table[name].unique(maintain_order=True) if not self._is_named(name, value, longest)
            ]
            for value in odd:
                self._refuse(
                    table.filter(polars.col(name).eq_missing(value)), name, f"as {theirs} {name_rule(longest)}"
                )
        self._refuse(table.filter(polars.col("snapshot").is_null()), "is_snapshot", "true or false as is_snapshot")
        return table

    def _is_named(self, name: str, value: str, longest: int) -> bool:
        return is_name(value, longest=longest) or (name == "venue" and value in self.options.venue_names)

    def _refuse(self, odd: polars.DataFrame, name: str, expected: str) -> None:
        if odd.height:
            where = f"row {odd['number'][0]} of {self.source.name}"
            raise DataError(f"{where} must have {expected}, was {odd[name][0]!r}")

    def _known(self, key: tuple[str, str], mine: polars.DataFrame) -> tuple[polars.DataFrame, int]:
        """The rows from the first snapshot on, with resets, and whether some were left out before it."""
        flags, gaps = mine["snapshot"].to_numpy(), 0
        if key not in self._snapshot:
            left = int(flags.argmax()) if flags.any() else len(flags)
            if left:
                self._lost.add(key)
            if left < len(flags):
                gaps = int(key in self._lost)
                self._lost.discard(key)
            mine, flags = mine[left:], flags[left:]
        above = np.append(self._snapshot.get(key, False), flags[:-1])
        if len(flags):
            self._snapshot[key] = bool(flags[-1])
        resets = flags & ~above[: len(flags)].astype(np.bool_)
        return mine.with_columns(polars.Series("reset", resets, dtype=polars.Boolean)), gaps


# Binance's depth updates, one JSON object per line, with the snapshot that they start from.
#
# An object may be ``data`` of a combined stream, and the time at which a recorder received it may stand before it.
#
# The rules are those that Binance gives for a local book. An update covers the numbers ``U`` to ``u``; those up to the
# snapshot's ``lastUpdateId`` are dropped, the first that counts must cover the next number, and each must follow the
# previous one without a gap (``pu`` says so for futures). After a gap nothing is known until the next snapshot.
#


ROWS = 200_000
"""Levels per piece, about."""

SPILL = 60 * 10**9
"""Nanoseconds before and after a day that a file may hold: recorders end it by their own clock, not the exchange's."""

WAITING = 10_000
"""Updates at most that are kept while there is no snapshot: it may be written down later than it was taken."""

_RECEIVED = re.compile(r"\s*\d+\s+(?=\{)")  # the time at which a line was received, before its object
_FIELDS = ("number", "time", "group", "reset", "bid", "price", "size")


def received_until(line: str) -> int:
    """Where the JSON object of a line begins, after the time at which it was received if there is one.

    >>> received_until('1723161253937085768 {"e": 1}'), received_until('{"e": 1}')
    (20, 0)
    """
    found = _RECEIVED.match(line)
    return found.end() if found else 0


class DepthChain:
    """A book as a sequence of levels: which updates count, after which snapshot, and where some are missing.

    ``rows`` gather levels in the order of `_FIELDS`, ``gaps`` counts stretches that a later snapshot ended, ``lost``
    says what was wrong with the update that began the present one.

    Examples
    --------
    >>> chain = DepthChain("x")
    >>> chain.update(1, {"E": 5, "U": 3, "u": 4, "b": [["9", "1"]], "a": []})
    >>> chain.snapshot(2, {"lastUpdateId": 3, "bids": [["9", "7"]], "asks": []})
    >>> [row[3:] for row in chain.rows], chain.last
    ([(True, True, 1.0, 0.0), (False, True, 9.0, 7.0), (False, True, 9.0, 1.0)], 4)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[tuple[Any, ...]] = []
        self.last: int | None = None  # number of the last update of the book, if that is known
        self.gaps, self.lost = 0, ""
        self._snapshot: tuple[int, dict[str, Any]] | None = None
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque(maxlen=WAITING)

    def snapshot(self, line: int, one: dict[str, Any]) -> None:
        """Keep a snapshot that is newer than the book; where there is no book, the updates that wait follow it."""
        if self.last is not None and one["lastUpdateId"] <= self.last:
            return
        self._snapshot = line, one
        if self.last is None:
            waiting = list(self._waiting)
            self._waiting.clear()
            for number, update in waiting:
                self.update(number, update)

    def update(self, line: int, one: dict[str, Any]) -> None:
        """Apply an update that follows the book or the snapshot, or let it wait for one."""
        if self.last is not None:
            if one["u"] <= self.last:
                return
            if one["pu"] == self.last if "pu" in one else one["U"] <= self.last + 1:
                self._apply(line, one)
                return
            expected = f"pu = {self.last}" if "pu" in one else f"U up to {self.last + 1}"
            self._lose(line, one, expected, "pu" if "pu" in one else "U")
        if self._snapshot is not None:
            known = self._snapshot[1]["lastUpdateId"]
            if one["u"] < known + ("pu" not in one):
                return
            if one["U"] <= known + 1:
                self._start(line, one, *self._snapshot)
                return
            self._lose(line, one, f"U up to {known + 1}, after the snapshot in line {self._snapshot[0]}", "U")
            self._snapshot = None
        self._waiting.append((line, one))

    def _start(self, line: int, one: dict[str, Any], where: int, snapshot: dict[str, Any]) -> None:
        self.gaps, self.lost = self.gaps + bool(self.lost), ""
        self._empty(line, one)
        self._add(line, one["E"], where, snapshot["bids"], snapshot["asks"])
        self._apply(line, one)

    def _apply(self, line: int, one: dict[str, Any]) -> None:
        self._add(line, one["E"], line, one["b"], one["a"])
        self.last = one["u"]
        if self._snapshot is not None and self._snapshot[1]["lastUpdateId"] <= one["u"]:
            self._snapshot = None

    def _lose(self, line: int, one: dict[str, Any], expected: str, name: str) -> None:
        """Say what is wrong, once, and show an empty book until the next one is known."""
        self.lost = self.lost or f"line {line} of {self.name} must have {expected}, was {name} = {one[name]}"
        if self.last is not None:
            self._empty(line, one)
        self.last = None

    def _empty(self, line: int, one: dict[str, Any]) -> None:
        self.rows.append((line, one["E"], line, True, True, 1.0, 0.0))  # a level that is not there is removed

    def _add(self, line: int, time: int, where: int, bids: Any, asks: Any) -> None:
        for bid, levels in ((True, bids), (False, asks)):
            for level in levels:
                try:
                    price, size = float(level[0]), float(level[1])
                except (TypeError, ValueError, IndexError, KeyError):
                    text = f"line {where} of {self.name} must have levels of two numbers, price and quantity"
                    raise DataError(f"{text}, was {shown(level)}") from None
                self.rows.append((line, time, line, False, bid, price, size))


class BinanceUpdates:
    """Updates of the one symbol of a file."""

    def __init__(self, path: Path, options: ImportOptions, zone: str) -> None:
        self.source, self.options = path, options
        self._times = TimeColumn(path, "E", zone)
        self.names: dict[str, None] = {}
        with closing(self._objects()) as objects:
            first = next((one for _, one in objects if "U" in one), None)
        if first is None:
            raise NoBooksError(
                f'{path} must hold depth updates ("e": "depthUpdate"), was without any; trades and best prices make no '
                "book"
            )
        self.first: int | None = self._times.read(polars.Series([first["E"]])).cast(polars.Int64)[0]
        self.symbol = str(first["s"]).upper()
        self.venue = options.venue or ("binance-futures" if "pu" in first else "binance")
        self._chain = DepthChain(path.name)

    def pieces(self, begin: int, end: int) -> Iterator[BookUpdates]:
        """Levels of snapshots and updates; a snapshot has no time, so it counts with the update that follows it."""
        self.names[self.symbol] = None
        check, chain = UpdateCheck(self.source, "line", begin, end, SPILL), self._chain
        for line, one in self._objects():
            if "U" in one:
                chain.update(line, one)
            else:
                chain.snapshot(line, one)
            if len(chain.rows) >= ROWS:
                yield self._piece(check)
        if chain.lost:
            raise DataError(f"{chain.lost}: updates are missing, and no snapshot follows that they go on from")
        if chain.last is None:
            raise DataError(
                f'{self.source} must hold a snapshot ("lastUpdateId") that updates follow, was without; add that of '
                "the exchange in a line of its own"
            )
        yield self._piece(check)

    def _piece(self, check: UpdateCheck) -> BookUpdates:
        chain, kinds = self._chain, {"time": polars.Int64} | UPDATE_SCHEMA
        columns = list(zip(*chain.rows, strict=True)) or [()] * len(_FIELDS)
        named = zip(_FIELDS, columns, strict=True)
        frame = polars.DataFrame([polars.Series(name, values, dtype=kinds[name]) for name, values in named])
        frame = frame.with_columns(stamp=self._times.read(frame["time"]).cast(polars.Int64))
        check.times(frame)
        check.levels(frame)
        gaps, chain.gaps, chain.rows = chain.gaps, 0, []
        return BookUpdates(self.venue, self.symbol, update_arrays(frame), gaps)

    def _objects(self) -> Generator[tuple[int, dict[str, Any]]]:
        """Snapshots and depth updates with their lines; other events and answers of the exchange are left out."""
        for line, text in enumerate(text_lines(self.source), 1):
            where = f"line {line} of {self.source.name}"
            if not text.strip():
                continue
            try:
                one = json.loads(text[received_until(text) :])
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where} must be a whole JSON object: {one_line_error(error)}") from error
            if isinstance(one, dict) and isinstance(one.get("data"), dict):
                one = one["data"]  # of a combined stream
            if not isinstance(one, dict):
                raise DataError(f"{where} must be a JSON object, was {shown(one)}")
            if one.get("e", "depthUpdate") != "depthUpdate" or "result" in one:
                continue
            if "e" not in one and {"B", "A"} <= set(one):
                continue  # best prices of the spot market, whose events have no name
            yield line, self._checked(where, one)

    def _checked(self, where: str, one: dict[str, Any]) -> dict[str, Any]:
        update = "e" in one
        numbers = ("E", "U", "u", *(["pu"] if "pu" in one else [])) if update else ("lastUpdateId",)
        for name in numbers:
            if type(one.get(name)) is not int or not 0 <= one[name] < 2**62:
                what = "depth update" if update else "snapshot"
                raise DataError(f"{where} must have a whole number as {name} of a {what}, was {shown(one.get(name))}")
        for name in ("b", "a") if update else ("bids", "asks"):
            if not isinstance(one.get(name), list):
                raise DataError(f"{where} must have a list of levels as {name}, was {shown(one.get(name))}")
        if update and one["U"] > one["u"]:
            raise DataError(f"{where} must have U up to u = {one['u']}, was {one['U']}")
        if update and not is_name(one.get("s"), longest=LONGEST_SYMBOL):
            raise DataError(f"{where} must have as s {name_rule(LONGEST_SYMBOL)}, was {shown(one.get('s'))}")
        if update and self.names and one["s"].upper() not in self.names:
            mine = next(iter(self.names))
            raise DataError(
                f"{where} must be of {mine}, as snapshots name no symbol, was of {one['s']}; write a file per symbol"
            )
        return one


DELTA_LEVELS = 50
"""Levels per side that are kept if nothing is said: a file of updates has no number of its own."""


_BINANCE = ("lastUpdateId", "e", "data", "result")
"""Names of which the first line of a file of Binance's has one: of a snapshot, an event, a stream, an answer."""


def is_book_updates(path: Path) -> bool:
    """Whether a file begins as one of book updates does, whatever its name."""
    try:
        return _is_binance(path) or is_tardis_updates(_header(path))
    except RiskrouteError:
        return False


class UpdateReader:
    """The best levels of every book after each message that changed them; days of UTC unless told."""

    name = "deltas"

    def __init__(self, path: Path, options: ImportOptions) -> None:
        self.source, self.options = path, options
        self.unit, self.zone = options.unit or 1.0, options.zone or "UTC"
        self.depth = options.kept(options.depth or DELTA_LEVELS)
        if not _is_json(path) and not is_tardis_updates(_header(path)):
            expected = "book updates: a table with columns is_snapshot, side, price and amount, or JSON lines"
            raise DataError(f"{path} must hold {expected}, was {', '.join(_header(path))[:200]!r}")
        self._file: UpdateFile = (BinanceUpdates if _is_json(path) else TardisUpdates)(path, options, self.zone)
        first = self._file.first
        day = options.date or (local_day(first, self.zone) if first is not None else date_in_name(path.name))
        if day is None:
            raise InputError(f"date must be given where the file does not tell it, was None for {path.name!r}")
        self.date = day

    def parts(self) -> Iterator[ReaderPart]:
        """A part per book and piece of the file."""
        books: dict[tuple[str, str], LevelBook] = {}
        missing: Counter[tuple[str, str]] = Counter()
        for venue, symbol, updates, gaps in self._file.pieces(*day_limits(self.date, self.zone)):
            if not self.options.symbols or symbol in self.options.symbols:
                key = venue, symbol
                missing[key] += gaps
                for frame in books.setdefault(key, LevelBook(self.depth)).follow(updates):
                    yield self._part(*key, frame, missing.pop(key, 0))
        for key, book in books.items():
            for frame in book.rest():
                yield self._part(*key, frame, missing.pop(key, 0))
        names = self._file.names
        for absent in [symbol for symbol in self.options.symbols if symbol not in names]:
            refuse_unknown_symbol("symbol", absent, tuple(names), self.source.name)

    def _part(self, venue: str, symbol: str, frame: polars.DataFrame, gaps: int) -> ReaderPart:
        begin, end = day_limits(self.date, self.zone)
        today = frame.filter(polars.col("ts_event").cast(polars.Int64).is_between(begin, end, closed="left"))
        wanted, other = self.options.within(today, self.date, self.zone), frame.height - today.height
        kept = to_snapshots(
            label_rows(wanted, venue, symbol),
            self.depth,
            self.unit,
            source=self.source.name,
            word="line" if _is_json(self.source) else "row",
        )
        notes = {"other_days": other} if other else {}
        return ReaderPart(venue, symbol, kept, deeper=int(wanted["deeper"].sum()), gaps=gaps, notes=notes)


def _first_line(path: Path) -> str:
    """The beginning of a file as text, of its first line that is not empty."""
    return next((line for line in map(str.strip, text_lines(path)) if line), "")


def _is_binance(path: Path) -> bool:
    """Whether the first line is an object as Binance sends them: an update, a snapshot, or one of several streams."""
    return _is_json(path) and any(f'"{name}"' in _first_line(path) for name in _BINANCE)


def _is_json(path: Path) -> bool:
    line = _first_line(path)
    return line.startswith("{", received_until(line))


def _header(path: Path) -> list[str]:
    return [name.strip().strip('"') for name in _first_line(path).split(",")]
