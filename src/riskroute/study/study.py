"""A study from a market to an answer: choose on the training days, judge on the test days, say what to use."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars

from riskroute.core.config import config_list, read_toml_config
from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_json
from riskroute.core.runtime import provenance_versions
from riskroute.core.validation import function_of, in_file_name, instance_of, one_of, path_of
from riskroute.routing.fees import FeeSchedule, load_fees
from riskroute.simulation.backends import Backend
from riskroute.simulation.dark_market import PoolModel
from riskroute.study.backtest import BacktestResult, check_training, run_backtest
from riskroute.study.candidates import CLAIRVOYANT, FITTED, Candidate, check_routers, router_names
from riskroute.study.choice import choose_router, headroom_bps, training_objectives, why
from riskroute.study.config import StudyConfig
from riskroute.study.markets import MARKETS, MarketDay, market_days, one_zone
from riskroute.study.order_examples import order_examples
from riskroute.study.play import PlayTask, TableCache, check_hours, protection_of, training_days
from riskroute.study.records import StudyCase
from riskroute.study.result import StudyResult
from riskroute.study.routing_table import routing_rows, trained_states, training_task
from riskroute.study.savings import (
    differences_by_state,
    hour_costs,
    learning_cost,
    learning_curve,
    order_states,
    saving_of,
    venues_met,
)
from riskroute.study.static_fit import fitted_candidate
from riskroute.study.stresses import WORLDS, dark_surface, most_worlds, stress_savings

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
        self.one(task.candidate.label)


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
    candidates = []
    for name in names:
        candidates.append(fitted_candidate(name, days, asked, backend=backend, cache=cache))
        if name in FITTED:
            told.one(f"fit {name}")
    result = run_backtest(
        config.market, days, asked, backend=backend, cache=cache, finished=told.task, candidates=candidates
    )
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


def _shown_pair(result: BacktestResult, chosen: str) -> tuple[Candidate, Candidate] | None:
    """The chosen router and the simple rule; that rule and the sweep if it was chosen itself."""
    bar = result.comparison.bar
    against = bar if chosen != bar else "sweep"
    if chosen == against:
        return None
    candidates = {one.label: one for one in result.candidates}
    return candidates[chosen], candidates[against]


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


KEPT = Path("out/days")
"""Folder in which prepared days, and what was played on them, are kept by default."""

LISTS = ("symbols", "shares", "horizons", "routers")
"""Fields of which one value stands for a list of one."""


class Study:
    """Find out which router a desk should use for its orders, and what it saves against the best simple rule.

    Parameters
    ----------
    config : str or path-like, optional
        A TOML file; `TEMPLATE` is a commented one. Defaults if left out.
    **values
        Values as in such a file, which replace those of the file: the fields of `StudyConfig`, and ``fees`` and
        ``pools``. One value stands for a list of one: ``shares=1000, horizons=[10, 60], symbols="LUMO"``.

    Examples
    --------
    >>> study = Study(shares=1000, horizons=[0, 10], days=6)
    >>> study.config.cases
    ((1000, 0.0), (1000, 10.0))
    """

    config: StudyConfig
    fees: FeeSchedule | None
    pools: tuple[PoolModel, ...] | None

    def __init__(self, config: str | os.PathLike[str] | None = None, /, **values: Any) -> None:
        given = (read_toml_config(path_of("config", config)) if config is not None else {}) | values
        known = {item.name for item in dataclasses.fields(StudyConfig)} | {"fees", "pools"}
        for name in given:
            one_of("key of a study", name, tuple(sorted(known)))
        fees, pools = given.pop("fees", None), given.pop("pools", None)
        if isinstance(given.get("market"), Path):
            given["market"] = str(given["market"])
        self.config = StudyConfig(**{name: _listed(name, value) for name, value in given.items()})
        check_routers(self.config.routers)
        self.fees = load_fees(fees) if isinstance(fees, str | os.PathLike) else fees
        if self.fees is not None:
            instance_of("fees", self.fees, FeeSchedule, "a fee schedule or the file of one")
            if self.config.market in MARKETS:
                raise InputError("fees must be left out for a synthetic market, which has its own, were given")
        self.pools = None if pools is None else tuple(_pool(one) for one in config_list(pools))

    def __repr__(self) -> str:
        usual = StudyConfig()
        values = {item.name: getattr(self.config, item.name) for item in dataclasses.fields(StudyConfig)}
        changed = {name: value for name, value in values.items() if value != getattr(usual, name)}
        return f"Study({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def days(
        self,
        *,
        kept: str | os.PathLike[str] = KEPT,
        backend: Backend | str = "local",
        progress: Progress | None = None,
    ) -> list[MarketDay]:
        """Make the days of the market ready, or find them where they were kept; see `market_days`.

        Returns
        -------
        list of MarketDay
            Day by day and symbol by symbol.
        """
        config = self.config
        return market_days(
            config.market,
            symbols=config.symbols,
            days=config.days,
            seed=config.seed,
            hours=config.backtest(*config.cases[0]).clock_hours,
            kept=path_of("kept", kept),
            fees=self.fees,
            pools=self.pools,
            backend=_backend(backend),
            progress=progress,
        )

    def run(
        self,
        *,
        backend: Backend | str = "local",
        out: str | os.PathLike[str] | None = None,
        kept: str | os.PathLike[str] = KEPT,
        progress: Progress | None = None,
    ) -> StudyResult:
        """Do the whole study.

        Parameters
        ----------
        backend : Backend or str
            Where to play: ``local``, ``dask``, ``ray``, or a `Backend` that also says how many workers there are.
        out : str or path-like, optional
            The folder for ``study.json``, ``study.txt``, the routing table (``routing.csv``, ``routing.parquet``), and
            the states of the routers to use. Nothing is written if left out.
        kept : str or path-like
            The folder in which prepared days, and what was played on them, are kept: nothing is played twice.
        progress : callable, optional
            Called with what was played, and how many of at most how many plays are done.

        Returns
        -------
        StudyResult
            What was found; it prints as its tables and the answer in words.
        """
        where = _backend(backend)
        if progress is not None:
            function_of("progress", progress)
        if out is not None:
            writable_folder("out", out)
        days = self.days(kept=kept, backend=where)
        cache = played_cache(kept)
        result = run_study(days, self.config, backend=where, cache=cache, progress=progress)
        if out is not None:
            write_study(result, days, out, backend=where, cache=cache)
        return result


def played_cache(kept: str | os.PathLike[str]) -> TableCache:
    """Return where plays on the days of a folder are kept."""
    return TableCache(path_of("kept", kept) / "played")


def write_study(
    result: StudyResult,
    days: Sequence[MarketDay],
    out: str | os.PathLike[str],
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
) -> list[Path]:
    """Write the result, the routing table, and the states of the routers to use; returns the files."""
    folder = writable_folder("out", out)
    return [*result.write(folder), *write_states(result, days, folder, backend=backend, cache=cache)]


def _listed(name: str, value: Any) -> Any:
    return config_list(list(value) if isinstance(value, tuple) else value) if name in LISTS else value


def _backend(backend: Backend | str) -> Backend:
    return (
        Backend(backend)
        if isinstance(backend, str)
        else instance_of("backend", backend, Backend, "a Backend or its name")
    )


def _pool(one: Any) -> PoolModel:
    """Return a pool as it is, or made of the keys of a section, with defaults for the others."""
    if isinstance(one, PoolModel):
        return one
    fields = {item.name: item for item in dataclasses.fields(PoolModel)}
    for key in instance_of("pools", one, dict, "pools or sections of them"):
        one_of("key of a pool", key, tuple(fields))
    for name, item in fields.items():
        if item.default is dataclasses.MISSING and name not in one:
            raise InputError(f"{name} of a pool must be given, was missing")
    return PoolModel(**one)


TEMPLATE = """\
# A study: which router to use. Every line is optional; what stands here is the default.

market = "dark"           # a synthetic market (paper, comparable, dark), or a folder of `riskroute market import`
# symbols = ["LUMO"]      # the first of a synthetic market, or all of a folder, if left out; each has its own answer
# days = 10               # days to play; 10 synthetic ones, or all that a folder has
# train = 5               # days at the beginning on which routers learn and one is chosen; half if left out
# hours = "10:30-13:30"   # times of orders in the zone of the days; by default 09:35-15:55 in New York, else all

shares = [1000]           # sizes of orders; each has its own answer
side = "both"             # buy, sell, or both in turn
lot = 1                   # child orders are multiples of this many shares
horizons = [60]           # seconds that an order has, 0 is at once; each has its own answer
orders = 200              # orders a day
kappa = 0.05              # basis points charged for a squared basis point of unforeseen cost

# beside the simple rules, which are always played; NAME or NAME:KEY=VALUE,..., or your own: FILE.py:CLASS
routers = ["spray", "primary", "static", "static+sweep", "contextual"]

latency_ms = 1.0          # milliseconds to a lit venue
dark_latency_ms = 5.0     # milliseconds to a dark pool and back
block_minutes = 10.0      # length of the time blocks that are resampled for confidence intervals
seeds = 1                 # how often all is played, with other luck in dark pools
seed = 0
surface_orders = 200      # orders a day for every assumption on dark pools that is tried; 0 tries none
stresses = false          # whether the router and the rule are played in harder worlds too
# protection = "reg-nms"  # or "none": whether venues protect each other's quotes; by default as the market has it

# fees = "fees.toml"      # fees of recorded venues; a synthetic market has its own

# Dark pools are assumed: nobody publishes their data. Those of the synthetic market if left out, none for recordings.
# [[pools]]
# name = "POOL1"
# presence = 0.3          # how likely it holds shares for us
# rate = 0.1              # counterparties a second that come to a resting order
# tail = 1.2              # at least n shares with probability (smallest / n) ** tail
# smallest = 100
# adverse = 0.2           # how much likelier a fill is before the price moves so that it is regretted
# fee = 0.001             # dollars a share
"""
"""A configuration with every key of a study, commented."""
