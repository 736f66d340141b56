"""CSV files in pieces that fit into memory: plain, gzip, zstd, or inside a zip archive."""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import DataError, one_line_error
from riskroute.core.runtime import require_extra

# Files as they are or packed: gzip and zstd are told by their first bytes, whatever the name of the file.


GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
"""First bytes of packed files."""


@contextmanager
def unpacked(path: Path) -> Iterator[Any]:
    """What a file holds, to read piece by piece."""
    with path.open("rb") as file:
        start = file.peek(4)[:4]
        if start == ZSTD:
            require_extra("zstd files", "market", "pyarrow")
            import pyarrow

            with pyarrow.input_stream(str(path), compression="zstd", buffer_size=0) as whole:
                yield whole
        else:
            yield gzip.GzipFile(fileobj=file) if start[:2] == GZIP else file


def read_fully(file: Any, count: int) -> bytes:
    """The next ``count`` bytes, fewer at the end of the file only."""
    parts, left = [], count
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


BLOCK = 4 << 20
"""Bytes per piece."""

LONGEST_LINE = 1 << 24
"""Bytes of a line at most."""


def csv_members(path: Path) -> list[str]:
    """Names of the CSV files that a path stands for: those of an archive, or its own."""
    with file_errors(path):
        if _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                return [name for name in archive.namelist() if name.lower().endswith(".csv")]
        with path.open("rb"):
            return [path.name]


def csv_header(path: Path, separator: str = ",") -> list[str]:
    """Cells of the first line of the first CSV file that a path stands for, without quotes."""
    members = csv_members(path)
    with file_errors(path), _opened(path, members[0]) as file:
        line = file.read(1 << 16).split(b"\n", 1)[0].decode("utf-8-sig", errors="replace")
    return [cell.strip().strip('"') for cell in line.split(separator)]


def csv_frames(
    path: Path,
    member: str,
    types: Mapping[str, Any],
    *,
    header: bool = False,
    separator: str = ",",
    skips: Callable[[str], bool] | None = None,
) -> Iterator[polars.DataFrame]:
    """Pieces of a CSV file with at least a row each.

    ``types`` (pyarrow) names all columns where there is no header; with one, only those whose type must not be guessed
    from the first piece. A line of too many or too few columns is left out where ``skips`` says so of its text.
    """
    require_extra("CSV files", "market", "pyarrow")
    import pyarrow
    from pyarrow import csv

    def refused(text: str) -> DataError:
        return DataError(
            f"{path} must be a table of numbers as described, was: {one_line_error(text, 300)} (in {member})"
        )

    def skipped(row: Any) -> str:
        return "skip" if skips is not None and skips(row.text) else "error"

    parse = csv.ParseOptions(delimiter=separator, invalid_row_handler=skipped if skips is not None else None)
    names = None if header else list(types)
    kinds, rows = dict(types), 0
    with file_errors(path, member), _opened(path, member) as file:
        for block in _blocks(file, path):
            # With threads errors tell no row.
            read = csv.ReadOptions(block_size=len(block), column_names=names, use_threads=False)
            convert = csv.ConvertOptions(column_types=kinds)
            try:
                table = csv.read_csv(pyarrow.BufferReader(block), read, parse, convert)
                frame = frame_from_arrow(table)
            except (pyarrow.ArrowException, UnicodeError, polars.exceptions.PolarsError) as error:
                raise refused(_counted(str(error), rows)) from error
            rows += frame.height + (names is None)
            names, kinds = table.schema.names, dict(zip(table.schema.names, table.schema.types, strict=True))
            if frame.height:
                yield frame
        if not rows:
            raise refused("Empty CSV file")


def text_lines(path: Path) -> Iterator[str]:
    """Lines of a text file: plain, gzip, or the only one inside a zip archive that is CSV or JSON."""
    member = path.name
    with file_errors(path):
        if _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if re.search(r"\.(csv|jsonl?|ndjson)$", name.lower())]
            if len(names) != 1:
                raise DataError(f"{path} must hold one CSV or JSON file, was {len(names)}")
            member = names[0]
        with _opened(path, member) as file:
            while line := file.readline(LONGEST_LINE):
                if len(line) >= LONGEST_LINE:
                    raise DataError(f"{path} must have lines of less than {LONGEST_LINE:,} bytes, was one of more")
                try:
                    yield line.decode("utf-8-sig")
                except UnicodeDecodeError as error:
                    raise DataError(f"{path} must be a text in UTF-8: {one_line_error(error)}") from error


def _blocks(file: Any, path: Path) -> Iterator[bytes]:
    """A file in pieces of whole lines, read by the thread that asks for them.

    Arrow's own stream reads ahead in a thread of its library. Such a thread ends the whole process if Python closes
    down while it reads from one of Python's files, which happens when a small file is refused.
    """
    rest = b""
    while block := file.read(BLOCK):
        whole = rest + block
        cut = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        if not cut and len(whole) >= BLOCK:
            raise DataError(f"{path} must have lines of less than {BLOCK:,} bytes, was one of more")
        if whole[:cut].strip(b"\r\n"):
            yield whole[:cut]
        rest = whole[cut:]
    if rest:
        yield rest


def _counted(text: str, before: int) -> str:
    """What Arrow said of a row of a piece, with the row's number in the whole file.

    >>> _counted("CSV parse error: Row #2: Expected 8 columns, got 3", 100)
    'CSV parse error: Row #102: Expected 8 columns, got 3'
    """
    return re.sub(r"\bRow #(\d+)", lambda found: f"Row #{int(found[1]) + before}", text, count=1)


def frame_from_arrow(batch: Any) -> polars.DataFrame:
    """A piece of pyarrow's as one of polars', which ends the process over texts that are not UTF-8.

    Texts in cells and in types, such as time zones, are therefore checked first, and those beside the table left out.
    """
    batch.validate(full=True)
    types = " ".join(map(str, batch.schema.types))
    if "\ufffd" in types:
        raise UnicodeError(f"types must be named in UTF-8, was {types}")
    frame: Any = polars.from_arrow(type(batch).from_arrays(batch.columns, names=batch.schema.names))
    return frame if isinstance(frame, polars.DataFrame) else polars.DataFrame(frame)


def _is_zip(path: Path) -> bool:
    """Whether a file is a zip archive; refuses one that is cut off, as the list of what it holds is at its end."""
    if zipfile.is_zipfile(path):
        return True
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            raise zipfile.BadZipFile("a zip archive without the list at its end; download or copy it again")
    return False


@contextmanager
def _opened(path: Path, member: str) -> Iterator[Any]:
    with ExitStack() as stack:
        if _is_zip(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield stack.enter_context(archive.open(member))
        else:
            yield stack.enter_context(unpacked(path))


@contextmanager
def file_errors(path: Path, member: str = "") -> Iterator[None]:
    """Errors of files and archives as errors that name the file."""
    where = f" ({member})" if member and member != path.name else ""
    try:
        yield
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError, UnicodeError) as error:
        raise DataError(
            f"{path} must be a whole archive{where}, was damaged or cut off: {one_line_error(error)}"
        ) from error
    except RuntimeError as error:
        raise DataError(f"{path} must be an archive without a password{where}: {error}") from error
    except OSError as error:
        if error.errno is None:  # from the library that unpacks, not from the system
            raise DataError(
                f"{path} must be a whole archive{where}, was damaged or cut off: {one_line_error(error)}"
            ) from error
        text = error.strerror or one_line_error(error)
        raise DataError(f"{path} must be a file that can be read{where}: {text}") from error


# A Parquet file written piece by piece, in a thread of its own, while the next piece is being made.


AHEAD = 2
"""Pieces that may wait to be written."""


class ParquetStream:
    """Appends frames of the same columns to a file; an error of writing shows at one of the calls that follow it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None
        self._thread = ThreadPoolExecutor(1)
        self._waiting: deque[Future[None]] = deque()

    def add(self, frame: polars.DataFrame) -> None:
        """Append a frame, soon."""
        while len(self._waiting) >= AHEAD:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._append, frame))

    def close(self) -> None:
        """Wait until everything is written; again does nothing."""
        try:
            while self._waiting:
                self._waiting.popleft().result()
        finally:
            self._thread.shutdown(cancel_futures=True)
            if self._writer is not None:
                self._writer.close()

    def _append(self, frame: polars.DataFrame) -> None:
        from pyarrow.parquet import ParquetWriter

        table = frame.to_arrow()
        if self._writer is None:
            words = [name for name, kind in frame.schema.items() if kind == polars.String]
            # Dictionaries of numbers and statistics cost more than they save; times are what tables are searched by.
            options = {"use_dictionary": words, "write_statistics": ["ts_event"]}
            self._writer = ParquetWriter(self._path, table.schema, compression="lz4", **options)
        self._writer.write_table(table)
