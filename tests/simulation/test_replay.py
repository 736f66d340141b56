"""Replay of recorded scenarios: moments, draws and the comparator against plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute import Allocations, InputError, Problem, check_environment, random_problem, simulate
from riskroute.core.seeding import seed_stream
from riskroute.learning.plan import Plan
from riskroute.learning.registry import make_policy
from riskroute.learning.regret import regret_checkpoints
from riskroute.simulation.replay import Replay
from riskroute.simulation.runner import _play_run


def random_replay(
    seed: int, shares: int = 4, slots: int = 3, scenarios: int = 20, *, listed: bool = True, smooth: bool = False
) -> Replay:
    """Costs that grow with the quantity, differently in every scenario; evenly if ``smooth``."""
    rng = np.random.default_rng(seed)
    actions = Allocations(shares, slots)
    problem = random_problem(actions.listed() if listed else actions, seed)
    costs = rng.exponential(size=(slots, scenarios, 1 if smooth else shares)) * np.linspace(1, 2, slots)[:, None, None]
    costs = costs * np.ones(shares)
    profits = np.concatenate([np.zeros((slots, scenarios, 1)), -costs.cumsum(axis=2)], axis=2)
    return Replay(problem, profits)


def naive_total(replay: Replay, split: tuple[int, ...], scenario: int) -> float:
    return sum(float(replay.profits[slot, scenario, shares]) for slot, shares in enumerate(split))


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 4))
def test_totals_and_moments_are_those_of_a_loop(seed: int, shares: int, slots: int) -> None:
    replay = random_replay(seed, shares, slots, scenarios=6)
    splits = replay.actions.sample(np.random.default_rng(seed), 5)
    expected = [[naive_total(replay, tuple(split), k) for k in range(6)] for split in splits.tolist()]
    np.testing.assert_allclose(replay.totals(splits), expected, atol=1e-12)
    mean, deviation = replay.moments(splits)
    np.testing.assert_allclose(mean, np.mean(expected, axis=1), atol=1e-12)
    np.testing.assert_allclose(deviation, np.std(expected, axis=1), atol=1e-12)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("listed", [True, False])
def test_the_shared_checks_hold(listed: bool) -> None:
    check_environment(random_replay(1, listed=listed), runs=1500)


@pytest.mark.parametrize("seed", range(5))
def test_the_comparator_is_the_best_of_all_splits(seed: int) -> None:
    replay = random_replay(seed, shares=5, slots=3)
    values = {
        split: np.var(total) - replay.risk_tolerance * np.mean(total)
        for split in itertools.product(range(6), repeat=3)
        if sum(split) == 5
        for total in [[naive_total(replay, split, k) for k in range(20)]]
    }
    assert replay.comparators[0] == min(values, key=lambda split: values[split])


@pytest.mark.parametrize("seed", range(8))
def test_local_search_ends_at_a_local_optimum(seed: int) -> None:
    """With costs in proportion to the quantity the mean-variance is convex, and a climb misses the best by little."""
    listed, implicit = (random_replay(seed, shares=6, slots=4, listed=flag, smooth=True) for flag in (True, False))
    best, found = listed.comparators[0], implicit.comparators[0]
    values = implicit.mean_variance(np.array([best, found]))
    assert values[1] <= values[0] + 0.02 * abs(values[0])
    for i, j in itertools.permutations(range(4), 2):
        moved = np.array(found)
        moved[i] -= 1
        moved[j] += 1
        if moved.min() >= 0:
            assert implicit.mean_variance(moved[None])[0] >= values[1]


def test_large_blocks_draw_like_single_rounds() -> None:
    replay = random_replay(3, scenarios=10)
    plan = Plan(np.array([[4, 0, 0], [1, 2, 1]]), np.array([5000, 3]))
    tallies = replay.run(np.random.default_rng(0)).tally(plan)
    mean, deviation = replay.moments(plan.actions)
    assert tallies.means[0] == pytest.approx(mean[0], abs=5 * deviation[0] / 5000**0.5)
    # the squared error of a variance from 5,000 draws is its fourth moment over 5,000: a tenth is far beyond
    assert tallies.spreads[0] / 5000 == pytest.approx(deviation[0] ** 2, rel=0.1)


def test_short_blocks_are_drawn_together_as_one_after_the_other() -> None:
    """Listed splits are looked up all at once; others block by block, from the same draws."""
    plan = Plan(np.array([[4, 0, 0], [1, 2, 1], [0, 0, 4], [1, 2, 1]]), np.array([1, 7, 2, 9]))
    together, apart = (
        random_replay(3, scenarios=10, listed=listed).run(np.random.default_rng(0)).tally(plan)
        for listed in (True, False)
    )
    np.testing.assert_allclose(together.means, apart.means)
    np.testing.assert_allclose(together.spreads, apart.spreads, atol=1e-12)


@pytest.mark.parametrize("policy", ["risk-ucb", "mv-ucb"])
def test_the_kernel_plays_index_policies_as_they_play_themselves(policy: str) -> None:
    replay, horizon = random_replay(4, scenarios=7), 300
    rounds = regret_checkpoints(horizon, 5, "linear")
    comparator = replay.expected_comparator(rounds)
    played = _play_run(replay, make_policy(policy), horizon, rounds, comparator, (3, "x", 0))
    rng = np.random.default_rng(seed_stream(3, replay.stream_name, "x", 0, "rewards"))
    drawn = rng.integers(replay.scenarios, size=horizon)
    twin = make_policy(policy).start(replay.setting(horizon), 0)
    rewards = []
    for scenario in drawn.tolist():
        action = twin.select()
        assert isinstance(action, tuple)
        rewards.append(naive_total(replay, action, scenario))
        twin.update(action, rewards[-1])
    total = np.var(rewards) * horizon - replay.risk_tolerance * sum(rewards)
    assert played.regret[0, -1] + comparator[-1] == pytest.approx(total, rel=1e-9)
    assert played.recommended == [twin.recommend()]


@pytest.mark.parametrize("policy", ["adaptive", "rise", "risk-ucb"])
def test_policies_learn_on_replay(policy: str) -> None:
    replay = random_replay(5, shares=4, slots=3, scenarios=50)
    result = simulate(replay, [policy, "uniform"], horizon=3000, runs=4, seed=1)
    ends = {name: one.mean_regret()[-1] for name, one in result.policies.items()}
    assert ends[policy] < ends["uniform"]


def test_profits_beyond_caps_may_be_unknown() -> None:
    actions = Allocations(4, 2, caps=[4, 1])
    problem = Problem(actions=actions, mean_coef=np.zeros(4), var_coef=np.zeros(4))
    profits = np.zeros((2, 3, 5))
    profits[1, :, 2:] = np.nan
    assert np.isfinite(Replay(problem, profits).totals(np.array([[3, 1], [4, 0]]))).all()
    profits[1, 1, 1] = np.nan
    with pytest.raises(InputError, match="profits must be finite for all amounts"):
        Replay(problem, profits)


def test_bad_input_is_named(gaussian_problem: Problem) -> None:
    actions = Allocations(4, 2)
    problem = Problem(actions=actions, mean_coef=np.zeros(4), var_coef=np.zeros(4))
    with pytest.raises(InputError, match=r"profits must have shape \(2, scenarios, 5\), was \(2, 3, 4\)"):
        Replay(problem, np.zeros((2, 3, 4)))
    with pytest.raises(InputError, match="profits must have shape"):
        Replay(problem, np.zeros((2, 0, 5)))
    with pytest.raises(InputError, match="problem must be over splits of an order"):
        Replay(gaussian_problem, np.zeros((3, 3, 4)))
    with pytest.raises(InputError, match="local search needs an unlisted set"):
        random_replay(0).climb((4, 0, 0))
