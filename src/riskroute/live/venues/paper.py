"""Paper trading: a simulated venue on the streamed books and trades of a real one.

Immediate orders take what the book displays, each displayed size once. Resting orders queue behind the displayed size:
public trades at their price and visible cancellations shorten the queue. Later trades fill them, as do trades through
their price and opposite quotes that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riskroute.core.instrument import Instrument
from riskroute.live.fees import LivePlaceFees
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.live.venues.gateway import GatewaySink, VenueTerms
from riskroute.live.venues.simulated import JournalledVenue, ServedSimulatedVenue

_Level = tuple[int, int]


class PaperMarket:
    """The newest books of one venue, less what our orders have taken from them."""

    def __init__(
        self,
        instruments: Mapping[str, Instrument],
        fees: Callable[[Instrument], LivePlaceFees] = lambda instrument: LivePlaceFees(),
    ) -> None:
        self._instruments, self._fees = instruments, fees
        self.books: dict[str, VenueQuote] = {}
        self._taken: dict[str, dict[_Level, int]] = {}  # by symbol and level, since its displayed size changed

    def instrument(self, symbol: str) -> Instrument:
        return self._instruments[symbol]

    def fee(self, child: ChildOrder, fills: Sequence[tuple[int, int]]) -> int:
        instrument = self.instrument(child.symbol)
        taker, maker = self._fees(instrument)
        return (maker if child.kind == "limit" else taker).total(instrument, fills)

    def put(self, symbol: str, book: VenueQuote) -> None:
        """Replace a book; what we have taken from a level stays taken while the level shows the same size."""
        taken = self._taken.get(symbol)
        if taken:
            shown = {*book.bids, *book.asks}
            self._taken[symbol] = {level: units for level, units in taken.items() if level in shown}
        self.books[symbol] = book

    def trades(self, child: ChildOrder, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return what a child takes at its arrival."""
        return [(begin, price, units) for price, units in self.take(child, child.quantity)]

    def take(self, child: ChildOrder, quantity: int) -> list[_Level]:
        """Take up to ``quantity`` units displayed at a child's limit or better, less what is taken already."""
        book, sign = self.books.get(child.symbol), 1 if child.side == "buy" else -1
        if book is None:
            return []
        taken, found = self._taken.setdefault(child.symbol, {}), []
        for price, size in book.asks if sign > 0 else book.bids:
            if child.limit is not None and sign * price > sign * child.limit:
                break
            if (some := min(quantity, size - taken.get((price, size), 0))) > 0:
                taken[price, size] = taken.get((price, size), 0) + some
                found.append((price, some))
                quantity -= some
        return found


@dataclass
class _Queue:
    """A resting order with the units ahead of it in the queue, None until a book shows them."""

    there: Any
    price: int
    ahead: int | None


class PaperVenue(JournalledVenue):
    """A simulated venue whose resting orders are filled by the streamed trades and books."""

    market: PaperMarket

    def __init__(self, *arguments: Any, terms: Callable[[str], VenueTerms | None], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._terms_of = terms
        self._queues: dict[str, _Queue] = {}  # by child id

    def terms(self, symbol: str) -> VenueTerms | None:
        return self._terms_of(symbol)

    def _schedule(self, there: Any, now: int, until: int) -> None:
        super()._schedule(there, now, until)
        child = there.child
        if not child.immediate and child.limit is not None:
            self._queues[child.id] = _Queue(there, child.limit, None)
            if (book := self.market.books.get(child.symbol)) is not None:
                self._shorten(self._queues[child.id], book)

    def on_market(self, symbol: str, quotes: Sequence[VenueQuote], trades: Sequence[MarketTrade]) -> None:
        """Fill resting orders by trades, then by a new book."""
        queues = [one for one in self._open_queues() if one.there.child.symbol == symbol]
        for trade in trades:
            left = trade.shares
            for one in queues:
                left -= self._trade(one, trade, left)
        for book in quotes:
            if book.venue == self.place:
                self.market.put(symbol, book)
                for one in queues:
                    self._shorten(one, book)
                    for _, units in self.market.take(one.there.child, one.there.leaves):
                        self._fill(one.there, one.price, units)  # the other side has come to our price

    def on_gap(self, symbol: str | None) -> None:
        """Forget the book of a symbol, or all books if None; queues are unknown until the next book."""
        for name in [symbol] if symbol is not None else list(self.market.books):
            self.market.books.pop(name, None)
        for one in self._queues.values():
            if symbol in (None, one.there.child.symbol):
                one.ahead = None

    def _open_queues(self) -> list[_Queue]:
        for name in [name for name, one in self._queues.items() if not one.there.open]:
            del self._queues[name]
        return list(self._queues.values())

    def _trade(self, one: _Queue, trade: MarketTrade, left: int) -> int:
        """Let a public trade shorten a queue, and fill the order behind it; return the units it filled."""
        buys = one.there.child.side == "buy"
        sign = 1 if buys else -1
        if trade.side != ("bid" if buys else "ask") or sign * trade.price > sign * one.price or not one.there.open:
            return 0
        if trade.price == one.price:
            ahead = left if one.ahead is None else one.ahead  # unknown: behind everything
            passed = min(ahead, left)
            one.ahead, left = None if one.ahead is None else ahead - passed, left - passed
        filled: int = min(left, one.there.leaves)
        if filled > 0:
            self._fill(one.there, one.price, filled)
        return filled

    def _shorten(self, one: _Queue, book: VenueQuote) -> None:
        """Shorten a queue to the displayed size."""
        sign = 1 if one.there.child.side == "buy" else -1
        own = book.bids if sign > 0 else book.asks
        shown = dict(own).get(one.price)
        if shown is None and own and sign * own[-1][0] < sign * one.price:
            shown = 0  # the levels reach beyond the price, and none is there
        if shown is not None:
            one.ahead = shown if one.ahead is None else min(one.ahead, shown)


class PaperGateway(ServedSimulatedVenue):
    """A gateway to a paper venue in a thread of its own, and a sink of its market data; up once its terms are known."""

    venue: PaperVenue

    def connect(self, sink: GatewaySink) -> None:
        self._sink = sink
        self.start()

    def ready(self) -> None:
        """Connect the venue, once the market table is read."""
        self.call(lambda: self.venue.connect(self._sink))

    def put(self, symbol: str, quotes: Sequence[VenueQuote], trades: Sequence[MarketTrade] | None = None) -> None:
        self.call(lambda: self.venue.on_market(symbol, quotes, trades or ()))

    def gap(self, place: str, symbol: str | None, reason: str) -> None:
        self.call(lambda: self.venue.on_gap(symbol))
