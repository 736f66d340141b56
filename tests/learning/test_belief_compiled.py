"""The compiled fit, inverse and draws of a belief against the plain functions that define them."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute import Belief
from riskroute.learning import belief as beliefs
from riskroute.learning.belief import draw_belief, fit_belief
from riskroute.learning.belief_compiled import belief_draws, belief_inverse, belief_score_covariance
from riskroute.learning.belief_fit import draw_belief_plainly, fit_belief_plainly, invert_belief_plainly
from riskroute.learning.belief_fit_compiled import fit_belief_arrays
from riskroute.learning.observations import Observations, joined_rows, joined_rows_plainly

DIMS = (1, 2, 3, 5, 8, 12, 20)


def some_observations(rng: np.random.Generator, dim: int, rows: int, *, faded: bool = False) -> Observations:
    features = rng.standard_normal((rows, dim)) * np.exp(rng.uniform(-2, 2, dim))
    counts = rng.integers(1, 400, rows).astype(float)
    spreads = np.where(counts > 1, rng.gamma(np.maximum(counts - 1, 1) / 2, 2.0), 0.0)
    found = Observations(features, counts, features @ rng.standard_normal(dim) + rng.standard_normal(rows), spreads)
    return found.faded(0.3) if faded else found


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
        arguments = (observations, 1.0, vague, prior, 0.3, 1.0)
        found, expected = fit_belief_arrays(*arguments), fit_belief_plainly(*arguments)
        assert found is not None
        for name in expected._fields:
            ours, theirs = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * float(np.abs(theirs).max()))
        prior = expected if kind in ("prior", "no rows") else None


def test_where_a_matrix_has_no_factor_the_plain_functions_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert belief_inverse(indefinite) is None
    assert belief_score_covariance(np.eye(2), indefinite, 2.0) is None
    assert belief_draws(np.zeros(2), indefinite, np.zeros((3, 2))) is None
    with pytest.raises(np.linalg.LinAlgError):
        draw_belief(np.random.default_rng(0), np.zeros(2), indefinite, 3)
    observations = some_observations(np.random.default_rng(0), 2, 9)
    assert fit_belief_arrays(observations, 1.0, -np.eye(2) * 1e9, None, 0.3, 1.0) is None
    monkeypatch.setattr(beliefs, "fit_belief_arrays", lambda *_: None)
    expected = fit_belief_plainly(observations, 1.0, np.eye(2), None, 0.3, 1.0)
    np.testing.assert_array_equal(
        fit_belief(observations, base_variance=1.0, vague=np.eye(2)).var_coef, expected.var_coef
    )


@pytest.mark.parametrize("dim", DIMS)
def test_compiled_covariances_and_draws_are_the_plain_ones(dim: int) -> None:
    rng = np.random.default_rng(dim)
    roots = rng.standard_normal((2, dim, dim + 2))
    mean, var = roots @ roots.transpose(0, 2, 1)
    belief = Belief(rng.standard_normal(dim), mean, rng.standard_normal(dim), var, 1.0, 10.0)
    np.testing.assert_allclose(belief.mean_covariance, invert_belief_plainly(mean), rtol=1e-8, atol=1e-10)
    covariance = invert_belief_plainly(var) + 4 * invert_belief_plainly(mean)
    np.testing.assert_allclose(belief.score_covariance(2.0), covariance, rtol=1e-8, atol=1e-10)
    normals = np.random.default_rng(1).standard_normal((7, dim))
    expected = draw_belief_plainly(belief.mean_coef, covariance, normals)
    drawn = draw_belief(np.random.default_rng(1), belief.mean_coef, covariance, 7)
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
def test_compiled_joining_is_the_plain_one_bit_by_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, dim = int(rng.integers(1, 60)), int(rng.integers(1, 5))
    features = rng.integers(-1, 3, (rows, dim)).astype(float)
    counts = np.where(rng.random(rows) < 0.5, rng.integers(1, 9, rows), rng.uniform(0.01, 3, rows))
    columns = (counts, rng.standard_normal(rows), rng.gamma(2.0, size=rows), counts * rng.uniform(0, 1, rows))
    for ours, theirs in zip(joined_rows(features, *columns), joined_rows_plainly(features, *columns), strict=True):
        np.testing.assert_array_equal(ours, theirs)
