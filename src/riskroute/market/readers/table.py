"""Snapshots in a user's table, CSV with a header or Parquet: a row per change, a column per price and size."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import polars

from riskroute.core.errors import DataError, NoBooksError
from riskroute.core.instrument import TRADING_ZONE
from riskroute.core.validation import LONGEST_SYMBOL, LONGEST_VENUE, is_valid_name, valid_name_rule
from riskroute.market.readers.columns import TimeColumn, has_tardis_columns, table_columns
from riskroute.market.readers.csv_files import csv_header, csv_members, csv_table_frames
from riskroute.market.readers.reading import (
    ReaderPart,
    ReadingOptions,
    count_reading_half_levels,
    label_reading_rows,
    reading_snapshots,
    require_reading_option,
    require_reading_symbols,
)
from riskroute.market.schema import keep_schema_levels, level_columns


class TableReader:
    """Yields the snapshots of a table; times without a zone are in New York time by default, Tardis' in UTC."""

    name = "table"
    fractional = True
    date = None
    ROWS = 100_000  # per chunk of a table with up to 24 columns; wider tables have fewer

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.source, self.options = path, options
        self._names: dict[str, str] = {}
        if path.suffix.lower() != ".parquet" and len(csv_members(path)) == 1:
            self._check_times(csv_header(path))  # before text that is not a table is parsed as one
        with closing(self._frames()) as frames:
            first = next(frames, None)
        if first is None or not first.height:
            raise DataError(f"{path} has no rows")
        self._check_times(first.columns)
        self._names = table_columns(first.columns, options.columns)
        known = [name for name in self._names if name.startswith("bid_px_")]
        whole = (depth for depth in range(len(known), -1, -1) if set(level_columns(depth)) <= set(self._names))
        self.levels = next(whole)
        if not self.levels:
            missing = [name for name in level_columns(1) if name not in self._names]
            raise NoBooksError(
                f"{path} lacks columns {', '.join(missing)}; it has {', '.join(first.columns)} "
                f"(columns = {{'bid_px_00': NAME}} declares other names)"
            )
        self.depth = options.kept(self.levels)
        default = "UTC" if has_tardis_columns(first.columns) else TRADING_ZONE
        local = options.local_zone(default)
        self.zone = local or default
        self._times = TimeColumn(path, "ts_event", local)

    def _check_times(self, columns: list[str]) -> None:
        declared = tuple(theirs.partition("{}")[0] for theirs in self.options.columns.values())
        if "ts_event" in self.options.columns and any(name.startswith(declared) for name in columns):
            return  # `table_columns` reports errors in declared names
        if "ts_event" not in table_columns(columns, {}):
            raise NoBooksError(f"{self.source} has no column ts_event; it has {', '.join(columns)[:200]}")

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per venue, symbol and chunk of the file."""
        row = 0
        latest: dict[tuple[str, str], int] = {}
        seen: dict[str, None] = {}
        for frame in self._frames():
            table = frame.select([polars.col(theirs).alias(ours) for ours, theirs in self._names.items()])
            table = table.with_columns(ts_event=self._times.read(table["ts_event"])).with_row_index("sequence", row + 1)
            row += frame.height
            self._check(table)
            labelled = self._labelled(table)
            seen |= dict.fromkeys(labelled["symbol"].drop_nulls().unique(maintain_order=True))
            for (venue, symbol), mine in self._named(labelled).group_by(["venue", "symbol"], maintain_order=True):
                key = str(venue), str(symbol)
                latest[key] = self._check_order(mine, latest.get(key, 0))
                yield self._part(*key, mine)
        require_reading_symbols(self.options.symbols if seen else (), seen, self.source.name)

    def _part(self, venue: str, symbol: str, rows: polars.DataFrame) -> ReaderPart:
        known, rows = min(self.depth + 1, self.levels), label_reading_rows(rows, venue, symbol)
        signed = self.options.signed(symbol)
        whole = reading_snapshots(rows, known, fractional=True, signed=signed, source=self.source.name)
        kept = keep_schema_levels(whole, self.depth)
        halves = count_reading_half_levels(rows, known, signed=signed)
        return ReaderPart(venue, symbol, kept, notes={"half_levels": halves} if halves else {})

    def _frames(self) -> Generator[polars.DataFrame]:
        import pyarrow

        kinds = dict.fromkeys(self._names, pyarrow.float64()) | dict.fromkeys(("venue", "symbol"), pyarrow.string())
        types = {theirs: kinds[ours] for ours, theirs in self._names.items() if ours != "ts_event"}
        yield from csv_table_frames(self.source, types, self.ROWS)

    def _labelled(self, table: polars.DataFrame) -> polars.DataFrame:
        """Add venue and symbol to every row, from the options if the table has no such column."""
        given = {"venue": self.options.venue, "symbol": next(iter(self.options.symbols), None)}
        for name, value in given.items():
            if name not in table.columns:
                value = require_reading_option(name, value, self.source.name)
                table = table.with_columns(polars.lit(value).alias(name))
            table = table.with_columns(polars.col(name).cast(polars.String).str.strip_chars())
        return table.with_columns(polars.col("symbol").str.to_uppercase())

    def _named(self, table: polars.DataFrame) -> polars.DataFrame:
        """Return the rows of the requested symbols; refuse rows without a valid venue and symbol."""
        if self.options.symbols:
            table = table.filter(polars.col("symbol").is_in(self.options.symbols).fill_null(True))
        for name, longest in (("venue", LONGEST_VENUE), ("symbol", LONGEST_SYMBOL)):
            for value in table[name].unique(maintain_order=True):
                renamed = name == "venue" and value in self.options.venue_names
                if not renamed and not is_valid_name(value, longest=longest):
                    row = table.filter(polars.col(name).eq_missing(value))["sequence"][0]
                    hint = "; request symbols by name to skip others" if name == "symbol" and value else ""
                    expected = f"{name} must be {valid_name_rule(longest)}"
                    raise DataError(f"row {row:,} of {self.source.name}: {expected}, was {value!r}{hint}")
        return table

    def _check(self, table: polars.DataFrame) -> None:
        """Refuse rows without a time."""
        self._refuse(table, "a time", polars.col("ts_event").is_null())

    def _check_order(self, rows: polars.DataFrame, latest: int) -> int:
        """Refuse rows of one venue and symbol that are not sorted by time; return the last time."""
        stamp = polars.col("ts_event").cast(polars.Int64)
        expected = f"a time not before that of the previous row of {rows['venue'][0]} {rows['symbol'][0]}"
        self._refuse(rows, expected, stamp < stamp.shift(1).fill_null(latest))
        return int(rows["ts_event"].cast(polars.Int64)[-1])

    def _refuse(self, table: polars.DataFrame, expected: str, rule: polars.Expr) -> None:
        rows = table.filter(rule)
        if rows.height:
            number, was = rows["sequence"][0], rows["ts_event"][0]
            raise DataError(f"row {number:,} of {self.source.name} must have {expected}, was {was}")
