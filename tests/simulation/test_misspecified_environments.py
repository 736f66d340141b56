"""Misspecified environments, and the riskless slot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from naive_learning import numbered_routing_problem
from riskroute import (
    Actions,
    Allocations,
    Environment,
    InputError,
    Plan,
    Problem,
    check_environment,
    random_problem,
    random_routing_problem,
    simulate,
)
from riskroute.routing.allocations import routing_actions
from riskroute.routing.instances import riskless_slot_instance
from riskroute.routing.splits import list_splits
from riskroute.simulation.environments import HeavyTailed, NonlinearVariance, WrongBaseVariance

PROBLEM = numbered_routing_problem(shares=3, slots=3, seed=5)
EVERYTHING = np.arange(10)

CASES = {
    "heavy tails": HeavyTailed(PROBLEM),
    "less heavy tails": HeavyTailed(PROBLEM, degrees=6.0),
    "bent variance": NonlinearVariance(PROBLEM),
    "flattened variance": NonlinearVariance(PROBLEM, power=0.5),
    "mistold": WrongBaseVariance(PROBLEM),
    "riskless slot": Environment(riskless_slot_instance(PROBLEM)),
}


@pytest.mark.parametrize("case", CASES)
def test_passes_the_shared_checks(case: str) -> None:
    check_environment(CASES[case], runs=700)


@pytest.mark.parametrize("case", CASES)
def test_oracle_has_no_regret_on_average(case: str) -> None:
    """Within five standard errors at every checkpoint."""
    one = simulate(CASES[case], ["oracle"], horizon=200, runs=250, seed=4, checkpoints=8).policies["oracle"]
    assert (np.abs(one.mean_regret()) <= 5 * one.std_regret() / np.sqrt(one.runs)).all()
    assert (np.abs(one.luck.mean(axis=0)) <= 5 * one.luck.std(axis=0) / np.sqrt(one.runs)).all()


@pytest.mark.parametrize("degrees", [2.5, 3.0, 10.0])
def test_heavy_tailed_noise_is_student_t_scaled_to_variance_one(degrees: float) -> None:
    """Kolmogorov-Smirnov on 20,000 draws against the law whose variance is one."""
    drawn = HeavyTailed(PROBLEM, degrees).noise(np.random.default_rng(1)).draw(20_000)
    law = stats.t(degrees, scale=np.sqrt((degrees - 2) / degrees))
    assert law.var() == pytest.approx(1.0)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-3


def test_heavy_tailed_noise_has_variance_one() -> None:
    """200,000 draws with 5 degrees, of kurtosis 9: the variance's standard error is sqrt(8 / n)."""
    drawn = HeavyTailed(PROBLEM, 5.0).noise(np.random.default_rng(1)).draw(200_000)
    assert abs(drawn.mean()) < 5 / np.sqrt(200_000)
    assert abs(drawn.var() - 1) < 5 * np.sqrt(8 / 200_000)


def test_heavy_tailed_problem_is_the_same() -> None:
    heavy, plain = HeavyTailed(PROBLEM), Environment(PROBLEM)
    assert heavy.comparators == plain.comparators
    np.testing.assert_array_equal(heavy.gaps(EVERYTHING), plain.gaps(EVERYTHING))
    rounds = np.array([1, 5, 1000])
    np.testing.assert_array_equal(heavy.expected_comparator(rounds), plain.expected_comparator(rounds))


def test_heavy_tailed_tallies_equal_single_rewards_for_the_same_noise() -> None:
    by_plan, by_round = (HeavyTailed(PROBLEM).run(np.random.default_rng(3)) for _ in range(2))
    plan = Plan(np.array([2, 5, 2]), np.array([4, 1, 6]))
    tallies = by_plan.tally(plan)
    for k, (action, n) in enumerate(zip(plan.actions, plan.counts, strict=True)):
        rewards = np.array([by_round.reward(int(action)) for _ in range(n)])
        assert tallies.means[k] == pytest.approx(rewards.mean())
        assert tallies.spreads[k] == pytest.approx(((rewards - rewards.mean()) ** 2).sum(), abs=1e-12)


@pytest.mark.parametrize("policy", ["risk-ucb", "greedy"])
def test_heavy_tailed_ways_of_play_agree_exactly(policy: str) -> None:
    """Noise is drawn round by round in the kernel, in blocks and in rounds alike."""
    ways = [
        simulate(HeavyTailed(PROBLEM), [policy], horizon=300, runs=3, seed=2, method=method).policies[policy]
        for method in ("auto", "blocks", "rounds")
    ]
    for one in ways[1:]:
        np.testing.assert_allclose(one.regret, ways[0].regret, atol=1e-7)
        np.testing.assert_allclose(one.luck, ways[0].luck, atol=1e-7)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 3.0])
def test_nonlinear_variance_is_a_power_of_the_linear_one(power: float) -> None:
    problem = random_problem(PROBLEM.actions, 2, base_variance=0.7)
    environment = NonlinearVariance(problem, power)
    mean, deviation = environment.moments(EVERYTHING)
    true = 0.7 * (problem.variances(EVERYTHING) / 0.7) ** power
    np.testing.assert_allclose(deviation**2, true)
    np.testing.assert_array_equal(mean, problem.means(EVERYTHING))
    value = true - 2.0 * mean
    assert environment.comparators == (int(np.argmin(value)),)
    np.testing.assert_allclose(environment.gaps(EVERYTHING), value - value.min(), atol=1e-12)


def test_nonlinear_variance_moves_the_best_action_in_some_instances() -> None:
    instances = [random_problem(PROBLEM.actions, seed, risk_tolerance=0.5) for seed in range(30)]
    moved = [NonlinearVariance(problem, 3.0).comparators[0] != problem.best for problem in instances]
    assert any(moved)
    assert not all(moved)


def test_nonlinear_variance_works_on_implicit_sets() -> None:
    implicit = random_problem(Allocations(3, 3), 5)
    best = NonlinearVariance(implicit, 2.0).comparators[0]
    listed = Problem(actions=implicit.actions.listed(), mean_coef=implicit.mean_coef, var_coef=implicit.var_coef)
    assert best == NonlinearVariance(listed, 2.0).comparators[0]
    with pytest.raises(InputError, match="too many allocations to list"):
        _ = NonlinearVariance(random_problem(Allocations(1000, 20), 0)).comparators


def test_wrong_base_variance_changes_the_setting_only() -> None:
    environment, plain = WrongBaseVariance(PROBLEM, 2.5), Environment(PROBLEM)
    told, true = environment.setting(100), plain.setting(100)
    assert told.base_variance == 2.5 * true.base_variance
    assert (told.actions, told.horizon, told.risk_tolerance) == (true.actions, true.horizon, true.risk_tolerance)
    for mine, theirs in zip(environment.moments(EVERYTHING), plain.moments(EVERYTHING), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert environment.comparators == plain.comparators


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (HeavyTailed, "degrees", (3.0, 4.0)),
        (NonlinearVariance, "power", (1.5, 2.0)),
        (WrongBaseVariance, "factor", (2.0, 0.5)),
    ],
)
def test_parameters_are_part_of_the_identity(
    kind: Callable[..., Environment], name: str, values: tuple[float, float]
) -> None:
    made = [kind(PROBLEM, value) for value in values]
    assert [one.describe()[name] for one in made] == list(values)
    assert len({one.identity for one in [*made, Environment(PROBLEM)]}) == 3
    assert kind(PROBLEM).identity == made[0].identity


@pytest.mark.parametrize(("shares", "slots"), [(1, 2), (2, 2), (4, 4), (9, 3), (5, 1)])
@pytest.mark.parametrize("remaining", [0.0, 1e-3, 0.3])
def test_riskless_slot_leaves_the_rest_alone_and_no_variance_negative(
    shares: int, slots: int, remaining: float
) -> None:
    splits = list_splits(shares, slots)
    for seed in range(20):
        problem = random_routing_problem(shares, slots, seed, base_variance=0.8)
        slot = seed % slots
        changed = riskless_slot_instance(problem, slot, remaining)
        variances = changed.variances(splits)
        assert variances[splits[:, slot] == shares] == pytest.approx(remaining, abs=1e-12)
        assert variances.min() >= -1e-12
        elsewhere = splits[:, slot] == 0
        np.testing.assert_allclose(variances[elsewhere], problem.variances(splits[elsewhere]))
        np.testing.assert_array_equal(changed.mean_coef, problem.mean_coef)
        assert np.linalg.norm(changed.var_coef) <= np.sqrt(2) * 0.8 + 1e-12


def test_riskless_slot_of_a_set_that_is_not_listed() -> None:
    sets = [routing_actions(6, 3, listed=listed) for listed in (True, False)]
    changed = [riskless_slot_instance(random_problem(actions, 4), slot=1) for actions in sets]
    np.testing.assert_allclose(changed[0].var_coef, changed[1].var_coef)
    assert changed[1].variances(np.array([[0, 6, 0]]))[0] == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HeavyTailed(PROBLEM, 2.0), "degrees must be a number above 2, was 2.0"),
        (lambda: HeavyTailed(PROBLEM, float("inf")), "degrees must be a number above 2, was inf"),
        (lambda: HeavyTailed(3), "problem must be a Problem, was int"),  # type: ignore[arg-type]
        (lambda: NonlinearVariance(PROBLEM, 0.0), "power must be a number above 0, was 0.0"),
        (
            lambda: NonlinearVariance(
                Problem(actions=PROBLEM.actions, mean_coef=np.zeros(6), var_coef=np.zeros(6), base_variance=0.0)
            ),
            "base_variance must be positive for a nonlinear variance, was 0.0",
        ),
        (lambda: WrongBaseVariance(PROBLEM, 0), "factor must be a number above 0, was 0"),
        (lambda: WrongBaseVariance(PROBLEM, float("nan")), "factor must be a number above 0, was nan"),
        (lambda: riskless_slot_instance(PROBLEM, 3), "slot must be at most 2, was 3"),
        (lambda: riskless_slot_instance(PROBLEM, -1), "slot must be a non-negative integer, was -1"),
        (
            lambda: riskless_slot_instance(PROBLEM, 0, -0.1),
            "remaining must be a number of at least 0 and of at most 1, was -0.1",
        ),
        (
            lambda: riskless_slot_instance(PROBLEM, 0, 1.5),
            "remaining must be a number of at least 0 and of at most 1, was 1.5",
        ),
        (
            lambda: riskless_slot_instance(random_problem(Allocations(4, 3, caps=3), 0), 1),
            "slot 1 cannot take the whole order of Allocations(4 shares over 3 slots",
        ),
        (
            lambda: riskless_slot_instance(random_problem(Actions(np.eye(4)), 0)),
            "problem must have allocations as actions, was Actions(4 actions, dim 4)",
        ),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)
