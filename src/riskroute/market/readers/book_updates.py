"""Books rebuilt from level updates: Tardis' ``incremental_book_L2`` tables, and Binance's depth updates as JSON lines.

Tardis: each row has the new amount of one price level, or a level of a snapshot. Rows are sorted by
``local_timestamp``, which the rows of one message share. The first row of a snapshot empties the book. Rows before the
first snapshot change an unknown book and are skipped.

Binance: one JSON object per line, possibly as ``data`` in a combined stream, possibly preceded by a receipt time. The
rules are Binance's own for a local book. An update covers the numbers ``U`` to ``u``. Spot updates with
``u <= lastUpdateId`` of the snapshot are dropped (futures: ``u < lastUpdateId``). The first update kept must have
``U <= lastUpdateId + 1``, and every later one ``U <= u + 1`` with the previous ``u`` (futures: ``pu = u``).
After a gap the book is unknown until the next snapshot.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers, Matrix
from riskroute.core.errors import DataError, InputError, NoBooksError, RiskrouteError
from riskroute.core.runtime import require_extra
from riskroute.core.text import one_line_error, shown
from riskroute.core.validation import LONGEST_SYMBOL, LONGEST_VENUE, is_valid_name, valid_name_rule
from riskroute.market.readers.columns import TimeColumn
from riskroute.market.readers.csv_files import csv_frames, csv_lines, csv_member
from riskroute.market.readers.reading import (
    ReaderPart,
    ReadingOptions,
    label_reading_rows,
    refuse_rows,
    require_symbols,
    to_snapshots,
)
from riskroute.market.schema import TIME


class _LevelUpdates(NamedTuple):
    """Updates sorted by time, ``(n,)`` each; those of one ``group`` form one message."""

    stamps: Integers  # UTC nanoseconds
    numbers: Integers  # rows of the file
    groups: Integers
    resets: Flags  # whether to empty the book before applying the row
    bids: Flags
    prices: Floats
    sizes: Floats  # 0 removes the level


class _Sides(NamedTuple):
    """Levels of bids and asks, ``(2, room)``: ascending keys (bids, negated asks), sizes; counts ``(2,)``."""

    # The best level is last: most changes happen near it, so they move little memory.
    keys: Matrix
    sizes: Matrix
    counts: Integers


class _LevelBook:
    """The levels of one book; yields the best ``depth`` levels of each side after every message that changes them.

    >>> updates = _LevelUpdates(
    ...     np.array([1, 1, 2]), np.array([1, 2, 3]), np.array([1, 1, 2]), np.array([True, False, False]),
    ...     np.array([True, False, True]), np.array([9.0, 10.0, 9.5]), np.array([5.0, 7.0, 2.0])
    ... )
    >>> book = _LevelBook(1)
    >>> frames = polars.concat([*book.follow(updates), *book.rest()])
    >>> frames.select("sequence", "bid_px_00", "bid_sz_00", "ask_px_00", "deeper").rows()
    [(2, 9.0, 5.0, 10.0, False), (3, 9.5, 2.0, 10.0, True)]
    """

    CELLS = 1 << 20  # prices of a side per chunk of snapshots, approximately

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._sides = _Sides(np.zeros((2, 64)), np.zeros((2, 64)), np.zeros(2, dtype=np.int64))
        self._state = np.zeros(4, dtype=np.int64)
        self._last = np.zeros((4, depth))
        self._last[::2] = np.nan
        self._rows = max(self.CELLS // depth, 1)

    def rest(self) -> Iterator[polars.DataFrame]:
        """Yield the snapshot of the last message; no updates may follow."""
        end = np.array([-1])
        flag, number = np.array([False]), np.array([0.0])
        yield from self.follow(_LevelUpdates(end, end, end, flag, flag, number, number))

    def follow(self, updates: _LevelUpdates) -> Iterator[polars.DataFrame]:
        """Apply updates; yield snapshots of complete messages (the last message may continue in the next updates)."""
        keys, sizes, counts = self._sides
        needed = int(counts.max()) + len(updates.stamps)  # every update may add a level
        if needed > keys.shape[1]:
            wider = np.zeros((2, 2 * needed - keys.shape[1]))
            self._sides = _Sides(np.hstack([keys, wider]), np.hstack([sizes, wider]), counts)
        done, rows = 0, min(self._rows, len(updates.stamps) + 1)
        while done < len(updates.stamps):
            levels = np.empty((4, rows, self.depth))
            marks = np.empty((3, rows), dtype=np.int64)
            done, found = _follow(updates, done, self._sides, self._state, self._last, levels, marks)
            if found:
                yield self._frame(levels[:, :found], marks[:, :found])

    def _frame(self, levels: Matrix, marks: Integers) -> polars.DataFrame:
        columns = {"ts_event": polars.Series(marks[0]).cast(TIME), "sequence": polars.Series(marks[1])}
        for level in range(self.depth):
            for k, field in enumerate(("bid_px", "bid_sz", "ask_px", "ask_sz")):
                columns[f"{field}_{level:02d}"] = polars.Series(np.ascontiguousarray(levels[k, :, level]))
        return polars.DataFrame(columns | {"deeper": polars.Series(marks[2] > 0)})


@njit(cache=True)
def _follow(
    updates: _LevelUpdates, begin: int, sides: _Sides, state: Integers, last: Matrix, levels: Matrix, marks: Integers
) -> tuple[int, int]:
    """Apply updates from ``begin`` until ``levels`` is full; return the numbers of updates and snapshots."""
    # ``state``: current group, its stamp and number, whether it changed a kept level. Group -1 marks the end.
    stamps, numbers, groups, resets, bids, prices, sizes = updates
    keys, kept, counts = sides
    found, depth = 0, last.shape[1]
    for k in range(begin, len(stamps)):
        if groups[k] != state[0] and state[3]:  # the previous message is complete: take a snapshot
            if found == levels.shape[1]:
                return k, found
            state[3] = 0
            changed = False
            for side in range(2):
                for level in range(depth):
                    there = level < counts[side]
                    place = counts[side] - 1 - level
                    price = abs(keys[side, place]) if there else np.nan
                    size = kept[side, place] if there else 0.0
                    levels[2 * side, found, level] = price
                    levels[2 * side + 1, found, level] = size
                    before = last[2 * side, level]
                    same = price == before or (np.isnan(price) and np.isnan(before))
                    if not same or size != last[2 * side + 1, level]:
                        changed = True
                        last[2 * side, level], last[2 * side + 1, level] = price, size
            if changed:
                marks[0, found], marks[1, found] = state[1], state[2]
                marks[2, found] = counts[0] > depth or counts[1] > depth
                found += 1
        if groups[k] < 0:
            continue
        state[0], state[1], state[2] = groups[k], stamps[k], numbers[k]
        if resets[k]:
            counts[0] = counts[1] = 0
            state[3] = 1
        side = 0 if bids[k] else 1
        key = prices[k] if bids[k] else -prices[k]
        low = np.searchsorted(keys[side, : counts[side]], key)
        known = low < counts[side] and keys[side, low] == key
        if known and sizes[k] > 0:
            kept[side, low] = sizes[k]
        elif known:
            for place in range(low, counts[side] - 1):
                keys[side, place], kept[side, place] = keys[side, place + 1], kept[side, place + 1]
            counts[side] -= 1
        elif sizes[k] > 0:
            for place in range(counts[side], low, -1):
                keys[side, place], kept[side, place] = keys[side, place - 1], kept[side, place - 1]
            keys[side, low], kept[side, low] = key, sizes[k]
            counts[side] += 1
        if counts[side] - low <= depth:  # deeper changes leave the kept levels as they are
            state[3] = 1
    return len(stamps), found


# Columns of updates in the order of `_LevelUpdates`: UTC nanoseconds, row or line, message, level with its new size.
_UPDATE_SCHEMA = {
    "stamp": polars.Int64,
    "sequence": polars.Int64,
    "group": polars.Int64,
    "reset": polars.Boolean,
    "bid": polars.Boolean,
    "price": polars.Float64,
    "size": polars.Float64,
}


_UpdatePart = tuple[str, str, _LevelUpdates, int]  # venue, symbol, updates of one book, and the gaps before them


class _UpdateCheck:
    """Refuses updates that are malformed or unsorted; errors call a row ``word``."""

    def __init__(self, source: Path, word: str) -> None:
        self.source, self.word = source, word
        self.latest = 0

    def times(self, frame: polars.DataFrame) -> None:
        """Check the times of all rows."""
        stamp = polars.col("stamp")
        before = stamp.shift(1).fill_null(self.latest)
        self._refuse(frame, "stamp", "a time", stamp.is_null())
        self._refuse(frame, "stamp", f"a time not before that of the previous {self.word}", stamp < before)
        self.latest = int(frame["stamp"][-1]) if frame.height else self.latest

    def levels(self, frame: polars.DataFrame) -> None:
        """Check side, price and size of the requested rows."""
        price, size = polars.col("price"), polars.col("size")
        self._refuse(frame, "side", "side bid or ask", polars.col("bid").is_null())
        self._refuse(frame, "price", "a price above 0", ~((price > 0) & price.is_finite()).fill_null(False))
        self._refuse(frame, "size", "an amount of 0 or more", ~((size >= 0) & size.is_finite()).fill_null(False))

    def _refuse(self, frame: polars.DataFrame, name: str, expected: str, rule: polars.Expr) -> None:
        odd = frame.filter(rule)
        if odd.height:
            value = odd[name][0] if name in odd.columns else None
            was = _time(value) if name == "stamp" and value is not None else repr(value)
            where = f"{self.word} {odd['sequence'][0]} of {self.source.name}"
            raise DataError(f"{where} must have {expected}, was {was}")


def _update_arrays(frame: polars.DataFrame) -> _LevelUpdates:
    """Return the columns of `_UPDATE_SCHEMA` as arrays."""
    arrays: list[Any] = [frame[name].cast(kind).to_numpy() for name, kind in _UPDATE_SCHEMA.items()]
    return _LevelUpdates(*map(np.ascontiguousarray, arrays))


def _time(stamp: int) -> str:
    """Format UTC nanoseconds as date and time.

    >>> _time(1_577_836_800_000_001_000)
    '2020-01-01 00:00:00.000001 UTC'
    """
    seconds, rest = divmod(stamp, 10**9)
    text = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{text}.{rest // 1000:06d} UTC" if rest else f"{text} UTC"


_TARDIS_COLUMNS = ("exchange", "symbol", "timestamp", "local_timestamp", "is_snapshot", "side", "price", "amount")


def _is_tardis(header: Sequence[str]) -> bool:
    return {"is_snapshot", "side", "price", "amount"} <= set(header)


class _TardisFile:
    """A Tardis table of updates."""

    def __init__(self, path: Path, options: ReadingOptions, zone: str) -> None:
        self.source, self.options = path, options
        self._member = csv_member(path)
        self._time = options.columns.get("ts_event", "local_timestamp")
        if set(options.columns) - {"ts_event"} or self._time not in ("timestamp", "local_timestamp"):
            raise InputError(
                f"columns of book updates may only set ts_event, to timestamp or local_timestamp, was {options.columns}"
            )
        with closing(self._frames()) as frames:
            first = next(frames, None)
        if first is None:
            raise DataError(f"{path} has no rows")
        missing = [name for name in _TARDIS_COLUMNS if name not in first.columns]
        if missing:
            raise DataError(f"{path} lacks columns {', '.join(missing)}; it has {', '.join(first.columns)}")
        self._times = {name: TimeColumn(path, name, zone) for name in dict.fromkeys(("local_timestamp", self._time))}
        self.names: dict[str, None] = {}
        self._snapshot: dict[tuple[str, str], bool] = {}  # whether the last row of each book was part of a snapshot
        self._lost: set[tuple[str, str]] = set()

    def pieces(self) -> Iterator[_UpdatePart]:
        """Yield the rows of each book from its first snapshot on."""
        check, row = _UpdateCheck(self.source, "row"), 0
        for frame in self._frames():
            table = self._typed(frame, row)
            row += frame.height
            check.times(table)
            wanted = self._wanted(table)
            check.levels(wanted)
            for (venue, symbol), mine in wanted.group_by(["venue", "symbol"], maintain_order=True):
                known, gaps = self._known((str(venue), str(symbol)), mine)
                yield str(venue), str(symbol), _update_arrays(known), gaps
        for venue, symbol in sorted(self._lost):
            raise DataError(f"{self.source} has no snapshot of {symbol} at {venue} (is_snapshot = true)")

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
            polars.int_range(row + 1, row + 1 + polars.len(), dtype=polars.Int64).alias("sequence"),
            polars.col("exchange").str.strip_chars().alias("venue"),
            polars.col("symbol").str.strip_chars().str.to_uppercase(),
            stamps[self._time].alias("stamp"),
            stamps["local_timestamp"].alias("group"),
            flag.replace_strict(
                {"true": True, "1": True, "false": False, "0": False}, default=None, return_dtype=polars.Boolean
            ).alias("snapshot"),
            side.replace_strict({"bid": True, "ask": False}, default=None, return_dtype=polars.Boolean).alias("bid"),
            "is_snapshot",
            "side",
            "price",
            polars.col("amount").alias("size"),
        )

    def _wanted(self, table: polars.DataFrame) -> polars.DataFrame:
        """Return the rows of the requested symbols; refuse rows without a valid venue and symbol."""
        self.names |= dict.fromkeys(table["symbol"].drop_nulls().unique(maintain_order=True))
        if self.options.symbols:
            table = table.filter(polars.col("symbol").is_in(self.options.symbols).fill_null(True))
        for name, theirs, longest in (("venue", "exchange", LONGEST_VENUE), ("symbol", "symbol", LONGEST_SYMBOL)):
            for value in table[name].unique(maintain_order=True):
                renamed = name == "venue" and value in self.options.venue_names
                if not (renamed or is_valid_name(value, longest=longest)):
                    rule, expected = polars.col(name).eq_missing(value), f"{valid_name_rule(longest)} as {theirs}"
                    refuse_rows(table, rule, expected, self.source, name)
        rule = polars.col("snapshot").is_null()
        refuse_rows(table, rule, "is_snapshot true or false", self.source, "is_snapshot")
        return table

    def _known(self, key: tuple[str, str], mine: polars.DataFrame) -> tuple[polars.DataFrame, int]:
        """Return the rows from the first snapshot on, with resets, and the number of gaps: 1 if rows were skipped."""
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


def _object_start(line: str) -> int:
    """Return the index at which the JSON object of a line begins, after the receipt time if there is one.

    >>> _object_start('1723161253937085768 {"e": 1}'), _object_start('{"e": 1}')
    (20, 0)
    """
    found = re.match(r"\s*\d+\s+(?=\{)", line)
    return found.end() if found else 0


class _DepthChain:
    """Chains Binance updates to snapshots by their numbers, and finds gaps.

    >>> chain = _DepthChain("x")
    >>> chain.update(1, {"E": 5, "U": 3, "u": 4, "b": [["9", "1"]], "a": []})
    >>> chain.snapshot(2, {"lastUpdateId": 3, "bids": [["9", "7"]], "asks": []})
    >>> [row[3:] for row in chain.rows], chain.last
    ([(True, True, 1.0, 0.0), (False, True, 9.0, 7.0), (False, True, 9.0, 1.0)], 4)
    """

    FIELDS = ("sequence", "time", "group", "reset", "bid", "price", "size")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[tuple[Any, ...]] = []  # levels in the order of `FIELDS`
        self.last: int | None = None  # number of the last update, None while the book is unknown
        self.gaps, self.lost = 0, ""  # gaps closed by a later snapshot, and the fault that opened the current one
        self._snapshot: tuple[int, dict[str, Any]] | None = None
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque(maxlen=10_000)

    def snapshot(self, line: int, one: dict[str, Any]) -> None:
        """Keep a snapshot that is newer than the book; without a book, apply the waiting updates to it."""
        if self.last is not None and one["lastUpdateId"] <= self.last:
            return
        self._snapshot = line, one
        if self.last is None:
            waiting = list(self._waiting)
            self._waiting.clear()
            for number, update in waiting:
                self.update(number, update)

    def update(self, line: int, one: dict[str, Any]) -> None:
        """Apply an update that continues the book or the snapshot; otherwise keep it for the next snapshot."""
        if self.last is not None:
            if one["u"] <= self.last:
                return
            if one["pu"] == self.last if "pu" in one else one["U"] <= self.last + 1:
                self._apply(line, one)
                return
            expected = f"pu = {self.last}" if "pu" in one else f"U up to {self.last + 1}"
            self._lose(line, one, expected, "pu" if "pu" in one else "U")
        if self._snapshot is not None:
            where, snapshot = self._snapshot
            known = snapshot["lastUpdateId"]
            if one["u"] < known + ("pu" not in one):
                return
            if one["U"] <= known + 1:
                self.gaps, self.lost = self.gaps + bool(self.lost), ""
                self._empty(line, one)
                self._add(line, one["E"], where, snapshot["bids"], snapshot["asks"])
                self._apply(line, one)
                return
            self._lose(line, one, f"U up to {known + 1}, after the snapshot in line {where}", "U")
            self._snapshot = None
        self._waiting.append((line, one))

    def _apply(self, line: int, one: dict[str, Any]) -> None:
        self._add(line, one["E"], line, one["b"], one["a"])
        self.last = one["u"]
        if self._snapshot is not None and self._snapshot[1]["lastUpdateId"] <= one["u"]:
            self._snapshot = None

    def _lose(self, line: int, one: dict[str, Any], expected: str, name: str) -> None:
        """Record the first fault, and empty the book until the next snapshot."""
        self.lost = self.lost or f"line {line} of {self.name} must have {expected}, was {name} = {one[name]}"
        if self.last is not None:
            self._empty(line, one)
        self.last = None

    def _empty(self, line: int, one: dict[str, Any]) -> None:
        self.rows.append((line, one["E"], line, True, True, 1.0, 0.0))  # a reset that removes an absent level

    def _add(self, line: int, time: int, where: int, bids: Any, asks: Any) -> None:
        for bid, levels in ((True, bids), (False, asks)):
            for level in levels:
                try:
                    price, size = float(level[0]), float(level[1])
                except (TypeError, ValueError, IndexError, KeyError):
                    text = f"line {where} of {self.name}: a level must be two numbers, price and quantity"
                    raise DataError(f"{text}, was {shown(level)}") from None
                self.rows.append((line, time, line, False, bid, price, size))


class _BinanceFile:
    """Binance depth updates of one symbol."""

    ROWS = 200_000  # levels per chunk, approximately

    def __init__(self, path: Path, options: ReadingOptions, zone: str) -> None:
        self.source, self.options = path, options
        self._times = TimeColumn(path, "E", zone)
        self.names: dict[str, None] = {}
        with closing(self._objects()) as objects:
            first = next((one for _, one in objects if "U" in one), None)
        if first is None:
            raise NoBooksError(
                f'{path} has no depth updates ("e": "depthUpdate"); trades and best prices alone make no book'
            )
        self.symbol = str(first["s"]).upper()
        self.venue = options.venue or ("binance-futures" if "pu" in first else "binance")
        self._chain = _DepthChain(path.name)

    def pieces(self) -> Iterator[_UpdatePart]:
        """Yield levels of snapshots and updates; a snapshot has no time and takes that of the next update."""
        self.names[self.symbol] = None
        check, chain = _UpdateCheck(self.source, "line"), self._chain
        for line, one in self._objects():
            if "U" in one:
                chain.update(line, one)
            else:
                chain.snapshot(line, one)
            if len(chain.rows) >= self.ROWS:
                yield self._piece(check)
        if chain.lost:
            raise DataError(f"{chain.lost}: updates are missing and no later snapshot continues the book")
        if chain.last is None:
            raise DataError(
                f'{self.source} has no snapshot ("lastUpdateId") that its updates continue; add the '
                "exchange's snapshot as a separate line"
            )
        yield self._piece(check)

    def _piece(self, check: _UpdateCheck) -> _UpdatePart:
        chain, kinds = self._chain, {"time": polars.Int64} | _UPDATE_SCHEMA
        columns = list(zip(*chain.rows, strict=True)) or [()] * len(chain.FIELDS)
        named = zip(chain.FIELDS, columns, strict=True)
        frame = polars.DataFrame([polars.Series(name, values, dtype=kinds[name]) for name, values in named])
        frame = frame.with_columns(stamp=self._times.read(frame["time"]).cast(polars.Int64))
        check.times(frame)
        check.levels(frame)
        gaps, chain.gaps, chain.rows = chain.gaps, 0, []
        return self.venue, self.symbol, _update_arrays(frame), gaps

    def _objects(self) -> Generator[tuple[int, dict[str, Any]]]:
        """Yield snapshots and depth updates with their line numbers; skip other events."""
        for line, text in enumerate(csv_lines(self.source), 1):
            where = f"line {line} of {self.source.name}"
            if not text.strip():
                continue
            try:
                one = json.loads(text[_object_start(text) :])
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where} must be a complete JSON object: {one_line_error(error)}") from error
            if isinstance(one, dict) and isinstance(one.get("data"), dict):
                one = one["data"]  # of a combined stream
            if not isinstance(one, dict):
                raise DataError(f"{where} must be a JSON object, was {shown(one)}")
            if one.get("e", "depthUpdate") != "depthUpdate" or "result" in one:
                continue
            if "e" not in one and {"B", "A"} <= set(one):
                continue  # book tickers of the spot market carry no event name
            yield line, self._checked(where, one)

    def _checked(self, where: str, one: dict[str, Any]) -> dict[str, Any]:
        update = "e" in one
        numbers = ("E", "U", "u", *(["pu"] if "pu" in one else [])) if update else ("lastUpdateId",)
        for name in numbers:
            if type(one.get(name)) is not int or not 0 <= one[name] < 2**62:
                what = "depth update" if update else "snapshot"
                raise DataError(f"{where}: {name} of a {what} must be a whole number, was {shown(one.get(name))}")
        for name in ("b", "a") if update else ("bids", "asks"):
            if not isinstance(one.get(name), list):
                raise DataError(f"{where}: {name} must be a list of levels, was {shown(one.get(name))}")
        if update and one["U"] > one["u"]:
            raise DataError(f"{where}: U must be at most u = {one['u']}, was {one['U']}")
        if update and not is_valid_name(one.get("s"), longest=LONGEST_SYMBOL):
            raise DataError(f"{where}: s must be {valid_name_rule(LONGEST_SYMBOL)}, was {shown(one.get('s'))}")
        if update and self.names and one["s"].upper() not in self.names:
            mine = next(iter(self.names))
            raise DataError(
                f"{where}: s must be {mine}, was {one['s']}; snapshots name no symbol, so use one file per symbol"
            )
        return one


class UpdateReader:
    """Yields the best levels of every book after each message that changed them; days are UTC by default."""

    name = "deltas"
    fractional = True

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a file begins like a file of book updates, whatever its name."""
        try:
            return _is_binance(path) or _is_tardis(_header(path))
        except RiskrouteError:
            return False

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.source, self.options = path, options
        self.zone = options.zone or "UTC"
        self.depth = options.kept(options.depth or 50)  # updates do not state how many levels the feed has
        if not _is_json(path) and not _is_tardis(_header(path)):
            expected = "book updates: a table with columns is_snapshot, side, price and amount, or JSON lines"
            raise DataError(f"{path} must hold {expected}, was {', '.join(_header(path))[:200]!r}")
        self._file: _BinanceFile | _TardisFile = (_BinanceFile if _is_json(path) else _TardisFile)(
            path, options, self.zone
        )
        self.date = None  # the importer cuts the updates by session day

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per book and chunk of the file."""
        books: dict[tuple[str, str], _LevelBook] = {}
        missing: Counter[tuple[str, str]] = Counter()
        for venue, symbol, updates, gaps in self._file.pieces():
            if not self.options.symbols or symbol in self.options.symbols:
                key = venue, symbol
                missing[key] += gaps
                for frame in books.setdefault(key, _LevelBook(self.depth)).follow(updates):
                    yield self._part(*key, frame, missing.pop(key, 0))
        for key, book in books.items():
            for frame in book.rest():
                yield self._part(*key, frame, missing.pop(key, 0))
        require_symbols(self.options.symbols, self._file.names, self.source.name)

    def _part(self, venue: str, symbol: str, frame: polars.DataFrame, gaps: int) -> ReaderPart:
        labelled, word = label_reading_rows(frame, venue, symbol), "line" if _is_json(self.source) else "row"
        kept = to_snapshots(labelled, self.depth, fractional=True, source=self.source.name, word=word)
        return ReaderPart(venue, symbol, kept.with_columns(frame["deeper"]), gaps=gaps)


def _first_line(path: Path) -> str:
    """Return the first line that is not empty."""
    return next((line for line in map(str.strip, csv_lines(path)) if line), "")


def _is_binance(path: Path) -> bool:
    """Return whether the first line is a Binance object: a snapshot, an event, a stream or a reply."""
    return _is_json(path) and any(f'"{name}"' in _first_line(path) for name in ("lastUpdateId", "e", "data", "result"))


def _is_json(path: Path) -> bool:
    line = _first_line(path)
    return line.startswith("{", _object_start(line))


def _header(path: Path) -> list[str]:
    return [name.strip().strip('"') for name in _first_line(path).split(",")]
