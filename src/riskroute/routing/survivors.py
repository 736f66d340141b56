"""Survivors of elimination: the allocations that pass a growing list of separable constraints, and designs over them.

Each constraint is a *cut* of the *root*, the set of all allocations. Up to a million survivors, or fewer with more than
20 slots, are listed exactly. Larger sets stay implicit. Membership is then a test, and a search under Lagrange
multipliers on the cuts approximates the best allocation. Draws are states of a random walk that moves units between two
slots; its stationary distribution is uniform.

Survivors have no symmetry, so a search finds the candidates of a design: uniform draws, the members farthest along
many directions, and hill climbs of the leverage. The bound on the leverage does not rely on the search. It is the
smallest of three bounds that hold for every member: the maximum of a separable majorant (`certify_by_majorant`); a sum
of squares of linear functions, each bounded over its range; and the bound proven for the root's design. The first two
relax the latest cut with a Lagrange multiplier.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from riskroute.core.arrays import Flags, Floats, Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.seeding import checked_rng, seeding_digest, seeding_hash
from riskroute.core.validation import finite_array, real_number, whole_number
from riskroute.learning.actions import MOST_DRAWN, Action, Actions, ActionSet, as_action
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.wide import WideDesign, few_wide_rows, wide_design
from riskroute.learning.tally import ActionBatch
from riskroute.routing.cut_search import MEMBER_SLACK, CutLattice
from riskroute.routing.designs.certificate import certify_by_majorant
from riskroute.routing.designs.large import OUTSIDE
from riskroute.routing.lattice import LatticeCut, LatticeSet
from riskroute.routing.splits import split_list_limit

_LARGEST_SURVIVOR_LIST = 1_000_000
_FINEST = 0.05  # a tighter design is not worth its time: candidates are only a sample of the members


def survivors_of(root: LatticeSet, cuts: tuple[LatticeCut, ...], witness: Action) -> ActionSet:
    """Return the members of ``root`` that pass every cut: a list if they are few, an implicit set otherwise.

    ``witness`` is any member that passes every cut.
    """
    if cuts:
        units = _cut_lattice(root, cuts).listed(split_list_limit(root.slots, _LARGEST_SURVIVOR_LIST))
        if units is not None:
            rows = units * root.lot
            return root.listed_rows(rows[_passes(root, cuts, rows)])
    return _Survivors(root, cuts, witness)


def _cut_lattice(root: LatticeSet, cuts: tuple[LatticeCut, ...]) -> CutLattice:
    return CutLattice(root.lattice, [(*root.separable(cut.coef), cut.limit) for cut in cuts])


def _passes(root: LatticeSet, cuts: tuple[LatticeCut, ...], rows: ActionBatch) -> Flags:
    features = root.features(rows)
    inside = np.ones(len(rows), dtype=bool)
    for cut in cuts:
        room = MEMBER_SLACK * max(1.0, abs(cut.limit))
        inside &= np.einsum("ij,j->i", features, cut.coef) <= cut.limit + room
    return inside


class _Survivors(ActionSet):
    """Implicit set of allocations: members of ``root`` that pass every cut, too many to list."""

    def __init__(
        self, root: LatticeSet, cuts: tuple[LatticeCut, ...], witness: Action, size: int | None = None
    ) -> None:
        self.root, self.cuts, self.witness = root, cuts, witness
        self.dim, self.coordinates = root.dim, root.coordinates
        self._stated_size = size
        self._designs: dict[float, Design] = {}

    def __repr__(self) -> str:
        return f"Survivors({len(self.cuts)} cuts of {self.root!r})"

    single = False  # a set with one member is listed

    @cached_property
    def size(self) -> int:
        """Number of members: counted where possible, otherwise estimated by nested sampling."""
        return self._stated_size or (self._members.count() if self.cuts else self.root.size) or self._estimate_size()

    @property
    def fingerprint(self) -> str:
        cuts = [[seeding_digest(cut.coef[:, None]), f"{cut.limit:.9e}"] for cut in self.cuts]
        return f"{self.root.fingerprint}:{seeding_hash(cuts)}"

    def features(self, actions: ActionBatch) -> Vector:
        return self.root.features(actions)

    def contains(self, actions: ActionBatch) -> Flags:
        """Return a boolean mask ``(n,)`` of the share vectors ``(n, slots)`` that are in this set."""
        return self.root.contains(actions) & _passes(self.root, self.cuts, np.asarray(actions))

    def largest_norm(self) -> float:
        return self.root.largest_norm()

    def best(self, coef: Vector) -> Action:
        """Return the best member: exact if the best allocation of the root survived, otherwise found by a search."""
        coef = finite_array("coef", coef, ndim=1, length=self.dim)
        free = self.root.best(coef)
        if _passes(self.root, self.cuts, np.array([free], dtype=np.int64))[0]:
            return free
        found, value = self.witness, self._score(self.witness, coef)
        multipliers = np.zeros(len(self.cuts))
        size = np.array([np.linalg.norm(coef) / (np.linalg.norm(cut.coef) + 1e-300) for cut in self.cuts])
        for _ in range(40):  # raise the multipliers of violated cuts
            priced = coef + sum(m * cut.coef for m, cut in zip(multipliers, self.cuts, strict=True))
            candidate = self.root.best(priced)
            broken = np.array([self._score(candidate, cut.coef) > cut.limit for cut in self.cuts])
            if broken.any():
                multipliers = np.where(broken, 1.6 * multipliers + 0.02 * size, multipliers)
            else:
                if self._score(candidate, coef) < value:
                    found, value = candidate, self._score(candidate, coef)
                multipliers *= 0.8
        units = np.array(found, dtype=np.int64) // self.root.lot
        return as_action(self._members.descend(units, *self.root.separable(coef)) * self.root.lot)

    def _score(self, action: Action, coef: Vector) -> float:
        return float(self.root.action_features(action) @ coef)

    @cached_property
    def _members(self) -> CutLattice:
        return _cut_lattice(self.root, self.cuts)

    def sample(self, rng: np.random.Generator, count: int) -> ActionBatch:
        """Draw ``count`` members uniformly: exactly if there are no cuts, otherwise by a long random walk."""
        count = whole_number("count", count, minimum=0, maximum=MOST_DRAWN)
        if not self.cuts:
            return self.root.sample(rng, count)
        start = np.array(self.witness, dtype=np.int64) // self.root.lot
        thin = 40 * self.root.slots
        drawn = self._members.random_walk(start, count, 50 * thin, thin, checked_rng(rng))
        return np.asarray(drawn * self.root.lot)

    def within(self, coef: Vector, tolerance: float) -> ActionSet:
        """Keep members that score within ``tolerance`` of the best one found; more stay if the search missed it."""
        tolerance = real_number("tolerance", tolerance, minimum=0)
        best = self.best(coef)
        cut = LatticeCut(np.array(coef, dtype=np.float64), self._score(best, coef) + tolerance)
        return survivors_of(self.root, (*self.cuts, cut), best)

    def top(self, coef: Vector, count: int) -> ActionSet:
        """Keep the ``count`` best members: exactly if listed, otherwise up to an estimated quantile of their scores."""
        count = whole_number("count", count, maximum=self.size)
        coef = finite_array("coef", coef, ndim=1, length=self.dim).copy()
        draws = 2000
        scores = self.features(self.sample(np.random.default_rng(0), draws)) @ coef
        share, best = count / self.size, self.best(coef)
        if count <= split_list_limit(self.root.slots, _LARGEST_SURVIVOR_LIST):  # list a few more, then choose exactly
            margin = 4 * math.sqrt(share * (1 - share) / draws)  # four standard errors of the quantile
            wide = LatticeCut(coef, float(np.quantile(scores, min(1.0, share + margin))))
            kept = survivors_of(self.root, (*self.cuts, wide), best)
            if isinstance(kept, Actions):
                return kept.top(coef, min(count, kept.size))
        cut = LatticeCut(coef, max(float(np.quantile(scores, share)), self._score(best, coef)))
        return _Survivors(self.root, (*self.cuts, cut), best, size=count)

    def design(self, tolerance: float) -> Design:
        tolerance = real_number("tolerance", tolerance, minimum=1e-9, maximum=10)
        if not self.cuts:
            return self.root.design(tolerance)
        if tolerance not in self._designs:
            self._designs[tolerance] = _design(self, tolerance)
        return self._designs[tolerance]

    def listed(self) -> Actions:
        limit = split_list_limit(self.root.slots, _LARGEST_SURVIVOR_LIST)
        raise InputError(f"too many survivors to list (limit {limit:,})")

    def _estimate_size(self) -> int:
        """Estimate the size by nested sampling: multiply the fractions kept by nested cuts, about a fifth each."""
        rng = np.random.default_rng(0)
        share = 0.0  # log of the fraction of the root set
        for k, cut in enumerate(self.cuts):
            outer = _Survivors(self.root, self.cuts[:k], self.witness)
            while True:
                scores = outer.features(outer.sample(rng, 1000)) @ cut.coef
                below = scores[scores < scores.max()]  # many ties at the maximum would stop the nesting
                level = float(np.quantile(below, 0.2)) if len(below) else cut.limit
                inside = float(np.mean(scores <= cut.limit))
                if inside >= 0.2 or level <= cut.limit:
                    share += math.log(max(inside, 1 / len(scores)))
                    break
                share += math.log(float(np.mean(scores <= level)))
                outer = _Survivors(self.root, (*self.cuts[:k], LatticeCut(cut.coef, level)), self.witness)
        bits = share / math.log(2)  # the root may hold 1e40 members: multiply in integers, not floats
        whole = math.floor(bits)
        return max(int(self.root.size * round(2 ** (bits - whole) * 2**53)) >> (53 - whole), 1)


def _design(survivors: _Survivors, tolerance: float) -> Design:
    tolerance = max(tolerance, _FINEST)
    rng = np.random.default_rng(0)
    axes = range(0, survivors.dim, -(-2 * survivors.dim // 120))  # at most 120 directions, counting both signs
    far = [survivors.best(sign * np.eye(1, survivors.dim, k)[0]) for k in axes for sign in (1.0, -1.0)]
    draws = max(600, 3 * survivors.dim)
    searched = np.array([survivors.witness, *far], dtype=np.int64)
    candidates = np.unique(np.concatenate([survivors.sample(rng, draws), searched]), axis=0)
    for left in reversed(range(4)):
        found = wide_design(survivors.features(candidates), tolerance)
        support = candidates[found.weights > 0]
        high = _highest(survivors, survivors.sample(rng, draws), found)
        starts = [*support[:: -(-len(support) // 24)], *high[:24]]  # at most 24 hill climbs of each kind
        climbed = np.array([_climb(survivors, start, found) for start in starts])
        levers = np.sum((survivors.features(climbed) @ found.whitening) ** 2, axis=1)
        if left == 0 or levers.max() <= found.rank * (1 + tolerance) * (1 + _FINEST):
            break
        candidates = np.unique(np.concatenate([candidates, climbed, high]), axis=0)
    index, weights, whitening = few_wide_rows(survivors.features(candidates), found)
    support, rank = candidates[index], whitening.shape[1]
    bound = _bound(survivors, whitening) if _spans(survivors, survivors.features(support), rank) else np.inf
    return Design(support, weights, bound, rank)


def _spans(survivors: _Survivors, features: Matrix, rank: int) -> bool:
    """Return whether every survivor provably lies in the span of ``features``, the features of a design's support."""
    unseen = np.linalg.svd(np.linalg.qr(features, mode="r"))[2][rank:]
    return all(_largest(survivors, sign * direction) <= OUTSIDE for direction in unseen for sign in (1.0, -1.0))


def _highest(survivors: _Survivors, drawn: Units, design: WideDesign) -> Units:
    levers = np.round(np.sum((survivors.features(drawn) @ design.whitening) ** 2, axis=1) / design.rank, 9)
    order = np.argsort(-levers, kind="stable")
    return np.asarray(drawn[order[levers[order] > 1]])


def _climb(survivors: _Survivors, start: Units, design: WideDesign) -> Units:
    """Climb the leverage: it is convex, so moving to the member farthest along its gradient never lowers it."""
    here = start
    for _ in range(6):
        gradient = design.whitening @ (design.whitening.T @ survivors.features(here[None, :])[0])
        there = np.array(survivors.best(-gradient), dtype=np.int64)
        gain = survivors.features(np.stack([here, there])) @ gradient
        if gain[1] <= gain[0] * (1 + 1e-9):
            break
        here = there
    return here


def _bound(survivors: _Survivors, whitening: Matrix) -> float:
    """Return the smallest of three bounds on every leverage: by majorant, by coordinates, by the root's design."""
    lattice, lot = survivors.root.lattice, survivors.root.lot
    units = np.repeat([lot, lot**2], survivors.root.slots) / survivors.root.scale
    cut = survivors.cuts[-1]
    limit = cut.limit + MEMBER_SLACK * max(1.0, abs(cut.limit))
    found = certify_by_majorant(lattice, whitening * units[:, None], (*survivors.root.separable(cut.coef), limit))
    largest = [max(_largest(survivors, sign * axis) for sign in (1.0, -1.0)) for axis in whitening.T]
    found = min(found, float(np.sum(np.square(largest))))
    root = survivors.root.design(_FINEST)
    if root.rank == whitening.shape[1]:
        outer = survivors.root.features(root.actions) @ whitening
        found = min(found, root.bound * float(np.linalg.eigvalsh((outer * root.weights[:, None]).T @ outer)[-1]))
    return max(found, float(whitening.shape[1]))


def _largest(survivors: _Survivors, axis: Floats) -> float:
    """Return an upper bound on ``<axis, features>``: the lowest for a few Lagrange multipliers on the latest cut."""
    cut = survivors.cuts[-1]
    unit = np.linalg.norm(axis) / max(float(np.linalg.norm(cut.coef)), 1e-300)
    values = []
    for multiplier in (0.0, 0.1 * unit, 0.3 * unit, unit, 3 * unit, 10 * unit):
        priced = multiplier * cut.coef - axis
        action = survivors.root.best(priced)
        values.append(-float(survivors.root.action_features(action) @ priced) + multiplier * cut.limit)
    return float(max(min(values), 0.0))
