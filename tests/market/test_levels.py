"""Levels of books: an import keeps all of them, or says how many books had more."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
from itch_book import open as open_itch

from market_files import (
    DAY,
    ITCH_NAME,
    LOBSTER_NAME,
    OPEN,
    Message,
    csv_text,
    itch_bytes,
    levels_of,
    lobster_texts,
    naive_books,
    random_messages,
    table_columns,
    zipped,
)
from riskroute.cli.app import run_app as command
from riskroute.market.importing import import_files
from riskroute.market.readers import itch
from riskroute.market.readers.reading import ReadingOptions, reading_file_date
from riskroute.market.recordings import Recording, RecordingStore
from riskroute.market.schema import level_columns

LEVELS = 8
"""Levels of the files, and of their deepest books."""

KEPT = 6


def deep_messages(levels: int) -> list[Message]:
    """Orders at ever worse prices on both sides, then cancellations in another order."""
    sides = {"B": -100, "S": 100}
    adds = [
        Message("A", OPEN, 2 * level + (side == "S"), side, 100 + level, 1_000_000 + step * level)
        for level in range(1, levels + 1)
        for side, step in sides.items()
    ]
    gone = [one._replace(kind="D") for one in adds[::3]]
    return [one._replace(time=OPEN + k * 10**9) for k, one in enumerate([*adds, *gone])]


MESSAGES = deep_messages(LEVELS)


def as_itch(folder: Path) -> Path:
    path = folder / ITCH_NAME
    path.write_bytes(itch_bytes(MESSAGES))
    return path


def as_lobster(folder: Path) -> Path:
    names = [LOBSTER_NAME.format(kind, LEVELS) for kind in ("message", "orderbook")]
    for name, text in zip(names, lobster_texts(MESSAGES, LEVELS), strict=True):
        (folder / name).write_text(text)
    return folder / names[0]


def as_csv(folder: Path) -> Path:
    path = folder / "books.csv"
    path.write_text(csv_text(table_columns(MESSAGES, LEVELS)))
    return path


def as_zip(folder: Path) -> Path:
    path = folder / "books.zip"
    path.write_bytes(zipped({"books.csv": csv_text(table_columns(MESSAGES, LEVELS)).encode()}))
    return path


def as_parquet(folder: Path) -> Path:
    path = folder / "books.parquet"
    polars.DataFrame(table_columns(MESSAGES, LEVELS)).write_parquet(path)
    return path


readers = pytest.mark.parametrize("write", [as_itch, as_lobster, as_csv, as_zip, as_parquet])
Writer = Callable[[Path], Path]


def imported(path: Path, **wanted: Any) -> tuple[Recording, polars.DataFrame]:
    (one,) = import_files([path], path.parent / "out", ReadingOptions(("ACME",), **wanted), max_crossed=1)
    return one, RecordingStore(path.parent / "out").snapshots(one)


@readers
def test_all_levels_of_a_file_are_kept_if_nothing_is_said(tmp_path: Path, write: Writer) -> None:
    one, table = imported(write(tmp_path))
    assert (one.levels, one.deeper, one.cut) == (LEVELS, 0, "")
    assert [levels_of(row, LEVELS) for row in table.iter_rows(named=True)] == naive_books(MESSAGES, LEVELS)


@readers
def test_a_limit_that_binds_is_counted_and_said(
    tmp_path: Path, write: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = naive_books(MESSAGES, LEVELS)
    deep = [any(book[side][KEPT][0] is not None for side in ("bid", "ask")) for book in whole]
    kept = naive_books(MESSAGES, KEPT)
    if write is as_itch:  # which tells changes of the kept levels only
        changed = [k for k, book in enumerate(kept) if k == 0 or book != kept[k - 1]]
        kept, deep = [kept[k] for k in changed], [deep[k] for k in changed]
    one, table = imported(write(tmp_path), depth=KEPT)
    assert [levels_of(row, KEPT) for row in table.iter_rows(named=True)] == kept
    assert (one.depth, one.levels, one.deeper) == (KEPT, KEPT, sum(deep))
    said = f"{sum(deep)} of {len(kept)} snapshots of XNAS_ACME_{DAY} had more levels on a side than the {KEPT} kept."
    assert one.cut == said
    words = ["market", "import", str(write(tmp_path)), "--symbol", "ACME", "--out", str(tmp_path / "cli")]
    assert command([*words, "--depth", str(KEPT)]) == 0
    assert said in capsys.readouterr().out
    assert json.loads((tmp_path / "cli" / f"{one.stem}.record.json").read_text())["deeper"] == sum(deep)
    assert command([*words]) == 0
    assert "more levels" not in capsys.readouterr().out


def test_only_books_of_the_wanted_hours_count(tmp_path: Path) -> None:
    wanted = ReadingOptions(("ACME",), depth=KEPT, end=dt.time(9, 30, 2 * KEPT))
    (one,) = import_files([as_csv(tmp_path)], tmp_path / "out", wanted)
    assert (one.snapshots, one.levels, one.deeper) == (2 * KEPT, KEPT, 0)


@pytest.mark.parametrize("levels", [49, 50, 51])
def test_an_itch_file_is_kept_to_fifty_levels(tmp_path: Path, levels: int) -> None:
    messages = deep_messages(levels)[: 2 * levels]
    (tmp_path / ITCH_NAME).write_bytes(itch_bytes(messages))
    one, table = imported(tmp_path / ITCH_NAME)
    books = naive_books(messages, 50)
    assert one.levels == min(levels, 50)
    rows = [levels_of(row, 50) for row in table.iter_rows(named=True)]
    assert rows == [book for k, book in enumerate(books) if k == 0 or book != books[k - 1]]
    assert one.deeper == sum(book["bid"][-1][0] is not None for book in rows) == (2 if levels > 49 else 0)
    expected = f"2 of 100 snapshots of {one.stem} had 50 or more levels on a side; ITCH imports keep at most 50."
    assert one.cut == (expected if levels > 49 else "")


@pytest.mark.usefixtures("untraced")
def test_the_level_that_is_only_counted_adds_no_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a file is read in many parts: the same books as if no further level had been asked for."""
    monkeypatch.setattr(itch.ItchReader, "ROWS", 1)
    monkeypatch.setattr(itch.ItchReader, "BYTES", 150)
    path = tmp_path / ITCH_NAME
    for seed in range(2):
        path.write_bytes(itch_bytes(random_messages(seed, 60)))
        for depth in (1, 2, 4):
            with open_itch(str(path), chunk_bytes=1 << 20, date=reading_file_date(path.name)) as feed:
                (batch,) = feed.batches(tables=("depth", "messages", "symbols"), depth=depth, symbols=("ACME",))
            _, table = imported(path, depth=depth)
            assert table["sequence"].to_list() == batch.depth["seq"].tolist()
            expected = polars.DataFrame(batch.depth).select(level_columns(depth)).fill_nan(None)
            assert table.select(level_columns(depth)).equals(expected)
