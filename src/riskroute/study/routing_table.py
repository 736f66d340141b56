"""What a desk takes home: where the router sends shares by state of the book, and the router after all days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars

from riskroute.routers.report import KINDS
from riskroute.simulation.backends import Backend
from riskroute.study.comparison import ORDER
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayTask, TableCache, perform_plays, play_tasks
from riskroute.study.records import RoutingRow
from riskroute.study.savings import LEANINGS, leaning, with_terciles
from riskroute.study.static_fit import fitted_candidate
from riskroute.study.tables import Tables

SPREADS = ("narrow", "middle", "wide")


def routing_rows(tables: Tables, states: polars.DataFrame, router: str) -> tuple[RoutingRow, ...]:
    """Return where a router sent its shares on the test days, by third of the spread and side of the imbalance."""
    state = with_terciles(states, "spread", SPREADS).select(*ORDER, spread="state", imbalance=leaning())
    by = ["spread", "imbalance"]
    counts = {(spread, one): count for spread, one, count in state.group_by(by).len().iter_rows()}
    mine = tables.children.filter((polars.col("router") == router) & (polars.col("sent") > 0)).join(state, on=ORDER)
    sums = mine.group_by(*by, "kind", "place").agg(polars.col("sent", "filled").sum())
    whole = sums.with_columns(
        sent_fraction=polars.col("sent") / polars.col("sent").sum().over(by),
        filled_fraction=polars.col("filled") / polars.col("filled").sum().over(by),
    )
    rows = [
        RoutingRow(orders=counts[row["spread"], row["imbalance"]], **row)
        for row in whole.drop("sent", "filled").to_dicts()
    ]
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                *(SPREADS.index(row.spread), LEANINGS.index(row.imbalance)),
                *(KINDS.index(row.kind), -row.sent_fraction, row.place),
            ),
        )
    )


def trained_states(tasks: Sequence[PlayTask], *, backend: Backend | None, cache: TableCache | None) -> list[Any]:
    """Return the states of routers after all days, for ``riskroute route``; nothing is played again that was kept."""
    return [tables.state for tables in perform_plays(tasks, backend=backend, cache=cache)]


def training_task(
    days: Sequence[MarketDay],
    config: BacktestConfig,
    router: str,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
) -> PlayTask:
    """Return what plays a router over all days of a symbol, with the first seed.

    Parameters
    ----------
    router : str
        As a study names it; routers that must be fitted are fitted on the training days, as they were there.
    """
    candidate = fitted_candidate(router, days, config, backend=backend, cache=cache)
    return next(task for task in play_tasks([candidate], days, config) if task.seed == config.seed)
