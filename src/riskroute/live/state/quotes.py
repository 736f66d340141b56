"""Quotes of venues and dark pools, and public trades."""

from __future__ import annotations

from typing import Literal

import msgspec

NANO = 10**9  # units of money in a dollar, and nanoseconds in a second
_touched: tuple[tuple[VenueQuote, ...], tuple[int, int]] = ((), (0, 0))  # the last answer of `touch_prices`


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Base class of all records. They hold no cycles, so the garbage collector skips them."""


class VenueQuote(Record, frozen=True):
    """The displayed book of a venue at a time: prices with sizes, best first, and fees per share."""

    venue: str
    bids: tuple[tuple[int, int], ...] = ()
    asks: tuple[tuple[int, int], ...] = ()
    taker: int = 0
    maker: int = 0
    at: int = 0


class MarketTrade(Record, frozen=True):
    """A public trade; ``side`` is that of the resting order, ``displayed`` the shares shown at its price before."""

    venue: str
    side: Literal["bid", "ask"]
    price: int
    shares: int
    at: int
    displayed: int = 0


class PoolQuote(Record, frozen=True):
    """A dark pool: fee per share, and price improvement over the mid in half-spreads."""

    pool: str
    fee: int = 0
    improvement: float = 0.0


def touch_prices(quotes: tuple[VenueQuote, ...]) -> tuple[int, int]:
    """Return the best bid and ask over all venues, 0 where there is none; the last answer is cached."""
    global _touched
    last, prices = _touched
    if last is quotes:
        return prices
    bid = ask = 0
    for quote in quotes:
        for price, size in quote.bids:
            if size > 0 and price > bid:
                bid = price
        for price, size in quote.asks:
            if size > 0 and (price < ask or not ask):
                ask = price
    _touched = quotes, (bid, ask)
    return bid, ask
