"""Features of the market at the arrival of an order, as inputs of the regressions of `lit_belief`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Flags, Floats, Matrix
from riskroute.routers.context import Context

POSTING_FEATURES = 11  # features of a limit order with a coefficient
LEAST_FLOW = 1e-6  # shares added to every outflow, which is a divisor


class MarketFeatures(NamedTuple):
    """Features of the consolidated book, signed by the side of the order; dollars per share unless stated otherwise.

    ``imbalance`` compares the sizes at the best prices, from -1 to 1; above 0 the order's own side is larger, and the
    price tends to move away. ``lean`` is the distance of the venues' mean mid from the consolidated mid, which tends to
    revert towards it. ``sweep`` is the cost of sweeping the whole order now, fees included.
    """

    half_spread: float
    imbalance: float
    lean: float
    sweep: float


def market_features(context: Context, sweep: float) -> MarketFeatures:
    """Return the market features of an order whose sweep costs ``sweep`` dollars per share.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> venues = {"A": {"bids": [[10.0, 300]], "asks": [[10.02, 100]]}, "B": {"bids": [[9.99, 50]]}}
    >>> market = market_features(read_context({"venues": venues}, side="buy", shares=100), 0.013)
    >>> round(market.half_spread, 6), market.imbalance, round(market.lean, 6)
    (0.01, 0.5, 0.0)
    """
    books, sign = context.books, context.sign
    best_bid, best_ask = books.best_bid, books.best_ask
    half = max((best_ask - best_bid) / 2, context.tick / 4)
    imbalance, mid = _imbalance_and_mid(books.bid_px, books.bid_sz, books.ask_px, books.ask_sz, best_bid, best_ask)
    return MarketFeatures(half, sign * imbalance, sign * (mid - books.mid), sweep)


@njit(cache=True)
def _imbalance_and_mid(
    bid_px: Matrix, bid_sz: Matrix, ask_px: Matrix, ask_sz: Matrix, best_bid: float, best_ask: float
) -> tuple[float, float]:
    """Return the imbalance of the sizes at the best prices, and the mean mid of venues with two-sided books."""
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
    """Features of limit orders at the best own-side price of each venue, ``(V,)`` or ``(V, POSTING_FEATURES)``.

    The profit of an order of ``n`` shares, in ``n`` half-spreads, is linear in ``fixed + fill * filled`` with the known
    offset ``offset + fill * offset_filled``. ``fill`` is the expected filled fraction if the outflow until the horizon
    is exponential with mean ``outflow``. ``behind`` is the distance from the market's best price in half-spreads.
    ``there`` is false for venues with an empty queue or an unknown outflow: no order can be posted there.
    """

    there: Flags
    queue: Floats
    outflow: Floats
    behind: Floats
    offset: Floats
    offset_filled: Floats
    fixed: Matrix
    filled: Matrix


def posting_features(context: Context, market: MarketFeatures) -> PostingFeatures:
    """Return the features of a limit order at every venue."""
    books, sign, half = context.books, context.sign, market.half_spread
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
    sweep = market.sweep / half
    tick = context.tick / half
    count = len(price)
    fixed, filled = np.zeros((count, POSTING_FEATURES)), np.zeros((count, POSTING_FEATURES))
    fixed[:, 0] = 1.0
    fixed[:, 1] = market.imbalance
    fixed[:, 2] = market.lean / half
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
    """Return the expected filled fraction of limit orders under exponential outflows, ``(V, n)``.

    Examples
    --------
    >>> fill_fraction(np.array([100.0]), np.array([200.0]), np.array([0.0, 100.0])).round(4).tolist()
    [[0.6065, 0.4773]]
    """
    ratio = shares / outflow[:, None]
    reached = np.exp(-queue / outflow)[:, None]
    return np.asarray(reached * np.where(ratio > 0, -np.expm1(-ratio) / np.where(ratio > 0, ratio, 1.0), 1.0))


def horizon_class(seconds: float) -> int:
    """Return the class of a horizon: its base-2 logarithm, rounded.

    Examples
    --------
    >>> [horizon_class(seconds) for seconds in (10, 60, 61, 300)]
    [3, 6, 6, 8]
    """
    return round(math.log2(max(seconds, 1e-3)))


@lru_cache(maxsize=1024)
def order_class(seconds: float, shares: int) -> str:
    """Return the class of an order, by rounded base-2 logarithms of horizon and size.

    Examples
    --------
    >>> order_class(60.0, 1000), order_class(50.0, 900)
    ('6 10', '6 10')
    """
    return f"{horizon_class(seconds)} {round(math.log2(shares))}"


def decay(nanoseconds: int, half_life: float) -> float:
    """Return the weight of an observation of that age; the half-life is in days.

    Examples
    --------
    >>> decay(86_400 * 10**9, 2.0) ** 2
    0.5000000000000001
    """
    return float(0.5 ** (nanoseconds / (half_life * 8.64e13)))
