"""Figure 4 of the paper: its table of venues (10 shares), scaled to norm one and in money units."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.paper.presets import DEFAULT, PaperChoices
from riskroute.routing.instances import SHARES, VENUES, paper_table
from riskroute.simulation.comparison import COMPARED
from riskroute.simulation.environments import Environment
from riskroute.simulation.panels import Panel, PanelSize

READINGS = {"a": "norm-1", "b": "money"}
"""Units per panel: the paper does not say which it used."""


def figure4_panels(
    run_size: PanelSize, policies: Sequence[str] = COMPARED, choices: PaperChoices = DEFAULT
) -> list[Panel]:
    """One panel per reading of the table."""
    return [
        Panel(
            name,
            f"({name}) the paper's venues, {SHARES} shares, {units} units",
            Environment(paper_table(units, base_variance=choices.table_base_variance)),
            choices.policies(policies, len(VENUES)),
            {"panel": name, "slots": len(VENUES), "shares": SHARES, "units": units},
            run_size,
        )
        for name, units in READINGS.items()
    ]
