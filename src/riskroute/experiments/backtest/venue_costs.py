"""What orders cost venue by venue: fills, spreads and markouts by router, place and kind of child order."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from riskroute.arrays import Floats
from riskroute.bootstrap import bootstrap_buckets
from riskroute.experiments.backtest.cost_inputs import cost_inputs
from riskroute.experiments.backtest.cost_records import VenueCosts
from riskroute.experiments.backtest.measures import (
    BPS,
    MARKOUTS,
    PASSIVE,
    effective_spread,
    fade,
    half_spread,
    markout,
    mid_markout,
    ratio,
    signed_bps,
    weighted_mean,
    weighted_quantile,
)
from riskroute.market.clock import SECOND
from riskroute.seeding import seed_stream, seeded_generator

FEWEST_BLOCKS = 30
"""Time blocks below which adverse selection has no interval."""

RESAMPLES = 1000
"""Bootstrap samples behind an interval."""

COVERED = (2.5, 97.5)
"""Per cent of the bootstrap samples below the ends of an interval."""

_ROW = ("router", "place", "kind")
_SHARES = pl.col("shares")


def venue_costs(
    orders: pl.DataFrame, children: pl.DataFrame, fills: pl.DataFrame, *, seed: int = 0
) -> tuple[VenueCosts, ...]:
    """Measure what each kind of child order cost at each place; `VenueCosts` defines every measure.

    Parameters
    ----------
    orders, children, fills : polars.DataFrame
        As in `router_costs`.
    seed : int
        Of the bootstrap.

    Returns
    -------
    tuple of VenueCosts
        One per router, place and kind that something was sent to: routers in the order in which they first appear among
        the orders, and the rows of each with the largest volume first.
    """
    tables = cost_inputs(orders, children, fills)
    routers = tables.orders.select("router").unique(maintain_order=True).with_row_index("rank")
    sent = tables.children.filter(pl.col("sent") > 0)
    posted = tables.children.select("order", "child", "posted").unique(["order", "child"])
    traded = tables.fills.join(posted, on=("order", "child"), how="left")
    totals = traded.group_by("router").agg(volume=_SHARES.sum())
    table = (
        sent.group_by(_ROW)
        .agg(**_child_measures())
        .join(traded.group_by(_ROW).agg(**_fill_measures()), on=_ROW, how="left")
        .join(totals, on="router", how="left")
        .join(routers, on="router")
        .with_columns(
            volume_share=ratio(pl.col("filled"), pl.col("volume")),
            blocks=pl.col("blocks").fill_null(0),
            **{f"adverse_{s}_bps": _unasked(-pl.col(f"mid_markout_{s}_bps")) for s in MARKOUTS},
        )
        .with_columns(toxicity=ratio(pl.col("adverse_1_bps"), pl.col("offered")))
        .sort("rank", -pl.col("filled"), -pl.col("sent"), "place", "kind")
        .drop("volume", "rank", "offered")
    )
    intervals = _adverse_intervals(traded, seed)
    return tuple(_record(row, intervals) for row in table.to_dicts())


def _unasked(value: pl.Expr) -> pl.Expr:
    """A measure of fills that we did not time, null for others."""
    return pl.when(pl.col("kind").is_in(PASSIVE)).then(value)


def _child_measures() -> dict[str, pl.Expr]:
    sent, filled, orders = pl.col("sent"), pl.col("filled"), pl.col("order").n_unique()
    return {
        "orders": orders,
        "sent": sent.sum(),
        "filled": filled.sum(),
        "fill_rate": ratio(filled.sum(), sent.sum()),
        "hit_rate": ratio(pl.col("order").filter(filled > 0).n_unique(), orders),
        "fade": fade(),
    }


def _fill_measures() -> dict[str, pl.Expr]:
    fee = BPS * pl.col("fee") / pl.col("arrival")
    seconds = (pl.col("time") - pl.col("posted")) / SECOND
    means = {
        "slippage_bps": signed_bps(pl.col("price"), pl.col("arrival")),
        "fees_bps": fee,
        "effective_spread_bps": effective_spread(),
        **{f"markout_{s}_bps": markout(s) for s in MARKOUTS},
        **{f"mid_markout_{s}_bps": mid_markout(s) for s in MARKOUTS},
        "saving_bps": _unasked(half_spread() - effective_spread() / 2 - fee),
        "net_saving_bps": _unasked(half_spread() + markout(10) - fee),
        "offered": pl.when(mid_markout(1).is_not_null()).then(half_spread()),
    }
    return {
        "blocks": pl.struct("day", "block").n_unique(),
        **{name: weighted_mean(value, _SHARES) for name, value in means.items()},
        **{f"fill_seconds_{k}": weighted_quantile(seconds, _SHARES, k) for k in (50, 90)},
    }


def _record(row: dict[str, Any], intervals: dict[tuple[str, str, str, int], tuple[float, float]]) -> VenueCosts:
    place = row["router"], row["place"], row["kind"]
    found = {seconds: intervals.get((*place, seconds)) for seconds in MARKOUTS}
    first, saving = found[1], row["saving_bps"]
    return VenueCosts(
        **row,
        **{f"adverse_{seconds}_interval": interval for seconds, interval in found.items()},
        toxic=None if first is None or saving is None else first[0] > saving,
    )


def _adverse_intervals(fills: pl.DataFrame, seed: int) -> dict[tuple[str, str, str, int], tuple[float, float]]:
    """Bootstrap intervals of adverse selection, by router, place, kind and seconds, where there are blocks enough."""
    found = {}
    for seconds in MARKOUTS:
        blocks = (
            fills.filter(pl.col("kind").is_in(PASSIVE))
            .select(*_ROW, "day", "block", "shares", adverse=-mid_markout(seconds))
            .drop_nulls("adverse")
            .group_by(*_ROW, "day", "block")
            .agg(total=(pl.col("adverse") * _SHARES).sum(), shares=_SHARES.sum())
            .sort(*_ROW, "day", "block")
        )
        for place, sums in blocks.partition_by(_ROW, as_dict=True, maintain_order=True).items():
            if len(sums) >= FEWEST_BLOCKS:
                rng = seeded_generator(seed_stream(seed, "adverse selection", *place, seconds))
                found[*place, seconds] = _interval(sums["total"].to_numpy(), sums["shares"].to_numpy(), rng)
    return found


def _interval(totals: Floats, shares: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Where the middle 95 % of ``sum(totals) / sum(shares)`` lie when blocks are drawn with replacement."""
    counts = bootstrap_buckets(np.arange(len(totals)), RESAMPLES, rng)
    low, high = np.percentile((counts @ totals) / (counts @ shares), COVERED)
    return float(low), float(high)
