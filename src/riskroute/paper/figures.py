"""Figures of the paper's experiments, drawn from their JSON summaries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskroute.core.results import RegretCurve
from riskroute.simulation.figures import (
    COLOURS,
    VENUE_COLOURS,
    draw_regret,
    escape_math,
    format_axes,
    new_figure,
    remove_frame,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Summary = Mapping[str, Any]  # of an experiment, a panel or a run, as in the JSON file


def draw_experiment(summary: Summary, path: Path, *, title: str, panel: str | None = None) -> list[Path]:
    """Draw an experiment; returns the file, or nothing for the random instances, which have too many panels."""
    if summary["experiment"] == "instances":
        return []
    panels = list(summary["panels"].values())
    story = summary.get("stories", {}).get("restart-gse")
    if story is not None:
        return [_plot_changes(panels[0], story, path, title=title, panels=panel or "ab")]
    columns = 5 if summary["experiment"] == "autocorrelation" else 2
    return [plot_panels(panels, path, columns=columns, title=title)]


def plot_panels(panels: list[Summary], path: str | os.PathLike[str], *, columns: int, title: str) -> Path:
    """Write a figure of several panels side by side."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5.5 * columns, 4.2 * rows + 0.4)
    for k, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, k + 1)
        draw_regret(axes, _curves(panel))
        _draw_bounds(axes, panel.get("bounds", {}))
        axes.set_title(escape_math(panel["title"]), fontsize=10)
    figure.suptitle(escape_math(title), fontsize=12)
    return save_figure(figure, path)


def _curves(panel: Summary) -> dict[str, RegretCurve]:
    return {
        name: RegretCurve(tuple(one["checkpoints"]), tuple(one["mean_regret"]), tuple(one["std_regret"]), one["runs"])
        for name, one in panel["policies"].items()
    }


def _draw_bounds(axes: Axes, bounds: Mapping[str, Summary]) -> None:
    """Draw each policy's bound on the final regret as a thin dashed line; a bound off the axis is named only."""
    if not bounds:
        return
    bottom, top = axes.get_ylim()  # of the measured curves, which the bounds must not squeeze
    for policy, bound in bounds.items():
        label = f"{policy} bound ({bound['theorem']})"
        if bound["value"] > top:
            label += f": {bound['value']:.1e}, above the axis"
        axes.axhline(bound["value"], color=COLOURS.get(policy), linestyle="--", linewidth=0.8, label=label)
    axes.set_ylim(bottom, top)
    axes.legend(frameon=False, loc="best", fontsize=8)


def _plot_changes(panel: Summary, story: Summary, path: Path, *, title: str, panels: str) -> Path:
    """Write the figure of changing coefficients: (a) regret, (b) the gap of every round of one run."""
    figure = new_figure(11, 4 * len(panels))
    drawn = dict(zip(panels, figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], strict=True))
    for axes in drawn.values():
        for k, (start, end) in enumerate(story["windows"]):
            axes.axvspan(start, end, color="#9ecae1", alpha=0.6, linewidth=0, label="exploration" if k == 0 else None)
        for k, start in enumerate(story["restarts"]):
            axes.axvline(start, color="#f08c1e", linestyle=":", linewidth=0.8, label="restart" if k == 0 else None)
        for k, start in enumerate(story["changes"]):
            axes.axvline(start, color="#777777", linestyle="--", linewidth=1.4, label="change" if k == 0 else None)
    if "a" in drawn:
        draw_regret(drawn["a"], _curves(panel))
        drawn["a"].set_title("(a) regret", fontsize=10)
    if "b" in drawn:
        _draw_gaps(drawn["b"], story)
    figure.suptitle(title, fontsize=12)
    return save_figure(figure, path)


def _draw_gaps(axes: Axes, story: Summary) -> None:
    axes.step(story["gap_rounds"], story["gaps"], where="post", color=COLOURS["restart-gse"], linewidth=0.9)
    axes.axhline(0, color="#111111", linewidth=0.8)
    axes.set_xlabel("round")
    axes.set_ylabel("gap of the round to the comparator\n(squared reward units)")
    axes.set_title("(b) mean-variance gap of every round, one run of restart-gse", fontsize=10)
    format_axes(axes)


def plot_sampling(picture: Summary, path: str | os.PathLike[str], *, title: str) -> Path:
    """Write the figure of the sampling scheme: sampled times and matched books per bucket, and one book walked."""
    figure = new_figure(11, 7.5)
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    for colour, (venue, course) in zip(VENUE_COLOURS, picture["venues"].items(), strict=False):
        label = escape_math(venue)
        above.step(course["minutes"], course["mids"], where="post", color=colour, linewidth=1, label=label)
        above.plot(course["matched"], course["matched_mids"], "o", color=colour, markersize=6)
    for k, edge in enumerate(picture["edges"]):
        above.axvline(edge, color="#777777", linewidth=1.2, label="bucket" if k == 0 else None)
    for k, time in enumerate(picture["times"]):
        above.axvline(time, color="#111111", linestyle=":", linewidth=1, label="sampled time" if k == 0 else None)
    above.set_xlabel(f"minutes after {picture['start']}")
    above.set_ylabel("mid (dollars)")
    above.set_title("one time per bucket, shared by all venues; dots: the closest book of each", fontsize=10)
    above.legend(frameon=False, loc="best", ncols=3)
    book = picture["book"]
    labels = [f"{price:.2f}" for price in book["prices"]]
    below.bar(labels, book["sizes"], color="#c9d8ea", label="bid size")
    below.bar(labels, book["taken"], color=VENUE_COLOURS[0], label=f"taken by {sum(book['taken']):,.0f} shares sold")
    below.set_xlabel(f"bid price (dollars); mid {book['mid']:.3f}")
    below.set_ylabel("shares")
    below.set_title(f"one of these books ({escape_math(book['venue'])}), walked from the best bid down", fontsize=10)
    below.legend(frameon=False, loc="best")
    for axes in (above, below):
        remove_frame(axes)
    figure.suptitle(escape_math(title), fontsize=12)
    return save_figure(figure, path)
