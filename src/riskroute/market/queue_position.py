"""How much of a resting order trades: its place in a queue, followed event by event.

Price-time priority serves who came first. A pro-rata venue shares every trade in proportion to the sizes shown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import check_array
from riskroute.market.schema import EVENT_SCHEMA

ACTIONS = {"A": 0, "C": 1, "F": 2, "M": 3}
ADDED, CANCELLED, EXECUTED, REPLACED = ACTIONS.values()
MET = 4
"""What an order of the other side does that comes to our price or through it: it trades instead of resting."""
PRICE_UNITS = 1_000_000
"""Prices are compared as whole millionths of a dollar: two ways to compute a float may differ in the last digit."""
NOWHERE = -(2**62)
"""The price of an order of which none is known: worse than none, equal to none."""
MOST_ODD_IDS = 0.01
"""Share of added orders whose id may be lower than an earlier one's, for ids to tell when an order was sent."""


class QueueEntry(NamedTuple):
    """Where and when we join, bucket by bucket: ``edges (B + 1,)``, the others ``(B,)``.

    Buckets reach from edge to edge, in UTC nanoseconds. We join right after ``sequences``, at ``prices`` as
    `price_keys` has them; NaN: nowhere.
    """

    edges: Integers
    sequences: Integers
    prices: Floats


class QueueEvents(NamedTuple):
    """Events of our side of the book, ``(N,)`` each, and what every one takes out of which queue.

    Prices are whole numbers that rise as they get worse for whoever trades with the order: those of bids are negative.
    A cancel, an execution and the old order of a replacement take ``gone_sizes`` from the queue at ``gone_prices``,
    from an order that joined at sequence ``gone_joined``. Of an order that was never added this is the earliest one
    that its id allows (-1: before the first event). Among them, with the action `MET`, stand the orders of the other
    side that meet us.
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
        """First row after ``sequence``, and first row at or after ``stamp``."""
        begin = int(np.searchsorted(self.sequences, sequence, side="right"))
        return begin, max(begin, int(np.searchsorted(self.stamps, stamp)))


def price_keys(prices: Floats, direction: int) -> Floats:
    """Prices as `QueueEvents` have them, NaN kept; ``direction`` is 1 for asks and -1 for bids.

    Examples
    --------
    >>> price_keys(np.array([10.01]), 1).tolist(), price_keys(np.array([10.01]), -1).tolist()
    ([10010000.0], [-10010000.0])
    """
    return np.asarray(direction * np.rint(prices * PRICE_UNITS))


def side_events(events: polars.DataFrame, direction: int, joined: QueueEntry) -> QueueEvents:
    """Events before the last edge of the asks (``direction`` 1) or the bids (-1), and the orders that meet us there.

    The order that an event refers to is looked up in the rows before it. One that was never added is at the price that
    the event has. It was there before the first event, unless `arrival_ids` say that it came later: a recording of a
    few levels does not show orders that are sent to deeper ones.
    """
    coded = coded_events(events, direction, int(joined.edges[-1])).filter(polars.col("order_id") > 0)
    met = polars.Series("met", _meetings(coded, direction, joined))
    ours = polars.col("side") == side_letter(direction)
    mine = coded.with_columns(met).filter(ours | polars.col("met"))
    columns = mine.select(
        "stamp", "sequence", polars.when("met").then(MET).otherwise("action").cast(polars.Int64), "price", "size"
    )
    stamps, sequences, actions, prices, sizes = (np.array(column.to_numpy()) for column in columns.iter_columns())
    return QueueEvents(
        *(stamps, sequences, actions, prices, sizes),
        *look_up_orders(mine, sequences, actions, prices, sizes, arrival_ids(coded)),
    )


class ArrivalIds(NamedTuple):
    """Ids of added orders that rise, ``(K,)``, and the sequences at which they came; none where ids tell nothing."""

    ids: Integers
    sequences: Integers

    def earliest(self, ids: Integers) -> Integers:
        """Sequences before which orders were not there, by their ids: after the last added order with a lower one.

        Examples
        --------
        >>> ArrivalIds(np.array([10, 20]), np.array([3, 8])).earliest(np.array([5, 15, 99])).tolist()
        [-1, 4, 9]
        """
        places = np.searchsorted(self.ids, ids) - 1
        return np.append(self.sequences + 1, -1)[places]  # a place of -1 is the last entry


def arrival_ids(coded: polars.DataFrame) -> ArrivalIds:
    """Ids of the orders that `coded_events` of both sides add.

    An exchange that counts its orders gives later ones higher ids. A few may be out of line, such as orders that are
    displayed some time after they were sent; where more are, ids tell nothing.
    """
    added = coded.filter(polars.col("action").is_in([ADDED, REPLACED]))
    ids, sequences = added["order_id"].cast(polars.UInt64).to_numpy(), added["sequence"].to_numpy()
    rising = np.append(True, ids[1:] > np.maximum.accumulate(ids)[:-1])[: len(ids)]
    if (~rising).sum() > MOST_ODD_IDS * len(ids):
        rising[:] = False
    return ArrivalIds(ids[rising], sequences[rising].astype(np.int64))


def look_up_orders(
    events: polars.DataFrame,
    sequences: Integers,
    actions: Integers,
    prices: Integers,
    sizes: Integers,
    arrivals: ArrivalIds,
) -> tuple[Integers, Integers, Integers]:
    """Price, sequence of joining and size of what each event of one side takes away, ``(N,)`` each.

    The columns are those of the ``events``, whose orders are told by ``order_id`` and ``old_order_id``. ``arrivals``
    say from which sequence on an order may have joined that was never added.
    """
    replaced = actions == REPLACED
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


def side_letter(direction: int) -> str:
    """The letter of the asks (``direction`` 1) or of the bids (-1) in a table of events."""
    return "A" if direction > 0 else "B"


def coded_events(events: polars.DataFrame, direction: int, end: int) -> polars.DataFrame:
    """Events before ``end`` in whole numbers, prices as `QueueEvents` have them; refuses what are not events."""
    missing = [name for name in EVENT_SCHEMA if name not in events.columns]
    if missing:
        raise DataError(f"events must have columns {', '.join(EVENT_SCHEMA)}, was without {', '.join(missing)}")
    for name in ("sequence", "ts_event"):
        if events[name].null_count() or not events[name].is_sorted():
            raise DataError(f"events must be in the order of {name}, was not")
    # An order may rest at any finite price; a null or a NaN must not pass for one.
    price = (polars.col("price") * PRICE_UNITS).round().cast(polars.Int64, strict=False)
    coded = events.select(
        polars.col("ts_event").cast(polars.Int64).alias("stamp"),
        polars.col("sequence").cast(polars.Int64),
        polars.col("action").cast(polars.Enum(list(ACTIONS)), strict=False).to_physical(),
        (price * direction).fill_null(NOWHERE).alias("price"),
        polars.col("size").cast(polars.Int64).fill_null(0),
        "side",
        polars.col("order_id", "old_order_id").fill_null(0),
    )
    if coded["action"].null_count():
        unknown = {str(action) for action in events["action"].unique().to_list() if action not in ACTIONS}
        raise DataError(f"action must be one of {', '.join(ACTIONS)}, was {', '.join(sorted(unknown))}")
    return coded[: int(coded["stamp"].search_sorted(end, side="left"))]


def _meetings(coded: polars.DataFrame, direction: int, joined: QueueEntry) -> Flags:
    """Rows ``(N,)`` in which an order of the other side comes to our price or through it, after we joined.

    An order meets us once. While we have shares left it trades away, so what the recording has replace it later does
    not count. Some sources show a replacement as a cancel and an add: an add right after a cancel, on the same side and
    at the same time, is taken for one.
    """
    begin = int(coded["stamp"].search_sorted(int(joined.edges[0]), side="left"))
    theirs = (coded["side"][begin:] == side_letter(-direction)).fill_null(False).to_numpy()
    names = ("stamp", "sequence", "action", "price", "order_id", "old_order_id")
    stamps, sequences, actions, prices, ids, old_ids = (coded[name][begin:].to_numpy() for name in names)
    arrives = theirs & ((actions == ADDED) | (actions == REPLACED))
    old = np.where(actions == REPLACED, old_ids, 0)
    moved = (actions[1:] == ADDED) & (actions[:-1] == CANCELLED) & theirs[:-1] & (stamps[1:] == stamps[:-1])
    old[1:][moved] = ids[:-1][moved]

    buckets = np.searchsorted(joined.edges, stamps, side="right") - 1
    meets = arrives & (prices >= joined.prices[buckets]) & (sequences > joined.sequences[buckets])
    traded: dict[int, int] = {}  # orders, and the bucket in which they traded with us
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
    """Price, sequence of joining and size of what each event takes away; orders are numbered from 0.

    ``joined`` has the earliest sequence of each order, which holds for those never added, and is kept up to date.
    """
    price = np.full(len(joined), NOWHERE)
    left = np.zeros(len(joined), dtype=np.int64)
    gone_prices = np.full(len(actions), NOWHERE)
    gone_joined = np.full(len(actions), -1)
    gone_sizes = np.zeros(len(actions), dtype=np.int64)
    for row in range(len(actions)):
        order = orders[row]
        if actions[row] == MET:
            continue
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
def _better_change(events: QueueEvents, row: int, price: int) -> int:
    """Shares that come to prices better than ours in a row, less those that go."""
    change = 0
    if NOWHERE < events.gone_prices[row] < price:
        change -= events.gone_sizes[row]
    if (events.actions[row] == ADDED or events.actions[row] == REPLACED) and NOWHERE < events.prices[row] < price:
        change += events.sizes[row]
    return change


def volume_behind(events: QueueEvents, begin: int, end: int, sequence: int, price: int, ahead: int) -> int:
    """Volume that trades once everything ``ahead`` of us is gone: what an order at our place gets, whatever its size.

    We join the end of the queue at ``price`` right after ``sequence``; rows ``begin`` to ``end`` follow. An execution
    of an order behind us, or at a worse price, would have been ours, and says that nothing is ahead any more. Of an
    order that meets us we get what exceeds the volume ahead, at our price and at better ones. There is none unless the
    recording is crossed, or has lost sight of orders; they stay ahead then, as recorded.
    """
    _check_rows(events, begin, end)
    return int(_volume_behind(events, begin, end, sequence, price, ahead))


@njit(cache=True)
def _volume_behind(events: QueueEvents, begin: int, end: int, sequence: int, price: int, ahead: int) -> int:
    volume, better = 0, 0
    for row in range(begin, end):
        gone_price, size = events.gone_prices[row], events.gone_sizes[row]
        in_front = gone_price == price and events.gone_joined[row] <= sequence
        better = max(better + _better_change(events, row, price), 0)
        if events.actions[row] == MET:
            volume += max(events.sizes[row] - ahead - better, 0)
        elif events.actions[row] != EXECUTED:
            if in_front:
                ahead = max(ahead - size, 0)
        elif in_front:
            taken = min(ahead, size)
            ahead, better = ahead - taken, 0
            volume += size - taken
        elif gone_price >= price:
            ahead, better = 0, 0
            volume += size
    return volume


def pro_rata_volume(
    events: QueueEvents, begin: int, end: int, price: int, others: int, quantities: Integers
) -> Integers:
    """Shares that orders of ``quantities (Q,)`` get of the trades in rows ``begin`` to ``end``, each on its own.

    Executions of one timestamp, at ``price`` or worse, are one trade; so is the remainder of the order that came for
    them and meets us. It is shared in proportion to the sizes shown: ours and that of ``others`` at our price, who are
    followed as the data have them. Fractions of shares are dropped. Better prices are served first, as in
    `volume_behind`.
    """
    _check_rows(events, begin, end)
    check_array("quantities", quantities, np.int64, (None,))
    filled: Integers = _shared_volume(events, begin, end, price, others, quantities)
    return filled


@njit(cache=True)
def _shared_volume(
    events: QueueEvents, begin: int, end: int, price: int, others: int, quantities: Integers
) -> Integers:
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
        if events.actions[row] == MET:
            traded = max(events.sizes[row] - better, 0)
        elif events.actions[row] == EXECUTED and events.gone_prices[row] >= price:
            traded, better = events.gone_sizes[row], 0
        if traded > 0:
            if volume == 0:
                shown, stamp = others, events.stamps[row]
            volume += traded
        if events.gone_prices[row] == price:
            others = max(others - events.gone_sizes[row], 0)
        if (events.actions[row] == ADDED or events.actions[row] == REPLACED) and events.prices[row] == price:
            others += events.sizes[row]
    return filled


def _check_rows(events: QueueEvents, begin: int, end: int) -> None:
    """Refuse events of different lengths, and rows that they do not have."""
    check_array("stamps", events.stamps, np.int64, (None,))
    rows = len(events.stamps)
    for name, values in zip(QueueEvents._fields, events, strict=True):
        check_array(name, values, np.int64, (rows,))
    if not 0 <= begin <= end <= rows:
        raise InputError(f"rows must be within 0 and {rows}, was {begin} to {end}")
