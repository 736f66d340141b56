"""Decode the requests of clients, and convert them to orders and quotes."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from riskroute.core.errors import InputError, MalformedRequestError
from riskroute.core.text import one_line_error, shown
from riskroute.live.config import InstrumentConfig, LiveConfig, nano
from riskroute.live.limits import LARGEST_FEE, LARGEST_PRICE, LARGEST_QUANTITY
from riskroute.live.state.orders import NANO, MarketTrade, ParentOrder, PoolQuote, Record, VenueQuote

Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


def _range(least: int, most: int) -> msgspec.Meta:
    """Describe a range in OpenAPI only; `RequestParser` and `check_order` enforce it, with better messages."""
    return msgspec.Meta(extra_json_schema={"range": (least, most)})


_Time = Annotated[Int, _range(1, 2**63 - 1)]
_Price = Annotated[Int, _range(1, LARGEST_PRICE)]
_Shares = Annotated[Int, _range(1, LARGEST_QUANTITY)]
_Fee = Annotated[Int, _range(-LARGEST_FEE, LARGEST_FEE)]
_Levels = Annotated[
    tuple[tuple[_Price, Annotated[Int, _range(0, 10**12)]], ...], msgspec.Meta(extra_json_schema={"maxItems": 100})
]


class _RequestRecord(Record, frozen=True, omit_defaults=True):
    """Base class of the records in requests; fields with their default value are omitted when encoded."""


class _VenueBook(_RequestRecord, frozen=True):
    """The book of a venue at a time (ns since 1970): prices (1e-9 dollars) with sizes, best first.

    The fees per share (1e-9 dollars) default to the configured ones.
    """

    venue: str
    at: _Time
    bids: _Levels = ()
    asks: _Levels = ()
    taker: _Fee | None = None
    maker: _Fee | None = None


class OrderRequest(_RequestRecord, frozen=True):
    """A parent order; without quotes, the service uses the newest it has received for the symbol."""

    key: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
    symbol: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 32})]
    side: Literal["buy", "sell"]
    quantity: _Shares
    deadline: _Time
    quotes: tuple[_VenueBook, ...] = ()
    limit: _Price | None = None
    features: Annotated[dict[str, float], msgspec.Meta(extra_json_schema={"maxProperties": 100})] = msgspec.field(
        default_factory=dict
    )


class ExecutedChildRequest(_RequestRecord, frozen=True):
    """A finished child order of another router: price per share and total fee in 1e-9 dollars, times in Unix ns."""

    kind: Literal["dark", "dark_rest", "limit", "take", "sweep"]
    place: str
    sent: Int
    filled: Int
    price: Int = 0
    fee: Int = 0
    sent_at: Int = 0
    last_fill: Int = 0
    done_at: Int = 0


class ShadowRequest(_RequestRecord, frozen=True):
    """An order executed by another router, with the books at its arrival and all its child orders."""

    order: OrderRequest
    arrived: Int
    children: tuple[ExecutedChildRequest, ...]


class _PublicTrade(_RequestRecord, frozen=True):
    """A public trade: price in 1e-9 dollars, time in ns since 1970, side of the resting order."""

    venue: str
    side: Literal["bid", "ask"]
    price: _Price
    shares: _Shares
    at: _Time


class QuotesRequest(_RequestRecord, frozen=True):
    """Books of a symbol, and all public trades since the last request with ``trades``; the list may be empty."""

    symbol: str
    quotes: tuple[_VenueBook, ...] = ()
    trades: tuple[_PublicTrade, ...] | None = None


class HaltRequest(_RequestRecord, frozen=True):
    """The reason for a halt."""

    reason: str = ""


Kind = TypeVar("Kind")


def decode_request(body: bytes, kind: type[Kind], what: str) -> Kind:
    """Decode a JSON body into a record; raise `MalformedRequestError`, which calls the body ``what``, if invalid."""
    try:
        try:
            decoded = msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError as error:
            if not str(error).startswith("Expected `int`, got `float`"):
                raise
            msgspec.json.decode(body)  # Python's decoder also accepts what is not JSON, such as NaN
            return msgspec.convert(_plain_values(body), kind)  # 24.0 is an integer too
    except msgspec.ValidationError as error:
        raise MalformedRequestError(_explanation(str(error), what)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequestError(f"{what} must be JSON, was not: {one_line_error(error)}") from None
    # Python's decoder takes longer than the order itself, so it runs only if a field may be repeated. An encoded record
    # has as many quotation marks as its body only if no field is repeated, default or unknown: see `_RequestRecord`.
    if b"\\" in body or body.count(b'"') != msgspec.json.encode(decoded).count(b'"'):
        _plain_values(body)
    return decoded


def _plain_values(body: bytes) -> Any:
    """Decode JSON; raise `MalformedRequestError` if a field is repeated, because its value would be ambiguous."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            repeated = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
            raise MalformedRequestError(f"{one_line_error(repeated, 60)} must be given once, was repeated")
        return fields

    return json.loads(body, object_pairs_hook=once, parse_float=_number)


def _number(text: str) -> int | float:
    """Return a whole number below 1e20, such as 24.0 or 1e3, as an exact integer, and any other number as a float."""
    with suppress(InvalidOperation):  # the exponent is too long for a Decimal
        number = Decimal(text)
        if number.adjusted() < 20 and number == number.to_integral_value():
            return int(number)
    return float(text)


def _explanation(error: str, what: str) -> str:
    text, _, path = error.partition(" - at `$")
    field = re.sub(r"\[(\d*|\.\.\.)\]", r".\1", path.strip("`.")).strip(".") or what
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        return f"{field} must be of type {found[1]}, was {found[2]}"
    if found := re.fullmatch(r"Expected `int` ([<>]=) (-?\d+)", text):
        return f"{field} must be {'at most' if found[1] == '<=' else 'at least'} {found[2]}"
    if found := re.fullmatch(r"Object missing required field `(.+)`(?:.*)", text):
        return f"{found[1]} must be given, was missing" + ("" if field == what else f" in {field}")
    if found := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        return f"{one_line_error(found[1], 60)} is no field of {field}"
    if found := re.fullmatch(r"Invalid enum value (.+)", text):
        values = {
            "side": "buy or sell",
            "order.side": "buy or sell",
            "trades.side": "bid or ask",
            "children.kind": "dark, dark_rest, limit, take or sweep",
        }
        place = re.sub(r"\.(\d+|\.\.\.)(?=\.)", "", field)  # lists without their indices
        return f"{field} must be {values.get(place, 'one of its values')}, was {one_line_error(found[1], 60)}"
    if found := re.fullmatch(r"Expected `array` of length (\d+)(, got \d+)?", text):
        return f"{field} must be a list of {found[1]} values"
    return f"{field} is invalid: {one_line_error(text)}"


class RequestParser:
    """Convert requests to orders and quotes, adding lots, ticks, fees and pools from the configuration."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._fees = {name: (nano(venue.taker), nano(venue.maker)) for name, venue in config.venues.items()}
        self._pools = tuple(
            PoolQuote(pool=name, fee=nano(pool.fee), improvement=pool.improvement)
            for name, pool in config.pools.items()
        )

    def order(self, order: OrderRequest) -> ParentOrder:
        """Return the parent order of a request, with the request's quotes; limits are not checked."""
        instrument = self.instrument(order.symbol)
        return ParentOrder(
            key=order.key,
            symbol=order.symbol,
            side=order.side,
            quantity=order.quantity,
            deadline=order.deadline,
            quotes=self.quotes(order.quotes),
            pools=self._pools,
            limit=order.limit,
            lot=instrument.lot,
            tick=nano(instrument.tick),
            features=order.features,
        )

    def instrument(self, symbol: str) -> InstrumentConfig:
        """Return the configuration of a symbol; raise `InputError` if this process does not trade it."""
        config = self._config
        found = config.instruments.get(symbol)
        if found is None:
            raise InputError(f"symbol must be one of {', '.join(config.instruments)}, was {shown(symbol)}")
        if (part := config.partition_of(symbol)) != config.part[0]:
            others = f"{part}/{config.part[1]}"
            raise InputError(f"symbol {symbol} belongs to partition {others}, this is partition {config.partition}")
        return found

    def quotes(self, quotes: tuple[_VenueBook, ...]) -> tuple[VenueQuote, ...]:
        """Return books with the fees in the request; where it has none, with those configured for the venue."""
        made = []
        for quote in quotes:
            taker, maker = self._venue_fees(quote.venue)
            if max(len(quote.bids), len(quote.asks)) > 100:
                raise InputError(f"bids and asks of {quote.venue} must have at most 100 levels each")
            if max(abs(quote.taker or 0), abs(quote.maker or 0)) > LARGEST_FEE:
                raise InputError(f"fees of {quote.venue} must be within ±{LARGEST_FEE} per share")
            made.append(
                VenueQuote(
                    venue=quote.venue,
                    bids=quote.bids,
                    asks=quote.asks,
                    taker=taker if quote.taker is None else quote.taker,
                    maker=maker if quote.maker is None else quote.maker,
                    at=quote.at,
                )
            )
        return tuple(made)

    def trades(self, trades: tuple[_PublicTrade, ...], latest: int) -> tuple[MarketTrade, ...]:
        """Return public trades; raise `InputError` for one that is out of range or later than ``latest``."""
        for trade in trades:
            self._venue_fees(trade.venue)
            for name, value, most in (
                ("price", trade.price, LARGEST_PRICE),
                ("shares", trade.shares, LARGEST_QUANTITY),
            ):
                if not 0 < value <= most:
                    raise InputError(f"{name} of a trade must be from 1 to {most}, was {value}")
            if not 0 < trade.at <= latest:
                raise InputError(f"at of a trade must be a time in the past, was {trade.at}")
        return tuple(MarketTrade(**msgspec.structs.asdict(trade)) for trade in trades)

    def _venue_fees(self, venue: str) -> tuple[int, int]:
        if venue not in self._fees:
            raise InputError(f"venue must be one of {', '.join(self._fees)}, was {shown(venue)}")
        return self._fees[venue]

    def check_deadline(self, order: ParentOrder, now: int) -> None:
        """Raise `InputError` for a deadline later than the configuration allows."""
        longest = self._config.longest_seconds
        if order.deadline - now > longest * NANO:
            raise InputError(f"deadline must be within {longest:g} s, was {(order.deadline - now) / NANO:g} s")

    def check_executed(self, order: ParentOrder, now: int) -> None:
        """Raise `InputError` for an executed order whose quotes, arrival and deadline are inconsistent."""
        longest, oldest = self._config.longest_seconds, self._config.limits.quote_seconds
        if not order.quotes:
            raise InputError("an executed order needs quotes")
        if not 0 < order.received <= now + NANO:
            raise InputError(f"arrived must be a time in the past, was {order.received}")
        if not 0 <= order.deadline - order.received <= longest * NANO:
            raise InputError(f"deadline must be 0 to {longest:g} s after the arrival")
        age = order.received - max(quote.at for quote in order.quotes)
        if abs(age) > oldest * NANO:
            raise InputError(f"quotes must be at most {oldest:g} s from the arrival, was {age / NANO:g} s")
