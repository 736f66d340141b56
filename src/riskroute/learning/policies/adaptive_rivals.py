"""The first two steps of `riskroute.learning.policies.adaptive`: scores that rivals win, and the loss of the leader."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from riskroute.arrays import Integers, Matrix, Vector
from riskroute.errors import InputError
from riskroute.validation import check_array, kernel_array

WIDENED = (2.0, 3.0)
"""Factors by which draws are widened: the first every fourth draw, the second the ones after these."""


def rival_scores(center: Vector, drawn: Matrix) -> Matrix:
    """Return the scores to find rivals with, one per row: the centre, all draws ``(n, dim)``, some of them widened."""
    center = kernel_array("center", center, (None,))
    drawn = kernel_array("drawn", drawn, (None, len(center)))
    n, dim = drawn.shape
    scores = np.empty((1 + n + sum((n + 3 - k) // 4 for k in range(len(WIDENED))), dim))
    _scores(center, drawn, scores)
    return scores


def rival_scores_plainly(center: Vector, drawn: Matrix) -> Matrix:
    """Return the same: the definition of what is compiled."""
    widened = [center + factor * (drawn[k::4] - center) for k, factor in enumerate(WIDENED)]
    return np.vstack([center, drawn, *widened])


@njit(cache=True)
def _scores(center: Vector, drawn: Matrix, scores: Matrix) -> None:
    n, dim = drawn.shape
    for a in range(dim):
        scores[0, a] = center[a]
    for i in range(n):
        for a in range(dim):
            scores[1 + i, a] = drawn[i, a]
    row = 1 + n
    for k in range(len(WIDENED)):
        for i in range(k, n, 4):
            for a in range(dim):
                scores[row, a] = center[a] + WIDENED[k] * (drawn[i, a] - center[a])
            row += 1


def leader_loss(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Return how much better the best action is than the leader, averaged over draws ``(n, dim)``.

    ``features`` are those of the rivals, the leader first, and ``place`` says which rival is best in each draw.
    """
    drawn = kernel_array("drawn", drawn, (None, None))
    features = kernel_array("features", features, (None, drawn.shape[1]))
    check_array("place", place, np.int64, (len(drawn),))
    loss: float = _loss(drawn, features, place)
    if math.isnan(loss) and len(place) and not 0 <= place.min() <= place.max() < len(features):
        raise InputError(f"place must be from 0 to {len(features) - 1}, was {place.min()} to {place.max()}")
    return loss


def leader_loss_plainly(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Return the same: the definition of what is compiled."""
    return float(np.mean(drawn @ features[0] - np.einsum("ij,ij->i", drawn, features[place])))


@njit(cache=True, error_model="numpy")
def _loss(drawn: Matrix, features: Matrix, place: Integers) -> float:
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
