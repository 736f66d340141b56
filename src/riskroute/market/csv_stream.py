"""CSV files in pieces that fit into memory: plain, gzip, or inside a zip archive."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars

from riskroute.errors import DataError, RiskrouteError
from riskroute.market.reading import one_line

BLOCK = 4 << 20
"""Bytes per piece."""


def csv_members(path: Path) -> list[str]:
    """Names of the CSV files that a path stands for: those of an archive, or its own."""
    with reading(path):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return [name for name in archive.namelist() if name.lower().endswith(".csv")]
        with path.open("rb"):
            return [path.name]


def csv_frames(
    path: Path, member: str, types: Mapping[str, Any], *, header: bool = False
) -> Iterator[polars.DataFrame]:
    """Pieces of a CSV file with at least a row each.

    ``types`` (pyarrow) names all columns where there is no header; with one, only those whose type must not be guessed
    from the first piece.
    """
    try:
        import pyarrow
        from pyarrow import csv
    except ImportError:
        raise RiskrouteError("CSV files need more packages: pip install 'riskroute[market]'") from None

    names = None if header else list(types)
    read = csv.ReadOptions(block_size=BLOCK, column_names=names, use_threads=False)  # with threads errors tell no row
    convert = csv.ConvertOptions(column_types=dict(types))
    with reading(path, member), ExitStack() as stack:
        file = stack.enter_context(_opened(path, member))
        try:
            batches = stack.enter_context(csv.open_csv(file, read_options=read, convert_options=convert))
            for batch in batches:
                if batch.num_rows:
                    yield as_frame(batch)
        except (pyarrow.ArrowException, UnicodeError, polars.exceptions.PolarsError) as error:
            text = one_line(error, 300)
            raise DataError(f"{path} must be a table of numbers as described, was: {text} (in {member})") from error


def as_frame(batch: Any) -> polars.DataFrame:
    """A piece of pyarrow's as one of polars', which ends the process over texts that are not UTF-8.

    Texts in cells and in types, such as time zones, are therefore checked first, and those beside the table left out.
    """
    batch.validate(full=True)
    types = " ".join(map(str, batch.schema.types))
    if "\ufffd" in types:
        raise UnicodeError(f"types must be named in UTF-8, was {types}")
    frame: Any = polars.from_arrow(type(batch).from_arrays(batch.columns, names=batch.schema.names))
    return frame if isinstance(frame, polars.DataFrame) else polars.DataFrame(frame)


@contextmanager
def _opened(path: Path, member: str) -> Iterator[Any]:
    with ExitStack() as stack:
        if zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield stack.enter_context(archive.open(member))
        else:
            file = stack.enter_context(path.open("rb"))
            zipped = file.peek(2)[:2] == b"\x1f\x8b"
            yield gzip.GzipFile(fileobj=file) if zipped else file


@contextmanager
def reading(path: Path, member: str = "") -> Iterator[None]:
    """Errors of files and archives as errors that name the file."""
    where = f" ({member})" if member and member != path.name else ""
    try:
        yield
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError, UnicodeError) as error:
        raise DataError(f"{path} must be a whole archive{where}, was damaged or cut off: {one_line(error)}") from error
    except RuntimeError as error:
        raise DataError(f"{path} must be an archive without a password{where}: {error}") from error
    except OSError as error:
        text = error.strerror or one_line(error)
        raise DataError(f"{path} must be a file that can be read{where}: {text}") from error
