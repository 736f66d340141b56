"""Factors, inverses and solutions of small symmetric matrices, for compiled code.

A positive definite matrix ``A`` is factored as ``U' U`` with ``U`` upper triangular: rows of ``U`` lie in one piece of
memory, and every inner loop runs along a row. All sums are formed in a fixed sequence, so results are the same on every
processor, which those of a linear algebra library are not. These functions are compiled within the kernels that call
them; called from Python they are plain Python.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from riskroute.core.arrays import Matrix, Vector


@register_jitable
def padded_length(length: int) -> int:
    """Return the next multiple of 16: loops of that many steps have no rest that would be done one by one.

    Examples
    --------
    >>> padded_length(16), padded_length(17)
    (16, 32)
    """
    return (length + 15) // 16 * 16


@register_jitable(error_model="numpy")
def upper_root(matrix: Matrix, root: Matrix) -> bool:
    """Write the upper triangular ``U`` with ``U' U = matrix`` into ``root``; False if the matrix has none.

    Only the upper triangle of either is used, and they may be the same array.

    Examples
    --------
    >>> root = np.zeros((2, 2))
    >>> upper_root(np.array([[4.0, 2.0], [2.0, 5.0]]), root), root.tolist()
    (True, [[2.0, 1.0], [0.0, 2.0]])
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


@register_jitable(error_model="numpy")
def upper_inverse(root: Matrix, inverse: Matrix) -> None:
    """Write the inverse of an upper triangular matrix into the upper triangle of another array."""
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


@register_jitable(error_model="numpy")
def solve_by_root(root: Matrix, vector: Vector) -> None:
    """Replace ``vector`` by the solution ``x`` of ``U' U x = vector``."""
    size = len(root)
    for k in range(size):
        vector[k] /= root[k, k]
        for b in range(k + 1, size):
            vector[b] -= root[k, b] * vector[k]
    for k in range(size - 1, -1, -1):
        total = vector[k]
        for b in range(k + 1, size):
            total -= root[k, b] * vector[b]
        vector[k] = total / root[k, k]


@register_jitable(error_model="numpy")
def inverse_from_root(root: Matrix, work: Matrix, inverse: Matrix) -> None:
    """Write ``(U' U)^-1`` into ``inverse``; ``work`` is overwritten.

    It is the product of a matrix and its transpose, so it is positive definite however ill-conditioned ``U`` is.
    """
    size = len(root)
    upper_inverse(root, work)
    for a in range(size):
        for b in range(a, size):
            total = 0.0
            for k in range(b, size):
                total += work[a, k] * work[b, k]
            inverse[a, b] = total
            inverse[b, a] = total
