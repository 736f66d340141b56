"""Discrete-time hazard regression: pooled logistic regression over the units at risk.

The hazard of a unit in bin ``b`` given covariates ``x`` is ``h``, with ``logit h = a_b + beta' x``. Given ``x`` it does
not depend on the size of the trial, so unlike plain counts of ends it is not biased if sizes depend on ``x``. A
Gaussian prior on differences of neighbouring ``a_b`` smooths over bins, and another shrinks ``beta`` to zero. Newton's
method finds the posterior mode; around it the posterior is approximated by a Gaussian (Laplace).

The last ``capacity`` trials are kept, with weights that discounting reduces. Adding a trial is cheap;
`HazardRegression.refresh` fits and should run outside the decision path.

References
----------
P. Allison, "Discrete-time methods for the analysis of event histories", Sociological Methodology 13 (1982),
https://doi.org/10.2307/270718
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import DataError, InputError, StateError
from riskroute.core.records import from_plain, to_plain
from riskroute.core.validation import LARGEST, exact_array, finite_array, real_number, whole_number
from riskroute.learning.hazards import hazard_edges


class HazardRegression:
    """Posterior of hazards given covariates, from the most recent trials.

    Parameters
    ----------
    edges : sequence of int
        The last unit of every bin, as for `riskroute.learning.hazards.Hazards`.
    covariates : int
        Length of ``x``. Standardise ``x``: the prior assumes mean zero and unit size.
    prior_hazards : sequence of float, optional
        Prior hazard of every bin at ``x = 0``. Default: 0.2.
    level_sd, step_sd, slope_sd : float
        Prior standard deviations of the first ``a_b``, of differences between neighbours, and of ``beta``.
    capacity : int
        Maximum number of trials kept.

    Attributes
    ----------
    coef : Vector
        Posterior mode after the last `refresh`, ``(B + covariates,)``: ``a``, then ``beta``.
    covariance : Matrix
        Covariance of the Laplace approximation.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> model = HazardRegression([1, 4], covariates=1)
    >>> for x in rng.standard_normal(2000):
    ...     model.add(1, int(rng.random() < 1 / (1 + np.exp(x))), [x])  # empty with log-odds x
    >>> model.refresh()
    >>> model.coef[[0, 2]].round(1).tolist()
    [0.0, 1.0]
    """

    def __init__(
        self,
        edges: Sequence[int] | Integers,
        covariates: int,
        *,
        prior_hazards: Sequence[float] | Vector | None = None,
        level_sd: float = 2.0,
        step_sd: float = 1.0,
        slope_sd: float = 1.0,
        capacity: int = 2000,
    ) -> None:
        self.edges = hazard_edges(edges)
        bins = len(self.edges)
        self.covariates = whole_number("covariates", covariates, minimum=0, maximum=1000)
        given = np.full(bins, 0.2) if prior_hazards is None else prior_hazards
        self.prior_hazards = np.array(finite_array("prior_hazards", given, ndim=1, length=bins))
        if not (self.prior_hazards.min() > 0 and self.prior_hazards.max() < 1):
            raise InputError("prior_hazards must be between 0 and 1")
        self.level_sd = real_number("level_sd", level_sd, above=0)
        self.step_sd = real_number("step_sd", step_sd, above=0)
        self.slope_sd = real_number("slope_sd", slope_sd, above=0)
        self.capacity = whole_number("capacity", capacity, maximum=10**6)
        self._center = np.concatenate([logit(self.prior_hazards), np.zeros(self.covariates)])
        self._known = self._prior_precision()
        self.x: Matrix = np.zeros((0, self.covariates))
        self.tried, self.reached = np.zeros((2, 0), dtype=np.int64)
        self.weights = np.zeros(0)
        self._news: list[tuple[Vector, int, int, float]] = []
        self.coef = self._center.copy()
        self.covariance = np.linalg.inv(self._known)

    def _prior_precision(self) -> Matrix:
        """Return the prior precision: level, independent differences between neighbours, and slopes."""
        bins = len(self.edges)
        steps = np.eye(bins) - np.eye(bins, k=-1)
        sizes = np.full(bins, self.step_sd)
        sizes[0] = self.level_sd
        known = np.zeros((bins + self.covariates,) * 2)
        known[:bins, :bins] = (steps / sizes[:, None] ** 2).T @ steps
        known[np.arange(bins, len(known)), np.arange(bins, len(known))] = self.slope_sd**-2
        return known

    def __len__(self) -> int:
        return min(len(self.weights) + len(self._news), self.capacity)

    def __repr__(self) -> str:
        return f"HazardRegression({len(self.edges)} bins, {self.covariates} covariates, {len(self)} trials)"

    def add(self, tried: int, reached: int, x: Sequence[float] | Vector, weight: float = 1.0) -> None:
        """Store a trial for ``tried`` units that found ``reached``, given ``x``; `refresh` fits it."""
        tried = whole_number("tried", tried, minimum=0)
        reached = whole_number("reached", reached, minimum=0, maximum=tried)
        row = self._covariates_of(x)
        self._news.append((row, tried, reached, real_number("weight", weight, minimum=0)))
        if len(self._news) >= self.capacity:
            self._gather()

    def _covariates_of(self, x: Any) -> Vector:
        if self.covariates == 0 and len(x) == 0:
            return np.zeros(0)
        return np.array(finite_array("x", x, ndim=1, length=self.covariates, largest=LARGEST))

    def _gather(self) -> None:
        """Append new trials; drop those beyond the capacity or with negligible weight."""
        if self._news:
            x, tried, reached, weights = zip(*self._news, strict=True)
            self.x = np.vstack([self.x, np.array(x).reshape(len(x), self.covariates)])
            self.tried = np.concatenate([self.tried, np.array(tried, dtype=np.int64)])
            self.reached = np.concatenate([self.reached, np.array(reached, dtype=np.int64)])
            self.weights = np.concatenate([self.weights, np.array(weights)])
            self._news = []
        kept = np.flatnonzero(self.weights > 1e-6)[-self.capacity :]  # drop negligible weights
        for name in ("x", "tried", "reached", "weights"):
            setattr(self, name, getattr(self, name)[kept])

    def discount(self, factor: float) -> None:
        """Multiply the weights of all trials by ``factor``."""
        factor = real_number("factor", factor, minimum=0, maximum=1)
        self._gather()
        self.weights = self.weights * factor

    def refresh(self) -> None:
        """Fit mode and covariance to the stored trials by Newton's method from the previous mode."""
        self._gather()
        events, at_risk = self._exposures()
        value = self._loss(self.coef, events, at_risk)
        for _ in range(50):  # Newton steps; a handful usually suffice
            gradient, curvature = self._derivatives(self.coef, events, at_risk)
            step = np.linalg.solve(curvature, gradient)
            length = float(gradient @ step)
            scale = 1.0
            for _ in range(30):  # halve the step until the loss falls
                candidate = self.coef - scale * step
                found = self._loss(candidate, events, at_risk)
                if found <= value:
                    break
                scale /= 2
            else:
                break  # converged to rounding error
            self.coef, value = candidate, found
            if length < 1e-9**2:  # Newton decrement: a step of 1e-9 posterior deviations
                break
        self.covariance = np.linalg.inv(self._derivatives(self.coef, events, at_risk)[1])

    def _exposures(self) -> tuple[Matrix, Matrix]:
        """Return the weighted ends and units at risk of every trial and bin, ``(n, B)`` each."""
        low = np.concatenate([[0], self.edges[:-1]])
        last = np.minimum(self.reached + 1, self.tried)[:, None]
        at_risk = np.clip(last - low, 0, self.edges - low)
        events = (self.reached < self.tried)[:, None] & (last > low) & (last <= self.edges)
        return events * self.weights[:, None], at_risk * self.weights[:, None]

    def _scores(self, coef: Vector) -> Matrix:
        bins = len(self.edges)
        return np.asarray(coef[:bins] + (self.x @ coef[bins:])[:, None])

    def _loss(self, coef: Vector, events: Matrix, at_risk: Matrix) -> float:
        """Return the negative log-posterior."""
        scores, away = self._scores(coef), coef - self._center
        return float(np.sum(at_risk * np.logaddexp(0, scores) - events * scores) + away @ self._known @ away / 2)

    def _derivatives(self, coef: Vector, events: Matrix, at_risk: Matrix) -> tuple[Vector, Matrix]:
        bins = len(self.edges)
        hazards = expit(self._scores(coef))
        missed, weights = at_risk * hazards - events, at_risk * hazards * (1 - hazards)
        gradient = np.concatenate([missed.sum(axis=0), self.x.T @ missed.sum(axis=1)])
        curvature = self._known.copy()
        curvature[np.arange(bins), np.arange(bins)] += weights.sum(axis=0)
        mixed = weights.T @ self.x
        curvature[:bins, bins:] += mixed
        curvature[bins:, :bins] += mixed.T
        curvature[bins:, bins:] += (self.x * weights.sum(axis=1)[:, None]).T @ self.x
        return gradient + self._known @ (coef - self._center), curvature

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values."""
        self._gather()
        fields = [item.name for item in dataclasses.fields(_State)]
        state: dict[str, Any] = to_plain(_State(*(getattr(self, name) for name in fields)))
        return state

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the belief of a saved state."""
        try:
            saved = from_plain(_State, state, "the state")
            parameters = ("prior_hazards", "level_sd", "step_sd", "slope_sd", "capacity")
            model = cls(saved.edges, saved.covariates, **{name: getattr(saved, name) for name in parameters})
            model._load(saved)
        except (InputError, DataError, np.linalg.LinAlgError) as error:
            raise StateError(f"state of a hazard regression must be one that state() returned: {error}") from error
        return model

    def _load(self, saved: _State) -> None:
        n, size = len(saved.weights), len(self.coef)
        shapes = {"x": (n, self.covariates), "weights": (n,), "coef": (size,), "covariance": (size, size)}
        for name, shape in shapes.items():
            setattr(self, name, exact_array(name, getattr(saved, name), np.float64, shape))
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"{name} must be finite")
        for name in ("tried", "reached"):
            setattr(self, name, exact_array(name, getattr(saved, name), np.int64, (n,)))
        if n and (self.weights.min() < 0 or self.reached.min() < 0 or (self.reached > self.tried).any()):
            raise InputError("trials must have weights of at least 0 and 0 <= reached <= tried")
        np.linalg.cholesky(self.covariance)  # fails unless positive definite


@dataclass(frozen=True)
class _State:
    edges: Integers
    covariates: int
    prior_hazards: Vector
    level_sd: float
    step_sd: float
    slope_sd: float
    capacity: int
    x: Matrix
    tried: Integers
    reached: Integers
    weights: Vector
    coef: Vector
    covariance: Matrix
