"""The plain twin of the live router's fold: everything is worked out again from the whole list of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riskroute.live.state.events import (
    Accepted,
    AnyEvent,
    ChildOrder,
    ExecutionReport,
    Intended,
    Marked,
    ParentOrder,
    Reported,
)


def naive_book(events: Sequence[AnyEvent]) -> dict[str, Any]:
    """Positions, fills of children, and for every settled order the number of events, shares and cost at that time."""
    ended: set[str] = set()
    settled: dict[str, tuple[int, int, int]] = {}
    for count in range(1, len(events) + 1):
        seen = events[:count]
        children = children_in(seen)
        ended |= {name for name, (child, reports) in children.items() if name not in ended and is_over(child, reports)}
        for key, order in orders_in(seen).items():
            if key in settled:
                continue
            mine = {name: pair for name, pair in children.items() if pair[0].parent == key}
            filled = sum(shares_of(reports) for _, reports in mine.values())
            marks = [event.price for event in seen if isinstance(event, Marked) and event.parent == key]
            if ended.issuperset(mine) and (filled >= order.quantity or marks):
                settled[key] = count, filled, cost_of(order, mine, filled, marks)
    final = children_in(events)
    return {
        "settled": settled,
        "filled": {name: shares_of(reports) for name, (_, reports) in final.items()},
        "ended": ended,
        "positions": positions_in(events),
    }


def orders_in(events: Sequence[AnyEvent]) -> dict[str, ParentOrder]:
    found: dict[str, ParentOrder] = {}
    for event in events:
        if isinstance(event, Accepted):
            found.setdefault(event.order.key, event.order)
    return found


def children_in(events: Sequence[AnyEvent]) -> dict[str, tuple[ChildOrder, list[ExecutionReport]]]:
    """Children by id, each with its different reports in the sequence in which they came."""
    found: dict[str, tuple[ChildOrder, list[ExecutionReport]]] = {}
    known = set()
    for event in events:
        if isinstance(event, Accepted | Intended):
            for child in event.children:
                found.setdefault(child.id, (child, []))
        elif isinstance(event, Reported):
            report = event.report
            if names(report) not in known:
                known.add(names(report))
                found[report.child][1].append(report)
    return found


def names(report: ExecutionReport) -> tuple[str, str, str]:
    return report.venue, report.day, report.exec_id


def executions_that_count(reports: list[ExecutionReport]) -> list[ExecutionReport]:
    gone = {(one.venue, one.day, one.reference) for one in reports if one.kind in ("busted", "corrected")}
    return [one for one in reports if one.kind in ("filled", "corrected") and names(one) not in gone]


def shares_of(reports: list[ExecutionReport]) -> int:
    return sum(one.quantity for one in executions_that_count(reports))


def is_over(child: ChildOrder, reports: list[ExecutionReport]) -> bool:
    """Whether the venue is done with a child, and all that it had counted then is booked."""
    ends = [one for one in reports if one.kind in ("cancelled", "rejected", "expired")]
    ends += [one for one in reports if one.kind == "filled" and one.leaves == 0]
    if not ends:
        return shares_of(reports) >= child.quantity
    last = max(one.at for one in ends)
    end = [one for one in reports if one in ends and one.at == last][-1]
    changes = [one for one in reports if one.kind in ("busted", "corrected")]
    after = [one for one in changes if one.at > end.at]
    at_once = [one for one in changes if one.at == end.at]
    options = (reports, without(reports, after), without(reports, after + at_once))
    return end.cum in {shares_of(option) for option in options}


def without(reports: list[ExecutionReport], others: list[ExecutionReport]) -> list[ExecutionReport]:
    return [one for one in reports if one not in others]


def cost_of(
    order: ParentOrder, children: dict[str, tuple[ChildOrder, list[ExecutionReport]]], filled: int, marks: list[int]
) -> int:
    bid = max(price for quote in order.quotes for price, _ in quote.bids)
    ask = min(price for quote in order.quotes for price, _ in quote.asks)
    mid, sign, cost = (bid + ask) // 2, 1 if order.side == "buy" else -1, 0
    for _, reports in children.values():
        cost += sum(sign * one.quantity * (one.price - mid) + one.fee for one in executions_that_count(reports))
    left = max(order.quantity - filled, 0)
    return cost + (sign * left * (marks[-1] - mid) if left else 0)


def positions_in(events: Sequence[AnyEvent]) -> dict[str, tuple[int, int, int]]:
    totals: dict[str, tuple[int, int, int]] = {}
    for child, reports in children_in(events).values():
        sign = 1 if child.side == "buy" else -1
        for one in executions_that_count(reports):
            shares, cash, fees = totals.get(child.symbol, (0, 0, 0))
            totals[child.symbol] = (
                shares + sign * one.quantity,
                cash - sign * one.quantity * one.price,
                fees + one.fee,
            )
    return totals
