"""Small tables of orders and fills, and costs by loops over their rows: plain twins of the polars tables."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from riskroute.core.instrument import TRADING_ZONE
from riskroute.market.clock import local_time
from riskroute.study.day_tables import CHILDREN, FILLS, KEY, ORDERS

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
        key
        | mids
        | counts
        | {
            "time": NOON,
            "sign": 1,
            "quantity": 1000.0,
            "multiplier": 1.0,
            "currency": "USD",
            "horizon": 0.0,
            "bid": 99.99,
            "ask": 100.01,
        }
    )
    order |= {"depth": 4000.0, "end_spread": 0.02, "cost": 0.0, "fees": 0.0, "decision_us": 20.0}
    order |= {"twap": 100.0, "vwap": 100.0, "traded": 500.0} | other
    order |= {"benchmark": other.get("benchmark", order["mid"])}
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
    return named | mids | {"time": when, "quantity": shares, "price": price, "fee": 0.0, "estimated": False} | other


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
    drawn |= {"twap": near(mid), "vwap": near(mid), "traded": float(rng.integers(3))}
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
        multiplier=float(rng.choice([1, 50])),
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
                dollars += shares * (order["multiplier"] * order["sign"] * (fill["price"] - mid) + fee)
                fees += shares * fee
        children.append(row)
    # some shares may never be filled
    orders.append(order | {"quantity": max(total, 1) + 50 * int(rng.integers(2)), "cost": dollars, "fees": fees})


def recomputed_cost(orders: pl.DataFrame, fills: pl.DataFrame) -> pl.DataFrame:
    """Cost of every order in basis points, fees included, from its fills alone; null without fills."""
    arrivals = orders.select(*KEY, "sign", "multiplier", arrival="mid", ordered="quantity")
    return (
        arrivals.join(fills, on=KEY, how="left", maintain_order="left")
        .with_columns(
            paid=pl.col("sign") * pl.col("multiplier") * (pl.col("price") - pl.col("arrival")) + pl.col("fee")
        )
        .group_by(KEY, maintain_order=True)
        .agg(
            dollars=pl.when(pl.col("quantity").count() > 0).then((pl.col("quantity") * pl.col("paid")).sum()),
            value=(pl.col("ordered") * pl.col("arrival") * pl.col("multiplier")).first(),
        )
        .select(*KEY, cost_bps=1e4 * pl.col("dollars") / pl.col("value"))
    )


Row = dict[str, Any]
DARK, PASSIVE = ("dark", "dark_rest"), ("dark", "dark_rest", "limit")


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Weighted mean of values and weights, without values that are not numbers."""
    known = [(value, weight) for value, weight in pairs if not math.isnan(value)]
    weight = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weight if weight else None


def plain_mean(values: Iterable[float]) -> float | None:
    return mean((value, 1.0) for value in values)


def quantile(pairs: Iterable[tuple[float, int]], part: int, parts: int = 100) -> float | None:
    """The value of the share that stands at this place when every share has its own row."""
    each = sorted(value for value, weight in pairs for _ in range(weight))
    return each[math.ceil(len(each) * part / parts) - 1] if each else None


def worst(values: list[float], percent: int) -> float:
    """Mean of the worst per cent, with every value cut into a hundred equal pieces."""
    pieces = sorted((value for value in values for _ in range(100)), reverse=True)
    return float(np.mean(pieces[: percent * len(values)]))


def quotient(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def bps(order: Row, later: float, earlier: float) -> float:
    return 1e4 * float(order["sign"]) * (later - earlier) / float(order["mid"])


def fade(children: Rows) -> float | None:
    taking = [row for row in children if row["kind"] == "take" and row["displayed"] > 0 and row["sent"] > 0]
    hoped = sum(min(row["sent"], row["displayed"]) for row in taking)
    return 1 - sum(row["filled"] for row in taking) / hoped if hoped else None


def is_late(fill: Row, order: Row) -> bool:
    end = order["time"] + order["horizon"] * SECOND
    return bool(fill["kind"] == "sweep" and order["horizon"] > 0 and fill["time"] >= end)


def of_one_order(order: Row, fills: Rows) -> dict[str, float]:
    """Cost, slippage, fees, shortfall, opportunity and reversions of an order; NaN for what is not known."""
    sign, mid, value = order["sign"], order["mid"], order["quantity"] * order["mid"] / 1e4
    money = value * order["multiplier"]
    lost = [(fill["quantity"] * sign * (fill["price"] - mid), is_late(fill, order)) for fill in fills]
    filled = sum(fill["quantity"] for fill in fills)
    rest = order["quantity"] - sum(fill["quantity"] for fill in fills if not is_late(fill, order))
    charge = sign * (order["end_mid"] - mid) + order["end_spread"] / 2
    opportunity = rest * charge / value if rest else 0.0
    last = max(fills, key=lambda fill: fill["time"])["mid"] if fills else math.nan
    return {
        "cost_bps": order["cost"] / money,
        "fees_bps": order["fees"] / money,
        "slippage_bps": 1e4 * sum(one for one, _ in lost) / (filled * mid) if filled else math.nan,
        "opportunity_bps": opportunity,
        "shortfall_bps": sum(one for one, late in lost if not late) / value + opportunity + order["fees"] / money,
        "late": rest,
        **{f"reversion_{s}_bps": 1e4 * sign * (last - order[f"after_{s}"]) / mid for s in (1, 10, 60)},
    }


def naive_router(router: str, orders: Rows, children: Rows, fills: Rows) -> Row:
    """All measures of a router but its terciles."""
    orders, children, fills = ([row for row in rows if row["router"] == router] for rows in (orders, children, fills))
    by_key = {key_of(order): order for order in orders}
    pairs = [(fill, by_key[key_of(fill)]) for fill in fills]
    singles = [of_one_order(order, [fill for fill in fills if key_of(fill) == key_of(order)]) for order in orders]
    costs = [one["cost_bps"] for one in singles]
    total = sum(fill["quantity"] for fill in fills)
    touch = [(order["ask"] if order["sign"] > 0 else order["bid"]) for _, order in pairs]
    gains = [order["sign"] * (best - fill["price"]) for (fill, order), best in zip(pairs, touch, strict=True)]
    limits = [(f, o) for f, o in pairs if f["kind"] == "limit" and not math.isnan(f["mid"])]
    found: Row = {
        "router": router,
        "orders": len(orders),
        "quantity": sum(order["quantity"] for order in orders),
        "blocks": len({(order["day"], order["block"]) for order in orders}),
        "sd_bps": float(np.std(costs, ddof=1)) if len(costs) > 1 else None,
        "es95_bps": worst(costs, 5),
        "worst_bps": worst(costs, 1),
        "late_share": sum(one["late"] for one in singles) / sum(order["quantity"] for order in orders),
        "effective_spread_bps": mean((2 * bps(o, f["price"], f["mid"]), f["quantity"]) for f, o in pairs),
        "realised_spread_bps": mean((2 * bps(o, f["price"], f["mid_10"]), f["quantity"]) for f, o in pairs),
        "quoted_spread_bps": mean((1e4 * (o["ask"] - o["bid"]) / o["mid"], o["quantity"]) for o in orders),
        "improvement_bps": mean((1e4 * g / o["mid"], f["quantity"]) for (f, o), g in zip(pairs, gains, strict=True)),
        "improved_share": mean((float(g > 1e-9), f["quantity"]) for (f, _), g in zip(pairs, gains, strict=True)),
        "spread_capture": quotient(
            sum(f["quantity"] * o["sign"] * (f["mid"] - f["price"]) for f, o in limits),
            sum(f["quantity"] * (o["ask"] - o["bid"]) / 2 for f, o in limits),
        ),
        "fade": fade(children),
        "stale_books": sum(order["stale"] for order in orders),
        "decision_us": plain_mean(order["decision_us"] for order in orders),
        "decision_99_us": quantile(((order["decision_us"], 1) for order in orders), 99),
    }
    found["spread_ratio"] = (
        None
        if found["effective_spread_bps"] is None
        else quotient(found["effective_spread_bps"], found["quoted_spread_bps"])
    )
    for name in singles[0]:
        if name != "late":
            found[name] = plain_mean(one[name] for one in singles)
    for name, kinds in {"dark": DARK, "limit": ("limit",), "taken": ("take", "sweep")}.items():
        found[f"{name}_share"] = quotient(sum(fill["quantity"] for fill in fills if fill["kind"] in kinds), total)
    for name, kinds in {"dark": DARK, "limit": ("limit",), "ioc": ("take",)}.items():
        own = [row for row in children if row["kind"] in kinds and row["sent"] > 0]
        found[f"{name}_fill_rate"] = quotient(sum(row["filled"] for row in own), sum(row["sent"] for row in own))
        found[f"{name}_hit_rate"] = quotient(sum(row["filled"] > 0 for row in own), len(own))
    for percent in (50, 90, 99):
        waits = [((fill["time"] - order["time"]) / SECOND, fill["quantity"]) for fill, order in pairs]
        found[f"fill_seconds_{percent}"] = quantile(waits, percent)
    for s in (1, 10, 60):
        found[f"markout_{s}_bps"] = mean((bps(o, f[f"mid_{s}"], f["price"]), f["quantity"]) for f, o in pairs)
    for name in ("estimated", "prevented", "through"):
        found[name] = sum(order[name] for order in orders)
    found["estimated_share"] = found["estimated"] / found["quantity"]
    return found


def naive_benchmarks(router: str, orders: Rows, fills: Rows) -> Row:
    """Mean cost against every price, fill by fill; orders that are not filled cost what the move of the price says."""
    orders = [order for order in orders if order["router"] == router]
    costs: dict[str, list[float]] = {name: [] for name in ("arrival", "touch", "vwap", "twap")}
    for order in orders:
        own = [fill for fill in fills if key_of(fill) == key_of(order)]
        touch = order["ask"] if order["sign"] > 0 else order["bid"]
        prices = {"arrival": order["mid"], "touch": touch, "vwap": order["vwap"], "twap": order["twap"]}
        left = order["quantity"] - sum(fill["quantity"] for fill in own)  # as if at the mid
        for name, price in prices.items():
            paid = [(fill["price"], fill["quantity"]) for fill in own] + [(order["mid"], left)]
            money = sum(order["sign"] * (at - price) * some for at, some in paid) * order["multiplier"]
            whole = money + sum(fill["quantity"] * fill["fee"] for fill in own)
            costs[name].append(1e4 * whole / (order["quantity"] * order["mid"] * order["multiplier"]))
    untraded = [float(order["traded"] == 0 and order["horizon"] > 0) for order in orders]
    return {f"{name}_bps": plain_mean(some) for name, some in costs.items()} | {"untraded_share": plain_mean(untraded)}


def naive_terciles(router: str, orders: Rows) -> list[tuple[Any, ...]]:
    """Measure, third, least, most, orders, mean cost and its tail."""
    clock = {key_of(o): dt.datetime.fromtimestamp(o["time"] / SECOND, tz=ZoneInfo("America/New_York")) for o in orders}
    measures: dict[str, Callable[[Row], float]] = {
        "spread": lambda o: 1e4 * (o["ask"] - o["bid"]) / o["mid"],
        "time": lambda o: clock[key_of(o)].hour + clock[key_of(o)].minute / 60 + clock[key_of(o)].second / 3600,
        "size": lambda o: o["quantity"] / o["depth"] if o["depth"] else math.nan,
    }
    found: list[tuple[Any, ...]] = []
    for name, measure in measures.items():
        values = sorted(measure(order) for order in orders if not math.isnan(measure(order)))
        if not values:
            continue
        edges = [-math.inf, *(values[math.ceil(len(values) * k / 3) - 1] + 1e-9 for k in (1, 2)), math.inf]
        for third, low, high in zip(("low", "middle", "high"), edges[:-1], edges[1:], strict=True):
            own = [order for order in orders if order["router"] == router and low < measure(order) <= high]
            costs = [1e4 * o["cost"] / (o["quantity"] * o["mid"] * o["multiplier"]) for o in own]
            if own:
                ends = min(map(measure, own)), max(map(measure, own))
                found.append((name, third, *ends, len(own), float(np.mean(costs)), worst(costs, 5)))
    return found


def naive_venue(place: tuple[str, str, str], orders: Rows, children: Rows, fills: Rows) -> Row:
    """All measures of a router, place and kind but the intervals."""
    router, where, kind = place
    by_key = {key_of(order): order for order in orders}
    posted = {(key_of(row), row["child"]): row["posted"] for row in children}
    volume = sum(fill["quantity"] for fill in fills if fill["router"] == router)
    own = [row for row in children if (row["router"], row["place"], row["kind"]) == place and row["sent"] > 0]
    pairs = [(f, by_key[key_of(f)]) for f in fills if (f["router"], f["place"], f["kind"]) == place]
    filled = sum(row["filled"] for row in own)
    half = {key_of(o): 1e4 * (o["ask"] - o["bid"]) / 2 / o["mid"] for o in orders}
    found: Row = {
        "router": router,
        "place": where,
        "kind": kind,
        "orders": len({key_of(row) for row in own}),
        "blocks": len({(o["day"], o["block"]) for _, o in pairs}),
        "sent": sum(row["sent"] for row in own),
        "filled": filled,
        "fill_rate": filled / sum(row["sent"] for row in own),
        "hit_rate": len({key_of(row) for row in own if row["filled"]}) / len({key_of(row) for row in own}),
        "volume_share": quotient(filled, volume),
        "fade": fade(own),
        "slippage_bps": mean((bps(o, f["price"], o["mid"]), f["quantity"]) for f, o in pairs),
        "fees_bps": mean((1e4 * f["fee"] / o["mid"] / o["multiplier"], f["quantity"]) for f, o in pairs),
        "effective_spread_bps": mean((2 * bps(o, f["price"], f["mid"]), f["quantity"]) for f, o in pairs),
        "saving_bps": None,
        "net_saving_bps": None,
        "toxicity": None,
    }
    for percent in (50, 90):
        waits = [((f["time"] - posted[key_of(f), f["child"]]) / SECOND, f["quantity"]) for f, _ in pairs]
        found[f"fill_seconds_{percent}"] = quantile(waits, percent)
    for s in (1, 10, 60):
        found[f"markout_{s}_bps"] = mean((bps(o, f[f"mid_{s}"], f["price"]), f["quantity"]) for f, o in pairs)
        moved = mean((bps(o, f[f"mid_{s}"], f["mid"]), f["quantity"]) for f, o in pairs)
        found[f"mid_markout_{s}_bps"] = moved
        found[f"adverse_{s}_bps"] = -moved if moved is not None and kind in PASSIVE else None
    if kind in PASSIVE:
        savings = [
            (
                half[key_of(o)] - bps(o, f["price"], f["mid"]) - 1e4 * f["fee"] / o["mid"] / o["multiplier"],
                half[key_of(o)] + bps(o, f["mid_10"], f["price"]) - 1e4 * f["fee"] / o["mid"] / o["multiplier"],
                f["quantity"],
            )
            for f, o in pairs
        ]
        found["saving_bps"] = mean((saving, weight) for saving, _, weight in savings)
        found["net_saving_bps"] = mean((net, weight) for _, net, weight in savings)
        known = [(half[key_of(o)], f["quantity"]) for f, o in pairs if not math.isnan(f["mid_1"] + f["mid"])]
        if found["adverse_1_bps"] is not None:
            found["toxicity"] = quotient(found["adverse_1_bps"], mean(known) or 0.0)
    return found
