"""RISE++ against Algorithm 2 of the paper, written out with explicit matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from riskroute import Actions, Environment, Problem, Setting, Tallies, Tally, g_optimal
from riskroute.policies import RisePlusPlus


def naive_phases(problem: Problem, horizon: int, constant: float, ridge: float, run: Any) -> list[list[int]]:
    """Survivors after every phase, by Algorithm 2, drawing one reward at a time from ``run``."""
    features = problem.actions.listed().matrix
    dim, alive, left, history, phase = features.shape[1], np.arange(len(features)), horizon, [], 0
    while len(alive) > 1 and left > 0:
        phase += 1
        epsilon = 2.0**-phase
        design = g_optimal(features[alive], 0.01)
        scale = constant**2 * dim**2 * math.log(dim) * math.log(horizon * horizon) ** 2 * dim / epsilon**2
        counts = [math.ceil(scale * q) for q in design.weights]
        if sum(counts) > left:
            break
        left -= sum(counts)
        played = [int(alive[i]) for i, n in zip(design.actions, counts, strict=True) for _ in range(n)]
        rewards = [run.reward(a) for a in played]
        matrix = ridge * np.eye(dim) + sum(np.outer(features[a], features[a]) for a in played)
        theta = np.linalg.solve(matrix, sum(x * features[a] for a, x in zip(played, rewards, strict=True)))
        squares = sum(
            ((x - theta @ features[a]) ** 2 - problem.base_variance) * features[a]
            for a, x in zip(played, rewards, strict=True)
        )
        score = features @ (np.linalg.solve(matrix, squares) - problem.risk_tolerance * theta)
        alive = alive[score[alive] - score[alive].min() <= 2 * epsilon]
        history.append(alive.tolist())
    return history


@pytest.mark.parametrize("seed", range(4))
def test_eliminates_exactly_as_algorithm_2(gaussian_problem: Problem, seed: int) -> None:
    horizon, constant, ridge = 6000, 0.02, 0.5
    environment = Environment(gaussian_problem)
    expected = naive_phases(gaussian_problem, horizon, constant, ridge, environment.run(np.random.default_rng(seed)))
    assert len(expected) >= 3
    policy = RisePlusPlus(constant=constant, ridge=ridge).start(environment.setting(horizon))
    run = environment.run(np.random.default_rng(seed))
    seen: list[list[int]] = []
    while len(seen) < len(expected):
        action = policy.select()
        policy.update(action, run.reward(action))
        if policy.pending is None:
            seen.append(policy.survivors.listed().handles.tolist())
    assert seen == expected


def test_phase_lengths_follow_the_equation(gaussian_problem: Problem) -> None:
    """Eq. (phase_elimination_phase_length), with C-hat = 0.01 and delta = 1/T in the practical mode."""
    horizon = 100_000
    policy = RisePlusPlus().start(Setting(actions=gaussian_problem.actions, horizon=horizon))
    design = gaussian_problem.actions.design(0.01)
    scale = 0.01**2 * 4**2 * math.log(4) * math.log(horizon**2) ** 2 * 4 / 0.25
    assert policy.plan().counts.tolist() == [math.ceil(scale * q) for q in design.weights]


def test_theory_constants_outlast_the_usual_horizon() -> None:
    """With C-hat = 1 the first phase at dimension 8 and T = 1e5 takes 2.3 million rounds: all there is, explored."""
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((60, 8)))
    policy = RisePlusPlus(mode="theory").start(Setting(actions=actions, horizon=100_000))
    assert 2.2e6 < policy._phase_rounds() < 2.4e6
    assert policy.plan().rounds == 100_000


def test_commits_when_one_action_is_left() -> None:
    actions = Actions([[1.0, 0.0], [0.0, 1.0]])
    policy = RisePlusPlus().start(Setting(actions=actions, horizon=100_000))
    plan = policy.plan()
    policy.learn(
        Tallies.of(plan.actions, [Tally(int(n), m, float(n)) for n, m in zip(plan.counts, (0.9, -0.9), strict=True)])
    )
    assert policy.survivors.size == 1
    assert policy.recommend() == 0
    assert policy.plan().counts.tolist() == [100_000 - plan.rounds]


def _rounds_left_after_the_first_phase(environment: Environment, horizon: int) -> int:
    policy = RisePlusPlus(constant=0.05).start(environment.setting(horizon))
    return horizon - policy.plan().rounds


def test_a_phase_cut_off_by_the_horizon_does_not_eliminate(gaussian_problem: Problem) -> None:
    """The paper eliminates after full phases only. One round of a new phase must not overturn what is known."""
    environment = Environment(gaussian_problem)
    horizon = next(t for t in range(50, 5000) if _rounds_left_after_the_first_phase(environment, t) == 1)
    policy = RisePlusPlus(constant=0.05).start(environment.setting(horizon))
    run = environment.run(np.random.default_rng(0))
    policy.learn(run.tally(policy.plan()))
    known, survivors = policy.recommend(), policy.survivors.size
    assert policy.remaining == 1
    policy.learn(run.tally(policy.plan()))
    assert policy.recommend() == known
    assert policy.survivors.size == survivors


def test_goes_on_with_survivors_that_do_not_span() -> None:
    """Second case of Algorithm 2: the survivors lie in a subspace, and the design is made in a basis of it."""
    actions = Actions([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.7, 0.7, 0.0], [0.0, 0.0, 1.0]])
    policy = RisePlusPlus().start(Setting(actions=actions, horizon=10**6, risk_tolerance=1.0))
    plan = policy.plan()
    means = {0: 0.5, 1: 0.5, 2: 0.5, 3: -5.0}
    policy.learn(
        Tallies.of(
            plan.actions,
            [Tally(int(n), means[int(a)], float(n)) for a, n in zip(plan.actions, plan.counts, strict=True)],
        )
    )
    assert policy.survivors.listed().handles.tolist() == [0, 1, 2]
    assert policy.survivors.design(0.01).rank == 2
    assert set(policy.plan().actions.tolist()) <= {0, 1, 2}


def test_equal_actions_are_never_separated() -> None:
    actions = Actions(np.tile([0.6, 0.8], (4, 1)))
    policy = RisePlusPlus().start(Setting(actions=actions, horizon=50_000))
    while policy.remaining:
        plan = policy.plan()
        policy.learn(Tallies.of(plan.actions, [Tally(int(n), 0.1, float(n)) for n in plan.counts]))
    assert policy.survivors.size == 4
    assert policy.recommend() == 0
