"""The clairvoyant: a lower bound on the cost of an order under perfect foresight.

It knows hidden shares, future arrivals, queues and books, and takes the cheapest shares that any plan could get by the
deadline. Where alternatives exclude each other, such as two times to post, it takes the cheaper one share by share. No
plan can cost less; the backtest checks this for every order (`check_played_bound`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Stamps
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context, ContextPool
from riskroute.routers.execution import REFILL
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.routing.fees import fee_at
from riskroute.simulation.exchange import BEYOND, HIDDEN_WINDOW, Exchange, ExchangeExecution, ExchangeFill


class _Offer(NamedTuple):
    """Shares available at a price, and the cost of each against the arrival mid, fees included."""

    cost: float
    shares: int
    fill: ExchangeFill


class _Times(NamedTuple):
    """Times at which plans can act, UTC nanoseconds: pings of pools, arrivals of takes or posts, end and deadline."""

    tries: list[int]
    again: list[int]
    end: int
    deadline: int


class _Levels(NamedTuple):
    """Book levels over time: venue, price, size, first and last second visible, and first time."""

    venues: Integers
    prices: Floats
    sizes: Integers
    starts: Integers
    stops: Integers
    times: Stamps


class Clairvoyant(Router):
    """Take the cheapest shares offered until the deadline.

    A snapshot offers its shares at a price once, and all snapshots of a second together offer no more than the largest
    of them: shares taken do not reappear in the same snapshot or within a second. Minimum fees per order are not
    charged, and a maximum fee is divided by the size of the order.
    """

    name: ClassVar[str] = "clairvoyant"
    feedback: ClassVar[str] = "F4"

    def decide(self, context: Context) -> Plan:
        return Plan(context.order)

    def execute(self, exchange: Exchange, number: int, context: Context) -> ExchangeExecution:
        """Return the fills of order ``number``, computed from the exchange's full record."""
        times = _times(exchange, context)
        offers = _displayed(exchange, number, context, times)
        offers += _posted(exchange, context, times)
        offers += _dark(exchange, number, context, times)
        offers.sort(key=lambda offer: offer.cost)
        beyond, book, when = _estimated(exchange, number, context, times, offers)
        done, left = ExchangeExecution(context), context.shares - beyond
        for offer in offers:
            if left == 0:
                break
            taken = min(left, offer.shares)
            _fill(done, offer.fill._replace(child=len(done.children), shares=taken))
            left -= taken
        if beyond:
            fill = ExchangeFill(len(done.children), "sweep", BEYOND, when, beyond, *book.beyond(beyond), estimated=True)
            _fill(done, fill)
        return done


def _times(exchange: Exchange, context: Context) -> _Times:
    lit, dark = (int(seconds * SECOND) for seconds in (exchange.latency.lit, exchange.latency.dark))
    tries = [context.time + pools * dark for pools in range(len(context.pools) + 1)]
    again = sorted({start + ways * lit for start in tries for ways in (1, 2)})
    end = context.time + int(context.horizon * SECOND)
    return _Times(tries, again, end, max(end, again[-1]))


def _fill(done: ExchangeExecution, fill: ExchangeFill) -> None:
    done.fills.append(fill)
    fee = fill.fee * fill.shares
    done.children.append(
        ChildReport(
            *(fill.child, fill.kind, fill.place, fill.shares, fill.shares, fill.price, fee, fill.time),
            *(fill.time, fill.time),
        )
    )


def _offer(context: Context, fill: ExchangeFill) -> _Offer:
    return _Offer(context.sign * (fill.price - context.mid) + fill.fee, fill.shares, fill)


def _least_fee(context: Context, venue: int, price: float, *, maker: bool = False) -> float:
    """Return a lower bound on the fee per quantity of 1: a maximum fee may be spread over the whole order."""
    books = context.books
    fee = float(fee_at((books.makers if maker else books.takers)[venue], price))
    return min(fee, float(books.fee_limits[venue, 2 * maker + 1]) / context.shares)


def _cheapest(alternatives: Sequence[list[_Offer]]) -> list[_Offer]:
    """Return offers whose k-th cheapest share costs at most the k-th cheapest of any alternative, for every k."""
    best: list[_Offer] = []
    for one in alternatives:
        mine, other = sorted(one, key=lambda offer: offer.cost), best
        if not (mine and other):
            best = mine or other
            continue
        best, i, j, left, right = [], 0, 0, mine[0].shares, other[0].shares
        while i < len(mine) or j < len(other):
            theirs = i == len(mine) or (j < len(other) and other[j].cost < mine[i].cost)
            chosen = other[j] if theirs else mine[i]
            step = min(shares for shares, there in ((left, i < len(mine)), (right, j < len(other))) if there)
            best.append(chosen._replace(shares=step))
            left, right = left - step, right - step
            if i < len(mine) and left == 0:
                i += 1
                left = mine[i].shares if i < len(mine) else 0
            if j < len(other) and right == 0:
                j += 1
                right = other[j].shares if j < len(other) else 0
    return best


def _displayed(exchange: Exchange, number: int, context: Context, times: _Times) -> list[_Offer]:
    """Return the shares displayed between the first arrival of a child and the deadline, hidden shares included."""
    books, begin = exchange.books, times.again[0]
    faded = np.ones(len(books.venues)) if exchange.faded is None else exchange.faded[number]
    levels = _visible(books, context.sign, faded, begin, times.deadline, context.shares)
    venues, at, shares, stamps = _on_offer(levels)
    queue, names = exchange.queue, books.venues
    offers = []
    for venue, price, size, time in zip(venues.tolist(), at.tolist(), shares.tolist(), stamps.tolist(), strict=True):
        hidden = queue.most_hidden(venue, price, begin, times.deadline, HIDDEN_WINDOW) if queue else 0
        fee = _least_fee(context, venue, price)
        offers.append(_offer(context, ExchangeFill(0, "take", names[venue], time, size + hidden, price, fee)))
    return offers


def _posted(exchange: Exchange, context: Context, times: _Times) -> list[_Offer]:
    """Return the fills of limit orders at every venue, posted at the best time."""
    offers: list[_Offer] = []
    if (queue := exchange.queue) is None:
        return offers
    begins = [begin for begin in times.again if begin < times.end]
    rows = [exchange.books.as_of(begin).rows.tolist() for begin in begins]
    for venue, name in enumerate(exchange.books.venues):
        alternatives = []
        joined = {row[venue]: begin for row, begin in zip(rows[::-1], begins[::-1], strict=True)}
        for begin in joined.values():  # among orders that join on the same snapshot, the earliest fills first and most
            price, fills = queue.fills(venue, context.sign, begin, times.end, context.shares)
            fee = _least_fee(context, venue, price, maker=True)
            alternatives.append(
                [_offer(context, ExchangeFill(0, "limit", name, time, shares, price, fee)) for time, shares in fills]
            )
        offers += _cheapest(alternatives)
    return offers


def _dark(exchange: Exchange, number: int, context: Context, times: _Times) -> list[_Offer]:
    """Return the shares resting in pools and arriving there, with or without a recent fill, whichever is better."""
    dark, offers = exchange.dark, []
    if dark is None:
        return []
    for pool in context.pools:
        held = {dark.hidden(number, pool.name, recent=recent) for recent in (False, True)} - {0}
        tries = [
            [_at_mid(exchange, context, pool, "dark", start, size)]
            for start in times.tries[:-1]
            for size in sorted(held)
        ]
        offers += _cheapest(tries)
        came = [dark.arrivals(number, pool.name, context.horizon, recent=recent) for recent in (False, True)]
        offers += _cheapest(
            [
                [
                    _at_mid(exchange, context, pool, "dark_rest", context.time + int(seconds * SECOND), size)
                    for seconds, size in some
                ]
                for some in (came if came[0] != came[1] else came[:1])
            ]
        )
    return offers


def _at_mid(exchange: Exchange, context: Context, pool: ContextPool, kind: str, time: int, size: int) -> _Offer:
    mid, half = exchange.mid_and_half_spread(time, context)
    price = mid - context.sign * pool.improvement * half
    return _offer(context, ExchangeFill(0, kind, pool.name, time, size, price, pool.fee))


def _estimated(
    exchange: Exchange, number: int, context: Context, times: _Times, offers: Sequence[_Offer]
) -> tuple[int, ConsolidatedBook, int]:
    """Return the shares to price beyond the recorded depth, and the book and time that price them."""
    shares = np.concatenate(([0], np.cumsum([offer.shares for offer in offers]))).astype(np.float64)
    costs = np.concatenate(([0.0], np.cumsum([offer.shares * offer.cost for offer in offers])))
    size, least = context.shares, max(context.shares - int(shares[-1]), 0)
    candidates = []
    for when in sorted({max(times.end, time) for time in times.again}):
        book = exchange.last_book(number, context, when)

        def cost(beyond: int, book: ConsolidatedBook = book) -> float:
            return float(np.interp(size - beyond, shares, costs)) + (book.beyond_cost(beyond))

        low, high = least, size  # the cost is convex in the shares beyond: bisect for its minimum
        if low < high and cost(low + 1) >= cost(low):
            high = low
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if cost(middle + 1) < cost(middle) else (low, middle)
        candidates.append((cost(low), low, book, when))
    return min(candidates, key=lambda one: one[0])[1:]


def _visible(books: DayBooks, sign: int, faded: Floats, begin: int, end: int, wanted: int) -> _Levels:
    """Return the levels visible between two times, by venue and time, down to ``wanted`` shares of depth."""
    prices, sizes = (books.ask_px, books.ask_sz) if sign > 0 else (books.bid_px, books.bid_sz)
    spans = []
    for first, last in itertools.pairwise(books.offsets.tolist()):
        seen, stop = np.searchsorted(books.stamps[first:last], (begin, end), side="right")
        spans.append((first + max(int(seen) - 1, 0), first + int(stop), last))
    return _visible_levels(np.array(spans), books.stamps, prices, sizes, faded, books.oldest, begin, end, wanted)


@njit(cache=True)
def _visible_levels(
    spans: Integers,
    stamps: Stamps,
    prices: Matrix,
    sizes: Matrix,
    faded: Floats,
    oldest: int,
    begin: int,
    end: int,
    wanted: int,
) -> _Levels:
    """Return the levels of `_visible`; ``spans (V, 3)``: first visible row, end of visible rows, end of all rows."""
    count = 0
    for v in range(len(spans)):
        count += max(spans[v, 1] - spans[v, 0], 0)
    most = count * prices.shape[1]
    venues, at, shares = np.empty(most, dtype=np.int64), np.empty(most), np.empty(most, dtype=np.int64)
    starts, stops = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    times = np.empty(most, dtype=np.int64)
    count = 0
    for v in range(len(spans)):
        for row in range(spans[v, 0], spans[v, 1]):
            until = min(stamps[row] + oldest, end)
            if row + 1 < spans[v, 2]:
                until = min(until, stamps[row + 1] - 1)
            since = max(stamps[row], begin)
            if until < since:
                continue
            total = 0
            for level in range(prices.shape[1]):
                there = int(sizes[row, level] * faded[v])
                if there < 1 or np.isnan(prices[row, level]):
                    continue
                venues[count], at[count], shares[count], times[count] = v, prices[row, level], there, since
                starts[count], stops[count] = (since - begin) // REFILL, (until - begin) // REFILL
                count += 1
                total += there
                if total >= wanted:
                    break
    return _Levels(venues[:count], at[:count], shares[:count], starts[:count], stops[:count], times[:count])


def _on_offer(levels: _Levels) -> tuple[Integers, Floats, Integers, Stamps]:
    """Return venue, price, total shares offered and first time, one entry per venue and price."""
    order = np.lexsort((levels.prices, levels.venues))  # stable: keeps the order of time at each venue and price
    return _capacities(_Levels._make(column[order] for column in levels))


@njit(cache=True)
def _capacities(levels: _Levels) -> tuple[Integers, Floats, Integers, Stamps]:
    """Compute the entries of `_on_offer`; levels of one venue and price are contiguous and sorted by time."""
    venues, prices, sizes, starts, stops, times = levels
    groups = 0
    for k in range(len(venues)):
        if k == 0 or venues[k] != venues[k - 1] or prices[k] != prices[k - 1]:
            groups += 1
    found_venues, found_prices = np.empty(groups, dtype=np.int64), np.empty(groups)
    found_sizes, found_times = np.zeros(groups, dtype=np.int64), np.empty(groups, dtype=np.int64)
    room = np.zeros(stops.max() + 1 if len(stops) else 0, dtype=np.int64)
    group, k = -1, 0
    while k < len(venues):
        group += 1
        last = k
        while last < len(venues) and venues[last] == venues[k] and prices[last] == prices[k]:
            for second in range(starts[last], stops[last] + 1):
                room[second] = max(room[second], sizes[last])
            last += 1
        found_venues[group], found_prices[group], found_times[group] = venues[k], prices[k], times[k]
        # sizes and seconds are ordered in time: filling the earliest second first gives the maximum flow
        for one in range(k, last):
            left = sizes[one]
            for second in range(starts[one], stops[one] + 1):
                taken = min(left, room[second])
                room[second] -= taken
                left -= taken
                found_sizes[group] += taken
        for one in range(k, last):
            for second in range(starts[one], stops[one] + 1):
                room[second] = 0
        k = last
    return found_venues, found_prices, found_sizes, found_times
