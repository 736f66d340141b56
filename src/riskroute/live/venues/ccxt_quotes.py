"""Books and trades of an exchange, streamed by ccxt; after a gap or a cut, a book is unknown until a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from riskroute.live.state.amounts import NANO
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.live.venues.ccxt_session import LOGGER, CcxtSession
from riskroute.live.venues.gateway import QuoteSink


class CcxtQuotes:
    """A quote source of one exchange; ``also`` is a second sink, called before the sink of `connect`.

    ccxt orders the updates of a book, checks their sequence numbers or checksums, and raises an error if they do not
    fit; Kraken's checksums, which ccxt cannot check, are checked here. A locked or crossed book counts as a gap too,
    since some exchanges send neither sequence numbers nor checksums. A book that does not change is put again while the
    connection shows signs of life: data of any symbol, or answers to pings.
    """

    levels = 20  # kept on each side of a book
    repeat_seconds = 0.5  # between repetitions of a book that does not change
    ping_seconds = 4.0  # between pings; ccxt gives a connection up after two that are not answered
    longest_backoff = 30.0  # longest wait in seconds between attempts to load or subscribe

    def __init__(
        self, session: CcxtSession, clock: Callable[[], int] = time.time_ns, also: QuoteSink | None = None
    ) -> None:
        self.place, self._ccxt, self._clock = session.place, session, clock
        self._sinks: tuple[QuoteSink, ...] = ()
        self._also = also
        self.on_loaded: Callable[[], None] = lambda: None  # called once the market table is read
        self._loaded: asyncio.Event | None = None
        self._books: dict[str, VenueQuote] = {}  # by symbol, the newest book; none after a gap
        self._checksums: dict[str, int] = {}  # by symbol of the exchange, from its newest message (Kraken)
        self._heard = 0.0  # when the last data came, by `time.monotonic`

    def connect(self, sink: QuoteSink) -> None:
        self._sinks = (sink,) if self._also is None else (self._also, sink)
        self._ccxt.start()
        self._ccxt.spawn(self._load)

    def subscribe(self, symbols: Sequence[str]) -> None:
        for symbol in symbols:
            if symbol in self._ccxt.symbols:
                self._ccxt.spawn(self._follow, symbol, self._next_book)
                self._ccxt.spawn(self._follow, symbol, self._next_trades)

    def close(self) -> None:
        self._ccxt.close()
        self._sinks = ()

    async def _load(self) -> None:
        """Read the market table, which ccxt needs to subscribe, and repeat books from then on."""
        self._loaded = asyncio.Event()
        self._ccxt.client.streaming["keepAlive"] = int(1000 * self.ping_seconds)
        wait = 1.0
        while not self._ccxt.loaded:
            try:
                await self._ccxt.load_markets()
            except Exception as error:
                LOGGER.warning("quotes of %s: %s", self.place, self._ccxt.told(error))
                await asyncio.sleep(wait)
                wait = min(2 * wait, self.longest_backoff)
        if self._ccxt.name == "kraken":
            self._keep_checksums()
        self._loaded.set()
        self.on_loaded()
        while True:
            await asyncio.sleep(self.repeat_seconds)
            self._repeat()

    def _repeat(self) -> None:
        """Put unchanged books again while the connection shows signs of life."""
        pongs = [(client.lastPong or 0) / 1000 for client in self._ccxt.client.clients.values()]
        alive = time.time() - max(pongs, default=0) < 2 * self.ping_seconds
        if not (alive or time.monotonic() - self._heard < 2 * self.ping_seconds):
            return
        now = self._clock()
        for symbol, book in list(self._books.items()):
            if now - book.at >= int(self.repeat_seconds * NANO):
                self._put(symbol, msgspec.structs.replace(book, at=now))

    async def _follow(self, symbol: str, take_next: Callable[[str, str], Any]) -> None:
        """Pass on books or trades until closed; after an error, subscribe again. An error with books is a gap."""
        while self._loaded is None:
            await asyncio.sleep(0.01)
        await self._loaded.wait()
        theirs, wait = self._ccxt.symbols[symbol], 0.1
        if theirs not in self._ccxt.client.markets:
            LOGGER.warning("quotes of %s: no market %s", self.place, theirs)
            return
        while True:
            try:
                await take_next(symbol, theirs)
                self._heard, wait = time.monotonic(), 0.1
            except Exception as error:
                reason = self._ccxt.told(error)
                if take_next == self._next_book:
                    self._gap(symbol, reason)
                LOGGER.warning("quotes of %s at %s: %s", symbol, self.place, reason)
                await asyncio.sleep(wait)
                wait = min(2 * wait, self.longest_backoff)

    async def _next_book(self, symbol: str, theirs: str) -> None:
        book = await self._ccxt.client.watch_order_book(theirs)
        bids, asks = [self._levels(symbol, book[side]) for side in ("bids", "asks")]
        wrong = ""
        if bids and asks and bids[0][0] >= asks[0][0]:
            wrong = f"the book is locked or crossed, {bids[0][0] / NANO:g} bid and {asks[0][0] / NANO:g} asked"
        elif theirs in self._checksums and self._checksums[theirs] != self._checksum(theirs, book):
            wrong = "the checksum of the book is wrong"
        if wrong:
            self._checksums.clear()
            for connection in list(self._ccxt.client.clients.values()):
                connection.on_error(ConnectionError(wrong))  # it is closed, and every book gets a new snapshot
            raise ConnectionError(wrong)
        self._put(symbol, VenueQuote(venue=self.place, bids=bids, asks=asks, at=self._clock()))

    def _keep_checksums(self) -> None:
        """Note the checksum of every message of Kraken: ccxt's own check fails on Python's floats."""
        client, checksums = self._ccxt.client, self._checksums
        handle = client.handle_order_book

        def noting(connection: Any, message: Any) -> None:
            for one in message.get("data") or ():
                checksums[one["symbol"]] = one["checksum"]
            handle(connection, message)

        client.handle_order_book = noting

    def _checksum(self, theirs: str, book: Any) -> int:
        """Return Kraken's checksum of a book, over the digits of the best ten levels of each side, asks first."""
        about = self._ccxt.client.market(theirs)["info"]
        digits = int(about["pair_decimals"]), int(about["lot_decimals"])
        numbers = [
            f"{value:.{places}f}"
            for side in ("asks", "bids")
            for level in book[side][:10]
            for value, places in zip(level[:2], digits, strict=True)
        ]
        return crc32("".join([number.replace(".", "").lstrip("0") for number in numbers]).encode())

    def _put(self, symbol: str, book: VenueQuote) -> None:
        self._books[symbol] = book
        for sink in self._sinks:
            sink.put(symbol, [book])

    def _gap(self, symbol: str, reason: str) -> None:
        self._books.pop(symbol, None)
        for sink in self._sinks:
            sink.gap(self.place, symbol, reason)

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
        for sink in self._sinks:
            sink.put(symbol, (), made)
