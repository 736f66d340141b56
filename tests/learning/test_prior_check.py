"""A prior that rewards contradict: how much it is weakened, against the same distance between two estimates."""

from __future__ import annotations

import numpy as np
import pytest

from naive_fit import evidence_of
from riskroute import Belief
from riskroute.learning.belief_fit import (
    _temper_factor,
    _temper_factor_numpy,
    fit_belief,
    temper_prior,
    vague_information,
)
from riskroute.learning.observations import Observations

ROWS = np.random.default_rng(9).uniform(0.2, 1.0, size=(7, 3))
THETA, PHI, BASE = np.array([0.4, -0.3, 0.6]), np.array([3.0, 0.5, 0.2]), 0.05
VAGUE = vague_information(ROWS, np.full(7, 1 / 7), 0.3)
ALLOWED = 3 + 3 * 6**0.5


def rewards(
    seed: int, count: int, *, theta: np.ndarray = THETA, phi: np.ndarray = PHI, unit: float = 1.0
) -> Observations:
    """Gaussian rewards of random rows, counted by row."""
    rng = np.random.default_rng(seed)
    rows = ROWS[rng.integers(len(ROWS), size=count)]
    noise = np.sqrt(rows @ phi + BASE) * rng.standard_normal(count)
    return evidence_of([(a, unit * float(a @ theta + e)) for a, e in zip(rows, noise, strict=True)], 3)


def yesterday(count: int = 400, *, unit: float = 1.0) -> Belief:
    return fit_belief(rewards(100, count, unit=unit), base_variance=unit**2 * BASE, vague=VAGUE)


def weakened_by(prior: Belief, observations: Observations, *, unit: float = 1.0) -> float:
    found = temper_prior(prior, observations, base_variance=unit**2 * BASE, vague=VAGUE)
    np.testing.assert_array_equal(found.mean_coef, prior.mean_coef)
    np.testing.assert_allclose(found.var_precision, prior.var_precision * (found.rounds / prior.rounds))
    return found.rounds / prior.rounds


def mean_distance(prior: Belief, observations: Observations, factor: float) -> float:
    """Squared distance of the rewards' own estimate of the mean coefficients from the prior's."""
    features, counts = observations.features, observations.counts
    variance = np.maximum(features @ prior.var_coef + BASE, 0.1 * prior.variance)
    variance = np.maximum(variance, observations.spreads / counts)
    precision = VAGUE / prior.variance + (features * (counts / variance)[:, None]).T @ features
    pull = features.T @ (counts / variance * (observations.means - features @ prior.mean_coef))
    apart = np.linalg.solve(precision, pull)
    return float(apart @ np.linalg.inv(np.linalg.inv(precision) + np.linalg.inv(factor * prior.mean_precision)) @ apart)


def test_rewards_that_agree_raise_no_doubt() -> None:
    """Three standard deviations above the expectation: a chi-squared of three exceeds that once in 100 times."""
    prior = yesterday()
    factors = np.array([weakened_by(prior, rewards(seed, 200)) for seed in range(200)])
    assert (factors == 1).mean() > 0.95
    assert factors.min() > 0.2


@pytest.mark.parametrize("shift", [0.5, 1.0, 3.0])
def test_the_prior_is_weakened_until_the_rewards_are_no_surprise(shift: float) -> None:
    prior, observations = yesterday(), rewards(1, 500, theta=THETA + shift)
    factor = weakened_by(prior, observations)
    assert factor < 1
    assert mean_distance(prior, observations, 1.0) > ALLOWED
    assert mean_distance(prior, observations, factor) == pytest.approx(ALLOWED, rel=0.06)  # steps of five per cent


def test_more_contradiction_is_more_doubt() -> None:
    prior = yesterday()
    factors = [weakened_by(prior, rewards(1, 500, theta=THETA + shift)) for shift in (0.0, 0.5, 1.0, 2.0, 50.0)]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] == 1
    assert factors[-1] >= 1e-6


@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_a_prior_that_is_off_by_very_many_deviations_is_not_felt(shift: float) -> None:
    observations = rewards(1, 60, theta=THETA + shift)
    left = temper_prior(yesterday(), observations, base_variance=BASE, vague=VAGUE)
    alone, both = (fit_belief(observations, base_variance=BASE, vague=VAGUE, prior=prior) for prior in (None, left))
    off = both.mean_coef - alone.mean_coef
    assert off @ alone.mean_precision @ off < 1.1 * ALLOWED  # as far as no surprise is


def test_variances_raise_doubt_too() -> None:
    assert weakened_by(yesterday(), rewards(1, 500, phi=4 * PHI)) < 0.3


def test_no_rewards_raise_no_doubt() -> None:
    prior = yesterday()
    assert temper_prior(prior, Observations.none(3), base_variance=BASE, vague=VAGUE) is prior


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_units_do_not_matter(unit: float) -> None:
    plain = weakened_by(yesterday(), rewards(1, 300, theta=THETA + 1))
    other = weakened_by(yesterday(unit=unit), rewards(1, 300, theta=THETA + 1, unit=unit), unit=unit)
    assert other == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("count", [5, 60, 700])
def test_the_compiled_factor_is_the_plain_one(shift: float, count: int) -> None:
    prior = yesterday()
    for theta, phi in ((THETA + shift, PHI), (THETA, PHI * (1 + shift))):
        seen = rewards(count, count, theta=theta, phi=phi)
        for surprise in (0.0, 3.0):
            plain = _temper_factor_numpy(prior, seen, BASE, VAGUE, surprise)
            compiled = _temper_factor(prior, seen, BASE, VAGUE, surprise)
            assert compiled == pytest.approx(plain, rel=1e-9)


def test_a_matrix_without_root_has_no_compiled_factor() -> None:
    nothing = np.zeros((3, 3))
    seen = rewards(1, 1)
    assert np.isnan(_temper_factor(yesterday(), seen, BASE, nothing, 3.0))
