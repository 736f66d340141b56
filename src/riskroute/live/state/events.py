"""Events in the live router's log; folding them in order gives its state."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder, OrderDecision, OrderOutcome, ParentOrder
from riskroute.live.state.quotes import MarketTrade, VenueQuote


def _event_tag(name: str) -> str:
    return name.removesuffix("Event").lower()


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=_event_tag, gc=False):
    """Base class of the events in the log; ``at`` is the engine's time in nanoseconds since 1970."""

    at: int


class AcceptedEvent(Event, frozen=True):
    """An order was accepted, with a decision and first children, which are sent once this event is durable.

    ``digest`` is the order's `order_digest`, to detect a different order with the same key.
    """

    order: ParentOrder
    decision: OrderDecision
    children: tuple[ChildOrder, ...]
    digest: bytes = b""


class DeclinedEvent(Event, frozen=True):
    """An order was refused after the router had planned it."""

    order: ParentOrder
    plan: dict[str, Any]
    reason: str


class IntendedEvent(Event, frozen=True):
    """Further children of an order will be sent."""

    parent: str
    children: tuple[ChildOrder, ...]


class SentEvent(Event, frozen=True):
    """A child was sent to its venue."""

    child: str


class WithheldEvent(Event, frozen=True):
    """A child will never be sent."""

    child: str
    reason: str = ""


class UnansweredEvent(Event, frozen=True):
    """A venue did not answer in time; the status of the child is unknown until the venue answers."""

    child: str


class ReportedEvent(Event, frozen=True):
    """An execution report arrived."""

    report: ExecutionReport


class RecalledEvent(Event, frozen=True):
    """The resting children of one kind of an order are cancelled."""

    parent: str
    kind: str


class ExpiredEvent(Event, frozen=True):
    """The deadline of an order has passed; its resting children are cancelled."""

    parent: str


class MarkedEvent(Event, frozen=True):
    """The unfilled shares of an order are abandoned; its cost counts them as traded at ``price``."""

    parent: str
    price: int


class SettledEvent(Event, frozen=True):
    """An order was settled, with this outcome; positions follow from the execution reports, not from this event.

    ``benchmark_cost`` is the counterfactual cost with ``dark-first+sweep``, ``guessed`` the units in this estimate
    whose fill is not known, and ``explored`` the order's cost less the estimated cost of the greedy plan (None if not
    computed).
    """

    outcome: OrderOutcome
    benchmark_cost: int | None = None
    guessed: int = 0
    explored: int | None = None


class ShadowedEvent(Event, frozen=True):
    """Another router executed an order, for which this router made a decision without sending children.

    ``theirs`` is the plan that matches the other router's children, ``outcome`` their outcome; ``estimate`` is the
    counterfactual cost of our decision, with ``guessed`` units whose fill is not known.
    """

    order: ParentOrder
    decision: OrderDecision
    theirs: dict[str, Any]
    outcome: OrderOutcome
    estimate: int
    guessed: int
    digest: bytes


class QuotedEvent(Event, frozen=True):
    """Books and trades of a symbol from the market data feed, with the terms of its instrument."""

    symbol: str
    quotes: tuple[VenueQuote, ...]
    trades: tuple[MarketTrade, ...] = ()
    terms: str = ""


class MarketObservedEvent(Event, frozen=True):
    """Public data were observed up to the deadline of an order.

    ``queues`` has price, shares ahead and outflow of the queue at each venue. ``closing`` are the books at the
    deadline, ``trades`` the public trades in the symbol since its previous event of this type.
    """

    order: ParentOrder
    queues: dict[str, tuple[int, int, int]]
    closing: tuple[VenueQuote, ...]
    trades: tuple[MarketTrade, ...] = ()


class PlannedEvent(Event, frozen=True):
    """The router has a new belief, its state after learning from all orders settled up to event ``after``."""

    belief: int
    router: str
    after: int
    learned: int
    state: bytes


class HaltedEvent(Event, frozen=True):
    """Trading is halted until it is resumed; resting children are cancelled, and no new ones are sent."""

    reason: str
    by: str


class ResumedEvent(Event, frozen=True):
    """Trading is resumed."""

    by: str


class PlaceUpEvent(Event, frozen=True):
    """A venue or pool can be used: its session is up, and it has reported on all children that were open before."""

    place: str


class PlaceDownEvent(Event, frozen=True):
    """A venue or pool cannot be used; contexts leave it out, and it gets no children."""

    place: str
    reason: str


class ReconciledEvent(Event, frozen=True):
    """The balances of a venue were compared with the positions booked there.

    ``offsets`` are balances less these positions, by currency, as decimal numbers. ``difference`` says by how much
    they have changed unexpectedly; empty if they have not.
    """

    place: str
    offsets: dict[str, Decimal]
    difference: str = ""


AnyEvent = (
    AcceptedEvent
    | DeclinedEvent
    | IntendedEvent
    | SentEvent
    | WithheldEvent
    | UnansweredEvent
    | ReportedEvent
    | RecalledEvent
    | ExpiredEvent
    | MarkedEvent
    | SettledEvent
    | ShadowedEvent
    | QuotedEvent
    | MarketObservedEvent
    | PlannedEvent
    | HaltedEvent
    | ResumedEvent
    | PlaceUpEvent
    | PlaceDownEvent
    | ReconciledEvent
)
