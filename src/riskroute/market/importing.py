"""Import: files of any kind that is understood become recordings in a folder, all of them or none."""

from __future__ import annotations

import datetime as dt
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars

from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import function_of, instance_of, list_of, one_of, path_of, real_number, whole_number
from riskroute.market.clock import TRADING_ZONE
from riskroute.market.quality import CROSSED_TOO_LONG, check_recorded_day
from riskroute.market.readers.book_updates import UpdateReader, is_book_updates
from riskroute.market.readers.databento import DatabentoReader, is_databento_header
from riskroute.market.readers.itch import ItchReader, looks_like_itch
from riskroute.market.readers.lobster import LobsterReader, is_lobster
from riskroute.market.readers.reading import ImportOptions, NoBooksError, Reader, ReaderPart
from riskroute.market.readers.streams import GZIP, ZSTD, csv_header, csv_members, file_errors, unpacked
from riskroute.market.readers.table import TableReader
from riskroute.market.readers.taq import TaqReader, is_taq
from riskroute.market.readers.ticks import TickReader, is_ticks
from riskroute.market.store import Recording, RecordingWriter, Store
from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market

# What a file holds, told by its first bytes rather than by its name.


HEAD = 1 << 16
"""Bytes that are looked at."""

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"PK\x05\x06", "a zip archive"),
    (0, b"PAR1", "a Parquet table"),
    (0, b"ARROW1", "an Arrow (Feather) table"),
    (0, b"FEA1", "a Feather table"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\xd4\xc3\xb2\xa1", "a network capture (pcap)"),
    (0, b"\xa1\xb2\xc3\xd4", "a network capture (pcap)"),
    (0, b"\x4d\x3c\xb2\xa1", "a network capture (pcap)"),
    (0, b"\xa1\xb2\x3c\x4d", "a network capture (pcap)"),
    (0, b"\x0a\x0d\x0d\x0a", "a network capture (pcapng)"),
    (0, b"\xfd7zXZ\x00", "an xz archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (0, b"\x04\x22\x4d\x18", "an lz4 archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x7fELF", "a program (ELF)"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"GIF8", "a GIF picture"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"\xd0\xcf\x11\xe0", "an old Office document"),
    (0, b"\xff\xfe", "text in UTF-16"),
    (0, b"\xfe\xff", "text in UTF-16"),
    (0, GZIP, "gzip within gzip or zstd"),
    (0, ZSTD, "zstd within gzip or zstd"),
)

PARQUET, ZIP, DBN, ITCH, TEXT = "a Parquet table", "a zip archive", "DBN", "ITCH", "text"
"""Words for contents that somebody reads."""

EMPTY, DAMAGED = "empty", "cut off or damaged"


class Content(NamedTuple):
    """What a file holds, in words, how it is packed (``gzip``, ``zstd`` or not at all), and its first bytes."""

    what: str
    packing: str
    head: bytes

    @property
    def odd(self) -> bool:
        """Whether the bytes tell nothing."""
        return self.what in (EMPTY, DAMAGED) or self.what.startswith("unknown")

    def __str__(self) -> str:
        return f"{self.what}, packed with {self.packing}" if self.packing else self.what


def content_of(path: Path) -> Content:
    """What a file holds."""
    with file_errors(path):
        with path.open("rb") as file:
            start = file.read(4)
        packing = "gzip" if start[:2] == GZIP else "zstd" if start == ZSTD else ""
        with unpacked(path) as file:
            head, whole = _head(file)
    return Content(bytes_are(head) if head or whole else DAMAGED, packing, head)


def _head(file: Any) -> tuple[bytes, bool]:
    """The first bytes, and whether they could be read; of an archive that is cut off, those before the cut."""
    head = b""
    try:
        while len(head) < HEAD and (part := file.read1(HEAD - len(head))):
            head += part
    except (EOFError, OSError, zlib.error):
        return head, False
    return head, True


def bytes_are(head: bytes) -> str:
    r"""What first bytes belong to, in words.

    Examples
    --------
    >>> bytes_are(b"%PDF-1.7"), bytes_are(b"time,bid"), bytes_are(b"DBN\x03"), bytes_are(bytes(8))
    ('a PDF document', 'text', 'DBN', 'unknown bytes (00 00 00 00 00 00 00 00)')
    """
    if not head:
        return EMPTY
    for place, mark, what in _SIGNATURES:
        if head[place : place + len(mark)] == mark:
            return what
    if head[:3] == b"DBN" and b"\x00" < head[3:4] < b"\x20":
        return DBN
    if looks_like_itch(head):
        return ITCH
    return _text(head) or f"unknown bytes ({head[:8].hex(' ')})"


def _text(head: bytes) -> str:
    """Kind of text, nothing if the bytes are none."""
    try:
        text = head[: max(len(head) - 3, 1)].decode("utf-8-sig")  # the last letter may be cut off
    except UnicodeDecodeError:
        return ""
    if any(letter < " " and letter not in "\t\r\n\f" for letter in text):
        return ""
    begin = text.lstrip()[:15].lower()
    if begin.startswith(("<!doctype", "<html", "<?xml", "<head")):
        return "a web page or XML"
    return "JSON" if begin.startswith(("{", "[")) else TEXT


READERS: dict[str, Callable[[Path, ImportOptions], Reader]] = {
    "itch": ItchReader,
    "lobster": LobsterReader,
    "ticks": TickReader,
    "deltas": UpdateReader,
    "databento": DatabentoReader,
    "taq": TaqReader,
    "table": TableReader,
}
"""Readers by the name of their format."""

Progress = Callable[[str, int], None]
"""Called with the name of a file and the number of snapshots read so far."""

Skipped = Callable[[Path, str], None]
"""Called with a file that was left out, and why."""


_ITCH_NAME = re.compile(r"_ITCH_?\d|\.itch|-v50", re.IGNORECASE)
_TEXT_NAME = re.compile(r"\.csv|\.zip$", re.IGNORECASE)
_EXPECTED = {
    "itch": "be a whole NASDAQ ITCH 5.0 file, raw or gzip",
    "table": "hold a Parquet table, as its name says",
    "": "hold market data (ITCH 5.0, DBN, CSV, Parquet, or depth updates of Binance as JSON)",
}


def detect_format(path: Path) -> str:
    """Which reader a file is for: by what it holds, and by its name where several read that."""
    if not path.is_file():
        raise InputError(f"file must be there, was {str(path)!r}")
    content = content_of(path)
    told = "" if _TEXT_NAME.search(path.name) else "itch" if _ITCH_NAME.search(path.name) else ""
    told = "table" if path.suffix.lower() == ".parquet" else told
    if content.what == DBN:
        return "databento"
    if content.what == ITCH and content.packing != "zstd" and told != "table":
        return "itch"
    if content.what == PARQUET and not content.packing:
        if told != "table":
            raise DataError(f"{path} must have the ending .parquet, was a Parquet table of another name")
        return "table"
    if is_book_updates(path):
        return "deltas"
    if told or not (content.what in (ZIP, TEXT) or (content.odd and _TEXT_NAME.search(path.name))):
        error = DataError if told or content.what == DAMAGED else NoBooksError
        raise error(f"{path} must {_EXPECTED[told]}, was {content}")
    return _kind_of_text(path)


def _kind_of_text(path: Path) -> str:
    if not csv_members(path):
        raise NoBooksError(f"{path} must hold CSV files, was an archive without any")
    if is_lobster(path):
        return "lobster"
    if is_ticks(path):
        return "ticks"
    if is_taq(path):
        return "taq"
    return "databento" if is_databento_header(csv_header(path)) else "table"


def import_files(
    paths: Sequence[Path],
    out: Path,
    options: ImportOptions,
    *,
    kind: str | None = None,
    max_unresolved: float = 0.01,
    max_crossed: float = 0.01,
    progress: Progress | None = None,
    skipped: Skipped | None = None,
) -> list[Recording]:
    """Read files into recordings in ``out``; nothing is left there if one of them cannot be used.

    Parameters
    ----------
    paths : Sequence[Path]
        Files, and folders of files; those of a folder that hold no books are left out.
    options : ImportOptions
        Symbols, levels, part of the day.
    kind : str, optional
        One of `READERS`; found out if None.
    max_unresolved : float
        Share of references to orders that are not in the file, above which it is refused.
    max_crossed : float
        Share of snapshots with bid at or above ask, above which it is refused.
    progress : Progress, optional
        Told about what was read.
    skipped : Skipped, optional
        Told about the files of a folder that were left out.
    """
    limits = {
        "unresolved": real_number("max_unresolved", max_unresolved, minimum=0, maximum=1),
        "crossed": real_number("max_crossed", max_crossed, minimum=0, maximum=1),
    }
    if kind is not None:
        one_of("kind", kind, tuple(READERS))
    files = [path_of("a file", path) for path in list_of("files", paths, object, "paths")]
    out = path_of("out", out)
    instance_of("options", options, ImportOptions, "an ImportOptions")
    for name, function in (("progress", progress), ("skipped", skipped)):
        if function is not None:
            function_of(name, function)
    if not files:
        raise InputError("no files given")
    writers: dict[tuple[str, str, str], RecordingWriter] = {}
    venues: dict[str, None] = {}
    try:
        for reader in _readers(files, options, kind, skipped):
            _check_scales(reader, options)
            mine = _read(reader, options, out, writers, venues, progress)
            _judge(reader, [writers[key].recording for key in mine], limits)
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
    paths: Sequence[Path], options: ImportOptions, kind: str | None, skipped: Skipped | None
) -> Iterator[Reader]:
    """Readers of files and of those in folders; both files of LOBSTER have one."""
    in_folders = {file for path in paths if path.is_dir() for file in _files_in(path)}
    files = [file for path in paths for file in (_files_in(path) if path.is_dir() else [path])]
    read: set[Path] = set()
    count = 0
    for path in dict.fromkeys(files):
        if path in read:
            continue
        try:
            found = kind or detect_format(path)
            reader = LobsterReader(path, options, files) if found == "lobster" else READERS[found](path, options)
        except NoBooksError as error:
            if path not in in_folders:
                raise
            if skipped is not None:
                skipped(path, str(error))
            continue
        read |= reader.files if isinstance(reader, LobsterReader) else {path}
        count += 1
        yield reader
    if not count:
        folders = ", ".join(str(path) for path in paths)
        raise DataError(f"{folders} must hold files of market data, was without any")


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _check_scales(reader: Reader, options: ImportOptions) -> None:
    """Refuse a unit or a zone for files whose sizes are whole shares and whose days are New York's."""
    for name, whose in (("unit", "sizes are whole shares"), ("zone", f"days are those of {TRADING_ZONE}")):
        value = getattr(options, name)
        if value is not None and not hasattr(reader, name):
            raise InputError(f"{name} must be left out for {reader.source.name}, whose {whose}, was {value!r}")


class _VenueNames:
    """Names for the venues that a file tells: those asked for.

    ``venue`` of the options chooses the venue of that name, or renames the only one of the file. Which of the two shows
    while the file is read: its first venue has the new name until the venue of that name appears.
    """

    def __init__(self, source: Path, options: ImportOptions) -> None:
        self.source, self.options = source, options
        self.told: dict[str, None] = {}

    def new(self, told: str) -> str | None:
        """Return the new name of a venue, None if it is not wanted."""
        self.told[told] = None
        wanted = self.options.venue
        if wanted is None:
            return self.options.venue_names.get(told, told)
        return wanted if told == (wanted if wanted in self.told else next(iter(self.told))) else None

    def check(self) -> None:
        """Refuse a new name for several venues."""
        wanted = self.options.venue
        if wanted is not None and wanted not in self.told and len(self.told) > 1:
            raise InputError(
                f"venue must be one of {', '.join(self.told)}, which {self.source.name} holds, was {wanted!r}; "
                f"venue = OLD=NEW renames one of them"
            )


def _read(
    reader: Reader,
    options: ImportOptions,
    out: Path,
    writers: dict[tuple[str, str, str], RecordingWriter],
    venues: dict[str, None],
    progress: Progress | None,
) -> set[tuple[str, str, str]]:
    mine: dict[tuple[str, str, str], str] = {}  # keys of writers, and the venues that the file tells
    names = _VenueNames(reader.source, options)
    count = 0
    for part in reader.parts():
        venue = names.new(part.venue)
        if venue is None:
            continue
        key = (venue, part.symbol, str(reader.date))
        if part.venue == options.venue:
            for other in [other for other, told in mine.items() if told != part.venue]:
                writers.pop(other).discard()
                del mine[other]
        if mine.get(key) != part.venue:
            if key in writers:
                twice = writers[key].recording
                raise InputError(f"files must be of different venues, symbols or days, was {twice.stem} twice")
            mine[key] = part.venue
            check_recorded_day(reader.date, reader.source)
            source = str(reader.source.name)
            kept = {name: getattr(reader, name) for name in ("unit", "zone", "us_equity") if hasattr(reader, name)}
            writers[key] = RecordingWriter(
                out, Recording(venue, part.symbol, reader.date, reader.depth, source, reader.name, **kept)
            )
        _write(writers[key], part)
        count += part.snapshots.height
        if progress is not None:
            progress(reader.source.name, count)
    names.check()
    venues.update(names.told)
    return set(mine)


def _write(writer: RecordingWriter, part: ReaderPart) -> None:
    one = writer.recording
    for frame, add in ((part.snapshots, writer.add_snapshots), (part.events, writer.add_events)):
        if frame is not None:
            renamed = part.venue != one.venue and "venue" in frame.columns
            add(frame.with_columns(polars.lit(one.venue).alias("venue")) if renamed else frame)
    one.references += part.references
    one.unresolved += part.unresolved
    one.deeper += part.deeper
    one.gaps += part.gaps
    for what, some in part.notes.items():
        one.notes[what] = one.notes.get(what, 0) + some


def _judge(reader: Reader, recordings: Sequence[Recording], limits: dict[str, float]) -> None:
    """Refuse what is empty, or more broken than allowed."""
    symbols = {one.symbol for one in recordings if one.snapshots}
    empty = [f" of {one.symbol}" for one in recordings if one.symbol not in symbols]
    if empty or not recordings:
        which = empty[0] if empty else ""
        raise DataError(f"{reader.source} must hold books{which} in the wanted part of the day, was without any")
    for one in recordings:
        faults = {
            "unresolved": (
                one.unresolved_share,
                one.unresolved,
                one.references,
                "references to orders not in the file",
            ),
            "crossed": (one.crossed_share, one.crossed, one.snapshots, "snapshots with bid at or above ask"),
        }
        for name, (share, some, of, what) in faults.items():
            if share > limits[name]:
                higher = f"max_{name} = {_above(share)}"
                raise DataError(
                    f"{reader.source} ({one.venue} {one.symbol}) must have at most {limits[name]:.1%} {what}, "
                    f"was {share:.1%} ({some:,} of {of:,}); {higher} goes on all the same"
                )
        _judge_stretch(reader, one, limits["crossed"])


def _judge_stretch(reader: Reader, one: Recording, limit: float) -> None:
    """Refuse books that are crossed for long, if that is more of the time than allowed: few may stand for hours."""
    longest, share = one.notes.get("longest_crossed", 0.0), one.notes.get("crossed_time_share", 0.0)
    if longest > CROSSED_TOO_LONG and share > limit:
        raise DataError(
            f"{reader.source} ({one.venue} {one.symbol}) must have bid at or above ask for at most {limit:.1%} of the "
            f"time, was {share:.1%}, and {longest:,.0f} s at longest; "
            f"max_crossed = {_above(share)} goes on all the same"
        )


def _above(share: float) -> str:
    """A round number that lets a share pass.

    >>> _above(0.1441), _above(0.999)
    ('0.15', '1')
    """
    return f"{min(int(share * 100 + 1) / 100, 1):g}"


# Recorded books of one symbol: from a folder of the user's, or of a synthetic market that is made on the way.


_WARMING = dt.timedelta(minutes=10)  # before the hours that are looked at: books begin empty


@dataclass(frozen=True)
class SymbolBooks:
    """Recorded books of one symbol, and where they come from in words."""

    store: Store
    symbol: str
    origin: str
    date: dt.date | None = None

    @property
    def recordings(self) -> list[Recording]:
        """One per venue."""
        return self.store.of_symbol(self.symbol, self.date)

    @property
    def deepest(self) -> str:
        """The venue with the most books."""
        return max(self.recordings, key=lambda one: one.snapshots).venue


def open_books(
    data: Path | None,
    symbol: str | None,
    out: Path,
    seed: int,
    *,
    depth: int | None = None,
    hours: tuple[dt.time, dt.time] = (dt.time(11), dt.time(13)),
    date: dt.date | None = None,
) -> SymbolBooks:
    """Recorded books in ``data``; if None, a synthetic market of ``hours`` is made and imported below ``out``.

    ``depth`` levels of that market are kept, all if None.
    """
    whole_number("seed", seed, minimum=0)
    if data is not None:
        store = Store(data)
        symbols = tuple(dict.fromkeys(one.symbol for one in store.recordings()))
        if not symbols:
            raise DataError(f"data must be a folder of `riskroute market import`, was {str(data)!r} without recordings")
        chosen = symbol.upper() if symbol is not None else symbols[0] if len(symbols) == 1 else ""
        return SymbolBooks(store, one_of("symbol", chosen, symbols), f"{chosen} in {data}", date)
    name = symbol.upper() if symbol is not None else DEFAULT_SYMBOLS[0]
    opening = dt.datetime.combine(dt.date(2000, 1, 1), hours[0])
    earlier = max(opening - _WARMING, dt.datetime.combine(opening.date(), dt.time.min)).time()
    files = generate_market(out / "market", seed=seed, symbols=(name,), hours=(earlier, hours[1]))
    import_files(files, out / "market" / "books", ImportOptions((name,), depth=depth))
    return SymbolBooks(Store(out / "market" / "books"), name, f"{name} of the synthetic market, seed {seed}")
