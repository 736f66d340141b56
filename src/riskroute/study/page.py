"""The page of a study, from its result to a file: the experiment says what it shows, the report how it looks."""

from __future__ import annotations

import os
from pathlib import Path

from riskroute.core.validation import instance_of
from riskroute.study.page_sections import study_page
from riskroute.study.page_template import write_page_content
from riskroute.study.result import StudyResult


def write_study_page(result: StudyResult, out: str | os.PathLike[str], *, command: str = "") -> Path:
    """Write the page of a study: ``study.html``, one file without scripts that works offline, on a phone and on paper.

    Parameters
    ----------
    result : StudyResult
        What the study found, from `riskroute.Study.run` or `StudyResult.from_json`.
    out : str or path-like
        The folder to write to; the page of an earlier study there is replaced.
    command : str
        The command that ran it, to be shown on the page.

    Returns
    -------
    Path
        The file written.
    """
    instance_of("result", result, StudyResult, "a StudyResult")
    instance_of("command", command, str, "a text")
    return write_page_content(study_page(result, command=command), out)
