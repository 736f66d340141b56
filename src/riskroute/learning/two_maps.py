"""Means and variances that are linear in different features, with a part of each known: rows, prior, and batch fit.

A reward is ``y = offset + x' theta + noise`` with ``Var = base_variance + chi' phi`` and ``phi >= 0``. With ``chi``
made of squares of loadings every such variance is non-negative and a common factor can be expressed: the product of two
errors of the same round then has the expectation ``chi_kl' phi`` for features ``chi_kl`` of the pair.

The fit alternates, three times: weighted least squares for ``theta`` with weights one over the predicted variance, and
non-negative least squares for ``phi`` from squared errors, and products of errors, corrected for leverage. A squared
error of variance ``v`` has itself the variance ``(kurtosis - 1) v^2``, which is its weight. Variances have a floor, one
tenth of the typical one, and errors beyond six robust deviations count as six.

References
----------
J. Kirschner, A. Krause, "Information directed sampling and bandits with heteroscedastic noise" (2018),
https://arxiv.org/abs/1801.09667
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import LARGEST, exact_array, finite_array, real_number, whole_number
from riskroute.learning.belief import LEAST_VARIANCE
from riskroute.learning.nonnegative import nonnegative_minimum

SWEEPS = 3
FARTHEST = 6.0
"""Errors beyond this many robust standard deviations count as this many."""

KURTOSIS = (3.0, 20.0)
"""The estimated kurtosis of standardised errors is kept between these."""

_PRIOR_SQUARES = 50.0  # rows that say how heavy the tails of the noise are, before others say
_ROBUST = 1.4826  # median absolute error of a Gaussian, as a part of its deviation, inverted
_MOST_LEVERAGE = 0.99
_DEFAULT: Any = None


@dataclass(frozen=True, eq=False)
class TwoMapRows:
    """Rewards with their features for mean and variance.

    Parameters
    ----------
    mean_features : Matrix
        ``x``, ``(n, p)``.
    var_features : Matrix
        ``chi``, ``(n, q)``.
    rewards : Vector
        ``(n,)``.
    offset, base_variance : Vector, optional
        Known parts of mean and variance, ``(n,)``; zero unless given.
    rounds : Integers, optional
        Which round a row belongs to, ``(n,)``; rows of one round have one unit of weight together.
    weights : Vector, optional
        How much each row counts beside that, ``(n,)``.
    pairs : Integers, optional
        Rows ``k, l`` whose errors are multiplied with each other, ``(m, 2)``.
    pair_features : Matrix, optional
        Features of the covariances of the pairs, ``(m, q)``.

    Examples
    --------
    >>> rows = TwoMapRows(np.ones((3, 1)), np.ones((3, 1)), np.zeros(3), rounds=np.array([7, 7, 8]))
    >>> rows.portions.tolist()
    [0.5, 0.5, 1.0]
    """

    mean_features: Matrix
    var_features: Matrix
    rewards: Vector
    offset: Vector = _DEFAULT
    base_variance: Vector = _DEFAULT
    rounds: Integers = _DEFAULT
    weights: Vector = _DEFAULT
    pairs: Integers = _DEFAULT
    pair_features: Matrix = _DEFAULT

    def __post_init__(self) -> None:
        rewards = finite_array("rewards", self.rewards, ndim=1, largest=LARGEST)
        n = len(rewards)
        features = {
            name: finite_array(name, getattr(self, name), ndim=2, length=n, largest=LARGEST)
            for name in ("mean_features", "var_features")
        }
        pairs = np.zeros((0, 2), dtype=np.int64) if self.pairs is None else self.pairs
        pairs = exact_array("pairs", pairs, np.int64, (None, 2))
        if len(pairs) and not (pairs.min() >= 0 and pairs.max() < n):
            raise InputError(f"pairs must be row numbers below {n}, and were not")
        q = features["var_features"].shape[1]
        between = np.zeros((0, q)) if self.pair_features is None else self.pair_features
        between = exact_array("pair_features", between, np.float64, (len(pairs), q))
        rounds = np.arange(n) if self.rounds is None else exact_array("rounds", self.rounds, np.int64, (n,))
        fields = {"rewards": rewards, "pairs": pairs, "pair_features": between, "rounds": rounds, **features}
        for name, default in (("offset", 0.0), ("base_variance", 0.0), ("weights", 1.0)):
            given = getattr(self, name)
            fields[name] = (
                np.full(n, default) if given is None else finite_array(name, given, ndim=1, length=n, largest=LARGEST)
            )
        for name in ("base_variance", "weights"):
            if fields[name].min() < 0:
                raise InputError(f"{name} must not be negative, was {fields[name].min():g}")
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.rewards)

    @classmethod
    def joined(cls, parts: Sequence[TwoMapRows]) -> TwoMapRows:
        """Return the rows of several parts as one; rounds of different parts are different rounds."""
        fields = ("mean_features", "var_features", "rewards", "offset", "base_variance", "weights", "pair_features")
        rounds, pairs, start = [], [], 0
        for part in parts:
            rounds.append(start + np.unique(part.rounds, return_inverse=True)[1].reshape(-1))
            pairs.append(start + part.pairs)
            start += len(part)
        both: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in fields}
        return cls(**both, rounds=np.concatenate(rounds), pairs=np.concatenate(pairs))

    def part(self, start: int, end: int) -> TwoMapRows:
        """Return some rows in sequence, counting as much as they do here, and the pairs among them."""
        fields = ("mean_features", "var_features", "rewards", "offset", "base_variance", "rounds")
        rows = {name: getattr(self, name)[start:end] for name in fields}
        _, place, counts = np.unique(rows["rounds"], return_inverse=True, return_counts=True)
        inside = (self.pairs.min(axis=1) >= start) & (self.pairs.max(axis=1) < end)
        rows |= {"weights": self.portions[start:end] * counts[place.reshape(-1)]}
        rows |= {"pairs": self.pairs[inside] - start, "pair_features": self.pair_features[inside]}
        part = object.__new__(TwoMapRows)  # checked already
        for name, value in rows.items():
            object.__setattr__(part, name, value)
        return part

    @property
    def portions(self) -> Vector:
        """How much each row counts: its weight, over the number of rows of its round."""
        _, place, counts = np.unique(self.rounds, return_inverse=True, return_counts=True)
        return np.asarray(self.weights / counts[place.reshape(-1)])


@dataclass(frozen=True, eq=False)
class TwoMapEstimate:
    """Coefficients of mean and variance, and how firmly they are believed: a prior, or the result of a fit.

    Attributes
    ----------
    mean_coef, mean_precision
        ``theta`` and its inverse covariance, ``(p,)`` and ``(p, p)``.
    var_coef, var_precision
        ``phi >= 0`` and its inverse covariance, ``(q,)`` and ``(q, q)``.
    variance : float
        Of a typical reward.
    kurtosis : float
        Of standardised errors.

    Examples
    --------
    >>> prior = TwoMapEstimate.independent([0.0, 1.0], [0.5, 0.1], [1.0], [2.0], variance=1.0)
    >>> prior.mean_precision.round(6).tolist(), prior.var_precision.tolist()
    ([[4.0, 0.0], [0.0, 100.0]], [[0.25]])
    """

    mean_coef: Vector
    mean_precision: Matrix
    var_coef: Vector
    var_precision: Matrix
    variance: float = 1.0
    kurtosis: float = 3.0

    def __post_init__(self) -> None:
        for kind in ("mean", "var"):
            coef = finite_array(f"{kind}_coef", getattr(self, f"{kind}_coef"), ndim=1, largest=LARGEST)
            size = len(coef)
            precision = exact_array(f"{kind}_precision", getattr(self, f"{kind}_precision"), np.float64, (size, size))
            if not (np.isfinite(precision).all() and np.diag(precision).min() > 0):
                raise InputError(f"{kind}_precision must be finite and positive definite, and was not")
            object.__setattr__(self, f"{kind}_coef", coef)
            object.__setattr__(self, f"{kind}_precision", precision)
        if self.var_coef.min() < 0:
            raise InputError(f"var_coef must not be negative, was {self.var_coef.min():g}")
        object.__setattr__(self, "variance", real_number("variance", self.variance, above=0))
        object.__setattr__(self, "kurtosis", real_number("kurtosis", self.kurtosis, minimum=1))

    @classmethod
    def independent(
        cls, mean_coef: Any, mean_sd: Any, var_coef: Any, var_sd: Any, *, variance: float = 1.0
    ) -> TwoMapEstimate:
        """Coefficients that are believed independently of each other, with these standard deviations."""
        precisions = []
        for name, centre, given in (("mean_sd", mean_coef, mean_sd), ("var_sd", var_coef, var_sd)):
            deviations = finite_array(name, given, ndim=1, length=len(centre))
            if deviations.min() <= 0:
                raise InputError(f"{name} must be positive, was {deviations.min():g}")
            precisions.append(np.diag(deviations**-2.0))
        return cls(mean_coef, precisions[0], var_coef, precisions[1], variance)

    def mean(self, rows: TwoMapRows) -> Vector:
        """Expected rewards, ``(n,)``."""
        return np.asarray(rows.offset + rows.mean_features @ self.mean_coef)

    def noise(self, rows: TwoMapRows) -> Vector:
        """Variances of rewards, at least a tenth of the typical one, ``(n,)``."""
        predicted = rows.base_variance + rows.var_features @ self.var_coef
        return np.maximum(predicted, LEAST_VARIANCE * self.variance)

    @property
    def mean_errors(self) -> Vector:
        """Standard errors of the coefficients of the mean."""
        return np.asarray(np.sqrt(np.diag(np.linalg.inv(self.mean_precision))))

    @property
    def var_errors(self) -> Vector:
        """Standard errors of the coefficients of the variance."""
        return np.asarray(np.sqrt(np.diag(np.linalg.inv(self.var_precision))))


class TwoMapSums(NamedTuple):
    """Normal equations of both fits, and what the typical variance and the kurtosis come from; they add up."""

    mean_matrix: Matrix
    mean_vector: Vector
    var_matrix: Matrix
    var_vector: Vector
    errors: Vector  # weight of rows, sum of their squared errors
    squares: Vector  # weight of rows, sum of standardised squared errors, sum of the squares of these

    @classmethod
    def of(cls, prior: TwoMapEstimate) -> TwoMapSums:
        """Return sums that lead to the coefficients of a prior, as firmly."""
        return cls(
            prior.mean_precision,
            prior.mean_precision @ prior.mean_coef,
            prior.var_precision,
            prior.var_precision @ prior.var_coef,
            np.array([1.0, prior.variance]),
            _PRIOR_SQUARES * np.array([1.0, 1.0, prior.kurtosis]),
        )

    def plus(self, other: TwoMapSums, weight: float = 1.0) -> TwoMapSums:
        """Return the sums of both, the other's counted ``weight`` times."""
        return TwoMapSums(*(mine + weight * theirs for mine, theirs in zip(self, other, strict=True)))

    def times(self, factor: float) -> TwoMapSums:
        """Return sums in which everything counts ``factor`` times."""
        return TwoMapSums(*(part * factor for part in self))

    def solved(self) -> TwoMapEstimate:
        """Return the coefficients that the sums lead to."""
        return TwoMapEstimate(
            np.asarray(np.linalg.solve(self.mean_matrix, self.mean_vector), dtype=np.float64),
            self.mean_matrix,
            nonnegative_minimum(self.var_matrix, self.var_vector),
            self.var_matrix,
            float(self.errors[1] / self.errors[0]),
            min(max(float(self.squares[2] * self.squares[0] / self.squares[1] ** 2), KURTOSIS[0]), KURTOSIS[1]),
        )


def fit_two_maps(rows: TwoMapRows, prior: TwoMapEstimate, sweeps: int = SWEEPS) -> TwoMapEstimate:
    """Fit both coefficient vectors to rows, on top of a prior.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x, chi = rng.standard_normal((4000, 1)), rng.random((4000, 2))
    >>> rewards = x[:, 0] * 2 + np.sqrt(chi @ [1.0, 0.5]) * rng.standard_normal(4000)
    >>> prior = TwoMapEstimate.independent([0.0], [10.0], [1.0, 1.0], [10.0, 10.0])
    >>> found = fit_two_maps(TwoMapRows(x, chi, rewards), prior)
    >>> found.mean_coef.round(1).tolist(), found.var_coef.round(1).tolist()
    ([2.0], [1.0, 0.5])
    """
    check_two_map_rows(rows, prior)
    base = TwoMapSums.of(prior)
    return base.plus(two_map_sums(rows, base, sweeps=sweeps)).solved()


def two_map_sums(
    rows: TwoMapRows, base: TwoMapSums, *, start: TwoMapEstimate | None = None, sweeps: int = SWEEPS
) -> TwoMapSums:
    """Return what rows add to the sums, each weighted by the variance that sums and rows together lead to.

    The first sweep takes variances from ``start``, or takes them to be equal if there is none.
    """
    x, portions = rows.mean_features, rows.portions
    estimate, between = start, np.zeros(len(rows.pairs))
    noise = np.full(len(rows), base.errors[1] / base.errors[0]) if start is None else start.noise(rows)
    for _ in range(whole_number("sweeps", sweeps)):
        weights = portions / noise
        matrix, vector = (x * weights[:, None]).T @ x, x.T @ (weights * (rows.rewards - rows.offset))
        precision = base.mean_matrix + matrix
        errors = rows.rewards - rows.offset - x @ np.linalg.solve(precision, base.mean_vector + vector)
        leverage = np.einsum("ij,ji->i", x, np.linalg.solve(precision, x.T)) * (rows.weights / noise)
        errors = errors / np.sqrt(1 - np.minimum(leverage, _MOST_LEVERAGE))
        if estimate is None:  # variances are taken to be equal, at first
            robust = _ROBUST * float(np.median(np.abs(errors)))
            errors = _without_outliers(errors, np.full(len(rows), robust**2)) if robust else errors
            typical = (base.errors[1] + portions @ errors**2) / (base.errors[0] + portions.sum())
            noise, kurtosis = np.full(len(rows), typical), KURTOSIS[0]
        else:
            errors = _without_outliers(errors, noise)
            between, kurtosis = rows.pair_features @ estimate.var_coef, estimate.kurtosis
        products = errors[rows.pairs[:, 0]] * errors[rows.pairs[:, 1]]
        targets = errors**2 - rows.base_variance
        var = squared_normal_equations(rows, portions, targets, products, noise, between, kurtosis)
        squares = errors**2 / noise
        total = portions.sum()
        sums = TwoMapSums(
            matrix,
            vector,
            *var,
            np.array([total, portions @ errors**2]),
            np.array([total, portions @ squares, portions @ squares**2]),
        )
        estimate = base.plus(sums).solved()
        noise = estimate.noise(rows)
    return sums


def check_two_map_rows(rows: TwoMapRows, estimate: TwoMapEstimate) -> None:
    """Refuse rows whose features are not as many as the coefficients."""
    for kind in ("mean", "var"):
        there, size = getattr(rows, f"{kind}_features").shape[1], len(getattr(estimate, f"{kind}_coef"))
        if there != size:
            raise InputError(f"{kind}_features must have {size} columns, had {there}")


def _without_outliers(errors: Vector, noise: Vector) -> Vector:
    deviations = np.sqrt(noise)
    limit = FARTHEST * max(_ROBUST * float(np.median(np.abs(errors) / deviations)), 1.0)
    return np.clip(errors, -limit * deviations, limit * deviations)


def squared_normal_equations(
    rows: TwoMapRows,
    portions: Vector,
    targets: Vector,
    products: Vector,
    noise: Vector,
    between: Vector,
    kurtosis: float,
) -> tuple[Matrix, Vector]:
    """Matrix and right-hand side for the coefficients of the variance.

    ``targets`` stand for the variances of rows and ``products`` for the covariances of pairs; ``noise`` and
    ``between`` are those predicted.
    """
    weights = portions / ((kurtosis - 1) * noise**2)
    matrix = (rows.var_features * weights[:, None]).T @ rows.var_features
    totals = rows.var_features.T @ (weights * targets)
    if len(rows.pairs):
        one, other = rows.pairs.T
        spread = (kurtosis - 1) / 2 * (noise[one] * noise[other] + between**2)
        weights = np.sqrt(portions[one] * portions[other]) / spread
        matrix += (rows.pair_features * weights[:, None]).T @ rows.pair_features
        totals += rows.pair_features.T @ (weights * products)
    return matrix, totals
