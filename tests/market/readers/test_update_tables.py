"""Tables of new sizes, of signed changes, of whole books level by level and of books in lists; and tables of trades."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import market_files
from market_files import Update, check_recordings, naive_books_of, random_updates, sides_of
from riskroute.core.errors import DataError, InputError
from riskroute.market import from_frame
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

BEGIN = 1_577_836_800 * 10**6
NAMED = ReadingOptions(("BTCUSDT",), depth=6, venue="kraken", zone="UTC")
UPDATES = random_updates(np.random.default_rng(3))


def updates_frame(updates: list[Update], **more: Any) -> polars.DataFrame:
    """One row per update, with times in microseconds."""
    columns: dict[str, Any] = {
        "timestamp": [BEGIN + one.group for one in updates],
        "side": ["bid" if one.bid else "ask" for one in updates],
        "price": [one.price for one in updates],
        "size": [float(one.size) for one in updates],
    }
    return polars.DataFrame(columns | more)


def naive_changes(updates: list[Update]) -> list[float]:
    """The signed change of each update, by a dictionary."""
    held: dict[tuple[bool, float], float] = {}
    changes = []
    for one in updates:
        if one.reset:
            held = {}
        changes.append(one.size - held.get((one.bid, one.price), 0.0))
        held[one.bid, one.price] = one.size
    return changes


def book_rows(updates: list[Update], depth: int = 9) -> list[tuple[int, list[Any], list[Any]]]:
    """Time and both sides after every message, without absent levels."""
    rows = []
    for number, bids, asks, _ in naive_books_of(updates, depth):
        sides = [[list(level) for level in side if level[0]] for side in (bids, asks)]
        rows.append((BEGIN + updates[number - 1].group, sides[0], sides[1]))
    return rows


def as_csv(folder: Path, frame: polars.DataFrame, name: str = "updates") -> Path:
    path = folder / f"{name}.csv"
    frame.write_csv(path)
    return path


def as_parquet(folder: Path, frame: polars.DataFrame, name: str = "updates") -> Path:
    path = folder / f"{name}.parquet"
    frame.write_parquet(path)
    return path


def imported(path: Path, options: ReadingOptions = NAMED) -> tuple[Recording, polars.DataFrame]:
    (one,) = import_files([path], path.parent / "out", options)
    check_recordings(path.parent / "out")
    return one, RecordingStore(path.parent / "out").snapshots(one)


def check_books(table: polars.DataFrame, updates: list[Update], depth: int = 6) -> None:
    expected = naive_books_of(updates, depth)
    assert table.height == len(expected)
    for row, (number, *sides, _) in zip(table.iter_rows(named=True), expected, strict=True):
        assert [list(side) for side in sides_of(row, depth)] == sides
        assert int(row["ts_event"].timestamp() * 10**6) == BEGIN + updates[number - 1].group


def refusal(path: Path, options: ReadingOptions = NAMED, **more: Any) -> str:
    return market_files.refusal(path, options, **more)


both = pytest.mark.parametrize("write", [as_csv, as_parquet])
Writer = Callable[[Path, polars.DataFrame], Path]


@both
def test_new_sizes_without_a_snapshot(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path, updates_frame(UPDATES))
    assert _detect_format(path) == "deltas"
    one, table = imported(path)
    check_books(table, UPDATES)
    assert one.stem == "kraken_BTCUSDT_2020-01-01"
    assert "updates begin without a snapshot" in " ".join(one.remarks)


@both
def test_signed_changes_are_summed_exactly(tmp_path: Path, write: Writer) -> None:
    tenths = [one._replace(size=one.size / 5) for one in UPDATES]
    changes = naive_changes(tenths)
    frame = updates_frame(tenths).drop("size").with_columns(change=polars.Series(changes).round(6))
    path = write(tmp_path, frame)
    assert _detect_format(path) == "deltas"
    check_books(imported(path)[1], tenths)
    renamed = write(tmp_path, frame.rename({"change": "size"}))
    check_books(
        imported(renamed, ReadingOptions(("BTCUSDT",), 6, venue="kraken", columns={"change": "size"}))[1], tenths
    )


def test_a_change_below_zero_is_refused(tmp_path: Path) -> None:
    rows = updates_frame(UPDATES[:3]).drop("size").with_columns(change=polars.Series([0.5, 1.0, -0.5]))
    path = as_csv(tmp_path, rows.with_columns(price=100.0, side=polars.lit("bid")))
    assert imported(path)[1]["bid_sz_00"].to_list() == [1.0]
    path = as_csv(
        tmp_path, rows.with_columns(price=100.0, side=polars.lit("bid"), change=polars.Series([0.5, 0, -0.75]))
    )
    assert "row 3 of updates.csv must have a change of at least -0.5, the size at 100, was -0.75" in refusal(path)


def levels_frame(updates: list[Update]) -> polars.DataFrame:
    rows = [
        (stamp, "bid" if bid else "ask", level, *pair)
        for stamp, *sides in book_rows(updates)
        for bid, side in zip((True, False), sides, strict=True)
        for level, pair in enumerate(side)
    ]
    return polars.DataFrame(rows, schema=["timestamp", "side", "level", "price", "size"], orient="row")


@both
def test_levels_of_whole_books(tmp_path: Path, write: Writer) -> None:
    one, table = imported(write(tmp_path, levels_frame(UPDATES)))
    check_books(table, UPDATES)
    assert "no_snapshot" not in one.notes


def listed(updates: list[Update]) -> polars.DataFrame:
    stamps, bids, asks = zip(*book_rows(updates), strict=True)
    return polars.DataFrame({"timestamp": stamps, "bids": bids, "asks": asks}, strict=False)


def test_books_in_lists(tmp_path: Path) -> None:
    frame = listed(UPDATES)
    path = as_parquet(tmp_path, frame)
    assert _detect_format(path) == "deltas"
    check_books(imported(path)[1], UPDATES)
    for name, word in (("as text", str), ("as records", dict)):
        sides = {
            side: [
                json.dumps(
                    [list(map(str, level)) if word is str else {"price": level[0], "qty": level[1]} for level in row]
                )
                for row in frame[side].to_list()
            ]
            for side in ("bids", "asks")
        }
        text = frame.with_columns(**{side: polars.Series(values) for side, values in sides.items()})
        for path in (as_csv(tmp_path, text, name), as_parquet(tmp_path, text, name)):
            check_books(imported(path)[1], UPDATES)
    renamed = as_parquet(tmp_path, frame.rename({"bids": "B", "asks": "A"}))
    check_books(
        imported(renamed, ReadingOptions(("BTCUSDT",), 6, venue="kraken", columns={"bids": "B", "asks": "A"}))[1],
        UPDATES,
    )


@pytest.mark.parametrize(
    ("side", "was"),
    [
        ("[[99]]", "'[[99]]'"),
        ('[["x", 1]]', '[["x", 1]]'),
        ("[[99, 1], [99, 2]]", "'[[99, 1], [99, 2]]'"),
        ("{", "'{'"),
    ],
)
def test_damaged_lists_are_refused(tmp_path: Path, side: str, was: str) -> None:
    path = as_csv(tmp_path, polars.DataFrame({"timestamp": [BEGIN], "bids": [side], "asks": ["[[101, 1]]"]}))
    said = refusal(path)
    assert said.startswith("row 1 of updates.csv must have lists of levels with a price and a size each")
    assert was in said


DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "a side": ({"side": polars.lit("up")}, "row 1 of updates.csv must have side bid or ask, was 'up'"),
    "a price": ({"price": -1.0}, "row 1 of updates.csv must have a price above 0, was -1.0"),
    "a size": ({"size": -1.0}, "row 1 of updates.csv must have an amount of 0 or more, was -1.0"),
    "a large size": ({"size": 1e15}, "row 1 of updates.csv must have an amount of at most 1e14"),
    "falling times": (
        {"timestamp": BEGIN - polars.int_range(polars.len())},
        "row 2 of updates.csv must have a time not before",
    ),
    "no time": (
        {"timestamp": polars.when(polars.int_range(polars.len()) != 4).then("timestamp")},
        "row 5 of updates.csv must have a time, was None",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_updates_are_refused(tmp_path: Path, damage: str) -> None:
    changes, expected = DAMAGED[damage]
    path = as_csv(tmp_path, updates_frame(UPDATES).with_columns(**changes))
    assert expected in refusal(path, ReadingOptions(("X",), venue="y", columns={"size": "size"}))


def test_what_a_table_does_not_state_is_asked_for(tmp_path: Path) -> None:
    path = as_csv(tmp_path, updates_frame(UPDATES))
    assert refusal(path, ReadingOptions(venue="x")) == "'updates.csv' does not state its symbol; give symbol"
    assert refusal(path, ReadingOptions(("X",))) == "'updates.csv' does not state its venue; give venue"
    assert "column of book updates must be one of" in refusal(
        path, ReadingOptions(("X",), venue="y", columns={"px": "price"})
    )
    assert "column size must be one of" in refusal(
        path, ReadingOptions(("X",), venue="y", columns={"size": "volume"}), kind="deltas"
    )


def two_files(folder: Path, gap: int) -> list[Path]:
    """The updates in two tables; the second begins ``gap`` seconds later and has no snapshot of its own."""
    cut = next(k for k, one in enumerate(UPDATES) if one.group == 12)
    flags = [k < 6 for k in range(len(UPDATES))]
    later = [0] * cut + [gap * 10**6] * (len(UPDATES) - cut)
    frame = updates_frame(UPDATES, is_snapshot=flags, exchange="kraken", symbol="BTCUSDT").rename({"size": "amount"})
    frame = frame.with_columns(timestamp=polars.col("timestamp") + polars.Series(later))
    frame = frame.with_columns(local_timestamp="timestamp")
    return [as_csv(folder, frame[cut:], "a"), as_csv(folder, frame[:cut], "b")]


def test_a_book_carries_over_to_the_next_file(tmp_path: Path) -> None:
    files = two_files(tmp_path, 0)
    (one,) = import_files(files, tmp_path / "out", ReadingOptions(depth=6))
    check_books(RecordingStore(tmp_path / "out").snapshots(one), UPDATES)
    assert RecordingStore(tmp_path / "out").snapshots(one)["sequence"].is_sorted()
    assert "has no snapshot of BTCUSDT at kraken" in refusal(files[0], ReadingOptions(depth=6))


def test_a_book_does_not_carry_over_a_long_time(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no snapshot of BTCUSDT at kraken"):
        import_files(two_files(tmp_path, 3600), tmp_path / "out", ReadingOptions(depth=6))


def test_a_book_is_unknown_between_files_that_are_far_apart(tmp_path: Path) -> None:
    hour = 3600 * 10**6
    books = listed(UPDATES).with_columns(exchange=polars.lit("kraken"), symbol=polars.lit("BTCUSDT"))
    later = books.with_columns(polars.col("timestamp") + hour)
    files = [as_parquet(tmp_path, later, "a"), as_parquet(tmp_path, books, "b")]
    (one,) = import_files(files, tmp_path / "out", ReadingOptions(depth=6))
    table = RecordingStore(tmp_path / "out").snapshots(one)
    assert (one.gaps, table.height) == (1, 2 * books.height + 1)
    empty = table.row(books.height, named=True)
    assert (empty["bid_px_00"], empty["ask_px_00"]) == (None, None)
    assert empty["ts_event"] == table["ts_event"][books.height - 1]
    check_recordings(tmp_path / "out")


# trades


def trades_frame(**more: Any) -> polars.DataFrame:
    columns = {
        "exchange": "kraken",
        "symbol": "BTCUSDT",
        "timestamp": [BEGIN + 2, BEGIN + 5, BEGIN + 9],
        "local_timestamp": [BEGIN + 3, BEGIN + 6, BEGIN + 10],
        "id": [1, 2, 3],
        "side": ["buy", "sell", "unknown"],
        "price": [101.0, 99.0, 99.5],
        "amount": [0.5, 0.25, 1.0],
    }
    return polars.DataFrame(columns | more)


def tardis_book(folder: Path) -> Path:
    flags = [k < 6 for k in range(len(UPDATES))]
    frame = updates_frame(UPDATES, is_snapshot=flags, exchange="kraken", symbol="BTCUSDT").rename({"size": "amount"})
    return as_csv(folder, frame.with_columns(local_timestamp="timestamp"))


def test_trades_join_the_book_of_their_venue_and_symbol(tmp_path: Path) -> None:
    trades = as_csv(tmp_path, trades_frame(), "trades")
    assert _detect_format(trades) == "trades"
    (one,) = import_files([trades, tardis_book(tmp_path)], tmp_path / "out", ReadingOptions(depth=6))
    check_recordings(tmp_path / "out")
    assert (one.trades, one.has_events) == (3, False)
    events = RecordingStore(tmp_path / "out").events(one)
    found = events.select("action", "side", "price", "size", "order_id").rows()
    assert found == [("T", "A", 101.0, 0.5, 0), ("T", "B", 99.0, 0.25, 0), ("T", None, 99.5, 1.0, 0)]
    assert events["ts_event"].dt.epoch("us").to_list() == [BEGIN + 3, BEGIN + 6, BEGIN + 10]


def test_trades_without_their_book_are_refused(tmp_path: Path) -> None:
    trades = as_csv(tmp_path, trades_frame(), "trades")
    said = refusal(trades, ReadingOptions())
    assert "has trades of BTCUSDT at kraken, which change no book; import them together with book updates" in said
    other = as_csv(tmp_path, trades_frame(symbol="ETHUSDT"), "other")
    with pytest.raises(DataError, match="has trades of ETHUSDT at kraken"):
        import_files([other, tardis_book(tmp_path)], tmp_path / "refused", ReadingOptions(depth=6))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"price": [101.0, 0.0, 1.0]}, "row 2 of trades.csv must have a price above 0, was 0.0"),
        ({"amount": [1.0, 1.0, -1.0]}, "row 3 of trades.csv must have a size above 0, was -1.0"),
        ({"side": ["buy", "up", "buy"]}, "row 2 of trades.csv must have side buy or sell, was 'up'"),
        ({"local_timestamp": [BEGIN + 2 * 10**6, BEGIN, BEGIN]}, "row 2 of trades.csv must have a time not before"),
        ({"exchange": ["kraken", "", "kraken"]}, "row 2 of trades.csv must have a name of up to 32"),
    ],
)
def test_damaged_trades_are_refused(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    trades = as_csv(tmp_path, trades_frame(**changes), "trades")
    with pytest.raises(DataError, match=expected):
        import_files([trades, tardis_book(tmp_path)], tmp_path / "refused", ReadingOptions(depth=6))


def test_trades_of_days_without_books_are_left_out_and_said(tmp_path: Path) -> None:
    stamps = [BEGIN + 3, BEGIN + 6, BEGIN + 86_400 * 10**6]
    trades = as_csv(tmp_path, trades_frame(local_timestamp=stamps), "trades")
    (one,) = import_files([trades, tardis_book(tmp_path)], tmp_path / "out", ReadingOptions(depth=6))
    assert (one.trades, one.remarks[-1].partition(": ")[2]) == (2, "skipped 1 trades of days without books.")


def test_a_trade_up_to_a_second_late_takes_the_time_before(tmp_path: Path) -> None:
    trades = as_csv(tmp_path, trades_frame(local_timestamp=[BEGIN + 9, BEGIN + 6, BEGIN + 10]), "trades")
    (one,) = import_files([trades, tardis_book(tmp_path)], tmp_path / "out", ReadingOptions(depth=6))
    assert one.notes["late"] == 1
    stamps = RecordingStore(tmp_path / "out").events(one)["ts_event"].dt.epoch("us").to_list()
    assert stamps == [BEGIN + 9, BEGIN + 9, BEGIN + 10]


# frames


def wide(updates: list[Update]) -> polars.DataFrame:
    rows = [
        {"ts_event": stamp}
        | {
            f"{side}_{what}_{k:02d}": level[j]
            for side, levels in (("bid", bids), ("ask", asks))
            for k, level in enumerate(levels)
            for j, what in enumerate(("px", "sz"))
        }
        for stamp, bids, asks in book_rows(updates, 6)
    ]
    return polars.DataFrame(rows, infer_schema_length=None)


@pytest.mark.parametrize("kind", ["updates", "levels", "lists", "wide"])
@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_frames_are_imported_like_files(tmp_path: Path, kind: str, library: str) -> None:
    frame = {"updates": updates_frame, "levels": levels_frame, "lists": listed, "wide": wide}[kind](UPDATES)
    trades = trades_frame().drop("id", "exchange", "symbol")
    if library == "pandas":
        import pandas  # type: ignore[import-untyped]  # no stubs among the dependencies

        frame, trades = (pandas.DataFrame(one.to_dict(as_series=False)) for one in (frame, trades))
        frame = frame.set_index(frame.columns[0])
    store = from_frame(frame, tmp_path / "out", NAMED, trades=trades)
    (one,) = store.recordings()
    table = store.snapshots(one)
    if kind == "wide":
        assert table.height == frame.shape[0]
        assert table["bid_px_00"].to_list() == [bids[0][0] for _, bids, _ in book_rows(UPDATES, 6)]
    else:
        check_books(table, UPDATES)
    assert store.events(one)["size"].to_list() == [0.5, 0.25, 1.0]
    check_recordings(tmp_path / "out")


def test_other_things_are_no_frames(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="books must be a frame of polars or pandas, was list"):
        from_frame([1], tmp_path, NAMED)
    with pytest.raises(InputError, match="trades must be a frame of polars or pandas, was dict"):
        from_frame(updates_frame(UPDATES), tmp_path, NAMED, trades={})
    with pytest.raises(InputError, match="options must be a ReadingOptions"):
        from_frame(updates_frame(UPDATES), tmp_path, 5)  # type: ignore[arg-type]
    empty = polars.DataFrame({"timestamp": [dt.datetime(2020, 1, 1)]}).clear()
    with pytest.raises(DataError, match=r"books\.parquet"):
        from_frame(empty, tmp_path, NAMED)
