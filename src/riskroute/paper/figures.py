"""Figures of simulation results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError, shown
from riskroute.core.files import write_whole
from riskroute.core.results import SimulationResult
from riskroute.core.runtime import require_report_extra
from riskroute.core.validation import instance_of, one_of, path_of
from riskroute.paper.results import PaperChangeStory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "adaptive": "#c2185b",
    "adaptive, warm": "#ff7043",
    "thompson": "#00897b",
    "rise": "#2a9d3a",
    "rise++": "#1f6fd6",
    "risk-ucb": "#f08c1e",
    "risk-exp-exp": "#d8343c",
    "restart-gse": "#7d4fc4",
    "change-test": "#5d4037",
    "discounted": "#00acc1",
    "sliding-window": "#9e9d24",
    "lin-ucb": "#3949ab",
    "lin-thompson": "#7cb342",
    "phased-elimination": "#6d8299",
    "mv-ucb": "#f9a825",
    "mv-thompson": "#e57373",
    "uniform": "#8a8a8a",
    "greedy": "#8c5a3c",
    "oracle": "#111111",
}
"""One colour per policy, the same in every figure; the paper's for its four."""

YARDSTICKS = {"uniform", "greedy", "oracle"}
"""Drawn dashed, so that a policy as bad as a yardstick stays visible under it."""

ROUND_LABEL = "round"
REGRET_LABEL = "mean-variance regret (squared reward units)"

BAND = 0.2
"""Half-width of the shaded band, in standard deviations, as in the paper's figures."""


class FigureCurve(Protocol):
    """Regret of a policy over time: mean and standard deviation over its runs, at each checkpoint."""

    @property
    def checkpoints(self) -> Sequence[int]: ...
    @property
    def mean_regret(self) -> Sequence[float]: ...
    @property
    def std_regret(self) -> Sequence[float]: ...
    @property
    def runs(self) -> int: ...


Curves = Mapping[str, FigureCurve]
"""Regret curves by policy."""


def figure_band(curve: FigureCurve) -> tuple[Floats, Floats]:
    """Lower and upper edge of the shaded band of a policy."""
    mean, deviation = np.array(curve.mean_regret), np.array(curve.std_regret)
    return mean - BAND * deviation, mean + BAND * deviation


def text_in_figure(text: str) -> str:
    """A text as matplotlib draws it as it is: what stands between two dollar signs is no formula."""
    return text.replace("$", r"\$")


def figure_label(name: str, curves: Curves) -> str:
    """Name of a policy, and how often it was played if less often than others."""
    runs, most = curves[name].runs, max(one.runs for one in curves.values())
    return name if runs == most else f"{name} ({runs} runs)"


def draw_regret_figure(axes: Axes, curves: Curves) -> None:
    """Draw mean regret curves with bands into existing axes."""
    for name, one in curves.items():
        rounds, label = one.checkpoints, text_in_figure(figure_label(name, curves))
        style = "--" if name in YARDSTICKS else "-"
        (line,) = axes.plot(rounds, one.mean_regret, style, color=COLOURS.get(name), linewidth=1.8, label=label)
        axes.fill_between(rounds, *figure_band(one), color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel(ROUND_LABEL)
    axes.set_ylabel(REGRET_LABEL)
    tidy_figure(axes)
    axes.legend(frameon=False, loc="best")


def tidy_figure(axes: Axes) -> None:
    """Numbers with commas, a light grid, no frame."""
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.10g}")
    unframe_figure(axes)


def unframe_figure(axes: Axes) -> None:
    """A light grid, no frame."""
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plot_regret(result: SimulationResult, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write a figure of the regret curves to ``path`` (.png, .pdf or .svg)."""
    if not instance_of("result", result, SimulationResult, "a SimulationResult").policies:
        raise InputError("result must hold at least one policy to be drawn")
    figure = new_figure(8, 5)
    axes = figure.add_subplot()
    draw_regret_figure(axes, {name: one.curve() for name, one in result.policies.items()})
    if title is not None and not (isinstance(title, str) and title.isprintable()):
        raise InputError(f"title must be a text on one line, was {shown(title)}")
    axes.set_title(_title(result) if title is None else title, fontsize=11, parse_math=False)
    return save_figure(figure, path)


def plot_panels(panels: Mapping[str, Curves], path: str | os.PathLike[str], *, columns: int, title: str) -> Path:
    """Write a figure of several panels side by side: titles, with the curves of each."""
    rows = -(-len(panels) // columns)
    figure = new_figure(5.5 * min(columns, len(panels)), 4.2 * rows + 0.4)
    for k, (name, curves) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, min(columns, len(panels)), k + 1)
        draw_regret_figure(axes, curves)
        axes.set_title(text_in_figure(name), fontsize=10)
    figure.suptitle(text_in_figure(title), fontsize=12)
    return save_figure(figure, path)


def plot_changes(
    curves: Curves, story: PaperChangeStory, path: str | os.PathLike[str], *, title: str, panels: str = "ab"
) -> Path:
    """Write the figure of a changing world: (a) regret, (b) the gap of every round of one run."""
    figure = new_figure(11, 4 * len(panels))
    drawn = dict(zip(panels, figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], strict=True))
    for axes in drawn.values():
        for k, (start, end) in enumerate(story.windows):
            axes.axvspan(start, end, color="#9ecae1", alpha=0.6, linewidth=0, label="exploration" if k == 0 else None)
        for k, start in enumerate(story.restarts):
            axes.axvline(start, color="#f08c1e", linestyle=":", linewidth=0.8, label="restart" if k == 0 else None)
        for k, start in enumerate(story.changes):
            axes.axvline(start, color="#777777", linestyle="--", linewidth=1.4, label="change" if k == 0 else None)
    if "a" in drawn:
        draw_regret_figure(drawn["a"], curves)
        drawn["a"].set_title("(a) regret", fontsize=10)
    if "b" in drawn:
        _draw_gaps(drawn["b"], story)
    figure.suptitle(title, fontsize=12)
    return save_figure(figure, path)


def _draw_gaps(axes: Axes, story: PaperChangeStory) -> None:
    axes.step(story.gap_rounds, story.gaps, where="post", color=COLOURS["restart-gse"], linewidth=0.9)
    axes.axhline(0, color="#111111", linewidth=0.8)
    axes.set_xlabel(ROUND_LABEL)
    axes.set_ylabel("gap of the round to the comparator\n(squared reward units)")
    axes.set_title("(b) mean-variance gap of every round, one run of restart-gse", fontsize=10)
    tidy_figure(axes)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; an error says what to install if it cannot be drawn."""
    require_report_extra("matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure, by the ending of ``path``."""
    target = path_of("path", path)
    one_of("figure ending", target.suffix.lower(), (".png", ".pdf", ".svg"))
    return write_whole(target, lambda beside: figure.savefig(beside, dpi=150))


def _title(result: SimulationResult) -> str:
    runs = max(one.runs for one in result.policies.values())
    count = result.action_count
    actions = f"{count:,}" if count < 10**12 else f"about 1e{len(str(count)) - 1}"
    return f"Regret over {actions} actions, mean of {runs} runs (band: {BAND:.0%} of the standard deviation)"
