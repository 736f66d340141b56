"""What the service shows: an order, positions, and the state for a page, as plain values in dollars."""

from __future__ import annotations

from typing import Any

import msgspec

from riskroute.core.errors import InputError, shown
from riskroute.live.limits import Limits
from riskroute.live.service import Service
from riskroute.live.state.events import NANO
from riskroute.live.state.settlement import outcome_of
from riskroute.live.state.trading_state import ParentState, TradingState, archived_state
from riskroute.routers.router import FEEDBACK, Router

BENCHMARK = "dark-first+sweep"
RECENT = 50
"""Orders that a page is shown, at most: those not settled first, then the newest."""


class NotFoundError(InputError):
    """There is no such order."""


def order_view(service: Service, key: str) -> dict[str, Any]:
    """Say what became of an order."""
    with service.engine.lock:
        state = service.engine.state
        if key in state.archive:
            state = archived_state(state, key)
        parent = state.parents.get(key)
        if parent is None:
            why = "which is done with; its log has it" if key in state.retired else "which nobody sent"
            raise NotFoundError(f"key must be that of an order of the last two days, was {shown(key)}, {why}")
        return _order(state, parent) | {"decision": msgspec.to_builtins(parent.decision)}


def _order(state: TradingState, parent: ParentState) -> dict[str, Any]:
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
        return _positions(service.engine.state)


def _positions(state: TradingState) -> dict[str, Any]:
    return {
        name: {"shares": one.shares, "cash": one.cash / NANO, "fees": one.fees / NANO}
        for name, one in state.positions.items()
    }


def replay_view(state: TradingState) -> dict[str, Any]:
    """Say where a log ends."""
    watched = state.settled and not state.parents and not state.positions
    return {
        "events": state.events,
        "orders": state.decisions,
        "settled": state.settled,
        "unsettled": len(state.unsettled),
        "unknown": len(state.unknown),
        "declined": state.declined,
        "corrections": state.corrections,
        "halted": state.halted,
        "positions": _positions(state),
        "against": "the router that was watched" if watched else BENCHMARK,
        "tally": state.totals.view(),
    }


def state_view(service: Service) -> dict[str, Any]:
    """Say what a page shows: see ``docs/live.md``."""
    engine = service.engine
    beliefs = service.beliefs()
    with engine.lock:
        state = engine.state
        keys = list(state.unsettled)[-RECENT:]
        for key in reversed(state.parents):
            if len(keys) >= RECENT:
                break
            if key not in state.unsettled:
                keys.append(key)
        return replay_view(state) | {
            "status": service.status,
            "mode": service.config.mode,
            "now": service.clock(),
            "began": service.began,
            "halted_by": state.halted_by,
            "failed": engine.failed,
            "waiting": len(state.waiting),
            "against": BENCHMARK if service.config.mode == "live" else "the router that is watched",
            "router": {
                "name": engine.learner.router.name,
                "parameters": engine.learner.router.parameters,
                "belief": engine.learner.belief,
                "out": engine.learner.out,
                "learns_from": FEEDBACK[engine.learner.router.feedback],
                "waiting_to_learn": len(engine.learner.waiting),
                "believes": _believed(engine.learner.router),
            },
            "beliefs": beliefs,
            "orders_now": [_order(state, state.parents[key]) for key in keys],
            "unknown_children": [
                {"id": name, "place": child.place, "parent": child.parent, "quantity": child.quantity}
                for name in list(state.unknown)[:RECENT]
                for child in (state.children[name].order,)
            ],
            "pools": list(service.config.pools),
            "venues": {
                name: {"open": use.open, "rejects": use.rejects, "rejects_in_a_row": use.rejects_in_a_row}
                for name, use in state.venues.items()
            },
            "limits": _limits(service.engine.limits, state),
            "order_limits": _order_limits(service.engine.limits),
        }


def viewer_view(service: Service, by: str) -> dict[str, Any]:
    """Say who looks, and what their token is good for."""
    return {"name": by, "scopes": sorted({*service.config.tokens[by].scopes, "read"})}


def _believed(router: Router) -> list[dict[str, Any]]:
    try:
        return [one._asdict() for one in router.beliefs()]
    except Exception:  # routers are others' code: a page must not fail with one
        return []


def _order_limits(limits: Limits) -> dict[str, float]:
    """The limits of a single order; dollars for money."""
    return {
        "quantity": limits.order_quantity,
        "notional": limits.order_notional / NANO,
        "collar_bps": limits.collar,
        "quote_seconds": limits.quote_age / NANO,
    }


def _limits(limits: Limits, state: TradingState) -> list[dict[str, Any]]:
    """Limits in use: what is used of each, what is allowed, and whether more halts trading; dollars for money."""
    day = state.day
    rows = [
        ("orders of the day", day.orders, limits.day_orders, 1, False),
        ("notional of the day", day.notional, limits.day_notional, NANO, False),
        ("cost of the day", day.loss, limits.day_loss, NANO, True),
        ("rejects of the day", day.rejects, limits.day_rejects, 1, True),
        ("unknown children", len(state.unknown), limits.unknown, 1, True),
        ("unsettled orders", len(state.unsettled), limits.unsettled, 1, False),
    ]
    for name, use in state.symbols.items():
        if use.quantity:
            rows.append((f"open shares in {name}", use.quantity, limits.symbol_quantity, 1, False))
            rows.append((f"open notional in {name}", use.notional, limits.symbol_notional, NANO, False))
    for name, at in state.venues.items():
        if at.open:
            rows.append((f"open children at {name}", at.open, limits.venue_open, 1, False))
        if at.rejects_in_a_row:
            rows.append((f"rejects in a row at {name}", at.rejects_in_a_row, limits.rejects_in_a_row, 1, True))
    return [
        {"what": what, "used": used / unit, "most": most / unit, "dollars": unit == NANO, "halts": halts}
        for what, used, most, unit, halts in rows
    ]
