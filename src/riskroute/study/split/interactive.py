"""Plotly charts of the split study."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.text import json_in_script
from riskroute.simulation.figures import COLOURS, VENUE_COLOURS, FittedPoints

Curves = Mapping[str, Any]  # regret curves by policy


def interactive_regret_line(name: str, curves: Curves) -> dict[str, Any]:
    """The mean regret of one policy as a line of a chart."""
    one = curves[name]
    return {
        "x": list(one.checkpoints),
        "y": list(one.mean_regret),
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "line": {
            "color": COLOURS.get(name, "#555555"),
            "width": 2,
            "dash": "dash" if name in ("uniform", "greedy", "oracle") else "solid",
        },
        "hovertemplate": "%{y:,.0f} after %{x:,} rounds",
    }


def interactive_layout(title: str, along: str, up: str) -> dict[str, Any]:
    """Titles and margins that all charts have alike."""
    return {
        "title": {"text": title, "font": {"size": 14}},
        "xaxis": {"title": {"text": along}, "tickformat": ",", "automargin": True},
        "yaxis": {"title": {"text": up}, "tickformat": ",", "automargin": True},
        "legend": {"orientation": "h", "y": -0.25},
        "margin": {"t": 40, "r": 30},
        "template": "none",
    }


def interactive_script(charts: Mapping[str, Any]) -> str:
    """Charts by the name of their box, as a page's script has them; texts in them are drawn as they are."""
    return json_in_script(_drawn(charts))


def _drawn(value: Any) -> Any:
    """Plain values with the texts escaped, as plotly reads them as a kind of HTML."""
    if isinstance(value, str):
        return html.escape(value, quote=False)
    if isinstance(value, Mapping):
        return {name: _drawn(one) for name, one in value.items()}
    return [_drawn(one) for one in value] if isinstance(value, list | tuple) else value


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
            "marker": {"color": VENUE_COLOURS[0]},
        },
        {
            "x": places.tolist(),
            "y": (start + slope * places).tolist(),
            "mode": "lines",
            "name": "straight line",
            "line": {"color": VENUE_COLOURS[4], "width": 1.5},
        },
    ]
    return {"data": data, "layout": interactive_layout(title, along, up)}
