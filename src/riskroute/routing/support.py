"""From an invariant design to an explicit one: real allocations with weights.

An orbit stands for all its permutations, which may be astronomically many. A few of each, with weights fitted so that
their information matrix comes as close as possible to the invariant one, do as well: if the invariant matrix is at
most ``1 / s`` times the explicit one (as matrices), no leverage grows by more than ``1 / s``. ``s`` is the smallest
eigenvalue of the explicit matrix in coordinates in which the invariant one is the identity, so the price is known
exactly.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from riskroute.routing.symmetry import InvariantInformation, Orbit, SlotGroups, inverse_root_on_range

Units = NDArray[np.int64]
Vector = NDArray[np.float64]

_MAX_ROUNDS = 25
_DIRECTIONS = 12  # weak directions mended per round


def explicit_support(
    information: InvariantInformation, orbits: list[Orbit], weights: Vector, limit: int, enough: float, seed: int = 0
) -> tuple[Units, Vector, float]:
    """Allocations ``(n, m)`` in units, ``n <= limit``, their weights, and the factor by which leverages may grow.

    Starts from random members of the orbits, and adds members along the directions known least until the factor is
    below ``enough`` or no longer improves.
    """
    groups = information.groups
    used = [orbits[i] for i in np.flatnonzero(weights > 1e-9)]
    root = inverse_root_on_range(information.explicit())
    points, fitted = _pool(groups, used, weights[weights > 1e-9], max(limit // 2, 1), np.random.default_rng(seed))
    best: tuple[Units, Vector, float] = points, fitted, math.inf
    for _ in range(_MAX_ROUNDS):
        white = features_of(groups, points) @ root
        fitted = _fit(white, fitted)
        kept = fitted > 0
        points, white, fitted = points[kept], white[kept], fitted[kept] / fitted[kept].sum()
        values, vectors = np.linalg.eigh((white * fitted[:, None]).T @ white)
        price = 1 / values[0] if values[0] > 0 else math.inf
        if price < best[2]:
            best = points, fitted, price
        if price <= enough:
            break
        weak = vectors[:, : min(max(int((values < 1).sum()) // 2, 1), _DIRECTIONS)]
        points, fitted = _with_more(groups, points, fitted, used, root @ weak, limit)
    return best


def _with_more(
    groups: SlotGroups, points: Units, weights: Vector, orbits: list[Orbit], directions: Vector, limit: int
) -> tuple[Units, Vector]:
    """Add the members of the orbits that lie farthest along some directions; the lightest points make room."""
    known = {point.tobytes() for point in points}
    fresh: list[Units] = []
    for direction in directions.T:
        for orbit in orbits:
            for sign in (1.0, -1.0):
                point = farthest(groups, orbit, sign * direction)
                if point.tobytes() not in known:
                    known.add(point.tobytes())
                    fresh.append(point)
    fresh = fresh[:limit]
    kept = np.sort(np.argsort(-weights, kind="stable")[: max(limit - len(fresh), 0)])
    if not fresh:
        return points[kept], weights[kept]
    light = np.full(len(fresh), float(weights.mean()) / 10)
    return np.concatenate([points[kept], np.array(fresh)]), np.concatenate([weights[kept], light])


def farthest(groups: SlotGroups, orbit: Orbit, direction: Vector) -> Units:
    """Member of an orbit with the largest inner product with a direction in feature space: an assignment problem."""
    slots = len(direction) // 2
    parts = []
    for members, scale, amounts in zip(groups.members, groups.scales, orbit, strict=True):
        y = np.array(amounts) / scale
        gain = np.outer(direction[members], y) + np.outer(direction[slots + members], y**2)
        _, column = scipy.optimize.linear_sum_assignment(gain, maximize=True)
        parts.append([amounts[j] for j in column])
    return groups.allocation(parts)


def features_of(groups: SlotGroups, allocations: Units) -> Vector:
    """Features ``(y, y^2)`` in the groups' own units, ``(n, 2 m)``."""
    y = allocations / groups.slot_scales
    return np.hstack([y, y**2])


def _pool(
    groups: SlotGroups, orbits: list[Orbit], weights: Vector, limit: int, rng: np.random.Generator
) -> tuple[Units, Vector]:
    """Different allocations of each orbit, small orbits whole, and each orbit's weight shared evenly over its own."""
    sizes = [orbit_size(orbit) for orbit in orbits]
    points: list[Units] = []
    shares: list[Vector] = []
    left = limit
    for turn, i in enumerate(np.argsort(np.array(sizes, dtype=float), kind="stable")):
        count = min(sizes[i], left // (len(orbits) - turn))
        chosen = _draw(groups, orbits[i], count, rng)
        points.append(chosen)
        shares.append(np.full(count, weights[i] / max(count, 1)))
        left -= count
    return np.concatenate(points), np.concatenate(shares)


def orbit_size(orbit: Orbit) -> int:
    """Number of allocations of an orbit: the product over groups of multinomials."""
    total = 1
    for amounts in orbit:
        total *= math.factorial(len(amounts))
        for repeat in np.unique(amounts, return_counts=True)[1].tolist():
            total //= math.factorial(repeat)
    return total


def _draw(groups: SlotGroups, orbit: Orbit, count: int, rng: np.random.Generator) -> Units:
    """``count`` different members of an orbit, in families of cyclic shifts, which visit every slot equally often."""
    seen: dict[bytes, Units] = {}
    while len(seen) < count:
        shuffled = [rng.permutation(np.array(amounts, dtype=np.int64)) for amounts in orbit]
        for shift in range(max(len(amounts) for amounts in orbit)):
            allocation = groups.allocation([np.roll(amounts, shift) for amounts in shuffled])
            seen.setdefault(allocation.tobytes(), allocation)
            if len(seen) == count:
                break
    slots = sum(len(amounts) for amounts in orbit)
    return np.array(list(seen.values()), dtype=np.int64).reshape(count, slots)


def _fit(white: Vector, start: Vector) -> Vector:
    """Non-negative weights that bring ``sum w z z'`` closest to the identity in the Frobenius norm."""
    gram = (white @ white.T) ** 2
    own = np.einsum("ij,ij->i", white, white)

    def distance(weights: Vector) -> tuple[float, Vector]:
        product = gram @ weights
        return float(0.5 * weights @ product - own @ weights), product - own

    found = scipy.optimize.minimize(
        distance, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options={"maxiter": 300}
    )
    return np.asarray(found.x)
