"""Kernels for positive definite matrices: Cholesky factor and inverse.

A matrix ``A`` is factored as ``U' U`` with ``U`` upper triangular: rows of ``U`` are contiguous in memory, and every
inner loop runs along a row. All sums have a fixed order, so results are the same on every processor. Linear algebra
libraries do not guarantee this.

Kernels copy arrays element by element: numba takes three seconds to compile an assignment to a slice, mostly for the
shape check and its error message.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Matrix

LONGEST = 64  # largest dimension of the kernels: beyond it a linear algebra library is faster


@register_jitable
def padded_kernel_length(length: int) -> int:
    """Round up to a multiple of 16, so that vectorised loops have no remainder."""
    return (length + 15) // 16 * 16


@njit(cache=True, error_model="numpy")
def upper_triangular_root(matrix: Matrix, root: Matrix) -> bool:
    """Write the upper triangular ``U`` with ``U' U = matrix`` into ``root``; return False if ``U`` does not exist.

    The lower triangles are neither read nor written. Both arguments may be the same array.
    """
    size = len(matrix)
    for a in range(size):
        for b in range(a, size):
            root[a, b] = matrix[a, b]
    for k in range(size):
        pivot = root[k, k]
        if not 0 < pivot < np.inf:
            return False
        scale = np.sqrt(pivot)
        for b in range(k, size):
            root[k, b] /= scale
        for a in range(k + 1, size):
            factor = root[k, a]
            for b in range(a, size):
                root[a, b] -= factor * root[k, b]
    return True


@njit(cache=True, error_model="numpy")
def upper_triangular_inverse(root: Matrix, inverse: Matrix) -> None:
    """Write the inverse of an upper triangular matrix into the upper triangle of ``inverse``."""
    size = len(root)
    for a in range(size - 1, -1, -1):
        for b in range(a, size):
            inverse[a, b] = 0.0
        inverse[a, a] = 1.0
        for k in range(a + 1, size):
            factor = root[a, k]
            for b in range(k, size):
                inverse[a, b] -= factor * inverse[k, b]
        pivot = root[a, a]
        for b in range(a, size):
            inverse[a, b] /= pivot


@njit(cache=True, error_model="numpy")
def _outer_square(upper: Matrix, square: Matrix) -> None:
    """Write ``V V'`` of an upper triangular ``V`` into ``square``."""
    size = len(upper)
    for a in range(size):
        for b in range(a, size):
            total = 0.0
            for k in range(b, size):
                total += upper[a, k] * upper[b, k]
            square[a, b] = total
            square[b, a] = total


def positive_definite_inverse(matrix: Matrix) -> Matrix | None:
    """Return the inverse of a positive definite matrix; None if its Cholesky factorisation fails.

    The inverse is the product of a matrix with its transpose, so it is positive definite even if ``matrix`` is
    ill-conditioned.
    """
    root, work, found = np.empty(matrix.shape), np.empty(matrix.shape), np.empty(matrix.shape)
    if not upper_triangular_root(np.ascontiguousarray(matrix), root):
        return None
    upper_triangular_inverse(root, work)
    _outer_square(work, found)
    return found
