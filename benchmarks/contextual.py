"""The contextual router against every router that comes near it, by market, size, deadline and risk profile; its speed.

All routers play the same orders: they learn, and ``static+sweep`` is fitted, on the first days, and the others are
judged. A cell is won if no other router has a lower objective, with the joint 95 % interval of the differences to all
others below zero. Under a capped profile only routers count whose expected shortfall on the judged days is at most that
of the benchmark rule, the best simple rule on the first days.

With the environment variable ``RISKROUTE_LOBSTER`` naming a LOBSTER sample (``.zip``), the same is done on its single
day: its morning is for learning, its afternoon is judged, in time blocks.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.text import TextTable, interval_text
from riskroute.market import ReadingOptions, import_files
from riskroute.routers.context import Context
from riskroute.routers.contextual.router import Contextual
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.risk import CAUTIOUS, PROFILES, RiskProfile
from riskroute.routing.fees import Fee, FeeSchedule
from riskroute.simulation.backends import Backend
from riskroute.simulation.play_day import play_day
from riskroute.study.candidates import candidate_names
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay, market_days
from riskroute.study.play import PlayCache, day_to_play, play_routers
from riskroute.study.router_comparison import RouterComparison, choose_benchmark, compare_routers
from riskroute.study.static_fit import static_fit_candidate
from timing import leave, print_heading, progress, say, sized, verdict

LOBSTER = os.environ.get("RISKROUTE_LOBSTER")
OURS = "contextual"
# The benchmark rules play too. All other routers take at once, or ping pools before they sweep: with a deadline they
# save at most a few hundredths of a basis point against dark-first+sweep or sweep (docs/routers.md).
RIVALS = ("static+sweep", "delay+sweep", "cont-kukanov", "dark-first+cont-kukanov", "bayes-fill")
MARKETS = sized(("dark", "comparable"), ("dark",))
SIZES, WAITS = sized(((100, 1000), (10.0, 60.0, 300.0)), ((100,), (10.0,)))
RISKS = sized(tuple(PROFILES.values()), (CAUTIOUS,))
# every seed has a router of its own, which sees 20 orders per day: about as many as in a study with default settings
DAYS, TRAIN, ORDERS, SEEDS, SEED = sized((30, 10, 40, 2, 35), (2, 1, 4, 1, 35))
HOURS = sized((dt.time(10, 30), dt.time(11, 30)), (dt.time(11), dt.time(11, 5)))
LEVEL = 0.02
"""Basis points by which the objective of the best router may be lower."""
MOST_MEDIAN, MOST_LATE = 300, 1000
"""Microseconds that a decision may take: at the median, and at the 99th percentile."""


def main() -> None:
    """Print the speed and the table of cells."""
    print_heading("The contextual router", ["riskroute", "numpy", "numba", "polars"])
    rows: list[list[str]] = []
    behind: dict[bool, list[tuple[float, bool]]] = {False: [], True: []}  # by whether the cell is of recorded data
    with tempfile.TemporaryDirectory() as folder:
        kept, backend = Path(os.environ.get("RISKROUTE_KEPT", folder)), Backend("local", sized(None, 1))
        tables = {
            name: market_days(name, days=DAYS, seed=SEED, hours=HOURS, kept=kept, backend=backend) for name in MARKETS
        }
        checks = _speed(tables[MARKETS[0]][0])
        cells: list[tuple[str, int, float, int | None]]
        cells = [(name, shares, horizon, TRAIN) for name in MARKETS for shares in SIZES for horizon in WAITS]
        if LOBSTER:
            tables["AMZN"] = _lobster(Path(folder) / "lobster", kept, backend)
            cells += [("AMZN", shares, horizon, None) for shares in SIZES for horizon in (60.0, 300.0)]
        for market, shares, horizon, train in cells:
            for risk in RISKS:
                days, config = tables[market], _config(shares, horizon, risk, train)
                found, rule, barred = _compared(days, config, PlayCache(kept / "played"), backend)
                rows.append(_row(market, config, found, rule, barred))
                behind[market == "AMZN"].append((float(rows[-1][7]), bool(_beaten(found, barred))))
                progress("  ".join(rows[-1]))
    header = ["market", "shares", "seconds", "profile", "objective", "best other router", "its objective", "behind"]
    header += ["95 % interval", "our ES", "rule's ES", "sample"]
    say("basis points; behind: our objective less that of the best other router; ES: expected shortfall (5 %)")
    say(TextTable(header, rows).plain())
    say("")
    for recorded, cells_behind in behind.items():
        if not cells_behind:
            continue
        count, where = len(cells_behind), "AMZN" if recorded else "the synthetic markets"
        beaten = sum(lost for _, lost in cells_behind)
        near = sum(gap <= LEVEL for gap, _ in cells_behind)
        checks.append(beaten == 0)
        said = f"{where}: a router beats contextual beyond the interval in {beaten} of {count} cells"
        say(f"{said}, target 0: {verdict(checks[-1])}")
        said = f"{where}: contextual is within {LEVEL} bps of the best other router in {near} of {count} cells"
        if recorded:  # too few independent blocks to tell
            say(said)
        else:
            checks.append(near >= 0.9 * count)
            say(f"{said}, target 90 %: {verdict(checks[-1])}")
    leave([], checks)


def _config(shares: int, horizon: float, risk: RiskProfile = CAUTIOUS, train: int | None = TRAIN) -> BacktestConfig:
    orders = ORDERS if train is not None else 4 * ORDERS
    sized_config = {
        "quantities": (shares,),
        "lot": max(shares // 100, 1),
        "orders": orders,
        "seeds": SEEDS,
        "train": train,
    }
    return BacktestConfig(**sized_config, horizon=horizon, risk=risk, routers=(*RIVALS, OURS))  # type: ignore[arg-type]


def _compared(
    days: Sequence[MarketDay], config: BacktestConfig, cache: PlayCache, backend: Backend
) -> tuple[RouterComparison, str, set[str]]:
    """Return the comparison of all routers with ours, the benchmark rule, and the routers that the profile bars."""
    pools = bool(days[0].pools)
    names = candidate_names(config.routers, pools=pools, horizon=config.horizon)
    if not pools:  # these are then sweep and cont-kukanov
        names = [name for name in names if name not in ("dark-first+sweep", "dark-first+cont-kukanov")]
    candidates = [static_fit_candidate(name, days, config, backend=backend, cache=cache) for name in names]
    tables = play_routers(candidates, days, config, backend=backend, cache=cache)
    rule = choose_benchmark(tables.orders, names, pools=pools, horizon=config.horizon, risk=config.risk)
    found = compare_routers(tables, OURS, {}, risk=config.risk, seed=config.seed)
    most = found.routers[rule].es95_bps
    tails = {name: one.es95_bps - most for name, one in found.routers.items() if name != rule}
    return found, rule, {name for name, excess in tails.items() if not config.risk.admits(excess)}


def _others(found: RouterComparison, barred: set[str]) -> list[str]:
    """Return the routers that count, the lowest objective first."""
    some = [name for name in found.routers if name != OURS and name not in barred]
    return sorted(some, key=lambda name: found.routers[name].objective_bps)


def _beaten(found: RouterComparison, barred: set[str]) -> list[str]:
    """Return the routers with an objective below ours beyond the interval."""
    pairs = {name: found.routers[name].paired_objective for name in _others(found, barred)}
    return [name for name, pair in pairs.items() if pair and pair.high is not None and pair.high < 0]


def _row(market: str, config: BacktestConfig, found: RouterComparison, rule: str, barred: set[str]) -> list[str]:
    best = _others(found, barred)[0]
    ours, other = found.routers[OURS], found.routers[best]
    pair = other.paired_objective
    between = "-" if pair is None or pair.low is None or pair.high is None else interval_text(-pair.high, -pair.low)
    return [
        *(market, f"{config.quantities[0]:,}", f"{config.horizon:g}", config.risk.name),
        *(f"{ours.objective_bps:.3f}", best, f"{other.objective_bps:.3f}"),
        *(f"{ours.objective_bps - other.objective_bps:+.3f}", between),
        *(f"{ours.es95_bps:.1f}", f"{found.routers[rule].es95_bps:.1f}", str(found.sample)),
    ]


def _lobster(folder: Path, kept: Path, backend: Backend) -> list[MarketDay]:
    """Return the day of the LOBSTER sample."""
    assert LOBSTER is not None
    import_files([Path(LOBSTER)], folder, ReadingOptions())
    fees = FeeSchedule([Fee("XNAS", dt.date(2012, 1, 1), "0.0030 per share", "-0.0020 per share")])
    return market_days(folder, fees=fees, kept=kept, backend=backend)


def _speed(day: MarketDay) -> list[bool]:
    """Measure CPU and wall-clock time of decisions over eight places and 100 lots; return which targets hold."""
    used, passed = _decision_times(day, _config(1000, 60.0), rounds=sized(10, 1))
    rows = [
        [name, f"{np.median(times):.0f}", f"{np.quantile(times, 0.99):.0f}"]
        for name, times in (("processor", used), ("clock", passed))
    ]
    say("decisions, 1,000 shares in lots of 10, five venues and three pools, cautious: microseconds")
    say(TextTable(["time", "median", "99 %"], rows).plain())
    say("")
    holds = [float(np.median(used)) <= MOST_MEDIAN, float(np.quantile(used, 0.99)) <= MOST_LATE]
    say(f"the median is at most {MOST_MEDIAN}: {verdict(holds[0])}; 99 % are at most {MOST_LATE}: {verdict(holds[1])}")
    say("")
    return holds


def _decision_times(day: MarketDay, config: BacktestConfig, rounds: int) -> tuple[Floats, Floats]:
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


if __name__ == "__main__":
    main()
