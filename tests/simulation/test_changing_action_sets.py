"""Changing action sets: a naive twin, offers, the oracle, bad input."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from naive_learning import path_mean_variance, pseudo_regret
from riskroute import (
    Actions,
    ActionSet,
    Allocations,
    Environment,
    InputError,
    Plan,
    Policy,
    Problem,
    StateError,
    Tallies,
    check_environment,
    random_problem,
    simulate,
)
from riskroute.core.seeding import seed_stream
from riskroute.policies import Uniform
from riskroute.routing.instances import random_instance_sizes
from riskroute.routing.splits import list_splits
from riskroute.simulation.environments import ChangingActionSets, _VaryingSetOracle

SIZES = [2, 4, 7]
PROBLEMS, SEQUENCE = random_instance_sizes(SIZES, slots=3, seed=1, length=23)
ORDERS = PROBLEMS  # with splits as handles
PROBLEMS = [replace(one, actions=Actions(one.actions.listed().rows, coordinates=3)) for one in ORDERS]
FLOW = ChangingActionSets(PROBLEMS, SEQUENCE)


def mean_variance(problem: Problem, action: int) -> tuple[float, float]:
    """By the definition, from the features of one action."""
    features = problem.actions.listed().matrix[action]
    return float(features @ problem.mean_coef), float(features @ problem.var_coef + problem.base_variance)


def best_of(problem: Problem) -> int:
    values = []
    for action in range(problem.actions.size):
        mean, variance = mean_variance(problem, action)
        values.append(variance - problem.risk_tolerance * mean)
    return int(np.argmin(values))


def test_passes_the_shared_checks() -> None:
    check_environment(FLOW, runs=1500)


@pytest.mark.parametrize("method", ["auto", "rounds"])
def test_equals_a_naive_twin(method: str) -> None:
    """Uniform play by plain loops, with the streams of the runner: regret, pseudo-regret, luck, and where it ended."""
    horizon, rho = 60, 2.0
    one = simulate(FLOW, ["uniform"], horizon=horizon, runs=2, seed=5, checkpoints=8, method=method).policies["uniform"]
    for run in range(2):
        rng = np.random.default_rng(seed_stream(5, FLOW.stream_name, "uniform", run, "rewards"))
        policy = Uniform().start(FLOW.setting(horizon), seed_stream(5, FLOW.stream_name, "uniform", run, "policy"))
        columns: list[list[Any]] = [[] for _ in range(7)]
        rewards, means, variances, gaps, actions, best_means, best_variances = columns
        for t in range(horizon):
            problem = PROBLEMS[SEQUENCE[t % 23]]
            policy.offer(problem.actions)
            action = policy.select()
            assert isinstance(action, int)
            assert 0 <= action < problem.actions.size
            mean, variance = mean_variance(problem, action)
            best_mean, best_variance = mean_variance(problem, best_of(problem))
            reward = mean + np.sqrt(variance) * rng.standard_normal()
            policy.update(action, reward)
            for column, value in (
                (rewards, reward),
                (means, mean),
                (variances, variance),
                (gaps, variance - rho * mean - best_variance + rho * best_mean),
                (actions, action),
                (best_means, best_mean),
                (best_variances, best_variance),
            ):
                column.append(value)
        for c, t in enumerate(one.checkpoints):
            m = np.array(best_means[:t])
            expected = sum(best_variances[:t]) * (1 - 1 / t) + ((m - m.mean()) ** 2).sum() - rho * m.sum()
            assert one.regret[run, c] == pytest.approx(path_mean_variance(np.array(rewards[:t]), rho) - expected)
            luck = 0.0
            for x, mu, v in zip(rewards[:t], means, variances, strict=False):
                luck += (x - mu) ** 2 - v - rho * (x - mu) + 2 * (mu - m.mean()) * (x - mu)
            assert one.luck[run, c] == pytest.approx(luck)
        pseudo = pseudo_regret(np.array(means), np.array(gaps))
        np.testing.assert_allclose(one.pseudo_regret[run], pseudo[one.checkpoints - 1])
        assert one.recommended[run] == policy.recommend() == actions[-1]
        alike = [a for t, a in enumerate(actions) if SEQUENCE[t % 23] == SEQUENCE[59 % 23]]
        assert one.exploration[run] == sum(a != actions[-1] for a in alike)


@pytest.mark.usefixtures("untraced")
def test_steady_regret_is_far_steadier() -> None:
    result = simulate(FLOW, ["oracle", "uniform"], horizon=250, runs=25, seed=3, checkpoints=4)
    for (label, one), factor in zip(result.policies.items(), (100, 2), strict=True):
        assert one.regret[:, -1].var() > factor * one.steady_regret[:, -1].var(), label


@pytest.mark.usefixtures("untraced")
def test_oracle_plays_the_best_of_every_set() -> None:
    result = simulate(FLOW, ["oracle"], horizon=100, runs=100, seed=3, checkpoints=10)
    one = result.policies["oracle"]
    assert (np.abs(one.mean_regret()) <= 5 * one.std_regret() / np.sqrt(100)).all()
    assert one.exploration.tolist() == [0] * 100
    assert result.best == best_of(PROBLEMS[SEQUENCE[99 % 23]])
    assert set(one.recommended) == {result.best}
    gaps_only = [FLOW.gaps(np.array([best_of(problem)]), k)[0] for k, problem in enumerate(PROBLEMS)]
    np.testing.assert_allclose(gaps_only, 0.0, atol=1e-12)


def test_oracle_schedule_merges_equal_neighbours() -> None:
    environment = ChangingActionSets(PROBLEMS, [2, 2, 0, 1])
    best = [best_of(problem) for problem in PROBLEMS]
    assert environment.comparators == tuple(best)
    assert environment.oracle_schedule(7) == ((0, best[2]), (2, best[0]), (3, best[1]), (4, best[2]), (6, best[0]))
    assert environment.oracle_schedule(1) == ((0, best[2]),)


def test_the_setting_holds_the_set_of_the_first_round() -> None:
    environment = ChangingActionSets(PROBLEMS, [2, 0])
    assert environment.setting(10).actions is PROBLEMS[2].actions
    assert environment.actions is PROBLEMS[2].actions


@dataclass(kw_only=True)
class Recorder(Policy):
    """Plays the first action in long plans, and records the sets offered."""

    name: ClassVar[str] = "recorder"
    fixed_set: ClassVar[bool] = False
    offers: ClassVar[list[ActionSet]] = []
    learned: ClassVar[list[int]] = []

    def offer(self, actions: ActionSet) -> None:
        super().offer(actions)
        self.offers.append(actions)

    def propose(self) -> Plan:
        return Plan.repeat(0, self.remaining)

    def observe(self, tallies: Tallies) -> None:
        self.learned.extend(tallies.counts.tolist())

    def recommend(self) -> int:
        return 0


def test_every_round_is_offered_its_set_and_plans_end_where_it_changes() -> None:
    Recorder.offers.clear()
    Recorder.learned.clear()
    environment = ChangingActionSets(PROBLEMS, [0, 0, 1, 2, 2, 2])
    simulate(environment, [Recorder()], horizon=14, runs=1)
    expected = [0, 0, 1, 2, 2, 2, 0, 0, 1, 2, 2, 2, 0, 0]
    assert [PROBLEMS.index(next(p for p in PROBLEMS if p.actions is offer)) for offer in Recorder.offers] == expected
    assert Recorder.learned == [2, 1, 3, 2, 1, 3, 2]


@pytest.mark.parametrize("policy", ["rise", "risk-ucb"])
def test_policies_that_need_one_set_refuse(policy: str) -> None:
    with pytest.raises(StateError, match=f"{policy} needs the same action set in every round"):
        simulate(FLOW, [policy], horizon=200, runs=1)
    same = ChangingActionSets(PROBLEMS, [1])
    assert simulate(same, [policy], horizon=200, runs=1).policies[policy].runs == 1


def test_the_same_set_throughout_is_the_plain_environment() -> None:
    varying, plain = ChangingActionSets(PROBLEMS, [1]), Environment(PROBLEMS[1])
    rounds = np.array([1, 7, 1000])
    np.testing.assert_allclose(varying.expected_comparator(rounds), plain.expected_comparator(rounds))
    np.testing.assert_allclose(varying.comparator_means(rounds), plain.comparator_means(rounds))


def test_rounds_are_counted_by_set_over_all_cycles() -> None:
    rounds = np.array([1, 22, 23, 24, 46, 100])
    everything = np.array([SEQUENCE[t % 23] for t in range(100)])
    np.testing.assert_array_equal(FLOW.piece_at(np.arange(100)), everything)
    expected = [[np.sum(everything[:t] == k) for k in range(3)] for t in rounds]
    np.testing.assert_array_equal(FLOW.rounds_in(rounds), expected)


def test_a_long_sequence_costs_one_table_per_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = ChangingActionSets._comparator

    def noted(self: ChangingActionSets, piece: int) -> Any:
        asked.append(piece)
        return real(self, piece)

    monkeypatch.setattr(ChangingActionSets, "_comparator", noted)
    environment = ChangingActionSets(*random_instance_sizes(SIZES, slots=3, seed=1, length=100_000))
    simulate(environment, ["oracle", "uniform"], horizon=300, runs=2)
    assert asked == [0, 1, 2]
    assert sorted(environment._tables) == [0, 1, 2]
    environment.expected_comparator(np.arange(1, 100_001, 1000))


def test_sets_that_are_not_listed_give_the_same_curves() -> None:
    """Handles are then vectors of shares; the actions are the same."""
    sets = [Allocations(size, 3, scale=math.hypot(max(SIZES), max(SIZES) ** 2)) for size in SIZES]
    environment = ChangingActionSets([dataclasses.replace(PROBLEMS[0], actions=one) for one in sets], SEQUENCE)
    rounds = np.array([1, 40])
    np.testing.assert_allclose(environment.expected_comparator(rounds), FLOW.expected_comparator(rounds))
    result = simulate(environment, ["oracle", "uniform"], horizon=60, runs=2)
    last = SEQUENCE[59 % 23]
    assert result.best == tuple(list_splits(SIZES[last], 3)[best_of(PROBLEMS[last])])
    assert result.policies["oracle"].exploration.tolist() == [0, 0]
    assert all(sum(action) == SIZES[last] for action in result.policies["uniform"].recommended)


def test_config_says_what_was_run() -> None:
    config = simulate(FLOW, ["oracle"], horizon=10, runs=1).config
    assert config["environment"]["sequence"] == SEQUENCE.tolist()
    assert config["environment"]["sets"] == [problem.actions.fingerprint for problem in PROBLEMS]
    json.dumps(config)
    other = ChangingActionSets(PROBLEMS, SEQUENCE[::-1])
    assert other.identity != FLOW.identity == ChangingActionSets(PROBLEMS, SEQUENCE.tolist()).identity
    assert repr(FLOW) == "ChangingActionSets(3 sets, dim 6)"


def test_order_flow_shares_coefficients_and_scale() -> None:
    """A split's mean is the same linear function of its shares and their squares, whatever the order's size."""
    scale = math.hypot(max(SIZES), max(SIZES) ** 2)
    for problem, size in zip(ORDERS, SIZES, strict=True):
        splits = list_splits(size, 3)
        features = np.hstack([splits, splits**2]) / scale
        np.testing.assert_allclose(problem.means(splits), features @ PROBLEMS[0].mean_coef)
    assert PROBLEMS[-1].actions.largest_norm() == pytest.approx(1.0)


def test_order_flow_draws_sizes_evenly_and_by_seed() -> None:
    """9,000 rounds: each of three counts is within five deviations of 3,000."""
    sequence = random_instance_sizes(SIZES, 3, seed=1, length=9000)[1]
    assert np.abs(np.bincount(sequence) - 3000).max() < 5 * np.sqrt(9000 * 2 / 9)
    np.testing.assert_array_equal(sequence[:23], random_instance_sizes(SIZES, 3, seed=1, length=9000)[1][:23])
    assert not np.array_equal(sequence, random_instance_sizes(SIZES, 3, seed=2, length=9000)[1])


def test_large_orders_are_not_listed_and_neither_are_small_ones_beside_them() -> None:
    problems, sequence = random_instance_sizes([5, 400], slots=8, seed=0, length=10)
    result = simulate(ChangingActionSets(problems, sequence), ["oracle", "uniform"], horizon=20, runs=1)
    assert all(isinstance(problem.best, tuple) for problem in problems)
    assert result.policies["oracle"].exploration.tolist() == [0]


def other(**changes: Any) -> list[Problem]:
    return [PROBLEMS[0], dataclasses.replace(PROBLEMS[1], **changes)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ChangingActionSets([], [0]), "problems must not be empty"),
        (lambda: ChangingActionSets([PROBLEMS[0], 3], [0]), "problems must be Problems, was int at 1"),  # type: ignore[list-item]
        (
            lambda: ChangingActionSets(other(risk_tolerance=1.0), [0]),
            "share one risk_tolerance, 1.0 at 1 differs from 2.0",
        ),
        (
            lambda: ChangingActionSets(other(base_variance=2.0), [0]),
            "share one base_variance, 2.0 at 1 differs from 1.0",
        ),
        (lambda: ChangingActionSets(other(mean_coef=np.zeros(6)), [0]), "problems must share one mean_coef"),
        (lambda: ChangingActionSets(other(var_coef=np.zeros(6)), [0]), "problems must share one var_coef"),
        (
            lambda: ChangingActionSets([PROBLEMS[0], random_problem(Actions(np.eye(3)), 0)], [0]),
            "problems must share one mean_coef",
        ),
        (lambda: ChangingActionSets(PROBLEMS, []), "sequence must be whole numbers from 0 to 2, one per round, was []"),
        (
            lambda: ChangingActionSets(PROBLEMS, [0, 3]),
            "sequence must be whole numbers from 0 to 2, one per round, was 3",
        ),
        (
            lambda: ChangingActionSets(PROBLEMS, [0, -1]),
            "sequence must be whole numbers from 0 to 2, one per round, was -1",
        ),
        (lambda: ChangingActionSets(PROBLEMS, [0.5]), "one per round, was [0.5]"),  # type: ignore[list-item]
        (lambda: ChangingActionSets(PROBLEMS, [True]), "one per round, was [True]"),
        (lambda: ChangingActionSets(PROBLEMS, [[0], [1, 2]]), "one per round, was [[0], [1, 2]]"),  # type: ignore[list-item]
        (lambda: ChangingActionSets(PROBLEMS, 1), "one per round, was 1"),  # type: ignore[arg-type]
        (
            lambda: ChangingActionSets(
                other(actions=Actions(PROBLEMS[1].actions.listed().matrix, handles=list_splits(4, 3))), [0, 1]
            ),
            "problems must all have row numbers or all have vectors as handles",
        ),
        (
            lambda: simulate(FLOW, ["uniform"], horizon=10, runs=1, method="blocks"),
            "method must be auto or rounds with changing action sets, was 'blocks'",
        ),
        (
            lambda: FLOW.run(np.random.default_rng(0)).tally(Plan.repeat(0, 3)),
            "draw rewards round by round, not by plan",
        ),
        (lambda: random_instance_sizes([], 3, 0, 10), "sizes must be one or more different positive integers, was []"),
        (
            lambda: random_instance_sizes([2, 2], 3, 0, 10),
            "sizes must be one or more different positive integers, was [2, 2]",
        ),
        (lambda: random_instance_sizes([2, 0], 3, 0, 10), "sizes must be a positive integer, was 0"),
        (lambda: random_instance_sizes([2], 3, 0, 0), "length must be a positive integer, was 0"),
        (lambda: random_instance_sizes([2], 3, -1, 5), "seed must be a non-negative integer, was -1"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)


def test_the_oracle_refuses_an_unknown_set() -> None:
    oracle = _VaryingSetOracle(best={PROBLEMS[0].actions.fingerprint: 0}).start(
        ChangingActionSets(PROBLEMS, [0]).setting(10)
    )
    oracle.offer(PROBLEMS[1].actions)
    with pytest.raises(StateError, match=r"the offered set .* is none of the 1 sets of the environment"):
        oracle.select()
