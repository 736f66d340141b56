"""Orders on real books, recomputed from the imported tables: AMZN with events, nine venues of BAC, and bitcoin."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checkout import SHARED_DATA
from comparison import Conditions, disagreements, oracle_market, played, recorded
from instruments import instrument_of
from oracle import Charge
from riskroute.market import ReadingOptions, import_files

pytestmark = pytest.mark.real_data


def real(name: str) -> Path:
    path = SHARED_DATA / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


def tables_of(folder: Path, kind: str, units: int) -> dict[str, pl.DataFrame]:
    """Imported tables by venue, in the order of their names, with sizes as multiples of the smallest."""
    sizes = pl.selectors.matches("_sz_|^size$")
    return {
        path.name.split("_")[0]: pl.read_parquet(path).with_columns((sizes * units).round())
        for path in sorted(folder.glob(f"*.{kind}.parquet"))
    }


def compared(
    folder: Path, conditions: Conditions, zone: str, fee: tuple[Charge, Charge], units: int = 1
) -> tuple[Any, list[str]]:
    """Play `sweep` and `clairvoyant` on an import; returns its tables, and what the oracle finds wrong."""
    books, events = (tables_of(folder, kind, units) for kind in ("snapshots", "events"))
    fees = dict.fromkeys(books, fee)
    unit = instrument_of(unit=1 / Decimal(units))
    routers = ("sweep", "clairvoyant")
    tables = played(folder, fees, conditions, kept=folder / "kept", routers=routers, instrument=unit)
    expected = oracle_market(books, fees, events or None, conditions)
    return tables, disagreements(tables, expected, conditions, zone, unit)


@pytest.fixture(scope="module")
def amazon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = real("lobster/LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
    return recorded({"": [path]}, tmp_path_factory.mktemp("amazon") / "books")


@pytest.mark.parametrize("horizon", [0.0, 20.0])
def test_amazon(horizon: float, amazon: Path) -> None:
    """Hidden shares trade all the time, and an order of 5,000 needs more than the five levels hold."""
    conditions = Conditions("reg-nms", 1.0, horizon, (50, 500, 5000), "11:00-12:00", orders=36)
    tables, wrong = compared(amazon, conditions, "America/New_York", (Charge(0.003), Charge(-0.002)))
    assert wrong == []
    assert tables.orders.filter(pl.col("router") == "sweep").height == 36
    assert tables.orders["estimated"].max() > 0


@pytest.mark.parametrize("symbol", ["bac", "ibm"])
def test_a_day_of_quotes(symbol: str, tmp_path: Path) -> None:
    """Best prices alone, at venues that go stale after five seconds."""
    recorded({"": [real(f"quotes/{symbol}/20131007_quote.zip")]}, tmp_path / "books")
    conditions = Conditions("reg-nms", 1.0, 0.0, (500, 50_000), "10:00-11:00", orders=40)
    tables, wrong = compared(tmp_path / "books", conditions, "America/New_York", (Charge(0.003), Charge(-0.002)))
    assert wrong == []
    assert tables.orders["estimated"].max() > 0


def test_bitcoin_at_two_venues(tmp_path: Path) -> None:
    """The spot's bid is forty dollars above the perpetual's ask, so that taking coins is better than the mid."""
    for name in ("spot", "usdm"):
        # the spot's file ends seconds after midnight
        options = ReadingOptions(("BTCUSDT",), venue=name.upper(), date=dt.date(2024, 8, 8))
        import_files([real(f"binance/{name}_btcusdt_20240808.gz")], tmp_path / "books", options)
    for path in (tmp_path / "books").glob("*2024-08-09*"):  # a second of the next day: too short for orders
        path.unlink()
    conditions = Conditions("none", 50.0, 0.0, (500_000,), None, orders=24)
    for fee in (Charge(), Charge(bps=10.0)):
        tables, wrong = compared(tmp_path / "books", conditions, "UTC", (fee, fee), units=100_000)
        assert wrong == []
    mine = tables.orders.filter(pl.col("router") == "sweep")
    assert mine.height == 24
    value = mine["mid"] * mine["quantity"]
    assert -3 < (1e4 * (mine["cost"] - mine["fees"]) / value).mean() < -1  # bps; half of forty dollars is 3
    assert (1e4 * mine["fees"] / value).to_list() == pytest.approx(
        [10.0] * 24, rel=0.002
    )  # prices are within 20 bps of the mid
