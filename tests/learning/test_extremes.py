"""Inputs at the edge of what floats and counts can hold, and input of the wrong kind."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from riskroute.errors import InputError, finite_array, real_number, whole_number
from riskroute.learning.actions import Actions
from riskroute.learning.design import g_optimal, spanning_start
from riskroute.learning.estimation import least_squares
from riskroute.learning.problem import Problem
from riskroute.learning.rounding import ceil_counts, exact_counts
from riskroute.learning.tally import Tallies, Tally
from riskroute.routing.splits import list_splits


def tallies(*rows):
    return Tallies.of(np.arange(len(rows)), [Tally(*row) for row in rows])


def test_ties_go_to_the_earlier_entry_and_more_rounds_take_none_away():
    ladder = [exact_counts(np.full(4, 0.25), rounds).tolist() for rounds in (5, 6, 7, 8)]
    assert ladder == [[2, 1, 1, 1], [2, 2, 1, 1], [2, 2, 2, 1], [2, 2, 2, 2]]


def test_rounds_beyond_int64_end():
    code = "import numpy, riskroute.learning.rounding as r; r.exact_counts(numpy.array([0.5, 0.5]), 10**19)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=20, capture_output=True, text=True)
    assert "InputError" in done.stderr


def test_ceil_beyond_int64():
    with pytest.raises(InputError):
        ceil_counts(np.array([0.5, 0.5]), 1e300)


@pytest.mark.parametrize("round_off", [exact_counts, ceil_counts])
def test_weights_whose_sum_overflows(round_off):
    assert round_off(np.array([1e308, 1e308]), 4).tolist() == [2, 2]


def test_negative_spread():
    with pytest.raises(InputError):
        least_squares(np.eye(2), tallies((3, 0.4, -1.0), (2, 0.2, 1.0)), 1.0)


def test_means_of_another_length():
    with pytest.raises(InputError):
        least_squares(np.eye(2), Tallies(np.arange(2), np.array([1, 2]), np.array([1.0]), np.array([1.0, 2.0])), 1.0)


def test_of_identical_rows_the_first_is_best():
    row = [0.5, 0.4, 0.7, 0.2, 0.8, 0.7, 0.6, 0.8]
    coef = np.array([0.9, -0.7, 0.6, 0.0, 0.6, -0.2, -0.8, 0.6])
    actions = Actions([row] * 3)
    assert actions.best(coef) == 0
    assert actions.within(coef, 0.0).handles.tolist() == [0, 1, 2]
    assert actions.top(coef, 1).handles.tolist() == [0]


def test_scaling_a_problem_keeps_the_handles_of_a_subset():
    subset = Actions([[1.0, 0.0], [0.0, 3.0], [0.6, 0.6]]).top(np.array([0.0, -1.0]), 2)
    problem = Problem.scaled(actions=subset, mean_coef=[1.0, 1.0], var_coef=[1.0, 1.0])
    assert problem.actions.handles.tolist() == subset.handles.tolist() == [1, 2]


def test_the_callers_array_is_not_shared():
    features = np.eye(2)
    actions = Actions(features)
    features[:] = 5.0
    assert actions.matrix.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_scaled_at_the_ends_of_the_range(size):
    assert Actions.scaled([[size, 0.0], [0.0, size / 2]]).matrix == pytest.approx(np.diag([1.0, 0.5]))


@pytest.mark.parametrize("count", [-1, 1.5, "2"])
def test_sample_count(count):
    with pytest.raises(InputError):
        Actions([[1.0]]).sample(np.random.default_rng(0), count)


@pytest.mark.parametrize("tolerance", [[0.1], {}])
def test_design_tolerance_that_cannot_be_hashed(tolerance):
    with pytest.raises(InputError):
        Actions([[1.0]]).design(tolerance)


def test_problem_wants_an_action_set():
    with pytest.raises(InputError, match="actions must be"):
        Problem(actions=[[1.0, 0.0]], mean_coef=[0.1, 0.1], var_coef=[0.1, 0.1])


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e160, 1e200, 1e300])
def test_design_at_the_ends_of_the_range(scale):
    features = np.random.default_rng(0).standard_normal((50, 3)) * scale
    assert g_optimal(features).rank == 3


@pytest.mark.parametrize("scale", [1e-200, 1e160])
def test_design_with_one_column_at_the_ends_of_the_range(scale):
    features = np.random.default_rng(0).standard_normal((50, 3)) * np.array([1.0, scale, 1.0])
    assert g_optimal(features).rank == 3


def test_zero_points_do_not_span():
    assert spanning_start(np.zeros((3, 2))) is None


@pytest.mark.parametrize("value", [True, "1.5", b"1", np.True_])
def test_text_and_truth_are_not_numbers(value):
    with pytest.raises(InputError):
        real_number("x", value)


def test_numbers_beyond_float():
    with pytest.raises(InputError):
        real_number("x", 10**400)


@pytest.mark.parametrize(
    "value", [["1", "2"], [True, False], [10**400], np.array([1j]), np.array(["2020-01-01"], "M8[D]")]
)
def test_arrays_of_what_is_not_a_number(value):
    with pytest.raises(InputError):
        finite_array("x", value, ndim=1)


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array(1.5)])
def test_arrays_are_not_whole_numbers(value):
    with pytest.raises(InputError):
        whole_number("x", value)


def test_message_for_more_splits_than_a_float_holds():
    with pytest.raises(InputError):
        list_splits(1000, 1000)
