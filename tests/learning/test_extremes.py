"""Inputs at the edge of what floats and counts can hold, and input of the wrong kind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from riskroute import POLICIES, Allocations, Setting, make_policy, simulate
from riskroute.core.errors import InputError
from riskroute.core.validation import finite_array, real_number, valid_magnitude, whole_number
from riskroute.learning.actions import Actions
from riskroute.learning.design.g_optimal import _spanning_start, g_optimal
from riskroute.learning.design.rounding import round_exact_counts, round_up_counts
from riskroute.learning.estimation import least_squares
from riskroute.learning.problem import Problem
from riskroute.learning.tally import Tallies, Tally
from riskroute.policies import Oracle
from riskroute.routing.splits import list_splits


def tallies(*rows: tuple[int, float, float]) -> Tallies:
    return Tallies.of(np.arange(len(rows)), [Tally(*row) for row in rows])


def test_ties_go_to_the_earlier_entry_and_more_rounds_take_none_away() -> None:
    ladder = [round_exact_counts(np.full(4, 0.25), rounds).tolist() for rounds in (5, 6, 7, 8)]
    assert ladder == [[2, 1, 1, 1], [2, 2, 1, 1], [2, 2, 2, 1], [2, 2, 2, 2]]


def test_rounds_beyond_int64_end() -> None:
    code = "import numpy as np, riskroute.learning.design.rounding as r; r.round_exact_counts(np.ones(2) / 2, 10**19)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=20, capture_output=True, text=True)
    assert "InputError" in done.stderr


def test_ceil_beyond_int64() -> None:
    with pytest.raises(InputError):
        round_up_counts(np.array([0.5, 0.5]), 1e300)


@pytest.mark.parametrize("round_off", [round_exact_counts, round_up_counts])
def test_weights_whose_sum_overflows(round_off: Callable[..., Any]) -> None:
    assert round_off(np.array([1e308, 1e308]), 4).tolist() == [2, 2]


def test_negative_spread() -> None:
    with pytest.raises(InputError):
        least_squares(np.eye(2), tallies((3, 0.4, -1.0), (2, 0.2, 1.0)), 1.0)


def test_means_of_another_length() -> None:
    with pytest.raises(InputError):
        least_squares(np.eye(2), Tallies(np.arange(2), np.array([1, 2]), np.array([1.0]), np.array([1.0, 2.0])), 1.0)


def test_of_identical_rows_the_first_is_best() -> None:
    row = [0.5, 0.4, 0.7, 0.2, 0.8, 0.7, 0.6, 0.8]
    coef = np.array([0.9, -0.7, 0.6, 0.0, 0.6, -0.2, -0.8, 0.6])
    actions = Actions([row] * 3)
    assert actions.best(coef) == 0
    assert actions.within(coef, 0.0).handles.tolist() == [0, 1, 2]
    assert actions.top(coef, 1).handles.tolist() == [0]


def test_scaling_a_problem_keeps_the_handles_of_a_subset() -> None:
    subset = Actions([[1.0, 0.0], [0.0, 3.0], [0.6, 0.6]]).top(np.array([0.0, -1.0]), 2)
    problem = Problem.scaled(actions=subset, mean_coef=np.ones(2), var_coef=np.ones(2))
    assert isinstance(problem.actions, Actions)
    assert problem.actions.handles.tolist() == subset.handles.tolist() == [1, 2]


def test_the_callers_array_is_not_shared() -> None:
    features = np.eye(2)
    actions = Actions(features)
    features[:] = 5.0
    assert actions.matrix.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_scaled_at_the_ends_of_the_range(size: float) -> None:
    assert Actions.scaled([[size, 0.0], [0.0, size / 2]]).matrix == pytest.approx(np.diag([1.0, 0.5]))


@pytest.mark.parametrize("count", [-1, 1.5, "2"])
def test_sample_count(count: Any) -> None:
    with pytest.raises(InputError):
        Actions([[1.0]]).sample(np.random.default_rng(0), count)


@pytest.mark.parametrize("tolerance", [[0.1], {}])
def test_design_tolerance_that_cannot_be_hashed(tolerance: Any) -> None:
    with pytest.raises(InputError):
        Actions([[1.0]]).design(tolerance)


def test_problem_wants_an_action_set() -> None:
    with pytest.raises(InputError, match="actions must be"):
        Problem(actions=[[1.0, 0.0]], mean_coef=np.full(2, 0.1), var_coef=np.full(2, 0.1))  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e160, 1e200, 1e300])
def test_design_at_the_ends_of_the_range(scale: float) -> None:
    features = np.random.default_rng(0).standard_normal((50, 3)) * scale
    assert g_optimal(features).rank == 3


@pytest.mark.parametrize("scale", [1e-200, 1e160])
def test_design_with_one_column_at_the_ends_of_the_range(scale: float) -> None:
    features = np.random.default_rng(0).standard_normal((50, 3)) * np.array([1.0, scale, 1.0])
    assert g_optimal(features).rank == 3


def test_zero_points_do_not_span() -> None:
    assert _spanning_start(np.zeros((3, 2))) is None


@pytest.mark.parametrize("value", [True, "1.5", b"1", np.True_])
def test_text_and_truth_are_not_numbers(value: Any) -> None:
    with pytest.raises(InputError):
        real_number("x", value)


def test_numbers_beyond_float() -> None:
    with pytest.raises(InputError):
        real_number("x", 10**400)


@pytest.mark.parametrize(
    "value", [["1", "2"], [True, False], [10**400], np.array([1j]), np.array(["2020-01-01"], "M8[D]")]
)
def test_arrays_of_what_is_not_a_number(value: Any) -> None:
    with pytest.raises(InputError):
        finite_array("x", value, ndim=1)


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array(1.5)])
def test_arrays_are_not_whole_numbers(value: Any) -> None:
    with pytest.raises(InputError):
        whole_number("x", value)


def test_message_for_more_splits_than_a_float_holds() -> None:
    with pytest.raises(InputError):
        list_splits(1000, 1000)


FEATURES = np.random.default_rng(0).uniform(0.1, 1.0, (8, 3))


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", POLICIES)
def test_policies_play_at_every_scale_they_accept(name: str) -> None:
    for features, rewards in ((1e-29, 1e29), (1e29, 1e-160), (1e29, 1e29), (1.0, 0.0), (1.0, 1e-300)):
        for base_variance, risk_tolerance in ((0.0, 0.0), (1.0, 2.0), (1e59, 1e29), (1e-59, 1e-160)):
            policy = Oracle(schedule=((0, 1),)) if name == "oracle" else make_policy(name)
            actions, rng = Actions(features * FEATURES), np.random.default_rng(1)
            policy.start(
                Setting(actions=actions, horizon=25, base_variance=base_variance, risk_tolerance=risk_tolerance)
            )
            for _ in range(25):
                action = policy.select()
                policy.update(action, float(rewards * (FEATURES[action] @ [1, 2, -1] + 0.3 * rng.normal())))


@pytest.mark.parametrize("name", ["rise", "adaptive", "risk-ucb"])
@pytest.mark.parametrize("reward", [1e31, -1e100, 1e300])
def test_rewards_beyond_the_limit_are_refused_before_anything_is_learned(name: str, reward: float) -> None:
    policy = make_policy(name).start(Setting(actions=Actions(FEATURES), horizon=400))
    with pytest.raises(InputError, match=r"reward must be a number of at least -1e\+30 and of at most 1e\+30, was"):
        policy.update(policy.select(), reward)
    plan = policy.plan()
    none = np.zeros(len(plan.counts))
    with pytest.raises(InputError, match=r"rewards must be at most 1e\+30 in magnitude, had means up to"):
        policy.learn(Tallies(plan.actions, plan.counts, none + reward, none))
    with pytest.raises(InputError, match=r"rewards must be at most 1e\+30 in magnitude"):
        policy.learn(Tallies(plan.actions, plan.counts, none, none + 1e80))
    policy.learn(Tallies(plan.actions, plan.counts, none, none))


@pytest.mark.parametrize("scale", [1e31, 1e160, 1e300])
def test_features_beyond_the_limit_are_refused(scale: float) -> None:
    with pytest.raises(InputError, match=r"features must be at most 1e\+30 in magnitude, was .* at \[0, 0\]"):
        Actions(scale * FEATURES)


@pytest.mark.parametrize("scale", [1e-31, 1e-160, 1e-300])
def test_columns_too_small_to_learn_from_are_refused(scale: float) -> None:
    with pytest.raises(InputError, match=r"entry of at least 1e-30 in magnitude, had at most .* in column 1$"):
        Actions(FEATURES * np.array([1.0, scale, 1.0]))
    assert Actions(FEATURES * np.array([1.0, 0.0, 1.0])).dim == 3  # no feature at all is fine


@pytest.mark.parametrize("scale", [1e-100, 1e-300, 1e60, 1e300])
def test_scale_of_allocations(scale: float) -> None:
    with pytest.raises(InputError, match="scale must give features a largest norm from 1e-30 to"):
        Allocations(shares=4, slots=3, scale=scale)


@pytest.mark.parametrize("size", [1e30, 1e160, 1e300])
def test_problems_whose_rewards_would_be_refused(size: float) -> None:
    actions = Actions(FEATURES)
    with pytest.raises(InputError, match=r"mean_coef times a feature must be at most 1e\+27 in magnitude, was up to"):
        Problem(actions=actions, mean_coef=np.array([size, 0.0, 0.0]), var_coef=np.zeros(3), check_norms=False)
    with pytest.raises(InputError, match=r"var_coef times a feature must be at most 1e\+54 in magnitude, was up to"):
        Problem(
            actions=actions, mean_coef=np.zeros(3), var_coef=np.array([max(size, 1e55), 0.0, 0.0]), check_norms=False
        )
    scaled = Problem.scaled(actions=actions, mean_coef=np.array([size, 0.0, 0.0]), var_coef=np.zeros(3))
    assert scaled.mean_coef.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(("mean", "variance"), [(1e26, 1e53), (1e-160, 1e-59), (1e26, 0.0)])
def test_simulations_at_the_ends_of_the_range(mean: float, variance: float) -> None:
    problem = Problem(
        actions=Actions(FEATURES), mean_coef=np.full(3, mean), var_coef=np.full(3, variance), base_variance=variance,
        check_norms=False,
    )  # fmt: skip
    result = simulate(problem, ["adaptive", "rise", "risk-ucb", "uniform"], horizon=200, runs=1)
    assert all(np.isfinite(one.regret).all() for one in result.policies.values())


@pytest.mark.parametrize(
    ("field", "value"), [("risk_tolerance", 1e31), ("base_variance", 1e61), ("base_variance", 1e-61)]
)
def test_settings_beyond_the_limit_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{field} must be .* in magnitude, was {value:g}".replace("+", r"\+")):
        Setting(actions=Actions(FEATURES), **{field: value})


def test_sized_numbers() -> None:
    assert valid_magnitude("x", 0) == 0
    assert valid_magnitude("x", -1e30) == -1e30
    assert valid_magnitude("x", 1e-300, smallest=0) == 1e-300
    with pytest.raises(InputError, match="x must be 0 or between 1e-30 and"):
        valid_magnitude("x", 1e-31)
