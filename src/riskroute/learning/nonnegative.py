"""Least squares with coefficients that must not be negative, by cyclic coordinate descent.

References
----------
V. Franc, V. Hlavac, M. Navara, "Sequential coordinate-wise algorithm for the non-negative least squares problem"
(2005), https://doi.org/10.1007/11556121_50
"""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, whole_number

PASSES = 1000
_NEAR = 1e-12  # relative change of the coefficients in one pass that ends the search


def nonnegative_minimum(matrix: Matrix, vector: Vector, passes: int = PASSES) -> Vector:
    """Minimise ``c' matrix c / 2 - vector' c`` over ``c >= 0``.

    Parameters
    ----------
    matrix : Matrix
        Symmetric and positive definite, ``(q, q)``: the normal equations of a least squares problem, with a ridge.
    vector : Vector
        Their right-hand side, ``(q,)``.
    passes : int
        Times that all coefficients are improved in turn, at most.

    Returns
    -------
    Vector
        The coefficients, ``(q,)``.

    Examples
    --------
    >>> nonnegative_minimum(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0])).tolist()
    [0.5, 0.0]
    """
    check_array("vector", vector, np.float64, (None,))
    check_array("matrix", matrix, np.float64, (len(vector), len(vector)))
    if len(vector) and not (np.isfinite(vector).all() and np.isfinite(matrix).all() and np.diag(matrix).min() > 0):
        raise InputError("matrix must be finite and positive definite, and was not")
    coef: Vector = _descend(matrix, vector, whole_number("passes", passes))
    return coef


@njit(cache=True)
def _descend(matrix: Matrix, vector: Vector, passes: int) -> Vector:
    size = len(vector)
    coef = np.zeros(size)
    slope = -vector.copy()  # gradient
    for _ in range(passes):
        moved, largest = 0.0, 0.0
        for j in range(size):
            new = max(coef[j] - slope[j] / matrix[j, j], 0.0)
            step = new - coef[j]
            if step != 0:
                for i in range(size):
                    slope[i] += matrix[i, j] * step
                coef[j] = new
            scale = np.sqrt(matrix[j, j])  # makes steps of different coefficients comparable
            moved, largest = max(moved, abs(step) * scale), max(largest, new * scale)
        if moved <= _NEAR * largest:
            break
    return coef
