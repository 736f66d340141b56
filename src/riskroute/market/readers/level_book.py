"""Books by price level: updates of levels in arrays, the book they make, and messages collected into such arrays."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers, Matrix
from riskroute.core.errors import DataError
from riskroute.market.clock import SECOND
from riskroute.market.readers.columns import TimeColumn
from riskroute.market.readers.reading import label_reading_rows, reading_events
from riskroute.market.schema import LEVEL_FIELDS, TIME, snapshot_schema

Levels = Sequence[tuple[float, float]]  # prices and sizes


class LevelUpdates(NamedTuple):
    """Updates sorted by time, ``(n,)`` each; updates with the same ``groups`` value form one message."""

    stamps: Integers  # UTC nanoseconds
    numbers: Integers  # rows or lines, counted over all files of the book
    groups: Integers
    resets: Flags  # whether to empty the book before applying the row
    bids: Flags
    prices: Floats
    sizes: Floats  # 0 removes the level


class _Sides(NamedTuple):
    """Levels of bids and asks, ``(2, room)``: ascending keys (bid prices, negated asks), sizes; counts ``(2,)``."""

    # The best level is last: most changes happen near it, so they move little memory.
    keys: Matrix
    sizes: Matrix
    counts: Integers


class LevelBook:
    """The levels of one book; yields the best ``depth`` levels of each side after every message that changes them.

    >>> updates = LevelUpdates(
    ...     np.array([1, 1, 2]), np.array([1, 2, 3]), np.array([1, 1, 2]), np.array([True, False, False]),
    ...     np.array([True, False, True]), np.array([9.0, 10.0, 9.5]), np.array([5.0, 7.0, 2.0])
    ... )
    >>> book = LevelBook(1)
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
        yield from self.follow(LevelUpdates(end, end, end, flag, flag, number, number))

    def forget(self) -> Iterator[polars.DataFrame]:
        """Empty the book; yield the snapshot of its last message. The empty book follows with the next updates."""
        number, stamp = np.array([self._state[2]]), np.array([self._state[1]])
        flag, price = np.array([True]), np.array([1.0])
        yield from self.follow(LevelUpdates(stamp, number, np.array([0]), flag, flag, price, np.array([0.0])))

    def follow(self, updates: LevelUpdates) -> Iterator[polars.DataFrame]:
        """Apply updates; yield snapshots of complete messages (the last message may continue in the next updates)."""
        keys, sizes, counts = self._sides
        needed = int(counts.max()) + len(updates.stamps)  # every update may add a level
        if needed > keys.shape[1]:
            wider = np.zeros((2, 2 * needed - keys.shape[1]))
            self._sides = _Sides(np.hstack([keys, wider]), np.hstack([sizes, wider]), counts)
        done, rows = 0, min(self._rows, len(updates.stamps) + 1)
        while done < len(updates.stamps):
            levels = np.empty((4, self.depth, rows))  # each column of the table in one piece
            marks = np.empty((3, rows), dtype=np.int64)
            done, found = _follow(updates, done, self._sides, self._state, self._last, levels, marks)
            if found:
                yield self._frame(levels[:, :, :found], marks[:, :found])

    def _frame(self, levels: Matrix, marks: Integers) -> polars.DataFrame:
        columns = [
            polars.Series("ts_event", marks[0]).cast(TIME),
            polars.Series("sequence", marks[1].astype(np.uint64)),
        ]
        for level in range(self.depth):
            for k, field in enumerate(LEVEL_FIELDS):
                columns.append(polars.Series(f"{field}_{level:02d}", levels[k, level], nan_to_null=k % 2 == 0))
        return polars.DataFrame([*columns, polars.Series("deeper", marks[2] > 0)])


def level_book_snapshots(
    frame: polars.DataFrame, venue: str, symbol: str, depth: int, *, fractional: bool = True
) -> polars.DataFrame:
    """Return the books of `LevelBook` as a snapshot table."""
    labelled = label_reading_rows(frame, venue, symbol)
    if not fractional:
        labelled = labelled.with_columns(polars.selectors.contains("_sz_").cast(polars.UInt32))
    return labelled.select(list(snapshot_schema(depth)))


@njit(cache=True)
def _follow(
    updates: LevelUpdates, begin: int, sides: _Sides, state: Integers, last: Matrix, levels: Matrix, marks: Integers
) -> tuple[int, int]:
    """Apply updates from ``begin`` until ``levels`` is full; return the next update and the number of snapshots."""
    # ``state``: current group, its stamp and number, whether it changed a kept level. Group -1 marks the end.
    stamps, numbers, groups, resets, bids, prices, sizes = updates
    keys, kept, counts = sides
    found, depth = 0, last.shape[1]
    for k in range(begin, len(stamps)):
        if groups[k] != state[0] and state[3]:  # the previous message is complete: take a snapshot
            if found == levels.shape[2]:
                return k, found
            state[3] = 0
            changed = False
            for side in range(2):
                for level in range(depth):
                    there = level < counts[side]
                    place = counts[side] - 1 - level
                    price = (keys[side, place] if side == 0 else -keys[side, place]) if there else np.nan
                    size = kept[side, place] if there else 0.0
                    levels[2 * side, level, found] = price
                    levels[2 * side + 1, level, found] = size
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


class LevelBookPart(NamedTuple):
    """Updates of one book, public trades as an event table if there are any, and counts as in `ReaderPart`."""

    venue: str
    symbol: str
    updates: LevelUpdates
    events: polars.DataFrame | None = None
    gaps: int = 0
    notes: Mapping[str, int] = {}


class LevelBookMessages:
    """Messages of one book: new levels and public trades, collected one by one and taken as arrays.

    Numbers of messages count the lines of all files of the book; ``before`` of them are in earlier files.

    >>> book = LevelBookMessages("binance", "BTCUSDT", Path("btc.jsonl"))
    >>> book.add(1, 5, [(9.0, 2.0)], [(10.0, 1.0)], reset=True)
    >>> book.trade(2, 6, 10.0, 0.5, "A")
    >>> part = book.take()
    >>> part.updates.prices.tolist(), part.events.select("action", "side", "size").row(0)
    ([9.0, 10.0], ('T', 'A', 0.5))
    """

    def __init__(
        self, venue: str, symbol: str, source: Path, word: str = "line", before: int = 0, *, fractional: bool = True
    ) -> None:
        self.venue, self.symbol, self.source, self.word = venue, symbol, source, word
        self.before, self.gaps, self.fractional = before, 0, fractional
        self._latest, self._latest_trade = 0, 0
        self._clear()

    def _clear(self) -> None:
        self._rows, self._levels = array("q"), array("d")  # number, time, levels of each side and whether to reset
        self._traded, self._terms = array("q"), array("d")  # number, time and side; price and size

    def __len__(self) -> int:
        """Return the approximate number of levels and trades that wait."""
        return len(self._levels) // 2 + len(self._traded) // 3

    def add(self, number: int, time: int, bids: Levels, asks: Levels, *, reset: bool = False) -> None:
        """Add new levels; messages with the same number are one."""
        if reset and not bids and not asks:
            bids = [(1.0, 0.0)]  # removes an absent level, so that the reset has a row
        self._rows.extend((self.before + number, time, len(bids), len(asks), reset))
        self._levels.extend(chain.from_iterable(bids))
        self._levels.extend(chain.from_iterable(asks))

    def trade(self, number: int, time: int, price: float, size: float, side: str) -> None:
        """Add a public trade; ``side``, of the resting order, is B, A, or empty if unknown."""
        self._traded.extend((self.before + number, time, " BA".index(side or " ")))
        self._terms.extend((price, size))

    def take(self, times: TimeColumn | None = None) -> LevelBookPart:
        """Return the messages added since the last call; ``times`` converts Unix times to UTC nanoseconds."""
        rows, levels = np.array(self._rows).reshape(-1, 5), np.array(self._levels).reshape(-1, 2)
        counts = rows[:, 2] + rows[:, 3]
        owners = np.repeat(np.arange(len(rows)), counts)
        places = np.arange(len(levels)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = rows[owners, 0]
        updates = LevelUpdates(
            stamps=_stamps(rows[:, 1], times)[owners],
            numbers=numbers,
            groups=numbers,
            resets=(rows[owners, 4] > 0) & (places == 0),
            bids=places < rows[owners, 2],
            prices=np.ascontiguousarray(levels[:, 0]),
            sizes=np.ascontiguousarray(levels[:, 1]),
        )
        place = self.source, self.word, self.before
        self._latest = check_level_updates(updates, place, self._latest)
        events, late = self._events(times) if len(self._traded) else (None, 0)
        gaps, self.gaps = self.gaps, 0
        self._clear()
        return LevelBookPart(self.venue, self.symbol, updates, events, gaps, {"late": late} if late else {})

    def _events(self, times: TimeColumn | None) -> tuple[polars.DataFrame, int]:
        traded, terms = np.array(self._traded).reshape(-1, 3), np.array(self._terms).reshape(-1, 2)
        table = polars.DataFrame(
            {
                "sequence": traded[:, 0],
                "stamp": _stamps(traded[:, 1], times),
                "price": terms[:, 0],
                "size": terms[:, 1],
                "side": polars.Series(np.array(["", "B", "A"])[traded[:, 2]]),
            }
        ).with_columns(venue=polars.lit(self.venue), symbol=polars.lit(self.symbol))
        events, self._latest_trade, late = level_book_trades(
            table, (self.source, self.word, self.before), self._latest_trade, fractional=self.fractional
        )
        return events, late


def _stamps(counts: Integers, times: TimeColumn | None) -> Integers:
    if times is None:
        return counts
    return times.read(polars.Series(counts)).cast(polars.Int64).to_numpy()


def check_level_updates(
    updates: LevelUpdates, place: tuple[Path, str, int], latest: int, *, signed: bool = False
) -> int:
    """Refuse updates out of order or with impossible prices and sizes; return the time of the last one.

    ``place`` is the file, the word for a row, and the number of rows in earlier files. ``signed`` prices may be 0 or
    negative.
    """
    stamps, prices, sizes = updates.stamps, updates.prices, updates.sizes
    wrong = {
        "a price" if signed else "a price above 0": (~(((prices > 0) | signed) & np.isfinite(prices)), prices),
        "an amount of 0 or more": (~((sizes >= 0) & np.isfinite(sizes)), sizes),
        "an amount of at most 1e14": (sizes > 1e14, sizes),
        f"a time not before that of the previous {place[1]}": (np.diff(stamps, prepend=latest) < 0, stamps),
    }
    for expected, (odd, values) in wrong.items():
        if odd.any():
            first = int(odd.argmax())
            was = _format_stamp(int(stamps[first])) if values is stamps else repr(float(values[first]))
            refuse_level_book_row(int(updates.numbers[first]), place, expected, was)
    return int(stamps[-1]) if len(stamps) else latest


def level_book_trades(
    table: polars.DataFrame,
    place: tuple[Path, str, int],
    latest: int,
    *,
    fractional: bool = True,
    signed: bool = False,
) -> tuple[polars.DataFrame, int, int]:
    """Return public trades as events, the time of the last one, and the number of late ones.

    ``table`` has columns sequence, stamp, venue, symbol, price, size and side. A trade up to one second late takes the
    time of the previous one, because venues number and stamp trades on several machines; one still later is refused.
    """
    price, size = polars.col("price"), polars.col("size")
    rising = table["stamp"].cum_max().clip(lower_bound=latest)
    late = rising - table["stamp"]
    allowed = "a price" if signed else "a price above 0"
    wrong = {
        "price": (allowed, ~(price.is_finite() & ((price > 0) | signed)).fill_null(False)),
        "size": ("a size above 0", ~((size > 0) & (size <= 1e14)).fill_null(False)),
        "stamp": (f"a time not before that of the previous {place[1]}", polars.lit(late > SECOND)),
    }
    for name, (expected, rule) in wrong.items():
        odd = table.filter(rule)
        if odd.height:
            value = odd[name][0]
            refuse_level_book_row(
                odd["sequence"][0], place, expected, _format_stamp(value) if name == "stamp" else repr(value)
            )
    columns = table.select(
        rising.cast(TIME).alias("ts_event"),
        "sequence",
        "venue",
        "symbol",
        polars.lit("T").alias("action"),
        polars.when(polars.col("side") != "").then("side").alias("side"),
        "price",
        "size",
        polars.lit(None, dtype=polars.Float64).alias("remaining"),
        polars.lit(0).alias("order_id"),
        polars.lit(0).alias("old_order_id"),
    )
    events = reading_events(columns, place[0].name, place[1], fractional=fractional)
    return events, int(rising[-1]) if len(rising) else latest, int((late > 0).sum())


def refuse_level_book_row(number: int, place: tuple[Path, str, int], expected: str, was: str) -> None:
    """Raise a `DataError` about a row or line by its number in all files of the book."""
    source, word, before = place
    raise DataError(f"{word} {number - before:,} of {source.name} must have {expected}, was {was}")


def _format_stamp(stamp: int) -> str:
    """Format UTC nanoseconds as date and time.

    >>> _format_stamp(1_577_836_800_000_001_000)
    '2020-01-01 00:00:00.000001 UTC'
    """
    seconds, rest = divmod(stamp, 10**9)
    text = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{text}.{rest // 1000:06d} UTC" if rest else f"{text} UTC"
