"""A backtest from a market to a verdict: days made ready, routers played, costs compared, the answer in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars

from riskroute.errors import InputError
from riskroute.experiments.backtest.config import DARK_ROUTERS, DEFAULT_ROUTERS, PATIENT_ROUTERS, BacktestConfig
from riskroute.experiments.backtest.markets import MarketDay
from riskroute.experiments.backtest.play import PlayTask, RouterChoice, TableCache, play_routers, play_tasks
from riskroute.experiments.backtest.static_fit import fit_static, fit_static_sweep
from riskroute.experiments.backtest.summary import CLAIRVOYANT, Comparison, choose_bar, compare_routers
from riskroute.experiments.backtest.tables import Tables
from riskroute.learning.policies.yardsticks import Oracle
from riskroute.learning.registry import POLICIES, YARDSTICKS
from riskroute.records import record_to_plain
from riskroute.routers.policy_router import PolicyRouter
from riskroute.routers.registry import ROUTERS
from riskroute.simulation.engines import Engine
from riskroute.validation import one_of

ALL = "all"
FITTED = ("static", "static+sweep")
"""Routers whose parameters are chosen on the training days."""

NAMES = (
    *(name for name in ROUTERS if name != PolicyRouter.name),
    CLAIRVOYANT,
    *(name for name in POLICIES if name != Oracle.name),
)
"""Routers that can be asked for; the policy that is told the best split would have to be told."""


@dataclass(frozen=True, eq=False)
class BacktestResult:
    """What a backtest found, with all its orders, children and fills."""

    market: str
    days: tuple[MarketDay, ...]
    config: BacktestConfig
    choices: tuple[RouterChoice, ...]
    comparison: Comparison
    tables: Tables

    def to_json(self) -> dict[str, Any]:
        """Plain values: what was asked for, the number of judged orders, and the routers by name."""
        config = record_to_plain(self.config) | {
            "market": self.market,
            "days": [day.name for day in self.days],
            "parameters": {one.label: dict(one.parameters) for one in self.choices if one.parameters},
        }
        found = record_to_plain(self.comparison)
        return {"config": config, **found}

    @property
    def left_out(self) -> int:
        """Orders that met no two-sided market at any venue, and were not played."""
        one = self.choices[0].label
        played = self.tables.orders.filter((polars.col("router") == one) & (polars.col("seed") == self.config.seed))
        return len(self.days) * self.config.orders - played.height

    @property
    def verdict(self) -> str:
        """Which router to use, in words."""
        return verdict(self.comparison)


def router_names(asked: Sequence[str], *, pools: bool, horizon: float, train: int | None = None) -> list[str]:
    """Return the routers to be played: those asked for and the bar, or all that need no learning if none is.

    Without training days, those that are chosen on them are left out unless they are asked for.

    Examples
    --------
    >>> router_names(["spray"], pools=True, horizon=0.0)
    ['sweep', 'dark-first+sweep', 'spray']
    """
    simple = [*DEFAULT_ROUTERS, *(DARK_ROUTERS if pools else ())]
    patient = [name for name in PATIENT_ROUTERS if pools or name != "rest-even+sweep"] if horizon > 0 else []
    fitted = FITTED if train != 0 else ()
    if list(asked) == [ALL]:
        known = [name for name in ROUTERS if name not in (*simple, *patient, *FITTED, PolicyRouter.name)]
        learning = [name for name in POLICIES if name not in YARDSTICKS]
        return [*simple, *patient, *fitted, *known, *learning, CLAIRVOYANT]
    if not asked:
        return [*simple, *patient, *fitted, CLAIRVOYANT]
    bars = ["sweep", *(DARK_ROUTERS if pools else ()), *patient]
    return list(dict.fromkeys([*bars, *(one_of("router", name, NAMES) for name in asked)]))


def run_backtest(
    market: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    engine: Engine | None = None,
    cache: TableCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
    planned: Callable[[int], None] | None = None,
    choices: Sequence[RouterChoice] | None = None,
) -> BacktestResult:
    """Play routers on the days of a market and compare what their orders cost.

    Parameters
    ----------
    market : str
        Its name, for the record.
    days : Sequence[MarketDay]
        Its days, as `market_days` gives them.
    cache : TableCache, optional
        What was played before is not played again.
    finished : Callable, optional
        Called with every task that is done.
    planned : Callable, optional
        Called with the number of tasks before the first of them.
    choices : Sequence[RouterChoice], optional
        Routers with their parameters; those that the configuration names, fitted where they must be, if None.
    """
    if not days:
        raise InputError("days must hold at least one day, was empty")
    _check_training(days, config)
    pools = bool(days[0].pools)
    if choices is None:
        names = router_names(config.routers, pools=pools, horizon=config.horizon, train=config.train)
        choices = [_choice(name, days, config, engine, cache) for name in names]
    if planned is not None:
        planned(len(play_tasks(choices, days, config)))
    tables = play_routers(choices, days, config, engine=engine, cache=cache, finished=finished)
    played = tables.orders["router"].unique(maintain_order=True).to_list()
    bar = choose_bar(tables.orders, played, pools=pools, horizon=config.horizon, kappa=config.kappa)
    feedback = {choice.label: choice.make().feedback for choice in choices}
    impact = config.stress.impact
    found = compare_routers(tables, bar, feedback, kappa=config.kappa, impact=impact, seed=config.seed)
    return BacktestResult(market, tuple(days), config, tuple(choices), found, tables)


def _check_training(days: Sequence[MarketDay], config: BacktestConfig) -> None:
    """Refuse to train on all days: the last one is for judging; the only one may be divided."""
    counts = Counter(day.symbol for day in days)
    most = max(max(counts.values()) - 1, 1)
    if config.train is not None and config.train > most:
        raise InputError(f"train must be at most {most}, which leaves days to judge, was {config.train}")


def _choice(
    name: str, days: Sequence[MarketDay], config: BacktestConfig, engine: Engine | None, cache: TableCache | None
) -> RouterChoice:
    if name == "static":
        return fit_static(days, config)
    if name == "static+sweep":
        return fit_static_sweep(days, config, engine=engine, cache=cache)
    return RouterChoice(name, name)


def verdict(found: Comparison) -> str:
    """Return which router to use and what it saves, in words; the bar if nothing clearly beats it."""
    bar = found.routers[found.bar]
    others = {name: one for name, one in found.routers.items() if name not in (found.bar, CLAIRVOYANT)}
    clear = {
        name: one
        for name, one in others.items()
        if one.paired is not None and one.paired.high is not None and one.paired.high < 0
    }
    better = {name: one for name, one in clear.items() if one.objective_bps < bar.objective_bps}
    if better and (found.p_value is None or found.p_value < 0.05):
        best = min(better, key=lambda name: better[name].objective_bps)
        pair = better[best].paired
        low, high = (-pair.high, -pair.low) if pair and pair.low is not None and pair.high is not None else (0.0, 0.0)
        saved = -pair.difference_bps if pair else 0.0
        tested = f", p = {found.p_value:.3f} for the best of {len(others)}" if found.p_value is not None else ""
        text = f"Use {best}: it saves {saved:.2f} bps an order against {found.bar} ({low:.2f} to {high:.2f}{tested})."
    elif not others:
        text = f"Use {found.bar}: no other router was played."
    else:
        none = f"none of the {len(others)} others beats" if len(others) > 1 else f"{next(iter(others))} does not beat"
        text = f"Use {found.bar}: {none} it clearly."
    if CLAIRVOYANT in found.routers:
        room = bar.cost_bps - found.routers[CLAIRVOYANT].cost_bps
        text += f" Knowing everything would save {room:.2f} bps against {found.bar}."
    return text
