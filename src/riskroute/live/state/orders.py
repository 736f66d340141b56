"""Orders and quotes of the live router: books, parent orders, decisions, child orders, execution reports and outcomes.

Money and prices are integers in units of 1e-9 dollars (`NANO`), shares are integers, times are Unix nanoseconds.
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
    """A public trade; ``side`` is the resting order's, ``displayed`` the shares shown at its price before it."""

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


class ParentOrder(Record, frozen=True):
    """An order to fill by its deadline at ``limit`` or better; ``key`` identifies it (idempotency key)."""

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
    """Return the id of an order, with which the ids of its children begin."""
    number = int.from_bytes(blake2b(f"{stream}\x1f{key}".encode(), digest_size=10).digest())
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])


class Decision(Record, frozen=True):
    """The plan for an order, with the router, belief and ticket it came from.

    ``safe`` is why the safe router decided instead; empty otherwise. ``consulted`` is whether the router was asked.
    ``probability`` is the probability of the plan; unset where unknown, for plans that follow from a posterior draw.
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
    """A child order: immediate or cancel, or resting until a time."""

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
    """An execution report of a venue, unique by venue, session day and exec id.

    ``cum`` and ``leaves`` are totals of the child; ``quantity``, ``price`` and ``fee`` (in total) are of this fill.
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
        """The key that identifies the report; see `report_key`."""
        return f"{self.venue}\x1f{self.day}\x1f{self.exec_id}"


def report_key(venue: str, day: str, exec_id: str) -> str:
    """Return the key of a report: exec ids repeat between venues and from day to day."""
    return f"{venue}\x1f{day}\x1f{exec_id}"


class ChildOutcome(Record, frozen=True):
    """The outcome of one child, or (``marked``) of the unfilled remainder.

    ``money`` is the cost against the arrival mid without fees; negative for a saving.
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
    """The outcome of an order, learned exactly once.

    ``cost`` is against the arrival mid, fees included, with the remainder valued at the far touch. ``late``: settled
    after the deadline; ``busted``: a fill was busted or corrected before the settlement.
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
