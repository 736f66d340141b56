"""Least-squares estimates of the mean and variance coefficients, from tallies.

For ``n_i`` rewards of each action ``i`` with feature vector ``a_i``, tallied as (count, mean, spread), the paper's
estimators theta-hat (of the mean) and phi-hat (of the variance) need only

    sum_s X_s a_s = sum_i n_i mean_i a_i        and        R_i = spread_i + n_i (mean_i - fit_i)^2,

the sum of squared residuals of action ``i``. The normal equations are solved by SVD of the stacked rows ``sqrt(n_i)
a_i``. Without a ridge, a rank-deficient design gives the solution of minimum norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Flags, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, finite_array, instance_of, real_number, true_or_false
from riskroute.learning.tally import Tallies


@dataclass(frozen=True)
class LeastSquaresEstimate:
    """Least-squares estimates of the coefficients of mean and variance, ``(dim,)`` each."""

    mean_coef: Vector
    var_coef: Vector

    def __post_init__(self) -> None:
        mean_coef = exact_array("mean_coef", self.mean_coef, np.float64, (None,))
        object.__setattr__(self, "mean_coef", mean_coef)
        object.__setattr__(self, "var_coef", exact_array("var_coef", self.var_coef, np.float64, mean_coef.shape))

    def score(self, risk_tolerance: float) -> Vector:
        """Return the coefficients of the estimated mean-variance; the base variance is not included."""
        return self.var_coef - real_number("risk_tolerance", risk_tolerance) * self.mean_coef


class _Solver:
    """Solver of ``(ridge I + sum_i w_i a_i a_i') x = sum_i w_i y_i a_i`` for several ``y``."""

    def __init__(self, rows: Matrix, weights: Vector, ridge: float) -> None:
        self.root = np.sqrt(weights)
        self.rows = rows
        self.left, singular, self.right = np.linalg.svd(self.root[:, None] * rows, full_matrices=False)
        largest = singular[0] if len(singular) else 0.0
        kept = singular > largest * max(rows.shape) * np.finfo(float).eps
        self.singular = singular
        self.shrink = np.zeros_like(singular)  # eigenvalues of the regularised inverse, within the span of the rows
        self.shrink[kept] = 1 / (singular[kept] ** 2 + ridge)

    def solve(self, targets: Vector) -> Vector:
        gain = self.singular * self.shrink
        solution: Vector = self.right.T @ (gain * (self.left.T @ (self.root * targets)))
        return solution

    def leverages(self, *, regularised: bool = True) -> Vector:
        """Return ``a_i' V^-1 a_i`` per row, within the span of the rows, with or without the ridge in ``V``."""
        shrink = self.shrink
        if not regularised:
            shrink = np.divide(1.0, self.singular**2, out=np.zeros_like(self.singular), where=self.shrink > 0)
        projected = self.rows @ self.right.T
        return np.asarray((projected**2) @ shrink)


def least_squares(
    features: Matrix, tallies: Tallies, base_variance: float, *, ridge: float = 0.0, corrected: bool = False
) -> LeastSquaresEstimate:
    """Estimate the coefficients of mean and variance by the paper's least squares.

    Parameters
    ----------
    features : Matrix
        ``(n, dim)``, the feature vector of each tally's action.
    tallies : Tallies
        Observed counts, means and spreads.
    base_variance : float
        The known constant omega in the variance.
    ridge : float
        Ridge penalty lambda: 0 in RISE, positive in RISE++.
    corrected : bool
        Divide the squared residuals by one minus their leverage, and ignore residuals with a leverage of at least 0.99.
        The default is the paper's variance estimate, which is biased low: it uses the residuals of a mean fitted to the
        same rewards.

    Examples
    --------
    >>> from riskroute.learning.tally import Tally
    >>> tallies = Tallies.of(np.array([0, 1]), [Tally(4, 0.5, 4.0), Tally(4, 0.25, 8.0)])
    >>> estimate = least_squares(np.eye(2), tallies, base_variance=1.0)
    >>> estimate.mean_coef.tolist(), estimate.var_coef.round(12).tolist()
    ([0.5, 0.25], [0.0, 1.0])
    """
    features, base_variance, ridge = _checked(features, tallies, base_variance, ridge)
    true_or_false("corrected", corrected)
    counts = tallies.counts.astype(np.float64)
    solver = _Solver(features, counts, ridge)
    mean_coef = solver.solve(tallies.means)
    spread, seen = _residuals(features, tallies, mean_coef, solver if corrected else None)
    if not seen.all():
        solver = _Solver(features[seen], counts[seen], ridge)
    var_coef = solver.solve(spread[seen] - base_variance)
    return LeastSquaresEstimate(mean_coef, var_coef)


def unbiased_estimate(features: Matrix, tallies: Tallies, base_variance: float, risk_tolerance: float) -> Vector:
    """Estimate the coefficients of the mean-variance without bias, from the sample mean and variance of each action.

    Each action's sample mean-variance is fitted by least squares, weighted by its count. `least_squares` is biased
    because it uses residuals of a fitted mean. Every action must be observed at least twice, for its sample variance
    ``spread / (count - 1)``, which is independent of the sample mean if rewards are Gaussian.
    """
    variances = tallies.spreads / (tallies.counts - 1)
    solver = _Solver(features, tallies.counts.astype(np.float64), 0.0)
    return solver.solve(variances - base_variance - risk_tolerance * tallies.means)


def _residuals(features: Matrix, tallies: Tallies, mean_coef: Vector, solver: _Solver | None) -> tuple[Vector, Flags]:
    """Return each tally's mean squared residual (leverage-corrected if given a ``solver``), and whether to use it."""
    spread = tallies.spreads / tallies.counts + (tallies.means - features @ mean_coef) ** 2
    if solver is None:
        return spread, np.ones(len(spread), dtype=bool)
    # Residuals of actions with leverage near one carry no information. The ridge would hide such a leverage.
    seen = solver.leverages(regularised=False) < 1 - 1e-2
    free = 1 - solver.leverages()
    return np.where(seen, spread / np.where(seen, free, 1.0), 0.0), seen


def _checked(features: Matrix, tallies: Tallies, base_variance: float, ridge: float) -> tuple[Matrix, float, float]:
    instance_of("tallies", tallies, Tallies, "Tallies")
    features = finite_array("features", features, ndim=2, length=len(tallies))
    counts = np.asarray(tallies.counts)
    if counts.dtype.kind not in "iu" or (counts < 1).any():
        raise InputError(f"counts must be positive integers, was {counts.min()}")
    finite_array("means", tallies.means, ndim=1, length=len(tallies))
    if finite_array("spreads", tallies.spreads, ndim=1, length=len(tallies)).min() < 0:
        raise InputError(f"spreads must be non-negative, was {tallies.spreads.min():g}")
    return features, real_number("base_variance", base_variance, minimum=0), real_number("ridge", ridge, minimum=0)
