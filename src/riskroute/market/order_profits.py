"""What an order costs on a given book: walk its levels, compare with the mid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError, shown
from riskroute.core.validation import SIDES, one_of, real_number, whole_number
from riskroute.market.queue_position import (
    QueueEntry,
    price_keys,
    pro_rata_volume,
    side_events,
    volume_behind,
)
from riskroute.market.sampling import (
    SampledBooks,
    SampleTimes,
    books_at,
    closest_rows,
    last_books,
)

DECIMALS = 9
"""Decimal places of a dollar that are kept: beyond them, differences of large amounts are rounding errors."""


def check_quantities(values: Sequence[int] | Integers) -> Integers:
    """Test quantities: different positive whole numbers, in rising order."""
    try:
        given = list(values)
    except TypeError:
        raise InputError(f"quantities must be a list of positive integers, was {shown(values)}") from None
    quantities = [whole_number("quantities", value, maximum=10**9) for value in given]
    if not quantities or sorted(set(quantities)) != quantities:
        raise InputError(f"quantities must be different and rising, was {quantities}")
    return np.array(quantities, dtype=np.int64)


def walk_book(prices: Floats, sizes: Floats, quantities: Integers) -> Floats:
    """Money for which ``quantities`` trade against books of ``prices`` and ``sizes (B, levels)``: ``(B, Q)``.

    Quantities are ``(Q,)``, the same for all books, or ``(B, Q)``. The best level is taken first, as far as it goes,
    then the next. NaN where all levels together do not suffice: an order is never filled in part.

    Examples
    --------
    >>> walk_book(np.array([[10.0, 9.0]]), np.array([[2.0, 1.0]]), np.array([1, 3, 4])).tolist()
    [[10.0, 29.0, nan]]
    """
    there, priced = np.where(np.isnan(prices), 0.0, sizes), np.nan_to_num(prices)
    above = np.zeros((len(there), 1))  # shares on better levels
    money = np.zeros(np.broadcast_shapes(above.shape, quantities.shape))
    for level in range(there.shape[1]):
        if (above >= quantities).all():
            break
        shares = there[:, level, None]
        money += np.clip(quantities - above, 0.0, shares) * priced[:, level, None]
        above = above + shares
    return np.where(there.sum(axis=1, keepdims=True) >= quantities, money, np.nan)


def market_profits(books: SampledBooks, quantities: Integers, side: str = "sell") -> Floats:
    """Profit of market orders against the mid of the venue's own book, ``(B, Q)``, NaN where the book is short.

    Selling walks the bids, buying the asks; both are worse than the mid, so profits are negative.
    """
    one_of("side", side, SIDES)
    prices, sizes = books.side("bid" if side == "sell" else "ask")
    money, fair = walk_book(prices, sizes, quantities), books.mid[:, None] * quantities
    return np.round(money - fair if side == "sell" else fair - money, DECIMALS)


def extrapolated_market_profits(books: SampledBooks, quantities: Integers, side: str = "sell") -> Floats:
    """Profit of market orders as `market_profits`, and an estimate where the book is short; NaN only without a book.

    Beyond the known levels prices go on to worsen in proportion to the shares taken: if the last level is a distance
    ``d`` from the mid, and the levels hold ``n`` shares, share ``m`` trades ``d * m / n`` away.

    Examples
    --------
    >>> books = SampledBooks(np.array([1]), np.array([[9.0]]), np.array([[2.0]]), np.array([[11.0]]), np.array([[2.0]]))
    >>> extrapolated_market_profits(books, np.array([1, 2, 4])).tolist()  # a dollar each; the last two 1 to 2 dollars
    [[-1.0, -2.0, -5.0]]
    """
    prices, sizes = books.side("bid" if side == "sell" else "ask")
    depth = np.where(np.isnan(prices), 0.0, sizes).sum(axis=1, keepdims=True)
    last = np.nan_to_num(np.abs(books.mid[:, None] - prices)).max(axis=1, keepdims=True)
    known = market_profits(books, np.minimum(quantities, depth).astype(np.int64), side)
    further = last * np.maximum(quantities**2 - depth**2, 0.0) / (2 * np.maximum(depth, 1.0))
    return np.asarray(np.round(known - further, DECIMALS))


# Limit orders: join the queue at the best price, wait until the bucket ends, cross the spread with the remainder.


RULES = ("price-time", "pro-rata")


@dataclass(frozen=True)
class LimitOutcome:
    """What limit orders came to, per bucket and quantity, ``(B, Q)`` each.

    ``profits`` are dollars against the mid of the book that the order joined; NaN where there was no such book, or
    where the last book of the bucket is too thin for what was left. ``filled`` counts shares traded at the limit price.
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
    maker_fee: float = 0.0,
    taker_fee: float = 0.0,
    levels: int | None = None,
) -> LimitOutcome:
    """Profit from limit orders at the best price of their own side, left in the book until their bucket ends.

    An order to sell joins the end of the queue at the best ask, in the snapshot closest to the bucket's time. It trades
    when the events say that its turn has come, and the remainder is sold to the bids of the bucket's last snapshot.
    Buying is the mirror image. The order is taken to change nothing that others do.

    Its turn comes with executions, and with bids that are recorded at its price or above: such a bid would have traded
    with it, at its price and up to the bid's size, instead of resting. A bid does so once. So the bids at or above its
    price are not there any more for the remainder at the end.

    Parameters
    ----------
    snapshots, events : polars.DataFrame
        Tables of one venue, symbol and day. Events should begin as early as the data do: an order that was
        added before the first one is known only from what happens to it.
    rule : str
        ``price-time``, first come, first served, or ``pro-rata``, every trade shared in proportion to size.
    maker_fee, taker_fee : float
        Dollars per share filled at the limit, and per share that crosses; a rebate is negative.
    levels : int, optional
        How deep the rest may reach into the last book; all of its levels if None.

    Examples
    --------
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
    one_of("side", side, SIDES)
    one_of("rule", rule, RULES)
    asked = check_quantities(quantities)
    maker_fee, taker_fee = real_number("maker_fee", maker_fee), real_number("taker_fee", taker_fee)
    if levels is not None:
        whole_number("levels", levels)
    own, other, direction = ("ask", "bid", 1) if side == "sell" else ("bid", "ask", -1)

    rows = closest_rows(snapshots, sample_times)
    book, last = books_at(snapshots, rows, levels=1), last_books(snapshots, sample_times, levels=levels)
    sequences = np.full(len(rows), -1)
    sequences[rows >= 0] = snapshots["sequence"].cast(polars.Int64).to_numpy()[rows[rows >= 0]]
    limits, shown = (values[:, 0] for values in book.side(own))
    joined = QueueEntry(
        sample_times.edges, sequences, price_keys(np.where(np.isfinite(book.mid), limits, np.nan), direction)
    )
    filled = _fills(events, joined, shown, asked, direction=direction, rule=rule)

    rest, middle = asked - filled, book.mid[:, None]
    left = walk_book(*_not_met(*last.side(other), joined, direction), rest)
    earned = filled * (limits[:, None] - middle) + left - middle * rest
    profits = direction * earned - maker_fee * filled - taker_fee * rest
    return LimitOutcome(np.round(profits, DECIMALS), filled)


def _fills(
    events: polars.DataFrame,
    joined: QueueEntry,
    shown: Floats,
    quantities: Integers,
    *,
    direction: int,
    rule: str,
) -> Integers:
    """Shares filled at the limit price, ``(B, Q)``; ``shown (B,)`` are there before us. None where we do not join."""
    flow = side_events(events, direction, joined)
    filled = np.zeros((len(shown), len(quantities)), dtype=np.int64)
    for bucket in np.flatnonzero(np.isfinite(joined.prices)):
        sequence, price = int(joined.sequences[bucket]), int(joined.prices[bucket])
        begin, end = flow.between(sequence, int(joined.edges[bucket + 1]))
        if rule == "price-time":
            volume = volume_behind(flow, begin, end, sequence, price, int(shown[bucket]))
            filled[bucket] = np.minimum(quantities, volume)
        else:
            filled[bucket] = pro_rata_volume(flow, begin, end, price, int(shown[bucket]), quantities)
    return filled


def _not_met(prices: Floats, sizes: Floats, joined: QueueEntry, direction: int) -> tuple[Floats, Floats]:
    """Levels of the other side without those at our limits or through them: their orders have met us before."""
    met = price_keys(prices, direction) >= joined.prices[:, None]
    return prices, np.where(met, 0.0, sizes)
