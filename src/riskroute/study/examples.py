"""Example orders of a study: the books at arrival, the child orders and the fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars

from riskroute.core.arrays import Floats
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.validation import SIDES
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import TAKING, order_costs_bps
from riskroute.study.day_tables import KEY, DayTables
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play
from riskroute.study.router_comparison import ORDER

# reasons to show an order: median, best or worst saving (cost if there is no other router), or only takes and sweeps
_WHY = ("a typical order", "the best order", "the worst order", "an order that only swept")


@dataclass(frozen=True)
class _BookLevel:
    """Quantity that a venue displays at a price; ``side`` is ``bid`` or ``ask``."""

    venue: str
    side: str
    price: float
    quantity: float


@dataclass(frozen=True)
class _ExampleChild:
    """A child order of an example; ``price`` is the mean of its fills, times are seconds after arrival."""

    kind: str
    place: str
    sent: float
    filled: float
    price: float | None
    sent_after: float
    last_fill_after: float | None


@dataclass(frozen=True)
class _ExampleFill:
    """Quantity of an example filled at one place and price; the last fill is ``after`` seconds after arrival."""

    kind: str
    place: str
    quantity: float
    price: float
    after: float


@dataclass(frozen=True)
class OrderExample:
    """One order of the test days with the books at arrival, its child orders and its fills.

    ``why`` is the reason to show it; ``time`` is local to ``zone``; ``against_bps`` and ``saving_bps`` are None without
    another router.
    """

    why: str
    symbol: str
    day: str
    time: str
    zone: str
    side: str
    quantity: float
    mid: float
    spread_bps: float
    cost_bps: float
    against_bps: float | None
    saving_bps: float | None
    levels: tuple[_BookLevel, ...]
    children: tuple[_ExampleChild, ...]
    fills: tuple[_ExampleFill, ...]
    instrument: Instrument = SHARES

    @property
    def size(self) -> str:
        """The order's quantity and symbol as text."""
        return f"{self.instrument.named(self.quantity)} of {self.symbol}"


def order_examples(
    tables: DayTables, days: Sequence[MarketDay], config: BacktestConfig, router: str, against: str | None
) -> tuple[OrderExample, ...]:
    """Return up to four orders of a router, and their cost with another router."""
    judged = order_costs_bps(tables.orders.filter("judged"))
    mine = judged.filter(polars.col("router") == router)
    sent = tables.children.filter(polars.col("sent") > 0)
    swept = sent.group_by(KEY).agg(swept=polars.col("kind").is_in(TAKING).all())
    mine = mine.join(swept, on=KEY, how="left", maintain_order="left")
    if against is None:
        rows = mine.with_columns(against_bps=polars.lit(None, polars.Float64), merit=-polars.col("cost_bps"))
    else:
        other = judged.filter(polars.col("router") == against).select(*ORDER, against_bps="cost_bps")
        rows = mine.join(other, on=ORDER).with_columns(merit=polars.col("against_bps") - polars.col("cost_bps"))
    rows = rows.sort(ORDER)
    return tuple(
        _example(why, rows.row(place, named=True), tables, days, config) for why, place in _places(rows).items()
    )


def _places(rows: polars.DataFrame) -> dict[str, int]:
    """Return the row number for each reason; no row is used twice."""
    merits, swept = rows["merit"].to_numpy(), rows["swept"].fill_null(False).to_numpy()
    middle = np.abs(merits - np.median(merits))
    typical, best, worst, only = _WHY
    scores: dict[str, Floats] = {
        best: -merits,
        worst: merits,
        only: np.where(swept, middle, np.inf) if not swept.all() else np.full(len(merits), np.inf),
        typical: middle + 1e-9 * swept,  # among ties prefer an order that was not only swept
    }
    found: dict[str, int] = {}
    for why, score in scores.items():
        free = score.astype(np.float64)
        free[list(found.values())] = np.inf
        place = int(free.argmin())
        if math.isfinite(free[place]):
            found[why] = place
    return {why: found[why] for why in _WHY if why in found}


def _example(
    why: str, order: dict[str, Any], tables: DayTables, days: Sequence[MarketDay], config: BacktestConfig
) -> OrderExample:
    key = polars.DataFrame([{name: order[name] for name in KEY}])
    children, fills = (frame.join(key, on=KEY, how="semi") for frame in (tables.children, tables.fills))
    start = order["time"]
    day = next(day for day in days if (day.symbol, str(day.date)) == (order["symbol"], order["day"]))
    mid, cost, paid = order["mid"], order["cost_bps"], order["against_bps"]
    return OrderExample(
        why=why,
        symbol=day.symbol,
        day=str(day.date),
        time=f"{order['clock']:%H:%M:%S}",
        zone=order["zone"],
        side=SIDES[0] if order["sign"] == 1 else SIDES[1],
        quantity=order["quantity"],
        mid=mid,
        spread_bps=1e4 * (order["ask"] - order["bid"]) / abs(mid),
        cost_bps=cost,
        against_bps=paid,
        saving_bps=None if paid is None else paid - cost,
        levels=_levels(day_to_play(day, config).books, start, day.instrument),
        children=tuple(
            _child(row, start) for row in children.sort("posted", "child").iter_rows(named=True) if row["sent"]
        ),
        fills=_example_fills(fills, start, day.instrument),
        instrument=day.instrument,
    )


def _child(row: dict[str, Any], start: int) -> _ExampleChild:
    """Return a child order; an unknown sending time is replaced by the order's arrival."""
    filled, posted, last = (row[name] for name in ("filled", "posted", "last"))
    price, after = (row["price"], (last - start) / SECOND) if filled else (None, None)
    sent_after = (posted - start) / SECOND if posted else 0.0
    return _ExampleChild(row["kind"], row["place"], row["sent"], filled, price, sent_after, after)


def _example_fills(fills: polars.DataFrame, start: int, instrument: Instrument) -> tuple[_ExampleFill, ...]:
    """Return the fills, summed by kind, place and price."""
    digits = 4 - instrument.tick.adjusted()  # mids are computed, so equal ones may differ in the last bit
    price = polars.col("price").round(max(digits, 0))
    rows = fills.group_by("kind", "place", price).agg(polars.col("quantity").sum(), polars.col("time").max())
    return tuple(
        _ExampleFill(row["kind"], row["place"], row["quantity"], row["price"], (row["time"] - start) / SECOND)
        for row in rows.sort("time", "kind", "place", "price").iter_rows(named=True)
    )


def _levels(books: DayBooks, time: int, instrument: Instrument) -> tuple[_BookLevel, ...]:
    """Return the displayed quantities at the best prices, bids before asks, best first."""
    now, found = books.as_of(time), []
    for side, prices, sizes in (("bid", now.bid_px, now.bid_sz), ("ask", now.ask_px, now.ask_sz)):
        shown = sorted(set(prices[sizes > 0].tolist()), reverse=side == "bid")[:6]  # the best six prices
        for price in shown:
            for venue, name in enumerate(books.venues):
                here = sizes[venue][prices[venue] == price].sum()
                if here > 0:
                    found.append(_BookLevel(name, side, price, float(instrument.natural(float(here)))))
    return tuple(found)
