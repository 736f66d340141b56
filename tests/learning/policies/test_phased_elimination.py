"""Phased elimination against the textbook's algorithm, written out with explicit matrices."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from riskroute import (
    Actions,
    Allocations,
    Environment,
    InputError,
    Problem,
    Setting,
    StateError,
    check_policy,
    g_optimal,
    random_problem,
    random_routing_problem,
    simulate,
)
from riskroute.learning.policies.phased_elimination import PhasedElimination


def naive_phases(problem: Problem, horizon: int, constant: float, variance: float, run: Any) -> list[list[int]]:
    """Survivors after every full phase, drawing one reward at a time from ``run``; failure probability 1/T."""
    features = problem.actions.listed().matrix
    size, alive, left, history, phase = len(features), np.arange(len(features)), horizon, [], 0
    while len(alive) > 1:
        phase += 1
        epsilon = 2.0**-phase
        design = g_optimal(features[alive], 0.01)
        length = constant * 2 * variance * design.bound / epsilon**2 * math.log(size * phase * (phase + 1) * horizon)
        counts = [math.ceil(length * weight) for weight in design.weights]
        if sum(counts) > left:
            break
        left -= sum(counts)
        played = [int(alive[i]) for i, n in zip(design.actions, counts, strict=True) for _ in range(n)]
        rewards = [run.reward(a) for a in played]
        matrix = sum(np.outer(features[a], features[a]) for a in played)
        theta = np.linalg.pinv(matrix) @ sum(x * features[a] for a, x in zip(played, rewards, strict=True))
        means = features[alive] @ theta
        alive = alive[means.max() - means <= 2 * epsilon]
        history.append(alive.tolist())
    return history


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("constant", "variance"), [(0.1, 1.0), (0.05, 1.6)])
def test_eliminates_as_the_textbook_does(
    gaussian_problem: Problem, seed: int, constant: float, variance: float
) -> None:
    horizon = 8000
    environment = Environment(gaussian_problem)
    run = environment.run(np.random.default_rng(seed))
    expected = naive_phases(gaussian_problem, horizon, constant, variance, run)
    assert len(expected) >= 3
    policy = PhasedElimination(constant=constant, noise_variance=variance).start(environment.setting(horizon))
    run = environment.run(np.random.default_rng(seed))
    seen: list[list[int]] = []
    while len(seen) < len(expected):
        action = policy.select()
        policy.update(action, run.reward(action))
        if policy.pending is None:
            seen.append(policy.survivors.listed().handles.tolist())
    assert seen == expected


def test_phase_lengths_follow_the_formula(gaussian_problem: Problem) -> None:
    """2 v g log(K l (l + 1) / delta) / eps^2 in phase l = 1, every action's part rounded up."""
    horizon, design = 10**7, gaussian_problem.actions.design(0.01)
    setting = Setting(actions=gaussian_problem.actions, horizon=horizon, base_variance=0.7)
    length = 2 * design.bound * 4 * math.log(40 * 2 / 0.001)
    for policy, factor in (
        (PhasedElimination(delta=0.001), 0.7),
        (PhasedElimination(delta=0.001, noise_variance=3.0), 3.0),
        (PhasedElimination(delta=0.001, constant=0.5, noise_variance=3.0), 1.5),
    ):
        counts = policy.start(setting).plan().counts.tolist()
        assert counts == [math.ceil(factor * length * weight) for weight in design.weights]


def test_without_a_base_variance_the_noise_is_taken_to_be_one(gaussian_problem: Problem) -> None:
    plans = [
        PhasedElimination().start(Setting(actions=gaussian_problem.actions, horizon=10_000, base_variance=v)).plan()
        for v in (0.0, 1.0)
    ]
    assert plans[0].counts.tolist() == plans[1].counts.tolist()


@pytest.mark.parametrize(("shares", "slots"), [(4, 4), (8, 6)])
def test_gets_through_several_phases_in_a_hundred_thousand_rounds(shares: int, slots: int) -> None:
    environment = Environment(random_routing_problem(shares, slots, seed=0))
    policy = PhasedElimination().start(environment.setting(100_000))
    run = environment.run(np.random.default_rng(0))
    while policy.remaining:
        policy.learn(run.tally(policy.plan()))
    assert policy.phase >= 4


def test_keeps_the_largest_mean_in_every_run(gaussian_problem: Problem) -> None:
    """It may fail with probability 1/T per run: 30 runs of 50,000 rounds, none does."""
    environment = Environment(gaussian_problem)
    best = int(np.argmax(gaussian_problem.actions.listed().matrix @ gaussian_problem.mean_coef))
    for seed in range(30):
        policy = PhasedElimination(noise_variance=2.0).start(environment.setting(50_000))
        run = environment.run(np.random.default_rng(seed))
        while policy.remaining:
            policy.learn(run.tally(policy.plan()))
        assert policy.phase > 2
        assert best in policy.survivors.listed().handles
        assert policy.survivors.size < 40


def test_is_blind_to_risk() -> None:
    """The second action has half the mean and a quarter of the variance: RISE settles on it, this policy does not."""
    problem = Problem(
        actions=Actions(np.eye(2)),
        mean_coef=np.array([0.8, 0.4]),
        var_coef=np.array([0.6, -0.6]),
        risk_tolerance=1.0,
    )
    policies = {"this": PhasedElimination(), "rise": "rise"}
    ended = {
        label: one.recommended for label, one in simulate(problem, policies, 20_000, runs=10, seed=1).policies.items()
    }
    assert ended == {"this": [0] * 10, "rise": [1] * 10}


def test_runs_on_sets_that_are_not_listed_and_can_be_saved() -> None:
    problem = random_problem(Allocations(20, 4), seed=2)
    environment = Environment(problem)
    policy = PhasedElimination(constant=0.2, design_tolerance=0.05).start(environment.setting(50_000))
    run = environment.run(np.random.default_rng(0))
    while policy.remaining:
        state = json.loads(json.dumps(policy.state()))
        again = PhasedElimination.restore(state, problem.actions).plan()
        plan = policy.plan()
        np.testing.assert_array_equal(again.actions, plan.actions)
        np.testing.assert_array_equal(again.counts, plan.counts)
        policy.learn(run.tally(plan))
    assert policy.phase > 3
    assert policy.survivors.size < problem.actions.size
    assert problem.actions.contains(np.array([policy.recommend()])).all()


def test_other_parameters_pass_the_shared_checks() -> None:
    """The easy case has one action that is best with and without regard to risk, so learning shows there."""
    check_policy(PhasedElimination(constant=0.1, delta=0.1))


def test_recommendation_before_any_data_is_refused() -> None:
    with pytest.raises(StateError, match="phased-elimination is in its first phase"):
        PhasedElimination().start(Setting(actions=Actions(np.eye(3)), horizon=1000)).recommend()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (PhasedElimination(constant=0.0), "constant must be a number above 0, was 0.0"),
        (PhasedElimination(noise_variance=-1.0), "noise_variance must be a number above 0, was -1.0"),
        (PhasedElimination(delta=1.0), "delta must be a number above 0 and below 1, was 1.0"),
        (PhasedElimination(design_tolerance=-1), "design_tolerance must be a number of at most 10 and above 0, was -1"),
    ],
)
def test_bad_parameters_are_named(policy: PhasedElimination, message: str) -> None:
    with pytest.raises(InputError) as error:
        policy.start(Setting(actions=Actions(np.eye(2)), horizon=30))
    assert message in str(error.value)


def test_needs_a_horizon() -> None:
    with pytest.raises(InputError, match="horizon must be given to phased-elimination, was None"):
        PhasedElimination().start(Setting(actions=Actions(np.eye(2))))
