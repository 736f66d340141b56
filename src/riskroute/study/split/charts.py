"""Charts of a study, as plain data and layouts for plotly."""

from __future__ import annotations

import math
from typing import Any

from riskroute.study.split.interactive import Curves, interactive_book_fits, interactive_layout, interactive_regret_line
from riskroute.study.split.order_records import RECOMMENDED, OrderResult

DECADES = 5
"""Powers of ten below the largest regret that are shown."""

BAR, OTHER = "#1f6fd6", "#9db7d8"


def study_allocation_chart(order: OrderResult) -> dict[str, Any]:
    """The recommended split over the slots, beside the first of the naive ones."""
    data = [
        {
            "type": "bar",
            "x": list(order.slots),
            "y": list(order.splits[name].allocation),
            "name": name,
            "marker": {"color": colour},
        }
        for name, colour in ((RECOMMENDED, BAR), (order.naive_splits[0], OTHER))
    ]
    return {"data": data, "layout": interactive_layout("Where the shares go", "slot", "shares") | {"barmode": "group"}}


def study_cost_chart(order: OrderResult) -> dict[str, Any]:
    """Cost per order of the recommended split and of its alternatives, out of sample."""
    names = list(order.splits)
    tested = [order.splits[name].test for name in names]
    plain = [one.cost for one in tested]
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": names,
            "y": plain,
            "name": "cost",
            "marker": {"color": BAR},
            "error_y": {"type": "data", "array": [one.cost_error for one in tested]},
        }
    ]
    risk = [one.risk_charge for one in tested]
    if None not in risk:
        data.append({"type": "bar", "x": names, "y": risk, "name": "charge for risk", "marker": {"color": OTHER}})
    layout = interactive_layout("Cost of an order, out of sample", "", "dollars per order") | {"barmode": "stack"}
    return {"data": data, "layout": layout}


def study_regret_charts(order: OrderResult) -> list[dict[str, Any]]:
    """What learning cost each policy so far: in the model, and out of sample.

    Policies differ by orders of magnitude, so the scale is logarithmic, and without bands, which may be negative.
    """
    places = {
        "Regret, in the model": {name: one.model for name, one in order.policies.items()},
        "Regret, out of sample": {name: one.test for name, one in order.policies.items()},
    }
    return [_regret_chart(title, curves) for title, curves in places.items()]


def _regret_chart(title: str, curves: Curves) -> dict[str, Any]:
    layout = interactive_layout(title, "orders routed", "regret (squared dollars)")
    top = math.log10(max(1.0, *(max(one.mean_regret) for one in curves.values())))
    layout["yaxis"] |= {"type": "log", "dtick": 1, "range": [top - DECADES, top + 0.2]}
    return {"data": [interactive_regret_line(name, curves) for name in curves], "layout": layout}


def study_frontier_chart(order: OrderResult) -> dict[str, Any]:
    """Cost against risk of the best splits, from the most careful to the one that ignores risk."""
    points = order.frontier
    hover = [
        f"risk tolerance from {one.risk_tolerance:.3g}: "
        + ", ".join(f"{slot} {n}" for slot, n in zip(order.slots, one.allocation, strict=True) if n)
        for one in points
    ]
    data = [
        {
            "x": [one.variance**0.5 for one in points],
            "y": [-one.mean for one in points],
            "text": hover,
            "mode": "lines+markers",
            "name": "in sample",
            "line": {"color": BAR},
        },
        {
            "x": [one.test_variance**0.5 for one in points],
            "y": [-one.test_mean for one in points],
            "text": hover,
            "mode": "markers",
            "name": "out of sample",
            "marker": {"color": "#d8343c", "symbol": "x"},
        },
        {
            "x": [one.test_variance**0.5 for one in points],
            "y": [-one.tail for one in points],
            "text": hover,
            "mode": "markers",
            "name": "expected shortfall 5 %",
            "marker": {"color": "#777777", "symbol": "triangle-up"},
        },
    ]
    chosen = order.recommended.test
    data.append(
        {
            "x": [chosen.variance**0.5],
            "y": [chosen.cost],
            "mode": "markers",
            "name": "recommended",
            "marker": {"color": "#f0a000", "symbol": "star", "size": 14},
        }
    )
    title = "Risk frontier: the best split for every risk tolerance"
    return {
        "data": data,
        "layout": interactive_layout(title, "standard deviation of the cost (dollars)", "cost (dollars)"),
    }


def all_study_charts(order: OrderResult) -> dict[str, list[dict[str, Any]]]:
    """Charts by the section of the report they belong to."""
    return {
        "allocation": [study_allocation_chart(order), study_cost_chart(order)],
        "learning": study_regret_charts(order),
        "frontier": [study_frontier_chart(order)],
        "fits": interactive_book_fits(order.fits),
    }
