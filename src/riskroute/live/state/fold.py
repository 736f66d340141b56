"""The fold: `apply` takes the state and one event to the next state and its effects.

There is no clock, no input or output and no randomness here, so the same log gives the same state on any machine. The
state is changed in place, because a million events must be folded in seconds.

- Reports are identified by venue, session day and exec id; duplicates are counted and ignored.
- Fills are booked in any sequence. A bust removes the fill it refers to, a correction replaces it, whichever arrives
  first.
- The last report of a child carries its cumulative quantity. If fewer shares are booked, fills are still on their way,
  and the child ends when they have arrived.
- An order is settled when no child holds shares and the rest is filled, or marked. It is learned then, exactly once;
  later reports correct positions and are counted.
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
from riskroute.live.state.fills import book_report, cancel_open_children, continue_order, finish_child, venue_use
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
    """Apply an event to the state in place; return the state and the effects."""
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
    """Apply many events and drop their effects."""
    for event in events:
        apply(state, event)
    return state


def _new_day(state: TradingState, day: int) -> None:
    """Reset the day's counters, and drop orders settled before yesterday."""
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
    continue_order(state, parent, effects)


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
        continue_order(state, state.parents[child.order.parent], effects)  # other shares do not wait for a silent venue


def _recalled(state: TradingState, event: Recalled, effects: list[Effect]) -> None:
    cancel_open_children(state, _parent(state, event.parent), effects, event.kind)


def _expired(state: TradingState, event: Expired, effects: list[Effect]) -> None:
    parent = _parent(state, event.parent)
    if parent.settled or parent.closing:
        return
    parent.closing = True
    cancel_open_children(state, parent, effects)
    continue_order(state, parent, effects)


def _marked(state: TradingState, event: Marked, effects: list[Effect]) -> None:
    parent = _parent(state, event.parent)
    if not parent.settled:
        parent.marked = event.price
        continue_order(state, parent, effects)


# outcomes, beliefs and halts


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


def _market_data(state: TradingState, event: Quoted | MarketObserved, effects: list[Effect]) -> None:
    """Change nothing: market data are not part of the state."""


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
        raise StateError(f"unknown order {key!r}: it was never accepted") from None


def _child(state: TradingState, name: str) -> ChildState:
    if name in state.owners:
        trading_state.unpack_order(state, state.owners[name])
    try:
        return state.children[name]
    except KeyError:
        raise StateError(f"unknown child {name!r}: it was never intended") from None


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
    Quoted: _market_data,
    MarketObserved: _market_data,
    Planned: _planned,
    Halted: _halted,
    Resumed: _resumed,
}
