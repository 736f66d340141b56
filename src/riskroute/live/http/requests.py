"""What clients send: JSON read into records."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from riskroute.core.errors import InputError, one_line_error, shown
from riskroute.live.config import LiveConfig, nano
from riskroute.live.orders import LARGEST_PRICE, LARGEST_QUANTITY, checked_order
from riskroute.live.state.events import NANO, MarketTrade, ParentOrder, PoolQuote, Record, VenueQuote

Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Level = tuple[Int, Int]


class MalformedError(InputError):
    """What a client sent is not JSON, or not of the form that was expected."""


class QuoteIn(Record, frozen=True):
    """The book of a venue: prices (1e-9 dollars) with sizes, the best first, and when it was so (ns since 1970).

    Fees a share are those of the configuration where they are left out.
    """

    venue: str
    at: Int
    bids: tuple[Level, ...] = ()
    asks: tuple[Level, ...] = ()
    taker: Int | None = None
    maker: Int | None = None


class OrderIn(Record, frozen=True):
    """An order. Without quotes, the newest that were sent to ``/quotes`` are used."""

    key: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: Int
    deadline: Int
    quotes: tuple[QuoteIn, ...] = ()
    limit: Int | None = None
    features: dict[str, float] = msgspec.field(default_factory=dict)


class ChildIn(Record, frozen=True):
    """A child of another router, done with: price a share and fee in all in 1e-9 dollars, times in ns since 1970."""

    kind: Literal["dark", "dark_rest", "limit", "take", "sweep"]
    place: str
    sent: Int
    filled: Int
    price: Int = 0
    fee: Int = 0
    sent_at: Int = 0
    last_fill: Int = 0
    done_at: Int = 0


class ShadowIn(Record, frozen=True):
    """An order that another router has executed, with the books at its arrival, and all its children."""

    order: OrderIn
    arrived: Int
    children: tuple[ChildIn, ...]


class TradeIn(Record, frozen=True):
    """A trade that everybody saw: price in 1e-9 dollars, time in ns since 1970, side of the order that rested."""

    venue: str
    side: Literal["bid", "ask"]
    price: Int
    shares: Int
    at: Int


class QuotesIn(Record, frozen=True):
    """Books of a symbol, and all its trades since the last post with trades: an empty list says there were none."""

    symbol: str
    quotes: tuple[QuoteIn, ...] = ()
    trades: tuple[TradeIn, ...] | None = None


class HaltIn(Record, frozen=True):
    """Why trading stops."""

    reason: str = ""


Kind = TypeVar("Kind")

_VALUES = {
    "side": "buy or sell",
    "order.side": "buy or sell",
    "trades.side": "bid or ask",
    "children.kind": "dark, dark_rest, limit, take or sweep",
}
"""What fields with a few values may be; those of lists without their numbers."""


def _place(field: str) -> str:
    return re.sub(r"\.(\d+|\.\.\.)(?=\.)", "", field)


def read_json(body: bytes, kind: type[Kind], what: str) -> Kind:
    """Read JSON into a record; `MalformedError` says in one sentence why it is none."""
    try:
        decoded = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedError(_explained(str(error), what)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"{what} must be JSON, was not: {one_line_error(error)}") from None
    _no_field_twice(body, kind)
    return decoded


@lru_cache
def _quoted(names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(f'"{name}"'.encode() for name in names)


def _no_field_twice(body: bytes, kind: type[Any]) -> None:
    """Raise `MalformedError` if a field is there twice: who sent it may have meant the other one.

    The body is read once more only if it looks so, since that takes longer than the order itself.
    """
    if b"\\u" not in body and all(body.count(name) < 2 for name in _quoted(kind.__struct_fields__)):
        return

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            again = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
            raise MalformedError(f"{one_line_error(again, 60)} must be given once, was given twice")
        return fields

    json.loads(body, object_pairs_hook=once)


def _explained(said: str, what: str) -> str:
    """A sentence of ours for what msgspec says."""
    text, _, path = said.partition(" - at `$")
    field = re.sub(r"\[(\d*|\.\.\.)\]", r".\1", path.strip("`.")).strip(".") or what
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        return f"{field} must be of type {found[1]}, was {found[2]}"
    if found := re.fullmatch(r"Expected `int` ([<>]=) (-?\d+)", text):
        return f"{field} must be {'at most' if found[1] == '<=' else 'at least'} {found[2]}, was not"
    if found := re.fullmatch(r"Object missing required field `(.+)`(?:.*)", text):
        return f"{found[1]} must be given, was missing" + ("" if field == what else f" in {field}")
    if found := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        return f"{one_line_error(found[1], 60)} must be left out of {field}: it has no such field"
    if found := re.fullmatch(r"Invalid enum value (.+)", text):
        return f"{field} must be {_VALUES.get(_place(field), 'one of its values')}, was {one_line_error(found[1], 60)}"
    if found := re.fullmatch(r"Expected `array` of length (\d+)(, got \d+)?", text):
        return f"{field} must be a list of {found[1]} values, was not"
    return f"{field} is not as expected: {one_line_error(text)}"


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
