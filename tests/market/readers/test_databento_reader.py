"""Databento files: books and events against plain dictionaries, names and options, broken files."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import market_files
from databento_files import (
    DATE,
    OPEN,
    Levels,
    Order,
    book_record,
    dbn,
    mbo_file,
    metadata,
    naive_orders,
    order_record,
    packed,
    random_orders,
    transcoded,
)
from market_files import check_recordings, gzipped, levels_of
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers import databento
from riskroute.market.readers.databento_files import CONSOLIDATED, PUBLISHERS, _record_layout
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

ALL = ReadingOptions()
BOOKS: list[Levels] = [
    [(9_999, 300, 10_001, 200), (9_998, 50, 10_003, 70)],
    [(10_000, 100, 10_001, 200), (9_999, 300, 10_003, 70)],
    [(0, 0, 10_001, 200)],
]


def written(folder: Path, content: bytes, name: str = "xnas-itch-20240103.mbo.dbn") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def imported(path: Path, wanted: ReadingOptions = ALL, **options: Any) -> tuple[Recording, RecordingStore]:
    out = path.parent / f"{path.name}.out"
    (one,) = import_files([path], out, wanted, **options)
    check_recordings(out)
    return one, RecordingStore(out)


def refusal(folder: Path, content: bytes, wanted: ReadingOptions = ALL, name: str = "x.dbn", **options: Any) -> str:
    return market_files.refusal(written(folder, content, name), wanted, **options)


def mbp(schema: str = "mbp-1", **changes: Any) -> bytes:
    records = [book_record(book, OPEN + k * 10**9, schema=schema, **changes) for k, book in enumerate(BOOKS)]
    return metadata(schema) + b"".join(records)


def rows_of(one: Recording, store: RecordingStore, depth: int) -> list[Any]:
    table = store.snapshots(one)
    books = [levels_of(row, depth) for row in table.iter_rows(named=True)]
    return [(number, book["bid"], book["ask"]) for number, book in zip(table["sequence"], books, strict=True)]


def events_of(one: Recording, store: RecordingStore) -> list[Any]:
    names = ("sequence", "action", "side", "price", "size", "remaining", "order_id", "old_order_id")
    return store.events(one).select(names).rows()


@pytest.mark.usefixtures("untraced")
@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), depth=st.sampled_from([1, 3, 11]), piece=st.sampled_from([7, 100]))
def test_orders_make_the_books_and_events_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, seed: int, depth: int, piece: int
) -> None:
    folder, orders = tmp_path_factory.mktemp("mbo"), random_orders(seed)
    books, events = naive_orders(orders, depth)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databento.DatabentoReader, "ROWS", piece * max(depth, 10) // 10)
        one, store = imported(written(folder, mbo_file(orders)), ReadingOptions(depth=depth))
    assert rows_of(one, store, depth) == books
    assert events_of(one, store) == events
    assert (one.unresolved, one.crossed, one.has_events) == (0, 0, True)
    assert one.references == sum(order.action in "CMF" for order in orders)


def test_a_fill_and_its_cancel_are_one_execution_and_a_smaller_size_keeps_the_place(tmp_path: Path) -> None:
    orders = [
        Order("A", 1, "B", 9_999, 300),
        Order("A", 2, "A", 10_001, 200, time=OPEN + 1),
        Order("T", 0, "A", 9_999, 120, flags=0, time=OPEN + 2),
        Order("F", 1, "B", 9_999, 120, flags=0, time=OPEN + 2),
        Order("C", 1, "B", 9_999, 120, time=OPEN + 2),
        Order("M", 1, "B", 9_999, 100, time=OPEN + 3),
        Order("F", 2, "A", 10_000, 50, flags=0, time=OPEN + 4),
        Order("M", 2, "A", 10_001, 120, time=OPEN + 4),
        Order("M", 1, "B", 9_998, 100, time=OPEN + 5),
        Order("N", 0, time=OPEN + 6),
        Order("C", 1, "B", 9_998, 100, time=OPEN + 7),
    ]
    one, store = imported(written(tmp_path, mbo_file(orders)))
    assert events_of(one, store) == [
        (1, "A", "B", 99.99, 300, 300, 1, 0),
        (2, "A", "A", 100.01, 200, 200, 2, 0),
        (5, "F", "B", 99.99, 120, 180, 1, 0),
        (6, "C", "B", 99.99, 80, 100, 1, 0),
        (8, "F", "A", 100.0, 50, 150, 2, 0),
        (8, "C", "A", 100.01, 30, 120, 2, 0),
        (9, "M", "B", 99.98, 100, 100, 1, 1),
        (11, "C", "B", 99.98, 100, 0, 1, 0),
    ]
    assert store.snapshots(one)["bid_sz_00"].to_list() == [300, 300, 180, 100, 100, 100, 0]
    assert (one.venue, one.symbol, one.date, one.depth) == ("XNAS", "ACME", DATE, 50)


def test_orders_that_are_not_there_are_counted(tmp_path: Path) -> None:
    orders = [
        Order("A", 1, "B", 9_999, 300),
        Order("C", 7, "B", 9_999, 10),
        Order("C", 1, "B", 9_999, 400),
        Order("M", 8, "A", 10_001, 5),
        Order("A", 8, "A", 10_002, 5),
        Order("F", 9, "A", 10_002, 5),
    ]
    one, store = imported(written(tmp_path, mbo_file(orders)), max_unresolved=1)
    assert (one.references, one.unresolved) == (5, 5)
    assert [event[1] for event in events_of(one, store)] == ["A", "C", "A", "M"]
    assert "unresolved order references" in refusal(tmp_path, mbo_file(orders))


def test_a_snapshot_of_orders_has_the_time_of_the_snapshot(tmp_path: Path) -> None:
    """Its orders were sent on days before; the book is looked at once, at its end."""
    old = OPEN - 40 * 86_400 * 10**9
    records = b"".join(
        bytes(dbn.MBOMsg(2, 42, old + k, k, price, size, action, side, OPEN - 10**9, flags=flags))
        for k, (price, size, action, side, flags) in enumerate(
            [
                (dbn.UNDEF_PRICE, 0, dbn.Action.CLEAR, dbn.Side.NONE, 40),
                (99 * 10**9, 10, dbn.Action.ADD, dbn.Side.BID, 40),
                (101 * 10**9, 20, dbn.Action.ADD, dbn.Side.ASK, 168),
            ]
        )
    )
    content = metadata("mbo") + records + order_record(Order("A", 9, "B", 9_950, 5))
    one, store = imported(written(tmp_path, content))
    table = store.snapshots(one)
    assert table["ts_event"].cast(polars.Int64).to_list() == [OPEN - 10**9, OPEN]
    assert table["bid_px_00"].to_list() == [99.0, 99.5]
    assert one.notes == {}


@pytest.mark.parametrize("schema", ["mbp-1", "mbp-10", "bbo-1s", "bbo-1m"])
def test_records_that_hold_books(tmp_path: Path, schema: str) -> None:
    one, store = imported(written(tmp_path, mbp(schema)))
    depth = 10 if schema == "mbp-10" else 1
    assert (one.depth, one.levels, one.snapshots, one.has_events) == (depth, min(depth, 2), 3, False)
    table = store.snapshots(one)
    assert table["bid_px_00"].to_list() == [99.99, 100.0, None]
    assert table["ask_sz_00"].to_list() == [200, 200, 200]
    begin = OPEN + 100 * schema.startswith("bbo")
    assert table["ts_event"].cast(polars.Int64).to_list() == [begin + k * 10**9 for k in range(3)]
    if depth > 1:
        assert table["ask_px_01"].to_list() == [100.03, 100.03, None]


def test_fewer_levels_are_kept_and_said(tmp_path: Path) -> None:
    one, _ = imported(written(tmp_path, mbp("mbp-10")), ReadingOptions(depth=1))
    assert (one.depth, one.deeper) == (1, 2)
    assert "2 of 3 snapshots of XNAS_ACME_2024-01-03 had more levels" in one.cut
    orders = [Order("A", k, "B", 9_999 - k, 100, time=OPEN + k) for k in range(1, 4)]
    other, _ = imported(written(tmp_path, mbo_file(orders), "orders.dbn"), ReadingOptions(depth=2))
    assert (other.snapshots, other.deeper, other.levels) == (2, 0, 2)
    more = [*orders, Order("C", 1, "B", 9_998, 50, time=OPEN + 9)]
    third, _ = imported(written(tmp_path, mbo_file(more), "more.dbn"), ReadingOptions(depth=2))
    assert (third.snapshots, third.deeper) == (3, 1)


@pytest.mark.parametrize("schema", ["mbo", "mbp-1", "mbp-10", "bbo-1s"])
@pytest.mark.parametrize("pretty", [(True, True), (False, False), (True, False), (False, True)])
def test_both_forms_of_csv_give_what_dbn_gives(tmp_path: Path, schema: str, pretty: tuple[bool, bool]) -> None:
    content = mbo_file(random_orders(5, 30)) if schema == "mbo" else mbp(schema)
    few = ReadingOptions(depth=5)
    whole, store = imported(written(tmp_path, content), few)
    text = transcoded(content, pretty_px=pretty[0], pretty_ts=pretty[1])
    for name, some in {"books.csv": text, "books.csv.zst": packed(text), "books.txt.gz": gzipped(text)}.items():
        path = written(tmp_path, some, name)
        assert _detect_format(path) == "databento"
        one, other = imported(path, few)
        assert (one.snapshots, one.venue, one.symbol, one.date) == (whole.snapshots, "XNAS", "ACME", DATE)
        assert other.snapshots(one).equals(store.snapshots(whole))
        assert not whole.has_events or other.events(one).equals(store.events(whole))


@pytest.mark.parametrize("name", ["a.dbn.zst", "a.dbn", "12302019.NASDAQ_ITCH50", "a.csv", "a.bin"])
def test_dbn_is_known_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    content = packed(mbp()) if name.endswith("zst") else mbp()
    path = written(tmp_path, content, name)
    assert _detect_format(path) == "databento"
    assert imported(path)[0].snapshots == 3


def test_whole_dollars_are_not_taken_for_units(tmp_path: Path) -> None:
    content = metadata("mbp-1") + book_record([(9_900, 5, 10_100, 5)])
    text = transcoded(content).decode().replace("99.000000000", "99").replace("101.000000000", "101")
    one, store = imported(written(tmp_path, text.encode(), "a.csv"))
    assert store.snapshots(one)["bid_px_00"].to_list() == [99.0]


def test_venues_and_symbols_are_recordings_of_their_own(tmp_path: Path) -> None:
    records = [
        book_record(BOOKS[0], OPEN + k, number=number, publisher=publisher)
        for k, (number, publisher) in enumerate([(42, 2), (42, 43), (43, 2), (43, 9)])
    ]
    content = metadata("mbp-1", {42: "ACME", 43: "BRK.B"}) + b"".join(records)
    path = written(tmp_path, content)
    found = import_files([path], tmp_path / "all", ALL)
    assert [one.stem[:-11] for one in found] == ["XNAS_ACME", "ARCX_ACME", "XNAS_BRK.B", "XNYS_BRK.B"]
    found = import_files([path], tmp_path / "some", ReadingOptions(("brk.b",), venue="XNYS"))
    assert [one.stem[:-11] for one in found] == ["XNYS_BRK.B"]
    assert "did you mean" in refusal(tmp_path, content, ReadingOptions(("ACNE",)))
    twice = content + book_record(BOOKS[0], OPEN + 9, publisher=46)
    assert "got publisher_id 2 and 46 for XNAS" in refusal(tmp_path, twice)


def test_an_id_without_a_symbol_needs_a_name(tmp_path: Path) -> None:
    content = metadata("mbp-1", {}) + book_record(BOOKS[0])
    assert "no symbol for instrument_id" in refusal(tmp_path, content)
    one, _ = imported(written(tmp_path, content), ReadingOptions(("ACME",)))
    assert one.symbol == "ACME"
    two = content + book_record(BOOKS[0], OPEN + 1, number=43)
    assert "instrument_id 42, 43; download with map_symbols" in refusal(tmp_path, two, ReadingOptions(("ACME",)))
    other = metadata("mbp-1") + book_record(BOOKS[0]) + book_record(BOOKS[0], OPEN + 1, number=99)
    assert "instrument_id 99" in refusal(tmp_path, other)
    assert imported(written(tmp_path, other, "other.dbn"), ReadingOptions(("ACME",)))[0].snapshots == 1
    odd = metadata("mbp-1", {42: "ABC+"}) + book_record(BOOKS[0])
    assert "symbol must be a name" in refusal(tmp_path, odd)


def test_a_file_of_many_symbols_needs_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databento, "MOST_SYMBOLS", 1)
    content = metadata("mbp-1", {1: "A", 2: "B"}) + book_record(BOOKS[0], number=1) + book_record(BOOKS[0], number=2)
    assert "symbols" in refusal(tmp_path, content)


@pytest.mark.parametrize("publisher", [1, 95, 999])
def test_a_publisher_that_is_no_venue_needs_a_name(tmp_path: Path, publisher: int) -> None:
    content = metadata("mbp-1") + book_record(BOOKS[0], publisher=publisher)
    said = refusal(tmp_path, content)
    assert f"publisher_id must be that of a US equity venue, was {publisher}" in said
    assert ("consolidated" in said) == (publisher in CONSOLIDATED)
    assert imported(written(tmp_path, content), ReadingOptions(venue="XOFF"))[0].venue == "XOFF"
    named = ReadingOptions(venue_names={str(publisher): "XOFF"})
    assert imported(written(tmp_path, content, "other.dbn"), named)[0].venue == "XOFF"


def test_the_only_venue_may_have_another_name(tmp_path: Path) -> None:
    one, store = imported(written(tmp_path, mbo_file(random_orders(3))), ReadingOptions(venue="XOFF"))
    assert one.venue == "XOFF"
    assert {*store.snapshots(one)["venue"], *store.events(one)["venue"]} == {"XOFF"}


@pytest.mark.parametrize(
    ("dataset", "publisher", "expected"),
    [("XNAS.ITCH", 2, True), ("DBEQ.BASIC", 40, True), ("EQUS.MINI", 95, True), ("GLBX.MDP3", 1, False)],
)
def test_a_dataset_or_a_publisher_tells_us_equities(
    tmp_path: Path, dataset: str, publisher: int, expected: bool
) -> None:
    content = metadata("mbp-1", dataset=dataset) + book_record(BOOKS[0], publisher=publisher)
    named = ReadingOptions(("ACME",), venue="XOFF" if publisher in (1, 95) else None)
    for path in (written(tmp_path, content), written(tmp_path, transcoded(content), "x.csv")):
        one, store = imported(path, named)
        rule = "reg-nms" if expected else "none"
        assert [kept.instrument.protection for kept in (one, *store.recordings())] == [rule, rule]


def test_publishers_are_those_of_the_published_list() -> None:
    wanted = {2: "XNAS", 3: "XBOS", 4: "XPSX", 5: "BATS", 6: "BATY", 7: "EDGA", 8: "EDGX", 9: "XNYS", 10: "XCIS"}
    wanted |= {11: "XASE", 12: "XCHI", 15: "MEMX", 16: "EPRL", 38: "IEXG", 43: "ARCX", 80: "LTSE"}
    assert wanted.items() <= PUBLISHERS.items()
    assert not set(CONSOLIDATED) & set(PUBLISHERS)


@pytest.mark.parametrize(
    ("schema", "kind"), [("mbo", dbn.MBOMsg), ("mbp-1", dbn.MBP1Msg), ("mbp-10", dbn.MBP10Msg), ("bbo-1s", dbn.BBOMsg)]
)
def test_layouts_are_those_of_databento(schema: str, kind: Any) -> None:
    theirs, ours = np.dtype(kind._dtypes), _record_layout(schema)
    assert ours.itemsize == theirs.itemsize == kind.size_hint
    assert ours.fields is not None
    assert theirs.fields is not None
    for name, (_, place, *_rest) in theirs.fields.items():
        if not name.startswith("_"):
            assert ours.fields[name][1] == place


def test_books_in_the_middle_of_an_event_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        book_record(BOOKS[0], OPEN, flags=0),
        book_record(BOOKS[1], OPEN, flags=0),
        book_record(BOOKS[0], OPEN, flags=128),
        book_record(BOOKS[1], OPEN + 1, flags=0),
        book_record(BOOKS[0], OPEN + 2, flags=0),
    ]
    path = written(tmp_path, metadata("mbp-1") + b"".join(records))
    for rows in (1, 2, 100):
        monkeypatch.setattr(databento.DatabentoReader, "ROWS", rows)
        one, store = imported(path)
        assert store.snapshots(one)["sequence"].to_list() == [3, 4, 5]


def test_doubtful_books_are_left_out_and_counted(tmp_path: Path) -> None:
    records = [book_record(BOOKS[0], OPEN), book_record(BOOKS[1], OPEN + 1, flags=132), book_record(BOOKS[0], OPEN + 2)]
    one, store = imported(written(tmp_path, metadata("mbp-1") + b"".join(records)))
    assert store.snapshots(one)["sequence"].to_list() == [1, 3]
    assert one.notes == {"maybe_bad_book": 1}
    seconds = metadata("bbo-1s") + book_record(BOOKS[0], schema="bbo-1s", flags=136)
    assert imported(written(tmp_path, seconds, "b.dbn"))[0].notes == {"bad_receipt": 1}


def test_a_record_a_little_late_has_the_time_of_the_one_before(tmp_path: Path) -> None:
    times = (OPEN, OPEN + 900, OPEN + 500)
    content = metadata("mbp-1") + b"".join(book_record(book, time) for book, time in zip(BOOKS, times, strict=True))
    one, store = imported(written(tmp_path, content))
    assert store.snapshots(one)["ts_event"].cast(polars.Int64).to_list() == [OPEN, OPEN + 900, OPEN + 900]
    assert one.notes == {"late": 1}
    far = metadata("mbp-1") + book_record(BOOKS[0], OPEN + 2 * 10**9) + book_record(BOOKS[1], OPEN)
    assert "record 2 of" in refusal(tmp_path, far)


def test_the_evening_before_makes_the_book_and_is_counted(tmp_path: Path) -> None:
    evening = OPEN - 14 * 3600 * 10**9
    orders = [Order("A", 1, "B", 9_999, 300, time=evening), Order("A", 2, "A", 10_001, 100, time=OPEN)]
    one, store = imported(written(tmp_path, mbo_file(orders)))
    assert store.snapshots(one).select("bid_px_00", "ask_px_00").rows() == [(99.99, 100.01)]
    assert one.notes == {"other_days": 1}


def test_futures_are_cut_by_session_over_consecutive_files(tmp_path: Path) -> None:
    """Files cover UTC days; the session 18:00-17:00 of New York begins in one file and ends in the next."""
    future = Instrument("ACME", hours="18:00-17:00", quantity="contracts")
    hour = 3600 * 10**9
    begin, close = future.session(DATE)
    times = [[close - 2 * hour, close, begin + 24 * hour], [begin + 26 * hour, close + 23 * hour]]
    paths = []
    for number, some in enumerate(times):
        records = [book_record(BOOKS[k % 2], time, publisher=1) for k, time in enumerate(some)]
        content = metadata("mbp-1", dataset="GLBX.MDP3") + b"".join(records)
        paths.append(written(tmp_path, content, f"{number}.dbn"))
    options = ReadingOptions(("ACME",), venue="GLBX", instruments={"ACME": future})
    first, second = import_files(paths, tmp_path / "out", options)
    assert [one.date for one in (first, second)] == [DATE, DATE + dt.timedelta(days=1)]
    store = RecordingStore(tmp_path / "out")
    stamps = [store.snapshots(one)["ts_event"].cast(polars.Int64).to_list() for one in (first, second)]
    assert stamps == [[close - 2 * hour], [begin + 24 * hour, begin + 26 * hour, close + 23 * hour]]
    assert first.notes.get("outside", 0) + second.notes.get("outside", 0) == 1
    assert second.source == "0.dbn, 1.dbn"


def test_several_days_need_a_choice(tmp_path: Path) -> None:
    later = OPEN + 86_400 * 10**9
    content = metadata("mbp-1") + book_record(BOOKS[0]) + book_record(BOOKS[1], later)
    assert "has several days" in refusal(tmp_path, content)
    one, _ = imported(written(tmp_path, content), ReadingOptions(date=DATE))
    assert (one.date, one.snapshots, one.notes) == (DATE, 1, {"other_days": 1})
    wrong = ReadingOptions(("ACME",), date=dt.date(2023, 5, 4))
    said = refusal(tmp_path, metadata("mbp-1", {}) + book_record(BOOKS[0]), wrong)
    assert "must hold books of 2023-05-04, was 2024-01-03" in said


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
        (Order("A", 2, "B", 9_999, 100, flags=192), "flags must be those of an order (the top of book is in mbp-1"),
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
