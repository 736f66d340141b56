"""A desk study from a market to an answer: choose on the training days, judge on the test days, say what to use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars

from riskroute.errors import InputError
from riskroute.experiments.backtest.backtest import BacktestResult, run_backtest
from riskroute.experiments.backtest.markets import MarketDay, market_days
from riskroute.experiments.backtest.play import RouterChoice, TableCache, training_days
from riskroute.experiments.desk.choice import choose_router, headroom_bps, training_objectives, why
from riskroute.experiments.desk.config import DeskConfig
from riskroute.experiments.desk.differences import differences_by_state, learning_cost, order_states, saving_of
from riskroute.experiments.desk.examples import order_examples
from riskroute.experiments.desk.hours import hour_costs, venues_met
from riskroute.experiments.desk.learning_curve import learning_curve
from riskroute.experiments.desk.records import DeskCase
from riskroute.experiments.desk.result import DeskResult
from riskroute.experiments.desk.routing_table import routing_rows, trained_states
from riskroute.experiments.desk.stress_table import stress_savings
from riskroute.experiments.desk.surface import dark_surface
from riskroute.experiments.provenance import provenance_versions
from riskroute.files import writable_folder, write_json
from riskroute.names import in_file_name
from riskroute.routing.fees import FeeSchedule
from riskroute.simulation.dark_market import PoolModel
from riskroute.simulation.engines import Engine
from riskroute.validation import instance_of, one_of, path_of

Progress = Callable[[str, int, int], None]


def run_desk_study(
    days: Sequence[MarketDay],
    config: DeskConfig,
    *,
    engine: Engine | None = None,
    cache: TableCache | None = None,
    progress: Progress | None = None,
) -> DeskResult:
    """Answer for every size and horizon which router to use, and what it saves against the best simple rule.

    The router is the one of the least objective on the training days. The test days only decide whether it is to be
    used: if it does not beat the simple rule there, with its 95 % interval, the rule is.

    Parameters
    ----------
    days : Sequence[MarketDay]
        Days of the market, as `market_days` gives them.
    engine : Engine, optional
        Where days are played.
    cache : TableCache, optional
        Where tables are kept; what was played before is not played again.
    progress : Callable, optional
        Called with a case, and how many of how many are done.
    """
    instance_of("config", config, DeskConfig, "a DeskConfig")
    if not days:
        raise InputError("days must hold at least one day, was empty")
    cases = []
    for size, horizon in config.cases:
        cases.append(_case(days, config, size, horizon, engine, cache))
        if progress is not None:
            progress(f"{size:,} shares, {horizon:g} s", len(cases), len(config.cases))
    names, pools = tuple(day.name for day in days), tuple(days[0].pools)
    return DeskResult(config, names, pools, tuple(cases), provenance_versions())


def _case(
    days: Sequence[MarketDay],
    config: DeskConfig,
    size: int,
    horizon: float,
    engine: Engine | None,
    cache: TableCache | None,
) -> DeskCase:
    asked = config.backtest(size, horizon)
    result = run_backtest(config.market, days, asked, engine=engine, cache=cache)
    found, orders = result.comparison, result.tables.orders
    objectives = training_objectives(orders, config.kappa)
    chosen = choose_router(objectives, found.bar)
    reason = why(found, chosen)
    use = chosen if reason == "beats" else found.bar
    states = order_states(orders, days, asked)
    by_state = () if chosen == found.bar else differences_by_state(orders, states, chosen, found.bar, seed=config.seed)
    paired = found.routers[chosen].paired
    saving = None if paired is None else saving_of(orders, chosen, found.bar, seed=config.seed, paired=paired)
    pair = _shown_pair(result, chosen)
    surface = None
    if pair and days[0].pools and config.surface_orders:
        surface = dark_surface(pair, days, config, size, horizon, engine=engine, cache=cache)
    stresses = None
    if pair and config.stresses:
        stresses = stress_savings(pair, days, asked, usual=saving, engine=engine, cache=cache)
    shown = [one.label for one in pair] if pair else [chosen]
    looked = "static" in found.routers
    training, test = _day_counts(days, config)
    depth, volume = result.footprint_fractions
    return DeskCase(
        shares=size,
        horizon=horizon,
        training_days=training,
        test_days=test,
        price=float(orders.filter(polars.col("judged")).select(polars.col("mid").mean()).item()),
        depth_fraction=depth,
        volume_fraction=volume,
        training_objective_bps=objectives,
        chosen=chosen,
        use=use,
        reason=reason,
        saving=saving,
        states=by_state,
        losses=tuple(one for one in by_state if one.difference_bps.above_zero),
        learning=learning_cost(orders, chosen, seed=config.seed),
        not_looking=saving_of(orders, "sweep", "static", seed=config.seed) if looked else None,
        headroom_bps=headroom_bps(found),
        surface=surface,
        routing_table=routing_rows(result.tables, states, use),
        comparison=found,
        hours=hour_costs(orders, states, shown, seed=config.seed),
        venues=venues_met(result.tables, shown, seed=config.seed),
        learning_curve=learning_curve(orders, *shown) if pair else None,
        examples=order_examples(result.tables, days, asked, chosen, shown[1] if pair else None),
        stresses=stresses,
    )


def _shown_pair(result: BacktestResult, chosen: str) -> tuple[RouterChoice, RouterChoice] | None:
    """The chosen router and the simple rule; that rule and the sweep if it was chosen itself."""
    bar = result.comparison.bar
    against = bar if chosen != bar else "sweep"
    if chosen == against:
        return None
    choices = {one.label: one for one in result.choices}
    return choices[chosen], choices[against]


def _day_counts(days: Sequence[MarketDay], config: DeskConfig) -> tuple[int, int]:
    """Days on which the router was chosen and judged, over all symbols; one day has both, and counts as a test day."""
    training = test = 0
    for symbol in dict.fromkeys(day.symbol for day in days):
        count = sum(day.symbol == symbol for day in days)
        some = training_days(count, config.train) if count > 1 else 0
        training, test = training + some, test + count - some
    return training, test


def desk_study(
    market: str | Path = "dark",
    *,
    shares: int | Sequence[int] = 1000,
    horizon: float | Sequence[float] = 60.0,
    symbols: Sequence[str] = (),
    fees: FeeSchedule | None = None,
    pools: Sequence[PoolModel] | None = None,
    kept: str | Path = "out/days",
    out: str | Path | None = None,
    engine: Engine | None = None,
    **more: Any,
) -> DeskResult:
    """Answer which router to use for orders of a market, and what it saves.

    Parameters
    ----------
    market : str or Path
        ``paper``, ``comparable``, ``dark``, or a folder of ``riskroute market import``.
    shares, horizon
        Sizes of orders, and the seconds that they have; one or several.
    symbols, fees, pools
        As `market_days` takes them.
    kept : str or Path
        Folder in which prepared days and results are kept.
    out : str or Path, optional
        Folder for the result, the routing table, and the states of the routers to use.
    **more
        Fields of `DeskConfig`: ``side``, ``lot``, ``kappa``, ``days``, ``train``, ``routers``, ``orders``, ``hours``,
        ``latency_ms``, ``dark_latency_ms``, ``seeds``, ``seed``, ``block_minutes``, ``surface_orders``,
        ``stresses``.
    """
    instance_of("market", market, (str, Path), "a name or a folder")
    known = {item.name for item in dataclasses.fields(DeskConfig)} - {"market", "sizes", "horizons", "symbols"}
    for name in more:
        one_of("parameter of desk_study", name, tuple(sorted(known)))
    sizes = (shares,) if isinstance(shares, int) else tuple(shares)
    horizons = (horizon,) if isinstance(horizon, int | float) else tuple(horizon)
    names = (symbols,) if isinstance(symbols, str) else tuple(symbols)
    config = DeskConfig(str(market), names, sizes, horizons=horizons, **more)
    folder = path_of("kept", kept)
    hours = config.backtest(*config.cases[0]).clock_hours
    ready = market_days(
        market,
        symbols=config.symbols,
        days=config.days,
        seed=config.seed,
        hours=hours,
        kept=folder,
        fees=fees,
        pools=pools,
        engine=engine,
    )
    cache = TableCache(folder / "played")
    result = run_desk_study(ready, config, engine=engine, cache=cache)
    if out is not None:
        result.write(out)
        write_states(result, ready, out, engine=engine, cache=cache)
    return result


def write_states(
    result: DeskResult,
    days: Sequence[MarketDay],
    out: str | Path,
    *,
    engine: Engine | None = None,
    cache: TableCache | None = None,
) -> list[Path]:
    """Write the routers to use as they are after all days: one file per symbol, size and horizon.

    ``riskroute route`` and `riskroute.routers.restore_router` load them.
    """
    folder, written = writable_folder("out", out), []
    for case in result.cases:
        states = trained_states(days, result.config, case.use, case.shares, case.horizon, engine=engine, cache=cache)
        for symbol, state in states.items():
            name = f"state-{in_file_name(symbol)}-{case.shares}-{case.horizon:g}s.json"
            written.append(write_json(folder / name, state))
    return written
