"""How reports become fills: each once, in any sequence, with busts and corrections."""

from __future__ import annotations

from riskroute.live.state.events import ExecutionReport, Reported, report_key
from riskroute.live.state.settlement import finish_child, go_on, venue_use
from riskroute.live.state.trading_state import (
    Alert,
    ChildState,
    Correct,
    Effect,
    Execution,
    ParentState,
    Position,
    Send,
    TradingState,
    unpack_order,
)

_UNHEARD = frozenset(("intended", "sent", "unknown"))
_NO_FILLS = frozenset(("acknowledged", "cancelled", "rejected", "expired"))

MOST_SENDS = 3
"""A child that its venue does not know is sent again, so many times in all."""

ENDS = frozenset(("cancelled", "rejected", "expired"))
"""Reports after which a child is not at the venue any more."""


def book_report(state: TradingState, event: Reported, effects: list[Effect]) -> None:
    """Book what a venue says."""
    report = event.report
    key = report.key
    child = state.children.get(report.child)
    if child is None and report.child in state.owners:
        unpack_order(state, state.owners[report.child])
        child = state.children[report.child]
    if key in state.reports:
        state.duplicates += 1
        return
    if child is None:
        state.orphans += 1
        effects.append(Alert(f"{report.venue} reports a child that is not known, {report.child}"))
        return
    state.reports[key] = None
    child.reports.append(key)
    kind = report.kind
    if kind == "not_known":
        _not_known(state, child, event.at, effects)
        return
    if kind == "cancel_rejected":
        return
    _heard(state, child, report)
    if kind not in _NO_FILLS:
        _execute(state, child, report, key, effects)
    if kind in ENDS or (kind == "filled" and report.leaves == 0):
        if report.at >= child.final_at:
            child.final, child.final_at = report.cum, report.at
        child.reason = child.reason or kind
    if (child.final >= 0 or child.filled >= child.order.quantity) and child.status != "done":
        _end_if_complete(state, child, event.at, effects)


def _heard(state: TradingState, child: ChildState, report: ExecutionReport) -> None:
    """A venue has the child: it is not unknown any more, and rejects in a row end."""
    use = venue_use(state, child.order.place)
    if report.kind == "rejected":
        use.rejects += 1
        use.rejects_in_a_row += 1
        state.day.rejects += 1
    else:
        use.rejects_in_a_row = 0
    if state.unknown:
        state.unknown.pop(child.order.id, None)
    if child.status in _UNHEARD:
        child.status = "partly_filled" if child.filled else "acknowledged"


def _not_known(state: TradingState, child: ChildState, at: int, effects: list[Effect]) -> None:
    """The venue does not have a child: it is sent again if that still makes sense, and is done otherwise."""
    if child.done or child.filled or child.final >= 0:
        if not child.done:
            effects.append(Alert(f"{child.order.place} does not know {child.order.id}, of which it reported before"))
        return
    state.unknown.pop(child.order.id, None)
    parent = state.parents[child.order.parent]
    if parent.closing or child.cancelling or state.halted or child.sends >= MOST_SENDS:
        finish_child(state, child, "withheld", at, effects)
    else:
        child.status = "intended"
        effects.append(Send(child.order))


def _execute(state: TradingState, child: ChildState, report: ExecutionReport, key: str, effects: list[Effect]) -> None:
    reference = report_key(report.venue, report.day, report.reference) if report.reference else ""
    new = Execution(
        child.order.id,
        report.kind,
        report.quantity,
        report.price,
        report.fee,
        reference,
        report.at,
        key not in state.replaced,
    )
    state.executions[key] = new
    child.executions.append(key)
    parent = state.parents[child.order.parent]
    if report.kind == "filled":
        child.last_fill = max(child.last_fill, report.at)
    else:
        parent.busted = True
        state.replaced[reference] = key
        old = state.executions.get(reference)
        if old is not None and old.counts:
            old.counts = False
            _book(state, parent, child, old, -1)
    if new.counts:
        _book(state, parent, child, new, 1)
    if parent.settled:
        parent.corrections += 1
        state.corrections += 1
        effects.append(Correct(parent.order.key))
    elif child.done:
        go_on(state, parent, effects)
    if parent.filled > parent.order.quantity:
        state.overfilled += 1
        effects.append(Alert(f"order {parent.order.key} is filled with {parent.filled} of {parent.order.quantity}"))


def _book(state: TradingState, parent: ParentState, child: ChildState, execution: Execution, sign: int) -> None:
    """Add a fill to its child, its order and the position, or take it out."""
    if execution.kind == "busted":
        shares = value = fee = 0
    else:
        shares, fee = sign * execution.quantity, sign * execution.fee
        value = shares * execution.price
    child.filled += shares
    child.value += value
    child.fees += fee
    parent.filled += shares
    if child.status != "done":
        parent.held -= shares
        child.status = "partly_filled" if child.filled else "acknowledged"
    order = parent.order
    position = state.positions.get(order.symbol)
    if position is None:
        position = state.positions[order.symbol] = Position()
    if order.side == "buy":
        position.shares += shares
        position.cash -= value
    else:
        position.shares -= shares
        position.cash += value
    position.fees += fee


def _end_if_complete(state: TradingState, child: ChildState, at: int, effects: list[Effect]) -> None:
    """End a child that its venue is done with, if no fill is on its way."""
    if child.filled >= child.order.quantity and child.final < 0:
        finish_child(state, child, "filled", at, effects)
    elif child.final >= 0:
        if child.filled == child.final or child.final in _counted(state, child):
            finish_child(state, child, child.reason, at, effects)
        else:
            state.waiting[child.order.id] = None


def _counted(state: TradingState, child: ChildState) -> set[int]:
    """What the venue may have counted when it was done: without the busts and corrections that came after that.

    Those of the very same time may have been counted or not.
    """
    mine = [(key, state.executions[key]) for key in child.executions]
    later = [one for _, one in mine if one.kind != "filled" and one.at >= child.final_at]
    if not later:
        return set()
    counts = set()
    for ignored in ({id(one) for one in later}, {id(one) for one in later if one.at > child.final_at}):
        kept = [(key, one) for key, one in mine if id(one) not in ignored]
        gone = {one.reference for _, one in kept if one.kind != "filled"}
        counts.add(sum(one.quantity for key, one in kept if one.kind != "busted" and key not in gone))
    return counts
