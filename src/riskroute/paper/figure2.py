"""Figure 2 of the paper: regret over time on random instances of four sizes."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.paper.presets import DEFAULT, PaperChoices
from riskroute.routing.instances import random_routing_problem
from riskroute.routing.splits import count_splits
from riskroute.simulation.comparison import COMPARED
from riskroute.simulation.environments import Environment
from riskroute.simulation.panels import Panel, PanelSize

SIZES = {"a": (4, 4), "b": (5, 4), "c": (6, 6), "d": (6, 8)}
"""Slots and shares per panel."""

INSTANCES = 30


def figure2_panels(
    run_size: PanelSize, policies: Sequence[str] = COMPARED, choices: PaperChoices = DEFAULT
) -> list[Panel]:
    """The four panels, all on the chosen instance."""
    return [_panel(size, size, choices.instance, run_size, policies, choices) for size in SIZES]


def figure2_instances(
    run_size: PanelSize,
    policies: Sequence[str] = COMPARED,
    choices: PaperChoices = DEFAULT,
    count: int = INSTANCES,
) -> list[Panel]:
    """The four problems with ``count`` random instances each; only the end of every run is recorded."""
    return [
        _panel(f"{size}-{k:02d}", size, k, run_size, policies, choices, checkpoints=1)
        for size in SIZES
        for k in range(count)
    ]


def _panel(
    name: str,
    size: str,
    instance: int,
    run_size: PanelSize,
    policies: Sequence[str],
    choices: PaperChoices,
    checkpoints: int = 100,
) -> Panel:
    slots, shares = SIZES[size]
    return Panel(
        name,
        f"({size}) {slots} slots, {shares} shares: {count_splits(shares, slots):,} splits",
        Environment(random_routing_problem(shares, slots, instance)),
        choices.policies(policies, slots),
        {"panel": size, "slots": slots, "shares": shares, "instance": instance},
        run_size,
        checkpoints,
    )
