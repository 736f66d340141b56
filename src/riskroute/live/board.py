"""The newest book of every symbol at every venue, as clients have told us."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from riskroute.live.orders import VenueQuote


class QuoteBoard:
    """Books by symbol; any thread may read and write.

    Examples
    --------
    >>> board = QuoteBoard()
    >>> board.put("DEMO", [VenueQuote(venue="NYSE", at=5), VenueQuote(venue="NYSE", at=3)])
    >>> [quote.at for quote in board("DEMO")]
    [5]
    """

    def __init__(self) -> None:
        self._books: dict[str, dict[str, VenueQuote]] = {}
        self._lock = threading.Lock()

    def put(self, symbol: str, quotes: Iterable[VenueQuote]) -> None:
        """Replace books of a symbol, each unless a newer one is there."""
        with self._lock:
            books = dict(self._books.get(symbol, {}))
            for quote in quotes:
                if quote.venue not in books or quote.at >= books[quote.venue].at:
                    books[quote.venue] = quote
            self._books[symbol] = books

    def __call__(self, symbol: str) -> tuple[VenueQuote, ...]:
        """The books of a symbol, empty if there are none."""
        return tuple(self._books.get(symbol, {}).values())
