"""CSV files in pieces that fit into memory: plain, gzip, zstd, or inside a zip archive."""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import DataError, one_line_error
from riskroute.core.extras import require_extra
from riskroute.market.readers.packed import unpacked

BLOCK = 4 << 20
"""Bytes per piece."""

LONGEST_LINE = 1 << 24
"""Bytes of a line at most."""


def csv_members(path: Path) -> list[str]:
    """Names of the CSV files that a path stands for: those of an archive, or its own."""
    with csv_reading(path):
        if _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                return [name for name in archive.namelist() if name.lower().endswith(".csv")]
        with path.open("rb"):
            return [path.name]


def csv_header(path: Path, separator: str = ",") -> list[str]:
    """Cells of the first line of the first CSV file that a path stands for, without quotes."""
    members = csv_members(path)
    with csv_reading(path), _opened(path, members[0]) as file:
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
    with csv_reading(path, member), _opened(path, member) as file:
        for block in _blocks(file, path):
            # With threads errors tell no row.
            read = csv.ReadOptions(block_size=len(block), column_names=names, use_threads=False)
            convert = csv.ConvertOptions(column_types=kinds)
            try:
                table = csv.read_csv(pyarrow.BufferReader(block), read, parse, convert)
                frame = csv_frame(table)
            except (pyarrow.ArrowException, UnicodeError, polars.exceptions.PolarsError) as error:
                raise refused(_counted(str(error), rows)) from error
            rows += frame.height + (names is None)
            names, kinds = table.schema.names, dict(zip(table.schema.names, table.schema.types, strict=True))
            if frame.height:
                yield frame
        if not rows:
            raise refused("Empty CSV file")


def csv_lines(path: Path) -> Iterator[str]:
    """Lines of a text file: plain, gzip, or the only one inside a zip archive that is CSV or JSON."""
    member = path.name
    with csv_reading(path):
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


def csv_frame(batch: Any) -> polars.DataFrame:
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
def csv_reading(path: Path, member: str = "") -> Iterator[None]:
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
