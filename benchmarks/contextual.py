"""The contextual router against simple rules: patient and urgent orders, other markets, harder worlds, and its speed.

Days are not those that it was tuned on. The rule to beat is the best of the simple ones on the training days. A folder
of recordings that the environment variable ``RISKROUTE_TAPE`` names is judged too.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars

from contextual_yardsticks import best_fixed_plan, decision_times, hindsight, tail_difference
from riskroute.core.text import TextTable
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.candidates import named_candidate
from riskroute.study.comparison import RouterResult, compare_routers, objective_bps
from riskroute.study.config import BacktestConfig, Stress
from riskroute.study.markets import MarketDay, market_days
from riskroute.study.play import PLACEBOS, TableCache, play_routers
from timing import leave, print_heading, progress, say, sized, verdict

TAPE = os.environ.get("RISKROUTE_TAPE")
DAYS, TRAIN, ORDERS = sized((30, 10, 100), (2, 1, 4))
HOURS = sized(None, (dt.time(11), dt.time(11, 5)))
SIZES, WAITS, KAPPAS = sized(((100, 1000), (10.0, 60.0, 300.0), (0.0, 0.01, 0.05)), ((100,), (10.0,), (0.05,)))
OURS, FREE = "contextual", "contextual:guard_tails=false"
FIXED, KNOWING = "static+sweep", "clairvoyant"
WORTH, MOST_WORSE, MOST_LEARNING, LEAST_CLOSED = 0.1, 0.1, 0.2, 0.5
MOST_MEDIAN, MOST_LATE = 300, 1000
"""Microseconds that a decision may take: at the median, and at the 99th percentile."""

WORLDS = {
    "10 ms to venues": {"latency_ms": 10.0},
    "pools half as often": {"stress": Stress(presence=0.5)},
    "twice the adverse selection": {"stress": Stress(adverse=2.0)},
}


def main() -> None:
    """Print one table per question."""
    print_heading("The contextual router", ["riskroute", "numpy", "numba", "polars"])
    checks: list[bool] = []
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("RISKROUTE_KEPT", folder))
        cache, backend = TableCache(kept / "played"), Backend("local", sized(None, 1))
        days = market_days("dark", days=DAYS, hours=HOURS, kept=kept, backend=backend)
        checks += _speed(days[0])
        checks += _patient(days, cache, backend)
        checks += _elsewhere(kept, cache, backend)
        checks += _harder(days, cache, backend)
        checks += _placebos(days, cache, backend)
    leave([], checks)


def _speed(day: MarketDay) -> list[bool]:
    """Decisions over eight places and 100 lots, on a busy machine: processor time, and what the clock says."""
    used, passed = decision_times(day, _config(1000, 60.0, 0.05), rounds=sized(10, 1))
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
    market: str, days: Sequence[MarketDay], config: BacktestConfig, cache: TableCache, backend: Backend
) -> BacktestResult:
    found = run_backtest(market, days, config, backend=backend, cache=cache)
    progress(f"{market} {config.shares[0]} {config.horizon:g} {config.kappa:g}")
    return found


def _config(shares: int, horizon: float, kappa: float, *routers: str) -> BacktestConfig:
    lot = max(shares // 100, 1)
    sized_config = {"shares": (shares,), "lot": lot, "orders": ORDERS, "train": TRAIN}
    return BacktestConfig(**sized_config, horizon=horizon, kappa=kappa, routers=routers)  # type: ignore[arg-type]


def _patient(days: Sequence[MarketDay], cache: TableCache, backend: Backend) -> list[bool]:
    """Orders with time on the market with pools: what is saved, and what it does to the tail."""
    rows, better, safe, riskier, paying, learning, closed = [], 0, 0, 0, 0, [], []
    room, better_with_room = 0, 0
    rng = np.random.default_rng(1)
    for shares in SIZES:
        for horizon in WAITS:
            for kappa in KAPPAS:
                found = _played(
                    "dark", days, _config(shares, horizon, kappa, FIXED, OURS, FREE, KNOWING), cache, backend
                )
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
                bound = _in_hindsight(days, found.config, cache, backend, guard_tails=True)
                if rule.cost_bps - bound.cost_bps >= WORTH:
                    room, better_with_room = room + 1, better_with_room + saves
                known = _in_hindsight(days, found.config, cache, backend, guard_tails=False).objective_bps
                gap = routers[FIXED].objective_bps - known
                if gap >= WORTH:
                    closed.append((routers[FIXED].objective_bps - free.objective_bps) / gap)
                rows.append(
                    [
                        *(
                            f"{shares:,}",
                            f"{horizon:g}",
                            f"{kappa:g}",
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
        "kappa",
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
    say("dark: basis points; ES: expected shortfall (5 %); unguarded: without a limit to tails")
    say(TextTable(header, rows).plain())
    say("")
    most = max(learning, default=0.0)
    said = f"contextual saves, with the interval below zero, in {better} of {paying}"
    say(f"{said}, target all: {verdict(better == paying)}")
    said = f"where it would save {WORTH} bps in hindsight, it saves in {better_with_room} of {room}"
    say(f"{said}, target all: {verdict(better_with_room == room)}")
    say(f"its expected shortfall is no worse in {safe} of {paying}, target all: {verdict(safe == paying)}")
    say(f"it is worse beyond what chance explains in {riskier} of {paying}")
    halved = min(closed, default=1.0) >= LEAST_CLOSED
    said = f"unguarded it closes at least {min(closed, default=1.0):.0%} of the gap from {FIXED} to itself in hindsight"
    say(f"{said}, target {LEAST_CLOSED:.0%}: {verdict(halved)}")
    cheap = most < MOST_LEARNING
    say(f"exploring cost at most {most:.3f} bps on the first day, target {MOST_LEARNING}: {verdict(cheap)}")
    say("")
    return [better == paying, safe == paying, halved, most < MOST_LEARNING]


def _in_hindsight(
    days: Sequence[MarketDay], config: BacktestConfig, cache: TableCache, backend: Backend, *, guard_tails: bool
) -> RouterResult:
    """Return what the router comes to that has learned on the judged days before, and learns no more."""
    judged = list(days[TRAIN:])
    known = hindsight(judged, config, guard_tails=guard_tails)
    config = dataclasses.replace(config, train=0, routers=())
    tables = play_routers([known], judged, config, backend=backend, cache=cache)
    return compare_routers(tables, known.label, {}, kappa=config.kappa, seed=config.seed).routers[known.label]


def _first_day(found: BacktestResult) -> float:
    """Basis points that orders of the first day cost more than with the plans that seemed best."""
    orders = found.tables.orders.filter((polars.col("router") == OURS) & (polars.col("day") == str(found.days[0].date)))
    spent = orders.select((1e4 * polars.col("exploration") / (polars.col("shares") * polars.col("mid"))).mean()).item()
    return float(spent or 0.0)


def _elsewhere(kept: Path, cache: TableCache, backend: Backend) -> list[bool]:
    """Urgent orders, a market without pools, and a tape: where it must not be worse."""
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
                config = _config(shares, horizon, 0.05, OURS)
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
    say(f"elsewhere it is worse by {worst:.3f} bps at most, target {MOST_WORSE}: {verdict(holds)}")
    say("")
    return [holds]


def _harder(days: Sequence[MarketDay], cache: TableCache, backend: Backend) -> list[bool]:
    """Whether the gain survives a harder world."""
    rows, survives = [], True
    usual = _config(SIZES[-1], WAITS[len(WAITS) // 2], 0.05, OURS)
    for name, harder in WORLDS.items():
        found = _played("dark", days, dataclasses.replace(usual, **harder), cache, backend)  # type: ignore[arg-type]
        pair = found.comparison.routers[OURS].paired
        if pair is not None:
            rows.append([name, found.comparison.bar, f"{pair.difference_bps:+.2f}", f"{pair.low} to {pair.high}"])
            survives &= pair.high is not None and pair.high < 0
            if pair.low is not None and pair.high is not None:
                rows[-1][-1] = f"{pair.low:+.2f} to {pair.high:+.2f}"
    say(f"dark, {usual.shares[0]:,} shares, {usual.horizon:g} s, kappa {usual.kappa:g}, in harder worlds")
    say(TextTable(["world", "rule", "difference", "95 % interval"], rows).plain())
    say("")
    say(f"the gain survives all of them: {verdict(survives)}")
    return [survives]


def _placebos(days: Sequence[MarketDay], cache: TableCache, backend: Backend) -> list[bool]:
    """Books of another moment must not help: else something that only the future knows would have leaked."""
    config = _config(SIZES[-1], WAITS[len(WAITS) // 2], 0.05, FIXED, OURS, FREE, KNOWING)
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
        objectives[label] = objective_bps(shown.orders.filter(polars.col("judged")), config.kappa)
    say(f"dark, {config.shares[0]:,} shares, {config.horizon:g} s, kappa {config.kappa:g}, shown the wrong books")
    say(TextTable(["router", "objective"], [[name, f"{value:.3f}"] for name, value in objectives.items()]).plain())
    say("")
    wrong = {name: min(objectives[f"{name}, {placebo} books"] for placebo in PLACEBOS) for name in (OURS, FREE)}
    holds = wrong[OURS] >= objectives[FIXED] and objectives[KNOWING] < objectives[OURS]
    say(f"the wrong books cost at least as much as {FIXED}, and knowing the future wins: {verdict(holds)}")
    own = wrong[FREE] >= objectives[fixed.label]
    say(f"unguarded they cost at least as much as the best {fixed.label} of the same kind: {verdict(own)}")
    return [holds, own]


if __name__ == "__main__":
    main()
