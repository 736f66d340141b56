"""Columns by pattern and from files: levels that count from 0 or 1, what wins, what fits nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from market_files import csv_text, levels_of, naive_books, random_messages, table_columns
from riskroute.cli.app import run_app as command
from riskroute.core.errors import DataError, InputError
from riskroute.market.importing import import_files
from riskroute.market.readers.columns import load_columns
from riskroute.market.readers.columns import table_columns as names_of
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore

MESSAGES = random_messages(7, 20)


def renamed(pattern: str, first: int = 0) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """A table of three levels with names of its own, and the patterns that tell them."""
    columns = {}
    for name, values in table_columns(MESSAGES, 3).items():
        field, level = (name[:6], int(name[7:]) + first) if name[:3] in ("bid", "ask") else (name, 0)
        columns[pattern.format(field, level) if name[:3] in ("bid", "ask") else name] = values
    return columns, {
        ours: pattern.replace(":02d", "").format(ours[:6], "{}")
        for ours in ("bid_px_{}", "bid_sz_{}", "ask_px_{}", "ask_sz_{}")
    }


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("pattern", ["{0}[{1}]", "level {1} of {0}", "{0}{1:02d}", "{1}.{0}"])
def test_levels_by_pattern(tmp_path: Path, pattern: str, first: int) -> None:
    columns, told = renamed(pattern, first)
    path = tmp_path / "books.csv"
    path.write_text(csv_text(columns))
    (one,) = import_files([path], tmp_path / "out", ReadingOptions(columns=told))
    table = RecordingStore(tmp_path / "out").snapshots(one)
    assert [levels_of(row, 3) for row in table.iter_rows(named=True)] == naive_books(MESSAGES, 3)


def test_a_name_that_is_told_wins_over_a_pattern_and_a_pattern_over_what_is_known() -> None:
    given = ["time", "B0", "B1", "bid_px_00", "bids[0].price", "best"]
    assert names_of(given, {"bid_px_{}": "B{}"}) == {"ts_event": "time", "bid_px_00": "B0", "bid_px_01": "B1"}
    assert names_of(given, {"bid_px_00": "best", "bid_px_{}": "B{}"})["bid_px_00"] == "best"
    assert names_of(given, {})["bid_px_00"] == "bid_px_00"


def test_more_levels_than_can_be_kept_are_left_out() -> None:
    found = names_of([f"b{level}" for level in range(1500)], {"bid_px_{}": "b{}"})
    assert len(found) == 1001  # one more than is kept, to count books that have it


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"bid_px_{}": "X{}"}, "column bid_px_{} must match one of ts, b2, b3, was 'X{}'"),
        ({"bid_px_{}": "b{}"}, "levels of a pattern must count from 0 or from 1, was 2 in"),
        ({"bid_px_{}": "b2"}, "and a name with one {} for the level, was bid_px_{}=b2"),
        ({"bid_px_{}": "b{}{}"}, "and a name with one {} for the level, was bid_px_{}=b{}{}"),
        ({"bids_{}": "b{}"}, "column pattern must be one of bid_px_{}, bid_sz_{}, ask_px_{}, ask_sz_{}"),
        ({"bid_px_00": "b{}"}, "column pattern must be one of bid_px_{}"),
        (
            {"price": "b2"},
            "column must be one of ts_event, venue, symbol, bid_px_00, ... or bid_px_{}, ..., was 'price'",
        ),
    ],
)
def test_patterns_that_fit_nothing(told: dict[str, str], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        names_of(["ts", "b2", "b3"], told)
    assert expected in str(caught.value)


@pytest.mark.parametrize("ending", [".toml", ".json"])
def test_names_from_a_file(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    columns, told = renamed("{0} no {1}", 1)
    columns["when"] = columns.pop("ts_event")
    (tmp_path / "books.csv").write_text(csv_text(columns))
    told["ts_event"] = "nowhere"
    text = json.dumps(told) if ending == ".json" else "\n".join(f'"{ours}" = "{name}"' for ours, name in told.items())
    file = tmp_path / f"names{ending}"
    file.write_text(text)
    assert load_columns(file) == told
    words = ["market", "import", str(tmp_path / "books.csv"), "--columns", str(file), "--out", str(tmp_path / "out")]
    assert command(words) == 2
    assert "column ts_event must be one of venue, symbol," in capsys.readouterr().err
    assert command([*words, "--column", "ts_event=when"]) == 0
    (one,) = RecordingStore(tmp_path / "out").recordings()
    assert one.depth == 3


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("names.txt", b"", "columns must be a .toml or .json file, was"),
        ("names.toml", b"bid_px_{} = 'x'", "names.toml must be a TOML file of names:"),
        ("names.json", b"{", "names.json must be a JSON file of names:"),
        ("names.json", b"\xff\xfe", "names.json must be a JSON file of names:"),
        ("names.json", b'["a"]', 'must hold only entries such as bid_px_00 = "BestBid", was'),
        ("names.toml", b"[columns]\nbid_px_00 = 'x'", 'must hold only entries such as bid_px_00 = "BestBid"'),
        ("names.toml", b"bid_px_00 = 3", 'must hold only entries such as bid_px_00 = "BestBid", was'),
    ],
)
def test_files_that_hold_no_names(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((DataError, InputError)) as caught:
        load_columns(tmp_path / name)
    assert expected in str(caught.value)
    with pytest.raises((DataError, InputError)):
        load_columns(tmp_path / "nowhere.toml")
