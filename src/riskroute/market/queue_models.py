"""Estimated queue positions: limit orders at venues that publish depth by price and trades, but no order ids.

Depth shows how much a queue shrinks, not which orders left it. Trades take the oldest orders; the rest of a decrease is
cancellations, and a `QueueModel` places them ahead of our order or behind it. If trades and depth are complete, the
true position lies between the estimates of the models ``pessimistic`` and ``optimistic``.

Trades and depth often come from different feeds, whose times are close but not equal. `match_queue_model_trades`
assigns every trade to the snapshots that reflect it, so that no traded share is taken for a cancellation as well.

Literature: E. Rigtorp, "Estimating order queue position" (2013), proposes the probability that a cancellation is ahead
as a function of the shares ahead and behind; the documentation of hftbacktest compares several such functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Stamps
from riskroute.core.validation import one_of, real_number
from riskroute.market.clock import SECOND
from riskroute.market.price_keys import NO_PRICE, price_key

if TYPE_CHECKING:
    from riskroute.market.day_books import DayBooks

QUEUE_MODELS = ("pessimistic", "proportional", "power", "optimistic")
_MATCHED = SECOND // 10  # a trade and the depth that reflects it are at most this far apart in time
_ROUNDING = 1e-9  # shares; expected positions are sums of fractions


@dataclass(frozen=True)
class QueueModel:
    """Model of where in a queue cancellations occur, by ``name``.

    - ``pessimistic``: behind our order, until no shares are left there.
    - ``proportional``: anywhere with equal probability, ``ahead / (ahead + behind)`` ahead of our order.
    - ``power``: ahead with probability ``ahead**exponent / (ahead**exponent + behind**exponent)``.
    - ``optimistic``: ahead of our order, until no shares are left there.
    """

    name: str = "pessimistic"
    exponent: float = 3.0  # the exponent with the least error in benchmarks/queues.py; others differ little

    def __post_init__(self) -> None:
        one_of("name of a queue model", self.name, QUEUE_MODELS)
        real_number("exponent", self.exponent, minimum=0, maximum=100)

    @property
    def power(self) -> float:
        """The exponent, 1 for ``proportional``; NaN for ``pessimistic`` and ``optimistic``, which have none."""
        return {"proportional": 1.0, "power": float(self.exponent)}.get(self.name, float("nan"))

    def __str__(self) -> str:
        return f"power {self.exponent:g}" if self.name == "power" else self.name


DEFAULT_QUEUE_MODEL = QueueModel()  # the least error on recorded queues, see benchmarks/queues.py


class QueueTrades(NamedTuple):
    """Trades with resting orders of one side of a venue, ``(N,)`` each, sorted by ``rows``.

    ``rows`` are the snapshots of `DayBooks` that reflect them, or the end of the venue's rows after the last snapshot.
    A trade that several snapshots reflect is divided. Prices are coded by `price_keys`, increasing as they get worse
    for the counterparty.
    """

    stamps: Stamps
    rows: Integers
    prices: Integers
    sizes: Integers


class QueueSide(NamedTuple):
    """The books of one venue: our side, the other side, and the range of rows; ``direction`` is 1 for our asks."""

    stamps: Stamps
    prices: Matrix
    sizes: Matrix
    other_prices: Matrix
    other_sizes: Matrix
    depth: int  # largest number of levels that the venue displays on our side
    other_depth: int
    first: int
    last: int
    direction: int


def queue_model_side(books: DayBooks, venue: int, direction: int) -> QueueSide:
    """Return the asks (``direction`` 1) or the bids (-1) of a venue as our side, for the functions below."""
    first, last = int(books.offsets[venue]), int(books.offsets[venue + 1])
    asks, bids = (books.ask_px, books.ask_sz), (books.bid_px, books.bid_sz)
    ours, theirs = (asks, bids) if direction > 0 else (bids, asks)
    depth, other_depth = (int((sizes[first:last] > 0).any(axis=0).sum()) for _, sizes in (ours, theirs))
    return QueueSide(books.stamps, *ours, *theirs, depth, other_depth, first, last, direction)


def match_queue_model_trades(
    side: QueueSide, stamps: Stamps, prices: Integers, sizes: Integers, *, apart: int = _MATCHED
) -> QueueTrades:
    """Assign trades to the snapshots that reflect them, price by price and earliest first.

    A trade explains decreases of the size displayed at its price: first those of the next snapshot and of others up to
    ``apart`` nanoseconds later, then those of snapshots up to ``apart`` earlier, latest first. Shares that no decrease
    explains belong to the next snapshot, in which new shares must have replaced them. No decrease is explained twice.
    """
    order = np.lexsort((stamps, prices))
    stamps, prices, sizes = (np.ascontiguousarray(column[order]) for column in (stamps, prices, sizes))
    trades, rows, shares = _matched(side, stamps, prices, sizes, apart)
    found = stamps[trades], rows, prices[trades], shares
    ranked = np.lexsort((found[2], found[0], found[1]))  # by snapshot, then time, then price, best first
    return QueueTrades(*(np.ascontiguousarray(column[ranked]) for column in found))


def queue_model_displayed(side: QueueSide, rows: Integers, prices: Integers) -> Integers:
    """Return the shares displayed at each price in the snapshot before each row; 0 if it does not show the price."""
    return np.asarray(_displayed_before(side, rows, prices))


def follow_queue_model(
    side: QueueSide,
    trades: QueueTrades,
    model: QueueModel,
    row: int,
    begin: int,
    end: int,
    price: int,
    shares: int,
) -> tuple[Integers, Integers, int]:
    """Return times and sizes of the fills of an order before ``end``, and the outflow of its queue.

    The order of ``shares`` joins at time ``begin``, behind the shares displayed at ``price`` in snapshot ``row``. It
    fills by trades at its price beyond the shares ahead, by trades at worse prices, and by orders of the other side
    that appear at its price or through it: they would have traded with it. The expected shares ahead may be
    fractional; fills are whole shares. The outflow counts shares ahead that traded or were cancelled, and shares that
    reached the order.
    """
    one_sided = 1.0 if model.name == "optimistic" else 0.0
    times, sizes, outflow = _followed(side, trades, row, begin, end, price, shares, model.power, one_sided, _MATCHED)
    return times, sizes, outflow


@njit(cache=True)
def _shown(prices: Matrix, sizes: Matrix, row: int, key: int, direction: int, depth: int) -> int:
    """Return the shares displayed at a price in a row; -1 if the price is beyond the levels shown or the side is empty.

    An empty side is unknown because recordings write it where updates are missing.
    """
    for level in range(depth):
        one = price_key(prices[row, level])
        if one == NO_PRICE or sizes[row, level] <= 0:
            return -1 if level == 0 else 0
        if direction * one >= key:
            return int(sizes[row, level]) if direction * one == key else 0
    return -1


@njit(cache=True)
def _displayed_before(side: QueueSide, rows: Integers, prices: Integers) -> Integers:
    shares = np.zeros(len(rows), dtype=np.int64)
    for k in range(len(rows)):
        if rows[k] > side.first:
            shown = _shown(side.prices, side.sizes, rows[k] - 1, prices[k], side.direction, side.depth)
            shares[k] = max(shown, 0)
    return shares


@njit(cache=True)
def _matched(
    side: QueueSide, stamps: Stamps, prices: Integers, sizes: Integers, apart: int
) -> tuple[Integers, Integers, Integers]:
    """Return trade, row and shares of each part of a trade; trades are sorted by price and time."""
    trades, rows, shares = [np.int64(0)][:0], [np.int64(0)][:0], [np.int64(0)][:0]
    explained = np.zeros(side.last - side.first + 1, dtype=np.int64)
    left = sizes.copy()
    nexts = side.first + np.searchsorted(side.stamps[side.first : side.last], stamps)
    first = 0
    while first < len(stamps):
        last, begin = first, len(rows)
        while last < len(stamps) and prices[last] == prices[first]:
            last += 1
        for backward in (False, True):
            for k in range(first, last):
                row = nexts[k] - 1 if backward else max(nexts[k], side.first + 1)
                while left[k] > 0 and side.first < row < side.last:
                    gap = stamps[k] - side.stamps[row] if backward else side.stamps[row] - stamps[k]
                    if gap > apart and row != nexts[k]:
                        break
                    before = _shown(side.prices, side.sizes, row - 1, prices[k], side.direction, side.depth)
                    after = _shown(side.prices, side.sizes, row, prices[k], side.direction, side.depth)
                    fall = before - after - explained[row - side.first] if after >= 0 else 0
                    if fall > 0:
                        some = min(fall, left[k])
                        trades.append(np.int64(k))
                        rows.append(np.int64(row))
                        shares.append(np.int64(some))
                        explained[row - side.first] += some
                        left[k] -= some
                    row += -1 if backward else 1
        for k in range(begin, len(rows)):
            explained[rows[k] - side.first] = 0
        for k in range(first, last):
            if left[k] > 0:
                trades.append(np.int64(k))
                rows.append(np.int64(nexts[k]))
                shares.append(np.int64(left[k]))
        first = last
    return np.array(trades, dtype=np.int64), np.array(rows, dtype=np.int64), np.array(shares, dtype=np.int64)


@njit(cache=True)
def _ahead_after(ahead: float, behind: float, cancelled: float, power: float, one_sided: float) -> float:
    """Return the expected shares ahead after cancellations of ``cancelled`` out of ``ahead + behind`` shares."""
    if np.isnan(power):
        some = one_sided * cancelled
    elif ahead <= 0 or behind <= 0:
        some = cancelled
    else:
        some = cancelled / (1.0 + (behind / ahead) ** power)
    # no more can leave from either part than is there
    return max(ahead - max(some, cancelled - behind), 0.0)


@njit(cache=True)
def _arrived(side: QueueSide, row: int, price: int) -> int:
    """Return the shares of the other side that a row adds at our price or through it, beyond those our side displays.

    Levels that the previous row could not show are not counted: they may have been there before.
    """
    came = 0
    for level in range(side.other_depth):
        one = price_key(side.other_prices[row, level])
        if one == NO_PRICE or side.other_sizes[row, level] <= 0 or side.direction * one < price:
            break
        there = -side.direction * one
        before = _shown(side.other_prices, side.other_sizes, row - 1, there, -side.direction, side.other_depth)
        if before >= 0:
            came += max(int(side.other_sizes[row, level]) - before, 0)
    if came == 0:
        return 0
    for level in range(side.depth):  # a crossed book: displayed orders at our price or better come first
        one = price_key(side.prices[row, level])
        if one == NO_PRICE or side.sizes[row, level] <= 0 or side.direction * one > price:
            break
        came -= int(side.sizes[row, level])
    return max(came, 0)


@njit(cache=True)
def _followed(
    side: QueueSide,
    trades: QueueTrades,
    joined: int,
    begin: int,
    end: int,
    price: int,
    shares: int,
    power: float,
    one_sided: float,
    apart: int,
) -> tuple[Integers, Integers, int]:
    stamps = side.stamps[side.first : side.last]
    over = max(side.first + int(np.searchsorted(stamps, end)), joined + 1)  # first row at or after ``end``
    # Rows after the end may reflect trades before it.
    stop = min(max(side.first + int(np.searchsorted(stamps, end + apart + 1)) - 1, over), side.last)
    k, most = int(np.searchsorted(trades.rows, joined + 1)), int(np.searchsorted(trades.rows, stop + 1))
    times, volumes = np.zeros(most - k + over - joined, dtype=np.int64), np.zeros(most - k + over - joined)
    count, reached, traded = 0, 0.0, 0
    shown = _shown(side.prices, side.sizes, joined, price, side.direction, side.depth)
    before, ahead = shown, float(shown)
    for row in range(joined + 1, stop + 1):
        while k < most and trades.rows[k] == row:
            when, size, volume = trades.stamps[k], trades.sizes[k], 0.0
            if trades.prices[k] == price and (row < over or when < end):
                volume, ahead = max(size - ahead, 0.0), max(ahead - size, 0.0)
                traded += size
            elif trades.prices[k] > price and begin <= when < end:
                volume, ahead = float(size), 0.0  # at a worse price: everybody ahead of us was served
            if volume > 0 and begin <= when < end:
                times[count], volumes[count] = when, volume
                count, reached = count + 1, reached + volume
            k += 1
        if row < over:
            now = _shown(side.prices, side.sizes, row, price, side.direction, side.depth)
            if now >= 0:
                left = max(shown - traded, 0)
                if now < left:
                    ahead = _ahead_after(ahead, left - ahead, float(left - now), power, one_sided)
                ahead, shown, traded = min(ahead, float(now)), now, 0
            came = _arrived(side, row, price)
            if came > 0:
                times[count], volumes[count] = side.stamps[row], float(came)
                count, reached, ahead = count + 1, reached + came, 0.0
        if reached >= shares:
            break
    filled = _whole_fills(times[:count], volumes[:count], shares)
    return filled[0], filled[1], int(np.floor(before - ahead + reached + _ROUNDING))


@njit(cache=True)
def _whole_fills(times: Integers, volumes: Floats, shares: int) -> tuple[Integers, Integers]:
    """Return times and whole shares of an order's fills by ``volumes``; a fraction is carried to the next fill."""
    when, sizes = np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=np.int64)
    count, filled, reached = 0, 0, 0.0
    for k in range(len(times)):
        reached += volumes[k]
        some = min(int(np.floor(reached + _ROUNDING)), shares) - filled
        if some <= 0:
            continue
        # Trades are in the order of the snapshots that reflect them, and their times may differ a little from it.
        now = max(times[k], when[count - 1]) if count > 0 else times[k]
        if count == 0 or now > when[count - 1]:
            count += 1
        when[count - 1] = now
        sizes[count - 1] += some
        filled += some
    return when[:count], sizes[:count]
