"""Tables whose rows are new sizes of price levels, changes of sizes, or whole books: CSV with a header, or Parquet.

Rows of one time (in Tardis' ``incremental_book_L2`` tables, of one ``local_timestamp``) are one message. What a table
holds follows from its columns:

- ``side``, ``price`` and ``size``: new sizes; with ``snapshot`` (Tardis: ``is_snapshot``) the first row of a snapshot
  empties the book, and rows before the first snapshot are skipped;
- ``change`` instead of ``size``: signed changes of sizes;
- ``level`` beside ``size``: every message is a whole book;
- ``bids`` and ``asks``: every row is a whole book, a side being a list of levels or its JSON text.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import instrument_step
from riskroute.core.text import one_line_text, shown
from riskroute.core.validation import LONGEST_SYMBOL, LONGEST_VENUE, is_valid_name, valid_name_rule
from riskroute.market.clock import SECOND
from riskroute.market.readers.columns import TimeColumn
from riskroute.market.readers.csv_files import csv_table_frames
from riskroute.market.readers.level_book import (
    LevelBookMessages,
    LevelBookPart,
    LevelUpdates,
    check_level_updates,
    refuse_level_book_row,
)
from riskroute.market.readers.reading import ReadingOptions, require_reading_option

# Our names of columns, and names that are recognised without being declared, in upper or lower case.
_ALIASES = {
    "ts_event": ("local_timestamp", "timestamp", "time", "datetime", "ts"),
    "venue": ("exchange", "mic"),
    "symbol": ("ticker", "sym"),
    "side": (),
    "price": (),
    "size": ("amount", "quantity", "qty"),
    "change": ("size_change", "delta"),
    "snapshot": ("is_snapshot",),
    "level": (),
    "bids": (),
    "asks": (),
}
_BOOK_SIDES = {"bid": True, "bids": True, "b": True, "ask": False, "asks": False, "a": False, "offer": False}
_TARDIS = ("exchange", "symbol", "timestamp", "local_timestamp", "is_snapshot", "side", "price", "amount")


def updates_columns(given: Sequence[str], declared: Mapping[str, str]) -> dict[str, str]:
    """Map our column names to those of a table of updates or trades; declared names take precedence.

    >>> updates_columns(["Time", "side", "price", "qty"], {})
    {'ts_event': 'Time', 'side': 'side', 'price': 'price', 'size': 'qty'}
    """
    lower = {name.lower(): name for name in given}
    found = {}
    for ours, aliases in _ALIASES.items():
        candidates = [lower[name] for name in (ours, *aliases) if name in lower]
        if declared.get(ours) in given:
            found[ours] = declared[ours]
        elif candidates:
            found[ours] = candidates[0]
    if "change" in found and "change" in declared:
        found.pop("size", None)
    return found


def is_update_table(given: Sequence[str], declared: Mapping[str, str], side: Any) -> bool:
    """Return whether columns, and the side in the first row, are those of updates or of books in lists."""
    names = updates_columns(given, declared)
    if {"bids", "asks"} <= set(names):
        return True
    if not {"side", "price"} <= set(names):
        return False
    sized = {"size", "change"} & set(names)
    told = {"snapshot", "level", "change"} & set(names) or {"size", "change"} & set(declared)
    return bool(sized) and bool(told or str(side).strip().lower() in _BOOK_SIDES)


@dataclass
class _State:
    """State of one book, carried over between chunks and files."""

    known: bool = False  # whether the book has begun: with a snapshot, if the table marks snapshots
    flagged: bool = False  # whether the last row was part of a snapshot
    lost: bool = False  # whether rows before the first snapshot were skipped
    partial: bool = False  # whether this chunk begins a book without a snapshot
    group: int = -1  # message of the last row
    latest: int = 0  # time of the last row, UTC nanoseconds
    held: dict[tuple[bool, float], int] = field(default_factory=dict)  # sizes in decimal steps (signed changes)
    messages: LevelBookMessages | None = None  # messages of a table with lists of levels


class UpdateTable:
    """One table of updates."""

    word = "row"
    levels = None
    CARRY = 60 * SECOND  # longest time between two files of one book over which the book carries over

    def __init__(self, path: Path, options: ReadingOptions, zone: str) -> None:
        self.path, self.options = path, options
        self._types: dict[str, Any] = {}
        with closing(self._frames()) as frames:
            first = next(frames, None)
        if first is None or not first.height:
            raise DataError(f"{path} has no rows")
        self._names = self._columns(first.columns)
        self._types = self._kinds()
        times = self._names["ts_event"], self._names["group"]
        self._times = {name: TimeColumn(path, name, zone) for name in dict.fromkeys(times)}
        stamps = self._times[times[0]].read(first[times[0]]).cast(polars.Int64)
        self.first: int | None = stamps[0]
        self.names: dict[str, None] = {}
        self._rows, self._before, self._last = 0, 0, 0
        self._states: dict[tuple[str, str], _State] = {}
        self._step = Decimal(1)
        labels = [first[self._names[name]][0] if name in self._names else None for name in ("venue", "symbol")]
        self.key = "table", *labels, options.venue, options.symbols if labels[1] is None else ()

    def _columns(self, given: Sequence[str]) -> dict[str, str]:
        """Map our column names to the table's; ``group`` is the time that the rows of a message share."""
        declared = self.options.columns
        names = updates_columns(given, declared)
        if "is_snapshot" in given:
            missing = [name for name in _TARDIS if name not in given]
            if missing:
                raise DataError(f"{self.path} lacks columns {', '.join(missing)}; it has {', '.join(given)}")
        for ours, theirs in declared.items():
            if ours not in _ALIASES:
                raise InputError(f"column of book updates must be one of {', '.join(_ALIASES)}, was {ours!r}")
            if theirs not in given:
                raise InputError(f"column {ours} must be one of {', '.join(given)}, was {theirs!r}")
        if "ts_event" not in names:
            raise DataError(f"{self.path} has no column ts_event; it has {', '.join(given)[:200]}")
        return names | {"group": "local_timestamp" if "local_timestamp" in given else names["ts_event"]}

    def _kinds(self) -> dict[str, Any]:
        import pyarrow

        kinds = dict.fromkeys(("venue", "symbol", "snapshot", "side", "bids", "asks"), pyarrow.string())
        kinds |= dict.fromkeys(("price", "size", "change"), pyarrow.float64())
        return {self._names[ours]: kind for ours, kind in kinds.items() if ours in self._names}

    def _frames(self) -> Generator[polars.DataFrame]:
        yield from csv_table_frames(self.path, self._types, 100_000)

    def continues(self, before: UpdateTable) -> bool:
        """Return whether books carry over from the file ``before``, which may end at most `CARRY` earlier."""
        return (self.first or 0) - before._last <= self.CARRY

    def parts(self, before: UpdateTable | None) -> Iterator[LevelBookPart]:
        """Yield the rows of each book from its first snapshot on."""
        if before is not None:
            self._before = before._before + before._rows
            if self.continues(before):
                self._states = before._states
        if "change" in self._names:
            for frame in self._frames():
                self._step = instrument_step(frame[self._names["change"]].to_numpy(), largest=self._step)
        for frame in self._frames():
            table = self._typed(frame)
            self._rows += frame.height
            self._last = int(table["stamp"][-1])
            wanted = self._wanted(table)
            for (venue, symbol), mine in wanted.group_by(["venue", "symbol"], maintain_order=True):
                state = self._states.setdefault((str(venue), str(symbol)), _State())
                make = self._listed if "bids" in self._names else self._updated
                yield make(str(venue), str(symbol), mine, state)

    def finish(self) -> None:
        """Refuse a table in which a book has no snapshot."""
        for (venue, symbol), state in sorted(self._states.items()):
            if not state.known:
                raise DataError(f"{self.path} has no snapshot of {symbol} at {venue} (is_snapshot = true)")

    @property
    def _place(self) -> tuple[Path, str, int]:
        return self.path, self.word, self._before

    def _typed(self, frame: polars.DataFrame) -> polars.DataFrame:
        """Return the columns that are used, under our names; refuse rows without a time."""
        stamps = {name: times.read(frame[name]).cast(polars.Int64) for name, times in self._times.items()}
        given = {"venue": self.options.venue, "symbol": next(iter(self.options.symbols), None)}
        columns: dict[str, polars.Expr | polars.Series] = {
            "stamp": stamps[self._names["ts_event"]],
            "group": stamps[self._names["group"]],
        }
        for name, value in given.items():
            if name not in self._names:
                columns[name] = polars.lit(require_reading_option(name, value, self.path.name))
            else:
                columns[name] = polars.col(self._names[name]).cast(polars.String).str.strip_chars()
        for name in ("price", "size", "change"):
            if name in self._names:
                columns[name] = polars.col(self._names[name]).cast(polars.Float64)
        for name in ("side", "snapshot"):
            if name in self._names:
                columns[name] = polars.col(self._names[name]).cast(polars.String)
        for name in ("bids", "asks"):
            if name in self._names:
                columns[name] = polars.col(self._names[name])
        start = self._before + self._rows + 1
        try:
            table = frame.select(
                polars.int_range(start, start + polars.len(), dtype=polars.Int64).alias("sequence"), **columns
            )
        except polars.exceptions.PolarsError as error:
            raise DataError(f"{self.path} must hold numbers as prices and sizes: {one_line_text(error)}") from error
        if table["stamp"].null_count() or table["group"].null_count():
            odd = table.filter(polars.col("stamp").is_null() | polars.col("group").is_null())
            refuse_level_book_row(odd["sequence"][0], self._place, "a time", "None")
        return table.with_columns(polars.col("symbol").str.to_uppercase())

    def _wanted(self, table: polars.DataFrame) -> polars.DataFrame:
        """Return the rows of the requested symbols; refuse rows without a valid venue and symbol."""
        self.names |= dict.fromkeys(table["symbol"].drop_nulls().unique(maintain_order=True))
        if self.options.symbols:
            table = table.filter(polars.col("symbol").is_in(self.options.symbols).fill_null(True))
        for name, longest in (("venue", LONGEST_VENUE), ("symbol", LONGEST_SYMBOL)):
            theirs = self._names.get(name, name)
            for value in table[name].unique(maintain_order=True):
                renamed = name == "venue" and value in self.options.venue_names
                if not (renamed or is_valid_name(value, longest=longest)):
                    rule, expected = polars.col(name).eq_missing(value), f"{valid_name_rule(longest)} as {theirs}"
                    self._refuse(table, rule, expected, name)
        return table

    def _refuse(self, table: polars.DataFrame, rule: polars.Expr, expected: str, name: str) -> None:
        odd = table.filter(rule)
        if odd.height:
            refuse_level_book_row(odd["sequence"][0], self._place, expected, repr(odd[name][0]))

    def _updated(self, venue: str, symbol: str, mine: polars.DataFrame, state: _State) -> LevelBookPart:
        """Return the updates of a book in rows of single levels."""
        sides = _BOOK_SIDES if "is_snapshot" not in self._names.values() else {"bid": True, "ask": False}
        if {"size", "change"} & set(self.options.columns):
            sides = sides | {"buy": True, "sell": False}
        bids = mine["side"].str.strip_chars().str.to_lowercase()
        bids = bids.replace_strict(sides, default=None, return_dtype=polars.Boolean)
        self._refuse(mine, polars.lit(bids).is_null(), "side bid or ask", "side")
        groups = mine["group"].to_numpy()
        resets, gaps, left = self._resets(mine, groups, state)
        sizes = mine["change" if "change" in self._names else "size"].to_numpy()
        numbers, prices = mine["sequence"].to_numpy(), mine["price"].to_numpy()
        columns = [mine["stamp"].to_numpy(), numbers, groups, resets, bids.to_numpy(), prices, sizes]
        updates = LevelUpdates(*(np.ascontiguousarray(column[left:]) for column in columns))
        if "change" in self._names:
            updates = updates._replace(sizes=self._totals(updates, state))
        state.latest = check_level_updates(updates, self._place, state.latest, signed=self.options.signed(symbol))
        notes, state.partial = {"no_snapshot": 1} if state.partial else {}, False
        return LevelBookPart(venue, symbol, updates, gaps=gaps, notes=notes)

    def _resets(self, mine: polars.DataFrame, groups: Integers, state: _State) -> tuple[Flags, int, int]:
        """Return which rows empty the book, the number of gaps, and the number of rows before the first snapshot."""
        above = np.append(state.group, groups[:-1])
        state.group = int(groups[-1])
        if "level" in self._names:
            state.known = True
            return groups != above, 0, 0
        if "snapshot" not in self._names:
            resets = np.zeros(len(groups), dtype=np.bool_)
            resets[0] = state.partial = not state.known
            state.known = True
            return resets, 0, 0
        words = mine["snapshot"].str.to_lowercase()
        flags = words.replace_strict(
            {"true": True, "1": True, "false": False, "0": False}, default=None, return_dtype=polars.Boolean
        )
        self._refuse(mine, polars.lit(flags).is_null(), f"{self._names['snapshot']} true, false, 1 or 0", "snapshot")
        marks, left, gaps = flags.to_numpy(), 0, 0
        if not state.known:
            left = int(marks.argmax()) if marks.any() else len(marks)
            state.lost |= left > 0
            if left < len(marks):
                gaps, state.known, state.lost = int(state.lost), True, False
        resets = marks & ~np.append(state.flagged, marks[:-1])
        state.flagged = bool(marks[-1])
        return resets, gaps, left

    def _totals(self, updates: LevelUpdates, state: _State) -> Floats:
        """Return the sizes after signed changes, summed as whole multiples of their decimal step."""
        scale = int(1 / self._step)
        counts = np.rint(updates.sizes * scale)
        sizes = np.empty(len(counts))
        for k, (bid, price, change, reset) in enumerate(
            zip(updates.bids.tolist(), updates.prices.tolist(), counts.tolist(), updates.resets.tolist(), strict=True)
        ):
            if reset:
                state.held.clear()
            if not np.isfinite(change):
                refuse_level_book_row(int(updates.numbers[k]), self._place, "a change of size", repr(change))
            total = state.held.get((bid, price), 0) + int(change)
            if total < 0:
                where = f"a change of at least {-(total - int(change)) / scale:g}, the size at {price:g}"
                refuse_level_book_row(int(updates.numbers[k]), self._place, where, f"{change / scale:g}")
            state.held[bid, price] = total
            sizes[k] = total / scale
        return sizes

    def _listed(self, venue: str, symbol: str, mine: polars.DataFrame, state: _State) -> LevelBookPart:
        """Return the books of rows with lists of levels."""
        if state.messages is None:
            state.messages = LevelBookMessages(venue, symbol, self.path, self.word)
            state.known = True
        book = state.messages
        book.source, book.before = self.path, self._before
        numbers, stamps = (mine[name].to_list() for name in ("sequence", "stamp"))
        sides = [mine[name].to_list() for name in ("bids", "asks")]
        for number, stamp, bids, asks in zip(numbers, stamps, *sides, strict=True):
            levels = [self._levels(number, side) for side in (bids, asks)]
            book.add(number - self._before, stamp, *levels, reset=True)
        return book.take()

    def _levels(self, number: int, side: Any) -> list[tuple[float, float]]:
        """Return the levels of a side: a list of pairs or of records, or its JSON text."""
        try:
            values = msgspec.json.decode(side) if isinstance(side, str) else side or []
            levels = [_pair(level) for level in values]
        except (msgspec.DecodeError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            levels = None
        if levels is None or len(dict(levels)) < len(levels):
            expected = "lists of levels with a price and a size each, and distinct prices"
            refuse_level_book_row(number, self._place, expected, shown(side))
        return levels or []


def _pair(level: Any) -> tuple[float, float]:
    """Return price and size of a level.

    >>> _pair(["9.5", "1"]), _pair({"price": 9.5, "amount": 2})
    ((9.5, 1.0), (9.5, 2.0))
    """
    if isinstance(level, dict):
        size = next(level[name] for name in ("size", *_ALIASES["size"]) if name in level)
        return float(level["price"]), float(size)
    return float(level[0]), float(level[1])
