"""The risk frontier: the best split of a problem as the risk tolerance runs from nothing to everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from riskroute.errors import whole_number
from riskroute.learning.actions import Action, as_batch
from riskroute.learning.problem import Problem


@dataclass(frozen=True)
class FrontierPoint:
    """The best split at a risk tolerance, with its mean and variance; infinity cares for the mean only."""

    risk_tolerance: float
    action: Action
    mean: float
    variance: float


def risk_frontier(problem: Problem, points: int = 41) -> list[FrontierPoint]:
    """Best splits from risk tolerance 0 (variance only) to infinity (mean only), at least ``points`` tolerances.

    Tolerances are spaced evenly in their logarithm, around the ratio of the largest variance to the largest mean of
    the splits that are best at the two ends.
    """
    whole_number("points", points, minimum=3)
    ends = [_point(problem, 0.0), _point(problem, np.inf)]
    means = [abs(end.mean) for end in ends if end.mean]
    apart = abs(ends[1].mean - ends[0].mean)
    middle = abs(ends[1].variance - ends[0].variance) / apart if apart > 0 else max(means, default=1.0)
    inner = [_point(problem, float(rho)) for rho in (middle or 1.0) * np.logspace(-3, 3, points - 2)]
    return [ends[0], *inner, ends[1]]


def _point(problem: Problem, risk_tolerance: float) -> FrontierPoint:
    score: NDArray[np.float64] = (
        -problem.mean_coef if np.isinf(risk_tolerance) else problem.var_coef - risk_tolerance * problem.mean_coef
    )
    action = problem.actions.best(score)
    batch = as_batch(action)
    return FrontierPoint(
        risk_tolerance, action, float(problem.means(batch)[0]), float(max(problem.variances(batch)[0], 0.0))
    )
