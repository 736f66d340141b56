"""Books and trades of an exchange, streamed by ccxt; a book is unknown from a gap or cut until the next snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from riskroute.live.state.amounts import NANO
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.live.venues.ccxt_session import LOGGER, CcxtSession
from riskroute.live.venues.gateway import QuoteSink


class CcxtQuotes:
    """A quote source of one exchange.

    ccxt orders the updates of a book, checks their sequence numbers or checksums, and raises an error if they do not
    fit. A crossed book counts as a gap too: some exchanges send neither.
    """

    levels = 20  # kept of each side
    longest_backoff = 30.0  # seconds between attempts to subscribe

    def __init__(self, session: CcxtSession, clock: Callable[[], int] = time.time_ns) -> None:
        self.place, self._ccxt, self._clock = session.place, session, clock
        self._sink: QuoteSink | None = None
        self._loaded: asyncio.Event | None = None

    def connect(self, sink: QuoteSink) -> None:
        self._sink = sink
        self._ccxt.start()
        self._ccxt.spawn(self._load)

    def subscribe(self, symbols: Sequence[str]) -> None:
        for symbol in symbols:
            if symbol in self._ccxt.symbols:
                self._ccxt.spawn(self._follow, symbol, self._next_book)
                self._ccxt.spawn(self._follow, symbol, self._next_trades)

    def close(self) -> None:
        self._ccxt.close()
        self._sink = None

    async def _load(self) -> None:
        """Read the market table, which ccxt needs to subscribe."""
        self._loaded = asyncio.Event()
        wait = 1.0
        while not self._ccxt.client.markets:
            try:
                await self._ccxt.load_markets()
            except Exception as error:
                LOGGER.warning("quotes of %s: %s", self.place, self._ccxt.told(error))
                await asyncio.sleep(wait)
                wait = min(2 * wait, self.longest_backoff)
        self._loaded.set()

    async def _follow(self, symbol: str, take_next: Callable[[str, str], Any]) -> None:
        """Pass on books or trades for ever; after an error, say that the book is unknown, and subscribe again."""
        assert self._loaded is not None
        await self._loaded.wait()
        theirs, wait = self._ccxt.symbols[symbol], 0.1
        if theirs not in self._ccxt.client.markets:
            LOGGER.warning("quotes of %s: no market %s", self.place, theirs)
            return
        while True:
            try:
                await take_next(symbol, theirs)
                wait = 0.1
            except Exception as error:
                reason = self._ccxt.told(error)
                if take_next == self._next_book and self._sink is not None:
                    self._sink.gap(self.place, symbol, reason)
                LOGGER.warning("quotes of %s at %s: %s", symbol, self.place, reason)
                await asyncio.sleep(wait)
                wait = min(2 * wait, self.longest_backoff)

    async def _next_book(self, symbol: str, theirs: str) -> None:
        book = await self._ccxt.client.watch_order_book(theirs)
        bids, asks = [self._levels(symbol, book[side]) for side in ("bids", "asks")]
        if bids and asks and bids[0][0] >= asks[0][0]:
            await self._ccxt.client.close()  # every book gets a new snapshot
            raise ValueError(f"the book is crossed, {bids[0][0] / NANO:g} bid and {asks[0][0] / NANO:g} asked")
        if self._sink is not None:
            self._sink.put(symbol, [VenueQuote(venue=self.place, bids=bids, asks=asks, at=self._clock())])

    def _levels(self, symbol: str, levels: Any) -> tuple[tuple[int, int], ...]:
        """Return levels with prices in 1e-9 and sizes in units; float64 holds both exactly enough to round."""
        unit = self._ccxt.instruments[symbol].unit_size
        found = [(round(price * NANO), round(size / unit)) for price, size, *_ in levels[: self.levels]]
        return tuple([one for one in found if one[1] > 0])

    async def _next_trades(self, symbol: str, theirs: str) -> None:
        trades = await self._ccxt.client.watch_trades(theirs)
        unit, now = self._ccxt.instruments[symbol].unit_size, self._clock()
        made = [
            MarketTrade(
                venue=self.place,
                side="ask" if trade["side"] == "buy" else "bid",
                price=round(trade["price"] * NANO),
                shares=round(trade["amount"] / unit),
                at=now,
            )
            for trade in trades
        ]
        if self._sink is not None:
            self._sink.put(symbol, (), made)
