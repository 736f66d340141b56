"""Databento's files that are cut off, damaged, of another schema or under another name: one clear sentence each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from databento_files import (
    OPEN,
    Order,
    book_record,
    mbo_file,
    metadata,
    order_record,
    packed,
    transcoded,
)
from databento_imports import ALL, BOOKS, imported, mbp, refusal, written
from riskroute.core.errors import DataError, InputError
from riskroute.market.importing import import_files


@pytest.mark.parametrize("schema", ["trades", "tbbo", "ohlcv-1s", "definition", "cmbp-1", "cbbo-1s", "status"])
def test_other_schemas_are_refused(tmp_path: Path, schema: str) -> None:
    said = refusal(tmp_path, metadata(schema) + bytes(80))
    assert f"must be of schema mbo, mbp-1, mbp-10, bbo-1s, bbo-1m, was {schema}, which holds" in said
    assert said.endswith("; download mbp-1, mbp-10 or mbo instead")


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume\n1,33,2,42,1,2,1,2,9\n", "ohlcv-1m"),
        (
            "ts_recv,ts_event,rtype,publisher_id,instrument_id,raw_symbol,security_update_action\n1,1,19,2,42,ACME,A\n",
            "definition",
        ),
        ("ts_recv,ts_event,rtype,publisher_id,instrument_id,action,side,price,size\n1,1,0,2,42,T,A,9.5,3\n", "trades"),
    ],
)
def test_csv_files_of_other_schemas_are_refused(tmp_path: Path, text: str, schema: str) -> None:
    said = refusal(tmp_path, text.encode(), name="x.csv")
    assert f"was {schema}, which holds no books; download mbp-1, mbp-10 or mbo instead" in said


def test_a_live_recording_of_one_schema_is_read_and_others_are_refused(tmp_path: Path) -> None:
    records = b"".join(book_record(book, OPEN + k) for k, book in enumerate(BOOKS))
    one, _ = imported(written(tmp_path, metadata(None) + records))
    assert one.snapshots == 3
    said = refusal(tmp_path, metadata(None) + records + order_record(Order("A", 1, "B", 9_999, 1)) + bytes(100))
    assert "record 4 of" in said
    assert "must be mbp-1, the file's schema, of 80 bytes, was mbo" in said


def test_records_with_a_time_of_sending(tmp_path: Path) -> None:
    records = b"".join(
        bytes([22]) + book_record(book, OPEN + k)[1:] + (OPEN + k + 200).to_bytes(8, "little")
        for k, book in enumerate(BOOKS)
    )
    one, _ = imported(written(tmp_path, metadata("mbp-1", ts_out=True) + records))
    assert one.snapshots == 3


@pytest.mark.parametrize("end", [5, 40, 200, -1, -79, -80 * 3])
@pytest.mark.parametrize("zstd", [False, True])
def test_a_dbn_file_cut_off_is_refused(tmp_path: Path, end: int, zstd: bool) -> None:
    content = mbp()
    said = refusal(tmp_path, packed(content[:end]) if zstd else content[:end], name="a.dbn")
    assert any(words in said for words in ("truncated", "no records", "must hold market data"))
    if end == -1:
        assert "truncated in record 3" in said


@pytest.mark.parametrize("end", [6, 30, -1, -20])
def test_a_packed_file_cut_off_is_refused(tmp_path: Path, end: int) -> None:
    for name, content in {"a.dbn.zst": mbp(), "a.csv.zst": transcoded(mbp())}.items():
        assert "truncated" in refusal(tmp_path, packed(content * 1)[:end], name=name)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_reads_the_same(tmp_path: Path, version: int) -> None:
    records = b"".join(book_record(book, OPEN + k) for k, book in enumerate(BOOKS))
    one, store = imported(written(tmp_path, metadata("mbp-1", version=version) + records))
    assert store.snapshots(one)["bid_px_00"].to_list() == [99.99, 100.0, None]


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databento_dbn", None)
    assert "DBN files need databento_dbn: pip install 'riskroute[market]'" in refusal(tmp_path, mbp())


def test_a_version_to_come_is_refused(tmp_path: Path) -> None:
    content = mbp()
    assert "version" in refusal(tmp_path, content[:3] + b"\x09" + content[4:])


def changed(content: bytes, record: int, place: int, value: bytes, size: int = 56) -> bytes:
    begin = len(content) - size * record + place
    return content[:begin] + value + content[begin + len(value) :]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order("A", 2, "B", 0, 100), "price must be a number above 0, was undefined"),
        (Order("A", 2, "N", 9_999, 100), "side must be B or A, was N"),
        (Order("A", 2, "B", 9_999, 100, flags=192), "flags must be those of an order; use mbp-1"),
        (Order("A", 2, "B", 9_999, 100, flags=144), "flags must be those of an order"),
        (Order("A", 2, "B", 9_999, 100, time=2**64 - 1), "ts_event must be a time between 1970 and 2261, was"),
    ],
)
def test_an_order_that_cannot_be_is_refused_by_number(tmp_path: Path, order: Order, expected: str) -> None:
    good = Order("A", 1, "B", 9_999, 100)
    try:
        content = mbo_file([good, order])
    except OverflowError:
        content = changed(mbo_file([good, good]), 1, 8, b"\xff" * 8)
    said = refusal(tmp_path, content)
    assert "record 2 of" in said
    assert expected in said


def test_an_action_that_is_none_is_refused(tmp_path: Path) -> None:
    content = changed(mbo_file([Order("A", 1, "B", 9_999, 100)] * 2), 1, 38, b"Z")
    assert "action must be one of A, C, M, R, T, F, N, was Z" in refusal(tmp_path, content)


def test_a_file_without_ends_of_events_is_refused(tmp_path: Path) -> None:
    assert "never marks the last record of an event" in refusal(tmp_path, mbo_file([Order("A", 1, "B", 9_999, 1, 0)]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("99.990000000", "abc", "prices must be dollars"),
        ("2024-01-03T14:30:01.000000100Z", "yesterday", "ts_recv must be a time such as"),
        (",1,2,42,", ",0,2,42,", "must be of schema mbo, mbp-1, mbp-10, bbo-1s, bbo-1m, was trades"),
        ("bid_px_00", "bid_price", "lacks columns bid_px_00 of mbp-1 files"),
        (",2,42,M", ",,42,M", "publisher_id must be a number, was undefined"),
        (",200,0,0,ACME\n", ",-200,0,0,ACME\n", "sizes whole numbers up to 4294967295"),
    ],
)
def test_a_csv_file_with_a_wrong_value_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = transcoded(mbp()).decode()
    assert old in text
    assert expected in refusal(tmp_path, text.replace(old, new).encode(), name="a.csv")


def test_a_csv_file_of_several_types_is_refused(tmp_path: Path) -> None:
    lines = transcoded(mbp()).decode().splitlines(keepends=True)
    lines[2] = lines[2].replace(",1,2,42,", ",10,2,42,")
    assert "row 2 of" in refusal(tmp_path, "".join(lines).encode(), name="a.csv")
    assert "has no rows" in refusal(tmp_path, lines[0].encode(), name="a.csv")
    raw = transcoded(mbp(), pretty_px=False).decode().replace("99990000000", "99.99", 1).splitlines(keepends=True)
    assert "price" in refusal(tmp_path, "".join([raw[0], *raw[2:], raw[1]]).encode(), name="a.csv").lower()


def test_other_text_under_this_format_is_refused(tmp_path: Path) -> None:
    for content in (b"a,b\n1,2\n", b"%PDF-1.7 and so on", b""):
        with pytest.raises((DataError, InputError)):
            import_files([written(tmp_path, content, "a.dbn")], tmp_path / "out", ALL, kind="databento")
