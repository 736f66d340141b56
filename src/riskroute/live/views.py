"""What the service shows: an order, positions, and the state for a page, as plain values in dollars."""

from __future__ import annotations

from typing import Any

import msgspec

from riskroute.errors import InputError, shown
from riskroute.live.book_state import BookState, ParentState
from riskroute.live.orders import NANO
from riskroute.live.service import Service
from riskroute.live.settlement import outcome_of

RECENT = 50
"""Orders that a page is shown, at most: those not settled first, then the newest."""


class NotFoundError(InputError):
    """There is no such order."""


def order_view(service: Service, key: str) -> dict[str, Any]:
    """Say what became of an order."""
    with service.engine.lock:
        state = service.engine.state
        parent = state.parents.get(key)
        if parent is None:
            why = "which is done with; its log has it" if key in state.retired else "which nobody sent"
            raise NotFoundError(f"key must be that of an order of the last two days, was {shown(key)}, {why}")
        return _order(state, parent) | {"decision": msgspec.to_builtins(parent.decision)}


def _order(state: BookState, parent: ParentState) -> dict[str, Any]:
    order, outcome = parent.order, outcome_of(state, parent)
    notional = parent.filled * parent.mid
    filled_cost = sum(slot.money + slot.fees for slot in outcome.slots if not slot.marked)
    status = "settled" if parent.settled else "closing" if parent.closing else "open"
    return {
        "key": order.key,
        "symbol": order.symbol,
        "side": order.side,
        "quantity": order.quantity,
        "filled": parent.filled,
        "status": status,
        "marked": bool(parent.marked),
        "busted": parent.busted,
        "corrections": parent.corrections,
        "at": parent.decision.at,
        "deadline": order.deadline,
        "mid": parent.mid / NANO,
        "router": parent.decision.router,
        "safe": parent.decision.safe,
        "cost": filled_cost / NANO,
        "cost_bps": 1e4 * filled_cost / notional if notional else None,
        "children": [
            {
                "id": name,
                "kind": child.order.kind,
                "place": child.order.place,
                "quantity": child.order.quantity,
                "filled": child.filled,
                "price": child.value / child.filled / NANO if child.filled else None,
                "fees": child.fees / NANO,
                "status": child.status,
                "reason": child.reason,
            }
            for name in parent.children
            for child in (state.children[name],)
        ],
    }


def positions_view(service: Service) -> dict[str, Any]:
    """Say what is held, by symbol: shares, and dollars received and paid."""
    with service.engine.lock:
        return {
            name: {"shares": one.shares, "cash": one.cash / NANO, "fees": one.fees / NANO}
            for name, one in service.engine.state.positions.items()
        }


def state_view(service: Service) -> dict[str, Any]:
    """Say what a page shows."""
    engine = service.engine
    with engine.lock:
        state = engine.state
        keys = list(state.unsettled)[-RECENT:]
        for key in reversed(state.parents):
            if len(keys) >= RECENT:
                break
            if key not in state.unsettled:
                keys.append(key)
        return {
            "status": service.status,
            "mode": service.config.mode,
            "now": service.clock(),
            "began": service.began,
            "halted": state.halted,
            "halted_by": state.halted_by,
            "failed": engine.failed,
            "events": state.events,
            "counts": {
                "orders": state.decisions,
                "settled": state.settled,
                "unsettled": len(state.unsettled),
                "unknown": len(state.unknown),
                "waiting": len(state.waiting),
                "declined": state.declined,
                "corrections": state.corrections,
            },
            "orders": [_order(state, state.parents[key]) for key in keys],
            "unknown": [
                {"id": name, "place": state.children[name].order.place, "parent": state.children[name].order.parent}
                for name in list(state.unknown)[:RECENT]
            ],
            "positions": positions_view(service),
            "tally": state.tally.view(),
        }
