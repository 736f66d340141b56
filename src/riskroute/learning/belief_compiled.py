"""Compiled arithmetic of `riskroute.learning.belief`: covariances, and draws from them.

Where a matrix has no Cholesky factor in floating-point numbers the kernels give up, and the plain functions of
`riskroute.learning.belief_fit` decide.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.validation import kernel_array
from riskroute.learning.small_matrices import inverse_from_root, upper_root


def belief_inverse(matrix: Matrix) -> Matrix | None:
    """Return the inverse of a symmetric matrix, positive definite however ill-conditioned; None if it has no factor."""
    matrix = kernel_array("matrix", matrix, (None, None))
    matrix = kernel_array("matrix", matrix, (len(matrix), len(matrix)))
    inverse = np.empty(matrix.shape)
    return inverse if _inverse(matrix, inverse) else None


@njit(cache=True, error_model="numpy")
def _inverse(matrix: Matrix, inverse: Matrix) -> bool:
    root, work = np.empty(matrix.shape), np.empty(matrix.shape)
    fine = upper_root(matrix, root)
    if fine:
        inverse_from_root(root, work, inverse)
    return fine


def belief_score_covariance(mean_precision: Matrix, var_precision: Matrix, risk_tolerance: float) -> Matrix | None:
    """Return the covariance of the score's coefficients from both precisions; None if one has no factor."""
    mean_precision = kernel_array("mean_precision", mean_precision, (None, None))
    square = (len(mean_precision), len(mean_precision))
    mean_precision = kernel_array("mean_precision", mean_precision, square)
    var_precision = kernel_array("var_precision", var_precision, square)
    covariance = np.empty(square)
    return covariance if score_covariance_compiled(mean_precision, var_precision, risk_tolerance, covariance) else None


@njit(cache=True, error_model="numpy")
def score_covariance_compiled(
    mean_precision: Matrix, var_precision: Matrix, risk_tolerance: float, covariance: Matrix
) -> bool:
    """Do what `belief_score_covariance` does, for matrices of equal size; False if one has no factor."""
    size = len(covariance)
    inverse = np.empty((size, size))
    if not (_inverse(mean_precision, inverse) and _inverse(var_precision, covariance)):
        return False
    for a in range(size):
        for b in range(size):
            covariance[a, b] += risk_tolerance**2 * inverse[a, b]
    return True


def belief_draws(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix | None:
    """Turn standard normal numbers ``(n, dim)`` into draws; None if the covariance has no factor."""
    center = kernel_array("center", center, (None,))
    covariance = kernel_array("covariance", covariance, (len(center), len(center)))
    normals = kernel_array("normals", normals, (None, len(center)))
    drawn = np.empty(normals.shape)
    return drawn if _draws(center, covariance, normals, drawn) else None


@njit(cache=True, error_model="numpy")
def _draws(center: Vector, covariance: Matrix, normals: Matrix, drawn: Matrix) -> bool:
    return write_belief_draws(center, covariance, normals, drawn, 0)


@register_jitable(error_model="numpy")
def write_belief_draws(center: Vector, covariance: Matrix, normals: Matrix, drawn: Matrix, first: int) -> bool:
    """Write draws into the rows of ``drawn`` from number ``first`` on; False if the covariance has no factor."""
    n, dim = normals.shape
    root, part, columns = np.empty((dim, dim)), np.empty(n), np.empty((dim, n))
    if not upper_root(covariance, root):
        return False
    for i in range(n):
        for a in range(dim):
            columns[a, i] = normals[i, a]
    for a in range(dim):
        for i in range(n):
            part[i] = 0.0
        for b in range(a + 1):
            factor = root[b, a]
            for i in range(n):
                part[i] += columns[b, i] * factor
        for i in range(n):
            drawn[first + i, a] = center[a] + part[i]
    return True
