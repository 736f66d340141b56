"""Events of the live router's log, from which its state is folded."""

from __future__ import annotations

from typing import Any

import msgspec

from riskroute.live.state.orders import (
    ChildOrder,
    Decision,
    ExecutionReport,
    MarketTrade,
    OrderOutcome,
    ParentOrder,
    VenueQuote,
)


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

    ``benchmark_cost`` is the counterfactual cost with ``dark-first+sweep``, ``guessed`` the units of that estimate
    whose fill is not known, and ``explored`` the cost beyond that of the greedy plan (None where not computed).
    """

    outcome: OrderOutcome
    benchmark_cost: int | None = None
    guessed: int = 0
    explored: int | None = None


class Shadowed(Event, frozen=True):
    """An order that another router executed, and our decision for it.

    ``theirs`` is the plan that matches the other router's children, ``outcome`` their outcome; ``estimate`` is the
    counterfactual cost of our decision, with ``guessed`` units whose fill is not known.
    """

    order: ParentOrder
    decision: Decision
    theirs: dict[str, Any]
    outcome: OrderOutcome
    estimate: int
    guessed: int
    digest: bytes


class Quoted(Event, frozen=True):
    """Books and trades of a symbol from the market data feed, with the terms of its instrument."""

    symbol: str
    quotes: tuple[VenueQuote, ...]
    trades: tuple[MarketTrade, ...] = ()
    terms: str = ""


class MarketObserved(Event, frozen=True):
    """Public data up to the deadline of an order: price, shares ahead and outflow of each venue's queue.

    ``closing`` are the books at the deadline, ``trades`` the public trades since the last such event.
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
    """Trading is halted until it is resumed: open children are cancelled, and no new ones are sent."""

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
