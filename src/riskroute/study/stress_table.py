"""What a router saves in worlds that are harder than usual: slower lines, emptier pools, fading books, higher fees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars

from riskroute.simulation.backends import Backend
from riskroute.study.backtest_config import BacktestConfig
from riskroute.study.differences import estimated_share, saving_of
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayTask, RouterChoice, TableCache, play_routers
from riskroute.study.records import Saving, StressSaving, StressTable
from riskroute.study.stresses import stress_configs
from riskroute.study.summary import costs_in_bps


def most_worlds(config: BacktestConfig, *, pools: bool) -> int:
    """Return how many worlds there are at most, the usual one included."""
    return len(stress_configs(config, pools=pools))


def stress_savings(
    pair: tuple[RouterChoice, RouterChoice],
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    usual: Saving | None = None,
    backend: Backend | None = None,
    cache: TableCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
) -> StressTable:
    """Return what one router saves against another in every world of `stress_configs`.

    Routers that learn do so anew in each of them; those that were fitted keep the parameters they have. Worlds with
    market impact are left out where it is not known what traded. The saving in the usual world is ``usual`` if it is
    known already, with the same interval.
    """
    router, against = (one.label for one in pair)
    found, judged = [], 0
    for name, world in stress_configs(config, pools=bool(days[0].pools)).items():
        impact = world.stress.impact
        orders = play_routers(pair, days, world, backend=backend, cache=cache, finished=finished).orders
        if impact and orders["impact"].is_nan().any():
            continue
        pressed = orders.with_columns(cost=polars.col("cost") + impact * polars.col("impact")) if impact else orders
        saving = usual if usual and world == config else saving_of(pressed, router, against, seed=config.seed)
        costs = costs_in_bps(pressed.filter(polars.col("judged"))).group_by("router").agg(polars.col("cost_bps").mean())
        means = dict(costs.iter_rows())
        judged = judged or int(orders["judged"].sum()) // (2 * config.seeds)
        found.append(StressSaving(name, means[router], means[against], saving.bps, estimated_share(orders)))
    return StressTable(router, against, judged, tuple(found))
