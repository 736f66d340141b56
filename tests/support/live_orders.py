"""Orders, decisions, children and reports for tests of the live router."""

from __future__ import annotations

from typing import Any

from riskroute.live.children import child_id
from riskroute.live.state.events import (
    NANO,
    Accepted,
    ChildOrder,
    Decision,
    ExecutionReport,
    ParentOrder,
    PoolQuote,
    VenueQuote,
)

START = 1_700_000_000 * NANO
CENT = NANO // 100


def quotes(at: int = START, size: int = 1000) -> tuple[VenueQuote, ...]:
    """Two venues that show 10.00 to 10.02 on the best two levels."""
    bids = ((1000 * CENT, size), (999 * CENT, size))
    asks = ((1002 * CENT, size), (1003 * CENT, size))
    return tuple(VenueQuote(venue=name, bids=bids, asks=asks, taker=3 * CENT // 10, at=at) for name in ("A", "B"))


def parent_order(key: str = "one", quantity: int = 100, **more: Any) -> ParentOrder:
    at = more.get("received", START)
    given: dict[str, Any] = {
        "quotes": quotes(at),
        "pools": (PoolQuote(pool="P"),),
        "received": at,
        "deadline": at + 10 * NANO,
    } | more
    given = {"symbol": "QVEX", "side": "buy"} | given
    return ParentOrder(key=key, quantity=quantity, **given)


def child_order(order: ParentOrder, slot: int, quantity: int, place: str = "A", **more: Any) -> ChildOrder:
    attempt = more.pop("attempt", 0)
    given: dict[str, Any] = {"kind": "limit", "until": order.deadline, "limit": None} | more
    name = child_id("main", order.key, slot, attempt)
    about: dict[str, Any] = {
        "id": name,
        "parent": order.key,
        "slot": slot,
        "attempt": attempt,
        "place": place,
        "quantity": quantity,
    }
    return ChildOrder(symbol=order.symbol, side=order.side, **about, **given)


def accepted(order: ParentOrder, *children: ChildOrder, at: int = START) -> Accepted:
    decision = Decision(parent=order.key, router="test", belief=0, ticket=0, plan={"order": order.key}, at=at)
    return Accepted(at=at, order=order, decision=decision, children=children)


def report(child: ChildOrder, kind: Any, exec_id: str, **more: Any) -> ExecutionReport:
    given: dict[str, Any] = {"venue": child.place, "day": "1", "at": START} | more
    return ExecutionReport(exec_id=exec_id, child=child.id, kind=kind, **given)
