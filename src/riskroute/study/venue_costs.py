"""Costs by venue: fills, spreads, markouts and adverse selection by router, place and kind of child order."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from riskroute.core.arrays import Floats
from riskroute.core.seeding import seed_stream, seeded_generator
from riskroute.market.clock import SECOND
from riskroute.market.fitting import bootstrap_buckets
from riskroute.study.costs import (
    BPS,
    PASSIVE,
    VenueCosts,
    cost_inputs,
    effective_spread,
    fade,
    half_spread,
    markout,
    mid_markout,
    ratio,
    signed_bps,
    sums_by_kind,
    weighted_means,
    weighted_quantiles,
)
from riskroute.study.tables import MARKOUTS

_ROW = ("router", "place", "kind")
_SHARES = pl.col("shares")


def venue_costs(
    orders: pl.DataFrame, children: pl.DataFrame, fills: pl.DataFrame, *, seed: int = 0
) -> tuple[VenueCosts, ...]:
    """Return the costs by router, place and kind of child order; `VenueCosts` defines every measure.

    Routers are in the order of first appearance, the rows of each with the largest volume first; ``seed`` is that of
    the bootstrap.
    """
    tables = cost_inputs(orders, children, fills)
    routers = tables.orders.select("router").unique(maintain_order=True).with_row_index("rank")
    traded = _with_seconds(tables.fills, tables.children)
    table = _child_measures(tables.children)
    for part in (
        traded.group_by(_ROW).agg(blocks=pl.col("period").n_unique()),
        weighted_means(traded, _ROW, "shares", _fill_measures()),
        weighted_quantiles(traded, _ROW, "shares", pl.col("seconds"), {f"fill_seconds_{k}": k for k in (50, 90)}),
    ):
        table = table.join(part, on=_ROW, how="left")
    table = (
        table.join(traded.group_by("router").agg(volume=_SHARES.sum()), on="router", how="left")
        .join(routers, on="router")
        .with_columns(
            volume_share=ratio(pl.col("filled"), pl.col("volume")),
            blocks=pl.col("blocks").fill_null(0),
            **{f"adverse_{s}_bps": _passive(0.0 - pl.col(f"mid_markout_{s}_bps")) for s in MARKOUTS},
        )
        .with_columns(toxicity=ratio(pl.col("adverse_1_bps"), pl.col("offered")))
        .sort("rank", -pl.col("filled"), -pl.col("sent"), "place", "kind")
        .drop("volume", "rank", "offered")
    )
    intervals = _adverse_intervals(traded, tables.orders["period"].n_unique(), seed)
    return tuple(_record(row, intervals) for row in table.to_dicts())


def _with_seconds(fills: pl.DataFrame, children: pl.DataFrame) -> pl.DataFrame:
    """Return fills with the seconds since their child order was sent."""
    most = max((table.select(pl.col("child").max()).item() for table in (fills, children) if len(table)), default=0)
    name = pl.col("order") * (most + 1) + pl.col("child")  # one column to join on, which is faster than two
    posted = children.select("posted", name=name)
    return (
        fills.with_columns(name=name)
        .join(posted, on="name", how="left")
        .with_columns(seconds=(pl.col("time") - pl.col("posted")) / SECOND)
    )


def _passive(value: pl.Expr) -> pl.Expr:
    """Keep a measure for passive fills only."""
    return pl.when(pl.col("kind").is_in(PASSIVE)).then(value)


def _child_measures(children: pl.DataFrame) -> pl.DataFrame:
    by_order = sums_by_kind(children, (*_ROW, "order"))
    sums = by_order.with_columns(hits=(pl.col("filled") > 0).cast(pl.Int64), orders=pl.lit(1)).group_by(_ROW).sum()
    return sums.select(
        *_ROW,
        "orders",
        "sent",
        "filled",
        fill_rate=ratio(pl.col("filled"), pl.col("sent")),
        hit_rate=ratio(pl.col("hits"), pl.col("orders")),
        fade=fade(pl.col("met"), pl.col("hoped")),
    )


def _fill_measures() -> dict[str, pl.Expr]:
    fee = BPS * pl.col("fee") / pl.col("arrival")
    return {
        "slippage_bps": signed_bps(pl.col("price"), pl.col("arrival")),
        "fees_bps": fee,
        "effective_spread_bps": effective_spread(),
        **{f"markout_{seconds}_bps": markout(seconds) for seconds in MARKOUTS},
        **{f"mid_markout_{seconds}_bps": mid_markout(seconds) for seconds in MARKOUTS},
        "saving_bps": _passive(half_spread() - effective_spread() / 2 - fee),
        "net_saving_bps": _passive(half_spread() + markout(10) - fee),
        "offered": pl.when(mid_markout(1).is_not_null()).then(half_spread()),
    }


def _record(row: dict[str, Any], intervals: dict[tuple[str, str, str, int], tuple[float, float]]) -> VenueCosts:
    place = row["router"], row["place"], row["kind"]
    found = {seconds: intervals.get((*place, seconds)) for seconds in MARKOUTS}
    first, saving = found[1], row["saving_bps"]
    toxic = None if first is None or saving is None else first[0] > saving
    row |= {f"adverse_{seconds}_interval": interval for seconds, interval in found.items()}
    return VenueCosts(**row, toxic=toxic)


def _adverse_intervals(
    fills: pl.DataFrame, periods: int, seed: int
) -> dict[tuple[str, str, str, int], tuple[float, float]]:
    """Return bootstrap intervals of adverse selection by router, place, kind and seconds.

    Time blocks are drawn with replacement, the same ones for every place.
    """
    rng = seeded_generator(seed_stream(seed, "adverse selection"))
    drawn = bootstrap_buckets(np.arange(periods), 1000, rng).astype(np.float64)
    passive = fills.filter(pl.col("kind").is_in(PASSIVE))
    found = {}
    for seconds in MARKOUTS:
        blocks = (
            passive.select(*_ROW, "period", "shares", total=-mid_markout(seconds) * _SHARES)
            .drop_nulls("total")
            .group_by(*_ROW, "period")
            .sum()
            .filter(pl.len().over(_ROW) >= 30)  # fewer blocks give no reliable interval
            .with_columns(column=pl.struct(_ROW).rank("dense") - 1)
        )
        places = blocks.select("column", *_ROW).unique().sort("column").drop("column").rows()
        totals, shares = np.zeros((2, periods, len(places)))
        where = blocks["period"].to_numpy(), blocks["column"].to_numpy()
        totals[where], shares[where] = blocks["total"].to_numpy(), blocks["shares"].to_numpy()
        for (router, place, kind), low, high in zip(places, *_interval(drawn @ totals, drawn @ shares), strict=True):
            found[router, place, kind, seconds] = float(low), float(high)
    return found


def _interval(totals: Floats, shares: Floats) -> Floats:
    """Return the ends ``(2, places)`` of the middle 95 % of ``totals / shares (R, places)``."""
    ratios = np.divide(totals, shares, out=np.full(totals.shape, np.nan), where=shares > 0)
    return np.asarray(np.nanpercentile(ratios, (2.5, 97.5), axis=0))
