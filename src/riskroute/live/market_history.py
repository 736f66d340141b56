"""Market history: recent books and trades of the feed, and the public outcomes inferred from them.

Routers of class F3 learn from public data: the outflow of the queues that an order could have joined, and the market
at its deadline. A backtest reads both from recorded events; here they are inferred from books and trades:

- Shares that traded at the price of the queue, or at a worse price, have left the queue.
- Other shares that are missing from the displayed size were cancelled. Shares that joined later hide cancellations, so
  an outflow may be too small, never too large.

A queue is known only if the feed has all trades of the symbol from before the order's arrival until its deadline.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from riskroute.core.arrays import Floats
from riskroute.live.children import context_of
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import MarketObservedEvent
from riskroute.live.state.orders import ParentOrder
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.routers.context import Context, ContextBooks
from riskroute.routers.execution import OUTFLOW_SECONDS
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.routing.fees import fee_at

_Dated = TypeVar("_Dated", VenueQuote, MarketTrade)
_time = attrgetter("at")


class _History(Generic[_Dated]):
    """The newest quotes or trades by time, at least ``most``; up to the time ``lost``, some are missing."""

    def __init__(self, most: int) -> None:
        self.most, self.lost = most, 0
        self.items: list[_Dated] = []

    def add(self, item: _Dated) -> None:
        """Add an item; drop the oldest ``most`` items once there are twice as many."""
        insort(self.items, item, key=_time)
        if len(self.items) >= 2 * self.most:
            self.lost = self.items[self.most - 1].at
            del self.items[: self.most]

    def between(self, after: int, end: int) -> list[_Dated]:
        """Return the items with times above ``after``, up to ``end``."""
        return self.items[bisect_right(self.items, after, key=_time) : bisect_right(self.items, end, key=_time)]


class ObservedHistory(NamedTuple):
    """Price, shares ahead and outflow of queues by venue, and the books at a deadline; empty where unknown."""

    queues: dict[str, tuple[int, int, int]]
    closing: tuple[VenueQuote, ...]


class MarketHistory:
    """The newest book of every venue, and recent books and trades; any thread may read and write.

    With ``keep``, all recent books are kept, for orders that are posted after their execution; otherwise those between
    `expect` and `seen` of an order. Books older than ``stale`` nanoseconds do not represent the market at a deadline.

    Examples
    --------
    >>> history = MarketHistory()
    >>> history.put("DEMO", [VenueQuote(venue="NYSE", at=5), VenueQuote(venue="NYSE", at=3)])
    >>> [quote.at for quote in history("DEMO")]
    [5]
    """

    most_quotes, most_trades = 2_000, 10_000  # least number of books and trades kept per symbol and venue

    def __init__(self, *, keep: bool = False, stale: int = 60 * NANO) -> None:
        self.keep, self.stale = keep, stale
        self._lock = threading.RLock()
        self._books: dict[str, dict[str, VenueQuote]] = {}
        self.newest: dict[str, int] = {}  # by venue, time of its newest book
        self._expected: Counter[str] = Counter()  # by symbol, number of orders between `expect` and `seen`
        self._quotes: dict[tuple[str, str], _History[VenueQuote]] = defaultdict(lambda: _History(self.most_quotes))
        self._trades: dict[tuple[str, str], _History[MarketTrade]] = defaultdict(lambda: _History(self.most_trades))
        self._since: dict[str, int] = {}  # by symbol, the time from which the feed has all trades
        self._unreported: dict[str, list[MarketTrade]] = {}  # by symbol, trades that no `MarketObservedEvent` has yet

    def put(self, symbol: str, quotes: Iterable[VenueQuote]) -> None:
        """Replace the books of a symbol that are not newer than the given ones."""
        with self._lock:
            books = dict(self._books.get(symbol, {}))
            kept = self.keep or self._expected[symbol]
            for quote in quotes:
                if quote.venue not in books or quote.at >= books[quote.venue].at:
                    books[quote.venue] = quote
                if quote.at > self.newest.get(quote.venue, 0):
                    self.newest[quote.venue] = quote.at
                if kept:
                    self._quotes[symbol, quote.venue].add(quote)
            self._books[symbol] = books

    def drop(self, venue: str, symbol: str | None, at: int) -> list[str]:
        """Forget a venue's book of ``symbol`` (None: all its books) after a gap; return the symbols of these books.

        Trades may be missing too, so queues are unknown until orders that arrive after ``at``.
        """
        with self._lock:
            held = [symbol] if symbol is not None else list(self._books)
            gone = [one for one in held if venue in self._books.get(one, ())]
            for one in gone:
                self._books[one] = {name: quote for name, quote in self._books[one].items() if name != venue}
                self._quotes[one, venue].lost = self._trades[one, venue].lost = at
            return gone

    def __call__(self, symbol: str) -> tuple[VenueQuote, ...] | None:
        """Return the known books of a symbol; None if there never were any."""
        books = self._books.get(symbol)
        return None if books is None else tuple(books.values())

    def expect(self, order: ParentOrder) -> None:
        """Keep books from now until `seen` is called for the order."""
        with self._lock:
            if not (self.keep or self._expected[order.symbol]):
                for quote in order.quotes:
                    self._quotes[order.symbol, quote.venue].lost = order.received
            self._expected[order.symbol] += 1

    def trade(self, symbol: str, trades: Sequence[MarketTrade], since: int) -> tuple[MarketTrade, ...]:
        """Record all trades of a symbol since the last call (first: ``since``); return them with displayed sizes."""
        books = self._books.get(symbol, {})
        made = tuple([_with_displayed(one, books.get(one.venue)) for one in trades])
        with self._lock:
            self._since.setdefault(symbol, since)
            unreported = self._unreported.setdefault(symbol, [])
            unreported += made
            for one in made:
                self._trades[symbol, one.venue].add(one)
            del unreported[: -self.most_trades]
        return made

    def outflows(self, symbol: str, venues: Iterable[str], sign: int, now: int) -> dict[str, float]:
        """Return, as features, the shares per second traded on our side at each venue in `OUTFLOW_SECONDS`."""
        with self._lock:
            if symbol not in self._since:
                return {}
            side, begin = "bid" if sign > 0 else "ask", now - OUTFLOW_SECONDS * NANO
            found = {}
            for venue in venues:
                trades = self._trades[symbol, venue].between(begin, now)
                found[f"outflow {venue}"] = sum(one.shares for one in trades if one.side == side) / OUTFLOW_SECONDS
            return found

    def market(self, order: ParentOrder) -> ObservedHistory:
        """Return the outflow of the queues that an order could have joined, and the books at its deadline."""
        with self._lock:
            closing = self._closing(order)
            found = {quote.venue: self._queue(order, quote) for quote in order.quotes if closing}
        return ObservedHistory({venue: queue for venue, queue in found.items() if queue is not None}, closing)

    def seen(self, order: ParentOrder, at: int) -> MarketObservedEvent | None:
        """Return the public data between an order's arrival and its deadline; None if there are none."""
        with self._lock:
            queues, closing = self.market(order)
            trades = tuple(self._unreported.pop(order.symbol, ()))
            self._expected[order.symbol] -= 1
            if not self.keep and self._expected[order.symbol] <= 0:
                for key in [key for key in self._quotes if key[0] == order.symbol]:
                    del self._quotes[key]
                del self._expected[order.symbol]
        if not (closing or trades):
            return None
        return MarketObservedEvent(at=at, order=order, queues=queues, closing=closing, trades=trades)

    def _closing(self, order: ParentOrder) -> tuple[VenueQuote, ...]:
        """Return the last books up to the deadline, without stale ones; empty if no book came after the arrival."""
        later = [
            self._quotes[order.symbol, quote.venue].between(order.received, order.deadline) for quote in order.quotes
        ]
        if not any(later):
            return ()
        last = [found[-1] if found else quote for found, quote in zip(later, order.quotes, strict=True)]
        return tuple(quote for quote in last if order.deadline - quote.at < self.stale)

    def _queue(self, order: ParentOrder, arrival: VenueQuote) -> tuple[int, int, int] | None:
        key = order.symbol, arrival.venue
        since = max(self._since.get(order.symbol, order.received + 1), self._trades[key].lost, self._quotes[key].lost)
        own = arrival.bids if order.sign > 0 else arrival.asks
        if since > order.received or not own or own[0][1] <= 0:
            return None
        window = order.received, order.deadline
        price, ahead = own[0]
        outflow = _queue_outflow(
            order.sign, price, ahead, self._quotes[key].between(*window), self._trades[key].between(*window)
        )
        return price, ahead, outflow


def _with_displayed(trade: MarketTrade, quote: VenueQuote | None) -> MarketTrade:
    """Return a trade with the shares that were displayed at its price before the trade."""
    levels = () if quote is None else quote.bids if trade.side == "bid" else quote.asks
    return msgspec.structs.replace(trade, displayed=dict(reversed(levels)).get(trade.price, 0))


def _queue_outflow(
    sign: int, price: int, ahead: int, quotes: Sequence[VenueQuote], trades: Sequence[MarketTrade]
) -> int:
    """Return the outflow of a queue in shares: trades, and visible cancellations ahead.

    Examples
    --------
    Of 500 shares, 100 traded and 250 are left, so 150 were cancelled; then 300 traded.

    >>> quote = VenueQuote(venue="A", bids=((100, 250),), at=2)
    >>> trades = [MarketTrade(venue="A", side="bid", price=100, shares=n, at=t) for n, t in ((100, 1), (300, 3))]
    >>> _queue_outflow(1, 100, 500, [quote], trades)
    550
    """
    side = "bid" if sign > 0 else "ask"
    ours = [one for one in trades if one.side == side and sign * one.price <= sign * price]
    traded = cancelled = used = 0
    for quote in quotes:
        while used < len(ours) and ours[used].at <= quote.at:
            traded, used = traded + ours[used].shares, used + 1
        size = _size_at(quote.bids if sign > 0 else quote.asks, sign, price)
        if size is not None:
            cancelled = max(cancelled, ahead - size - traded)
    return sum(one.shares for one in ours) + cancelled


def _size_at(levels: Sequence[tuple[int, int]], sign: int, price: int) -> int | None:
    """Return the shares displayed at a price; None if the price is beyond the recorded levels."""
    for level, size in levels:
        if level == price:
            return size
        if sign * level < sign * price:
            return 0
    return None if levels else 0


# public outcomes of an order, from the observed market


def public_from_market_history(event: MarketObservedEvent) -> PublicData:
    """Return the public outcomes of an order, as in a backtest.

    Market orders take from the books at arrival; the remainders of limit orders take from the books at the deadline.
    """
    order = event.order
    context = context_of(order, order.received)
    sizes = PublicData.outcome_sizes(context.shares, context.lot)
    later = closing = None
    if event.closing:
        books = context_of(msgspec.structs.replace(order, quotes=event.closing), order.deadline).books
        closing = _book(context, books)
        if closing.depth and np.isfinite(books.mid):
            later = PublicMarketAtHorizon(float(books.mid), float(closing.costs(context.shares)) / context.shares)
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    queues: dict[str, PublicQueueOutflow] = {}
    for venue, quote in enumerate(order.quotes):
        found[quote.venue] = {"take": _profits(_book(context, context.books, venue).costs(sizes))}
        if quote.venue in event.queues and closing is not None:
            price, ahead, outflow = event.queues[quote.venue]
            queue = queues[quote.venue] = PublicQueueOutflow(price / NANO, ahead, outflow)
            each = context.sign * (queue.price - context.mid) + float(fee_at(context.books.makers[venue], queue.price))
            kept = [queue.filled(size) for size in sizes]
            rest = closing.costs([size - some for size, some in zip(sizes, kept, strict=True)])
            found[quote.venue]["limit"] = _profits(each * np.array(kept, dtype=np.float64) + rest)
    trades: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for one in event.trades:
        trades.setdefault(one.venue, {}).setdefault(one.side, []).append((one.shares, one.displayed))
    return PublicData(context, found, queues, later, trades)


def _book(context: Context, books: ContextBooks, venue: int | None = None) -> ConsolidatedBook:
    prices, sizes = books.side("ask" if context.sign > 0 else "bid")
    some = slice(None) if venue is None else slice(venue, venue + 1)
    return context.book(prices[some], sizes[some], books.takers[some])


def _profits(costs: Floats) -> tuple[float, ...]:
    return tuple(-float(cost) for cost in costs)
