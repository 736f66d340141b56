"""Venues and symbols in files: which names are imported, which are refused, and what their files are called."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from instruments import instrument_of
from market_files import csv_text, random_messages, refusal, table_columns, visible
from riskroute.core.errors import DataError, InputError
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RECORD, Recording, RecordingStore

MESSAGES = random_messages(12, 40)
Columns = dict[str, list[Any]]
Writer = Callable[[Path, Columns], Path]


def as_csv(folder: Path, columns: Columns) -> Path:
    path = folder / "books.csv"
    path.write_text(csv_text(columns))
    return path


def as_parquet(folder: Path, columns: Columns) -> Path:
    path = folder / "books.parquet"
    polars.DataFrame(columns).write_parquet(path)
    return path


both = pytest.mark.parametrize("write", [as_csv, as_parquet])


def imported(path: Path, wanted: ReadingOptions) -> list[tuple[Recording, polars.DataFrame]]:
    out = path.parent / "out"
    return [(one, RecordingStore(out).snapshots(one)) for one in import_files([path], out, wanted)]


def changed(name: str, value: Any, row: int = 4) -> Columns:
    columns = table_columns(MESSAGES, 1)
    columns[name] = [*columns[name][:row], value, *columns[name][row + 1 :]]
    return columns


@both
def test_venues_and_symbols_that_are_no_names_are_refused(tmp_path: Path, write: Writer) -> None:
    odd = {"venue": ["", "A|B", "../x", "<b>", "X" * 33, None], "symbol": ["", "/AB", "X" * 17, "ABC+", "AC*", None]}
    for name, value in [(name, value) for name, values in odd.items() for value in values]:
        said = refusal(write(tmp_path, changed(name, value)))
        assert f"row 5 of books.{write.__name__[3:]}: {name} must be a name of up to" in said
        assert f"was {(value or None)!r}" in said.replace("was ''", "was None")


@both
def test_symbols_that_are_not_asked_for_may_be_anything(tmp_path: Path, write: Writer) -> None:
    """Warrants, preferred shares and the like are in real files; their venues do not matter either."""
    columns = table_columns(MESSAGES, 1)
    others = ["ABC+", "ABC=", "ABC$A", "ABC^", "ABC#", "<script>", "X" * 40]
    columns["symbol"] = [*others, *columns["symbol"][len(others) :]]
    columns["venue"] = ["<b>", *columns["venue"][1:]]
    said = refusal(write(tmp_path, columns), ReadingOptions(("ACNE",)))
    assert " is not among the 8 in books" in said
    assert "did you mean ACME" in said
    ((one, table),) = imported(write(tmp_path, columns), ReadingOptions(("ACME",)))
    assert (one.symbol, table.height) == ("ACME", len(MESSAGES) - len(others))


def test_names_with_signs_are_files_of_their_own(tmp_path: Path) -> None:
    """Folders, and an underscore that might belong to the venue or to the symbol, do not mix files up."""
    names = [("A_B", "C"), ("A", "B_C"), ("A/B", "C"), ("A B", "C/../D"), ("Ä", "C")]
    for venue, symbol in names:
        (tmp_path / "books.csv").write_text(csv_text(table_columns(MESSAGES, 1, (venue,), symbol)))
        import_files([tmp_path / "books.csv"], tmp_path / "out", ReadingOptions())
    store = RecordingStore(tmp_path / "out")
    found = [(one.venue, one.symbol) for one in store.recordings()]
    assert sorted(found) == sorted(names)
    assert sorted(visible(tmp_path)) == ["books.csv", "out"]
    for one in store.recordings():
        assert set(store.snapshots(one).select("venue", "symbol").rows()) == {(one.venue, one.symbol)}
        assert store.summary(one)["symbol"] == one.symbol


@pytest.mark.parametrize("name", ["venue", "symbol"])
@pytest.mark.parametrize("value", ["", "../x", "<!--<script>", "a|b", "x" * 40])
def test_a_record_with_a_hostile_name_is_refused(tmp_path: Path, name: str, value: str) -> None:
    path = as_csv(tmp_path, table_columns(MESSAGES, 1))
    (one,) = import_files([path], tmp_path / "out", ReadingOptions())
    path = tmp_path / "out" / f"{one.stem}{RECORD}"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(DataError, match=f"{name} must be a name of up to .* was '{re.escape(value)}'"):
        RecordingStore(tmp_path / "out").recordings()


@both
def test_symbols_are_renamed_in_every_table(tmp_path: Path, write: Writer) -> None:
    """Two exchanges name one pair differently; the instrument is declared under the common name."""
    coin = instrument_of("BTCUSDT", unit="0.5", quantity="BTC", currency="USDT")
    path = write(tmp_path, table_columns(MESSAGES, 1, symbol="BTC-USDT"))
    (tmp_path / "trades.csv").write_text(
        f"time,venue,symbol,price,size,side\n{table_columns(MESSAGES, 1)['ts_event'][3]},XNAS,BTC-USDT,9.5,2,buy\n"
    )
    options = ReadingOptions(
        ("BTC-USDT",), instruments={"BTCUSDT": coin}, symbol_names={"btc-usdt": "btcusdt"}, zone="America/New_York"
    )
    (one,) = import_files([path, tmp_path / "trades.csv"], tmp_path / "out", options)
    assert (one.symbol, one.instrument, one.snapshots, one.trades) == ("BTCUSDT", coin, len(MESSAGES), 1)
    store = RecordingStore(tmp_path / "out")
    for table in (store.snapshots(one), store.events(one)):
        assert set(table["symbol"]) == {"BTCUSDT"}
        assert set(table["venue"]) == {one.venue}
    said = refusal(path, ReadingOptions(("ETH-USDT",), symbol_names={"ETH-USDT": "ETHUSDT"}))
    assert "symbol 'ETH-USDT' is not among" in said


def test_two_symbols_do_not_become_one(tmp_path: Path) -> None:
    columns = table_columns(MESSAGES, 1, symbol="AA")
    columns["symbol"] = [*columns["symbol"][:-4], *["BB"] * 4]
    path = as_csv(tmp_path, columns)
    said = refusal(path, ReadingOptions(("AA", "BB"), symbol_names={"AA": "BB"}))
    assert "two symbols of books.csv are named BB; give each its own name" in said


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"ETH": "XBT"}, "symbol_names must rename symbols to import, was"),
        ({"A": "X", "B": "X"}, "symbol_names must be distinct, was X, X"),
        ({"A": "<b>"}, "symbol must be a name"),
        (["A"], "symbol_names must be a dictionary"),
    ],
)
def test_new_names_of_symbols_are_checked(names: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        ReadingOptions(("A", "B"), symbol_names=names)
