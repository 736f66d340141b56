"""CSV files in pieces: who reads them, where lines end, and which row of the file an error is about."""

from __future__ import annotations

import gzip
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest

from riskroute.core.errors import DataError
from riskroute.market.readers import csv_files
from riskroute.market.readers.csv_files import csv_frames

NUMBERS = {"first": pyarrow.int64(), "second": pyarrow.float64()}
TEXT = "".join(f"{k},{k / 4}\n" for k in range(40))


def packed(folder: Path, text: str, packing: str) -> Path:
    path = folder / f"numbers.{packing}"
    if packing == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("numbers.csv", text)
    else:
        path.write_bytes(gzip.compress(text.encode()) if packing == "csv.gz" else text.encode())
    return path


def read(path: Path, **options: Any) -> polars.DataFrame:
    member = "numbers.csv" if path.suffix == ".zip" else path.name
    return polars.concat(csv_frames(path, member, NUMBERS, **options))


@pytest.mark.parametrize("packing", ["csv", "csv.gz", "zip"])
@pytest.mark.parametrize("text", [TEXT, "1,2\n3\n", "a,b\n"])
def test_only_the_thread_that_asks_reads_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: str, text: str
) -> None:
    """A thread of Arrow's that reads from a file of Python's ends the process if Python closes down meanwhile."""
    readers: set[int] = set()

    class Watched:
        closed = False

        def __init__(self, file: Any) -> None:
            self._file = file

        def read(self, size: int = -1) -> bytes:
            readers.add(threading.get_ident())
            return bytes(self._file.read(size))

    real = csv_files._opened

    @contextmanager
    def watched(path: Path, member: str) -> Any:
        with real(path, member) as file:
            yield Watched(file)

    monkeypatch.setattr(csv_files, "_opened", watched)
    path = packed(tmp_path, text, packing)
    if text == TEXT:
        assert read(path).height == 40
    else:
        with pytest.raises(DataError, match="is not a valid table"):
            read(path)
    assert readers == {threading.get_ident()}


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [16, 17, 18, 19, 4096])
@pytest.mark.parametrize("header", [False, True])
def test_pieces_of_any_size_make_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, block: int, header: bool
) -> None:
    monkeypatch.setattr(csv_files, "BLOCK", block)
    text = ("first,second\n" * header + TEXT + "\n" * 30 + "40,10.0").replace("\n", ending)
    found = read(packed(tmp_path, text, "csv"), header=header)
    assert found["first"].to_list() == list(range(41))
    assert found["second"].to_list() == [k / 4 for k in range(41)]


@pytest.mark.parametrize("block", [24, 4096])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("broken", ["30", "30,many"])
def test_an_error_names_the_row_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, header: bool, broken: str
) -> None:
    monkeypatch.setattr(csv_files, "BLOCK", block)
    path = packed(tmp_path, "first,second\n" * header + TEXT.replace("30,7.5", broken), "csv")
    with pytest.raises(DataError, match=f"Row #{31 + header}:"):
        read(path, header=header)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before all of it is in memory."""
    monkeypatch.setattr(csv_files, "BLOCK", 1000)
    path = packed(tmp_path, TEXT + "1" * 5000, "csv")
    with pytest.raises(DataError, match=r"has a line longer than 1,000 bytes"):
        read(path)


@pytest.mark.parametrize("text", ["", "\n", "\r\n\r\n"])
@pytest.mark.parametrize("header", [False, True])
def test_a_file_of_nothing_is_refused(tmp_path: Path, text: str, header: bool) -> None:
    with pytest.raises(DataError, match="is not a valid table: Empty CSV file"):
        read(packed(tmp_path, text, "csv"), header=header)
