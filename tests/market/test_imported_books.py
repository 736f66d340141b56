"""Imported books against a naive one: every level after every message of a generated market."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars
import pytest

from naive_books import NaiveItchBook, read_messages
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore
from riskroute.market.schema import LEVEL_FIELDS, level_columns
from riskroute.market.synthetic.generate import generate_market
from riskroute.market.synthetic.venues import DEFAULT_VENUES

SYMBOLS = ("QVEX", "ZORN")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five minutes of two symbols at three venues."""
    hours = (dt.time(11), dt.time(11, 5))
    return generate_market(tmp_path_factory.mktemp("market"), seed=7, symbols=SYMBOLS, hours=hours)


def naive_levels(book: NaiveItchBook, locate: int, depth: int) -> tuple[float | None, ...]:
    """The levels as a row of a snapshot table has them, prices in 1/10000 dollars."""
    row: dict[str, float | None] = dict.fromkeys(level_columns(depth))
    for side, levels in zip(("bid", "ask"), book.levels(locate, depth), strict=True):
        for level in range(depth):
            price, size = levels[level] if level < len(levels) else (None, 0)
            row[f"{side}_px_{level:02d}"], row[f"{side}_sz_{level:02d}"] = price, size
    return tuple(row.values())


def imported_levels(path: Path, out: Path, depth: int) -> dict[str, dict[int, tuple[float | None, ...]]]:
    """Levels by symbol and number of the message, as `naive_levels` tells them."""
    recordings = import_files([path], out, ReadingOptions(SYMBOLS, depth=depth))
    prices = [name for name in level_columns(depth) if "_px_" in name]
    found = {}
    for one in recordings:
        table = RecordingStore(out).snapshots(one).with_columns((polars.col(prices) * 10_000).round())
        rows = table.select("sequence", *level_columns(depth)).iter_rows()
        found[one.symbol] = {sequence: tuple(levels) for sequence, *levels in rows}
    return found


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("index", range(3))
def test_every_level_after_every_message(files: list[Path], tmp_path: Path, index: int) -> None:
    """The best levels alone, and five of them; a message is about one symbol, and nothing is told of the other."""
    deep, best = (imported_levels(files[index], tmp_path / f"{depth}", depth) for depth in (5, 1))
    assert {one.venue for one in RecordingStore(tmp_path / "5").recordings()} == {DEFAULT_VENUES[index].name}
    width = len(level_columns(1))
    assert level_columns(5)[:width] == level_columns(1)
    book, nothing = NaiveItchBook(), naive_levels(NaiveItchBook(), 1, 5)
    shown, on_top = dict.fromkeys(SYMBOLS, nothing), dict.fromkeys(SYMBOLS, nothing[:width])
    changes = 0
    for number, message in enumerate(read_messages(files[index]), 1):
        book.apply(message)
        locate = int.from_bytes(message[1:3], "big")
        symbol = book.symbols.get(locate)
        if symbol is not None:
            changes += (number in deep[symbol]) + (number in best[symbol])
            shown[symbol] = deep[symbol].get(number, shown[symbol])
            on_top[symbol] = best[symbol].get(number, on_top[symbol])
            levels = naive_levels(book, locate, 5)
            assert levels == shown[symbol], (number, symbol)
            assert levels[:width] == on_top[symbol], (number, symbol)
    assert changes == sum(len(rows) for table in (deep, best) for rows in table.values())
    assert min(len(rows) for rows in best.values()) > 100


@pytest.mark.parametrize("index", range(3))
def test_events_rebuild_the_books(files: list[Path], tmp_path: Path, index: int) -> None:
    """Replaying the event table alone gives the best prices and sizes of the snapshot table at every sequence."""
    import_files([files[index]], tmp_path, ReadingOptions(SYMBOLS[:1], depth=1))
    store = RecordingStore(tmp_path)
    (one,) = store.recordings()
    best = {row[0]: row[1:] for row in store.snapshots(one).select("sequence", *level_columns(1)).iter_rows()}
    orders: dict[int, tuple[str, float, int]] = {}
    checked = hidden = 0
    columns = ("sequence", "action", "side", "price", "size", "remaining", "order_id", "old_order_id")
    for sequence, action, side, price, size, remaining, order, old in store.events(one).select(columns).iter_rows():
        if action == "M":
            orders.pop(old)
        if action in "AM":
            orders[order] = (side, price, size)
        elif order == 0:
            assert (action, remaining) == ("F", None)
            hidden += 1
        else:
            mine, resting, before = orders.pop(order)
            assert (mine, before - size) == (side, remaining)
            if remaining:
                orders[order] = (mine, resting, remaining)
        if sequence in best:
            expected = dict(zip(LEVEL_FIELDS, best[sequence], strict=True))
            for name, letter, pick in (("bid", "B", max), ("ask", "A", min)):
                levels = [(resting, left) for mine, resting, left in orders.values() if mine == letter]
                top = pick((resting for resting, _ in levels), default=None)
                total = sum(left for resting, left in levels if resting == top)
                assert (expected[f"{name}_px"], expected[f"{name}_sz"]) == (top, total), sequence
            checked += 1
    assert checked == len(best) > 200
    assert hidden > 0


def test_a_window_is_cut_out_of_the_whole(files: list[Path], tmp_path: Path) -> None:
    import_files(files[:1], tmp_path / "whole", ReadingOptions(SYMBOLS[:1]))
    import_files(files[:1], tmp_path / "part", ReadingOptions(SYMBOLS[:1], start=dt.time(11, 1), end=dt.time(11, 2)))
    whole, part = (RecordingStore(tmp_path / name) for name in ("whole", "part"))
    begin = int(dt.datetime(2019, 3, 27, 15, 1, tzinfo=dt.UTC).timestamp()) * 10**9
    for table in (RecordingStore.snapshots, RecordingStore.events):
        expected = table(whole, whole.recordings()[0], begin, begin + 60 * 10**9)
        found = table(part, part.recordings()[0])
        assert found.height > 100
        assert found.equals(expected)
    assert np.all(np.diff(part.snapshots(part.recordings()[0])["sequence"].to_numpy().astype(np.int64)) > 0)
