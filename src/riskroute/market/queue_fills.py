"""Limit orders that join a queue at any moment: when, and how much of them, trades until they are taken back.

The place in the queue is followed as in `riskroute.market.queue_position`, which does it for one order per bucket; here
every order has a time of its own, and tells when it was filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Flags, Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import one_of
from riskroute.market.clock import SECOND
from riskroute.market.order_profits import RULES
from riskroute.market.queue_position import (
    ADDED,
    CANCELLED,
    EXECUTED,
    NOWHERE,
    PRICE_UNITS,
    REPLACED,
    QueueEvents,
    arrival_ids,
    coded_events,
    look_up_orders,
    price_keys,
    side_letter,
)

if TYPE_CHECKING:
    from riskroute.market.day_books import DayBooks

# Trades that everybody sees, each with the shares that were displayed at its price before: what was hidden shows.


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
    coded = coded_events(events, 1, 2**62).filter((polars.col("order_id") == 0) & (polars.col("action") == EXECUTED))
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


OPPOSITE = 5
"""What an order of the other side does that arrives: it may meet us."""

_END = 2**62


def code_day_events(events: polars.DataFrame, direction: int) -> QueueEvents:
    """Code the events of a day for limit orders to sell (``direction`` 1) or to buy (-1).

    Arrivals on the other side stand among them as `OPPOSITE`; one that replaces an order has its old price, and the
    sequence at which that one had come.
    """
    coded = coded_events(events, direction, _END).filter(polars.col("order_id") > 0)
    ours = (coded["side"] == side_letter(direction)).fill_null(False).to_numpy()
    names = ("stamp", "sequence", "action", "price", "size")
    stamps, sequences, actions, prices, sizes = (coded[name].cast(polars.Int64).to_numpy().copy() for name in names)
    gone = [np.full(len(stamps), NOWHERE), np.full(len(stamps), -1), np.zeros(len(stamps), dtype=np.int64)]
    arrivals = arrival_ids(coded)
    for mine in (ours, ~ours):
        rows = np.flatnonzero(mine)
        if len(rows):
            found = look_up_orders(coded[rows], sequences[rows], actions[rows], prices[rows], sizes[rows], arrivals)
            for column, values in zip(gone, found, strict=True):
                column[rows] = values
    theirs = ~ours
    moved = (
        theirs[1:] & theirs[:-1] & (actions[1:] == ADDED) & (actions[:-1] == CANCELLED) & (stamps[1:] == stamps[:-1])
    )
    for column in gone[:2]:
        column[1:][moved] = column[:-1][moved]  # a cancel and an add at the same time are a replacement
    arrives = theirs & ((actions == ADDED) | (actions == REPLACED))
    actions[arrives] = OPPOSITE
    keep = ours | arrives
    columns = (stamps, sequences, actions, prices, sizes, *gone)
    return QueueEvents(*(np.ascontiguousarray(column[keep]) for column in columns))


class QueueDrain(NamedTuple):
    """What happened to a queue that an order could have joined.

    ``price`` is that of the queue, not a number where there is none to join. ``ahead`` shares were displayed there, and
    ``outflow`` shares were gone until the end: those ahead that traded or were cancelled, and what traded beyond them.
    An order of ``n`` shares behind them fills the part of the outflow between ``ahead`` and ``ahead + n``.
    """

    price: float
    ahead: int
    outflow: int


class QueueReplay:
    """Limit orders on the recorded queues of a day.

    Parameters
    ----------
    books : DayBooks
        Snapshots of the venues.
    events : Mapping[str, polars.DataFrame]
        Events by venue; a venue without any takes no limit orders.
    matching : Mapping[str, str]
        ``price-time`` or ``pro-rata`` by venue; the first if a venue is not named.
    """

    def __init__(
        self, books: DayBooks, events: Mapping[str, polars.DataFrame], matching: Mapping[str, str] | None = None
    ) -> None:
        for name in events:
            one_of("venue of events", name, books.venues)
        rules = dict(matching or {})
        for name, rule in rules.items():
            one_of(f"matching of {name}", rule, RULES)
        self.books = books
        self._traded: dict[tuple[int, int], Integers] = {}
        self.pro_rata = [rules.get(name) == "pro-rata" for name in books.venues]
        self._trades: dict[tuple[int, int], PublicTrades] = {}
        self.hidden = {venue: hidden_trades(events[name]) for venue, name in enumerate(books.venues) if name in events}
        self.flows = {
            (venue, sign): code_day_events(events[name], -sign)
            for venue, name in enumerate(books.venues)
            if name in events
            for sign in (1, -1)
        }

    @classmethod
    def of_flows(
        cls,
        books: DayBooks,
        flows: Mapping[tuple[int, int], QueueEvents],
        pro_rata: Sequence[bool],
        hidden: Mapping[int, Integers] | None = None,
    ) -> Self:
        """Put together what was coded before: flows by number of the venue and sign of our orders, hidden trades."""
        replay = cls(books, {})
        replay.flows, replay.pro_rata, replay.hidden = dict(flows), list(pro_rata), dict(hidden or {})
        return replay

    def on_books(self, books: DayBooks) -> Self:
        """Return the same queues, which orders join by other books of the same snapshots, such as `DayBooks.aged`."""
        return self.of_flows(books, self.flows, self.pro_rata, self.hidden)

    def pessimistic(self) -> Self:
        """Return the same queues, in which nobody who cancels makes room: only trades bring an order forward."""
        kept = {
            key: flow._replace(gone_sizes=np.where(np.isin(flow.actions, (CANCELLED, REPLACED)), 0, flow.gone_sizes))
            for key, flow in self.flows.items()
        }
        return self.of_flows(self.books, kept, self.pro_rata, self.hidden)

    def volume(self, begin: int, end: int) -> int:
        """Shares that traded with displayed orders of all venues between two times."""
        return sum(self._traded_between(key, begin, end) for key in self.flows)

    def outflow(self, venue: int, sign: int, time: int, seconds: int) -> float:
        """Return the shares per second that traded with orders of our side in some seconds before a time."""
        if (venue, sign) not in self.flows:
            return 0.0
        return self._traded_between((venue, sign), time - seconds * SECOND, time) / seconds

    def trades(self, venue: int, sign: int, begin: int, end: int) -> list[tuple[int, int]]:
        """Shares of the trades on the side that an order takes from, and the shares displayed before each."""
        key = venue, sign
        if key not in self._trades:
            flow = self.flows.get((venue, -sign))
            self._trades[key] = public_trades(self.books, venue, sign, flow, self.hidden.get(venue))
        return self._trades[key].between(begin, end)

    def hidden_volume(self, venue: int, price: float, begin: int, end: int) -> int:
        """Shares of orders never displayed that traded at a price, from one time to before another."""
        if venue not in self.hidden:
            return 0
        stamps, _, prices, sizes = self.hidden[venue]
        some = slice(*np.searchsorted(stamps, (begin, end)))
        return int(sizes[some][prices[some] == round(price * PRICE_UNITS)].sum())

    def most_hidden(self, venue: int, price: float, begin: int, end: int, window: int) -> int:
        """Largest `hidden_volume` of a window of so many nanoseconds that starts between two times."""
        if venue not in self.hidden:
            return 0
        stamps, _, prices, sizes = self.hidden[venue]
        some = slice(*np.searchsorted(stamps, (begin, end + window)))
        at = prices[some] == round(price * PRICE_UNITS)
        times, shares = stamps[some][at], np.concatenate(([0], np.cumsum(sizes[some][at])))
        starts = np.minimum(times, end)  # a window gains nothing by starting between two trades
        firsts, lasts = np.searchsorted(times, starts), np.searchsorted(times, starts + window)
        return int((shares[lasts] - shares[firsts]).max(initial=0))

    def _traded_between(self, key: tuple[int, int], begin: int, end: int) -> int:
        flow = self.flows[key]
        if key not in self._traded:
            traded = np.where(flow.actions == EXECUTED, flow.gone_sizes, 0)
            self._traded[key] = np.concatenate(([0], np.cumsum(traded)))
        first, last = np.searchsorted(flow.stamps, (begin, end))
        return int(self._traded[key][last] - self._traded[key][first])

    def fills(self, venue: int, sign: int, begin: int, end: int, shares: int) -> tuple[float, list[tuple[int, int]]]:
        """Return the price of an order that joins as of ``begin``, and its fills before ``end``: times and shares.

        It joins the back of the queue at the best price of its own side: bids for a purchase (``sign`` 1). The price is
        not a number where there is none, or where the venue has no events.
        """
        if shares < 0:
            raise InputError(f"shares must not be negative, was {shares}")
        joined = self._joined(venue, sign, begin, end)
        if joined is None:
            return float("nan"), []
        flow, price, rows, sequence, whole, shown = joined
        times, some = _fills(flow, *rows, sequence, whole, shown, shares, self.pro_rata[venue])
        return price, list(zip(times.tolist(), some.tolist(), strict=True))

    def drain(self, venue: int, sign: int, begin: int, end: int) -> QueueDrain:
        """Return how much left the queue that an order joins as of ``begin``, before ``end``, reached or not.

        A venue that shares by size is followed as if it served who came first, which is on the safe side.
        """
        joined = self._joined(venue, sign, begin, end)
        if joined is None:
            return QueueDrain(float("nan"), 0, 0)
        flow, price, rows, sequence, whole, shown = joined
        return QueueDrain(price, shown, int(_outflow(flow, *rows, sequence, whole, shown)))

    def _joined(
        self, venue: int, sign: int, begin: int, end: int
    ) -> tuple[QueueEvents, float, tuple[int, int], int, int, int] | None:
        """The flow of a queue, its price, rows between two times, sequence of joining, whole price and shares shown."""
        flow = self.flows.get((venue, sign))
        now = self.books.as_of(begin)
        prices, sizes = (now.bid_px, now.bid_sz) if sign > 0 else (now.ask_px, now.ask_sz)
        price = float(prices[venue, 0])
        if flow is None or not np.isfinite(price) or sizes[venue, 0] <= 0:
            return None
        sequence = int(self.books.sequences[now.rows[venue]])
        first = int(np.searchsorted(flow.sequences, sequence, side="right"))
        last = max(first, int(np.searchsorted(flow.stamps, end)))
        whole = int(price_keys(np.array([price]), -sign)[0])
        return flow, price, (first, last), sequence, whole, int(sizes[venue, 0])


@njit(cache=True)
def _fills(
    flow: QueueEvents, begin: int, end: int, sequence: int, price: int, shown: int, shares: int, pro_rata: bool
) -> tuple[Integers, Integers]:
    """Fills of one order; those of price-time priority and those of sharing by size."""
    most = min(end - begin + 1, shares)
    times, sizes = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    count, left, ahead, better = 0, shares, shown, 0
    pending, others, stamp = 0, 0, np.int64(0)  # a trade that is shared: all executions of one time
    for row in range(begin, end + 1):
        mine = 0
        if pro_rata and pending > 0 and (row == end or flow.stamps[row] != stamp):
            mine = min(pending, others + left) * left // (others + left)
            pending = 0
        when = stamp
        if row < end and not (pro_rata and mine > 0 and mine >= left):
            volume, better = _reaches_us(flow, row, sequence, price, 0 if pro_rata else ahead, better)
            if pro_rata and volume > 0:
                if pending == 0:
                    others, stamp = ahead, flow.stamps[row]
                pending += volume
            elif volume > 0:
                mine, when = min(volume, left), flow.stamps[row]
            ahead = _ahead_after(flow, row, sequence, price, ahead, pro_rata)
        if mine > 0:
            if count > 0 and times[count - 1] == when:
                sizes[count - 1] += mine
            else:
                times[count], sizes[count] = when, mine
                count += 1
            left -= mine
        if left == 0:
            break
    return times[:count], sizes[:count]


@njit(cache=True)
def _met_before(flow: QueueEvents, row: int, sequence: int, price: int) -> bool:
    """Whether the order that an arrival replaces, or one before it, came to our price after us: it traded with us."""
    while flow.gone_joined[row] > sequence:
        if flow.gone_prices[row] >= price:
            return True
        earlier = np.searchsorted(flow.sequences, flow.gone_joined[row])
        if earlier >= row:
            break
        row = earlier
    return False


@njit(cache=True)
def _reaches_us(flow: QueueEvents, row: int, sequence: int, price: int, ahead: int, better: int) -> tuple[int, int]:
    """Volume of a row that is for us, after what is ``ahead`` and at ``better`` prices; and what is at those then."""
    action, gone_price, gone = flow.actions[row], flow.gone_prices[row], flow.gone_sizes[row]
    if action == OPPOSITE:
        if flow.prices[row] < price or _met_before(flow, row, sequence, price):
            return 0, better
        return max(flow.sizes[row] - ahead - better, 0), better
    if NOWHERE < gone_price < price:
        better = max(better - gone, 0)
    if action in (ADDED, REPLACED) and NOWHERE < flow.prices[row] < price:
        better += flow.sizes[row]
    if action != EXECUTED or gone_price < price:
        return 0, better
    if gone_price == price and flow.gone_joined[row] <= sequence:
        return gone - min(ahead, gone), 0
    return gone, 0


@njit(cache=True)
def _ahead_after(flow: QueueEvents, row: int, sequence: int, price: int, ahead: int, pro_rata: bool) -> int:
    """Shares before us after a row; with sharing by size, all others at our price."""
    action, gone_price = flow.actions[row], flow.gone_prices[row]
    if action == OPPOSITE:
        return ahead
    if gone_price == price and (pro_rata or flow.gone_joined[row] <= sequence):
        ahead = max(ahead - flow.gone_sizes[row], 0)
    elif not pro_rata and action == EXECUTED and gone_price >= price:
        ahead = 0
    if pro_rata and action in (ADDED, REPLACED) and flow.prices[row] == price:
        ahead += flow.sizes[row]
    return ahead


@njit(cache=True)
def _outflow(flow: QueueEvents, begin: int, end: int, sequence: int, price: int, shown: int) -> int:
    """Shares ahead of an order that went, and those that it would have got, whatever its size."""
    ahead, better, reached = shown, 0, 0
    for row in range(begin, end):
        volume, better = _reaches_us(flow, row, sequence, price, ahead, better)
        reached += volume
        ahead = _ahead_after(flow, row, sequence, price, ahead, False)
    return shown - ahead + reached
