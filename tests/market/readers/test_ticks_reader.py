"""Ticks of the tape: sides remembered per venue as a plain loop does, names and options, rows that are refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import market_files
from checkout import SHARED_DATA
from market_files import (
    ANY,
    MIDNIGHT,
    TICK_NAME,
    check_recordings,
    gzipped,
    random_messages,
    tick_text,
    visible,
    zipped,
)
from riskroute.core.errors import DataError, InputError
from riskroute.market.day_books import DayBooks
from riskroute.market.importing import import_files
from riskroute.market.readers import csv_files
from riskroute.market.readers.reading import EXCHANGE_CODES as VENUES
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore

Tick = tuple[int, int, int, int, int, str, int, int]
Found = dict[str, list[tuple[int, int, float | None, int, float | None, int]]]


def text_of(ticks: list[Tick]) -> str:
    return "".join(",".join(map(str, tick)) + "\n" for tick in ticks)


def naive_ticks(ticks: list[Tick]) -> Found:
    """Per venue (sequence, milliseconds, bid, size, ask, size), by a loop over rows."""
    known: dict[str, dict[str, tuple[int, int]]] = {}
    found: Found = {}
    for number, (ms, bid, bid_size, ask, ask_size, letter, _, suspicious) in enumerate(ticks, start=1):
        if suspicious:
            continue
        book = known.setdefault(VENUES[letter], {"bid": (0, 0), "ask": (0, 0)})
        if bid:
            book["bid"] = (bid, bid_size)
        if ask:
            book["ask"] = (ask, ask_size)
        met = book["bid"][0] and book["ask"][0] and book["bid"][0] >= book["ask"][0]
        if met and not ask:
            book["ask"] = (0, 0)
        elif met and not bid:
            book["bid"] = (0, 0)
        if VENUES[letter] in found or (book["bid"][0] and book["ask"][0]):
            levels = [(price / 10_000, size) if price and size else (None, 0) for price, size in book.values()]
            found.setdefault(VENUES[letter], []).append((number, ms, *levels[0], *levels[1]))
        for venue, other in known.items():
            if venue != VENUES[letter]:
                wrong = [side for side in ("bid", "ask") if contradicted(side, other[side][0], bid, ask)]
                other |= dict.fromkeys(wrong, (0, 0))
                if wrong and venue in found:
                    found[venue].append((number, ms, None, 0, None, 0))
    return found


def contradicted(side: str, price: int, bid: int, ask: int) -> bool:
    """Whether another venue's quote is through a price of a side."""
    return bool(ask and price > ask) if side == "bid" else bool(price and bid > price)


def read(text: str, folder: Path, wanted: ReadingOptions | None = None, name: str = TICK_NAME) -> Found:
    """What was imported, as `naive_ticks` tells it."""
    (folder / name).write_text(text)
    recordings = import_files([folder / name], folder / "out", wanted or ReadingOptions(), max_crossed=1)
    found: Found = {}
    for one in recordings:
        table = RecordingStore(folder / "out").snapshots(one)
        ms = (table["ts_event"].cast(polars.Int64) - MIDNIGHT) // 10**6
        levels = table.select("bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00").rows()
        found[one.venue] = [(*keys, *level) for *keys, level in zip(table["sequence"], ms, levels, strict=True)]
    return found


def refusal(text: str, folder: Path, wanted: ReadingOptions = ANY, name: str = TICK_NAME) -> str:
    (folder / name).write_text(text)
    return market_files.refusal(folder / name, wanted)


PRICES = st.sampled_from([0, 0, 139_800, 139_900, 140_000, 140_100])
SIZES = st.sampled_from([0, 100, 2500])
TICKS = st.lists(
    st.tuples(st.integers(0, 3), PRICES, SIZES, PRICES, SIZES, st.sampled_from("NQTP"), st.just(1), st.integers(0, 9)),
    min_size=1,
    max_size=40,
)


@pytest.mark.usefixtures("untraced")
@settings(max_examples=25)
@given(steps=TICKS, block=st.sampled_from([64, 200, 1 << 20]))
def test_ticks_are_remembered_as_a_loop_does_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Tick], block: int
) -> None:
    folder = tmp_path_factory.mktemp("ticks")
    now = 34_200_000
    ticks: list[Tick] = []
    for step, bid, bid_size, ask, ask_size, letter, one, suspicious in steps:
        now += step
        ticks.append((now, bid, bid_size, ask, ask_size, letter, one, int(suspicious == 9)))
    expected = naive_ticks(ticks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "BLOCK", block)
        if expected:
            assert read(text_of(ticks), folder) == expected
            check_recordings(folder / "out")
        else:
            assert "has no snapshots" in refusal(text_of(ticks), folder)


def test_unchanged_sides_are_filled_and_contradicted_sides_left_out(tmp_path: Path) -> None:
    """A bid that reaches the ask shows that the ask is gone, and the other way round."""
    ticks: list[Tick] = [
        (34_200_000, 139_900, 500, 0, 0, "N", 1, 0),
        (34_200_001, 0, 0, 140_100, 300, "N", 1, 0),
        (34_200_002, 140_100, 200, 0, 0, "N", 1, 0),
        (34_200_003, 140_000, 100, 0, 0, "N", 1, 0),
        (34_200_004, 0, 0, 140_200, 50, "N", 1, 0),
        (34_200_005, 0, 0, 139_900, 60, "N", 1, 0),
        (34_200_006, 139_800, 70, 0, 0, "N", 1, 0),
    ]
    assert read(text_of(ticks), tmp_path) == {
        "XNYS": [
            (2, 34_200_001, 13.99, 500, 14.01, 300),
            (3, 34_200_002, 14.01, 200, None, 0),
            (4, 34_200_003, 14.0, 100, None, 0),
            (5, 34_200_004, 14.0, 100, 14.02, 50),
            (6, 34_200_005, None, 0, 13.99, 60),
            (7, 34_200_006, 13.98, 70, 13.99, 60),
        ]
    }


def test_a_quote_of_another_venue_through_a_side_leaves_it_out(tmp_path: Path) -> None:
    """Until the venue's next tick nothing is told of it, as the other venue is no news of the side that is left."""
    ticks: list[Tick] = [
        (34_200_000, 139_900, 500, 140_100, 300, "N", 1, 0),
        (34_200_001, 139_800, 400, 139_900, 200, "P", 1, 0),
        (34_200_002, 0, 0, 139_890, 100, "P", 1, 0),
        (34_200_003, 0, 0, 140_000, 700, "N", 1, 0),
        (34_200_004, 139_700, 600, 0, 0, "N", 1, 0),
    ]
    assert read(text_of(ticks), tmp_path) == {
        "XNYS": [
            (1, 34_200_000, 13.99, 500, 14.01, 300),
            (3, 34_200_002, None, 0, None, 0),
            (4, 34_200_003, None, 0, 14.0, 700),
            (5, 34_200_004, 13.97, 600, 14.0, 700),
        ],
        "ARCX": [(2, 34_200_001, 13.98, 400, 13.99, 200), (3, 34_200_002, 13.98, 400, 13.989, 100)],
    }


def test_suspicious_rows_are_left_out(tmp_path: Path) -> None:
    ticks: list[Tick] = [
        (34_200_000, 139_900, 500, 140_100, 300, "N", 1, 0),
        (34_200_001, 999_900, 500, 0, 0, "N", 1, 1),
        (34_200_002, 139_950, 500, 0, 0, "N", 1, 0),
    ]
    rows = read(text_of(ticks), tmp_path)["XNYS"]
    assert [row[0] for row in rows] == [1, 3]
    assert rows[1][4] == 14.01


def test_every_letter_has_its_venue_and_both_of_nasdaq_share_one_book(tmp_path: Path) -> None:
    letters = [(34_200_000, 139_900, 500, 140_100, 300, letter, 1, 0) for letter in VENUES]
    found = read(text_of(letters), tmp_path)
    assert set(found) == set(VENUES.values())
    assert {"N": "XNYS", "Q": "XNAS", "P": "ARCX", "Z": "BATS", "K": "EDGX"}.items() <= VENUES.items()
    halves: list[Tick] = [(34_200_000, 139_900, 500, 0, 0, "Q", 1, 0), (34_200_001, 0, 0, 140_100, 300, "T", 1, 0)]
    other = tmp_path / "halves"
    other.mkdir()
    assert read(text_of(halves), other) == {"XNAS": [(2, 34_200_001, 13.99, 500, 14.01, 300)]}


def test_only_a_wanted_venue_or_part_of_the_day(tmp_path: Path) -> None:
    text = tick_text(random_messages(4, 60))
    whole = read(text, tmp_path)
    assert set(whole) == {"XNYS", "XNAS", "ARCX"}
    (tmp_path / "one").mkdir()
    assert read(text, tmp_path / "one", ReadingOptions(venue="ARCX")) == {"ARCX": whole["ARCX"]}
    (tmp_path / "hours").mkdir()
    some = read(text, tmp_path / "hours", ReadingOptions(start=dt.time(9, 30, 20), end=dt.time(9, 30, 40)))
    begin = 34_220_000
    expected = {mic: [row for row in rows if begin <= row[1] < begin + 20_000] for mic, rows in whole.items()}
    assert some == {mic: rows for mic, rows in expected.items() if rows}
    (tmp_path / "none").mkdir()
    said = refusal(text, tmp_path / "none", ReadingOptions(venue="XBOS"))
    assert said.startswith(f"venue must be one of ARCX, XNYS, XNAS in {TICK_NAME}, was 'XBOS'")


def test_gzip_and_zip_give_what_the_plain_file_gives(tmp_path: Path) -> None:
    text = tick_text(random_messages(4, 60))
    plain = read(text, tmp_path)
    for name, content in {
        f"{TICK_NAME}.gz": gzipped(text.encode()),
        "20190327_quote.zip": zipped({TICK_NAME: text.encode()}),
    }.items():
        (tmp_path / name).write_bytes(content)
        import_files([tmp_path / name], tmp_path / name[-3:], ReadingOptions())
        check_recordings(tmp_path / name[-3:])
        store = RecordingStore(tmp_path / name[-3:])
        assert {one.venue: one.snapshots for one in store.recordings()} == {
            mic: len(rows) for mic, rows in plain.items()
        }


def test_day_and_symbol_from_names_and_options(tmp_path: Path) -> None:
    text = tick_text(random_messages(4, 60))
    (tmp_path / "20190327_BRK.A_Quote_x.csv").write_text(text)
    (one, *_) = import_files([tmp_path / "20190327_BRK.A_Quote_x.csv"], tmp_path / "a", ReadingOptions())
    assert (one.symbol, one.date, one.depth, one.has_events) == ("BRK.A", dt.date(2019, 3, 27), 1, False)
    assert "does not state its symbol" in refusal(text, tmp_path, name="20190327_quote.csv")
    wanted = ReadingOptions(("acme",), date=dt.date(2020, 1, 2))
    (other, *_) = import_files([tmp_path / "20190327_quote.csv"], tmp_path / "b", wanted)
    assert other.stem == "ARCX_ACME_2020-01-02"
    assert "expected one symbol for a file of ticks, got A, B" in refusal(text, tmp_path, ReadingOptions(("A", "B")))
    (tmp_path / "quote.csv").write_text(text)
    with pytest.raises(InputError, match="does not state its date; give date"):
        import_files([tmp_path / "quote.csv"], tmp_path / "c", ReadingOptions(("ACME",)), kind="ticks")


def test_a_file_of_trades_is_refused(tmp_path: Path) -> None:
    assert "holds trades" in refusal("1,2,3,N,1,0\n", tmp_path, name="20190327_acme_Trade_Tick.csv")
    (tmp_path / "20190327_trade.zip").write_bytes(zipped({"20190327_acme_Trade_Tick.csv": b"1,2,3,N,1,0\n"}))
    with pytest.raises(DataError, match="holds trades"):
        import_files([tmp_path / "20190327_trade.zip"], tmp_path / "out", ReadingOptions())


def test_an_archive_of_two_files_is_refused(tmp_path: Path) -> None:
    text = tick_text(random_messages(4)).encode()
    (tmp_path / "20190327_quote.zip").write_bytes(zipped({TICK_NAME: text, f"2{TICK_NAME}": text}))
    with pytest.raises(DataError, match=r"expected one CSV file in .*, got 2"):
        import_files([tmp_path / "20190327_quote.zip"], tmp_path / "out", ReadingOptions(), kind="ticks")


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (0, "-1", "row 5 of .* must have milliseconds between 0 and 86400000"),
        (0, "86400001", "row 5 of .* must have milliseconds"),
        (0, "", "row 5 of .* must have milliseconds"),
        (0, "34200000", "row 5 of .* must have a time not before that of the previous row"),
        (1, "-1", "row 5 of .* must have prices and sizes of 0 or more"),
        (2, "4294967296", "row 5 of .* must have prices and sizes of 0 or more, up to 4294967295"),
        (3, "", "row 5 of .* must have prices and sizes"),
        (5, "?", "row 5 of .* must have an exchange code of"),
        (5, "", "row 5 of .* must have an exchange code of"),
        (7, "", "row 5 of .* must have a number in the last column"),
        (0, "9:30", "Row #5.*'9:30'"),
        (1, "13.99", "Row #5.*'13.99'"),
        (7, "maybe", "Row #5.*'maybe'"),
        (5, "N,1", "Row #5.*Expected 8 columns, got 9"),
    ],
)
def test_a_bad_row_is_refused_by_number(tmp_path: Path, column: int, value: str, expected: str) -> None:
    rows = [line.split(",") for line in tick_text(random_messages(4)).splitlines()]
    rows[4][column] = value
    (tmp_path / TICK_NAME).write_text("\n".join(map(",".join, rows)) + "\n")
    with pytest.raises(DataError, match=expected):
        import_files([tmp_path / TICK_NAME], tmp_path / "out", ReadingOptions())
    assert visible(tmp_path / "out") == []


def test_times_that_fall_from_block_to_block_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "BLOCK", 80)
    lines = tick_text(random_messages(4, 30)).splitlines(keepends=True)
    assert "row 30 of" in refusal("".join([*lines[:-1], lines[0]]), tmp_path)


@pytest.mark.parametrize("text", ["", "\n\n", "1,2\n", "ms,bid,size,ask,size,venue,condition,suspicious\n"])
def test_what_is_not_ticks_is_refused(tmp_path: Path, text: str) -> None:
    assert TICK_NAME in refusal(text, tmp_path)


@pytest.mark.real_data
def test_a_real_day_of_quotes_has_no_crossed_book(tmp_path: Path) -> None:
    """Not within a venue, and not between venues either: who is contradicted by a later quote is left out."""
    path = SHARED_DATA / "quotes" / "bac" / "20131007_quote.zip"
    if not path.is_file():
        pytest.skip(f"no {path}")
    recordings = import_files([path], tmp_path, ReadingOptions())
    assert {one.venue for one in recordings} >= {"XNYS", "XNAS", "ARCX", "BATS", "EDGX", "XPSX", "BATY"}
    assert {one.symbol for one in recordings} == {"BAC"}
    assert sum(one.crossed for one in recordings) == 0
    assert 100_000 < sum(one.snapshots for one in recordings) < 476_855
    check_recordings(tmp_path)
    books = DayBooks.of_tables({one.venue: RecordingStore(tmp_path).snapshots(one) for one in recordings})
    spreads = books.spreads(np.random.default_rng(0).integers(books.first, books.last, 5000))
    assert np.isfinite(spreads).mean() > 0.9
    assert np.nanmin(spreads) > -1e-9
