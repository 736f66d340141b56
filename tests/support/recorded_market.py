"""The recorded market behind the venues of the live router: what its child orders trade on a recorded day.

It answers as `riskroute.simulation.execution` does: takers walk the books as of their arrival, limit orders wait in the
recorded queue, pools hold what the dark market says. What one child has taken from a snapshot is not there for the next
one. Prices are whole numbers of 1e-9 dollars.
"""

from __future__ import annotations

from typing import Protocol

from riskroute.core.validation import instance_of
from riskroute.market.clock import SECOND
from riskroute.simulation.exchange import Exchange

NANO = 10**9
Trade = tuple[int, int, int]
"""When, at what price, and how many shares."""


class SentChild(Protocol):
    """What the market must know of a child order."""

    @property
    def parent(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def side(self) -> str: ...
    @property
    def quantity(self) -> int: ...
    @property
    def limit(self) -> int | None: ...


class RecordedMarket:
    """A market for `riskroute.live.venues.simulated.SimulatedVenue`.

    Parameters
    ----------
    exchange : Exchange
        The recorded day.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = instance_of("exchange", exchange, Exchange, "an Exchange")
        self._numbers: dict[str, int] = {}
        self._taken: dict[tuple[int, int, int], int] = {}

    def trades(self, child: SentChild, begin: int, end: int) -> list[Trade]:
        """Return what a child trades that comes at ``begin`` and stays until ``end``: no time if it is immediate."""
        number = self._numbers.setdefault(child.parent, len(self._numbers))
        if child.kind == "dark":
            return self._dark(child, number, [(0.0, self._hidden(child, number, begin))], begin)
        if child.kind == "dark_rest":
            dark, recent = self.exchange.dark, self.exchange.filled_recently(child.place, begin)
            seconds = max(end - begin, 0) / SECOND
            came = dark.arrivals(number, child.place, seconds, recent=recent) if dark else []
            return self._dark(child, number, came, begin)
        return self._posted(child, begin, end) if child.kind == "limit" else self._walked(child, begin)

    def fee(self, place: str, kind: str) -> int:
        """Return the fee a share at a venue or pool for a kind of child."""
        exchange = self.exchange
        for pool in exchange.pools:
            if pool.name == place:
                return round(pool.fee * NANO)
        fees = exchange.makers if kind == "limit" else exchange.takers
        return round(float(fees[exchange.books.venues.index(place)]) * NANO)

    def _walked(self, child: SentChild, time: int) -> list[Trade]:
        venue, buying = self.exchange.books.venues.index(child.place), child.side == "buy"
        now = self.exchange.books.as_of(time)
        prices, sizes = (now.ask_px, now.ask_sz) if buying else (now.bid_px, now.bid_sz)
        row, left, found = int(now.rows[venue]), child.quantity, list[Trade]()
        for price, size in zip(prices[venue].tolist(), sizes[venue].tolist(), strict=True):
            if left == 0 or not size >= 1:
                break
            nanos = round(price * NANO)
            if child.limit is not None and (nanos > child.limit if buying else nanos < child.limit):
                break
            before = self._taken.get((venue, row, nanos), 0)
            some = min(left, max(int(size) - before, 0))
            if some:
                self._taken[venue, row, nanos] = before + some
                found.append((time, nanos, some))
                left -= some
        return found

    def _posted(self, child: SentChild, begin: int, end: int) -> list[Trade]:
        queue = self.exchange.queue
        if queue is None:
            return []
        venue = self.exchange.books.venues.index(child.place)
        price, fills = queue.fills(venue, 1 if child.side == "buy" else -1, begin, end, child.quantity)
        return [(time, round(price * NANO), shares) for time, shares in fills if shares]

    def _hidden(self, child: SentChild, number: int, time: int) -> int:
        dark = self.exchange.dark
        recent = self.exchange.filled_recently(child.place, time)
        return dark.hidden(number, child.place, recent=recent) if dark else 0

    def _dark(self, child: SentChild, number: int, came: list[tuple[float, int]], begin: int) -> list[Trade]:
        pool = next((one for one in self.exchange.pools if one.name == child.place), None)
        sign, left, found = 1 if child.side == "buy" else -1, child.quantity, list[Trade]()
        for seconds, size in came:
            time, some = begin + int(seconds * SECOND), min(size, left)
            books = self.exchange.venue_books(time)
            if pool is None or some == 0 or books.mid != books.mid:
                continue
            half = (books.best_ask - books.best_bid) / 2
            price = round((books.mid - sign * pool.improvement * half) * NANO)
            if child.limit is None or sign * price <= sign * child.limit:
                self.exchange.note_dark_fill(child.place, time)
                found.append((time, price, some))
                left -= some
        return found
