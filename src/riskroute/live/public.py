"""What public data shows of an order afterwards, as routers of class F3 are told it, from what the tape has seen."""

from __future__ import annotations

import msgspec
import numpy as np

from riskroute.core.arrays import Floats
from riskroute.live.children import context_of
from riskroute.live.orders import NANO, MarketTrade, Seen
from riskroute.routers.context import Context, VenueBooks
from riskroute.routers.router import MarketAtHorizon, PublicData, QueueOutflow, outcome_sizes
from riskroute.routing.consolidated import ConsolidatedBook

PUBLIC_AFTER = NANO
"""Public outcomes of an order are known so many nanoseconds after its deadline, as in a backtest."""


def public_of(event: Seen) -> PublicData:
    """What orders that arrive with another one would have earned, and what became of the queues, as in a backtest.

    Market orders meet the books of the arrival. What limit orders do not fill is taken from the books of the deadline.
    """
    order = event.order
    context = context_of(order, order.received)
    sizes = outcome_sizes(context.shares, context.lot)
    later = closing = None
    if event.closing:
        books = context_of(msgspec.structs.replace(order, quotes=event.closing), order.deadline).books
        closing = _book(context, books)
        if closing.depth and np.isfinite(books.mid):
            later = MarketAtHorizon(float(books.mid), float(closing.costs(context.shares)) / context.shares)
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for venue, quote in enumerate(order.quotes):
        found[quote.venue] = {"take": _profits(_book(context, context.books, venue).costs(sizes))}
        if quote.venue in event.queues and closing is not None:
            price, ahead, outflow = event.queues[quote.venue]
            queue = QueueOutflow(price / NANO, ahead, outflow)
            each = context.sign * (queue.price - context.mid) + quote.maker / NANO
            kept = [queue.filled(size) for size in sizes]
            rest = closing.costs([size - some for size, some in zip(sizes, kept, strict=True)])
            found[quote.venue]["limit"] = _profits(each * np.array(kept, dtype=np.float64) + rest)
    queues = {
        name: QueueOutflow(price / NANO, ahead, outflow) for name, (price, ahead, outflow) in event.queues.items()
    }
    return PublicData(context, found, queues, later, _by_venue(event.trades))


def _by_venue(trades: tuple[MarketTrade, ...]) -> dict[str, dict[str, list[tuple[int, int]]]]:
    found: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for one in trades:
        found.setdefault(one.venue, {}).setdefault(one.side, []).append((one.shares, one.displayed))
    return found


def _book(context: Context, books: VenueBooks, venue: int | None = None) -> ConsolidatedBook:
    prices, sizes = books.side("ask" if context.sign > 0 else "bid")
    some = slice(None) if venue is None else slice(venue, venue + 1)
    return context.book(prices[some], sizes[some], books.takers[some])


def _profits(costs: Floats) -> tuple[float, ...]:
    return tuple(-float(cost) for cost in costs)
