"""The risk frontier against every split of a small order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from riskroute.errors import InputError
from riskroute.routing.frontier import risk_frontier
from riskroute.routing.venues import VenueModel, venue_problem

MODELS = (
    VenueModel("A", (-0.10, -0.001), (0.0, 0.001)),
    VenueModel("B", (-0.05, -0.002), (0.0, 0.01)),
    VenueModel("C", (-0.02, 0.0), (0.1, 0.02)),
)


def test_every_point_is_the_best_of_all_splits() -> None:
    problem = venue_problem(MODELS, 6, base_variance=0.0, caps=[6, 6, 6])
    splits = [split for split in itertools.product(range(7), repeat=3) if sum(split) == 6]
    moments = {
        split: tuple(
            sum(getattr(model, f"{name}_of")(shares) for model, shares in zip(MODELS, split, strict=True))
            for name in ("mean", "variance")
        )
        for split in splits
    }
    points = risk_frontier(problem, points=15)
    assert len(points) == 15
    for point in points:
        rho = point.risk_tolerance
        value = {
            split: -mean if np.isinf(rho) else variance - rho * mean for split, (mean, variance) in moments.items()
        }
        assert value[point.action] == pytest.approx(min(value.values()), abs=1e-9)
        assert (point.mean, point.variance) == pytest.approx(moments[point.action], abs=1e-9)


def test_more_tolerance_means_more_profit_and_more_risk() -> None:
    points = risk_frontier(venue_problem(MODELS, 40, base_variance=0.0, caps=40))
    assert (points[0].risk_tolerance, points[-1].risk_tolerance) == (0.0, np.inf)
    for one, other in itertools.pairwise(points):
        assert other.mean >= one.mean - 1e-9
        assert other.variance >= one.variance - 1e-9
    assert len({point.action for point in points}) > 5


def test_two_points_are_not_enough() -> None:
    with pytest.raises(InputError, match="points must be an integer of at least 3, was 2"):
        risk_frontier(venue_problem(MODELS, 6), points=2)
