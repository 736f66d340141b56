"""A Gaussian belief about both coefficient vectors, from weighted least squares.

A reward of variance ``v`` carries the information ``1 / v`` about its mean, and its squared error ``1 / (2 v^2)`` about
its variance (exactly so for Gaussian rewards). Both fits weight rewards by the variance that they estimate, so they are
repeated a few times; see `riskroute.learning.belief_fit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, finite_array, real_number, sized_number
from riskroute.learning.belief_compiled import belief_draws, belief_inverse, belief_score_covariance
from riskroute.learning.belief_fit import (
    BeliefArrays,
    draw_belief_plainly,
    fit_belief_plainly,
    invert_belief_plainly,
)
from riskroute.learning.belief_fit_compiled import fit_belief_arrays
from riskroute.learning.observations import Observations

LEAST_VARIANCE = 0.1
"""No action is believed to have a smaller variance than this fraction of the typical one."""

VARIANCE_FLOOR = 0.3
"""In a fit, rewards are not weighted by smaller variances than this fraction of the typical one."""

LONGEST = 64
"""For longer coefficient vectors the matrix products of a linear algebra library are faster than the kernels."""

_FIELDS = ("mean_coef", "mean_precision", "var_coef", "var_precision")
_JITTER = 1e-9  # keeps the matrix regular in directions in which no two actions differ


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
        for name, shape in zip(_FIELDS, ((dim,), (dim, dim), (dim,), (dim, dim)), strict=True):
            given = getattr(self, name)
            array = np.ascontiguousarray(exact_array(name, given, np.float64, shape))  # as kernels take it
            if array is not given:
                object.__setattr__(self, name, array)
        for name in ("variance", "rounds"):
            given = getattr(self, name)
            number = real_number(name, given, minimum=0)
            if number is not given:
                object.__setattr__(self, name, number)

    @classmethod
    def _fitted(cls, found: BeliefArrays) -> Belief:
        """Return the belief that a fit has found: its arrays need no check, unlike numbers that may be out of range."""
        one = object.__new__(cls)
        one.__dict__.update(found._asdict())
        for name in ("variance", "rounds"):
            one.__dict__[name] = real_number(name, one.__dict__[name], minimum=0)
        return one

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
        return self.objective(risk_tolerance)[1].copy()

    def objective(self, risk_tolerance: float) -> tuple[Vector, Matrix]:
        """Return score and covariance, worked out once for all who ask; they are not to be written to."""
        tolerance = risk_tolerance if type(risk_tolerance) is float else real_number("risk_tolerance", risk_tolerance)
        known = self._objectives.get(tolerance)
        if known is None:
            known = self._objectives[tolerance] = self._objective(tolerance)
        return known

    def _objective(self, tolerance: float) -> tuple[Vector, Matrix]:
        score, covariance = self.score(tolerance), None
        if self.dim <= LONGEST:
            covariance = belief_score_covariance(self.mean_precision, self.var_precision, tolerance)
        if covariance is None:
            covariance = self.var_covariance + tolerance**2 * self.mean_covariance
        return score, covariance

    @cached_property
    def _objectives(self) -> dict[float, tuple[Vector, Matrix]]:
        """Scores and covariances that were asked for, by risk tolerance."""
        return {}

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


def fit_belief(
    observations: Observations,
    *,
    base_variance: float,
    vague: Matrix,
    prior: Belief | None = None,
    variance_floor: float = VARIANCE_FLOOR,
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
    before = None if prior is None else prior.arrays
    found = None
    if dim <= LONGEST:
        found = fit_belief_arrays(observations, base_variance, vague, before, variance_floor, unit)
    if found is None:
        found = fit_belief_plainly(observations, base_variance, vague, before, variance_floor, unit)
    return Belief._fitted(found)


def vague_belief_information(features: Matrix, weights: Vector, rewards: float) -> Matrix:
    """Return the information of ``rewards`` rewards spread over a design: features ``(n, dim)``, weights ``(n,)``."""
    features = finite_array("features", features, ndim=2)
    information: Matrix = rewards * (features * weights[:, None]).T @ features
    size = float(np.trace(information)) / len(information)
    return information + _JITTER * (size if size > 0 else 1.0) * np.eye(len(information))


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a positive definite matrix, positive definite too even if the matrix is ill-conditioned."""
    inverse = belief_inverse(matrix) if len(matrix) <= LONGEST else None
    return invert_belief_plainly(matrix) if inverse is None else inverse
