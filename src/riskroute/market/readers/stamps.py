"""Times in the files of others as nanoseconds of UTC: counts since 1970 in any usual unit, dates with times, texts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars

from riskroute.core.errors import DataError, one_line_error
from riskroute.market.clock import YEARS
from riskroute.market.schema import TIME

UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
"""Nanoseconds per unit of a count."""

COUNTED = (1990, 2200)
"""First and last year of a count since 1970. A thousandfold lies between units, so no number has two of them."""


def _begin(year: int) -> int:
    """UTC nanoseconds of the first moment of a year."""
    return int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**9


_FIRST, _END, _REACH = _begin(COUNTED[0]), _begin(COUNTED[1] + 1), _begin(YEARS[-1] + 1)
_NUMBER = r"^\s*\d+(\.\d*)?\s*$"


def stamp_unit(count: float) -> str | None:
    """The unit in which a count since 1970 lies in the years of `COUNTED`; None if there is none.

    Examples
    --------
    >>> [stamp_unit(count) for count in (1577836800, 1577836800.123456, 1577836800123, 1577836800123456)]
    ['s', 's', 'ms', 'us']
    >>> stamp_unit(1577836800123456789), stamp_unit(34_200_000), stamp_unit(20200101093000)
    ('ns', None, None)
    """
    return next((unit for unit, size in UNITS.items() if _FIRST <= count * size < _END), None)


class StampColumn:
    """Reads a column of times piece by piece: what its first time is, all of them are.

    Whole numbers count s, ms, us or ns since 1970, and their size tells which. Numbers with decimals are read likewise
    and kept to the microsecond, since a float64 of today's seconds is 0.2 us from the next one. Times without a zone
    are those of ``zone``.

    Examples
    --------
    >>> times = StampColumn(Path("books.csv"), "ts_event", "UTC")
    >>> times.read(polars.Series([1577836800.123456])).cast(polars.Int64).to_list()
    [1577836800123456000]
    >>> times.read(polars.Series([1577836800123]))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.DataError: books.csv must have times in ts_event in one unit throughout, s as in its first
    row, was 1577836800123
    """

    def __init__(self, source: Path, name: str, zone: str) -> None:
        self.source, self.name, self.zone = source, name, zone
        self.unit: str | None = None

    def read(self, column: polars.Series) -> polars.Series:
        """UTC nanoseconds of a piece of the column; no time where it has none."""
        try:
            return self._read(column)
        except polars.exceptions.PolarsError as error:
            text = one_line_error(error)
            raise DataError(f"{self.source} must have times in {self.name} that can be understood: {text}") from error

    def _read(self, column: polars.Series) -> polars.Series:
        if column.dtype == polars.String and _first_has(column, _NUMBER):
            column = column.str.strip_chars()
            column = column.cast(polars.Float64 if column.str.contains(".", literal=True).any() else polars.Int64)
        if column.dtype.is_numeric():
            return self._counted(column)
        if column.dtype == polars.String:
            zone = "UTC" if _first_has(column, r"(Z|[+-]\d{2}:?\d{2})$") else None
            self._kind_of(column.str.to_datetime(time_unit="us", strict=True, time_zone=zone))
            column = column.str.to_datetime(time_unit="ns", strict=True, time_zone=zone)
        if self._kind_of(column).time_zone is None:
            column = column.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null")
        return column.dt.convert_time_zone("UTC").cast(TIME)

    def _counted(self, column: polars.Series) -> polars.Series:
        """Times from counts since 1970."""
        counts = column.cast(polars.Int64 if column.dtype.is_integer() else polars.Float64)
        known = counts.drop_nulls()
        if not len(known):
            return counts.cast(polars.Int64).cast(TIME)
        if self.unit is None:
            self.unit = stamp_unit(known[0])
        first, end = (edge // UNITS[self.unit or "ns"] for edge in (_FIRST, _END))
        odd = known if self.unit is None else known.filter(~known.is_between(first, end, closed="left"))
        if len(odd):
            expected = f"in {self.name} as s, ms, us or ns since 1970, between {COUNTED[0]} and {COUNTED[1]}"
            if self.unit is not None and stamp_unit(odd[0]) is not None:
                expected = f"in {self.name} in one unit throughout, {self.unit} as in its first row"
            raise DataError(f"{self.source} must have times {expected}, was {odd[0]}")
        size = UNITS[self.unit or "ns"]
        if counts.dtype == polars.Float64:
            return ((counts * (size / 1000)).round().cast(polars.Int64) * 1000).cast(TIME)
        return (counts * size).cast(TIME)

    def _kind_of(self, column: polars.Series) -> polars.Datetime:
        """The type of a column of times; refuses others, and years that would wrap around in nanoseconds."""
        if not isinstance(column.dtype, polars.Datetime):
            raise DataError(f"{self.source} must have times in {self.name}, was {column.dtype}")
        counts, unit = column.to_physical().drop_nulls(), column.dtype.time_unit
        odd = counts.filter(~counts.is_between(0, _REACH // UNITS[unit]))
        if len(odd):
            years = f"from {YEARS[0]} to {YEARS[-1]}"
            raise DataError(f"{self.source} must have times {years} in {self.name}, was {odd[0]} {unit}")
        return column.dtype


def _first_has(column: polars.Series, pattern: str) -> bool:
    """Whether the first text of a column matches a pattern."""
    first = column.drop_nulls().head(1)
    return bool(len(first)) and bool(first.str.contains(pattern)[0])
