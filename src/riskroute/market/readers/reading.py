"""Shared by all readers: import options, the parts they yield, and conversion to the common tables."""

from __future__ import annotations

import datetime as dt
import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars

from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument, valid_instrument_zone
from riskroute.core.text import one_line_text, shown
from riskroute.core.validation import (
    LONGEST_SYMBOL,
    LONGEST_VENUE,
    as_name,
    if_given,
    instance_of,
    valid_day,
    valid_list,
    whole_number,
)
from riskroute.market.clock import YEARS, check_clock_time
from riskroute.market.schema import MOST_LEVELS, event_schema, snapshot_schema

ITCH_LEVELS = 50  # largest number of levels per side kept from order-by-order files; itch-book provides no more
MOST_SYMBOLS = 200  # TAQ, Databento and IEX files with more symbols are refused unless symbols are named

# Market identifier codes by the letters of the consolidated tape. NASDAQ has two: Q on tape C, T on tapes A and B.
# D (FINRA) is missing: its quotes come from outside the exchanges.
EXCHANGE_CODES = {
    **{"A": "XASE", "B": "XBOS", "C": "XCIS", "H": "EPRL", "I": "XISE", "J": "EDGA", "K": "EDGX", "L": "LTSE"},
    **{"M": "XCHI", "N": "XNYS", "P": "ARCX", "Q": "XNAS", "T": "XNAS", "U": "MEMX", "V": "IEXG", "W": "XCBO"},
    **{"X": "XPSX", "Y": "BATY", "Z": "BATS"},
}

# Patterns of dates in file names, each with the groups that hold year, month and day. A match with two readings is
# ambiguous if both are valid and they differ.
_DATES: tuple[tuple[str, tuple[tuple[int, int, int], ...]], ...] = (
    (r"^(\d{2})(\d{2})(\d{4})\.(?:NASDAQ|BX|PSX)_ITCH", ((3, 1, 2),)),
    (r"^S(\d{2})(\d{2})(\d{2})-v50", ((3, 1, 2),)),
    (r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?!\d)", ((1, 2, 3),)),
    (r"(?<!\d)(\d{2})(\d{2})(\d{4})(?!\d)", ((3, 1, 2), (3, 2, 1))),
)

T = TypeVar("T")


@dataclass(frozen=True)
class ReadingOptions:
    """Which symbols, levels and hours to import, and facts that the file does not state.

    Parameters
    ----------
    symbols : tuple[str, ...]
        Symbols to import; default: all that the file states. ITCH files, files without symbols, and TAQ, Databento and
        IEX files with more than 200 symbols require them.
    depth : int, optional
        Levels per side to keep, at most 1,000; default: all, but at most 50 for book updates and IEX. At most 50 are
        kept from order-by-order files.
    start, end : dt.time, optional
        Hours of every session day, in the zone of the instrument; default: the whole session.
    date : dt.date, optional
        Date of a file that does not state it or states another one; the only session day that is imported.
    venue : str, optional
        Venue, if the file does not state it or to override it; for a stock exchange its market identifier code, such as
        XNAS. In a file with several venues it selects the venue of that name.
    venue_names : dict[str, str]
        New names of the file's venues; others keep their name.
    symbol_names : dict[str, str]
        New names of some of ``symbols``, since exchanges name the same pair differently.
    columns : dict[str, str]
        Column names of a table, ours to theirs: ``{"bid_px_00": "BestBid"}`` or, for all levels,
        ``{"bid_px_{}": "bids[{}].price"}``.
    zone : str, optional
        Time zone of local times in tables and book updates, and of their days and hours unless an instrument is
        declared. Default: the zone of the declared instruments. Without them, it is New York for tables of books (UTC
        for Tardis), UTC for book updates, and for tables of trades the zone of the books, if all have the same one.
    lot : int, optional
        Shares per unit of size in TAQ quotes; default: 100; required for quotes from 3 November 2025 on.
    instruments : dict[str, Instrument]
        Declared instruments by symbol (after renaming); default: shares for US equities, else derived from the data.
    """

    symbols: tuple[str, ...] = ()
    depth: int | None = None
    start: dt.time | None = None
    end: dt.time | None = None
    date: dt.date | None = None
    venue: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    zone: str | None = None
    lot: int | None = None
    venue_names: dict[str, str] = field(default_factory=dict)
    instruments: dict[str, Instrument] = field(default_factory=dict)
    symbol_names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if_given(whole_number, "depth", self.depth, maximum=MOST_LEVELS)
        if_given(whole_number, "lot", self.lot, maximum=10_000)
        symbols = valid_list("symbols", self.symbols, str, "names")
        symbols = [as_name("symbol", symbol, longest=LONGEST_SYMBOL).upper() for symbol in symbols]
        object.__setattr__(self, "symbols", tuple(dict.fromkeys(symbols)))
        if_given(as_name, "venue", self.venue, longest=LONGEST_VENUE)
        names = instance_of("venue_names", self.venue_names, dict, "a dictionary from venues in the file to new names")
        for old, new in names.items():
            instance_of("a venue of the file", old, str, "a name")
            as_name("venue", new, longest=LONGEST_VENUE)
        if len({*names.values()}) < len(names):
            raise InputError(f"venue_names must be distinct, was {', '.join(names.values())}")
        if names and self.venue is not None:
            raise InputError(f"give either venue or venue_names, not both; venue was {self.venue!r}")
        pairs = instance_of(
            "symbol_names", self.symbol_names, dict, "a dictionary from symbols in the file to new names"
        )
        both = [[as_name("symbol", name, longest=LONGEST_SYMBOL).upper() for name in pair] for pair in pairs.items()]
        object.__setattr__(self, "symbol_names", dict(both))
        if not set(self.symbol_names) <= set(self.symbols):
            raise InputError(f"symbol_names must rename symbols to import, was {shown(self.symbol_names)}")
        if len({*self.symbol_names.values()}) < len(both):
            raise InputError(f"symbol_names must be distinct, was {', '.join(self.symbol_names.values())}")
        if_given(valid_instrument_zone, "zone", self.zone)
        declared = instance_of("instruments", self.instruments, dict, "a dictionary of instruments by symbol")
        valid_list("instruments", list(declared.values()), Instrument, "instruments")
        if_given(check_clock_time, "start", self.start)
        if_given(check_clock_time, "end", self.end)
        columns = instance_of("columns", self.columns, dict, "a dictionary from our names to those in the file")
        if not all(isinstance(name, str) for pair in columns.items() for name in pair):
            raise InputError(f"columns must map names to names, was {shown(columns)}")
        if self.start is not None and self.start == self.end != dt.time(0):
            raise InputError(f"window must end after it starts, was {self.start} to {self.end}")
        if self.date is not None and valid_day("date", self.date).year not in YEARS:
            raise InputError(f"date must be between {YEARS[0]} and {YEARS[-1]}, was {self.date}")

    def kept(self, levels: int) -> int:
        """Return the number of levels per side to keep from a source with ``levels``."""
        return min(self.depth or MOST_LEVELS, levels, MOST_LEVELS)

    def local_zone(self, default: str) -> str:
        """Return the zone of local times; empty if none is given and instruments are declared in several zones."""
        names = [self.symbol_names.get(symbol, symbol) for symbol in self.symbols] or list(self.instruments)
        zones = {self.instruments[name].zone for name in names if name in self.instruments} or {default}
        return self.zone or (zones.pop() if len(zones) == 1 else "")

    def signed(self, symbol: str) -> bool:
        """Return whether prices of a symbol may be zero or negative."""
        name = self.symbol_names.get(symbol, symbol)
        return name in self.instruments and self.instruments[name].negative_prices


@dataclass
class ReaderPart:
    """A chunk of a recording, sorted by time: snapshots, events if the source has them, and counts.

    ``venue`` is named as in the file; if the file names none, as requested or by the reader's default. The column
    ``deeper`` of ``snapshots``, if any, marks snapshots with more levels than were kept. ``references`` counts messages
    that refer to an order, ``unresolved`` the references without a matching order, ``gaps`` periods with missing
    updates. ``notes`` counts other issues, see `Recording.remarks`.
    """

    venue: str
    symbol: str
    snapshots: polars.DataFrame
    events: polars.DataFrame | None = None
    references: int = 0
    unresolved: int = 0
    gaps: int = 0
    notes: dict[str, int] = field(default_factory=dict)


def require_reading_option(name: str, value: T | None, file: str) -> T:
    """Return ``value``; if it is None, raise an error that asks for ``name``, which ``file`` does not state."""
    if value is None:
        raise InputError(f"{file!r} does not state its {name}; give {name}")
    return value


def require_reading_symbols(wanted: Iterable[str], found: Iterable[str], where: str) -> None:
    """Refuse a file that lacks a wanted symbol; suggest similar symbols among those found, or else the first three."""
    names = list(found)
    for symbol in wanted:
        if symbol not in names:
            near = difflib.get_close_matches(symbol, names, n=3, cutoff=0.5) or sorted(names)[:3]
            offer = f"; did you mean {', '.join(near)}?" if near else ""
            raise DataError(f"symbol {symbol!r} is not among the {len(names):,} in {where}{offer}")


def refuse_rows(
    frame: polars.DataFrame, rule: polars.Expr, expected: str, source: Path, name: str | None = None
) -> None:
    """Refuse rows where ``rule`` is true or null; the error shows column ``name`` of the first one, or all columns."""
    odd = frame.filter(rule.fill_null(True))
    if odd.height:
        was = odd.drop("sequence").row(0) if name is None else odd[name][0]
        raise DataError(f"row {odd['sequence'][0]:,} of {source.name} must have {expected}, was {was!r}")


def label_reading_rows(frame: polars.DataFrame, venue: str, symbol: str) -> polars.DataFrame:
    """Add the columns ``venue`` and ``symbol``."""
    return frame.with_columns(polars.lit(venue).alias("venue"), polars.lit(symbol).alias("symbol"))


def reading_snapshots(
    frame: polars.DataFrame,
    depth: int,
    *,
    fractional: bool = False,
    signed: bool = False,
    source: str = "the source",
    word: str = "row",
) -> polars.DataFrame:
    """Convert a frame to the columns and types of a snapshot table.

    A level needs a finite price, other than 0 unless ``signed``, and a size other than 0. Other levels are dropped, and
    deeper ones move up. A price with a missing size, a size outside the range of its column and, unless ``fractional``,
    a size with decimals are refused. Errors name ``source`` and call a row ``word``.
    """
    # the text of a 32-bit float is the number that the source means
    short = polars.selectors.by_dtype(polars.Float32)
    frame = frame.with_columns(short.cast(polars.String).cast(polars.Float64))
    schema, given = snapshot_schema(depth, fractional=fractional), frame.schema
    levels, odd = [], []
    _check_sized(frame, depth, (source, word))
    for level in range(depth):
        for side in ("bid", "ask"):
            price, size = f"{side}_px_{level:02d}", f"{side}_sz_{level:02d}"
            # `RecordingWriter` refuses negative prices unless the instrument allows them
            there = (_stated(price) if not signed else _finite(price)) & (polars.col(size) != 0)
            if fractional:
                odd.append(there & ~polars.col(size).is_between(0, 1e14))
            elif not given[size].is_integer():
                odd.append(there & (polars.col(size) % 1 != 0))
            levels += [
                polars.when(there).then(polars.col(price)).alias(price),
                polars.when(there).then(polars.col(size)).otherwise(0).alias(size),
            ]
    return _closed(_typed(frame, schema, (source, word), levels, odd), depth)


def count_reading_half_levels(frame: polars.DataFrame, depth: int, *, signed: bool = False) -> int:
    """Return the number of levels with a price and size 0, or a size and no price; `reading_snapshots` drops them.

    >>> bids = {"bid_px_00": [9.0, None, None, 9.0], "bid_sz_00": [0, 5, 0, 5]}
    >>> count_reading_half_levels(polars.DataFrame(bids | {"ask_px_00": 9.5, "ask_sz_00": 1}), 1)
    2
    """
    halves = []
    for level in range(depth):
        for side in ("bid", "ask"):
            price = f"{side}_px_{level:02d}"
            sized = polars.col(f"{side}_sz_{level:02d}").cast(polars.Float64).fill_nan(0).fill_null(0) != 0
            negative = (_stated(price) | (_finite(price) & sized)) if signed else polars.lit(False)
            halves.append(((_finite(price) & (polars.col(price) > 0)).fill_null(False) | negative) != sized)
    return int(sum(frame.select(rule.sum() for rule in halves).row(0)))


def _check_sized(frame: polars.DataFrame, depth: int, place: tuple[str, str]) -> None:
    """Refuse a price whose size is missing or NaN: such a level may or may not exist."""
    rules, given = {}, frame.schema
    for level in range(depth):
        for side in ("bid", "ask"):
            price, size = f"{side}_px_{level:02d}", f"{side}_sz_{level:02d}"
            missing = polars.col(size).is_null()
            if given[size].is_float():
                missing |= polars.col(size).is_nan()
            if given[price].is_numeric() and (given[size].is_float() or frame[size].null_count()):
                rules[price, size] = _stated(price) & missing
    if not rules or not frame.select(polars.any_horizontal(rules.values()).any()).item():
        return
    for (price, size), rule in rules.items():
        if (rows := frame.filter(rule)).height:
            raise DataError(f"{_where(rows, place)}: {size} must be the size at {rows[price][0]}, was missing")


def _finite(name: str) -> polars.Expr:
    return polars.col(name).is_finite().fill_null(False)


def _stated(name: str) -> polars.Expr:
    """Return whether a price is finite and not 0; a price of 0 marks an absent level."""
    return _finite(name) & (polars.col(name) != 0).fill_null(False)


def _closed(books: polars.DataFrame, depth: int) -> polars.DataFrame:
    """Close gaps between levels: no level may follow an absent one."""
    for side in ("bid", "ask"):
        names = [[f"{side}_{what}_{level:02d}" for level in range(depth)] for what in ("px", "sz")]
        gaps = [
            polars.col(near).is_null() & polars.col(far).is_not_null() for near, far in itertools.pairwise(names[0])
        ]
        if gaps and books.select(polars.any_horizontal(gaps).any()).item():
            absent = books.select(polars.col(names[0]).is_null()).to_numpy()
            places = np.argsort(absent, axis=1, kind="stable")
            for some in names:
                values = np.take_along_axis(books.select(some).to_numpy(), places, axis=1)
                moved = (polars.Series(name, values[:, k], nan_to_null=True) for k, name in enumerate(some))
                books = books.with_columns(column.cast(books.schema[column.name]) for column in moved)
    return books


def reading_events(
    frame: polars.DataFrame, source: str = "the source", word: str = "row", *, fractional: bool = False
) -> polars.DataFrame:
    """Convert a frame to the columns and types of an event table."""
    return _typed(frame, event_schema(fractional=fractional), (source, word))


def reading_ten_thousandths(column: polars.Expr) -> polars.Expr:
    """Convert ten-thousandths of a dollar to dollars."""
    # Rounded: polars multiplies by 1 / 10,000, which leaves 2230700 slightly above 223.07.
    return (column / 10_000).round(4)


def _typed(
    frame: polars.DataFrame,
    schema: dict[str, polars.DataType | type[polars.DataType]],
    place: tuple[str, str],
    changes: Sequence[polars.Expr] = (),
    faults: Sequence[polars.Expr] = (),
) -> polars.DataFrame:
    """Cast a frame to a schema; raise a `DataError` that locates the first row that does not fit."""
    whole = polars.UInt32 in schema.values()
    expected = f"prices must be numbers and sizes {'whole numbers up to 4294967295' if whole else 'from 0 to 1e14'}"
    changed = frame
    try:
        odd = frame.filter(polars.any_horizontal(faults)) if faults else frame.head(0)
        if odd.height:
            sizes = odd.select(name for name in schema if "_sz_" in name).row(0)
            bad = next((size for size in sizes if not (0 <= (size or 0) <= 1e14) or (whole and (size or 0) % 1)), sizes)
            raise DataError(f"{_where(odd, place)}: {expected}, was {bad}")
        changed = frame.with_columns(changes)
        return changed.select([polars.col(name).cast(kind) for name, kind in schema.items()])
    except polars.exceptions.PolarsError as error:
        lost = [
            polars.col(name).cast(kind, strict=False).is_null() & polars.col(name).is_not_null()
            for name, kind in schema.items()
            if changed.schema[name].is_numeric()
        ]
        where = _where(changed.filter(polars.any_horizontal(lost)) if lost else changed, place)
        raise DataError(f"{where}: {expected}, was: {one_line_text(error)}") from error


def _where(rows: polars.DataFrame, place: tuple[str, str]) -> str:
    """Describe the first of some rows for an error: number, file and venue; the file alone without rows."""
    source, word = place
    if not rows.height or "sequence" not in rows.columns:
        return source
    venue = f", venue {rows['venue'][0]}" if "venue" in rows.columns else ""
    return f"{word} {rows['sequence'][0]:,} of {source}{venue}"


def reading_file_date(name: str) -> dt.date | None:
    """Return the date in a file name, or None if there is none or it is ambiguous.

    >>> [reading_file_date(name) for name in ("12302019.NASDAQ_ITCH50.gz", "20190327.BX_ITCH_50", "S081321-v50.txt.gz")]
    [datetime.date(2019, 12, 30), datetime.date(2019, 3, 27), datetime.date(2021, 8, 13)]
    >>> reading_file_date("books_10112012.bin"), reading_file_date("20190327-20190329.bin")
    (None, None)
    """
    for pattern, readings in _DATES:
        days = {
            day
            for found in re.finditer(pattern, name)
            for year, month, date in readings
            if (day := _day(found[year], found[month], found[date])) is not None
        }
        if days:
            return days.pop() if len(days) == 1 else None
    return None


def _day(year: str, month: str, day: str) -> dt.date | None:
    full = int(year) + (2000 if len(year) == 2 else 0)
    try:
        return dt.date(full, int(month), int(day)) if full in YEARS else None
    except ValueError:
        return None
