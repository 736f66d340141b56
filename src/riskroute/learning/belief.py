"""Gaussian posterior over the coefficients of mean and variance.

`riskroute.learning.belief_fit` fits it to rewards by weighted least squares. Up to 64 dimensions, compiled kernels
compute covariances and draws. They add in a fixed order, so results are the same on every processor. In higher
dimensions, or if the kernels find no Cholesky factor, NumPy computes them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from scipy.linalg import solve_triangular

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.validation import exact_array, real_number, valid_magnitude
from riskroute.learning.kernels import LONGEST, positive_definite_inverse, upper_triangular_root

LEAST_VARIANCE = 0.1  # floor on the variance of any action, as a fraction of the typical variance


@dataclass(frozen=True, eq=False)
class Belief:
    """Gaussian posterior of the coefficients of mean and variance, which are independent of each other.

    Attributes
    ----------
    mean_coef, var_coef : Vector
        Posterior means, ``(dim,)``.
    mean_precision, var_precision : Matrix
        Inverse covariances, ``(dim, dim)``.
    variance : float
        Typical variance of a reward.
    rounds : float
        Number of rewards in the posterior; fractional after `weakened`.
    """

    mean_coef: Vector
    mean_precision: Matrix
    var_coef: Vector
    var_precision: Matrix
    variance: float
    rounds: float

    def __post_init__(self) -> None:
        dim = len(exact_array("mean_coef", self.mean_coef, np.float64, (None,)))
        shapes = {"mean_coef": (dim,), "mean_precision": (dim, dim), "var_coef": (dim,), "var_precision": (dim, dim)}
        for name, shape in shapes.items():
            array = np.ascontiguousarray(exact_array(name, getattr(self, name), np.float64, shape))  # for kernels
            object.__setattr__(self, name, array)
        for name in ("variance", "rounds"):
            object.__setattr__(self, name, real_number(name, getattr(self, name), minimum=0))

    @property
    def dim(self) -> int:
        """Length of a coefficient vector."""
        return len(self.mean_coef)

    def score(self, risk_tolerance: float) -> Vector:
        """Return the posterior mean of ``var_coef - risk_tolerance * mean_coef``, the score's coefficients."""
        return self.var_coef - valid_magnitude("risk_tolerance", risk_tolerance, smallest=0) * self.mean_coef

    def score_covariance(self, risk_tolerance: float) -> Matrix:
        """Return the covariance of the score's coefficients; mean and variance are independent a posteriori."""
        tolerance = valid_magnitude("risk_tolerance", risk_tolerance, smallest=0)
        return np.asarray(self.var_covariance + tolerance * tolerance * self.mean_covariance)

    @cached_property
    def mean_covariance(self) -> Matrix:
        """Covariance of the coefficients of the mean."""
        return _covariance(self.mean_precision)

    @cached_property
    def var_covariance(self) -> Matrix:
        """Covariance of the coefficients of the variance."""
        return _covariance(self.var_precision)

    def in_units(self, factor: float) -> Belief:
        """Return the same posterior for rewards multiplied by ``factor``: 100 converts dollars to cents."""
        factor = real_number("factor", factor, above=0)
        return Belief(
            self.mean_coef * factor,
            self.mean_precision / factor**2,
            self.var_coef * factor**2,
            self.var_precision / factor**4,
            self.variance * factor**2,
            self.rounds,
        )

    def weakened(self, factor: float) -> Belief:
        """Return the posterior with its information multiplied by ``factor``, for use as a prior."""
        factor = real_number("factor", factor, above=0, maximum=1)
        precisions = {name: getattr(self, name) * factor for name in ("mean_precision", "var_precision")}
        return dataclasses.replace(self, rounds=self.rounds * factor, **precisions)


def draw_gaussian_belief(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    """Map standard normal draws ``(n, dim)`` to draws from ``N(center, covariance)``, ``(n, dim)``."""
    if len(center) <= LONGEST:
        columns, root = normals.T.copy(), np.zeros(covariance.shape)  # overwritten by the kernel
        if upper_triangular_root(np.ascontiguousarray(covariance), root):
            _multiply_by_root(root, columns)
            return np.ascontiguousarray(center + columns.T)
    return _draw_gaussian_numpy(center, covariance, normals)


def _draw_gaussian_numpy(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    drawn: Matrix = center + normals @ np.linalg.cholesky(covariance).T
    return drawn


@njit(cache=True, error_model="numpy")
def _multiply_by_root(root: Matrix, columns: Matrix) -> None:
    """Replace ``columns`` ``(dim, n)`` by ``root' columns``, for upper triangular ``root``."""
    dim, n = columns.shape
    for a in range(dim - 1, -1, -1):  # in place: row a needs rows 0 .. a only
        for i in range(n):
            total = 0.0
            for b in range(a + 1):
                total += columns[b, i] * root[b, a]
            columns[a, i] = total


def _covariance(precision: Matrix) -> Matrix:
    found = positive_definite_inverse(precision) if len(precision) <= LONGEST else None
    return _invert_numpy(precision) if found is None else found


def _invert_numpy(matrix: Matrix) -> Matrix:
    root = solve_triangular(np.linalg.cholesky(matrix), np.eye(len(matrix)), lower=True)
    product: Matrix = root.T @ root
    return product
