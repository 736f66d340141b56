"""Import market data files of any supported format into recordings in a folder; all files or none."""

from __future__ import annotations

import datetime as dt
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import polars

from riskroute.core.errors import DataError, InputError, NoBooksError
from riskroute.core.instrument import REG_NMS, SHARES, TRADING_ZONE, Instrument
from riskroute.core.validation import (
    if_given,
    instance_of,
    one_of,
    real_number,
    valid_function,
    valid_list,
    valid_path,
    whole_number,
)
from riskroute.market.readers.book_updates import BookUpdateReader
from riskroute.market.readers.csv_files import GZIP, ZSTD, csv_file_errors, csv_members, unpacked_csv_file
from riskroute.market.readers.databento import DatabentoReader
from riskroute.market.readers.iex import IexReader
from riskroute.market.readers.itch import ItchReader, looks_like_itch
from riskroute.market.readers.lobster import LobsterReader
from riskroute.market.readers.reading import ReaderPart, ReadingOptions
from riskroute.market.readers.table import TableReader
from riskroute.market.readers.taq import TaqReader
from riskroute.market.readers.ticks import TickReader
from riskroute.market.readers.trade_tables import TradeReader, trade_table_kind
from riskroute.market.recordings import EVENTS, SNAPSHOTS, Recording, RecordingSteps, RecordingStore, RecordingWriter
from riskroute.market.session_cut import SessionCut
from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market

# Some readers also have ``zone`` (of days and local times, if not New York), ``fractional`` (sizes may have decimals)
# and ``us_equity`` (whether the file holds US equities).
_Reader = (
    ItchReader
    | LobsterReader
    | TickReader
    | BookUpdateReader
    | DatabentoReader
    | TaqReader
    | IexReader
    | TableReader
    | TradeReader
)

READERS: dict[str, Callable[[Path, ReadingOptions], _Reader]] = {kind.name: kind for kind in get_args(_Reader)}

Progress = Callable[[str, int], None]  # called with the name of a file and the number of snapshots read so far
_Skipped = Callable[[Path, str], None]  # called with a skipped file and the reason

# Formats by their first bytes; most are recognised only to name them in errors.
_SIGNATURES = {
    **dict.fromkeys((b"PK\x03\x04", b"PK\x05\x06"), "a zip archive"),
    **{b"PAR1": "a Parquet table", b"ARROW1": "an Arrow (Feather) table", b"FEA1": "a Feather table"},
    **{b"\x89HDF\r\n\x1a\n": "an HDF5 file", b"%PDF": "a PDF document"},
    **dict.fromkeys((b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4"), "a network capture (pcap)"),
    **dict.fromkeys((b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d"), "a network capture (pcap)"),
    **{b"\xfd7zXZ\x00": "an xz archive", b"BZh": "a bzip2 archive", b"7z\xbc\xaf\x27\x1c": "a 7z archive"},
    **{b"Rar!\x1a\x07": "a RAR archive", b"\x04\x22\x4d\x18": "an lz4 archive", b"\x7fELF": "a program (ELF)"},
    **{b"SQLite format 3\x00": "an SQLite database", b"\x89PNG": "a PNG picture", b"\xff\xd8\xff": "a JPEG picture"},
    **{b"\x0a\x0d\x0d\x0a": "a network capture (pcapng)", b"\x93NUMPY": "a NumPy array", b"Obj\x01": "an Avro file"},
    **{b"\xd0\xcf\x11\xe0": "an old Office document", b"\xff\xfe": "text in UTF-16", b"\xfe\xff": "text in UTF-16"},
    **{GZIP: "gzip within gzip or zstd", ZSTD: "zstd within gzip or zstd"},
}


class _Content(NamedTuple):
    """Content of a file as detected from its first bytes, and its compression (``gzip``, ``zstd`` or empty)."""

    what: str
    packing: str

    @property
    def unknown(self) -> bool:
        """Whether the format cannot be identified."""
        return self.what in ("empty", "truncated or damaged") or self.what.startswith("unknown")

    def __str__(self) -> str:
        return f"{self.what}, compressed with {self.packing}" if self.packing else self.what


def _sniff(path: Path) -> _Content:
    """Detect the content of a file from its first bytes, whatever its name."""
    with csv_file_errors(path):
        with path.open("rb") as file:
            start = file.read(4)
        packing = "gzip" if start[:2] == GZIP else "zstd" if start == ZSTD else ""
        head, whole = b"", True
        with unpacked_csv_file(path) as file:
            try:
                while len(head) < 1 << 16 and (part := file.read1((1 << 16) - len(head))):
                    head += part
            except (EOFError, OSError, zlib.error):
                whole = False  # a truncated archive: its first bytes still identify the format
    return _Content(_describe(head) if head or whole else "truncated or damaged", packing)


def _describe(head: bytes) -> str:
    r"""Return the name of the format that the first bytes of a file indicate.

    >>> _describe(b"%PDF-1.7"), _describe(b"time,bid"), _describe(b"DBN\x03"), _describe(bytes(8))
    ('a PDF document', 'text', 'DBN', 'unknown bytes (00 00 00 00 00 00 00 00)')
    """
    if not head:
        return "empty"
    if head[257:262] == b"ustar":
        return "a tar archive"
    for signature, what in _SIGNATURES.items():
        if head.startswith(signature):
            return what
    if head[:3] == b"DBN" and b"\x00" < head[3:4] < b"\x20":
        return "DBN"
    if looks_like_itch(head):
        return "ITCH"
    return _text(head) or f"unknown bytes ({head[:8].hex(' ')})"


def _text(head: bytes) -> str:
    """Return the kind of text, or an empty string for binary data."""
    try:
        text = head[: max(len(head) - 3, 1)].decode("utf-8-sig")  # the last character may be cut in half
    except UnicodeDecodeError:
        return ""
    if any(letter < " " and letter not in "\t\r\n\f" for letter in text):
        return ""
    begin = text.lstrip()[:15].lower()
    if begin.startswith(("<!doctype", "<html", "<?xml", "<head")):
        return "a web page or XML"
    return "JSON" if begin.startswith(("{", "[")) else "text"


def _detect_format(path: Path, options: ReadingOptions | None = None) -> str:
    """Return the key in `READERS` of a file's format: by content, and by name where formats have the same content."""
    options = options or ReadingOptions()
    if not path.is_file():
        raise InputError(f"no such file: {str(path)!r}")
    content = _sniff(path)
    text_name = re.search(r"\.csv|\.zip$", path.name, re.IGNORECASE)
    itch_name = re.search(r"_ITCH_?\d|\.itch|-v50", path.name, re.IGNORECASE)
    claimed = "itch" if itch_name and not text_name else ""
    claimed = "table" if path.suffix.lower() == ".parquet" else claimed
    if content.what == "DBN":
        return "databento"
    if content.what == "ITCH" and content.packing != "zstd" and claimed != "table":
        return "itch"
    if content.what == "a Parquet table" and not content.packing:
        if claimed != "table":
            raise DataError(f"{path} is a Parquet table; rename it so that it ends in .parquet")
        return trade_table_kind(path, options.columns) or TableReader.name
    if content.what.startswith("a network capture") and IexReader.recognises(path):
        return "iex"
    if BookUpdateReader.recognises(path):
        return "deltas"
    if claimed or not (content.what in ("a zip archive", "text") or (content.unknown and text_name)):
        # A damaged file in a folder must not be skipped silently; a file without market data may be.
        error = DataError if claimed or content.what == "truncated or damaged" else NoBooksError
        expected = {
            "itch": "be a complete NASDAQ ITCH 5.0 file, raw or gzip",
            "table": "be a Parquet table, as its name says",
            "": "hold market data (ITCH 5.0, DBN, CSV, Parquet, or books and trades as JSON lines)",
        }
        raise error(f"{path} must {expected[claimed]}, was {content}")
    if not csv_members(path):
        raise NoBooksError(f"{path} must be an archive of CSV files, has none")
    named = LobsterReader, TickReader, TaqReader, DatabentoReader
    found = next((kind.name for kind in named if kind.recognises(path)), "")
    return found or (len(csv_members(path)) == 1 and trade_table_kind(path, options.columns)) or TableReader.name


def import_files(
    paths: Sequence[Path],
    out: Path,
    options: ReadingOptions,
    *,
    kind: str | None = None,
    max_unresolved: float = 0.01,
    max_crossed: float = 0.01,
    progress: Progress | None = None,
    skipped: _Skipped | None = None,
) -> list[Recording]:
    """Read files into recordings in ``out``; if one file is refused, nothing is written.

    Parameters
    ----------
    paths : Sequence[Path]
        Files or folders; files in a folder that hold no books are skipped.
    options : ReadingOptions
        Symbols, levels, hours, and facts that the files do not state.
    kind : str, optional
        Format, a key of `READERS`; default: detected.
    max_unresolved : float
        Refuse a file if a larger fraction of the order references of one of its recordings is unresolved.
    max_crossed : float
        Refuse a file if one of its recordings is crossed or locked in a larger fraction of the snapshots, or for a
        larger fraction of the time and more than 60 s at a stretch.
    progress : Progress, optional
        Called after every part, with file name and number of snapshots.
    skipped : _Skipped, optional
        Called with every skipped file of a folder, and the reason.
    """
    limits = {
        "unresolved": real_number("max_unresolved", max_unresolved, minimum=0, maximum=1),
        "crossed": real_number("max_crossed", max_crossed, minimum=0, maximum=1),
    }
    if_given(one_of, "kind", kind, tuple(READERS))
    files = [valid_path("a file", path) for path in valid_list("files", paths, object, "paths")]
    out = valid_path("out", out)
    instance_of("options", options, ReadingOptions, "a ReadingOptions")
    if_given(valid_function, "progress", progress)
    if_given(valid_function, "skipped", skipped)
    if not files:
        raise InputError("no files to import; name at least one")
    books: dict[tuple[Any, ...], _BookImport] = {}
    writers: dict[tuple[str, str, dt.date], RecordingWriter] = {}
    venues: dict[str, None] = {}
    try:
        for reader in _readers(files, options, kind, skipped):
            if options.zone is not None and not hasattr(reader, "zone"):
                where = f"{reader.source.name}, whose days are in {TRADING_ZONE} time"
                raise InputError(f"omit zone for {where}; zone was {options.zone!r}")
            if isinstance(reader, TradeReader):
                _add_trades(reader, options, books, venues, progress)
                continue
            mine = _read(reader, options, out, books, writers, venues, progress)
            _judge(reader, mine, limits)
        for old in options.venue_names:
            if old not in venues:
                raise InputError(f"venue to rename must be one of {', '.join(venues)}, was {old!r}")
        whole = [writer for writer in writers.values() if writer.recording.snapshots]
        for writer in whole:
            writer.finish()
        for writer in whole:
            writer.commit()
    finally:
        for writer in writers.values():
            writer.discard()
    return [writer.recording for writer in whole]


def _readers(
    paths: Sequence[Path], options: ReadingOptions, kind: str | None, skipped: _Skipped | None
) -> Iterator[_Reader]:
    """Expand folders; yield a reader per file, LOBSTER pair or book of updates, and one for all tables of trades."""
    in_folders = {file for path in paths if path.is_dir() for file in _files_in(path)}
    files = [file for path in paths for file in (_files_in(path) if path.is_dir() else [path])]
    read: set[Path] = set()
    opened: dict[Path, Any] = {}
    trades: list[Path] = []
    zones: set[str] = set()
    count = 0
    for path in dict.fromkeys(files):
        if path in read:
            continue
        try:
            found = kind or _detect_format(path, options)
            if found == "trades":
                trades.append(path)
                continue
            if found == "deltas":
                reader: _Reader = BookUpdateReader(path, options, files, opened)
            else:
                reader = LobsterReader(path, options, files) if found == "lobster" else READERS[found](path, options)
        except NoBooksError as error:
            if path not in in_folders:
                raise
            if skipped is not None:
                skipped(path, str(error))
            continue
        read |= reader.files if isinstance(reader, LobsterReader | BookUpdateReader) else {path}
        zones.add(getattr(reader, "zone", TRADING_ZONE))
        count += 1
        yield reader
    if trades and (count or not set(trades) <= in_folders):
        yield TradeReader(trades, options, zones)
    elif not count:
        folders = ", ".join(str(path) for path in paths)
        raise DataError(f"{folders}: no market data found")


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


class _VenueNames:
    """Requested names of a file's venues: ``options.venue`` selects the venue so named, or renames the only one."""

    def __init__(self, source: Path, options: ReadingOptions) -> None:
        self.source, self.options = source, options
        self.seen: dict[str, None] = {}

    def new(self, venue: str) -> str | None:
        """Return the requested name of a venue, None if the venue is not selected."""
        self.seen[venue] = None
        wanted = self.options.venue
        if wanted is None:
            return self.options.venue_names.get(venue, venue)
        # Only the end of the file tells whether ``venue`` selects or renames; until then, the first venue is renamed.
        return wanted if venue == (wanted if wanted in self.seen else next(iter(self.seen))) else None

    def check(self) -> None:
        """Raise `InputError` if ``options.venue`` would rename several venues."""
        wanted = self.options.venue
        if wanted is not None and wanted not in self.seen and len(self.seen) > 1:
            raise InputError(
                f"venue must be one of {', '.join(self.seen)} in {self.source.name}, was {wanted!r}; "
                f"venue = OLD=NEW renames one of them"
            )


class _BookImport:
    """Writes the recordings of one venue and symbol, one per session day, from the parts of one or more files."""

    def __init__(
        self,
        out: Path,
        options: ReadingOptions,
        venue: str,
        symbol: str,
        reader: _Reader,
        writers: dict[tuple[str, str, dt.date], RecordingWriter],
    ) -> None:
        self.out, self.venue, self.symbol, self.writers = out, venue, symbol, writers
        self.derived, self.instrument = _instrument(reader, options, symbol)
        self.touched: dict[dt.date, Recording] = {}  # recordings with rows of the current file
        self.named, self.files = ("", ""), 0  # venue and symbol in the current file, number of files
        self._reader = reader
        self._days: set[dt.date] = set()
        self._cut, self._trades = (
            SessionCut(self.instrument, options.date, options.start, options.end) for _ in range(2)
        )
        self._traded: set[dt.date] = set()  # days with trades of another file
        self._steps = RecordingSteps()
        self._open: dict[str, RecordingWriter] = {}  # by table, the recording to which rows were added last
        self._waiting: Counter[str] = Counter()  # counts for the next recording with snapshots

    def begin(self, reader: _Reader, named: tuple[str, str]) -> None:
        """Begin a file of this book, which calls its venue and symbol ``named``."""
        self._cut.begin_file(reader.date)
        self._reader, self.named, self.touched, self.files = reader, named, {}, self.files + 1

    def add(self, part: ReaderPart) -> None:
        """Write the rows of a part to the recordings of their days."""
        days: list[Recording] = []
        self._waiting.update(part.notes, references=part.references, unresolved=part.unresolved, gaps=part.gaps)
        # Without events of orders, a day without trades has no table of events.
        orders = part.events is not None and bool((part.events["action"] != "T").any() or not part.events.height)
        for piece in self._cut.cut(part):
            self._waiting.update(outside=piece.outside, other_days=piece.other_days)
            traded = piece.events is not None and piece.events.height > 0
            if not piece.snapshots.height and not traded:
                continue
            writer = self._writer(piece.day)
            self._write(writer, SNAPSHOTS, piece.snapshots, writer.add_snapshots)
            if piece.events is not None and (traded or orders):
                self._write(writer, EVENTS, piece.events, writer.add_events)
            if piece.carried is not None:
                writer.recording.notes["carried"] = str(np.datetime64(piece.carried, "ns"))
            days += [writer.recording] if piece.snapshots.height else []
        if days:
            self._count(days[0])
            for one in days[1:]:
                one.gaps += part.gaps  # the gap may be on any of the days, so each day reports it

    def add_trades(self, part: ReaderPart, source: str) -> int:
        """Add public trades of another file to the days that have books; return their number."""
        self.named, count = (part.venue, part.symbol), 0
        self._waiting.update(part.notes)
        for piece in self._trades.cut(part):
            events = piece.events
            if events is None or not events.height:
                continue
            if piece.day not in self._days:
                notes = self.writers[self.venue, self.symbol, max(self._days)].recording.notes
                notes["other_trades"] = notes.get("other_trades", 0) + events.height
                continue
            writer = self.writers[self.venue, self.symbol, piece.day]
            if writer.recording.trades and piece.day not in self._traded:
                raise DataError(f"two files hold trades of {writer.recording.stem}; import one of them")
            self._traded.add(piece.day)
            writer.source = source
            self._write(writer, EVENTS, events, writer.add_events)
            self._count(writer.recording)
            count += events.height
        return count

    def end(self) -> None:
        """End a file: add the counts that are left to its last recording with snapshots."""
        found = [one for one in self.touched.values() if one.snapshots]
        if found:
            self._count(found[-1])

    def discard(self) -> None:
        """Remove the uncommitted files."""
        for day in self._days:
            self.writers.pop((self.venue, self.symbol, day)).discard()

    def _writer(self, day: dt.date) -> RecordingWriter:
        """Return the writer of a day, ready for rows of the current file."""
        reader, key = self._reader, (self.venue, self.symbol, day)
        if day in self.touched:
            return self.writers[key]
        if day.year < 1990:
            expected = f"dated 1990-01-01 or later, was {day}: are its times in another unit?"
            raise DataError(f"{reader.source} must be {expected}")
        if key not in self.writers:
            files = [one.name for one in sorted(reader.files)] if isinstance(reader, BookUpdateReader) else []
            source = ", ".join(files) or str(reader.source.name)
            one = Recording(self.venue, self.symbol, day, reader.depth, source, reader.name)
            one.fractional, one.derived, one.instrument = hasattr(reader, "fractional"), self.derived, self.instrument
            self.writers[key] = RecordingWriter(self.out, one, self._steps)
        elif reader.date is not None or day not in self._days:
            twice = self.writers[key].recording
            raise InputError(f"two files hold {twice.stem}; import one of them, or give venue, depth or date")
        else:
            self.writers[key].extend(str(reader.source.name))
        self._days.add(day)
        self.touched[day] = self.writers[key].recording
        return self.writers[key]

    def _write(
        self, writer: RecordingWriter, table: str, frame: polars.DataFrame, add: Callable[[polars.DataFrame], None]
    ) -> None:
        before = self._open.get(table)
        if frame.height and before is not writer:
            if before is not None:
                before.close(table)
            self._open[table] = writer
        names = {"venue": self.venue, "symbol": self.symbol}
        renamed = self.named != (self.venue, self.symbol) and "venue" in frame.columns
        add(frame.with_columns(polars.lit(new).alias(name) for name, new in names.items()) if renamed else frame)

    def _count(self, one: Recording) -> None:
        """Add the waiting counts to a recording."""
        for what, some in self._waiting.items():
            if what in ("references", "unresolved", "gaps"):
                setattr(one, what, getattr(one, what) + some)
            elif some:
                one.notes[what] = one.notes.get(what, 0) + some
        self._waiting.clear()


def _read(
    reader: _Reader,
    options: ReadingOptions,
    out: Path,
    books: dict[tuple[Any, ...], _BookImport],
    writers: dict[tuple[str, str, dt.date], RecordingWriter],
    venues: dict[str, None],
    progress: Progress | None,
) -> list[_BookImport]:
    mine: dict[tuple[Any, ...], _BookImport] = {}
    names = _VenueNames(reader.source, options)
    count = 0
    for part in reader.parts():
        venue = names.new(part.venue)
        if venue is None:
            continue
        symbol, named = options.symbol_names.get(part.symbol, part.symbol), (part.venue, part.symbol)
        # Files of other formats make recordings of their own.
        key = (venue, symbol, reader.name, reader.depth, _instrument(reader, options, symbol))
        if part.venue == options.venue:  # the venue exists: discard the books of others that were renamed to it
            for other in [other for other, one in mine.items() if one.named[0] != part.venue]:
                if mine.pop(other).files > 1:
                    raise InputError(f"{reader.source.name} has several venues, as have other files; venue = OLD=NEW")
                books.pop(other).discard()
        if key not in mine:
            if key not in books:
                books[key] = _BookImport(out, options, venue, symbol, reader, writers)
            books[key].begin(reader, named)
            mine[key] = books[key]
        elif mine[key].named != named:
            twice = f"venues of {reader.source.name} are named {venue}"
            if mine[key].named[0] == part.venue:
                twice = f"symbols of {reader.source.name} are named {symbol}"
            raise InputError(f"two {twice}; give each its own name")
        mine[key].add(part)
        count += part.snapshots.height
        if progress is not None:
            progress(reader.source.name, count)
    for one in mine.values():
        one.end()
    names.check()
    venues.update(names.seen)
    return list(mine.values())


def _add_trades(
    reader: TradeReader,
    options: ReadingOptions,
    books: dict[tuple[Any, ...], _BookImport],
    venues: dict[str, None],
    progress: Progress | None,
) -> None:
    """Add trades to the books of the same venue, symbol and day; refuse trades of other venues and symbols."""
    names = _VenueNames(reader.source, options)
    count = 0
    for part in reader.parts():
        venue = names.new(part.venue)
        symbol = options.symbol_names.get(part.symbol, part.symbol)
        mine = [book for key, book in books.items() if key[:2] == (venue, symbol)]
        if venue is not None and not mine:
            raise DataError(
                f"{reader.source} has trades of {symbol} at {venue}, which change no book; import them together "
                f"with book updates or snapshots of {symbol} at {venue}"
            )
        for book in mine:
            count += book.add_trades(part, reader.source.name)
    names.check()
    venues.update(names.seen)
    if progress is not None:
        progress(reader.source.name, count)


def _instrument(reader: _Reader, options: ReadingOptions, symbol: str) -> tuple[bool, Instrument]:
    """Return whether unit and tick are to be derived, and the declared instrument or the default one of a feed."""
    if symbol in options.instruments:
        return False, options.instruments[symbol]
    if getattr(reader, "us_equity", reader.name in ("itch", "lobster", "taq", "ticks")):
        return False, Instrument(symbol, protection=REG_NMS)
    counted = getattr(reader, "quantity", SHARES.quantity)
    return True, Instrument(symbol, zone=getattr(reader, "zone", TRADING_ZONE), quantity=counted)


def _judge(reader: _Reader, books: Sequence[_BookImport], limits: dict[str, float]) -> None:
    """Raise `DataError` if a file has no snapshots of a symbol, or a recording exceeds a limit."""
    recordings = [one for book in books for one in book.touched.values() if one.snapshots]
    empty = [f" of {book.symbol}" for book in books if book.symbol not in {one.symbol for one in recordings}]
    if empty or not recordings:
        which = empty[0] if empty else ""
        raise DataError(f"{reader.source} has no snapshots{which} in the requested part of the day")
    for one in recordings:
        faults = {
            "unresolved": (one.unresolved_share, one.unresolved, one.references, "unresolved order references"),
            "crossed": (one.crossed_share, one.crossed, one.snapshots, "crossed or locked snapshots"),
        }
        where = f"{reader.source} ({one.venue} {one.symbol})"
        for name, (share, some, of, what) in faults.items():
            if share > limits[name]:
                # before the opening and in auctions books are crossed on purpose
                declare = name == "crossed" and not one.instrument.hours
                advice = "; an instrument with hours leaves out those outside its session" if declare else ""
                raise DataError(
                    f"{where} must have at most {limits[name]:.1%} {what}, was {share:.1%} ({some:,} of {of:,}); "
                    f"max_{name} = {_above(share)} imports it anyway{advice}"
                )
        # A few crossed snapshots may be in force for hours.
        longest, share = one.notes.get("longest_crossed", 0.0), one.notes.get("crossed_time_share", 0.0)
        if longest > 60 and share > limits["crossed"]:
            raise DataError(
                f"{where} must be crossed or locked for at most {limits['crossed']:.1%} of the time, was {share:.1%}, "
                f"longest stretch {longest:,.0f} s; max_crossed = {_above(share)} imports it anyway"
            )


def _above(share: float) -> str:
    """Return the next whole percent above ``share``, at most 1, as text.

    >>> _above(0.1441), _above(0.999)
    ('0.15', '1')
    """
    return f"{min(int(share * 100 + 1) / 100, 1):g}"


@dataclass(frozen=True)
class ImportedBooks:
    """Recorded books of one symbol, with a description of their origin."""

    store: RecordingStore
    symbol: str
    origin: str
    date: dt.date | None = None

    @property
    def recordings(self) -> list[Recording]:
        """One recording per venue."""
        return self.store.of_symbol(self.symbol, self.date)

    @property
    def deepest(self) -> str:
        """The venue with the most snapshots."""
        return max(self.recordings, key=lambda one: one.snapshots).venue


def import_books(
    data: Path | None,
    symbol: str | None,
    out: Path,
    seed: int,
    *,
    depth: int | None = None,
    hours: tuple[dt.time, dt.time] = (dt.time(11), dt.time(13)),
    date: dt.date | None = None,
) -> ImportedBooks:
    """Open the recorded books in ``data``, or generate a synthetic market of ``hours`` and import it below ``out``.

    ``depth`` is the number of levels per side kept of the synthetic market; default: up to 50.
    """
    whole_number("seed", seed, minimum=0)
    if data is not None:
        store = RecordingStore(data)
        symbols = tuple(dict.fromkeys(one.symbol for one in store.recordings()))
        if not symbols:
            raise DataError(f"{str(data)!r} holds no recordings; run `riskroute market import` first")
        chosen = symbol.upper() if symbol is not None else symbols[0] if len(symbols) == 1 else ""
        return ImportedBooks(store, one_of("symbol", chosen, symbols), f"{chosen} in {data}", date)
    name = symbol.upper() if symbol is not None else DEFAULT_SYMBOLS[0]
    opening = dt.datetime.combine(dt.date(2000, 1, 1), hours[0])
    # Synthetic books start empty: ten more minutes before the requested hours fill them.
    earlier = max(opening - dt.timedelta(minutes=10), dt.datetime.combine(opening.date(), dt.time.min)).time()
    files = generate_market(out / "market", seed=seed, symbols=(name,), hours=(earlier, hours[1]))
    import_files(files, out / "market" / "books", ReadingOptions((name,), depth=depth))
    return ImportedBooks(RecordingStore(out / "market" / "books"), name, f"{name} of the synthetic market, seed {seed}")
