"""Profit of market and limit orders on recorded books, relative to the mid of the venue's own book.

A market order takes the levels of one snapshot, best price first. A limit order joins the queue at the best price of
its own side, rests until the bucket ends, and then crosses the spread with the remainder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.text import shown
from riskroute.core.validation import whole_number
from riskroute.market.price_keys import price_keys
from riskroute.market.queue_fills import queue_bucket_fills
from riskroute.market.sampling import SampledBooks, SampleTimes, sample_books, sample_closest_rows, sample_last_rows

FeeRow = tuple[float, float]  # fee per share, and as a fraction of the price
DECIMALS = 9  # decimal places of profits in dollars; further digits are rounding errors of large sums


def check_profit_quantities(values: Sequence[int] | Integers) -> Integers:
    """Return ``values`` as an array; raise `InputError` unless they are positive, distinct and ascending integers."""
    try:
        given = list(values)
    except TypeError:
        raise InputError(f"quantities must be a list of positive integers, was {shown(values)}") from None
    quantities = [whole_number("quantities", value, maximum=10**9) for value in given]
    if not quantities or sorted(set(quantities)) != quantities:
        raise InputError(f"quantities must be one or more strictly ascending integers, was {quantities}")
    return np.array(quantities, dtype=np.int64)


def market_order_value(prices: Floats, sizes: Floats, quantities: Integers) -> Floats:
    """Return the value traded, ``(B, Q)``, when ``quantities`` take books of ``prices`` and ``sizes (B, levels)``.

    ``quantities`` are ``(Q,)`` for all books, or ``(B, Q)``. Each level is exhausted before the next. The value is NaN
    where a book holds too few shares: an order is never filled in part.

    >>> market_order_value(np.array([[10.0, 9.0]]), np.array([[2.0, 1.0]]), np.array([1, 3, 4])).tolist()
    [[10.0, 29.0, nan]]
    """
    there, priced = np.where(np.isnan(prices), 0.0, sizes), np.nan_to_num(prices)
    above = np.zeros((len(there), 1))  # total size of better levels
    money = np.zeros(np.broadcast_shapes(above.shape, quantities.shape))
    for level in range(there.shape[1]):
        if (above >= quantities).all():
            break
        shares = there[:, level, None]
        money += np.clip(quantities - above, 0.0, shares) * priced[:, level, None]
        above = above + shares
    return np.where(there.sum(axis=1, keepdims=True) >= quantities, money, np.nan)


def market_order_fees(prices: Floats, sizes: Floats, quantities: Integers, fee: FeeRow) -> Floats:
    """Return the fees of the orders of `market_order_value`, of a shape that broadcasts to ``(B, Q)``."""
    fees: Floats = np.asarray(fee[0] * quantities, dtype=np.float64)
    return fees + fee[1] * market_order_value(np.abs(prices), sizes, quantities) if fee[1] else fees


def market_profits(books: SampledBooks, quantities: Integers, side: str = "sell", fee: FeeRow = (0.0, 0.0)) -> Floats:
    """Return the profit of market orders after taker fees, ``(B, Q)``; NaN where the book is too thin.

    A sell order takes bids, a buy order asks: before rebates, profits are negative unless a book is crossed or locked.
    """
    prices, sizes = books.side("bid" if side == "sell" else "ask")
    money, fair = market_order_value(prices, sizes, quantities), books.mid[:, None] * quantities
    profits = np.round(money - fair if side == "sell" else fair - money, DECIMALS)
    return np.asarray(profits - market_order_fees(prices, sizes, quantities, fee))


def extrapolated_market_profits(
    books: SampledBooks, quantities: Integers, side: str = "sell", fee: FeeRow = (0.0, 0.0)
) -> Floats:
    """Return `market_profits`, extrapolated beyond the last level; NaN only where a side of the book is empty.

    Beyond the known levels, prices are assumed to worsen linearly: if the last level is ``d`` from the mid and all
    levels together hold ``n`` shares, share ``m`` of the order trades at distance ``d * m / n``. Fees are charged on
    these prices.

    >>> books = SampledBooks(np.array([1]), np.array([[9.0]]), np.array([[2.0]]), np.array([[11.0]]), np.array([[2.0]]))
    >>> extrapolated_market_profits(books, np.array([1, 2, 4])).tolist()  # two shares cost $1 each, two $1 to $2
    [[-1.0, -2.0, -5.0]]
    """
    prices, sizes = books.side("bid" if side == "sell" else "ask")
    depth = np.where(np.isnan(prices), 0.0, sizes).sum(axis=1, keepdims=True)
    last = np.nan_to_num(np.abs(books.mid[:, None] - prices)).max(axis=1, keepdims=True)
    known = market_profits(books, np.minimum(quantities, depth).astype(np.int64), side, fee)
    further = last * np.maximum(quantities**2 - depth**2, 0.0) / (2 * np.maximum(depth, 1.0))
    more = np.maximum(quantities - depth, 0.0)
    value = np.abs(books.mid[:, None] * more + (further if side == "buy" else -further))
    return np.asarray(np.round(known - further - fee[0] * more - fee[1] * value, DECIMALS))


@dataclass(frozen=True)
class PassiveOrderProfit:
    """Profits and fills of orders that rest at a venue, or try a dark pool, before they cross the spread.

    ``profits`` are in price terms, relative to the mid at the sample time; NaN if there is no book or it is too thin
    for the remainder. ``filled`` counts the shares traded before crossing. Both are ``(B, Q)`` by bucket and quantity,
    or ``(draws * B, Q)`` for a dark pool, with all buckets of the first draw first.
    """

    profits: Floats
    filled: Integers


def limit_profits(
    snapshots: polars.DataFrame,
    events: polars.DataFrame,
    sample_times: SampleTimes,
    quantities: Sequence[int] | Integers,
    *,
    side: str = "sell",
    rule: str = "price-time",
    maker_fee: FeeRow = (0.0, 0.0),
    taker_fee: FeeRow = (0.0, 0.0),
    levels: int | None = None,
) -> PassiveOrderProfit:
    """Return the profit of limit orders that rest at the best price of their own side until their bucket ends.

    A sell order joins the back of the queue at the best ask of the snapshot closest to the sample time. It fills when
    the recorded events reach its queue position; the remainder takes the bids of the bucket's last snapshot. A buy
    order mirrors this. The order is assumed to have no market impact.

    Recorded executions fill the order. So do recorded bids at or above its limit: such a bid would have traded with the
    order, at the limit and up to the bid's size, instead of resting. Each bid trades only once, so the remainder cannot
    take bids at or above the limit.

    Pass all ``events`` of the day, so that orders added long before the sample time are known. ``rule`` is
    ``price-time`` or ``pro-rata``. Fees are a fee per share and a fraction of the price: ``maker_fee`` for shares that
    fill passively, ``taker_fee`` for shares that cross; rebates are negative. ``levels`` limits the levels that the
    remainder may take; default: all.

    >>> from riskroute.market.schema import EVENT_SCHEMA, snapshot_schema
    >>> book = [10.00, 50, 10.02, 5]  # five shares are offered at 10.02
    >>> snapshots = polars.DataFrame([[1, 1, "XNAS", "ZZ", *book]], schema=snapshot_schema(1), orient="row")
    >>> trade = [2, 2, "XNAS", "ZZ", "F", "A", 10.02, 5, 0, 7, 0]  # order 7 was ahead of us, order 9 is behind
    >>> later = [[3, 3, "XNAS", "ZZ", "A", "A", 10.02, 4, 4, 9, 0], [4, 4, "XNAS", "ZZ", "F", "A", 10.02, 4, 0, 9, 0]]
    >>> events = polars.DataFrame([trade, *later], schema=EVENT_SCHEMA, orient="row")
    >>> outcome = limit_profits(snapshots, events, SampleTimes(np.array([0, 9]), np.array([1])), [3, 6])
    >>> outcome.filled.tolist(), outcome.profits.round(4).tolist()  # four shares earn a cent each, two pay one
    ([[3, 4]], [[0.03, 0.02]])
    """
    asked = np.asarray(quantities)
    own, other, direction = ("ask", "bid", 1) if side == "sell" else ("bid", "ask", -1)

    rows = sample_closest_rows(snapshots, sample_times)
    book = sample_books(snapshots, rows, levels=1)
    last = sample_books(snapshots, sample_last_rows(snapshots, sample_times), levels=levels)
    sequences = np.full(len(rows), -1)
    sequences[rows >= 0] = snapshots["sequence"].cast(polars.Int64).to_numpy()[rows[rows >= 0]]
    limits, shown = (values[:, 0] for values in book.side(own))
    coded = price_keys(np.where(np.isfinite(book.mid), limits, np.nan), direction)
    filled = queue_bucket_fills(
        events, sample_times.edges, sequences, coded, shown, asked, direction=direction, rule=rule
    )

    rest, middle = asked - filled, book.mid[:, None]
    prices, sizes = last.side(other)
    # Orders of the other side that are at least as good as the limit have already traded with the resting order.
    sizes = np.where(price_keys(prices, direction) >= coded[:, None], 0.0, sizes)
    earned = filled * (limits[:, None] - middle) + market_order_value(prices, sizes, rest) - middle * rest
    maker = maker_fee[0] + maker_fee[1] * np.abs(limits[:, None])
    profits = direction * earned - maker * filled - market_order_fees(prices, sizes, rest, taker_fee)
    return PassiveOrderProfit(np.round(profits, DECIMALS), filled)
