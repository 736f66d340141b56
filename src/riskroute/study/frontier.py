"""The risk frontier of a case: mean cost against tail of all routers, and what each risk profile would choose.

The contextual router minimises the objective of its risk profile, so that its points under several profiles form a
line. A point is efficient if every different point has a higher mean cost or a higher expected shortfall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars

from riskroute.core.text import TextTable, fixed_text
from riskroute.routers.contextual.router import Contextual
from riskroute.routers.risk import PROFILES, RiskProfile, risk_profile
from riskroute.study.candidates import CLAIRVOYANT, Candidate
from riskroute.study.costs import order_costs_bps
from riskroute.study.statistics import expected_shortfall

_KAPPAS = (0.2, 1.0)  # further points of the line, towards less variance


@dataclass(frozen=True)
class FrontierPoint:
    """Mean, standard deviation and expected shortfall (5 %) of a router's costs on the test days, in basis points.

    ``risk`` names the risk profile of a point on the line; it is empty for other routers.
    """

    router: str
    risk: str
    cost_bps: float
    sd_bps: float
    es95_bps: float
    efficient: bool = False

    @property
    def name(self) -> str:
        """The router, and its risk profile on the line."""
        return f"{self.router}, {self.risk}" if self.risk else self.router


@dataclass(frozen=True)
class ProfileChoice:
    """Answer of a study with the named profile ``risk``: the router to use, and the reason; see `StudyCase`."""

    risk: str
    chosen: str
    use: str
    reason: str


@dataclass(frozen=True)
class CaseFrontier:
    """Points of all routers, cheapest first, and the answers under the other risk profiles."""

    points: tuple[FrontierPoint, ...]
    choices: tuple[ProfileChoice, ...]

    @property
    def line(self) -> tuple[FrontierPoint, ...]:
        """The points of the router that was played under several profiles, smallest expected shortfall first."""
        return tuple(sorted((one for one in self.points if one.risk), key=lambda one: (one.es95_bps, one.cost_bps)))


def frontier_profiles(risk: RiskProfile) -> tuple[RiskProfile, ...]:
    """Return the other named profiles, whose answers a study with the profile ``risk`` gives too."""
    return tuple(one for one in PROFILES.values() if one != risk)


def line_candidate(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the contextual router if it is among the candidates and follows the profile of the study."""
    found = (one for one in candidates if one.name == Contextual.name and "risk" not in one.parameters)
    return next(found, None)


def line_profiles(risk: RiskProfile) -> tuple[RiskProfile, ...]:
    """Return the profiles of the line that are not among `frontier_profiles`, nor the profile of the study."""
    return tuple(one for one in (risk_profile("risk", kappa) for kappa in _KAPPAS) if one != risk)


def frontier_points(
    orders: polars.DataFrame, line: Mapping[RiskProfile, polars.DataFrame], router: str
) -> tuple[FrontierPoint, ...]:
    """Return the points of all routers but the clairvoyant on the judged orders, cheapest first.

    ``orders`` has the orders of all routers. ``line`` has the orders of ``router`` by risk profile; if it is not empty,
    the orders of ``router`` in ``orders`` are ignored.
    """
    found = [_point(name, "", some) for (name,), some in _judged(orders).group_by("router", maintain_order=True)]
    points = [one for one in found if one.router not in (CLAIRVOYANT, *([router] if line else []))]
    points += [_point(router, risk.name, _judged(some)) for risk, some in line.items()]
    whole = []
    for one in points:
        beaten = any(
            other.cost_bps <= one.cost_bps
            and other.es95_bps <= one.es95_bps
            and (other.cost_bps, other.es95_bps) != (one.cost_bps, one.es95_bps)
            for other in points
        )
        whole.append(FrontierPoint(one.router, one.risk, one.cost_bps, one.sd_bps, one.es95_bps, not beaten))
    return tuple(sorted(whole, key=lambda one: one.cost_bps))


def _judged(orders: polars.DataFrame) -> polars.DataFrame:
    return order_costs_bps(orders.filter(polars.col("judged")))


def _point(router: str, risk: str, orders: polars.DataFrame) -> FrontierPoint:
    cost = polars.col("cost_bps")
    mean, sd, tail = orders.select(mean=cost.mean(), sd=cost.std(), tail=expected_shortfall(cost)).row(0)
    return FrontierPoint(router, risk, float(mean), float(sd or 0.0), float(tail))


def frontier_table(frontier: CaseFrontier) -> TextTable:
    """Return one row per point, cheapest first."""
    rows = [
        [
            *(one.router, one.risk or "-", fixed_text(one.cost_bps, 3), fixed_text(one.es95_bps)),
            *(fixed_text(one.sd_bps), "yes" if one.efficient else ""),
        ]
        for one in frontier.points
    ]
    return TextTable(["router", "risk profile", "cost", "ES 5 %", "sd", "efficient"], rows)
