"""From what clients send to orders: with the fees, lots and pools of the configuration, and checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from riskroute.core.errors import InputError, shown
from riskroute.live.order_checks import LARGEST_PRICE, LARGEST_QUANTITY, checked_order
from riskroute.live.state.events import NANO, MarketTrade, ParentOrder, PoolQuote, Record, VenueQuote
from riskroute.live.wire import OrderIn, QuoteIn, TradeIn

if TYPE_CHECKING:
    from riskroute.live.config import LiveConfig

MOST_FEATURES, MOST_LEVELS = 100, 100
"""Features of an order and levels of a side of a book, at most."""

LONGEST_NAME = 100
"""Characters of the name of a feature, at most."""

LARGEST_FEE = 10 * NANO
"""A fee a share above this, either way, is taken for one in other units."""


class Instrument(Record, frozen=True):
    """Lot in shares and tick in 1e-9 dollars of a symbol, and the partition that trades it, such as 2/3."""

    lot: int
    tick: int
    partition: str


class Fees(Record, frozen=True):
    """What a venue takes a share, in 1e-9 dollars."""

    taker: int
    maker: int


class OrderTerms(Record, frozen=True):
    """All that the configuration says of orders: symbols, venues and pools by name, and which partition this is."""

    partition: str
    instruments: dict[str, Instrument]
    venues: dict[str, Fees]
    pools: tuple[PoolQuote, ...]


def order_terms(config: LiveConfig) -> OrderTerms:
    """The terms of a configuration."""
    _, all_of_them = config.part
    return OrderTerms(
        partition=config.partition,
        instruments={
            name: Instrument(lot=one.lot, tick=nano(one.tick), partition=f"{config.partition_of(name)}/{all_of_them}")
            for name, one in config.instruments.items()
        },
        venues={name: Fees(taker=nano(one.taker), maker=nano(one.maker)) for name, one in config.venues.items()},
        pools=tuple(
            PoolQuote(pool=name, fee=nano(one.fee), improvement=one.improvement) for name, one in config.pools.items()
        ),
    )


def instrument_of(terms: OrderTerms, symbol: str) -> Instrument:
    """What is known of a symbol; `InputError` if it is not traded here."""
    found = terms.instruments.get(symbol)
    if found is None:
        raise InputError(f"symbol must be one of {', '.join(terms.instruments)}, was {shown(symbol)}")
    if found.partition != terms.partition:
        raise InputError(f"symbol must be of partition {terms.partition}, was {symbol}, of {found.partition}")
    return found


def venue_quotes(terms: OrderTerms, quotes: tuple[QuoteIn, ...]) -> tuple[VenueQuote, ...]:
    """Books with fees; `InputError` for a venue that is not configured."""
    made = []
    for quote in quotes:
        fees = terms.venues.get(quote.venue)
        if fees is None:
            raise InputError(f"venue must be one of {', '.join(terms.venues)}, was {shown(quote.venue)}")
        if max(len(quote.bids), len(quote.asks)) > MOST_LEVELS:
            raise InputError(f"bids and asks of {quote.venue} must be at most {MOST_LEVELS} levels each, were more")
        if max(abs(quote.taker or 0), abs(quote.maker or 0)) > LARGEST_FEE:
            raise InputError(f"fees of {quote.venue} must be at most {LARGEST_FEE} a share, were more")
        made.append(
            VenueQuote(
                venue=quote.venue,
                bids=quote.bids,
                asks=quote.asks,
                taker=fees.taker if quote.taker is None else quote.taker,
                maker=fees.maker if quote.maker is None else quote.maker,
                at=quote.at,
            )
        )
    return tuple(made)


def market_trades(terms: OrderTerms, trades: tuple[TradeIn, ...], latest: int) -> tuple[MarketTrade, ...]:
    """Trades for the tape; `InputError` for a trade that makes no sense."""
    for one in trades:
        if one.venue not in terms.venues:
            raise InputError(f"venue must be one of {', '.join(terms.venues)}, was {shown(one.venue)}")
        for name, value, most in (("price", one.price, LARGEST_PRICE), ("shares", one.shares, LARGEST_QUANTITY)):
            if not 0 < value <= most:
                raise InputError(f"{name} of a trade must be from 1 to {most}, was {value}")
        if not 0 < one.at <= latest:
            raise InputError(f"at of a trade must be a time in the past, was {one.at}")
    return tuple(
        MarketTrade(venue=one.venue, side=one.side, price=one.price, shares=one.shares, at=one.at) for one in trades
    )


def parent_order(terms: OrderTerms, order: OrderIn) -> ParentOrder:
    """The order for the engine, with the books that it brings, if any."""
    instrument = instrument_of(terms, order.symbol)
    return ParentOrder(
        key=order.key,
        symbol=order.symbol,
        side=order.side,
        quantity=order.quantity,
        deadline=order.deadline,
        quotes=venue_quotes(terms, order.quotes),
        pools=terms.pools,
        limit=order.limit,
        lot=instrument.lot,
        tick=instrument.tick,
        features=order.features,
    )


def checked_parent(order: ParentOrder) -> ParentOrder:
    """The order, if it makes sense; `InputError` otherwise."""
    if not order.quotes:
        raise InputError("quotes must be given with the order, or sent to /quotes before, were not")
    if order.features:
        if len(order.features) > MOST_FEATURES or not all(map(math.isfinite, order.features.values())):
            raise InputError(f"features must be at most {MOST_FEATURES} finite numbers, were not")
        if any(len(name) > LONGEST_NAME or not name.isprintable() for name in order.features):
            raise InputError(f"names of features must be at most {LONGEST_NAME} printable characters, were not")
    return checked_order(order)


def checked_deadline(config: LiveConfig, order: ParentOrder, now: int) -> None:
    """Raise `InputError` for an order that lasts too long."""
    if order.deadline - now > config.longest_seconds * NANO:
        raise InputError(
            f"deadline must be within {config.longest_seconds:g} s, was {(order.deadline - now) / NANO:g} s"
        )


def checked_times(config: LiveConfig, order: ParentOrder, now: int) -> None:
    """Raise `InputError` for an order whose arrival, books and deadline cannot be one after the other."""
    if not order.quotes:
        raise InputError("quotes must be given with an order that was executed elsewhere, were not")
    if not 0 < order.received <= now + NANO:
        raise InputError(f"arrived must be a time in the past, was {order.received}")
    if not 0 <= order.deadline - order.received <= config.longest_seconds * NANO:
        raise InputError(f"deadline must be within {config.longest_seconds:g} s of the arrival, was not")
    age = order.received - max(quote.at for quote in order.quotes)
    most = config.limits.quote_seconds
    if abs(age) > most * NANO:
        raise InputError(f"quotes must be at most {most:g} s from the arrival, was {age / NANO:g} s")


def nano(dollars: float) -> int:
    """Dollars in units of the log."""
    return round(dollars * NANO)
