"""LOBSTER files: a pair, plain or zipped; books as written, messages as events, errors that name the row."""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from checkout import SHARED_DATA
from market_files import (
    LOBSTER_NAME,
    MIDNIGHT,
    OPEN,
    Message,
    check_recordings,
    gzipped,
    levels_of,
    lobster_texts,
    naive_books,
    random_messages,
    refusal,
    visible,
    zipped,
)
from riskroute.core.errors import DataError, InputError
from riskroute.market.importing import import_files
from riskroute.market.readers import csv_files
from riskroute.market.readers.lobster import LobsterReader
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

MESSAGES = random_messages(8, 40, kinds="AXDE")


def pair(folder: Path, messages: str, books: str, depth: int = 3) -> tuple[Path, Path]:
    paths = folder / LOBSTER_NAME.format("message", depth), folder / LOBSTER_NAME.format("orderbook", depth)
    for path, text in zip(paths, (messages, books), strict=True):
        path.write_text(text)
    return paths


def imported(path: Path, out: Path, wanted: ReadingOptions | None = None) -> tuple[Recording, RecordingStore]:
    (one,) = import_files([path], out, wanted or ReadingOptions())
    return one, RecordingStore(out)


@pytest.mark.parametrize("depth", [1, 3])
def test_books_and_events_are_those_of_the_orders(tmp_path: Path, depth: int) -> None:
    path, _ = pair(tmp_path, *lobster_texts(MESSAGES, depth), depth)
    recording, store = imported(path, tmp_path / "out")
    assert (recording.stem, recording.depth, recording.reader) == ("XNAS_ACME_2019-03-27", depth, "lobster")
    snapshots, events = store.snapshots(recording), store.events(recording)
    assert [levels_of(row, depth) for row in snapshots.iter_rows(named=True)] == naive_books(MESSAGES, depth)
    assert snapshots["ts_event"].cast(polars.Int64).to_list() == [MIDNIGHT + message.time for message in MESSAGES]
    actions, sides = {"A": "A", "X": "C", "D": "C", "E": "F"}, {"B": "B", "S": "A"}
    assert events.select("action", "side", "price", "size", "order_id").rows() == [
        (actions[one.kind], sides[one.side], one.price / 10_000, one.shares, one.reference) for one in MESSAGES
    ]
    assert events["sequence"].to_list() == snapshots["sequence"].to_list() == list(range(1, 41))
    assert events["remaining"].null_count() == 40
    check_recordings(tmp_path / "out")


def test_either_file_or_an_archive_of_both_gives_the_same(tmp_path: Path) -> None:
    message, book = pair(tmp_path, *lobster_texts(MESSAGES, 3))
    archive = tmp_path / "sample.zip"
    archive.write_bytes(zipped({path.name: path.read_bytes() for path in (book, message)} | {"ReadMe.txt": b"hello"}))
    packed = tmp_path / "packed"
    packed.mkdir()
    for path in (message, book):
        (packed / f"{path.name}.gz").write_bytes(gzipped(path.read_bytes()))
    one, store = imported(message, tmp_path / "a")
    for k, path in enumerate((book, archive, packed / f"{message.name}.gz", packed / f"{book.name}.gz")):
        other, again = imported(path, tmp_path / str(k))
        assert again.snapshots(other).equals(store.snapshots(one))
        assert again.events(other).equals(store.events(one))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_both_files_may_be_given_in_any_order(tmp_path: Path, apart: bool, reverse: bool) -> None:
    """Beside each other or in two folders."""
    paths = list(pair(tmp_path, *lobster_texts(MESSAGES, 3)))
    if apart:
        (tmp_path / "other").mkdir()
        paths[1] = paths[1].rename(tmp_path / "other" / paths[1].name)
    (one,) = import_files(paths[::-1] if reverse else paths, tmp_path / "out", ReadingOptions())
    assert (one.stem, one.snapshots, one.events) == ("XNAS_ACME_2019-03-27", 40, 40)


def test_many_small_blocks_make_the_same_tables_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of both files end at different rows, so pieces are cut to fit."""
    messages = random_messages(9, 300, kinds="AXDE", step=10**6)
    path, _ = pair(tmp_path, *lobster_texts(messages, 3))
    one, store = imported(path, tmp_path / "one")
    monkeypatch.setattr(csv_files, "BLOCK", 700)
    calls: list[int] = []
    (other,) = import_files([path], tmp_path / "many", ReadingOptions(), progress=lambda _, count: calls.append(count))
    assert len(calls) > 20
    assert other == one
    assert RecordingStore(tmp_path / "many").snapshots(other).equals(store.snapshots(one))
    assert RecordingStore(tmp_path / "many").events(other).equals(store.events(one))


def test_levels_that_are_not_there_are_empty(tmp_path: Path) -> None:
    first = Message("A", OPEN, 1, "B", 100, 999_900)
    path, _ = pair(tmp_path, *lobster_texts([first], 2), 2)
    assert path.with_name(LOBSTER_NAME.format("orderbook", 2)).read_text().count("9999999999") == 3
    one, store = imported(path, tmp_path / "out")
    (row,) = store.snapshots(one).iter_rows(named=True)
    assert levels_of(row, 2) == {"bid": [(99.99, 100), (None, 0)], "ask": [(None, 0), (None, 0)]}


def test_less_depth_than_the_file_has(tmp_path: Path) -> None:
    path, _ = pair(tmp_path, *lobster_texts(MESSAGES, 3))
    one, store = imported(path, tmp_path / "out", ReadingOptions(depth=2))
    assert one.depth == 2
    rows = store.snapshots(one).iter_rows(named=True)
    assert [levels_of(row, 2) for row in rows] == naive_books(MESSAGES, 2)


def test_hidden_executions_are_events_of_no_order_and_crosses_and_halts_none(tmp_path: Path) -> None:
    path, _ = pair(
        tmp_path,
        "34200.1,1,1,100,999900,1\n34200.2,5,0,10,1000000,-1\n34200.3,6,-1,5,1000000,1\n34200.4,7,0,0,-1,-1\n",
        "9999999999,0,999900,100\n" * 4,
        1,
    )
    said = refusal(path)
    assert "row 3" in said
    path.write_text(path.read_text().replace(",-1,5,", ",0,5,"))
    one, store = imported(path, tmp_path / "out")
    found = store.events(one).select("sequence", "action", "side", "price", "size", "order_id").rows()
    assert found == [(1, "A", "B", 99.99, 100, 1), (2, "F", "A", 100.0, 10, 0)]
    assert one.snapshots == 4


def test_a_window_and_a_symbol(tmp_path: Path) -> None:
    path, _ = pair(tmp_path, *lobster_texts(MESSAGES, 3))
    one, store = imported(
        path, tmp_path / "a", ReadingOptions(("acme",), start=dt.time(9, 30, 10), end=dt.time(9, 30, 20))
    )
    assert (one.snapshots, one.events) == (10, 10)
    assert store.snapshots(one)["sequence"].to_list() == list(range(11, 21))
    said = refusal(path, ReadingOptions(("ACNE",)))
    assert said == "symbol must be one of ACME, was 'ACNE' (did you mean ACME?)"
    assert "requested part of the day" in refusal(path, ReadingOptions(start=dt.time(15)))


def test_date_and_venue_may_be_overruled(tmp_path: Path) -> None:
    path, _ = pair(tmp_path, *lobster_texts(MESSAGES, 3))
    one, _ = imported(path, tmp_path / "a", ReadingOptions(date=dt.date(2020, 7, 1), venue="XBOS"))
    assert one.stem == "XBOS_ACME_2020-07-01"


@pytest.mark.parametrize("missing", ["message", "orderbook"])
def test_a_missing_partner_is_named(tmp_path: Path, missing: str) -> None:
    paths = dict(zip(("message", "orderbook"), pair(tmp_path, *lobster_texts(MESSAGES, 3)), strict=True))
    gone = paths.pop(missing)
    gone.unlink()
    (there,) = paths.values()
    assert f"needs its {missing} file; put {gone.name} in the same folder" in refusal(there)
    gone.write_bytes(zipped({"readme.txt": b""}))
    assert f"needs its {missing} file" in refusal(there)
    archive = tmp_path / "one.zip"
    archive.write_bytes(zipped({there.name: there.read_bytes()}))
    assert f"needs its {missing} file" in refusal(archive)


def test_an_archive_of_two_days_is_refused(tmp_path: Path) -> None:
    texts = dict(zip(("message", "orderbook"), lobster_texts(MESSAGES, 1), strict=True))
    names = [LOBSTER_NAME.replace("27", day) for day in ("27", "28")]
    files = {name.format(kind, 1): text.encode() for name in names for kind, text in texts.items()}
    (tmp_path / "two.zip").write_bytes(zipped(files))
    assert "expected one symbol and day in" in refusal(tmp_path / "two.zip")


@pytest.mark.parametrize("other", ["GOOG_2019-03-27", "ACME_2019-03-28"])
def test_names_of_two_symbols_or_days_are_refused(tmp_path: Path, other: str) -> None:
    messages, books = lobster_texts(MESSAGES, 3)
    theirs = LOBSTER_NAME.format("message", 3).replace("ACME_2019-03-27", other)
    files = {theirs: messages.encode(), LOBSTER_NAME.format("orderbook", 3): books.encode()}
    (tmp_path / "pair.zip").write_bytes(zipped(files))
    assert f"of one symbol, date and number of levels, got {theirs} with ACME" in refusal(tmp_path / "pair.zip")


def shifted(messages: list[Message]) -> list[Message]:
    return [one._replace(price=one.price + 50_000) for one in messages]


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("block", [300, 1 << 20])
@pytest.mark.parametrize(
    "others", [random_messages(9, 80, kinds="AXDE"), shifted(random_messages(8, 80, kinds="AXDE"))]
)
def test_messages_beside_the_books_of_another_symbol_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, block: int, others: list[Message]
) -> None:
    """At the same prices or at others; names and numbers of rows are right."""
    monkeypatch.setattr(csv_files, "BLOCK", block)
    _, books = lobster_texts(random_messages(8, 80, kinds="AXDE"), depth)
    path, book = pair(tmp_path, lobster_texts(others, depth)[0], books, depth)
    assert f"{path.name} and {book.name} do not belong together: only " in refusal(path)


@pytest.mark.real_data
@pytest.mark.parametrize("by", [0, 1])
def test_real_messages_beside_books_that_are_a_row_off_are_refused(tmp_path: Path, by: int) -> None:
    source = SHARED_DATA / "lobster" / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"
    if not source.is_file():
        pytest.skip(f"no {source}")
    with zipfile.ZipFile(source) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".csv"))
        messages, books = (archive.read(name).splitlines(keepends=True)[:3000] for name in names)
    files = dict(zip(names, (b"".join(messages[: 3000 - by]), b"".join(books[by:])), strict=True))
    (tmp_path / "pair.zip").write_bytes(zipped(files))
    if by:
        assert "do not belong together" in refusal(tmp_path / "pair.zip")
    else:
        assert imported(tmp_path / "pair.zip", tmp_path / "out")[0].snapshots == 3000


@pytest.mark.parametrize("cut", ["message", "orderbook"])
def test_files_of_different_length_are_refused(tmp_path: Path, cut: str) -> None:
    pair(tmp_path, *lobster_texts(MESSAGES, 3))
    path = tmp_path / LOBSTER_NAME.format(cut, 3)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert "as many messages as books" in refusal(path)


@pytest.mark.parametrize("emptied", ["message", "orderbook"])
def test_an_empty_file_is_refused(tmp_path: Path, emptied: str) -> None:
    pair(tmp_path, *lobster_texts(MESSAGES, 3))
    path = tmp_path / LOBSTER_NAME.format(emptied, 3)
    path.write_text("")
    assert "Empty CSV" in refusal(path)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (1, "9", "row 5 of .* must have a type from 1 to 7"),
        (1, "", "row 5 of .* must have a type from 1 to 7"),
        (0, "34209.5", "row 6 of .* must have a time not before that of the previous row"),
        (0, "-1", "row 5 of .* must have a time between 0 and 86400"),
        (0, "86400.1", "row 5 of .* must have a time between 0 and 86400"),
        (0, "nan", "row 5 of .* must have a time between 0 and 86400"),
        (0, "inf", "row 5 of .* must have a time between 0 and 86400"),
        (0, "", "row 5 of .* must have a time between 0 and 86400"),
        (5, "0", "row 5 of .* must have a direction of 1 or -1"),
        (3, "-5", "row 5 of .* must have a size from 0 to 4,294,967,295"),
        (3, "4294967296", "row 5 of .* must have a size from 0 to 4,294,967,295"),
        (4, "", "row 5 of .* must have a price"),
        (2, "-7", "row 5 of .* must have an order id of 0 or more"),
        (2, "x7", "(?i)row #?5.*'x7'"),
        (3, "1.5", "(?i)row #?5.*'1.5'"),
        (0, "9:30", "(?i)row #?5.*'9:30'"),
        (4, "9223372036854775808", "(?i)row #?5.*'9223372036854775808'"),
    ],
)
def test_a_bad_message_is_refused_by_row(tmp_path: Path, column: int, value: str, expected: str) -> None:
    message, _ = pair(tmp_path, *lobster_texts(MESSAGES, 3))
    rows = [line.split(",") for line in message.read_text().splitlines()]
    rows[4][column] = value
    message.write_text("\n".join(map(",".join, rows)) + "\n")
    with pytest.raises(DataError, match=expected):
        import_files([message], tmp_path / "out", ReadingOptions())
    assert visible(tmp_path / "out") == []


@pytest.mark.parametrize("value", ["x", "1.5", "-5", "4294967296", "9223372036854775808"])
def test_a_bad_size_in_a_book_is_refused(tmp_path: Path, value: str) -> None:
    _, book = pair(tmp_path, *lobster_texts(MESSAGES, 3))
    rows = [line.split(",") for line in book.read_text().splitlines()]
    number = next(k for k, row in enumerate(rows) if row[1] != "0")
    rows[number][1] = value
    book.write_text("\n".join(map(",".join, rows)) + "\n")
    said = refusal(book)
    assert value in said or "4294967295" in said


@pytest.mark.parametrize(
    "change", [lambda line: line + ",1", lambda line: line.rsplit(",", 1)[0], lambda line: "\xff\x00" + line]
)
def test_rows_of_another_width_are_refused(tmp_path: Path, change: Callable[[str], str]) -> None:
    _, book = pair(tmp_path, *lobster_texts(MESSAGES, 3))
    lines = book.read_text().splitlines()
    lines[6] = change(lines[6])
    book.write_text("\n".join(lines) + "\n")
    assert "is not a valid table" in refusal(book)


def test_times_that_fall_from_block_to_block_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "BLOCK", 90)
    messages, books = lobster_texts(MESSAGES, 1)
    lines = messages.splitlines(keepends=True)
    pair(tmp_path, "".join([*lines[:-1], lines[0]]), books, 1)
    assert "row 40 of" in refusal(tmp_path / LOBSTER_NAME.format("message", 1))


@pytest.mark.parametrize("depth", ["0", "1001", "99999"])
def test_an_impossible_depth_in_the_name_is_refused(tmp_path: Path, depth: str) -> None:
    message, book = pair(tmp_path, *lobster_texts(MESSAGES, 1), 1)
    for path in (message, book):
        path.rename(path.with_name(path.name.replace("_1.csv", f"_{depth}.csv")))
    assert "must state its date and number of levels" in refusal(
        tmp_path / message.name.replace("_1.csv", f"_{depth}.csv")
    )


def test_files_of_other_names_need_lobster_names(tmp_path: Path) -> None:
    (tmp_path / "message.csv").write_text("")
    (tmp_path / "orderbook.csv").write_text("")
    with pytest.raises(DataError, match="must be named like AMZN_2012-06-21"):
        LobsterReader(tmp_path / "message.csv", ReadingOptions())


@pytest.mark.real_data
def test_the_real_amazon_file(tmp_path: Path) -> None:
    path = SHARED_DATA / "lobster" / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"
    if not path.is_file():
        pytest.skip(f"no {path}")
    one, store = imported(path, tmp_path / "out")
    assert (one.stem, one.snapshots, one.crossed, one.depth) == ("XNAS_AMZN_2012-06-21", 155_935, 0, 5)
    snapshots = store.snapshots(one)
    assert levels_of(snapshots.row(0, named=True), 2) == {
        "bid": [(223.18, 100), (223.07, 200)],
        "ask": [(223.95, 100), (223.99, 100)],
    }
    assert levels_of(snapshots.row(-1, named=True), 1) == {"bid": [(220.51, 249)], "ask": [(220.64, 100)]}
    first, last = snapshots["ts_event"][0], snapshots["ts_event"][-1]
    assert (first.isoformat()[:19], last.isoformat()[:19]) == ("2012-06-21T13:30:00", "2012-06-21T19:59:59")
    check_recordings(tmp_path / "out")


def test_wanted_refuses_what_cannot_be() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"depth": 0}, "depth must be a positive integer, was 0"),
        ({"depth": 1001}, "depth must be at most 1,000, was 1,001"),
        ({"depth": 2.5}, "depth must be a positive integer, was 2.5"),
        ({"symbols": "AMZN"}, "symbols must be a list of names, was 'AMZN'"),
        ({"symbols": ("",)}, "symbol must be a name of up to 16 letters, digits, spaces or ._-/"),
        ({"symbols": ("../../X",)}, "symbol must be a name of up to 16 letters"),
        ({"symbols": ("A\x00",)}, "symbol must be a name of up to 16 letters"),
        ({"symbols": ("ABC+",)}, "symbol must be a name of up to 16 letters"),
        ({"symbols": ("X" * 17,)}, "symbol must be a name of up to 16 letters"),
        ({"symbols": (3,)}, "symbols must be a list of names, was 3 at [0]"),
        ({"venue": "nas|daq"}, "venue must be a name of up to 32 letters"),
        ({"start": dt.time(12), "end": dt.time(12)}, "window must end after it starts, was 12:00:00 to 12:00:00"),
        ({"date": dt.date(1, 1, 1)}, "date must be between 1970 and 2261, was 0001-01-01"),
        ({"date": dt.date(9999, 1, 1)}, "date must be between 1970 and 2261, was 9999-01-01"),
    ]
    for wrong, expected in cases:
        with pytest.raises(InputError) as caught:
            ReadingOptions(**wrong)
        assert str(caught.value).startswith(expected)
