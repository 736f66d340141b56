"""Figures of simulation results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from riskroute.errors import InputError, RiskrouteError, one_of
from riskroute.results import SimulationResult, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "adaptive": "#c2185b",
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

BAND = 0.2
"""Half-width of the shaded band, in standard deviations, as in the paper's figures."""


def draw_regret(axes: Axes, result: SimulationResult) -> None:
    """Draw mean regret curves with bands into existing axes."""
    for name, one in result.policies.items():
        mean, band = one.mean_regret(), BAND * one.std_regret()
        style = "--" if name in YARDSTICKS else "-"
        (line,) = axes.plot(one.checkpoints, mean, style, color=COLOURS.get(name), linewidth=1.8, label=name)
        axes.fill_between(one.checkpoints, mean - band, mean + band, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("mean-variance regret (squared reward units)")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="upper left")


def plot_regret(result: SimulationResult, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write a figure of the regret curves to ``path`` (.png, .pdf or .svg)."""
    target = Path(path)
    one_of("figure ending", target.suffix.lower(), (".png", ".pdf", ".svg"))
    if not result.policies:
        raise InputError("result must hold at least one policy to be drawn")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise RiskrouteError("figures need matplotlib: pip install 'riskroute[report]'") from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    draw_regret(axes, result)
    axes.set_title(title or _title(result), fontsize=11)
    return write_whole(target, lambda beside: figure.savefig(beside, dpi=150))


def _title(result: SimulationResult) -> str:
    runs = max(one.runs for one in result.policies.values())
    count = int(result.config["actions"])
    actions = f"{count:,}" if count < 10**12 else f"about 1e{len(str(count)) - 1}"
    return f"Regret over {actions} actions, mean of {runs} runs (band: {BAND:.0%} of the standard deviation)"
