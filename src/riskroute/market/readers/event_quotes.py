"""Quotes of event contracts as JSON lines: one object per line with a time, a symbol, and books, changes or a trade.

A contract pays 1 or 0, so prices lie between 0 and 1. A line has ``time`` and ``symbol``, ``venue`` unless it is given,
and one of

- ``bids`` and ``asks``: the whole book, lists of [price, size];
- ``changes``: new sizes of levels, lists of [side, price, size] with side bid or ask; size 0 removes the level;
- ``trade``: a public trade with ``price``, ``size`` and, if known, the ``side`` of the aggressor, buy or sell.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
import polars

from riskroute.core.errors import DataError
from riskroute.core.text import one_line_text
from riskroute.core.validation import LONGEST_SYMBOL, LONGEST_VENUE, is_valid_name, valid_name_rule
from riskroute.market.clock import SECOND
from riskroute.market.readers.columns import TimeColumn
from riskroute.market.readers.csv_files import unpacked_file_lines
from riskroute.market.readers.level_book import LevelBookMessages, LevelBookPart
from riskroute.market.readers.reading import ReadingOptions, require_reading_option


class _Trade(msgspec.Struct):
    price: float
    size: float
    side: Literal["buy", "sell", ""] = ""


class _Quote(msgspec.Struct):
    time: int | float | str
    symbol: str
    venue: str | None = None
    bids: list[tuple[float, float]] | None = None
    asks: list[tuple[float, float]] | None = None
    changes: list[tuple[Literal["bid", "ask"], float, float]] | None = None
    trade: _Trade | None = None


class EventQuotes:
    """One file of quotes."""

    word = "line"
    levels = None
    quantity = "contracts"
    CARRY = 60 * SECOND  # longest time between two files over which books carry over
    LINES = 50_000  # per chunk

    def __init__(self, path: Path, options: ReadingOptions, zone: str) -> None:
        self.path, self.options = path, options
        self._times = TimeColumn(path, "time", zone)
        with closing(self._quotes()) as quotes:
            _, first = next(quotes)
        self.first: int | None = self._stamps([first])[0]
        self.key = "quotes", first.venue or options.venue, first.symbol.upper()
        self.names: dict[str, None] = {}
        self._before, self._count, self._last = 0, 0, 0
        self._books: dict[tuple[str, str], LevelBookMessages] = {}
        self._known: dict[tuple[str, str], bool] = {}  # whether there was a whole book

    def continues(self, before: EventQuotes) -> bool:
        """Return whether books carry over from the file ``before``, which may end at most `CARRY` earlier."""
        return (self.first or 0) - before._last <= self.CARRY

    def parts(self, before: EventQuotes | None) -> Iterator[LevelBookPart]:
        """Yield the books and trades of every symbol."""
        if before is not None:
            self._before, self._books = before._before + before._count, before._books
            for book in self._books.values():
                book.before, book.source = self._before, self.path
            if self.continues(before):
                self._known = before._known
        with closing(self._quotes()) as quotes:
            while some := list(islice(quotes, self.LINES)):
                stamps = self._stamps([quote for _, quote in some])
                for (line, quote), stamp in zip(some, stamps, strict=True):
                    self._add(line, stamp, quote)
                self._count, self._last = some[-1][0], stamps[-1]
                yield from (book.take() for book in self._books.values() if len(book))

    def finish(self) -> None:
        """Refuse a file in which a symbol has no whole book."""
        for (venue, symbol), known in sorted(self._known.items()):
            if not known:
                raise DataError(f"{self.path} has no whole book (bids and asks) of {symbol} at {venue}")

    def _add(self, line: int, stamp: int, quote: _Quote) -> None:
        where = f"line {line:,} of {self.path.name}"
        venue = require_reading_option("venue", quote.venue or self.options.venue, self.path.name)
        key = venue, quote.symbol.upper()
        for name, value, longest in (("venue", venue, LONGEST_VENUE), ("symbol", key[1], LONGEST_SYMBOL)):
            if key not in self._books and not is_valid_name(value, longest=longest):
                raise DataError(f"{where} must have {valid_name_rule(longest)} as {name}, was {value!r}")
        self.names[key[1]] = None
        if key not in self._books:
            self._books[key] = LevelBookMessages(*key, self.path, before=self._before)
        book, known = self._books[key], self._known.setdefault(key, False)
        if quote.trade is not None:
            prices = [quote.trade.price]
            side = {"buy": "A", "sell": "B", "": ""}[quote.trade.side]
            book.trade(line, stamp, quote.trade.price, quote.trade.size, side)
        elif quote.changes is not None:
            prices = [price for _, price, _ in quote.changes]
            bids, asks = (
                [(price, size) for side, price, size in quote.changes if side == one] for one in ("bid", "ask")
            )
            if known:
                book.add(line, stamp, bids, asks)
            book.gaps = book.gaps if known else 1
        elif quote.bids is not None and quote.asks is not None:
            prices = [price for price, _ in (*quote.bids, *quote.asks)]
            book.add(line, stamp, quote.bids, quote.asks, reset=True)
            self._known[key] = True
        else:
            raise DataError(f"{where} must have bids and asks, changes, or a trade, had none of them")
        odd = next((price for price in prices if not 0 < price < 1), None)
        if odd is not None:
            raise DataError(f"{where} must have prices between 0 and 1, was {odd:g}: are its prices in cents?")

    def _stamps(self, quotes: list[_Quote]) -> list[int]:
        """Return the times of quotes in UTC nanoseconds."""
        counts = [quote.time for quote in quotes]
        whole = all(isinstance(count, int) for count in counts)
        words = all(isinstance(count, str) for count in counts)
        if not (whole or words or all(isinstance(count, int | float) for count in counts)):
            raise DataError(f"{self.path}: time must be a number throughout, or a text throughout, was both")
        kind = polars.Int64 if whole else polars.String if words else polars.Float64
        stamps = self._times.read(polars.Series(counts, dtype=kind)).cast(polars.Int64)
        return stamps.to_list()

    def _quotes(self) -> Generator[tuple[int, _Quote]]:
        decoder = msgspec.json.Decoder(_Quote)
        for line, text in enumerate(unpacked_file_lines(self.path), 1):
            if text.strip():
                try:
                    yield line, decoder.decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    where = f"line {line:,} of {self.path.name}"
                    raise DataError(f"{where} must be a quote of an event contract: {one_line_text(error)}") from error
