"""A backtest whose tables contradict themselves is an error, whatever was wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from riskroute import InvariantError, RiskrouteError
from riskroute.market.clock import SECOND
from riskroute.study import backtest, play
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.config import BacktestConfig
from riskroute.study.day_tables import DayTables
from riskroute.study.markets import MarketDay
from riskroute.study.play import _check_tables, check_played_bound
from small_days import HERE

ANY = (0, 2**62)


@pytest.fixture(scope="module")
def result(dark_days: list[MarketDay]) -> BacktestResult:
    config = BacktestConfig(quantities=(500, 90_000), orders=12, horizon=5.0, routers=("sweep", "spray"))
    return run_backtest("dark", dark_days, config, backend=HERE)


def hours(tables: DayTables, span: tuple[int, int] = ANY) -> dict[tuple[str, str], tuple[int, int]]:
    return {(day[0], day[1]): span for day in tables.orders.select("symbol", "day").unique().rows()}


def first(column: str, change: pl.Expr) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Change a column in the first row that is not the clairvoyant's."""

    def changed(table: pl.DataFrame) -> pl.DataFrame:
        row = table["router"].to_list().index("sweep")
        mine = pl.int_range(pl.len()) == row
        return table.with_columns(pl.when(mine).then(change).otherwise(pl.col(column)).alias(column))

    return changed


WRONG = {
    "a share is lost": ("fills", first("quantity", pl.col("quantity") - 1), r"fills add up to .* of .* units"),
    "money is lost": ("orders", first("cost", pl.col("cost") + 1.0), "fills cost .*, the order"),
    "fees are lost": ("orders", first("fees", pl.col("fees") + 1.0), "fills pay fees of .*, the order"),
    "an estimate is not counted": ("orders", first("estimated", pl.col("estimated") + 1), "fills estimate 0.* units"),
    "a price is negative": ("fills", first("price", -pl.col("price")), "fills cost|a fill has a price of -"),
    "a fill comes before its order": ("fills", first("time", pl.lit(1)), "is earlier than the order"),
    "a child has other fills": ("children", first("filled", pl.col("filled") + 1), "filled .* units, its fills"),
}


def test_tables_of_a_backtest_hold(result: BacktestResult) -> None:
    _check_tables(result.tables, hours(result.tables))


@pytest.mark.parametrize("what", WRONG)
def test_a_violation_is_an_error(what: str, result: BacktestResult) -> None:
    name, change, message = WRONG[what]
    changed: dict[str, Any] = {name: change(getattr(result.tables, name))}
    tables = dataclasses.replace(result.tables, **changed)
    with pytest.raises(InvariantError, match=message):
        _check_tables(tables, hours(tables))


def test_orders_outside_the_hours_are_an_error(result: BacktestResult) -> None:
    """An order that arrives in time and ends too late is outside too."""
    times = result.tables.orders["time"].to_numpy()
    begin, last = int(times.min()), int(times.max()) + 5 * SECOND
    _check_tables(result.tables, hours(result.tables, (begin, last)))
    for span in ((begin + 1, last), (begin, last - 1)):
        with pytest.raises(InvariantError, match="is outside the hours"):
            _check_tables(result.tables, hours(result.tables, span))


def test_an_order_that_beats_the_clairvoyant_is_an_error(result: BacktestResult) -> None:
    check_played_bound(result.tables.orders)
    cheaper = pl.when(pl.col("router") == "spray").then(pl.col("cost") - 1e6).otherwise(pl.col("cost"))
    message = r"by spray, seed 0: cost of .* bps is below the .* bps of the clairvoyant"
    with pytest.raises(InvariantError, match=message):
        check_played_bound(result.tables.orders.with_columns(cost=cheaper))


def test_every_backtest_is_checked(dark_days: list[MarketDay], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for one router gets the bound too."""
    checked: list[Any] = []
    monkeypatch.setattr(play, "_check_tables", lambda tables, *_: checked.append(tables))
    monkeypatch.setattr(backtest, "check_played_bound", checked.append)
    config = BacktestConfig(orders=6, routers=("spray",))
    found = run_backtest("dark", dark_days, config, backend=HERE)
    assert len(checked) == len(found.candidates) + 1
    assert checked[-1] is found.tables.orders
    assert "clairvoyant" in found.comparison.routers
    assert issubclass(InvariantError, RiskrouteError)
