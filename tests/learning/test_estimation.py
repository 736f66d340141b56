"""Least squares from tallies against the paper's sums over single rewards, and its biases exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from riskroute.core.errors import InputError
from riskroute.learning.estimation import LeastSquaresEstimate, least_squares
from riskroute.learning.tally import Tallies, Tally

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def tally_up(rewards: list[Vector]) -> Tallies:
    return Tallies.of(np.arange(len(rewards)), [Tally.of(block) for block in rewards])


def round_by_round(
    features: Matrix, rewards: list[Vector], base_variance: float, ridge: float
) -> tuple[Vector, Vector, Matrix]:
    """The paper's estimators as printed: V, then the mean, then the squared residuals, one reward at a time."""
    dim = features.shape[1]
    rounds = [(a, float(x)) for a, block in zip(features, rewards, strict=True) for x in block]
    matrix = ridge * np.eye(dim) + sum(np.outer(a, a) for a, _ in rounds)
    mean_coef = np.linalg.solve(matrix, sum(x * a for a, x in rounds))
    squares = sum(((x - mean_coef @ a) ** 2 - base_variance) * a for a, x in rounds)
    return mean_coef, np.linalg.solve(matrix, squares), matrix


def random_rewards(seed: int, n_actions: int, dim: int, most: int = 6) -> tuple[Matrix, list[Vector]]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_actions, dim))
    return features, [rng.normal(1.0, 2.0, size=int(rng.integers(1, most + 1))) for _ in range(n_actions)]


@given(
    seed=st.integers(0, 10**6),
    dim=st.integers(1, 4),
    more=st.integers(1, 5),
    ridge=st.sampled_from([0.0, 1e-3, 0.5, 20.0]),
    base_variance=st.floats(0, 3),
)
@settings(max_examples=75)
def test_least_squares_is_the_papers_sums_over_rewards(
    seed: int, dim: int, more: int, ridge: float, base_variance: float
) -> None:
    """RISE, eqs. for V, theta-hat and phi-hat (ridge 0); RISE++, Algorithm 2, step 3 (ridge above 0)."""
    features, rewards = random_rewards(seed, dim + more, dim)
    mean_coef, var_coef, matrix = round_by_round(features, rewards, base_variance, ridge)
    found = least_squares(features, tally_up(rewards), base_variance, ridge=ridge)
    allowed = 1e-13 * np.linalg.cond(matrix) * 100  # the twin solves the normal equations
    assert found.mean_coef == pytest.approx(mean_coef, rel=allowed, abs=allowed)
    assert found.var_coef == pytest.approx(var_coef, rel=allowed, abs=allowed * 10)


@given(seed=st.integers(0, 10**6), ridge=st.sampled_from([0.0, 0.1]), corrected=st.booleans())
@settings(max_examples=30)
def test_how_rewards_are_blocked_does_not_matter(seed: int, ridge: float, corrected: bool) -> None:
    """The same action in several tallies, or merged into one: the same estimate."""
    features, rewards = random_rewards(seed, 6, 3)
    actions = np.array([0, 1, 2, 0, 3, 1, 0, 2])
    blocks = rewards + random_rewards(seed + 1, 2, 3)[1]
    apart = Tallies.of(actions, [Tally.of(block) for block in blocks])
    merged = apart.by_action()
    first, second = (
        least_squares(features[tallies.actions], tallies, 1.0, ridge=ridge, corrected=corrected)
        for tallies in (apart, merged)
    )
    assert first.mean_coef == pytest.approx(second.mean_coef, rel=1e-6, abs=1e-6)
    assert first.var_coef == pytest.approx(second.var_coef, rel=1e-6, abs=1e-6)


def test_without_a_ridge_a_rank_deficient_design_gives_the_smallest_solution() -> None:
    """Both normal equations through the pseudo-inverse of V."""
    features, rewards = random_rewards(5, 8, 2)
    features = features @ np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    rounds = np.repeat(features, [len(block) for block in rewards], axis=0)
    every = np.concatenate(rewards)
    inverse = np.linalg.pinv(rounds.T @ rounds, rcond=1e-10)
    mean_coef = inverse @ rounds.T @ every
    var_coef = inverse @ rounds.T @ ((every - rounds @ mean_coef) ** 2 - 1.0)
    found = least_squares(features, tally_up(rewards), 1.0)
    assert found.mean_coef == pytest.approx(mean_coef, rel=1e-9)
    assert found.var_coef == pytest.approx(var_coef, rel=1e-9)


@pytest.mark.parametrize("angle", [1e-4, 1e-6, 1e-9])
def test_nearly_parallel_features_lose_no_more_than_an_svd_does(angle: float) -> None:
    """The condition of V is the square of that of the rows: an inverse of V would have lost everything at 1e-9."""
    features, rewards = random_rewards(6, 12, 3)
    features[:, 2] = features[:, 0] + angle * features[:, 2]
    rounds = np.repeat(features, [len(block) for block in rewards], axis=0)
    every = np.concatenate(rewards)
    reference = np.linalg.lstsq(rounds, every, rcond=None)[0]
    found = least_squares(features, tally_up(rewards), 1.0)
    allowed = 1e-14 / angle
    assert found.mean_coef == pytest.approx(reference, rel=allowed)
    assert features @ found.mean_coef == pytest.approx(features @ reference, abs=allowed)
    squares = (every - rounds @ reference) ** 2 - 1.0
    assert found.var_coef == pytest.approx(np.linalg.lstsq(rounds, squares, rcond=None)[0], rel=10 * allowed)


def test_numerically_parallel_features_do_not_blow_up() -> None:
    features, rewards = random_rewards(7, 12, 3)
    features[:, 2] = features[:, 0] * (1 + 1e-16)
    reference = least_squares(np.delete(features, 2, axis=1), tally_up(rewards), 1.0)
    found = least_squares(features, tally_up(rewards), 1.0)
    assert np.abs(found.mean_coef).max() < 2 * np.abs(reference.mean_coef).max()
    assert features @ found.mean_coef == pytest.approx(np.delete(features, 2, axis=1) @ reference.mean_coef, rel=1e-9)


def expectation(means: Vector, variances: Vector, statistic: Callable[[Vector], Vector]) -> tuple[Vector, Matrix]:
    """Exact mean of a quadratic function of independent rewards, and exact covariance of a linear one.

    The points ``means +- sqrt(N variance_k) e_k``, all equally likely, have the right means, variances and
    third moments, so their average of any polynomial of degree three is the expectation.
    """
    n = len(means)
    values = []
    for k, sign in np.ndindex(n, 2):
        rewards = means.copy()
        rewards[k] += (1 - 2 * sign) * math.sqrt(n * variances[k])
        values.append(statistic(rewards))
    centred = np.array(values) - np.mean(values, axis=0)
    return np.mean(values, axis=0), centred.T @ centred / len(values)


def with_intercept(seed: int, n_actions: int) -> tuple[Matrix, NDArray[np.int64]]:
    """Features whose first entry is one, so that equal variances are in the model, and few rounds of each."""
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(n_actions), rng.standard_normal((n_actions, 2))]), rng.integers(1, 4, n_actions)


def fitter(
    features: Matrix, counts: NDArray[np.int64], base_variance: float, part: str, **options: Any
) -> Callable[[Vector], Vector]:
    """One of the two estimates as a function of the single rewards."""

    def fit(rewards: Vector) -> Vector:
        blocks = np.split(rewards, np.cumsum(counts)[:-1])
        estimate: Vector = getattr(least_squares(features, tally_up(blocks), base_variance, **options), part)
        return estimate

    return fit


def test_the_mean_is_unbiased_with_the_sandwich_covariance() -> None:
    """RISE, eq. for theta-hat: E = theta, Cov = V^-1 (sum n var a a') V^-1, also when variances differ."""
    features, counts = with_intercept(1, 6)
    rounds = np.repeat(features, counts, axis=0)
    theta, variances = np.array([0.3, -0.5, 0.7]), np.exp(rounds @ np.array([0.1, 0.4, -0.3]))
    mean, covariance = expectation(rounds @ theta, variances, fitter(features, counts, 1.0, "mean_coef"))
    inverse = np.linalg.inv(rounds.T @ rounds)
    assert mean == pytest.approx(theta, abs=1e-12)
    assert covariance == pytest.approx(inverse @ (rounds.T * variances) @ rounds @ inverse, abs=1e-12)


def test_corrected_variance_is_unbiased_when_variances_are_equal() -> None:
    """RISE, eq. for phi-hat, with residuals over one minus their leverage: E = phi, without sampling error."""
    features, counts = with_intercept(2, 6)
    rounds = np.repeat(features, counts, axis=0)
    theta, phi, base_variance = np.array([0.3, -0.5, 0.7]), np.array([0.8, 0.0, 0.0]), 0.5
    fit = fitter(features, counts, base_variance, "var_coef", corrected=True)
    mean, _ = expectation(rounds @ theta, rounds @ phi + base_variance, fit)
    assert mean == pytest.approx(phi, abs=1e-11)


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("equal", [True, False])
def test_uncorrected_variance_is_biased_by_the_variance_of_the_fit(ridge: float, equal: bool) -> None:
    """RISE and RISE++, eqs. for phi-hat: with hat matrix H, E r_s^2 = ((I - H) mu)_s^2 + sum_t (I - H)_st^2 var_t."""
    features, counts = with_intercept(3, 6)
    rounds = np.repeat(features, counts, axis=0)
    theta, base_variance = np.array([0.3, -0.5, 0.7]), 2.0
    variances = np.full(len(rounds), 1.3) if equal else np.exp(rounds @ np.array([0.1, 0.4, -0.3]))
    inverse = np.linalg.inv(rounds.T @ rounds + ridge * np.eye(3))
    rest = np.eye(len(rounds)) - rounds @ inverse @ rounds.T
    squares = (rest @ rounds @ theta) ** 2 + rest**2 @ variances
    mean, _ = expectation(rounds @ theta, variances, fitter(features, counts, base_variance, "var_coef", ridge=ridge))
    assert mean == pytest.approx(inverse @ rounds.T @ (squares - base_variance), abs=1e-11)
    if equal and ridge == 0:
        leverage = np.einsum("ij,jk,ik->i", rounds, inverse, rounds)
        bias = -1.3 * inverse @ rounds.T @ leverage
        assert mean - np.array([1.3 - base_variance, 0, 0]) == pytest.approx(bias, abs=1e-11)
        assert (rounds @ bias).mean() == pytest.approx(-1.3 * 3 / len(rounds))  # low by dim / n of it, on average


def test_a_reward_that_fits_itself_says_nothing_about_the_variance() -> None:
    """The only reward in its direction has leverage one: corrected, the fit is that of the other tallies."""
    features = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    rng = np.random.default_rng(8)
    rewards = [rng.normal(size=5), rng.normal(size=4), rng.normal(size=7), np.array([3.0])]
    found = least_squares(features, tally_up(rewards), 1.0, corrected=True)
    others = least_squares(features[:3, :2], tally_up(rewards[:3]), 1.0, corrected=True)
    assert found.mean_coef == pytest.approx([*others.mean_coef, 3.0])
    assert found.var_coef == pytest.approx([*others.var_coef, 0.0], abs=1e-12)


def test_rewards_that_all_fit_themselves_leave_the_variance_at_the_base() -> None:
    found = least_squares(np.eye(2), tally_up([np.array([0.4]), np.array([-1.0])]), 1.0, corrected=True)
    assert found.mean_coef == pytest.approx([0.4, -1.0])
    assert found.var_coef.tolist() == [0.0, 0.0]


def test_zero_features_say_nothing() -> None:
    found = least_squares(np.zeros((2, 3)), tally_up([np.array([1.0, 2.0]), np.array([3.0])]), 1.0)
    assert found.mean_coef.tolist() == found.var_coef.tolist() == [0.0, 0.0, 0.0]


def test_score_is_the_mean_variance_up_to_a_constant() -> None:
    """RISE, eq. for the action it commits to: phi-hat - rho theta-hat."""
    estimate = LeastSquaresEstimate(np.array([1.0, -2.0]), np.array([0.5, 0.25]))
    assert estimate.score(2.0).tolist() == [-1.5, 4.25]
    assert estimate.score(0.0).tolist() == [0.5, 0.25]


GOOD = Tallies.of(np.arange(2), [Tally(4, 0.5, 4.0), Tally(4, 0.25, 8.0)])


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (np.eye(3), "features must have 2 entries, had 3"),
        (np.eye(2)[:1], "features must have 2 entries, had 1"),
        (np.zeros((2, 0)), r"features must not be empty, was of shape \(2, 0\)"),
        ([], r"features must be rows of numbers of equal length \(2 axes\)"),
        ([1.0, 2.0], r"features must be rows of numbers of equal length \(2 axes\), was of shape \(2,\)"),
        ([[1.0], [1.0, 2.0]], "features must be rows of numbers of equal length, was ragged"),
        ([["a"], ["b"]], "features must be rows of numbers of equal length, was ragged or not numeric"),
        ([[1.0, math.nan], [0.0, 1.0]], r"features must be finite, was nan at \[0, 1\]"),
        ([[1.0, 0.0], [math.inf, 1.0]], r"features must be finite, was inf at \[1, 0\]"),
    ],
)
def test_bad_features(features: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        least_squares(features, GOOD, 1.0)


def test_no_tallies_at_all() -> None:
    with pytest.raises(InputError, match="features must not be empty"):
        least_squares(np.zeros((0, 2)), Tallies.of(np.zeros(0, dtype=np.int64), []), 1.0)


@pytest.mark.parametrize(
    ("tally", "expected"),
    [
        (Tally(0, 0.0, 0.0), "counts must be positive integers, was 0"),
        (Tally(-2, 0.0, 0.0), "counts must be positive integers, was -2"),
        (Tally(1, math.nan, 0.0), "means must be finite, was"),
        (Tally(2, math.inf, 0.0), "means must be finite, was"),
        (Tally(2, 0.0, math.inf), "spreads must be finite, was"),
        (Tally(2, 0.0, math.nan), "spreads must be finite, was"),
    ],
)
def test_bad_tallies(tally: Tally, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        least_squares(np.eye(2), Tallies.of(np.arange(2), [Tally(4, 0.5, 4.0), tally]), 1.0)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "one", None, [1.0]])
def test_bad_constants(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        least_squares(np.eye(2), GOOD, value)
    assert str(caught.value) == f"base_variance must be a number of at least 0, was {value!r}"
    with pytest.raises(InputError) as caught:
        least_squares(np.eye(2), GOOD, 1.0, ridge=value)
    assert str(caught.value) == f"ridge must be a number of at least 0, was {value!r}"
