"""A Gaussian belief about both coefficient vectors, from weighted least squares.

A reward of variance ``v`` carries the information ``1 / v`` about its mean, and its squared error ``1 / (2 v^2)`` about
its variance (exactly so for Gaussian rewards). Both fits weight rewards by the variance that they estimate, so they are
repeated a few times.

Squared errors are of two kinds: those of rewards around the mean of their own action, and those of these means around
the fit. The fit follows the rewards, so an error of the second kind has one degree of freedom less its leverage. The
second kind is left out where it is clearly larger than the first explains: then the prior is wrong, or means are not
linear in the features, and what the fit misses is not noise.

Before any reward the belief is vague: worth a fraction of one reward, spread over an optimal design, around the
coefficients of the prior or around zero. The variance of that reward is the noise plus the squared signal, which is the
average squared distance of the actions' means from those coefficients. Without the signal, the vague belief would be a
firm belief in zero wherever means lie many noise deviations apart, and what the fit then misses would look like noise.
With it, the belief is the same whatever the units of rewards and features are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from riskroute.arrays import Matrix, Vector
from riskroute.errors import InputError
from riskroute.learning.belief_compiled import (
    LONGEST,
    BeliefArrays,
    BeliefLimits,
    BeliefRows,
    belief_draws,
    belief_inverse,
    fit_belief_arrays,
)
from riskroute.learning.observations import Observations
from riskroute.validation import exact_array, finite_array, real_number, sized_number

LEAST_VARIANCE = 0.1
"""No action is believed to have a smaller variance than this fraction of the typical one."""

_TRACE = 1e-9  # fraction of the vague belief that makes the fit behind the typical variance just solvable
_LEAST_FREEDOM = 0.5  # degrees of freedom without which the typical variance is not estimated
_SURPRISE = 3.0  # standard deviations by which errors of the fit may exceed those within actions
_LEAST = 1e-75  # the smallest variance that can be squared and divided by
_NOISELESS = 1e-20  # squared errors below this fraction of squared rewards are rounding errors
_ITERATIONS = 3
_JITTER = 1e-9  # keeps the matrix regular in directions in which no two actions differ
_ROUNDING = 1e-12  # does the same where very many rewards were seen in other directions


@dataclass(frozen=True, eq=False)
class Belief:
    """Where both coefficient vectors are thought to be, and how firmly.

    Attributes
    ----------
    mean_coef, var_coef : Vector
        Centres, ``(dim,)``.
    mean_precision, var_precision : Matrix
        Inverse covariances, ``(dim, dim)``.
    variance : float
        Variance of a typical reward.
    rounds : float
        Number of rewards that the belief rests on; it may be fractional after `weakened`.
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

    @property
    def arrays(self) -> BeliefArrays:
        """All fields, for compiled code."""
        return BeliefArrays(
            self.mean_coef, self.mean_precision, self.var_coef, self.var_precision, self.variance, self.rounds
        )

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

    def in_units(self, factor: float) -> Belief:
        """Return the same belief about rewards multiplied by ``factor``: 100 turns dollars into cents."""
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


def draw_belief(rng: np.random.Generator, center: Vector, covariance: Matrix, count: int) -> Matrix:
    """Return ``count`` Gaussian draws, ``(count, dim)``."""
    normals = rng.standard_normal((count, len(center)))
    drawn = belief_draws(center, covariance, normals) if len(center) <= LONGEST else None
    return draw_belief_plainly(center, covariance, normals) if drawn is None else drawn


def draw_belief_plainly(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    """Turn standard normal numbers ``(count, dim)`` into draws: the definition of what is compiled."""
    drawn: Matrix = center + normals @ np.linalg.cholesky(covariance).T
    return drawn


def fit_belief(
    observations: Observations,
    *,
    base_variance: float,
    vague: Matrix,
    prior: Belief | None = None,
    variance_floor: float = 0.3,
    unit: float = 1.0,
) -> Belief:
    """Fit the belief to observed rewards, starting from an optional prior.

    Parameters
    ----------
    observations : Observations
        The rewards.
    base_variance : float
        The known constant in the variance.
    vague : Matrix
        Information of the vague belief, in rewards, ``(dim, dim)``; see `vague_belief_information`.
    prior : Belief, optional
        What was believed before, beyond the vague belief.
    variance_floor : float
        Estimated variances are kept above this fraction of the typical one.
    unit : float
        The typical variance to assume where rewards, prior and base variance all say zero.
    """
    dim = observations.features.shape[1]
    if prior is not None and prior.dim != dim:
        raise InputError(f"prior must have dimension {dim}, was {prior.dim}")
    if dim <= LONGEST:
        limits = BeliefLimits(
            base_variance, variance_floor, unit, _TRACE, _LEAST_FREEDOM, _SURPRISE, _LEAST, _NOISELESS, _ROUNDING,
            _ITERATIONS,
        )
        one = observations
        rows = BeliefRows(one.features, one.counts, one.means, one.spreads, one.free)
        found = fit_belief_arrays(rows, vague, None if prior is None else prior.arrays, limits)
        if found is not None:
            return Belief(*found)
    return fit_belief_plainly(observations, base_variance, vague, prior, variance_floor, unit)


def fit_belief_plainly(
    observations: Observations,
    base_variance: float,
    vague: Matrix,
    prior: Belief | None,
    variance_floor: float,
    unit: float,
) -> Belief:
    """Fit the belief step by step: the definition of what is compiled. Parameters are those of `fit_belief`."""
    features, counts, dim = observations.features, observations.counts, observations.features.shape[1]
    typical, rounds = _typical_variance(observations, base_variance, vague, prior, unit)
    nothing, nowhere = np.zeros((dim, dim)), np.zeros(dim)
    mean_known, mean_center = (nothing, nowhere) if prior is None else (prior.mean_precision, prior.mean_coef)
    var_known, var_center = (nothing, nowhere) if prior is None else (prior.var_precision, prior.var_coef)
    expected = features @ var_center + base_variance
    signal = _average_square(observations, observations.means - features @ mean_center, noise=typical)
    mean_known = mean_known + vague / (typical + signal)
    var_known = var_known + vague / (2 * typical**2 + _average_square(observations, typical - expected))
    variance = np.full(len(counts), typical) if prior is None else np.maximum(expected, variance_floor * typical)
    for _ in range(_ITERATIONS):
        weights = counts / variance
        mean_precision, mean_coef = _solve(features, weights, weights * observations.means, mean_known, mean_center)
        squares, freedom = _squared_errors(
            observations, mean_coef, _levers(features, mean_precision) / variance, variance
        )
        weights = freedom / (2 * variance**2)
        totals = (squares - freedom * base_variance) / (2 * variance**2)
        var_precision, var_coef = _solve(features, weights, totals, var_known, var_center)
        variance = np.maximum(features @ var_coef + base_variance, variance_floor * typical)
    return Belief(mean_coef, mean_precision, var_coef, var_precision, typical, rounds)


def vague_belief_information(features: Matrix, weights: Vector, rewards: float) -> Matrix:
    """Return the information of ``rewards`` rewards spread over a design: features ``(n, dim)``, weights ``(n,)``."""
    features = finite_array("features", features, ndim=2)
    information: Matrix = rewards * (features * weights[:, None]).T @ features
    size = float(np.trace(information)) / len(information)
    return information + _JITTER * (size if size > 0 else 1.0) * np.eye(len(information))


def _solve(features: Matrix, weights: Vector, totals: Vector, known: Matrix, center: Vector) -> tuple[Matrix, Vector]:
    """Update a belief of precision ``known`` around ``center`` by weighted targets; return its precision and centre.

    ``totals`` are targets times weights. The step away from the old centre is refined once: the guard against rounding
    would otherwise hold the new centre back a little, which matters where means lie many noise deviations apart.
    """
    precision = known + (features * weights[:, None]).T @ features
    precision.flat[:: len(precision) + 1] *= 1 + _ROUNDING  # the diagonal
    step = np.zeros(len(center))
    for _ in range(2):
        missed = totals - weights * (features @ (center + step))
        step = step + np.linalg.solve(precision, features.T @ missed - known @ step)
    return precision, center + step


def _levers(features: Matrix, precision: Matrix) -> Vector:
    """Variance of each row's fitted value."""
    return np.asarray(np.einsum("ij,ij->i", features, np.linalg.solve(precision, features.T).T))


def _squared_errors(
    observations: Observations, coef: Vector, levers: Vector, variance: Vector
) -> tuple[Vector, Vector]:
    """Return the sum of squared errors of each row and its degrees of freedom, given the leverage of one reward.

    Errors within rows are right whatever the fit is. Errors of the fit are added to them unless they are clearly larger
    than those within rows explain, in units of the ``variance`` of each row.
    """
    missed = observations.counts * (observations.means - observations.features @ coef) ** 2
    left = np.maximum(observations.counts * (1 - levers) - observations.free, 0.0)
    inside, outside = float(observations.free.sum()), float(left.sum())
    if inside >= outside > 0:
        explained = np.sum(observations.spreads / variance) / inside * outside
        if np.sum(missed / variance) > explained * (1 + _SURPRISE * math.sqrt(2 / inside + 2 / outside)):
            return observations.spreads, observations.free
    return observations.spreads + missed, observations.free + left


def _average_square(observations: Observations, values: Vector, noise: float = 0.0) -> float:
    """Return the average square of one value per row, less the part due to the rewards' noise, and at least zero.

    Every row counts once, however often it was played.
    """
    if len(observations) == 0:
        return 0.0
    counts, weights = observations.counts, np.minimum(observations.counts, 1.0)
    squares = values**2 - noise * (1 - observations.free / counts)
    return max(float(np.sum(weights * squares) / np.sum(weights)), 0.0)


def _typical_variance(
    observations: Observations, base_variance: float, vague: Matrix, prior: Belief | None, unit: float
) -> tuple[float, float]:
    """Return the variance pooled over all rewards, per degree of freedom, and the number of rewards.

    Where rewards are too few to tell, it is the prior's; without a prior, the known constant; and if that is zero, the
    average square of the rewards.
    """
    features, counts = observations.features, observations.counts
    known, center = _TRACE * vague, np.zeros(len(vague))
    squares = freedom = rounds = 0.0
    if prior is not None:
        known, center = known + prior.mean_precision * prior.variance, prior.mean_coef
        squares, freedom, rounds = prior.variance * prior.rounds, prior.rounds, prior.rounds
    precision, coef = _solve(features, counts, counts * observations.means, known, center)
    errors = _squared_errors(observations, coef, _levers(features, precision), np.ones(len(counts)))
    squares, freedom = squares + float(errors[0].sum()), freedom + float(errors[1].sum())
    found = squares / freedom if freedom > _LEAST_FREEDOM else 0.0
    size = _average_square(observations, observations.means)
    found = found if found > _NOISELESS * size else 0.0
    choices = (found, prior.variance if prior else 0.0, base_variance, size, unit, 1.0)
    return next(choice for choice in choices if choice > _LEAST), rounds + observations.rounds


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a positive definite matrix, positive definite too even if the matrix is ill-conditioned."""
    inverse = belief_inverse(matrix) if len(matrix) <= LONGEST else None
    return invert_belief_plainly(matrix) if inverse is None else inverse


def invert_belief_plainly(matrix: Matrix) -> Matrix:
    """Invert a precision: the definition of what is compiled."""
    root = solve_triangular(np.linalg.cholesky(matrix), np.eye(len(matrix)), lower=True)
    inverse: Matrix = root.T @ root
    return inverse
