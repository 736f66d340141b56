"""The report of a study: one page that works offline, and the same as Markdown."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from riskroute.files import write_whole
from riskroute.report import require
from riskroute.report.interactive import in_script
from riskroute.report.study_charts import all_charts
from riskroute.report.words import (
    dollars,
    headline,
    known_levels,
    models_table,
    policies_table,
    split_text,
    splits_table,
    summary_sentences,
)
from riskroute.text import in_markdown, in_markdown_cell

PAGES = ("report.html", "report.md")
TEMPLATES = Path(__file__).parent / "templates"

LIMITATIONS = (
    "Costs are against the middle of each venue's own book when the order is sent. An order moves nothing here: the "
    "books are what they were without it.",
    "Books of one day and a few hours. Another day may differ by more than the error bars, which know this day only.",
    "Dark pools are a mechanism with assumed parameters; nobody publishes such data.",
    "Market orders and what dark pools leave walk the book of a venue together. The rest of a limit order crosses "
    "later, on a book in which what they took is there again. Where together they need more than the known levels "
    "hold, prices are taken to worsen further in proportion.",
    "Limit orders join at the best price and wait; they are not moved when the market moves away.",
    "The models add up over slots, and ignore that venues move together; replayed books do not ignore it.",
    "Scenarios of a replay come again and again. A policy that trades for longer than there are books sees them twice.",
)

Table = tuple[list[str], list[list[str]]]


def write_study(summary: Mapping[str, Any], out: Path) -> list[Path]:
    """Write ``report.html`` and ``report.md`` from the summary of a study."""
    require("plotly", "jinja2")
    import jinja2
    from plotly.offline import get_plotlyjs

    loader = jinja2.FileSystemLoader(TEMPLATES)
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    plain = jinja2.Environment(loader=loader, autoescape=False, finalize=_as_markdown, **options)
    safe = jinja2.Environment(loader=loader, autoescape=True, **options)
    facts = _facts(summary)
    charts: dict[str, Any] = {}
    orders = []
    for number, order in enumerate(summary["orders"]):
        boxes = {}
        for section, drawn in all_charts(order).items():
            named = {f"{section}-{number}-{k}": chart for k, chart in enumerate(drawn)}
            charts |= named
            boxes[section] = _raw("".join(f'<div class="chart" id="{name}"></div>' for name in named))
        orders.append(_order(order, summary, _html_table) | {"boxes": boxes})
    page = safe.get_template("study.html.jinja").render(
        **facts,
        orders=orders,
        library=_raw(get_plotlyjs()),
        charts=_raw(in_script(charts)),
    )
    text = plain.get_template("study.md.jinja").render(
        **facts, orders=[_order(order, summary, _markdown_table) for order in summary["orders"]]
    )
    written = zip(PAGES, (page, text), strict=True)
    return [write_whole(out / name, partial(_write, content)) for name, content in written]


def _write(content: str, path: Path) -> None:
    path.write_text(content, encoding="utf-8")


def remove_study(out: Path) -> None:
    """Remove the pages of an earlier study."""
    for name in PAGES:
        (out / name).unlink(missing_ok=True)


def _facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    config = summary["config"]
    return {
        "market": summary["market"],
        "versions": ", ".join(f"{name} {number}" for name, number in summary["versions"].items()),
        "config": Markdown(json.dumps(config, indent=1)),
        "limitations": [*LIMITATIONS, *known_levels(summary)],
        "fees": config["fees"] is not None,
        "train_hours": _hours(config["train"]),
        "test_hours": _hours(config["test"]),
    }


def _hours(span: Sequence[str]) -> str:
    return f"{span[0][:5]} to {span[1][:5]}"


def _order(order: Mapping[str, Any], summary: Mapping[str, Any], table: Any) -> dict[str, Any]:
    tested = next(iter(order["policies"].values()))["test"]
    return {
        "title": f"{order['shares']:,} shares, risk tolerance {order['risk_tolerance']:g}",
        "headline": headline(order, summary["market"]["side"]),
        "sentences": summary_sentences(order),
        "tolerance": f"{order['risk_tolerance']:g}" if order["risk_tolerance"] else "",
        "splits_table": table(splits_table(order)),
        "policies_table": table(policies_table(order)),
        "models_table": table(models_table(order)),
        "frontier_table": table(frontier_table(order)),
        "rounds": f"{tested['checkpoints'][-1]:,}",
        "unplayed": ", ".join(order["unplayed"]),
    }


def frontier_table(order: Mapping[str, Any]) -> Table:
    """The risk tolerances at which the best split changes, from the most careful on."""
    rows = [
        [
            f"{point['risk_tolerance']:.3g}",
            split_text(order["slots"], point["allocation"]),
            dollars(-point["mean"]),
            f"{point['variance']:.3g}",
            dollars(-point["test_mean"]),
            f"{point['test_variance']:.3g}",
            dollars(-point["tail"]),
        ]
        for point in order["frontier"]
    ]
    header = ["risk tolerance from", "split", "cost, when chosen", "variance ($²)"]
    return [*header, "cost, when tested", "variance ($²)", "worst 5 %"], rows


def _raw(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _html_table(table: Table) -> Any:
    header, rows = table
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td{_long(cell)}>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return _raw(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _long(cell: str) -> str:
    return ' class="long"' if len(cell) > 40 else ""


class Markdown(str):
    """A text that is Markdown already."""


def _as_markdown(value: Any) -> str:
    """A value of the Markdown template, escaped unless it is Markdown already."""
    return value if isinstance(value, Markdown) else in_markdown(str(value))


def _markdown_table(table: Table) -> Markdown:
    header, rows = table
    lines = [header, ["---"] * len(header), *rows]
    return Markdown("\n".join("| " + " | ".join(map(in_markdown_cell, line)) + " |" for line in lines))
