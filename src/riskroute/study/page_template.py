"""The page of a study: one file without scripts that works offline, on a phone and on paper."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from riskroute.core.extras import require_report_extra
from riskroute.core.files import writable_folder, write_whole
from riskroute.core.validation import instance_of
from riskroute.study.page_content import Chart, PageContent, PageTable
from riskroute.study.svg_charts import drawn_chart

PAGE = "study.html"
TEMPLATES = Path(__file__).parent / "templates"


def write_page_content(page: PageContent, out: str | os.PathLike[str]) -> Path:
    """Write the page of a study to ``study.html`` in a folder.

    Parameters
    ----------
    page : PageContent
        What it says and shows, from `riskroute.study.page_sections.study_page`.
    out : str or path-like
        The folder to write to.

    Returns
    -------
    Path
        The file written.
    """
    instance_of("page", page, PageContent, "a PageContent")
    folder = writable_folder("out", out)
    require_report_extra("jinja2")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    text = environment.get_template("study.html.jinja").render(page=page, drawn=_drawn, html_table=_table)
    return write_whole(folder / PAGE, lambda beside: beside.write_text(text, encoding="utf-8"))


def _drawn(chart: Chart) -> Any:
    from markupsafe import Markup

    return Markup(drawn_chart(chart))


def _table(table: PageTable) -> Any:
    """A table, escaped."""
    from markupsafe import Markup

    return Markup(table.table.html())
