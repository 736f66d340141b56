"""What the page shows beside the answer: costs by hour and venue, learning, examples and harder worlds, recomputed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from naive_costs import recomputed_cost
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.case import StudyCase, _learning_curve, _stress_savings
from riskroute.study.examples import _WHY, OrderExample, order_examples
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, day_to_play, play_routers
from riskroute.study.result import StudyResult
from riskroute.study.stresses import stress_configs
from small_days import HERE
from small_runs import CONFIG, WORLDS, few_worlds, study_of


@pytest.fixture(scope="module")
def case(study_result: StudyResult) -> StudyCase:
    return study_result.cases[0]


@pytest.fixture(scope="module")
def cache(study_folder: Path, case: StudyCase) -> PlayCache:
    return PlayCache(study_folder / "played")


@pytest.fixture(scope="module")
def backtest(dark_days: list[MarketDay], cache: PlayCache) -> BacktestResult:
    """What the study played, from the cache."""
    return run_backtest("dark", dark_days, CONFIG.backtest(2500, 10.0), backend=HERE, cache=cache)


@pytest.fixture(scope="module")
def bps(backtest: BacktestResult) -> pl.DataFrame:
    """Orders with their costs in basis points from their fills alone."""
    tables = backtest.tables
    return tables.orders.join(
        recomputed_cost(tables.orders, tables.fills), on=["router", "seed", "symbol", "day", "number"]
    ).sort("symbol", "day", "number")


def costs_of(bps: pl.DataFrame, router: str, *, judged: bool | None = None) -> pl.DataFrame:
    mine = bps.filter(pl.col("router") == router)
    return mine if judged is None else mine.filter(pl.col("judged") == judged)


def test_costs_by_hour_divide_the_judged_orders(case: StudyCase, bps: pl.DataFrame) -> None:
    zone = ZoneInfo("America/New_York")
    assert {one.router for one in case.hours} == {case.chosen, case.comparison.bar}
    for name in (case.chosen, case.comparison.bar):
        mine = costs_of(bps, name, judged=True)
        hours = [dt.datetime.fromtimestamp(time / 1e9, zone).hour for time in mine["time"]]
        for one in (one for one in case.hours if one.router == name):
            some = mine["cost_bps"].to_numpy()[np.array(hours) == one.hour]
            assert one.orders == len(some)
            assert one.cost_bps.mean == pytest.approx(some.mean())
            assert one.cost_bps.low is not None
            assert one.cost_bps.high is not None
            assert one.cost_bps.low < one.cost_bps.mean < one.cost_bps.high
        assert sum(one.orders for one in case.hours if one.router == name) == case.comparison.orders


def test_venues_hold_every_judged_share_once(case: StudyCase, backtest: BacktestResult) -> None:
    assert list(dict.fromkeys(one.router for one in case.venues)) == [case.chosen, case.comparison.bar]
    judged = backtest.tables.orders.filter(pl.col("judged")).select("router", "seed", "symbol", "day", "number")
    fills = backtest.tables.fills.join(judged, on=judged.columns, how="semi")
    for one in case.venues:
        mine = fills.filter(
            (pl.col("router") == one.router) & (pl.col("place") == one.place) & (pl.col("kind") == one.kind)
        )
        assert one.filled == mine["quantity"].sum()
    for name in (case.chosen, case.comparison.bar):
        assert sum(one.filled for one in case.venues if one.router == name) == 2500 * case.comparison.orders


def test_the_learning_curve_is_the_running_mean_of_paired_costs(case: StudyCase, bps: pl.DataFrame) -> None:
    curve = case.learning_curve
    assert curve is not None
    assert (curve.router, curve.against) == (case.chosen, case.comparison.bar)
    mine, rule = (costs_of(bps, name) for name in (curve.router, curve.against))
    gaps = mine["cost_bps"].to_numpy() - rule["cost_bps"].to_numpy()
    spent = (1e4 * mine["exploration"] / (mine["quantity"] * mine["mid"])).to_numpy()
    begin = 0
    for point in curve.points:
        assert point.difference_bps == pytest.approx(gaps[begin : point.orders].mean(), abs=1e-8)
        assert point.so_far_bps == pytest.approx(gaps[: point.orders].mean(), abs=1e-8)
        assert point.exploration_bps == pytest.approx(spent[begin : point.orders].mean(), abs=1e-8)
        assert point.exploration_so_far_bps == pytest.approx(spent[: point.orders].mean(), abs=1e-8)
        assert point.test == (point.orders > 12)
        begin = point.orders
    assert begin == 24
    assert case.saving is not None
    tested = [point.difference_bps for point in curve.points if point.test]  # points of one order each
    assert np.mean(tested) == pytest.approx(-case.saving.bps.mean)


def test_points_of_long_curves_are_means_that_never_mix_training_and_test_days(bps: pl.DataFrame) -> None:
    second = 12 * (pl.col("day") == pl.col("day").max()).cast(pl.Int64)
    days = [bps.with_columns(number=pl.col("number") + second, day=pl.lit(f"2019-04-0{k}")) for k in (1, 2, 3)]
    orders = pl.concat(days).with_columns(judged=pl.col("day") == "2019-04-03")
    curve = _learning_curve(orders, "sweep", "static")
    assert len(curve.points) == 24
    trained = [point.orders for point in curve.points if not point.test]
    assert (trained[-1], curve.points[-1].orders) == (48, 72)
    assert {point.exploration_bps for point in curve.points} == {None}  # the sweep tries nothing out
    twice = _learning_curve(pl.concat([orders, orders.with_columns(symbol=pl.lit("TWIN"))]), "sweep", "static")
    assert twice.points[-1].so_far_bps == pytest.approx(curve.points[-1].so_far_bps)
    assert twice.points[-1].orders == 72  # of a symbol


def order_of(example: OrderExample, bps: pl.DataFrame, router: str) -> dict[str, Any]:
    zone = ZoneInfo("America/New_York")
    found = [
        row
        for row in costs_of(bps, router, judged=True).to_dicts()
        if dt.datetime.fromtimestamp(row["time"] // 10**9, zone).strftime("%Y-%m-%d %H:%M:%S")
        == f"{example.day} {example.time}"
    ]
    (row,) = found
    return row


def test_examples_are_the_median_the_best_and_the_worst(case: StudyCase, bps: pl.DataFrame) -> None:
    mine, rule = (costs_of(bps, name, judged=True)["cost_bps"] for name in (case.chosen, case.comparison.bar))
    savings = (rule - mine).to_numpy()
    shown = {one.why: one for one in case.examples}
    assert list(shown) == [why for why in _WHY if why in shown]
    assert shown[_WHY[1]].saving_bps == pytest.approx(savings.max())
    assert shown[_WHY[2]].saving_bps == pytest.approx(savings.min())
    middle = shown[_WHY[0]].saving_bps
    assert middle is not None
    rest = [value for value in savings if value not in (savings.max(), savings.min())]
    assert abs(middle - np.median(savings)) == pytest.approx(min(abs(rest - np.median(savings))))
    assert len({(one.day, one.time) for one in case.examples}) == len(case.examples)


def test_examples_show_the_books_of_their_moment_and_every_share(
    case: StudyCase, bps: pl.DataFrame, dark_days: list[MarketDay], backtest: BacktestResult
) -> None:
    for one in case.examples:
        row = order_of(one, bps, case.chosen)
        assert one.mid == row["mid"]
        assert one.cost_bps == pytest.approx(row["cost_bps"])
        assert one.against_bps == pytest.approx(order_of(one, bps, case.comparison.bar)["cost_bps"])
        assert sum(fill.quantity for fill in one.fills) == one.quantity == 2500
        assert sum(child.filled for child in one.children) == 2500
        assert all(child.filled <= child.sent for child in one.children)
        assert [child.sent_after for child in one.children] == sorted(child.sent_after for child in one.children)
        (day,) = (day for day in dark_days if str(day.date) == one.day)
        books = day_to_play(day, backtest.config).books
        now = books.as_of(row["time"])
        for side, prices, sizes, ahead in (("bid", now.bid_px, now.bid_sz, -1), ("ask", now.ask_px, now.ask_sz, 1)):
            levels = [level for level in one.levels if level.side == side]
            assert len({level.price for level in levels}) == 6
            assert levels == sorted(levels, key=lambda level: ahead * level.price)
            best = {level.venue: level for level in reversed(levels)}
            for venue, name in enumerate(books.venues):
                if name in best:
                    assert (best[name].price, best[name].quantity) == (prices[venue, 0], sizes[venue, 0])
            edge = levels[-1].price
            seen = float(sizes[ahead * prices <= ahead * edge].sum())
            assert sum(level.quantity for level in levels) == seen


def test_an_order_that_only_swept_is_shown_where_there_is_one(
    backtest: BacktestResult, dark_days: list[MarketDay]
) -> None:
    tables, config = backtest.tables, backtest.config
    alone = order_examples(tables, dark_days, config, "sweep", None)
    assert [one.why for one in alone] == list(_WHY[:3])  # all of its orders only sweep
    assert {one.saving_bps for one in alone} == {None}
    costs = tables.orders.filter(pl.col("judged") & (pl.col("router") == "sweep")).select(
        1e4 * pl.col("cost") / (pl.col("quantity") * pl.col("mid"))
    )
    assert alone[1].cost_bps == pytest.approx(costs.min().item())
    assert alone[2].cost_bps == pytest.approx(costs.max().item())
    mine = tables.orders.filter(pl.col("judged") & (pl.col("router") == "contextual"))
    number = mine["number"].sort()[5]
    marked = tables.children.filter(
        (pl.col("router") != "contextual") | (pl.col("number") != number) | pl.col("kind").is_in(["take", "sweep"])
    )
    shown = order_examples(dataclasses.replace(tables, children=marked), dark_days, config, "contextual", "sweep")
    assert [one.why for one in shown] == list(_WHY)
    assert {child.kind for child in shown[3].children} <= {"take", "sweep"}


def test_harder_worlds_begin_with_the_usual_one(case: StudyCase) -> None:
    table = case.stresses
    assert table is not None
    assert case.saving is not None
    assert (table.router, table.against) == (case.chosen, case.comparison.bar)
    assert tuple(one.world for one in table.worlds) == WORLDS
    assert table.orders == case.comparison.orders
    usual = table.worlds[0]
    assert usual.saving_bps == case.saving.bps  # with the interval of the answer
    assert usual.cost_bps == pytest.approx(case.comparison.routers[case.chosen].cost_bps)
    assert case.surface is not None
    half = next(one for one in case.surface.points if (one.presence, one.adverse) == (0.5, 1.0))
    assert table.worlds[2].saving_bps == half.saving_bps  # as many orders were played
    for one in table.worlds:
        assert one.saving_bps.mean == pytest.approx(one.against_bps - one.cost_bps)


def test_impact_is_charged_to_the_shares_taken(
    case: StudyCase, backtest: BacktestResult, dark_days: list[MarketDay], cache: PlayCache
) -> None:
    assert case.stresses is not None
    worlds = stress_configs(backtest.config, pools=True)
    candidates = [one for one in backtest.candidates if one.label in (case.chosen, case.comparison.bar)]
    played = play_routers(candidates, dark_days, worlds["market impact x 1"], backend=HERE, cache=cache).orders
    mine = played.filter(pl.col("judged") & (pl.col("router") == case.chosen))
    pressed = (1e4 * (mine["cost"] + mine["impact"]) / (mine["quantity"] * mine["mid"])).mean()
    assert case.stresses.worlds[3].cost_bps == pytest.approx(pressed)
    assert case.stresses.worlds[3].cost_bps > case.stresses.worlds[0].cost_bps


def test_worlds_with_impact_are_left_out_where_nothing_is_known_of_trades(
    monkeypatch: pytest.MonkeyPatch, backtest: BacktestResult, dark_days: list[MarketDay]
) -> None:

    tables = dataclasses.replace(backtest.tables, orders=backtest.tables.orders.with_columns(impact=pl.lit(math.nan)))
    monkeypatch.setattr("riskroute.study.case.play_routers", lambda *words, **more: tables)
    sweep, static = (next(one for one in backtest.candidates if one.label == name) for name in ("sweep", "static"))
    found = _stress_savings((sweep, static), dark_days, backtest.config)
    assert len(found.worlds) == len(stress_configs(backtest.config, pools=True)) - 2
    assert not [one.world for one in found.worlds if "impact" in one.world]


def test_progress_counts_the_plays_of_harder_worlds(
    case: StudyCase, dark_days: list[MarketDay], cache: PlayCache
) -> None:
    told: list[tuple[int, int]] = []
    with few_worlds():
        study, kept = study_of(CONFIG), cache.folder.parent
        again = study.play(
            dark_days, kept=kept, backend=HERE, progress=lambda what, done, total: told.append((done, total))
        )
        most = study.max_plays(dark_days)
    assert again.cases == (case,)  # all is in the cache
    assert told == [(done + 1, most) for done in range(most)]
