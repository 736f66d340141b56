"""Binance's depth updates as they are published: which count after a snapshot, gaps, damaged and mislabelled files."""

from __future__ import annotations

import datetime as dt
import gzip
import heapq
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import market_files
from checkout import SHARED_DATA
from market_files import (
    Update,
    check_recordings,
    depth_snapshot,
    depth_update,
    gzipped,
    naive_books_of,
    sides_of,
    zipped,
)
from riskroute.cli.app import run_app as command
from riskroute.core.errors import DataError
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers import binance
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

MIDNIGHT = 1_577_836_800_000
"""The first moment of 2020, UTC, in milliseconds."""

HALVES = ReadingOptions(depth=8)
BOOK = ([(99.0, 1.0), (98.0, 2.5)], [(101.0, 3.0), (102.0, 0.5)])
Level = tuple[float, float]


def update(first: int, last: int, bids: Sequence[Level] = (), asks: Sequence[Level] = (), **more: Any) -> str:
    """An update at as many milliseconds after midnight as its last number."""
    return depth_update(MIDNIGHT + last, first, last, bids, asks, **more)


def written(folder: Path, lines: Sequence[str], name: str = "btc.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def imported(path: Path, wanted: ReadingOptions = HALVES) -> tuple[Recording, polars.DataFrame]:
    (one,) = import_files([path], path.parent / "out", wanted)
    check_recordings(path.parent / "out")
    return one, RecordingStore(path.parent / "out").snapshots(one)


def refusal(path: Path, wanted: ReadingOptions = HALVES, **more: Any) -> str:
    return market_files.refusal(path, wanted, **more)


def best(table: polars.DataFrame) -> list[tuple[Any, ...]]:
    """Number of the line, best bid and its size in coins, best ask."""
    return table.select("sequence", "bid_px_00", "bid_sz_00", "ask_px_00").rows()


def test_a_snapshot_and_its_updates(tmp_path: Path) -> None:
    lines = [
        depth_snapshot(10, *BOOK),
        update(5, 9, [(99.0, 9.0)]),
        update(9, 10, [(99.0, 8.0)]),
        update(9, 12, [(99.0, 0.0)]),
        update(13, 13, [], [(100.5, 1.0), (150.0, 0.0)]),
        update(14, 15, [(100.0, 0.5)]),
    ]
    one, table = imported(written(tmp_path, lines))
    assert (one.stem, one.reader, one.zone, one.gaps, one.depth) == (
        "binance_BTCUSDT_2020-01-01",
        "deltas",
        "UTC",
        0,
        8,
    )
    assert best(table) == [(4, 98.0, 2.5, 101.0), (5, 98.0, 2.5, 100.5), (6, 100.0, 0.5, 100.5)]
    assert [moment.microsecond for moment in table["ts_event"]] == [12_000, 13_000, 15_000]


def test_updates_that_arrived_before_the_snapshot_count_after_it(tmp_path: Path) -> None:
    """The stream is opened first, so that lines above the snapshot may be newer than it."""
    lines = [
        update(9, 10, [(97.0, 1.0)]),
        update(11, 12, [(99.5, 1.0)]),
        depth_snapshot(10, *BOOK),
        update(13, 14, [(99.5, 0)]),
    ]
    one, table = imported(written(tmp_path, lines))
    assert best(table) == [(2, 99.5, 1.0, 101.0), (4, 99.0, 1.0, 101.0)]
    assert one.gaps == 0


def test_a_gap_ends_the_book_until_the_next_snapshot(tmp_path: Path) -> None:
    lines = [
        depth_snapshot(10, *BOOK),
        update(11, 12, [(99.0, 2.0)]),
        update(14, 15, [(99.0, 3.0)]),
        update(16, 17, [(99.0, 3.5)]),
        depth_snapshot(16, [(90.0, 1.0)], [(101.0, 1.0)]),
        update(18, 18, [(90.5, 1.0)]),
    ]
    one, table = imported(written(tmp_path, lines))
    assert one.gaps == 1
    assert best(table) == [(2, 99.0, 2.0, 101.0), (3, None, 0.0, None), (4, 99.0, 3.5, 101.0), (6, 99.0, 3.5, 101.0)]
    assert table["bid_px_01"].to_list()[-1] == 90.5
    said = refusal(written(tmp_path, lines[:4]))
    assert said.startswith(
        "line 3 of btc.jsonl must have U up to 13, was U = 14: updates are missing and no later snapshot"
    )


def test_a_snapshot_after_a_restart_begins_anew(tmp_path: Path) -> None:
    """Whether updates go on before it or after it."""
    first = [depth_snapshot(10, *BOOK), update(11, 12, [(99.0, 2.0)])]
    again = depth_snapshot(50, [(90.0, 1.0)], [(91.0, 1.0)])
    for rest in ([again, update(50, 51, [(90.0, 2.0)])], [update(48, 49), again, update(50, 51, [(90.0, 2.0)])]):
        one, table = imported(written(tmp_path, [*first, *rest]))
        assert one.gaps == 1
        assert best(table)[-1][1:] == (90.0, 2.0, 91.0)
        assert table["bid_px_01"][-1] is None


def test_snapshots_of_a_book_that_is_known_change_nothing(tmp_path: Path) -> None:
    lines = [depth_snapshot(10, *BOOK), update(11, 12, [(99.0, 2.0)]), update(13, 16, [(99.0, 3.0)])]
    _, plain = imported(written(tmp_path, lines))
    more = [lines[0], lines[1], depth_snapshot(12), depth_snapshot(15), lines[2], update(9, 12), depth_snapshot(20)]
    one, table = imported(written(tmp_path, more))
    assert (one.gaps, table["bid_sz_00"].to_list()) == (0, plain["bid_sz_00"].to_list())


def test_updates_of_futures_name_the_one_before(tmp_path: Path) -> None:
    lines = [
        depth_snapshot(10, *BOOK),
        update(5, 8, [(99.0, 9.0)], pu=4),
        update(9, 10, [(99.0, 4.0)], pu=8),
        update(14, 16, [(99.0, 5.0)], pu=10),
    ]
    one, table = imported(written(tmp_path, lines))
    assert one.venue == "binance-futures"
    assert best(table) == [(3, 99.0, 4.0, 101.0), (4, 99.0, 5.0, 101.0)]
    lines[3] = update(14, 16, [(99.0, 5.0)], pu=11)
    assert "line 4 of btc.jsonl must have pu = 10, was pu = 11: updates are missing" in refusal(
        written(tmp_path, lines)
    )


def random_lines(seed: int, count: int = 80) -> tuple[list[str], list[Update]]:
    rng = np.random.default_rng(seed)
    lines = [depth_snapshot(0, *BOOK)]
    updates: list[Update] = []
    for bid, side in zip((True, False), BOOK, strict=True):
        updates += [Update(1, bid, price, size, not updates and not k) for k, (price, size) in enumerate(side)]
    for number in range(1, count):
        bids = [(float(100 - rng.integers(1, 9)), int(rng.integers(0, 4)) / 2) for _ in range(rng.integers(0, 3))]
        asks = [(float(100 + rng.integers(1, 9)), int(rng.integers(0, 4)) / 2) for _ in range(rng.integers(0, 3))]
        lines.append(update(number, number, bids, asks))
        updates += [Update(number, bid, *level) for bid, side in ((True, bids), (False, asks)) for level in side]
    return lines, updates


def test_books_are_those_of_a_dictionary_in_any_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, updates = random_lines(3)
    path = written(tmp_path, lines)
    _, whole = imported(path)
    monkeypatch.setattr(binance, "LEVELS_PER_PART", 40)
    _, pieces = imported(path)
    assert pieces.equals(whole)
    expected = naive_books_of(updates, 8)
    assert whole["sequence"].to_list() == [updates[number - 1].group + 1 for number, *_ in expected]
    for row, (_, *sides, _) in zip(whole.iter_rows(named=True), expected, strict=True):
        assert [list(side) for side in sides_of(row, 8)] == sides


def test_packed_wrapped_and_between_other_messages(tmp_path: Path) -> None:
    lines, _ = random_lines(4)
    _, plain = imported(written(tmp_path, lines))
    content = ("\n".join(lines) + "\n").encode()
    for name, packed in {"btc.json.gz": gzipped(content), "btc.zip": zipped({"btc.json": content})}.items():
        (tmp_path / name).write_bytes(packed)
        assert imported(tmp_path / name)[1].equals(plain)
    wrapped = [json.dumps({"stream": "btcusdt@depth", "data": json.loads(line)}) for line in lines]
    others = ['{"result": null, "id": 1}', '{"e": "kline", "E": 1, "s": "BTCUSDT", "k": {}}', ""]
    one, table = imported(written(tmp_path, [*others, *wrapped], "btc.txt"))
    assert table.drop("sequence").equals(plain.drop("sequence"))
    assert one.reader == _detect_format(tmp_path / "btc.txt") == "deltas"


def test_options_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = random_lines(5)
    path, out = written(tmp_path, lines), str(tmp_path / "out")
    words = [
        "market",
        "import",
        str(path),
        "--venue",
        "binance.us",
        "--depth",
        "2",
        "--symbol",
        "btcusdt",
    ]
    assert command([*words, "--hours", "0:00-23:00", "--zone", "UTC", "--out", out]) == 0
    said = capsys.readouterr().out
    assert "binance.us_BTCUSDT_2020-01-01" in said
    assert "had more levels on a side than the 2 kept." in said
    assert command([*words[:-1], "ETHUSDT", "--out", out]) == 2
    assert "symbol 'ETHUSDT' is not among the 1 in btc.jsonl; did you mean BTCUSDT?" in capsys.readouterr().err
    assert command([*words, "--zone", "Mars", "--out", out]) == 2
    assert "zone must be a time zone such as UTC or America/New_York, was 'Mars'" in capsys.readouterr().err


def test_recorded_streams_have_the_time_of_receipt_and_other_events(tmp_path: Path) -> None:
    """As hftbacktest records them: a time in nanoseconds before each object, best prices and trades among updates."""
    ticker = {
        "stream": "btcusdt@bookTicker",
        "data": {"u": 11, "s": "BTCUSDT", "b": "9", "B": "1", "a": "10", "A": "2"},
    }
    terms = {"T": MIDNIGHT + 12, "p": "101.00", "q": "0.25", "m": False}
    trade = {"stream": "btcusdt@trade", "data": {"e": "trade", "E": MIDNIGHT + 13, "s": "BTCUSDT"} | terms}
    updates = [update(9, 12, [(99.0, 0.0)]), update(13, 13, [], [(100.5, 1.0)])]
    combined = [json.dumps({"stream": "btcusdt@depth@100ms", "data": json.loads(one)}) for one in updates]
    objects = [combined[0], json.dumps(ticker), depth_snapshot(10, *BOOK), json.dumps(trade), combined[1]]
    lines = [f"{MIDNIGHT * 10**6 + 77 * k} {text}" for k, text in enumerate(objects)]
    path = written(tmp_path, lines, "btcusdt_20200101")
    assert _detect_format(path) == "deltas"
    one, table = imported(path)
    assert best(table) == [(1, 98.0, 2.5, 101.0), (5, 98.0, 2.5, 100.5)]
    assert (one.has_events, one.events, one.trades) == (False, 1, 1)
    events = RecordingStore(tmp_path / "out").events(one)
    assert events.drop("ts_event", "venue", "symbol").row(0) == (4, "T", "A", 101.0, 0.25, None, 0, 0)
    assert events["ts_event"][0].microsecond == 12_000
    path.write_text("\n".join(lines[3:4]))
    assert "has no depth updates" in refusal(path, kind="deltas")


def test_days_are_cut_at_midnight(tmp_path: Path) -> None:
    late = depth_update(MIDNIGHT + 86_400_500, 13, 13, [(98.5, 1.0)], [])
    lines = [depth_snapshot(10, *BOOK), update(9, 12, [(99.0, 0.0)]), late]
    path = written(tmp_path, lines)
    days = import_files([path], tmp_path / "days", HALVES)
    assert [(str(one.date), one.snapshots) for one in days] == [("2020-01-01", 1), ("2020-01-02", 2)]
    _, table = imported(path, ReadingOptions(depth=8, date=dt.date(2020, 1, 2)))
    assert best(table) == [(2, 98.0, 2.5, 101.0), (3, 98.5, 1.0, 101.0)]  # begins with the book of the day before
    assert table["ts_event"].cast(polars.Int64)[0] == (MIDNIGHT + 86_400_000) * 10**6
    _, table = imported(path, ReadingOptions(depth=8, date=dt.date(2020, 1, 1)))
    assert best(table) == [(2, 98.0, 2.5, 101.0)]


def test_a_book_carries_over_to_the_file_that_continues_it(tmp_path: Path) -> None:
    """Whatever the order of the files and their names; the second has no snapshot of its own."""
    lines, updates = random_lines(8)
    first, second = written(tmp_path, lines[:40], "z.jsonl"), written(tmp_path, lines[40:], "a.jsonl")
    (one,) = import_files([second, first], tmp_path / "out", HALVES)
    check_recordings(tmp_path / "out")
    table = RecordingStore(tmp_path / "out").snapshots(one)
    _, whole = imported(written(tmp_path, lines, "whole.jsonl"))
    assert table.equals(whole)
    assert len(naive_books_of(updates, 8)) == table.height
    gap = written(tmp_path, lines[45:], "a.jsonl")
    with pytest.raises(DataError, match=r"line 1 of a\.jsonl must have U up to 40, was U = 45: updates are missing"):
        import_files([first, gap], tmp_path / "gap", HALVES)
    odd = written(tmp_path, [*lines[40:], depth_update(MIDNIGHT + 90, 80, 80, [(-1.0, 1.0)])], "a.jsonl")
    with pytest.raises(DataError, match=r"line 41 of a\.jsonl must have a price above 0, was -1\.0"):
        import_files([first, odd], tmp_path / "odd", HALVES)


def ticker(number: int, bid: float, ask: float, **more: Any) -> str:
    terms = {"u": number, "s": "BTCUSDT", "b": str(bid), "B": "1", "a": str(ask), "A": "2"}
    return json.dumps({"stream": "btcusdt@bookTicker", "data": terms | more})


def test_best_prices_alone_are_books_of_one_level(tmp_path: Path) -> None:
    spot = [f"{MIDNIGHT * 10**6 + k} {ticker(5 + k, 99 + k, 101 + k)}" for k in range(3)]
    stale = f"{MIDNIGHT * 10**6 + 9} {ticker(5, 50, 60)}"
    one, table = imported(written(tmp_path, [*spot, stale]))
    assert (one.venue, one.depth) == ("binance", 1)
    assert table.select("bid_px_00", "ask_px_00", "ask_sz_00").rows() == [(99 + k, 101 + k, 2) for k in range(3)]
    assert table["ts_event"].dt.timestamp("ns").to_list() == [MIDNIGHT * 10**6 + k for k in range(3)]
    futures = [ticker(5 + k, 99 + k, 101, e="bookTicker", E=MIDNIGHT + k, T=MIDNIGHT + k) for k in range(2)]
    one, table = imported(written(tmp_path, futures))
    assert (one.venue, table.height) == ("binance-futures", 2)
    assert "best prices without a time; record the time of receipt" in refusal(
        written(tmp_path, [line.partition(" ")[2] for line in spot]), kind="deltas"
    )


def traded(number: int, kind: str = "trade", **more: Any) -> str:
    terms = {
        "e": kind,
        "E": MIDNIGHT + number,
        "T": MIDNIGHT + number,
        "s": "BTCUSDT",
        "p": "101",
        "q": "0.5",
        "m": True,
    }
    return json.dumps(terms | more)


def test_single_and_aggregated_trades_are_not_counted_twice(tmp_path: Path) -> None:
    lines, _ = random_lines(9, 5)
    fund = traded(3, X="INSURANCE_FUND", p="0", q="0")
    one, _ = imported(written(tmp_path, [*lines, traded(1), traded(1, "aggTrade", a=7), fund, traded(2)]))
    assert one.trades == 2
    events = RecordingStore(tmp_path / "out").events(one)
    assert events.select("sequence", "side", "price", "size").rows() == [(6, "B", 101, 0.5), (9, "B", 101, 0.5)]
    one, _ = imported(written(tmp_path, [*lines, traded(1, "aggTrade", a=7), traded(1)]))
    assert one.trades == 1
    for damage, expected in {"q": "0", "p": "-1"}.items():
        name = {"q": "a size above 0, was 0.0", "p": "a price above 0, was -1.0"}[damage]
        assert f"line 6 of btc.jsonl must have {name}" in refusal(
            written(tmp_path, [*lines, traded(1, **{damage: expected})])
        )
    assert "line 6 of btc.jsonl must have prices and sizes of a trade" in refusal(
        written(tmp_path, [*lines, traded(1).replace('"q"', '"w"')])
    )


@pytest.mark.real_data
def test_real_streams_over_midnight_are_those_of_a_dictionary(tmp_path: Path) -> None:
    """Books and trades of two files, the second without a snapshot, against texts in dictionaries."""
    folder = SHARED_DATA / "binance"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    files = [folder / f"spot_btcusdt_2024080{day}.gz" for day in (8, 9)]
    texts = [
        line.partition(" ")[2] for path in files for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]
    events = [one.get("data", one) for one in map(json.loads, texts)]
    (whole,) = (one for one in events if "lastUpdateId" in one)
    book = {side: {float(p): float(s) for p, s in whole[side]} for side in ("bids", "asks")}
    expected: list[tuple[int, list[Any], list[Any]]] = []
    last: tuple[Any, ...] = ()
    for one in events:
        if one.get("e") == "depthUpdate" and one["u"] > whole["lastUpdateId"]:
            for side, name in (("bids", "b"), ("asks", "a")):
                book[side] |= {float(p): float(s) for p, s in one[name]}
                for price in {float(p) for p, s in one[name] if not float(s)}:
                    book[side].pop(price)
            now = heapq.nlargest(10, book["bids"].items()), heapq.nsmallest(10, book["asks"].items())
            if now != last:
                expected.append((one["E"], *now))
            last = now
    recordings = import_files(files, tmp_path, ReadingOptions(depth=10))
    store = RecordingStore(tmp_path)
    tables = [store.snapshots(one) for one in recordings]
    rows = polars.concat([tables[0], tables[1][1:]]).iter_rows(
        named=True
    )  # the second begins with the book at midnight
    found = [(round(row["ts_event"].timestamp() * 1000), *map(list, sides_of(row, 10))) for row in rows]
    assert found == expected
    trades = polars.concat(store.events(one) for one in recordings)
    sold = [
        (one["T"], float(one["p"]), float(one["q"]), "B" if one["m"] else "A")
        for one in events
        if one.get("e") == "trade"
    ]
    times = trades["ts_event"].dt.epoch("ms").to_list()
    assert list(zip(times, *(trades[name].to_list() for name in ("price", "size", "side")), strict=True)) == sold


@pytest.mark.real_data
def test_a_real_stream_with_times_of_receipt(tmp_path: Path) -> None:
    path = SHARED_DATA / "binance" / "spot_ethusdt_20240808.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    (one, _) = import_files([path], tmp_path, ReadingOptions(depth=5))
    assert (one.stem, one.crossed, one.gaps) == ("binance_ETHUSDT_2024-08-08", 0, 0)
    assert one.trades > 1000
    assert one.snapshots > 1000
    check_recordings(tmp_path)


GOOD = random_lines(6, 12)[0]


def changed(line: int, **fields: Any) -> list[str]:
    one = json.loads(GOOD[line - 1]) | fields
    return [*GOOD[: line - 1], json.dumps(one), *GOOD[line:]]


LEVELS = ": a level must be two numbers, price and quantity, was"
BID = [["99", "1"]]
DAMAGED: dict[str, tuple[Sequence[str], int, str]] = {
    "cut": ([*GOOD[:-1], GOOD[-1][:30]], 12, "must be a complete JSON object"),
    "a list": ([*GOOD, "[1]"], 13, "must be a JSON object, was [1]"),
    "something else": ([*GOOD, '{"a": 1}'], 13, ": lastUpdateId of a snapshot must be a whole number, was None"),
    "a time of text": (changed(3, E="now"), 3, ": E of a depth update must be a whole number, was 'now'"),
    "a falling time": (changed(5, E=MIDNIGHT, b=BID), 5, "must have a time not before that of the previous line"),
    "no list": (changed(4, b=None), 4, ": b must be a list of levels, was None"),
    "half a level": (changed(4, b=[["99"]]), 4, f"{LEVELS} ['99']"),
    "a level of words": (changed(4, a=[["much", "1"]]), 4, f"{LEVELS} ['much', '1']"),
    "a level of nothing": (changed(1, bids=[None]), 1, f"{LEVELS} None"),
    "no number": (changed(4, b=[["nan", "1"]]), 4, "must have a price above 0, was nan"),
    "a negative quantity": (changed(4, a=[["101", "-1"]]), 4, "must have an amount of 0 or more, was -1.0"),
    "numbers that fall": (changed(4, U=9, u=8), 4, ": U must be at most u = 8, was 9"),
    "a hostile symbol": (changed(4, s="<b>"), 4, ": s must be a name of up to 16 letters"),
    "another symbol": (changed(4, s="ETH"), 4, ": s must be BTCUSDT, was ETH"),
    "an old snapshot": ([GOOD[0], *GOOD[3:]], 2, "must have U up to 1, after the snapshot in line 1, was U = 3"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_lines_are_refused(tmp_path: Path, damage: str) -> None:
    lines, number, expected = DAMAGED[damage]
    separator = "" if expected.startswith(":") else " "
    assert f"line {number} of btc.jsonl{separator}{expected}" in refusal(written(tmp_path, lines))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (changed(2, E=34_200_000), "s, ms, us or ns since 1970, between 1990 and 2200, was 34200000"),
        (changed(5, E=MIDNIGHT * 1000), "in one unit throughout, ms as in the first row"),
        (GOOD[1:], 'has no snapshot ("lastUpdateId") that its updates continue'),
        (GOOD[:1], 'has no depth updates ("e": "depthUpdate")'),
    ],
)
def test_files_that_are_no_sequence_of_books_are_refused(tmp_path: Path, lines: Sequence[str], expected: str) -> None:
    assert expected in refusal(written(tmp_path, lines))


def test_json_under_the_names_of_other_formats(tmp_path: Path) -> None:
    for name in ("books.csv", "20191230.BX_ITCH_50", "20131007_bac_Quote_Tick.csv"):
        assert imported(written(tmp_path, GOOD, name))[0].date == dt.date(2020, 1, 1)
    assert "has no column ts_event" in refusal(written(tmp_path, GOOD, "books.csv"), kind="table")
    (tmp_path / "x.json").write_bytes(b"PAR1\xff\xfe")
    assert "must be UTF-8 text" in refusal(tmp_path / "x.json", kind="deltas")
    (tmp_path / "x.json.gz").write_bytes(gzipped("\n".join(GOOD).encode())[:-20])
    assert "x.json.gz is truncated or damaged" in refusal(tmp_path / "x.json.gz", kind="deltas")
