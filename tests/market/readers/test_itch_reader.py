"""ITCH files: books and events against a dictionary of orders, names and options, missing directories, broken files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import itch_book
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import market_files
from checkout import SHARED_DATA
from market_files import (
    ITCH_NAME,
    MIDNIGHT,
    OPEN,
    Message,
    check_recordings,
    gzipped,
    itch_bytes,
    itch_directory,
    itch_message,
    itch_order,
    levels_of,
    naive_books,
    random_messages,
    visible,
)
from riskroute.core.errors import DataError
from riskroute.market.importing import import_files
from riskroute.market.readers import itch
from riskroute.market.readers.itch import ItchReader, _venue_in_name
from riskroute.market.readers.reading import ReadingOptions, reading_file_date
from riskroute.market.recordings import Recording, RecordingStore

ACME = ReadingOptions(("ACME",))


def written(folder: Path, content: bytes, name: str = ITCH_NAME) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def imported(path: Path, out: Path, wanted: ReadingOptions = ACME, **options: Any) -> tuple[Recording, RecordingStore]:
    (one,) = import_files([path], out, wanted, **options)
    return one, RecordingStore(out)


def refusal(path: Path, wanted: ReadingOptions = ACME, **options: Any) -> str:
    return market_files.refusal(path, wanted, **options)


def real(name: str) -> Path:
    path = SHARED_DATA / "itch" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


EVERY_KIND = [
    Message("A", OPEN, 1, "B", 300, 999_900),
    Message("A", OPEN + 1, 2, "S", 200, 1_000_100),
    Message("F", OPEN + 2, 3, "B", 100, 999_900),
    Message("A", OPEN + 3, 4, "B", 50, 999_800),
    Message("E", OPEN + 4, 1, "B", 120, 999_900),
    Message("C", OPEN + 5, 2, "S", 50, 1_000_050),
    Message("X", OPEN + 6, 3, "B", 40, 999_900),
    Message("U", OPEN + 7, 4, "B", 80, 999_950, 5),
    Message("D", OPEN + 8, 1, "B", 180, 999_900),
    Message("E", OPEN + 9, 5, "B", 80, 999_950),
]


def assert_books_are_naive(snapshots: polars.DataFrame, messages: list[Message], depth: int) -> None:
    """Every row has the levels after its message, and every message that changes those levels has a row."""
    books = naive_books(messages, depth)
    rows = {row["sequence"] - 2: row for row in snapshots.iter_rows(named=True)}
    for number, row in rows.items():
        assert levels_of(row, depth) == books[number]
    nothing = naive_books([Message("A", 0, 1), Message("D", 0, 1)], depth)[1]
    changes = {k for k, book in enumerate(books) if book != (books[k - 1] if k else nothing)}
    assert changes <= set(rows)
    stamps = dict(zip(rows, snapshots["ts_event"].cast(polars.Int64), strict=True))
    assert stamps == {number: MIDNIGHT + messages[number].time for number in rows}


@pytest.mark.parametrize("depth", [1, 2, 5, 50])
def test_every_kind_of_message_moves_the_book_as_a_dictionary_of_orders_does(tmp_path: Path, depth: int) -> None:
    one, store = imported(written(tmp_path, itch_bytes(EVERY_KIND)), tmp_path / "out", ReadingOptions(("ACME",), depth))
    assert one.depth == depth
    assert_books_are_naive(store.snapshots(one), EVERY_KIND, depth)
    check_recordings(tmp_path / "out")


def test_events_of_every_kind_of_message(tmp_path: Path) -> None:
    one, store = imported(written(tmp_path, itch_bytes(EVERY_KIND)), tmp_path / "out")
    found = store.events(one).select("action", "side", "price", "size", "remaining", "order_id", "old_order_id")
    assert found.rows() == [
        ("A", "B", 99.99, 300, 300, 1, 0),
        ("A", "A", 100.01, 200, 200, 2, 0),
        ("A", "B", 99.99, 100, 100, 3, 0),
        ("A", "B", 99.98, 50, 50, 4, 0),
        ("F", "B", 99.99, 120, 180, 1, 0),
        ("F", "A", 100.005, 50, 150, 2, 0),
        ("C", "B", 99.99, 40, 60, 3, 0),
        ("M", "B", 99.995, 80, 80, 5, 4),
        ("C", "B", 99.99, 180, 0, 1, 0),
        ("F", "B", 99.995, 80, 0, 5, 0),
    ]
    assert store.events(one)["sequence"].to_list() == list(range(2, 12))
    assert (one.references, one.unresolved, one.crossed) == (6, 0, 0)


@pytest.mark.usefixtures("untraced")
@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), depth=st.sampled_from([1, 3, 5]))
def test_random_days_give_the_books_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, seed: int, depth: int
) -> None:
    folder = tmp_path_factory.mktemp("random")
    messages = random_messages(seed, 60)
    one, store = imported(written(folder, itch_bytes(messages)), folder / "out", ReadingOptions(("ACME",), depth))
    assert one.references == sum(message.kind not in "AF" for message in messages)
    assert_books_are_naive(store.snapshots(one), messages, depth)


@pytest.mark.usefixtures("untraced")
def test_many_small_parts_make_the_same_tables_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, itch_bytes(random_messages(3, 2000, step=10**6)))
    whole, store = imported(path, tmp_path / "whole")
    opened = itch_book.open
    monkeypatch.setattr(itch.ItchReader, "ROWS", 100)
    monkeypatch.setattr(itch_book, "open", lambda path, **options: opened(path, **options | {"chunk_bytes": 2000}))
    calls: list[int] = []
    (parts,) = import_files([path], tmp_path / "parts", ACME, progress=lambda _, count: calls.append(count))
    assert len(calls) > 20
    pieces = RecordingStore(tmp_path / "parts")
    assert parts == whole
    assert pieces.snapshots(parts).equals(store.snapshots(whole))
    assert pieces.events(parts).equals(store.events(whole))


def test_gzip_gives_what_the_raw_file_gives(tmp_path: Path) -> None:
    content = itch_bytes(random_messages(1))
    raw, plain = imported(written(tmp_path, content), tmp_path / "raw")
    packed, unpacked = imported(written(tmp_path, gzipped(content), f"{ITCH_NAME}.gz"), tmp_path / "gz")
    assert unpacked.snapshots(packed).equals(plain.snapshots(raw))
    assert unpacked.events(packed).equals(plain.events(raw))


def test_several_symbols_at_once_give_what_single_imports_give(tmp_path: Path) -> None:
    first, second = random_messages(5, 30), random_messages(6, 30)
    orders = [itch_directory("ACME"), itch_directory("ZETA", 2), itch_directory("NONE", 3)]
    for ours, theirs in zip(first, second, strict=True):
        orders += [itch_order(ours), itch_order(_renumbered(theirs), "ZETA", 2)]
    path = written(tmp_path, b"".join(orders))
    both = import_files([path], tmp_path / "both", ReadingOptions(("zeta", "acme")))
    assert [one.symbol for one in both] == ["ACME", "ZETA"]
    for one in both:
        alone, store = imported(path, tmp_path / one.symbol, ReadingOptions((one.symbol,)))
        assert alone == one
        assert store.snapshots(alone).equals(RecordingStore(tmp_path / "both").snapshots(one))
        assert store.events(alone).equals(RecordingStore(tmp_path / "both").events(one))
    assert "snapshots of NONE in the requested part" in refusal(path, ReadingOptions(("ACME", "NONE")))


def _renumbered(one: Message) -> Message:
    return one._replace(reference=one.reference + 1000, new=one.new + 1000)


def test_a_window_keeps_what_lies_in_it(tmp_path: Path) -> None:
    path = written(tmp_path, itch_bytes(random_messages(2, 40)))
    one, store = imported(path, tmp_path / "all")
    wanted = ReadingOptions(("ACME",), start=dt.time(9, 30, 10), end=dt.time(9, 30, 20))
    part, some = imported(path, tmp_path / "some", wanted)
    begin, end = MIDNIGHT + OPEN + 10 * 10**9, MIDNIGHT + OPEN + 20 * 10**9
    assert some.snapshots(part).equals(store.snapshots(one, begin, end))
    assert some.events(part).equals(store.events(one, begin, end))
    assert 0 < part.events <= 10 < one.events
    assert "requested part of the day" in refusal(path, ReadingOptions(("ACME",), start=dt.time(15)))


@pytest.mark.parametrize(
    ("name", "date", "venue"),
    [
        ("12302019.NASDAQ_ITCH50.gz", dt.date(2019, 12, 30), "XNAS"),
        ("20190327.BX_ITCH_50.gz", dt.date(2019, 3, 27), "XBOS"),
        ("20190327.PSX_ITCH_50", dt.date(2019, 3, 27), "XPSX"),
        ("S081321-v50-bx.txt.gz", dt.date(2021, 8, 13), "XBOS"),
        ("bx-2020-02-30-2020-03-01.itch", dt.date(2020, 3, 1), "XBOS"),
        ("00010101.itch", None, "XNAS"),
        ("99991231.itch", None, "XNAS"),
        ("1234567890.itch", None, "XNAS"),
        ("boxed.itch", None, "XNAS"),
    ],
)
def test_file_names_tell_day_and_venue(name: str, date: dt.date | None, venue: str) -> None:
    assert reading_file_date(name) == date
    assert _venue_in_name(name) == venue


def test_options_tell_what_the_name_does_not_and_overrule_it(tmp_path: Path) -> None:
    content = itch_bytes(EVERY_KIND)
    path = written(tmp_path, content, "excerpt.itch")
    assert "does not state its date; give date" in refusal(path)
    one, _ = imported(path, tmp_path / "a", ReadingOptions(("ACME",), date=dt.date(2020, 1, 2)))
    assert one.stem == "XNAS_ACME_2020-01-02"
    other = written(tmp_path, content, "20190327.BX_ITCH_50")
    one, _ = imported(other, tmp_path / "b", ReadingOptions(("ACME",), date=dt.date(2020, 1, 2), venue="XPSX"))
    assert one.stem == "XPSX_ACME_2020-01-02"


def test_an_absent_symbol_is_told_with_its_neighbours(tmp_path: Path) -> None:
    names = [itch_directory(name, k + 1) for k, name in enumerate(("AAPL", "AAL", "MSFT", "ZM"))]
    path = written(tmp_path, b"".join(names) + itch_order(EVERY_KIND[0], "AAPL"))
    said = refusal(path, ReadingOptions(("APPL",)))
    assert " is not among the 4" in said
    assert "did you mean AAPL" in said
    assert said.startswith("symbol 'APPL' is not among")
    assert "give symbol" in refusal(path, ReadingOptions())
    assert "at most 8 characters" in refusal(path, ReadingOptions(("MUCHTOOLONG",)))


def test_a_file_cut_anywhere_but_between_messages_is_refused(tmp_path: Path) -> None:
    content = itch_bytes(EVERY_KIND[:4])
    starts = {0}
    while max(starts) < len(content):
        at = max(starts)
        starts.add(at + 2 + int.from_bytes(content[at : at + 2], "big"))
    path = tmp_path / ITCH_NAME
    whole = 0
    for end in range(1, len(content) + 1):
        path.write_bytes(content[:end])
        if end in starts and end != min(starts - {0}):
            whole += import_files([path], tmp_path / "whole", ACME)[0].events > 0
        else:
            refusal(path)
    assert whole == 4


def test_a_gzip_file_cut_off_is_refused(tmp_path: Path) -> None:
    content = gzipped(itch_bytes(random_messages(1)))
    for end in (3, 12, len(content) // 2, len(content) - 9, len(content) - 1):
        assert "must be a complete NASDAQ ITCH" in refusal(written(tmp_path, content[:end], f"{ITCH_NAME}.gz"))
    broken = bytearray(content)
    broken[-6] ^= 1
    assert "must be a complete NASDAQ ITCH" in refusal(written(tmp_path, bytes(broken), f"{ITCH_NAME}.gz"))


@pytest.mark.parametrize("content", [b"", b"\x00", b"nothing of the kind\n" * 50, b"\x00\x00" * 40, b"\xff" * 400])
def test_what_is_not_itch_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "must be a complete NASDAQ ITCH 5.0 file" in refusal(written(tmp_path, content))


def test_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "20190327.itch").mkdir()
    assert "no market data found" in refusal(tmp_path / "20190327.itch")
    assert "no such file" in refusal(tmp_path / "20190328.itch")
    with pytest.raises(DataError, match="cannot read"):
        list(ItchReader(tmp_path / "20190327.itch", ACME).parts())


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (itch_order(Message("A", OPEN - 1, 9, "B", 100, 999_000)), "time not before that of the previous message"),
        (itch_order(Message("A", 86_400 * 10**9, 9, "B", 100, 999_000)), "time on 2019-03-27"),
        (itch_order(Message("A", 2**48 - 1, 9, "B", 100, 999_000)), "time on 2019-03-27"),
        (itch_order(Message("A", OPEN + 10, 9, "?", 100, 999_000)), "side B or S, was b'?'"),
        (itch_order(Message("C", OPEN + 10, 2, "S", 50, 0)), "a price above 0, was nan"),
        (itch_directory("ACME", 7), "got also 7 for 'ACME'"),
        (itch_directory("OTHER", 1), "got also 1 for 'OTHER'"),
        (itch_message("A", 1, OPEN + 10, b"short"), "malformed messages"),
        (itch_message("!", 1, OPEN + 10, b"unknown"), "malformed messages"),
        (itch_message("R", 3, OPEN + 10, b"\xff" * 28), "must be a complete NASDAQ ITCH"),
    ],
    ids=[
        "back in time",
        "next day",
        "in three days",
        "side",
        "price",
        "two codes",
        "two symbols",
        "short",
        "kind",
        "name",
    ],
)
def test_messages_that_cannot_be_are_refused(tmp_path: Path, extra: bytes, expected: str) -> None:
    assert expected in refusal(written(tmp_path, itch_bytes(EVERY_KIND) + extra))


def test_a_reference_of_another_symbols_order_is_refused(tmp_path: Path) -> None:
    content = itch_bytes(EVERY_KIND[:4]) + itch_directory("ZETA", 2)
    path = written(tmp_path, content + itch_order(Message("A", OPEN + 9, 1, "B", 100, 999_000), "ZETA", 2))
    assert "message 7 of" in refusal(path)
    assert "reuses the reference of another" in refusal(path)


def test_the_same_directory_entry_again_changes_nothing(tmp_path: Path) -> None:
    once, store = imported(written(tmp_path, itch_bytes(EVERY_KIND)), tmp_path / "once")
    content = itch_bytes(EVERY_KIND) + itch_directory("ACME") + itch_directory("ZETA", 2)
    twice, again = imported(written(tmp_path, content), tmp_path / "twice")
    assert again.snapshots(twice).equals(store.snapshots(once))


def test_orders_without_price_or_size_are_no_levels(tmp_path: Path) -> None:
    extra = [Message("A", OPEN + 10, 20, "B", 0, 999_000), Message("A", OPEN + 11, 21, "S", 100, 0)]
    path = written(tmp_path, itch_bytes([*EVERY_KIND[:4], *extra]))
    one, store = imported(path, tmp_path / "out", max_crossed=1)
    check_recordings(tmp_path / "out")
    assert levels_of(store.snapshots(one).row(-1, named=True), 5) == naive_books(EVERY_KIND[:4], 5)[-1]


def test_too_many_unresolved_references_are_refused_with_their_share(tmp_path: Path) -> None:
    absent = [Message("D", OPEN + 10 + k, 900 + k) for k in range(2)]
    path = written(tmp_path, itch_bytes([*EVERY_KIND, *absent]))
    said = refusal(path)
    assert "at most 1.0% unresolved order references, was 25.0% (2 of 8); max_unresolved = 0.26" in said
    one, store = imported(path, tmp_path / "kept", max_unresolved=0.26)
    assert (one.unresolved, one.references, one.unresolved_share) == (2, 8, 0.25)
    assert store.events(one).height == len(EVERY_KIND)


def test_crossed_books_are_refused_with_their_share(tmp_path: Path) -> None:
    crossing = [Message("A", OPEN, 1, "B", 100, 1_000_000), Message("A", OPEN + 1, 2, "S", 100, 999_900)]
    path = written(tmp_path, itch_bytes(crossing))
    assert "crossed or locked snapshots, was 50.0% (1 of 2); max_crossed = 0.51" in refusal(path)
    one, _ = imported(path, tmp_path / "kept", max_crossed=0.51)
    assert (one.crossed, one.crossed_share) == (1, 0.5)


@pytest.mark.real_data
def test_a_real_file_rebuilds_without_an_unresolved_reference(tmp_path: Path) -> None:
    path = real("AAPL_20200130_premarket_10k.itch50")
    one, store = imported(path, tmp_path / "out", ReadingOptions(("AAPL",)))
    assert (one.stem, one.references, one.unresolved) == ("XNAS_AAPL_2020-01-30", 4_945, 0)
    events = store.events(one)
    assert set(events["action"]) == set("ACFM")
    assert set(events["side"]) == set("AB")
    check_recordings(tmp_path / "out")
    packed = written(tmp_path, gzipped(path.read_bytes()), f"{path.name}.gz")
    again, unpacked = imported(packed, tmp_path / "gz", ReadingOptions(("AAPL",)))
    assert unpacked.snapshots(again).equals(store.snapshots(one))


@pytest.mark.real_data
def test_a_real_excerpt_is_refused_unless_told_to_go_on(tmp_path: Path) -> None:
    path = real("AAPL_20191230_0935_banded.itch50")
    with pytest.raises(DataError, match=r"was 14\.4% \(3,970 of 27,544\); max_unresolved = 0\.15 "):
        import_files([path], tmp_path / "out", ReadingOptions(("AAPL",)))
    assert visible(tmp_path / "out") == []
    one, _ = imported(path, tmp_path / "out", ReadingOptions(("AAPL",)), max_unresolved=0.15)
    assert (one.unresolved, one.references) == (3_970, 27_544)
    check_recordings(tmp_path / "out")


ORDERS = [Message("A", OPEN + 1, 2, "S", 200, 1_000_100), Message("F", OPEN + 2, 3, "B", 100, 999_900)]


def without_directory(content: bytes) -> bytes:
    """The messages of a file that are not of its directory."""
    place, kept = 0, []
    while place < len(content):
        following = place + 2 + int.from_bytes(content[place : place + 2], "big")
        if content[place + 2 : place + 3] != b"R":
            kept.append(content[place:following])
        place = following
    return b"".join(kept)


@pytest.mark.parametrize("block", [7, 100, 1 << 24])
def test_a_file_without_a_directory_has_the_symbols_of_its_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(itch, "BLOCK", block)
    messages = random_messages(8, 60)
    whole, store = imported(written(tmp_path, itch_bytes(messages)), tmp_path / "whole")
    bare = itch_order(Message("A", OPEN, 900, "B", 100, 1_999_900), "ZETA", 2) + without_directory(itch_bytes(messages))
    for name, content in {ITCH_NAME: bare, f"{ITCH_NAME}.gz": gzipped(bare)}.items():
        one, other = imported(written(tmp_path, content, name), tmp_path / name.rsplit(".")[-1])
        for table in ("snapshots", "events"):
            assert getattr(other, table)(one).equals(getattr(store, table)(whole)), "Z's order is where R was"
    assert (one.references, one.unresolved) == (whole.references, 0)
    path = written(tmp_path, bare)
    assert "has 2 symbols (ACME, ZETA)" in refusal(path, ReadingOptions())
    assert "did you mean ACME?" in refusal(path, ReadingOptions(("ACNE",)))
    both = import_files([path], tmp_path / "both", ReadingOptions(("ACME", "ZETA")))
    assert {one.symbol: one.snapshots for one in both} == {"ACME": whole.snapshots, "ZETA": 1}


def test_symbols_with_and_without_a_directory_entry(tmp_path: Path) -> None:
    zeta = [itch_order(Message("A", OPEN + k, 900 + k, "B", 100, 1_999_900), "ZETA", 2) for k in range(2)]
    content = itch_directory("ACME") + zeta[0] + itch_order(ORDERS[0]) + itch_order(ORDERS[1]) + zeta[1]
    content = content.replace(zeta[1], itch_order(Message("A", OPEN + 5, 901, "B", 100, 1_999_900), "ZETA", 2))
    both = import_files([written(tmp_path, content)], tmp_path / "both", ReadingOptions(("ACME", "ZETA")))
    assert {one.symbol: (one.snapshots, one.events) for one in both} == {"ACME": (2, 2), "ZETA": (2, 2)}
    check_recordings(tmp_path / "both")
    twice = content + itch_order(Message("A", OPEN + 6, 902, "B", 100, 1_999_900), "OTHER", 2)
    assert "expected one symbol per locate code" in refusal(written(tmp_path, twice), ReadingOptions(("ZETA",)))
    again = content + itch_order(Message("A", OPEN + 6, 902, "B", 100, 1_999_900), "ZETA", 3)
    assert "expected one locate code per symbol" in refusal(written(tmp_path, again), ReadingOptions(("ZETA",)))
    strange = content + itch_order(Message("A", OPEN + 6, 900, "B", 100, 1_999_900), "OTHER", 4)
    assert "reuses the reference of another" in refusal(written(tmp_path, strange), ReadingOptions(("ZETA",)))


@pytest.mark.real_data
def test_a_real_file_reads_the_same_without_its_directory(tmp_path: Path) -> None:
    content = real("AAPL_20200130_premarket_10k.itch50").read_bytes()
    whole, store = imported(written(tmp_path, content, "20200130.itch"), tmp_path / "out", ReadingOptions(("AAPL",)))
    bare = written(tmp_path, without_directory(content), "bare_20200130.itch")
    one, other = imported(bare, tmp_path / "bare", ReadingOptions(("AAPL",)))
    assert (one.snapshots, one.references, one.unresolved) == (whole.snapshots, whole.references, 0)
    assert other.events(one).drop("sequence").equals(store.events(whole).drop("sequence"))


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("12302019.NASDAQ_ITCH50", dt.date(2019, 12, 30)),
        ("01302020.NASDAQ_ITCH50.gz", dt.date(2020, 1, 30)),
        ("10202019.NASDAQ_ITCH50", dt.date(2019, 10, 20)),
        ("20122011.NASDAQ_ITCH50", dt.date(2011, 12, 20)),
        ("20111220.NASDAQ_ITCH50", dt.date(2011, 12, 20)),
        ("12302019-excerpt.bin", dt.date(2019, 12, 30)),
        ("12302019.BX_ITCH50", dt.date(2019, 12, 30)),
        ("S081321-v50-bx.txt.gz", dt.date(2021, 8, 13)),
        ("20190327.PSX_ITCH_50", dt.date(2019, 3, 27)),
        ("10112012.NASDAQ_ITCH50", dt.date(2012, 10, 11)),
        ("30122019.bin", dt.date(2019, 12, 30)),
        ("10112012.bin", None),
        ("11112012.bin", dt.date(2012, 11, 11)),
        ("20190327_20190328.itch", None),
        ("20190327_2019-03-27.itch", dt.date(2019, 3, 27)),
        ("20102011.bin", dt.date(2011, 10, 20)),
        ("20191340.bin", None),
        ("120190327.bin", None),
    ],
)
def test_days_of_names(name: str, day: dt.date | None) -> None:
    assert reading_file_date(name) == day
