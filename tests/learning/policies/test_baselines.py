"""Oracle, uniform and greedy."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute import Actions, Environment, Problem, Setting, Tallies, random_problem, simulate
from riskroute.environments import Autocorrelated, PiecewiseStationary
from riskroute.policies import Greedy, Oracle, Uniform


def noisy_environments() -> list[Environment]:
    actions = Actions.scaled(np.random.default_rng(3).standard_normal((15, 3)))
    problems = [random_problem(actions, seed) for seed in (1, 2, 3)]
    return [
        Environment(problems[0]),
        Autocorrelated(problems[0], 0.6),
        Autocorrelated(problems[0], -0.6),
        Autocorrelated(problems[0], 0.6, scale="variance"),
        PiecewiseStationary(problems, [80, 150]),
        PiecewiseStationary(problems, [80, 150], comparator="mean-variance"),
    ]


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("environment", noisy_environments(), ids=lambda e: type(e).__name__)
def test_oracle_has_no_regret_on_average(environment: Environment) -> None:
    """It plays what the regret compares with, so its mean regret is within five standard errors of zero throughout."""
    oracle = simulate(environment, ["oracle"], horizon=200, runs=300, seed=4, checkpoints=12).policies["oracle"]
    error = oracle.std_regret() / np.sqrt(oracle.runs)
    assert (np.abs(oracle.mean_regret()) <= 5 * error + 1e-9).all()
    assert oracle.exploration.max() <= 200


def test_oracle_follows_its_schedule() -> None:
    policy = Oracle(schedule=((0, 2), (3, 0))).start(Setting(actions=Actions(np.eye(3)), horizon=5))
    played = []
    for _ in range(5):
        played.append(policy.select())
        policy.update(played[-1], 0.0)
    assert played == [2, 2, 2, 0, 0]
    assert policy.recommend() == 0


def test_uniform_plays_every_action_equally_often() -> None:
    """60,000 draws over 6 actions: each count is within 5 deviations (5 * 91) of 10,000."""
    policy = Uniform().start(Setting(actions=Actions(np.eye(6)), horizon=60_000), seed=1)
    counts = np.zeros(6)
    while policy.remaining:
        plan = policy.plan()
        np.add.at(counts, plan.actions, plan.counts)
        nothing = np.zeros(len(plan.counts))
        policy.learn(Tallies(plan.actions, plan.counts, nothing, nothing))
    assert counts.sum() == 60_000
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(60_000 * 5 / 36)


def test_greedy_tries_the_design_then_plays_what_looks_best(gaussian_problem: Problem) -> None:
    environment = Environment(gaussian_problem)
    policy = Greedy(tries=3, growth=0.5).start(environment.setting(1000))
    run = environment.run(np.random.default_rng(0))
    assert policy.plan().counts.tolist() == [3] * len(gaussian_problem.actions.design(0.01))
    policy.learn(run.tally(policy.plan()))
    while policy.remaining:
        best = policy.recommend()
        plan = policy.plan()
        assert plan.actions.tolist() == [best]
        assert plan.rounds == min(int(np.ceil(0.5 * policy.played)), policy.remaining)
        policy.learn(run.tally(plan))
