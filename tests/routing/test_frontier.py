"""The risk frontier against every split of a small order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.routing.frontier import Split, _FrontierPoint, risk_frontier, trace_frontier
from riskroute.routing.venue_models import VenueModel, venue_problem

MODELS = (
    VenueModel("A", (-0.10, -0.001), (0.0, 0.001)),
    VenueModel("B", (-0.05, -0.002), (0.0, 0.01)),
    VenueModel("C", (-0.02, 0.0), (0.1, 0.02)),
)


def value(split: Split, rho: float) -> float:
    """Mean-variance, smaller is better; minus the mean at infinity."""
    return -split[1] if math.isinf(rho) else split[2] - rho * split[1]


def check(points: list[_FrontierPoint], splits: list[Split]) -> None:
    """Every point is the best of all splits from its tolerance to the next, and nowhere else."""
    starts = [point.risk_tolerance for point in points]
    assert starts[0] == 0
    scale = max(abs(mean) + variance for _, mean, variance in splits) or 1.0
    for k, point in enumerate(points):
        end = starts[k + 1] if k + 1 < len(starts) else 2 * starts[-1] + 1
        split = (point.action, point.mean, point.variance)
        assert end > starts[k]
        for rho in (starts[k], (starts[k] + end) / 2, end):
            best = min(value(one, rho) for one in splits)
            assert value(split, rho) == pytest.approx(best, abs=1e-8 * scale * (1 + rho))
        if k:
            assert (point.mean, point.variance) > (points[k - 1].mean, points[k - 1].variance)
    assert points[-1].mean == pytest.approx(max(mean for _, mean, _ in splits), abs=1e-9 * scale)


@pytest.mark.parametrize("shares", [2, 6, 12])
def test_changes_are_where_another_split_becomes_best(shares: int) -> None:
    problem = venue_problem(MODELS, shares, base_variance=0.0, caps=shares)
    splits: list[Split] = []
    for split in itertools.product(range(shares + 1), repeat=3):
        if sum(split) == shares:
            pairs = list(zip(MODELS, split, strict=True))
            splits.append((split, sum(m.mean_of(q) for m, q in pairs), sum(m.variance_of(q) for m, q in pairs)))
    check(risk_frontier(problem), splits)


@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_any_cloud_of_splits_is_traced(seed: int, count: int, coarse: bool) -> None:
    """Coarse clouds have many ties and collinear points."""
    rng = np.random.default_rng(seed)
    cloud = rng.integers(0, 4, (count, 2)).astype(float) if coarse else rng.exponential(size=(count, 2))
    splits: list[Split] = [((k,), -float(mean), float(variance)) for k, (mean, variance) in enumerate(cloud)]
    check(trace_frontier(lambda rho: min(splits, key=lambda one: value(one, rho))), splits)


def test_the_largest_gaps_come_first() -> None:
    splits: list[Split] = [((k,), float(k), float(k**2)) for k in range(101)]

    def best(rho: float) -> Split:
        return min(splits, key=lambda one: value(one, rho))

    whole, some = trace_frontier(best, most=200), trace_frontier(best, most=9)
    assert len(whole) == 101
    assert [point.risk_tolerance for point in whole[1:4]] == [1.0, 3.0, 5.0]
    assert len(some) == 9
    steps = np.diff([point.mean for point in some])
    assert steps.max() <= 25  # halved at least twice everywhere

    asked = trace_frontier(best, at=[38.0], most=4)
    starts = {point.action: point.risk_tolerance for point in asked}
    assert (starts[(19,)], starts[(20,)]) == (37.0, 39.0)  # where it begins and ends, although that takes more
    assert len(asked) < 30


def test_one_split_has_one_point() -> None:
    (only,) = trace_frontier(lambda rho: ((3, 1), -2.0, 0.5))
    assert only == _FrontierPoint(0.0, (3, 1), -2.0, 0.5)


def test_mistakes_are_named() -> None:
    problem = venue_problem(MODELS, 6)
    with pytest.raises(InputError, match="most must be an integer of at least 2, was 1"):
        risk_frontier(problem, most=1)
    with pytest.raises(InputError, match="at must be a number of at least 0, was -1"):
        risk_frontier(problem, at=[-1])
