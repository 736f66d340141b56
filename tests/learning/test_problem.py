"""Mean-variance problems: the model's equations, and the conditions the theory puts on an instance."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from riskroute.core.errors import InputError
from riskroute.learning.actions import Actions
from riskroute.learning.problem import Problem, random_problem

TRIANGLE = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]


def problem_of(**changes: Any) -> Problem:
    """A small valid problem, with changes."""
    fields: dict[str, Any] = {"actions": Actions(TRIANGLE), "mean_coef": [0.5, 0.1], "var_coef": [0.3, -0.2]}
    return Problem(**{**fields, **changes})


def message_of(**changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        problem_of(**changes)
    return str(caught.value)


@given(seed=st.integers(0, 10**6), risk_tolerance=st.floats(0, 5), base_variance=st.floats(0.1, 3))
@settings(max_examples=30)
def test_means_variances_and_gaps_are_the_equations_of_the_setup(
    seed: int, risk_tolerance: float, base_variance: float
) -> None:
    """Setup: mu_a = <theta, a>, sigma_a^2 = <phi, a> + omega (eq. for the noise), Delta_a = MV_a - MV_best."""
    features = np.random.default_rng(seed).uniform(-0.5, 0.5, size=(9, 3))
    problem = random_problem(Actions(features), seed, risk_tolerance=risk_tolerance, base_variance=base_variance)
    chosen = np.array([4, 0, 4, 8])
    means = [float(np.dot(features[i], problem.mean_coef)) for i in range(9)]
    variances = [float(np.dot(features[i], problem.var_coef)) + base_variance for i in range(9)]
    objective = [variance - risk_tolerance * mean for mean, variance in zip(means, variances, strict=True)]
    gaps = [value - min(objective) for value in objective]
    assert problem.means(chosen) == pytest.approx([means[i] for i in chosen], abs=1e-14)
    assert problem.variances(chosen) == pytest.approx([variances[i] for i in chosen], abs=1e-14)
    assert problem.mean_variances(chosen) == pytest.approx([objective[i] for i in chosen], abs=1e-13)
    assert problem.gaps(chosen) == pytest.approx([gaps[i] for i in chosen], abs=1e-13)
    assert problem.gaps() == pytest.approx(gaps, abs=1e-13)
    assert objective[problem.best] == pytest.approx(min(objective), abs=1e-13)  # type: ignore[index]  # a row number
    assert problem.score == pytest.approx(problem.var_coef - risk_tolerance * problem.mean_coef, abs=1e-15)
    assert min(variances) >= -1e-12


def test_risk_tolerance_moves_the_best_action_from_safe_to_rewarding() -> None:
    assert problem_of(risk_tolerance=0.0).best == 1
    assert problem_of(risk_tolerance=10.0).best == 0


def test_gaps_of_a_subset_are_over_the_subset() -> None:
    subset = Actions(TRIANGLE).top(np.array([-1.0, 0.0]), 2)
    problem = problem_of(actions=subset, risk_tolerance=0.0)
    assert problem.best == 2
    assert problem.gaps() == pytest.approx([0.24, 0.0])
    assert problem.gaps(np.array([2, 0])) == pytest.approx([0.0, 0.24])


def test_defaults_are_those_of_the_synthetic_example() -> None:
    """Synthetic example: omega = 1, rho = 2."""
    problem = problem_of()
    assert (problem.base_variance, problem.risk_tolerance, problem.check_norms) == (1.0, 2.0, True)


def test_coefficients_are_stored_as_arrays_of_floats() -> None:
    problem = problem_of(mean_coef=[1, 0], base_variance=2, risk_tolerance=1)
    assert problem.mean_coef.dtype == problem.var_coef.dtype == np.float64
    assert type(problem.base_variance) is type(problem.risk_tolerance) is float


def test_a_problem_is_immutable_and_equal_to_itself_only() -> None:
    problem = problem_of()
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.base_variance = 2.0  # type: ignore[misc]
    assert problem in [problem]
    assert problem != problem_of()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mean_coef": [0.8, 0.61]}, "mean_coef must have norm at most 1, had 1.00603"),
        ({"var_coef": [0.8, 0.61]}, "var_coef must have norm at most 1, had 1.00603"),
        ({"var_coef": [0.3, 0.4], "base_variance": 0.49}, "var_coef must have norm at most 0.49, had 0.5"),
        ({"actions": Actions([[1.0, 0.1]])}, "actions must have norm at most 1, had 1.00499"),
    ],
)
def test_norms_of_the_setup_are_insisted_on(change: dict[str, Any], expected: str) -> None:
    """Setup: |a| <= 1, |theta| <= 1, |phi| <= omega."""
    assert message_of(**change).startswith(expected + ";")
    assert problem_of(**change, check_norms=False).actions.dim == 2


@pytest.mark.parametrize(
    "change",
    [
        {"mean_coef": [0.6, 0.8]},
        {"var_coef": [0.6, 0.8]},
        {"mean_coef": [math.cos(1), math.sin(1)]},
        {"var_coef": [0.0, 0.0], "base_variance": 0.0},
    ],
)
def test_norms_at_their_limits_pass(change: dict[str, Any]) -> None:
    assert problem_of(**change).check_norms


@pytest.mark.parametrize("check_norms", [True, False])
def test_a_negative_variance_is_never_accepted(check_norms: bool) -> None:
    """With the norms in order it cannot occur, so the features are made longer than one."""
    change = {"actions": Actions([[1.0, 0.0], [0.0, 2.0]]), "var_coef": [0.0, -0.6], "check_norms": check_norms}
    expected = "actions must have norm" if check_norms else "variance must be non-negative for every action, was -0.2"
    assert message_of(**change).startswith(expected)
    if not check_norms:
        assert message_of(**change).endswith("for action 1")


def test_a_variance_of_zero_is_accepted() -> None:
    assert problem_of(var_coef=[-1.0, 0.0]).variances(np.array([0, 1])).tolist() == [0.0, 1.0]


def test_negative_variance_is_looked_for_in_the_subset_only() -> None:
    whole = Actions([[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]])
    subset = whole.top(np.array([-1.0, 0.0]), 2)
    change = {"var_coef": [0.0, -0.6], "check_norms": False}
    assert problem_of(actions=subset, **change).variances(np.array([2])) == pytest.approx([0.7])
    assert message_of(actions=whole, **change).endswith("for action 1")


@given(seed=st.integers(0, 10**6), power=st.integers(-6, 6), base_variance=st.floats(1e-3, 1e3))
@settings(max_examples=30)
def test_scaled_only_ever_shortens(seed: int, power: int, base_variance: float) -> None:
    rng = np.random.default_rng(seed)
    features, mean_coef, var_coef = (rng.standard_normal(shape) * 2.0**power for shape in ((6, 3), 3, 3))
    problem = Problem.scaled(
        actions=Actions(features), mean_coef=mean_coef, var_coef=var_coef, base_variance=base_variance
    )

    def shortened(vector: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
        norm = math.hypot(*vector)
        return vector if norm <= limit else vector * (limit / norm)

    largest = max(math.hypot(*row) for row in features)
    rows = problem.actions.features(np.arange(6))
    assert rows == pytest.approx(features if largest <= 1 else features / largest, rel=1e-12)
    assert problem.mean_coef == pytest.approx(shortened(mean_coef, 1.0), rel=1e-12)
    assert problem.var_coef == pytest.approx(shortened(var_coef, base_variance), rel=1e-12)


def test_scaled_keeps_the_coordinates_and_what_is_short_enough() -> None:
    actions = Actions(TRIANGLE, coordinates=1)
    arguments: dict[str, Any] = {"mean_coef": np.array([0.5, 0.1]), "var_coef": np.array([0.3, -0.2])}
    kept = Problem.scaled(actions=actions, **arguments, risk_tolerance=0.25)
    assert kept.actions is actions
    assert kept.mean_coef.tolist() == [0.5, 0.1]
    assert kept.risk_tolerance == 0.25
    long = Problem.scaled(actions=Actions([[2.0, 0.0]], coordinates=1), **arguments)
    assert long.actions.coordinates == 1
    assert long.actions.largest_norm() == 1.0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"base_variance": 0}, "base_variance must be a number above 0, was 0"),
        ({"base_variance": -1.0}, "base_variance must be a number above 0, was -1.0"),
        ({"risk_tolerance": -1.0}, "risk_tolerance must be a number of at least 0, was -1.0"),
        ({"mean_coef": [1.0]}, "mean_coef must have 2 entries, had 1"),
        ({"var_coef": [math.nan, 1.0]}, "var_coef must be finite, was nan at [0]"),
    ],
)
def test_scaled_names_what_is_wrong(change: dict[str, Any], expected: str) -> None:
    fields: dict[str, Any] = {"actions": Actions(TRIANGLE), "mean_coef": [0.5, 0.1], "var_coef": [0.3, -0.2]}
    with pytest.raises(InputError) as caught:
        Problem.scaled(**{**fields, **change})
    assert str(caught.value) == expected


def test_random_problem_draws_the_mean_first_and_scales_both_down() -> None:
    """Synthetic example: coefficients from a normal law, then the norms of the setup."""
    actions = Actions.scaled(np.eye(5))
    draws = np.random.default_rng(np.random.SeedSequence(17)).standard_normal((2, 5))
    problem = random_problem(actions, 17, risk_tolerance=1.5, base_variance=0.5)
    norms = np.linalg.norm(draws, axis=1)
    assert (norms > 1).all()  # so both are scaled to their limits
    assert problem.mean_coef == pytest.approx(draws[0] / norms[0], rel=1e-12)
    assert problem.var_coef == pytest.approx(draws[1] / norms[1] * 0.5, rel=1e-12)
    assert (problem.risk_tolerance, problem.base_variance) == (1.5, 0.5)


def test_random_problem_is_its_seed() -> None:
    actions = Actions(TRIANGLE)
    assert random_problem(actions, 3).mean_coef.tolist() == random_problem(actions, 3).mean_coef.tolist()
    assert random_problem(actions, 3).mean_coef.tolist() != random_problem(actions, 4).mean_coef.tolist()


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, None])
def test_random_problem_wants_a_whole_seed(seed: Any) -> None:
    with pytest.raises(InputError) as caught:
        random_problem(Actions(TRIANGLE), seed)
    assert str(caught.value) == f"seed must be a non-negative integer, was {seed!r}"


@pytest.mark.parametrize("name", ["mean_coef", "var_coef"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "must not be empty, was of shape (0,)"),
        ([0.1], "must have 2 entries, had 1"),
        ([0.1, 0.1, 0.1], "must have 2 entries, had 3"),
        ([[0.1, 0.1]], "must be a list of numbers (1 axes), was of shape (1, 2)"),
        ([0.1, [0.1]], "must be a list of numbers, was ragged or not numeric"),
        (["a", "b"], "must be a list of numbers, was ragged or not numeric"),
        ([0.1, math.nan], "must be finite, was nan at [1]"),
        ([math.inf, 0.1], "must be finite, was inf at [0]"),
        (0.1, "must be a list of numbers (1 axes), was of shape ()"),
    ],
)
def test_bad_coefficients(name: str, value: Any, expected: str) -> None:
    assert message_of(**{name: value}) == f"{name} {expected}"


@pytest.mark.parametrize("name", ["base_variance", "risk_tolerance"])
@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "two", None, [1.0]])
def test_bad_constants(name: str, value: Any) -> None:
    assert message_of(**{name: value}) == f"{name} must be a number of at least 0, was {value!r}"
