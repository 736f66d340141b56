"""Features of the market at the arrival of an order, as inputs of the regressions of `lit_belief`."""

from __future__ import annotations

import math
from typing import NamedTuple

from numba import njit

from riskroute.core.arrays import Matrix
from riskroute.routers.context import Context


class MarketFeatures(NamedTuple):
    """Features of the consolidated book, signed by the side of the order; dollars per share unless stated otherwise.

    ``imbalance`` compares the sizes at the best prices, from -1 to 1; above 0 the order's own side is larger, and the
    price tends to move away. ``lean`` is the venues' mean mid minus the consolidated mid, which tends to revert to the
    mean mid. ``sweep`` is the cost of sweeping the whole order now, fees included.
    """

    half_spread: float
    imbalance: float
    lean: float
    sweep: float

    @classmethod
    def of(cls, context: Context, sweep: float) -> MarketFeatures:
        """Return the features of an order whose sweep costs ``sweep`` dollars per share."""
        books, sign = context.books, context.sign
        bid, ask = books.best_bid, books.best_ask
        half = max((ask - bid) / 2, context.tick / 4)
        imbalance, mid = _imbalance_and_mid(books.bid_px, books.bid_sz, books.ask_px, books.ask_sz, bid, ask)
        return cls(half, sign * imbalance, sign * (mid - books.mid), sweep)


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


def horizon_feature(seconds: float) -> int:
    """Return the class of a horizon: its base-2 logarithm, rounded."""
    return round(math.log2(max(seconds, 1e-3)))
