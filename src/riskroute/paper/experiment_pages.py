"""Pictures and pages of the paper's experiments: which kind of picture each of them gets."""

from __future__ import annotations

from pathlib import Path

from riskroute.paper.figures import plot_changes, plot_panels
from riskroute.paper.fits import plot_fits, plot_sampling
from riskroute.paper.interactive import (
    REGRET_NOTE,
    interactive_changes_chart,
    interactive_regret_chart,
    write_interactive_page,
)
from riskroute.paper.interactive_books import FIT_NOTE, SAMPLING_NOTE, interactive_book_fits, interactive_book_sampling
from riskroute.paper.results import PaperBookPicture, PaperFigureResult

COLUMNS = {"autocorrelation": 5}
"""Panels side by side, where they are not two."""

NOT_DRAWN = ("instances",)
"""Experiments with too many panels for a picture: their averages are printed."""


def write_experiment(figure: PaperFigureResult, stem: Path) -> list[Path]:
    """Write the figure of an experiment and the page with the same curves to hover over.

    Parameters
    ----------
    figure : ExperimentFigure
        What there is to show.
    stem : Path
        The files to write, without their endings.

    Returns
    -------
    list of Path
        The files written; none for an experiment that has too many panels.
    """
    if figure.name in NOT_DRAWN:
        return []
    charts = [interactive_regret_chart(title, curves) for title, curves in figure.panels.items()]
    image = stem.with_suffix(".png")
    if figure.story is not None:
        curves = next(iter(figure.panels.values()))
        drawn = plot_changes(curves, figure.story, image, title=figure.title, panels=figure.panel or "ab")
        charts.append(interactive_changes_chart(figure.story))
    else:
        drawn = plot_panels(figure.panels, image, columns=COLUMNS.get(figure.name, 2), title=figure.title)
    return [drawn, write_interactive_page(charts, stem.with_suffix(".html"), title=figure.title, note=REGRET_NOTE)]


def write_book_picture(picture: PaperBookPicture, stem: Path) -> list[Path]:
    """Write a figure made from order books and the page with the same points to hover over.

    Parameters
    ----------
    picture : BookPicture
        What there is to show.
    stem : Path
        The files to write, without their endings.

    Returns
    -------
    list of Path
        The files written.
    """
    image, page, title = stem.with_suffix(".png"), stem.with_suffix(".html"), picture.title
    if picture.sampling is not None:
        charts, note = [interactive_book_sampling(picture.sampling)], SAMPLING_NOTE
        drawn = plot_sampling(picture.sampling, image, title=title)
    else:
        charts, note = interactive_book_fits(picture.fits), FIT_NOTE
        drawn = plot_fits(picture.fits, image, title=title)
    return [drawn, write_interactive_page(charts, page, title=title, note=note)]
