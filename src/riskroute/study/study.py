"""A study: choose a router on the training days, judge it on the test days, and recommend it or a rule."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from riskroute.core.config import config_list, read_toml_config
from riskroute.core.errors import InputError
from riskroute.core.files import in_file_name, writable_folder, write_json
from riskroute.core.instrument import Instrument, load_instruments
from riskroute.core.provenance import provenance_versions
from riskroute.core.runtime import compilation_timed
from riskroute.core.text import natural_text, shown
from riskroute.core.validation import instance_of, one_of, valid_function, valid_list, valid_path
from riskroute.routing.fees import FeeSchedule, load_fees
from riskroute.simulation.backends import Backend
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.study import stresses
from riskroute.study.backtest import queue_plays
from riskroute.study.candidates import CLAIRVOYANT, FITTED, candidate_names, check_candidates
from riskroute.study.case import SURFACE_POINTS, play_case
from riskroute.study.config import StudyConfig, changed_config
from riskroute.study.frontier import frontier_profiles, line_profiles
from riskroute.study.markets import MARKETS, MarketDay, market_days
from riskroute.study.play import PlayCache, check_playable_days, perform_plays, play_tasks
from riskroute.study.result import StudyResult
from riskroute.study.static_fit import static_fit_candidate

Progress = Callable[[str, int, int], None]  # called with a label, the number of steps done and their total

_KEPT = Path("out/days")  # default cache folder for prepared days and plays


class Study:
    """Find the router to use for given orders, and its saving against the benchmark rule.

    Parameters
    ----------
    config : str or path-like, optional
        A TOML file with the keys of `study_config_template`; keys that it omits have their defaults.
    **values
        Values that override the file: the fields of `StudyConfig`, ``fees`` (a file or a schedule), ``pools`` (pools or
        dictionaries) and ``instruments`` (a file, or a dictionary by symbol). A single value stands for a list of one:
        ``quantities=1000, horizons=[10, 60]``.

    Examples
    --------
    >>> study = Study(quantities=1000, horizons=[0, 10], days=6)
    >>> study.config.cases
    ((1000, 0.0), (1000, 10.0))
    """

    config: StudyConfig
    fees: FeeSchedule | None
    pools: tuple[DarkMarketPool, ...] | None
    instruments: dict[str, Instrument] | None

    def __init__(self, config: str | os.PathLike[str] | None = None, /, **values: Any) -> None:
        given = (read_toml_config(valid_path("config", config)) if config is not None else {}) | values
        known = {item.name for item in dataclasses.fields(StudyConfig)} | {"fees", "pools", "instruments"}
        for name in given:
            one_of("key of a study", name, tuple(sorted(known)))
        fees, pools, instruments = (given.pop(name, None) for name in ("fees", "pools", "instruments"))
        if isinstance(given.get("market"), Path):
            given["market"] = str(given["market"])
        self.config = StudyConfig(**{name: _listed(name, value) for name, value in given.items()})
        check_candidates(self.config.routers)
        self.fees = load_fees(fees) if isinstance(fees, str | os.PathLike) else fees
        if self.fees is not None:
            instance_of("fees", self.fees, FeeSchedule, "a fee schedule or its file")
            if self.config.market in MARKETS:
                raise InputError("fees cannot be given for a synthetic market, which has its own")
        self.instruments = load_instruments(instruments) if isinstance(instruments, str | os.PathLike) else instruments
        if self.instruments is not None:
            instance_of("instruments", self.instruments, dict, "a file, or a dictionary of instruments by symbol")
            valid_list("instruments", list(self.instruments.values()), Instrument, "instruments")
        self.pools = None if pools is None else tuple(_pool(one) for one in config_list(pools))

    def __repr__(self) -> str:
        return f"Study({changed_config(self.config)})"

    def days(
        self,
        *,
        kept: str | os.PathLike[str] = _KEPT,
        backend: Backend | str = "local",
        progress: Progress | None = None,
    ) -> list[MarketDay]:
        """Prepare the days of the market, or find them in the cache folder ``kept``; see `market_days`."""
        config = self.config
        return market_days(
            config.market,
            symbols=config.symbols,
            days=config.days,
            seed=config.seed,
            hours=config.backtest(*config.cases[0]).clock_hours,
            kept=valid_path("kept", kept),
            fees=self.fees,
            pools=self.pools,
            instruments=self.instruments,
            backend=_backend(backend),
            progress=progress,
        )

    def max_plays(self, days: Sequence[MarketDay]) -> int:
        """Return the maximum number of plays on prepared days, for a progress bar; fitting a router counts as one."""
        config, symbols, pools = self.config, len({day.symbol for day in days}), bool(days[0].pools)
        plays = 0
        for size, horizon in config.cases:
            names = candidate_names((*config.routers, CLAIRVOYANT), pools=pools, horizon=horizon, train=config.train)
            repeats = queue_plays(days, config.backtest(size, horizon))
            own = len(names) * symbols * repeats + symbols * len(set(names) & set(FITTED))
            worlds = SURFACE_POINTS if pools and config.surface_orders else 0
            if config.stresses:
                worlds += len(stresses.stress_configs(config.backtest(size, horizon), pools=pools))
            if config.frontier:
                own += own * len(frontier_profiles(config.risk)) + len(line_profiles(config.risk)) * symbols
            pooled = own if symbols > 1 else 0
            plays += own + 2 * worlds * symbols + pooled
        return plays

    def play(
        self,
        days: Sequence[MarketDay],
        *,
        kept: str | os.PathLike[str] = _KEPT,
        backend: Backend | str = "local",
        progress: Progress | None = None,
    ) -> StudyResult:
        """Play the routers on prepared days and choose among them; plays in the cache folder ``kept`` are reused.

        There is one case per symbol, order size and deadline; with several symbols, one more per size and deadline
        pools them. The router with the lowest objective on the training days is chosen. The test days only decide
        whether to use it: unless it beats the benchmark rule there with its whole 95 % interval, the rule is used.
        """
        config, where, cache = self.config, _backend(backend), _cache(kept)
        for case in config.cases:
            check_playable_days(days, config.backtest(*case))
        names = tuple(dict.fromkeys(day.symbol for day in days))
        total, done = self.max_plays(days), itertools.count(1)

        def count_play(name: str) -> None:
            if progress is not None:
                progress(name, next(done), total)

        cases = []
        with compilation_timed("the study"):
            for size, horizon in config.cases:
                for name in names:
                    mine = [day for day in days if day.symbol == name]
                    cases.append(play_case(mine, config, size, horizon, name, where, cache, count_play))
                if len(names) > 1:  # reuses the plays of each symbol
                    pooled = dataclasses.replace(config, surface_orders=0, stresses=False)
                    cases.append(play_case(days, pooled, size, horizon, "", where, cache, count_play))
        played, pools = tuple(day.name for day in days), tuple(days[0].pools)
        synthetic, protection = any(day.synthetic for day in days), config.protection or days[0].protection
        return StudyResult(config, played, pools, tuple(cases), provenance_versions(), synthetic, protection)

    def write(
        self,
        result: StudyResult,
        days: Sequence[MarketDay],
        out: str | os.PathLike[str],
        *,
        kept: str | os.PathLike[str] = _KEPT,
        backend: Backend | str = "local",
    ) -> list[Path]:
        """Write the result, the routing table and the states of the routers to use; return the files.

        Routers learn from all orders of all days, static splits are fitted on training days; one state per symbol, size
        and deadline.
        """
        folder, where, cache = writable_folder("out", out), _backend(backend), _cache(kept)
        tasks, names = [], []
        for case in result.cases:
            mine = [day for day in days if day.symbol == case.symbol]
            if mine:
                config = result.config.backtest(case.quantity, case.horizon)
                candidate = static_fit_candidate(case.use, mine, config, backend=where, cache=cache)
                tasks += play_tasks([candidate], mine, dataclasses.replace(config, seeds=1))
                size = natural_text(case.quantity).replace(",", "")
                names.append(f"state-{in_file_name(case.symbol)}-{size}-{case.horizon:g}s.json")
        played = perform_plays(tasks, backend=where, cache=cache)
        states = [write_json(folder / name, tables.state) for name, tables in zip(names, played, strict=True)]
        return [*result.write(folder), *states]

    def run(
        self,
        *,
        backend: Backend | str = "local",
        out: str | os.PathLike[str] | None = None,
        kept: str | os.PathLike[str] = _KEPT,
        progress: Progress | None = None,
    ) -> StudyResult:
        """Run the whole study: `days`, `play`, and `write` if ``out`` is given.

        Parameters
        ----------
        backend : Backend or str
            Where to play: ``local``, ``dask``, ``ray``, or a `Backend` with a number of workers.
        out : str or path-like, optional
            Folder for ``study.json``, ``study.txt``, the routing table (``routing.csv``, ``routing.parquet``) and the
            states of the routers to use. Default: nothing is written.
        kept : str or path-like
            Cache folder for prepared days and plays: nothing is played twice.
        progress : callable, optional
            Called after every play with its label, the number of plays done and their maximum.

        Returns
        -------
        StudyResult
            Prints as its tables and the answer.
        """
        where = _backend(backend)
        if progress is not None:
            valid_function("progress", progress)
        if out is not None:
            writable_folder("out", out)  # fail before hours of work
        days = self.days(kept=kept, backend=where)
        result = self.play(days, kept=kept, backend=where, progress=progress)
        if out is not None:
            self.write(result, days, out, kept=kept, backend=where)
        return result


def _cache(kept: str | os.PathLike[str]) -> PlayCache:
    return PlayCache(valid_path("kept", kept) / "played")


def _listed(name: str, value: Any) -> Any:
    """Return the value of a field, as a list if the field takes lists."""
    lists = ("symbols", "quantities", "horizons", "routers")
    return config_list(list(value) if isinstance(value, tuple) else value) if name in lists else value


def _backend(backend: Backend | str) -> Backend:
    if isinstance(backend, str):
        return Backend(backend)
    return instance_of("backend", backend, Backend, "a Backend or its name")


def _pool(one: Any) -> DarkMarketPool:
    """Return a pool, made from a section of a file if necessary."""
    if isinstance(one, DarkMarketPool):
        return one
    fields = {item.name: item for item in dataclasses.fields(DarkMarketPool)}
    for key in instance_of("pools", one, dict, "pools or sections of them"):
        one_of("key of a pool", key, tuple(fields))
    for name, item in fields.items():
        if item.default is dataclasses.MISSING and name not in one:
            raise InputError(f"pool {shown(one)} must have the key {name}, which is missing")
    return DarkMarketPool(**one)
