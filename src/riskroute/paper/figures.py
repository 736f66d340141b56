"""Matplotlib figures: regret curves, linear fits of venue models, and the paper's figures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskroute.core.errors import InputError
from riskroute.core.files import write_whole
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.runtime import require_extra
from riskroute.core.text import shown
from riskroute.core.validation import instance_of, one_of, valid_path
from riskroute.simulation.results import SimulationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from riskroute.market.fitting import VenueFit


# One colour per policy in every figure; the paper's four policies have the paper's colours.
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

VENUE_COLOURS = ("#1f6fd6", "#f08c1e", "#2a9d3a", "#7d4fc4", "#d8343c", "#6d8299")
_BAND = 0.2  # half-width of the shaded band in standard deviations, as in the paper's figures

Summary = Mapping[str, Any]  # JSON summary of an experiment, panel, policy or run


def _escape_math(text: str) -> str:
    """Escape dollar signs, which would start a formula, so that matplotlib draws the text verbatim."""
    return text.replace("$", r"\$")


def _draw_regret(axes: Axes, policies: Mapping[str, Summary]) -> None:
    """Draw mean regret curves with bands, from the summaries of policies by name."""
    most = max((one["runs"] for one in policies.values()), default=0)
    for name, one in policies.items():
        rounds, mean, half_width = one["checkpoints"], np.array(one["mean_regret"]), _BAND * np.array(one["std_regret"])
        label = _escape_math(name if one["runs"] == most else f"{name} ({one['runs']} runs)")
        # baselines are dashed, so that a policy as bad as a baseline remains visible
        style = "--" if name in ("uniform", "greedy", "oracle") else "-"
        (line,) = axes.plot(rounds, mean, style, color=COLOURS.get(name), linewidth=1.8, label=label)
        colour = line.get_color()
        axes.fill_between(rounds, mean - half_width, mean + half_width, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("mean-variance regret (squared reward units)")
    _format_axes(axes)
    axes.legend(frameon=False, loc="best")


def _format_axes(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.10g}")
    _remove_frame(axes)


def _remove_frame(axes: Axes) -> None:
    """Draw a light grid; hide the top and right spines."""
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plot_regret(result: SimulationResult, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write a figure of the regret curves to ``path`` (.png, .pdf or .svg)."""
    if not instance_of("result", result, SimulationResult, "a SimulationResult").policies:
        raise InputError("result must have at least one policy, had none")
    figure = _new_figure(8, 5)
    axes = figure.add_subplot()
    _draw_regret(axes, {name: one.summary() for name, one in result.policies.items()})
    if title is not None and not (isinstance(title, str) and title.isprintable()):
        raise InputError(f"title must be one line of text, was {shown(title)}")
    axes.set_title(_title(result) if title is None else title, fontsize=11, parse_math=False)
    return _save_figure(figure, path)


def _new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of the given size in inches."""
    require_extra("figures and pages", "report", "matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure to ``path`` (.png, .pdf or .svg)."""
    target = valid_path("path", path)
    one_of("file extension", target.suffix.lower(), (".png", ".pdf", ".svg"))
    return write_whole(target, lambda beside: figure.savefig(beside, dpi=150))


def _title(result: SimulationResult) -> str:
    runs = max(one.runs for one in result.policies.values())
    count = result.action_count
    actions = f"{count:,}" if count < 10**12 else f"about 1e{len(str(count)) - 1}"
    return f"Regret over {actions} actions, mean of {runs} runs (band: {_BAND:.0%} of the standard deviation)"


def plot_fits(
    fits: Mapping[str, VenueFit], path: str | os.PathLike[str], *, title: str, instrument: Instrument = SHARES
) -> Path:
    """Write a figure with one row per venue: mean by quantity and variance by squared quantity, with fitted lines."""
    counted, money = _escape_math(instrument.quantity), _escape_math(instrument.currency)
    if not fits:
        raise InputError("fits must have at least one venue, had none")
    figure = _new_figure(11, 3.6 * len(fits) + 0.4)
    rows = figure.subplots(len(fits), 2, squeeze=False)
    for (name, fit), (left, right) in zip(fits.items(), rows, strict=True):
        quantities = np.array(fit.quantities, dtype=float)
        _draw_line(left, quantities, np.array(fit.means))
        left.set_title(f"{_escape_math(name)}: mean, R² = {fit.r2_mean:.3f}", fontsize=10)
        left.set(xlabel=f"quantity ({counted})", ylabel=f"mean profit ({money})")
        _draw_line(right, quantities**2, np.array(fit.variances))
        right.set_title(f"{_escape_math(name)}: variance, R² = {fit.r2_variance:.3f}", fontsize=10)
        right.set(xlabel=f"squared quantity ({counted}²)", ylabel=f"variance of the profit ({money}²)")
    figure.suptitle(_escape_math(title), fontsize=12)
    return _save_figure(figure, path)


def _draw_line(axes: Axes, along: Any, values: Any) -> None:
    axes.plot(along, values, "o", color=VENUE_COLOURS[0], markersize=4, label="sampled")
    slope, start = np.polyfit(along, values, 1)
    axes.plot(along, start + slope * along, color=VENUE_COLOURS[4], linewidth=1.4, label="straight line")
    _format_axes(axes)
    axes.legend(frameon=False, loc="best")


def draw_experiment(summary: Summary, path: Path, *, title: str, panel: str | None = None) -> list[Path]:
    """Draw the figure of an experiment; return ``[path]``, or ``[]`` for random instances (too many panels)."""
    if summary["experiment"] == "instances":
        return []
    panels = list(summary["panels"].values())
    story = summary.get("stories", {}).get("restart-gse")
    if story is not None:
        return [_plot_changes(panels[0], story, path, title=title, panels=panel or "ab")]
    columns = 5 if summary["experiment"] == "autocorrelation" else 2
    return [_plot_panels(panels, path, columns=columns, title=title)]


def _plot_panels(panels: list[Summary], path: str | os.PathLike[str], *, columns: int, title: str) -> Path:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = _new_figure(5.5 * columns, 4.2 * rows + 0.4)
    for k, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, k + 1)
        _draw_regret(axes, panel["policies"])
        _draw_bounds(axes, panel.get("bounds", {}))
        axes.set_title(_escape_math(panel["title"]), fontsize=10)
    figure.suptitle(_escape_math(title), fontsize=12)
    return _save_figure(figure, path)


def _draw_bounds(axes: Axes, bounds: Mapping[str, Summary]) -> None:
    """Draw each policy's bound on the final regret as a thin dashed line; a bound above the axis gets only a label."""
    if not bounds:
        return
    bottom, top = axes.get_ylim()  # limits of the measured curves: bounds must not rescale the axis
    for policy, bound in bounds.items():
        label = f"{policy} bound ({bound['theorem']})"
        if bound["value"] > top:
            label += f": {bound['value']:.1e}, above the axis"
        axes.axhline(bound["value"], color=COLOURS.get(policy), linestyle="--", linewidth=0.8, label=label)
    axes.set_ylim(bottom, top)
    axes.legend(frameon=False, loc="best", fontsize=8)


def _plot_changes(panel: Summary, story: Summary, path: Path, *, title: str, panels: str) -> Path:
    """Write the figure of changing coefficients: (a) regret, (b) the gap in every round of one run."""
    figure = _new_figure(11, 4 * len(panels))
    drawn = dict(zip(panels, figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], strict=True))
    for axes in drawn.values():
        for k, (start, end) in enumerate(story["windows"]):
            axes.axvspan(start, end, color="#9ecae1", alpha=0.6, linewidth=0, label="exploration" if k == 0 else None)
        for k, start in enumerate(story["restarts"]):
            axes.axvline(start, color="#f08c1e", linestyle=":", linewidth=0.8, label="restart" if k == 0 else None)
        for k, start in enumerate(story["changes"]):
            axes.axvline(start, color="#777777", linestyle="--", linewidth=1.4, label="change" if k == 0 else None)
    if "a" in drawn:
        _draw_regret(drawn["a"], panel["policies"])
        drawn["a"].set_title("(a) regret", fontsize=10)
    if "b" in drawn:
        _draw_gaps(drawn["b"], story)
    figure.suptitle(title, fontsize=12)
    return _save_figure(figure, path)


def _draw_gaps(axes: Axes, story: Summary) -> None:
    axes.step(story["gap_rounds"], story["gaps"], where="post", color=COLOURS["restart-gse"], linewidth=0.9)
    axes.axhline(0, color="#111111", linewidth=0.8)
    axes.set_xlabel("round")
    axes.set_ylabel("gap of the round to the comparator\n(squared reward units)")
    axes.set_title("(b) mean-variance gap of every round, one run of restart-gse", fontsize=10)
    _format_axes(axes)


def plot_sampling(picture: Summary, path: str | os.PathLike[str], *, title: str) -> Path:
    """Write the figure of the sampling scheme: sample times and matched books per bucket, and one book being walked."""
    figure = _new_figure(11, 7.5)
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    for colour, (venue, course) in zip(VENUE_COLOURS, picture["venues"].items(), strict=False):
        label = _escape_math(venue)
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
    below.set_title(f"one of these books ({_escape_math(book['venue'])}), walked from the best bid down", fontsize=10)
    below.legend(frameon=False, loc="best")
    for axes in (above, below):
        _remove_frame(axes)
    figure.suptitle(_escape_math(title), fontsize=12)
    return _save_figure(figure, path)
