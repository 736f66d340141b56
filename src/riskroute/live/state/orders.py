"""Records of the live router: books, parent orders, decisions, child orders, execution reports and outcomes.

Prices and amounts are integers in units of 1e-9 dollars (`NANO`). Shares are integers. Times are nanoseconds since
1970.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec

NANO = 10**9  # units of money in a dollar, and nanoseconds in a second
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]  # by ten bits: four times as fast as `b32encode`
ReportKind = Literal[
    "acknowledged", "filled", "cancelled", "rejected", "expired", "busted", "corrected", "cancel_rejected", "not_known"
]
_touched: tuple[tuple[VenueQuote, ...], tuple[int, int]] = ((), (0, 0))  # the last answer of `touch_prices`


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Base class of all records, which the garbage collector skips because they have no reference cycles."""


class VenueQuote(Record, frozen=True):
    """The displayed book of a venue at time ``at``: prices with sizes, best first, and fees per share."""

    venue: str
    bids: tuple[tuple[int, int], ...] = ()
    asks: tuple[tuple[int, int], ...] = ()
    taker: int = 0
    maker: int = 0
    at: int = 0


class MarketTrade(Record, frozen=True):
    """A public trade; ``side`` is that of the resting order, ``displayed`` the size shown at the price just before."""

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
    """An order to fill by its deadline at ``limit`` or better; ``key`` is its idempotency key."""

    key: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: int
    deadline: int
    quotes: tuple[VenueQuote, ...]
    pools: tuple[PoolQuote, ...] = ()
    limit: int | None = None
    lot: int = 1
    tick: int = NANO // 100
    received: int = 0
    features: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def sign(self) -> int:
        """1 for a buy order, -1 for a sell order."""
        return 1 if self.side == "buy" else -1


@lru_cache(4096)
def order_id(stream: str, key: str) -> str:
    """Return the id of an order, which is the beginning of its children's ids."""
    number = int.from_bytes(blake2b(f"{stream}\x1f{key}".encode(), digest_size=10).digest())
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])


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

    ``cum`` and ``leaves`` are totals of the child; ``quantity``, ``price`` and the total ``fee`` are of this fill. For
    a bust or correction, ``reference`` is the exec id of the fill that it replaces, or of the fill's last correction.
    The kind ``not_known`` answers a query: the venue does not have the child, and will not receive it later.
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

    ``money`` is the cost against the arrival mid without fees; it is negative for a saving.
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

    ``cost`` is relative to the arrival mid and includes fees; unfilled shares are valued at the price at which they
    were marked. ``late`` is whether the order was settled after its deadline, ``busted`` whether a fill was busted or
    corrected before.
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
