"""Records of orders: parent orders, decisions, child orders and their outcomes.

Prices and amounts are integers (`riskroute.live.state.amounts`), quantities whole numbers of the instrument's units,
times Unix nanoseconds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from riskroute.core.instrument import Instrument, instrument_from_terms, natural_quantity
from riskroute.core.records import Record
from riskroute.live.state.amounts import AmountScale, amount_scale
from riskroute.live.state.quotes import PoolQuote, VenueQuote, quoted_touch

_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]  # by ten bits: four times as fast as `b32encode`


def minimum_order_units(terms: str, value: int) -> int:
    """Return the smallest order that venues accept, in units, for the amount of one unit at the mid.

    Examples
    --------
    >>> terms = '{"unit":"0.001","lot":"0.01","minimum_quantity":"0.005","minimum_notional":"10"}'
    >>> minimum_order_units(terms, 200 * amount_scale(terms).at_one)
    50
    """
    if "minimum" not in terms:
        return instrument_from_terms("", terms).lot_units if "lot" in terms else 1
    instrument = instrument_from_terms("", terms)
    notional = Fraction(instrument.minimum_notional) * amount_scale(terms).one / value
    least = max(Fraction(instrument.minimum_quantity) / Fraction(instrument.unit), notional, Fraction(1))
    return math.ceil(least / instrument.lot_units) * instrument.lot_units


class ParentOrder(Record, frozen=True):
    """An order to fill by its deadline at ``limit`` or better; ``key`` identifies it (idempotency key).

    ``terms`` are its instrument's terms as text (`instrument_terms`); default: shares in dollars.
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
        return instrument_from_terms(self.symbol, self.terms)

    @property
    def scale(self) -> AmountScale:
        """The scale of amounts."""
        return amount_scale(self.terms)

    @property
    def mid(self) -> int:
        """The amount of one unit at the mid of the quotes."""
        bid, ask = quoted_touch(self.quotes)
        return (bid + ask) * amount_scale(self.terms).unit // 2


@lru_cache(4096)
def order_id(stream: str, key: str) -> str:
    """Return the id of an order, which is the beginning of its children's ids."""
    number = int.from_bytes(blake2b(f"{stream}\x1f{key}".encode(), digest_size=10).digest())
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])


def natural_order_plan(plan: dict[str, Any], instrument: Instrument) -> dict[str, Any]:
    """Return a plan with natural quantities instead of units.

    Examples
    --------
    >>> natural_order_plan({"order": "a", "take": {"A": 25}}, Instrument(unit="0.01"))
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


class OrderDecision(Record, frozen=True):
    """The plan for an order, and the router, belief and ticket that produced it.

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
    """A child order, which is immediate or cancel (``until`` 0) or rests until the time ``until``.

    ``idempotent``: its venue refuses a second order with the same id, so it may be sent again.
    """

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
    idempotent: bool = True

    @property
    def immediate(self) -> bool:
        """Whether the time in force is immediate or cancel."""
        return self.until == 0


class ChildOrderOutcome(Record, frozen=True):
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
    children: tuple[ChildOrderOutcome, ...]
    at: int
    marked: bool = False
    late: bool = False
    busted: bool = False
    terms: str = ""

    @property
    def scale(self) -> AmountScale:
        """The scale of amounts."""
        return amount_scale(self.terms)


def order_digest(order: ParentOrder) -> bytes:
    """Hash the client's terms, without quotes: a retry with the same key may bring newer books."""
    unit = str(order.instrument.unit)
    wanted = order.symbol, order.side, order.quantity, order.limit, order.deadline, unit
    return blake2b(msgspec.msgpack.encode(wanted), digest_size=12).digest()
