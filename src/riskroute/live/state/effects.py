"""Effects of events: what the engine must do once an event is durable."""

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
    """Ask for further children: an order has shares that no child holds."""

    parent: str


class LearnEffect(NamedTuple):
    """Learn from a settled order, once. ``order`` still has its books."""

    outcome: OrderOutcome
    order: ParentOrder


class AlertEffect(NamedTuple):
    """An inconsistency: trading must stop."""

    reason: str


Effect = SendEffect | CancelEffect | QueryEffect | NextEffect | LearnEffect | AlertEffect
