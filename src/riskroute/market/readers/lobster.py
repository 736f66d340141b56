"""LOBSTER files: a message file and an orderbook file that match row by row, plain or zipped together."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import one_of
from riskroute.market.clock import clock_stamp
from riskroute.market.readers.csv_files import csv_frames, csv_members
from riskroute.market.readers.reading import (
    ReaderPart,
    ReadingOptions,
    label_reading_rows,
    reading_events,
    reading_file_date,
    reading_snapshots,
    reading_ten_thousandths,
    refuse_rows,
)
from riskroute.market.schema import keep_schema_levels

_NAME = re.compile(
    r"(?P<symbol>[A-Za-z.\-]+)_(?P<date>\d{4}-\d{2}-\d{2})_.*(?P<kind>message|orderbook)_(?P<depth>\d{1,4})"
)
# Message types 1 to 5 as actions: add, partial cancel, delete, execution, execution of a hidden order.
_ACTIONS = {1: "A", 2: "C", 3: "C", 4: "F", 5: "F"}


class LobsterReader:
    """Yields the book after every message, and the messages as events.

    The message file covers only the levels of the book, so messages may refer to orders that were never added. The
    second file of the pair is looked up in the same folder, then by name among the files ``given``.
    """

    name = "lobster"

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a file, or a member of an archive, has a LOBSTER name."""
        return any(_NAME.search(member) for member in csv_members(path))

    def __init__(self, path: Path, options: ReadingOptions, given: Sequence[Path] = ()) -> None:
        self.source, self.options = path, options
        self._places = _pair(path, given)
        found = self._name()
        self.levels = int(found["depth"])
        self.depth = options.kept(self.levels)
        day = options.date or reading_file_date(found["date"])
        if day is None or not 1 <= self.levels <= 1000:
            raise DataError(
                f"the name of {path} must state its date and number of levels (1 to 1000), was {found[0]!r}"
            )
        self.date, self.venue = day, options.venue or "XNAS"
        self.symbol = found["symbol"].upper()
        for symbol in options.symbols:
            one_of("symbol", symbol, (self.symbol,))

    @property
    def files(self) -> set[Path]:
        """Both files of the pair."""
        return {path for path, _ in self._places.values()}

    def _name(self) -> re.Match[str]:
        """Parse both file names; refuse different symbols, dates or numbers of levels."""
        message, book = (_NAME.search(self._places[kind][1]) for kind in ("message", "orderbook"))
        if message is None or book is None:
            raise DataError(f"{self.source} must be named like AMZN_2012-06-21_34200000_57600000_message_5.csv")
        for name in ("symbol", "date", "depth"):
            if message[name].upper() != book[name].upper():
                raise DataError(
                    f"{self.source}: expected messages and books of one symbol, date and number of levels, got "
                    f"{self._places['message'][1]} with {self._places['orderbook'][1]}"
                )
        return book

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per chunk of both files: the books, and the messages as events."""
        import pyarrow

        sides = ("ask_px", "ask_sz", "bid_px", "bid_sz")
        levels = {f"{field}_{level:02d}": pyarrow.int64() for level in range(self.levels) for field in sides}
        texts = {"time": pyarrow.float64()} | dict.fromkeys(("type", "id", "size", "price"), pyarrow.int64())
        messages = csv_frames(*self._places["message"], texts | {"direction": pyarrow.int64()})
        orderbooks = csv_frames(*self._places["orderbook"], levels)
        row, latest, match = 0, -1.0, _PairCheck(*(self._places[kind][1] for kind in ("message", "orderbook")))
        for some, book in _side_by_side(messages, orderbooks, self.source):
            message = some.with_row_index("sequence", offset=row).with_columns(sequence=polars.col("sequence") + 1)
            latest = _check(message, latest, self.source)
            match.add(message, book)
            row += some.height
            nanoseconds = (message["time"] * 1e9).round().cast(polars.Int64)
            stamps = (nanoseconds + clock_stamp(self.date, dt.time(0))).cast(polars.Datetime("ns", "UTC"))
            keys = polars.DataFrame({"ts_event": stamps, "sequence": message["sequence"]})
            known = min(self.depth + 1, self.levels)
            books = label_reading_rows(polars.concat([keys, _priced(book)], how="horizontal"), self.venue, self.symbol)
            snapshots = reading_snapshots(books, known, source=self.source.name)
            kept = keep_schema_levels(snapshots, self.depth)
            events = self._events(message.with_columns(ts_event=stamps))
            yield ReaderPart(self.venue, self.symbol, kept, events)

    def _events(self, message: polars.DataFrame) -> polars.DataFrame:
        named = message.filter(polars.col("type").is_in(list(_ACTIONS)))
        columns = named.select(
            "ts_event",
            "sequence",
            polars.col("type").replace_strict(_ACTIONS, return_dtype=polars.String).alias("action"),
            polars.when(polars.col("direction") > 0).then(polars.lit("B")).otherwise(polars.lit("A")).alias("side"),
            reading_ten_thousandths(polars.col("price")),
            "size",
            polars.lit(None, dtype=polars.UInt32).alias("remaining"),
            polars.when(polars.col("type") != 5).then("id").otherwise(0).alias("order_id"),
            polars.lit(0).alias("old_order_id"),
        )
        return reading_events(label_reading_rows(columns, self.venue, self.symbol), self.source.name)


class _PairCheck:
    """Refuses two files that do not match: at least half of the messages must explain the change of the book."""

    def __init__(self, messages: str, books: str) -> None:
        self.messages, self.books = messages, books
        self._above: polars.DataFrame | None = None
        self._right = self._seen = 0

    def add(self, message: polars.DataFrame, book: polars.DataFrame) -> None:
        """Compare up to 1,000 messages with the changes of the book, unless 500 have been compared already."""
        if self._seen >= 500 or not message.height:
            return
        last, message, book = book.tail(1), message.head(1000), book.head(1000)
        if self._above is not None:
            whole = polars.concat([self._above, book])
        else:
            whole, message = book, message[1:]
        self._above = last
        kinds, sizes, prices, bids = (message[name].to_numpy() for name in ("type", "size", "price", "direction"))
        seen, right = np.zeros(len(kinds), dtype=bool), np.zeros(len(kinds), dtype=bool)
        rows_around = slice(None, -1), slice(1, None)  # the book before each message, and the one after
        for sign, side in ((1, "bid"), (-1, "ask")):
            levels, shares = (
                whole.select(name for name in whole.columns if name.startswith(f"{side}_{what}_")).to_numpy()
                for what in ("px", "sz")
            )
            at = [np.where(levels[rows] == prices[:, None], shares[rows], 0).sum(axis=1) for rows in rows_around]
            beyond = [(prices - levels[rows, -1]) * sign < 0 for rows in rows_around]
            change = at[1] - at[0]
            mine = (bids == sign) & (kinds <= 4) & (sizes > 0) & ~(beyond[0] & beyond[1])
            seen |= mine
            right |= mine & np.where(kinds == 1, change == sizes, -change >= sizes)
        self._seen, self._right = self._seen + int(seen.sum()), self._right + int(right.sum())
        if self._seen >= 20 and 2 * self._right < self._seen:
            raise DataError(
                f"{self.messages} and {self.books} do not belong together: only {self._right} of the first "
                f"{self._seen} messages match the books"
            )


def _pair(path: Path, given: Sequence[Path]) -> dict[str, tuple[Path, str]]:
    """Return path and member name of both files: from one archive, one folder, or the files given."""
    members = csv_members(path)
    places: dict[str, tuple[Path, str]] = {}
    for kind in ("message", "orderbook"):
        inside = [name for name in members if kind in Path(name).name.lower()]
        if len(inside) > 1:
            raise InputError(f"expected one symbol and day in {path}, got {', '.join(inside)}")
        if inside:
            places[kind] = (path, inside[0])
            continue
        other = {"message": "orderbook", "orderbook": "message"}[kind]
        name = path.name.replace(other, kind)
        there = [one for one in (path.with_name(name), *given) if one.name == name != path.name and one.is_file()]
        partner, found = (there[0], csv_members(there[0])) if there else (path, [])
        if not found:
            raise DataError(f"{path} needs its {kind} file; put {name} in the same folder or import both")
        places[kind] = (partner, found[0])
    return places


def _side_by_side(
    messages: Iterator[polars.DataFrame], books: Iterator[polars.DataFrame], source: Path
) -> Iterator[tuple[polars.DataFrame, polars.DataFrame]]:
    """Yield chunks of equal height of both files."""
    left: list[polars.DataFrame | None] = [None, None]
    while True:
        for k, frames in enumerate((messages, books)):
            if left[k] is None:
                left[k] = next(frames, None)
        message, book = left
        if message is None and book is None:
            return
        if message is None or book is None:
            raise DataError(f"{source} must have as many messages as books; one of the two files is truncated")
        height = min(message.height, book.height)
        yield message[:height], book[:height]
        left = [frame[height:] if frame.height > height else None for frame in (message, book)]


def _priced(book: polars.DataFrame) -> polars.DataFrame:
    """Convert prices to dollars; LOBSTER writes absent levels as plus or minus 9999999999."""
    prices = [
        polars.when(polars.col(name).abs() < 9_999_999_999).then(reading_ten_thousandths(polars.col(name))).alias(name)
        for name in book.columns
        if "_px_" in name
    ]
    return book.with_columns(prices)


def _check(message: polars.DataFrame, latest: float, source: Path) -> float:
    """Refuse malformed messages; return the time of the last row."""
    kinds: Any = [*_ACTIONS, 6, 7]  # crosses and halts, which concern no resting order
    times = polars.col("time")
    wrong = {
        "a type from 1 to 7": ~polars.col("type").is_in(kinds),
        "a time between 0 and 86400 seconds": ~times.is_between(0, 86_400),
        "a time not before that of the previous row": times < times.shift(1).fill_null(latest),
        "a size from 0 to 4,294,967,295": ~polars.col("size").is_between(0, 2**32 - 1),
        "a price": polars.col("price").is_null(),
        "an order id of 0 or more": polars.col("id") < 0,
        "a direction of 1 or -1": ~polars.col("direction").is_in([1, -1]),
    }
    for expected, rule in wrong.items():
        refuse_rows(message, rule, expected, source)
    return float(message["time"][-1])
