"""What the contextual router is measured against: itself in hindsight, and the best fixed plan of its own kind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.routers.context import Context
from riskroute.routers.contextual.router import Contextual, ContextualGreedy
from riskroute.routers.contextual.wait_or_trade import UnitPlan, WaitOrTrade, _PoolSequence
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.router import PublicData, Router
from riskroute.simulation.backtest import play_day
from riskroute.study.backtest import BacktestResult
from riskroute.study.candidates import Candidate
from riskroute.study.comparison import block_numbers, costs_in_bps
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import play_tasks, trading_day
from riskroute.study.statistics import Difference, bootstrap_difference

SHORTFALL = 0.05


class Frozen(Contextual):
    """A contextual router with a fixed posterior: it neither explores nor learns."""

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        self.pending.pop(order, None)

    def on_public_data(self, public: PublicData) -> None:
        """Learn nothing."""

    def _update_tail_guard(self, problem: Any, chosen: UnitPlan) -> None:
        """Leave the multiplier unchanged."""


def hindsight(days: Sequence[MarketDay], config: BacktestConfig, **parameters: Any) -> Candidate:
    """Return the router that has learned on the days that it is judged on, and learns no more."""
    router = Contextual(kappa=config.kappa, seed=config.seed, **parameters)
    for task in play_tasks([Candidate("learning", Contextual.name, begins_as=router)], days, config):
        task.play(router)
    known = Frozen.restore({**router.state(), "done": [], "under_way": {}})
    known.budget = 0.0
    return Candidate("in hindsight", Contextual.name, begins_as=known)


@dataclass
class FixedPlan(Router):
    """The same plan for every order, whatever the books show: fractions posted and rested, pools tried before or not.

    Parameters
    ----------
    limit, rest : dict[str, float]
        Fractions of an order, by venue and by pool.
    pools : list[str]
        Pools that are tried in turn.
    before : bool
        Whether they are tried with the whole order.
    """

    name: ClassVar[str] = "fixed plan"
    limit: dict[str, float] = field(default_factory=dict)
    rest: dict[str, float] = field(default_factory=dict)
    pools: list[str] = field(default_factory=list)
    before: bool = False

    def decide(self, context: Context) -> Plan:
        """Send the fractions, as far as venues show a price to join."""
        _, sizes = context.books.side("bid" if context.sign > 0 else "ask")
        there = {name for v, name in enumerate(context.books.venues) if sizes[v, 0] > 0}
        limit = {name: round(part * context.shares) for name, part in self.limit.items() if name in there}
        rest = {name: round(part * context.shares) for name, part in self.rest.items()}
        now = context.shares - sum(limit.values()) - sum(rest.values())
        pools = self.pools if now > 0 or self.before else []
        sent = {"limit": limit, "dark_rest": rest, "dark": dict.fromkeys(pools, context.shares)}
        return Plan(context.order, in_turn=True, before=self.before and bool(pools), **sent)  # type: ignore[arg-type]


class _Averaging(ContextualGreedy):
    """A contextual router that keeps its tables by place, in basis points."""

    def begin(self) -> None:
        super().begin()
        self.sums: dict[tuple[str, str], list[Floats]] = {}
        self.sweeps: list[Floats] = []
        self.sequences: list[_PoolSequence] = []
        self.common: list[float] = []
        self.shares: Floats = np.zeros(0)

    def choose(self, problem: Any, price: float) -> tuple[UnitPlan, tuple[str, ...]]:
        mean = problem.mean
        for place, cost, variance in zip(problem.places, mean.cost, mean.variance, strict=True):
            self.sums.setdefault(place, []).append(np.stack([cost * problem.per_bp, variance * problem.per_bp**2]))
        self.sweeps.append(mean.sweep * problem.per_bp)
        self.common.append(mean.common * problem.per_bp**2)
        pools = mean.sequence
        self.sequences.append(_PoolSequence(pools.pools, pools.fills, pools.empty, pools.price * problem.per_bp))
        self.shares = mean.shares
        return super().choose(problem, price)


def best_fixed_plan(days: Sequence[MarketDay], config: BacktestConfig) -> Candidate:
    """Return the fixed plan that is best on the mean tables of some days, of all that the router may send."""
    router = _Averaging(kappa=config.kappa, guard_tails=False)
    for day in days:
        play_day(router, trading_day(day, config), seed=config.seed)
    half = len(router.sweeps) // 2  # what was believed before is not what is known now
    names = [place for place, seen in router.sums.items() if len(seen) > half]
    means = [np.mean(router.sums[place][-half or None :], axis=0) for place in names]
    last = router.sequences[-1]
    cost, variance = (np.ascontiguousarray(table) for table in np.stack(means).transpose(1, 0, 2))
    sweep, common = np.mean(router.sweeps[half:], axis=0), float(np.mean(router.common[half:]))
    plan = WaitOrTrade(router.shares, sweep, cost, variance, common, last).best_plan(config.kappa)
    total = float(router.shares[-1])
    parts = {place: float(router.shares[n]) / total for place, n in zip(names, plan.units.tolist(), strict=True) if n}
    held = {kind: {name: part for (k, name), part in parts.items() if k == kind} for kind in ("limit", "dark_rest")}
    fixed = FixedPlan(held["limit"], held["dark_rest"], list(last.pools), plan.before)
    return Candidate(FixedPlan.name, FixedPlan.name, begins_as=fixed)


def tail_difference(found: BacktestResult, name: str, other: str, rng: np.random.Generator) -> Difference:
    """Expected shortfall of a router less that of another, with an interval over blocks of paired orders."""
    orders = costs_in_bps(found.tables.orders.filter(found.tables.orders["judged"]))
    key = ["symbol", "day", "number", "seed"]
    one, two = (orders.filter(orders["router"] == label).sort(key) for label in (name, other))
    parts = []
    for table in (one, two):
        costs = table["cost_bps"].to_numpy()
        level = float(np.quantile(costs, 1 - SHORTFALL))
        parts.append(level + np.maximum(costs - level, 0.0) / SHORTFALL)
    return bootstrap_difference(parts[0] - parts[1], block_numbers(one), rng)


def decision_times(day: MarketDay, config: BacktestConfig, rounds: int) -> tuple[Floats, Floats]:
    """Microseconds of processor and of wall-clock time of decisions, in calls; learning goes on between them."""
    seen: list[Context] = []

    class Recorder(Contextual):
        def decide(self, context: Context) -> Plan:
            seen.append(context)
            return super().decide(context)

    router = Recorder(kappa=config.kappa)
    play_day(router, trading_day(day, config), seed=config.seed)
    contexts, used, passed = list(seen), [], []
    for again in range(rounds):
        for old in contexts:
            fields = {name: getattr(old, name) for name in old.__dataclass_fields__ if name not in ("order", "books")}
            books = type(old.books)(**{name: getattr(old.books, name) for name in old.books.__dataclass_fields__})
            context = Context(order=f"{old.order} {again}", books=books, **fields)
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            plan = router.route(context)
            used.append((time.thread_time_ns() - cpu) / 1e3)
            passed.append((time.perf_counter_ns() - wall) / 1e3)
            children = tuple(
                ChildReport(k, "dark", pool, context.shares, context.shares // 2, context.mid, 0.0, 0, 1)
                for k, pool in enumerate(plan.dark)
            )
            router.learn(Report(context.order, children, complete=True, profit=0.0))
    return np.array(used), np.array(passed)
