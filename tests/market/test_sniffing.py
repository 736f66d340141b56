"""What files hold, by their first bytes: every kind is named, none is taken for another, whatever its name."""

from __future__ import annotations

import bz2
import lzma
import struct
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databento_files import mbo_file, packed, random_orders
from market_files import ITCH_NAME, csv_text, gzipped, itch_bytes, random_messages, table_columns, visible, zipped
from riskroute.core.errors import DataError, RiskrouteError
from riskroute.market.importing import READERS, _describe, _detect_format, _sniff, import_files
from riskroute.market.readers.itch import _ITCH_LENGTHS, looks_like_itch
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.synthetic.generate import _LAYOUTS

MESSAGES = random_messages(2, 20)
BOOKS = table_columns(MESSAGES, 1)


def parquet() -> bytes:
    whole = BytesIO()
    polars.DataFrame(BOOKS).write_parquet(whole)
    return whole.getvalue()


def feather() -> bytes:
    whole = BytesIO()
    polars.DataFrame(BOOKS).write_ipc(whole)
    return whole.getvalue()


def tar() -> bytes:
    whole = BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("books.csv"), BytesIO())
    return whole.getvalue()


def array() -> bytes:
    whole = BytesIO()
    np.save(whole, np.arange(5))
    return whole.getvalue()


STRANGE = {
    "a PDF document": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj",
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(88),
    "an Arrow (Feather) table": feather(),
    "a network capture (pcap)": struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1),
    "a network capture (pcapng)": struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28),
    "an xz archive": lzma.compress(itch_bytes(MESSAGES)),
    "a bzip2 archive": bz2.compress(itch_bytes(MESSAGES)),
    "a tar archive": tar(),
    "a program (ELF)": b"\x7fELF\x02\x01\x01" + bytes(57),
    "an SQLite database": b"SQLite format 3\x00" + bytes(84),
    "a PNG picture": b"\x89PNG\r\n\x1a\n" + bytes(50),
    "a JPEG picture": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "a NumPy array": array(),
    "a web page or XML": b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n",
    "JSON": b'{"error": "no such file"}\n',
    "text in UTF-16": "time,bid\n".encode("utf-16"),
    "unknown bytes": bytes([0, 255, 7, 9] * 30),
}


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("name", ["data.bin", "20190327.NASDAQ_ITCH_50", "books.csv", "books.parquet", "20190327"])
@pytest.mark.parametrize("packing", ["", "gzip", "zstd"])
def test_strange_files_are_named_and_refused(tmp_path: Path, what: str, name: str, packing: str) -> None:
    content = STRANGE[what]
    whole = {"": content, "gzip": gzipped(content), "zstd": packed(content)}[packing]
    path = tmp_path / name
    path.write_bytes(whole)
    assert str(_sniff(path)).startswith(what)
    with pytest.raises(DataError) as caught:
        import_files([path], tmp_path / "out", ReadingOptions(("ACME",)))
    said = str(caught.value)
    assert "\n" not in said
    assert visible(tmp_path / "out") == []
    if not (what.startswith("unknown") and name.endswith(".csv")):
        assert what in said
        assert (f"compressed with {packing}" in said) == bool(packing)


@pytest.mark.parametrize("name", ["data.bin", "20190327.NASDAQ_ITCH_50", "books.csv", "20190327"])
def test_parquet_under_another_name_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(parquet())
    with pytest.raises(DataError, match=r"is a Parquet table; rename it so that it ends in \.parquet"):
        _detect_format(tmp_path / name)
    (tmp_path / "books.parquet").write_bytes(parquet())
    assert _detect_format(tmp_path / "books.parquet") == "table"


def test_what_is_read_is_found_under_any_name(tmp_path: Path) -> None:
    contents = {
        "itch": [itch_bytes(MESSAGES), gzipped(itch_bytes(MESSAGES))],
        "databento": [mbo_file(random_orders(1, 9)), packed(mbo_file(random_orders(1, 9)))],
        "table": [csv_text(BOOKS).encode(), gzipped(csv_text(BOOKS).encode()), packed(csv_text(BOOKS).encode())],
    }
    contents["table"].append(zipped({"books.csv": csv_text(BOOKS).encode()}))
    for kind, files in contents.items():
        for content in files:
            for name in ("data.bin", "20190327", "data.csv", "20190327.txt"):
                (tmp_path / name).write_bytes(content)
                assert _detect_format(tmp_path / name) == kind
    (tmp_path / "20190327.bin").write_bytes(contents["table"][2])
    (one,) = import_files([tmp_path / "20190327.bin"], tmp_path / "out", ReadingOptions())
    assert one.reader == "table"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (ITCH_NAME, csv_text(BOOKS).encode(), "must be a complete NASDAQ ITCH 5.0 file, raw or gzip, was text"),
        (
            ITCH_NAME,
            zipped({"a.csv": b"a\n"}),
            "must be a complete NASDAQ ITCH 5.0 file, raw or gzip, was a zip archive",
        ),
        (f"{ITCH_NAME}.zst", packed(itch_bytes(MESSAGES)), "raw or gzip, was ITCH, compressed with zstd"),
        ("data.bin", gzipped(gzipped(itch_bytes(MESSAGES))), "was gzip within gzip or zstd, compressed with gzip"),
        ("a.parquet", csv_text(BOOKS).encode(), "must be a Parquet table, as its name says, was text"),
        ("a.parquet", itch_bytes(MESSAGES), "must be a Parquet table, as its name says, was ITCH"),
        ("a.parquet", b"", "must be a Parquet table, as its name says, was empty"),
        (
            "data.bin",
            b"",
            "must hold market data (ITCH 5.0, DBN, CSV, Parquet, or books and trades as JSON lines), was empty",
        ),
        ("data.zip", zipped({"readme.txt": b"nothing"}), "must be an archive of CSV files, has none"),
    ],
)
def test_files_under_a_wrong_name_are_refused(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        _detect_format(tmp_path / name)
    assert expected in str(caught.value)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("what", ["a PDF document", "an xz archive", "JSON", "unknown bytes"])
def test_every_reader_refuses_strange_files_that_are_forced_on_it(tmp_path: Path, kind: str, what: str) -> None:
    (tmp_path / "20190327_acme.csv").write_bytes(STRANGE[what])
    with pytest.raises(RiskrouteError) as caught:
        import_files([tmp_path / "20190327_acme.csv"], tmp_path / "out", ReadingOptions(("ACME",)), kind=kind)
    assert "\n" not in str(caught.value)
    assert visible(tmp_path / "out") == []


def test_lengths_of_messages_are_those_of_their_layouts() -> None:
    for kind, layout in _LAYOUTS.items():
        assert _ITCH_LENGTHS[kind] == layout.itemsize - 2


@given(st.binary(min_size=1, max_size=60))
def test_any_bytes_have_a_name(head: bytes) -> None:
    assert _describe(head)
    if looks_like_itch(head):
        assert _ITCH_LENGTHS[chr(head[2])] == int.from_bytes(head[:2], "big")


def test_itch_must_go_on_as_it_begins() -> None:
    content = itch_bytes(MESSAGES)
    assert looks_like_itch(content)
    assert looks_like_itch(content[:50])
    assert looks_like_itch(content[:41] + b"\x00\x00")
    assert not looks_like_itch(content[:41] + b"\x00\x24Z" + bytes(40))
    assert not looks_like_itch(b"\x00\x00" + content)
