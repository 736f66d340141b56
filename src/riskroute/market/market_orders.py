"""What an order costs on a given book: walk its levels, compare with the mid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError, shown
from riskroute.core.names import SIDES
from riskroute.core.validation import one_of, whole_number
from riskroute.market.sampling import SampledBooks

DECIMALS = 9
"""Decimal places of a dollar that are kept: beyond them, differences of large amounts are rounding errors."""


def market_order_quantities(values: Sequence[int] | Integers) -> Integers:
    """Test quantities: different positive whole numbers, in rising order."""
    try:
        given = list(values)
    except TypeError:
        raise InputError(f"quantities must be a list of positive integers, was {shown(values)}") from None
    quantities = [whole_number("quantities", value, maximum=10**9) for value in given]
    if not quantities or sorted(set(quantities)) != quantities:
        raise InputError(f"quantities must be different and rising, was {quantities}")
    return np.array(quantities, dtype=np.int64)


def walk_market_order(prices: Floats, sizes: Floats, quantities: Integers) -> Floats:
    """Money for which ``quantities`` trade against books of ``prices`` and ``sizes (B, levels)``: ``(B, Q)``.

    Quantities are ``(Q,)``, the same for all books, or ``(B, Q)``. The best level is taken first, as far as it goes,
    then the next. NaN where all levels together do not suffice: an order is never filled in part.

    Examples
    --------
    >>> walk_market_order(np.array([[10.0, 9.0]]), np.array([[2.0, 1.0]]), np.array([1, 3, 4])).tolist()
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
    money, fair = walk_market_order(prices, sizes, quantities), books.mid[:, None] * quantities
    return np.round(money - fair if side == "sell" else fair - money, DECIMALS)


def stretched_market_profits(books: SampledBooks, quantities: Integers, side: str = "sell") -> Floats:
    """Profit of market orders as `market_profits`, and an estimate where the book is short; NaN only without a book.

    Beyond the known levels prices go on to worsen in proportion to the shares taken: if the last level is a distance
    ``d`` from the mid, and the levels hold ``n`` shares, share ``m`` trades ``d * m / n`` away.

    Examples
    --------
    >>> books = SampledBooks(np.array([1]), np.array([[9.0]]), np.array([[2.0]]), np.array([[11.0]]), np.array([[2.0]]))
    >>> stretched_market_profits(books, np.array([1, 2, 4])).tolist()  # a dollar each; the last two 1 to 2 dollars
    [[-1.0, -2.0, -5.0]]
    """
    prices, sizes = books.side("bid" if side == "sell" else "ask")
    depth = np.where(np.isnan(prices), 0.0, sizes).sum(axis=1, keepdims=True)
    last = np.nan_to_num(np.abs(books.mid[:, None] - prices)).max(axis=1, keepdims=True)
    known = market_profits(books, np.minimum(quantities, depth).astype(np.int64), side)
    further = last * np.maximum(quantities**2 - depth**2, 0.0) / (2 * np.maximum(depth, 1.0))
    return np.asarray(np.round(known - further, DECIMALS))
