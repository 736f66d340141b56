"""Books in a table of anybody's own, CSV with a header or Parquet: a row per change, a column per price and size."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import polars

from riskroute.errors import DataError, InputError, one_line_error
from riskroute.extras import require_extra
from riskroute.market.clock import NEW_YORK, YEARS, clock_date
from riskroute.market.readers.csv_stream import csv_frame, csv_frames, csv_members, csv_reading
from riskroute.market.readers.itch import one_of_many_itch_files
from riskroute.market.readers.reading import (
    MOST_LEVELS,
    ImportOptions,
    ReaderPart,
    reader_snapshots,
    reader_stamped,
)
from riskroute.market.schema import TIME, schema_level_columns, schema_levels_kept
from riskroute.names import LONGEST_SYMBOL, LONGEST_VENUE, is_name, name_rule

ALIASES = {
    "ts_event": ("timestamp", "time", "datetime", "ts"),
    "venue": ("exchange", "mic"),
    "symbol": ("ticker", "sym"),
    "bid_px_00": ("bid", "bid_price", "best_bid"),
    "bid_sz_00": ("bid_size", "bid_qty", "bid_volume"),
    "ask_px_00": ("ask", "ask_price", "best_ask", "offer"),
    "ask_sz_00": ("ask_size", "ask_qty", "ask_volume", "offer_size"),
}
"""Other names of columns that are understood without being told, in upper or lower case."""

_ROWS, _COLUMNS = 100_000, 24  # of a piece; fewer rows where there are more columns
_LEVELS = schema_level_columns(MOST_LEVELS + 1)  # one more than can be kept, to see that there is one
_PLACES = {name: place for place, name in enumerate(dict.fromkeys([*ALIASES, *_LEVELS]))}
_UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000}
_REACH = int(dt.datetime(YEARS[-1] + 1, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**9


class TableReader:
    """Books of one day from a table with named columns; prices in dollars, times of New York unless they say more."""

    name = "table"

    def __init__(self, path: Path, options: ImportOptions) -> None:
        self.source, self.options = path, options
        self._names: dict[str, str] = {}
        with closing(self._frames()) as frames:
            first = next(frames, None)
        if first is None or not first.height:
            raise DataError(f"{path} must hold a header and at least one row, was empty")
        self._names = self._columns(first.columns)
        known = [name for name in self._names if name.startswith("bid_px_")]
        whole = (depth for depth in range(len(known), -1, -1) if set(schema_level_columns(depth)) <= set(self._names))
        self.levels = next(whole)
        if not self.levels:
            missing = [name for name in schema_level_columns(1) if name not in self._names]
            raise DataError(
                f"{path} must have columns for {', '.join(missing)} (other names: columns = {{'bid_px_00': NAME}}), "
                f"was {', '.join(first.columns)}"
            )
        self.depth = options.kept(self.levels)
        stamps = self._stamps(first[self._names["ts_event"]])
        moment = stamps[0] if stamps[0] is not None else None
        day = options.date or (moment.astimezone(NEW_YORK).date() if moment else clock_date(path.name))
        if day is None:
            raise InputError(f"date must be given where the file does not tell it, was None for {path.name!r}")
        self.date = day

    def parts(self) -> Iterator[ReaderPart]:
        """A part per venue, symbol and piece of the file."""
        row, latest = 0, 0
        seen: dict[str, None] = {}
        for frame in self._frames():
            table = frame.select([polars.col(theirs).alias(ours) for ours, theirs in self._names.items()])
            table = table.with_columns(ts_event=self._stamps(table["ts_event"])).with_row_index("sequence", row + 1)
            row += frame.height
            latest = self._check(table, latest)
            labelled = self._labelled(table)
            seen |= dict.fromkeys(labelled["symbol"].drop_nulls().unique(maintain_order=True))
            options = self._named(labelled)
            for (venue, symbol), mine in options.group_by(["venue", "symbol"], maintain_order=True):
                if mine.height:
                    known = min(self.depth + 1, self.levels)
                    whole = reader_snapshots(reader_stamped(mine, str(venue), str(symbol)), known)
                    kept, deeper = schema_levels_kept(self.options.within(whole, self.date), self.depth)
                    yield ReaderPart(str(venue), str(symbol), kept, deeper=deeper)
        for absent in [symbol for symbol in self.options.symbols if seen and symbol not in seen]:
            one_of_many_itch_files("symbol", absent, tuple(seen), self.source.name)

    def _columns(self, given: list[str]) -> dict[str, str]:
        """Our names to theirs, for the columns that are there."""
        for name, theirs in self.options.columns.items():
            if name not in _PLACES:
                raise InputError(f"column must be one of ts_event, venue, symbol, bid_px_00, ..., was {name!r}")
            if theirs not in given:
                raise InputError(f"column {name} must be one of {', '.join(given)}, was {theirs!r}")
        lower = {name.lower(): name for name in given}
        known = {*ALIASES, *self.options.columns, *(lower.keys() & _PLACES.keys())}
        found = {}
        for name in sorted(known, key=_PLACES.__getitem__):
            candidates = [lower[alias] for alias in (name, *ALIASES.get(name, ())) if alias in lower]
            if name in self.options.columns or candidates:
                found[name] = self.options.columns.get(name) or candidates[0]
        if "ts_event" not in found:
            raise DataError(f"{self.source} must have a column for ts_event, was {', '.join(given)}")
        return found

    def _frames(self) -> Generator[polars.DataFrame]:
        require_extra("tables", "market", "pyarrow")
        import pyarrow
        from pyarrow.parquet import ParquetFile

        if self.source.suffix.lower() != ".parquet":
            members = csv_members(self.source)
            if len(members) != 1:
                raise DataError(f"{self.source} must hold one CSV file, was {len(members)}")
            kinds = dict.fromkeys(self._names, pyarrow.float64())
            kinds |= dict.fromkeys(("venue", "symbol"), pyarrow.string())
            types = {theirs: kinds[ours] for ours, theirs in self._names.items() if ours != "ts_event"}
            yield from csv_frames(self.source, members[0], types, header=True)
            return
        with csv_reading(self.source):
            try:
                with ParquetFile(self.source) as file:
                    wide = max(file.metadata.num_columns, _COLUMNS)
                    for batch in file.iter_batches(max(_ROWS * _COLUMNS // wide, 1)):
                        if batch.num_rows:
                            yield csv_frame(batch)
            except (pyarrow.ArrowException, UnicodeError, polars.exceptions.PolarsError) as error:
                raise DataError(f"{self.source} must be a Parquet file: {one_line_error(error)}") from error

    def _stamps(self, column: polars.Series) -> polars.Series:
        """UTC nanoseconds from whole nanoseconds, dates with times, or texts of these."""
        try:
            if column.dtype.is_integer():
                column = column.cast(polars.Int64).cast(TIME)
            if column.dtype == polars.String:
                zone = "UTC" if _zoned(column) else None
                self._kind_of(column.str.to_datetime(time_unit="us", strict=True, time_zone=zone))
                column = column.str.to_datetime(time_unit="ns", strict=True, time_zone=zone)
            if self._kind_of(column).time_zone is None:
                column = column.dt.replace_time_zone("America/New_York", ambiguous="earliest", non_existent="null")
            return column.dt.convert_time_zone("UTC").cast(TIME)
        except polars.exceptions.PolarsError as error:
            text = one_line_error(error)
            raise DataError(f"{self.source} must have times in ts_event that can be understood: {text}") from error

    def _kind_of(self, column: polars.Series) -> polars.Datetime:
        """The type of a column of times; refuses others, and years that would wrap around in nanoseconds."""
        if not isinstance(column.dtype, polars.Datetime):
            raise DataError(f"{self.source} must have times in ts_event, was {column.dtype}")
        counts = column.to_physical().drop_nulls()
        most = _REACH // _UNITS[column.dtype.time_unit]
        odd = counts.filter(~counts.is_between(0, most))
        if len(odd):
            years = f"from {YEARS[0]} to {YEARS[-1]}"
            raise DataError(f"{self.source} must have times {years} in ts_event, was {odd[0]} {column.dtype.time_unit}")
        return column.dtype

    def _labelled(self, table: polars.DataFrame) -> polars.DataFrame:
        """The table with a venue and a symbol in every row, from the options where there is no such column."""
        given = {"venue": self.options.venue, "symbol": next(iter(self.options.symbols), None)}
        for name, value in given.items():
            if name not in table.columns:
                if value is None:
                    raise InputError(f"{name} must be given where the file has no such column, was None")
                table = table.with_columns(polars.lit(value).alias(name))
            table = table.with_columns(polars.col(name).cast(polars.String).str.strip_chars())
        table = table.with_columns(polars.col("symbol").str.to_uppercase())
        if self.options.venue is not None:
            table = table.filter(polars.col("venue") == self.options.venue)
        return table

    def _named(self, table: polars.DataFrame) -> polars.DataFrame:
        """The rows of the symbols asked for; refuses rows that do not name their venue and symbol."""
        if self.options.symbols:
            table = table.filter(polars.col("symbol").is_in(self.options.symbols).fill_null(True))
        for name, longest in (("venue", LONGEST_VENUE), ("symbol", LONGEST_SYMBOL)):
            for value in table[name].unique(maintain_order=True):
                if not is_name(value, longest=longest):
                    row = table.filter(polars.col(name).eq_missing(value))["sequence"][0]
                    expected = f"as {name} {name_rule(longest)}"
                    hint = "; symbols that are not asked for may be anything" if name == "symbol" and value else ""
                    raise DataError(f"row {row} of {self.source.name} must have {expected}, was {value!r}{hint}")
        return table

    def _check(self, table: polars.DataFrame, latest: int) -> int:
        """Refuse rows without a time, out of order, or of another day; returns the last row's, UTC nanoseconds."""
        time = polars.col("ts_event")
        stamp = time.cast(polars.Int64)
        day = time.dt.convert_time_zone("America/New_York").dt.date()
        wrong = {
            "a time": time.is_null(),
            "a time not before that of the row above": (stamp < stamp.shift(1).fill_null(latest)).fill_null(False),
            f"a time on {self.date}, as the first row": day != self.date,
        }
        for expected, rule in wrong.items():
            rows = table.filter(rule)
            if rows.height:
                was = rows["ts_event"][0]
                raise DataError(f"row {rows['sequence'][0]} of {self.source.name} must have {expected}, was {was}")
        return int(table["ts_event"].cast(polars.Int64)[-1])


def _zoned(column: polars.Series) -> bool:
    """Whether times as text name their zone."""
    first = column.drop_nulls().head(1)
    return bool(len(first)) and bool(first.str.contains(r"(Z|[+-]\d{2}:?\d{2})$")[0])
