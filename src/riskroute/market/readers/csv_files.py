"""Decompressed streams, and CSV files in chunks (plain, gzip, zstd or zip)."""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import DataError
from riskroute.core.runtime import require_extra
from riskroute.core.text import one_line_text

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"  # first bytes of compressed files
BLOCK = 4 << 20  # bytes per chunk


@contextmanager
def unpacked_csv_file(path: Path) -> Iterator[Any]:
    """Open a file for reading, decompressed if it begins like a gzip or zstd file, whatever its name."""
    with path.open("rb") as file:
        start = file.peek(4)[:4]
        if start == ZSTD:
            require_extra("zstd files", "market", "pyarrow")
            import pyarrow

            with pyarrow.input_stream(str(path), compression="zstd", buffer_size=0) as whole:
                yield whole
        else:
            yield gzip.GzipFile(fileobj=file) if start[:2] == GZIP else file


def read_csv_file_fully(file: Any, count: int) -> bytes:
    """Return the next ``count`` bytes, fewer only at the end of the file."""
    parts, left = [], count
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def csv_members(path: Path) -> list[str]:
    """Return the names of the CSV files in an archive, or the file's own name."""
    with csv_file_errors(path):
        if _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                return [name for name in archive.namelist() if name.lower().endswith(".csv")]
        with path.open("rb"):
            return [path.name]


def csv_member(path: Path) -> str:
    """Return the name of the only CSV file in an archive, or the file's own name."""
    members = csv_members(path)
    if len(members) != 1:
        raise DataError(f"expected one CSV file in {path}, got {len(members)}")
    return members[0]


def csv_header(path: Path, separator: str = ",") -> list[str]:
    """Return the cells of the first line of the file, or of the first CSV file in an archive, without quotes."""
    members = csv_members(path)
    with csv_file_errors(path), _opened(path, members[0]) as file:
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
    """Yield chunks of a CSV file with at least one row each.

    Without a header, ``types`` (pyarrow) names all columns; with one, the columns whose type must not be inferred
    from the first chunk. A line with the wrong number of columns is skipped if ``skips`` accepts its text.
    """
    require_extra("CSV files", "market", "pyarrow")
    import pyarrow
    from pyarrow import csv

    def refused(text: str) -> DataError:
        return DataError(f"{path} is not a valid table: {one_line_text(text, 300)} (in {member})")

    def skipped(row: Any) -> str:
        return "skip" if skips is not None and skips(row.text) else "error"

    parse = csv.ParseOptions(delimiter=separator, invalid_row_handler=skipped if skips is not None else None)
    names = None if header else list(types)
    kinds, rows = dict(types), 0
    with csv_file_errors(path, member), _opened(path, member) as file:
        for block in _blocks(file, path):
            # Multi-threaded parsing reports errors without row numbers.
            read = csv.ReadOptions(block_size=len(block), column_names=names, use_threads=False)
            convert = csv.ConvertOptions(column_types=kinds)
            try:
                table = csv.read_csv(pyarrow.BufferReader(block), read, parse, convert)
                frame = _frame_from_arrow(table)
            except (pyarrow.ArrowException, UnicodeError, polars.exceptions.PolarsError) as error:
                raise refused(_counted(str(error), rows)) from error
            rows += frame.height + (names is None)
            names, kinds = table.schema.names, dict(zip(table.schema.names, table.schema.types, strict=True))
            if frame.height:
                yield frame
        if not rows:
            raise refused("Empty CSV file")


def csv_table_frames(path: Path, types: Mapping[str, Any], rows: int) -> Generator[polars.DataFrame]:
    """Yield chunks of a table: Parquet if the name ends in .parquet, otherwise CSV with a header.

    ``types`` (pyarrow) are the types of CSV columns that must not be inferred. ``rows`` is the number of rows per chunk
    of a Parquet file with up to 24 columns; wider files have fewer rows per chunk.
    """
    require_extra("tables", "market", "pyarrow")
    import pyarrow
    from pyarrow.parquet import ParquetFile

    if path.suffix.lower() != ".parquet":
        yield from csv_frames(path, csv_member(path), types, header=True)
        return
    with csv_file_errors(path):
        try:
            with ParquetFile(path) as file:
                wide = max(file.metadata.num_columns, 24)
                for batch in file.iter_batches(max(rows * 24 // wide, 1)):
                    if batch.num_rows:
                        yield _frame_from_arrow(batch)
        except (pyarrow.ArrowException, UnicodeError, polars.exceptions.PolarsError) as error:
            raise DataError(f"{path} must be a Parquet file: {one_line_text(error)}") from error


def unpacked_file_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a text file: plain, gzip, zstd, or the only CSV or JSON file in a zip archive."""
    member = path.name
    with csv_file_errors(path):
        if _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if re.search(r"\.(csv|jsonl?|ndjson)$", name.lower())]
            if len(names) != 1:
                raise DataError(f"expected one CSV or JSON file in {path}, got {len(names)}")
            member = names[0]
        with _opened(path, member) as file:
            rest = file.read(BLOCK).removeprefix(b"\xef\xbb\xbf")
            while rest:
                block = file.read(BLOCK)
                cut = rest.rfind(b"\n") + 1 if block else len(rest)
                if not cut and len(rest) >= 1 << 24:
                    raise DataError(f"{path} has a line longer than {1 << 24:,} bytes")
                yield from rest[:cut].splitlines()
                rest = rest[cut:] + block


def _blocks(file: Any, path: Path) -> Iterator[bytes]:
    """Yield chunks of complete lines."""
    # Arrow's own streaming reader uses a thread, which aborts the process if Python shuts down meanwhile.
    rest = b""
    while block := file.read(BLOCK):
        whole = rest + block
        cut = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        if not cut and len(whole) >= BLOCK:
            raise DataError(f"{path} has a line longer than {BLOCK:,} bytes")
        if whole[:cut].strip(b"\r\n"):
            yield whole[:cut]
        rest = whole[cut:]
    if rest:
        yield rest


def _counted(text: str, before: int) -> str:
    """Convert the row number in an Arrow error, which counts from the start of a chunk, to the row of the file.

    >>> _counted("CSV parse error: Row #2: Expected 8 columns, got 3", 100)
    'CSV parse error: Row #102: Expected 8 columns, got 3'
    """
    return re.sub(r"\bRow #(\d+)", lambda found: f"Row #{int(found[1]) + before}", text, count=1)


def _frame_from_arrow(batch: Any) -> polars.DataFrame:
    """Convert pyarrow data to polars; raise an error for strings that are not UTF-8.

    Polars aborts the process on such strings. Types contain strings too, such as time zones; metadata are dropped.
    """
    batch.validate(full=True)
    types = " ".join(map(str, batch.schema.types))
    if "\ufffd" in types:
        raise UnicodeError(f"type names must be UTF-8, was {types}")
    frame: Any = polars.from_arrow(type(batch).from_arrays(batch.columns, names=batch.schema.names))
    return frame if isinstance(frame, polars.DataFrame) else polars.DataFrame(frame)


def _is_zip(path: Path) -> bool:
    """Return whether a file is a zip archive; refuse a truncated one, whose directory is missing."""
    if zipfile.is_zipfile(path):
        return True
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            raise zipfile.BadZipFile("a zip archive without its directory; download or copy it again")
    return False


@contextmanager
def _opened(path: Path, member: str) -> Iterator[Any]:
    with ExitStack() as stack:
        if _is_zip(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield stack.enter_context(archive.open(member))
        else:
            yield stack.enter_context(unpacked_csv_file(path))


@contextmanager
def csv_file_errors(path: Path, member: str = "") -> Iterator[None]:
    """Convert errors of files and archives to a `DataError` that names the file."""
    where = f" ({member})" if member and member != path.name else ""
    try:
        yield
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError, UnicodeError) as error:
        raise DataError(f"{path} is truncated or damaged{where}: {one_line_text(error)}") from error
    except RuntimeError as error:
        raise DataError(f"{path} must not be encrypted{where}: {error}") from error
    except OSError as error:
        if error.errno is None:  # from the decompression library, not from the system
            raise DataError(f"{path} is truncated or damaged{where}: {one_line_text(error)}") from error
        text = error.strerror or one_line_text(error)
        raise DataError(f"cannot read {path}{where}: {text}") from error
