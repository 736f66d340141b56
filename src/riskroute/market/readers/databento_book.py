"""The book of one symbol, kept order by order from Databento's ``mbo`` records, and the events that made it.

A fill does not change the book by itself: the cancel, or the smaller size, that follows it does. Both together are one
execution. A changed order that keeps its price and does not grow keeps its place in the queue: what it loses is
cancelled. Any other change replaces the order. The book is looked at after the last record of an event, never between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers
from riskroute.market.readers.databento_layout import LAST

ADD, CANCEL, MODIFY, CLEAR, FILL = (ord(letter) for letter in "ACMRF")
BID, ASK = ord("B"), ord("A")
NO_LEVEL = -1
"""The price of a level that is not there."""


class DatabentoBookChanges(NamedTuple):
    """What some records did to a book.

    ``snapshot_rows (S,)`` are the records after which the book was another, ``levels (S, depth, 4)`` its prices and
    sizes (bid, size, ask, size), ``deeper (S,)`` whether it had more levels. ``events (E, 7)`` are record, action,
    side, price, size, remainder, and number of the order in ``orders``. ``references`` and ``unresolved`` count the
    records that name an order, and those whose order is not there or is smaller than they say.
    """

    snapshot_rows: Integers
    levels: Integers
    deeper: Integers
    events: Integers
    orders: Any
    references: int
    unresolved: int


class OrderBook:
    """Resting orders of one symbol at one venue, and the ``depth`` best levels of both sides."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._ids = np.zeros(0, dtype=np.uint64)
        self._orders = np.zeros(
            (0, 5), dtype=np.int64
        )  # side, price, size, filled and not yet taken off, at which price
        self._sides = [np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2), dtype=np.int64)]  # worst level first
        self._shown = np.full((depth, 4), 0, dtype=np.int64)
        self._shown[:, 0::2] = NO_LEVEL

    def apply(self, ids: Any, actions: Any, sides: Any, prices: Any, sizes: Any, flags: Any) -> DatabentoBookChanges:
        """Take in records, ``(n,)`` each, in their order; ``prices`` of orders that are added are above 0."""
        names, places = np.unique(np.concatenate([self._ids, ids.astype(np.uint64)]), return_inverse=True)
        orders = np.zeros((len(names), 5), dtype=np.int64)
        orders[places[: len(self._ids)]] = self._orders
        numbers = places[len(self._ids) :].astype(np.int64)
        count = len(ids)
        # A record adds a level at most, and makes two events at most; clearing takes off what was there or was added.
        books = [np.concatenate([side, np.zeros((count, 2), dtype=np.int64)]) for side in self._sides]
        heights = np.array([len(side) for side in self._sides])
        events = np.zeros((3 * count + len(self._ids), 7), dtype=np.int64)
        last = int(((flags & LAST) > 0).sum())
        rows, deeper = np.zeros(last, dtype=np.int64), np.zeros(last, dtype=np.int64)
        levels = np.zeros((last, self.depth, 4), dtype=np.int64)
        kinds, of, at, shares, marks = (
            np.asarray(column).astype(np.int64) for column in (actions, sides, prices, sizes, flags)
        )
        bids, asks = books
        found = _apply(
            numbers,
            kinds,
            of,
            at,
            shares,
            marks,
            orders,
            bids,
            asks,
            heights,
            self._shown,
            events,
            rows,
            levels,
            deeper,
        )
        n_events, n_books, references, unresolved = found
        live = orders[:, 2] > 0
        self._ids, self._orders = names[live], orders[live]
        self._sides = [book[:height].copy() for book, height in zip(books, heights, strict=True)]
        return DatabentoBookChanges(
            rows[:n_books], levels[:n_books], deeper[:n_books], events[:n_events], names, references, unresolved
        )


@njit(cache=True)
def _apply(
    numbers: Any,
    actions: Any,
    sides: Any,
    prices: Any,
    sizes: Any,
    flags: Any,
    orders: Any,
    bids: Any,
    asks: Any,
    heights: Any,
    shown: Any,
    events: Any,
    rows: Any,
    levels: Any,
    deeper: Any,
) -> tuple[int, int, int, int]:
    n_events = n_books = references = unresolved = 0
    for row in range(len(actions)):
        action, number, size = actions[row], numbers[row], sizes[row]
        if action == CLEAR:
            for other in range(len(orders)):
                if orders[other, 2] > 0:
                    _note(events, n_events, row, CANCEL, orders, other, orders[other, 2], orders[other, 1], 0)
                    n_events += 1
                    orders[other, 2] = orders[other, 3] = 0
            heights[0] = heights[1] = 0
        elif action in (FILL, CANCEL, MODIFY, ADD):
            left = orders[number, 2]
            if action != ADD or left > 0:
                references += 1
                if action == ADD or left == 0 or (action != MODIFY and size > left):
                    unresolved += 1
            if action == FILL:
                if left > 0:
                    orders[number, 3] = min(orders[number, 3] + size, left)
                    orders[number, 4] = prices[row]
            elif action == CANCEL or (
                left > 0 and (size == 0 or _stays(orders, number, sides[row], prices[row], size))
            ):
                gone = min(size, left) if action == CANCEL else left - size
                if gone > 0:
                    executed = min(gone, orders[number, 3])
                    _change(bids, asks, heights, orders[number, 0], orders[number, 1], -gone)
                    orders[number, 2] -= gone
                    orders[number, 3] -= executed
                    if executed > 0:
                        rest = left - executed
                        _note(events, n_events, row, FILL, orders, number, executed, orders[number, 4], rest)
                        n_events += 1
                    if gone > executed:
                        rest = orders[number, 2]
                        _note(events, n_events, row, CANCEL, orders, number, gone - executed, orders[number, 1], rest)
                        n_events += 1
            elif size > 0:
                if left > 0:
                    _change(bids, asks, heights, orders[number, 0], orders[number, 1], -left)
                orders[number, 0], orders[number, 1] = sides[row], prices[row]
                orders[number, 2], orders[number, 3] = size, 0
                _change(bids, asks, heights, sides[row], prices[row], size)
                kind = MODIFY if left > 0 else ADD
                _note(events, n_events, row, kind, orders, number, size, prices[row], size)
                n_events += 1
        if flags[row] & LAST and _differs(bids, asks, heights, shown):
            for level in range(len(shown)):
                for field in range(4):
                    levels[n_books, level, field] = shown[level, field]
            rows[n_books] = row
            deeper[n_books] = max(heights[0], heights[1]) > len(shown)
            n_books += 1
    return n_events, n_books, references, unresolved


@njit(cache=True)
def _stays(orders: Any, number: int, side: int, price: int, size: int) -> bool:
    """Whether an order that is changed keeps its place."""
    return bool(orders[number, 0] == side and orders[number, 1] == price and orders[number, 2] >= size)


@njit(cache=True)
def _note(
    events: Any, place: int, row: int, action: int, orders: Any, number: int, size: int, price: int, left: int
) -> None:
    events[place, 0], events[place, 1], events[place, 2] = row, action, orders[number, 0]
    events[place, 3], events[place, 4], events[place, 5], events[place, 6] = price, size, left, number


@njit(cache=True)
def _change(bids: Any, asks: Any, heights: Any, side: int, price: int, change: int) -> None:
    """Add shares to a level or take them off; levels come and go, the best one stands last."""
    which, sign = (0, 1) if side == BID else (1, -1)
    book = bids if side == BID else asks
    height = heights[which]
    low, high = 0, height
    while low < high:
        middle = (low + high) // 2
        if sign * book[middle, 0] < sign * price:
            low = middle + 1
        else:
            high = middle
    if low == height or book[low, 0] != price:
        for place in range(height, low, -1):
            book[place, 0], book[place, 1] = book[place - 1, 0], book[place - 1, 1]
        book[low, 0], book[low, 1] = price, 0
        heights[which] = height = height + 1
    book[low, 1] += change
    if book[low, 1] <= 0:
        for place in range(low, height - 1):
            book[place, 0], book[place, 1] = book[place + 1, 0], book[place + 1, 1]
        heights[which] = height - 1


@njit(cache=True)
def _differs(bids: Any, asks: Any, heights: Any, shown: Any) -> bool:
    """Bring the levels that are shown up to date, and tell whether any of them was another."""
    changed = False
    for which in range(2):
        for level in range(len(shown)):
            price, size = NO_LEVEL, 0
            place = heights[which] - 1 - level
            if place >= 0:
                price, size = (bids[place, 0], bids[place, 1]) if which == 0 else (asks[place, 0], asks[place, 1])
            if shown[level, 2 * which] != price or shown[level, 2 * which + 1] != size:
                shown[level, 2 * which], shown[level, 2 * which + 1] = price, size
                changed = True
    return changed
