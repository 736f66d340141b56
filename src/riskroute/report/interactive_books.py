"""Interactive charts of order books: the fits behind venue models, and how books are sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riskroute.report.fits import LINE, POINT, VENUE_COLOURS
from riskroute.report.interactive import layout_of, shape

FIT_NOTE = "Dots are sampled, lines are straight. Profits are against the middle of the venue's own book."
SAMPLING_NOTE = "One time is drawn per bucket and shared by all venues; dots are the closest books."


def fit_charts(fits: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per venue: mean profit against quantity, and variance against its square."""
    charts = []
    for name, fit in fits.items():
        quantities = np.array(fit["quantities"], dtype=float)
        titles = f"{name}: mean, R² = {fit['r2_mean']:.3f}", f"{name}: variance, R² = {fit['r2_variance']:.3f}"
        charts.append(_line(titles[0], "quantity (shares)", "dollars", quantities, fit["means"]))
        charts.append(_line(titles[1], "squared quantity (shares²)", "dollars²", quantities**2, fit["variances"]))
    return charts


def _line(title: str, along: str, up: str, places: Any, values: list[float]) -> dict[str, Any]:
    slope, start = np.polyfit(places, values, 1)
    data = [
        {"x": places.tolist(), "y": values, "mode": "markers", "name": "sampled", "marker": {"color": POINT}},
        {
            "x": places.tolist(),
            "y": (start + slope * places).tolist(),
            "mode": "lines",
            "name": "straight line",
            "line": {"color": LINE, "width": 1.5},
        },
    ]
    return {"data": data, "layout": layout_of(title, along, up)}


def sampling_chart(picture: Mapping[str, Any]) -> dict[str, Any]:
    """Middle prices of all venues over some buckets, with the drawn times and the matched books."""
    data = []
    for colour, (venue, course) in zip(VENUE_COLOURS, picture["venues"].items(), strict=False):
        line = {"color": colour, "width": 1, "shape": "hv"}
        data.append({"x": course["minutes"], "y": course["mids"], "mode": "lines", "name": venue, "line": line})
        dots = {"x": course["matched"], "y": course["matched_mids"], "mode": "markers", "marker": {"color": colour}}
        data.append(dots | {"name": f"{venue} matched"})
    layout = layout_of("", f"minutes after {picture['start']} New York", "middle price (dollars)")
    edges = [shape("line", at, at, color="#777777", width=1.5) for at in picture["edges"]]
    times = [shape("line", at, at, color="#111111", dash="dot", width=1) for at in picture["times"]]
    return {"data": data, "layout": layout | {"shapes": [*edges, *times]}}
