"""The first two steps of `riskroute.learning.policies.adaptive`: scores that rivals win, and the loss of the leader."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, kernel_array
from riskroute.learning.belief import LONGEST
from riskroute.learning.belief_compiled import write_belief_draws
from riskroute.learning.belief_fit import draw_belief_plainly

WIDENED = (2.0, 3.0)
"""Factors by which draws are widened: the first every fourth draw, the second the ones after these."""


def rival_scores(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    """Return the scores to find rivals with, one per row: the centre, draws around it, and some of them widened.

    The draws are made of standard normal numbers ``(n, dim)``, a row each, and lie in rows 1 to n.
    """
    center = kernel_array("center", center, (None,))
    dim = len(center)
    covariance = kernel_array("covariance", covariance, (dim, dim))
    normals = kernel_array("normals", normals, (None, dim))
    n = len(normals)
    if dim <= LONGEST:
        scores = np.empty((1 + n + (n + 3) // 4 + (n + 2) // 4, dim))
        if rival_scores_compiled(center, covariance, normals, scores):
            return scores
    return rival_scores_plainly(center, covariance, normals)


def rival_scores_plainly(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    """Return the same: the definition of what is compiled."""
    drawn = draw_belief_plainly(center, covariance, normals)
    widened = [center + factor * (drawn[k::4] - center) for k, factor in enumerate(WIDENED)]
    return np.vstack([center, drawn, *widened])


@njit(cache=True, error_model="numpy")
def rival_scores_compiled(center: Vector, covariance: Matrix, normals: Matrix, scores: Matrix) -> bool:
    """Write the scores; False if the covariance has no factor."""
    n, dim = normals.shape
    if not write_belief_draws(center, covariance, normals, scores, 1):
        return False
    for a in range(dim):
        scores[0, a] = center[a]
    row = 1 + n
    for k in range(len(WIDENED)):
        for i in range(k, n, 4):
            for a in range(dim):
                scores[row, a] = center[a] + WIDENED[k] * (scores[1 + i, a] - center[a])
            row += 1
    return True


def leader_loss(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Return how much better the best action is than the leader, averaged over draws ``(n, dim)``.

    ``features`` are those of the rivals, the leader first, and ``place`` says which rival is best in each draw.
    """
    drawn = kernel_array("drawn", drawn, (None, None))
    features = kernel_array("features", features, (None, drawn.shape[1]))
    check_array("place", place, np.int64, (len(drawn),))
    loss: float = leader_loss_compiled(drawn, features, place)
    if math.isnan(loss) and len(place) and not 0 <= place.min() <= place.max() < len(features):
        raise InputError(f"place must be from 0 to {len(features) - 1}, was {place.min()} to {place.max()}")
    return loss


def leader_loss_plainly(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Return the same: the definition of what is compiled."""
    return float(np.mean(drawn @ features[0] - np.einsum("ij,ij->i", drawn, features[place])))


@njit(cache=True, error_model="numpy")
def leader_loss_compiled(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Do what `leader_loss` does; not a number if a place does not exist."""
    n, dim = drawn.shape
    total = 0.0
    for i in range(n):
        if not 0 <= place[i] < len(features):
            return math.nan
        ours, best = 0.0, 0.0
        for a in range(dim):
            ours += drawn[i, a] * features[0, a]
            best += drawn[i, a] * features[place[i], a]
        total += ours - best
    return float(total / n)
