"""Effects of events: the actions that the engine takes once an event is durable."""

from __future__ import annotations

from typing import NamedTuple

from riskroute.live.state.orders import ChildOrder, OrderOutcome, ParentOrder


class SendEffect(NamedTuple):
    """Send a child to its venue."""

    child: ChildOrder


class CancelEffect(NamedTuple):
    """Ask a venue to cancel a child."""

    child: ChildOrder


class QueryEffect(NamedTuple):
    """Ask a venue for the status of a child."""

    child: ChildOrder


class NextEffect(NamedTuple):
    """Ask the router's plan for further children, because no child holds some of an order's unfilled shares."""

    parent: str


class LearnEffect(NamedTuple):
    """Learn from a settled order; ``order`` still has the books at its arrival, which the state drops."""

    outcome: OrderOutcome
    order: ParentOrder


class AlertEffect(NamedTuple):
    """Halt trading because of an inconsistency."""

    reason: str


Effect = SendEffect | CancelEffect | QueryEffect | NextEffect | LearnEffect | AlertEffect
