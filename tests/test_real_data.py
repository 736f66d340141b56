"""The page of real books: its recomputed costs agree with the backtest, its command runs, and its blocks are there."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import polars
import pytest

from checkout import ROOT, SHARED_DATA

PAGE = (ROOT / "docs" / "real-data.md").read_text()
NOON = int(dt.datetime(2024, 8, 8, 12, tzinfo=dt.UTC).timestamp()) * 10**9
SECOND = 10**9


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with mock.patch("sys.path", [str(ROOT / "docs"), *sys.path]):
        yield importlib.import_module("real_data")


@pytest.mark.parametrize("block", ["amzn", "bac", "ibm", "btc", "eth", "perpetual"])
def test_every_sample_has_its_printout(script: ModuleType, block: str) -> None:
    assert block in {sample.name for sample in script.SAMPLES}
    found = re.search(
        rf"^<!-- real-data-{block} -->\n```text\n(.*?)\n```\n<!-- /real-data-{block} -->$", PAGE, re.M | re.S
    )
    assert found is not None
    quantities = next(len(sample.quantities) for sample in script.SAMPLES if sample.name == block)
    printed = " ".join(found[1].split())
    assert printed.count("Sweep without latency, recomputed: ") == quantities
    largest = re.findall(r"no order differs by more than (\S+) bps", printed)
    assert len(largest) == quantities
    assert max(map(float, largest)) <= script.TOLERANCE


def test_the_page_names_its_command_its_files_and_its_seeds(script: ModuleType) -> None:
    assert PAGE.count("<!-- real-data-") == len(script.SAMPLES) + 1  # the last run
    command = re.search(r"^make real-data DATA=(\S+)$", PAGE, re.M)
    assert command is not None
    assert ROOT / command[1] / "x" == ROOT / ".." / "shared" / "data" / "x"
    asked = ["make", "--no-print-directory", "--dry-run", "real-data", f"DATA={command[1]}"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1].endswith(f"python docs/real_data.py {command[1]}")
    assert len(script.SEEDS) == 3
    for sample in script.SAMPLES:
        for path in [name for names in sample.files.values() for name in names]:
            assert path.rpartition("_2024")[0] in PAGE or str(Path(path).parent) in PAGE


def test_another_argument_than_a_folder_is_refused(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="expected one folder of samples, was 'nowhere'"):
        script.main(["nowhere"])


def write_book(
    folder: Path, venue: str, seconds: int, bids: list[tuple[float, float]], asks: list[tuple[float, float]]
) -> None:
    """Write one snapshot of two levels, that many seconds before noon; a price of 0 is no level."""
    row: dict[str, object] = {"ts_event": NOON - seconds * SECOND, "sequence": 0, "venue": venue, "symbol": "ABC"}
    for side, levels in (("bid", bids), ("ask", asks)):
        for level, (price, size) in enumerate(levels):
            row |= {f"{side}_px_{level:02d}": price or None, f"{side}_sz_{level:02d}": size}
    table = polars.DataFrame([row]).with_columns(polars.from_epoch("ts_event", "ns").dt.replace_time_zone("UTC"))
    table.write_parquet(folder / f"{venue}_ABC_2024-08-08.snapshots.parquet")


def order(sign: int, quantity: float) -> polars.DataFrame:
    return polars.DataFrame(
        {"symbol": ["ABC"], "day": ["2024-08-08"], "time": [NOON], "sign": [sign], "quantity": [quantity]}
    )


FEES = {"A": (0.03, 0.0), "B": (0.0, 0.0), "C": (0.0, 0.0)}


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """A is best and dear, B a cent behind, C too old to count; the mid is 10."""
    write_book(tmp_path, "A", 0, [(9.99, 100), (9.98, 100)], [(10.01, 100), (10.02, 100)])
    write_book(tmp_path, "B", 1, [(9.98, 50), (0, 0)], [(10.02, 50), (0, 0)])
    write_book(tmp_path, "C", 61, [(9.9, 1000), (0, 0)], [(9.95, 1000), (0, 0)])
    return tmp_path


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("protected", "quantity", "money"),
    [
        (False, 50, 50 * 0.02),
        (False, 100, 50 * 0.02 + 50 * (0.01 + 0.03)),
        (True, 100, 100 * (0.01 + 0.03)),
        (True, 150, 100 * (0.01 + 0.03) + 50 * 0.02),
        (True, 250, 100 * (0.01 + 0.03) + 50 * 0.02 + 100 * (0.02 + 0.03)),
    ],
)
def test_a_sweep_by_hand(
    script: ModuleType, books: Path, sign: int, protected: bool, quantity: float, money: float
) -> None:
    (cost,) = script.swept_costs(books, order(sign, quantity), FEES, bps=False, protected=protected, patience=60)
    assert cost == pytest.approx(1e4 * money / (quantity * 10), abs=1e-9)


def test_fees_in_basis_points_and_a_display_that_does_not_suffice(script: ModuleType, books: Path) -> None:
    fees = {"A": (10.0, 0.0), "B": (0.0, 0.0), "C": (0.0, 0.0)}
    (cost,) = script.swept_costs(books, order(1, 100), fees, bps=True, protected=False, patience=60)
    assert cost == pytest.approx(1e4 * (50 * 0.02 + 50 * (0.01 + 10.01 / 1000)) / 1000, abs=1e-9)
    (cost,) = script.swept_costs(books, order(1, 251), FEES, bps=False, protected=True, patience=60)
    assert math.isnan(cost)


@pytest.mark.parametrize(
    ("found", "short", "agrees"),
    [
        ([2.0, math.nan], [False, True], True),
        ([2.0, math.nan], [False, False], False),  # the backtest found enough
        ([2.0, 3.0], [False, True], False),  # it did not
        ([2.0 + 2e-9, math.nan], [False, True], False),
        ([math.nan, math.nan], [True, True], False),  # nothing to compare
    ],
)
def test_what_counts_as_agreement(script: ModuleType, found: list[float], short: list[bool], agrees: bool) -> None:
    """The third order met a hidden trade, so that its cost may differ."""
    played = {
        "played": [2.0, 3.0, 4.0],
        "found": [*found, 5.0],
        "hidden": [False, False, True],
        "short": [*short, False],
    }
    assert script.Check("100 shares", polars.DataFrame(played)).agrees == agrees


@pytest.mark.real_data
@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(
    ("name", "hours", "least"), [("amzn", "11:00-11:20", 30), ("bac", "11:00-11:10", 35), ("btc", None, 40)]
)
def test_recomputed_costs_agree_with_the_backtest(
    script: ModuleType, name: str, hours: str | None, least: int, tmp_path: Path
) -> None:
    """AMZN with events, a day of the tape, and bitcoin on the evening before midnight."""
    (sample,) = (one for one in script.SAMPLES if one.name == name)
    ((venue, paths),) = sample.files.items()
    small = dataclasses.replace(sample, files={venue: paths[:1]}, orders=(40,), depth=sample.depth and 50, days=1)
    if not (SHARED_DATA / paths[0]).is_file():
        pytest.skip(f"no {SHARED_DATA / paths[0]}")
    small.load(SHARED_DATA, tmp_path / "books")
    check = script.Check.of(small, small.quantities[0], tmp_path / "books", tmp_path / "kept", hours=hours)
    assert check.played.height >= least
    assert check.compared.height >= least
    assert check.gap <= script.TOLERANCE
    assert check.agrees
    assert check.compared["played"].min() > 0
