"""Records of the market data feed: displayed books, dark pools and public trades; prices in 1e-9 of the currency."""

from __future__ import annotations

from typing import Literal

from riskroute.core.records import Record

_touched: tuple[tuple[VenueQuote, ...], tuple[int, int]] = ((), (0, 0))  # the last answer of `quoted_touch`


class VenueQuote(Record, frozen=True):
    """The displayed book of a venue at a time: prices with sizes, best first, and fees.

    ``taker`` and ``maker`` are fees in 1e-9 of the currency for a quantity of 1; ``taker_rate`` and ``maker_rate`` are
    fees in 1e-9 of the notional value.
    """

    venue: str
    bids: tuple[tuple[int, int], ...] = ()
    asks: tuple[tuple[int, int], ...] = ()
    taker: int = 0
    maker: int = 0
    at: int = 0
    taker_rate: int = 0
    maker_rate: int = 0


class MarketTrade(Record, frozen=True):
    """A public trade; ``side`` is the resting order's side, ``displayed`` the size at the price before the trade."""

    venue: str
    side: Literal["bid", "ask"]
    price: int
    shares: int
    at: int
    displayed: int = 0


class PoolQuote(Record, frozen=True):
    """A dark pool: fees as in `VenueQuote`, and price improvement over the mid in half-spreads."""

    pool: str
    fee: int = 0
    improvement: float = 0.0
    rate: int = 0


def quoted_touch(quotes: tuple[VenueQuote, ...]) -> tuple[int, int]:
    """Return the best bid and ask over all venues, 0 for an empty side; the last result is cached."""
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
