"""Which column of a table holds what: names that are known, names that are told one by one or as a pattern."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import DataError, InputError, one_line_error, shown
from riskroute.core.validation import path_of, real_number
from riskroute.market.clock import YEARS
from riskroute.market.schema import LEVEL_FIELDS, MOST_LEVELS, TIME, level_columns

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

TARDIS_LEVELS = {
    "bid_px_{}": "bids[{}].price",
    "bid_sz_{}": "bids[{}].amount",
    "ask_px_{}": "asks[{}].price",
    "ask_sz_{}": "asks[{}].amount",
}
"""Columns of Tardis' ``book_snapshot`` tables; their rows are in the order of ``local_timestamp``."""

PATTERNS = tuple(f"{field}_{{}}" for field in LEVEL_FIELDS)
"""Names of ours that stand for all levels."""

_LEVELS = level_columns(MOST_LEVELS + 1)  # one more than can be kept, to see that there is one
_PLACES = {name: place for place, name in enumerate(dict.fromkeys([*ALIASES, *_LEVELS]))}


def is_tardis_table(given: Sequence[str]) -> bool:
    """Whether the columns are those of a Tardis ``book_snapshot`` table."""
    return {TARDIS_LEVELS[name].format(0) for name in PATTERNS} <= set(given)


def table_columns(given: Sequence[str], told: Mapping[str, str]) -> dict[str, str]:
    """Our names to those of a table, for the columns that are there; what is told wins over what is known.

    Examples
    --------
    >>> table_columns(["Time", "BP1", "BP2"], {"bid_px_{}": "BP{}"})
    {'ts_event': 'Time', 'bid_px_00': 'BP1', 'bid_px_01': 'BP2'}
    """
    lower = {name.lower(): name for name in given}
    found = {}
    for name in [*ALIASES, *(lower.keys() & _PLACES.keys())]:
        candidates = [lower[alias] for alias in (name, *ALIASES.get(name, ())) if alias in lower]
        if candidates:
            found[name] = candidates[0]
    if is_tardis_table(given):
        found |= _expanded(given, TARDIS_LEVELS)
        found |= {"ts_event": "local_timestamp"} if "local_timestamp" in given else {}
    patterns = {ours: theirs for ours, theirs in told.items() if "{}" in ours or "{}" in theirs}
    found |= _expanded(given, patterns)
    for name, theirs in told.items():
        if name in patterns:
            continue
        if name not in _PLACES:
            raise InputError(
                f"column must be one of ts_event, venue, symbol, bid_px_00, ... or bid_px_{{}}, ..., was {name!r}"
            )
        if theirs not in given:
            raise InputError(f"column {name} must be one of {', '.join(given)}, was {theirs!r}")
        found[name] = theirs
    return dict(sorted(found.items(), key=lambda pair: _PLACES[pair[0]]))


def _expanded(given: Sequence[str], patterns: Mapping[str, str]) -> dict[str, str]:
    """Patterns as columns, level by level; theirs may count from 0 or from 1, all of them alike."""
    numbered: dict[str, dict[int, str]] = {}
    for ours, theirs in patterns.items():
        if ours not in PATTERNS or theirs.count("{}") != 1:
            expected = f"one of {', '.join(PATTERNS)}, and theirs a name with one {{}} for the level"
            raise InputError(f"column with a pattern must be {expected}, was {ours}={theirs}")
        before, after = map(re.escape, theirs.split("{}"))
        matches = [re.fullmatch(rf"{before}([0-9]{{1,4}}){after}", name) for name in given]
        numbered[ours] = {int(match[1]): match[0] for match in matches if match is not None}
        if not numbered[ours]:
            raise InputError(f"column {ours} must fit some of {', '.join(given)}, was {theirs!r}")
    first = min((min(levels) for levels in numbered.values()), default=0)
    if first > 1:
        raise InputError(f"levels of a pattern must count from 0 or from 1, was {first} in {patterns}")
    names = {
        f"{ours[:-2]}{number - first:02d}": theirs
        for ours, levels in numbered.items()
        for number, theirs in levels.items()
    }
    return {name: theirs for name, theirs in names.items() if name in _PLACES}


def load_columns(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read our names for columns and those of a table from a TOML or a JSON file of ``ours = "theirs"``."""
    file = path_of("columns", path)
    ending = file.suffix.lower()
    if ending not in (".toml", ".json"):
        raise InputError(f"columns must be a .toml or .json file, was {str(file)!r}")
    try:
        text = file.read_text(encoding="utf-8")
        names = tomllib.loads(text) if ending == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} must be a {ending[1:].upper()} file of names: {one_line_error(error)}") from error
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise DataError(f'{file} must hold names as bid_px_00 = "BestBid" and nothing else, was {shown(names)}')
    return names


# Times in the files of others as nanoseconds of UTC: counts since 1970 in any usual unit, dates with times, texts.


UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
"""Nanoseconds per unit of a count."""

COUNTED = (1990, 2200)
"""First and last year of a count since 1970. A thousandfold lies between units, so no number has two of them."""


def _begin(year: int) -> int:
    """UTC nanoseconds of the first moment of a year."""
    return int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**9


_FIRST, _END, _REACH = _begin(COUNTED[0]), _begin(COUNTED[1] + 1), _begin(YEARS[-1] + 1)
_NUMBER = r"^\s*\d+(\.\d*)?\s*$"


def epoch_unit(count: float) -> str | None:
    """The unit in which a count since 1970 lies in the years of `COUNTED`; None if there is none.

    Examples
    --------
    >>> [epoch_unit(count) for count in (1577836800, 1577836800.123456, 1577836800123, 1577836800123456)]
    ['s', 's', 'ms', 'us']
    >>> epoch_unit(1577836800123456789), epoch_unit(34_200_000), epoch_unit(20200101093000)
    ('ns', None, None)
    """
    return next((unit for unit, size in UNITS.items() if _FIRST <= count * size < _END), None)


class TimeColumn:
    """Reads a column of times piece by piece: what its first time is, all of them are.

    Whole numbers count s, ms, us or ns since 1970, and their size tells which. Numbers with decimals are read likewise
    and kept to the microsecond, since a float64 of today's seconds is 0.2 us from the next one. Times without a zone
    are those of ``zone``.

    Examples
    --------
    >>> times = TimeColumn(Path("books.csv"), "ts_event", "UTC")
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
            self.unit = epoch_unit(known[0])
        first, end = (edge // UNITS[self.unit or "ns"] for edge in (_FIRST, _END))
        odd = known if self.unit is None else known.filter(~known.is_between(first, end, closed="left"))
        if len(odd):
            expected = f"in {self.name} as s, ms, us or ns since 1970, between {COUNTED[0]} and {COUNTED[1]}"
            if self.unit is not None and epoch_unit(odd[0]) is not None:
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


# Sizes that are fractions, as those of coins: they are stored in whole units of a size that is told.
#
# Orders, splits and queues count whole shares everywhere. A share of ours may therefore be 0.0001 of theirs: sizes are
# divided by that unit and must then be whole, and prices are multiplied by it, so that shares times price stays money.
#


MOST_UNITS = 10**14
"""Units of a size at most: up to here a float64 tells a whole number of units from a fraction of one."""

_ROUNDING = {polars.Float32: 2.0**-21}  # of a quotient, relative; a few times the spacing of floats
_FINE = 2.0**-50
_SHOWN = 1000  # values that are looked at for a unit to offer


def check_unit(field: str, value: Any) -> float:
    """Return ``value`` if it can be a unit of sizes, or raise an error that names it.

    Examples
    --------
    >>> check_unit("unit", 0.0001)
    0.0001
    """
    return float(real_number(field, value, minimum=1e-12, maximum=1e12))


def count_units(name: str, kind: Any, unit: float) -> tuple[polars.Expr, polars.Expr | None]:
    """How many units the sizes of a column are, and which are no whole number of units; None if all must be."""
    size = polars.col(name)
    if unit == 1:
        return size, None if kind.is_integer() else size % 1 != 0
    count = size.cast(polars.Float64) / unit
    near = (count - count.round()).abs() <= _ROUNDING.get(kind, _FINE) * count.abs()
    return count.round(), ~(near & count.is_between(0, MOST_UNITS))


def unit_text(unit: float) -> str:
    """A unit as people write it.

    >>> unit_text(1e-05), unit_text(100.0)
    ('0.00001', '100')
    """
    return f"{Decimal(f'{unit:.15g}'):f}"


def size_requirement(unit: float) -> str:
    """What sizes must be, in words."""
    if unit == 1:
        return "sizes whole numbers up to 4294967295"
    return f"sizes whole numbers of units of {unit_text(unit)}, up to {MOST_UNITS} units"


def describe_sizes(sizes: Iterable[Any], unit: float) -> str:
    """Which of some sizes is no whole number of units, and a unit that suits them.

    Examples
    --------
    >>> describe_sizes([2.0, 0.5, 0.125], 1)
    '0.5; unit = 0.001 counts sizes in such parts'
    >>> describe_sizes([0.5, 0.125], 0.1)
    '0.125; unit = 0.001 counts sizes in such parts'
    """
    found = [float(size) for size in sizes if size is not None]
    odd = [size for size in found if not _is_whole(size, unit)]
    if not odd:
        return ", ".join(f"{size:.15g}" for size in found)
    whole = [Decimal(repr(size)).normalize() for size in odd[:_SHOWN] if abs(size) < MOST_UNITS and size >= 0]
    exponent = min((int(size.as_tuple().exponent) for size in whole), default=0)
    offer = f"; unit = {Decimal(1).scaleb(exponent):f} counts sizes in such parts" if -12 <= exponent < 0 else ""
    return f"{odd[0]:.15g}{offer}"


def _is_whole(size: float, unit: float) -> bool:
    count = size / unit
    return bool(0 <= count <= MOST_UNITS and abs(count - round(count)) <= _FINE * abs(count))
