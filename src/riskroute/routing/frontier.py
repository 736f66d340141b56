"""Risk frontier: the best split at every risk tolerance from zero to infinity, and the tolerances where it changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from riskroute.core.validation import instance_of, valid_function, valid_list, valid_magnitude, whole_number
from riskroute.learning.actions import Action, as_batch
from riskroute.learning.problem import Problem

_ROUNDING = 1e-11  # relative differences below this are rounding errors


@dataclass(frozen=True)
class _FrontierPoint:
    """Split with its mean and variance, and the smallest risk tolerance at which it is best."""

    risk_tolerance: float
    action: Action
    mean: float
    variance: float


Split = tuple[Action, float, float]  # a split with its mean and variance
Best = Callable[[float], Split]  # returns the best split at a risk tolerance; at infinity, the one of largest mean


def risk_frontier(problem: Problem, *, at: Sequence[float] = (), most: int = 100) -> list[_FrontierPoint]:
    """Return the best splits of a problem, from risk tolerance 0 (variance only) to infinity (mean only).

    Examples
    --------
    >>> from riskroute.routing.venue_models import VenueModel, venue_problem
    >>> venues = VenueModel("safe", (-3.0, 0.0), (0.0, 0.0)), VenueModel("cheap", (-1.0, 0.0), (0.0, 0.5))
    >>> points = risk_frontier(venue_problem(venues, 2, base_variance=0.0, caps=2))
    >>> [(point.risk_tolerance, point.action) for point in points]  # gain 2 per share; added variance 0.5, then 1.5
    [(0.0, (2, 0)), (0.25, (1, 1)), (0.75, (0, 2))]
    """
    instance_of("problem", problem, Problem, "a Problem")

    def best(risk_tolerance: float) -> Split:
        infinite = math.isinf(risk_tolerance)
        coef = -problem.mean_coef if infinite else problem.var_coef - risk_tolerance * problem.mean_coef
        action = problem.actions.best(coef)
        batch = as_batch(action)
        return action, float(problem.means(batch)[0]), float(max(problem.variances(batch)[0], 0.0))

    return trace_frontier(best, at=at, most=most)


def trace_frontier(best: Best, *, at: Sequence[float] = (), most: int = 100) -> list[_FrontierPoint]:
    """Return all splits that are best at some risk tolerance, found by few calls of ``best``.

    It is called at 0, at infinity, at the tolerances ``at``, and where two known splits tie. A third split that beats
    both at the tie lies between them in mean and variance. Without one, the best split changes exactly at the tie. The
    search stops at ``most`` splits, and fills the widest gaps in mean and variance first. The
    best splits at the tolerances ``at``, and the ends of the ranges where they are best, are found even beyond
    ``most`` splits.
    """
    whole_number("most", most, minimum=2)
    asked = [
        valid_magnitude("at", one, minimum=0.0, smallest=0) for one in valid_list("at", at, object, "risk tolerances")
    ]
    valid_function("best", best)
    found = dict.fromkeys(best(tolerance) for tolerance in (0.0, math.inf, *asked))
    tied: set[tuple[object, object]] = set()
    while True:
        corners = _corners(list(found))
        gaps = [pair for pair in itertools.pairwise(corners) if pair not in tied]
        if len(found) >= most:
            gaps = [(one, other) for one, other in gaps if any(_beside(corners, one, other, rho) for rho in asked)]
        if not gaps:
            break
        one, other = max(gaps, key=lambda pair: (pair[1][1] - pair[0][1]) * (pair[1][2] - pair[0][2]))
        tied.add((one, other))
        found[best(_tie(one, other))] = None
    starts = [0.0, *(_tie(one, other) for one, other in itertools.pairwise(corners))]
    return [_FrontierPoint(start, *corner) for start, corner in zip(starts, corners, strict=True)]


def _corners(splits: Sequence[Split]) -> list[Split]:
    """Return the splits that are best at some tolerance, lowest variance first: a convex hull of mean and variance."""
    largest = max(abs(mean) for _, mean, _ in splits)
    spread = max(1e-9 * largest**2, *(variance for _, _, variance in splits), 0.0)
    # ties at smaller tolerances are rounding errors; variances below 1e-9 squared means count as zero
    noise = _ROUNDING * spread / (largest or 1.0)
    corners: list[Split] = []
    for split in sorted(splits, key=lambda one: (one[2], -one[1])):
        if corners and split[1] - corners[-1][1] <= _ROUNDING * largest:
            continue
        while corners and _tie(corners[-1], split) <= noise + (_tie(*corners[-2:]) if len(corners) > 1 else 0.0):
            corners.pop()
        corners.append(split)
    return corners


def _beside(corners: Sequence[Split], one: Split, other: Split, risk_tolerance: float) -> bool:
    """Return whether ``one`` or ``other`` is the best corner at a risk tolerance."""
    best = min(corners, key=lambda split: split[2] - risk_tolerance * split[1])
    return best in (one, other)


def _tie(one: Split, other: Split) -> float:
    """Return the risk tolerance at which two splits are equally good; the second has the larger mean."""
    return (other[2] - one[2]) / (other[1] - one[1])
