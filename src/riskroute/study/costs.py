"""Costs of orders by router: slippage, shortfall, spreads, tails, fills, markouts and reversion.

``s`` is 1 for a buy order and -1 for a sell order, ``S`` its quantity; a fill is of quantity ``q`` at price ``p`` at
time ``t``, and ``m[t]`` is the consolidated mid then. Costs, spreads and markouts are basis points of the arrival mid
``m0``; for costs and fees the value ``S m0`` includes the contract multiplier. Unknown values, such as the markout of a
pool that never filled, are null, never NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from riskroute.core.arrays import Floats
from riskroute.core.seeding import seed_stream, seeded_generator
from riskroute.core.text import TextTable, fixed_text
from riskroute.market.clock import SECOND
from riskroute.market.fitting import bootstrap_fit_buckets
from riskroute.study.day_tables import KEY, MARKOUTS, PRICE_BENCHMARKS, cost_against, notional
from riskroute.study.statistics import expected_shortfall, plain_quantile

_BPS = 1e4
DARK, PASSIVE, TAKING = (
    ("dark", "dark_rest"),
    ("dark", "dark_rest", "limit"),
    ("take", "sweep"),
)  # kinds of child orders
TERCILES = ("low", "middle", "high")
REALISED = 10  # seconds after a fill at which its realised spread is measured; one of `MARKOUTS`
_QUANTITY = pl.col("quantity")


def _ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return ``part / whole``, null unless ``whole`` is positive.

    Examples
    --------
    >>> pl.select(_ratio(pl.lit(3), pl.lit(4))).item(), pl.select(_ratio(pl.lit(3), pl.lit(0))).item()
    (0.75, None)
    """
    return pl.when(whole > 0).then(part / whole)


def _weighted_means(table: pl.DataFrame, by: Sequence[str], weight: str, values: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Return ``sum(w x) / sum(w)`` of several values by group, over the rows where they are known.

    Examples
    --------
    >>> table = pl.DataFrame({"place": ["A"] * 3, "x": [1.0, 4.0, None], "quantity": [200, 100, 700]})
    >>> _weighted_means(table, ["place"], "quantity", {"twice": 2 * pl.col("x")}).row(0)
    ('A', 4.0)
    """
    # products first, then plain sums by group: several times faster than expressions on groups
    products = table.select(*by, weight, **values).with_columns(
        *(pl.when(pl.col(name).is_not_null()).then(weight).alias(f"{name} w") for name in values),
        *((pl.col(name) * pl.col(weight)).alias(name) for name in values),
    )
    sums = products.drop(weight).group_by(by).sum()
    return sums.select(*by, *(_ratio(pl.col(name), pl.col(f"{name} w")).alias(name) for name in values))


def _weighted_quantiles(
    table: pl.DataFrame, by: Sequence[str], weight: str, value: pl.Expr, parts: Mapping[str, int]
) -> pl.DataFrame:
    """Return weighted quantiles by group, in per cent; rows with a null value are ignored.

    Examples
    --------
    >>> table = pl.DataFrame({"place": "A", "seconds": [9.0, 0.5, 2.0, None], "quantity": [100, 400, 500, 50]})
    >>> parts = {"p40": 40, "p50": 50, "p90": 90, "p91": 91}
    >>> _weighted_quantiles(table, ["place"], "quantity", pl.col("seconds"), parts).row(0)
    ('A', 0.5, 2.0, 2.0, 9.0)
    """
    sorted_rows = table.select(*by, weight, _value=value).drop_nulls("_value").sort("_value")
    reached, total = pl.col(weight).cum_sum(), pl.col(weight).sum()
    return sorted_rows.group_by(by).agg(
        # products, so that whole quantities are not rounded at the edge
        pl.col("_value").filter(reached * 100 >= total * part).first().alias(name)
        for name, part in parts.items()
    )


def order_costs_bps(orders: pl.DataFrame, impact: float = 0.0) -> pl.DataFrame:
    """Add ``cost_bps`` (fees and ``impact`` times the estimated market impact included) and ``unforeseen_bps``."""
    scale = _BPS / notional()
    pressed = pl.col("cost") + (impact * pl.col("impact") if impact else 0.0)
    return orders.with_columns(cost_bps=pressed * scale, unforeseen_bps=(pl.col("cost") - pl.col("foreseen")) * scale)


def order_objectives(orders: pl.DataFrame, kappa: float, impact: float = 0.0) -> pl.DataFrame:
    """Add ``cost_bps``, ``unforeseen_bps`` and ``objective_bps``; the mean of the last is `objective_cost`.

    Examples
    --------
    >>> rows = {"quantity": 100, "mid": 10.0, "multiplier": 1.0, "cost": [0.1, 0.3], "foreseen": 0.2, "impact": 0.0}
    >>> order_objectives(pl.DataFrame(rows), 0.05)["objective_bps"].round(9).to_list()
    [1.1, 3.1]
    """
    gap = pl.col("unforeseen_bps") - pl.col("unforeseen_bps").mean().over("quantity")
    count = pl.len().over("quantity")
    charge = pl.when(count > 1).then(kappa * gap**2 * count / (count - 1)).otherwise(0.0)
    return order_costs_bps(orders, impact).with_columns(objective_bps=pl.col("cost_bps") + charge)


def objective_cost(orders: pl.DataFrame, kappa: float, impact: float = 0.0) -> float:
    """Return the mean cost plus ``kappa`` times the variance of the unforeseen cost, in basis points.

    The unforeseen cost is the cost minus the cost of the plan if the displayed books hold and nothing else fills. A
    router sees the books before it sends, so their variation is no risk. Variances are computed by order size, then
    averaged over orders.

    Examples
    --------
    >>> rows = {"quantity": 100, "mid": 10.0, "multiplier": 1.0, "cost": [0.1, 0.3], "foreseen": 0.2, "impact": 0.0}
    >>> round(objective_cost(pl.DataFrame(rows), 0.05), 9)  # costs of 1 and 3, deviations of -1 and 1
    2.1
    """
    found = order_costs_bps(orders, impact)
    sizes = found.group_by("quantity").agg(pl.col("unforeseen_bps").var(), pl.len())
    weights = sizes["len"].to_numpy() / found.height
    variance = float((sizes["unforeseen_bps"].fill_null(0.0).to_numpy() * weights).sum())
    return float(found.select(pl.col("cost_bps").mean()).item()) + kappa * variance


def volume_fractions() -> dict[str, pl.Expr]:
    """Return expressions for the fractions of the filled quantity from dark pools, limit orders and taking."""
    kinds = {"dark_share": DARK, "limit_share": ("limit",), "taken_share": TAKING}
    return {name: _QUANTITY.filter(pl.col("kind").is_in(some)).sum() / _QUANTITY.sum() for name, some in kinds.items()}


def _signed_bps(later: pl.Expr, earlier: pl.Expr) -> pl.Expr:
    """Return ``s (later - earlier) / m0`` in basis points, from the columns ``sign`` and ``arrival`` of the order."""
    return _BPS * pl.col("sign") * (later - earlier) / pl.col("arrival")


def _markout(seconds: int) -> pl.Expr:
    """Return the markout ``s (m[t+D] - p) / m0`` of a fill; positive is good."""
    return _signed_bps(pl.col(f"mid_{seconds}"), pl.col("price"))


def _mid_markout(seconds: int) -> pl.Expr:
    """Return the mid-to-mid markout ``s (m[t+D] - m[t]) / m0`` of a fill, without the spread."""
    return _signed_bps(pl.col(f"mid_{seconds}"), pl.col("mid"))


def _effective_spread() -> pl.Expr:
    """Return the effective spread ``2 s (p - m[t]) / m0`` of a fill, against the mid as of the fill."""
    return 2 * _signed_bps(pl.col("price"), pl.col("mid"))


def _spreads() -> dict[str, pl.Expr]:
    return {"effective_spread_bps": _effective_spread(), "realised_spread_bps": -2 * _markout(REALISED)}


def _half_spread() -> pl.Expr:
    """Return half the quoted spread ``(ask - bid) / (2 m0)`` at the decision, from the best prices of all venues."""
    return _BPS * (pl.col("ask") - pl.col("bid")) / (2 * pl.col("arrival"))


def _sums_by_kind(children: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the ``count`` of child orders, the ``hits`` (those with a fill), and sums for fill rates and `_fade`."""
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


def _fade(met: pl.Expr, hoped: pl.Expr) -> pl.Expr:
    """Return the fade ``1 - sum(filled) / sum(min(sent, displayed))``; null where nothing was displayed.

    Examples
    --------
    >>> table = pl.DataFrame({"kind": "take", "sent": [100, 300], "filled": [100, 50], "displayed": [500.0, 100.0]})
    >>> _sums_by_kind(table, ["kind"]).select(_fade(pl.col("met"), pl.col("hoped"))).item()  # 150 of 200
    0.25
    """
    return 1 - _ratio(met, hoped)


Interval = tuple[float, float]


@dataclass(frozen=True)
class _CostTercile:
    """Costs of a tercile of the orders by a measure.

    Terciles are computed over the orders of all routers; ties are not split. ``measure`` is ``spread`` (quoted at the
    decision, basis points), ``time`` (hours since midnight in the zone of the day) or ``size`` (quantity of the order
    over the quantity displayed on the side to take from). ``least`` and ``most`` are the smallest and the largest value
    of the measure among the router's orders in the tercile.
    """

    measure: str
    tercile: str
    least: float
    most: float
    orders: int
    cost_bps: float
    sd_bps: float | None
    es95_bps: float


def _measure(label: str, unit: str, digits: int | None = None) -> Any:
    """Return a field of `RouterCosts` with its label, unit and digits in reports; default: the digits of the unit."""
    usual = {"": 0, "quantity": 0, "%": 1, "µs": 1, "bps": 2, "s": 3}
    return field(metadata={"label": label, "unit": unit, "digits": usual[unit] if digits is None else digits})


@dataclass(frozen=True)
class RouterCosts:
    """Costs and fills of the orders of one router.

    Costs are means over orders; spreads, markouts and times to fill are means and quantiles over quantity. Seeds,
    symbols and days are pooled. Every measure has its label and unit; these need a definition:

    - ``cost_bps``: mean of ``cost / (S m0)``, fees included; the cost is stated against the price benchmark.
    - ``slippage_bps``: arrival slippage without fees: mean of ``sum(q s (p - m0)) / (sum(q) m0)``.
    - ``fees_bps``: mean of ``fees / (S m0)``; rebates are negative.
    - ``shortfall_bps``: implementation shortfall: mean of ``[sum_on_time(q s (p - m0)) + L (s (m[H] - m0) + spread[H] /
      2) + fees] / (S m0)``. A fill is late if it is a sweep at or after the deadline ``H`` (if ``H > 0``); ``L = S -
      sum_on_time(q)`` is the quantity filled late or not at all, which is charged the far touch at the deadline. Orders
      with such a quantity and an unknown mid at the deadline are ignored.
    - ``opportunity_bps``: opportunity cost: mean of the second term alone, ``L (s (m[H] - m0) + spread[H] / 2) / (S
      m0)``.
    - ``effective_spread_bps``: ``2 s (p - m[t]) / m0``, over filled quantity.
    - ``realised_spread_bps``: ``2 s (p - m[t+10]) / m0``, over filled quantity: against the mid ten seconds later.
    - ``quoted_spread_bps``: ``(ask - bid) / m0`` at the decision, the best of all venues, over quantity ordered;
      negative where the books of two venues cross.
    - ``spread_ratio``: effective over quoted spread: 1 pays the whole spread.
    - ``improvement_bps``: ``s (touch - p) / m0`` over filled quantity, where the touch is the best displayed price to
      take at the decision; negative where fills were worse on average.
    - ``improved_share``: fraction of the filled quantity that traded at better than the touch.
    - ``spread_capture``: of limit orders: ``sum(q s (m[t] - p)) / sum(q (ask - bid) / 2)``; 1 earns half a quoted
      spread.
    - ``sd_bps``: standard deviation of the cost of an order, ``n - 1`` in the denominator.
    - ``es95_bps``, ``worst_bps``: expected shortfall at 5 % and at 1 %; the order at the edge counts by its fraction.
    - ``dark_share``, ``limit_share``, ``taken_share``: fractions of the filled quantity that traded in dark pools, by
      limit orders, and by taking and sweeping; they sum to 1.
    - ``dark_fill_rate``, ``limit_fill_rate``, ``ioc_fill_rate``: quantity filled over quantity sent, of child orders in
      dark pools, of limit orders, and of immediate-or-cancel orders. Quantity sent to several pools in turn counts at
      each. Sweeps are excluded: they are sized to the displayed books.
    - ``dark_hit_rate``, ``limit_hit_rate``, ``ioc_hit_rate``: fraction of these child orders with any fill.
    - ``fade``: ``1 - sum(filled) / sum(min(sent, displayed))`` of immediate child orders, with the size displayed at
      the decision. ``prevented`` quantity counts as faded, since it is not known by child order.
    - ``fill_seconds_50``, ``fill_seconds_90``, ``fill_seconds_99``: seconds after arrival within which this percentage
      of the filled quantity traded.
    - ``markout_1_bps``, ``markout_10_bps``, ``markout_60_bps``: ``s (m[t+D] - p) / m0`` over filled quantity, D seconds
      after each fill; positive is good.
    - ``reversion_1_bps``, ``reversion_10_bps``, ``reversion_60_bps``: mean over orders of ``s (m[end] - m[end+D]) /
      m0`` after the last fill; positive: the price reverted. Recorded books contain no impact of our own.
    - ``quantity``: natural quantity ordered; sums over instruments with different quantities have no meaning.
    - ``estimated``: quantity beyond the displayed size, filled at an estimated price.
    - ``prevented``, ``through``: quantity not taken because another venue had a better quote, and quantity that traded
      through a better quote.
    - ``zone``: time zone of the days; empty if there are several.
    """

    router: str
    terciles: tuple[_CostTercile, ...]
    orders: int = _measure("orders", "")
    quantity: float = _measure("quantity", "quantity")
    blocks: int = _measure("time blocks", "")
    cost_bps: float = _measure("cost, fees included", "bps")
    slippage_bps: float | None = _measure("arrival slippage", "bps")
    fees_bps: float = _measure("fees", "bps")
    shortfall_bps: float | None = _measure("implementation shortfall", "bps")
    opportunity_bps: float | None = _measure("opportunity cost in shortfall", "bps")
    late_share: float = _measure("filled late or not at all", "%")
    sd_bps: float | None = _measure("standard deviation", "bps")
    es95_bps: float = _measure("expected shortfall 5 %", "bps")
    worst_bps: float = _measure("mean of the worst 1 %", "bps")
    effective_spread_bps: float | None = _measure("effective spread", "bps")
    realised_spread_bps: float | None = _measure(f"realised spread, {REALISED} s", "bps")
    quoted_spread_bps: float | None = _measure("quoted spread", "bps")
    spread_ratio: float | None = _measure("effective / quoted", "", digits=2)
    improvement_bps: float | None = _measure("price improvement", "bps")
    improved_share: float | None = _measure("quantity improved", "%")
    spread_capture: float | None = _measure("half-spread captured by limit orders", "%")
    dark_share: float | None = _measure("filled in dark pools", "%")
    limit_share: float | None = _measure("filled by limit orders", "%")
    taken_share: float | None = _measure("taken", "%")
    dark_fill_rate: float | None = _measure("fill rate, dark", "%")
    limit_fill_rate: float | None = _measure("fill rate, limit", "%")
    ioc_fill_rate: float | None = _measure("fill rate, IOC", "%")
    dark_hit_rate: float | None = _measure("hit rate, dark", "%")
    limit_hit_rate: float | None = _measure("hit rate, limit", "%")
    ioc_hit_rate: float | None = _measure("hit rate, IOC", "%")
    fade: float | None = _measure("fade", "%")
    fill_seconds_50: float | None = _measure("time to fill 50 %", "s")
    fill_seconds_90: float | None = _measure("time to fill 90 %", "s")
    fill_seconds_99: float | None = _measure("time to fill 99 %", "s")
    markout_1_bps: float | None = _measure("markout 1 s", "bps")
    markout_10_bps: float | None = _measure("markout 10 s", "bps")
    markout_60_bps: float | None = _measure("markout 60 s", "bps")
    reversion_1_bps: float | None = _measure("reversion 1 s, without own impact", "bps")
    reversion_10_bps: float | None = _measure("reversion 10 s, without own impact", "bps")
    reversion_60_bps: float | None = _measure("reversion 60 s, without own impact", "bps")
    estimated: float = _measure("beyond the display, price estimated", "quantity")
    estimated_share: float = _measure("of the whole quantity", "%")
    prevented: float = _measure("prevented by a better quote", "quantity")
    through: float = _measure("traded through a better quote", "quantity")
    stale_books: int = _measure("books too old to be shown", "")
    decision_us: float | None = _measure("time to decide, mean", "µs")
    decision_99_us: float | None = _measure("time to decide, 99 %", "µs")
    zone: str = ""


@dataclass(frozen=True)
class BenchmarkCosts:
    """Mean cost of the orders of one router against every price benchmark, and the spreads that its fills paid.

    - ``arrival_bps``, ``touch_bps``, ``vwap_bps``, ``twap_bps``: mean over orders of ``[sum(q s (p - B)) + fees] / (S
      m0)``, against the mid at arrival, the far touch at arrival, and VWAP and TWAP from arrival to the horizon.
      ``vwap_bps`` is None unless all days have public trades.
    - ``effective_spread_bps``, ``realised_spread_bps``: as in `RouterCosts`.
    - ``untraded_share``: fraction of all orders that have a horizon above 0 and no public trade until then, so that
      their VWAP is the arrival mid; None unless all days have public trades.
    """

    router: str
    arrival_bps: float
    touch_bps: float
    vwap_bps: float | None
    twap_bps: float
    effective_spread_bps: float | None
    realised_spread_bps: float | None
    untraded_share: float | None


@dataclass(frozen=True)
class VenueCosts:
    """Costs of one kind of child order of one router at one venue or pool; means are over filled quantity.

    Adverse selection is measured for passive fills only (dark pools and limit orders), and null for other kinds.
    Measures that are not listed are defined as in `RouterCosts`.

    - ``place``, ``kind``: venue or pool, ``beyond`` for shares beyond all displayed depth; kind of child order: take,
      sweep, limit, dark or dark_rest.
    - ``orders``: number of orders with child orders there.
    - ``blocks``: time blocks with a fill there.
    - ``fill_rate``, ``hit_rate``: quantity filled over quantity sent, and fraction of the orders with any fill there.
    - ``volume_share``: fraction of the router's filled quantity.
    - ``fill_seconds_50``, ``fill_seconds_90``: seconds after sending within which this percentage of the filled
      quantity traded.
    - ``mid_markout_1_bps``, ``mid_markout_10_bps``, ``mid_markout_60_bps``: ``s (m[t+D] - m[t]) / m0``, without the
      spread.
    - ``adverse_1_bps``, ``adverse_10_bps``, ``adverse_60_bps``: adverse selection: minus the mid-to-mid markout.
    - ``adverse_1_interval``, ``adverse_10_interval``, ``adverse_60_interval``: 95 % bootstrap interval of the adverse
      selection over time blocks; null with fewer than 30 blocks.
    - ``toxicity``: adverse selection at 1 s over half the quoted spread at the decision, both over the same fills.
    - ``saving_bps``: saving of passive fills against a sweep at half the quoted spread: ``((ask - bid) / 2 - s (p -
      m[t]) - fee) / m0``; the sweep's taker fees and depth are ignored.
    - ``net_saving_bps``: ``saving_bps`` minus the adverse selection at 10 s: ``((ask - bid) / 2 + s (m[t+10] - p) -
      fee) / m0``.
    - ``toxic``: whether the whole interval of the adverse selection at 1 s is above ``saving_bps``; null without an
      interval.
    """

    router: str
    place: str
    kind: str
    orders: int
    blocks: int
    sent: float
    filled: float
    fill_rate: float | None
    hit_rate: float | None
    volume_share: float | None
    slippage_bps: float | None
    fees_bps: float | None
    effective_spread_bps: float | None
    fade: float | None
    fill_seconds_50: float | None
    fill_seconds_90: float | None
    markout_1_bps: float | None
    markout_10_bps: float | None
    markout_60_bps: float | None
    mid_markout_1_bps: float | None
    mid_markout_10_bps: float | None
    mid_markout_60_bps: float | None
    adverse_1_bps: float | None
    adverse_10_bps: float | None
    adverse_60_bps: float | None
    adverse_1_interval: Interval | None
    adverse_10_interval: Interval | None
    adverse_60_interval: Interval | None
    toxicity: float | None
    saving_bps: float | None
    net_saving_bps: float | None
    toxic: bool | None


@dataclass(frozen=True, eq=False)
class _CostInputs:
    """Orders, child orders and fills with null for unknown values; ``children`` and ``fills`` have order columns."""

    orders: pl.DataFrame
    children: pl.DataFrame
    fills: pl.DataFrame


def _cost_inputs(orders: pl.DataFrame, children: pl.DataFrame, fills: pl.DataFrame) -> _CostInputs:
    """Return the tables with null for unknown values, and the columns of each order added to its children and fills."""
    found = (
        _nulls(orders)
        .rename({"mid": "arrival"})
        .with_row_index("order")
        .with_columns(pl.col("order").cast(pl.Int64), period=pl.struct("day", "block").rank("dense").cast(pl.Int64) - 1)
    )
    names = ("order", "period", "arrival", "sign", "bid", "ask", "horizon", "multiplier")
    facts = found.select(*KEY, *names, begin="time")
    sent, filled = (_nulls(table).join(facts, on=KEY, how="left", maintain_order="left") for table in (children, fills))
    return _CostInputs(found, sent, filled)


def _nulls(table: pl.DataFrame) -> pl.DataFrame:
    """Replace NaN and infinities by null."""
    real = [name for name, kind in table.schema.items() if kind == pl.Float64]
    return table.with_columns(pl.when(pl.col(name).is_finite()).then(name).alias(name) for name in real)


def order_benchmark_costs(orders: pl.DataFrame, fills: pl.DataFrame) -> pl.DataFrame:
    """Return the measures of `BenchmarkCosts` for every order, with the columns of `KEY`."""
    tables = _cost_inputs(orders, fills.clear(), fills)
    costs = {f"{name}_bps": cost_against(name) * _BPS / notional() for name in PRICE_BENCHMARKS}
    untraded = ((pl.col("traded") == 0) & (pl.col("horizon") > 0)).cast(pl.Float64)
    found = _nulls(orders.select(*KEY, **costs, untraded_share=pl.when(pl.col("traded").is_finite()).then(untraded)))
    return found.join(_weighted_means(tables.fills, KEY, "quantity", _spreads()), on=KEY, how="left")


def benchmark_costs(orders: pl.DataFrame, fills: pl.DataFrame) -> tuple[BenchmarkCosts, ...]:
    """Return the costs of each router against every price benchmark, in the order of first appearance."""
    tables = _cost_inputs(orders, fills.clear(), fills)
    means = [pl.col(f"{name}_bps") for name in PRICE_BENCHMARKS] + [pl.col("untraded_share")]
    found = (
        order_benchmark_costs(orders, fills.clear())
        .group_by("router", maintain_order=True)
        .agg(pl.when(one.null_count() == 0).then(one.mean()) for one in means)
        .join(_weighted_means(tables.fills, ("router",), "quantity", _spreads()), on="router", how="left")
    )
    return tuple(BenchmarkCosts(**row) for row in found.to_dicts())


def benchmark_costs_table(costs: Sequence[BenchmarkCosts]) -> TextTable:
    """Return the costs against every price benchmark, and the spreads: one row per router, in basis points."""
    header = ["router", *PRICE_BENCHMARKS, "effective spread", f"realised spread, {REALISED} s"]
    names = [f"{name}_bps" for name in (*PRICE_BENCHMARKS, "effective_spread", "realised_spread")]
    return TextTable(header, [[one.router, *(fixed_text(getattr(one, name), 3) for name in names)] for one in costs])


def benchmark_notes(costs: Sequence[BenchmarkCosts]) -> tuple[str, ...]:
    """Return the meaning of the columns of `benchmark_costs_table`, and what is missing."""
    if not costs:
        return ()
    names = ", ".join(f"{name}: {text}" for name, text in PRICE_BENCHMARKS.items())
    notes = [f"cost against {names}; spreads are without fees"]
    share = costs[0].untraded_share
    if costs[0].vwap_bps is None:
        notes.append("vwap is not known without public trades, which not all recordings have")
    elif share:
        notes.append(f"vwap: the arrival mid for {share:.1%} of the orders, during which nothing traded")
    return tuple(notes)


def costs_by_router(orders: pl.DataFrame, children: pl.DataFrame, fills: pl.DataFrame) -> tuple[RouterCosts, ...]:
    """Return the costs of each router, in the order of first appearance; `RouterCosts` defines every measure.

    The tables have the columns of `riskroute.study.day_tables`.
    """
    tables = _cost_inputs(orders, children, fills)
    per_order = _orders_with_sums(tables.orders, tables.fills)
    waited = (pl.col("time") - pl.col("begin")) / SECOND
    table = per_order.group_by("router", maintain_order=True).agg(**_order_measures())
    for part in (
        _weighted_means(per_order, ("router",), "quantity", {"quoted_spread_bps": 2 * _half_spread()}),
        _fill_measures(tables.fills),
        _volume_measures(tables.fills),
        _weighted_quantiles(
            tables.fills, ("router",), "quantity", waited, {f"fill_seconds_{k}": k for k in (50, 90, 99)}
        ),
        _child_measures(tables.children),
    ):
        table = table.join(part, on="router", how="left", maintain_order="left")
    table = table.with_columns(spread_ratio=_ratio(pl.col("effective_spread_bps"), pl.col("quoted_spread_bps")))
    terciles = _terciles(per_order)
    return tuple(RouterCosts(**row, terciles=tuple(terciles.get(row["router"], ()))) for row in table.to_dicts())


def _orders_with_sums(orders: pl.DataFrame, fills: pl.DataFrame) -> pl.DataFrame:
    """Return orders with the sums of their fills, and their cost, slippage, shortfall and reversion."""
    end = pl.col("begin") + (pl.col("horizon") * SECOND).cast(pl.Int64)
    late = (pl.col("kind") == "sweep") & (pl.col("horizon") > 0) & (pl.col("time") >= end)
    lost = pl.col("sign") * (pl.col("price") - pl.col("arrival")) * _QUANTITY
    sums = (
        fills.select("order", "quantity", "time", "mid", late=late, lost=lost)
        .group_by("order")
        .agg(
            filled=_QUANTITY.sum(),
            gross=pl.col("lost").sum(),
            on_time=_QUANTITY.filter(~pl.col("late")).sum(),
            on_time_gross=pl.col("lost").filter(~pl.col("late")).sum(),
            last_mid=pl.col("mid").get(pl.col("time").arg_max()),
        )
    )
    none = pl.col("filled", "gross", "on_time", "on_time_gross").fill_null(0)
    value = _QUANTITY * pl.col("arrival") / _BPS
    amount = value * pl.col("multiplier")
    charge = pl.col("sign") * (pl.col("end_mid") - pl.col("arrival")) + pl.col("end_spread") / 2
    return (
        orders.join(sums, on="order", how="left", maintain_order="left")
        .with_columns(none)
        .with_columns(late=(_QUANTITY - pl.col("on_time")).clip(0))
        .with_columns(
            cost_bps=pl.col("cost") / amount,
            fees_bps=pl.col("fees") / amount,
            slippage_bps=_BPS * _ratio(pl.col("gross"), pl.col("filled") * pl.col("arrival")),
            opportunity_bps=pl.when(pl.col("late") > 0).then(pl.col("late") * charge / value).otherwise(0.0),
            **{f"reversion_{s}_bps": _signed_bps(pl.col("last_mid"), pl.col(f"after_{s}")) for s in MARKOUTS},
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
        "late_share": pl.col("late").sum() / _QUANTITY.sum(),
        **{name: pl.col(name).sum() for name in ("estimated", "prevented", "through")},
        "estimated_share": pl.col("estimated").sum() / _QUANTITY.sum(),
        "stale_books": pl.col("stale").sum(),
        "decision_us": decision.mean(),
        "decision_99_us": plain_quantile(decision, 99),
        "quantity": _QUANTITY.sum(),
        "zone": pl.when(pl.col("zone").n_unique() == 1).then(pl.col("zone").first()).otherwise(pl.lit("")),
    }


def _fill_measures(fills: pl.DataFrame) -> pl.DataFrame:
    touch = pl.when(pl.col("sign") > 0).then("ask").otherwise("bid")
    better = pl.col("sign") * (touch - pl.col("price"))
    measures = {
        **_spreads(),
        "improvement_bps": _BPS * better / pl.col("arrival"),
        "improved_share": (better > 1e-9).cast(pl.Float64),
        **{f"markout_{seconds}_bps": _markout(seconds) for seconds in MARKOUTS},
    }
    return _weighted_means(fills, ("router",), "quantity", measures)


def _volume_measures(fills: pl.DataFrame) -> pl.DataFrame:
    """Return the fractions of `volume_fractions`, and the spread captured by limit orders, by router."""
    captured = pl.col("sign") * (pl.col("mid") - pl.col("price")) * _QUANTITY
    offered = (pl.col("ask") - pl.col("bid")) / 2 * _QUANTITY
    both = (pl.col("kind") == "limit") & captured.is_not_null() & offered.is_not_null()
    kinds = (
        fills.select(
            "router", "kind", "quantity", captured=pl.when(both).then(captured), offered=pl.when(both).then(offered)
        )
        .group_by("router", "kind")
        .sum()
    )
    captured_share = _ratio(pl.col("captured").sum(), pl.col("offered").sum())
    return kinds.group_by("router").agg(spread_capture=captured_share, **volume_fractions())


def _child_measures(children: pl.DataFrame) -> pl.DataFrame:
    measures = {"fade": _fade(pl.col("met").sum(), pl.col("hoped").sum())}
    for name, some in {"dark": DARK, "limit": ("limit",), "ioc": ("take",)}.items():
        sent, filled, count, hits = (
            pl.col(column).filter(pl.col("kind").is_in(some)).sum() for column in ("sent", "filled", "count", "hits")
        )
        measures |= {f"{name}_fill_rate": _ratio(filled, sent), f"{name}_hit_rate": _ratio(hits, count)}
    return _sums_by_kind(children, ("router", "kind")).group_by("router").agg(**measures)


def _terciles(orders: pl.DataFrame) -> dict[str, list[_CostTercile]]:
    """Return costs by tercile of spread, time of day and size, by router."""
    measures = {
        "spread": 2 * _half_spread(),
        "time": pl.col("clock").cast(pl.Int64) // SECOND / 3600,
        "size": _ratio(_QUANTITY, pl.col("depth")),
    }
    found: dict[str, list[_CostTercile]] = {}
    for measure, expression in measures.items():
        values = orders.select("router", "cost_bps", value=expression).drop_nulls("value")
        if values.is_empty():
            continue
        table = (
            with_terciles(values, "value")
            .group_by("router", tercile="state")
            .agg(**_risk(), least=pl.col("value").min(), most=pl.col("value").max())
            .sort("router", "least")
        )
        for row in table.to_dicts():
            found.setdefault(row.pop("router"), []).append(_CostTercile(measure, **row))
    return found


def with_terciles(table: pl.DataFrame, measure: str, names: Sequence[str] = TERCILES) -> pl.DataFrame:
    """Return the rows that have a measure, with their tercile as ``state``; ties share a tercile."""
    known = table.drop_nulls(measure)
    edges = known.select(plain_quantile(pl.col(measure), part, 3).alias(f"{part}") for part in (1, 2)).row(0)
    third = pl.sum_horizontal((pl.col(measure) > edge).cast(pl.Int64) for edge in edges)
    return known.with_columns(state=third.replace_strict(dict(enumerate(names)), return_dtype=pl.String))


_ROW = ("router", "place", "kind")


def costs_by_venue(
    orders: pl.DataFrame, children: pl.DataFrame, fills: pl.DataFrame, *, seed: int = 0
) -> tuple[VenueCosts, ...]:
    """Return the costs by place and kind of child order, router by router, the largest filled quantity first."""
    tables = _cost_inputs(orders, children, fills)
    routers = tables.orders.select("router").unique(maintain_order=True).with_row_index("rank")
    traded = _with_seconds(tables.fills, tables.children)
    table = _venue_child_measures(tables.children)
    for part in (
        traded.group_by(_ROW).agg(blocks=pl.col("period").n_unique()),
        _weighted_means(traded, _ROW, "quantity", _venue_fill_measures()),
        _weighted_quantiles(traded, _ROW, "quantity", pl.col("seconds"), {f"fill_seconds_{k}": k for k in (50, 90)}),
    ):
        table = table.join(part, on=_ROW, how="left")
    table = (
        table.join(traded.group_by("router").agg(volume=_QUANTITY.sum()), on="router", how="left")
        .join(routers, on="router")
        .with_columns(
            volume_share=_ratio(pl.col("filled"), pl.col("volume")),
            blocks=pl.col("blocks").fill_null(0),
            **{f"adverse_{s}_bps": _passive(0.0 - pl.col(f"mid_markout_{s}_bps")) for s in MARKOUTS},
        )
        .with_columns(toxicity=_ratio(pl.col("adverse_1_bps"), pl.col("offered")))
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
    """Return a measure, null unless the fill is passive."""
    return pl.when(pl.col("kind").is_in(PASSIVE)).then(value)


def _venue_child_measures(children: pl.DataFrame) -> pl.DataFrame:
    by_order = _sums_by_kind(children, (*_ROW, "order"))
    sums = by_order.with_columns(hits=(pl.col("filled") > 0).cast(pl.Int64), orders=pl.lit(1)).group_by(_ROW).sum()
    return sums.select(
        *_ROW,
        "orders",
        "sent",
        "filled",
        fill_rate=_ratio(pl.col("filled"), pl.col("sent")),
        hit_rate=_ratio(pl.col("hits"), pl.col("orders")),
        fade=_fade(pl.col("met"), pl.col("hoped")),
    )


def _venue_fill_measures() -> dict[str, pl.Expr]:
    fee = _BPS * pl.col("fee") / pl.col("arrival") / pl.col("multiplier")
    return {
        "slippage_bps": _signed_bps(pl.col("price"), pl.col("arrival")),
        "fees_bps": fee,
        "effective_spread_bps": _effective_spread(),
        **{f"markout_{seconds}_bps": _markout(seconds) for seconds in MARKOUTS},
        **{f"mid_markout_{seconds}_bps": _mid_markout(seconds) for seconds in MARKOUTS},
        "saving_bps": _passive(_half_spread() - _effective_spread() / 2 - fee),
        "net_saving_bps": _passive(_half_spread() + _markout(10) - fee),
        "offered": pl.when(_mid_markout(1).is_not_null()).then(_half_spread()),
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
    """Return bootstrap intervals of adverse selection by router, place, kind and seconds, from the same resamples."""
    rng = seeded_generator(seed_stream(seed, "adverse selection"))
    drawn = bootstrap_fit_buckets(np.arange(periods), 1000, rng).astype(np.float64)
    passive = fills.filter(pl.col("kind").is_in(PASSIVE))
    found = {}
    for seconds in MARKOUTS:
        blocks = (
            passive.select(*_ROW, "period", "quantity", total=-_mid_markout(seconds) * _QUANTITY)
            .drop_nulls("total")
            .group_by(*_ROW, "period")
            .sum()
            .filter(pl.len().over(_ROW) >= 30)  # fewer blocks give no reliable interval
            .with_columns(column=pl.struct(_ROW).rank("dense") - 1)
        )
        places = blocks.select("column", *_ROW).unique().sort("column").drop("column").rows()
        totals, quantities = np.zeros((2, periods, len(places)))
        where = blocks["period"].to_numpy(), blocks["column"].to_numpy()
        totals[where], quantities[where] = blocks["total"].to_numpy(), blocks["quantity"].to_numpy()
        for (router, place, kind), low, high in zip(
            places, *_interval(drawn @ totals, drawn @ quantities), strict=True
        ):
            found[router, place, kind, seconds] = float(low), float(high)
    return found


def _interval(totals: Floats, quantities: Floats) -> Floats:
    """Return the ends ``(2, places)`` of the middle 95 % of ``totals / quantities (R, places)``."""
    ratios = np.divide(totals, quantities, out=np.full(totals.shape, np.nan), where=quantities > 0)
    return np.asarray(np.nanpercentile(ratios, (2.5, 97.5), axis=0))
