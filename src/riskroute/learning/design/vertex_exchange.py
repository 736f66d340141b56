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
from riskroute.core.validation import check_array

REFRESH = 256
"""The inverse is computed anew after so many steps, so that rank-one updates cannot drift."""


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


@njit(cache=True)
def _levers(points: Floats, inverse: Floats) -> Floats:
    n, r = points.shape
    levers = np.empty(n)
    for k in range(n):
        total = 0.0
        for a in range(r):
            row = 0.0
            for b in range(r):
                row += inverse[a, b] * points[k, b]
            total += row * points[k, a]
        levers[k] = total
    return levers


@njit(cache=True)
def _inverse_information(points: Floats, weights: Floats) -> Floats:
    n, r = points.shape
    matrix = np.zeros((r, r))
    for k in range(n):
        if weights[k] > 0:
            for a in range(r):
                for b in range(r):
                    matrix[a, b] += weights[k] * points[k, a] * points[k, b]
    return _inverse(matrix)


@njit(cache=True)
def _inverse(matrix: Floats) -> Floats:
    """Invert by Gauss-Jordan elimination with partial pivoting, to the same bits whatever LAPACK is installed."""
    r = len(matrix)
    left = matrix.copy()
    right = np.zeros((r, r))
    for a in range(r):
        right[a, a] = 1.0
    for a in range(r):
        row = a
        for b in range(a + 1, r):
            if abs(left[b, a]) > abs(left[row, a]):
                row = b
        pivot = left[row, a]
        if pivot == 0:
            raise ZeroDivisionError("points with weight must span the space")
        for b in range(r):
            left[row, b], left[a, b] = left[a, b], left[row, b] / pivot
            right[row, b], right[a, b] = right[a, b], right[row, b] / pivot
        for c in range(r):
            factor = left[c, a]
            if c != a and factor != 0:
                for b in range(r):
                    left[c, b] -= factor * left[a, b]
                    right[c, b] -= factor * right[a, b]
    return right


@njit(cache=True)
def _times(matrix: Floats, vector: Floats) -> Floats:
    product = np.zeros(len(matrix))
    for a in range(len(matrix)):
        for b in range(len(vector)):
            product[a] += matrix[a, b] * vector[b]
    return product


def vertex_exchange(points: Floats, weights: Floats, tolerance: float, max_steps: int) -> Floats:
    """Improve ``weights`` until no leverage exceeds ``(1 + tolerance) r``, or ``max_steps`` are done.

    ``points`` is ``(n, r)`` of full rank, best near-whitened; ``weights`` is ``(n,)`` with a spanning support.
    """
    check_array("points", points, np.float64, (None, None))
    check_array("weights", weights, np.float64, (len(points),))
    if points.size == 0:
        raise InputError(f"points must not be empty, was of shape {points.shape}")
    improved: Floats = _exchange(np.ascontiguousarray(points), weights, tolerance, max_steps)
    return improved


@njit(cache=True)
def _exchange(points: Floats, weights: Floats, tolerance: float, max_steps: int) -> Floats:
    n, r = points.shape
    weights = weights.copy()
    inverse = _inverse_information(points, weights)
    levers = _levers(points, inverse)
    for step in range(max_steps):
        if step % REFRESH == REFRESH - 1:
            inverse = _inverse_information(points, weights)
            levers = _levers(points, inverse)
        high = 0
        low = -1
        for k in range(n):
            if levers[k] > levers[high]:
                high = k
            if weights[k] > 0 and (low < 0 or levers[k] < levers[low]):
                low = k
        if levers[high] <= r * (1 + tolerance) or high == low:
            return weights
        to_high = _times(inverse, points[high])
        to_low = _times(inverse, points[low])
        cross = 0.0
        for a in range(r):
            cross += points[low, a] * to_high[a]
        moved = exchange_step_compiled(levers[high], levers[low], cross, weights[low])
        weights[low] = weights[low] - moved if moved < weights[low] else 0.0
        weights[high] += moved
        gain = moved / (1 + moved * levers[high])
        rest = np.empty(r)
        for a in range(r):
            rest[a] = to_low[a] - gain * cross * to_high[a]
        loss = moved / (1 - moved * (levers[low] - gain * cross * cross))
        for a in range(r):
            for b in range(r):
                inverse[a, b] += loss * rest[a] * rest[b] - gain * to_high[a] * to_high[b]
        for k in range(n):
            p = 0.0
            q = 0.0
            for a in range(r):
                p += points[k, a] * to_high[a]
                q += points[k, a] * rest[a]
            levers[k] += loss * q * q - gain * p * p
    return weights
