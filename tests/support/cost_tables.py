"""Small tables of orders, child orders and fills: some made by hand, some drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from riskroute.market.clock import TRADING_ZONE, local_time
from riskroute.study.tables import CHILDREN, FILLS, KEY, ORDERS

SECOND = 1_000_000_000
NOON = 1_700_154_000 * SECOND
"""Midday in New York, 16 November 2023."""

Rows = list[dict[str, Any]]
Tables = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


def an_order(router: str = "sweep", number: int = 0, **other: Any) -> dict[str, Any]:
    """A purchase of 1,000 shares at a mid of 100.00, quoted at 99.99 to 100.01, without a horizon."""
    key = {"router": router, "seed": 0, "symbol": "QVEX", "day": "2023-11-16", "number": number}
    mids = dict.fromkeys(("mid", "end_mid", "after_1", "after_10", "after_60"), 100.0)
    counts = dict.fromkeys(("block", "estimated", "prevented", "through", "stale"), 0)
    order: dict[str, Any] = (
        key | mids | counts | {"time": NOON, "sign": 1, "shares": 1000, "horizon": 0.0, "bid": 99.99, "ask": 100.01}
    )
    order |= {"depth": 4000.0, "end_spread": 0.02, "cost": 0.0, "fees": 0.0, "decision_us": 20.0} | other
    return {"clock": local_time(order["time"]), "zone": TRADING_ZONE} | order


def a_child(order: dict[str, Any], child: int, kind: str, place: str, sent: int, **other: Any) -> dict[str, Any]:
    """A child order, sent when the order came, of which nothing is filled unless said so."""
    counts = {"filled": 0, "posted": order["time"], "last": 0, "known": order["time"]}
    given = {"child": child, "kind": kind, "place": place, "sent": sent, "price": 0.0, "fee": 0.0}
    return {name: order[name] for name in KEY} | given | counts | {"displayed": float("nan")} | other


def a_fill(child: dict[str, Any], after: float, shares: int, price: float, **other: Any) -> dict[str, Any]:
    """A fill some seconds after its child order was sent, while the mid stands at 100.00."""
    named = {name: child[name] for name in (*KEY, "child", "kind", "place")}
    mids = dict.fromkeys(("mid", "mid_1", "mid_10", "mid_60"), 100.0)
    when = child["posted"] + round(after * SECOND)
    return named | mids | {"time": when, "shares": shares, "price": price, "fee": 0.0, "estimated": False} | other


def as_tables(orders: Rows, children: Rows, fills: Rows) -> Tables:
    """Rows as tables."""
    return (
        pl.DataFrame(orders, schema={name: ORDERS[name] for name in ORDERS if name in an_order()}),
        pl.DataFrame(children, schema=CHILDREN),
        pl.DataFrame(fills, schema=FILLS),
    )


def random_rows(seed: int, count: int, routers: tuple[str, ...] = ("b", "a")) -> tuple[Rows, Rows, Rows]:
    """Orders with children of all kinds, and fills that add up to their shares; some mids are not known."""
    rng = np.random.default_rng(seed)
    orders: Rows = []
    children: Rows = []
    fills: Rows = []
    for number in range(count):
        for router in routers:
            _add_order(rng, router, number, orders, children, fills)
    return orders, children, fills


def _add_order(rng: np.random.Generator, router: str, number: int, orders: Rows, children: Rows, fills: Rows) -> None:
    def near(price: float) -> float:
        return float(price + 0.01 * rng.integers(-3, 4))

    def unsure(price: float) -> float:
        return float("nan") if rng.random() < 0.1 else near(price)

    mid = near(100.0)
    half = 0.01 * int(rng.integers(0, 3))
    seconds = float(rng.choice([0.0, 10.0]))
    drawn: dict[str, Any] = {name: unsure(mid) for name in ("end_mid", "after_1", "after_10", "after_60")}
    drawn |= {name: int(rng.integers(3)) for name in ("estimated", "prevented", "through", "stale")}
    order = an_order(
        router,
        number,
        time=NOON + int(rng.integers(3600)) * SECOND,
        day=f"2023-11-{16 + int(rng.integers(2))}",
        block=int(rng.integers(30)),
        sign=int(rng.choice([-1, 1])),
        mid=mid,
        bid=mid - half,
        ask=mid + half,
        horizon=seconds,
        depth=float(rng.integers(0, 5)) * 100,
        decision_us=float(rng.integers(1, 50)),
    )
    order |= drawn
    kinds = ["take", "sweep", "limit", "dark", "dark_rest"]
    total, dollars, fees = 0, 0.0, 0.0
    for child in range(int(rng.integers(1, 5))):
        kind = kinds[int(rng.integers(5))]
        place = str(rng.choice(["POOL", "MIDWAY"] if kind.startswith("dark") else ["XNAS", "XBOS"]))
        sent = int(rng.integers(0, 5)) * 100
        displayed = float(rng.integers(0, 4)) * 100 if kind in kinds[:2] else float("nan")
        posted = order["time"] + int(rng.integers(2)) * int(seconds * SECOND)
        row = a_child(order, child, kind, place, sent, posted=posted, displayed=displayed)
        for _ in range(int(rng.integers(3))):
            shares = min(int(rng.integers(1, 300)), sent - row["filled"])
            if shares > 0:
                mids = {name: unsure(mid) for name in ("mid", "mid_1", "mid_10", "mid_60")}
                fee = 0.001 * int(rng.integers(-2, 4))
                fill = a_fill(row, float(rng.integers(12)), shares, near(mid), fee=fee, **mids)
                fills.append(fill)
                row["filled"] += shares
                total += shares
                dollars += shares * (order["sign"] * (fill["price"] - mid) + fee)
                fees += shares * fee
        children.append(row)
    # some shares may never be filled
    orders.append(order | {"shares": max(total, 1) + 50 * int(rng.integers(2)), "cost": dollars, "fees": fees})


def recomputed_cost(orders: pl.DataFrame, fills: pl.DataFrame) -> pl.DataFrame:
    """Cost of every order in basis points, fees included, from its fills alone; null without fills."""
    arrivals = orders.select(*KEY, "sign", arrival="mid", ordered="shares")
    return (
        arrivals.join(fills, on=KEY, how="left", maintain_order="left")
        .with_columns(paid=pl.col("sign") * (pl.col("price") - pl.col("arrival")) + pl.col("fee"))
        .group_by(KEY, maintain_order=True)
        .agg(
            dollars=pl.when(pl.col("shares").count() > 0).then((pl.col("shares") * pl.col("paid")).sum()),
            value=(pl.col("ordered") * pl.col("arrival")).first(),
        )
        .select(*KEY, cost_bps=1e4 * pl.col("dollars") / pl.col("value"))
    )
