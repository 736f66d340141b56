"""Columns of third-party tables: their names, and timestamps in any usual form."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars

from riskroute.core.errors import DataError, InputError
from riskroute.core.text import one_line_text, shown
from riskroute.core.validation import valid_path
from riskroute.market.clock import YEARS
from riskroute.market.schema import MOST_LEVELS, TIME, level_columns

# Names of columns that are recognised without being declared, in upper or lower case.
_ALIASES = {
    "ts_event": ("timestamp", "time", "datetime", "ts"),
    "venue": ("exchange", "mic"),
    "symbol": ("ticker", "sym"),
    "bid_px_00": ("bid", "bid_price", "best_bid"),
    "bid_sz_00": ("bid_size", "bid_qty", "bid_volume"),
    "ask_px_00": ("ask", "ask_price", "best_ask", "offer"),
    "ask_sz_00": ("ask_size", "ask_qty", "ask_volume", "offer_size"),
}
# Patterns for all levels: our names, and the columns of Tardis' ``book_snapshot`` tables.
_TARDIS = {
    "bid_px_{}": "bids[{}].price",
    "bid_sz_{}": "bids[{}].amount",
    "ask_px_{}": "asks[{}].price",
    "ask_sz_{}": "asks[{}].amount",
}
# All our names in order, with one level more than is kept, to detect tables with more levels.
_ORDER = {name: k for k, name in enumerate(dict.fromkeys([*_ALIASES, *level_columns(MOST_LEVELS + 1)]))}
# Units of Unix times, in nanoseconds. They differ by factors of a thousand, so a count is a plausible date in one only.
UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_COUNTED = (1990, 2200)  # first and last year accepted for Unix times


def has_tardis_columns(given: Sequence[str]) -> bool:
    """Return whether the columns are those of a Tardis ``book_snapshot`` table."""
    return {_TARDIS[name].format(0) for name in _TARDIS} <= set(given)


def table_columns(given: Sequence[str], declared: Mapping[str, str]) -> dict[str, str]:
    """Map our column names to those of a table; declared names take precedence over recognised ones.

    >>> table_columns(["Time", "BP1", "BP2"], {"bid_px_{}": "BP{}"})
    {'ts_event': 'Time', 'bid_px_00': 'BP1', 'bid_px_01': 'BP2'}
    """
    lower = {name.lower(): name for name in given}
    found = {}
    for name in [*_ALIASES, *(lower.keys() & _ORDER.keys())]:
        candidates = [lower[alias] for alias in (name, *_ALIASES.get(name, ())) if alias in lower]
        if candidates:
            found[name] = candidates[0]
    if has_tardis_columns(given):
        found |= _expanded(given, _TARDIS)
        found |= {"ts_event": "local_timestamp"} if "local_timestamp" in given else {}
    patterns = {ours: theirs for ours, theirs in declared.items() if "{}" in ours or "{}" in theirs}
    found |= _expanded(given, patterns)
    for name, theirs in declared.items():
        if name in patterns:
            continue
        if name not in _ORDER:
            raise InputError(
                f"column must be one of ts_event, venue, symbol, bid_px_00, ... or bid_px_{{}}, ..., was {name!r}"
            )
        if theirs not in given:
            raise InputError(f"column {name} must be one of {', '.join(given)}, was {theirs!r}")
        found[name] = theirs
    return dict(sorted(found.items(), key=lambda pair: _ORDER[pair[0]]))


def _expanded(given: Sequence[str], patterns: Mapping[str, str]) -> dict[str, str]:
    """Map our column names to the columns that match the patterns; all patterns count levels from 0, or all from 1."""
    numbered: dict[str, dict[int, str]] = {}
    for ours, theirs in patterns.items():
        if ours not in _TARDIS or theirs.count("{}") != 1:
            expected = f"one of {', '.join(_TARDIS)} and a name with one {{}} for the level"
            raise InputError(f"column pattern must be {expected}, was {ours}={theirs}")
        before, after = map(re.escape, theirs.split("{}"))
        matches = [re.fullmatch(rf"{before}([0-9]{{1,4}}){after}", name) for name in given]
        numbered[ours] = {int(match[1]): match[0] for match in matches if match is not None}
        if not numbered[ours]:
            raise InputError(f"column {ours} must match one of {', '.join(given)}, was {theirs!r}")
    first = min((min(levels) for levels in numbered.values()), default=0)
    if first > 1:
        raise InputError(f"levels of a pattern must count from 0 or from 1, was {first} in {patterns}")
    names = {
        f"{ours[:-2]}{number - first:02d}": theirs
        for ours, levels in numbered.items()
        for number, theirs in levels.items()
    }
    return {name: theirs for name, theirs in names.items() if name in _ORDER}


def load_columns(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read column names from a TOML or JSON file with entries ``ours = "theirs"``."""
    file = valid_path("columns", path)
    ending = file.suffix.lower()
    if ending not in (".toml", ".json"):
        raise InputError(f"columns must be a .toml or .json file, was {str(file)!r}")
    try:
        text = file.read_text(encoding="utf-8")
        names = tomllib.loads(text) if ending == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} must be a {ending[1:].upper()} file of names: {one_line_text(error)}") from error
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise DataError(f'{file} must hold only entries such as bid_px_00 = "BestBid", was {shown(names)}')
    return names


def _begin(year: int) -> int:
    """Return the start of a year in UTC nanoseconds."""
    return int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**9


_FIRST, _END = _begin(_COUNTED[0]), _begin(_COUNTED[1] + 1)


def _epoch_unit(count: float) -> str | None:
    """Return the unit in which a Unix time lies in the years of `_COUNTED`, or None.

    >>> [_epoch_unit(count) for count in (1577836800, 1577836800.123456, 1577836800123, 1577836800123456)]
    ['s', 's', 'ms', 'us']
    >>> _epoch_unit(1577836800123456789), _epoch_unit(34_200_000), _epoch_unit(20200101093000)
    ('ns', None, None)
    """
    return next((unit for unit, size in UNITS.items() if _FIRST <= count * size < _END), None)


class TimeColumn:
    """Parses a column of timestamps chunk by chunk; the first value determines the form of all.

    Integers are Unix times in s, ms, us or ns, told apart by magnitude. Numbers with decimals are rounded to the
    microsecond: near current Unix times, neighbouring float64 values are 0.2 us apart. Local times are in ``zone``,
    and refused if it is empty.

    >>> times = TimeColumn(Path("books.csv"), "ts_event", "UTC")
    >>> times.read(polars.Series([1577836800.123456])).cast(polars.Int64).to_list()
    [1577836800123456000]
    >>> times.read(polars.Series([1577836800123]))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.DataError: books.csv: ts_event must be in one unit throughout, s as in the first row, was
    1577836800123
    """

    def __init__(self, source: Path, name: str, zone: str) -> None:
        self.source, self.name, self.zone = source, name, zone
        self.unit: str | None = None

    def read(self, column: polars.Series) -> polars.Series:
        """Return the UTC times of a chunk of the column; null for nulls and local times skipped by a clock change."""
        try:
            return self._read(column)
        except polars.exceptions.PolarsError as error:
            text = one_line_text(error)
            raise DataError(f"{self.source}: cannot parse the times in {self.name}: {text}") from error

    def _read(self, column: polars.Series) -> polars.Series:
        if column.dtype == polars.String and _first_has(column, r"^\s*\d+(\.\d*)?\s*$"):
            column = column.str.strip_chars()
            column = column.cast(polars.Float64 if column.str.contains(".", literal=True).any() else polars.Int64)
        if column.dtype.is_numeric():
            return self._counted(column)
        if column.dtype == polars.String:
            zone = "UTC" if _first_has(column, r"(Z|[+-]\d{2}:?\d{2})$") else None
            self._kind_of(column.str.to_datetime(time_unit="us", strict=True, time_zone=zone))
            column = column.str.to_datetime(time_unit="ns", strict=True, time_zone=zone)
        if self._kind_of(column).time_zone is None:
            if not self.zone:
                expected = "UTC or have an offset, since instruments are declared in several time zones; or give zone"
                raise DataError(f"{self.source}: times in {self.name} must be in {expected}")
            column = column.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null")
        return column.dt.convert_time_zone("UTC").cast(TIME)

    def _counted(self, column: polars.Series) -> polars.Series:
        """Parse Unix times."""
        counts = column.cast(polars.Int64 if column.dtype.is_integer() else polars.Float64)
        known = counts.drop_nulls()
        if not len(known):
            return counts.cast(polars.Int64).cast(TIME)
        if self.unit is None:
            self.unit = _epoch_unit(known[0])
        first, end = (edge // UNITS[self.unit or "ns"] for edge in (_FIRST, _END))
        odd = known if self.unit is None else known.filter(~known.is_between(first, end, closed="left"))
        if len(odd):
            expected = f"s, ms, us or ns since 1970, between {_COUNTED[0]} and {_COUNTED[1]}"
            if self.unit is not None and _epoch_unit(odd[0]) is not None:
                expected = f"in one unit throughout, {self.unit} as in the first row"
            raise DataError(f"{self.source}: {self.name} must be {expected}, was {odd[0]}")
        size = UNITS[self.unit or "ns"]
        if counts.dtype == polars.Float64:
            return ((counts * (size / 1000)).round().cast(polars.Int64) * 1000).cast(TIME)
        return (counts * size).cast(TIME)

    def _kind_of(self, column: polars.Series) -> polars.Datetime:
        """Return the type of a datetime column; refuse other types, and years that overflow in nanoseconds."""
        if not isinstance(column.dtype, polars.Datetime):
            raise DataError(f"{self.source}: {self.name} must be a time, was {column.dtype}")
        counts, unit = column.to_physical().drop_nulls(), column.dtype.time_unit
        odd = counts.filter(~counts.is_between(0, _begin(YEARS[-1] + 1) // UNITS[unit]))
        if len(odd):
            years = f"{YEARS[0]} to {YEARS[-1]}"
            raise DataError(f"{self.source}: {self.name} must be in the years {years}, was {odd[0]} {unit}")
        return column.dtype


def _first_has(column: polars.Series, pattern: str) -> bool:
    """Return whether the first string of a column matches a pattern."""
    first = column.drop_nulls().head(1)
    return bool(len(first)) and bool(first.str.contains(pattern)[0])
