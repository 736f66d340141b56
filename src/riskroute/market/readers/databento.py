"""Databento's market data, DBN or CSV: books from ``mbp`` and ``bbo`` records, books and events from ``mbo``.

A file covers one UTC day, which begins on the previous evening in New York. Records of US equities from other New York
days still build the book; their snapshots are skipped and counted.

In ``mbo`` records a fill does not change the book; the cancel or reduced size that follows does, and the two are one
execution. A modified order that keeps its price and does not grow keeps its queue position, and its lost shares
count as cancelled; any other change replaces the order. Snapshots are taken after the last record of an event only.
"""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Integers
from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import LONGEST_SYMBOL, is_valid_name, valid_name_rule
from riskroute.market.clock import SECOND, clock_stamp, local_day
from riskroute.market.readers.csv_files import csv_header
from riskroute.market.readers.databento_files import (
    BOOK_DEPTHS,
    CONSOLIDATED,
    FLAG,
    PRICE_UNIT,
    PUBLISHERS,
    open_databento,
)
from riskroute.market.readers.reading import (
    ITCH_LEVELS,
    MOST_SYMBOLS,
    ReaderPart,
    ReadingOptions,
    label_reading_rows,
    reading_events,
    reading_file_date,
    reading_snapshots,
    require_reading_symbols,
)
from riskroute.market.schema import keep_schema_levels, level_columns

_NO_LEVEL = -1  # price of an absent level


_Actions = namedtuple("_Actions", "add cancel modify clear fill")
_ACTION = _Actions(*map(ord, "ACMRF"))


class _BookChanges(NamedTuple):
    """Changes to a book by a batch of records."""

    events: Integers  # ``(E, 7)``: record, action, side, price, size, remainder, and row of the order
    rows: Integers  # ``(S,)``, the records that changed the kept levels
    levels: Integers  # ``(S, depth, 4)``: bid, size, ask, size
    deeper: Integers  # ``(S,)``, whether there were more levels


class _OrderTable(NamedTuple):
    """Orders, and levels (price and size) sorted with the best level last, where most changes happen."""

    orders: Integers  # ``(K, 5)``: side, price, size, filled but not yet removed, fill price
    bids: Integers
    asks: Integers
    heights: Integers  # ``(2,)``, levels in use


class _DatabentoBook:
    """Resting orders of one symbol at one venue (market by order), and the best ``depth`` levels of both sides."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._ids = np.zeros(0, dtype=np.uint64)
        self._orders = np.zeros((0, 5), dtype=np.int64)
        self._sides = [np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2), dtype=np.int64)]
        self._shown = np.full((depth, 4), 0, dtype=np.int64)
        self._shown[:, 0::2] = _NO_LEVEL

    def apply(
        self, ids: Any, actions: Any, sides: Any, prices: Any, sizes: Any, flags: Any
    ) -> tuple[_BookChanges, Any, tuple[int, int]]:
        """Apply records ``(n,)``; return changes, ids of orders, and counts of references and of unresolved ones."""
        names, places = np.unique(np.concatenate([self._ids, ids.astype(np.uint64)]), return_inverse=True)
        orders = np.zeros((len(names), 5), dtype=np.int64)
        orders[places[: len(self._ids)]] = self._orders
        numbers = places[len(self._ids) :].astype(np.int64)
        count = len(ids)
        # A record adds at most one level and two events; a clear also cancels every order that rests or was added.
        bids, asks = (np.concatenate([side, np.zeros((count, 2), dtype=np.int64)]) for side in self._sides)
        table = _OrderTable(orders, bids, asks, np.array([len(side) for side in self._sides]))
        records = numbers, *(np.asarray(column).astype(np.int64) for column in (actions, sides, prices, sizes, flags))
        last = int(((flags & FLAG.last) > 0).sum())
        out = _BookChanges(
            np.zeros((3 * count + len(self._ids), 7), dtype=np.int64),
            np.zeros(last, dtype=np.int64),
            np.zeros((last, self.depth, 4), dtype=np.int64),
            np.zeros(last, dtype=np.int64),
        )
        n_events, n_books, references, unresolved = _apply(records, table, self._shown, out)
        live = orders[:, 2] > 0
        self._ids, self._orders = names[live], orders[live]
        self._sides = [book[:height].copy() for book, height in zip((bids, asks), table.heights, strict=True)]
        snapshots = out.rows[:n_books], out.levels[:n_books], out.deeper[:n_books]
        return _BookChanges(out.events[:n_events], *snapshots), names, (references, unresolved)


@njit(cache=True)
def _apply(
    records: tuple[Integers, ...], table: _OrderTable, shown: Integers, out: _BookChanges
) -> tuple[int, int, int, int]:
    """Apply records; return the numbers of events, snapshots, references and unresolved references."""
    numbers, actions, sides, prices, sizes, flags = records
    orders, heights, events = table.orders, table.heights, out.events
    n_events = n_books = references = unresolved = 0
    for row in range(len(actions)):
        action, number, size, side, price = actions[row], numbers[row], sizes[row], sides[row], prices[row]
        if action == _ACTION.clear:
            for other in range(len(orders)):
                if orders[other, 2] > 0:
                    _note(events, n_events, row, _ACTION.cancel, orders, other, orders[other, 2], orders[other, 1], 0)
                    n_events += 1
                    orders[other, 2] = orders[other, 3] = 0
            heights[0] = heights[1] = 0
        elif action in (_ACTION.fill, _ACTION.cancel, _ACTION.modify, _ACTION.add):
            left = orders[number, 2]
            # A modified order that keeps its price and does not grow keeps its queue position.
            stays = orders[number, 0] == side and orders[number, 1] == price and left >= size
            if action != _ACTION.add or left > 0:
                references += 1
                if action == _ACTION.add or left == 0 or (action != _ACTION.modify and size > left):
                    unresolved += 1
            if action == _ACTION.fill:
                # A fill does not change the book: remember it, so that the removal that follows is an execution.
                if left > 0:
                    orders[number, 3] = min(orders[number, 3] + size, left)
                    orders[number, 4] = price
            elif action == _ACTION.cancel or (left > 0 and (size == 0 or stays)):
                gone = min(size, left) if action == _ACTION.cancel else left - size
                if gone > 0:
                    executed = min(gone, orders[number, 3])
                    _change(table, orders[number, 0], orders[number, 1], -gone)
                    orders[number, 2] -= gone
                    orders[number, 3] -= executed
                    if executed > 0:
                        rest = left - executed
                        _note(events, n_events, row, _ACTION.fill, orders, number, executed, orders[number, 4], rest)
                        n_events += 1
                    if gone > executed:
                        lost, rest, at = gone - executed, orders[number, 2], orders[number, 1]
                        _note(events, n_events, row, _ACTION.cancel, orders, number, lost, at, rest)
                        n_events += 1
            elif size > 0:
                # A new order, or a modified one that loses its queue position: it joins the back.
                if left > 0:
                    _change(table, orders[number, 0], orders[number, 1], -left)
                orders[number, 0], orders[number, 1] = side, price
                orders[number, 2], orders[number, 3] = size, 0
                _change(table, side, price, size)
                kind = _ACTION.modify if left > 0 else _ACTION.add
                _note(events, n_events, row, kind, orders, number, size, price, size)
                n_events += 1
        # Within an event the book may be crossed or incomplete, so only its last record yields a snapshot.
        if flags[row] & FLAG.last and _update_shown(table, shown):
            for level in range(len(shown)):
                for field in range(4):
                    out.levels[n_books, level, field] = shown[level, field]
            out.rows[n_books] = row
            out.deeper[n_books] = max(heights[0], heights[1]) > len(shown)
            n_books += 1
    return n_events, n_books, references, unresolved


@njit(cache=True)
def _note(
    events: Any, place: int, row: int, action: int, orders: Any, number: int, size: int, price: int, left: int
) -> None:
    events[place, 0], events[place, 1], events[place, 2] = row, action, orders[number, 0]
    events[place, 3], events[place, 4], events[place, 5], events[place, 6] = price, size, left, number


@njit(cache=True)
def _change(table: _OrderTable, side: int, price: int, change: int) -> None:
    """Add ``change`` shares to a level; remove it if none are left."""
    which, sign = (0, 1) if side == ord("B") else (1, -1)
    book = table.bids if side == ord("B") else table.asks
    heights, height = table.heights, table.heights[which]
    low, high = 0, height
    while low < high:
        middle = (low + high) // 2
        if sign * book[middle, 0] < sign * price:
            low = middle + 1
        else:
            high = middle
    if low == height or book[low, 0] != price:
        for place in range(height, low, -1):
            book[place, 0], book[place, 1] = book[place - 1, 0], book[place - 1, 1]
        book[low, 0], book[low, 1] = price, 0
        heights[which] = height = height + 1
    book[low, 1] += change
    if book[low, 1] <= 0:
        for place in range(low, height - 1):
            book[place, 0], book[place, 1] = book[place + 1, 0], book[place + 1, 1]
        heights[which] = height - 1


@njit(cache=True)
def _update_shown(table: _OrderTable, shown: Any) -> bool:
    """Update the shown levels; return whether any changed."""
    bids, asks, heights = table.bids, table.asks, table.heights
    changed = False
    for which in range(2):
        for level in range(len(shown)):
            price, size = _NO_LEVEL, 0
            place = heights[which] - 1 - level
            if place >= 0:
                price, size = (bids[place, 0], bids[place, 1]) if which == 0 else (asks[place, 0], asks[place, 1])
            if shown[level, 2 * which] != price or shown[level, 2 * which + 1] != size:
                shown[level, 2 * which], shown[level, 2 * which + 1] = price, size
                changed = True
    return changed


@dataclass
class _Feed:
    """One symbol at one venue: latest time, order book (``mbo`` only), last record of an unfinished event."""

    latest: int
    book: _DatabentoBook | None
    held: list[polars.DataFrame] = field(default_factory=list)
    ended: bool = False


class DatabentoReader:
    """Yields the books of every venue and symbol in a file, and events if the file has orders."""

    name = "databento"
    ROWS = 100_000  # records held at once for books of 10 levels; fewer for deeper ones

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a CSV file has Databento's header."""
        return {"rtype", "publisher_id", "instrument_id"} <= set(csv_header(path))

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.source, self.options = path, options
        self._file = open_databento(path)
        self.schema, self.us_equity = self._file.schema, self._file.us_equity
        self.depth = options.kept(BOOK_DEPTHS.get(self.schema, ITCH_LEVELS))
        day = options.date or self._file.day
        if day.year < 1971:
            day = reading_file_date(path.name) or day
        self._day = day
        # a UTC day has one session of US equities; sessions of other markets may span two days
        self.date = day if self.us_equity else None
        self._names = self._file.symbols(day)
        self._time = "ts_recv" if self.schema.startswith("bbo") else "ts_event"
        self._feeds: dict[tuple[int, str], _Feed] = {}
        self._begin, self._end = (clock_stamp(day + dt.timedelta(k), dt.time(0)) for k in (0, 1))
        self._other = ""
        self._nameless: dict[int, None] = {}
        self._publishers: dict[str, int] = {}

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per venue, symbol and chunk of the file."""
        seen: dict[str, None] = {}
        given = False
        for table in self._file.frames(self.ROWS * 10 // max(self.depth, 10)):
            named = self._named(self._checked(table))
            seen |= dict.fromkeys(named["symbol"].unique(maintain_order=True))
            if not self.options.symbols and len(seen) > MOST_SYMBOLS:
                some = ", ".join(list(seen)[:3])
                raise InputError(f"{self.source.name} has more than {MOST_SYMBOLS} symbols ({some}, ...); give symbol")
            if self.options.symbols:
                named = named.filter(polars.col("symbol").is_in(self.options.symbols))
            for key, mine in named.group_by(["publisher_id", "symbol"], maintain_order=True):
                publisher, symbol = int(str(key[0])), str(key[1])
                if (publisher, symbol) not in self._feeds:
                    book = _DatabentoBook(self.depth) if self.schema == "mbo" else None
                    self._feeds[publisher, symbol] = _Feed(0, book)
                venue = self._venue(publisher, mine)
                part = self._part(venue, symbol, self._feeds[publisher, symbol], mine)
                given |= part.snapshots.height > 0
                yield part
        for (publisher, symbol), feed in self._feeds.items():
            if feed.held:
                yield self._part(self._venue(publisher), symbol, feed, feed.held.pop(), over=True)
                given = True
            if feed.book is not None and not feed.ended:
                raise DataError(f"{self.source} never marks the last record of an event (flag 128)")
        require_reading_symbols(self.options.symbols, seen, self.source.name)
        if self._other and not given:
            raise DataError(f"{self.source} must hold books of {self._day}, was {self._other}; give date")

    def _venue(self, publisher: int, records: polars.DataFrame | None = None) -> str:
        named = str(publisher) if str(publisher) in self.options.venue_names else self.options.venue
        found = PUBLISHERS.get(publisher, named)
        if found is None:
            gathered = ", which publishes consolidated best prices" if publisher in CONSOLIDATED else ""
            where = f"record {records['record'][0]:,} of {self.source}" if records is not None else str(self.source)
            raise DataError(
                f"{where}: publisher_id must be that of a US equity venue, was {publisher}{gathered}; "
                "venue = CODE names it"
            )
        if self._publishers.setdefault(found, publisher) != publisher:
            raise DataError(
                f"expected one feed per venue in {self.source}, got publisher_id {self._publishers[found]} and "
                f"{publisher} for {found}"
            )
        return found

    def _checked(self, table: polars.DataFrame) -> polars.DataFrame:
        """Refuse records without ids or time, and ``mbo`` records that are not orders."""
        time, flags = polars.col(self._time), polars.col("flags")
        wrong = [
            ("publisher_id", "a number", polars.col("publisher_id").is_null()),
            ("instrument_id", "a number", polars.col("instrument_id").is_null()),
            ("flags", "a number from 0 to 255", ~flags.is_between(0, 255).fill_null(False)),
            (self._time, "a time between 1970 and 2261", ~time.is_between(0, 2**63 - 2).fill_null(False)),
        ]
        if self.schema == "mbo":
            snapshot = flags.cast(polars.Int64) & FLAG.snapshot > 0
            # Orders of a snapshot take the time of the snapshot, not the time of their arrival.
            table = table.with_columns(ts_event=polars.when(snapshot).then("ts_recv").otherwise("ts_event"))
            adds = polars.col("action").is_in(["A", "M"])
            expected = "those of an order (the top of book is in mbp-1 files, levels are in mbp-10 files)"
            wrong += [
                ("action", "one of A, C, M, R, T, F, N", ~polars.col("action").is_in(list("ACMRTFN")).fill_null(False)),
                ("flags", expected, flags.cast(polars.Int64) & (FLAG.top_of_book | FLAG.levels_only) > 0),
                ("side", "B or A", adds & ~polars.col("side").is_in(["A", "B"]).fill_null(False)),
                ("price", "a number above 0", adds & ~(polars.col("price") > 0).fill_null(False)),
                ("size", "a number up to 4294967295", ~polars.col("size").is_between(0, 2**32 - 1).fill_null(False)),
                ("order_id", "a number", polars.col("order_id").is_null()),
            ]
        for name, expected, rule in wrong:
            rows = table.filter(rule)
            if rows.height:
                number, was = rows["record"][0], rows[name][0]
                shown = "undefined" if was is None else was
                raise DataError(f"record {number:,} of {self.source}: {name} must be {expected}, was {shown}")
        return table.with_columns(polars.col(self._time).alias("stamp"))

    def _named(self, table: polars.DataFrame) -> polars.DataFrame:
        """Add a symbol to every row: the stated one, the symbol of the instrument id, or the only requested symbol."""
        if self._names:
            numbers = polars.col("instrument_id").cast(polars.Int64)
            names = numbers.replace_strict(self._names, default=None, return_dtype=polars.String)
            table = table.with_columns(symbol=polars.coalesce("symbol", names))
            if self.options.symbols:
                table = table.filter(polars.col("symbol").is_not_null())
        nameless = table.filter(polars.col("symbol").is_null())
        if nameless.height:
            self._nameless |= dict.fromkeys(nameless["instrument_id"].unique(maintain_order=True))
            if self._names or len(self._nameless) > 1 or len(self.options.symbols) != 1:
                some = ", ".join(map(str, list(self._nameless)[:3]))
                raise DataError(
                    f"record {nameless['record'][0]:,} of {self.source}: no symbol for instrument_id {some}; "
                    "download with map_symbols, or give symbol if the file has one instrument"
                )
            table = table.with_columns(polars.col("symbol").fill_null(self.options.symbols[0]))
        table = table.with_columns(polars.col("symbol").str.strip_chars().str.to_uppercase())
        if not self.options.symbols:
            for symbol in table["symbol"].unique(maintain_order=True):
                if not is_valid_name(symbol, longest=LONGEST_SYMBOL):
                    raise DataError(
                        f"{self.source}: symbol must be {valid_name_rule(LONGEST_SYMBOL)}, was {symbol!r}; "
                        "request symbols by name to skip others"
                    )
        return table

    def _part(
        self, venue: str, symbol: str, feed: _Feed, records: polars.DataFrame, *, over: bool = False
    ) -> ReaderPart:
        notes: dict[str, int] = {}
        if not over:
            records = self._lifted(feed, records, notes)
        flags = records["flags"].cast(polars.Int64)
        if self._time == "ts_recv":
            notes["bad_receipt"] = int((flags & FLAG.bad_receipt > 0).sum())
        if feed.book is None:
            books, events, counts = self._ended(feed, records, over), None, (0, 0)
        else:
            books, events, counts = self._kept(feed, feed.book, records)
        doubtful = books["flags"].cast(polars.Int64) & FLAG.maybe_bad_book > 0
        notes["maybe_bad_book"] = int(doubtful.sum())
        books = self._of_day(books.filter(~doubtful), notes)
        known = BOOK_DEPTHS.get(self.schema, self.depth)
        whole = books.select("deeper", "sequence", "ts_event", *level_columns(known))
        typed = reading_snapshots(
            label_reading_rows(whole, venue, symbol), known, source=self.source.name, word="record"
        )
        inside = typed.with_columns(whole["deeper"])
        kept = keep_schema_levels(inside.drop("deeper"), self.depth)
        kept = kept.with_columns(kept["deeper"] | inside["deeper"])
        if events is not None:
            events = label_reading_rows(self._of_day(events, {}), venue, symbol)
            events = reading_events(events, self.source.name, "record")
        return ReaderPart(venue, symbol, kept, events, *counts, notes={name: n for name, n in notes.items() if n})

    def _lifted(self, feed: _Feed, records: polars.DataFrame, notes: dict[str, int]) -> polars.DataFrame:
        """Move records up to 1 s late to the time of the previous record; refuse records more than 1 s late."""
        stamps = records["stamp"].to_numpy()
        rising = np.maximum.accumulate(np.concatenate([[feed.latest], stamps]))[1:]
        late = rising - stamps
        if late.max() > SECOND:
            row = int((late > SECOND).argmax())
            raise DataError(
                f"record {records['record'][row]:,} of {self.source}: {self._time} may be at most 1 s before that of "
                f"the previous record, was {late[row] / SECOND:,.3f} s before it"
            )
        notes["late"] = int((late > 0).sum())
        feed.latest = int(rising[-1])
        return records.with_columns(polars.Series("stamp", rising))

    def _ended(self, feed: _Feed, records: polars.DataFrame, over: bool) -> polars.DataFrame:
        """Return the books at the ends of events (marked, or last of their time); hold an unfinished event back."""
        whole = polars.concat([*feed.held, records])
        feed.held.clear()
        last = (whole["flags"].cast(polars.Int64) & FLAG.last > 0) | (whole["stamp"] != whole["stamp"].shift(-1))
        last = last.fill_null(over)
        if not last[-1]:
            feed.held.append(whole.tail(1))
        books = whole.filter(last).rename({"record": "sequence"})
        prices = [name for name in books.columns if "_px_" in name]
        dollars = {name: books[name].fill_null(-1).to_numpy() / PRICE_UNIT for name in prices}
        return books.with_columns(
            *(polars.Series(name, values) for name, values in dollars.items()), deeper=polars.lit(False)
        )

    def _kept(
        self, feed: _Feed, book: _DatabentoBook, records: polars.DataFrame
    ) -> tuple[polars.DataFrame, polars.DataFrame, tuple[int, int]]:
        """Apply records to the order book; return its snapshots and events."""
        columns = {name: records[name].to_numpy() for name in ("order_id", "size", "flags", "stamp", "record")}
        actions, sides = (
            records[name].fill_null(" ").cast(polars.Binary).to_numpy().astype("S1").view(np.uint8)
            for name in ("action", "side")
        )
        prices = records["price"].fill_null(0).to_numpy()
        ids, sizes, flags = columns["order_id"], columns["size"], columns["flags"]
        feed.ended |= bool((flags.astype(np.int64) & FLAG.last).any())
        done, names, counts = book.apply(ids, actions, sides, prices, sizes, flags)
        rows, levels = done.rows, done.levels.reshape(len(done.rows), 4 * self.depth)
        books = {"sequence": columns["record"][rows], "stamp": columns["stamp"][rows], "flags": flags[rows]}
        for place, name in enumerate(level_columns(self.depth)):
            values = levels[:, place]
            books[name] = np.where(values == _NO_LEVEL, -1, values / PRICE_UNIT) if "_px_" in name else values
        row, action, side, price, size, left, number = done.events.T
        events = {
            "sequence": columns["record"][row],
            "stamp": columns["stamp"][row],
            "action": [chr(code) for code in action],
            "side": [chr(code) for code in side],
            "price": price / PRICE_UNIT,
            "size": size,
            "remaining": left,
            "order_id": names[number],
            "old_order_id": np.where(action == ord("M"), names[number], 0).astype(np.uint64),
        }
        whole = polars.DataFrame(books).with_columns(deeper=polars.Series(done.deeper.astype(bool)))
        return whole, polars.DataFrame(events), counts

    def _of_day(self, rows: polars.DataFrame, notes: dict[str, int]) -> polars.DataFrame:
        """Return the rows of a US equity's day and count the others; refuse later rows unless ``date`` is given."""
        stamp = polars.col("stamp")
        if self.date is None:
            return rows.with_columns(ts_event=stamp.cast(polars.Datetime("ns", "UTC")))
        after = rows.filter(stamp >= self._end)
        if after.height and self.options.date is None:
            day = local_day(int(after["stamp"][0]))
            raise InputError(
                f"{self.source.name} has several days: it is read as {self._day}, but record "
                f"{after['sequence'][0]:,} is dated {day}; give date"
            )
        inside = stamp.is_between(self._begin, self._end, closed="left")
        mine = rows.filter(inside)
        notes["other_days"] = rows.height - mine.height
        if rows.height > mine.height and not self._other:
            self._other = str(local_day(int(rows.filter(~inside)["stamp"][0])))
        return mine.with_columns(ts_event=stamp.cast(polars.Datetime("ns", "UTC")))
