"""Observations and belief against a twin that loops over single rewards; other units, calibration, little data."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive_learning import Round, evidence_of, naive_fit
from riskroute import Actions, Belief, InputError, Setting, Tallies, Tally
from riskroute.learning import belief_fit, least_squares
from riskroute.learning.belief import _draw_gaussian_numpy, _invert_numpy, draw_gaussian_belief
from riskroute.learning.belief_fit import (
    _fit_compiled,
    _fit_numpy,
    _temper_factor,
    _temper_factor_numpy,
    fit_belief,
    fit_vague_information,
    temper_prior,
)
from riskroute.learning.kernels import positive_definite_inverse
from riskroute.learning.observations import Observations
from riskroute.learning.policies import linear_policy
from riskroute.learning.tally import merge_tally_groups
from riskroute.policies import Thompson

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

ROWS = np.random.default_rng(9).uniform(0.2, 1.0, size=(7, 3))
THETA, PHI, BASE = np.array([0.4, -0.3, 0.6]), np.array([3.0, 0.05, 0.02]), 0.05
VARIANCES = ROWS @ PHI + BASE
COUNTS = np.array([30, 10, 50, 20, 40, 25, 15])
VAGUE = fit_vague_information(ROWS, np.full(7, 1 / 7), 0.3)
HARDLY = 1e-12 * np.eye(3)  # vague information that does not matter
FIELDS = [item.name for item in dataclasses.fields(Belief)]


def random_rounds(seed: int, count: int, features: Matrix = ROWS) -> list[Round]:
    rng = np.random.default_rng(seed)
    rows = features[rng.integers(len(features), size=count)]
    noise = np.sqrt(rows @ PHI + BASE) * rng.standard_normal(count)
    return [(a, float(a @ THETA + e)) for a, e in zip(rows, noise, strict=True)]


def simulated(rng: np.random.Generator, counts: NDArray[np.int64]) -> Observations:
    """Observations of Gaussian rewards, drawn as such: a normal mean and an independent chi-squared spread."""
    spread = 2 * rng.standard_gamma((counts - 1) / 2)
    means = ROWS @ THETA + np.sqrt(VARIANCES / counts) * rng.standard_normal(len(counts))
    return Observations(ROWS, counts.astype(float), means, VARIANCES * spread)


def exact(counts: NDArray[np.int64]) -> Observations:
    """Observations whose mean and whose mean squared deviation are just those of the model."""
    return Observations(ROWS, counts.astype(float), ROWS @ THETA, counts * VARIANCES)


def close(found: Belief, expected: Belief, rel: float = 1e-8) -> None:
    for name in FIELDS:
        ours, theirs = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
        np.testing.assert_allclose(ours, theirs, rtol=rel, atol=rel * np.abs(theirs).max(), err_msg=name)


def apart(one: Belief, other: Belief) -> float:
    """Largest difference of two beliefs' centres, in deviations of the second."""
    return max(
        float(np.sqrt(d @ precision @ d))
        for d, precision in (
            (one.mean_coef - other.mean_coef, other.mean_precision),
            (one.var_coef - other.var_coef, other.var_precision),
        )
    )


@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 40), max_size=3))
@settings(max_examples=30)
def test_joined_evidence_is_that_of_all_rewards(seed: int, cuts: list[int]) -> None:
    rounds = random_rounds(seed, 40)
    edges = [0, *sorted(cuts), 40]
    parts = [evidence_of(rounds[i:j], 3) for i, j in pairwise(edges)]
    joined = parts[0].joined(*parts[1:])
    assert joined.rounds == 40
    assert len(joined) == len({tuple(a) for a, _ in rounds})
    for a, count, mean, spread in zip(joined.features, joined.counts, joined.means, joined.spreads, strict=True):
        rewards = [x for b, x in rounds if np.array_equal(a, b)]
        assert count == len(rewards)
        assert mean == pytest.approx(np.mean(rewards))
        assert spread == pytest.approx(len(rewards) * np.var(rewards), abs=1e-12)


def test_faded_evidence_counts_less_and_then_not_at_all() -> None:
    whole = evidence_of(random_rounds(1, 40), 3)
    half = whole.faded(0.5)
    np.testing.assert_allclose(
        [half.counts, half.means, half.spreads], [whole.counts / 2, whole.means, whole.spreads / 2]
    )
    assert len(whole.faded(1e-3 / whole.counts.max() / 1.01)) == 0
    kept = whole.faded(0.5, least=float(np.median(half.counts)))
    assert kept.counts.tolist() == [n / 2 for n in whole.counts if n / 2 > np.median(half.counts)]


@given(seed=st.integers(0, 10**6), factors=st.lists(st.sampled_from([0.0, 0.3, 0.9, 1.0]), min_size=1, max_size=4))
@settings(max_examples=30)
def test_degrees_of_freedom_are_those_of_weighted_rewards(seed: int, factors: list[float]) -> None:
    """Weights w leave ``sum(w) - sum(w^2) / sum(w)``, so that spreads over them are the variance on average."""
    found, weights = Observations.none(3), list[tuple[tuple[float, ...], float]]()
    for k, factor in enumerate(factors):
        rounds = random_rounds(seed + k, 9)
        found = found.faded(factor).joined(evidence_of(rounds, 3))
        weights = [(a, w * factor) for a, w in weights if factor > 0] + [(tuple(a), 1.0) for a, _ in rounds]
    for row, count, free in zip(found.features, found.counts, found.free, strict=True):
        same = np.array([w for a, w in weights if a == tuple(row)])
        assert count == pytest.approx(same.sum())
        assert free == pytest.approx(same.sum() - (same**2).sum() / same.sum(), abs=1e-9)
        assert (free > 0) == (len(same) > 1)


def test_no_evidence_joins_like_nothing() -> None:
    some = evidence_of(random_rounds(2, 10), 3)
    assert Observations.none(3).rounds == len(Observations.none(3)) == 0
    for both in (some.joined(Observations.none(3)), Observations.none(3).joined(some)):
        np.testing.assert_array_equal(both.features, some.features)
        np.testing.assert_array_equal(both.spreads, some.spreads)


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 60),
    earlier=st.sampled_from([None, 1, 25]),
    base=st.sampled_from([0.0, 0.05, 2.0]),
    floor=st.sampled_from([0.1, 0.6]),
)
@settings(max_examples=40)
def test_fit_is_its_twin_over_single_rewards(
    seed: int, count: int, earlier: int | None, base: float, floor: float
) -> None:
    prior = None if earlier is None else naive_fit(random_rounds(seed + 1, earlier), base, VAGUE)
    rounds = random_rounds(seed, count)
    found = fit_belief(evidence_of(rounds, 3), base_variance=base, vague=VAGUE, prior=prior, variance_floor=floor)
    close(found, naive_fit(rounds, base, VAGUE, prior, floor))


def test_covariances_are_inverse_informations_of_known_variances() -> None:
    """A million times the rewards: leverages vanish, and Cov is the inverse of sum n a a' / v, or n a a' / (2 v^2)."""
    counts = COUNTS * 10**6
    found = fit_belief(exact(counts), base_variance=BASE, vague=HARDLY, variance_floor=1e-3)
    np.testing.assert_allclose(found.mean_coef, THETA, rtol=1e-6)
    np.testing.assert_allclose(found.var_coef, PHI, rtol=1e-4)
    mean_cov = np.linalg.inv((ROWS.T * (counts / VARIANCES)) @ ROWS)
    var_cov = np.linalg.inv((ROWS.T * (counts / VARIANCES**2 / 2)) @ ROWS)
    np.testing.assert_allclose(found.mean_covariance, mean_cov, rtol=1e-5)
    np.testing.assert_allclose(found.score_covariance(0.0), var_cov, rtol=1e-5)
    np.testing.assert_allclose(found.score_covariance(3.0), var_cov + 9 * mean_cov, rtol=1e-5)
    np.testing.assert_allclose(found.score(3.0), PHI - 3 * THETA, rtol=1e-4)
    assert (found.rounds, found.dim) == (counts.sum(), 3)


def test_it_is_no_worse_than_the_plain_fit() -> None:
    """Gauss and Markov: the sandwich covariance of plain least squares exceeds the belief's in every direction."""
    found = (
        fit_belief(exact(COUNTS * 10**6), base_variance=BASE, vague=HARDLY, variance_floor=1e-3).mean_covariance * 1e6
    )
    inverse = np.linalg.inv((ROWS.T * COUNTS) @ ROWS)
    plain = inverse @ (ROWS.T * (COUNTS * VARIANCES)) @ ROWS @ inverse
    assert np.linalg.eigvalsh(plain - found).min() > -1e-9
    assert np.trace(plain) > 1.01 * np.trace(found)


def test_with_equal_variances_it_is_the_plain_fit() -> None:
    """Weights then hardly differ, so the centre of the mean is that of the paper's estimator."""
    tallies = Tallies(np.arange(7), COUNTS * 100, ROWS @ THETA + 0.01 * np.arange(7), COUNTS * 100.0)
    plain = least_squares(ROWS, tallies, 1.0, corrected=True)
    found = fit_belief(Observations.of(ROWS, tallies), base_variance=1.0, vague=HARDLY)
    assert np.abs(found.mean_coef - plain.mean_coef).max() < 0.02 * np.sqrt(np.diag(found.mean_covariance)).min()


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("counts", [COUNTS, COUNTS * 10])
def test_it_is_calibrated(counts: NDArray[np.int64]) -> None:
    """1,500 data sets: the squared error in units of the belief's covariance averages dim = 3.

    It is chi-squared with variance 6: its average has standard error sqrt(6 / 1500) = 0.063; five of them, 0.32. With
    190 rewards instead of 1,900 the variance is a quarter less well known than stated, as the weights come from the
    same rewards; that is allowed for.
    """
    rng = np.random.default_rng(11)
    distances, errors = np.zeros(2), []
    for _ in range(1500):
        found = fit_belief(simulated(rng, counts), base_variance=BASE, vague=1e-3 * VAGUE)
        off, var_off = found.mean_coef - THETA, found.var_coef - PHI
        distances += off @ found.mean_precision @ off, var_off @ found.var_precision @ var_off
        errors.append(off)
    limits = [0.32, 0.32] if counts is not COUNTS else [0.32, 1.2]
    assert (np.abs(distances / 1500 - 3.0) < limits).all()
    standard = np.std(errors, axis=0, ddof=1) / math.sqrt(1500)
    assert (np.abs(np.mean(errors, axis=0)) < 5 * standard).all()


@pytest.mark.parametrize("count", [200, 4000])
def test_a_prior_is_as_good_as_its_rewards(count: int) -> None:
    """Yesterday's belief and today's rewards, or all rewards together: the same to a part of a deviation."""
    rounds = random_rounds(3, count)
    yesterday = fit_belief(evidence_of(rounds[: count // 2], 3), base_variance=BASE, vague=VAGUE)
    today = evidence_of(rounds[count // 2 :], 3)
    one_by_one = fit_belief(today, base_variance=BASE, vague=VAGUE, prior=yesterday)
    together = fit_belief(evidence_of(rounds, 3), base_variance=BASE, vague=VAGUE)
    assert apart(one_by_one, together) < 0.3
    assert (
        apart(fit_belief(today, base_variance=BASE, vague=VAGUE), together) > 0.5
    )  # half of the rewards alone are not
    assert one_by_one.rounds == together.rounds == count
    assert one_by_one.variance == pytest.approx(together.variance, rel=0.02)
    widths = np.linalg.eigvals(np.linalg.solve(together.mean_precision, one_by_one.mean_precision))
    assert (np.abs(widths - 1) < 0.1).all()


def test_a_prior_without_rewards_stays_what_it_is() -> None:
    prior = fit_belief(evidence_of(random_rounds(4, 500), 3), base_variance=BASE, vague=VAGUE)
    found = fit_belief(Observations.none(3), base_variance=BASE, vague=HARDLY, prior=prior)
    close(found, prior, rel=1e-9)


def test_weakened_keeps_the_centre_and_counts_fewer_rewards() -> None:
    whole = fit_belief(evidence_of(random_rounds(5, 400), 3), base_variance=BASE, vague=VAGUE)
    weak = whole.weakened(0.25)
    assert weak.rounds == 100
    assert weak.variance == whole.variance
    np.testing.assert_array_equal([weak.mean_coef, weak.var_coef], [whole.mean_coef, whole.var_coef])
    np.testing.assert_allclose(weak.mean_covariance, 4 * whole.mean_covariance)
    np.testing.assert_allclose(weak.score_covariance(2.0), 4 * whole.score_covariance(2.0))
    close(whole.weakened(1), whole, rel=0)
    rest = evidence_of(random_rounds(6, 400), 3)
    firm, soft = (fit_belief(rest, base_variance=BASE, vague=VAGUE, prior=one) for one in (whole, weak))
    alone = fit_belief(rest, base_variance=BASE, vague=VAGUE)
    assert apart(soft, alone) < apart(firm, alone)


def mapped(belief: Belief, map_: Matrix) -> Belief:
    """The same belief about features ``a @ map_``."""
    inverse = np.linalg.inv(map_)
    return Belief(
        inverse @ belief.mean_coef,
        map_.T @ belief.mean_precision @ map_,
        inverse @ belief.var_coef,
        map_.T @ belief.var_precision @ map_,
        belief.variance,
        belief.rounds,
    )


@pytest.mark.parametrize("count", [0, 1, 3, 50])
@pytest.mark.parametrize("c", [1e-4, 3.0, 1e6])
@pytest.mark.parametrize("with_prior", [False, True])
def test_units_of_rewards_do_not_matter(count: int, c: float, with_prior: bool) -> None:
    rounds = random_rounds(7, count)
    other = [(a, c * x) for a, x in rounds]
    prior = naive_fit(random_rounds(8, 30), BASE, VAGUE) if with_prior else None
    first = fit_belief(evidence_of(rounds, 3), base_variance=BASE, vague=VAGUE, prior=prior)
    told = prior.in_units(c) if prior else None
    second = fit_belief(evidence_of(other, 3), base_variance=c**2 * BASE, vague=VAGUE, prior=told)
    close(second, first.in_units(c))


@pytest.mark.parametrize("count", [0, 1, 3, 50])
@pytest.mark.parametrize("with_prior", [False, True])
def test_units_of_features_do_not_matter(count: int, with_prior: bool) -> None:
    map_ = np.random.default_rng(3).standard_normal((3, 3)) * np.array([1e-3, 1.0, 1e3])
    rounds = random_rounds(9, count)
    other = [(a @ map_, x) for a, x in rounds]
    prior = naive_fit(random_rounds(8, 30), BASE, VAGUE) if with_prior else None
    first = fit_belief(evidence_of(rounds, 3), base_variance=BASE, vague=VAGUE, prior=prior)
    told = mapped(prior, map_) if prior else None
    second = fit_belief(evidence_of(other, 3), base_variance=BASE, vague=map_.T @ VAGUE @ map_, prior=told)
    close(second, mapped(first, map_), rel=1e-6)


def test_vague_information_is_worth_its_rewards_whatever_the_units() -> None:
    features, weights = np.diag([1.0, 1e-3]), np.array([0.5, 0.5])
    np.testing.assert_allclose(fit_vague_information(features, weights, 0.3), np.diag([0.15, 0.15e-6]), rtol=1e-2)
    assert np.linalg.eigvalsh(fit_vague_information(np.array([[1.0, 1.0]]), np.array([1.0]), 0.3)).min() > 0
    assert np.linalg.eigvalsh(fit_vague_information(np.zeros((1, 2)), np.array([1.0]), 0.3)).min() > 0


@pytest.mark.parametrize("base", [0.0, 1.0])
@pytest.mark.parametrize("rewards", [[0.0], [0.4, -0.7], [0.0] * 10, [5.0] * 1000, [1e-80, 0.0]])
def test_few_or_constant_rewards_leave_it_sound(rewards: list[float], base: float) -> None:
    rounds = [(np.eye(2)[k % 2], x) for k, x in enumerate(rewards)]
    found = fit_belief(evidence_of(rounds, 2), base_variance=base, vague=0.15 * np.eye(2))
    assert all(np.isfinite(getattr(found, name)).all() for name in FIELDS)
    assert found.variance > 0
    covariance = found.score_covariance(2.0)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert np.isfinite(draw_gaussian_belief(found.score(2.0), covariance, np.ones((3, found.dim)))).all()
    limit = 0.1 * found.variance / max(len(rewards) / 2, 1)  # as sure of a mean as the variance floor allows
    assert np.diag(found.mean_covariance).min() > 0.9 * limit


def test_variances_that_fall_below_zero_do_not_spoil_the_fit() -> None:
    """The last action's variance extrapolates to less than nothing: its weight stays that of the floor."""
    features = np.array([[1.0, 0.0], [1.0, 0.5], [1.0, 1.0]])
    observations = Observations(
        features, np.array([500.0, 500.0, 1.0]), np.array([0.0, 0.1, 0.2]), np.array([2000.0, 5.0, 0.0])
    )
    found = fit_belief(observations, base_variance=0.0, vague=1e-9 * np.eye(2))
    assert features[2] @ found.var_coef < 0
    for precision in (found.mean_precision, found.var_precision):
        assert np.linalg.eigvalsh(precision).min() > 0
    assert found.mean_coef == pytest.approx([0.0, 0.2], abs=1e-6)


def test_directions_that_no_action_tells_apart_stay_harmless_for_ever() -> None:
    """A column twice, and 10^12 rewards: covariances stay positive definite, and scores are as without the copy."""
    features = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    for count in (10.0, 1e6, 1e12):
        observations = Observations(features, np.full(2, count), np.array([0.5, 0.1]), count * np.array([2.0, 3.0]))
        vague = fit_vague_information(features, np.full(2, 0.5), 0.3)
        found = fit_belief(observations, base_variance=1.0, vague=vague)
        normals = np.random.default_rng(1).standard_normal((2000, 3))
        drawn = draw_gaussian_belief(found.score(2.0), found.score_covariance(2.0), normals)
        single = fit_belief(
            dataclasses.replace(observations, features=np.eye(2)), base_variance=1.0, vague=0.15 * np.eye(2)
        )
        np.testing.assert_allclose(features @ found.score(2.0), single.score(2.0), rtol=1e-6, atol=1e-9)
        spread = (drawn @ features.T).std(axis=0) / np.sqrt(np.diag(single.score_covariance(2.0)))
        np.testing.assert_allclose(spread, 1.0, atol=0.1)  # five standard errors of 1 / sqrt(2 * 2000)


def test_draws_have_the_center_and_covariance_they_should() -> None:
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    normals = np.random.default_rng(2).standard_normal((40_000, 2))
    drawn = draw_gaussian_belief(np.array([1.0, -3.0]), covariance, normals)
    assert np.abs(drawn.mean(axis=0) - [1.0, -3.0]).max() < 5 * math.sqrt(2 / 40_000)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=5 * 2 * math.sqrt(2 / 40_000))


def batches(seed: int, count: int) -> list[Tallies]:
    """Tallies of random actions of a set of 60, ten rounds each."""
    rng = np.random.default_rng(seed)
    rows = wide_set().matrix
    found = []
    for _ in range(count):
        actions = rng.choice(60, size=4, replace=False)
        means, deviations = rows[actions] @ THETA, np.sqrt(rows[actions] @ PHI + BASE)
        rewards = means + deviations * rng.standard_normal((10, 4))
        found.append(Tallies.of(actions, [Tally.of(x) for x in rewards.T]))
    return found


def wide_set() -> Actions:
    return Actions(np.random.default_rng(5).uniform(0.2, 1.0, size=(60, 3)))


@pytest.mark.parametrize("rounds", [60, 300])
def test_summing_up_changes_the_belief_only_slightly(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    beliefs, rows = [], []
    for most in (10**6, 15):
        monkeypatch.setattr(linear_policy, "MOST_ROWS", most)
        policy = Thompson(growth=0.05).start(Setting(actions=wide_set(), base_variance=BASE))
        for tallies in batches(6, rounds):
            policy.observe(tallies)
        policy.refresh()
        assert policy.belief is not None
        beliefs.append(policy.belief)
        rows.append(len(policy.observations))
    whole, summed = beliefs
    assert rows[0] > 55
    assert rows[1] < 30
    assert summed.rounds == whole.rounds == 40 * rounds
    assert apart(summed, whole) < 0.5
    assert summed.variance == pytest.approx(whole.variance, rel=0.02)
    widths = np.linalg.eigvals(np.linalg.solve(whole.mean_precision, summed.mean_precision))
    assert (np.abs(widths - 1) < 0.1).all()


@pytest.mark.parametrize("factor", [0, -0.5, 1.5, math.nan, "half", None])
def test_bad_factor(factor: Any) -> None:
    belief = naive_fit([], BASE, VAGUE)
    with pytest.raises(InputError) as caught:
        belief.weakened(factor)
    assert str(caught.value) == f"factor must be a number of at most 1 and above 0, was {factor!r}"


PRIOR_ROWS = np.random.default_rng(9).uniform(0.2, 1.0, size=(7, 3))
PRIOR_THETA, PRIOR_PHI, PRIOR_BASE = np.array([0.4, -0.3, 0.6]), np.array([3.0, 0.5, 0.2]), 0.05
PRIOR_VAGUE = fit_vague_information(PRIOR_ROWS, np.full(7, 1 / 7), 0.3)
ALLOWED = 3 + 3 * 6**0.5


def rewards(
    seed: int,
    count: int,
    *,
    theta: np.ndarray = PRIOR_THETA,
    phi: np.ndarray = PRIOR_PHI,
    unit: float = 1.0,
) -> Observations:
    """Gaussian rewards of random rows, counted by row."""
    rng = np.random.default_rng(seed)
    rows = PRIOR_ROWS[rng.integers(len(PRIOR_ROWS), size=count)]
    noise = np.sqrt(rows @ phi + PRIOR_BASE) * rng.standard_normal(count)
    return evidence_of([(a, unit * float(a @ theta + e)) for a, e in zip(rows, noise, strict=True)], 3)


def yesterday(count: int = 400, *, unit: float = 1.0) -> Belief:
    return fit_belief(rewards(100, count, unit=unit), base_variance=unit**2 * PRIOR_BASE, vague=PRIOR_VAGUE)


def weakened_by(prior: Belief, observations: Observations, *, unit: float = 1.0) -> float:
    found = temper_prior(prior, observations, base_variance=unit**2 * PRIOR_BASE, vague=PRIOR_VAGUE)
    np.testing.assert_array_equal(found.mean_coef, prior.mean_coef)
    np.testing.assert_allclose(found.var_precision, prior.var_precision * (found.rounds / prior.rounds))
    return found.rounds / prior.rounds


def mean_distance(prior: Belief, observations: Observations, factor: float) -> float:
    """Squared distance of the rewards' own estimate of the mean coefficients from the prior's."""
    features, counts = observations.features, observations.counts
    variance = np.maximum(features @ prior.var_coef + PRIOR_BASE, 0.1 * prior.variance)
    variance = np.maximum(variance, observations.spreads / counts)
    precision = PRIOR_VAGUE / prior.variance + (features * (counts / variance)[:, None]).T @ features
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
    prior, observations = yesterday(), rewards(1, 500, theta=PRIOR_THETA + shift)
    factor = weakened_by(prior, observations)
    assert factor < 1
    assert mean_distance(prior, observations, 1.0) > ALLOWED
    assert mean_distance(prior, observations, factor) == pytest.approx(ALLOWED, rel=0.06)  # steps of five per cent


def test_more_contradiction_is_more_doubt() -> None:
    prior = yesterday()
    factors = [weakened_by(prior, rewards(1, 500, theta=PRIOR_THETA + shift)) for shift in (0.0, 0.5, 1.0, 2.0, 50.0)]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] == 1
    assert factors[-1] >= 1e-6


@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_a_prior_that_is_off_by_very_many_deviations_is_not_felt(shift: float) -> None:
    observations = rewards(1, 60, theta=PRIOR_THETA + shift)
    left = temper_prior(yesterday(), observations, base_variance=PRIOR_BASE, vague=PRIOR_VAGUE)
    alone, both = (
        fit_belief(observations, base_variance=PRIOR_BASE, vague=PRIOR_VAGUE, prior=prior) for prior in (None, left)
    )
    off = both.mean_coef - alone.mean_coef
    assert off @ alone.mean_precision @ off < 1.1 * ALLOWED  # as far as no surprise is


def test_variances_raise_doubt_too() -> None:
    assert weakened_by(yesterday(), rewards(1, 500, phi=4 * PRIOR_PHI)) < 0.3


def test_no_rewards_raise_no_doubt() -> None:
    prior = yesterday()
    assert temper_prior(prior, Observations.none(3), base_variance=PRIOR_BASE, vague=PRIOR_VAGUE) is prior


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_units_do_not_matter(unit: float) -> None:
    plain = weakened_by(yesterday(), rewards(1, 300, theta=PRIOR_THETA + 1))
    other = weakened_by(yesterday(unit=unit), rewards(1, 300, theta=PRIOR_THETA + 1, unit=unit), unit=unit)
    assert other == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("count", [5, 60, 700])
def test_the_compiled_factor_is_the_plain_one(shift: float, count: int) -> None:
    prior = yesterday()
    for theta, phi in (
        (PRIOR_THETA + shift, PRIOR_PHI),
        (PRIOR_THETA, PRIOR_PHI * (1 + shift)),
    ):
        seen = rewards(count, count, theta=theta, phi=phi)
        for surprise in (0.0, 3.0):
            plain = _temper_factor_numpy(prior, seen, PRIOR_BASE, PRIOR_VAGUE, surprise)
            compiled = _temper_factor(prior, seen, PRIOR_BASE, PRIOR_VAGUE, surprise)
            assert compiled == pytest.approx(plain, rel=1e-9)


def test_a_matrix_without_root_has_no_compiled_factor() -> None:
    nothing = np.zeros((3, 3))
    seen = rewards(1, 1)
    assert np.isnan(_temper_factor(yesterday(), seen, PRIOR_BASE, nothing, 3.0))


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
    assert positive_definite_inverse(indefinite) is None
    with pytest.raises(np.linalg.LinAlgError):
        draw_gaussian_belief(np.zeros(2), indefinite, np.zeros((3, 2)))
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
    drawn = draw_gaussian_belief(belief.mean_coef, covariance, normals)
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
