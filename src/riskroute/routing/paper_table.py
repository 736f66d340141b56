"""The venue parameters of the paper's table (S = 10, five venues), as a routing problem.

Each venue has a mean ``p q + p~ q^2`` and a variance ``s q + s~ q^2`` of the profit from ``q`` shares there. The paper
states neither the constant in the variance (here one) nor whether coefficients were scaled; both readings are here.
"""

from __future__ import annotations

import numpy as np

from riskroute.errors import one_of
from riskroute.learning.actions import Actions
from riskroute.learning.problem import Problem
from riskroute.routing.splits import split_actions

SHARES = 10

VENUES: dict[str, tuple[float, float, float, float]] = {
    "PSX": (-1.1439, 0.0008, -0.031, 0.0391),
    "BX": (-1.4709, -0.000001, -0.000001, 0.000001),
    "NASDAQ": (-0.07, -0.0002, -0.000004, 0.00056),
    "Dark 1": (-0.05, 0.0003, -0.0191, 0.06),
    "Dark 2": (-0.01, 0.0002, -0.0091, 0.05),
}
"""Per venue: mean per share and per squared share, variance per share and per squared share."""

UNITS = ("money", "norm-1")


def paper_table(units: str = "money", *, shares: int = SHARES, risk_tolerance: float = 2.0) -> Problem:
    """The table as a problem: in the table's own ``money`` units, or with coefficients scaled down to ``norm-1``.

    >>> paper_table().actions, paper_table("norm-1").actions
    (Actions(1001 actions, dim 10), Actions(1001 actions, dim 10))
    """
    one_of("units", units, UNITS)
    linear, square, var_linear, var_square = np.array(list(VENUES.values())).T
    plain: Actions = split_actions(shares, len(VENUES), scale=1.0)
    scale = plain.largest_norm()
    actions = split_actions(shares, len(VENUES), scale=scale)
    mean_coef = scale * np.concatenate([linear, square])
    var_coef = scale * np.concatenate([var_linear, var_square])
    if units == "money":
        return Problem(
            actions=actions,
            mean_coef=mean_coef,
            var_coef=var_coef,
            risk_tolerance=risk_tolerance,
            check_norms=False,
        )
    return Problem.scaled(actions=actions, mean_coef=mean_coef, var_coef=var_coef, risk_tolerance=risk_tolerance)
