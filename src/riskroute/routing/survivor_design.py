"""Designs over implicit sets of survivors: candidates by search, and a bound that holds for every member.

The set has no symmetry left, so candidates are searched for: uniform draws, the members farthest along many directions,
and hill climbs of the leverage itself. The bound does not trust the search. In coordinates in which the information
matrix is the identity, a leverage is a sum of squares of linear functions, and the range of a linear function over
all members is bounded exactly: for any multipliers on the cuts, a separable maximum over all allocations (Lagrangian
duality). The sum of the largest squares is a true bound, if a loose one. The root set's own certificate gives
another; the smaller is stated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from riskroute.learning.design import Design, g_optimal, round_coordinates
from riskroute.learning.exchange import inverse_root
from riskroute.routing.large_design import OUTSIDE

if TYPE_CHECKING:
    from riskroute.routing.survivors import Survivors

Matrix = NDArray[np.float64]
Units = NDArray[np.int64]

_COARSEST = 0.05  # candidates are only some of the members: solving on them to more than this is wasted
_DRAWS = 600
_ROUNDS = 4


def survivor_design(survivors: Survivors, tolerance: float) -> Design:
    """Design over the survivors, with a bound that holds for all of them."""
    rng = np.random.default_rng(0)
    far = [survivors.best(sign * axis) for axis in np.eye(survivors.dim) for sign in (1.0, -1.0)]
    searched = np.array([survivors.witness, *far], dtype=np.int64)
    candidates = np.unique(np.concatenate([survivors.sample(rng, _DRAWS), searched]), axis=0)
    for _ in range(_ROUNDS):
        found = g_optimal(survivors.features(candidates), max(tolerance, _COARSEST))
        support = candidates[found.actions]
        basis, root = _whitening(survivors.features(support), found.weights)
        climbed = np.array([_climb(survivors, start, basis @ root) for start in support[:: max(len(support) // 24, 1)]])
        levers = np.sum((survivors.features(climbed) @ basis @ root) ** 2, axis=1)
        if levers.max() <= found.bound * (1 + _COARSEST):
            break
        candidates = np.unique(np.concatenate([candidates, climbed]), axis=0)
    spans = _spans(survivors, survivors.features(support), found.rank)
    bound = _bound(survivors, basis @ root, found.rank) if spans else np.inf
    return Design(support, found.weights, max(bound, found.bound), found.rank)


def _spans(survivors: Survivors, features: Matrix, rank: int) -> bool:
    """Whether it is proven that every survivor lies in the span of the support, whose features are given."""
    unseen = np.linalg.svd(features)[2][rank:]
    return all(_largest(survivors, sign * direction) <= OUTSIDE for direction in unseen for sign in (1.0, -1.0))


def _whitening(features: Matrix, weights: NDArray[np.float64]) -> tuple[Matrix, Matrix]:
    """``B`` and ``R`` such that the squared norm of ``x B R`` is the leverage of ``x`` under the design."""
    basis = round_coordinates(features)
    return basis, inverse_root(features @ basis, weights)


def _climb(survivors: Survivors, start: Units, white: Matrix) -> Units:
    """Follow the leverage uphill: it is convex, so the member farthest along its gradient never has less."""
    here = start
    for _ in range(6):
        gradient = white @ (white.T @ survivors.features(here[None, :])[0])
        there = np.array(survivors.best(-gradient), dtype=np.int64)
        gain = survivors.features(np.stack([here, there])) @ gradient
        if gain[1] <= gain[0] * (1 + 1e-9):
            break
        here = there
    return here


def _bound(survivors: Survivors, white: Matrix, rank: int) -> float:
    """The smaller of two true bounds on every leverage: by coordinates within the cuts, and from the root's design."""
    root = survivors.root.design(_COARSEST)
    outer = survivors.root.features(root.actions)
    information = (outer * root.weights[:, None]).T @ outer
    inherited = np.inf
    if root.rank == rank:
        inherited = root.bound * float(np.linalg.eigvalsh(white.T @ information @ white)[-1])
    total = 0.0
    for axis in white.T:
        total += max(_largest(survivors, sign * axis) for sign in (1.0, -1.0)) ** 2
    return float(min(inherited, total))


def _largest(survivors: Survivors, axis: NDArray[np.float64]) -> float:
    """Bound on ``<axis, features>`` over the survivors: the best of a few multipliers on the latest cut."""
    cut = survivors.cuts[-1]
    unit = np.linalg.norm(axis) / max(float(np.linalg.norm(cut.coef)), 1e-300)
    values = []
    for multiplier in (0.0, 0.1 * unit, 0.3 * unit, unit, 3 * unit, 10 * unit):
        priced = multiplier * cut.coef - axis
        action = survivors.root.best(priced)
        values.append(-float(survivors.root.action_features(action) @ priced) + multiplier * cut.limit)
    return float(max(min(values), 0.0))
