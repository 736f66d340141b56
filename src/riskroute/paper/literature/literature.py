"""All experiments of the papers that routers are taken from: which of their statements hold here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from riskroute.core.text import TextTable
from riskroute.paper.literature.agarwal import remake_agarwal
from riskroute.paper.literature.cont_kukanov_example import remake_cont_kukanov
from riskroute.paper.literature.ganchev import remake_ganchev
from riskroute.paper.literature.laruelle import remake_laruelle
from riskroute.paper.literature.statements import Statement

PAPERS: dict[str, Callable[..., Any]] = {
    "Ganchev et al. (2009)": remake_ganchev,
    "Agarwal et al. (2010)": remake_agarwal,
    "Laruelle et al. (2011)": remake_laruelle,
    "Cont and Kukanov (2017)": remake_cont_kukanov,
}
"""Experiments by paper; each returns a result with statements."""


def remake_literature(
    *, quick: bool = False, seed: int = 0, progress: Callable[[str, int, int], None] | None = None
) -> dict[str, Any]:
    """Remake the experiments of all papers; returns their results by paper."""
    found: dict[str, Any] = {}
    for paper, remake in PAPERS.items():
        found[paper] = remake(quick=quick, seed=seed)
        if progress is not None:
            progress(paper, len(found), len(PAPERS))
    return found


def literature_rows(found: dict[str, Any]) -> list[tuple[str, Statement]]:
    """Every statement with its paper."""
    return [(paper, one) for paper, result in found.items() for one in result.statements]


def literature_table(found: dict[str, Any]) -> TextTable:
    """One row per statement."""
    rows = [
        [paper, one.name, one.measured, "holds" if one.holds else "does not hold"]
        for paper, one in literature_rows(found)
    ]
    return TextTable(["paper", "statement", "measured here", ""], rows)
