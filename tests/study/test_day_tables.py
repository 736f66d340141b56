"""Every share and every dollar of a backtest is in its tables."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from instruments import instrument_of
from naive_costs import recomputed_cost
from riskroute.core.errors import DataError
from riskroute.core.instrument import Instrument
from riskroute.market.clock import SECOND
from riskroute.market.queue_fills import QueueReplay
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.candidates import Candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.day_tables import CHILDREN, FILLS, ORDERS, DayTables, notional
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, _session, perform_plays, play_routers, play_tasks
from small_days import HERE

KEY = ["router", "seed", "symbol", "day", "number"]
ALL = ("primary", "nbbo", "spray", "raw-sweep", "static", "clairvoyant", "uniform")


@pytest.fixture(scope="module", params=[0.0, 20.0])
def result(request: pytest.FixtureRequest, dark_days: list[MarketDay]) -> BacktestResult:
    config = BacktestConfig(quantities=(300, 90_000), orders=24, horizon=request.param, routers=ALL, block_minutes=2)
    return run_backtest("dark", dark_days, config, backend=HERE)


def test_fills_of_every_order_sum_to_its_shares(result: BacktestResult) -> None:
    orders, fills = result.tables.orders, result.tables.fills
    sums = orders.join(fills.group_by(KEY).agg(filled=pl.col("quantity").sum()), on=KEY, how="left")
    assert sums.height == orders.height == len(result.candidates) * 48
    assert (sums["quantity"] == sums["filled"]).all()
    beyond = fills.filter("estimated").group_by(KEY).agg(beyond=pl.col("quantity").sum())
    counted = orders.join(beyond, on=KEY, how="left")
    assert (counted["estimated"] == counted["beyond"].fill_null(0)).all()
    assert counted["estimated"].sum() > 0


def test_children_are_what_their_fills_say(result: BacktestResult) -> None:
    children, fills = result.tables.children, result.tables.fills
    money = fills.group_by(*KEY, "child").agg(
        quantity=pl.col("quantity").sum(),
        paid=(pl.col("quantity") * pl.col("price")).sum(),
        fees=(pl.col("quantity") * pl.col("fee")).sum(),
        latest=pl.col("time").max(),
        soonest=pl.col("time").min(),
    )
    both = children.join(money, on=[*KEY, "child"], how="left")
    assert (both["filled"] == both["quantity"].fill_null(0)).all()
    assert (both["filled"] <= both["sent"]).all()
    some = both.filter(pl.col("filled") > 0)
    assert (some["filled"] * some["price"] - some["paid"]).abs().to_numpy().max() < 1e-6
    assert (some["fee"] - some["fees"]).abs().to_numpy().max() < 1e-9
    assert (some["last"] == some["latest"]).all()
    assert (some["posted"] <= some["soonest"]).all()
    assert (some["known"] >= some["latest"]).all()


def test_costs_are_those_of_the_fills(result: BacktestResult) -> None:
    orders, fills = result.tables.orders, result.tables.fills
    again = orders.join(recomputed_cost(orders, fills), on=KEY)
    bps = 1e4 * again["cost"] / (again["quantity"] * again["mid"])
    assert (bps - again["cost_bps"]).abs().to_numpy().max() < 1e-9
    fees = orders.join(fills.group_by(KEY).agg(paid=(pl.col("quantity") * pl.col("fee")).sum()), on=KEY)
    assert (fees["fees"] - fees["paid"]).abs().to_numpy().max() < 1e-9


def test_nothing_trades_before_it_could_arrive_or_long_after_the_horizon(result: BacktestResult) -> None:
    both = result.tables.fills.join(result.tables.orders.select(*KEY, "horizon", arrival="time"), on=KEY)
    waited = both.filter(pl.col("router") != "clairvoyant").with_columns(after=pl.col("time") - pl.col("arrival"))
    lit = waited.filter(pl.col("kind").is_in(["take", "sweep", "limit"]))
    assert lit["after"].to_numpy().min() >= SECOND // 1000
    late = waited.filter(pl.col("after") > pl.col("horizon") * SECOND + 1.1 * SECOND)  # nbbo looks again for a second
    assert late.height == 0


def test_all_routers_have_the_same_orders(result: BacktestResult) -> None:
    """Moments, sides, sizes, mids and blocks are not the router's: nobody is compared on other orders."""
    shared = ["time", "sign", "quantity", "horizon", "mid", "bid", "ask", "depth", "block", "judged", "end_mid"]
    first, *others = (one.sort(KEY) for _, one in result.tables.orders.group_by("router", maintain_order=True))
    for other in others:
        assert first.select(KEY[1:] + shared).equals(other.select(KEY[1:] + shared), null_equal=True)


def test_the_impact_is_that_of_the_block(dark_days: list[MarketDay], result: BacktestResult) -> None:
    """Shares taken, times the volatility of the block, times the root of taken over traded."""
    day = dark_days[0]
    mine = result.tables.orders.filter((pl.col("router") == "sweep") & (pl.col("day") == str(day.date)))
    kinds = pl.col("kind").is_in(["take", "sweep"])
    taken = dict(result.tables.fills.filter(kinds).group_by(KEY).agg(pl.col("quantity").sum()).select(
        pl.struct(pl.col(KEY)).map_elements(str, pl.String), "quantity").iter_rows())  # fmt: skip
    prepared, first = day.load(), _session(day.load().books, day.date)[0]
    assert isinstance(prepared.queue, QueueReplay)
    for row in mine.head(8).to_dicts():
        begin = first + row["block"] * 120 * SECOND
        mids = [float(prepared.books.mids(np.array([begin + k * SECOND]))[0]) for k in range(121)]
        moves = [b - a for a, b in itertools.pairwise(mids)]
        if any(np.isnan(moves)) or begin + 120 * SECOND > prepared.books.last:
            continue
        sigma = sum(move * move for move in moves) ** 0.5
        shares = taken[str({name: row[name] for name in KEY})]
        wanted = shares * sigma * (shares / prepared.queue.volume(begin, begin + 120 * SECOND)) ** 0.5
        assert row["impact"] == pytest.approx(wanted, rel=1e-9)


def test_tables_have_their_columns_and_survive_their_files(result: BacktestResult, tmp_path: Path) -> None:
    result.tables.write(tmp_path / "t")
    back = DayTables.read(tmp_path / "t")
    for name, schema in (("orders", ORDERS), ("children", CHILDREN), ("fills", FILLS)):
        frame = getattr(back, name)
        assert dict(frame.schema) == schema
        assert frame.equals(getattr(result.tables, name), null_equal=True)
    (tmp_path / "t" / "fills.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="must hold the tables of `riskroute backtest`") as said:
        DayTables.read(tmp_path / "t")
    assert "\n" not in str(said.value)
    with pytest.raises(DataError, match="must hold the tables"):
        DayTables.read(tmp_path / "nowhere")


def test_a_day_without_any_order_has_empty_tables(dark_days: list[MarketDay]) -> None:
    """Books that are all too old are nobody's market: every order is left out, of every router."""
    from riskroute.routers.rules import SweepRule
    from riskroute.simulation.play_day import play_day
    from riskroute.study.day_tables import day_tables
    from riskroute.study.play import day_to_play

    trading = day_to_play(dark_days[0], BacktestConfig(orders=5, seeds=1))
    played = play_day(SweepRule(), trading, stale_seconds=1e-9)
    assert played.skipped == 5
    key = {"router": "sweep", "seed": 0, "symbol": "LUMO", "day": "2019-03-04"}
    tables = day_tables(played, trading.books, key, queue=dark_days[0].load().queue, block_seconds=600.0)
    assert [tables.orders.height, tables.children.height, tables.fills.height] == [0, 0, 0]
    assert dict(tables.fills.schema) == FILLS


def test_orders_are_divided_among_seeds_which_share_time_blocks(dark_days: list[MarketDay]) -> None:
    """Seeds have arrival times and luck of their own; sizes and sides go on from seed to seed."""
    other = dataclasses.replace(dark_days[0], instrument=Instrument("OTHER"))
    config = BacktestConfig(orders=7, seeds=2, quantities=(100, 200), block_minutes=1)
    tables = play_routers([Candidate("a", "sweep")], [*dark_days, other], config, backend=HERE)
    counts = tables.orders.group_by("symbol", "seed").len().sort("symbol", "seed").rows()
    assert counts == [("LUMO", 0, 6), ("LUMO", 1, 8), ("OTHER", 0, 3), ("OTHER", 1, 4)]
    with_judged = tables.orders.group_by("symbol", "day", maintain_order=True).agg(pl.col("judged").sum()).rows()
    assert sorted(with_judged) == [("LUMO", "2019-03-04", 0), ("LUMO", "2019-03-05", 7), ("OTHER", "2019-03-04", 4)]
    mine = tables.orders.filter((pl.col("symbol") == "LUMO") & (pl.col("day") == "2019-03-05"))
    assert mine["quantity"].to_list() == [100, 200, 100, 200, 100, 200, 100]
    assert mine["sign"].to_list() == [1, 1, -1, -1, 1, 1, -1]
    assert mine["time"].n_unique() == 7
    begins = _session(dark_days[1].load().books, dark_days[1].date)[0]
    assert mine["block"].to_list() == [(time - begins) // (60 * SECOND) for time in mine["time"]]
    alone = play_routers([Candidate("a", "sweep")], dark_days, dataclasses.replace(config, seeds=1), backend=HERE)
    assert alone.orders["time"].n_unique() == alone.orders.height == 14


def test_tasks_that_take_long_are_begun_first_and_results_keep_their_places(
    dark_days: list[MarketDay], tmp_path: Path
) -> None:
    """The state of a router is kept with its tables; another symbol with the same books is another task."""
    config, cache = BacktestConfig(orders=2), PlayCache(tmp_path)
    names = ("sweep", "dark-first+sweep", "spray", "clairvoyant")
    tasks = play_tasks([Candidate(name, name) for name in names], dark_days[:1], config)
    begun: list[str] = []
    found = perform_plays(tasks, backend=HERE, cache=cache, finished=lambda task: begun.append(task.candidate.label))
    assert begun == ["clairvoyant", "dark-first+sweep", "sweep", "spray"]
    assert [one.orders["router"][0] for one in found] == list(names)
    assert [one.state["router"] for one in found if one.state is not None] == list(names)
    (tmp_path / tasks[0].identity / "state.json").write_text("{")
    assert cache.get(tasks[0]) is None
    twin = dataclasses.replace(tasks[1], days=(dataclasses.replace(dark_days[0], instrument=Instrument("TWIN")),))
    assert cache.has(tasks[1])
    assert not cache.has(twin)


@given(
    st.sampled_from(["1", "0.01", "0.00001", "1e-8", "0.25", "2.5", "100"]),
    st.integers(0, 10**9),
    st.sampled_from([1, 50]),
)
@example("0.00001", 5_000_000, 1)
@settings(max_examples=100, deadline=None)
def test_tables_become_natural_with_one_rounding(unit: str, count: int, multiplier: int) -> None:
    one = instrument_of("S", unit=unit, multiplier=multiplier, quantity="BTC", currency="USDT")
    both = [float(count), float(count + 1)]  # two rows, since polars divides a single one exactly
    amounts = {name: [3.0, 3.0] for name in ("foreseen", "cost", "fees", "impact", "exploration")}
    orders = pl.DataFrame({"quantity": both, "mid": [7.0, 7.0], "multiplier": [1.0, 1.0]} | amounts)
    children = pl.DataFrame({"sent": both, "fee": [2.0, 2.0]})
    fills = pl.DataFrame({"estimated": [True, True], "fee": [0.5, 0.5], "quantity": both})
    found = DayTables(orders, children, fills).natural(one)
    assert found.orders["quantity"][0] == found.children["sent"][0] == found.fills["quantity"][0]
    assert found.orders["quantity"][0] == float(count * one.unit)
    assert found.orders["cost"][0] == pytest.approx(3.0 * float(unit) * multiplier, rel=1e-15)
    assert found.children["fee"][0] == pytest.approx(2.0 * float(unit) * multiplier, rel=1e-15)
    assert (found.fills["fee"][0], found.fills["estimated"][0]) == (0.5 * multiplier, True)
    assert found.orders.select("multiplier", "currency").row(0) == (multiplier, "USDT")
    value = found.orders.select(notional()).item(0, 0)
    assert value == pytest.approx(count * 7.0 * one.value, rel=1e-15)
