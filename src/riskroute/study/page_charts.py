"""Charts of the page of a study: records of what they show, with no number that the result does not hold."""

from __future__ import annotations

from riskroute.market.clock import zone_label
from riskroute.routers.report import KINDS
from riskroute.study.page_content import (
    TRADE_KINDS,
    BookBar,
    BookChart,
    BookTrade,
    Curve,
    CurveChart,
    Dot,
    DotChart,
    GridCell,
    GridChart,
)
from riskroute.study.records import (
    DarkSurface,
    HourCost,
    LearningCurve,
    OrderExample,
    StressTable,
    StudyCase,
)
from riskroute.study.summary import CLAIRVOYANT

KIND_NAMES = dict(zip(KINDS, TRADE_KINDS, strict=True))
"""Kinds of child orders as a reader knows them."""


def role_of(router: str, case: StudyCase) -> str:
    """What a router is to the reader; see `riskroute.study.page_content.ROLES`."""
    if router == case.comparison.bar:
        return "rule"
    return {case.chosen: "chosen", CLAIRVOYANT: "bound"}.get(router, "other")


def cost_charts(case: StudyCase) -> tuple[DotChart, ...]:
    """Cost of an order by router, cheapest first, and the differences to the simple rule, order by order."""
    ranked = sorted(case.comparison.routers.items(), key=lambda item: item[1].cost_bps)
    costs = tuple(Dot(name, one.cost_bps, error=one.se_bps, role=role_of(name, case)) for name, one in ranked)
    differences = tuple(
        Dot(name, one.paired.difference_bps, one.paired.low, one.paired.high, role=role_of(name, case))
        for name, one in ranked
        if one.paired is not None
    )
    charts = [DotChart("What an order cost, with one standard error", "cost, bps of the arrival mid", costs)]
    if differences:
        title = f"Difference to {case.comparison.bar}, with 95 % intervals"
        charts.append(DotChart(title, "difference, bps (left of zero saves)", differences))
    return tuple(charts)


def hour_chart(case: StudyCase) -> CurveChart:
    """Cost by hour of the day, of the chosen router and of what it is compared with."""
    curves = []
    for name in dict.fromkeys(one.router for one in case.hours):
        some: list[HourCost] = [one for one in case.hours if one.router == name]
        curves.append(
            Curve(
                name,
                tuple(float(one.hour) for one in some),
                tuple(one.cost_bps.mean for one in some),
                tuple(one.cost_bps.low for one in some),
                tuple(one.cost_bps.high for one in some),
                role_of(name, case),
            )
        )
    title = "Cost by hour, with 95 % intervals"
    return CurveChart(title, f"hour beginning, {zone_label(case.zone)} time", "cost, bps", tuple(curves), clock=True)


def learning_charts(curve: LearningCurve) -> tuple[CurveChart, ...]:
    """The difference to the simple rule from the first order to the last, and what was paid for trying things out."""
    along = tuple(float(point.orders) for point in curve.points)
    parts = tuple(point.difference_bps for point in curve.points)
    so_far = tuple(point.so_far_bps for point in curve.points)
    trained = [point.orders for point in curve.points if not point.test]
    edge = {"edge": float(trained[-1]), "edge_name": "test days"} if trained else {"edge": None, "edge_name": ""}
    title, orders = f"{curve.router} less {curve.against}", "orders of a symbol so far"
    curves = (Curve("all orders so far", along, so_far, role="chosen"), Curve("the latest orders", along, parts))
    charts = [CurveChart(title, orders, "difference, bps an order (below zero saves)", curves, **edge)]
    spent = [(point.exploration_so_far_bps, point.exploration_bps) for point in curve.points]
    known = [(at, float(mean), float(one)) for at, (mean, one) in zip(along, spent, strict=True)
             if mean is not None and one is not None]  # fmt: skip
    if known:
        where, means, latest = zip(*known, strict=True)
        lines = (Curve("all orders so far", where, means, role="chosen"), Curve("the latest orders", where, latest))
        charts.append(
            CurveChart("What trying things out cost", orders, "cost of exploration, bps an order", lines, **edge)
        )
    return tuple(charts)


def example_chart(example: OrderExample) -> BookChart:
    """The books that an order met, and what it traded at each price."""
    return BookChart(
        f"{example.why}: {example.side} {example.shares:,} {example.symbol}",
        tuple(BookBar(one.venue, one.side, one.price, one.shares) for one in example.levels),
        tuple(BookTrade(KIND_NAMES[one.kind], one.place, one.price, one.shares) for one in example.fills),
    )


def stress_chart(table: StressTable) -> DotChart:
    """The saving in every world."""
    dots = tuple(
        Dot(
            one.world,
            one.saving_bps.mean,
            one.saving_bps.low,
            one.saving_bps.high,
            role="chosen" if k == 0 else "other",
        )
        for k, one in enumerate(table.worlds)
    )
    return DotChart(
        f"What {table.router} saves against {table.against}, with 95 % intervals",
        "saving, bps (right of zero saves)",
        dots,
    )


def surface_chart(surface: DarkSurface) -> GridChart:
    """The saving by what is assumed of dark pools."""
    cells = tuple(
        GridCell(
            f"x {one.presence:g}", f"x {one.adverse:g}", one.saving_bps.mean, one.saving_bps.low, one.saving_bps.high
        )
        for one in surface.points
    )
    title = f"What {surface.router} saves against {surface.against}"
    return GridChart(title, "saving, bps, with 95 % intervals", "shares in pools", "adverse selection", cells)
