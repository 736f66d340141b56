"""Optimal designs over orbits: the invariant part of the design over an allocation set.

A design is a set of weights on orbits, and ``log det`` of its information matrix is a sum over small blocks. Newton's
quadratic model of it is a non-negative least-squares problem with a handful of rows: the argument of
`riskroute.learning.design.newton_polish` carries over, with ``z z'`` replaced by the whitened blocks of an orbit.
"""

from __future__ import annotations

import numpy as np
import scipy

from riskroute.core.arrays import Vector
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups, SymmetryParts

_MAX_STEPS = 60


def solve_orbit_design(groups: SymmetryGroups, orbits: list[Orbit], tolerance: float) -> Vector:
    """Return weights on orbits such that no orbit in the list has leverage above ``(1 + tolerance)`` times the rank."""
    parts = SymmetryParts.of(groups, orbits)
    weights = np.full(len(orbits), 1 / len(orbits))
    for _ in range(_MAX_STEPS):
        information = SymmetricInformation.of(groups, parts, weights)
        rows, target = orbit_design_blocks(information, parts)
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


def orbit_design_blocks(information: SymmetricInformation, parts: SymmetryParts) -> tuple[Vector, Vector]:
    """Return the whitened blocks of each orbit as one row ``(n, q)``, and the row of the identity.

    Inner products of rows are those of the whole whitened matrices: off-diagonal entries count twice, and a block of
    deviations counts once for each of its ``m_g - 1`` directions.
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
    groups: SymmetryGroups, parts: SymmetryParts, weights: Vector, direction: Vector, slope: float
) -> float:
    """Return the largest of 1, 1/2, 1/4 .. that gains a quarter of the promised rise of ``log det``; 0 if none does."""
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
    """``log det`` on the range."""
    root, others = information.roots()
    total = -_log_volume(root)
    for r, m in zip(others, information.groups.sizes, strict=True):
        total -= (int(m) - 1) * _log_volume(r)
    return total


def _log_volume(root: Vector) -> float:
    """Log-determinant of ``R' R``; zero for an empty ``R``."""
    return float(np.linalg.slogdet(root.T @ root)[1]) if root.shape[1] else 0.0
