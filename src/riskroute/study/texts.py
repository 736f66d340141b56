"""Tables of a study as text."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.core.text import TextTable, dollars_text, fixed_text
from riskroute.routers.report import KINDS
from riskroute.study.records import DarkSurface, Estimate, RoutingRow, StateDifference, StudyCase


def savings_table(cases: Sequence[StudyCase]) -> TextTable:
    """One row per answer: what to use, and what the router chosen on the training days saved."""
    header = [
        "symbol",
        "shares",
        "seconds",
        "use",
        "chosen",
        "against",
        "saved bps",
        "95 % interval",
        "p",
        "$ an order",
        "$ per 1,000",
    ]
    header += ["ES 5 %", "that of the rule", "headroom bps", "estimated"]
    rows = []
    for case in cases:
        found, saving = case.comparison, case.saving
        many = saving.dollars_per_1000_orders if saving else None
        money = (saving.dollars_per_order.mean if saving else None, many.mean if many else None)
        rows.append(
            [
                *(case.symbol or "all", f"{case.shares:,}", f"{case.horizon:g}"),
                *(case.use if case.verdict else "no verdict", case.chosen, found.bar),
                *(("-", "-") if saving is None else (_signed(saving.bps.mean), interval_text(saving.bps))),
                "-" if found.p_value is None else p_text(found.p_value),
                *(dollars_text(one) for one in money),
                *(fixed_text(found.routers[name].es95_bps) for name in (case.chosen, found.bar)),
                fixed_text(case.headroom_bps, 3),
                f"{case.estimated_share:.1%}",
            ]
        )
    return TextTable(header, rows)


def states_table(states: Sequence[StateDifference]) -> TextTable:
    """One row per state of the market: the difference to the simple rule, and whether it is a clear loss or gain."""
    rows = []
    for one in states:
        clear = one.difference_bps.above_zero, one.difference_bps.below_zero
        verdict = {(True, False): "loses", (False, True): "saves"}.get(clear, "")
        limits = "-" if one.least is None or one.most is None else f"{_short(one.least)} to {_short(one.most)}"
        difference = [_signed(one.difference_bps.mean), interval_text(one.difference_bps)]
        rows.append([f"{one.measure}, {one.state}", limits, f"{one.orders:,}", *difference, verdict])
    return TextTable(["state", "from .. to", "orders", "difference bps", "95 % interval", ""], rows)


def surface_table(surface: DarkSurface) -> TextTable:
    """One row per presence, one column per adverse selection: the saving in basis points with its interval."""
    adverse = list(dict.fromkeys(point.adverse for point in surface.points))
    presence = list(dict.fromkeys(point.presence for point in surface.points))
    found = {(point.presence, point.adverse): point.saving_bps for point in surface.points}
    header = ["shares in pools", *(f"adverse selection x {one:g}" for one in adverse)]
    cells = {key: f"{_signed(one.mean)} ({interval_text(one)})" for key, one in found.items()}
    rows = [[f"x {one:g}", *(cells[one, other] for other in adverse)] for one in presence]
    return TextTable(header, rows)


def routing_text(rows: Sequence[RoutingRow]) -> TextTable:
    """One row per place and kind of child order, one column per state of the book: the fraction of the shares sent."""
    states = {(row.spread, row.imbalance): row.orders for row in rows}
    places = sorted({(KINDS.index(row.kind), row.place) for row in rows})
    found = {(row.kind, row.place, row.spread, row.imbalance): row.sent_fraction for row in rows}
    header = ["place", "kind", *(f"{spread}, {side}" for spread, side in states)]
    table = [["orders", "", *(f"{orders:,}" for orders in states.values())]]
    for kind, place in places:
        cells = [found.get((KINDS[kind], place, *state)) for state in states]
        table.append([place, KINDS[kind], *("-" if one is None else f"{one:.1%}" for one in cells)])
    return TextTable(header, table)


def p_text(value: float) -> str:
    """A p-value; those that would print as zero, as below a thousandth.

    Examples
    --------
    >>> p_text(0.0123), p_text(0.0)
    ('0.012', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def interval_text(one: Estimate) -> str:
    """Both ends with their signs, or a dash."""
    return "-" if one.low is None or one.high is None else f"{_signed(one.low)} to {_signed(one.high)}"


def _signed(value: float) -> str:
    return fixed_text(value, 3, signed=True)
