"""Static splits are the best of their kind on the days they are chosen on, and chosen on no others."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from riskroute.core.errors import InputError
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.routers.risk import RiskProfile
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.study.backtest import run_backtest
from riskroute.study.candidates import Candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import objective_cost
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play, play_routers
from riskroute.study.static_fit import _GRID, UNITS, _fit_static, _fit_static_sweep
from small_days import DATE, HERE, handmade_day

THREE = {"A": (2, 300), "B": (3, 200), "C": (3, 400)}
SECOND_DAY = DATE + dt.timedelta(days=1)
POOLS = (
    DarkMarketPool("P", 0.5, smallest=50, fee=0.001),
    DarkMarketPool("Q", 0.3, smallest=200, fee=0.0, improvement=0.2),
)


def two_days(folder: Path, venues: dict[str, tuple[int, int]], *, takers: tuple[float, ...] = (),
             pools: tuple[DarkMarketPool, ...] = ()) -> list[MarketDay]:  # fmt: skip
    return [
        handmade_day(folder, venues, seed=seed, date=date, takers=takers, pools=pools)
        for seed, date in ((1, DATE), (2, SECOND_DAY))
    ]


def splits(places: int) -> list[tuple[int, ...]]:
    return [way for way in itertools.product(range(UNITS + 1), repeat=places) if sum(way) == UNITS]


def test_over_venues_no_split_is_cheaper_when_it_is_played(tmp_path: Path) -> None:
    """All 66 splits of three venues are played on the training day."""
    days = two_days(tmp_path, THREE, takers=(0.003, -0.002, 0.0))
    config = BacktestConfig(orders=12, quantities=(1000,), latency_ms=0.0)
    chosen = _fit_static(days, config)
    candidates = [Candidate(str(way), "static", {"take": dict(zip("ABC", map(float, way), strict=True))})
               for way in splits(3)]  # fmt: skip
    played = play_routers([*candidates, chosen], days[:1], config, backend=HERE).orders
    means = dict(played.group_by("router").agg(pl.col("cost").mean()).iter_rows())
    best = min(cost for name, cost in means.items() if name != "static")
    assert means["static"] == pytest.approx(best, abs=1e-9)
    assert len([cost for cost in means.values() if cost > best + 1e-9]) >= 60
    assert len(chosen.parameters["take"]) > 1  # a corner would be found by anybody


@pytest.mark.parametrize("kappa", [0.0, 0.2])
def test_with_pools_all_splits_by_hand(tmp_path: Path, kappa: float) -> None:
    """Mean cost of what each place gets, risk of pools, and what they return taken where all of it is cheapest."""
    pools = tuple(dataclasses.replace(pool, recent=0.0) for pool in POOLS)
    days = two_days(tmp_path, {"A": (2, 300), "B": (3, 300)}, pools=pools)
    config = BacktestConfig(orders=25, seeds=1, quantities=(500,), latency_ms=0.0, risk=RiskProfile("one", kappa))
    chosen = _fit_static(days, config).parameters
    day = day_to_play(days[0], config)
    dark = day.dark_market(config.seed, config.stress.leak)

    def at_venue(number: int, v: int, shares: float) -> float:
        now, sign = day.books.as_of(int(day.orders.times[number])), int(day.orders.signs[number])
        prices, sizes = (now.ask_px[v], now.ask_sz[v]) if sign > 0 else (now.bid_px[v], now.bid_sz[v])
        mid, cost = float(day.books.mids(day.orders.times[number : number + 1])[0]), 0.0
        for price, size in zip(prices, sizes, strict=True):
            taken = min(shares, size)
            cost, shares = cost + taken * sign * (price - mid), shares - taken
        assert shares == 0
        return 1e4 * cost / (500 * mid)

    def in_pool(number: int, pool: DarkMarketPool, rest: int, units: int) -> float:
        filled = min(50.0 * units, dark.hidden(number, pool.name))
        moment = day.orders.times[number : number + 1]
        each = pool.fee - pool.improvement * float(day.books.spreads(moment)[0]) / 2
        back = (50 * units - filled) / 500 * at_venue(number, rest, 500)
        return 1e4 * filled * each / (500 * float(day.books.mids(moment)[0])) + back

    orders = range(25)
    rest = min((0, 1), key=lambda v: sum(at_venue(number, v, 500) for number in orders))
    tables = [[float(np.mean([at_venue(n, v, 50 * units) for n in orders])) for units in range(11)] for v in (0, 1)]
    for pool in pools:
        values = [np.array([in_pool(n, pool, rest, units) for n in orders]) for units in range(11)]
        tables.append([float(value.mean() + kappa * value.var()) for value in values])
    best = min(splits(4), key=lambda way: sum(table[units] for table, units in zip(tables, way, strict=True)))
    found = {**dict.fromkeys("ABPQ", 0.0), **chosen["take"], **chosen["dark"]}
    assert chosen["rest"] == "AB"[rest]
    value, least = (
        sum(table[int(units)] for table, units in zip(tables, way, strict=True)) for way in (found.values(), best)
    )
    assert value == pytest.approx(least, abs=1e-9)


def test_only_training_days_and_mornings_are_looked_at(tmp_path: Path) -> None:
    """Prices of the judged part are turned around: A was the cheapest venue and is now the most expensive one."""
    config = BacktestConfig(orders=40, quantities=(1000,))
    cheap = handmade_day(tmp_path, {"A": (2, 900), "B": (6, 900)}, seed=1)
    costly = handmade_day(tmp_path, {"A": (6, 900), "B": (2, 900)}, seed=2, date=SECOND_DAY)
    assert _fit_static([cheap, costly], config).parameters["take"] == {"A": 10.0}
    one, other = cheap.load().books, costly.load().books
    half = one.stamps > np.median(one.stamps)
    columns = {
        name: np.where(half[:, None], getattr(other, name), getattr(one, name))
        for name in ("bid_px", "bid_sz", "ask_px", "ask_sz")
    }
    mixed = DayBooks(one.venues, one.offsets, one.stamps, one.sequences, **columns)
    folder = PreparedDayBooks(mixed).write(tmp_path / "mixed")
    alone = dataclasses.replace(cheap, folder=folder)
    assert _fit_static([alone], config).parameters["take"] == {"A": 10.0}


def test_without_training_days_nothing_is_chosen(tmp_path: Path) -> None:
    days = two_days(tmp_path, THREE)
    for routers in (("static",), ("static+sweep",)):
        with pytest.raises(InputError, match="train must be at least 1 to fit static and static"):
            run_backtest("x", days, BacktestConfig(orders=10, train=0, routers=routers), backend=HERE)
    found = run_backtest("x", days, BacktestConfig(orders=10, train=0), backend=HERE)
    assert not {"static", "static+sweep"} & set(found.comparison.routers)
    assert found.comparison.orders == 20
    with pytest.raises(InputError, match="train must be at most 1, to leave a test day, was 2"):
        run_backtest("x", days, BacktestConfig(orders=10, train=2), backend=HERE)


def test_the_best_before_a_sweep_is_the_best_of_the_grid(tmp_path: Path) -> None:
    """Played again one by one on the training day."""
    days = two_days(tmp_path, {"A": (4, 300), "B": (5, 300)}, pools=POOLS)
    config = BacktestConfig(orders=8, seeds=1, quantities=(800,), horizon=10.0)
    chosen = _fit_static_sweep(days, config, backend=HERE)
    values = {}
    for pools in ([], ["P", "Q"]):
        for rest, post in itertools.product(_GRID, _GRID):
            if rest + post <= 1:
                one = Candidate("x", "static+sweep", {"pools": pools, "rest": rest, "post": post})
                orders = play_routers([one], days[:1], config, backend=HERE).orders
                values[(*pools, rest, post)] = objective_cost(orders, config.risk.kappa)
    asked = chosen.parameters
    assert values[(*asked["pools"], asked["rest"], asked["post"])] == pytest.approx(min(values.values()), abs=1e-12)
    assert max(values.values()) > min(values.values()) + 0.1


CLOSE_AND_FAR = {"XNAS": (7, 2000), "XPSX": (114, 2000)}


def test_a_split_that_sends_a_few_shares_far_away_loses_at_every_moment(tmp_path: Path) -> None:
    """970 shares to a venue 7 cents from the mid and 30 to one that is a dollar off: no order is as cheap as swept."""
    days = two_days(tmp_path, CLOSE_AND_FAR)
    split = Candidate("split", "static", {"take": {"XNAS": 0.97, "XPSX": 0.03}})
    config = BacktestConfig(
        orders=60, seeds=1, quantities=(1000,), routers=("static", "primary", "spray", "nbbo", "static+sweep")
    )
    orders = play_routers([split, Candidate("sweep", "sweep")], days, config, backend=HERE).orders
    wide = orders.pivot("router", index=["day", "number"], values="cost")
    assert wide.height == 120
    assert (wide["split"] - wide["sweep"]).to_numpy().min() > 30 * 0.4
    result = run_backtest("far", days, config, backend=HERE)
    assert result.comparison.best == "sweep"
    assert result.candidates[[one.label for one in result.candidates].index("static")].parameters["take"] == {
        "XNAS": 10.0
    }


@pytest.mark.parametrize("seed", range(4))
def test_without_pools_nothing_that_the_sweep_dominates_is_recommended(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    venues = {name: (int(rng.integers(1, 6)), int(rng.integers(50, 600))) for name in ("A", "B", "C")}
    fees = tuple(float(fee) for fee in rng.integers(-20, 31, 3) / 1e4)
    days = two_days(tmp_path, venues, takers=fees)
    config = BacktestConfig(
        orders=40, seeds=1, quantities=(200, 900), routers=("static", "spray", "primary", "raw-sweep", "uniform")
    )
    result = run_backtest("drawn", days, config, backend=HERE)
    costs = result.tables.orders.pivot("router", index=["day", "number"], values="cost")
    for found in result.comparisons.values():
        assert found.best == "sweep"
        assert found.router_to_use is None  # of a single test day
    assert result.comparisons[200].routers.keys() == result.comparisons[900].routers.keys()
    dominated = [name for name in costs.columns[3:] if (costs[name] >= costs["sweep"] - 1e-9).all()]
    assert dominated
