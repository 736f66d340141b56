"""Quotes of event contracts as JSON lines: books, changes and trades, damaged and in other units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import market_files
from market_files import Update, check_recordings, gzipped, naive_books_of, sides_of
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers.event_quotes import EventQuotes
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

BEGIN = 1_577_836_800_000
"""The first moment of 2020, UTC, in milliseconds."""

WANTED = ReadingOptions(depth=5)


def quote(time: int, **fields: Any) -> dict[str, Any]:
    return {"time": BEGIN + time, "symbol": "RAIN-20", "venue": "polls", **fields}


def random_quotes(seed: int, count: int = 50) -> tuple[list[dict[str, Any]], list[Update]]:
    """A whole book now and then, changes otherwise; and the same as updates."""
    rng = np.random.default_rng(seed)
    lines, updates = [], []
    for k in range(1, count):
        levels = [
            (
                bool(bid),
                round(0.5 + (-1 if bid else 1) * int(rng.integers(1, 9)) / 100, 2),
                int(rng.integers(0, 4)) * 10.0,
            )
            for bid in rng.integers(0, 2, int(rng.integers(1, 4)))
        ]
        if k == 1 or rng.random() < 0.1:
            whole = {level[:2]: level for level in levels}
            levels = sorted(whole.values(), reverse=True)
            sides = {name: [level[1:] for level in levels if level[0] == (name == "bids")] for name in ("bids", "asks")}
            lines.append(quote(k, **sides))
            updates += [Update(k, *level, j == 0) for j, level in enumerate(levels)]
        else:
            lines.append(quote(k, changes=[("bid" if bid else "ask", *rest) for bid, *rest in levels]))
            updates += [Update(k, *level) for level in sorted(levels, key=lambda level: not level[0])]
    return lines, updates


def written(folder: Path, lines: list[dict[str, Any]], name: str = "quotes.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def imported(path: Path, options: ReadingOptions = WANTED) -> tuple[Recording, polars.DataFrame]:
    (one,) = import_files([path], path.parent / "out", options)
    check_recordings(path.parent / "out")
    return one, RecordingStore(path.parent / "out").snapshots(one)


def refusal(path: Path, options: ReadingOptions = WANTED, **more: Any) -> str:
    return market_files.refusal(path, options, **more)


@pytest.mark.parametrize("seed", range(4))
def test_books_are_those_of_a_dictionary(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, updates = random_quotes(seed)
    path = written(tmp_path, lines)
    assert _detect_format(path) == "deltas"
    one, table = imported(path)
    assert (one.stem, one.zone) == ("polls_RAIN-20_2020-01-01", "UTC")
    expected = naive_books_of(updates, 5)
    assert table["sequence"].to_list() == [updates[number - 1].group for number, *_ in expected]
    for row, (_, *sides, _) in zip(table.iter_rows(named=True), expected, strict=True):
        assert [list(side) for side in sides_of(row, 5)] == sides
    monkeypatch.setattr(EventQuotes, "LINES", 7)
    assert imported(path)[1].equals(table)
    (tmp_path / "packed.json.gz").write_bytes(gzipped(path.read_bytes()))
    assert imported(tmp_path / "packed.json.gz")[1].equals(table)


def test_trades_and_texts_of_times(tmp_path: Path) -> None:
    book = {"bids": [[0.4, 10]], "asks": [[0.45, 5]]}
    lines = [
        quote(0, **book),
        quote(1, trade={"price": 0.45, "size": 2.5, "side": "buy"}),
        quote(2, trade={"price": 0.42, "size": 1}),
    ]
    for k, line in enumerate(lines):
        line["time"] = f"2020-01-01T00:00:0{k}.500Z"
        del line["venue"]
    one, table = imported(written(tmp_path, lines), ReadingOptions(venue="odds"))
    assert table.height == 1
    assert (one.venue, one.trades, one.first[11:23]) == ("odds", 2, "00:00:00.500")
    events = RecordingStore(tmp_path / "out").events(one)
    assert events.select("side", "price", "size").rows() == [("A", 0.45, 2.5), (None, 0.42, 1.0)]
    assert "does not state its venue; give venue" in refusal(written(tmp_path, lines))


def test_changes_before_the_first_book_are_left_out_and_said(tmp_path: Path) -> None:
    lines, _ = random_quotes(1)
    early = quote(0, changes=[["bid", 0.01, 5]])
    one, _ = imported(written(tmp_path, [early, *lines]))
    assert one.gaps == 1
    assert "has no whole book (bids and asks) of RAIN-20 at polls" in refusal(written(tmp_path, [early]))


GOOD = quote(1, bids=[[0.4, 10]], asks=[[0.45, 5]])
DAMAGED: dict[str, tuple[Any, str]] = {
    "cents": (quote(2, changes=[["bid", 41, 5]]), "must have prices between 0 and 1, was 41: are its prices in cents?"),
    "a certain trade": (quote(2, trade={"price": 1.0, "size": 5}), "must have prices between 0 and 1, was 1"),
    "a side": (quote(2, changes=[["yes", 0.4, 5]]), "must be a quote of an event contract: Invalid enum value 'yes'"),
    "half a level": (quote(2, bids=[[0.4]], asks=[]), "must be a quote of an event contract"),
    "one side": (quote(2, bids=[[0.4, 1]]), "must have bids and asks, changes, or a trade, had none of them"),
    "no symbol": ({"time": BEGIN, "bids": [], "asks": []}, "must be a quote of an event contract"),
    "a hostile symbol": (quote(2, symbol="<b>", bids=[], asks=[]), "must have a name of up to 16"),
    "a negative size": (quote(2, changes=[["bid", 0.4, -5]]), "must have an amount of 0 or more, was -5.0"),
    "a falling time": (quote(0, changes=[["bid", 0.4, 5]]), "must have a time not before that of the previous line"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_lines_are_refused(tmp_path: Path, damage: str) -> None:
    line, expected = DAMAGED[damage]
    said = refusal(written(tmp_path, [GOOD, line]))
    assert said.startswith("line 2 of quotes.jsonl must")
    assert expected in said


def test_times_of_two_kinds_are_refused(tmp_path: Path) -> None:
    assert "time must be a number throughout" in refusal(written(tmp_path, [GOOD, GOOD | {"time": "2020-01-01"}]))
    assert "in one unit throughout" in refusal(written(tmp_path, [GOOD, GOOD | {"time": BEGIN * 1000}]))
    (tmp_path / "cut.jsonl").write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD)[:20])
    assert "line 2 of cut.jsonl must be a quote" in refusal(tmp_path / "cut.jsonl")
