"""Savings of one router against another: overall, by state of the market, by hour, by venue, and over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import polars

from riskroute.core.arrays import Integers, Vector
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import SIDES
from riskroute.market.clock import SECOND, zone_label
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context, VenueBooks
from riskroute.routers.contextual.market_features import market_features
from riskroute.routers.report import KINDS
from riskroute.simulation.backtest import TradingDay
from riskroute.study.comparison import ORDER, ROUNDING, Paired, block_numbers, costs_in_bps
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import TERCILES, VenueCosts, plain_quantile
from riskroute.study.markets import MarketDay
from riskroute.study.play import trading_day
from riskroute.study.records import (
    Estimate,
    HourCost,
    LearningCost,
    LearningCurve,
    LearningPoint,
    RoutingRow,
    Saving,
    StateDifference,
)
from riskroute.study.statistics import bootstrap_difference
from riskroute.study.tables import KEY, Tables
from riskroute.study.venue_costs import venue_costs

_TERCILE_MEASURES = ("spread", "volatility", "depth")
_SPREADS = ("narrow", "middle", "wide")
_IMBALANCES = ("with us", "against us")  # more shares on the opposite side than on ours: the price tends towards us


def paired_orders(orders: polars.DataFrame, router: str, against: str) -> polars.DataFrame:
    """Return the judged orders with ``bps`` and ``dollars``: the cost of one router minus that of another."""
    judged = costs_in_bps(orders.filter(polars.col("judged") & polars.col("router").is_in([router, against])))
    costs = [polars.col("cost_bps").mean(), polars.col("cost").mean()]
    means = judged.group_by("router", *ORDER, "block", maintain_order=True).agg(costs)
    one, other = (means.filter(polars.col("router") == name).drop("router") for name in (router, against))
    both = one.join(other, on=[*ORDER, "block"], suffix="_other").sort(ORDER)
    gap = polars.col("cost_bps") - polars.col("cost_bps_other")
    same = gap.abs() < ROUNDING
    return both.select(
        *ORDER,
        "block",
        bps=polars.when(same).then(0.0).otherwise(gap),
        dollars=polars.when(same).then(0.0).otherwise(polars.col("cost") - polars.col("cost_other")),
    )


def _estimate(values: Vector, blocks: Integers, seed: int, *names: object) -> Estimate:
    """Return the mean with its confidence interval; ``names`` identify its random stream."""
    rng = np.random.default_rng(seed_stream(seed, "desk", *map(str, names)))
    found = bootstrap_difference(values, blocks, rng)
    return Estimate(found.mean, _known(found.low), _known(found.high))


def saving_of(
    orders: polars.DataFrame, router: str, against: str, *, seed: int, paired: Paired | None = None
) -> Saving:
    """Return the saving of a router against another; ``paired`` gives the basis points if the backtest has them."""
    gaps = paired_orders(orders, router, against)
    blocks, days = block_numbers(gaps), gaps.select(polars.struct("symbol", "day").n_unique()).item()
    if paired is None:
        rng = np.random.default_rng(seed_stream(seed, "desk", router, against, "bps"))
        found = bootstrap_difference(gaps["bps"].to_numpy(), blocks, rng)
        bps, detectable = Estimate(found.mean, _known(found.low), _known(found.high)), _known(found.detectable)
    else:
        bps, detectable = Estimate(paired.difference_bps, paired.low, paired.high), paired.detectable_bps
    dollars = _estimate(gaps["dollars"].to_numpy(), blocks, seed, router, against, "dollars").negated
    return Saving(
        router,
        against,
        bps.negated,
        dollars_per_order=dollars,
        dollars_per_day=dollars.times(gaps.height / days),
        detectable_bps=detectable,
        dollars_per_1000_orders=dollars.times(1000),
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def order_states(orders: polars.DataFrame, days: Sequence[MarketDay], config: BacktestConfig) -> polars.DataFrame:
    """Return the state of the market at the arrival of every judged order, one row each.

    Columns are the measures of `StateDifference`; ``imbalance`` is (ours - opposite) / (ours + opposite) of the shares
    at the best prices: if positive, the price tends to move away from us.
    """
    plain = orders.filter(polars.col("judged")).unique(ORDER, keep="first", maintain_order=True).sort(ORDER)
    table = plain.select(
        *ORDER,
        "time",
        side="sign",
        zone="zone",
        hour=polars.col("clock").dt.hour().cast(polars.Int64),
        spread=1e4 * (polars.col("ask") - polars.col("bid")) / polars.col("mid"),
        depth="depth",
    )
    parts = []
    for day in days:
        mine = table.filter((polars.col("symbol") == day.symbol) & (polars.col("day") == str(day.date)))
        if mine.height:
            trading = trading_day(day, config)
            times, signs = mine["time"].to_list(), mine["side"].to_list()
            volatility = [_volatility(trading.books, time) for time in times]
            imbalance = [_imbalance(trading, time, sign) for time, sign in zip(times, signs, strict=True)]
            parts.append(
                mine.with_columns(
                    volatility=polars.Series(volatility, dtype=polars.Float64).fill_nan(None),
                    imbalance=polars.Series(imbalance, dtype=polars.Float64),
                )
            )
    return polars.concat(parts)


def _volatility(books: DayBooks, time: int) -> float:
    """Return basis points per root second; NaN where nothing was displayed."""
    mids = books.mids(time - SECOND * np.arange(300, -1, -1))  # the five minutes before
    moves = np.diff(mids) / mids[-1]
    moves = moves[np.isfinite(moves)]
    return 1e4 * math.sqrt(float(moves @ moves) / len(moves)) if len(moves) else math.nan


def _imbalance(day: TradingDay, time: int, sign: int) -> float:
    """Return the imbalance as a router computes it from the same books."""
    now = day.books.as_of(time)
    sides = (now.bid_px, now.bid_sz, now.ask_px, now.ask_sz)
    books = VenueBooks(day.books.venues, *sides, day.takers, day.makers, now.ages)
    return market_features(Context("order", SIDES[0] if sign > 0 else SIDES[1], 1, books), 0.0).imbalance


def _with_terciles(table: polars.DataFrame, measure: str, names: Sequence[str] = TERCILES) -> polars.DataFrame:
    """Return the rows that have a measure, with their tercile as ``state``; equal values stay together."""
    known = table.drop_nulls(measure)
    edges = known.select(plain_quantile(polars.col(measure), part, 3).alias(f"{part}") for part in (1, 2)).row(0)
    third = polars.sum_horizontal((polars.col(measure) > edge).cast(polars.Int64) for edge in edges)
    return known.with_columns(state=third.replace_strict(dict(enumerate(names)), return_dtype=polars.String))


def _imbalance_state() -> polars.Expr:
    towards, away = map(polars.lit, _IMBALANCES)
    return polars.when(polars.col("imbalance") > 0).then(away).otherwise(towards)


def differences_by_state(
    orders: polars.DataFrame, states: polars.DataFrame, router: str, against: str, *, seed: int
) -> tuple[StateDifference, ...]:
    """Return the difference between two routers by symbol, side, hour, imbalance, and tercile of the other measures."""
    gaps = paired_orders(orders, router, against).join(states, on=ORDER, how="left", maintain_order="left")
    side = polars.when(polars.col("side") > 0).then(polars.lit("buy")).otherwise(polars.lit("sell"))
    zones = gaps["zone"].unique(maintain_order=True).to_list()
    place = polars.col("zone").replace_strict({zone: zone_label(zone) for zone in zones}, return_dtype=polars.String)
    hour = polars.format("{}:00 to {}:00 {}", "hour", polars.col("hour") + 1, place)
    plain = {"symbol": polars.col("symbol"), "side": side, "hour": hour, "imbalance": _imbalance_state()}
    tables = {
        name: gaps.sort(name, maintain_order=True).with_columns(state=state)
        for name, state in plain.items()
        if name == "hour" or gaps[name].n_unique() > 1
    }
    for name in _TERCILE_MEASURES:
        if gaps[name].count():
            tables[name] = _with_terciles(gaps.sort(name, maintain_order=True), name)
    found = []
    for measure, table in tables.items():
        for (state,), some in table.group_by("state", maintain_order=True):
            mine = some.sort(ORDER)
            values = mine[measure].to_numpy() if measure in _TERCILE_MEASURES else None
            least, most = (None, None) if values is None else (float(values.min()), float(values.max()))
            difference = _estimate(
                mine["bps"].to_numpy(), block_numbers(mine), seed, router, against, measure, str(state)
            )
            found.append(StateDifference(measure, str(state), least, most, mine.height, difference))
    return tuple(found)


def estimated_share(orders: polars.DataFrame) -> float:
    """Return the fraction of the judged volume of all routers at estimated prices."""
    judged = orders.filter(polars.col("judged"))
    return float(judged["estimated"].sum()) / float(judged["shares"].sum())


def learning_cost(orders: polars.DataFrame, router: str, *, seed: int) -> LearningCost | None:
    """Return the exploration cost of a router on the first day of every symbol and afterwards."""
    spent = 1e4 * polars.col("exploration") / (polars.col("shares") * polars.col("mid"))
    mine = orders.filter(polars.col("router") == router).with_columns(spent=spent).filter(spent.is_finite())
    if mine.is_empty():
        return None
    per_order = mine.group_by(*ORDER, "block").agg(polars.col("spent").mean()).sort(ORDER)
    first = polars.col("day") == polars.col("day").min().over("symbol")
    parts = [per_order.filter(first), per_order.filter(~first)]
    found = [
        _estimate(part["spent"].to_numpy(), block_numbers(part), seed, router, "learning", when)
        if part.height
        else None
        for when, part in zip(("first", "later"), parts, strict=True)
    ]
    return None if found[0] is None else LearningCost(found[0], found[1])


def hour_costs(
    orders: polars.DataFrame, states: polars.DataFrame, routers: Sequence[str], *, seed: int
) -> tuple[HourCost, ...]:
    """Return the cost of the judged orders of some routers by hour of arrival."""
    judged = costs_in_bps(orders.filter(polars.col("judged")))
    means = judged.group_by("router", *ORDER, "block").agg(polars.col("cost_bps").mean())
    table = means.join(states.select(*ORDER, "hour"), on=ORDER).sort(ORDER)
    found = []
    for router in routers:
        mine = table.filter(polars.col("router") == router)
        for hour in sorted(mine["hour"].unique()):
            some = mine.filter(polars.col("hour") == hour)
            cost = _estimate(some["cost_bps"].to_numpy(), block_numbers(some), seed, router, "hour", hour)
            found.append(HourCost(router, int(hour), some.height, cost))
    return tuple(found)


def costs_by_venue(tables: Tables, routers: Sequence[str], *, seed: int) -> tuple[VenueCosts, ...]:
    """Return the costs of the judged orders of some routers by venue and pool, in the order of the routers."""
    known = polars.col("judged") & polars.col("router").is_in(routers)
    judged = tables.orders.filter(known)
    rows = (frame.join(judged.select(KEY), on=KEY, how="semi") for frame in (tables.children, tables.fills))
    return tuple(sorted(venue_costs(judged, *rows, seed=seed), key=lambda one: routers.index(one.router)))


def learning_curve(orders: polars.DataFrame, router: str, against: str) -> LearningCurve:
    """Return the difference between two routers from the first training day to the last test day.

    The k-th orders of all symbols and seeds are averaged. No point mixes training and test days.
    """
    wide = _by_number(orders, router, against)
    gaps, spent = wide["gap"].to_numpy(), wide["spent"].to_numpy()
    explores = bool(np.isfinite(spent).any())
    points, done = [], 0
    for part in _parts(wide["test"].to_numpy()):
        done += len(part)
        so_far = slice(0, int(part[-1]) + 1)
        points.append(
            LearningPoint(
                orders=done,
                test=bool(wide["test"][int(part[0])]),
                difference_bps=float(gaps[part].mean()),
                so_far_bps=float(gaps[so_far].mean()),
                exploration_bps=_mean(spent[part]) if explores else None,
                exploration_so_far_bps=_mean(spent[so_far]) if explores else None,
            )
        )
    return LearningCurve(router, against, tuple(points))


def _by_number(orders: polars.DataFrame, router: str, against: str) -> polars.DataFrame:
    """Return one row per order number within a symbol: ``gap``, ``spent`` (NaN if unknown) and ``test``."""
    spent = 1e4 * polars.col("exploration") / (polars.col("shares") * polars.col("mid"))
    both = orders.filter(polars.col("router").is_in([router, against])).with_columns(spent=spent.fill_nan(None))
    means = costs_in_bps(both).group_by("router", *ORDER).agg(polars.col("cost_bps", "spent").mean(), test="judged")
    one, other = (means.filter(polars.col("router") == name).drop("router") for name in (router, against))
    gap = polars.col("cost_bps") - polars.col("cost_bps_other")
    return (
        one.join(other.select(*ORDER, "cost_bps"), on=ORDER, suffix="_other")
        .with_columns(
            place=polars.struct("day", "number").rank("ordinal").over("symbol"),
            gap=polars.when(gap.abs() < ROUNDING).then(0.0).otherwise(gap),
            test=polars.col("test").list.all(),
        )
        .group_by("place")
        .agg(polars.col("gap", "spent").mean(), polars.col("test").all())
        .sort("place")
        .with_columns(polars.col("spent").fill_null(math.nan))
    )


def _parts(test: Vector) -> Iterator[Integers]:
    """Yield the rows of each of about 24 points."""
    changes = np.flatnonzero(np.diff(test.astype(np.int64))) + 1
    for stretch in np.split(np.arange(len(test)), changes):
        yield from np.array_split(stretch, min(max(round(24 * len(stretch) / len(test)), 1), len(stretch)))


def _mean(values: Vector) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def routing_rows(tables: Tables, states: polars.DataFrame, router: str) -> tuple[RoutingRow, ...]:
    """Return where a router sent its shares on the test days, by tercile of the spread and sign of the imbalance."""
    state = _with_terciles(states, "spread", _SPREADS).select(*ORDER, spread="state", imbalance=_imbalance_state())
    by = ["spread", "imbalance"]
    counts = {(spread, one): count for spread, one, count in state.group_by(by).len().iter_rows()}
    mine = tables.children.filter((polars.col("router") == router) & (polars.col("sent") > 0)).join(state, on=ORDER)
    sums = mine.group_by(*by, "kind", "place").agg(polars.col("sent", "filled").sum())
    whole = sums.with_columns(
        sent_fraction=polars.col("sent") / polars.col("sent").sum().over(by),
        filled_fraction=polars.col("filled") / polars.col("filled").sum().over(by),
    )
    rows = [
        RoutingRow(orders=counts[row["spread"], row["imbalance"]], **row)
        for row in whole.drop("sent", "filled").to_dicts()
    ]
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                *(_SPREADS.index(row.spread), _IMBALANCES.index(row.imbalance)),
                *(KINDS.index(row.kind), -row.sent_fraction, row.place),
            ),
        )
    )
