"""What public data shows after the fact: what market and limit orders of any size would have earned at a venue.

It is computed without our own impact, and shown to routers that learn from it (class F3).
"""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.market.clock import SECOND
from riskroute.routers.context import Context
from riskroute.routers.router import MarketAtHorizon, PublicData, QueueOutflow, outcome_sizes
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.simulation.exchange import Exchange


def public_outcomes(exchange: Exchange, context: Context) -> PublicData:
    """Return what orders that arrive with another one would have earned, in dollars against its arrival mid.

    ``take`` is for shares taken at a venue after the latency. ``limit`` is for shares posted there until the horizon,
    with the remainder then taken from all venues; it is left out where the venue's queue is not known or the horizon is
    0.
    """
    sizes = outcome_sizes(context.shares, context.lot)
    now = context.time + int(exchange.latency.lit * SECOND)
    end = context.time + int(context.horizon * SECOND)
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    queues: dict[str, QueueOutflow] = {}
    closing = _book(exchange, context, end) if end > now and exchange.queue else None
    for venue, name in enumerate(exchange.books.venues):
        costs = _book(exchange, context, now, venue).costs(sizes)
        found[name] = {"take": _profits(costs)}
        if closing is not None and exchange.queue is not None:
            price, fills = exchange.queue.fills(venue, context.sign, now, end, sizes[-1])
            if price == price:  # it could join
                filled = sum(shares for _, shares in fills)
                each = context.sign * (price - context.mid) + float(exchange.makers[venue])
                kept = [min(size, filled) for size in sizes]
                rest = closing.costs([size - some for size, some in zip(sizes, kept, strict=True)])
                found[name]["limit"] = _profits(each * np.array(kept, dtype=np.float64) + rest)
                queues[name] = QueueOutflow(*exchange.queue.drain(venue, context.sign, now, end))
    return PublicData(context, found, queues, _later(exchange, context, end, closing))


def public_trades_since(exchange: Exchange, begin: int, end: int) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """Return the trades from one time to before another, by venue and side of the resting orders."""
    if exchange.queue is None:
        return {}
    return {
        name: {side: exchange.queue.trades(venue, sign, begin, end) for side, sign in (("ask", 1), ("bid", -1))}
        for venue, name in enumerate(exchange.books.venues)
    }


def _later(exchange: Exchange, context: Context, end: int, closing: ConsolidatedBook | None) -> MarketAtHorizon | None:
    """The market at the horizon; None where it shows nothing."""
    if closing is None or closing.depth == 0:
        return None
    mid, _ = exchange.mid_and_half_spread(end, context)
    return MarketAtHorizon(mid, float(closing.costs(context.shares)) / context.shares)


def _book(exchange: Exchange, context: Context, time: int, venue: int | None = None) -> ConsolidatedBook:
    now = exchange.books.as_of(time)
    prices, sizes = (now.ask_px, now.ask_sz) if context.sign > 0 else (now.bid_px, now.bid_sz)
    some = slice(None) if venue is None else slice(venue, venue + 1)
    return context.book(prices[some], sizes[some], exchange.takers[some])


def _profits(costs: Floats) -> tuple[float, ...]:
    return tuple(-float(cost) for cost in costs)
