"""The study as a whole: from a configuration to the days of a market, to the answer, to files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from riskroute.core.config import config_list, read_toml_config
from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder
from riskroute.core.validation import function_of, instance_of, one_of, path_of
from riskroute.routing.fees import FeeSchedule, load_fees
from riskroute.simulation.backends import Backend
from riskroute.simulation.dark_market import PoolModel
from riskroute.study.backtest import checked_routers
from riskroute.study.config import StudyConfig
from riskroute.study.markets import MARKETS, MarketDay, market_days
from riskroute.study.play import TableCache
from riskroute.study.result import StudyResult
from riskroute.study.run import run_study, write_states

Progress = Callable[[str, int, int], None]

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
        checked_routers(self.config.routers)
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
