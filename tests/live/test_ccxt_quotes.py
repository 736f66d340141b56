"""Books streamed from exchanges with the layouts of Binance and Kraken, with lost messages and cuts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

pytest.importorskip("ccxt", reason="needs ccxt: pip install 'riskroute[ccxt]'")

from ccxt_sessions import session
from loopback_exchanges import BinanceLayout, ExchangeFaults, ExchangeServer, KrakenLayout, LoopbackExchange, Market
from loopback_only import loopback_only
from riskroute.live.state.amounts import NANO
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.live.venues.ccxt_quotes import CcxtQuotes

LAYOUTS: dict[str, type[ExchangeServer]] = {"binance": BinanceLayout, "kraken": KrakenLayout}
Levels = tuple[tuple[int, int], ...]
DEPTH = 10  # levels that both layouts have


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_only():
        yield


class Books:
    """A sink that keeps the newest book and the trades of each symbol, and checks every book against the exchange's."""

    def __init__(self, server: ExchangeServer) -> None:
        self.server, self.lock = server, threading.Lock()
        self.books: dict[str, tuple[Levels, Levels]] = {}
        self.trades: list[MarketTrade] = []
        self.gaps: list[tuple[str, str | None, str]] = []
        self.puts = 0

    def put(self, symbol: str, quotes: Sequence[VenueQuote], trades: Sequence[MarketTrade] | None = None) -> None:
        with self.lock:
            self.trades += trades or ()
            for quote in quotes:
                self.puts += 1
                self.books[symbol] = quote.bids[:DEPTH], quote.asks[:DEPTH]

    def gap(self, place: str, symbol: str | None, reason: str) -> None:
        with self.lock:
            self.gaps.append((place, symbol, reason))
            for name in [symbol] if symbol else list(self.books):
                self.books.pop(name, None)


def shown(server: ExchangeServer, name: str) -> tuple[Levels, Levels]:
    """The book of the exchange, in our units; called in its thread."""
    market = server.exchange.markets[name]
    bids, asks = (
        tuple(
            (int(price * NANO), int(size / type(size)(market.lot)))
            for price, size in server.exchange.levels(name, side, DEPTH)
        )
        for side in ("bid", "ask")
    )
    return bids, asks


def compared(layout: str, times: int, faults: ExchangeFaults, seed: int = 1) -> tuple[Books, int]:
    """Let the exchange trade, pause it at random times, and compare the books; return the sink and times in a gap."""
    markets = [Market("BTC", tick="0.1", mid="60000"), Market("ETH", mid="2500"), Market("SOL", mid="150")]
    rng, unknown = random.Random(seed), 0
    with LAYOUTS[layout](LoopbackExchange(markets, seed), faults=faults) as server:
        quotes, sink = CcxtQuotes(session("X", server, layout)), Books(server)
        quotes.connect(sink)
        quotes.subscribe([name.replace("/", "") for name in server.exchange.markets])
        try:
            until = time.monotonic() + 30
            while len(sink.books) < len(markets):
                assert time.monotonic() < until, sink.gaps
                time.sleep(0.01)
            for _ in range(times):
                for _ in range(rng.randint(1, 4)):
                    name = rng.choice(list(server.exchange.markets))
                    server.call(partial(server.exchange.step, name))
                name = rng.choice(list(server.exchange.markets))
                unknown += not settled(server, sink, name)
            server.faults = ExchangeFaults()
            for name in server.exchange.markets:
                until = time.monotonic() + 20
                while not settled(server, sink, name, 1.0):  # every book comes back
                    assert time.monotonic() < until, (name, sink.gaps[-3:])
                    server.call(partial(server.exchange.step, name))
        finally:
            quotes.close()
    return sink, unknown


def settled(server: ExchangeServer, sink: Books, name: str, seconds: float = 5.0) -> bool:
    """Wait until the book equals the exchange's, or is unknown; fail if it stays another one."""
    symbol, expected = name.replace("/", ""), server.call(lambda: shown(server, name))
    until = time.monotonic() + seconds
    while True:
        with sink.lock:
            book = sink.books.get(symbol)
        if book == expected:
            return True
        if book is None and time.monotonic() > until - seconds + 0.05:
            return False
        if time.monotonic() > until:
            # A lost message shows with the next one; until then nobody can know.
            server.call(lambda: server.exchange.step(name))
            expected = server.call(lambda: shown(server, name))
            until = time.monotonic() + seconds
            seconds -= 0.01
            assert seconds > 0.97, (name, book, expected)
        time.sleep(0.001)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_books_equal_the_snapshots_of_the_exchange_at_random_times(layout: str) -> None:
    sink, unknown = compared(layout, 60, ExchangeFaults())
    assert (unknown, sink.gaps) == (0, [])
    assert sink.trades
    assert sink.puts > 60


@pytest.mark.parametrize("layout", LAYOUTS)
def test_books_are_unknown_in_a_gap_and_never_wrong(layout: str) -> None:
    sink, _ = compared(layout, 60, ExchangeFaults(lost=0.05, cut=0.02), 2)
    assert sink.gaps


@pytest.mark.thorough
@pytest.mark.parametrize("layout", LAYOUTS)
def test_books_equal_the_snapshots_at_a_thousand_times_with_lost_messages_and_cuts(layout: str) -> None:
    sink, unknown = compared(layout, 1000, ExchangeFaults(lost=0.02, cut=0.005), 3)
    assert 0 < unknown < 300
    assert len(sink.gaps) > 10
