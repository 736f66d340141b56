"""RISE against Algorithm 1 of the paper, written out reward by reward."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riskroute import Actions, Problem, Setting, Tallies, Tally, random_routing_problem
from riskroute.learning.actions import as_action
from riskroute.policies import Rise


def naive_commitment(features: np.ndarray, played: list[int], rewards: np.ndarray, omega: float, rho: float) -> int:
    """Steps 3 and 4: both least-squares estimates from single rewards, then the argmin."""
    gram = sum(np.outer(features[a], features[a]) for a in played)
    theta = np.linalg.solve(gram, sum(x * features[a] for a, x in zip(played, rewards, strict=True)))
    phi = np.linalg.solve(
        gram,
        sum(((x - theta @ features[a]) ** 2 - omega) * features[a] for a, x in zip(played, rewards, strict=True)),
    )
    return int(np.argmin(features @ (phi - rho * theta)))


@pytest.mark.parametrize("seed", range(5))
def test_commits_to_the_action_of_algorithm_1(gaussian_problem: Problem, seed: int) -> None:
    actions = gaussian_problem.actions
    assert isinstance(actions, Actions)
    rise = Rise().start(Setting(actions=actions, horizon=300, risk_tolerance=2.0, base_variance=1.0))
    rng = np.random.default_rng(seed)
    explore = rise.plan().rounds
    played, rewards = [], []
    for _ in range(explore):
        action = rise.select()
        assert isinstance(action, int)
        played.append(action)
        rewards.append(rng.normal(gaussian_problem.means(np.array([action]))[0], 1.0))
        rise.update(action, rewards[-1])
    expected = naive_commitment(actions.matrix, played, np.array(rewards), omega=1.0, rho=2.0)
    assert rise.recommend() == expected
    assert rise.plan().counts.tolist() == [300 - explore]
    assert as_action(rise.plan().actions[0]) == expected


def test_practical_exploration_is_slots_times_t_to_two_thirds() -> None:
    """Paper, section 5.2: n = ceil(d T^(2/3)); d counts slots in the figures, and 2 d is reachable."""
    problem = random_routing_problem(shares=4, slots=4, seed=0)
    setting = Setting(actions=problem.actions, horizon=100_000)
    assert Rise().start(setting).plan().rounds == math.ceil(4 * 100_000 ** (2 / 3))
    assert Rise(explore_multiplier=8).start(setting).plan().rounds == math.ceil(8 * 100_000 ** (2 / 3))


def test_practical_exploration_does_not_round_a_perfect_cube_up() -> None:
    setting = Setting(actions=Actions(np.eye(3)), horizon=1000)
    assert Rise().start(setting).plan().rounds == 300


def test_theory_counts_follow_the_equation_for_n_a(gaussian_problem: Problem) -> None:
    setting = Setting(actions=gaussian_problem.actions, horizon=10**9)
    rise = Rise(mode="theory", constant=0.1, delta=0.01, epsilon=0.3).start(setting)
    design = gaussian_problem.actions.design(0.01)
    expected = [
        math.ceil(0.1**2 * 4**2 * math.log(4) * math.log(100) ** 2 * design.bound * q / 0.3**2) for q in design.weights
    ]
    assert rise.plan().counts.tolist() == expected


def test_theory_defaults_are_those_of_theorem_1() -> None:
    """Delta is 1/T and epsilon d T^(-1/3); log(d) is taken as log(max(d, 2)), or it vanishes at d = 1."""
    horizon = 10**6
    rise = Rise(mode="theory", constant=0.5).start(Setting(actions=Actions([[1.0], [0.5]]), horizon=horizon))
    rounds = 0.25 * math.log(2) * math.log(horizon) ** 2 * 1.0 / (horizon ** (-1 / 3)) ** 2
    assert rise.plan().counts.tolist() == [math.ceil(rounds)]


def test_exploration_longer_than_the_horizon_is_shared_in_proportion() -> None:
    rise = Rise(explore_multiplier=1000).start(Setting(actions=Actions(np.eye(4)), horizon=40))
    assert rise.plan().counts.tolist() == [10, 10, 10, 10]


def test_ties_go_to_the_lowest_index() -> None:
    rise = Rise().start(Setting(actions=Actions(np.tile([1.0, 0.5], (6, 1))), horizon=64))
    plan = rise.plan()
    rise.learn(Tallies.of(plan.actions, [Tally(int(n), 0.3, float(n)) for n in plan.counts]))
    assert rise.recommend() == 0


def test_corrected_estimates_can_change_the_commitment() -> None:
    """With few rewards per action the paper's variance estimate is far too low where leverage is high."""
    actions = Actions([[1.0, 0.0], [0.0, 1.0], [0.05, 0.05]])
    chosen = []
    for corrected in (False, True):
        rise = Rise(explore_multiplier=1, corrected=corrected).start(
            Setting(actions=actions, horizon=8, risk_tolerance=0.0, base_variance=1.0)
        )
        plan = rise.plan()
        rise.learn(Tallies.of(plan.actions, [Tally(int(n), 0.0, 0.8 * int(n)) for n in plan.counts]))
        chosen.append(rise.recommend())
    assert chosen[0] in (0, 1)
    assert chosen[1] == 2
