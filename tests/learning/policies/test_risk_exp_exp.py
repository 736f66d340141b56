"""RiskExpExp: round-robin exploration and commitment."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riskroute import Actions, Setting, StateError, Tallies, Tally
from riskroute.policies import RiskExpExp
from riskroute.routing import split_actions


@pytest.mark.parametrize(("shares", "slots", "outlasts"), [(4, 4, False), (4, 5, False), (6, 6, True), (8, 6, True)])
def test_exploration_outlasts_the_horizon_for_large_sets_only(shares: int, slots: int, outlasts: bool) -> None:
    """K (T/14)^(2/3) exceeds T = 100,000 for K = 462 and 1287, not for 35 and 70, as the paper's text says."""
    actions = split_actions(shares, slots)
    policy = RiskExpExp().start(Setting(actions=actions, horizon=100_000))
    assert policy.explore_rounds() == math.ceil(actions.size * (100_000 / 14) ** (2 / 3))
    assert (policy.explore_rounds() > 100_000) == outlasts


def test_explores_in_turn_then_commits_to_the_lowest_empirical_mean_variance() -> None:
    horizon = 14 * 8  # 8^(2/3) = 4 rounds per arm
    policy = RiskExpExp().start(Setting(actions=Actions(np.eye(3)), horizon=horizon, risk_tolerance=1.0))
    rewards = {0: [1.0, 1.0, 1.0, 1.0], 1: [3.0, 0.0, 3.0, 0.0], 2: [1.5, 0.7, 1.5, 0.7]}
    played = []
    for t in range(12):
        action = policy.select()
        assert isinstance(action, int)
        played.append(action)
        policy.update(action, rewards[action][t // 3])
    assert played == [0, 1, 2] * 4
    expected = min(range(3), key=lambda arm: np.var(rewards[arm]) - np.mean(rewards[arm]))
    assert policy.recommend() == expected
    assert policy.plan().counts.tolist() == [horizon - 12]


def test_recommends_what_it_committed_to_however_that_turns_out() -> None:
    """After the commitment the chosen arm's rewards are bad; the run still ended on it."""
    policy = RiskExpExp().start(Setting(actions=Actions(np.eye(2)), horizon=14 * 8, risk_tolerance=1.0))
    with pytest.raises(StateError, match="risk-exp-exp is still exploring"):
        policy.recommend()
    for _ in range(8):
        action = policy.select()
        policy.update(action, 1.0 if action == 0 else 0.5)
    assert policy.recommend() == 0
    while policy.remaining:
        plan = policy.plan()
        assert plan.actions.tolist() == [0]
        policy.learn(Tallies.of(plan.actions, [Tally(int(plan.counts[0]), -9.0, 100.0)]))
    assert policy.recommend() == 0


def test_a_partial_last_turn_ends_exploration_exactly() -> None:
    policy = RiskExpExp(divisor=14.0).start(Setting(actions=Actions(np.eye(5)), horizon=40))
    explore = math.ceil(5 * (40 / 14) ** (2 / 3))
    assert explore == 11
    for t in range(explore):
        assert policy.select() == t % 5
        policy.update(policy.select(), 0.0)
    assert policy.plan().counts.tolist() == [40 - explore]
