"""When a child is done, when an order is, and what became of it then."""

from __future__ import annotations

import msgspec

from riskroute.live.state.events import ChildOutcome, Outcome
from riskroute.live.state.trading_state import (
    Cancel,
    ChildState,
    Effect,
    Learn,
    Next,
    ParentState,
    TradingState,
    VenueUse,
)

BEYOND = "beyond"
"""Place of shares that nobody filled, in outcomes."""


def finish_child(state: TradingState, child: ChildState, reason: str, at: int, effects: list[Effect]) -> None:
    """End a child: what it has not filled is free again."""
    order = child.order
    parent = state.parents[order.parent]
    parent.held -= order.quantity - child.filled
    child.status, child.reason, child.done_at = "done", reason, at
    parent.open -= 1
    venue_use(state, order.place).open -= 1
    if state.unknown:
        state.unknown.pop(order.id, None)
    if state.waiting:
        state.waiting.pop(order.id, None)
    go_on(state, parent, effects)


def go_on(state: TradingState, parent: ParentState, effects: list[Effect]) -> None:
    """Settle an order that is done, or ask what becomes of shares that no child holds."""
    if parent.settled:
        return
    if parent.filled >= parent.order.quantity:
        if parent.open:
            cancel_open_children(state, parent, effects)
        else:
            _settle(state, parent, effects)
    elif parent.marked and parent.open == 0:
        _settle(state, parent, effects)
    elif parent.free > 0 and not parent.marked:
        effects.append(Next(parent.order.key))


def _settle(state: TradingState, parent: ParentState, effects: list[Effect]) -> None:
    order = parent.order
    outcome = outcome_of(state, parent)
    parent.settled, parent.outcome, parent.settled_day = True, outcome, state.day.day
    parent.order = msgspec.structs.replace(order, quotes=())  # books are the largest part, and not needed any more
    del state.unsettled[order.key]
    state.recent[order.key] = None
    state.settled += 1
    state.day.loss += outcome.cost
    use = state.symbols[order.symbol]
    use.quantity -= order.quantity
    use.notional -= order.quantity * parent.mid
    effects.append(Learn(outcome, order))


def given_up(shares: int, money: int, at: int) -> ChildOutcome:
    """Shares that were not done in time, valued as if they had been swept at the far touch."""
    return ChildOutcome(
        slot=-1,
        attempt=0,
        kind="sweep",
        place=BEYOND,
        sent=shares,
        filled=shares,
        money=money,
        fees=0,
        sent_at=at,
        last_fill=at,
        done_at=at,
        marked=True,
    )


def outcome_of(state: TradingState, parent: ParentState) -> Outcome:
    """What became of an order, as far as it is booked."""
    order, mid, sign = parent.order, parent.mid, parent.order.sign
    slots = []
    for name in parent.children:
        child = state.children[name]
        sent = child.order
        slots.append(
            ChildOutcome(
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
    left = max(order.quantity - parent.filled, 0)
    if left:
        slots.append(given_up(left, sign * left * (parent.marked - mid), state.now))
    return Outcome(
        parent=order.key,
        symbol=order.symbol,
        sign=sign,
        filled=parent.filled,
        left=left,
        mid=mid,
        cost=sum(slot.money + slot.fees for slot in slots),
        slots=tuple(slots),
        at=state.now,
        marked=left > 0,
        late=state.now > order.deadline,
        busted=parent.busted,
    )


def cancel_open_children(state: TradingState, parent: ParentState, effects: list[Effect], kind: str = "") -> None:
    """Ask for the resting children of an order back, or for those of a kind."""
    for name in parent.children:
        child = state.children[name]
        if not child.done and child.final < 0 and not child.order.immediate and kind in ("", child.order.kind):
            child.cancelling = True
            effects.append(Cancel(child.order))


def venue_use(state: TradingState, name: str) -> VenueUse:
    """How a venue is used."""
    use = state.venues.get(name)
    if use is None:
        use = state.venues[name] = VenueUse()
    return use
