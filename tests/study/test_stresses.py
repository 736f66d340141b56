"""Harder worlds change what they should and nothing else, and the yardstick finds what it must find."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest

from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.candidates import Candidate
from riskroute.study.config import BacktestConfig, StressConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import play_routers
from riskroute.study.stresses import placebo_table, run_placebos, run_stresses, stress_configs, stress_table
from small_days import HERE

Worlds = Mapping[str, BacktestResult]
CONFIG = BacktestConfig(orders=24, quantities=(300, 2500), block_minutes=2, routers=("sweep", "dark-first+sweep"))
LARGE = 2500


@pytest.fixture(scope="module")
def usual(dark_days: list[MarketDay]) -> BacktestResult:
    return run_backtest("dark", dark_days, CONFIG, backend=HERE)


@pytest.fixture(scope="module")
def worlds(usual: BacktestResult) -> Worlds:
    return run_stresses(usual, backend=HERE)


def costs(found: BacktestResult, router: str = "sweep") -> pl.DataFrame:
    return found.tables.orders.filter(pl.col("router") == router).sort("day", "number")


def test_the_usual_world_is_the_one_that_was_played(usual: BacktestResult, worlds: Worlds) -> None:
    assert costs(worlds["baseline"])["cost"].equals(costs(usual)["cost"])
    assert len(worlds) == 12
    table = stress_table(dict(worlds))
    assert [row[:2] for row in table.rows[:2]] == [["baseline", "300 shares"], ["baseline", "2,500 shares"]]
    assert [len(table.rows), len(stress_configs(CONFIG, pools=False))] == [2 * 12, 9]
    assert "pessimistic queue positions" in stress_configs(dataclasses.replace(CONFIG, horizon=9.0), pools=False)


def test_without_latency_orders_cost_what_is_displayed_and_later_what_is_left(
    worlds: Worlds,
) -> None:
    at_once, late = (costs(worlds[f"latency {ms} ms"]) for ms in (0, 100))
    better = (at_once["foreseen"] - at_once["cost"]).to_numpy()
    assert better.min() > -1e-9
    assert (better < 1e-9).mean() > 0.9  # now and then it meets hidden shares
    assert at_once["foreseen"].equals(late["foreseen"])
    gap = (late["cost"] - at_once["cost"]).to_numpy()
    assert (np.abs(gap) > 1e-9).mean() > 0.2
    assert (at_once["estimated"] == 0).all()


def test_pools_with_half_as_much_fill_less(worlds: Worlds) -> None:
    half, usual = (
        worlds[name].comparisons[LARGE].routers["dark-first+sweep"]
        for name in ("half the liquidity in pools", "baseline")
    )
    assert 0 < half.dark_share < 0.9 * usual.dark_share
    assert half.cost_bps > usual.cost_bps
    assert costs(worlds["half the liquidity in pools"])["cost"].equals(costs(worlds["baseline"])["cost"])


def test_fees_move_the_cost_of_the_sweep_by_as_much(worlds: Worlds) -> None:
    """The levels hardly differ in price, so that fees in bps of it leave their order as it is."""
    usual = costs(worlds["baseline"])
    for name, bps in (("taker fees +0.2 bps", 0.2), ("taker fees -0.2 bps", -0.2)):
        more = costs(worlds[name])
        value = usual["mid"] * usual["quantity"] + usual["sign"] * (usual["cost"] - usual["fees"])  # traded
        assert (more["cost"] - usual["cost"] - bps / 1e4 * value).abs().to_numpy().max() < 1e-9


def test_impact_adds_what_the_column_says(worlds: Worlds) -> None:
    usual = worlds["baseline"]
    judged = usual.tables.orders.filter(pl.col("judged") & (pl.col("quantity") == LARGE))
    before = usual.comparisons[LARGE].routers
    for times in (0.5, 1.0):
        for name, one in worlds[f"market impact x {times:g}"].comparisons[LARGE].routers.items():
            mine = judged.filter(pl.col("router") == name)
            added = (1e4 * times * mine["impact"] / (mine["quantity"] * mine["mid"])).to_numpy().mean()
            assert added > 0
            assert one.cost_bps == pytest.approx(before[name].cost_bps + added, abs=1e-9)
            assert one.objective_bps == pytest.approx(before[name].objective_bps + added, abs=1e-9)


def test_leaks_adverse_selection_and_fades_cost_money(worlds: Worlds) -> None:
    usual = worlds["baseline"]
    for name, router in (
        ("30 % fade, probability 1/2 per venue", "sweep"),
        ("pools leak five times as often", "dark-first+sweep"),
    ):
        gap = (costs(worlds[name], router)["cost"] - costs(usual, router)["cost"]).to_numpy()
        assert gap.mean() > 0, name
        assert (gap >= -1e-9).mean() > 0.9, name
    assert costs(worlds["pools leak five times as often"])["cost"].equals(costs(usual)["cost"])
    filled = [
        worlds[name].tables.fills.filter(pl.col("kind") == "dark")
        for name in ("baseline", "twice the adverse selection")
    ]
    assert not filled[0].equals(filled[1])


def test_queues_without_luck_fill_less(dark_days: list[MarketDay]) -> None:
    posted = Candidate("post", "static+sweep", {"post": 1.0})
    shares = []
    for pessimistic in (False, True):
        config = dataclasses.replace(CONFIG, horizon=30.0, stress=StressConfig(pessimistic_queues=pessimistic))
        fills = play_routers([posted], dark_days, config, backend=HERE).fills
        shares.append(int(fills.filter(pl.col("kind") == "limit")["quantity"].sum()))
    assert 0 < shares[1] < shares[0]


def test_the_yardstick_finds_what_it_must_find(dark_days: list[MarketDay]) -> None:
    """With 400 orders a day it did for six other seeds; with 200, lagged books were unclear for half of them."""
    config = BacktestConfig(orders=400, quantities=(300,), block_minutes=1)
    found = run_placebos(dark_days, config, backend=HERE)
    assert [(one.expected, one.holds) for one in found] == [
        ("above 0", True), ("above 0", True), ("below 0", True), ("0", True),
    ]  # fmt: skip
    table = placebo_table(found).plain()
    assert "NO" not in table.split()
    few = run_placebos(dark_days, BacktestConfig(orders=6, block_minutes=1), backend=HERE)
    assert few[0].answer == "too few orders to tell"
    assert dataclasses.replace(few[2], expected="above 0", holds=False).answer in ("NO", "too few orders to tell")
    assert len(run_placebos([dataclasses.replace(dark_days[0], pools=())], BacktestConfig(orders=4), backend=HERE)) == 3
