"""The fold: `apply` maps the state and an event to the next state and the effects of the event.

The fold uses no clock, no input or output and no randomness, so the same log gives the same state on any machine,
wherever the archive stores orders. The state is changed in place, so that a million events take seconds.

- Reports are identified by venue, session day and exec id; duplicates are counted and ignored.
- Fills may arrive in any order. A bust removes the fill it refers to and a correction replaces it, even if it arrives
  before the fill.
- The last report of a child has the child's cumulative quantity. If fewer shares are booked, fills are outstanding, and
  the child ends when they have arrived.
- An order is settled when no child holds shares and its remainder is zero or marked. The router then learns from the
  order, exactly once. Later reports correct positions, and are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec

from riskroute.core.errors import StateError
from riskroute.live.state.archive import OrderArchive, archive_settled, expire_archived, restore_order
from riskroute.live.state.effects import (
    AlertEffect,
    CancelEffect,
    Effect,
    LearnEffect,
    NextEffect,
    QueryEffect,
    SendEffect,
)
from riskroute.live.state.events import (
    AcceptedEvent,
    AnyEvent,
    DeclinedEvent,
    ExpiredEvent,
    HaltedEvent,
    IntendedEvent,
    MarkedEvent,
    MarketObservedEvent,
    PlaceDownEvent,
    PlaceUpEvent,
    PlannedEvent,
    QuotedEvent,
    RecalledEvent,
    ReconciledEvent,
    ReportedEvent,
    ResumedEvent,
    SentEvent,
    SettledEvent,
    ShadowedEvent,
    UnansweredEvent,
    WithheldEvent,
)
from riskroute.live.state.execution_reports import ExecutionReport, execution_report_key
from riskroute.live.state.orders import ChildOrder, ChildOrderOutcome, OrderOutcome, ParentOrder, order_id
from riskroute.live.state.trading_state import (
    DAY,
    ChildState,
    ExecutionState,
    ParentState,
    PositionState,
    SymbolState,
    TradingDayState,
    TradingState,
    VenueState,
)

SETTLED_KEPT = 300  # newest settled orders that stay in the state: encoding them takes a few milliseconds
ARCHIVED_TOGETHER = 50  # orders archived at a time: finding the oldest takes as long for one
BEYOND = "beyond"  # place of the unfilled remainder in outcomes


def apply(state: TradingState, event: AnyEvent, archive: OrderArchive) -> tuple[TradingState, list[Effect]]:
    """Apply an event to the state in place; return the state and the effects of the event.

    Old settled orders are moved to ``archive``, and back if the event concerns them.
    """
    at = event.at
    if at > state.now:
        state.now = at
        if at // DAY > state.day.day:
            _new_day(state, at // DAY, archive)
    state.events += 1
    kind = type(event)
    if kind in _CHILD_OF:
        if (child := _CHILD_OF[kind](event)) not in state.children:
            restore_order(state, archive, child.rsplit("-", 2)[0])
    elif kind in _PARENT_OF and (parent := _PARENT_OF[kind](event)) not in state.parents:
        restore_order(state, archive, order_id(archive.stream, parent))
    effects: list[Effect] = []
    _HANDLERS[kind](state, event, effects)
    if len(state.recent) > SETTLED_KEPT + ARCHIVED_TOGETHER:
        archive_settled(state, archive, SETTLED_KEPT)
    return state, effects


def _new_day(state: TradingState, day: int, archive: OrderArchive) -> None:
    """Reset the day's counters, and remove settled orders that have expired."""
    state.day = TradingDayState(day=day)
    for use in state.venues.values():
        use.rejects = 0
    expire_archived(state, archive)


# orders and children


def _accepted(state: TradingState, event: AcceptedEvent, effects: list[Effect]) -> None:
    order = event.order
    if order.key in state.parents:
        state.duplicates += 1
        return
    mid = order.mid
    parent = ParentState(order, event.decision, mid, event.digest)
    state.parents[order.key] = parent
    state.unsettled[order.key] = None
    state.decisions += 1
    use = state.symbols.setdefault(order.symbol, SymbolState())
    use.quantity += order.quantity
    use.notional += order.quantity * mid
    use.terms = order.terms
    state.currency = state.currency or order.instrument.currency
    state.day.orders += 1
    state.day.notional += order.scale.nanos(order.quantity * mid)
    _intend(state, parent, event.children, effects)
    _continue_order(state, parent, effects)


def _declined(state: TradingState, event: DeclinedEvent, effects: list[Effect]) -> None:
    state.declined += 1


def _intended(state: TradingState, event: IntendedEvent, effects: list[Effect]) -> None:
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
        state.venues.setdefault(child.place, VenueState()).open += 1
        effects.append(SendEffect(child))


def _sent(state: TradingState, event: SentEvent, effects: list[Effect]) -> None:
    child = _child(state, event.child)
    child.sends += 1
    child.sent_at = child.sent_at or event.at
    if child.status == "intended":
        child.status = "sent"


def _withheld(state: TradingState, event: WithheldEvent, effects: list[Effect]) -> None:
    child = _child(state, event.child)
    if not child.done and child.filled == 0 and child.final < 0:
        _finish_child(state, child, "withheld", event.at, effects)


def _unanswered(state: TradingState, event: UnansweredEvent, effects: list[Effect]) -> None:
    child = _child(state, event.child)
    if not child.done:
        if child.final < 0:
            child.status = "unknown"
            state.unknown[child.order.id] = None
        effects.append(QueryEffect(child.order))
        if child.cancelling:
            effects.append(CancelEffect(child.order))  # the first cancel may be lost
        # the order's other shares do not wait for a silent venue
        _continue_order(state, state.parents[child.order.parent], effects)


def _recalled(state: TradingState, event: RecalledEvent, effects: list[Effect]) -> None:
    _cancel_open_children(state, _parent(state, event.parent), effects, event.kind)


def _expired(state: TradingState, event: ExpiredEvent, effects: list[Effect]) -> None:
    parent = _parent(state, event.parent)
    if parent.settled or parent.closing:
        return
    parent.closing = True
    _cancel_open_children(state, parent, effects)
    _continue_order(state, parent, effects)


def _marked(state: TradingState, event: MarkedEvent, effects: list[Effect]) -> None:
    parent = _parent(state, event.parent)
    if not parent.settled:
        parent.marked = event.price
        _continue_order(state, parent, effects)


# outcomes, beliefs and halts


def _settled(state: TradingState, event: SettledEvent, effects: list[Effect]) -> None:
    outcome, totals = event.outcome, state.totals
    parent = state.parents.get(outcome.parent)
    if parent is None or parent.recorded:
        return
    parent.recorded, parent.outcome = True, None
    totals.settle(outcome)
    if event.benchmark_cost is not None:
        totals.save(outcome, event.benchmark_cost - outcome.cost, parent.order.quantity, event.guessed)
    if event.explored is not None:
        totals.explored += outcome.scale.nanos(event.explored)
        totals.explored_orders += 1


def _shadowed(state: TradingState, event: ShadowedEvent, effects: list[Effect]) -> None:
    order, outcome = event.order, event.outcome
    state.decisions += 1
    state.settled += 1
    state.day.orders += 1
    state.totals.settle(outcome)
    state.totals.save(outcome, outcome.cost - event.estimate, order.quantity, event.guessed)
    state.currency = state.currency or order.instrument.currency
    effects.append(LearnEffect(outcome, order))


def _market_data(state: TradingState, event: QuotedEvent | MarketObservedEvent, effects: list[Effect]) -> None:
    """Change nothing, since market data are not part of the state."""


def _planned(state: TradingState, event: PlannedEvent, effects: list[Effect]) -> None:
    state.belief = event.belief


def _halted(state: TradingState, event: HaltedEvent, effects: list[Effect]) -> None:
    state.halted, state.halted_by = state.halted or event.reason or "halted", state.halted_by or event.by
    for key in state.unsettled:
        _cancel_open_children(state, state.parents[key], effects)


def _resumed(state: TradingState, event: ResumedEvent, effects: list[Effect]) -> None:
    state.halted = state.halted_by = ""
    for use in state.venues.values():
        use.rejects_in_a_row = 0


def _place_up(state: TradingState, event: PlaceUpEvent, effects: list[Effect]) -> None:
    if state.down.pop(event.place, None) is not None:
        for key in list(state.unsettled):
            _continue_order(state, state.parents[key], effects)


def _place_down(state: TradingState, event: PlaceDownEvent, effects: list[Effect]) -> None:
    state.down[event.place] = event.reason


def _reconciled(state: TradingState, event: ReconciledEvent, effects: list[Effect]) -> None:
    there = state.venues.setdefault(event.place, VenueState())
    there.offsets = event.offsets
    if event.difference:
        there.difference, there.differed_at = event.difference, event.at


def _parent(state: TradingState, key: str) -> ParentState:
    try:
        return state.parents[key]
    except KeyError:
        raise StateError(f"unknown order {key!r}: it was never accepted") from None


def _child(state: TradingState, name: str) -> ChildState:
    try:
        return state.children[name]
    except KeyError:
        raise StateError(f"unknown child {name!r}: it was never intended") from None


# children, fills and outcomes


def _finish_child(state: TradingState, child: ChildState, reason: str, at: int, effects: list[Effect]) -> None:
    order = child.order
    parent = state.parents[order.parent]
    parent.held -= order.quantity - child.filled
    child.status, child.reason, child.done_at = "done", reason, at
    parent.open -= 1
    state.venues[order.place].open -= 1
    if state.unknown:
        state.unknown.pop(order.id, None)
    if state.waiting:
        state.waiting.pop(order.id, None)
    _continue_order(state, parent, effects)


def _continue_order(state: TradingState, parent: ParentState, effects: list[Effect]) -> None:
    """Settle an order that is filled or marked; otherwise request children for shares that no child holds."""
    if parent.settled:
        return
    if parent.filled >= parent.order.quantity:
        if parent.open:
            _cancel_open_children(state, parent, effects)
        else:
            _settle(state, parent, effects)
    elif parent.marked and parent.open == 0:
        _settle(state, parent, effects)
    elif parent.free > 0 and not parent.marked:
        effects.append(NextEffect(parent.order.key))


def _settle(state: TradingState, parent: ParentState, effects: list[Effect]) -> None:
    order = parent.order
    outcome = fold_outcome(state, parent)
    parent.settled, parent.outcome, parent.settled_day = True, outcome, state.day.day
    parent.order = msgspec.structs.replace(order, quotes=())  # books are the largest part of an order
    del state.unsettled[order.key]
    state.recent[order.key] = None
    state.settled += 1
    state.day.loss += outcome.scale.nanos(outcome.cost)
    use = state.symbols[order.symbol]
    use.quantity -= order.quantity
    use.notional -= order.quantity * parent.mid
    effects.append(LearnEffect(outcome, order))


def fold_outcome(state: TradingState, parent: ParentState) -> OrderOutcome:
    """Return the outcome of an order from the fills booked so far."""
    mid, sign, children = parent.mid, parent.order.sign, []
    for name in parent.children:
        child = state.children[name]
        if child.reason == "withheld" and not child.filled:
            continue  # it never reached its venue, so its fill says nothing about the venue
        sent = child.order
        children.append(
            ChildOrderOutcome(
                slot=sent.slot,
                attempt=sent.attempt,
                kind=sent.kind,
                place=sent.place,
                sent=sent.quantity,
                filled=child.filled,
                money=sign * (child.value - child.filled * mid),
                fees=child.fees,
                sent_at=child.sent_at,
                last_fill=child.last_fill,
                done_at=child.done_at,
            )
        )
    return fold_children_outcome(parent.order, mid, children, parent.marked, state.now, busted=parent.busted)


def fold_children_outcome(
    order: ParentOrder, mid: int, children: list[ChildOrderOutcome], price: int, at: int, *, busted: bool = False
) -> OrderOutcome:
    """Return the outcome of an order at time ``at``, with unfilled units valued as if swept at ``price``."""
    filled = sum([child.filled for child in children])
    left = max(order.quantity - filled, 0)
    if left:
        remainder = ChildOrderOutcome(
            slot=-1,
            attempt=0,
            kind="sweep",
            place=BEYOND,
            sent=left,
            filled=left,
            money=order.sign * left * (price * order.scale.unit - mid),
            fees=0,
            sent_at=at,
            last_fill=at,
            done_at=at,
            marked=True,
        )
        children = [*children, remainder]
    return OrderOutcome(
        parent=order.key,
        symbol=order.symbol,
        sign=order.sign,
        filled=filled,
        left=left,
        mid=mid,
        cost=sum([child.money + child.fees for child in children]),
        children=tuple(children),
        at=at,
        marked=left > 0,
        late=at > order.deadline,
        busted=busted,
        terms=order.terms,
    )


def _cancel_open_children(state: TradingState, parent: ParentState, effects: list[Effect], kind: str = "") -> None:
    """Request cancels of an order's resting children; if ``kind`` is given, only of children of this kind."""
    for name in parent.children:
        child = state.children[name]
        if not child.done and child.final < 0 and not child.order.immediate and kind in ("", child.order.kind):
            child.cancelling = True
            effects.append(CancelEffect(child.order))


def _book_report(state: TradingState, event: ReportedEvent, effects: list[Effect]) -> None:
    report = event.report
    key = report.key
    child = state.children.get(report.child)
    if key in state.reports:
        state.duplicates += 1
        return
    if child is None:
        state.orphans += 1
        effects.append(AlertEffect(f"{report.venue} reports an unknown child, {report.child}"))
        return
    state.reports[key] = None
    child.reports.append(key)
    kind = report.kind
    if kind == "not_known":
        _not_known(state, child, event.at, effects)
        return
    if kind == "cancel_rejected":
        return
    use = state.venues[child.order.place]
    if kind == "rejected":
        use.rejects += 1
        use.rejects_in_a_row += 1
        state.day.rejects += 1
    else:
        use.rejects_in_a_row = 0
    if state.unknown:
        state.unknown.pop(child.order.id, None)
    if child.status in ("intended", "sent", "unknown"):
        child.status = "partly_filled" if child.filled else "acknowledged"
    if kind in ("filled", "busted", "corrected"):
        _execute(state, child, report, key, effects)
    if kind in ("cancelled", "rejected", "expired") or (kind == "filled" and report.leaves == 0):
        if report.at >= child.final_at:
            child.final, child.final_at = report.cum, report.at
        child.reason = child.reason or kind
    if (child.final >= 0 or child.filled >= child.order.quantity) and child.status != "done":
        _end_if_complete(state, child, event.at, effects)


def _not_known(state: TradingState, child: ChildState, at: int, effects: list[Effect]) -> None:
    """Resend a child that its venue does not know, if that is safe; otherwise its shares are planned anew.

    It is not sent again after three sends, a cancel, the deadline or a halt.
    """
    if child.losses and child.status != "unknown":
        return  # this answers a query from before the child was sent again, which may not have arrived yet
    if child.done or child.filled or child.final >= 0:
        if not child.done:
            effects.append(
                AlertEffect(f"{child.order.place} does not know {child.order.id}, which it reported on before")
            )
        return
    state.unknown.pop(child.order.id, None)
    child.losses += 1
    parent = state.parents[child.order.parent]
    ended = parent.closing or child.cancelling or state.halted or child.sends >= 3
    if ended or not child.order.idempotent:
        _finish_child(state, child, "withheld", at, effects)
    else:
        child.status = "intended"
        effects.append(SendEffect(child.order))


def _execute(state: TradingState, child: ChildState, report: ExecutionReport, key: str, effects: list[Effect]) -> None:
    reference = execution_report_key(report.venue, report.day, report.reference) if report.reference else ""
    new = ExecutionState(
        child.order.id,
        report.kind,
        report.quantity,
        report.price,
        report.fee,
        reference,
        report.at,
        key not in state.replaced,
        (report.fee_currency, report.fee_amount) if report.fee_currency else None,
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
    elif child.done:
        _continue_order(state, parent, effects)
    if parent.filled > parent.order.quantity:
        state.overfilled += 1
        order = parent.order
        text = order.instrument.quantity_text
        effects.append(AlertEffect(f"order {order.key} is overfilled: {text(parent.filled)} of {text(order.quantity)}"))


def _book(state: TradingState, parent: ParentState, child: ChildState, execution: ExecutionState, sign: int) -> None:
    """Add a fill to its child, order and position; subtract the fill if ``sign`` is -1."""
    if execution.kind == "busted":
        shares = value = fee = 0
    else:
        shares, fee = sign * execution.quantity, sign * execution.fee
        value = shares * execution.price * parent.order.scale.unit
    child.filled += shares
    child.value += value
    child.fees += fee
    parent.filled += shares
    if child.status != "done":
        parent.held -= shares
        child.status = "partly_filled" if child.filled else "acknowledged"
    order = parent.order
    there = state.venues[child.order.place].positions
    for positions in (state.positions, there):
        position = positions.get(order.symbol)
        if position is None:
            position = positions[order.symbol] = PositionState()
        position.shares += order.sign * shares
        position.cash -= order.sign * value
        position.fees += fee
        position.terms = order.terms
        if execution.charged is not None and execution.kind != "busted":
            currency, amount = execution.charged
            position.charged[currency] = position.charged.get(currency, Decimal(0)) + sign * amount
            position.converted += fee


def _end_if_complete(state: TradingState, child: ChildState, at: int, effects: list[Effect]) -> None:
    """End a child that is filled or that its venue has ended, unless reports of its fills are outstanding."""
    if child.filled >= child.order.quantity and child.final < 0:
        _finish_child(state, child, "filled", at, effects)
    elif child.final >= 0:
        if child.filled == child.final or child.final in _counted(state, child):
            _finish_child(state, child, child.reason, at, effects)
        else:
            state.waiting[child.order.id] = None


def _counted(state: TradingState, child: ChildState) -> set[int]:
    """Return the cumulative quantities that the venue's last report may have if all fills are booked.

    The report does not include later busts and corrections. It may or may not include busts and corrections of the
    same time, so there are two candidates. Empty if there are no busts and corrections of this time or later.
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


# Child or parent of events that may concern an archived order:
_CHILD_OF: dict[type, Callable[[Any], str]] = {
    SentEvent: attrgetter("child"),
    WithheldEvent: attrgetter("child"),
    UnansweredEvent: attrgetter("child"),
    ReportedEvent: attrgetter("report.child"),
}
_PARENT_OF: dict[type, Callable[[Any], str]] = dict.fromkeys(
    (IntendedEvent, RecalledEvent, ExpiredEvent, MarkedEvent), attrgetter("parent")
)

_HANDLERS: dict[type, Callable[[TradingState, Any, list[Effect]], None]] = {
    AcceptedEvent: _accepted,
    DeclinedEvent: _declined,
    IntendedEvent: _intended,
    SentEvent: _sent,
    WithheldEvent: _withheld,
    UnansweredEvent: _unanswered,
    ReportedEvent: _book_report,
    RecalledEvent: _recalled,
    ExpiredEvent: _expired,
    MarkedEvent: _marked,
    SettledEvent: _settled,
    ShadowedEvent: _shadowed,
    QuotedEvent: _market_data,
    MarketObservedEvent: _market_data,
    PlannedEvent: _planned,
    HaltedEvent: _halted,
    ResumedEvent: _resumed,
    PlaceUpEvent: _place_up,
    PlaceDownEvent: _place_down,
    ReconciledEvent: _reconciled,
}
