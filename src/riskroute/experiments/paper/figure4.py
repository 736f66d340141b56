"""Figure 4 of the paper: its table of venues (10 shares), scaled to norm one and in money units."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.experiments.comparison import COMPARED
from riskroute.experiments.panels import Panel, PanelSize
from riskroute.routing.paper_table import SHARES, VENUES, paper_table
from riskroute.simulation.environments import Environment

READINGS = {"a": "norm-1", "b": "money"}
"""Units per panel: the paper does not say which it used."""


def figure4_panels(run_size: PanelSize, policies: Sequence[str] = COMPARED) -> list[Panel]:
    """One panel per reading of the table."""
    return [
        Panel(
            name,
            f"({name}) the paper's venues, {SHARES} shares, {units} units",
            Environment(paper_table(units)),
            tuple(policies),
            {"panel": name, "slots": len(VENUES), "shares": SHARES, "units": units},
            run_size,
        )
        for name, units in READINGS.items()
    ]
