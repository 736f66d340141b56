"""What a desk takes home: where the router sends shares by state of the book, and the router after all days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars

from riskroute.experiments.backtest.backtest import router_choice
from riskroute.experiments.backtest.markets import MarketDay
from riskroute.experiments.backtest.play import TableCache, play_tasks
from riskroute.experiments.backtest.summary import ORDER
from riskroute.experiments.backtest.tables import Tables
from riskroute.experiments.desk.config import DeskConfig
from riskroute.experiments.desk.differences import with_terciles
from riskroute.experiments.desk.records import RoutingRow
from riskroute.routers.report import KINDS
from riskroute.simulation.engines import Engine

SPREADS = ("narrow", "middle", "wide")
SIDES = ("with us", "against us")


def routing_rows(tables: Tables, states: polars.DataFrame, router: str) -> tuple[RoutingRow, ...]:
    """Return where a router sent its shares on the test days, by third of the spread and side of the imbalance."""
    side = polars.when(polars.col("imbalance") > 0).then(polars.lit(SIDES[1])).otherwise(polars.lit(SIDES[0]))
    state = with_terciles(states, "spread", SPREADS).select(*ORDER, spread="state", imbalance=side)
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
                *(SPREADS.index(row.spread), SIDES.index(row.imbalance)),
                *(KINDS.index(row.kind), -row.sent_fraction, row.place),
            ),
        )
    )


def trained_states(
    days: Sequence[MarketDay],
    config: DeskConfig,
    router: str,
    size: int,
    horizon: float,
    *,
    engine: Engine | None = None,
    cache: TableCache | None = None,
) -> dict[str, dict[str, Any]]:
    """Play a router once more over all days, and return its state by symbol, for ``riskroute route``.

    Parameters
    ----------
    router : str
        As a study names it; routers that must be fitted are fitted on the training days, as they were there.
    """
    asked = config.backtest(size, horizon)
    choice = router_choice(router, days, asked, engine=engine, cache=cache)
    states = {}
    for task in play_tasks([choice], days, asked):
        if task.seed == config.seed:
            trained = task.start()
            task.play(trained)
            states[task.days[0].symbol] = trained.state()
    return states
