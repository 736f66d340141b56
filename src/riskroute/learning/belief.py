"""A Gaussian belief about both coefficient vectors, from weighted least squares.

A reward of variance ``v`` says ``1 / v`` about its mean, and its squared residual ``1 / (2 v^2)`` about its variance
(exactly so for Gaussian rewards). Both fits weigh rewards by the variance they estimate, so they are repeated a few
times. Squared residuals are divided by one minus their leverage, since the fitted mean follows the noise, and count
as much less as that leaves of them.

The vague belief before any reward is worth a fraction of one reward, spread over an optimal design. That makes it
the same whatever the units of rewards and features are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from riskroute.errors import InputError, exact_array, finite_array, real_number, sized_number
from riskroute.learning.evidence import Evidence

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LEAST_VARIANCE = 0.1
"""Of an action, in parts of the typical one: no estimate makes an action safer than that."""

_LEAST_FREEDOM = 0.05  # part of a reward that the fit leaves free, at least, when residuals are corrected
_ITERATIONS = 3
_JITTER = 1e-9  # keeps directions in which no two actions differ from being singular
_ROUNDING = 1e-12  # the same, beside directions in which very many rewards were seen


@dataclass(frozen=True, eq=False)
class Belief:
    """Where both coefficient vectors are thought to be, and how firmly.

    Attributes
    ----------
    mean_coef, var_coef : centres, ``(dim,)``.
    mean_precision, var_precision : inverse covariances, ``(dim, dim)``.
    variance : variance of a typical reward.
    rounds : rewards the belief rests on; a fraction after `weakened`.
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
            object.__setattr__(self, name, exact_array(name, getattr(self, name), np.float64, shape))
        for name in ("variance", "rounds"):
            object.__setattr__(self, name, real_number(name, getattr(self, name), minimum=0))

    @property
    def dim(self) -> int:
        """Length of a coefficient vector."""
        return len(self.mean_coef)

    def score(self, risk_tolerance: float) -> Vector:
        """Coefficients of the expected mean-variance, up to the constant."""
        return self.var_coef - sized_number("risk_tolerance", risk_tolerance, smallest=0) * self.mean_coef

    def score_covariance(self, risk_tolerance: float) -> Matrix:
        """Covariance of those coefficients; mean and variance are estimated independently of each other."""
        return (
            self.var_covariance + sized_number("risk_tolerance", risk_tolerance, smallest=0) ** 2 * self.mean_covariance
        )

    @cached_property
    def mean_covariance(self) -> Matrix:
        """Covariance of the coefficients of the mean."""
        return _inverse(self.mean_precision)

    @cached_property
    def var_covariance(self) -> Matrix:
        """Covariance of the coefficients of the variance."""
        return _inverse(self.var_precision)

    def weakened(self, factor: float) -> Belief:
        """Return the same belief, as firm as ``factor`` times its rewards would make it: yesterday's, for today."""
        factor = real_number("factor", factor, above=0, maximum=1)
        return Belief(
            self.mean_coef,
            self.mean_precision * factor,
            self.var_coef,
            self.var_precision * factor,
            self.variance,
            self.rounds * factor,
        )


def draw(rng: np.random.Generator, center: Vector, covariance: Matrix, count: int) -> Matrix:
    """``count`` Gaussian draws, ``(count, dim)``."""
    root = np.linalg.cholesky(covariance)
    drawn: Matrix = center + rng.standard_normal((count, len(center))) @ root.T
    return drawn


def fit(
    evidence: Evidence,
    *,
    base_variance: float,
    vague: Matrix,
    prior: Belief | None = None,
    variance_floor: float = 0.3,
) -> Belief:
    """Say what rewards, and a prior, make one believe.

    Parameters
    ----------
    evidence : the rewards.
    base_variance : the known constant in the variance.
    vague : information of the vague belief, in rewards of typical variance, ``(dim, dim)``; see `vague_information`.
    prior : what was believed before, beyond the vague belief.
    variance_floor : estimated variances are kept above this part of the typical one.
    """
    features, counts, means = evidence.features, evidence.counts, evidence.means
    if prior is not None and prior.dim != features.shape[1]:
        raise InputError(f"prior must have dimension {features.shape[1]}, was {prior.dim}")
    typical, rounds = _typical_variance(evidence, base_variance, vague, prior)
    variance = np.full(len(counts), typical)
    about_mean = about_variance = None
    if prior is not None:
        about_mean, about_variance = (prior.mean_precision, prior.mean_coef), (prior.var_precision, prior.var_coef)
        variance = np.maximum(features @ prior.var_coef + base_variance, variance_floor * typical)
    for _ in range(_ITERATIONS):
        mean_precision, mean_coef = _solve(features, counts / variance, means, vague / typical, about_mean)
        lever = np.einsum("ij,ij->i", features, np.linalg.solve(mean_precision, features.T).T) / variance
        residual = evidence.spreads / counts + (means - features @ mean_coef) ** 2
        freedom = np.maximum(1 - lever, _LEAST_FREEDOM)
        residual = residual / freedom
        var_precision, var_coef = _solve(
            features,
            counts * freedom / (2 * variance**2),
            residual - base_variance,
            vague / (2 * typical**2),
            about_variance,
        )
        variance = np.maximum(features @ var_coef + base_variance, variance_floor * typical)
    return Belief(mean_coef, mean_precision, var_coef, var_precision, typical, rounds)


def vague_information(features: Matrix, weights: Vector, rewards: float) -> Matrix:
    """Information of ``rewards`` rewards spread over a design: features ``(n, dim)`` with weights ``(n,)``."""
    features = finite_array("features", features, ndim=2)
    information: Matrix = rewards * (features * weights[:, None]).T @ features
    size = float(np.trace(information)) / len(information)
    return information + _JITTER * (size if size > 0 else 1.0) * np.eye(len(information))


def _solve(
    features: Matrix, weights: Vector, targets: Vector, vague: Matrix, prior: tuple[Matrix, Vector] | None
) -> tuple[Matrix, Vector]:
    """Precision and centre after rewards of the given weights."""
    weighted = features * weights[:, None]
    precision = vague + weighted.T @ features
    moment = weighted.T @ targets
    if prior is not None:
        precision, moment = precision + prior[0], moment + prior[0] @ prior[1]
    precision.flat[:: len(precision) + 1] *= 1 + _ROUNDING  # the diagonal
    return precision, np.asarray(np.linalg.solve(precision, moment), dtype=np.float64)


def _typical_variance(
    evidence: Evidence, base_variance: float, vague: Matrix, prior: Belief | None
) -> tuple[float, float]:
    """Residual variance pooled over all rewards, per degree of freedom, and how many rewards there were."""
    features, counts, means = evidence.features, evidence.counts, evidence.means
    believed = None if prior is None else (prior.mean_precision * prior.variance, prior.mean_coef)
    precision, center = _solve(features, counts, means, vague, believed)
    squares = float(np.sum(evidence.spreads + counts * (means - features @ center) ** 2))
    levers = np.einsum("ij,ij->i", features, np.linalg.solve(precision, features.T).T)
    freedom = float(np.sum(counts * np.maximum(1 - levers, 0.0)))
    rounds = evidence.rounds
    if prior is not None:
        squares, freedom, rounds = (
            squares + prior.variance * prior.rounds,
            freedom + prior.rounds,
            rounds + prior.rounds,
        )
    usual = base_variance if base_variance > 0 else 1.0
    return (squares / freedom if freedom > 1 and squares > 1e-12 * usual * freedom else usual), rounds


def _inverse(matrix: Matrix) -> Matrix:
    """Inverse of a positive definite matrix, positive definite itself also when it is ill-conditioned."""
    root = solve_triangular(np.linalg.cholesky(matrix), np.eye(len(matrix)), lower=True)
    inverse: Matrix = root.T @ root
    return inverse
