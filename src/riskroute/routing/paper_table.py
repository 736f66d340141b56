"""The venue parameters of the paper's table (S = 10, five venues), as a routing problem.

The paper states neither the constant in the variance (here one) nor whether coefficients were scaled; both readings
are here.
"""

from __future__ import annotations

from riskroute.learning.problem import Problem
from riskroute.routing.venues import VenueModel, venue_problem

SHARES = 10

VENUES = (
    VenueModel("PSX", (-1.1439, 0.0008), (-0.031, 0.0391)),
    VenueModel("BX", (-1.4709, -0.000001), (-0.000001, 0.000001)),
    VenueModel("NASDAQ", (-0.07, -0.0002), (-0.000004, 0.00056)),
    VenueModel("Dark 1", (-0.05, 0.0003), (-0.0191, 0.06), kind="dark"),
    VenueModel("Dark 2", (-0.01, 0.0002), (-0.0091, 0.05), kind="dark"),
)


def paper_table(
    units: str = "money", *, shares: int = SHARES, risk_tolerance: float = 2.0, base_variance: float = 1.0
) -> Problem:
    """The table as a problem: in the table's own ``money`` units, or with coefficients scaled down to ``norm-1``.

    Examples
    --------
    >>> paper_table().actions
    ListedAllocations(10 shares over 5 slots, 1,001 allocations)
    """
    return venue_problem(VENUES, shares, units=units, risk_tolerance=risk_tolerance, base_variance=base_variance)
