"""The fold: from one state and one event to the next state, and to what must be done about it.

There is no clock here, no input or output and no randomness, so that the same log gives the same state anywhere. The
state is changed in place, since a million events must be folded in seconds; `apply` is the only way to change it.

How reports become fills:

- A report is known by venue, session day and exec id; what comes again is counted and otherwise ignored.
- Fills are booked as they come, in any sequence. A bust takes the fill that it names back, a correction replaces it,
  whichever comes first.
- A venue that is done with a child says how many shares it has counted. If fewer are booked, fills are on their way:
  the child is done when they have come.
- An order is settled when no child holds shares and all shares are filled, or the rest was given up and marked. It is
  learned then, once; what comes later corrects positions and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from riskroute.core.errors import StateError
from riskroute.live.state import trading_state
from riskroute.live.state.events import (
    Accepted,
    AnyEvent,
    ChildOrder,
    Declined,
    Expired,
    Halted,
    Intended,
    Marked,
    MarketObserved,
    Planned,
    Quoted,
    Recalled,
    Reported,
    Resumed,
    Sent,
    Settled,
    Shadowed,
    Unanswered,
    Withheld,
    touch_prices,
)
from riskroute.live.state.fills import book_report
from riskroute.live.state.settlement import cancel_open_children, finish_child, go_on, venue_use
from riskroute.live.state.trading_state import (
    DAY,
    ChildState,
    DayUse,
    Effect,
    Learn,
    ParentState,
    Query,
    Send,
    SymbolUse,
    TradingState,
)


def apply(state: TradingState, event: AnyEvent) -> tuple[TradingState, list[Effect]]:
    """Return the state after an event, which is the same object, and what is to be done."""
    at = event.at
    if at > state.now:
        state.now = at
        if at // DAY > state.day.day:
            _new_day(state, at // DAY)
    state.events += 1
    effects: list[Effect] = []
    _HANDLERS[type(event)](state, event, effects)
    if len(state.recent) > trading_state.SETTLED_KEPT + trading_state.PACKED_TOGETHER:
        trading_state.archive_settled(state, trading_state.SETTLED_KEPT)
    return state, effects


def fold(state: TradingState, events: Iterable[AnyEvent]) -> TradingState:
    """Apply many events and forget what they ask for."""
    for event in events:
        apply(state, event)
    return state


def _new_day(state: TradingState, day: int) -> None:
    """Begin a day: its limits start from nothing, and orders settled before yesterday are dropped."""
    state.day = DayUse(day=day)
    for use in state.venues.values():
        use.rejects = 0
    for key in [key for key in state.recent if state.parents[key].settled_day < day - 1]:
        del state.recent[key]
        gone = state.parents.pop(key)
        state.retired[key] = gone.digest
        for name in gone.children:
            child = state.children.pop(name)
            for execution in child.executions:
                del state.executions[execution]
            for report in child.reports:
                del state.reports[report]
    for key in [key for key, packed in state.archive.items() if packed.day < day - 1]:
        packed = state.archive.pop(key)
        state.retired[key] = packed.digest
        for name in packed.children:
            del state.owners[name]


# orders and children


def _accepted(state: TradingState, event: Accepted, effects: list[Effect]) -> None:
    order = event.order
    if order.key in state.parents or order.key in state.archive or order.key in state.retired:
        state.duplicates += 1
        return
    bid, ask = touch_prices(order.quotes)
    mid = (bid + ask) // 2
    parent = ParentState(order, event.decision, mid, event.digest)
    state.parents[order.key] = parent
    state.unsettled[order.key] = None
    state.decisions += 1
    use = state.symbols.setdefault(order.symbol, SymbolUse())
    use.quantity += order.quantity
    use.notional += order.quantity * mid
    state.day.orders += 1
    state.day.quantity += order.quantity
    state.day.notional += order.quantity * mid
    _intend(state, parent, event.children, effects)
    go_on(state, parent, effects)


def _declined(state: TradingState, event: Declined, effects: list[Effect]) -> None:
    state.declined += 1


def _intended(state: TradingState, event: Intended, effects: list[Effect]) -> None:
    parent = _parent(state, event.parent)
    if not parent.settled:
        parent.closing_sweeps += parent.closing
        _intend(state, parent, event.children, effects)


def _intend(state: TradingState, parent: ParentState, children: tuple[ChildOrder, ...], effects: list[Effect]) -> None:
    for child in children:
        if child.id in state.children:
            state.duplicates += 1
            continue
        state.children[child.id] = ChildState(child)
        parent.children.append(child.id)
        parent.open += 1
        parent.held += child.quantity
        venue_use(state, child.place).open += 1
        effects.append(Send(child))


def _sent(state: TradingState, event: Sent, effects: list[Effect]) -> None:
    child = _child(state, event.child)
    child.sends += 1
    child.sent_at = child.sent_at or event.at
    if child.status == "intended":
        child.status = "sent"


def _withheld(state: TradingState, event: Withheld, effects: list[Effect]) -> None:
    child = _child(state, event.child)
    if not child.done and child.filled == 0 and child.final < 0:
        finish_child(state, child, "withheld", event.at, effects)


def _unanswered(state: TradingState, event: Unanswered, effects: list[Effect]) -> None:
    child = _child(state, event.child)
    if not child.done:
        if child.final < 0:
            child.status = "unknown"
            state.unknown[child.order.id] = None
        effects.append(Query(child.order))
        go_on(state, state.parents[child.order.parent], effects)  # other shares do not wait for a silent venue


def _recalled(state: TradingState, event: Recalled, effects: list[Effect]) -> None:
    cancel_open_children(state, _parent(state, event.parent), effects, event.kind)


def _expired(state: TradingState, event: Expired, effects: list[Effect]) -> None:
    parent = _parent(state, event.parent)
    if parent.settled or parent.closing:
        return
    parent.closing = True
    cancel_open_children(state, parent, effects)
    go_on(state, parent, effects)


def _marked(state: TradingState, event: Marked, effects: list[Effect]) -> None:
    parent = _parent(state, event.parent)
    if not parent.settled:
        parent.marked = event.price
        go_on(state, parent, effects)


# the rest


def _settled(state: TradingState, event: Settled, effects: list[Effect]) -> None:
    outcome, totals = event.outcome, state.totals
    parent = state.parents.get(outcome.parent)
    if parent is None or parent.recorded:
        return
    parent.recorded, parent.outcome = True, None
    totals.settle(outcome)
    if event.benchmark_cost is not None:
        totals.save(event.benchmark_cost - outcome.cost, parent.order.quantity * outcome.mid, event.guessed)
    if event.explored is not None:
        totals.explored += event.explored
        totals.explored_orders += 1


def _shadowed(state: TradingState, event: Shadowed, effects: list[Effect]) -> None:
    order, outcome = event.order, event.outcome
    if order.key in state.parents or order.key in state.retired:
        state.duplicates += 1
        return
    state.retired[order.key] = event.digest
    state.decisions += 1
    state.settled += 1
    state.day.orders += 1
    state.totals.settle(outcome)
    state.totals.save(outcome.cost - event.estimate, order.quantity * outcome.mid, event.guessed)
    effects.append(Learn(outcome, order))


def _told(state: TradingState, event: Quoted | MarketObserved, effects: list[Effect]) -> None:
    """Data of the market are no part of what is booked."""


def _planned(state: TradingState, event: Planned, effects: list[Effect]) -> None:
    state.belief = event.belief


def _halted(state: TradingState, event: Halted, effects: list[Effect]) -> None:
    state.halted, state.halted_by = state.halted or event.reason or "halted", state.halted_by or event.by
    for key in state.unsettled:
        cancel_open_children(state, state.parents[key], effects)


def _resumed(state: TradingState, event: Resumed, effects: list[Effect]) -> None:
    state.halted = state.halted_by = ""
    for use in state.venues.values():
        use.rejects_in_a_row = 0


def _parent(state: TradingState, key: str) -> ParentState:
    if key in state.archive:
        trading_state.unpack_order(state, key)
    try:
        return state.parents[key]
    except KeyError:
        raise StateError(f"parent must be an order that was accepted, was {key!r}") from None


def _child(state: TradingState, name: str) -> ChildState:
    if name in state.owners:
        trading_state.unpack_order(state, state.owners[name])
    try:
        return state.children[name]
    except KeyError:
        raise StateError(f"child must be one that was intended, was {name!r}") from None


_HANDLERS: dict[type, Callable[[TradingState, Any, list[Effect]], None]] = {
    Accepted: _accepted,
    Declined: _declined,
    Intended: _intended,
    Sent: _sent,
    Withheld: _withheld,
    Unanswered: _unanswered,
    Reported: book_report,
    Recalled: _recalled,
    Expired: _expired,
    Marked: _marked,
    Settled: _settled,
    Shadowed: _shadowed,
    Quoted: _told,
    MarketObserved: _told,
    Planned: _planned,
    Halted: _halted,
    Resumed: _resumed,
}
