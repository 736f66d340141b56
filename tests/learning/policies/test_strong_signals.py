"""Means that lie up to 46,000 noise deviations apart: the best action is found soon, and noise is not overestimated."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from riskroute import Actions, Allocations, Belief, Environment, Problem, Setting
from riskroute.learning.belief_fit import fit_belief, fit_vague_information
from riskroute.learning.observations import Observations
from riskroute.learning.policies.linear_policy import LinearPolicy, _start_counts
from riskroute.policies import Adaptive, ChangeTest, Discounted, LinThompson, LinUcb, SlidingWindow, Thompson

Matrix = NDArray[np.float64]

KINDS: list[type[LinearPolicy]] = [Adaptive, Thompson, Discounted, SlidingWindow, ChangeTest]
MARGIN = 5.0


def played(policy: LinearPolicy, problem: Problem, rounds: int, seed: int) -> LinearPolicy:
    environment = Environment(problem)
    running, run = policy.start(environment.setting(rounds), seed), environment.run(np.random.default_rng([seed, 1]))
    while running.remaining:
        running.learn(run.tally(running.plan()))
    return running


def random_strong_problem(seed: int) -> Problem:
    """Up to 8 features and 60 actions; means 100 to 10,000 noise deviations apart, the best identified.

    The best action leads by five deviations of what one round says about the mean-variance of the noisiest action
    (variance ``2 v^2 + risk_tolerance^2 v``). The first plan has two rounds per dimension, spread so that the
    difference of any two actions is known to about one such deviation: a lead of five is missed about once in a
    million times, and rounds beyond the first plan only help.
    """
    rng = np.random.default_rng([seed, 77])
    while True:
        dim, base = int(rng.integers(1, 9)), float(rng.integers(2))
        rows = rng.standard_normal((int(rng.integers(max(dim, 2) + 1, 60)), dim))
        if base == 0 or rng.random() < 0.5:
            rows = rng.uniform(0.05, 1.0, rows.shape)
        phi = rng.uniform(0.1, 1.0, dim) if base == 0 else rng.standard_normal(dim)
        if base:
            phi *= rng.uniform(0, 0.9) / np.abs(rows @ phi).max()
        variances, theta = rows @ phi + base, rng.standard_normal(dim)
        theta *= 10 ** rng.uniform(2, 4) * np.sqrt(np.median(variances)) / np.ptp(rows @ theta)
        risk_tolerance = float(np.exp(rng.uniform(np.log(0.2), np.log(10.0))))
        problem = Problem(
            actions=Actions(rows),
            mean_coef=theta,
            var_coef=phi,
            base_variance=base,
            risk_tolerance=risk_tolerance,
            check_norms=False,
        )
        needed = MARGIN * np.sqrt((2 * variances**2 + risk_tolerance**2 * variances).max())
        if np.sort(problem.gaps())[1] > needed:
            return problem


STRONG = [random_strong_problem(seed) for seed in range(50)]


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not SlidingWindow])
def test_all_of_fifty_problems_end_on_the_best_action_within_20_rounds_per_dimension(kind: type[LinearPolicy]) -> None:
    """A sliding window of 5,000 rounds is Thompson sampling here, decision by decision."""
    wrong = [
        number
        for number, problem in enumerate(STRONG)
        if played(kind(), problem, 20 * problem.actions.dim, number).recommend() != problem.best
    ]
    assert wrong == []


@pytest.mark.parametrize("deviations", [4.6, 46_000.0])
def test_the_recommended_policy_is_right_in_ten_of_ten_runs(deviations: float) -> None:
    """Twenty actions of three positive features, constant variance 1, 3,000 rounds; other actions in every run.

    At 4.6 deviations the best leads by 0.6 to 1.9, where 3,000 rounds are needed.
    """
    for seed in range(10):
        rng = np.random.default_rng([seed, 3])
        rows, theta = rng.uniform(0.05, 1.0, (20, 3)), rng.uniform(0.1, 1.0, 3)
        while np.diff(np.sort(rows @ theta))[-1] < 0.1 * np.ptp(rows @ theta):
            rows = rng.uniform(0.05, 1.0, (20, 3))
        theta *= deviations / np.ptp(rows @ theta)
        problem = Problem(actions=Actions(rows), mean_coef=theta, var_coef=np.zeros(3), check_norms=False)
        policy = played(Adaptive(), problem, 3000, seed)
        assert policy.recommend() == problem.best, seed
        assert policy.belief is not None
        assert policy.belief.variance == pytest.approx(1.0, abs=0.15)  # five standard errors of sqrt(2 / 3000) are 0.13
        error = theta - policy.belief.mean_coef
        assert error @ policy.belief.mean_precision @ error < 30  # chi-squared of three: once in a million times


def strong_rows(rng: np.random.Generator, size: int = 15, dim: int = 4, rank: int = 4) -> Matrix:
    return rng.uniform(0.1, 1.0, (size, rank)) @ (np.eye(dim) if rank == dim else rng.standard_normal((rank, dim)))


@pytest.mark.parametrize("kind", [*KINDS, LinThompson, LinUcb])
def test_features_that_hang_together(kind: type[LinearPolicy]) -> None:
    """Four features of rank two: in two directions there is nothing to learn."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, theta = strong_rows(rng, rank=2), 1e4 * rng.standard_normal(4)
        problem = Problem(actions=Actions(rows), mean_coef=theta, var_coef=np.zeros(4), check_norms=False)
        assert np.sort(problem.gaps())[1] > 50
        assert played(kind(), problem, 80, seed).recommend() == problem.best


@pytest.mark.parametrize("kind", KINDS)
def test_allocations_that_are_never_listed(kind: type[LinearPolicy]) -> None:
    actions = Allocations(shares=200, slots=5)
    theta = 1e4 * np.random.default_rng(0).standard_normal(actions.dim)
    problem = Problem(actions=actions, mean_coef=theta, var_coef=np.zeros(actions.dim), check_norms=False)
    assert played(kind(), problem, 20 * actions.dim, 1).recommend() == problem.best


@pytest.mark.parametrize("kind", [*KINDS, LinThompson, LinUcb])
def test_sets_that_change_every_round(kind: type[LinearPolicy]) -> None:
    """Rounds 40 to 80, each with six actions of its own: at least 39 of the 40 best ones are played."""
    rng = np.random.default_rng(5)
    theta, sets = 1e4 * rng.standard_normal(4), [Actions(strong_rows(rng, 6)) for _ in range(80)]
    policy, right = kind().start(Setting(actions=sets[0], horizon=80), 1), []
    for actions in sets:
        policy.offer(actions)
        action = policy.select()
        policy.update(action, float(actions.action_features(action) @ theta + rng.standard_normal()))
        right.append(action == actions.best(-theta))
    assert sum(right[40:]) >= 39


def test_first_plans_identify_all_coefficients_that_their_rounds_can() -> None:
    """Random designs of more actions than rounds, many of them in a plane: the rank is the largest possible."""
    rng = np.random.default_rng(1)
    better = 0
    for _ in range(200):
        dim, flat = int(rng.integers(2, 6)), int(rng.integers(1, 12))
        rows = rng.standard_normal((flat + dim, dim))
        rows[:flat, -1] = 0
        weights = np.concatenate([rng.uniform(2, 3, flat), rng.uniform(1, 2, dim)])
        rounds = int(rng.integers(1, flat + dim))
        counts = _start_counts(rows, weights / weights.sum(), rounds)
        assert counts.sum() == rounds
        assert counts.max() == 1
        assert np.linalg.matrix_rank(rows[counts > 0]) == min(rounds, dim)
        largest = np.argsort(-weights, kind="stable")[:rounds]
        better += np.linalg.matrix_rank(rows[largest]) < min(rounds, dim)
    assert better > 20  # where the largest weights would not have done


def test_with_enough_rounds_first_plans_follow_the_design() -> None:
    weights = np.array([0.5, 0.3, 0.2])
    assert _start_counts(np.eye(3), weights, 10).tolist() == [5, 3, 2]
    assert _start_counts(np.eye(3), weights, 3).tolist() == [1, 1, 1]
    assert _start_counts(np.zeros((1, 3)), np.ones(1), 2).tolist() == [2]


@pytest.mark.parametrize("horizon", range(1, 14))
def test_a_short_horizon_is_used_to_learn_as_much_as_it_can(horizon: int) -> None:
    rows = np.random.default_rng(4).standard_normal((40, 6))
    problem = Problem(actions=Actions(rows), mean_coef=1e4 * rows[0], var_coef=np.zeros(6), check_norms=False)
    policy = Adaptive().start(Environment(problem).setting(horizon))
    first = policy.plan()
    assert first.rounds == min(horizon, 12)
    assert np.linalg.matrix_rank(rows[first.actions]) == min(horizon, 6)
    assert policy.setting.actions.design(0.05).rank == 6


def evidence_with(means: Matrix, rows: Matrix, counts: Matrix, seed: int = 0) -> Observations:
    """Rewards of variance one around the given means."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(len(means)) / np.sqrt(counts)
    return Observations(rows, counts, means + noise, 2 * rng.standard_gamma((counts - 1) / 2))


ROWS = np.random.default_rng(2).uniform(0.1, 1.0, (12, 3))
VAGUE = fit_vague_information(ROWS, np.full(12, 1 / 12), 0.3)
THETA = np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize("signal", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("count", [2.0, 40.0, 1e5])
def test_the_vague_belief_does_not_hold_strong_signals_back(signal: float, count: float) -> None:
    """Beside two rewards per action or more, it moves the coefficients by a tenth of a deviation at most."""
    observations = evidence_with(signal * ROWS @ THETA, ROWS, np.full(12, count))
    found, without = (fit_belief(observations, base_variance=1.0, vague=vague) for vague in (VAGUE, 1e-12 * VAGUE))
    off = found.mean_coef - without.mean_coef
    assert off @ found.mean_precision @ off < 0.01
    assert 0.3 < found.variance < 2.5


@pytest.mark.parametrize("signal", [1e3, 1e6])
def test_a_prior_is_not_drawn_to_zero_by_the_vague_belief(signal: float) -> None:
    yesterday = fit_belief(
        evidence_with(signal * ROWS @ THETA, ROWS, np.full(12, 9.0)), base_variance=1.0, vague=VAGUE
    ).weakened(0.01)
    nothing = fit_belief(Observations.none(3), base_variance=1.0, vague=VAGUE, prior=yesterday)
    np.testing.assert_array_equal(nothing.mean_coef, yesterday.mean_coef)
    one = fit_belief(
        evidence_with(signal * ROWS[:1] @ THETA, ROWS[:1], np.ones(1), 1),
        base_variance=1.0,
        vague=VAGUE,
        prior=yesterday,
    )
    off = one.mean_coef - yesterday.mean_coef
    assert off @ yesterday.mean_precision @ off < 3


def test_means_that_are_not_linear_are_not_taken_for_noise() -> None:
    """The fit misses means by about ten deviations; rewards of each action still lie around their own mean."""
    rng = np.random.default_rng(3)
    means = 30 * ROWS @ THETA + 10 * rng.standard_normal(12)
    found = fit_belief(evidence_with(means, ROWS, np.full(12, 50.0)), base_variance=1.0, vague=VAGUE)
    assert found.variance == pytest.approx(1.0, abs=0.3)  # five standard errors of sqrt(2 / 588) are 0.29
    np.testing.assert_allclose(ROWS @ found.var_coef, 0.0, atol=0.9)


def test_a_told_variance_that_is_far_too_large_is_corrected() -> None:
    """Told 1,000, true 1: the vague belief in what was told gives way to three rewards of each action."""
    observations = evidence_with(THETA, np.eye(3), np.full(3, 3.0))
    found = fit_belief(
        observations, base_variance=1000.0, vague=fit_vague_information(np.eye(3), np.full(3, 1 / 3), 0.3)
    )
    np.testing.assert_allclose(found.var_coef + 1000.0, observations.spreads / 2, atol=0.1)


def test_noise_without_any_degree_of_freedom_is_what_was_told_or_as_large_as_rewards() -> None:
    once = Observations(np.eye(3), np.ones(3), np.array([300.0, -400.0, 0.0]), np.zeros(3))
    assert fit_belief(once, base_variance=4.0, vague=np.eye(3)).variance == 4.0
    assert fit_belief(once, base_variance=0.0, vague=np.eye(3)).variance == pytest.approx(250_000 / 3)
    prior = Belief(np.zeros(3), 1e-9 * np.eye(3), np.zeros(3), 1e-9 * np.eye(3), 7.0, 1e-9)
    assert fit_belief(once, base_variance=4.0, vague=np.eye(3), prior=prior).variance == 7.0
