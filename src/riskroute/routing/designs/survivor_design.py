"""Designs over implicit sets of survivors: candidates by search, and a bound that holds for every member.

The set has no symmetry left, so candidates are searched for: uniform draws, the members farthest along many directions,
and hill climbs of the leverage itself. The bound does not rely on the search; it is the smallest of three. The first is
that of a separable function that is nowhere below the leverage (`majorant`). For the second, a leverage is written as
a sum of squares of linear functions, in coordinates in which the information matrix is the identity, and the range of
each over all members is bounded. The root set's own certificate gives the third. The first two use the latest cut at a
price (Lagrangian duality).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.learning.actions import Action
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.wide import WideDesign, few_wide_rows, wide_design
from riskroute.learning.tally import ActionBatch
from riskroute.routing.designs.large_design import OUTSIDE
from riskroute.routing.designs.majorant import majorant_of_leverages
from riskroute.routing.lattice_set import LatticeCut, LatticeSet
from riskroute.routing.search import MEMBER_SLACK

_COARSEST = 0.05  # the finest tolerance worth solving for: candidates are only some of the members
_DRAWS = 600
_AXES = 120  # directions searched at first
_ROUNDS = 4
_STARTS = 24  # climbs per round


class SurvivorCutSet(Protocol):
    """A set of allocations behind cuts, as `riskroute.routing.survivors` makes them."""

    root: LatticeSet
    cuts: tuple[LatticeCut, ...]
    witness: Action
    dim: int

    def features(self, actions: ActionBatch) -> Floats:
        """Feature vectors of members."""

    def best(self, coef: Vector) -> Action:
        """Best member found for a score."""

    def sample(self, rng: np.random.Generator, count: int) -> ActionBatch:
        """Uniform draws."""


def survivor_design(survivors: SurvivorCutSet, tolerance: float) -> Design:
    """Return a design over the survivors, with a bound that holds for all of them."""
    tolerance = max(tolerance, _COARSEST)
    rng = np.random.default_rng(0)
    axes = range(0, survivors.dim, -(-2 * survivors.dim // _AXES))
    far = [survivors.best(sign * np.eye(1, survivors.dim, k)[0]) for k in axes for sign in (1.0, -1.0)]
    draws = max(_DRAWS, 3 * survivors.dim)
    searched = np.array([survivors.witness, *far], dtype=np.int64)
    candidates = np.unique(np.concatenate([survivors.sample(rng, draws), searched]), axis=0)
    for left in reversed(range(_ROUNDS)):
        found = wide_design(survivors.features(candidates), tolerance)
        support = candidates[found.weights > 0]
        high = _highest(survivors, survivors.sample(rng, draws), found)
        starts = [*support[:: -(-len(support) // _STARTS)], *high[:_STARTS]]
        climbed = np.array([_climb(survivors, start, found) for start in starts])
        levers = np.sum((survivors.features(climbed) @ found.whitening) ** 2, axis=1)
        if left == 0 or levers.max() <= found.rank * (1 + tolerance) * (1 + _COARSEST):
            break
        candidates = np.unique(np.concatenate([candidates, climbed, high]), axis=0)
    index, weights, whitening = few_wide_rows(survivors.features(candidates), found)
    support, rank = candidates[index], whitening.shape[1]
    bound = _bound(survivors, whitening) if _spans(survivors, survivors.features(support), rank) else np.inf
    return Design(support, weights, bound, rank)


def _spans(survivors: SurvivorCutSet, features: Matrix, rank: int) -> bool:
    """Whether every survivor provably lies in the span of the support, whose features are given."""
    unseen = np.linalg.svd(np.linalg.qr(features, mode="r"))[2][rank:]
    return all(_largest(survivors, sign * direction) <= OUTSIDE for direction in unseen for sign in (1.0, -1.0))


def _highest(survivors: SurvivorCutSet, drawn: Units, design: WideDesign) -> Units:
    """Return the draws whose leverage is above the rank, the highest first."""
    levers = np.round(np.sum((survivors.features(drawn) @ design.whitening) ** 2, axis=1) / design.rank, 9)
    order = np.argsort(-levers, kind="stable")
    return np.asarray(drawn[order[levers[order] > 1]])


def _climb(survivors: SurvivorCutSet, start: Units, design: WideDesign) -> Units:
    """Follow the leverage uphill: it is convex, so the member farthest along its gradient never has less."""
    here = start
    for _ in range(6):
        gradient = design.whitening @ (design.whitening.T @ survivors.features(here[None, :])[0])
        there = np.array(survivors.best(-gradient), dtype=np.int64)
        gain = survivors.features(np.stack([here, there])) @ gradient
        if gain[1] <= gain[0] * (1 + 1e-9):
            break
        here = there
    return here


def _bound(survivors: SurvivorCutSet, whitening: Matrix) -> float:
    """Return the smallest of three true bounds on every leverage: separable, by coordinates, from the root's design."""
    lattice, lot = survivors.root.lattice, survivors.root.lot
    units = np.repeat([lot, lot**2], survivors.root.slots) / survivors.root.scale
    cut = survivors.cuts[-1]
    limit = cut.limit + MEMBER_SLACK * max(1.0, abs(cut.limit))
    found = majorant_of_leverages(lattice, whitening * units[:, None], (*survivors.root.separable(cut.coef), limit))
    largest = [max(_largest(survivors, sign * axis) for sign in (1.0, -1.0)) for axis in whitening.T]
    found = min(found, float(np.sum(np.square(largest))))
    root = survivors.root.design(_COARSEST)
    if root.rank == whitening.shape[1]:
        outer = survivors.root.features(root.actions) @ whitening
        found = min(found, root.bound * float(np.linalg.eigvalsh((outer * root.weights[:, None]).T @ outer)[-1]))
    return max(found, float(whitening.shape[1]))


def _largest(survivors: SurvivorCutSet, axis: Floats) -> float:
    """Bound ``<axis, features>`` over the survivors, with the best of a few multipliers on the latest cut."""
    cut = survivors.cuts[-1]
    unit = np.linalg.norm(axis) / max(float(np.linalg.norm(cut.coef)), 1e-300)
    values = []
    for multiplier in (0.0, 0.1 * unit, 0.3 * unit, unit, 3 * unit, 10 * unit):
        priced = multiplier * cut.coef - axis
        action = survivors.root.best(priced)
        values.append(-float(survivors.root.action_features(action) @ priced) + multiplier * cut.limit)
    return float(max(min(values), 0.0))
