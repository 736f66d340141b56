"""Queue position of resting limit orders, followed event by event through a recorded day.

Price-time priority serves the order that came first. A pro-rata venue shares every trade in proportion to the displayed
sizes. `bucket_fills` follows one order per bucket; `riskroute.market.queue_fills` follows orders that join at any time.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import DataError
from riskroute.market.schema import EVENT_SCHEMA


class _EventActions(NamedTuple):
    """Codes of what an event does; the first four are those of an event table, in the order A, C, F, M.

    An order of the other side that reaches our price trades with us instead of resting: ``meet`` marks one that does,
    ``arrive`` one that may.
    """

    add: int = 0
    cancel: int = 1
    execute: int = 2
    replace: int = 3
    meet: int = 4
    arrive: int = 5


ACTION = _EventActions()
SIDE_LETTER = {1: "A", -1: "B"}  # of asks and bids in a table of events
MATCHING_RULES = ("price-time", "pro-rata")
PRICE_UNITS = 1_000_000  # prices are compared in whole millionths of a dollar: floats may differ in the last digit
NOWHERE = -(2**62)  # price of an order whose price is unknown: no queue has it


class QueueEntry(NamedTuple):
    """Where and when an order joins a queue, per bucket: ``edges (B + 1,)``, the others ``(B,)``.

    Buckets reach from edge to edge, in UTC nanoseconds. The order joins right after ``sequences`` at ``prices``, coded
    by `price_keys`; NaN where it does not join.
    """

    edges: Integers
    sequences: Integers
    prices: Floats


class QueueEvents(NamedTuple):
    """Events of our side of the book, ``(N,)`` each, and the size that each removes from a queue.

    Prices are integers that increase as they get worse for the counterparty: those of bids are negative. A cancel, an
    execution and the old order of a replacement remove ``gone_sizes`` from the queue at ``gone_prices``, from an order
    that joined at sequence ``gone_joined``. If that order was never added, this is the earliest sequence that its id
    allows (-1: before the first event). Orders of the other side that meet us are included with action ``meet``.
    """

    stamps: Integers
    sequences: Integers
    actions: Integers
    prices: Integers
    sizes: Integers
    gone_prices: Integers
    gone_joined: Integers
    gone_sizes: Integers

    def between(self, sequence: int, stamp: int) -> tuple[int, int]:
        """Return the first row after ``sequence``, and the first row at or after ``stamp``."""
        begin = int(np.searchsorted(self.sequences, sequence, side="right"))
        return begin, max(begin, int(np.searchsorted(self.stamps, stamp)))


def price_keys(prices: Floats, direction: int) -> Floats:
    """Code prices as in `QueueEvents`, NaN kept; ``direction`` is 1 for asks and -1 for bids.

    >>> price_keys(np.array([10.01]), 1).tolist(), price_keys(np.array([10.01]), -1).tolist()
    ([10010000.0], [-10010000.0])
    """
    return np.asarray(direction * np.rint(prices * PRICE_UNITS))


def bucket_fills(
    events: polars.DataFrame,
    joined: QueueEntry,
    shown: Floats,
    quantities: Integers,
    *,
    direction: int,
    rule: str,
) -> Integers:
    """Return the shares filled at the limit price, ``(B, Q)``, behind ``shown (B,)`` shares; 0 where we do not join.

    ``direction`` is 1 for orders to sell and -1 for orders to buy; ``rule`` is one of `MATCHING_RULES`.
    """
    flow = _side_events(events, direction, joined)
    filled = np.zeros((len(shown), len(quantities)), dtype=np.int64)
    for bucket in np.flatnonzero(np.isfinite(joined.prices)):
        sequence, price = int(joined.sequences[bucket]), int(joined.prices[bucket])
        begin, end = flow.between(sequence, int(joined.edges[bucket + 1]))
        if rule == "price-time":
            volume = _volume_behind(flow, begin, end, sequence, price, int(shown[bucket]))
            filled[bucket] = np.minimum(quantities, volume)
        else:
            filled[bucket] = _pro_rata_volume(flow, begin, end, price, int(shown[bucket]), quantities)
    return filled


def _side_events(events: polars.DataFrame, direction: int, joined: QueueEntry) -> QueueEvents:
    """Return the events of the asks (``direction`` 1) or bids (-1) before the last edge, and the orders that meet us.

    The order that an event refers to is looked up in earlier rows. An order that was never added rests at the price of
    the event. It was there before the first event, unless `ArrivalIds` show that it came later: a recording of a few
    levels does not show orders sent to deeper ones.
    """
    coded = coded_events(events, direction, int(joined.edges[-1])).filter(polars.col("order_id") > 0)
    met = polars.Series("met", _meetings(coded, direction, joined))
    ours = polars.col("side") == SIDE_LETTER[direction]
    mine = coded.with_columns(met).filter(ours | polars.col("met"))
    columns = mine.select(
        "stamp",
        "sequence",
        polars.when("met").then(ACTION.meet).otherwise("action").cast(polars.Int64),
        "price",
        "size",
    )
    stamps, sequences, actions, prices, sizes = (np.array(column.to_numpy()) for column in columns.iter_columns())
    return QueueEvents(
        *(stamps, sequences, actions, prices, sizes),
        *look_up_orders(mine, actions, ArrivalIds.of_events(coded)),
    )


class ArrivalIds(NamedTuple):
    """Ascending ids of added orders, ``(K,)``, and the sequences at which they came; empty if ids are not ordered."""

    ids: Integers
    sequences: Integers

    @classmethod
    def of_events(cls, coded: polars.DataFrame) -> Self:
        """Return the ids of the orders that `coded_events` of both sides add.

        Most exchanges number orders as they arrive. A few ids may be out of order, such as those of orders displayed
        some time after they were sent; if more than 1 % are, ids say nothing about time.
        """
        added = coded.filter(polars.col("action").is_in([ACTION.add, ACTION.replace]))
        ids, sequences = added["order_id"].cast(polars.UInt64).to_numpy(), added["sequence"].to_numpy()
        rising = np.append(True, ids[1:] > np.maximum.accumulate(ids)[:-1])[: len(ids)]
        if (~rising).sum() > 0.01 * len(ids):
            rising[:] = False
        return cls(ids[rising], sequences[rising].astype(np.int64))

    def earliest(self, ids: Integers) -> Integers:
        """Return the earliest sequence at which each order can have joined: after the last added order with a lower id.

        >>> ArrivalIds(np.array([10, 20]), np.array([3, 8])).earliest(np.array([5, 15, 99])).tolist()
        [-1, 4, 9]
        """
        places = np.searchsorted(self.ids, ids) - 1
        return np.append(self.sequences + 1, -1)[places]  # place -1 selects the last entry, -1


def look_up_orders(
    events: polars.DataFrame, actions: Integers, arrivals: ArrivalIds
) -> tuple[Integers, Integers, Integers]:
    """Return price, joining sequence and size of what each of the coded events of one side removes, ``(N,)`` each.

    ``actions`` replaces the column of ``events``. ``arrivals`` bounds the joining sequence of orders never added.
    """
    sequences, prices, sizes = (np.array(events[name].to_numpy()) for name in ("sequence", "price", "size"))
    # Ids of orders are large and sparse; dense labels let the kernel use arrays instead of a dictionary.
    replaced = actions == ACTION.replace
    names = polars.concat([events["order_id"], events["old_order_id"].filter(polars.Series(replaced))])
    labels = names.rank("dense").cast(polars.Int64).to_numpy() - 1
    old_labels = np.full(len(actions), -1)
    old_labels[replaced] = labels[len(actions) :]
    joined = np.full(len(names), -1)
    joined[labels] = arrivals.earliest(names.cast(polars.UInt64).to_numpy())
    found: tuple[Integers, Integers, Integers] = _look_up(
        sequences, actions, prices, sizes, labels[: len(actions)], old_labels, joined
    )
    return found


def coded_events(events: polars.DataFrame, direction: int, end: int) -> polars.DataFrame:
    """Return the events before ``end`` as integers, prices coded as in `QueueEvents`; refuse malformed tables."""
    missing = [name for name in EVENT_SCHEMA if name not in events.columns]
    if missing:
        raise DataError(f"events must have columns {', '.join(EVENT_SCHEMA)}, missing {', '.join(missing)}")
    for name in ("sequence", "ts_event"):
        if events[name].null_count() or not events[name].is_sorted():
            raise DataError(f"events must be sorted by {name}")
    # An order may rest at any finite price; a null or NaN must not be taken for one.
    price = (polars.col("price") * PRICE_UNITS).round().cast(polars.Int64, strict=False)
    coded = events.select(
        polars.col("ts_event").cast(polars.Int64).alias("stamp"),
        polars.col("sequence").cast(polars.Int64),
        polars.col("action").cast(polars.Enum(list("ACFM")), strict=False).to_physical(),
        (price * direction).fill_null(NOWHERE).alias("price"),
        polars.col("size").cast(polars.Int64).fill_null(0),
        "side",
        polars.col("order_id", "old_order_id").fill_null(0),
    )
    if coded["action"].null_count():
        unknown = {str(action) for action in events["action"].unique().to_list() if action not in set("ACFM")}
        raise DataError(f"action must be one of A, C, F, M, was {', '.join(sorted(unknown))}")
    return coded[: int(coded["stamp"].search_sorted(end, side="left"))]


def _meetings(coded: polars.DataFrame, direction: int, joined: QueueEntry) -> Flags:
    """Return the rows ``(N,)`` in which an order of the other side arrives at or through our price after we joined.

    An order meets us once: it would have traded away, so its later replacements do not count. Some sources show a
    replacement as a cancel and an add; an add right after a cancel of the same side and time is taken for one.
    """
    begin = int(coded["stamp"].search_sorted(int(joined.edges[0]), side="left"))
    theirs = (coded["side"][begin:] == SIDE_LETTER[-direction]).fill_null(False).to_numpy()
    names = ("stamp", "sequence", "action", "price", "order_id", "old_order_id")
    stamps, sequences, actions, prices, ids, old_ids = (coded[name][begin:].to_numpy() for name in names)
    arrives = theirs & ((actions == ACTION.add) | (actions == ACTION.replace))
    old = np.where(actions == ACTION.replace, old_ids, 0)
    moved = (actions[1:] == ACTION.add) & (actions[:-1] == ACTION.cancel) & theirs[:-1] & (stamps[1:] == stamps[:-1])
    old[1:][moved] = ids[:-1][moved]

    buckets = np.searchsorted(joined.edges, stamps, side="right") - 1
    meets = arrives & (prices >= joined.prices[buckets]) & (sequences > joined.sequences[buckets])
    traded: dict[int, int] = {}  # order id -> bucket in which it traded with us
    met = np.zeros(coded.height, dtype=bool)
    for row in np.flatnonzero(meets | (arrives & (old > 0))):
        bucket = int(buckets[row])
        again = traded.get(int(old[row])) == bucket
        if again or meets[row]:
            traded[int(ids[row])], met[begin + row] = bucket, not again
    return met


@njit(cache=True)
def _look_up(
    sequences: Integers,
    actions: Integers,
    prices: Integers,
    sizes: Integers,
    orders: Integers,
    old_orders: Integers,
    joined: Integers,
) -> tuple[Integers, Integers, Integers]:
    """Look up what each event removes, for orders numbered from 0; `look_up_orders` without the labels.

    ``joined`` starts with the earliest possible sequence of each order and is updated in place.
    """
    price = np.full(len(joined), NOWHERE)
    left = np.zeros(len(joined), dtype=np.int64)
    gone_prices = np.full(len(actions), NOWHERE)
    gone_joined = np.full(len(actions), -1)
    gone_sizes = np.zeros(len(actions), dtype=np.int64)
    for row in range(len(actions)):
        order = orders[row]
        if actions[row] == ACTION.meet:
            continue
        if actions[row] == ACTION.cancel or actions[row] == ACTION.execute:
            if price[order] == NOWHERE:
                price[order] = prices[row]
            gone_prices[row], gone_joined[row], gone_sizes[row] = price[order], joined[order], sizes[row]
            left[order] = max(left[order] - sizes[row], 0)
            continue
        if actions[row] == ACTION.replace:
            old = old_orders[row]
            gone_prices[row], gone_joined[row], gone_sizes[row] = price[old], joined[old], left[old]
        price[order], joined[order], left[order] = prices[row], sequences[row], sizes[row]
    return gone_prices, gone_joined, gone_sizes


@njit(cache=True)
def _better_change(events: QueueEvents, row: int, price: int) -> int:
    """Return the net change of shares at prices better than ours in a row."""
    change = 0
    if NOWHERE < events.gone_prices[row] < price:
        change -= events.gone_sizes[row]
    joins = events.actions[row] == ACTION.add or events.actions[row] == ACTION.replace
    if joins and NOWHERE < events.prices[row] < price:
        change += events.sizes[row]
    return change


@njit(cache=True)
def _volume_behind(events: QueueEvents, begin: int, end: int, sequence: int, price: int, ahead: int) -> int:
    """Return the volume that trades at our queue position once the shares ``ahead`` are gone, whatever our size.

    We join the back of the queue at ``price`` right after ``sequence``; rows ``begin`` to ``end`` follow. An execution
    of an order behind us, or at a worse price, would have been ours and shows that nothing is ahead any more. Of an
    order that meets us we get what exceeds the volume ahead, at our price and at better ones. Better prices exist only
    if the recording is crossed or has lost orders; they then stay ahead as recorded.
    """
    volume, better = 0, 0
    for row in range(begin, end):
        gone_price, size = events.gone_prices[row], events.gone_sizes[row]
        in_front = gone_price == price and events.gone_joined[row] <= sequence
        # Not below 0: orders that were never recorded may leave a better price.
        better = max(better + _better_change(events, row, price), 0)
        if events.actions[row] == ACTION.meet:
            volume += max(events.sizes[row] - ahead - better, 0)
        elif events.actions[row] != ACTION.execute:
            if in_front:
                ahead = max(ahead - size, 0)
        elif in_front:
            taken = min(ahead, size)
            ahead, better = ahead - taken, 0
            volume += size - taken
        elif gone_price >= price:  # somebody behind us traded, so nothing can be ahead of us
            ahead, better = 0, 0
            volume += size
    return volume


@njit(cache=True)
def _pro_rata_volume(
    events: QueueEvents, begin: int, end: int, price: int, others: int, quantities: Integers
) -> Integers:
    """Return the shares that orders of ``quantities (Q,)`` get in rows ``begin`` to ``end``, each order on its own.

    Executions of one timestamp at ``price`` or worse are one trade, together with the rest of the order that meets us.
    It is shared in proportion to the displayed sizes, ours and that of the ``others`` at our price; fractions of shares
    are dropped. Better prices are served first, as in `_volume_behind`.
    """
    filled = np.zeros(len(quantities), dtype=np.int64)
    volume, shown, stamp, better = 0, 0, 0, 0
    for row in range(begin, end + 1):
        if volume > 0 and (row == end or events.stamps[row] != stamp):
            for k in range(len(quantities)):
                left = quantities[k] - filled[k]
                if left > 0:
                    filled[k] += min(volume, shown + left) * left // (shown + left)
            volume = 0
        if row == end:
            break
        better = max(better + _better_change(events, row, price), 0)
        traded = 0
        if events.actions[row] == ACTION.meet:
            traded = max(events.sizes[row] - better, 0)
        elif events.actions[row] == ACTION.execute and events.gone_prices[row] >= price:
            traded, better = events.gone_sizes[row], 0
        if traded > 0:
            if volume == 0:
                shown, stamp = others, events.stamps[row]
            volume += traded
        if events.gone_prices[row] == price:
            others = max(others - events.gone_sizes[row], 0)
        if (events.actions[row] == ACTION.add or events.actions[row] == ACTION.replace) and events.prices[row] == price:
            others += events.sizes[row]
    return filled
