"""Decode the requests of clients, and convert them to orders and quotes."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from riskroute.core.errors import InputError, MalformedRequestError
from riskroute.core.instrument import LARGEST_QUANTITY, Instrument, instrument_terms
from riskroute.core.records import Record
from riskroute.core.text import decimal_text, one_line_text, shown
from riskroute.live.config import LiveConfig
from riskroute.live.fees import LivePlaceFees, requested_live_fee
from riskroute.live.limits import LARGEST_PRICE, LARGEST_SIZE, check_quote_limits
from riskroute.live.state.amounts import NANO
from riskroute.live.state.orders import ParentOrder
from riskroute.live.state.quotes import MarketTrade, PoolQuote, VenueQuote

Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_EXACT = Context(prec=60, traps=[Inexact, InvalidOperation, Overflow])  # raises instead of rounding
_divide, _multiply, _integral = _EXACT.divide, _EXACT.multiply, _EXACT.to_integral_exact
_ZERO = Decimal(0)  # a constant, since a comparison with an integer takes twice as long
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def _range(least: int, most: int) -> msgspec.Meta:
    """Describe a range in OpenAPI only; `RequestParser` and `check_order` enforce it, with better messages."""
    return msgspec.Meta(extra_json_schema={"range": (least, most)})


def _above(most: int) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema={"number": (0, most)})


Number = int | Decimal  # JSON numbers, or numbers as text, decoded exactly
_Time = Annotated[Int, _range(1, 2**63 - 1)]
_Price = Annotated[Number, _above(LARGEST_PRICE // NANO)]
_Quantity = Annotated[Number, _above(LARGEST_QUANTITY)]
_Amount = Annotated[Number, msgspec.Meta(extra_json_schema={"number": None})]
_Levels = Annotated[tuple[tuple[_Price, _Quantity], ...], msgspec.Meta(extra_json_schema={"maxItems": 100})]


class _RequestRecord(Record, frozen=True, omit_defaults=True):
    """Base class of the records in requests; fields with their default value are omitted when encoded."""


class _VenueBook(_RequestRecord, frozen=True):
    """The book of a venue: prices with sizes, best first, and its time (ns since 1970).

    Fees are texts such as ``0.0030 per share`` or ``10 bps``, or numbers per share; default: the configured ones.
    """

    venue: str
    at: _Time
    bids: _Levels = ()
    asks: _Levels = ()
    taker: int | float | str | None = None
    maker: int | float | str | None = None


class OrderRequest(_RequestRecord, frozen=True):
    """A parent order; without quotes, the service uses the newest it has received for the symbol."""

    key: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
    symbol: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 32})]
    side: Literal["buy", "sell"]
    quantity: _Quantity
    deadline: _Time
    quotes: tuple[_VenueBook, ...] = ()
    limit: _Price | None = None
    features: Annotated[dict[str, float], msgspec.Meta(extra_json_schema={"maxProperties": 100})] = msgspec.field(
        default_factory=dict
    )


class ExecutedChildRequest(_RequestRecord, frozen=True):
    """A finished child of another router: average price and total fee, times in ns since 1970."""

    kind: Literal["dark", "dark_rest", "limit", "take", "sweep"]
    place: str
    sent: _Quantity
    filled: _Quantity
    price: _Price = 0
    fee: _Amount = 0
    sent_at: Int = 0
    last_fill: Int = 0
    done_at: Int = 0


class ShadowRequest(_RequestRecord, frozen=True):
    """An order executed by another router, with the books at its arrival and all its child orders."""

    order: OrderRequest
    arrived: Int
    children: tuple[ExecutedChildRequest, ...]


class _PublicTrade(_RequestRecord, frozen=True):
    """A public trade: time in ns since 1970, side of the resting order."""

    venue: str
    side: Literal["bid", "ask"]
    price: _Price
    quantity: _Quantity
    at: _Time


class QuotesRequest(_RequestRecord, frozen=True):
    """Books of a symbol, and all public trades since the last request with ``trades``; the list may be empty."""

    symbol: str
    quotes: tuple[_VenueBook, ...] = ()
    trades: tuple[_PublicTrade, ...] | None = None


class HaltRequest(_RequestRecord, frozen=True):
    """A request to halt trading, with the reason."""

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
            return msgspec.json.decode(_ENCODER.encode(_plain_values(body)), type=kind)  # 24.0 is an integer too
    except msgspec.ValidationError as error:
        raise MalformedRequestError(_explanation(str(error), what)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequestError(f"{what} must be JSON, was not: {one_line_text(error)}") from None
    # Python's decoder takes longer than the order itself, so it runs only if a field may be repeated. An encoded record
    # has as many quotation marks as its body only if no field is repeated, default or unknown, and no number is text:
    # see `_RequestRecord`.
    if b"\\" in body or body.count(b'"') != _ENCODER.encode(decoded).count(b'"'):
        _plain_values(body)
    return decoded


def _plain_values(body: bytes) -> Any:
    """Decode JSON; raise `MalformedRequestError` if a field is repeated, because its value would be ambiguous."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            repeated = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
            raise MalformedRequestError(f"{one_line_text(repeated, 60)} must be given once, was repeated")
        return fields

    return json.loads(body, object_pairs_hook=once, parse_float=_number)


def _number(text: str) -> int | float | Decimal:
    """Return a whole number such as 24.0 or 1e3 below 1e20 as an exact integer, others as exact decimals."""
    with suppress(InvalidOperation):  # the exponent is too long for a Decimal
        number = Decimal(text)
        whole = number.adjusted() < 20 and number == number.to_integral_value()
        return int(number) if whole else number
    return float(text)


def _explanation(error: str, what: str) -> str:
    text, _, path = error.partition(" - at `$")
    field = re.sub(r"\[(\d*|\.\.\.)\]", r".\1", path.strip("`.")).strip(".") or what
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        expected = {"int | decimal": "a number", "int | float | str | null": "a fee"}.get(
            found[1], f"of type {found[1]}"
        )
        return f"{field} must be {expected}, was {found[2]}"
    if text == "Invalid decimal string":
        return f"{field} must be a number, was text that is not a number"
    if found := re.fullmatch(r"Expected `int` ([<>]=) (-?\d+)", text):
        return f"{field} must be {'at most' if found[1] == '<=' else 'at least'} {found[2]}"
    if found := re.fullmatch(r"Object missing required field `(.+)`(?:.*)", text):
        return f"{found[1]} must be given, was missing" + ("" if field == what else f" in {field}")
    if found := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        return f"{one_line_text(found[1], 60)} is no field of {field}"
    if found := re.fullmatch(r"Invalid enum value (.+)", text):
        values = {
            "side": "buy or sell",
            "order.side": "buy or sell",
            "trades.side": "bid or ask",
            "children.kind": "dark, dark_rest, limit, take or sweep",
        }
        place = re.sub(r"\.(\d+|\.\.\.)(?=\.)", "", field)  # lists without their indices
        return f"{field} must be {values.get(place, 'one of its values')}, was {one_line_text(found[1], 60)}"
    if found := re.fullmatch(r"Expected `array` of length (\d+)(, got \d+)?", text):
        return f"{field} must be a list of {found[1]} values"
    return f"{field} is invalid: {one_line_text(text)}"


class _Steps:
    """Converts numbers from 0 to ``most`` steps to whole multiples of a step.

    ``per_one`` is 1 / step, None if that is not a finite decimal.
    """

    def __init__(self, step: Decimal, most: int) -> None:
        self.step, self.most = step, most * step
        try:
            self.per_one: Decimal | None = _EXACT.divide(1, step)
        except ArithmeticError:
            self.per_one = None
        whole = self.per_one is not None and self.per_one % 1 == 0
        self.whole, self.most_whole = (int(self.per_one or 0), int(self.most)) if whole else (0, -1)

    def count(self, name: str, value: Number) -> int:
        """Return a number in steps; raise `InputError` if it is out of range or not a multiple of the step."""
        if type(value) is int and 0 <= value <= self.most_whole:
            return value * self.whole
        try:
            if _ZERO <= value <= self.most:
                per_one = self.per_one
                steps = _divide(value, self.step) if per_one is None else _multiply(value, per_one)
                return int(_integral(steps))
        except ArithmeticError:  # not finite, or no multiple
            pass
        expected = f"a multiple of {decimal_text(self.step)} from 0 to {decimal_text(self.most)}"
        raise InputError(f"{name} must be {expected}, was {_shown(value)}")


_steps = lru_cache(4096)(_Steps)
_PRICES = _steps(Decimal(1).scaleb(-9), LARGEST_PRICE)


def _shown(value: Number) -> str:
    exact = Decimal(value)
    return decimal_text(exact) if exact.is_finite() and abs(exact.adjusted()) < 40 else shown(str(exact)[:60])


def request_units(name: str, quantity: Number, instrument: Instrument) -> int:
    """Return a natural quantity in units; raise `InputError` if negative, too large or no multiple of the unit."""
    return _steps(instrument.unit, LARGEST_QUANTITY).count(name, quantity)


def request_price(name: str, price: Number) -> int:
    """Return a price, or an amount of money, in 1e-9; raise `InputError` if negative, too large or finer than 1e-9."""
    return _PRICES.count(name, price)


def _levels(
    side: str, levels: tuple[tuple[Number, Number], ...], instrument: Instrument
) -> tuple[tuple[int, int], ...]:
    price, size = _PRICES.count, _steps(instrument.unit, LARGEST_SIZE).count
    price_name, size_name = f"price of {side}", f"size of {side}"
    return tuple([(price(price_name, one), size(size_name, some)) for one, some in levels])


def _in_units(features: dict[str, float], instrument: Instrument) -> dict[str, float]:
    """Return features with outflows in units per second instead of natural quantities."""
    return {
        name: value / instrument.unit_size if name.startswith("outflow ") else value for name, value in features.items()
    }


def _local(stamp: int, instrument: Instrument) -> str:
    moment = dt.datetime.fromtimestamp(stamp // NANO, ZoneInfo(instrument.zone))
    return f"{moment:%Y-%m-%d %H:%M:%S} {instrument.zone}"


class RequestParser:
    """Converts requests to orders and quotes in units and 1e-9, with the fees and pools of the configuration."""

    def __init__(self, config: LiveConfig, clock: Callable[[], int] = time.time_ns) -> None:
        self._config, self._clock = config, clock
        self._fees = config.build_fees()
        self._sessions: dict[str, tuple[int, int, int, dt.date]] = {}
        self._terms = {symbol: instrument_terms(instrument) for symbol, instrument in config.instruments.items()}
        now = clock()
        for instrument in config.instruments.values():  # fees that do not apply are refused at the start
            for place in (*config.venues, *config.pools):
                self._fees.of(place, instrument, self._session(instrument, now)[2])

    def order(self, order: OrderRequest) -> ParentOrder:
        """Return the parent order of a request, with the request's quotes; limits are not checked."""
        instrument = self.instrument(order.symbol)
        day = self._session(instrument, self._clock())[2]
        rates = {name: self._fees.of(name, instrument, day).taker for name in self._config.pools}
        return ParentOrder(
            key=order.key,
            symbol=order.symbol,
            side=order.side,
            quantity=request_units("quantity", order.quantity, instrument),
            deadline=order.deadline,
            quotes=self.quotes(instrument, order.quotes),
            pools=tuple(
                [
                    PoolQuote(
                        pool=name, fee=fee.amount, rate=fee.rate, improvement=self._config.pools[name].improvement
                    )
                    for name, fee in rates.items()
                ]
            ),
            limit=None if order.limit is None else request_price("limit", order.limit),
            features=order.features if instrument.unit == 1 else _in_units(order.features, instrument),
            terms=self._terms[order.symbol],
        )

    def instrument(self, symbol: str) -> Instrument:
        """Return the instrument of a symbol; raise `InputError` if it is not traded here."""
        config = self._config
        found = config.instruments.get(symbol)
        if found is None:
            raise InputError(f"symbol must be one of {', '.join(config.instruments)}, was {shown(symbol)}")
        if config.part[1] > 1 and (part := config.partition_of(symbol)) != config.part[0]:
            others = f"{part}/{config.part[1]}"
            raise InputError(f"symbol {symbol} belongs to partition {others}, this is partition {config.partition}")
        return found

    def quotes(self, instrument: Instrument, quotes: tuple[_VenueBook, ...]) -> tuple[VenueQuote, ...]:
        """Return books of an instrument with the fees of the request, or else those of their venues."""
        made = []
        day = self._session(instrument, self._clock())[2]
        for quote in quotes:
            taker, maker = self._venue_fees(quote.venue, instrument, day)
            if max(len(quote.bids), len(quote.asks)) > 100:
                raise InputError(f"bids and asks of {quote.venue} must have at most 100 levels each")
            if quote.taker is not None:
                taker = requested_live_fee(f"taker fee of {quote.venue}", quote.taker, instrument)
            if quote.maker is not None:
                maker = requested_live_fee(f"maker fee of {quote.venue}", quote.maker, instrument)
            made.append(
                VenueQuote(
                    venue=quote.venue,
                    bids=_levels(f"a bid of {quote.venue}", quote.bids, instrument),
                    asks=_levels(f"an ask of {quote.venue}", quote.asks, instrument),
                    taker=taker.amount,
                    maker=maker.amount,
                    at=quote.at,
                    taker_rate=taker.rate,
                    maker_rate=maker.rate,
                )
            )
        return tuple(made)

    def sourced(
        self, instrument: Instrument, quotes: Iterable[VenueQuote], trades: Iterable[MarketTrade]
    ) -> tuple[VenueQuote, ...]:
        """Return books of a source, with their venues' fees if they have none; raise `InputError` if one is invalid."""
        for trade in trades:
            self._check_venue(trade.venue)
        made, day = [], self._session(instrument, self._clock())[2]
        for quote in quotes:
            taker, maker = self._venue_fees(quote.venue, instrument, day)
            if not (quote.taker or quote.maker or quote.taker_rate or quote.maker_rate):
                quote = msgspec.structs.replace(
                    quote, taker=taker.amount, maker=maker.amount, taker_rate=taker.rate, maker_rate=maker.rate
                )
            made.append(quote)
        check_quote_limits(tuple(made))
        return tuple(made)

    def trades(self, instrument: Instrument, trades: tuple[_PublicTrade, ...], latest: int) -> tuple[MarketTrade, ...]:
        """Return public trades; raise `InputError` for one that is out of range or later than ``latest``."""
        made = []
        for trade in trades:
            self._check_venue(trade.venue)
            price = request_price("price of a trade", trade.price)
            shares = request_units("quantity of a trade", trade.quantity, instrument)
            if not (price and shares):
                raise InputError("price and quantity of a trade must be above 0, was 0")
            if not 0 < trade.at <= latest:
                raise InputError(f"at of a trade must be a time since 1970 and not in the future, was {trade.at}")
            made.append(MarketTrade(venue=trade.venue, side=trade.side, price=price, shares=shares, at=trade.at))
        return tuple(made)

    def _check_venue(self, venue: str) -> None:
        if venue not in self._config.venues:
            raise InputError(f"venue must be one of {', '.join(self._config.venues)}, was {shown(venue)}")

    def _venue_fees(self, venue: str, instrument: Instrument, day: dt.date) -> LivePlaceFees:
        self._check_venue(venue)
        return self._fees.of(venue, instrument, day)

    def _session(self, instrument: Instrument, now: int) -> tuple[int, int, dt.date]:
        """Return beginning, end and day of the trading session now, or else of the next one."""
        since, begin, end, day = self._sessions.get(instrument.symbol, (0, 0, 0, dt.date.min))
        if not since <= now < end:
            day = instrument.session_day(now)
            begin, end = instrument.session(day)
            self._sessions[instrument.symbol] = now, begin, end, day
        return begin, end, day

    def check_deadline(self, order: ParentOrder, now: int) -> None:
        """Raise `InputError` for an order outside its trading session, or whose deadline is too late."""
        longest = self._config.longest_seconds
        if order.deadline - now > longest * NANO:
            raise InputError(f"deadline must be within {longest:g} s, was {(order.deadline - now) / NANO:g} s")
        instrument = order.instrument
        if not instrument.hours:
            return
        begin, end, _ = self._session(instrument, now)
        if now < begin:
            raise InputError(
                f"{order.symbol} must be traded in its session, which opens at {_local(begin, instrument)}"
            )
        if order.deadline > end:
            close = _local(end, instrument)
            raise InputError(f"deadline must not be after the close, {close}, was {_local(order.deadline, instrument)}")

    def check_executed(self, order: ParentOrder, now: int) -> None:
        """Raise `InputError` for an executed order whose quotes, arrival and deadline are inconsistent."""
        longest, oldest = self._config.longest_seconds, self._config.limits.quote_seconds
        if not order.quotes:
            raise InputError("an executed order needs quotes")
        if not 0 < order.received <= now + NANO:
            raise InputError(f"arrived must be a time since 1970 and not in the future, was {order.received}")
        if not 0 <= order.deadline - order.received <= longest * NANO:
            raise InputError(f"deadline must be 0 to {longest:g} s after the arrival")
        age = order.received - max(quote.at for quote in order.quotes)
        if abs(age) > oldest * NANO:
            raise InputError(f"quotes must be at most {oldest:g} s from the arrival, was {age / NANO:g} s")
