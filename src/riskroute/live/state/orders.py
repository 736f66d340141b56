"""Records of the live router: books, parent orders, decisions, child orders, execution reports and outcomes.

Prices are integers in 1e-9 of the quote currency (`NANO`), for a quantity of 1. Quantities are whole numbers of the
instrument's units, times are Unix nanoseconds. Amounts of money are integers in a power of ten of the currency that is
fine enough for exact products of prices, quantities and multiplier (`AmountScale`): 1e-9 for shares.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from riskroute.core.instrument import Instrument

NANO = 10**9  # prices of 1e-9 in a price of 1, and nanoseconds in a second
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]  # by ten bits: four times as fast as `b32encode`
ReportKind = Literal[
    "acknowledged", "filled", "cancelled", "rejected", "expired", "busted", "corrected", "cancel_rejected", "not_known"
]
_Value = TypeVar("_Value")
_touched: tuple[tuple[VenueQuote, ...], tuple[int, int]] = ((), (0, 0))  # the last answer of `touch_prices`


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Base class of all records, which the garbage collector skips because they have no reference cycles."""


def encode_record(value: Any) -> bytes:
    """Encode records as msgpack, or as JSON if a number exceeds 64 bits, which msgpack cannot hold.

    Examples
    --------
    >>> encode_record([2**64]), decode_record(encode_record([2**64]), list[int])
    (b'[18446744073709551616]', [18446744073709551616])
    """
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:
        return msgspec.json.encode(value)


def decode_record(body: bytes, kind: type[_Value]) -> _Value:
    """Decode what `encode_record` encoded; raise `msgspec.MsgspecError` if that fails."""
    msgpack, json = _decoders(kind)  # type: ignore[arg-type]  # types are hashable
    # in msgpack, these bytes are integers, never records or lists
    found: _Value = (json if body[:1] in (b"{", b"[") else msgpack).decode(body)
    return found


@lru_cache
def _decoders(kind: Any) -> tuple[msgspec.msgpack.Decoder[Any], msgspec.json.Decoder[Any]]:
    return msgspec.msgpack.Decoder(kind), msgspec.json.Decoder(kind)


# instruments and amounts


class AmountScale(NamedTuple):
    """The amounts of an instrument: of one unit at a price of 1e-9, and of 1 in the quote currency; its tick in 1e-9.

    Examples
    --------
    >>> amount_scale("")
    AmountScale(unit=1, one=1000000000, tick=10000000)
    >>> amount_scale('{"unit":"0.00001","multiplier":"50"}')
    AmountScale(unit=5, one=10000000000000, tick=10000000)
    """

    unit: int
    one: int
    tick: int

    @property
    def at_one(self) -> int:
        """The amount of one unit at a price of 1."""
        return self.unit * NANO

    def nanos(self, amount: float) -> int:
        """Return an amount in 1e-9 of the currency, rounded: amounts of several instruments have this in common."""
        if self.one == NANO:
            return round(amount)
        exact = amount if isinstance(amount, int) else round(amount)
        return (2 * exact * NANO + self.one) // (2 * self.one)

    def natural(self, amount: int) -> Decimal:
        """Return an amount in the currency, exactly."""
        return scaled_decimal(amount, self.one)


def scaled_decimal(number: int, one: int = NANO) -> Decimal:
    """Return ``number / one`` exactly; ``one`` is a power of ten.

    Examples
    --------
    >>> scaled_decimal(10_020_000_000), scaled_decimal(-25, 1000)
    (Decimal('10.02'), Decimal('-0.025'))
    """
    whole, rest = divmod(abs(number), one)
    digits = f"{rest:0{len(str(one)) - 1}d}".rstrip("0") if rest else ""
    return Decimal(f"{'-' if number < 0 else ''}{whole}{'.' if digits else ''}{digits}")


def quotient(amount: int, other: int) -> Decimal:
    """Return the ratio of two amounts, such as an average price: exactly if it has up to 28 digits, else rounded.

    Examples
    --------
    >>> quotient(3003, 300), quotient(1, 3)
    (Decimal('10.01'), Decimal('0.3333333333333333333333333333'))
    """
    return Decimal(amount) / other


@lru_cache(4096)
def terms_of(instrument: Instrument) -> str:
    """Return the terms of an instrument, with which its orders are logged: JSON of the fields without their default."""
    default, values = Instrument().to_json(), instrument.to_json() | {"symbol": ""}
    default["lot"] = values["unit"]
    terms = {name: value for name, value in values.items() if value != default[name]}
    return json.dumps(terms, separators=(",", ":")) if terms else ""


@lru_cache(4096)
def instrument_of(symbol: str, terms: str) -> Instrument:
    """Return the instrument of a symbol with these terms."""
    return Instrument(symbol, **json.loads(terms or "{}"))


@lru_cache(4096)
def amount_scale(terms: str) -> AmountScale:
    """Return the scale of the amounts of an instrument with these terms."""
    instrument = instrument_of("", terms)
    unit, one = Fraction(instrument.unit) * Fraction(instrument.multiplier), NANO
    tick = int(instrument.tick * NANO)
    while unit.denominator > 1 or (tick % 2 and unit % 2):  # a mid may lie half of 1e-9 above a price
        unit, one = unit * 10, one * 10
    return AmountScale(int(unit), one, tick)


def minimum_units(terms: str, value: int) -> int:
    """Return the smallest order that venues accept, in units, for the amount of one unit at the mid.

    Examples
    --------
    >>> terms = '{"unit":"0.001","lot":"0.01","minimum_quantity":"0.005","minimum_notional":"10"}'
    >>> minimum_units(terms, 200 * amount_scale(terms).at_one)
    50
    """
    if "minimum" not in terms:
        return instrument_of("", terms).lot_units if "lot" in terms else 1
    instrument = instrument_of("", terms)
    notional = Fraction(instrument.minimum_notional) * amount_scale(terms).one / value
    least = max(Fraction(instrument.minimum_quantity) / Fraction(instrument.unit), notional, Fraction(1))
    return math.ceil(least / instrument.lot_units) * instrument.lot_units


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
    """A public trade; ``side`` is the resting order's, ``displayed`` the size shown at its price before it."""

    venue: str
    side: Literal["bid", "ask"]
    price: int
    shares: int
    at: int
    displayed: int = 0


class PoolQuote(Record, frozen=True):
    """A dark pool: fees as of a `VenueQuote`, and price improvement over the mid in half-spreads."""

    pool: str
    fee: int = 0
    improvement: float = 0.0
    rate: int = 0


def touch_prices(quotes: tuple[VenueQuote, ...]) -> tuple[int, int]:
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


class ParentOrder(Record, frozen=True):
    """An order to fill by its deadline at ``limit`` or better; ``key`` identifies it (idempotency key).

    ``terms`` are those of its instrument (`terms_of`); default: shares in dollars.
    """

    key: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: int
    deadline: int
    quotes: tuple[VenueQuote, ...]
    pools: tuple[PoolQuote, ...] = ()
    limit: int | None = None
    received: int = 0
    features: dict[str, float] = msgspec.field(default_factory=dict)
    terms: str = ""

    @property
    def sign(self) -> int:
        """1 for a buy order, -1 for a sell order."""
        return 1 if self.side == "buy" else -1

    @property
    def instrument(self) -> Instrument:
        """The instrument."""
        return instrument_of(self.symbol, self.terms)

    @property
    def scale(self) -> AmountScale:
        """The scale of amounts."""
        return amount_scale(self.terms)

    @property
    def mid(self) -> int:
        """The amount of one unit at the mid of the quotes."""
        bid, ask = touch_prices(self.quotes)
        return (bid + ask) * amount_scale(self.terms).unit // 2


@lru_cache(4096)
def order_id(stream: str, key: str) -> str:
    """Return the id of an order, which is the beginning of its children's ids."""
    number = int.from_bytes(blake2b(f"{stream}\x1f{key}".encode(), digest_size=10).digest())
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])


def natural_quantity(instrument: Instrument, units: int) -> Decimal:
    """Return a number of units as a natural quantity, without trailing zeros or an exponent above 0.

    Examples
    --------
    >>> natural_quantity(Instrument(unit=10), 3), natural_quantity(Instrument(unit="0.01"), 30)
    (Decimal('30'), Decimal('0.3'))
    """
    quantity = (units * instrument.unit).normalize()
    return quantity if quantity.as_tuple().exponent <= 0 else Decimal(int(quantity))  # type: ignore[operator]  # finite


def natural_plan(plan: dict[str, Any], instrument: Instrument) -> dict[str, Any]:
    """Return a plan with natural quantities instead of units.

    Examples
    --------
    >>> natural_plan({"order": "a", "take": {"A": 25}}, Instrument(unit="0.01"))
    {'order': 'a', 'take': {'A': Decimal('0.25')}}
    """
    if instrument.unit == 1:
        return plan
    quantities = {
        name: {place: natural_quantity(instrument, units) for place, units in plan[name].items()}
        for name in ("dark", "dark_rest", "limit", "take")
        if name in plan
    }
    return plan | quantities


class Decision(Record, frozen=True):
    """The plan for an order, with the router, belief and ticket that it is from.

    If the safe router made the plan, ``safe`` is the reason; otherwise it is empty. ``consulted`` is whether the
    configured router was asked. ``probability`` is the probability with which the router chose the plan; unset if
    unknown, because the plan follows from a posterior draw.
    """

    parent: str
    router: str
    belief: int
    ticket: int
    plan: dict[str, Any]
    at: int
    probability: float | msgspec.UnsetType | None = msgspec.UNSET
    seed: int | None = None
    safe: str = ""
    consulted: bool = True


class ChildOrder(Record, frozen=True):
    """A child order, which is immediate or cancel (``until`` 0) or rests until the time ``until``."""

    id: str
    parent: str
    slot: int
    attempt: int
    kind: Literal["dark", "dark_rest", "limit", "take", "sweep"]
    place: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: int
    limit: int | None = None
    until: int = 0

    @property
    def immediate(self) -> bool:
        """Whether the time in force is immediate or cancel."""
        return self.until == 0


class ExecutionReport(Record, frozen=True):
    """An execution report of a venue, identified by venue, session day and exec id.

    ``cum`` and ``leaves`` are totals of the child; ``quantity``, ``price`` and ``fee`` (an amount, in total) are of
    this fill.
    ``reference`` is the exec id of the fill, or of its last correction, that a bust or correction replaces.
    ``not_known`` answers a query: the venue does not have the child, and no message under way will bring it there.
    """

    venue: str
    day: str
    exec_id: str
    child: str
    kind: ReportKind
    at: int
    cum: int = 0
    leaves: int = 0
    quantity: int = 0
    price: int = 0
    fee: int = 0
    reference: str = ""
    text: str = ""
    raw: bytes = b""

    @property
    def key(self) -> str:
        """Key that identifies the report, as `report_key` returns it."""
        return f"{self.venue}\x1f{self.day}\x1f{self.exec_id}"


def report_key(venue: str, day: str, exec_id: str) -> str:
    """Return the key of a report; it includes venue and day because exec ids alone are not unique."""
    return f"{venue}\x1f{day}\x1f{exec_id}"


class ChildOutcome(Record, frozen=True):
    """The outcome of one child or, if ``marked``, of the unfilled remainder.

    ``money`` and ``fees`` are amounts; ``money`` is the cost against the arrival mid without fees, negative for a
    saving.
    """

    slot: int
    attempt: int
    kind: str
    place: str
    sent: int
    filled: int
    money: int
    fees: int
    sent_at: int
    last_fill: int
    done_at: int
    marked: bool = False


class OrderOutcome(Record, frozen=True):
    """The outcome of an order, from which the router learns exactly once.

    ``cost`` is an amount against the arrival mid, fees included, with the remainder valued at the far touch. ``mid`` is
    the amount of one unit at the arrival mid. ``late``: settled after the deadline; ``busted``: a fill was busted or
    corrected before the settlement.
    """

    parent: str
    symbol: str
    sign: int
    filled: int
    left: int
    mid: int
    cost: int
    children: tuple[ChildOutcome, ...]
    at: int
    marked: bool = False
    late: bool = False
    busted: bool = False
    terms: str = ""

    @property
    def scale(self) -> AmountScale:
        """The scale of amounts."""
        return amount_scale(self.terms)
