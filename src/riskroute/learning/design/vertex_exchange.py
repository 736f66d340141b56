"""The inner solver of the optimal design: vertex exchange on a small set of points.

A design on points ``y_1 .. y_n`` puts weight ``u_i`` on each; its information matrix is ``M = sum u_i y_i y_i'``
and the leverage of a point is ``y' M^-1 y``. Every step moves weight from the support point of lowest leverage to
the point of highest leverage, by the amount that maximises ``log det M`` along that line (Boehning 1986): it is
known in closed form, and costs two rank-one updates.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError


def vertex_information(points: Floats, weights: Floats) -> Floats:
    """Information matrix ``sum_i weights[i] points[i] points[i]'`` of a design; points ``(n, r)``."""
    product: Floats = (points * weights[:, None]).T @ points
    return product


def vertex_inverse_root(points: Floats, weights: Floats) -> Floats:
    """Upper triangular ``R`` with ``R R' = M^-1`` for the design ``weights`` on ``points`` of full rank."""
    lower = np.linalg.cholesky(vertex_information(points, weights))
    return np.asarray(np.linalg.inv(lower).T)


def vertex_exchange_step(lever_high: float, lever_low: float, cross: float, weight_low: float) -> float:
    """Return the weight to move from the low point to the high one so that ``log det M`` grows most."""
    curvature = lever_high * lever_low - cross * cross
    if curvature <= 0:
        return weight_low
    return min(weight_low, (lever_high - lever_low) / (2 * curvature))


exchange_step_compiled = njit(cache=True)(vertex_exchange_step)


def vertex_exchange(points: Floats, weights: Floats, tolerance: float, max_steps: int) -> Floats:
    """Improve ``weights`` until no leverage exceeds ``(1 + tolerance) r``, or ``max_steps`` are done.

    ``points`` is ``(n, r)`` of full rank, best near-whitened; ``weights`` is ``(n,)`` with a spanning support.
    """
    points, weights = np.ascontiguousarray(points), weights.copy()
    left, r = max_steps, points.shape[1]
    steps = 255  # rank-one updates drift, so inverse and leverages are computed anew after this many
    while left > 0:
        (matrix, inverse), levers = np.zeros((2, r, r)), np.zeros(len(points))
        _information(points, weights, matrix)
        if not _invert(matrix, inverse):
            raise InputError("points with positive weight must span the space")
        _levers(points, inverse, levers)
        if _exchange(points, weights, inverse, levers, tolerance, min(steps, left)):
            break
        left, steps = left - steps, 256
    return weights


@njit(cache=True, error_model="numpy")
def _information(points: Floats, weights: Floats, matrix: Floats) -> None:
    """Add the information matrix of the design to ``matrix``."""
    n, r = points.shape
    for k in range(n):
        if weights[k] > 0:
            for a in range(r):
                for b in range(r):
                    matrix[a, b] += weights[k] * points[k, a] * points[k, b]


@njit(cache=True, error_model="numpy")
def _invert(left: Floats, right: Floats) -> bool:
    """Write the inverse of ``left``, which is overwritten, into ``right``; False if it is singular.

    Gauss-Jordan elimination with partial pivoting gives the same bits whatever LAPACK is installed.
    """
    r = len(left)
    for a in range(r):
        right[a, a] = 1.0
    for a in range(r):
        row = a
        for b in range(a + 1, r):
            if abs(left[b, a]) > abs(left[row, a]):
                row = b
        pivot = left[row, a]
        if pivot == 0:
            return False
        for b in range(r):
            left[row, b], left[a, b] = left[a, b], left[row, b] / pivot
            right[row, b], right[a, b] = right[a, b], right[row, b] / pivot
        for c in range(r):
            factor = left[c, a]
            if c != a and factor != 0:
                for b in range(r):
                    left[c, b] -= factor * left[a, b]
                    right[c, b] -= factor * right[a, b]
    return True


@njit(cache=True, error_model="numpy")
def _levers(points: Floats, inverse: Floats, levers: Floats) -> None:
    n, r = points.shape
    for k in range(n):
        total = 0.0
        for a in range(r):
            row = 0.0
            for b in range(r):
                row += inverse[a, b] * points[k, b]
            total += row * points[k, a]
        levers[k] = total


@njit(cache=True, error_model="numpy")
def _exchange(points: Floats, weights: Floats, inverse: Floats, levers: Floats, tolerance: float, steps: int) -> bool:
    """Do some steps, in place; return whether the tolerance was reached."""
    n, r = points.shape
    to_high, to_low = np.zeros(r), np.zeros(r)
    for _ in range(steps):
        high = 0
        low = -1
        for k in range(n):
            if levers[k] > levers[high]:
                high = k
            if weights[k] > 0 and (low < 0 or levers[k] < levers[low]):
                low = k
        if levers[high] <= r * (1 + tolerance) or high == low:
            return True
        cross = 0.0
        for a in range(r):
            to_high[a], to_low[a] = 0.0, 0.0
            for b in range(r):
                to_high[a] += inverse[a, b] * points[high, b]
                to_low[a] += inverse[a, b] * points[low, b]
            cross += points[low, a] * to_high[a]
        moved = exchange_step_compiled(levers[high], levers[low], cross, weights[low])
        weights[low] = weights[low] - moved if moved < weights[low] else 0.0
        weights[high] += moved
        gain = moved / (1 + moved * levers[high])
        rest = to_low  # of the low point, after the high one has gained weight
        for a in range(r):
            rest[a] = to_low[a] - gain * cross * to_high[a]
        loss = moved / (1 - moved * (levers[low] - gain * cross * cross))
        for a in range(r):
            for b in range(r):
                inverse[a, b] += loss * rest[a] * rest[b] - gain * to_high[a] * to_high[b]
        for k in range(n):
            p, q = 0.0, 0.0
            for a in range(r):
                p += points[k, a] * to_high[a]
                q += points[k, a] * rest[a]
            levers[k] += loss * q * q - gain * p * p
    return False
