"""Costs against the far touch, VWAP and TWAP: the same money between two routers, other levels and tails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_costs import a_child, a_fill, an_order, as_tables, mean, naive_benchmarks, naive_router, random_rows
from riskroute.core.errors import InputError
from riskroute.core.records import to_plain
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.config import BacktestConfig, StudyConfig
from riskroute.study.costs import benchmark_costs, benchmark_costs_table, order_benchmark_costs
from riskroute.study.day_tables import PRICE_BENCHMARKS
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, PlayTask
from small_days import HERE, handmade_day

KEY = ["router", "seed", "symbol", "day", "number"]


@given(st.integers(0, 10_000), st.integers(1, 15))
@settings(max_examples=15)
def test_a_naive_twin_finds_the_same(seed: int, count: int) -> None:
    orders, children, fills = random_rows(seed, count)
    tables = as_tables(orders, children, fills)
    for found in benchmark_costs(tables[0], tables[2]):
        naive = naive_router(found.router, orders, children, fills)
        spreads = {name: naive[name] for name in ("effective_spread_bps", "realised_spread_bps")}
        expected = {"router": found.router} | naive_benchmarks(found.router, orders, fills) | spreads
        assert to_plain(found) == pytest.approx(expected, abs=1e-7)


def test_by_hand() -> None:
    """A sale of 1,000 for 99.98 on average, at a mid of 100.00 and a bid of 99.99; the market falls, by 5 cents."""
    order = an_order(sign=-1, cost=20.0, horizon=60.0, vwap=99.95, twap=99.96, traded=0.0)
    child = a_child(order, 0, "sweep", "XNAS", 1000, filled=1000)
    fill = a_fill(child, 0.0, 1000, 99.98, mid=99.99, mid_10=99.95)
    (found,) = benchmark_costs(*as_tables([order], [child], [fill])[::2])
    costs = [found.arrival_bps, found.touch_bps, found.vwap_bps, found.twap_bps]
    assert costs == pytest.approx([2.0, 1.0, -3.0, -2.0])
    assert found.effective_spread_bps == pytest.approx(2.0)  # a cent below the mid, twice
    assert found.realised_spread_bps == pytest.approx(-6.0)  # sold three cents above the later mid
    assert found.untraded_share == 1.0
    table = benchmark_costs_table([found])
    assert table.header == ["router", *PRICE_BENCHMARKS, "effective spread", "realised spread, 10 s"]
    assert table.rows == [["sweep", "2.000", "1.000", "-3.000", "-2.000", "2.000", "-6.000"]]


def test_a_vwap_that_one_day_lacks_is_not_stated() -> None:
    nothing = float("nan")
    orders = [an_order(), an_order(number=1, vwap=nothing, traded=nothing)]
    (found,) = benchmark_costs(*as_tables(orders, [], [])[::2])
    assert found.vwap_bps is found.untraded_share is found.effective_spread_bps is None
    assert found.twap_bps == 0.0
    assert benchmark_costs_table([found]).rows[0][3] == "-"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> PlayCache:
    return PlayCache(tmp_path_factory.mktemp("benchmarks") / "played")


def result(days: list[MarketDay], cache: PlayCache, benchmark: str, horizon: float = 20.0) -> BacktestResult:
    routers = ("spray", "dark-first+post+sweep")
    config = BacktestConfig(
        quantities=(500,), orders=20, horizon=horizon, routers=routers, block_minutes=2, benchmark=benchmark
    )
    return run_backtest("dark", days, config, backend=HERE, cache=cache)


@pytest.fixture(scope="module")
def results(dark_days: list[MarketDay], cache: PlayCache) -> dict[str, BacktestResult]:
    return {name: result(dark_days, cache, name) for name in PRICE_BENCHMARKS}


def test_the_benchmark_is_no_other_play(results: dict[str, BacktestResult]) -> None:
    """Only the first of the backtests played anything."""
    configs = [one.config for one in results.values()]
    tasks = [PlayTask(results["arrival"].candidates[0], results["arrival"].days, 1, config) for config in configs]
    assert len({task.identity for task in tasks}) == 1


def test_differences_are_the_same_and_levels_are_not(results: dict[str, BacktestResult]) -> None:
    arrival = results["arrival"].comparison
    for name, one in results.items():
        found = one.comparison
        assert found.bar == arrival.bar
        assert found.headroom_bps == pytest.approx(arrival.headroom_bps, abs=1e-9)
        for router, costs in found.routers.items():
            before = arrival.routers[router]
            moved = costs.cost_bps - before.cost_bps
            assert costs.objective_bps - costs.cost_bps == pytest.approx(
                before.objective_bps - before.cost_bps, abs=1e-9
            )
            assert moved == pytest.approx(found.routers["sweep"].cost_bps - arrival.routers["sweep"].cost_bps, abs=1e-9)
            assert (abs(moved) > 1e-3) == (name != "arrival")
            if costs.paired is not None and before.paired is not None:
                assert costs.paired.difference_bps == pytest.approx(before.paired.difference_bps, abs=1e-9)
                assert costs.paired.low == pytest.approx(before.paired.low, abs=1e-9)
        if name != "arrival":
            assert found.routers["sweep"].es95_bps != pytest.approx(arrival.routers["sweep"].es95_bps, abs=1e-3)


def test_the_headline_is_the_column_of_its_benchmark(results: dict[str, BacktestResult]) -> None:
    for name, one in results.items():
        judged = one.tables.orders.filter("judged")
        table = {costs.router: to_plain(costs) for costs in benchmark_costs(judged, one.tables.fills)}
        for router, costs in one.comparison.routers.items():
            assert table[router][f"{name}_bps"] == pytest.approx(costs.cost_bps, abs=1e-9)
        assert one.tables.orders["benchmark"].is_not_nan().all()


def test_prices_lie_where_they_must(results: dict[str, BacktestResult], dark_days: list[MarketDay]) -> None:
    """TWAP is between the lowest and the highest mid of the interval, and VWAP near it; the touch is the far one."""
    orders = results["touch"].tables.orders.filter(pl.col("router") == "sweep")
    far = [row["ask"] if row["sign"] > 0 else row["bid"] for row in orders.iter_rows(named=True)]
    assert orders["benchmark"].to_list() == far
    books = dark_days[0].load().books
    for row in orders.filter(pl.col("day") == str(dark_days[0].date)).iter_rows(named=True):
        mids = books.mids(np.arange(row["time"], row["time"] + 20 * 10**9, 10**6))
        assert mids.min() - 1e-9 <= row["twap"] <= mids.max() + 1e-9
        assert row["twap"] == pytest.approx(mids.mean(), rel=1e-5)
        assert row["vwap"] == pytest.approx(row["twap"], rel=1e-3)
        assert row["traded"] >= 0


def test_without_a_horizon_all_averages_are_the_arrival_mid(dark_days: list[MarketDay], cache: PlayCache) -> None:
    for name in ("vwap", "twap"):
        one = result(dark_days, cache, name, horizon=0.0)
        assert one.tables.orders["vwap"].to_list() == one.tables.orders["mid"].to_list()
        (sweep,) = (costs for costs in benchmark_costs(one.tables.orders, one.tables.fills) if costs.router == "sweep")
        assert sweep.vwap_bps == sweep.twap_bps == sweep.arrival_bps
        assert sweep.untraded_share == 0.0


def test_orders_add_up_to_their_router(results: dict[str, BacktestResult]) -> None:
    tables = results["vwap"].tables
    each = order_benchmark_costs(tables.orders, tables.fills)
    assert each.height == tables.orders.height
    for costs in benchmark_costs(tables.orders, tables.fills):
        mine = each.filter(pl.col("router") == costs.router)
        assert mine["twap_bps"].mean() == pytest.approx(costs.twap_bps)
        spreads = mine["effective_spread_bps"].to_list()  # all orders have the same size
        assert mean((one, 1.0) for one in spreads) == pytest.approx(costs.effective_spread_bps, abs=1e-6)


def test_a_vwap_needs_trades(tmp_path: Path) -> None:
    day = handmade_day(tmp_path, {"XNAS": (1, 300)})
    config = BacktestConfig(quantities=(100,), orders=4, routers=("sweep",), horizon=10.0, benchmark="vwap")
    with pytest.raises(
        InputError, match="benchmark must be arrival, touch or twap without public trades, was vwap; QVEX"
    ):
        run_backtest("handmade", [day], config, backend=HERE)
    stated = BacktestConfig(quantities=(100,), orders=4, routers=("sweep",), horizon=10.0, benchmark="twap")
    found = run_backtest("handmade", [day], stated, backend=HERE)
    assert {costs.vwap_bps for costs in benchmark_costs(found.tables.orders, found.tables.fills)} == {None}


@pytest.mark.parametrize("kind", [BacktestConfig, StudyConfig])
def test_other_benchmarks_are_refused(kind: type[BacktestConfig | StudyConfig]) -> None:
    with pytest.raises(InputError, match=r"benchmark must be one of arrival, touch, vwap, twap, was 'close'"):
        kind(benchmark="close")
