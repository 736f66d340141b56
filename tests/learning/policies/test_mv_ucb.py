"""MV-UCB: its index, the refreshes of its logarithm, and the kernel that plays it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riskroute import Actions, Environment, InputError, Problem, Setting, check_policy, random_problem, simulate
from riskroute.environments import PiecewiseStationary
from riskroute.learning.policies.mv_ucb import MvUcb


def naive_choice(history: dict[int, list[float]], t: int, rho: float) -> int:
    """Index from all single rewards: variance - rho mean - b sqrt(log t / n), b = sqrt(3) (2 + rho) / sqrt(2)."""
    b = math.sqrt(3) * (2 + rho) / math.sqrt(2)
    index = {arm: np.var(x) - rho * np.mean(x) - b * math.sqrt(math.log(t) / len(x)) for arm, x in history.items()}
    return min(index, key=lambda arm: (index[arm], arm))


@pytest.mark.parametrize("refresh", [0.0, 0.01, 0.3])
def test_plays_the_index_of_vakili_and_zhao(small_problem: Problem, refresh: float) -> None:
    """``stale`` is the t of the last refresh: it moves when t has grown by the fraction, or by a round at least."""
    horizon, size = 400, small_problem.actions.size
    environment = Environment(small_problem)
    policy = MvUcb(refresh=refresh).start(environment.setting(horizon))
    run = environment.run(np.random.default_rng(4))
    history: dict[int, list[float]] = {}
    stale = 1
    for t in range(horizon):
        if t > stale and t >= (1 + refresh) * stale:
            stale = t
        action = policy.select()
        assert action == (t if t < size else naive_choice(history, stale, rho=2.0))
        reward = run.reward(action)
        history.setdefault(action, []).append(reward)
        policy.update(action, reward)
    assert policy.recommend() == max(history, key=lambda arm: (len(history[arm]), -arm))


def test_each_constant_has_a_name() -> None:
    setting = Setting(actions=Actions(np.eye(2)), risk_tolerance=3.0)
    standard = MvUcb(refresh=0).start(setting)
    assert standard.bonus_at(50) == pytest.approx(math.sqrt(3) * 5 / math.sqrt(2) * math.sqrt(math.log(50)))
    other = MvUcb(scale=7.0, exponent=2.0, concentration=0.5, refresh=0).start(setting)
    assert other.bonus_at(50) == pytest.approx(7 * math.sqrt(2 * math.log(50) / 0.5))


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("refresh", [0.0, 0.01, 0.25, 1.0])
def test_bonus_by_round_is_the_bonus_of_the_round(refresh: float) -> None:
    """In any order of asking; and the stale logarithm is never behind by more than the fraction, or one round."""
    policy = MvUcb(refresh=refresh).start(Setting(actions=Actions(np.eye(2)), risk_tolerance=2.0))
    rounds = np.random.default_rng(0).permutation(1000)
    by_round = policy.bonuses(1000)
    assert [policy.bonus_at(int(t)) for t in rounds] == by_round[rounds].tolist()
    t = np.arange(2, 1000)
    exact = math.sqrt(24) * np.sqrt(np.log(t))
    behind = math.sqrt(24) * np.sqrt(np.log(np.maximum(t / (1 + refresh), 1)))
    assert (by_round[2:] <= exact + 1e-12).all()
    assert (by_round[2:] >= behind - 1e-12).all()
    assert len(policy.changes(100_000)) == len(np.unique(policy.bonuses(100_000)))


def test_the_logarithm_is_refreshed_about_a_thousand_times_in_a_hundred_thousand_rounds() -> None:
    policy = MvUcb().start(Setting(actions=Actions(np.eye(2))))
    assert len(policy.changes(100_000)) < 100 + math.log(1000) / math.log(1.01)


def environments() -> list[Environment]:
    actions = Actions.scaled(np.random.default_rng(8).standard_normal((37, 3)))
    problems = [random_problem(actions, seed) for seed in range(3)]
    return [Environment(problems[0]), PiecewiseStationary(problems, [200, 700])]


@pytest.mark.parametrize("environment", environments(), ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("horizon", [5, 37, 38, 900])
@pytest.mark.parametrize("refresh", [0.0, 0.01])
def test_kernel_decides_exactly_as_the_policy(environment: Environment, horizon: int, refresh: float) -> None:
    """The kernel and the round-by-round policy draw the same noise, so every decision and reward must agree."""
    kernel, rounds = (
        simulate(environment, [MvUcb(refresh=refresh)], horizon, runs=2, seed=2, method=method).policies["mv-ucb"]
        for method in ("auto", "rounds")
    )
    np.testing.assert_array_equal(kernel.regret, rounds.regret)
    np.testing.assert_array_equal(kernel.pseudo_regret, rounds.pseudo_regret)
    assert kernel.recommended == rounds.recommended
    assert kernel.exploration.tolist() == rounds.exploration.tolist()


@pytest.mark.usefixtures("untraced")
def test_other_parameters_pass_the_shared_checks() -> None:
    check_policy(MvUcb(scale=1.0, exponent=2.0, concentration=1.0, refresh=0.0))


def test_needs_no_horizon() -> None:
    policy = MvUcb().start(Setting(actions=Actions(np.eye(3))))
    for _ in range(50):
        policy.update(policy.select(), 0.1)
    assert policy.played == 50


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (MvUcb(scale=-1.0), "scale must be a number of at least 0, was -1.0"),
        (MvUcb(exponent=0.0), "exponent must be a number above 0, was 0.0"),
        (MvUcb(concentration=-2), "concentration must be a number above 0, was -2"),
        (MvUcb(refresh=-0.1), "refresh must be a number of at least 0 and of at most 1, was -0.1"),
        (MvUcb(refresh=math.nan), "refresh must be a number of at least 0 and of at most 1, was nan"),
    ],
)
def test_bad_parameters_are_named(policy: MvUcb, message: str) -> None:
    with pytest.raises(InputError) as error:
        policy.start(Setting(actions=Actions(np.eye(2))))
    assert message in str(error.value)


def test_beats_uniform_play_and_slows_down(small_problem: Problem) -> None:
    """Ten arms: after 50,000 rounds a third of uniform play's regret at most, and the last half adds less than it."""
    result = simulate(small_problem, {"mv-ucb": MvUcb(), "uniform": "uniform"}, horizon=50_000, runs=10, seed=3)
    ours, uniform = (one.mean_regret() for one in result.policies.values())
    half = np.interp(25_000, result.policies["mv-ucb"].checkpoints, ours)
    assert ours[-1] < uniform[-1] / 3
    assert ours[-1] - half < half
