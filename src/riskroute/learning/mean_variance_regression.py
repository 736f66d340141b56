"""Regression with a linear mean and a linear variance, each in its own features.

A reward is ``y = offset + x' theta + noise`` with ``Var = base_variance + chi' phi`` and ``phi >= 0``. If ``chi``
consists of squared factor loadings, all variances are non-negative. Rewards of one round may have a common factor: the
product of the errors of two such rewards ``k`` and ``l`` has expectation ``chi_kl' phi``, where ``chi_kl`` are the
features of the pair.

A fit alternates weighted least squares for ``theta`` (weights: inverse predicted variances) with non-negative least
squares for ``phi`` (targets: squared errors and products of errors, corrected for leverage). The square of an error
with variance ``v`` has variance ``(kurtosis - 1) v^2``, the inverse of its weight. Predicted variances are
floored at one tenth of the typical variance. Errors are clipped at six predicted standard deviations, or at six robust
ones if these are larger.

`MeanVarianceRegression` is the online version. It keeps the normal equations of both fits and the most recent rows. A
refresh fits the recent rows together with the normal equations. If there are too many recent rows, the oldest are
folded into the normal equations, weighted by the current estimates of their variances. Weights therefore never depend
on a variance assumed in advance, and memory and the cost of a refresh are bounded. `add` only stores rows; call
`refresh` off the decision path.

References
----------
J. Kirschner, A. Krause, "Information directed sampling and bandits with heteroscedastic noise" (2018),
https://arxiv.org/abs/1801.09667

V. Franc, V. Hlavac, M. Navara, "Sequential coordinate-wise algorithm for the non-negative least squares problem"
(2005), https://doi.org/10.1007/11556121_50
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from scipy.special import chdtrc

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import DataError, InputError, StateError
from riskroute.core.records import from_plain, to_plain
from riskroute.core.text import described
from riskroute.core.validation import (
    LARGEST,
    exact_array,
    finite_array,
    instance_of,
    real_number,
    unvalidated,
    whole_number,
)
from riskroute.learning.belief import LEAST_VARIANCE

KURTOSIS = (3.0, 20.0)  # range of the estimated kurtosis of standardised errors; 3 is Gaussian
_GAUSSIAN_MAD = 1.4826  # standard deviation of a Gaussian over its median absolute deviation
_DEFAULT: Any = None


@dataclass(frozen=True, eq=False)
class MeanVarianceRegressionRows:
    """Rewards ``(n,)`` with features of their means ``(n, p)`` and variances ``(n, q)``.

    ``offset`` and ``base_variance`` ``(n,)`` are the known parts of mean and variance; default: zero. ``rounds`` holds
    each row's round (default: a separate round per row); ``weights`` ``(n,)`` (default: 1) are divided by the number of
    rows in the round. ``pairs`` ``(m, 2)`` (default: none) holds the indices of rows whose errors are multiplied, and
    ``pair_features`` ``(m, q)`` the features of the covariances of these errors.
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
            raise InputError(f"pairs must be row numbers from 0 to {n - 1}, was {pairs.min()} to {pairs.max()}")
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
    def joined(cls, parts: Sequence[MeanVarianceRegressionRows]) -> MeanVarianceRegressionRows:
        """Concatenate rows; rounds of different parts remain distinct."""
        fields = ("mean_features", "var_features", "rewards", "offset", "base_variance", "weights", "pair_features")
        rounds, pairs, start = [], [], 0
        for part in parts:
            rounds.append(start + np.unique(part.rounds, return_inverse=True)[1].reshape(-1))
            pairs.append(start + part.pairs)
            start += len(part)
        both: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in fields}
        return cls(**both, rounds=np.concatenate(rounds), pairs=np.concatenate(pairs))

    def part(self, start: int, end: int) -> MeanVarianceRegressionRows:
        """Return rows ``start`` to ``end - 1`` with unchanged `portions`, and the pairs among these rows."""
        fields = ("mean_features", "var_features", "rewards", "offset", "base_variance", "rounds")
        rows = {name: getattr(self, name)[start:end] for name in fields}
        _, place, counts = np.unique(rows["rounds"], return_inverse=True, return_counts=True)
        inside = (self.pairs.min(axis=1) >= start) & (self.pairs.max(axis=1) < end)
        rows |= {"weights": self.portions[start:end] * counts[place.reshape(-1)]}
        rows |= {"pairs": self.pairs[inside] - start, "pair_features": self.pair_features[inside]}
        return unvalidated(MeanVarianceRegressionRows, rows)

    @property
    def portions(self) -> Vector:
        """Effective weight of each row: its weight over the number of rows in its round, ``(n,)``."""
        _, place, counts = np.unique(self.rounds, return_inverse=True, return_counts=True)
        return np.asarray(self.weights / counts[place.reshape(-1)])


@dataclass(frozen=True, eq=False)
class MeanVarianceEstimate:
    """Coefficients of mean and variance, and their precisions: a prior, or the result of a fit.

    ``mean_coef`` ``(p,)`` is ``theta``, ``var_coef >= 0`` ``(q,)`` is ``phi``; precisions are inverse covariances.
    ``variance`` is the typical variance of a reward, and ``kurtosis`` is the kurtosis of standardised errors.
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
                raise InputError(f"{kind}_precision must be finite and positive definite")
            object.__setattr__(self, f"{kind}_coef", coef)
            object.__setattr__(self, f"{kind}_precision", precision)
        if self.var_coef.min() < 0:
            raise InputError(f"var_coef must not be negative, was {self.var_coef.min():g}")
        object.__setattr__(self, "variance", real_number("variance", self.variance, above=0))
        object.__setattr__(self, "kurtosis", real_number("kurtosis", self.kurtosis, minimum=1))

    @classmethod
    def independent(
        cls, mean_coef: Any, mean_sd: Any, var_coef: Any, var_sd: Any, *, variance: float = 1.0
    ) -> MeanVarianceEstimate:
        """Return a prior with independent coefficients, given their means and standard deviations."""
        precisions = []
        for name, centre, given in (("mean_sd", mean_coef, mean_sd), ("var_sd", var_coef, var_sd)):
            deviations = finite_array(name, given, ndim=1, length=len(centre))
            if deviations.min() <= 0:
                raise InputError(f"{name} must be positive, was {deviations.min():g}")
            precisions.append(np.diag(deviations**-2.0))
        return cls(mean_coef, precisions[0], var_coef, precisions[1], variance)

    def mean(self, rows: MeanVarianceRegressionRows) -> Vector:
        """Return the expected rewards, ``(n,)``."""
        return np.asarray(rows.offset + rows.mean_features @ self.mean_coef)

    def noise(self, rows: MeanVarianceRegressionRows) -> Vector:
        """Return the noise variances, floored at a tenth of the typical variance, ``(n,)``."""
        predicted = rows.base_variance + rows.var_features @ self.var_coef
        return np.maximum(predicted, LEAST_VARIANCE * self.variance)


class _NormalEquations(NamedTuple):
    """Additive sufficient statistics of both fits: normal equations, squared errors, fourth moments."""

    mean_matrix: Matrix
    mean_vector: Vector
    var_matrix: Matrix
    var_vector: Vector
    errors: Vector  # total weight of the rows, weighted sum of squared errors
    squares: Vector  # total weight, weighted sums of second and fourth powers of standardised errors

    @classmethod
    def of(cls, prior: MeanVarianceEstimate) -> _NormalEquations:
        """Return the normal equations whose solution is the prior."""
        return cls(
            prior.mean_precision,
            prior.mean_precision @ prior.mean_coef,
            prior.var_precision,
            prior.var_precision @ prior.var_coef,
            np.array([1.0, prior.variance]),
            50.0 * np.array([1.0, 1.0, prior.kurtosis]),  # fourth moments are noisy: the prior counts as 50 rows
        )

    def plus(self, other: _NormalEquations, weight: float = 1.0) -> _NormalEquations:
        """Return ``self + weight * other``."""
        return _NormalEquations(*(mine + weight * theirs for mine, theirs in zip(self, other, strict=True)))

    def times(self, factor: float) -> _NormalEquations:
        """Return ``factor * self``."""
        return _NormalEquations(*(part * factor for part in self))

    def solved(self) -> MeanVarianceEstimate:
        """Return the estimate that solves the normal equations."""
        return MeanVarianceEstimate(
            np.asarray(np.linalg.solve(self.mean_matrix, self.mean_vector), dtype=np.float64),
            self.mean_matrix,
            _nonnegative_least_squares(self.var_matrix, self.var_vector),
            self.var_matrix,
            float(self.errors[1] / self.errors[0]),
            min(max(float(self.squares[2] * self.squares[0] / self.squares[1] ** 2), KURTOSIS[0]), KURTOSIS[1]),
        )


@njit(cache=True)
def _nonnegative_least_squares(matrix: Matrix, vector: Vector) -> Vector:
    """Minimise ``c' matrix c / 2 - vector' c`` over ``c >= 0`` by cyclic coordinate descent."""
    size = len(vector)
    coef = np.zeros(size)
    slope = -vector.copy()  # gradient
    for _ in range(1000):
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
        if moved <= 1e-12 * largest:
            break
    return coef


def _normal_equations(
    rows: MeanVarianceRegressionRows,
    base: _NormalEquations,
    *,
    start: MeanVarianceEstimate | None = None,
    sweeps: int = 3,
) -> _NormalEquations:
    """Return the normal equations of ``rows``, weighted by inverse variances fitted to ``base`` and ``rows``."""
    x, portions = rows.mean_features, rows.portions
    estimate, between = start, np.zeros(len(rows.pairs))
    noise = np.full(len(rows), base.errors[1] / base.errors[0]) if start is None else start.noise(rows)
    for _ in range(sweeps):
        weights = portions / noise
        matrix, vector = (x * weights[:, None]).T @ x, x.T @ (weights * (rows.rewards - rows.offset))
        precision = base.mean_matrix + matrix
        errors = rows.rewards - rows.offset - x @ np.linalg.solve(precision, base.mean_vector + vector)
        leverage = np.einsum("ij,ji->i", x, np.linalg.solve(precision, x.T)) * (rows.weights / noise)
        errors = errors / np.sqrt(1 - np.minimum(leverage, 0.99))  # the fit pulls errors towards zero
        if estimate is None:
            robust = _GAUSSIAN_MAD * float(np.median(np.abs(errors)))
            errors = _clip_outliers(errors, np.full(len(rows), robust**2)) if robust else errors
            typical = (base.errors[1] + portions @ errors**2) / (base.errors[0] + portions.sum())
            noise, kurtosis = np.full(len(rows), typical), KURTOSIS[0]
        else:
            errors = _clip_outliers(errors, noise)
            between, kurtosis = rows.pair_features @ estimate.var_coef, estimate.kurtosis
        products = errors[rows.pairs[:, 0]] * errors[rows.pairs[:, 1]]
        targets = errors**2 - rows.base_variance
        var = _variance_equations(rows, portions, targets, products, noise, between, kurtosis)
        squares = errors**2 / noise
        total = portions.sum()
        sums = _NormalEquations(
            matrix,
            vector,
            *var,
            np.array([total, portions @ errors**2]),
            np.array([total, portions @ squares, portions @ squares**2]),
        )
        estimate = base.plus(sums).solved()
        noise = estimate.noise(rows)
    return sums


def _check_columns(rows: MeanVarianceRegressionRows, estimate: MeanVarianceEstimate) -> None:
    for kind in ("mean", "var"):
        there, size = getattr(rows, f"{kind}_features").shape[1], len(getattr(estimate, f"{kind}_coef"))
        if there != size:
            raise InputError(f"{kind}_features must have {size} columns, had {there}")


def _clip_outliers(errors: Vector, noise: Vector) -> Vector:
    deviations = np.sqrt(noise)
    limit = 6.0 * max(_GAUSSIAN_MAD * float(np.median(np.abs(errors) / deviations)), 1.0)
    return np.clip(errors, -limit * deviations, limit * deviations)


def _variance_equations(
    rows: MeanVarianceRegressionRows,
    portions: Vector,
    targets: Vector,
    products: Vector,
    noise: Vector,
    between: Vector,
    kurtosis: float,
) -> tuple[Matrix, Vector]:
    """Return the normal equations of the variance coefficients, weighted by the inverse variances of their targets."""
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


class MeanVarianceRegression:
    """Online posterior of ``theta`` and ``phi`` in ``y = offset + x' theta + noise``, ``Var = base + chi' phi``.

    The ``prior`` is never discounted. If ``offset_sd`` is given, the offset gets a coefficient, the last of ``theta``,
    with prior mean 1 and this standard deviation. A posterior mean far from 1 shows that the offset is misspecified. A
    `refresh` that finds more than ``keep`` recent rows folds all but the last ``keep // 2`` into the normal equations,
    without separating pairs. ``estimate`` is the posterior as of the last `refresh`, at first the prior.
    """

    def __init__(self, prior: MeanVarianceEstimate, *, offset_sd: float | None = None, keep: int = 256) -> None:
        self.given = instance_of("prior", prior, MeanVarianceEstimate, "a MeanVarianceEstimate")
        self.offset_sd = None if offset_sd is None else real_number("offset_sd", offset_sd, above=0)
        self.keep = whole_number("keep", keep, minimum=0, maximum=10**6)
        self.prior = prior if self.offset_sd is None else _with_offset(prior, self.offset_sd)
        self.sums = _NormalEquations.of(self.prior).times(0.0)
        self.recent: list[MeanVarianceRegressionRows] = []
        self._recent_weight = 0.0
        self.estimate = self.prior

    def __repr__(self) -> str:
        sizes = f"{len(self.prior.mean_coef)} and {len(self.prior.var_coef)} features"
        return f"MeanVarianceRegression({sizes}, {self.seen:g} rows)"

    @property
    def seen(self) -> float:
        """Effective number of rounds so far: the sum of the rows' `portions`, discounted."""
        return float(self.sums.errors[0] + self._recent_weight)

    def _with_offset_feature(self, rows: MeanVarianceRegressionRows) -> MeanVarianceRegressionRows:
        """Append the offset to the features of the mean if it has a coefficient."""
        if self.offset_sd is not None:
            features = np.column_stack([rows.mean_features, rows.offset])
            rows = dataclasses.replace(rows, mean_features=features, offset=np.zeros(len(rows)))
        _check_columns(rows, self.prior)
        return rows

    def predict(self, rows: MeanVarianceRegressionRows) -> tuple[Vector, Vector, Vector]:
        """Return expected rewards, their noise variances, and the posterior variances of the means, ``(n,)`` each."""
        rows = self._with_offset_feature(rows)
        inverse = np.linalg.inv(self.estimate.mean_precision)
        covariance = (inverse + inverse.T) / 2
        lever = np.einsum("ij,ij->i", rows.mean_features @ covariance, rows.mean_features)
        return self.estimate.mean(rows), self.estimate.noise(rows), lever

    def standardised(self, rows: MeanVarianceRegressionRows) -> Vector:
        """Return prediction errors over their standard deviations, ``(n,)``, the input of `RegressionResidualTest`."""
        mean, noise, lever = self.predict(rows)
        return np.asarray((rows.rewards - mean) / np.sqrt(noise + lever))

    def add(self, rows: MeanVarianceRegressionRows) -> None:
        """Add rows; the estimate does not change until `refresh`."""
        self.recent.append(self._with_offset_feature(rows))
        self._recent_weight += float(rows.portions.sum())

    def discount(self, factor: float) -> None:
        """Down-weight all rows seen so far by ``factor``; the prior keeps its weight."""
        self.sums = self.sums.times(factor)
        self.recent = [dataclasses.replace(rows, weights=rows.weights * factor) for rows in self.recent if factor]
        self._recent_weight *= factor

    def reset(self) -> None:
        """Drop all rows and return to the prior."""
        self.discount(0.0)
        self.refresh()

    def refresh(self) -> None:
        """Refit the estimate to all rows added so far."""
        base = _NormalEquations.of(self.prior).plus(self.sums)
        if not self.recent:
            self.estimate = base.solved()
            return
        rows = MeanVarianceRegressionRows.joined(self.recent)
        start = self.estimate if self.sums.errors[0] > 0 else None
        self.estimate = base.plus(_normal_equations(rows, base, start=start)).solved()
        self.recent = [rows]
        if len(rows) > self.keep:
            self._fold_oldest(rows, base)

    def _fold_oldest(self, rows: MeanVarianceRegressionRows, base: _NormalEquations) -> None:
        """Fold the oldest rows into the normal equations, weighted by their currently estimated variances."""
        cut = len(rows) - self.keep // 2
        while len(rows.pairs) and cut and (rows.pairs.min(axis=1) < cut)[rows.pairs.max(axis=1) >= cut].any():
            cut -= 1  # rows of one pair stay together
        old, new = rows.part(0, cut), rows.part(cut, len(rows))
        if len(old):
            self.sums = self.sums.plus(_normal_equations(old, base, start=self.estimate, sweeps=1))
            self.recent = [new] if len(new) else []
            self._weigh_recent()

    def _weigh_recent(self) -> None:
        self._recent_weight = sum(float(rows.portions.sum()) for rows in self.recent)

    def borrowed(self, others: Sequence[MeanVarianceRegression], most: float) -> Self:
        """Return this regression plus rows of ``others``, down-weighted to at most ``most`` rounds (`seen`) in total.

        Partial pooling: a regression with few rows of its own borrows rows from regressions on the same features.
        """
        there = sum(other.seen for other in others)
        weight = min(1.0, most / there) if there > 0 else 0.0
        pooled = type(self)(self.given, offset_sd=self.offset_sd, keep=self.keep)
        pooled.sums, pooled.recent = self.sums, list(self.recent)
        pooled._weigh_recent()
        for other in others:
            lent = other.sums
            if other.recent:
                rows = MeanVarianceRegressionRows.joined(other.recent)
                base = _NormalEquations.of(other.prior).plus(other.sums)
                lent = lent.plus(_normal_equations(rows, base, start=other.estimate))
            pooled.sums = pooled.sums.plus(lent, weight)
        pooled.refresh()
        return pooled

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values."""
        recent = MeanVarianceRegressionRows.joined(self.recent) if self.recent else None
        saved = _State(self.given, self.offset_sd, self.keep, self.sums, recent, self.estimate)
        state: dict[str, Any] = to_plain(saved)
        return state

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild a regression from a saved state."""
        try:
            saved = from_plain(_State, state, "the state")
            regression = cls(saved.prior, offset_sd=saved.offset_sd, keep=saved.keep)
            regression._load(saved)
        except (InputError, DataError, np.linalg.LinAlgError) as error:
            raise StateError(f"state of a regression must be one that state() returned: {error}") from error
        return regression

    def _load(self, saved: _State) -> None:
        for name, part in self.sums._asdict().items():
            given = exact_array(name, getattr(saved.sums, name), np.float64, part.shape)
            if not np.isfinite(given).all():
                raise InputError(f"{name} must be finite")
        self.sums, self.estimate = saved.sums, saved.estimate
        for kind in ("mean_coef", "var_coef"):
            if getattr(self.estimate, kind).shape != getattr(self.prior, kind).shape:
                raise InputError(f"{kind} of the estimate must have as many entries as {kind} of the prior")
        np.linalg.cholesky(self.estimate.mean_precision)  # fails unless positive definite
        if saved.recent is not None:
            _check_columns(saved.recent, self.prior)
            self.recent = [saved.recent]
            self._weigh_recent()


@dataclass(frozen=True)
class _State:
    prior: MeanVarianceEstimate
    offset_sd: float | None
    keep: int
    sums: _NormalEquations
    recent: MeanVarianceRegressionRows | None
    estimate: MeanVarianceEstimate


def _with_offset(prior: MeanVarianceEstimate, deviation: float) -> MeanVarianceEstimate:
    p = len(prior.mean_coef)
    precision = np.zeros((p + 1, p + 1))
    precision[:p, :p] = prior.mean_precision
    precision[p, p] = deviation**-2
    return dataclasses.replace(prior, mean_coef=np.append(prior.mean_coef, 1.0), mean_precision=precision)


class RegressionResidualTest:
    """Chi-squared change test on a window of standardised prediction errors.

    Under a correct model the errors have mean zero and variance one. The sum of their squares detects increased noise
    and large shifts. The square of their sum, divided by ``n``, detects small persistent shifts. Heavy tails raise
    the variance of the squares, so their sum is approximated by a scaled chi-squared distribution of equal mean and
    variance, with ``2 n / (kurtosis - 1)`` degrees of freedom. After an alarm, reset the model to its prior; the test
    empties its window itself. See Wu, Iyer and Wang (2018), https://arxiv.org/abs/1805.09365.

    The window holds the last ``length`` errors and is tested if it holds ``least`` or more. ``level`` is the
    probability of a false alarm per test, half of it for each of the two statistics.
    """

    def __init__(self, length: int = 50, level: float = 1e-6, least: int = 10) -> None:
        self.length = whole_number("length", length, maximum=10**6)
        self.level = real_number("level", level, above=0, below=1)
        self.least = whole_number("least", least, maximum=self.length)
        self.window: Vector = np.zeros(0)

    def add(self, errors: Vector, kurtosis: float = 3.0) -> bool:
        """Add standardised errors; return whether the test raises an alarm, which also empties the window."""
        errors = finite_array("errors", errors, ndim=1)
        self.window = np.concatenate([self.window, errors])[-self.length :]
        n = len(self.window)
        if n < self.least:
            return False
        free = 2 / (kurtosis - 1)
        chance = min(
            float(chdtrc(n * free, free * float(self.window @ self.window))),
            float(chdtrc(1, float(self.window.sum()) ** 2 / n)),
        )
        alarm = chance < self.level / 2
        if alarm:
            self.window = np.zeros(0)
        return alarm

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values."""
        return {"length": self.length, "level": self.level, "least": self.least, "window": self.window.tolist()}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the test from a saved state."""
        try:
            test = cls(state["length"], state["level"], state["least"])
            if state["window"]:
                test.window = finite_array("window", state["window"], ndim=1)[-test.length :]
        except (KeyError, TypeError, InputError) as error:
            what = error if isinstance(error, InputError) else described(state)
            raise StateError(f"state of a residual test must be one that state() returned: {what}") from error
        return test
