"""Interactive charts of order books: the fits behind venue models, and how books are sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.paper.fits import LINE, POINT, VENUE_COLOURS, FittedPoints
from riskroute.paper.interactive import interactive_layout, interactive_shape
from riskroute.paper.results import PaperSamplingPicture

FIT_NOTE = "Dots are sampled, lines are straight. Profits are against the mid of the venue's own book."
SAMPLING_NOTE = "One time is drawn per bucket and shared by all venues; dots are the closest books."


def interactive_book_fits(fits: Mapping[str, FittedPoints]) -> list[dict[str, Any]]:
    """Per venue: mean profit against quantity, and variance against its square."""
    charts = []
    for name, fit in fits.items():
        quantities = np.array(fit.quantities, dtype=float)
        titles = f"{name}: mean, R² = {fit.r2_mean:.3f}", f"{name}: variance, R² = {fit.r2_variance:.3f}"
        charts.append(_line(titles[0], "quantity (shares)", "dollars", quantities, fit.means))
        charts.append(_line(titles[1], "squared quantity (shares²)", "dollars²", quantities**2, fit.variances))
    return charts


def _line(title: str, along: str, up: str, places: Any, values: Sequence[float] | Floats) -> dict[str, Any]:
    points = np.asarray(values).tolist()
    slope, start = np.polyfit(places, values, 1)
    data = [
        {
            "x": places.tolist(),
            "y": points,
            "mode": "markers",
            "name": "sampled",
            "marker": {"color": POINT},
        },
        {
            "x": places.tolist(),
            "y": (start + slope * places).tolist(),
            "mode": "lines",
            "name": "straight line",
            "line": {"color": LINE, "width": 1.5},
        },
    ]
    return {"data": data, "layout": interactive_layout(title, along, up)}


def interactive_book_sampling(picture: PaperSamplingPicture) -> dict[str, Any]:
    """Mids of all venues over some buckets, with the drawn times and the matched books."""
    data: list[dict[str, Any]] = []
    for colour, (venue, course) in zip(VENUE_COLOURS, picture.venues.items(), strict=False):
        line = {"color": colour, "width": 1, "shape": "hv"}
        data.append({"x": list(course.minutes), "y": list(course.mids), "mode": "lines", "name": venue, "line": line})
        dots = {
            "x": list(course.matched),
            "y": list(course.matched_mids),
            "mode": "markers",
            "marker": {"color": colour},
        }
        data.append(dots | {"name": f"{venue} matched"})
    layout = interactive_layout("", f"minutes after {picture.start}", "mid (dollars)")
    edges = [interactive_shape("line", at, at, color="#777777", width=1.5) for at in picture.edges]
    times = [interactive_shape("line", at, at, color="#111111", dash="dot", width=1) for at in picture.times]
    return {"data": data, "layout": layout | {"shapes": [*edges, *times]}}
