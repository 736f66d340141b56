"""Interactive charts: pages that work offline, from the same digests as the figures."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from riskroute.core.files import write_whole
from riskroute.core.runtime import require_report_extra
from riskroute.core.text import json_in_script
from riskroute.paper.figures import (
    COLOURS,
    REGRET_LABEL,
    ROUND_LABEL,
    YARDSTICKS,
    Curves,
    figure_band,
    figure_label,
)
from riskroute.paper.results import PaperChangeStory

REGRET_NOTE = "Mean regret over runs; the band is 20 % of the standard deviation."
LIBRARY = "plotly.min.js"
"""Name of the charting library, written once beside the folders of the pages."""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<script src="../{library}"></script>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem; padding: 0 1rem; color: #222; }}
.panels {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1rem; }}
.chart {{ height: 26rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{note} Click a name to hide it, drag to zoom.</p>
<div class="panels">{boxes}</div>
<script>
const charts = {charts};
for (const [id, chart] of Object.entries(charts))
  Plotly.newPlot(id, chart.data, chart.layout, {{responsive: true, displaylogo: false}});
</script>
</body>
</html>
"""


def interactive_regret_chart(title: str, curves: Curves) -> dict[str, Any]:
    """Regret curves with bands, as the plain data and layout of a chart."""
    data: list[dict[str, Any]] = []
    for name, one in curves.items():
        rounds, (low, high) = one.checkpoints, figure_band(one)
        data.append(
            {
                "x": [*rounds, *reversed(rounds)],
                "y": [*high.tolist(), *reversed(low.tolist())],
                "fill": "toself",
                "fillcolor": interactive_colour(name) + "33",
                "line": {"width": 0},
                "mode": "lines",
                "hoverinfo": "skip",
                "showlegend": False,
                "legendgroup": name,
            }
        )
        data.append(interactive_regret_line(name, curves))
    return {"data": data, "layout": interactive_layout(title, ROUND_LABEL, REGRET_LABEL)}


def interactive_regret_line(name: str, curves: Curves) -> dict[str, Any]:
    """The mean regret of one policy as a line of a chart."""
    one = curves[name]
    return {
        "x": list(one.checkpoints),
        "y": list(one.mean_regret),
        "mode": "lines",
        "name": figure_label(name, curves),
        "legendgroup": name,
        "line": {"color": interactive_colour(name), "width": 2, "dash": "dash" if name in YARDSTICKS else "solid"},
        "hovertemplate": "%{y:,.0f} after %{x:,} rounds",
    }


def interactive_colour(name: str) -> str:
    """The colour of a policy; grey if it is not one of ours."""
    return COLOURS.get(name, "#555555")


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


def interactive_changes_chart(story: PaperChangeStory) -> dict[str, Any]:
    """The gap of every round of one run, with its windows of exploration, restarts and changes."""
    bands = [
        interactive_shape("rect", begin, end, fillcolor="#9ecae1", opacity=0.5, width=0) for begin, end in story.windows
    ]
    restarts = [interactive_shape("line", at, at, color="#f08c1e", dash="dot", width=1) for at in story.restarts]
    changes = [interactive_shape("line", at, at, color="#777777", dash="dash", width=1.5) for at in story.changes]
    line = {"color": COLOURS["restart-gse"], "width": 1, "shape": "hv"}
    layout = {
        "title": {"text": "gap of every round, one run (blue: exploration, dotted: restart, dashed: change)"},
        "xaxis": {"title": {"text": ROUND_LABEL}, "tickformat": ","},
        "yaxis": {"title": {"text": "gap to the comparator (squared reward units)"}},
        "shapes": [*bands, *restarts, *changes],
        "template": "none",
    }
    return {
        "data": [{"x": list(story.gap_rounds), "y": list(story.gaps), "mode": "lines", "line": line}],
        "layout": layout,
    }


def interactive_shape(kind: str, begin: float, end: float, *, width: float, **style: Any) -> dict[str, Any]:
    """A line or rectangle over the whole height of a chart."""
    line = {"width": width} | {name: style.pop(name) for name in ("color", "dash") if name in style}
    return {
        "type": kind,
        "x0": begin,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "layer": "below",
        "line": line,
    } | style


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


def write_interactive_page(charts: Sequence[dict[str, Any]], path: Path, *, title: str, note: str) -> Path:
    """Write a page of charts; the charting library lies in the folder above."""
    require_report_extra("plotly")
    from plotly.offline import get_plotlyjs

    library = path.parent.parent / LIBRARY
    if not library.exists():
        write_whole(library, lambda beside: beside.write_text(get_plotlyjs(), encoding="utf-8"))
    named = {f"chart{k}": chart for k, chart in enumerate(charts)}
    text = _PAGE.format(
        title=html.escape(title),
        note=html.escape(note),
        library=LIBRARY,
        boxes="".join(f'<div class="chart" id="{name}"></div>' for name in named),
        charts=interactive_script(named),
    )
    return write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))
