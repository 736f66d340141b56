"""Symmetry of allocation sets, and optimal designs that are invariant under it.

Slots with the same smallest and largest amount form a *group*. Some optimal design is invariant under permutations
within groups, and its information matrix depends only on a few power sums. With ``y = v / high`` (rescaling the amounts
of a group changes no leverage) and ``p_r = sum y^r`` over a group of ``m`` slots, the features ``(y, y^2)`` split into

- the group totals ``t = (p_1, p_2) / sqrt(m)``, two numbers per group, and
- the deviations from the group's average, with second moments
  ``C = [[p_2 - p_1^2/m, p_3 - p_1 p_2/m], [., p_4 - p_2^2/m]]``.

The invariant information matrix is then ``M0 = E[t t']`` on the totals and ``B_g = E[C_g] / (m_g - 1)`` on each of the
``m_g - 1`` directions of deviation, and the leverage of an allocation is ``t' M0^-1 t + sum_g trace(B_g^-1 C_g)``.

An invariant design is a set of weights on orbits, and ``log det`` of its information matrix is a sum over small blocks.
Newton's quadratic model of it is a non-negative least-squares problem with few rows, as in
`riskroute.learning.design.g_optimal` with ``z z'`` replaced by the whitened blocks of an orbit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from riskroute.core.arrays import Floats, Integers, Matrix, Units, Vector

# An allocation up to permutations within groups: the amounts of each group, in descending order.
Orbit = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SymmetryGroups:
    """Slots grouped by their bounds: ``members[g]`` are positions, ``lows[g]`` and ``highs[g]`` the common bounds."""

    units: int
    members: tuple[Units, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]

    @classmethod
    def of(cls, units: int, lows: Units, highs: Units) -> SymmetryGroups:
        """Group slots with equal bounds."""
        bounds = np.column_stack([lows, np.minimum(highs, units)])
        kinds, kind = np.unique(bounds, axis=0, return_inverse=True)
        members = tuple(np.flatnonzero(kind.reshape(-1) == g) for g in range(len(kinds)))
        return cls(units, members, tuple(kinds[:, 0].tolist()), tuple(kinds[:, 1].tolist()))

    def __len__(self) -> int:
        return len(self.members)

    @property
    def sizes(self) -> Integers:
        """Number of slots in each group."""
        return np.array([len(slots) for slots in self.members])

    @property
    def scales(self) -> Floats:
        """Scale of each group: its largest amount."""
        return np.maximum(np.array(self.highs, dtype=np.float64), 1.0)

    @property
    def slot_scales(self) -> Floats:
        """Scale of each slot, ``(m,)``."""
        return np.asarray(np.repeat(self.scales, self.sizes)[np.argsort(np.concatenate(self.members))])

    def orbit(self, allocation: Units) -> Orbit:
        """Return the orbit of an allocation given in units."""
        return tuple(tuple(np.sort(allocation[slots])[::-1].tolist()) for slots in self.members)

    def moments(self, orbits: Sequence[Orbit]) -> _OrbitMoments:
        """Return the totals and deviation moments of orbits."""
        sums, m = self.power_sums(orbits), self.sizes.astype(float)
        p1, p2, p3, p4 = np.moveaxis(sums, 2, 0)
        moments = np.empty((*p1.shape, 2, 2))
        moments[..., 0, 0] = p2 - p1**2 / m
        moments[..., 0, 1] = moments[..., 1, 0] = p3 - p1 * p2 / m
        moments[..., 1, 1] = p4 - p2**2 / m
        return _OrbitMoments((sums[:, :, :2] / np.sqrt(m)[:, None]).reshape(len(orbits), -1), moments)

    def power_sums(self, orbits: Sequence[Orbit]) -> Floats:
        """Return the power sums ``p_1 .. p_4`` of ``y``, ``(orbits, groups, 4)``."""
        sums = np.empty((len(orbits), len(self), 4))
        for g, scale in enumerate(self.scales):
            y = np.array([orbit[g] for orbit in orbits], dtype=np.float64) / scale
            for r in range(4):
                sums[:, g, r] = (y ** (r + 1)).sum(axis=1)
        return sums


@dataclass(frozen=True)
class _OrbitMoments:
    """Totals ``(n, 2 G)`` and deviation moments ``(n, G, 2, 2)`` of ``n`` orbits."""

    totals: Matrix
    moments: Floats


@dataclass(frozen=True)
class SymmetricInformation:
    """Block-diagonal information matrix of an invariant design; inverses of singular blocks are pseudo-inverses."""

    groups: SymmetryGroups
    totals: Matrix  # M0, (2 G, 2 G)
    deviations: Floats  # B_g, (G, 2, 2)

    @classmethod
    def of(cls, groups: SymmetryGroups, parts: _OrbitMoments, weights: Floats) -> SymmetricInformation:
        """Return the information matrix of ``weights`` on orbits, each shared evenly over its allocations."""
        totals = (parts.totals * weights[:, None]).T @ parts.totals
        spread = np.einsum("n,ngij->gij", weights, parts.moments)
        return cls(groups, totals, spread / np.maximum(groups.sizes - 1, 1)[:, None, None])

    def roots(self) -> tuple[Matrix, list[Matrix]]:
        """Return ``R`` with ``R R'`` the (pseudo-)inverse, for the block of totals and for each block of deviations."""
        return _inverse_root(self.totals), [_inverse_root(block) for block in self.deviations]

    @property
    def rank(self) -> int:
        """Rank of the whole matrix."""
        root, others = self.roots()
        sizes = self.groups.sizes.tolist()
        return int(root.shape[1] + sum((m - 1) * r.shape[1] for m, r in zip(sizes, others, strict=True)))

    def explicit_root(self) -> Matrix:
        """Return ``R`` ``(2 m, r)`` with ``R R'`` the pseudo-inverse of the full matrix."""
        return _inverse_root(self.explicit())

    def explicit(self) -> Matrix:
        """Return the full matrix ``(2 m, 2 m)`` for features ``(y, y^2)``."""
        slots = int(self.groups.sizes.sum())
        matrix = np.zeros((2 * slots, 2 * slots))
        for g, ours in enumerate(self.groups.members):
            center = np.eye(len(ours)) - 1 / len(ours)
            for i, j in itertools.product(range(2), repeat=2):
                for h, theirs in enumerate(self.groups.members):
                    level = self.totals[2 * g + i, 2 * h + j] / np.sqrt(len(ours) * len(theirs))
                    matrix[np.ix_(i * slots + ours, j * slots + theirs)] += level
                matrix[np.ix_(i * slots + ours, j * slots + ours)] += self.deviations[g, i, j] * center
        return matrix


def _inverse_root(matrix: Matrix) -> Matrix:
    """Return ``R`` ``(n, r)`` with ``R R'`` the pseudo-inverse of a positive semi-definite matrix of rank ``r``."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > 1e-11 * max(float(values[-1]), np.finfo(float).tiny)  # smaller eigenvalues count as zero
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def solve_orbit_design(groups: SymmetryGroups, orbits: list[Orbit], tolerance: float) -> Vector:
    """Return weights on orbits under which no orbit in the list has leverage above ``(1 + tolerance) * rank``."""
    parts = groups.moments(orbits)
    weights = np.full(len(orbits), 1 / len(orbits))
    for _ in range(60):
        information = SymmetricInformation.of(groups, parts, weights)
        rows, target = _blocks(information, parts)
        levers = rows @ target
        if levers.max() <= information.rank * (1 + tolerance):
            break
        anchor = 10.0 * information.rank
        system = np.vstack([rows.T, np.full(len(weights), anchor)])
        solution, _ = scipy.optimize.nnls(system, np.append(2 * target, anchor))
        direction = solution / solution.sum() - weights
        step = _line_search(groups, parts, weights, direction, float(levers @ direction))
        if step == 0:
            break
        weights = np.maximum(weights + step * direction, 0.0)
        weights /= weights.sum()
    return weights


def _blocks(information: SymmetricInformation, parts: _OrbitMoments) -> tuple[Vector, Vector]:
    """Return the whitened blocks of each orbit as one row ``(n, q)``, and the row of the identity.

    Inner products of rows equal those of the full whitened matrices.
    """
    root, others = information.roots()
    rows, target = [], []
    for block, copies in [
        (np.einsum("ni,nj->nij", parts.totals @ root, parts.totals @ root), 1),
        *(
            (np.einsum("ia,nij,jb->nab", r, parts.moments[:, g], r), int(m) - 1)
            for g, (r, m) in enumerate(zip(others, information.groups.sizes, strict=True))
        ),
    ]:
        size = block.shape[1]
        if copies == 0 or size == 0:
            continue
        i, j = np.triu_indices(size)
        rows.append(block[:, i, j] * np.where(i == j, 1.0, np.sqrt(2.0)) / np.sqrt(copies))
        target.append(np.where(i == j, np.sqrt(copies), 0.0))
    return np.concatenate(rows, axis=1), np.concatenate(target)


def _line_search(
    groups: SymmetryGroups, parts: _OrbitMoments, weights: Vector, direction: Vector, slope: float
) -> float:
    """Return the first step of 1, 1/2, 1/4 .. that meets Armijo's condition for ``log det``; 0 if none does."""
    now = SymmetricInformation.of(groups, parts, weights)
    start, rank = _log_det(now), now.rank
    step = 1.0
    while step > 1e-8:
        moved = SymmetricInformation.of(groups, parts, np.maximum(weights + step * direction, 0.0))
        if moved.rank == rank and _log_det(moved) >= start + 0.25 * step * slope - 1e-11:
            return step
        step /= 2
    return 0.0


def _log_det(information: SymmetricInformation) -> float:
    root, others = information.roots()
    total = -_log_volume(root)
    for r, m in zip(others, information.groups.sizes, strict=True):
        total -= (int(m) - 1) * _log_volume(r)
    return total


def _log_volume(root: Vector) -> float:
    """Return the log-determinant of ``R' R``; zero for an empty ``R``."""
    return float(np.linalg.slogdet(root.T @ root)[1]) if root.shape[1] else 0.0
