"""Costs of routers and venues by loops over rows: slow, plain twins of the tables of polars."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from cost_tables import SECOND, Rows
from riskroute.study.tables import KEY

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
    sign, mid, value = order["sign"], order["mid"], order["shares"] * order["mid"] / 1e4
    lost = [(fill["shares"] * sign * (fill["price"] - mid), is_late(fill, order)) for fill in fills]
    filled = sum(fill["shares"] for fill in fills)
    rest = order["shares"] - sum(fill["shares"] for fill in fills if not is_late(fill, order))
    charge = sign * (order["end_mid"] - mid) + order["end_spread"] / 2
    opportunity = rest * charge / value if rest else 0.0
    last = max(fills, key=lambda fill: fill["time"])["mid"] if fills else math.nan
    return {
        "cost_bps": order["cost"] / value,
        "fees_bps": order["fees"] / value,
        "slippage_bps": 1e4 * sum(one for one, _ in lost) / (filled * mid) if filled else math.nan,
        "opportunity_bps": opportunity,
        "shortfall_bps": sum(one for one, late in lost if not late) / value + opportunity + order["fees"] / value,
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
    total = sum(fill["shares"] for fill in fills)
    touch = [(order["ask"] if order["sign"] > 0 else order["bid"]) for _, order in pairs]
    gains = [order["sign"] * (best - fill["price"]) for (fill, order), best in zip(pairs, touch, strict=True)]
    limits = [(f, o) for f, o in pairs if f["kind"] == "limit" and not math.isnan(f["mid"])]
    found: Row = {
        "router": router,
        "orders": len(orders),
        "shares": sum(order["shares"] for order in orders),
        "blocks": len({(order["day"], order["block"]) for order in orders}),
        "sd_bps": float(np.std(costs, ddof=1)) if len(costs) > 1 else None,
        "es95_bps": worst(costs, 5),
        "worst_bps": worst(costs, 1),
        "late_share": sum(one["late"] for one in singles) / sum(order["shares"] for order in orders),
        "effective_spread_bps": mean((2 * bps(o, f["price"], f["mid"]), f["shares"]) for f, o in pairs),
        "quoted_spread_bps": mean((1e4 * (o["ask"] - o["bid"]) / o["mid"], o["shares"]) for o in orders),
        "improvement_bps": mean((1e4 * g / o["mid"], f["shares"]) for (f, o), g in zip(pairs, gains, strict=True)),
        "improved_share": mean((float(g > 1e-9), f["shares"]) for (f, _), g in zip(pairs, gains, strict=True)),
        "spread_capture": quotient(
            sum(f["shares"] * o["sign"] * (f["mid"] - f["price"]) for f, o in limits),
            sum(f["shares"] * (o["ask"] - o["bid"]) / 2 for f, o in limits),
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
        found[f"{name}_share"] = quotient(sum(fill["shares"] for fill in fills if fill["kind"] in kinds), total)
    for name, kinds in {"dark": DARK, "limit": ("limit",), "ioc": ("take",)}.items():
        own = [row for row in children if row["kind"] in kinds and row["sent"] > 0]
        found[f"{name}_fill_rate"] = quotient(sum(row["filled"] for row in own), sum(row["sent"] for row in own))
        found[f"{name}_hit_rate"] = quotient(sum(row["filled"] > 0 for row in own), len(own))
    for percent in (50, 90, 99):
        waits = [((fill["time"] - order["time"]) / SECOND, fill["shares"]) for fill, order in pairs]
        found[f"fill_seconds_{percent}"] = quantile(waits, percent)
    for s in (1, 10, 60):
        found[f"markout_{s}_bps"] = mean((bps(o, f[f"mid_{s}"], f["price"]), f["shares"]) for f, o in pairs)
    for name in ("estimated", "prevented", "through"):
        found[f"{name}_shares"] = sum(order[name] for order in orders)
    return found


def naive_terciles(router: str, orders: Rows) -> list[tuple[Any, ...]]:
    """Measure, third, least, most, orders, mean cost and its tail."""
    clock = {key_of(o): dt.datetime.fromtimestamp(o["time"] / SECOND, tz=ZoneInfo("America/New_York")) for o in orders}
    measures: dict[str, Callable[[Row], float]] = {
        "spread": lambda o: 1e4 * (o["ask"] - o["bid"]) / o["mid"],
        "time": lambda o: clock[key_of(o)].hour + clock[key_of(o)].minute / 60 + clock[key_of(o)].second / 3600,
        "size": lambda o: o["shares"] / o["depth"] if o["depth"] else math.nan,
    }
    found: list[tuple[Any, ...]] = []
    for name, measure in measures.items():
        values = sorted(measure(order) for order in orders if not math.isnan(measure(order)))
        if not values:
            continue
        edges = [-math.inf, *(values[math.ceil(len(values) * k / 3) - 1] + 1e-9 for k in (1, 2)), math.inf]
        for third, low, high in zip(("low", "middle", "high"), edges[:-1], edges[1:], strict=True):
            own = [order for order in orders if order["router"] == router and low < measure(order) <= high]
            costs = [1e4 * order["cost"] / (order["shares"] * order["mid"]) for order in own]
            if own:
                ends = min(map(measure, own)), max(map(measure, own))
                found.append((name, third, *ends, len(own), float(np.mean(costs)), worst(costs, 5)))
    return found


def naive_venue(place: tuple[str, str, str], orders: Rows, children: Rows, fills: Rows) -> Row:
    """All measures of a router, place and kind but the intervals."""
    router, where, kind = place
    by_key = {key_of(order): order for order in orders}
    posted = {(key_of(row), row["child"]): row["posted"] for row in children}
    volume = sum(fill["shares"] for fill in fills if fill["router"] == router)
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
        "slippage_bps": mean((bps(o, f["price"], o["mid"]), f["shares"]) for f, o in pairs),
        "fees_bps": mean((1e4 * f["fee"] / o["mid"], f["shares"]) for f, o in pairs),
        "effective_spread_bps": mean((2 * bps(o, f["price"], f["mid"]), f["shares"]) for f, o in pairs),
        "saving_bps": None,
        "net_saving_bps": None,
        "toxicity": None,
    }
    for percent in (50, 90):
        waits = [((f["time"] - posted[key_of(f), f["child"]]) / SECOND, f["shares"]) for f, _ in pairs]
        found[f"fill_seconds_{percent}"] = quantile(waits, percent)
    for s in (1, 10, 60):
        found[f"markout_{s}_bps"] = mean((bps(o, f[f"mid_{s}"], f["price"]), f["shares"]) for f, o in pairs)
        moved = mean((bps(o, f[f"mid_{s}"], f["mid"]), f["shares"]) for f, o in pairs)
        found[f"mid_markout_{s}_bps"] = moved
        found[f"adverse_{s}_bps"] = -moved if moved is not None and kind in PASSIVE else None
    if kind in PASSIVE:
        savings = [
            (
                half[key_of(o)] - bps(o, f["price"], f["mid"]) - 1e4 * f["fee"] / o["mid"],
                half[key_of(o)] + bps(o, f["mid_10"], f["price"]) - 1e4 * f["fee"] / o["mid"],
                f["shares"],
            )
            for f, o in pairs
        ]
        found["saving_bps"] = mean((saving, shares) for saving, _, shares in savings)
        found["net_saving_bps"] = mean((net, shares) for _, net, shares in savings)
        known = [(half[key_of(o)], f["shares"]) for f, o in pairs if not math.isnan(f["mid_1"] + f["mid"])]
        if found["adverse_1_bps"] is not None:
            found["toxicity"] = quotient(found["adverse_1_bps"], mean(known) or 0.0)
    return found
