"""Backtests of the product beside the oracle, order by order."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

import riskroute as rr
from oracle import MILLISECOND, SECOND, Charge, Market, Order, benchmarks, clairvoyant, play, spread
from riskroute.core.instrument import SHARES, Instrument
from riskroute.market import ReadingOptions, import_files
from riskroute.routing.fees import Fee, FeeSchedule
from riskroute.simulation.backends import Backend
from riskroute.study.costs import order_benchmark_costs

TOLERANCE = 1e-9  # basis points of an order's value at the mid
ROUTERS = ("sweep", "raw-sweep", "primary", "nbbo", "clairvoyant")


@dataclass
class Post(rr.routers.Router):
    """Post the whole order at the venue listed last."""

    name = "post"

    def decide(self, context: rr.routers.Context) -> rr.routers.Plan:
        return rr.routers.Plan(context.order, rest=f"post:{context.books.venues[-1]}")


@dataclass(frozen=True)
class Conditions:
    """How orders come and how they are traded."""

    protection: str = "none"
    latency_ms: float = 1.0
    horizon: float = 0.0
    shares: tuple[int, ...] = (1, 100, 1000, 5000)
    hours: str | None = None
    orders: int = 12


def played(
    folder: Path,
    fees: Mapping[str, tuple[Charge, Charge]],
    given: Conditions,
    *,
    kept: Path,
    routers: Sequence[str] = ROUTERS,
    instrument: Instrument = SHARES,
) -> Any:
    """Play the simple rules on the recordings of a folder."""
    return rr.backtest(
        folder,
        fees=schedule(fees, instrument),
        routers=[*routers, Post()],
        kept=kept,
        backend=Backend("local", 1),
        train=0,
        quantities=[float(instrument.natural(units)) for units in given.shares],
        horizon=given.horizon,
        latency_ms=given.latency_ms,
        protection=given.protection,
        hours=given.hours,
        orders=given.orders,
    ).tables


def schedule(fees: Mapping[str, tuple[Charge, Charge]], instrument: Instrument) -> FeeSchedule:
    """Write fees as a user would, in money per quantity of 1 and per order."""
    since, one, value = (
        dt.date(2000, 1, 1),
        instrument.quantity.removesuffix("s"),
        instrument.unit * instrument.multiplier,
    )
    written = []
    for name, both in fees.items():
        tables: list[Any] = []
        for fee in both:
            amount = Decimal(f"{fee.per_share:.9f}") * instrument.multiplier
            limits = {"minimum": fee.least, "maximum": fee.most}
            table = {"fee": f"{amount} per {one} + {fee.bps!r} bps" if amount else f"{fee.bps!r} bps"}
            tables.append(table | {key: Decimal(most) * value for key, most in limits.items() if abs(most) < math.inf})
        written.append(Fee(name, since, *tables))
    return FeeSchedule(written)


def recorded(
    paths: Mapping[str, Sequence[Path]], folder: Path, zone: str | None = None, instrument: Instrument = SHARES
) -> Path:
    """Import files by venue; those of venue "" name their venues themselves."""
    declared = {} if instrument is SHARES else {instrument.symbol: instrument}
    for venue, files in paths.items():
        import_files(list(files), folder, ReadingOptions(venue=venue or None, zone=zone, instruments=declared))
    return folder


def disagreements(
    tables: Any, market: Market, given: Conditions, zone: str, instrument: Instrument = SHARES
) -> list[str]:
    """Compare every order with the oracle, in units of the instrument; returns what differs, one line per order."""
    found = []
    stated = {_key(row): row for row in
              order_benchmark_costs(tables.orders, tables.fills).iter_rows(named=True)}  # fmt: skip
    prices: dict[Order, dict[str, float | None]] = {}  # the same for all routers
    units, value = 1 / instrument.unit_size, 1 / instrument.value
    tables = dataclasses.replace(
        tables,
        orders=tables.orders.with_columns(
            (pl.col("quantity", "estimated") * units).round(), pl.col("cost", "fees") * value
        ),
        fills=tables.fills.with_columns((pl.col("quantity") * units).round()),
    )
    fills: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for fill in tables.fills.iter_rows(named=True):
        fills.setdefault(_key(fill), []).append(fill)
    for row in tables.orders.filter(pl.col("router").is_in([*ROUTERS, Post.name])).iter_rows(named=True):
        order = Order(row["time"], row["sign"], row["quantity"], row["horizon"])
        wrong = _within_hours(order, given, zone)
        mid = market.mid(order.time)
        if mid is None or abs(row["mid"] - mid) > 1e-12 * mid:
            wrong.append(f"mid {row['mid']}, expected {mid}")
        else:
            if order not in prices:
                prices[order] = benchmarks(market, order)
            key = _key(row)
            wrong += _costs(row, fills[key], market, order, 1e4 / (order.shares * mid), stated[key], prices[order])
        if wrong:
            found.append(f"{row['router']} {order}: {'; '.join(wrong)}")
    return found


def _key(row: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return the key of an order or a fill on one day; every seed numbers its own orders."""
    return row["router"], row["seed"], row["number"]


def _costs(
    row: dict[str, Any],
    fills: list[dict[str, Any]],
    market: Market,
    order: Order,
    bps: float,
    stated: dict[str, float | None],
    prices: dict[str, float | None],
) -> list[str]:
    expected: dict[str, float | None] = {}
    if row["router"] == "clairvoyant":
        cost, known = clairvoyant(market, order), {}
    else:
        one = play(market, order, row["router"], venue=len(market.venues) - 1 if row["router"] == Post.name else 0)
        cost = one.cost
        known = {"estimated": one.estimated, "fees": sum(fill.shares * fill.fee for fill in one.fills)}
        mine, theirs = Counter[Any](), Counter[Any]()
        for fill in one.fills:
            mine[fill.time, fill.venue, round(fill.price, 9)] += fill.shares
        for each in fills:
            place = "" if each["estimated"] else each["place"]
            theirs[each["time"], place, round(each["price"], 9)] += each["quantity"]
        if mine != theirs:
            return [f"fills {sorted((theirs - mine).items())}, expected {sorted((mine - theirs).items())}"]
        expected = {
            f"{name}_spread_bps": spread(market, one, late) for name, late in (("effective", 0), ("realised", 10))
        }
    wrong = []
    for name, value in {"cost": cost, **known}.items():
        if not abs(row[name] - value) * (1 if name == "estimated" else bps) <= TOLERANCE:
            wrong.append(f"{name} {row[name]}, expected {value}")
    for name, price in prices.items():
        moved = None if price is None else order.shares * order.sign * (row["mid"] - price)
        expected[f"{name}_bps"] = None if moved is None else bps * (cost + moved)
    for name, amount in expected.items():
        if (stated[name] is None) != (amount is None) or not abs((stated[name] or 0.0) - (amount or 0.0)) <= TOLERANCE:
            wrong.append(f"{name} {stated[name]}, expected {amount}")
    return wrong


def _within_hours(order: Order, given: Conditions, zone: str) -> list[str]:
    """Orders arrive, and their horizon ends, within the hours asked for, on clocks of the recordings' zone."""
    if given.hours is None:
        return []
    first, last = (dt.time.fromisoformat(text) for text in given.hours.split("-"))
    wrong = []
    for stamp in (order.time, order.time + round(order.horizon * SECOND)):
        local = dt.datetime.fromtimestamp(stamp / SECOND, ZoneInfo(zone)).time()
        if not first <= local <= last:
            wrong.append(f"{local} {zone} is outside {given.hours}")
    return wrong


def oracle_market(
    books: Mapping[str, pl.DataFrame],
    fees: Mapping[str, tuple[Charge, Charge]],
    events: Mapping[str, pl.DataFrame] | None,
    given: Conditions,
) -> Market:
    """The market of the oracle under the same conditions."""
    latency = round(given.latency_ms * MILLISECOND)
    return Market(books, fees, events, protected=given.protection == "reg-nms", latency=latency)
