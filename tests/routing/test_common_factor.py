"""What a common factor of variance is for: two slots that move together look diversified to an additive model."""

from __future__ import annotations

import numpy as np
import pytest

from naive_learning import batch_fit
from riskroute.learning.mean_variance_regression import MeanVarianceEstimate, MeanVarianceRegressionRows
from riskroute.routing.quadratic_search import minimise_quadratic
from riskroute.routing.separable import cheapest_separable_totals, separable_units

UNITS, VARIANCE = 10, 0.25


@pytest.fixture(scope="module")
def outcomes() -> tuple[np.ndarray, np.ndarray]:
    """Units sent to two slots, and rewards that are the same move times the units."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 6, (2000, 2)).astype(float)
    return sizes, sizes * (np.sqrt(VARIANCE) * rng.standard_normal((2000, 1)))


def variance_coef(sizes: np.ndarray, rewards: np.ndarray, factor: bool) -> np.ndarray:
    """Fitted coefficients: of each slot's squared units, and of the squared total before them if there is a factor."""
    n = len(sizes)
    own = np.zeros((n, 2, 2))
    own[:, 0, 0], own[:, 1, 1] = sizes[:, 0] ** 2, sizes[:, 1] ** 2
    chi = own.reshape(2 * n, 2)
    rounds, more = np.repeat(np.arange(n), 2), {}
    if factor:
        chi = np.column_stack([sizes.ravel() ** 2, chi])
        between = np.column_stack([sizes.prod(axis=1), np.zeros((n, 2))])  # of the total's square, half the mixed term
        more = {"pairs": np.arange(2 * n).reshape(n, 2), "pair_features": between}
    prior = MeanVarianceEstimate.independent([0.0], [0.01], np.ones(chi.shape[1]), np.full(chi.shape[1], 10.0))
    rows = MeanVarianceRegressionRows(sizes.reshape(-1, 1), chi, rewards.ravel(), rounds=rounds, **more)
    return batch_fit(rows, prior).var_coef


def cheapest(own: np.ndarray, common: float) -> tuple[float, list[int]]:
    """Variance and units of the best split of all units, under a variance per slot and one of their total."""
    best, choices = cheapest_separable_totals(np.outer(own, np.arange(UNITS + 1.0) ** 2))
    return best[UNITS] + common * UNITS**2, separable_units(choices, UNITS).tolist()


def test_the_additive_model_splits_evenly_and_claims_half_the_variance(
    outcomes: tuple[np.ndarray, np.ndarray],
) -> None:
    own = variance_coef(*outcomes, factor=False)
    claimed, units = cheapest(own, 0.0)
    assert units == [5, 5]
    assert claimed == pytest.approx(VARIANCE * UNITS**2 / 2, rel=0.1)
    assert minimise_quadratic(np.diag(own), np.zeros(2), UNITS).units == (5, 5)


def test_the_factor_model_knows_that_nothing_is_diversified(outcomes: tuple[np.ndarray, np.ndarray]) -> None:
    common, *own = variance_coef(*outcomes, factor=True)
    assert common == pytest.approx(VARIANCE, rel=0.1)
    assert max(own) < 0.02 * common
    claimed, _ = cheapest(np.array(own), common)
    assert claimed == pytest.approx(VARIANCE * UNITS**2, rel=0.1)
    alone = common * UNITS**2 + own[0] * UNITS**2
    assert claimed > 0.97 * alone  # however it is split, next to nothing is gained
    matrix = common * np.ones((2, 2)) + np.diag(own)
    assert minimise_quadratic(matrix, np.array([0.0, 1.0]), UNITS).units == (10, 0)
