"""The contextual router against simple rules: patient and urgent orders, other markets, stresses, and its speed.

The contextual router was tuned on other days. The benchmark rule is the best simple rule on the training days.
Recordings are evaluated too, if the environment variable ``RISKROUTE_TAPE`` names their folder.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars

from riskroute.core.arrays import Floats
from riskroute.core.text import TextTable
from riskroute.routers.context import Context
from riskroute.routers.contextual.router import Contextual, ContextualGreedy
from riskroute.routers.contextual.wait_or_trade import WaitOrTrade, WaitOrTradePlan, _PingedPools
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.risk import BALANCED, CAUTIOUS, RiskProfile
from riskroute.routers.router import Router
from riskroute.simulation.backends import Backend
from riskroute.simulation.play_day import play_day
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.candidates import Candidate, named_candidate
from riskroute.study.config import BacktestConfig, StressConfig
from riskroute.study.costs import objective_cost, order_costs_bps
from riskroute.study.markets import MarketDay, market_days
from riskroute.study.play import PLACEBOS, PlayCache, day_to_play, play_routers, play_tasks
from riskroute.study.router_comparison import _RouterResult, compare_routers
from riskroute.study.statistics import BootstrapDifference, bootstrap_difference, resampling_units
from timing import leave, print_heading, progress, say, sized, verdict

SHORTFALL = 0.05


class Frozen(Contextual):
    """A contextual router with a fixed posterior: it neither explores nor learns."""

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        self.pending.pop(order, None)

    def on_public_data(self, public: PublicData) -> None:
        """Learn nothing."""

    def _update_tail_guard(self, problem: Any, chosen: WaitOrTradePlan) -> None:
        """Leave the multiplier unchanged."""


def hindsight(days: Sequence[MarketDay], config: BacktestConfig, risk: RiskProfile) -> Candidate:
    """Return the router after learning on the test days, with its posterior frozen."""
    router = Contextual(risk=risk, seed=config.seed)
    alone = dataclasses.replace(config, seeds=1)
    for task in play_tasks([Candidate("learning", Contextual.name, begins_as=router)], days, alone):
        task.play([router])
    known = Frozen.restore({**router.state(), "done": [], "under_way": {}})
    known.budget = 0.0
    return Candidate("in hindsight", Contextual.name, begins_as=known)


@dataclass
class FixedPlan(Router):
    """Split every order by the same fractions, regardless of the books.

    Parameters
    ----------
    limit, rest : dict[str, float]
        Fractions of an order, by venue and by pool.
    pools : list[str]
        Pools to try in turn.
    before : bool
        Whether the whole order is first sent to the pools.
    """

    name: ClassVar[str] = "fixed plan"
    limit: dict[str, float] = field(default_factory=dict)
    rest: dict[str, float] = field(default_factory=dict)
    pools: list[str] = field(default_factory=list)
    before: bool = False

    def decide(self, context: Context) -> Plan:
        """Send the fractions to venues that show a price to join."""
        _, sizes = context.books.side("bid" if context.sign > 0 else "ask")
        there = {name for v, name in enumerate(context.books.venues) if sizes[v, 0] > 0}
        limit = {name: round(part * context.shares) for name, part in self.limit.items() if name in there}
        rest = {name: round(part * context.shares) for name, part in self.rest.items()}
        now = context.shares - sum(limit.values()) - sum(rest.values())
        pools = self.pools if now > 0 or self.before else []
        sent = {"limit": limit, "dark_rest": rest, "dark": dict.fromkeys(pools, context.shares)}
        return Plan(context.order, in_turn=True, before=self.before and bool(pools), **sent)  # type: ignore[arg-type]


class _Averaging(ContextualGreedy):
    """A contextual router that records the cost tables of every place, in basis points."""

    def begin(self) -> None:
        super().begin()
        self.sums: dict[tuple[str, str], list[Floats]] = {}
        self.sweeps: list[Floats] = []
        self.pinged: list[_PingedPools] = []
        self.pools: tuple[str, ...] = ()
        self.common: list[float] = []
        self.shares: Floats = np.zeros(0)

    def choose(self, problem: Any, price: float) -> tuple[WaitOrTradePlan, tuple[str, ...]]:
        mean = problem.mean
        for place, cost, variance in zip(problem.places, mean.cost, mean.variance, strict=True):
            self.sums.setdefault(place, []).append(np.stack([cost * problem.per_bp, variance * problem.per_bp**2]))
        self.sweeps.append(mean.sweep * problem.per_bp)
        self.common.append(mean.common * problem.per_bp**2)
        self.pinged.append(mean.pools._replace(price=mean.pools.price * problem.per_bp))
        self.pools = problem.pinged
        self.shares = mean.shares
        return super().choose(problem, price)


def best_fixed_plan(days: Sequence[MarketDay], config: BacktestConfig) -> Candidate:
    """Return the plan with the lowest objective under the mean cost tables of some days, as fixed fractions."""
    router = _Averaging(risk=config.risk)
    for day in days:
        play_day(router, day_to_play(day, config), seed=config.seed)
    half = len(router.sweeps) // 2  # skip the first half: the router was still learning
    names = [place for place, seen in router.sums.items() if len(seen) > half]
    means = [np.mean(router.sums[place][-half or None :], axis=0) for place in names]
    last = router.pinged[-1]
    cost, variance = (np.ascontiguousarray(table) for table in np.stack(means).transpose(1, 0, 2))
    sweep, common = np.mean(router.sweeps[half:], axis=0), float(np.mean(router.common[half:]))
    plan = WaitOrTrade(router.shares, sweep, cost, variance, common, last).best_plan(config.risk.kappa)
    total = float(router.shares[-1])
    parts = {place: float(router.shares[n]) / total for place, n in zip(names, plan.units.tolist(), strict=True) if n}
    held = {kind: {name: part for (k, name), part in parts.items() if k == kind} for kind in ("limit", "dark_rest")}
    fixed = FixedPlan(held["limit"], held["dark_rest"], list(router.pools), plan.before)
    return Candidate(FixedPlan.name, FixedPlan.name, begins_as=fixed)


def tail_difference(found: BacktestResult, name: str, other: str, rng: np.random.Generator) -> BootstrapDifference:
    """Return the difference of two routers' expected shortfall, with an interval over blocks of paired orders."""
    orders = order_costs_bps(found.tables.orders.filter(found.tables.orders["judged"]))
    key = ["symbol", "day", "number", "seed"]
    one, two = (orders.filter(orders["router"] == label).sort(key) for label in (name, other))
    parts = []
    for table in (one, two):
        costs = table["cost_bps"].to_numpy()
        level = float(np.quantile(costs, 1 - SHORTFALL))
        parts.append(level + np.maximum(costs - level, 0.0) / SHORTFALL)
    units, unit = resampling_units(one)
    return bootstrap_difference(parts[0] - parts[1], units, rng, unit=unit)


def decision_times(day: MarketDay, config: BacktestConfig, rounds: int) -> tuple[Floats, Floats]:
    """Return CPU and wall-clock microseconds of each decision; the router learns between decisions."""
    seen: list[Context] = []

    class Recorder(Contextual):
        def decide(self, context: Context) -> Plan:
            seen.append(context)
            return super().decide(context)

    router = Recorder(risk=CAUTIOUS)
    play_day(router, day_to_play(day, config), seed=config.seed)
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


TAPE = os.environ.get("RISKROUTE_TAPE")
DAYS, TRAIN, ORDERS = sized((30, 10, 100), (2, 1, 4))
HOURS = sized(None, (dt.time(11), dt.time(11, 5)))
SIZES, WAITS = sized(((100, 1000), (10.0, 60.0, 300.0)), ((100,), (10.0,)))
OURS, FREE = "contextual:risk=cautious", "contextual"
FIXED, KNOWING = "static+sweep", "clairvoyant"
WORTH, MOST_WORSE, MOST_LEARNING, LEAST_CLOSED = 0.1, 0.1, 0.2, 0.5
MOST_MEDIAN, MOST_LATE = 300, 1000
"""Microseconds that a decision may take: at the median, and at the 99th percentile."""

WORLDS = {
    "10 ms to venues": {"latency_ms": 10.0},
    "pools half as often": {"stress": StressConfig(presence=0.5)},
    "twice the adverse selection": {"stress": StressConfig(adverse=2.0)},
}


def main() -> None:
    """Print one table per question."""
    print_heading("The contextual router", ["riskroute", "numpy", "numba", "polars"])
    checks: list[bool] = []
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("RISKROUTE_KEPT", folder))
        cache, backend = PlayCache(kept / "played"), Backend("local", sized(None, 1))
        days = market_days("dark", days=DAYS, hours=HOURS, kept=kept, backend=backend)
        checks += _speed(days[0])
        checks += _patient(days, cache, backend)
        checks += _elsewhere(kept, cache, backend)
        checks += _harder(days, cache, backend)
        checks += _placebos(days, cache, backend)
    leave([], checks)


def _speed(day: MarketDay) -> list[bool]:
    """Measure CPU and wall-clock time of decisions over eight places and 100 lots; return which targets hold."""
    used, passed = decision_times(day, _config(1000, 60.0), rounds=sized(10, 1))
    rows = [
        [name, f"{np.median(times):.0f}", f"{np.quantile(times, 0.99):.0f}"]
        for name, times in (("processor", used), ("clock", passed))
    ]
    say("decisions, 1,000 shares in lots of 10, five venues and three pools: microseconds")
    say(TextTable(["time", "median", "99 %"], rows).plain())
    say("")
    holds = [float(np.median(used)) <= MOST_MEDIAN, float(np.quantile(used, 0.99)) <= MOST_LATE]
    say(f"the median is at most {MOST_MEDIAN}: {verdict(holds[0])}; 99 % are at most {MOST_LATE}: {verdict(holds[1])}")
    say("")
    return holds


def _played(
    market: str, days: Sequence[MarketDay], config: BacktestConfig, cache: PlayCache, backend: Backend
) -> BacktestResult:
    found = run_backtest(market, days, config, backend=backend, cache=cache)
    progress(f"{market} {config.quantities[0]} {config.horizon:g}")
    return found


def _config(shares: int, horizon: float, *routers: str) -> BacktestConfig:
    lot = max(shares // 100, 1)
    sized_config = {"quantities": (shares,), "lot": lot, "orders": ORDERS, "train": TRAIN}
    return BacktestConfig(**sized_config, horizon=horizon, routers=routers)  # type: ignore[arg-type]


def _patient(days: Sequence[MarketDay], cache: PlayCache, backend: Backend) -> list[bool]:
    """Print the saving and the tail of orders with a deadline on the market with pools; return which targets hold."""
    rows, better, safe, riskier, paying, learning, closed = [], 0, 0, 0, 0, [], []
    room, better_with_room = 0, 0
    rng = np.random.default_rng(1)
    for shares in SIZES:
        for horizon in WAITS:
            found = _played("dark", days, _config(shares, horizon, FIXED, OURS, FREE, KNOWING), cache, backend)
            routers, bar = found.comparison.routers, found.comparison.bar
            ours, free, rule = routers[OURS], routers[FREE], routers[bar]
            if routers[FIXED].objective_bps - routers[KNOWING].objective_bps < WORTH or ours.paired is None:
                continue
            paying += 1
            pair = ours.paired
            saves = pair.high is not None and pair.high < 0
            better += saves
            safe += ours.es95_bps <= rule.es95_bps
            learning.append(_first_day(found))
            tail = tail_difference(found, OURS, bar, rng)
            riskier += tail.low > 0
            bound = _in_hindsight(days, found.config, cache, backend, risk=CAUTIOUS)
            if rule.cost_bps - bound.cost_bps >= WORTH:
                room, better_with_room = room + 1, better_with_room + saves
            known = _in_hindsight(days, found.config, cache, backend, risk=BALANCED).objective_bps
            gap = routers[FIXED].objective_bps - known
            if gap >= WORTH:
                closed.append((routers[FIXED].objective_bps - free.objective_bps) / gap)
            rows.append(
                [
                    *(
                        f"{shares:,}",
                        f"{horizon:g}",
                        bar,
                        f"{rule.cost_bps:.2f}",
                        f"{ours.cost_bps:.2f}",
                    ),
                    f"{pair.difference_bps:+.2f}",
                    "-" if pair.low is None else f"{pair.low:+.2f} to {pair.high:+.2f}",
                    *(f"{rule.es95_bps:.1f}", f"{ours.es95_bps:.1f}", f"{tail.low:+.1f} to {tail.high:+.1f}"),
                    *(f"{bound.cost_bps:.2f}", f"{bound.es95_bps:.1f}"),
                    *(
                        f"{rule.objective_bps:.2f}",
                        f"{ours.objective_bps:.2f}",
                        f"{routers[FIXED].objective_bps:.2f}",
                    ),
                    *(f"{free.cost_bps:.2f}", f"{free.es95_bps:.1f}", f"{free.objective_bps:.2f}"),
                    *(f"{known:.2f}", f"{closed[-1]:.0%}" if gap >= WORTH else "-"),
                    f"{routers[KNOWING].cost_bps:.2f}",
                ]
            )
    header = [
        "shares",
        "seconds",
        "rule",
        "its cost",
        "ours",
        "difference",
        "95 % interval",
        "its ES",
        "our ES",
        "difference",
    ]
    header += [
        "in hindsight: cost",
        "ES",
        "its objective",
        "ours",
        FIXED,
        "unguarded: cost",
        "ES",
        "objective",
        "in hindsight",
        "gap closed",
    ]
    header += [KNOWING]
    say("dark: basis points; ES: expected shortfall (5 %); unguarded: without the tail guard")
    say(TextTable(header, rows).plain())
    say("")
    most = max(learning, default=0.0)
    said = f"contextual costs less than the rule, with the interval below zero, in {better} of {paying} settings"
    say(f"{said}, target all: {verdict(better == paying)}")
    said = f"of the settings in which it would save {WORTH} bps in hindsight, it saves in {better_with_room} of {room}"
    say(f"{said}, target all: {verdict(better_with_room == room)}")
    said = f"its expected shortfall is no worse than the rule's in {safe} of {paying}"
    say(f"{said}, target all: {verdict(safe == paying)}")
    say(f"its expected shortfall is significantly worse than the rule's in {riskier} of {paying}")
    halved = min(closed, default=1.0) >= LEAST_CLOSED
    said = f"unguarded it closes at least {min(closed, default=1.0):.0%} of the gap between {FIXED} and itself"
    say(f"{said} in hindsight, target {LEAST_CLOSED:.0%}: {verdict(halved)}")
    cheap = most < MOST_LEARNING
    say(f"exploration costs at most {most:.3f} bps on the first day, target {MOST_LEARNING}: {verdict(cheap)}")
    say("")
    return [better == paying, safe == paying, halved, most < MOST_LEARNING]


def _in_hindsight(
    days: Sequence[MarketDay], config: BacktestConfig, cache: PlayCache, backend: Backend, *, risk: RiskProfile
) -> _RouterResult:
    """Return the result of a frozen router that learned on the test days."""
    judged = list(days[TRAIN:])
    known = hindsight(judged, config, risk)
    config = dataclasses.replace(config, train=0, routers=())
    tables = play_routers([known], judged, config, backend=backend, cache=cache)
    return compare_routers(tables, known.label, {}, risk=config.risk, seed=config.seed).routers[known.label]


def _first_day(found: BacktestResult) -> float:
    """Return the mean exploration cost per order on the first day, in basis points."""
    orders = found.tables.orders.filter((polars.col("router") == OURS) & (polars.col("day") == str(found.days[0].date)))
    spent = orders.select(
        (1e4 * polars.col("exploration") / (polars.col("quantity") * polars.col("mid"))).mean()
    ).item()
    return float(spent or 0.0)


def _elsewhere(kept: Path, cache: PlayCache, backend: Backend) -> list[bool]:
    """Check the excess cost over the rule on urgent orders, without pools and on recordings; return the verdicts."""
    rows, worst = [], -1.0
    places = [
        ("dark", (0.0,)),
        ("comparable", sized((0.0, 10.0, 60.0), (0.0,))),
        *([(TAPE, (0.0, 60.0))] if TAPE else []),
    ]
    for market, horizons in places:
        days = market_days(market, days=DAYS if market != TAPE else None, hours=HOURS, kept=kept, backend=backend)
        for shares in SIZES:
            for horizon in horizons:
                config = _config(shares, horizon, OURS)
                if market == TAPE:
                    config = dataclasses.replace(config, train=None)
                found = _played(Path(market).name, days, config, cache, backend)
                ours, rule = found.comparison.routers[OURS], found.comparison.routers[found.comparison.bar]
                worst = max(worst, ours.cost_bps - rule.cost_bps)
                name = "the tape" if market == TAPE else market
                rows.append(
                    [
                        name,
                        f"{shares:,}",
                        f"{horizon:g}",
                        found.comparison.bar,
                        f"{rule.cost_bps:.3f}",
                        f"{ours.cost_bps:.3f}",
                    ]
                )
    say(TextTable(["market", "shares", "seconds", "rule", "its cost", "ours"], rows).plain())
    say("")
    holds = worst <= MOST_WORSE
    said = f"on these markets contextual costs at most {worst:.3f} bps more than the rule"
    say(f"{said}, target {MOST_WORSE}: {verdict(holds)}")
    say("")
    return [holds]


def _harder(days: Sequence[MarketDay], cache: PlayCache, backend: Backend) -> list[bool]:
    """Check that the saving is significant under every stress; return the verdict in a list."""
    rows, survives = [], True
    usual = _config(SIZES[-1], WAITS[len(WAITS) // 2], OURS)
    for name, harder in WORLDS.items():
        found = _played("dark", days, dataclasses.replace(usual, **harder), cache, backend)  # type: ignore[arg-type]
        pair = found.comparison.routers[OURS].paired
        if pair is not None:
            rows.append([name, found.comparison.bar, f"{pair.difference_bps:+.2f}", f"{pair.low} to {pair.high}"])
            survives &= pair.high is not None and pair.high < 0
            if pair.low is not None and pair.high is not None:
                rows[-1][-1] = f"{pair.low:+.2f} to {pair.high:+.2f}"
    say(f"dark, {usual.quantities[0]:,} shares, {usual.horizon:g} s, under stress")
    say(TextTable(["stress", "rule", "difference", "95 % interval"], rows).plain())
    say("")
    say(f"contextual saves significantly under every stress: {verdict(survives)}")
    return [survives]


def _placebos(days: Sequence[MarketDay], cache: PlayCache, backend: Backend) -> list[bool]:
    """Check that books from another time do not lower the objective, which would reveal a look-ahead leak."""
    config = _config(SIZES[-1], WAITS[len(WAITS) // 2], FIXED, OURS, FREE, KNOWING)
    found = _played("dark", days, config, cache, backend)
    objectives = {name: found.comparison.routers[name].objective_bps for name in (OURS, FREE, FIXED, KNOWING)}
    fixed = best_fixed_plan(days[:TRAIN], config)
    for label, candidate, placebo in [
        (fixed.label, fixed, ""),
        *(
            (f"{name}, {placebo} books", named_candidate(name), placebo)
            for name in (OURS, FREE)
            for placebo in PLACEBOS
        ),
    ]:
        shown = play_routers([candidate], days, config, backend=backend, cache=cache, placebo=placebo)
        objectives[label] = objective_cost(shown.orders.filter(polars.col("judged")), config.risk.kappa)
    say(f"dark, {config.quantities[0]:,} shares, {config.horizon:g} s, with the wrong books")
    say(TextTable(["router", "objective"], [[name, f"{value:.3f}"] for name, value in objectives.items()]).plain())
    say("")
    wrong = {name: min(objectives[f"{name}, {placebo} books"] for placebo in PLACEBOS) for name in (OURS, FREE)}
    holds = wrong[OURS] >= objectives[FIXED] and objectives[KNOWING] < objectives[OURS]
    said = f"contextual with the wrong books costs at least as much as {FIXED}"
    say(f"{said}, and with the right ones more than {KNOWING}: {verdict(holds)}")
    own = wrong[FREE] >= objectives[fixed.label]
    said = f"unguarded, with the wrong books, it costs at least as much as the best {fixed.label} of the same kind"
    say(f"{said}: {verdict(own)}")
    return [holds, own]


if __name__ == "__main__":
    main()
