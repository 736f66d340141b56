"""What the live router writes down: orders, decisions, child orders, reports, outcomes, and the events of the log.

Money and prices are whole numbers of 1e-9 dollars (`NANO`), shares are whole numbers, times are nanoseconds since 1970
in UTC. All records are frozen, and become bytes and back without loss.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

NANO = 10**9
"""Units of money in a dollar, and nanoseconds in a second."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Base class of all records: they are frozen and hold no cycles, so that nobody needs to look for any in them."""


class VenueQuote(Record, frozen=True):
    """The displayed book of a venue: prices with sizes, best first, fees a share, and when it was so."""

    venue: str
    bids: tuple[tuple[int, int], ...] = ()
    asks: tuple[tuple[int, int], ...] = ()
    taker: int = 0
    maker: int = 0
    at: int = 0


class MarketTrade(Record, frozen=True):
    """A trade that everybody saw: ``side`` is that of the order that rested, ``displayed`` its shares at that price."""

    venue: str
    side: Literal["bid", "ask"]
    price: int
    shares: int
    at: int
    displayed: int = 0


class PoolQuote(Record, frozen=True):
    """A dark pool: its fee a share, and in half-spreads how far from the mid it trades, in favour of the order."""

    pool: str
    fee: int = 0
    improvement: float = 0.0


class ParentOrder(Record, frozen=True):
    """An order, to be done by its deadline, at no worse than ``limit``; the same key is the same order."""

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


class Decision(Record, frozen=True):
    """How an order is split: by which router, with which belief, as which ticket, and how likely that was.

    ``safe`` says why the safe router was used instead, and is empty otherwise; ``consulted`` is whether the router was
    asked nevertheless. ``probability`` is left out where it is not known: of plans that follow from a drawn belief.
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
    """A child order. It is immediate or cancel, or rests until a time."""

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
        """Whether what is not filled at once comes back at once."""
        return self.until == 0


ReportKind = Literal[
    "acknowledged", "filled", "cancelled", "rejected", "expired", "busted", "corrected", "cancel_rejected", "not_known"
]


class ExecutionReport(Record, frozen=True):
    """What a venue says of a child order.

    (venue, session day, exec id) make it unique. ``cum`` and ``leaves`` are what the venue counts in all; ``quantity``,
    ``price`` and ``fee`` (for all of it) are of this fill. ``reference`` is the exec id that a bust takes back or a
    correction replaces: that of the fill, or of the last correction. ``not_known`` answers a query, and means that the
    venue does not have the child and will not get it any more from what was sent before.
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
        """What no two different reports share: as `report_key` has it."""
        return f"{self.venue}\x1f{self.day}\x1f{self.exec_id}"


def report_key(venue: str, day: str, exec_id: str) -> str:
    """Key of the report with this exec id: venues begin anew every day, and do not know each other's."""
    return f"{venue}\x1f{day}\x1f{exec_id}"


class ChildOutcome(Record, frozen=True):
    """What became of one child, or (``marked``) of the shares that nobody filled.

    ``money`` is the cost against the arrival mid without fees; a saving is negative.
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
    """What became of an order, as it is learned: once.

    ``sign`` is 1 for a buy order, -1 for a sell order. ``cost`` is against the arrival mid, with fees and with the
    remainder, valued at the far touch. ``late`` means that it was not done by its deadline, ``busted`` that a fill was
    taken back or corrected before.
    """

    parent: str
    symbol: str
    sign: int
    filled: int
    left: int
    mid: int
    cost: int
    slots: tuple[ChildOutcome, ...]
    at: int
    marked: bool = False
    late: bool = False
    busted: bool = False


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower, gc=False):
    """Base class of what the log holds; ``at`` is the engine's time."""

    at: int


class Accepted(Event, frozen=True):
    """An order, its decision and its first children, which are sent once this is durable.

    ``digest`` tells the order from another with the same key.
    """

    order: ParentOrder
    decision: Decision
    children: tuple[ChildOrder, ...]
    digest: bytes = b""


class Declined(Event, frozen=True):
    """An order that the router was asked about and that was refused all the same; it was never accepted."""

    order: ParentOrder
    plan: dict[str, Any]
    reason: str


class Intended(Event, frozen=True):
    """Further children of an order."""

    parent: str
    children: tuple[ChildOrder, ...]


class Sent(Event, frozen=True):
    """A child was handed to its venue."""

    child: str


class Withheld(Event, frozen=True):
    """A child was not sent, and never will be."""

    child: str
    reason: str = ""


class Unanswered(Event, frozen=True):
    """Nothing was heard of a child in time: it is unknown until its venue says more."""

    child: str


class Reported(Event, frozen=True):
    """A venue said something."""

    report: ExecutionReport


class Recalled(Event, frozen=True):
    """Resting children of a kind are to come back."""

    parent: str
    kind: str


class Expired(Event, frozen=True):
    """The deadline of an order has passed: its children are to come back."""

    parent: str


class Marked(Event, frozen=True):
    """The remainder of an order is given up and valued at a price."""

    parent: str
    price: int


class Settled(Event, frozen=True):
    """The outcome of an order, written down; what is booked follows from the reports alone.

    ``benchmark_cost`` is the counterfactual cost with ``dark-first+sweep``, ``guessed`` the shares of that estimate
    whose fill is not known, and ``explored`` the cost beyond that of the greedy plan (None where not computed).
    """

    outcome: Outcome
    benchmark_cost: int | None = None
    guessed: int = 0
    explored: int | None = None


class Shadowed(Event, frozen=True):
    """An order that another router has executed, and what ours would have done with it.

    ``theirs`` is the plan that their children amount to, ``outcome`` what became of those; ``estimate`` is what the
    order is estimated to have cost with our decision, with ``guessed`` shares whose fate is not known.
    """

    order: ParentOrder
    decision: Decision
    theirs: dict[str, Any]
    outcome: Outcome
    estimate: int
    guessed: int
    digest: bytes


class Quoted(Event, frozen=True):
    """Books and trades of a symbol, as somebody told us."""

    symbol: str
    quotes: tuple[VenueQuote, ...]
    trades: tuple[MarketTrade, ...] = ()


class MarketObserved(Event, frozen=True):
    """What everybody could see until the deadline of an order: price, shares ahead and outflow of queues by venue.

    ``closing`` are the books at the deadline, ``trades`` those since the last such event.
    """

    order: ParentOrder
    queues: dict[str, tuple[int, int, int]]
    closing: tuple[VenueQuote, ...]
    trades: tuple[MarketTrade, ...] = ()


class Planned(Event, frozen=True):
    """What a router believes from now on: its state, after what was settled up to row ``after`` of the log."""

    belief: int
    router: str
    after: int
    learned: int
    state: bytes


class Halted(Event, frozen=True):
    """No new children, and open ones come back, until somebody resumes."""

    reason: str
    by: str


class Resumed(Event, frozen=True):
    """Orders are accepted again."""

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


_touched: tuple[tuple[VenueQuote, ...], tuple[int, int]] = ((), (0, 0))


def touch_prices(quotes: tuple[VenueQuote, ...]) -> tuple[int, int]:
    """The best bid and the best ask of all venues; 0 where there is none.

    Who looks at the books of an order mostly looks again, so the last answer is kept.
    """
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
