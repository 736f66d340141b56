"""Tables of public trades, CSV with a header or Parquet: Tardis' ``trades``, or columns of the same meaning.

The side is the aggressor's: a buy meets the asks. Trades change no book; they join the books of the same venue and
symbol as events T.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import DataError
from riskroute.core.validation import LONGEST_SYMBOL, LONGEST_VENUE, is_valid_name, valid_name_rule
from riskroute.market.readers.columns import TimeColumn
from riskroute.market.readers.csv_files import csv_table_frames, unpacked_file_lines
from riskroute.market.readers.level_book import level_book_trades, refuse_level_book_row
from riskroute.market.readers.reading import ReaderPart, ReadingOptions, require_reading_option
from riskroute.market.readers.update_tables import is_update_table, updates_columns
from riskroute.market.schema import snapshot_schema

_RESTING = {"buy": "A", "b": "A", "sell": "B", "s": "B", "unknown": "", "": ""}  # side of the resting order


def trade_table_kind(path: Path, declared: Mapping[str, str]) -> str:
    """Return the key of the reader of a table of updates or trades, by its first rows; empty for others."""
    if path.suffix.lower() == ".parquet":
        with closing(csv_table_frames(path, {}, 1)) as frames:
            first = next(frames, polars.DataFrame())
        given, row = first.columns, list(first.row(0)) if first.height else []
    else:
        rows = [line.decode(errors="replace") for line in islice(filter(bytes.strip, unpacked_file_lines(path)), 2)]
        given, row = ([cell.strip().strip('"') for cell in line.split(",")] for line in [*rows, "", ""][:2])
    names = updates_columns(given, declared)
    place = given.index(names["side"]) if "side" in names else len(row)
    side = str(row[place] or "").strip().lower() if place < len(row) else None
    if is_update_table(given, declared, side):
        return "deltas"
    numbered = {"id", "trade_id"} & {name.lower() for name in given}
    priced = {"ts_event", "price", "size"} <= set(names) and "bid_px_00" not in given
    return "trades" if priced and (side in ("buy", "sell") or (numbered and side in _RESTING)) else ""


class TradeReader:
    """Yields the trades of all tables of an import, without snapshots; tables are sorted by their first times."""

    name = "trades"
    fractional = True
    date = None
    depth = 1

    def __init__(self, paths: Path | Sequence[Path], options: ReadingOptions, zones: Collection[str] = ()) -> None:
        """Open the tables; local times are in the zone of the books if ``zones`` has only one."""
        local = options.local_zone(next(iter(zones)) if len(zones) == 1 else "UTC")
        self.options, self.zone = options, local or "UTC"
        files = [paths] if isinstance(paths, Path) else list(paths)
        self._tables = sorted((_TradeTable(path, options, local) for path in files), key=lambda one: one.first)
        self.source = self._tables[0].path

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per venue, symbol and chunk."""
        before = 0
        latest: dict[tuple[str, str], int] = {}
        empty = polars.DataFrame(schema=snapshot_schema(1, fractional=True))
        for table in self._tables:
            self.source, rows = table.path, 0
            for frame in table.frames():
                trades = table.read(frame, before + rows)
                rows += frame.height
                if self.options.symbols:
                    trades = trades.filter(polars.col("symbol").is_in(self.options.symbols))
                for (venue, symbol), mine in trades.group_by(["venue", "symbol"], maintain_order=True):
                    key = str(venue), str(symbol)
                    place = table.path, "row", before
                    events, latest[key], late = level_book_trades(
                        mine, place, latest.get(key, 0), signed=self.options.signed(key[1])
                    )
                    yield ReaderPart(*key, empty, events, notes={"late": late} if late else {})
            before += rows


class _TradeTable:
    """One table of trades."""

    def __init__(self, path: Path, options: ReadingOptions, zone: str) -> None:
        self.path, self.options = path, options
        self._types: dict[str, Any] = {}
        with closing(self.frames()) as frames:
            first = next(frames, None)
        if first is None or not first.height:
            raise DataError(f"{path} has no rows")
        self._names = updates_columns(first.columns, options.columns)
        missing = [name for name in ("ts_event", "price", "size") if name not in self._names]
        if missing:
            raise DataError(f"{path} lacks columns {', '.join(missing)}; it has {', '.join(first.columns)}")
        import pyarrow

        words = dict.fromkeys(("venue", "symbol", "side"), pyarrow.string())
        kinds = words | dict.fromkeys(("price", "size"), pyarrow.float64())
        self._types = {self._names[ours]: kind for ours, kind in kinds.items() if ours in self._names}
        self._times = TimeColumn(path, self._names["ts_event"], zone)
        self.first = self._times.read(first[self._names["ts_event"]]).cast(polars.Int64)[0] or 0

    def frames(self) -> Generator[polars.DataFrame]:
        """Yield chunks of the table as they are."""
        yield from csv_table_frames(self.path, self._types, 100_000)

    def read(self, frame: polars.DataFrame, before: int) -> polars.DataFrame:
        """Return the trades of a chunk for `level_book_trades`; ``before`` counts the rows above in all files."""
        given = {"venue": self.options.venue, "symbol": next(iter(self.options.symbols), None), "side": ""}
        columns = {name: polars.col(self._names[name]).cast(polars.Float64) for name in ("price", "size")}
        for name, value in given.items():
            if name in self._names:
                text = polars.col(self._names[name]).cast(polars.String).fill_null("").str.strip_chars()
                columns[name] = text.str.to_uppercase() if name == "symbol" else text
            else:
                columns[name] = polars.lit(require_reading_option(name, value, self.path.name))
        numbers = polars.int_range(before + 1, before + 1 + polars.len(), dtype=polars.Int64)
        stamps = self._times.read(frame[self._names["ts_event"]]).cast(polars.Int64)
        table = frame.select(numbers.alias("sequence"), stamp=polars.lit(stamps), **columns)
        sides = table["side"].str.to_lowercase().replace_strict(_RESTING, default=None, return_dtype=polars.String)
        rules = {"stamp": ("a time", table["stamp"].is_null()), "side": ("side buy or sell", sides.is_null())}
        for name, longest in (("venue", LONGEST_VENUE), ("symbol", LONGEST_SYMBOL)):
            wrong = [value for value in table[name].unique() if not is_valid_name(value, longest=longest)]
            odd = table[name].is_in(wrong) if name == "venue" else table[name] == ""
            rules[name] = (f"{valid_name_rule(longest)} as {name}", odd)
        for name, (expected, odd) in rules.items():
            if odd.any():
                place = self.path, "row", before
                first = table.filter(odd)
                refuse_level_book_row(first["sequence"][0], place, expected, repr(first[name][0]))
        return table.with_columns(side=sides)
