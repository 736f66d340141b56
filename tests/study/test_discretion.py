"""Routers with parameters in a backtest: a sweep whose price limits leave some room."""

from __future__ import annotations

import polars
import pytest

import riskroute as rr
from riskroute.core.instrument import Instrument
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.routing.fees import VenueFees
from riskroute.study.backtest import run_backtest
from riskroute.study.candidates import Candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay


@pytest.fixture(scope="module")
def day(half_hour: rr.market.RecordingStore, tmp_path_factory: pytest.TempPathFactory) -> MarketDay:
    recordings = half_hour.of_symbol("QVEX")
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=5)
    folder = PreparedDayBooks(books).write(tmp_path_factory.mktemp("discretion") / "day")
    fees = VenueFees.per_quantity((0.003, -0.001, 0.002), (-0.002, 0.002, -0.001))
    return MarketDay(Instrument("QVEX"), recordings[0].date, folder, fees.plain())


def test_discretion_saves_children_from_the_latency(day: MarketDay) -> None:
    """With half a second on the way, a limit of what was seen loses shares that one with room still gets."""
    config = BacktestConfig(quantities=(300,), orders=60, latency_ms=500.0)
    candidates = [
        Candidate("sweep", "sweep"),
        Candidate("sweep, 50 ticks", "sweep", {"discretion": 50}),
        Candidate("sweep, 0 ticks", "sweep", {"discretion": 0}),
    ]
    found = run_backtest("half an hour", [day], config, backend=rr.Backend("local", 1), candidates=candidates)
    taken = found.tables.children.filter(polars.col("kind") == "take")
    filled = dict(taken.group_by("router").agg(polars.col("filled").sum() / polars.col("sent").sum()).iter_rows())
    assert filled["sweep"] == filled["sweep, 0 ticks"] < filled["sweep, 50 ticks"]
    costs = {name: one.cost_bps for name, one in found.comparison.routers.items()}
    assert costs["sweep"] == costs["sweep, 0 ticks"] != costs["sweep, 50 ticks"]
    assert found.to_json()["config"]["parameters"]["sweep, 50 ticks"] == {"discretion": 50}
