"""Invariants of the tables of a backtest, checked after every run."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from riskroute.core.errors import InvariantError
from riskroute.market.clock import SECOND
from riskroute.study.candidates import CLAIRVOYANT
from riskroute.study.tables import KEY, Tables

_TOLERANCE_BPS = 1e-6  # sums of a thousand fills are exact to about this

Hours = Mapping[tuple[str, str], tuple[int, int]]  # first and last time, UTC nanoseconds, by symbol and day


def check_tables(tables: Tables, hours: Hours) -> None:
    """Raise `InvariantError` unless shares and money are conserved and orders lie within the hours.

    Fills must add up to the shares, cost, fees and estimated shares of their order, and to their child orders.
    """
    orders = tables.orders
    bps = 1e4 / (pl.col("shares") * pl.col("mid"))
    filled = (
        tables.fills.join(orders.select(*KEY, "sign", arrival="mid"), on=KEY, how="left")
        .group_by(KEY)
        .agg(
            known=pl.col("arrival").is_not_null().all(),
            filled=pl.col("shares").sum(),
            paid=(pl.col("shares") * (pl.col("sign") * (pl.col("price") - pl.col("arrival")) + pl.col("fee"))).sum(),
            charged=(pl.col("shares") * pl.col("fee")).sum(),
            guessed=pl.col("shares").filter(pl.col("estimated")).sum(),
            least=pl.col("price").min(),
            first=pl.col("time").min(),
        )
    )
    both = orders.join(filled, on=KEY, how="full", coalesce=True)
    _hold(both, pl.col("filled") == pl.col("shares"), "fills add up to {filled} of {shares} shares")
    _hold(both, _same(pl.col("paid"), pl.col("cost"), bps), "fills cost {paid}, the order {cost}")
    _hold(both, _same(pl.col("charged"), pl.col("fees"), bps), "fills pay fees of {charged}, the order {fees}")
    _hold(both, pl.col("guessed") == pl.col("estimated"), "{guessed} shares are estimated, {estimated} were counted")
    _hold(both, pl.col("least") > 0, "a fill has a price of {least}")
    _hold(both, pl.col("first") >= pl.col("time"), "a fill at {first} is earlier than the order at {time}")
    _check_children(tables)
    _check_hours(orders, hours)


def _check_children(tables: Tables) -> None:
    sums = tables.fills.group_by(*KEY, "child").agg(traded=pl.col("shares").sum())
    both = tables.children.join(sums, on=[*KEY, "child"], how="full", coalesce=True)
    same = pl.col("filled") == pl.col("traded").fill_null(0)
    _hold(both, same, "child {child} filled {filled} shares, its fills {traded}")


def _check_hours(orders: pl.DataFrame, hours: Hours) -> None:
    rows = [(symbol, day, first, last) for (symbol, day), (first, last) in hours.items()]
    known = pl.DataFrame(rows, schema=["symbol", "day", "opens", "closes"], orient="row")
    both = orders.join(known, on=["symbol", "day"], how="left")
    ends = pl.col("time") + (pl.col("horizon") * SECOND).cast(pl.Int64)
    within = (pl.col("time") >= pl.col("opens")) & (ends <= pl.col("closes"))
    _hold(both, within, "an order at {time} is outside the hours {opens} to {closes}")


def check_bound(orders: pl.DataFrame) -> None:
    """Raise `InvariantError` if an order costs less than with perfect foresight."""
    scale = 1e4 / (pl.col("shares") * pl.col("mid"))
    key = [name for name in KEY if name != "router"]
    bound = orders.filter(pl.col("router") == CLAIRVOYANT).select(*key, bound=pl.col("cost") * scale)
    both = orders.with_columns(bps=pl.col("cost") * scale).join(bound, on=key)
    allowed = pl.col("bps") >= pl.col("bound") - _TOLERANCE_BPS
    _hold(both, allowed, f"cost of {{bps}} bps is below the {{bound}} bps of the {CLAIRVOYANT}")


def _same(one: pl.Expr, other: pl.Expr, scale: pl.Expr) -> pl.Expr:
    return ((one - other) * scale).abs() <= _TOLERANCE_BPS


def _hold(table: pl.DataFrame, rule: pl.Expr, text: str) -> None:
    wrong = table.filter(~rule.fill_null(False))
    if wrong.height:
        row = wrong.row(0, named=True)
        order = f"order {row['number']} of {row['symbol']} on {row['day']} by {row['router']}, seed {row['seed']}"
        count = f" ({wrong.height:,} such rows)" if wrong.height > 1 else ""
        raise InvariantError(f"{order}: {text.format(**row)}{count}; results would be wrong, please report this")
