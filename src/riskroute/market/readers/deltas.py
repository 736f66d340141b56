"""Books from their updates: Tardis' ``incremental_book_L2`` tables, and depth updates of Binance as JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars

from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.market.clock import clock_date, clock_day, clock_limits
from riskroute.market.readers.binance import BinanceUpdates, received_until
from riskroute.market.readers.csv_stream import csv_lines
from riskroute.market.readers.itch import one_of_many_itch_files
from riskroute.market.readers.level_book import LevelBook
from riskroute.market.readers.reading import ImportOptions, ReaderPart, reader_snapshots, reader_stamped
from riskroute.market.readers.tardis import TardisUpdates, is_tardis_updates
from riskroute.market.readers.updates import UpdateFile

DELTA_LEVELS = 50
"""Levels per side that are kept if nothing is said: a file of updates has no number of its own."""


_BINANCE = ("lastUpdateId", "e", "data", "result")
"""Names of which the first line of a file of Binance's has one: of a snapshot, an event, a stream, an answer."""


def is_deltas(path: Path) -> bool:
    """Whether a file begins as one of book updates does, whatever its name."""
    try:
        return _is_binance(path) or is_tardis_updates(_header(path))
    except RiskrouteError:
        return False


class DeltaReader:
    """The best levels of every book after each message that changed them; days of UTC unless told."""

    name = "deltas"

    def __init__(self, path: Path, options: ImportOptions) -> None:
        self.source, self.options = path, options
        self.unit, self.zone = options.unit or 1.0, options.zone or "UTC"
        self.depth = options.kept(options.depth or DELTA_LEVELS)
        if not _is_json(path) and not is_tardis_updates(_header(path)):
            expected = "book updates: a table with columns is_snapshot, side, price and amount, or JSON lines"
            raise DataError(f"{path} must hold {expected}, was {', '.join(_header(path))[:200]!r}")
        self._file: UpdateFile = (BinanceUpdates if _is_json(path) else TardisUpdates)(path, options, self.zone)
        first = self._file.first
        day = options.date or (clock_day(first, self.zone) if first is not None else clock_date(path.name))
        if day is None:
            raise InputError(f"date must be given where the file does not tell it, was None for {path.name!r}")
        self.date = day

    def parts(self) -> Iterator[ReaderPart]:
        """A part per book and piece of the file."""
        books: dict[tuple[str, str], LevelBook] = {}
        missing: Counter[tuple[str, str]] = Counter()
        for venue, symbol, updates, gaps in self._file.pieces(*clock_limits(self.date, self.zone)):
            if not self.options.symbols or symbol in self.options.symbols:
                key = venue, symbol
                missing[key] += gaps
                for frame in books.setdefault(key, LevelBook(self.depth)).follow(updates):
                    yield self._part(*key, frame, missing.pop(key, 0))
        for key, book in books.items():
            for frame in book.rest():
                yield self._part(*key, frame, missing.pop(key, 0))
        names = self._file.names
        for absent in [symbol for symbol in self.options.symbols if symbol not in names]:
            one_of_many_itch_files("symbol", absent, tuple(names), self.source.name)

    def _part(self, venue: str, symbol: str, frame: polars.DataFrame, gaps: int) -> ReaderPart:
        begin, end = clock_limits(self.date, self.zone)
        today = frame.filter(polars.col("ts_event").cast(polars.Int64).is_between(begin, end, closed="left"))
        wanted, other = self.options.within(today, self.date, self.zone), frame.height - today.height
        kept = reader_snapshots(
            reader_stamped(wanted, venue, symbol),
            self.depth,
            self.unit,
            source=self.source.name,
            word="line" if _is_json(self.source) else "row",
        )
        notes = {"other_days": other} if other else {}
        return ReaderPart(venue, symbol, kept, deeper=int(wanted["deeper"].sum()), gaps=gaps, notes=notes)


def _first_line(path: Path) -> str:
    """The beginning of a file as text, of its first line that is not empty."""
    return next((line for line in map(str.strip, csv_lines(path)) if line), "")


def _is_binance(path: Path) -> bool:
    """Whether the first line is an object as Binance sends them: an update, a snapshot, or one of several streams."""
    return _is_json(path) and any(f'"{name}"' in _first_line(path) for name in _BINANCE)


def _is_json(path: Path) -> bool:
    line = _first_line(path)
    return line.startswith("{", received_until(line))


def _header(path: Path) -> list[str]:
    return [name.strip().strip('"') for name in _first_line(path).split(",")]
