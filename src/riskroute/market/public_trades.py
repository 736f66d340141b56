"""Trades that everybody sees, each with the shares that were displayed at its price before: what was hidden shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars

from riskroute.core.arrays import Flags, Integers
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_position import EXECUTED, PRICE_UNITS, QueueEvents, coded_events

_END = 2**62


class PublicTrades(NamedTuple):
    """Trades with resting orders of one side, ``(n,)`` each, in the order of time: shares, and those displayed before.

    Executions at one price and time are one trade.
    """

    stamps: Integers
    sizes: Integers
    displayed: Integers

    def between(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Shares and displayed shares of the trades from one time to before another."""
        first, last = np.searchsorted(self.stamps, (begin, end))
        return list(zip(self.sizes[first:last].tolist(), self.displayed[first:last].tolist(), strict=True))


def hidden_trades(events: polars.DataFrame) -> Integers:
    """Trades with orders that nobody saw: stamps, sequences, prices in whole millionths and sizes, ``(4, n)``."""
    coded = coded_events(events, 1, _END).filter((polars.col("order_id") == 0) & (polars.col("action") == EXECUTED))
    return np.stack([coded[name].cast(polars.Int64).to_numpy() for name in ("stamp", "sequence", "price", "size")])


def public_trades(
    books: DayBooks, venue: int, direction: int, flow: QueueEvents | None, hidden: Integers | None
) -> PublicTrades:
    """Trades with the asks (``direction`` 1) or the bids (-1) of a venue.

    The side of a trade with a hidden order is not told: above the mid before its time it was with an ask, below with a
    bid, and at the mid it counts for both.
    """
    first, last = books.offsets[venue], books.offsets[venue + 1]
    whole: list[tuple[Integers, Integers, Integers, Integers]] = []
    if flow is not None:
        executed = flow.actions == EXECUTED
        whole.append((flow.stamps[executed], flow.sequences[executed], flow.gone_prices[executed] * direction,
                      flow.gone_sizes[executed]))  # fmt: skip
    if hidden is not None and hidden.shape[1] and last > first:
        bids, asks = (np.rint(side[first:last, 0] * PRICE_UNITS) for side in (books.bid_px, books.ask_px))
        rows = np.searchsorted(books.stamps[first:last], hidden[0]) - 1
        known = (rows >= 0) & _ours(direction, 2 * hidden[2], (bids + asks)[np.maximum(rows, 0)])
        stamps, sequences, prices, sizes = hidden[:, known]
        whole.append((stamps, sequences, prices, sizes))
    if not whole or last == first:
        empty = np.zeros(0, dtype=np.int64)
        return PublicTrades(empty, empty, empty)
    stamps, sequences, prices, sizes = (np.concatenate(columns) for columns in zip(*whole, strict=True))
    order = np.lexsort((sequences, prices, stamps))
    stamps, sequences, prices, sizes = stamps[order], sequences[order], prices[order], sizes[order]
    begins = np.ones(len(stamps), dtype=bool)
    begins[1:] = (np.diff(stamps) != 0) | (np.diff(prices) != 0)
    starts = np.flatnonzero(begins)
    totals = np.add.reduceat(sizes, starts) if len(starts) else sizes
    shown = _displayed(books, venue, direction, sequences[starts], prices[starts])
    return PublicTrades(stamps[starts], totals.astype(np.int64), shown)


def _ours(direction: int, doubled: Integers, sums: Integers) -> Flags:
    """Whether twice a price is on our side of the sum of bid and ask, or in between."""
    return np.asarray(doubled >= sums if direction > 0 else doubled <= sums)


def _displayed(books: DayBooks, venue: int, direction: int, sequences: Integers, prices: Integers) -> Integers:
    """Shares displayed at prices in the last snapshot before each sequence."""
    first, last = int(books.offsets[venue]), int(books.offsets[venue + 1])
    rows = first + np.searchsorted(books.sequences[first:last], sequences) - 1
    levels, sizes = (books.ask_px, books.ask_sz) if direction > 0 else (books.bid_px, books.bid_sz)
    there = np.maximum(rows, first)
    same = np.rint(levels[there] * PRICE_UNITS) == prices[:, None]
    shown = np.where(same, sizes[there], 0.0).sum(axis=1)
    return np.where(rows >= first, shown, 0.0).astype(np.int64)
