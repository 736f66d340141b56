"""Tardis' tables of books and of book updates as they are published, damaged, and under other names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import market_files
from market_files import Update, check_recordings, gzipped, naive_books_of, sides_of, tardis_text, zipped
from riskroute.cli.app import run_app as command
from riskroute.core.instrument import Instrument
from riskroute.core.validation import valid_name_rule
from riskroute.market.calibration import calibrate
from riskroute.market.clock import TimeWindow
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers import csv_files
from riskroute.market.readers.book_updates import BookUpdateReader
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

DAY = dt.date(2020, 1, 1)
MIDNIGHT = 1_577_836_800 * 10**6
"""The first moment of the day, UTC, in microseconds; 19:00 of the day before in New York."""


def walk(seed: int, count: int = 60) -> list[Update]:
    """A snapshot of six levels a side, then messages at prices that do not cross; another snapshot in the middle."""
    rng = np.random.default_rng(seed)
    found: list[Update] = []
    for group in range(1, count):
        if group in (1, count // 2):
            prices = [(side, 100 + (-k if side else k)) for k in range(1, 7) for side in (True, False)]
            found += [Update(group, bid, float(price), 1.5, k == 0) for k, (bid, price) in enumerate(prices)]
        else:
            for _ in range(rng.integers(1, 4)):
                bid, away = bool(rng.integers(2)), int(rng.integers(1, 9))
                found.append(Update(group, bid, float(100 - away if bid else 100 + away), int(rng.integers(0, 6)) / 2))
    return found


UPDATES = walk(1)
TEXT = tardis_text(UPDATES, MIDNIGHT)
NAME = "binance_incremental_book_L2_2020-01-01_BTCUSDT.csv"
HALVES = ReadingOptions(depth=8)


def snapshot_text(count: int = 30, levels: int = 5) -> str:
    """A Tardis ``book_snapshot`` table; exchange times fall now and then, arrival times do not."""
    names = [f"{side}[{k}].{what}" for k in range(levels) for side in ("asks", "bids") for what in ("price", "amount")]
    lines = [",".join(["exchange", "symbol", "timestamp", "local_timestamp", *names])]
    for row in range(count):
        time = MIDNIGHT + row * 3600 * 10**6 * 23 // count
        cells: list[Any] = ["deribit", "BTC-PERPETUAL", time - 10**6 * (row % 3), time]
        for k in range(levels):
            cells += [7200.5 + k, 0.25 * (row + k + 1), 7200 - k, 0.5 * (k + 1)]
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def written(folder: Path, text: str | bytes, name: str = NAME) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def imported(path: Path, wanted: ReadingOptions = HALVES) -> list[tuple[Recording, polars.DataFrame]]:
    out = path.parent / "out"
    recordings = import_files([path], out, wanted)
    check_recordings(out)
    return [(one, RecordingStore(out).snapshots(one)) for one in recordings]


def refusal(path: Path, wanted: ReadingOptions = HALVES, **more: Any) -> str:
    return market_files.refusal(path, wanted, **more)


def check_books(table: polars.DataFrame, updates: list[Update], depth: int) -> None:
    expected = naive_books_of(updates, depth)
    assert table["sequence"].to_list() == [number for number, *_ in expected]
    for row, (number, *sides, _) in zip(table.iter_rows(named=True), expected, strict=True):
        found = [list(side) for side in sides_of(row, depth)]
        assert found == sides
        assert row["ts_event"] == dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            microseconds=updates[number - 1].group
        )


@pytest.mark.parametrize("depth", [None, 1, 3])
def test_updates_become_books(tmp_path: Path, depth: int | None) -> None:
    ((one, table),) = imported(written(tmp_path, TEXT), ReadingOptions(depth=depth))
    assert (one.stem, one.reader, one.zone) == ("binance_BTCUSDT_2020-01-01", "deltas", "UTC")
    assert (one.depth, one.gaps, one.has_events) == (depth or 50, 0, False)
    check_books(table, UPDATES, depth or 8)
    assert one.deeper == sum(deeper for *_, deeper in naive_books_of(UPDATES, depth or 50))


def test_pieces_and_packing_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, plain),) = imported(written(tmp_path, TEXT))
    for name, content in {"a.csv.gz": gzipped(TEXT.encode()), "a.zip": zipped({NAME: TEXT.encode()})}.items():
        ((_, table),) = imported(written(tmp_path, content, name))
        assert table.equals(plain)
    monkeypatch.setattr(csv_files, "BLOCK", 700)
    ((_, table),) = imported(tmp_path / NAME)
    assert table.equals(plain)


def test_several_books_in_one_file(tmp_path: Path) -> None:
    """Grouped files hold many symbols; each has snapshots of its own."""
    other = walk(2)
    lines = [
        line for text in (TEXT, tardis_text(other, MIDNIGHT, "okex", "eth-usdt")) for line in text.splitlines()[1:]
    ]
    merged = sorted(lines, key=lambda line: int(line.split(",")[3]))
    path = written(tmp_path, "\n".join([TEXT.splitlines()[0], *merged]) + "\n")
    found = {one.stem: table for one, table in imported(path)}
    assert list(found) == ["binance_BTCUSDT_2020-01-01", "okex_ETH-USDT_2020-01-01"]
    for table, updates in zip(found.values(), (UPDATES, other), strict=True):
        assert table.height == len(naive_books_of(updates, 50))
        row = table.row(-1, named=True)
        assert [price for price, _ in sides_of(row, 8)[0]] == [p for p, _ in naive_books_of(updates, 8)[-1][1]]
    ((one, _),) = imported(path, ReadingOptions(("eth-usdt",), depth=1))
    assert one.symbol == "ETH-USDT"
    ((one, _),) = imported(path, ReadingOptions(venue="binance", depth=1))
    assert one.venue == "binance"
    assert " is not among the 2 in" in refusal(path, ReadingOptions(("ETH-USDC",), depth=1))


def test_rows_before_the_first_snapshot_are_left_out_and_said(tmp_path: Path) -> None:
    late = [Update(0, True, 50.0, 1.0), *UPDATES]
    ((one, table),) = imported(written(tmp_path, tardis_text(late, MIDNIGHT)))
    assert (one.gaps, table.height) == (1, len(naive_books_of(UPDATES, 50)))
    assert table["bid_px_07"].null_count() + table["bid_px_07"].count() == table.height
    assert "Updates of binance_BTCUSDT_2020-01-01 are missing once; its book is unknown" in " ".join(one.remarks)
    never = [update._replace(reset=False) for update in UPDATES]
    said = refusal(written(tmp_path, tardis_text(never, MIDNIGHT)))
    assert said.endswith("has no snapshot of BTCUSDT at binance (is_snapshot = true)")


def test_times_of_the_exchange_may_be_told(tmp_path: Path) -> None:
    path = written(tmp_path, tardis_text(UPDATES, MIDNIGHT + 10))
    ((_, table),) = imported(path, ReadingOptions(columns={"ts_event": "timestamp"}))
    assert table["ts_event"][0] == dt.datetime(2020, 1, 1, 0, 0, 0, 8, tzinfo=dt.UTC)
    said = refusal(path, ReadingOptions(columns={"bid_px_00": "price"}))
    assert said.startswith("column of book updates must be one of ts_event, venue, symbol, side, price, size, ")


def test_a_part_of_a_day_in_utc(tmp_path: Path) -> None:
    wanted = ReadingOptions(start=dt.time(0), end=dt.time(0, 0, 0, 20))
    ((_, table),) = imported(written(tmp_path, TEXT), wanted)
    assert table.height == sum(UPDATES[number - 1].group < 20 for number, *_ in naive_books_of(UPDATES, 50))


def replaced(line: int, column: int, value: str) -> str:
    lines = TEXT.splitlines()
    cells = lines[line].split(",")
    cells[column] = value
    lines[line] = ",".join(cells)
    return "\n".join(lines) + "\n"


DAMAGED: dict[str, tuple[Callable[[], str], str]] = {
    "cut in a row": (lambda: TEXT[:-9], "Expected 8 columns, got 7"),
    "only a header": (lambda: TEXT.splitlines()[0] + "\n", "has no rows"),
    "a column less": (
        lambda: TEXT.replace("local_timestamp", "arrival", 1),
        "lacks columns local_timestamp; it has",
    ),
    "a price of text": (lambda: replaced(5, 6, "cheap"), "'cheap'"),
    "a price of zero": (lambda: replaced(5, 6, "0"), "row 5 of x.csv must have a price above 0, was 0.0"),
    "a price of nothing": (lambda: replaced(5, 6, ""), "row 5 of x.csv must have a price above 0, was nan"),
    "a negative amount": (lambda: replaced(7, 7, "-1"), "row 7 of x.csv must have an amount of 0 or more, was -1.0"),
    "an endless amount": (lambda: replaced(7, 7, "inf"), "row 7 of x.csv must have an amount of 0 or more, was inf"),
    "a side of its own": (lambda: replaced(3, 5, "buy"), "row 3 of x.csv must have side bid or ask, was 'buy'"),
    "perhaps a snapshot": (
        lambda: replaced(3, 4, "maybe"),
        "row 3 of x.csv must have is_snapshot true, false, 1 or 0, was 'maybe'",
    ),
    "no exchange": (
        lambda: replaced(3, 0, ""),
        f"row 3 of x.csv must have {valid_name_rule(longest=32)} as exchange, was",
    ),
    "a hostile symbol": (
        lambda: replaced(3, 1, "<b>"),
        f"row 3 of x.csv must have {valid_name_rule(longest=16)} as symbol, was '<B>'",
    ),
    "a falling time": (
        lambda: replaced(30, 3, str(MIDNIGHT)),
        "row 30 of x.csv must have a time not before that of the previous row",
    ),
    "another unit": (lambda: replaced(30, 3, str(MIDNIGHT // 1000)), "in one unit throughout, us as in the first row"),
    "no time": (lambda: replaced(30, 3, ""), "row 30 of x.csv must have a time, was None"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_updates_are_refused(tmp_path: Path, damage: str) -> None:
    make, expected = DAMAGED[damage]
    assert expected in refusal(written(tmp_path, make(), "x.csv"), kind="deltas")


def test_the_unit_is_derived_from_the_sizes(tmp_path: Path) -> None:
    ((one, _),) = imported(written(tmp_path, TEXT), ReadingOptions())
    assert (str(one.instrument.unit), one.derived) == ("0.1", True)


def test_updates_under_other_names_are_recognised(tmp_path: Path) -> None:
    for name in ("updates.txt", "books.dat", "20200101_btc_Quote_Tick.csv", "12302019.NASDAQ_ITCH50"):
        path = written(tmp_path, TEXT, name)
        assert _detect_format(path) == "deltas"
        assert imported(path)[0][0].reader == "deltas"


def test_other_files_are_no_updates(tmp_path: Path) -> None:
    for content in (
        b"PAR1\xff\xfe\x00",
        b"\x00\x0cS\x00\x00",
        b"",
        b"a,b\n1,2\n",
        gzipped(TEXT.encode())[:60],
        snapshot_text().encode(),
    ):
        path = written(tmp_path, content, "x.csv")
        assert not BookUpdateReader.recognises(path)
        assert str(path) in refusal(path, kind="deltas")
    assert "lacks columns bid_px_00" in refusal(written(tmp_path, TEXT), kind="table")


def test_tables_of_books_are_known_without_any_option(tmp_path: Path) -> None:
    path = written(tmp_path, snapshot_text(), "deribit_book_snapshot_5_2020-01-01_BTC-PERPETUAL.csv")
    ((one, table),) = imported(path, ReadingOptions())
    assert (one.stem, one.depth, one.reader, one.zone) == ("deribit_BTC-PERPETUAL_2020-01-01", 5, "table", "UTC")
    assert table.row(0, named=True)["ask_px_04"] == 7204.5
    assert table["ask_sz_04"].to_list() == [size / 4 for size in range(5, 35)]
    assert table["bid_sz_01"].to_list() == [1] * 30
    assert table["ts_event"].dt.epoch("us").to_list() == [MIDNIGHT + row * 3600 * 10**6 * 23 // 30 for row in range(30)]


def test_a_day_of_utc_is_two_days_in_new_york(tmp_path: Path) -> None:
    path = written(tmp_path, snapshot_text(), "books.csv")
    found = import_files([path], tmp_path / "out", ReadingOptions(zone="America/New_York"))
    assert [str(one.date) for one in found] == ["2019-12-31", "2020-01-01"]
    assert sum(one.snapshots for one in found) == 30


def test_damaged_tables_of_books(tmp_path: Path) -> None:
    text = snapshot_text()
    for damage, expected in {
        text.replace("bids[0].price", "bids[0].cost", 1): "lacks columns bid_px_00",
        text[:-20]: "Expected 24 columns",
        text.replace("7200.5", "soon", 1): "'soon'",
        text.replace(",0.25,", ",-0.25,", 1): "sizes from 0 to 1e14, was -0.25",
        text.replace("deribit", "", 1): "row 1 of books.csv: venue must be a name",
    }.items():
        assert expected in refusal(written(tmp_path, damage, "books.csv"), ReadingOptions())
    ((one, _),) = imported(written(tmp_path, text.replace("bids[3].price", "x", 1), "books.csv"), ReadingOptions())
    assert one.depth == 3  # as with any table, levels up to the first that is not whole


def test_inspect_and_calibrate_work_in_utc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path, snapshot_text(400), "books.csv"), tmp_path / "out"
    words = ["market", "import", str(path), "--out", str(out)]
    assert command(words) == 0
    assert command(["market", "inspect", str(out)]) == 0
    said = capsys.readouterr().out
    assert "BTC-PERPETUAL: quantities in multiples of 0.01 units, ticks of 0.5, amounts in unknown currency" in said
    assert "days from midnight UTC" in said
    window = TimeWindow(dt.time(1), dt.time(21), 10)
    found = calibrate(RecordingStore(out), "BTC-PERPETUAL", quantities=[1, 2, 3], window=window)
    assert found.fits["deribit"].samples == 10
    assert window.edges(DAY, Instrument(zone="UTC"))[0] == MIDNIGHT * 1000 + 3600 * 10**9
    hours = ["--quantities", "1:3", "--hours", "01:00-21:00", "--buckets", "10"]
    assert command(["market", "calibrate", str(out), "--symbol", "BTC-PERPETUAL", *hours]) == 0
