"""Records of the live router and events of its log: orders, decisions, child orders, execution reports, outcomes.

Money and prices are integers of 1e-9 dollars (`NANO`), shares are integers, times are nanoseconds since 1970 in UTC.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec

NANO = 10**9  # units of money in a dollar, and nanoseconds in a second


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
    features: dict[str, float] = {}

    @property
    def sign(self) -> int:
        """1 for a buy order, -1 for a sell order."""
        return 1 if self.side == "buy" else -1


_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]  # by ten bits: four times as fast as `b32encode`


@lru_cache(4096)
def order_id(stream: str, key: str) -> str:
    """Return the id of an order, with which the ids of its children begin."""
    number = int.from_bytes(blake2b(f"{stream}\x1f{key}".encode(), digest_size=10).digest())
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])


class Decision(Record, frozen=True):
    """The plan for an order, with the router, belief and ticket it came from.

    ``safe`` is why the safe router decided instead; empty otherwise. ``consulted`` is whether the router was asked.
    ``probability`` is that of the plan; unset where it is unknown, for plans that follow from a posterior draw.
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


ReportKind = Literal[
    "acknowledged", "filled", "cancelled", "rejected", "expired", "busted", "corrected", "cancel_rejected", "not_known"
]


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


class Outcome(Record, frozen=True):
    """The outcome of an order, learned exactly once.

    ``cost`` is against the arrival mid, fees included, with the remainder valued at the far touch. ``late``: settled
    after the deadline; ``busted``: a fill was busted or corrected before.
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


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower, gc=False):
    """Base class of the events in the log; ``at`` is the engine's time."""

    at: int


class Accepted(Event, frozen=True):
    """An order, its decision and its first children, which are sent once this is durable.

    ``digest`` detects another order with the same key.
    """

    order: ParentOrder
    decision: Decision
    children: tuple[ChildOrder, ...]
    digest: bytes = b""


class Declined(Event, frozen=True):
    """An order that was refused after the router had decided; it was never accepted."""

    order: ParentOrder
    plan: dict[str, Any]
    reason: str


class Intended(Event, frozen=True):
    """Further children of an order."""

    parent: str
    children: tuple[ChildOrder, ...]


class Sent(Event, frozen=True):
    """A child was sent to its venue."""

    child: str


class Withheld(Event, frozen=True):
    """A child will never be sent."""

    child: str
    reason: str = ""


class Unanswered(Event, frozen=True):
    """A venue did not answer in time: the child is unknown until it does."""

    child: str


class Reported(Event, frozen=True):
    """An execution report arrived."""

    report: ExecutionReport


class Recalled(Event, frozen=True):
    """Resting children of a kind are cancelled."""

    parent: str
    kind: str


class Expired(Event, frozen=True):
    """The deadline of an order has passed: its children are cancelled."""

    parent: str


class Marked(Event, frozen=True):
    """The remainder of an order is given up and marked at a price."""

    parent: str
    price: int


class Settled(Event, frozen=True):
    """The outcome of an order; fills follow from the reports alone.

    ``benchmark_cost`` is the counterfactual cost with ``dark-first+sweep``, ``guessed`` the shares of that estimate
    whose fill is not known, and ``explored`` the cost beyond that of the greedy plan (None where not computed).
    """

    outcome: Outcome
    benchmark_cost: int | None = None
    guessed: int = 0
    explored: int | None = None


class Shadowed(Event, frozen=True):
    """An order that another router executed, and our decision for it.

    ``theirs`` is the plan that matches their children, ``outcome`` the outcome of those; ``estimate`` is the
    counterfactual cost of our decision, with ``guessed`` shares whose fill is not known.
    """

    order: ParentOrder
    decision: Decision
    theirs: dict[str, Any]
    outcome: Outcome
    estimate: int
    guessed: int
    digest: bytes


class Quoted(Event, frozen=True):
    """Books and trades of a symbol from the market data feed."""

    symbol: str
    quotes: tuple[VenueQuote, ...]
    trades: tuple[MarketTrade, ...] = ()


class MarketObserved(Event, frozen=True):
    """Public data up to the deadline of an order: price, shares ahead and outflow of each venue's queue.

    ``closing`` are the books at the deadline, ``trades`` those since the last such event.
    """

    order: ParentOrder
    queues: dict[str, tuple[int, int, int]]
    closing: tuple[VenueQuote, ...]
    trades: tuple[MarketTrade, ...] = ()


class Planned(Event, frozen=True):
    """A new belief: the router's state after learning from everything settled up to event ``after``."""

    belief: int
    router: str
    after: int
    learned: int
    state: bytes


class Halted(Event, frozen=True):
    """Trading is halted: no new children, and open ones are cancelled, until it is resumed."""

    reason: str
    by: str


class Resumed(Event, frozen=True):
    """Trading is resumed."""

    by: str


AnyEvent = (
    Accepted
    | Declined
    | Intended
    | Sent
    | Withheld
    | Unanswered
    | Reported
    | Recalled
    | Expired
    | Marked
    | Settled
    | Shadowed
    | Quoted
    | MarketObserved
    | Planned
    | Halted
    | Resumed
)


_touched: tuple[tuple[VenueQuote, ...], tuple[int, int]] = ((), (0, 0))  # the last answer of `touch_prices`


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
