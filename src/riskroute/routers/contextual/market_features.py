"""The state of the market at a moment, as numbers that a router can learn from: all known when the order arrives."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Flags, Floats, Matrix
from riskroute.routers.context import Context

POSTING_FEATURES = 11
"""Features of a limit order that have coefficients."""

LEAST_FLOW = 1e-6
"""Shares that leave a queue that nobody trades with: not 0, which nothing can be divided by."""


_DAY = 86_400 * 10**9  # nanoseconds


class MarketFeatures(NamedTuple):
    """What the books say, seen from the side of the order; dollars a share unless said otherwise.

    ``half_spread`` is that of the consolidated book. ``imbalance`` compares the sizes at the best prices, from -1 to 1;
    above 0 there is more on our own side, and the price tends to move away from us. ``lean`` is how far the mean of the
    venues' own mids lies on that side of the consolidated mid, to which it tends to return. ``sweep`` is what taking
    the whole order now costs, fees included.
    """

    half_spread: float
    imbalance: float
    lean: float
    sweep: float


def market_features(context: Context, sweep: float) -> MarketFeatures:
    """Return the state of the market for an order whose sweep costs ``sweep`` dollars a share.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> venues = {"A": {"bids": [[10.0, 300]], "asks": [[10.02, 100]]}, "B": {"bids": [[9.99, 50]]}}
    >>> moment = market_features(read_context({"venues": venues}, side="buy", shares=100), 0.013)
    >>> round(moment.half_spread, 6), moment.imbalance, round(moment.lean, 6)
    (0.01, 0.5, 0.0)
    """
    books, sign = context.books, context.sign
    best_bid, best_ask = books.best_bid, books.best_ask
    half = max((best_ask - best_bid) / 2, context.tick / 4)
    imbalance, mid = _leaning(books.bid_px, books.bid_sz, books.ask_px, books.ask_sz, best_bid, best_ask)
    return MarketFeatures(half, sign * imbalance, sign * (mid - books.mid), sweep)


@njit(cache=True)
def _leaning(
    bid_px: Matrix, bid_sz: Matrix, ask_px: Matrix, ask_sz: Matrix, best_bid: float, best_ask: float
) -> tuple[float, float]:
    """Imbalance of the sizes at the best prices, and the mean of the mids of venues that show both sides."""
    bids, asks, total, count = 0.0, 0.0, 0.0, 0
    for v in range(len(bid_px)):
        if bid_px[v, 0] == best_bid:
            bids += bid_sz[v, 0]
        if ask_px[v, 0] == best_ask:
            asks += ask_sz[v, 0]
        if bid_sz[v, 0] > 0 and ask_sz[v, 0] > 0:
            total += (bid_px[v, 0] + ask_px[v, 0]) / 2
            count += 1
    mid = total / count if count else (best_bid + best_ask) / 2
    return (bids - asks) / max(bids + asks, 1.0), mid


class PostingFeatures(NamedTuple):
    """Limit orders that could join the best own-side price of each venue, ``(V,)`` or ``(V, POSTING_FEATURES)``.

    The profit of one of ``n`` shares, over ``n`` half-spreads, is linear in ``fixed + fill * filled`` and has the known
    part ``offset + fill * offset_filled``, where ``fill`` is the fraction of ``n`` that fills if the shares that leave
    the queue until the horizon have an exponential law of mean ``outflow``. ``behind`` counts half-spreads that a venue
    is behind the best price. Venues where nothing is displayed, or of whose outflow nothing is known, have ``there``
    false: nobody can say what a limit order would come to.
    """

    there: Flags
    queue: Floats
    outflow: Floats
    behind: Floats
    offset: Floats
    offset_filled: Floats
    fixed: Matrix
    filled: Matrix


def posting_features(context: Context, moment: MarketFeatures) -> PostingFeatures:
    """Return the limit orders that an order could post, one per venue."""
    books, sign, half = context.books, context.sign, moment.half_spread
    prices, sizes = books.side("bid" if sign > 0 else "ask")
    price, queue = prices[:, 0], sizes[:, 0]
    known = context.features
    flows = [known.get(f"outflow {name}", np.nan) for name in books.venues]
    outflow = np.array(flows) * context.horizon + LEAST_FLOW
    there = (queue > 0) & np.isfinite(outflow)
    outflow[~there] = LEAST_FLOW
    distance = np.where(there, sign * (books.mid - price), half)
    behind = (distance - half) / half
    own_imbalance = sign * (books.bid_sz[:, 0] - books.ask_sz[:, 0]) / (books.bid_sz[:, 0] + books.ask_sz[:, 0] + 1)
    sweep = moment.sweep / half
    tick = context.tick / half
    count = len(price)
    fixed, filled = np.zeros((count, POSTING_FEATURES)), np.zeros((count, POSTING_FEATURES))
    fixed[:, 0] = 1.0
    fixed[:, 1] = moment.imbalance
    fixed[:, 2] = moment.lean / half
    fixed[:, 3] = own_imbalance
    fixed[:, 4] = behind
    fixed[:, 5] = behind * behind / tick
    fixed[:, 6] = np.log1p(queue / 100) * tick
    fixed[:, 7] = np.log1p(outflow / 100) * tick
    fixed[:, 8] = sweep
    filled[:, 9] = 1.0
    filled[:, 10] = behind
    earned = (distance - books.makers) / half
    return PostingFeatures(there, queue, outflow, behind, np.full(count, -sweep), earned + sweep, fixed, filled)


def fill_fraction(queue: Floats, outflow: Floats, shares: Floats) -> Matrix:
    """Expected fraction of limit orders that fills, ``(V, n)``, where outflows are exponential.

    Examples
    --------
    >>> fill_fraction(np.array([100.0]), np.array([200.0]), np.array([0.0, 100.0])).round(4).tolist()
    [[0.6065, 0.4773]]
    """
    ratio = shares / outflow[:, None]
    reached = np.exp(-queue / outflow)[:, None]
    return np.asarray(reached * np.where(ratio > 0, -np.expm1(-ratio) / np.where(ratio > 0, ratio, 1.0), 1.0))


def horizon_class(seconds: float) -> int:
    """Horizons that are treated alike: those that round to the same power of two seconds.

    Examples
    --------
    >>> [horizon_class(seconds) for seconds in (10, 60, 61, 300)]
    [3, 6, 6, 8]
    """
    return round(math.log2(max(seconds, 1e-3)))


@lru_cache(maxsize=1024)
def order_class(seconds: float, shares: int) -> str:
    """Orders whose tails are kept together: of horizons and of sizes that round to the same powers of two.

    Examples
    --------
    >>> order_class(60.0, 1000), order_class(50.0, 900)
    ('6 10', '6 10')
    """
    return f"{horizon_class(seconds)} {round(math.log2(shares))}"


def faded(nanoseconds: int, half_life: float) -> float:
    """How much something counts that was seen so long ago; the half-life is in days.

    Examples
    --------
    >>> faded(86_400 * 10**9, 2.0) ** 2
    0.5000000000000001
    """
    return float(0.5 ** (nanoseconds / (half_life * _DAY)))
