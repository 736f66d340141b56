"""Bayesian logistic regression on the most recent observations.

The log-odds of an event are ``a + beta' x``, with independent Gaussian priors on ``a`` and ``beta``. Newton's method
finds the posterior mode. `LogisticRegression.discount` reduces the weights of past observations.
`LogisticRegression.add` only stores an observation; `LogisticRegression.refresh` fits the model, so keep it off the
decision path.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.errors import DataError, InputError, StateError
from riskroute.core.records import from_plain, to_plain
from riskroute.core.validation import LARGEST, exact_array, finite_array, real_number, whole_number


class LogisticRegression:
    """Posterior mode of the coefficients, fitted to the last ``capacity`` observations.

    ``prior`` is the prior event probability at ``x = 0``. Standardise ``x``: the prior assumes mean zero and unit
    variance. ``coef`` ``(1 + covariates,)`` holds ``a``, then ``beta``, as of the last `refresh`.
    """

    def __init__(self, covariates: int, prior: float, capacity: int = 2000) -> None:
        self.covariates = whole_number("covariates", covariates, maximum=1000)
        self.prior = real_number("prior", prior, above=0, below=1)
        self.capacity = whole_number("capacity", capacity, maximum=10**6)
        self.x: Matrix = np.zeros((0, self.covariates))
        self.events, self.weights = np.zeros((2, 0))
        self._news: list[tuple[Vector, bool]] = []
        self._center = np.append(logit(self.prior), np.zeros(self.covariates))
        # prior standard deviations: 2 for the intercept, 1 for the slopes
        self._known = np.diag(np.append(0.25, np.ones(self.covariates)))
        self.coef = self._center

    def __len__(self) -> int:
        return min(len(self.weights) + len(self._news), self.capacity)

    def add(self, event: bool, x: Vector) -> None:
        """Store whether the event happened at covariates ``x``; the next `refresh` includes it in the fit."""
        row = finite_array("x", x, ndim=1, length=self.covariates, largest=LARGEST)
        self._news.append((row.copy(), event))
        if len(self._news) >= self.capacity:
            self._gather()

    def _gather(self) -> None:
        """Append new observations; drop those beyond the capacity or with negligible weight."""
        if self._news:
            x, events = zip(*self._news, strict=True)
            self.x = np.vstack([self.x, np.array(x)])
            self.events = np.append(self.events, events)
            self.weights = np.append(self.weights, np.ones(len(events)))
            self._news = []
        kept = np.flatnonzero(self.weights > 1e-6)[-self.capacity :]
        self.x, self.events, self.weights = self.x[kept], self.events[kept], self.weights[kept]

    def discount(self, factor: float) -> None:
        """Multiply the weights of all observations by ``factor``."""
        self._gather()
        self.weights = self.weights * factor

    def refresh(self) -> None:
        """Fit the mode to the stored observations by Newton's method from the previous mode."""
        self._gather()
        rows = np.column_stack([np.ones(len(self.x)), self.x])
        value = self._loss(rows, self.coef)
        for _ in range(50):  # Newton steps; a handful usually suffice
            chances = expit(rows @ self.coef)
            gradient = rows.T @ (self.weights * (chances - self.events)) + self._known @ (self.coef - self._center)
            curvature = (rows * (self.weights * chances * (1 - chances))[:, None]).T @ rows + self._known
            step = np.linalg.solve(curvature, gradient)
            scale = 1.0
            for _ in range(30):  # halve the step until the loss falls
                candidate = self.coef - scale * step
                found = self._loss(rows, candidate)
                if found <= value:
                    break
                scale /= 2
            else:
                break  # converged to rounding error
            self.coef, value = candidate, found
            if float(gradient @ step) < 1e-9**2:  # Newton decrement: a step of 1e-9 posterior deviations
                break

    def _loss(self, rows: Matrix, coef: Vector) -> float:
        """Return the negative log-posterior."""
        scores, away = rows @ coef, coef - self._center
        lost = self.weights @ (np.logaddexp(0, scores) - self.events * scores)
        return float(lost + away @ self._known @ away / 2)

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values."""
        self._gather()
        fields = [item.name for item in dataclasses.fields(_State)]
        state: dict[str, Any] = to_plain(_State(*(getattr(self, name) for name in fields)))
        return state

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the regression from a saved state."""
        try:
            saved = from_plain(_State, state, "the state")
            model = cls(saved.covariates, saved.prior, saved.capacity)
            model._load(saved)
        except (InputError, DataError) as error:
            raise StateError(f"state of a logistic regression must be one that state() returned: {error}") from error
        return model

    def _load(self, saved: _State) -> None:
        n = len(saved.weights)
        shapes = {"x": (n, self.covariates), "events": (n,), "weights": (n,), "coef": self.coef.shape}
        for name, shape in shapes.items():
            setattr(self, name, exact_array(name, getattr(saved, name), np.float64, shape))
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"{name} must be finite")
        if (self.weights < 0).any() or not np.isin(self.events, (0.0, 1.0)).all():
            raise InputError("observations must have weights of at least 0 and events of 0 or 1")


@dataclass(frozen=True)
class _State:
    covariates: int
    prior: float
    capacity: int
    x: Matrix
    events: Vector
    weights: Vector
    coef: Vector
