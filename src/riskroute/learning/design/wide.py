"""Designs on points with many coordinates, the same on every processor.

The canonical choice among optimal designs needs ``r (r + 1) / 2`` table entries per point (`canonical`), which exceeds
memory for hundreds of coordinates. Here vertex exchange stores only the points and stops slightly above the optimum
(see `riskroute.learning.design.g_optimal.vertex_exchange`). The result depends on comparisons of rounded numbers.
Compiled loops therefore add in a fixed order; the rounding of BLAS depends on the processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.learning.design.canonical import on_canonical_grid
from riskroute.learning.design.g_optimal import (
    Design,
    design_leverages,
    exchange_weights,
    g_optimal_coordinates,
    thin_g_optimal,
)
from riskroute.learning.design.g_optimal import vertex_exchange_root as any_inverse_root


@dataclass(frozen=True)
class WideDesign:
    """Design weights ``(n,)`` on points; with ``whitening`` ``(d, r)``, leverages are ``|x @ whitening|^2``.

    ``excess`` is the relative excess of the largest leverage over the rank.
    """

    weights: Vector
    whitening: Matrix
    excess: float

    @property
    def rank(self) -> int:
        """Rank of the points."""
        return int(self.whitening.shape[1])

    def form(self) -> Matrix:
        """Return ``P`` ``(d, d)`` such that leverages are ``x' P x``."""
        product = np.zeros((len(self.whitening), len(self.whitening)))
        _multiplied(self.whitening, np.ascontiguousarray(self.whitening.T), product)
        return product


def wide_design(features: Matrix, tolerance: float, start: Vector | None = None) -> WideDesign:
    """Return a design on the rows of ``features`` ``(n, d)``, aiming at leverages of at most ``(1 + tolerance) r``.

    The search takes at most 100,000 exchanges. It starts from the weights ``start`` if their support spans the space,
    else from equal weights on a spanning set.
    """
    size = np.abs(features).max(axis=0)
    columns = np.ascontiguousarray((features / np.where(size > 0, size, 1.0)).T)
    points, back, rank = _orthogonalised(columns)
    points, back = points[:rank], back[:, :rank]
    weights = None if start is None else start / start.sum()
    if weights is None or not np.isfinite(_wide_inverse_root(points, weights)).all():
        weights = _wide_spanning_start(points)
    weights, left, steps = weights.copy(), 100_000, 511
    while left > 0:  # rank-one updates drift, so inverse and leverages are recomputed periodically
        root, inverse = _wide_inverse_root(points, weights), np.zeros((rank, rank))
        _multiplied(root, np.ascontiguousarray(root.T), inverse)
        if exchange_weights(points, weights, inverse, _leverages(points, root), tolerance, min(steps, left)):
            break
        left, steps = left - steps, 512
    root = _wide_inverse_root(points, weights)
    whitening = np.zeros((features.shape[1], rank))
    _multiplied(back / np.where(size > 0, size, 1.0)[:, None], root, whitening)
    return WideDesign(weights, whitening, float(_leverages(points, root).max()) / max(rank, 1) - 1)


def wide_optimal(features: Matrix, tolerance: float) -> Design:
    """Return a design over the rows of ``features``, aiming at an excess of ``tolerance``, or 1 % if that is larger."""
    # vertex exchange is too slow below an excess of 1 %
    found = wide_design(features, max(tolerance, 0.01) * (1 - 1e-3))
    index, weights, whitening = few_wide_rows(features, found)
    return Design(index, weights, float(design_leverages(features, whitening).max()), whitening.shape[1])


def few_wide_rows(features: Matrix, design: WideDesign) -> tuple[Integers, Vector, Matrix]:
    """Return at most ``r (r + 1) / 2`` rows that carry weight, their weights, and the design's whitening matrix."""
    index = np.flatnonzero(design.weights > 0)
    weights = design.weights[index]
    if len(index) > design.rank * (design.rank + 1) // 2:
        index, weights = thin_g_optimal(features[index] @ design.whitening, weights, index)
    weights = on_canonical_grid(weights, 2.0**40)  # a grid so fine that no leverage increases noticeably
    index, weights = index[weights > 0], weights[weights > 0]
    basis = g_optimal_coordinates(features[index])
    return index, weights, basis @ any_inverse_root(features[index] @ basis, weights)


@njit(cache=True)
def _orthogonalised(columns: Matrix) -> tuple[Matrix, Matrix, int]:
    """Return ``B' columns`` with orthogonal rows of length ``sqrt(n)``, ``B``, and the rank: rows beyond it are 0."""
    d, n = columns.shape
    points = np.zeros((d, n))
    back = np.zeros((d, d))
    rank = 0
    for j in range(d):
        rest = columns[j].copy()
        combination = np.zeros(d)
        combination[j] = 1.0
        length = np.sqrt(_inner(rest, rest))
        if length == 0:
            continue
        for i in range(rank):
            part = _inner(points[i], rest) / n
            for k in range(n):
                rest[k] -= part * points[i, k]
            for k in range(d):
                combination[k] -= part * back[k, i]
        left = np.sqrt(_inner(rest, rest))
        # a smaller component outside the span of earlier columns is a rounding error
        if left <= 1e-9 * length:
            continue
        factor = np.sqrt(n) / left
        points[rank] = rest * factor
        back[:, rank] = combination * factor
        rank += 1
    return points, back, rank


@njit(cache=True)
def _wide_spanning_start(points: Matrix) -> Vector:
    """Return equal weights on ``r`` of the points ``(r, n)``, each the farthest from the span of those before it."""
    r, n = points.shape
    rest = points.copy()
    weights = np.zeros(n)
    for _ in range(r):
        length = np.zeros(n)
        for a in range(r):
            for k in range(n):
                length[k] += rest[a, k] * rest[a, k]
        chosen = 0
        for k in range(n):
            if length[k] > length[chosen]:
                chosen = k
        weights[chosen] = 1 / r
        axis = rest[:, chosen] / np.sqrt(length[chosen])
        along = np.zeros(n)
        for a in range(r):
            for k in range(n):
                along[k] += axis[a] * rest[a, k]
        for a in range(r):
            for k in range(n):
                rest[a, k] -= axis[a] * along[k]
    return weights


@njit(cache=True)
def _inner(one: Vector, other: Vector) -> float:
    total = 0.0
    for k in range(len(one)):
        total += one[k] * other[k]
    return total


@njit(cache=True)
def _wide_inverse_root(points: Matrix, weights: Vector) -> Matrix:
    """Return the upper triangular ``R`` with ``R R' = M^-1``, for points ``(r, n)``; NaN if ``M`` is singular."""
    r = len(points)
    lower = np.zeros((r, r))
    scaled = points * weights
    for a in range(r):
        for b in range(a + 1):
            lower[a, b] = _inner(scaled[a], points[b])
    for a in range(r):  # Cholesky, row by row
        for b in range(a + 1):
            total = lower[a, b]
            for k in range(b):
                total -= lower[a, k] * lower[b, k]
            # a smaller pivot is a rounding error
            if a == b and total <= 1e-13 * lower[a, a]:
                return np.full((r, r), np.nan)
            lower[a, b] = np.sqrt(total) if a == b else total / lower[b, b]
    root = np.zeros((r, r))
    for b in range(r):  # row b of the root is the solution x of L x = e_b
        root[b, b] = 1 / lower[b, b]
        for a in range(b + 1, r):
            total = 0.0
            for k in range(b, a):
                total -= lower[a, k] * root[b, k]
            root[b, a] = total / lower[a, a]
    return root


@njit(cache=True)
def _multiplied(one: Matrix, other: Matrix, product: Matrix) -> None:
    """Add ``one @ other`` to ``product``, with sums in a fixed order."""
    for i in range(len(one)):
        for k in range(one.shape[1]):
            factor = one[i, k]
            if factor != 0:
                for j in range(other.shape[1]):
                    product[i, j] += factor * other[k, j]


@njit(cache=True)
def _leverages(points: Matrix, root: Matrix) -> Vector:
    """Return the leverages of points ``(r, n)``: squared norms of ``root' x``."""
    r, n = points.shape
    levers = np.zeros(n)
    for j in range(r):
        row = np.zeros(n)
        for a in range(j + 1):  # root is upper triangular
            factor = root[a, j]
            for k in range(n):
                row[k] += factor * points[a, k]
        for k in range(n):
            levers[k] += row[k] * row[k]
    return levers
