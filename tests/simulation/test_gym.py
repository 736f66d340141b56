"""Gymnasium environments: gymnasium's checker, stated moments, regret, seeding, bad input."""

from __future__ import annotations

import itertools
import math
import runpy
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from riskroute import (
    Allocations,
    Environment,
    InputError,
    RiskrouteError,
    StateError,
    random_problem,
    random_routing_problem,
    simulate,
)
from riskroute.core.seeding import seed_stream
from riskroute.policies import Adaptive, Uniform
from riskroute.routing import list_splits
from riskroute.simulation import gym
from riskroute.simulation.gym import ReplayRoutingEnv, RoutingEnv, SyntheticRoutingEnv, _synthetic_replay
from riskroute.simulation.replay import Replay

IDS = ("riskroute/Synthetic-v0", "riskroute/Replay-v0")
ACTION_MODES = ("discrete", "weights")
KINDS = list(itertools.product(IDS, ACTION_MODES))


def lots_replay(*, listed: bool) -> Replay:
    """12 shares in lots of 2 over three slots with different caps and a minimum; profits beyond caps are unknown."""
    actions = Allocations(12, 3, lot=2, caps=[12, 4, 9], minimums=[2, 0, 0])
    costs = np.random.default_rng(3).exponential(size=(3, 40, 12)).cumsum(axis=2)
    profits = np.concatenate([np.zeros((3, 40, 1)), -costs], axis=2)
    profits[1, :, 5:] = np.nan
    return Replay(random_problem(actions.listed() if listed else actions, 1), profits)


def make(name: str, **options: Any) -> RoutingEnv:
    made = gymnasium.make(name, **options).unwrapped
    assert isinstance(made, RoutingEnv)
    return made


def gaps(env: RoutingEnv, policy: Any, *, seed: int) -> float:
    """Sum of the gaps over one episode of a policy in its one-round form."""
    env.reset(seed=seed)
    policy.start(env.setting(), seed)
    truncated, total = False, 0.0
    while not truncated:
        action = policy.select()
        _, reward, _, truncated, info = env.step(env.encode(action))
        policy.update(action, reward)
        total += info["gap"]
    return total


@pytest.mark.parametrize(("name", "mode"), KINDS)
def test_gymnasium_checker_passes(name: str, mode: str) -> None:
    check_env(make(name, action_mode=mode))


@pytest.mark.parametrize("listed", [True, False])
def test_gymnasium_checker_passes_for_other_sizes(listed: bool) -> None:
    for mode in ACTION_MODES:
        check_env(make("riskroute/Replay-v0", replay=lots_replay(listed=listed), action_mode=mode))
    check_env(make("riskroute/Synthetic-v0", shares=1000, slots=20, action_mode="weights"))
    check_env(make("riskroute/Synthetic-v0", shares=3, slots=1))


def test_a_name_with_its_module_needs_no_import() -> None:
    env = gymnasium.make("riskroute.simulation.gym:riskroute/Synthetic-v0", shares=8, slots=6)
    assert env.action_space == gymnasium.spaces.Discrete(1287)


@pytest.mark.parametrize(("name", "mode"), KINDS)
def test_a_random_agent_plays_to_the_horizon(name: str, mode: str) -> None:
    env = gymnasium.make(name, action_mode=mode, horizon=60)
    env.reset(seed=2)
    env.action_space.seed(2)
    rewards: list[float] = []
    for number in range(1, 61):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        rewards.append(float(reward))
        assert not terminated
        assert truncated == (number == 60)
        assert observation in env.observation_space
        split = info["allocation"]
        expected = [number / 60, reward, np.mean(rewards), np.var(rewards), *(split / split.sum())]
        np.testing.assert_allclose(observation, expected, rtol=1e-9, atol=1e-12)


def test_environments_play_side_by_side() -> None:
    envs = gymnasium.make_vec("riskroute/Synthetic-v0", num_envs=3, horizon=5)
    envs.reset(seed=1)
    for _ in range(5):
        _, rewards, _, truncated, infos = envs.step(np.zeros(3, dtype=np.int64))
    assert truncated.all()
    assert len(set(rewards.tolist())) == 3
    assert infos["allocation"].tolist() == [[0, 0, 0, 4]] * 3


def stated(env: RoutingEnv, action: Any, steps: int) -> tuple[np.ndarray, dict[str, Any]]:
    env.reset(seed=5)
    rewards = [env.step(action) for _ in range(steps)]
    return np.array([reward for _, reward, *_ in rewards]), rewards[-1][-1]


def test_synthetic_rewards_have_the_stated_moments() -> None:
    """Five standard errors: of a mean, and of the variance of normal draws, ``variance * sqrt(2 / n)``."""
    env = SyntheticRoutingEnv(4, 3, instance=7, horizon=2000)
    rewards, info = stated(env, 6, 2000)
    problem = random_routing_problem(4, 3, seed=7)
    features = np.concatenate([info["allocation"], info["allocation"] ** 2]) / math.hypot(4, 16)
    assert info["mean"] == pytest.approx(features @ problem.mean_coef)
    assert info["variance"] == pytest.approx(features @ problem.var_coef + 1.0)
    assert rewards.mean() == pytest.approx(info["mean"], abs=5 * (info["variance"] / 2000) ** 0.5)
    assert rewards.var() == pytest.approx(info["variance"], abs=5 * info["variance"] * (2 / 2000) ** 0.5)


def test_replayed_rewards_have_the_stated_moments() -> None:
    """Five standard errors, that of the variance by the scenarios' own fourth moment."""
    env = ReplayRoutingEnv(horizon=2000)
    rewards, info = stated(env, env.encode((2, 1, 0, 4, 3)), 2000)
    assert info["allocation"].tolist() == [2, 1, 0, 4, 3]
    profits = _synthetic_replay().profits
    totals = np.array([sum(profits[k, s, q] for k, q in enumerate((2, 1, 0, 4, 3))) for s in range(profits.shape[1])])
    assert info["mean"] == pytest.approx(totals.mean())
    assert info["variance"] == pytest.approx(totals.var())
    assert rewards.mean() == pytest.approx(totals.mean(), abs=5 * totals.std() / 2000**0.5)
    fourth = ((totals - totals.mean()) ** 4).mean()
    assert rewards.var() == pytest.approx(totals.var(), abs=5 * ((fourth - totals.var() ** 2) / 2000) ** 0.5)
    assert set(rewards.round(9)) <= set(totals.round(9))


def naive_best(env: RoutingEnv, values: dict[tuple[int, ...], tuple[float, float]]) -> tuple[float, float]:
    """Mean and variance of the best split, looking at all."""
    tolerance = env.environment.risk_tolerance
    return min(values.values(), key=lambda pair: pair[1] - tolerance * pair[0])


@pytest.mark.parametrize("name", IDS)
def test_gap_and_regret_are_those_of_plain_sums(name: str) -> None:
    if name == IDS[0]:
        env: RoutingEnv = SyntheticRoutingEnv(4, 3, instance=2, risk_tolerance=1.5, horizon=200)
        problem = random_routing_problem(4, 3, seed=2)
        splits = list_splits(4, 3)
        features = np.hstack([splits, splits**2]) / math.hypot(4, 16)
        moments = np.column_stack([features @ problem.mean_coef, features @ problem.var_coef + 1.0])
        values = {tuple(split): tuple(pair) for split, pair in zip(splits.tolist(), moments.tolist(), strict=True)}
    else:
        replay = lots_replay(listed=True)
        env = ReplayRoutingEnv(replay, horizon=200)
        values = {}
        for split in itertools.product(range(2, 13, 2), range(0, 5, 2), range(0, 9, 2)):
            if sum(split) == 12:
                totals = sum(replay.profits[k, :, q] for k, q in enumerate(split))
                values[split] = (np.mean(totals), np.var(totals))
    tolerance = env.environment.risk_tolerance
    best_mean, best_variance = naive_best(env, values)
    assert env.action_space == gymnasium.spaces.Discrete(len(values))
    _, start = env.reset(seed=9)
    assert values[tuple(start["best"].tolist())] == pytest.approx((best_mean, best_variance))
    env.action_space.seed(1)
    rewards: list[float] = []
    for t in range(1, 201):
        _, reward, _, _, info = env.step(env.action_space.sample())
        rewards.append(reward)
        mean, variance = values[tuple(info["allocation"].tolist())]
        gap = variance - best_variance - tolerance * (mean - best_mean)
        assert info["gap"] == pytest.approx(gap, abs=1e-9)
        path = t * np.var(rewards) - tolerance * sum(rewards)
        assert info["regret"] == pytest.approx(path - (t - 1) * best_variance + tolerance * t * best_mean, abs=1e-7)


@pytest.mark.parametrize("mode", ACTION_MODES)
@pytest.mark.parametrize("name", IDS)
def test_regret_is_the_runners(name: str, mode: str) -> None:
    """The same random numbers through `simulate`, round by round."""
    env = make(name, horizon=300, action_mode=mode)
    label = (4, env.environment.stream_name, "adaptive", 0)
    env.np_random = np.random.default_rng(seed_stream(*label, "rewards"))
    env.reset()
    policy = Adaptive().start(env.setting(), seed_stream(*label, "policy"))
    for _ in range(300):
        action = policy.select()
        _, reward, _, _, info = env.step(env.encode(action))
        policy.update(action, reward)
    expected = simulate(env.environment, ["adaptive"], 300, runs=1, seed=4, method="rounds").policies["adaptive"]
    assert info["regret"] == pytest.approx(expected.regret[0, -1], rel=1e-9)


@pytest.mark.parametrize("name", IDS)
def test_policies_learn(name: str) -> None:
    """Over ten seeds adaptive's gaps were 3 % to 17 % of those of uniform play; a third is twice the worst of these."""
    env = make(name, horizon=700)
    ours, uniform = (gaps(env, policy, seed=3) for policy in (Adaptive(), Uniform()))
    assert ours < uniform / 3


@pytest.mark.parametrize(("name", "mode"), KINDS)
def test_a_seed_determines_the_episode(name: str, mode: str) -> None:
    def course(env: RoutingEnv, seed: int | None) -> list[float]:
        env.reset(seed=seed)
        env.action_space.seed(0)
        steps = [env.step(env.action_space.sample()) for _ in range(20)]
        return [number for step in steps for number in (step[1], *step[0], step[4]["regret"])]

    env, other = (make(name, action_mode=mode) for _ in range(2))
    first = course(env, 11)
    later = course(env, None)
    assert later != first
    assert course(env, 12) != first
    assert course(env, 11) == course(other, 11) == first
    assert course(env, None) == later


@pytest.mark.parametrize(
    "env",
    [
        (SyntheticRoutingEnv, {"shares": 5, "slots": 3}),
        (SyntheticRoutingEnv, {"shares": 1000, "slots": 20}),
        (ReplayRoutingEnv, {"replay": lots_replay(listed=True)}),
        (ReplayRoutingEnv, {"replay": lots_replay(listed=False)}),
    ],
    ids=["listed", "implicit", "listed lots", "implicit lots"],
)
def test_every_split_can_be_encoded_in_every_mode(env: tuple[Any, dict[str, Any]]) -> None:
    kind, options = env
    modes = ACTION_MODES if options.get("shares") != 1000 else ("weights",)
    for mode in modes:
        made: RoutingEnv = kind(**options, action_mode=mode)
        made.reset(seed=0)
        for action in made.environment.actions.sample(np.random.default_rng(0), 30):
            handle = int(action) if np.ndim(action) == 0 else tuple(action.tolist())
            said = made.encode(handle)
            assert said in made.action_space
            split = made.step(said)[-1]["allocation"]
            expected = list_splits(5, 3)[action] if isinstance(handle, int) else action
            assert split.tolist() == expected.tolist()


def test_discrete_actions_number_each_split_once() -> None:
    env = ReplayRoutingEnv(lots_replay(listed=False), horizon=100)
    env.reset(seed=0)
    played = [tuple(env.step(k)[-1]["allocation"].tolist()) for k in range(env.allocations.size)]
    assert played == [tuple(split) for split in env.allocations.listed().handles.tolist()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shares": 0}, "shares must be a positive integer, was 0"),
        ({"slots": 2.5}, "slots must be a positive integer, was 2.5"),
        ({"instance": -1}, "instance must be a non-negative integer, was -1"),
        ({"risk_tolerance": -2}, "risk_tolerance must be a number of at least 0, was -2"),
        ({"horizon": 0}, "horizon must be a positive integer, was 0"),
        (
            {"action_mode": "weight"},
            r"action_mode must be one of discrete, weights, was 'weight' \(did you mean weights",
        ),
        ({"shares": 1000, "slots": 20}, "action_mode must be weights for more than 200,000 splits, was 'discrete' for"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gymnasium.make("riskroute/Synthetic-v0", **options)


def test_bad_replays_are_named() -> None:
    whole = lots_replay(listed=True)
    some = Allocations(12, 3).listed_rows(np.array([[12, 0, 0], [2, 4, 6], [4, 4, 4]]))
    with pytest.raises(InputError, match="replay must be a Replay or None, was 'today'"):
        ReplayRoutingEnv("today")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="replay must be a Replay or None"):
        ReplayRoutingEnv(Environment(random_routing_problem(3, 2, 0)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"over all \d+ splits within its caps and minimums, was over 3"):
        ReplayRoutingEnv(Replay(random_problem(some, 0), whole.profits))
    with pytest.raises(InputError, match="horizon must be a positive integer, was True"):
        ReplayRoutingEnv(whole, horizon=True)


@pytest.mark.parametrize(
    ("mode", "action", "message"),
    [
        ("discrete", 15, "action must be at most 14, was 15"),
        ("discrete", -1, "action must be a non-negative integer, was -1"),
        ("discrete", 0.5, "action must be a non-negative integer, was 0.5"),
        ("weights", [1.0, 2.0], "weights must have 3 entries, had 2"),
        ("weights", [1.0, -0.5, 0.0], r"weights must be non-negative, was \[1.0, -0.5, 0.0\]"),
        ("weights", [1.0, np.nan, 0.0], "weights must be finite, was nan"),
        ("weights", "all", "weights must be a list of numbers"),
    ],
)
def test_bad_actions_are_named_and_play_nothing(mode: str, action: Any, message: str) -> None:
    env = SyntheticRoutingEnv(4, 3, horizon=1, action_mode=mode)
    env.reset(seed=0)
    with pytest.raises(InputError, match=message):
        env.step(action)
    assert env.step(env.action_space.sample())[3]


def test_splits_of_other_sets_cannot_be_encoded() -> None:
    with pytest.raises(InputError, match=r"action must be a split of Allocations\(4 shares over 3 slots.*was 15"):
        SyntheticRoutingEnv(4, 3).encode(15)
    env = ReplayRoutingEnv(lots_replay(listed=True))
    for wrong in ((12, 0), (4, 6, 2), (11, 1, 0), (12, 2, 0), 3):
        with pytest.raises(InputError, match="action must be a split of Allocations"):
            env.encode(wrong)


def test_steps_come_between_reset_and_horizon() -> None:
    env = SyntheticRoutingEnv(horizon=2)
    with pytest.raises(StateError, match=r"call reset\(\) first: the episode is at step 0 of 2"):
        env.step(0)
    with pytest.raises(InputError, match=r"options are not supported, was \{'instance': 3\}"):
        env.reset(options={"instance": 3})
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    with pytest.raises(StateError, match="at step 2 of 2"):
        env.step(0)


def test_without_gymnasium_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(RiskrouteError, match=r"need gymnasium: pip install 'riskroute\[gym\]'"):
        runpy.run_path(gym.__file__)
