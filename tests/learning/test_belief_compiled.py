"""The compiled fit, inverse and draws of a belief against the plain functions that define them."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute import Belief
from riskroute.learning import belief_fit
from riskroute.learning.belief import _draw_gaussian_numpy, _invert_numpy, draw_gaussian
from riskroute.learning.belief_fit import _fit_compiled, _fit_numpy, fit_belief
from riskroute.learning.kernels import inverse
from riskroute.learning.observations import Observations
from riskroute.learning.tally import merge_tally_groups

DIMS = (1, 2, 3, 5, 8, 12, 20)


def some_observations(rng: np.random.Generator, dim: int, rows: int, *, faded: bool = False) -> Observations:
    features = rng.standard_normal((rows, dim)) * np.exp(rng.uniform(-2, 2, dim))
    counts = rng.integers(1, 400, rows).astype(float)
    spreads = np.where(counts > 1, rng.gamma(np.maximum(counts - 1, 1) / 2, 2.0), 0.0)
    found = Observations(features, counts, features @ rng.standard_normal(dim) + rng.standard_normal(rows), spreads)
    return found.faded(0.3) if faded else found


def no_prior(dim: int) -> Belief:
    return Belief(np.zeros(dim), np.zeros((dim, dim)), np.zeros(dim), np.zeros((dim, dim)), 0.0, 0.0)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("kind", ["plain", "faded", "prior", "surprised", "no rows"])
def test_compiled_fit_is_the_plain_one(dim: int, kind: str) -> None:
    rng = np.random.default_rng(dim)
    prior = None
    for rows in (1, dim, 3 * dim + 1, 60):
        observations = some_observations(rng, dim, rows, faded=kind == "faded")
        vague = 0.3 * np.eye(dim) * rng.uniform(0.5, 2)
        if kind == "surprised":  # means that no coefficients explain
            observations = Observations(
                observations.features, observations.counts, 50 * rng.standard_normal(rows), observations.spreads
            )
        if kind == "no rows":
            observations = Observations.none(dim)
        arguments = (observations, 1.0, vague, prior or no_prior(dim), prior is not None, 0.3, 1.0)
        found, expected = _fit_compiled(*arguments), _fit_numpy(*arguments)
        assert found is not None
        for name in ("mean_coef", "mean_precision", "var_coef", "var_precision", "variance", "rounds"):
            ours, theirs = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * float(np.abs(theirs).max()))
        prior = expected if kind in ("prior", "no rows") else None


def test_where_a_matrix_has_no_factor_the_plain_functions_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert inverse(indefinite) is None
    with pytest.raises(np.linalg.LinAlgError):
        draw_gaussian(np.zeros(2), indefinite, np.zeros((3, 2)))
    observations = some_observations(np.random.default_rng(0), 2, 9)
    assert _fit_compiled(observations, 1.0, -np.eye(2) * 1e9, no_prior(2), False, 0.3, 1.0) is None
    monkeypatch.setattr(belief_fit, "_fit_compiled", lambda *_: None)
    expected = _fit_numpy(observations, 1.0, np.eye(2), no_prior(2), False, 0.3, 1.0)
    np.testing.assert_array_equal(
        fit_belief(observations, base_variance=1.0, vague=np.eye(2)).var_coef, expected.var_coef
    )


@pytest.mark.parametrize("dim", DIMS)
def test_compiled_covariances_and_draws_are_the_plain_ones(dim: int) -> None:
    rng = np.random.default_rng(dim)
    roots = rng.standard_normal((2, dim, dim + 2))
    mean, var = roots @ roots.transpose(0, 2, 1)
    belief = Belief(rng.standard_normal(dim), mean, rng.standard_normal(dim), var, 1.0, 10.0)
    np.testing.assert_allclose(belief.mean_covariance, _invert_numpy(mean), rtol=1e-8, atol=1e-10)
    covariance = _invert_numpy(var) + 4 * _invert_numpy(mean)
    np.testing.assert_allclose(belief.score_covariance(2.0), covariance, rtol=1e-8, atol=1e-10)
    normals = np.random.default_rng(1).standard_normal((7, dim))
    expected = _draw_gaussian_numpy(belief.mean_coef, covariance, normals)
    drawn = draw_gaussian(belief.mean_coef, covariance, normals)
    np.testing.assert_allclose(drawn, expected, rtol=1e-9, atol=1e-10)


def test_a_covariance_that_is_changed_by_its_receiver_stays_what_it_was() -> None:
    belief = Belief(np.zeros(2), np.eye(2), np.zeros(2), np.eye(2), 1.0, 10.0)
    belief.score_covariance(2.0)[:] = 0.0
    np.testing.assert_array_equal(belief.score_covariance(2.0), 5 * np.eye(2))


def test_columns_of_another_layout_are_fitted_alike() -> None:
    observations = some_observations(np.random.default_rng(3), 4, 30)
    turned = Observations(
        np.asfortranarray(observations.features),
        *(np.repeat(getattr(observations, name), 2)[::2] for name in ("counts", "means", "spreads", "free")),
    )
    ours, theirs = (fit_belief(one, base_variance=1.0, vague=np.eye(4)) for one in (observations, turned))
    np.testing.assert_array_equal(ours.mean_coef, theirs.mean_coef)


@pytest.mark.parametrize("seed", range(8))
def test_joining_is_grouping_by_sorted_features_bit_by_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, dim = int(rng.integers(1, 60)), int(rng.integers(1, 5))
    features = rng.integers(-1, 3, (rows, dim)).astype(float)
    counts = np.where(rng.random(rows) < 0.5, rng.integers(1, 9, rows), rng.uniform(0.01, 3, rows))
    columns = (counts, rng.standard_normal(rows), rng.gamma(2.0, size=rows), counts * rng.uniform(0, 1, rows))
    joined = Observations(features, *columns).joined()
    different, group = np.unique(features, axis=0, return_inverse=True)
    merged = merge_tally_groups(group.reshape(-1), len(different), *columns[:3])
    squared = np.bincount(group.reshape(-1), counts * (counts - columns[3]), len(different))
    left = merged[0] - squared / merged[0]
    expected = different, *merged, np.where(left > 1e-9 * merged[0], left, 0.0)
    for ours, theirs in zip(joined.columns, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
