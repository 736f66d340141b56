"""What a desk takes home: where the router sends shares by state of the book, and the router after all days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars

from riskroute.experiments.backtest.backtest import router_choice
from riskroute.experiments.backtest.config import BacktestConfig
from riskroute.experiments.backtest.markets import MarketDay
from riskroute.experiments.backtest.play import PlayTask, TableCache, play_tasks
from riskroute.experiments.backtest.summary import ORDER
from riskroute.experiments.backtest.tables import Tables
from riskroute.experiments.desk.differences import LEANINGS, leaning, with_terciles
from riskroute.experiments.desk.records import RoutingRow
from riskroute.routers.report import KINDS
from riskroute.simulation.engines import Engine

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


@dataclass(frozen=True)
class TrainingTask:
    """Plays a router over all days, and returns the state that it is in then."""

    play: PlayTask

    def prepare(self) -> None:
        """Do nothing: tasks share nothing but files."""

    def perform(self) -> dict[str, Any]:
        """Play all days."""
        router = self.play.start()
        self.play.play(router)
        return router.state()


def training_task(
    days: Sequence[MarketDay],
    config: BacktestConfig,
    router: str,
    *,
    engine: Engine | None = None,
    cache: TableCache | None = None,
) -> TrainingTask:
    """Return what makes the state of a router after all days of a symbol, for ``riskroute route``.

    Parameters
    ----------
    router : str
        As a study names it; routers that must be fitted are fitted on the training days, as they were there.
    """
    choice = router_choice(router, days, config, engine=engine, cache=cache)
    return TrainingTask(next(task for task in play_tasks([choice], days, config) if task.seed == config.seed))
