"""The report of a study: one page that works offline, and the same as Markdown."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from riskroute.core.files import writable_folder, write_whole
from riskroute.core.records import to_plain
from riskroute.core.runtime import require_report_extra
from riskroute.core.text import TextTable, in_markdown
from riskroute.core.validation import instance_of
from riskroute.study.split.charts import all_study_charts
from riskroute.study.split.findings import headline, summary_sentences
from riskroute.study.split.interactive import interactive_script
from riskroute.study.split.order_records import OrderResult
from riskroute.study.split.result import SplitStudyResult
from riskroute.study.split.tables import (
    study_frontier_table,
    study_known_levels,
    study_models_table,
    study_policies_table,
    study_splits_table,
)

PAGES = ("report.html", "report.md")
TEMPLATES = Path(__file__).parent.parent / "templates"

LIMITATIONS = (
    "Costs are against the mid of each venue's own book when the order is sent. Orders have no market impact here: the "
    "books are what they were without them.",
    "Books of one day and a few hours. Another day may differ by more than the error bars, which know this day only.",
    "Dark pools are a mechanism with assumed parameters; nobody publishes such data.",
    "Market orders and the remainders of dark pools walk the book of a venue together. The remainder of a limit order "
    "crosses later, on a book in which what they took is there again. Where together they need more than the known "
    "levels hold, prices are taken to worsen further in proportion.",
    "Limit orders join at the best price and wait; they are not moved when the market moves away.",
    "The models add up over slots, and ignore that venues move together; replayed books do not ignore it.",
    "Scenarios of a replay come again and again. A policy that trades for longer than there are books sees them twice.",
)


def write_report(result: SplitStudyResult, out: str | os.PathLike[str]) -> list[Path]:
    """Write the report of a study: ``report.html``, one page that works offline, and ``report.md``.

    Parameters
    ----------
    result : SplitStudyResult
        What the study found, from `SplitStudy.run` or `SplitStudyResult.from_json`.
    out : str or path-like
        The folder to write to; the pages of an earlier study there are replaced.

    Returns
    -------
    list of Path
        The files written.
    """
    instance_of("result", result, SplitStudyResult, "a SplitStudyResult")
    folder = writable_folder("out", out)
    require_report_extra("plotly", "jinja2")
    remove_report(folder)  # pages of an earlier study must not stand beside new numbers
    import jinja2
    from plotly.offline import get_plotlyjs

    loader = jinja2.FileSystemLoader(TEMPLATES)
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    plain = jinja2.Environment(loader=loader, autoescape=False, finalize=_as_markdown, **options)
    safe = jinja2.Environment(loader=loader, autoescape=True, **options)
    facts = _facts(result)
    charts: dict[str, Any] = {}
    orders = []
    for number, order in enumerate(result.orders):
        boxes = {}
        for section, drawn in all_study_charts(order).items():
            named = {f"{section}-{number}-{k}": chart for k, chart in enumerate(drawn)}
            charts |= named
            boxes[section] = _raw("".join(f'<div class="chart" id="{name}"></div>' for name in named))
        orders.append(_order(order, result, _html_table) | {"boxes": boxes})
    page = safe.get_template("split_study.html.jinja").render(
        **facts,
        orders=orders,
        library=_raw(get_plotlyjs()),
        charts=_raw(interactive_script(charts)),
    )
    text = plain.get_template("split_study.md.jinja").render(
        **facts, orders=[_order(order, result, _markdown_table) for order in result.orders]
    )
    written = zip(PAGES, (page, text), strict=True)
    return [write_whole(folder / name, partial(_write, content)) for name, content in written]


def _write(content: str, path: Path) -> None:
    path.write_text(content, encoding="utf-8")


def remove_report(out: Path) -> None:
    """Remove the pages of an earlier study."""
    for name in PAGES:
        (out / name).unlink(missing_ok=True)


def _facts(result: SplitStudyResult) -> dict[str, Any]:
    config = result.config
    return {
        "market": result.market,
        "versions": ", ".join(f"{name} {number}" for name, number in result.versions.items()),
        "config": SplitStudyMarkdown(json.dumps(to_plain(config), indent=1)),
        "limitations": [*LIMITATIONS, *study_known_levels(result)],
        "fees": config.fees is not None,
        "train_hours": _hours(config.train),
        "test_hours": _hours(config.test),
    }


def _hours(span: Sequence[str]) -> str:
    return f"{span[0][:5]} to {span[1][:5]}"


def _order(order: OrderResult, result: SplitStudyResult, table: Any) -> dict[str, Any]:
    tested = next(iter(order.policies.values())).test
    return {
        "title": f"{order.shares:,} shares, risk tolerance {order.risk_tolerance:g}",
        "headline": headline(order, result.market.side),
        "sentences": summary_sentences(order),
        "tolerance": f"{order.risk_tolerance:g}" if order.risk_tolerance else "",
        "splits_table": table(study_splits_table(order)),
        "policies_table": table(study_policies_table(order)),
        "models_table": table(study_models_table(order)),
        "frontier_table": table(study_frontier_table(order)),
        "rounds": f"{tested.checkpoints[-1]:,}",
        "unplayed": ", ".join(order.unplayed),
    }


def _raw(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _html_table(table: TextTable) -> Any:
    return _raw(table.html())


class SplitStudyMarkdown(str):
    """A text that is Markdown already."""


def _as_markdown(value: Any) -> str:
    """A value of the Markdown template, escaped unless it is Markdown already."""
    return value if isinstance(value, SplitStudyMarkdown) else in_markdown(str(value))


def _markdown_table(table: TextTable) -> SplitStudyMarkdown:
    return SplitStudyMarkdown(table.markdown())
