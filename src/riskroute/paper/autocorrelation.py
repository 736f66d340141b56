"""The paper's robustness check: autocorrelated noise, five correlations, in both readings of the noise."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.paper.presets import DEFAULT, PaperChoices
from riskroute.routing.instances import random_routing_problem
from riskroute.simulation.comparison import COMPARED
from riskroute.simulation.environments import Autocorrelated
from riskroute.simulation.panels import Panel, PanelSize

SLOTS, SHARES = 5, 6

CORRELATIONS = {"a": -0.6, "b": -0.2, "c": 0.2, "d": 0.6, "e": 0.0}
"""Per panel, in the paper's order."""

NOISES = ("deviation", "variance")
"""What multiplies the noise: as the model has it, and as the paper prints it."""


def autocorrelation_panels(
    run_size: PanelSize, policies: Sequence[str] = COMPARED, choices: PaperChoices = DEFAULT
) -> list[Panel]:
    """Five panels per reading of the noise."""
    problem = random_routing_problem(SHARES, SLOTS, choices.correlated_instance)
    return [
        Panel(
            f"{name}-{noise}",
            f"({name}) correlation {correlation:+.1f}, noise times {noise}",
            Autocorrelated(problem, correlation, scale=noise),
            choices.policies(policies, SLOTS),
            {
                "panel": name,
                "slots": SLOTS,
                "shares": SHARES,
                "instance": choices.correlated_instance,
                "correlation": correlation,
                "noise": noise,
            },
            run_size,
        )
        for noise in NOISES
        for name, correlation in CORRELATIONS.items()
    ]
