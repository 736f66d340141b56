"""Restart with GSE against Algorithms 3 and 4 of the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riskroute import Actions, Environment, Problem, Setting, Tallies, Tally, g_optimal, random_problem, simulate
from riskroute.environments import PiecewiseStationary
from riskroute.learning.design.rounding import round_exact_counts
from riskroute.policies import RestartGse


def run_to_the_end(policy: RestartGse) -> list[tuple[int, int]]:
    """(survivors before, rounds) of every plan, with rewards that are all equal."""
    plans = []
    while policy.remaining:
        plan, size = policy.plan(), policy.survivors.size
        plans.append((size, plan.rounds))
        policy.learn(Tallies.of(plan.actions, [Tally(int(n), 0.0, float(n)) for n in plan.counts]))
    return plans


def test_halving_ends_at_one_action() -> None:
    """Halving 70 as printed would go on to zero: 35, 17, 8, 4, 2, 1, 0. It stops at one."""
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((70, 3)))
    sizes = [size for size, _ in run_to_the_end(RestartGse(cycle=200).start(Setting(actions=actions, horizon=200)))]
    assert sizes == [70, 35, 17, 8, 4, 2, 1]


def test_theory_budget_is_shared_over_the_halvings_really_run() -> None:
    """T^(2/9) is 12.9 rounds at T = 1e5; six halvings of 70 actions get two each, and the cycle lasts T^(2/3)."""
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((70, 3)))
    plans = run_to_the_end(RestartGse(mode="theory").start(Setting(actions=actions, horizon=100_000)))
    assert [rounds for size, rounds in plans[:6]] == [2] * 6
    cycle = math.ceil(100_000 ** (2 / 3))
    assert plans[6] == (1, cycle - 12)
    assert sum(rounds for _, rounds in plans) == 100_000
    assert len([size for size, _ in plans if size == 70]) == math.ceil(100_000 / cycle)


def test_practical_budget_covers_every_design() -> None:
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((70, 3)))
    policy = RestartGse().start(Setting(actions=actions, horizon=1000))
    while policy.survivors.size > 1:
        plan = policy.plan()
        assert len(plan.counts) == len(policy.survivors.design(policy.design_tolerance))
        policy.learn(Tallies.of(plan.actions, [Tally(int(n), 0.0, 1.0) for n in plan.counts]))


@pytest.mark.parametrize("objective", ["mean", "mean-variance"])
def test_one_cycle_is_algorithm_4(gaussian_problem: Problem, objective: str) -> None:
    """Explore the survivors' design, estimate from that piece alone, keep the better half, until one is left."""
    features = gaussian_problem.actions.listed().matrix
    policy = RestartGse(objective=objective, budget=100).start(Setting(actions=gaussian_problem.actions, horizon=5000))
    run, twin = (Environment(gaussian_problem).run(np.random.default_rng(3)) for _ in range(2))
    alive = np.arange(len(features))
    while len(alive) > 1:
        design = g_optimal(features[alive], policy.design_tolerance)
        counts = round_exact_counts(design.weights, max(100 // 5, len(design)))  # 40 actions: 5 halvings
        played = [int(alive[i]) for i, n in zip(design.actions, counts, strict=True) for _ in range(n)]
        rows = features[played]
        rewards = np.array([twin.reward(a) for a in played])
        theta = np.linalg.pinv(rows) @ rewards
        phi = np.linalg.pinv(rows) @ ((rewards - rows @ theta) ** 2 - 1.0)
        score = -(features @ theta) if objective == "mean" else features @ (phi - 2.0 * theta)
        alive = np.sort(alive[np.argsort(score[alive], kind="stable")[: len(alive) // 2]])
        for _ in played:
            action = policy.select()
            policy.update(action, run.reward(action))
        assert policy.survivors.listed().handles.tolist() == alive.tolist()
    assert policy.recommend() == alive[0]


def test_recovers_after_a_change() -> None:
    """The best action turns into the worst half-way: restarts must cost far less than never restarting.

    Gaps are about 1 per round and noise has deviation below 1.5, so a search of 30 rounds per halving is right nearly
    always; never restarting loses every round of the second half.
    """
    actions = Actions([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    first = Problem(actions=actions, mean_coef=np.array([0.9, 0.1]), var_coef=np.zeros(2))
    second = Problem(actions=actions, mean_coef=np.array([-0.9, 0.1]), var_coef=np.zeros(2))
    environment = PiecewiseStationary([first, second], [5000])
    policies = {"restart": RestartGse(cycle=1000, budget=60), "never": RestartGse(cycle=10_000, budget=60)}
    result = simulate(environment, policies, horizon=10_000, runs=10, seed=1)
    restart, never = (one.mean_regret()[-1] for one in result.policies.values())
    assert restart < 0.35 * never


def test_search_longer_than_a_cycle_starts_the_next_at_once() -> None:
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((16, 3)))
    plans = run_to_the_end(RestartGse(cycle=5).start(Setting(actions=actions, horizon=100)))
    assert all(size > 1 for size, _ in plans)


def test_one_action_needs_no_search() -> None:
    plans = run_to_the_end(RestartGse(cycle=30).start(Setting(actions=Actions([[1.0]]), horizon=100)))
    assert plans == [(1, 30), (1, 30), (1, 30), (1, 10)]


def test_random_problem_is_playable_with_theory_budget_below_one_round() -> None:
    """T = 50 gives T^(2/9) = 2.4 rounds for five halvings: one round each is the least that can be played."""
    problem = random_problem(Actions.scaled(np.random.default_rng(1).standard_normal((40, 4))), seed=0)
    policy = RestartGse(mode="theory").start(Setting(actions=problem.actions, horizon=50))
    assert [rounds for _, rounds in run_to_the_end(policy)[:5]] == [1] * 5
