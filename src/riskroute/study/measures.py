"""Expressions that cost measures are made of: share-weighted means, quantiles and tails.

What is not known is null before it comes here, never NaN, and stays null where nothing is known at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

BPS = 1e4
"""One is so many basis points."""

MARKOUTS = (1, 10, 60)
"""Seconds after a fill at which the mid is looked at again."""

DARK, PASSIVE, TAKING = ("dark", "dark_rest"), ("dark", "dark_rest", "limit"), ("take", "sweep")
"""Kinds of child orders: in dark pools, those whose fills we did not time, and those that cross the spread."""


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """``part / whole``, null unless the whole is above zero.

    Examples
    --------
    >>> pl.select(ratio(pl.lit(3), pl.lit(4))).item(), pl.select(ratio(pl.lit(3), pl.lit(0))).item()
    (0.75, None)
    """
    return pl.when(whole > 0).then(part / whole)


def weighted_means(table: pl.DataFrame, by: Sequence[str], weight: str, values: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """``sum(w x) / sum(w)`` of several values over the rows that know them, by group; null where they have no weight.

    Examples
    --------
    >>> table = pl.DataFrame({"place": ["A"] * 3, "x": [1.0, 4.0, None], "shares": [200, 100, 700]})
    >>> weighted_means(table, ["place"], "shares", {"twice": 2 * pl.col("x")}).row(0)
    ('A', 4.0)
    """
    # products first, then plain sums by group: several times faster than expressions on groups
    products = table.select(*by, weight, **values).with_columns(
        *(pl.when(pl.col(name).is_not_null()).then(weight).alias(f"{name} w") for name in values),
        *((pl.col(name) * pl.col(weight)).alias(name) for name in values),
    )
    sums = products.drop(weight).group_by(by).sum()
    return sums.select(*by, *(ratio(pl.col(name), pl.col(f"{name} w")).alias(name) for name in values))


def weighted_quantiles(
    table: pl.DataFrame, by: Sequence[str], weight: str, value: pl.Expr, parts: Mapping[str, int]
) -> pl.DataFrame:
    """Quantiles by group: the smallest ``x`` for which rows of at most ``x`` have so many per cent of (whole) weights.

    Rows whose value is null are left out, and so are groups that have no others.

    Examples
    --------
    >>> table = pl.DataFrame({"place": "A", "seconds": [9.0, 0.5, 2.0, None], "shares": [100, 400, 500, 50]})
    >>> parts = {"p40": 40, "p50": 50, "p90": 90, "p91": 91}
    >>> weighted_quantiles(table, ["place"], "shares", pl.col("seconds"), parts).row(0)
    ('A', 0.5, 2.0, 2.0, 9.0)
    """
    sorted_rows = table.select(*by, weight, _value=value).drop_nulls("_value").sort("_value")
    reached, total = pl.col(weight).cum_sum(), pl.col(weight).sum()
    return sorted_rows.group_by(by).agg(
        # in whole numbers, so that nothing is rounded at the edge
        pl.col("_value").filter(reached * 100 >= total * part).first().alias(name)
        for name, part in parts.items()
    )


def plain_quantile(value: pl.Expr, part: int, parts: int = 100) -> pl.Expr:
    """The smallest value that ``part / parts`` of the known values do not exceed; null without any.

    Examples
    --------
    >>> table = pl.DataFrame({"us": [4.0, None, 1.0, 3.0, 2.0]})
    >>> table.select([plain_quantile(pl.col("us"), k).alias(str(k)) for k in (50, 51, 99)]).row(0)
    (2.0, 3.0, 4.0)
    """
    some = value.drop_nulls()
    place = (some.len().cast(pl.Int64) * part + parts - 1) // parts - 1
    return some.sort().get(place, null_on_oob=True)


def expected_shortfall(cost: pl.Expr, percent: int = 5) -> pl.Expr:
    """Mean cost of the worst ``percent`` of the rows: ``sum(w x) / (percent n / 100)`` from the largest ``x`` down.

    Rows weigh 1 while the weights add up to at most ``percent n / 100``, and the last one weighs the fraction that is
    then missing; so of ten orders it is the cost of the worst.

    Examples
    --------
    >>> table = pl.DataFrame({"cost": [float(k) for k in range(1, 31)]})
    >>> table.select(expected_shortfall(pl.col("cost"))).item()  # (30 + 29 / 2) / 1.5
    29.666666666666668
    """
    size = cost.len() * (percent / 100)
    weights = (size - pl.int_range(cost.len())).clip(0, 1)
    return (cost.sort(descending=True) * weights).sum() / size


def signed_bps(later: pl.Expr, earlier: pl.Expr) -> pl.Expr:
    """``s (later - earlier) / m0`` in basis points, with the columns ``sign`` and ``arrival`` of the order."""
    return BPS * pl.col("sign") * (later - earlier) / pl.col("arrival")


def markout(seconds: int) -> pl.Expr:
    """Markout ``s (m[t+D] - p) / m0`` of a fill; positive is good."""
    return signed_bps(pl.col(f"mid_{seconds}"), pl.col("price"))


def mid_markout(seconds: int) -> pl.Expr:
    """Mid-to-mid markout ``s (m[t+D] - m[t]) / m0`` of a fill, which has no spread in it."""
    return signed_bps(pl.col(f"mid_{seconds}"), pl.col("mid"))


def effective_spread() -> pl.Expr:
    """Effective spread ``2 s (p - m[t]) / m0`` of a fill, against the mid as of the fill."""
    return 2 * signed_bps(pl.col("price"), pl.col("mid"))


def half_spread() -> pl.Expr:
    """Half the quoted spread ``(ask - bid) / (2 m0)`` as displayed over all venues at the decision."""
    return BPS * (pl.col("ask") - pl.col("bid")) / (2 * pl.col("arrival"))


def sums_by_kind(children: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Add up child orders: how many were sent, how many were filled at all, their shares, and what fade needs.

    ``hoped`` is ``min(sent, displayed)`` of those that take at once where some was displayed, and ``met`` what of these
    was filled.
    """
    hoped = pl.min_horizontal("sent", "displayed")
    there = (pl.col("kind") == "take") & pl.col("displayed").is_not_null() & (hoped > 0)
    return (
        children.filter(pl.col("sent") > 0)
        .select(
            *by,
            "sent",
            "filled",
            count=pl.lit(1, pl.Int64),
            hits=(pl.col("filled") > 0).cast(pl.Int64),
            hoped=pl.when(there).then(hoped),
            met=pl.when(there).then("filled"),
        )
        .group_by(by)
        .sum()
    )


def fade(met: pl.Expr, hoped: pl.Expr) -> pl.Expr:
    """Fade ``1 - sum(filled) / sum(min(sent, displayed))``; null where nothing was hoped for.

    Examples
    --------
    >>> table = pl.DataFrame({"kind": "take", "sent": [100, 300], "filled": [100, 50], "displayed": [500.0, 100.0]})
    >>> sums_by_kind(table, ["kind"]).select(fade(pl.col("met"), pl.col("hoped"))).item()  # 150 of 200
    0.25
    """
    return 1 - ratio(met, hoped)
