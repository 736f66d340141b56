"""RiskUCB: its index, its kernel, and the tournament tree under it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute import Actions, Environment, Plan, Problem, Setting, random_problem, simulate
from riskroute.environments import PiecewiseStationary
from riskroute.learning.actions import Action, as_action
from riskroute.learning.policies.arm_policy import IndexPolicy
from riskroute.learning.tournament import build_tournament, padded_tournament, update_tournament
from riskroute.policies import RiskUcb
from riskroute.simulation.environments import Autocorrelated
from riskroute.simulation.runner import _index_episode, _play_index, _play_rounds


def naive_choice(history: dict[Action, list[float]], horizon: int, rho: float) -> Action:
    """MV-LCB from all single rewards: variance - rho mean - (5 + rho) sqrt(log(1/delta) / (2 n)), delta = 1/T^2."""
    index = {
        arm: np.var(x) - rho * np.mean(x) - (5 + rho) * math.sqrt(math.log(horizon**2) / (2 * len(x)))
        for arm, x in history.items()
    }
    return min(index, key=lambda arm: (index[arm], arm))


def test_plays_the_index_of_sani_et_al(small_problem: Problem) -> None:
    horizon, arms = 400, [as_action(row) for row in small_problem.actions.listed().handles]
    environment = Environment(small_problem)
    policy = RiskUcb().start(environment.setting(horizon))
    run = environment.run(np.random.default_rng(4))
    history: dict[Action, list[float]] = {}
    for t in range(horizon):
        action = policy.select()
        assert action == (arms[t] if t < len(arms) else naive_choice(history, horizon, rho=2.0))
        reward = run.reward(action)
        history.setdefault(action, []).append(reward)
        policy.update(action, reward)
    assert policy.recommend() == max(arms, key=lambda arm: (len(history[arm]), -arms.index(arm)))


def test_each_constant_has_a_name() -> None:
    setting = Setting(actions=Actions(np.eye(2)), horizon=100, risk_tolerance=3.0)
    assert RiskUcb().start(setting).bonus_at(0) == pytest.approx(8 * math.sqrt(math.log(100**2) / 2))
    assert RiskUcb(scale=2.0, divisor=1.0, delta=0.1).start(setting).bonus_at(0) == pytest.approx(
        2 * math.sqrt(math.log(10))
    )


def environments() -> list[Environment]:
    actions = Actions.scaled(np.random.default_rng(8).standard_normal((37, 3)))
    problems = [random_problem(actions, seed) for seed in range(3)]
    return [
        Environment(problems[0]),
        Autocorrelated(problems[0], 0.6),
        Autocorrelated(problems[0], -0.6, scale="variance"),
        PiecewiseStationary(problems, [200, 700]),
    ]


@pytest.mark.parametrize("environment", environments(), ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("horizon", [5, 37, 900])
def test_kernel_decides_exactly_as_the_policy(environment: Environment, horizon: int) -> None:
    """The kernel and the round-by-round policy draw the same noise, so every decision and reward must agree."""
    kernel = simulate(environment, ["risk-ucb"], horizon, runs=3, seed=2)
    rounds = simulate(environment, ["risk-ucb"], horizon, runs=3, seed=2, method="rounds")
    np.testing.assert_array_equal(kernel.policies["risk-ucb"].regret, rounds.policies["risk-ucb"].regret)
    np.testing.assert_array_equal(kernel.policies["risk-ucb"].pseudo_regret, rounds.policies["risk-ucb"].pseudo_regret)
    assert kernel.policies["risk-ucb"].recommended == rounds.policies["risk-ucb"].recommended
    assert kernel.policies["risk-ucb"].exploration.tolist() == rounds.policies["risk-ucb"].exploration.tolist()


def test_kernel_breaks_ties_towards_the_first_arm() -> None:
    arms, _, counts, *_ = _index_episode(
        np.zeros((1, 5)), np.zeros((1, 5)), np.zeros(12, dtype=np.int64), np.zeros(12), np.ones(12), 2.0
    )
    assert arms.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
    assert counts.tolist() == [3, 3, 2, 2, 2]


@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_kernel_follows_a_bonus_that_changes(size: int) -> None:
    """A plain scan over all arms in every round decides alike, whenever and however the bonus changes."""
    rng = np.random.default_rng(size)
    means, noise = rng.normal(size=size), rng.normal(size=300)
    bonuses = np.repeat(rng.uniform(0, 9, size=300), rng.integers(1, 12, size=300))[:300]
    history: list[list[float]] = [[] for _ in range(size)]
    expected = []
    for t in range(300):
        index = [np.var(x) - 2 * np.mean(x) - bonuses[t] / math.sqrt(len(x)) for x in history if x]
        arm = t if t < size else int(np.argmin(index))
        history[arm].append(means[arm] + noise[t])
        expected.append(arm)
    arms, _, counts, *_ = _index_episode(
        means[None], np.ones((1, size)), np.zeros(len(noise), dtype=np.int64), noise, bonuses, 2.0
    )
    assert arms.tolist() == expected
    assert counts.tolist() == [len(x) for x in history]


def test_kernel_plays_no_subclass_that_decides_otherwise(small_problem: Problem) -> None:
    assert not _LastArm().has_kernel
    result = simulate(small_problem, {"last": _LastArm()}, horizon=100, runs=1, seed=1).policies["last"]
    assert result.recommended == [9]
    assert result.exploration.tolist() == [0]


class _LastArm(RiskUcb):
    name = "test-last-arm"

    def propose(self) -> Plan:
        return Plan.repeat(self.arm(len(self.handles) - 1), 1)


@dataclass(kw_only=True)
class _Doubling(IndexPolicy):
    """A policy of a user's: says what its bonus is, not when it changes."""

    name = "test-doubling"
    needs_horizon = False

    def bonus_at(self, played: int) -> float:
        return math.sqrt(played.bit_length())


@pytest.mark.parametrize("policy", [RiskUcb(), _Doubling()], ids=lambda one: one.name)
def test_the_kernel_plays_an_own_index_policy_and_leaves_it_as_its_rounds_would(
    small_problem: Problem, policy: IndexPolicy
) -> None:
    assert policy.has_kernel
    environment = Environment(small_problem)
    kernel, rounds = (policy.clone().start(environment.setting(400), 0) for _ in range(2))
    _play_index(environment, kernel, np.random.default_rng(1))
    _play_rounds(environment, rounds, np.random.default_rng(1))
    assert kernel.state() == rounds.state()
    assert kernel.remaining == 0
    auto, by_rounds = (
        simulate(small_problem, {"own": policy}, 400, 2, method=how).policies["own"].regret
        for how in ("auto", "rounds")
    )
    np.testing.assert_array_equal(auto, by_rounds)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(-3, 3)), max_size=60),
)
def test_tournament_root_is_the_first_minimum(values: list[int], changes: list[tuple[int, int]]) -> None:
    index = padded_tournament(np.array(values, dtype=float))
    winners = build_tournament(index)
    assert winners[1] == np.argmin(index)
    for leaf, value in changes:
        index[leaf % len(values)] = value
        update_tournament(winners, index, leaf % len(values))
        assert winners[1] == np.argmin(index)


def test_works_on_a_subset_whose_handles_are_not_positions(small_problem: Problem) -> None:
    subset = small_problem.actions.top(np.ones(small_problem.actions.dim), 4)
    policy = RiskUcb().start(Setting(actions=subset, horizon=30))
    played = set()
    for _ in range(30):
        played.add(policy.select())
        policy.update(policy.select(), 0.1)
    assert played == set(map(as_action, subset.listed().handles))
    assert policy.recommend() in played
