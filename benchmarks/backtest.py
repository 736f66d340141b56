"""Speed of backtests: orders per second of simple routers over five venues, generation time per day, and memory.

Routers play in turn on one core. Memory is measured in a separate process that plays the days in sequence. It excludes
pages of mapped files, which the system can reclaim.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from riskroute.simulation.backends import Backend
from riskroute.study.candidates import Candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay, market_days
from riskroute.study.play import play_routers
from timing import interleaved, leave, print_heading, print_table, say, sized, verdict

DAYS, ORDERS = sized((20, 500), (1, 20))
PLAYED = sized(4, 1)
HOURS = sized((dt.time(10, 30), dt.time(13, 30)), (dt.time(11), dt.time(11, 5)))
TARGETS = {"sweep": 2000, "dark-first+sweep": 1000}
ROUTERS = (*TARGETS, "spray", "dark-first+post+sweep", "rest-even+sweep", "adaptive")

ONE_BACKTEST = """
import sys
import datetime as dt
from pathlib import Path
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import market_days
from riskroute.study.candidates import Candidate
from riskroute.study.play import play_routers
from riskroute.simulation.backends import Backend
hours = tuple(map(dt.time.fromisoformat, sys.argv[4:6]))
days = market_days("dark", days=int(sys.argv[2]), hours=hours, kept=Path(sys.argv[1]))
config = BacktestConfig(orders=int(sys.argv[3]))
play_routers([Candidate("sweep", "sweep")], days, config, backend=Backend("local", 1))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["RssAnon"].split()[0]) / 1e6, int(status["VmHWM"].split()[0]) / 1e6)
"""


def played(name: str, days: list[MarketDay]) -> int:
    """Play a router on one core; return the number of orders played."""
    horizon = 60.0 if "post" in name or "rest" in name else 0.0
    config = BacktestConfig(orders=ORDERS * DAYS // PLAYED, horizon=horizon)
    return play_routers([Candidate(name, name)], days[:PLAYED], config, backend=Backend("local", 1)).orders.height


def main() -> None:
    """Print orders per second, seconds per day, and gigabytes."""
    print_heading("Backtests", ["riskroute", "numpy", "numba", "polars"])
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder)
        market_days("dark", days=1, seed=1, hours=HOURS, kept=kept / "first", backend=Backend("local", 1))
        began = time.perf_counter()
        days = market_days("dark", days=DAYS, hours=HOURS, kept=kept, backend=Backend("local", sized(None, 1)))
        per_day = (time.perf_counter() - began) / DAYS
        for name in ROUTERS:
            played(name, days)
        timings = interleaved({name: partial(played, name, days) for name in ROUTERS})
        command = [sys.executable, "-c", ONE_BACKTEST, str(kept), str(DAYS), str(ORDERS), *map(str, HOURS)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        own, most = map(float, done.stdout.split())
    rates = {name: one.outcome / one.median for name, one in timings.items()}
    say(f"orders of 1,000 shares, five venues and three pools, {PLAYED} days, one core; patient routers: 60 s deadline")
    print_table(["router", "orders", "orders a second"], [
        [name, f"{one.outcome:,}", f"{rates[name]:,.0f}"] for name, one in timings.items()
    ])  # fmt: skip
    speed = {
        f"{name} routes {rates[name]:,.0f} orders a second, target at least {least:,}": rates[name] >= least
        for name, least in TARGETS.items()
    }
    speed[f"a day is generated in {per_day:.1f} s, target at most 5"] = per_day <= 5
    checks = {f"{DAYS} days in sequence use {own:.2f} GB ({most:.2f} with mapped files), target at most 1": own <= 1}
    for text, holds in (speed | checks).items():
        say(f"{text}: {verdict(holds)}")
    leave(checks.values(), speed.values())


if __name__ == "__main__":
    main()
