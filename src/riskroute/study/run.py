"""A study from a market to an answer: choose on the training days, judge on the test days, say what to use."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import polars

from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_json
from riskroute.core.names import in_file_name
from riskroute.core.provenance import provenance_versions
from riskroute.core.validation import instance_of
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import (
    FITTED,
    BacktestResult,
    check_training,
    router_choice,
    router_names,
    run_backtest,
)
from riskroute.study.choice import choose_router, headroom_bps, training_objectives, why
from riskroute.study.config import StudyConfig
from riskroute.study.differences import differences_by_state, learning_cost, order_states, saving_of
from riskroute.study.examples import order_examples
from riskroute.study.hours import hour_costs, venues_met
from riskroute.study.learning_curve import learning_curve
from riskroute.study.markets import MarketDay, one_zone
from riskroute.study.play import (
    PlayTask,
    RouterChoice,
    TableCache,
    check_hours,
    protection_of,
    training_days,
)
from riskroute.study.records import StudyCase
from riskroute.study.result import StudyResult
from riskroute.study.routing_table import routing_rows, trained_states, training_task
from riskroute.study.stress_table import most_worlds, stress_savings
from riskroute.study.summary import CLAIRVOYANT
from riskroute.study.surface import WORLDS, dark_surface

Progress = Callable[[str, int, int], None]


class _Told:
    """How many plays are done, for a progress bar."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def one(self, what: str) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(what, self.done, self.total)

    def task(self, task: PlayTask) -> None:
        self.one(task.choice.label)


def run_study(
    days: Sequence[MarketDay],
    config: StudyConfig,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Answer for every symbol, size and horizon which router to use, and what it saves against the best simple rule.

    The router is the one of the least objective on the training days. The test days only decide whether it is to be
    used: if it does not beat the simple rule there, with its 95 % interval, the rule is.

    Parameters
    ----------
    days : Sequence[MarketDay]
        Days of the market, as `market_days` gives them.
    backend : Backend, optional
        Where days are played.
    cache : TableCache, optional
        Where tables are kept; what was played before is not played again.
    progress : Callable, optional
        Called with a router that was played, and how many of at most how many plays are done.
    """
    instance_of("config", config, StudyConfig, "a StudyConfig")
    if not days:
        raise InputError("days must hold at least one day, was empty")
    check_training(days, config.backtest(*config.cases[0]))
    for case in config.cases:
        check_hours(days, config.backtest(*case))
    names = tuple(dict.fromkeys(day.symbol for day in days))
    told = _Told(progress, most_plays(config, len(names), pools=bool(days[0].pools)))
    with ExitStack() as stack:
        if cache is None:  # all symbols together use what was played of each
            cache = TableCache(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        cases = []
        for size, horizon in config.cases:
            for name in names:
                mine = [day for day in days if day.symbol == name]
                cases.append(_case(mine, config, size, horizon, name, backend, cache, told))
            if len(names) > 1:
                pooled = dataclasses.replace(config, surface_orders=0, stresses=False)
                cases.append(_case(days, pooled, size, horizon, "", backend, cache, told))
    played, pools = tuple(day.name for day in days), tuple(days[0].pools)
    synthetic, protection = any(day.synthetic for day in days), protection_of(days[0], config.backtest(*case))
    return StudyResult(config, played, pools, tuple(cases), provenance_versions(), synthetic, protection)


def most_plays(config: StudyConfig, symbols: int, *, pools: bool) -> int:
    """Return how often routers are played at most, the fits of those that must be fitted counted as one."""
    plays = 0
    for size, horizon in config.cases:
        names = router_names((*config.routers, CLAIRVOYANT), pools=pools, horizon=horizon, train=config.train)
        rounds = symbols * config.seeds
        own = len(names) * rounds + symbols * len(set(names) & set(FITTED))
        worlds = 2 * WORLDS * rounds if pools and config.surface_orders else 0
        worlds += 2 * most_worlds(config.backtest(size, horizon), pools=pools) * rounds if config.stresses else 0
        together = own if symbols > 1 else 0
        plays += own + worlds + together
    return plays


def _case(
    days: Sequence[MarketDay],
    config: StudyConfig,
    size: int,
    horizon: float,
    symbol: str,
    backend: Backend | None,
    cache: TableCache,
    told: _Told,
) -> StudyCase:
    asked = config.backtest(size, horizon)
    names = router_names(asked.routers, pools=bool(days[0].pools), horizon=horizon, train=config.train)
    choices = []
    for name in names:
        choices.append(router_choice(name, days, asked, backend=backend, cache=cache))
        if name in FITTED:
            told.one(f"fit {name}")
    result = run_backtest(config.market, days, asked, backend=backend, cache=cache, finished=told.task, choices=choices)
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
        surface = dark_surface(pair, days, config, size, horizon, backend=backend, cache=cache, finished=told.task)
    stresses = None
    if pair and config.stresses:
        stresses = stress_savings(pair, days, asked, usual=saving, backend=backend, cache=cache, finished=told.task)
    shown = [one.label for one in pair] if pair else [chosen]
    looked = "static" in found.routers
    training, test = _day_counts(days, config)
    depth, volume = result.footprint_fractions()
    return StudyCase(
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
        symbol=symbol,
        hours=hour_costs(orders, states, shown, seed=config.seed),
        venues=venues_met(result.tables, shown, seed=config.seed),
        learning_curve=learning_curve(orders, *shown) if pair else None,
        examples=order_examples(result.tables, days, asked, chosen, shown[1] if pair else None),
        stresses=stresses,
        zone=one_zone(days),
        verdict=reason != "estimated",
        estimated_share=max(found.routers[name].estimated_share for name in (chosen, found.bar)),
    )


def _shown_pair(result: BacktestResult, chosen: str) -> tuple[RouterChoice, RouterChoice] | None:
    """The chosen router and the simple rule; that rule and the sweep if it was chosen itself."""
    bar = result.comparison.bar
    against = bar if chosen != bar else "sweep"
    if chosen == against:
        return None
    choices = {one.label: one for one in result.choices}
    return choices[chosen], choices[against]


def _day_counts(days: Sequence[MarketDay], config: StudyConfig) -> tuple[int, int]:
    """Days on which the router was chosen and judged, over all symbols; one day has both, and counts as a test day."""
    training = test = 0
    for symbol in dict.fromkeys(day.symbol for day in days):
        count = sum(day.symbol == symbol for day in days)
        some = training_days(count, config.train) if count > 1 else 0
        training, test = training + some, test + count - some
    return training, test


def write_states(
    result: StudyResult,
    days: Sequence[MarketDay],
    out: str | Path,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
) -> list[Path]:
    """Write the routers to use as they are after all days: one file per symbol, size and horizon.

    ``riskroute route`` and `riskroute.routers.restore_router` load them.
    """
    folder, tasks, names = writable_folder("out", out), [], []
    for case in result.cases:
        mine = [day for day in days if day.symbol == case.symbol]
        if mine:
            asked = result.config.backtest(case.shares, case.horizon)
            tasks.append(training_task(mine, asked, case.use, backend=backend, cache=cache))
            names.append(f"state-{in_file_name(case.symbol)}-{case.shares}-{case.horizon:g}s.json")
    states = trained_states(tasks, backend=backend, cache=cache)
    return [write_json(folder / name, state) for name, state in zip(names, states, strict=True)]
