"""All routers on every synthetic market, with orders of 100 and 1,000 shares, urgent and patient.

Static splits are fitted, and routers learn, on the first days; all are compared on the last days. Urgent orders are
also compared on recordings, if the environment variable ``RISKROUTE_TAPE`` names their folder. The last table has the
difference of every router to ``dark-first+sweep``, which is ``sweep`` without pools.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from pathlib import Path

from riskroute.core.text import TextTable
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import run_backtest
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MARKETS, market_days
from riskroute.study.play import PlayCache
from riskroute.study.router_comparison import compare_routers
from riskroute.study.statistics import PairedDifference
from timing import leave, print_heading, progress, say, sized, verdict

TAPE = os.environ.get("RISKROUTE_TAPE")
NAMES = sized((*MARKETS, *([TAPE] if TAPE else [])), ("dark",))
SIZES, WAITS, DAYS, ORDERS = sized(((100, 1000), (0.0, 60.0), 5, 100), ((100,), (0.0,), 1, 6))
HOURS = sized(None, (dt.time(11), dt.time(11, 5)))
ROUTERS = sized(("all", "contextual:risk=cautious"), ("kaplan-meier+sweep", "delay+sweep", "adaptive"))
RULE = "dark-first+sweep"
LONGEST = 300.0
"""Seconds for all routers on all synthetic markets at 1,000 shares."""


def main() -> None:
    """Print a table per market, size and horizon."""
    print_heading("Routers", ["riskroute", "numpy", "numba", "polars"])
    seconds, paired = 0.0, dict[str, dict[str, PairedDifference | None]]()
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            backend, cache = Backend("local", sized(None, 1)), PlayCache(Path(folder) / "played")
            days = market_days(name, days=DAYS, hours=HOURS, kept=Path(folder), backend=backend)
            for shares in SIZES:
                for horizon in WAITS if name in MARKETS else WAITS[:1]:
                    config = BacktestConfig(quantities=(shares,), orders=ORDERS, horizon=horizon, routers=ROUTERS)
                    began = time.perf_counter()
                    found = run_backtest(Path(name).name, days, config, backend=backend, cache=cache)
                    if name in MARKETS and shares == SIZES[-1] and horizon == 0:
                        seconds += time.perf_counter() - began
                    progress(f"{name} {shares} {horizon:g}")
                    market = "the tape" if name == TAPE else name
                    to_rule = compare_routers(found.tables, RULE, {}, risk=config.risk, seed=config.seed).routers
                    paired[f"{market.split()[-1]} {shares:,} {horizon:g}s"] = {
                        one: result.paired for one, result in to_rule.items()
                    }
                    say(f"{market}: {found.comparison.orders:,} orders of {shares:,} shares, {horizon:g} s each")
                    say(found.comparison.table().plain())
                    say(found.verdict)
                    say("")
    say(f"Difference to {RULE}, bps; loses where the 95 % interval is above zero, saves where it is below:")
    say(_side_by_side(paired).plain())
    say("")
    text = f"all routers on all synthetic markets, {SIZES[-1]:,} shares, {DAYS} days took {seconds:.0f} s"
    say(f"{text}, target at most {LONGEST:.0f}: {verdict(seconds <= LONGEST)}")
    leave([], [seconds <= LONGEST])


def _side_by_side(paired: dict[str, dict[str, PairedDifference | None]]) -> TextTable:
    """Return one row per router and one column per market, size and horizon."""
    names = list(dict.fromkeys(name for some in paired.values() for name in some))
    rows = [[name, *(_cell(some[name]) if name in some else "-" for some in paired.values())] for name in names]
    return TextTable(["router", *paired], rows)


def _cell(pair: PairedDifference | None) -> str:
    if pair is None:
        return "the rule"
    loses, saves = pair.low is not None and pair.low > 0, pair.high is not None and pair.high < 0
    word = "loses" if loses else "saves" if saves else "     "
    return f"{pair.difference_bps:+.2f} {word}"


if __name__ == "__main__":
    main()
