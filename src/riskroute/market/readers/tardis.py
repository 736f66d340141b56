"""Tardis' ``incremental_book_L2`` tables: the new amount of one price level per row, after the levels of a snapshot.

Rows of one message have the same ``local_timestamp``, in whose order they are. The first row of a snapshot after others
empties the book. Rows before the first snapshot change a book that is not known, and are left out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import polars

from riskroute.core.errors import DataError, InputError
from riskroute.core.extras import require_extra
from riskroute.core.names import LONGEST_SYMBOL, LONGEST_VENUE, is_name, name_rule
from riskroute.market.readers.csv_stream import csv_frames, csv_members
from riskroute.market.readers.reading import ImportOptions
from riskroute.market.readers.stamps import StampColumn
from riskroute.market.readers.updates import BookUpdates, UpdateCheck, update_arrays

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
        self._times = {name: StampColumn(path, name, zone) for name in dict.fromkeys((_ARRIVED, self._time))}
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
