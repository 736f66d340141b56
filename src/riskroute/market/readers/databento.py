"""Databento's market data, DBN or CSV: books from ``mbp`` and ``bbo`` records, books and events from ``mbo``.

A file is of one UTC day, which begins on the evening before in New York. What is not of the day asked for still makes
the book, and is counted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Integers
from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import LONGEST_SYMBOL, is_name, name_rule
from riskroute.market.clock import SECOND, date_in_name, local_day, utc_stamp
from riskroute.market.readers.databento_files import (
    BAD_RECEIPT,
    BOOK_DEPTHS,
    GATHERED,
    LAST,
    LEVELS_ONLY,
    MAYBE_BAD_BOOK,
    PRICE_UNIT,
    PUBLISHERS,
    SNAPSHOT,
    TOP_OF_BOOK,
    open_databento,
)
from riskroute.market.readers.reading import (
    ITCH_LEVELS,
    MOST_SYMBOLS,
    ImportOptions,
    ReaderPart,
    label_rows,
    refuse_unknown_symbol,
    to_events,
    to_snapshots,
)
from riskroute.market.schema import keep_levels, level_columns

# The book of one symbol, kept order by order from Databento's ``mbo`` records, and the events that made it.
#
# A fill does not change the book by itself; the cancel, or the smaller size, that follows it does. Both together are
# one execution. A modified order that keeps its price and does not grow keeps its queue position; its lost shares count
# as cancelled. Any other change replaces the order. Snapshots are taken after the last record of an event only.
#


ADD, CANCEL, MODIFY, CLEAR, FILL = (ord(letter) for letter in "ACMRF")
BID, ASK = ord("B"), ord("A")
NO_LEVEL = -1
"""The price of a level that is not there."""


class BookChanges(NamedTuple):
    """What some records did to a book.

    ``snapshot_rows (S,)`` are the records after which the book was another, ``levels (S, depth, 4)`` its prices and
    sizes (bid, size, ask, size), ``deeper (S,)`` whether it had more levels. ``events (E, 7)`` are record, action,
    side, price, size, remainder, and number of the order in ``orders``. ``references`` and ``unresolved`` count the
    records that name an order, and those whose order is not there or is smaller than they say.
    """

    snapshot_rows: Integers
    levels: Integers
    deeper: Integers
    events: Integers
    orders: Any
    references: int
    unresolved: int


class OrderBook:
    """Resting orders of one symbol at one venue, and the ``depth`` best levels of both sides."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._ids = np.zeros(0, dtype=np.uint64)
        self._orders = np.zeros(
            (0, 5), dtype=np.int64
        )  # side, price, size, filled and not yet taken off, at which price
        self._sides = [np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2), dtype=np.int64)]  # worst level first
        self._shown = np.full((depth, 4), 0, dtype=np.int64)
        self._shown[:, 0::2] = NO_LEVEL

    def apply(self, ids: Any, actions: Any, sides: Any, prices: Any, sizes: Any, flags: Any) -> BookChanges:
        """Take in records, ``(n,)`` each, in their order; ``prices`` of orders that are added are above 0."""
        names, places = np.unique(np.concatenate([self._ids, ids.astype(np.uint64)]), return_inverse=True)
        orders = np.zeros((len(names), 5), dtype=np.int64)
        orders[places[: len(self._ids)]] = self._orders
        numbers = places[len(self._ids) :].astype(np.int64)
        count = len(ids)
        # A record adds a level at most, and makes two events at most; clearing takes off what was there or was added.
        books = [np.concatenate([side, np.zeros((count, 2), dtype=np.int64)]) for side in self._sides]
        heights = np.array([len(side) for side in self._sides])
        events = np.zeros((3 * count + len(self._ids), 7), dtype=np.int64)
        last = int(((flags & LAST) > 0).sum())
        rows, deeper = np.zeros(last, dtype=np.int64), np.zeros(last, dtype=np.int64)
        levels = np.zeros((last, self.depth, 4), dtype=np.int64)
        kinds, of, at, shares, marks = (
            np.asarray(column).astype(np.int64) for column in (actions, sides, prices, sizes, flags)
        )
        bids, asks = books
        found = _apply(
            numbers,
            kinds,
            of,
            at,
            shares,
            marks,
            orders,
            bids,
            asks,
            heights,
            self._shown,
            events,
            rows,
            levels,
            deeper,
        )
        n_events, n_books, references, unresolved = found
        live = orders[:, 2] > 0
        self._ids, self._orders = names[live], orders[live]
        self._sides = [book[:height].copy() for book, height in zip(books, heights, strict=True)]
        return BookChanges(
            rows[:n_books], levels[:n_books], deeper[:n_books], events[:n_events], names, references, unresolved
        )


@njit(cache=True)
def _apply(
    numbers: Any,
    actions: Any,
    sides: Any,
    prices: Any,
    sizes: Any,
    flags: Any,
    orders: Any,
    bids: Any,
    asks: Any,
    heights: Any,
    shown: Any,
    events: Any,
    rows: Any,
    levels: Any,
    deeper: Any,
) -> tuple[int, int, int, int]:
    n_events = n_books = references = unresolved = 0
    for row in range(len(actions)):
        action, number, size = actions[row], numbers[row], sizes[row]
        if action == CLEAR:
            for other in range(len(orders)):
                if orders[other, 2] > 0:
                    _note(events, n_events, row, CANCEL, orders, other, orders[other, 2], orders[other, 1], 0)
                    n_events += 1
                    orders[other, 2] = orders[other, 3] = 0
            heights[0] = heights[1] = 0
        elif action in (FILL, CANCEL, MODIFY, ADD):
            left = orders[number, 2]
            if action != ADD or left > 0:
                references += 1
                if action == ADD or left == 0 or (action != MODIFY and size > left):
                    unresolved += 1
            if action == FILL:
                if left > 0:
                    orders[number, 3] = min(orders[number, 3] + size, left)
                    orders[number, 4] = prices[row]
            elif action == CANCEL or (
                left > 0 and (size == 0 or _stays(orders, number, sides[row], prices[row], size))
            ):
                gone = min(size, left) if action == CANCEL else left - size
                if gone > 0:
                    executed = min(gone, orders[number, 3])
                    _change(bids, asks, heights, orders[number, 0], orders[number, 1], -gone)
                    orders[number, 2] -= gone
                    orders[number, 3] -= executed
                    if executed > 0:
                        rest = left - executed
                        _note(events, n_events, row, FILL, orders, number, executed, orders[number, 4], rest)
                        n_events += 1
                    if gone > executed:
                        rest = orders[number, 2]
                        _note(events, n_events, row, CANCEL, orders, number, gone - executed, orders[number, 1], rest)
                        n_events += 1
            elif size > 0:
                if left > 0:
                    _change(bids, asks, heights, orders[number, 0], orders[number, 1], -left)
                orders[number, 0], orders[number, 1] = sides[row], prices[row]
                orders[number, 2], orders[number, 3] = size, 0
                _change(bids, asks, heights, sides[row], prices[row], size)
                kind = MODIFY if left > 0 else ADD
                _note(events, n_events, row, kind, orders, number, size, prices[row], size)
                n_events += 1
        if flags[row] & LAST and _differs(bids, asks, heights, shown):
            for level in range(len(shown)):
                for field in range(4):
                    levels[n_books, level, field] = shown[level, field]
            rows[n_books] = row
            deeper[n_books] = max(heights[0], heights[1]) > len(shown)
            n_books += 1
    return n_events, n_books, references, unresolved


@njit(cache=True)
def _stays(orders: Any, number: int, side: int, price: int, size: int) -> bool:
    """Whether an order that is changed keeps its place."""
    return bool(orders[number, 0] == side and orders[number, 1] == price and orders[number, 2] >= size)


@njit(cache=True)
def _note(
    events: Any, place: int, row: int, action: int, orders: Any, number: int, size: int, price: int, left: int
) -> None:
    events[place, 0], events[place, 1], events[place, 2] = row, action, orders[number, 0]
    events[place, 3], events[place, 4], events[place, 5], events[place, 6] = price, size, left, number


@njit(cache=True)
def _change(bids: Any, asks: Any, heights: Any, side: int, price: int, change: int) -> None:
    """Add shares to a level or take them off; levels come and go, the best one stands last."""
    which, sign = (0, 1) if side == BID else (1, -1)
    book = bids if side == BID else asks
    height = heights[which]
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
def _differs(bids: Any, asks: Any, heights: Any, shown: Any) -> bool:
    """Bring the levels that are shown up to date, and tell whether any of them was another."""
    changed = False
    for which in range(2):
        for level in range(len(shown)):
            price, size = NO_LEVEL, 0
            place = heights[which] - 1 - level
            if place >= 0:
                price, size = (bids[place, 0], bids[place, 1]) if which == 0 else (asks[place, 0], asks[place, 1])
            if shown[level, 2 * which] != price or shown[level, 2 * which + 1] != size:
                shown[level, 2 * which], shown[level, 2 * which + 1] = price, size
                changed = True
    return changed


ROWS, FEW = 100_000, 10
"""Records that are held at once, about: for books of ``FEW`` levels, and fewer for deeper ones."""

LATEST = SECOND
"""How far behind the record before it a record may be, in nanoseconds."""


@dataclass
class _Feed:
    """One symbol at one venue: its latest time, its book if that is kept here, records whose event is not yet over."""

    latest: int
    book: OrderBook | None
    held: list[polars.DataFrame] = field(default_factory=list)
    ended: bool = False


class DatabentoReader:
    """Books of every venue and symbol of a file, and events where the file has orders."""

    name = "databento"

    def __init__(self, path: Path, options: ImportOptions) -> None:
        self.source, self.options = path, options
        self._file = open_databento(path)
        self.schema, self.us_equity = self._file.schema, self._file.us_equity
        self.depth = options.kept(BOOK_DEPTHS.get(self.schema, ITCH_LEVELS))
        self.date = options.date or self._file.day
        if self.date.year < 1971:
            self.date = date_in_name(path.name) or self.date
        self._names = self._file.symbols(self.date)
        self._time = "ts_recv" if self.schema.startswith("bbo") else "ts_event"
        self._feeds: dict[tuple[int, str], _Feed] = {}
        self._begin, self._end = (utc_stamp(self.date + dt.timedelta(k), dt.time(0)) for k in (0, 1))
        self._other = ""
        self._nameless: dict[int, None] = {}
        self._publishers: dict[str, int] = {}

    def parts(self) -> Iterator[ReaderPart]:
        """A part per venue, symbol and piece of the file."""
        seen: dict[str, None] = {}
        given = False
        for table in self._file.frames(ROWS * FEW // max(self.depth, FEW)):
            named = self._named(self._checked(table))
            seen |= dict.fromkeys(named["symbol"].unique(maintain_order=True))
            if not self.options.symbols and len(seen) > MOST_SYMBOLS:
                raise InputError(
                    f"symbol must be given for a file of many: {self.source.name} has more than {MOST_SYMBOLS} "
                    f"({', '.join(list(seen)[:3])}, ...)"
                )
            if self.options.symbols:
                named = named.filter(polars.col("symbol").is_in(self.options.symbols))
            for (publisher, symbol), mine in named.group_by(["publisher_id", "symbol"], maintain_order=True):
                venue = self._venue(int(str(publisher)), mine)
                part = self._part(venue, str(symbol), self._feed(int(str(publisher)), str(symbol)), mine)
                given |= part.snapshots.height > 0
                yield part
        for (publisher, symbol), feed in self._feeds.items():
            if feed.held:
                yield self._part(self._venue(publisher), symbol, feed, feed.held.pop(), over=True)
                given = True
            if feed.book is not None and not feed.ended:
                raise DataError(f"{self.source} must mark the last record of an event (flags 128), was without any")
        self._check_ends(tuple(seen), given)

    def _check_ends(self, seen: tuple[str, ...], given: bool) -> None:
        for symbol in self.options.symbols:
            if symbol not in seen:
                refuse_unknown_symbol("symbol", symbol, seen, self.source.name)
        if self._other and not given:
            raise DataError(f"{self.source} must hold books of {self.date}, was of {self._other}")

    def _feed(self, publisher: int, symbol: str) -> _Feed:
        key = (publisher, symbol)
        if key not in self._feeds:
            self._feeds[key] = _Feed(0, OrderBook(self.depth) if self.schema == "mbo" else None)
        return self._feeds[key]

    def _venue(self, publisher: int, records: polars.DataFrame | None = None) -> str:
        named = str(publisher) if str(publisher) in self.options.venue_names else self.options.venue
        found = PUBLISHERS.get(publisher, named)
        if found is None:
            gathered = ", which gathers the best prices of several venues" if publisher in GATHERED else ""
            where = f"record {records['record'][0]:,} of {self.source}" if records is not None else str(self.source)
            raise DataError(
                f"{where} must have the publisher_id of a venue of US equities, was {publisher}{gathered}; "
                "venue = CODE names it"
            )
        if self._publishers.setdefault(found, publisher) != publisher:
            raise DataError(
                f"{self.source} must have one feed of every venue, was publisher_id {self._publishers[found]} and "
                f"{publisher} of {found}"
            )
        return found

    def _checked(self, table: polars.DataFrame) -> polars.DataFrame:
        """Refuse records without ids or a time, and records of an ``mbo`` file that no order is behind."""
        time, flags = polars.col(self._time), polars.col("flags")
        wrong = [
            ("publisher_id", "a number", polars.col("publisher_id").is_null()),
            ("instrument_id", "a number", polars.col("instrument_id").is_null()),
            ("flags", "a number from 0 to 255", ~flags.is_between(0, 255).fill_null(False)),
            (self._time, "a time between 1970 and 2261", ~time.is_between(0, 2**63 - 2).fill_null(False)),
        ]
        if self.schema == "mbo":
            table, adds = self._timed(table), polars.col("action").is_in(["A", "M"])
            expected = "that of an order; top-of-book records are in mbp-1 files, levels in mbp-10 files"
            wrong += [
                ("action", "one of A, C, M, R, T, F, N", ~polars.col("action").is_in(list("ACMRTFN")).fill_null(False)),
                ("flags", expected, flags.cast(polars.Int64) & (TOP_OF_BOOK | LEVELS_ONLY) > 0),
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
                raise DataError(f"record {number:,} of {self.source} must have as {name} {expected}, was {shown}")
        return table.with_columns(polars.col(self._time).alias("stamp"))

    def _timed(self, table: polars.DataFrame) -> polars.DataFrame:
        """Orders of a snapshot have the time of the snapshot, not the one they were sent at."""
        snapshot = polars.col("flags").cast(polars.Int64) & SNAPSHOT > 0
        return table.with_columns(ts_event=polars.when(snapshot).then("ts_recv").otherwise("ts_event"))

    def _named(self, table: polars.DataFrame) -> polars.DataFrame:
        """The table with a symbol in every row: the row's own, that of its id, or the only one asked for."""
        if self._names:
            names = (
                polars.col("instrument_id")
                .cast(polars.Int64)
                .replace_strict(self._names, default=None, return_dtype=polars.String)
            )
            table = table.with_columns(symbol=polars.coalesce("symbol", names))
        if self._names and self.options.symbols:
            table = table.filter(polars.col("symbol").is_not_null())
        nameless = table.filter(polars.col("symbol").is_null())
        if nameless.height:
            numbers = nameless["instrument_id"].unique(maintain_order=True)
            self._nameless |= dict.fromkeys(numbers)
            if self._names or len(self._nameless) > 1 or len(self.options.symbols) != 1:
                some = ", ".join(map(str, list(self._nameless)[:3]))
                raise DataError(
                    f"record {nameless['record'][0]:,} of {self.source} must have an instrument_id that the file names "
                    f"(map_symbols), was {some}; symbol = NAME names the only one of a file"
                )
            table = table.with_columns(polars.col("symbol").fill_null(self.options.symbols[0]))
        table = table.with_columns(polars.col("symbol").str.strip_chars().str.to_uppercase())
        if not self.options.symbols:
            for symbol in table["symbol"].unique(maintain_order=True):
                if not is_name(symbol, longest=LONGEST_SYMBOL):
                    raise DataError(
                        f"{self.source} must have as symbol {name_rule(LONGEST_SYMBOL)}, was {symbol!r}; "
                        "symbols that are not asked for may be anything"
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
            notes["bad_receipt"] = int((flags & BAD_RECEIPT > 0).sum())
        if feed.book is None:
            books, events, counts = self._ended(feed, records, over), None, (0, 0)
        else:
            books, events, counts = self._kept(feed, feed.book, records)
        doubtful = books["flags"].cast(polars.Int64) & MAYBE_BAD_BOOK > 0
        notes["maybe_bad_book"] = int(doubtful.sum())
        books = self._of_day(books.filter(~doubtful), notes)
        known = BOOK_DEPTHS.get(self.schema, self.depth)
        whole = books.select("deeper", "sequence", "ts_event", *level_columns(known))
        typed = to_snapshots(label_rows(whole, venue, symbol), known, source=self.source.name, word="record")
        inside = self.options.within(typed.with_columns(whole["deeper"]), self.date)
        kept, deeper = keep_levels(inside.drop("deeper"), self.depth)
        deeper += int(inside["deeper"].sum())
        if events is not None:
            events = self._of_day(events, {})
            events = self.options.within(
                to_events(label_rows(events, venue, symbol), self.source.name, "record"), self.date
            )
        said = {name: n for name, n in notes.items() if n}
        return ReaderPart(venue, symbol, kept, events, *counts, deeper, notes=said)

    def _lifted(self, feed: _Feed, records: polars.DataFrame, notes: dict[str, int]) -> polars.DataFrame:
        """Records in the order of time: those a little late have the time of the one before."""
        stamps = records["stamp"].to_numpy()
        rising = np.maximum.accumulate(np.concatenate([[feed.latest], stamps]))[1:]
        late = rising - stamps
        if late.max() > LATEST:
            row = int((late > LATEST).argmax())
            was = f"{late[row] / SECOND:,.3f} s before it"
            raise DataError(
                f"record {records['record'][row]:,} of {self.source} must have a {self._time} not before that of the "
                f"record above, but for a second, was {was}"
            )
        notes["late"] = int((late > 0).sum())
        feed.latest = int(rising[-1])
        return records.with_columns(polars.Series("stamp", rising))

    def _ended(self, feed: _Feed, records: polars.DataFrame, over: bool) -> polars.DataFrame:
        """The books at the ends of events: those marked, and the last of one time; one that may go on is held."""
        whole = polars.concat([*feed.held, records])
        feed.held.clear()
        last = (whole["flags"].cast(polars.Int64) & LAST > 0) | (whole["stamp"] != whole["stamp"].shift(-1))
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
        self, feed: _Feed, book: OrderBook, records: polars.DataFrame
    ) -> tuple[polars.DataFrame, polars.DataFrame, tuple[int, int]]:
        """The books that records make, and their events."""
        columns = {name: records[name].to_numpy() for name in ("order_id", "size", "flags", "stamp", "record")}
        letters = {
            name: records[name].fill_null(" ").cast(polars.Binary).to_numpy().astype("S1").view(np.uint8)
            for name in ("action", "side")
        }
        prices = records["price"].fill_null(0).to_numpy()
        feed.ended |= bool((columns["flags"].astype(np.int64) & LAST).any())
        ids, sizes, flags = columns["order_id"], columns["size"], columns["flags"]
        done = book.apply(ids, letters["action"], letters["side"], prices, sizes, flags)
        rows, levels = done.snapshot_rows, done.levels.reshape(len(done.snapshot_rows), 4 * self.depth)
        books = {"sequence": columns["record"][rows], "stamp": columns["stamp"][rows], "flags": flags[rows]}
        for place, name in enumerate(level_columns(self.depth)):
            values = levels[:, place]
            books[name] = np.where(values == NO_LEVEL, -1, values / PRICE_UNIT) if "_px_" in name else values
        row, action, side, price, size, left, number = done.events.T
        events = {
            "sequence": columns["record"][row],
            "stamp": columns["stamp"][row],
            "action": [chr(code) for code in action],
            "side": [chr(code) for code in side],
            "price": price / PRICE_UNIT,
            "size": size,
            "remaining": left,
            "order_id": done.orders[number],
            "old_order_id": np.where(action == ord("M"), done.orders[number], 0).astype(np.uint64),
        }
        whole = polars.DataFrame(books).with_columns(deeper=polars.Series(done.deeper.astype(bool)))
        return whole, polars.DataFrame(events), (done.references, done.unresolved)

    def _of_day(self, rows: polars.DataFrame, notes: dict[str, int]) -> polars.DataFrame:
        """Rows of the day; those of the evening before are counted, and those after it need a day to be named."""
        stamp = polars.col("stamp")
        after = rows.filter(stamp >= self._end)
        if after.height and self.options.date is None:
            day = local_day(int(after["stamp"][0]))
            raise InputError(
                f"date must be given for a file of several days, was None for {self.source.name}, which has record "
                f"{after['sequence'][0]:,} on {day} and is taken for {self.date}"
            )
        mine = rows.filter(stamp.is_between(self._begin, self._end, closed="left"))
        notes["other_days"] = rows.height - mine.height
        if rows.height > mine.height and not self._other:
            strange = rows.filter(~stamp.is_between(self._begin, self._end, closed="left"))["stamp"][0]
            self._other = str(local_day(int(strange)))
        return mine.with_columns(ts_event=stamp.cast(polars.Datetime("ns", "UTC")))


def is_databento_header(columns: list[str]) -> bool:
    """Whether a CSV file has the columns that Databento writes.

    Examples
    --------
    >>> is_databento_header(["ts_recv", "ts_event", "rtype", "publisher_id", "instrument_id", "side"])
    True
    """
    return {"rtype", "publisher_id", "instrument_id"} <= set(columns)
