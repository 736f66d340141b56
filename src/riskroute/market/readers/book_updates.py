"""Books rebuilt from updates and trades: JSON streams and captures of exchanges, and tables of updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import DataError, RiskrouteError
from riskroute.core.instrument import SHARES
from riskroute.market.readers.binance import BinanceStream
from riskroute.market.readers.captures import CaptureFile
from riskroute.market.readers.csv_files import unpacked_file_lines
from riskroute.market.readers.event_quotes import EventQuotes
from riskroute.market.readers.level_book import LevelBook, level_book_snapshots
from riskroute.market.readers.reading import ReaderPart, ReadingOptions, require_reading_symbols
from riskroute.market.readers.trade_tables import trade_table_kind
from riskroute.market.readers.update_tables import UpdateTable
from riskroute.market.schema import snapshot_schema

_Source = BinanceStream | CaptureFile | EventQuotes | UpdateTable


# Names in the first line of JSON files: a capture's header, quotes of event contracts, and Binance's messages.
_JSON_NAMES: dict[tuple[str, ...], type[_Source]] = {
    ("t", "exchange", "recorded"): CaptureFile,
    **dict.fromkeys(((("time", "symbol", name)) for name in ("bids", "asks", "changes", "trade")), EventQuotes),
    **dict.fromkeys(((name,) for name in ("lastUpdateId", "e", "data", "result", "B")), BinanceStream),
}


class BookUpdateReader:
    """Yields the best levels of every book after each message that changed them, and public trades as events.

    Files of one book are read in the order of their first times; the book carries over to a file that continues the
    previous one. These files are looked up among ``given``; ``opened`` caches the opened files for the next readers.
    """

    name = "deltas"
    fractional = True
    date = None

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a file begins like JSON lines of books or like Tardis' updates, whatever its name."""
        with suppress(RiskrouteError):
            names = {name.strip().strip('"') for name in _first_line(path).split(",")}
            return {"is_snapshot", "side", "price", "amount"} <= names or _json_kind(path) is not None
        return False

    def __init__(
        self,
        path: Path,
        options: ReadingOptions,
        given: Sequence[Path] = (),
        opened: dict[Path, _Source | None] | None = None,
    ) -> None:
        self.source, self.options = path, options
        self.zone = options.local_zone("UTC") or "UTC"
        mine = self._open(path)
        sources = opened if opened is not None else {}
        for other in given:
            if other != path and other not in sources:
                sources[other] = self._other(other)
        same = (one for one in sources.values() if one is not None and one.key == mine.key and one.path != path)
        self._sources: list[Any] = sorted([mine, *same], key=lambda one: one.first or 0)
        self.source = self._sources[0].path
        self.quantity: str = getattr(mine, "quantity", SHARES.quantity)
        # updates do not state how many levels the feed has
        self.depth = options.kept(min(options.depth or 50, mine.levels or 1000))

    @property
    def files(self) -> set[Path]:
        """All files of the book."""
        return {one.path for one in self._sources}

    def _open(self, path: Path) -> _Source:
        kind = _kind(path, self.options)
        if kind is None:
            expected = "book updates: a table with columns is_snapshot, side, price and amount, or JSON lines"
            raise DataError(f"{path} must hold {expected}, was {_first_line(path)[:200]!r}")
        return kind(path, self.options, self.options.local_zone("UTC"))

    def _other(self, path: Path) -> _Source | None:
        """Open another file of the import; None if it has no updates, or is damaged, which its own reader reports."""
        with suppress(RiskrouteError):
            return self._open(path)
        return None

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per book and chunk of the files."""
        books: dict[tuple[str, str], LevelBook] = {}
        missing: Counter[tuple[str, str]] = Counter()
        names: dict[str, None] = {}
        before = None
        for source in self._sources:
            if before is not None and not source.continues(before):
                for key, book in books.items():
                    missing[key] += 1
                    for frame in book.forget():
                        yield self._part(*key, frame, missing)
            for part in source.parts(before):
                if self.options.symbols and part.symbol not in self.options.symbols:
                    continue
                key = part.venue, part.symbol
                missing[key] += part.gaps
                frames = books.setdefault(key, LevelBook(self.depth)).follow(part.updates)
                if part.events is not None or part.notes:
                    yield self._part(*key, next(frames, None), missing, part.events, dict(part.notes))
                for frame in frames:
                    yield self._part(*key, frame, missing)
            names |= source.names
            before = source
        for source in self._sources[-1:]:
            source.finish()
        for key, book in books.items():
            for frame in book.rest():
                yield self._part(*key, frame, missing)
        require_reading_symbols(self.options.symbols, names, self.source.name)

    def _part(
        self,
        venue: str,
        symbol: str,
        frame: polars.DataFrame | None,
        missing: Counter[tuple[str, str]],
        events: polars.DataFrame | None = None,
        notes: dict[str, int] | None = None,
    ) -> ReaderPart:
        """Return a part with the snapshots and events; gaps are counted with the next snapshots."""
        if frame is None:
            empty = polars.DataFrame(schema=snapshot_schema(self.depth, fractional=True))
            return ReaderPart(venue, symbol, empty, events, notes=notes or {})
        kept = level_book_snapshots(frame, venue, symbol, self.depth)
        gaps = missing.pop((venue, symbol), 0)
        return ReaderPart(venue, symbol, kept.with_columns(frame["deeper"]), events, gaps=gaps, notes=notes or {})


def _kind(path: Path, options: ReadingOptions) -> type[_Source] | None:
    """Return the class that reads a file of updates, by its first rows; None for other files."""
    kind = None if path.suffix.lower() == ".parquet" else _json_kind(path)
    return kind or (UpdateTable if trade_table_kind(path, options.columns) == "deltas" else None)


def _json_kind(path: Path) -> type[_Source] | None:
    """Return the class that reads a file of JSON lines, by its first line; None for other files."""
    line = _first_line(path)
    if not line.lstrip("0123456789 ").startswith("{"):
        return None
    return next((kind for names, kind in _JSON_NAMES.items() if all(f'"{name}"' in line for name in names)), None)


def _first_line(path: Path) -> str:
    """Return the first line that is not empty."""
    line = next((line for line in map(bytes.strip, unpacked_file_lines(path)) if line), b"")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be UTF-8 text: {error}") from error
