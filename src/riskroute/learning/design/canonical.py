"""Canonical choice among optimal designs, the same on every processor.

The optimal information matrix of a set of feature vectors is unique. The weights often are not, in particular on
symmetric sets; a solver's weights then depend on rounding errors. This module replaces them in three steps:

1. find the optimal weights of minimum norm (`canonical_least_norm`), which are unique and equal for symmetric actions;
2. if their support is too large, reduce it (`canonical_weights`);
3. round them to a grid (`on_canonical_grid`), which removes the rounding errors of the computation.

The tolerances of comparisons are far above rounding errors, and too small to change a design noticeably.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix, Vector

CONTACT = 1e-5  # actions with a leverage within this fraction of the largest may carry weight in an optimal design
_DEPENDENT = 1e-8  # column entries below this are treated as zero; columns are scaled to order one
_TIE = 1e-7  # relative difference up to which weights, and sums of weights, are treated as equal


def canonical_products(white: Matrix) -> Matrix:
    """Return the distinct entries of ``z z'`` for every row ``z`` of ``white`` ``(n, r)``, as ``(n, r (r + 1) / 2)``.

    Off-diagonal entries are scaled by ``sqrt(2)``, so that inner products equal those of the full matrices.
    """
    row, column = np.triu_indices(white.shape[1])
    entries: Matrix = white[:, row] * white[:, column] * np.where(row == column, 1.0, np.sqrt(2.0))
    return entries


def canonical_least_norm(rows: Matrix, target: Vector) -> Vector | None:
    """Return non-negative weights ``w`` of minimum norm with ``sum_i w_i rows[i] = target``; None if none were found.

    The weights are ``max(rows @ multipliers, 0)``. Newton steps find the multipliers that minimise the dual problem,
    which is convex and piecewise quadratic. ``rows`` is ``(n, q)``.
    """
    multipliers = _damped_solve(rows, target)
    for _ in range(100):
        slack = rows @ multipliers
        weights = np.maximum(slack, 0.0)
        residual = rows.T @ weights - target
        # error in the entries of the whitened information matrix, which are of order one
        if float(np.abs(residual).max()) <= 1e-11:
            return np.asarray(weights)
        direction = -_damped_solve(rows[slack > 0], residual)
        step = _descent(rows, target, multipliers, direction, float(residual @ direction))
        if step == 0:
            return None
        multipliers = multipliers + step * direction
    return None


def _damped_solve(rows: Matrix, target: Vector) -> Vector:
    """Solve ``(rows' rows) x = target``, with small eigenvalues raised to a floor."""
    gram = rows.T @ rows
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 1e-9 * max(float(values[-1]), np.finfo(float).tiny))
    return np.asarray(vectors @ ((vectors.T @ target) / values))


def _descent(rows: Matrix, target: Vector, start: Vector, direction: Vector, slope: float) -> float:
    """Return the first step length of 1, 1/2, 1/4, .. that satisfies the Armijo condition, or 0."""

    def dual(multipliers: Vector) -> float:
        weights = np.maximum(rows @ multipliers, 0.0)
        return float(0.5 * weights @ weights - target @ multipliers)

    now, step = dual(start), 1.0
    while step > 1e-12:
        if dual(start + step * direction) <= now + 1e-4 * step * slope + 1e-15:
            return step
        step /= 2
    return 0.0


@njit(cache=True)
def canonical_weights(columns: Matrix, weights: Vector, limit: int) -> Vector:
    """Reduce the support of weights on columns ``(q, n)`` to at most ``limit``, keeping ``columns @ weights``.

    Columns are processed in order. A column that depends linearly on the kept earlier columns has a unique relation to
    them. Weights move along this relation until one is zero (Caratheodory): in the direction in which their sum falls
    or, if the sum is constant, in which the weight of the dependent column falls. Entries of ``columns`` should be of
    order one.
    """
    table = columns.copy()  # after Gauss-Jordan elimination: every column in terms of the basis columns
    weights = weights.copy()
    n_rows, n = table.shape
    basis = np.full(n_rows, -1)  # basis column of each row
    for j in range(n):
        used = 0
        for k in range(n):
            used += weights[k] > 0
        if used <= limit:
            break
        if weights[j] <= 0:
            continue
        row, largest = -1, _DEPENDENT
        for i in range(n_rows):
            if basis[i] < 0 and abs(table[i, j]) > largest:
                row, largest = i, abs(table[i, j])
        if row < 0:
            row = _move_along(table, basis, weights, j)
            if row < 0:
                continue
        basis[row] = j
        pivot = table[row, j]
        for k in range(n):
            table[row, k] /= pivot
        for i in range(n_rows):
            factor = table[i, j]
            if i != row and factor != 0:
                for k in range(n):
                    table[i, k] -= factor * table[row, k]
    return weights


@njit(cache=True)
def _move_along(table: Matrix, basis: Integers, weights: Vector, j: int) -> int:
    """Move weights along the relation of column ``j`` to the basis until one of them is zero.

    Return the table row of the basis column whose weight reached zero (the first of several), or -1 for column ``j``.
    """
    total, size = 1.0, 1.0
    for i in range(len(basis)):
        if basis[i] >= 0:
            total -= table[i, j]
            size += abs(table[i, j])
    sign = -1.0 if total < -_TIE * size else 1.0
    reach = np.full(len(basis), np.inf)
    for i in range(len(basis)):
        if basis[i] >= 0 and sign * table[i, j] < -_DEPENDENT:
            reach[i] = -weights[basis[i]] / (sign * table[i, j])
    most = weights[j] if sign > 0 else np.inf
    for i in range(len(basis)):
        most = min(most, reach[i])
    leaving = -1
    for i in range(len(basis)):
        if reach[i] <= most * (1 + _TIE) and (leaving < 0 or basis[i] < basis[leaving]):
            leaving = i
    for i in range(len(basis)):
        if basis[i] >= 0:
            weights[basis[i]] = _reduced(weights[basis[i]], -most * sign * table[i, j], most)
    weights[j] = _reduced(weights[j], most * sign, most)
    return leaving if weights[j] > 0 else -1


@njit(cache=True)
def _reduced(weight: float, by: float, most: float) -> float:
    """Return ``weight - by``, or zero if only a rounding error remains."""
    left = weight - by
    return left if left > _TIE * most or by == 0 else 0.0


def on_canonical_grid(weights: Vector, grid: float = 2.0**24) -> Vector:
    """Round weights to multiples of ``1 / grid`` and normalise them."""
    rounded = np.rint(weights * grid)
    return np.asarray(rounded / rounded.sum())  # sums of whole numbers are exact
