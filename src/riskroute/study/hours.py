"""What orders cost by hour of the day and by venue, of the two routers that matter."""

from __future__ import annotations

from collections.abc import Sequence

import polars

from riskroute.study.cost_inputs import KEY
from riskroute.study.cost_records import VenueCosts
from riskroute.study.differences import estimate
from riskroute.study.records import HourCost
from riskroute.study.summary import ORDER, block_numbers, costs_in_bps
from riskroute.study.tables import Tables
from riskroute.study.venue_costs import venue_costs


def hour_costs(
    orders: polars.DataFrame, states: polars.DataFrame, routers: Sequence[str], *, seed: int
) -> tuple[HourCost, ...]:
    """Return what the judged orders of some routers cost, by the hour that `order_states` found."""
    judged = costs_in_bps(orders.filter(polars.col("judged")))
    means = judged.group_by("router", *ORDER, "block").agg(polars.col("cost_bps").mean())
    table = means.join(states.select(*ORDER, "hour"), on=ORDER).sort(ORDER)
    found = []
    for router in routers:
        mine = table.filter(polars.col("router") == router)
        for hour in sorted(mine["hour"].unique()):
            some = mine.filter(polars.col("hour") == hour)
            cost = estimate(some["cost_bps"].to_numpy(), block_numbers(some), seed, router, "hour", hour)
            found.append(HourCost(router, int(hour), some.height, cost))
    return tuple(found)


def venues_met(tables: Tables, routers: Sequence[str], *, seed: int) -> tuple[VenueCosts, ...]:
    """Return what the judged orders of some routers met at every venue and pool, in the order of the routers."""
    known = polars.col("judged") & polars.col("router").is_in(routers)
    judged = tables.orders.filter(known)
    rows = (frame.join(judged.select(KEY), on=KEY, how="semi") for frame in (tables.children, tables.fills))
    return tuple(sorted(venue_costs(judged, *rows, seed=seed), key=lambda one: routers.index(one.router)))
