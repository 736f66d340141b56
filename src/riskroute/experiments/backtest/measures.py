"""Expressions that cost measures are made of: share-weighted means, quantiles and tails.

What is not known is null before it comes here, never NaN, and stays null where nothing is known at all.
"""

from __future__ import annotations

import polars as pl

BPS = 1e4
"""Basis points in one."""

MARKOUTS = (1, 10, 60)
"""Seconds after a fill at which the mid is looked at again."""

DARK, PASSIVE, TAKING = ("dark", "dark_rest"), ("dark", "dark_rest", "limit"), ("take", "sweep")
"""Kinds of child orders: in dark pools, those whose fills we did not time, and those that cross the spread."""


def weighted_mean(value: pl.Expr, weight: pl.Expr) -> pl.Expr:
    """``sum(w x) / sum(w)`` over the rows whose value is known; null where they have no weight.

    Examples
    --------
    >>> table = pl.DataFrame({"x": [1.0, 4.0, None], "shares": [200, 100, 700]})
    >>> table.select(weighted_mean(pl.col("x"), pl.col("shares"))).item()
    2.0
    """
    total = weight.filter(value.is_not_null()).sum()
    return pl.when(total > 0).then((value * weight).sum() / total)


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """``part / whole``, null unless the whole is above zero.

    Examples
    --------
    >>> pl.select(ratio(pl.lit(3), pl.lit(4))).item(), pl.select(ratio(pl.lit(3), pl.lit(0))).item()
    (0.75, None)
    """
    return pl.when(whole > 0).then(part / whole)


def weighted_quantile(value: pl.Expr, weight: pl.Expr, part: int, parts: int = 100) -> pl.Expr:
    """The smallest value ``x`` for which the rows of at most ``x`` have ``part / parts`` of all (whole) weights.

    Examples
    --------
    >>> table = pl.DataFrame({"seconds": [9.0, 0.5, 2.0, None], "shares": [100, 400, 500, 50]})
    >>> seconds, shares = pl.col("seconds"), pl.col("shares")
    >>> table.select([weighted_quantile(seconds, shares, k).alias(str(k)) for k in (40, 50, 90, 91)]).row(0)
    (0.5, 2.0, 2.0, 9.0)
    """
    known = value.is_not_null()
    some, weights = value.filter(known), weight.filter(known)
    reached = weights.sort_by(some).cum_sum() * parts >= weights.sum() * part  # whole numbers: no rounding at the edge
    return some.sort().filter(reached).first()


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


def worst_mean(cost: pl.Expr, percent: int) -> pl.Expr:
    """Mean of the worst ``percent`` of the rows: ``sum(w x) / (percent n / 100)`` from the largest ``x`` down.

    A row weighs 1 as long as the rows above it are fewer than ``percent n / 100`` by one or more, and the last one
    what is then missing; so the tail of ten orders is the worst of them.

    Examples
    --------
    >>> table = pl.DataFrame({"cost": [float(k) for k in range(1, 31)]})
    >>> table.select(worst_mean(pl.col("cost"), 5)).item()  # (30 + 29 / 2) / 1.5
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


def fade() -> pl.Expr:
    """``1 - sum(filled) / sum(min(sent, displayed))`` of the child orders that take at once where some was displayed.

    Examples
    --------
    >>> table = pl.DataFrame({"kind": "take", "sent": [100, 300], "filled": [100, 50], "displayed": [500.0, 100.0]})
    >>> table.select(fade()).item()  # 150 of 200
    0.25
    """
    counted = pl.min_horizontal("sent", "displayed")
    there = (pl.col("kind") == "take") & pl.col("displayed").is_not_null() & (counted > 0)
    return 1 - ratio(pl.col("filled").filter(there).sum(), counted.filter(there).sum())
