"""The study that `make demo` shows: orders of 1,000 shares in the market ``dark``, on six short days."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from riskroute.simulation.backends import Backend
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.config import StudyConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayTask, TableCache

DEMO_STUDY = StudyConfig(
    shares=(1000,),
    horizons=(10.0,),
    days=6,
    hours="10:30-11:30",
    orders=120,
    routers=("static", "contextual"),
    surface_orders=24,
)
"""Six days of an hour: three to choose on, three to judge on."""

DEMO_URGENT = dataclasses.replace(DEMO_STUDY, horizons=(0.0,), orders=60, routers=("contextual",), surface_orders=0)
"""The same orders to be done at once, where learning has nothing to add."""

DEMO_RULES = ("sweep", "dark-first+sweep", "dark-first+post+sweep", "rest-even+sweep")
"""What is played first, since it learns nothing and takes no time."""


def demo_rules(
    days: Sequence[MarketDay],
    *,
    backend: Backend,
    cache: TableCache,
    progress: Callable[[str, int, int], None] | None = None,
) -> BacktestResult:
    """Play the simple rules alone; the study finds them in the cache."""
    (case,) = DEMO_STUDY.cases
    asked = dataclasses.replace(DEMO_STUDY.backtest(*case), routers=DEMO_RULES)
    done = 0

    def finished(task: PlayTask) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(task.candidate.label, done, len(DEMO_RULES))

    return run_backtest(DEMO_STUDY.market, days, asked, backend=backend, cache=cache, finished=finished)
