"""What orders cost, router by router: slippage, shortfall, spreads, tails, fills, markouts and reversion."""

from __future__ import annotations

import polars as pl

from riskroute.market.clock import SECOND
from riskroute.study.cost_inputs import KEY, checked_fills, checked_orders, cost_inputs
from riskroute.study.cost_records import CostTercile, RouterCosts
from riskroute.study.measures import (
    BPS,
    DARK,
    MARKOUTS,
    TAKING,
    effective_spread,
    expected_shortfall,
    fade,
    half_spread,
    markout,
    plain_quantile,
    ratio,
    signed_bps,
    sums_by_kind,
    weighted_means,
    weighted_quantiles,
)

TERCILES = ("low", "middle", "high")

SAME_PRICE = 1e-9
"""Dollars within which a price is the touch, and no better."""

_BY = ("router",)
_SHARES = pl.col("shares")


def router_costs(orders: pl.DataFrame, children: pl.DataFrame, fills: pl.DataFrame) -> tuple[RouterCosts, ...]:
    """Measure what the orders of each router cost; `RouterCosts` defines every measure.

    Parameters
    ----------
    orders, children, fills : polars.DataFrame
        With the columns of `cost_inputs.ORDER_COLUMNS`, `CHILD_COLUMNS` and `FILL_COLUMNS`.

    Returns
    -------
    tuple of RouterCosts
        One per router, in the order in which they first appear among the orders.
    """
    tables = cost_inputs(orders, children, fills)
    per_order = _orders_with_sums(tables.orders, tables.fills)
    table = per_order.group_by("router", maintain_order=True).agg(**_order_measures())
    for part in (
        weighted_means(per_order, _BY, "shares", {"quoted_spread_bps": 2 * half_spread()}),
        _fill_measures(tables.fills),
        _volume_measures(tables.fills),
        weighted_quantiles(tables.fills, _BY, "shares", _seconds(), {f"fill_seconds_{k}": k for k in (50, 90, 99)}),
        _child_measures(tables.children),
    ):
        table = table.join(part, on="router", how="left", maintain_order="left")
    table = table.with_columns(spread_ratio=ratio(pl.col("effective_spread_bps"), pl.col("quoted_spread_bps")))
    terciles = _terciles(per_order)
    return tuple(RouterCosts(**row, terciles=tuple(terciles.get(row["router"], ()))) for row in table.to_dicts())


def recomputed_cost(orders: pl.DataFrame, fills: pl.DataFrame) -> pl.DataFrame:
    """Cost of every order in basis points, fees included, from its fills alone.

    Returns
    -------
    polars.DataFrame
        The columns that name an order, and ``cost_bps``, in the order of ``orders``; null for an order without fills.
    """
    arrivals = checked_orders(orders).select(*KEY, "sign", arrival="mid", ordered="shares")
    return (
        arrivals.join(checked_fills(fills), on=KEY, how="left", maintain_order="left")
        .with_columns(paid=pl.col("sign") * (pl.col("price") - pl.col("arrival")) + pl.col("fee"))
        .group_by(KEY, maintain_order=True)
        .agg(
            dollars=pl.when(_SHARES.count() > 0).then((_SHARES * pl.col("paid")).sum()),
            value=(pl.col("ordered") * pl.col("arrival")).first(),
        )
        .select(*KEY, cost_bps=BPS * pl.col("dollars") / pl.col("value"))
    )


def _orders_with_sums(orders: pl.DataFrame, fills: pl.DataFrame) -> pl.DataFrame:
    """Orders with what their fills add up to, and their own cost, slippage, shortfall and reversion."""
    end = pl.col("begin") + (pl.col("horizon") * SECOND).cast(pl.Int64)
    late = (pl.col("kind") == "sweep") & (pl.col("horizon") > 0) & (pl.col("time") >= end)
    lost = pl.col("sign") * (pl.col("price") - pl.col("arrival")) * _SHARES
    sums = (
        fills.select("order", "shares", "time", "mid", late=late, lost=lost)
        .group_by("order")
        .agg(
            filled=_SHARES.sum(),
            gross=pl.col("lost").sum(),
            on_time=_SHARES.filter(~pl.col("late")).sum(),
            on_time_gross=pl.col("lost").filter(~pl.col("late")).sum(),
            last_mid=pl.col("mid").get(pl.col("time").arg_max()),
        )
    )
    none = pl.col("filled", "gross", "on_time", "on_time_gross").fill_null(0)
    value = _SHARES * pl.col("arrival") / BPS
    charge = pl.col("sign") * (pl.col("end_mid") - pl.col("arrival")) + pl.col("end_spread") / 2
    return (
        orders.join(sums, on="order", how="left", maintain_order="left")
        .with_columns(none)
        .with_columns(late=(_SHARES - pl.col("on_time")).clip(0))
        .with_columns(
            cost_bps=pl.col("cost") / value,
            fees_bps=pl.col("fees") / value,
            slippage_bps=BPS * ratio(pl.col("gross"), pl.col("filled") * pl.col("arrival")),
            opportunity_bps=pl.when(pl.col("late") > 0).then(pl.col("late") * charge / value).otherwise(0.0),
            **{f"reversion_{s}_bps": signed_bps(pl.col("last_mid"), pl.col(f"after_{s}")) for s in MARKOUTS},
        )
        .with_columns(
            shortfall_bps=pl.col("on_time_gross") / value + pl.col("opportunity_bps") + pl.col("fees_bps"),
        )
    )


def _risk() -> dict[str, pl.Expr]:
    cost = pl.col("cost_bps")
    return {"orders": pl.len(), "cost_bps": cost.mean(), "sd_bps": cost.std(), "es95_bps": expected_shortfall(cost)}


def _order_measures() -> dict[str, pl.Expr]:
    means = ("slippage_bps", "fees_bps", "shortfall_bps", "opportunity_bps")
    reversions = tuple(f"reversion_{seconds}_bps" for seconds in MARKOUTS)
    decision = pl.col("decision_us")
    return {
        **_risk(),
        **{name: pl.col(name).mean() for name in (*means, *reversions)},
        "worst_bps": expected_shortfall(pl.col("cost_bps"), 1),
        "blocks": pl.col("period").n_unique(),
        "late_share": pl.col("late").sum() / _SHARES.sum(),
        **{f"{name}_shares": pl.col(name).sum() for name in ("estimated", "prevented", "through")},
        "stale_books": pl.col("stale").sum(),
        "decision_us": decision.mean(),
        "decision_99_us": plain_quantile(decision, 99),
        "shares": _SHARES.sum(),
        "zone": pl.when(pl.col("zone").n_unique() == 1).then(pl.col("zone").first()).otherwise(pl.lit("")),
    }


def _seconds() -> pl.Expr:
    return (pl.col("time") - pl.col("begin")) / SECOND


def _fill_measures(fills: pl.DataFrame) -> pl.DataFrame:
    touch = pl.when(pl.col("sign") > 0).then("ask").otherwise("bid")
    better = pl.col("sign") * (touch - pl.col("price"))
    measures = {
        "effective_spread_bps": effective_spread(),
        "improvement_bps": BPS * better / pl.col("arrival"),
        "improved_share": (better > SAME_PRICE).cast(pl.Float64),
        **{f"markout_{seconds}_bps": markout(seconds) for seconds in MARKOUTS},
    }
    return weighted_means(fills, _BY, "shares", measures)


def _volume_measures(fills: pl.DataFrame) -> pl.DataFrame:
    """Shares by kind, and the spread that limit orders captured."""
    captured = pl.col("sign") * (pl.col("mid") - pl.col("price")) * _SHARES
    offered = (pl.col("ask") - pl.col("bid")) / 2 * _SHARES
    both = (pl.col("kind") == "limit") & captured.is_not_null() & offered.is_not_null()
    kinds = (
        fills.select(
            "router", "kind", "shares", captured=pl.when(both).then(captured), offered=pl.when(both).then(offered)
        )
        .group_by("router", "kind")
        .sum()
    )
    shares = {"dark": DARK, "limit": ("limit",), "taken": TAKING}
    return kinds.group_by("router").agg(
        spread_capture=ratio(pl.col("captured").sum(), pl.col("offered").sum()),
        **{
            f"{name}_share": _SHARES.filter(pl.col("kind").is_in(some)).sum() / _SHARES.sum()
            for name, some in shares.items()
        },
    )


def _child_measures(children: pl.DataFrame) -> pl.DataFrame:
    measures = {"fade": fade(pl.col("met").sum(), pl.col("hoped").sum())}
    for name, some in {"dark": DARK, "limit": ("limit",), "ioc": ("take",)}.items():
        sent, filled, count, hits = (
            pl.col(column).filter(pl.col("kind").is_in(some)).sum() for column in ("sent", "filled", "count", "hits")
        )
        measures |= {f"{name}_fill_rate": ratio(filled, sent), f"{name}_hit_rate": ratio(hits, count)}
    return sums_by_kind(children, ("router", "kind")).group_by("router").agg(**measures)


def _terciles(orders: pl.DataFrame) -> dict[str, list[CostTercile]]:
    """Costs of the orders with low, middle and high spreads, times of day and sizes, by router."""
    measures = {
        "spread": 2 * half_spread(),
        "time": pl.col("clock").cast(pl.Int64) // SECOND / 3600,
        "size": ratio(_SHARES, pl.col("depth")),
    }
    found: dict[str, list[CostTercile]] = {}
    for measure, expression in measures.items():
        values = orders.select("router", "cost_bps", value=expression).drop_nulls("value")
        if values.is_empty():
            continue
        edges = values.select(plain_quantile(pl.col("value"), part, 3).alias(f"{part}") for part in (1, 2)).row(0)
        third = pl.sum_horizontal((pl.col("value") > edge).cast(pl.Int64) for edge in edges)
        table = (
            values.group_by("router", third=third)
            .agg(**_risk(), least=pl.col("value").min(), most=pl.col("value").max())
            .sort("router", "third")
        )
        for row in table.to_dicts():
            router, tercile = row.pop("router"), TERCILES[row.pop("third")]
            found.setdefault(router, []).append(CostTercile(measure, tercile, **row))
    return found
