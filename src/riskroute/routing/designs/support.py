"""From an invariant design to an explicit one: real allocations with weights.

An orbit stands for all its permutations, which may be astronomically many. A few families of each (`families`) do
nearly as well, with weights fitted so that their information matrix comes as close as possible to the invariant one: if
the invariant matrix is at most ``1 / s`` times the explicit one (as matrices), no leverage grows by more than a factor
of ``1 / s``. In coordinates in which the invariant matrix is the identity, ``s`` is the smallest eigenvalue of the
explicit one, so the loss is known exactly.

Every family has one weight, and there are at most a few hundred families, so neither time nor memory grows with the
square of the number of allocations. The weights are the unique solution of a strictly convex problem, and are rounded
at the end, so that every processor finds the same ones.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from riskroute.core.arrays import Units, Vector
from riskroute.learning.design.canonical import FINE_GRID, canonical_least_norm, canonical_weights, on_canonical_grid
from riskroute.routing.designs.families import balanced_families, family_length, family_orbit_size
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups, symmetric_inverse_root

MOST_POINTS = 30_000
"""No support is larger than this; what stopping there costs is part of the bound."""

_USED = 1e-9  # orbits with a smaller weight are left out
_GROWTH = 1.5  # factor on the number of families from one try to the next
_POOLS = 2, 8  # multiples of the number of families allowed, to choose from where that many are not enough
_RIDGE = 1e-7  # fraction of the diagonal that is added to it: makes the weights unique


def explicit_support(
    information: SymmetricInformation, orbits: list[Orbit], weights: Vector, limit: int, enough: float
) -> tuple[Units, Vector, float]:
    """Return allocations ``(n, m)`` in units, ``n <= limit``, their weights, and by which factor leverages may grow.

    More and more families of the orbits are taken until the factor is below ``enough``; where ``limit`` does not allow
    that, the best are chosen among many.
    """
    used = np.flatnonzero(weights > _USED)
    kept, shares = [orbits[i] for i in used], weights[used]
    allowed = min(limit, MOST_POINTS)
    shifts = family_length(information.groups)
    most = allowed // shifts
    every = sum(-(-family_orbit_size(orbit) // shifts) for orbit in kept)
    root = symmetric_inverse_root(information.explicit())
    best: tuple[Units, Vector, float] | None = None
    count = len(used)
    while best is None or count <= most:
        families = balanced_families(information, kept, shares, count, seed=count)
        found = _fitted(information.groups, families, root, allowed)
        if best is None or found[2] < best[2]:
            best = found
        if best[2] <= enough or count >= every:
            break
        count = math.ceil(_GROWTH * count)
    for multiple in _POOLS if allowed == limit and best[2] > enough else ():
        families = balanced_families(information, kept, shares, multiple * max(most, 1), seed=0)
        chosen = _exact(information, families, most)
        found = _fitted(information.groups, families if chosen is None else chosen, root, allowed)
        if found[2] < best[2]:
            best = found
        if chosen is not None:
            break
    return best


def _exact(information: SymmetricInformation, families: list[Units], most: int) -> list[Units] | None:
    """Return about ``most`` families that have exactly the invariant matrix with some weights; None if they cannot.

    A matrix that shifts do not change is known from the rows of the first slot of each group.
    """
    groups = information.groups
    matrix = information.explicit()
    size = np.sqrt(np.diag(matrix))
    size[size == 0] = 1.0
    firsts = np.array([slots[0] for slots in groups.members])
    firsts = np.concatenate([firsts, firsts + len(size) // 2])
    rows = np.ones((len(families), len(firsts) * len(size) + 1))  # the last one makes the weights sum to one
    for k, points in enumerate(families):
        features = support_features(groups, points) / size
        rows[k, :-1] = (features[:, firsts].T @ features).reshape(-1) / len(points)
    target = np.append((matrix / np.outer(size, size))[firsts].reshape(-1), 1.0)
    shares = canonical_least_norm(rows, target)
    if shares is None:
        return None
    shares = canonical_weights(np.ascontiguousarray(rows.T), on_canonical_grid(shares), most)
    return [families[k] for k in np.flatnonzero(shares > 0)]


def _fitted(groups: SymmetryGroups, families: list[Units], root: Vector, limit: int) -> tuple[Units, Vector, float]:
    """Return at most ``limit`` allocations of some families, the weights that come closest, and the loss factor."""
    rank = root.shape[1]
    upper = np.triu_indices(rank)
    twice = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))  # entries off the diagonal count twice
    rows = np.empty((len(families), len(upper[0])))
    for k, points in enumerate(families):
        white = support_features(groups, points) @ root
        rows[k] = (white.T @ white / len(points))[upper] * twice
    gram, own = rows @ rows.T, rows[:, upper[0] == upper[1]].sum(axis=1)
    lengths = np.array([len(points) for points in families])
    kept = np.arange(len(families))
    while True:
        shares = _closest(gram[np.ix_(kept, kept)], own[kept])
        kept, shares = kept[shares > 0], shares[shares > 0]
        if lengths[kept].sum() <= limit:
            break
        heaviest = kept[np.argsort(-np.round(shares, 9), kind="stable")]
        kept = np.sort(heaviest[np.cumsum(lengths[heaviest]) <= limit])
    of_each = np.zeros(len(families))
    of_each[kept] = shares
    matrix = np.zeros((rank, rank))
    matrix[upper] = (of_each @ rows) / twice
    smallest = float(np.linalg.eigvalsh(matrix, UPLO="U")[0])
    points = np.concatenate([families[k] for k in kept])
    weights = np.repeat(shares / lengths[kept], lengths[kept])
    return points, weights / weights.sum(), 1 / smallest if smallest > 1e-9 else math.inf


def _closest(gram: Vector, own: Vector) -> Vector:
    """Return non-negative weights, summing to one, that minimise ``w' gram w / 2 - own . w``: the closest matrix."""
    ridged = gram + np.diag(_RIDGE * np.diag(gram))
    lower = np.linalg.cholesky(ridged)
    weights, _ = scipy.optimize.nnls(lower.T, np.linalg.solve(lower, own))
    return on_canonical_grid(weights / weights.sum(), FINE_GRID)


def support_features(groups: SymmetryGroups, allocations: Units) -> Vector:
    """Features ``(y, y^2)`` in the groups' own units, ``(n, 2 m)``."""
    y = allocations / groups.slot_scales
    return np.hstack([y, y**2])
