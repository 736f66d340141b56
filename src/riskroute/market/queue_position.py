"""How much of a resting order trades: its place in a queue, followed event by event.

Price-time priority serves who came first. A pro-rata venue shares every trade in proportion to the sizes shown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars
from numba import njit
from numpy.typing import NDArray

from riskroute.errors import DataError
from riskroute.market.tables import EVENT_SCHEMA

Whole = NDArray[np.int64]

ACTIONS = {"A": 0, "C": 1, "F": 2, "M": 3}
ADDED, CANCELLED, EXECUTED, REPLACED = ACTIONS.values()
PRICE_UNITS = 1_000_000
"""Prices are compared as whole millionths of a dollar: two ways to compute a float may differ in the last digit."""
NOWHERE = -(2**62)
"""The price of an order of which none is known: worse than none, equal to none."""


class SideEvents(NamedTuple):
    """Events of one side of the book, ``(N,)`` each, and what every one takes out of which queue.

    Prices are whole numbers that rise as they get worse for whoever trades with the order: those of bids are negative.
    A cancel, an execution and the old order of a replacement take ``gone_sizes`` from the queue at ``gone_prices``,
    from an order that joined at sequence ``gone_joined`` (-1: before the first event).
    """

    stamps: Whole
    sequences: Whole
    actions: Whole
    prices: Whole
    sizes: Whole
    gone_prices: Whole
    gone_joined: Whole
    gone_sizes: Whole

    def between(self, sequence: int, stamp: int) -> tuple[int, int]:
        """First row after ``sequence``, and first row at or after ``stamp``."""
        begin = int(np.searchsorted(self.sequences, sequence, side="right"))
        return begin, max(begin, int(np.searchsorted(self.stamps, stamp)))


def whole_price(price: float, direction: int) -> int:
    """A price as `SideEvents` have it; ``direction`` is 1 for asks and -1 for bids.

    >>> whole_price(10.01, 1), whole_price(10.01, -1)
    (10010000, -10010000)
    """
    return direction * round(price * PRICE_UNITS)


def side_events(events: polars.DataFrame, direction: int, end: int) -> SideEvents:
    """Events before ``end`` (UTC nanoseconds) of the asks (``direction`` 1) or the bids (-1).

    The order that an event refers to is looked up in the rows before it. One that was never added was there before the
    first event, at the price the event has.
    """
    _check(events)
    mine = events.filter(
        (polars.col("side") == ("A" if direction > 0 else "B"))
        & (polars.col("order_id") > 0)
        & (polars.col("ts_event").cast(polars.Int64) < end)
    )
    # An order may rest at any finite price; a null or a NaN must not pass for one.
    price = (polars.col("price") * PRICE_UNITS).round().cast(polars.Int64, strict=False)
    columns = mine.select(
        polars.col("ts_event").cast(polars.Int64),
        polars.col("sequence").cast(polars.Int64),
        polars.col("action").replace_strict(ACTIONS, return_dtype=polars.Int64),
        (price * direction).fill_null(NOWHERE).alias("price"),
        polars.col("size").cast(polars.Int64).fill_null(0),
    )
    stamps, sequences, actions, prices, sizes = (np.array(column.to_numpy()) for column in columns.iter_columns())
    replaced = actions == REPLACED
    order_ids, old_ids = mine["order_id"].to_numpy(), mine["old_order_id"].fill_null(0).to_numpy()[replaced]
    names, labels = np.unique(np.concatenate([order_ids, old_ids]), return_inverse=True)
    old_labels = np.full(len(actions), -1)
    old_labels[replaced] = labels[len(actions) :]
    gone = _look_up(sequences, actions, prices, sizes, labels[: len(actions)], old_labels, len(names))
    return SideEvents(stamps, sequences, actions, prices, sizes, *gone)


def _check(events: polars.DataFrame) -> None:
    missing = [name for name in EVENT_SCHEMA if name not in events.columns]
    if missing:
        raise DataError(f"events must have columns {', '.join(EVENT_SCHEMA)}, was without {', '.join(missing)}")
    unknown = [str(action) for action in events["action"].unique().to_list() if action not in ACTIONS]
    if unknown:
        raise DataError(f"action must be one of {', '.join(ACTIONS)}, was {', '.join(sorted(unknown))}")
    for name in ("sequence", "ts_event"):
        if events[name].null_count() or not events[name].is_sorted():
            raise DataError(f"events must be in the order of {name}, was not")


@njit(cache=True)
def _look_up(
    sequences: Whole, actions: Whole, prices: Whole, sizes: Whole, orders: Whole, old_orders: Whole, n_orders: int
) -> tuple[Whole, Whole, Whole]:
    """Price, sequence of joining and size of what each event takes away; orders are numbered from 0."""
    price = np.full(n_orders, NOWHERE)
    joined = np.full(n_orders, -1)
    left = np.zeros(n_orders, dtype=np.int64)
    gone_prices = np.full(len(actions), NOWHERE)
    gone_joined = np.full(len(actions), -1)
    gone_sizes = np.zeros(len(actions), dtype=np.int64)
    for row in range(len(actions)):
        order = orders[row]
        if actions[row] == CANCELLED or actions[row] == EXECUTED:
            if price[order] == NOWHERE:
                price[order] = prices[row]
            gone_prices[row], gone_joined[row], gone_sizes[row] = price[order], joined[order], sizes[row]
            left[order] = max(left[order] - sizes[row], 0)
            continue
        if actions[row] == REPLACED:
            old = old_orders[row]
            gone_prices[row], gone_joined[row], gone_sizes[row] = price[old], joined[old], left[old]
        price[order], joined[order], left[order] = prices[row], sequences[row], sizes[row]
    return gone_prices, gone_joined, gone_sizes


@njit(cache=True)
def volume_behind(events: SideEvents, begin: int, end: int, sequence: int, price: int, ahead: int) -> int:
    """Volume that trades once everything ``ahead`` of us is gone: what an order at our place gets, whatever its size.

    We join the end of the queue at ``price`` right after ``sequence``; rows ``begin`` to ``end`` follow. An execution
    of an order behind us, or at a worse price, would have been ours, and says that nothing is ahead any more.
    """
    volume = 0
    for row in range(begin, end):
        gone_price, size = events.gone_prices[row], events.gone_sizes[row]
        in_front = gone_price == price and events.gone_joined[row] <= sequence
        if events.actions[row] != EXECUTED:
            if in_front:
                ahead = max(ahead - size, 0)
        elif in_front:
            taken = min(ahead, size)
            ahead -= taken
            volume += size - taken
        elif gone_price >= price:
            ahead = 0
            volume += size
    return volume


@njit(cache=True)
def shared_volume(events: SideEvents, begin: int, end: int, price: int, others: int, quantities: Whole) -> Whole:
    """Shares that orders of ``quantities (Q,)`` get of the trades in rows ``begin`` to ``end``, each on its own.

    Executions of one timestamp, at ``price`` or worse, are one trade. It is shared in proportion to the sizes shown:
    ours and that of ``others`` at our price, who are followed as the data have them. Fractions of shares are dropped.
    """
    filled = np.zeros(len(quantities), dtype=np.int64)
    volume, shown, stamp = 0, 0, 0
    for row in range(begin, end + 1):
        if volume > 0 and (row == end or events.stamps[row] != stamp):
            for k in range(len(quantities)):
                left = quantities[k] - filled[k]
                if left > 0:
                    filled[k] += min(volume, shown + left) * left // (shown + left)
            volume = 0
        if row == end:
            break
        if events.actions[row] == EXECUTED and events.gone_prices[row] >= price:
            if volume == 0:
                shown, stamp = others, events.stamps[row]
            volume += events.gone_sizes[row]
        if events.gone_prices[row] == price:
            others = max(others - events.gone_sizes[row], 0)
        if (events.actions[row] == ADDED or events.actions[row] == REPLACED) and events.prices[row] == price:
            others += events.sizes[row]
    return filled
