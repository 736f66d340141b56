"""Finite action sets against loops over their rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from riskroute import InputError
from riskroute.learning.actions import Actions, ActionSet, _HandleIndex, as_action, as_batch, distinct_actions

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

SQUARE = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]


@st.composite
def scored_sets(draw: st.DrawFn) -> tuple[Matrix, Vector]:
    """Integer features and coefficients: scores are exact, and many are equal."""
    n_actions, dim = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    integers = st.integers(-2, 2).map(float)
    return draw(arrays(np.float64, (n_actions, dim), elements=integers)), draw(
        arrays(np.float64, dim, elements=integers)
    )


def naive_scores(features: Matrix, coef: Vector) -> list[float]:
    return [sum(float(a) * float(c) for a, c in zip(row, coef, strict=True)) for row in features]


@pytest.mark.parametrize("action", [0, 7, (3,), (2, 0, 5)])
def test_handles_survive_the_way_into_a_batch_and_back(action: Any) -> None:
    batch = as_batch(action, action)
    assert batch.dtype == np.int64
    assert [as_action(row) for row in batch] == [action, action]
    assert hash(as_action(batch[0])) == hash(action)


def test_handles_are_plain_integers() -> None:
    assert type(as_action(np.int64(4))) is int
    assert all(type(number) is int for number in as_action(np.array([1, 2])))  # type: ignore[union-attr]  # a vector


def test_the_contract_cannot_be_used_as_a_set() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ActionSet()  # type: ignore[abstract]


@given(case=scored_sets())
@settings(max_examples=50)
def test_best_is_the_first_of_the_smallest_scores(case: tuple[Matrix, Vector]) -> None:
    """Eq. for the action RISE commits to: the arg min of <phi - rho theta, a>."""
    features, coef = case
    scores = naive_scores(features, coef)
    best = Actions(features).best(coef)
    assert type(best) is int
    assert best == scores.index(min(scores))


@given(case=scored_sets(), halves=st.integers(0, 12))
@settings(max_examples=50)
def test_within_is_the_elimination_step_of_rise_plus_plus(case: tuple[Matrix, Vector], halves: int) -> None:
    """Algorithm 2, step 4: keep a when max_b <rho theta - phi, b - a> is at most twice the phase's tolerance."""
    features, coef = case
    twice_tolerance = halves / 2
    kept = [i for i, a in enumerate(features) if max(float(np.dot(-coef, b - a)) for b in features) <= twice_tolerance]
    assert Actions(features).within(coef, twice_tolerance).handles.tolist() == kept


@given(case=scored_sets(), data=st.data())
@settings(max_examples=50)
def test_top_keeps_the_smallest_and_of_equals_the_first(case: tuple[Matrix, Vector], data: st.DataObject) -> None:
    features, coef = case
    count = data.draw(st.integers(1, len(features)))
    scores = naive_scores(features, coef)
    expected = sorted(sorted(range(len(scores)), key=lambda i: (scores[i], i))[:count])
    assert Actions(features).top(coef, count).handles.tolist() == expected


@given(case=scored_sets(), data=st.data())
@settings(max_examples=30)
def test_subsets_of_subsets_keep_the_row_numbers_of_the_whole(case: tuple[Matrix, Vector], data: st.DataObject) -> None:
    features, coef = case
    subset = Actions(features).top(coef, data.draw(st.integers(1, len(features))))
    other = np.roll(coef, 1) - 1.0
    smaller = subset.within(other, 1.0)
    members = subset.handles.tolist()
    scores = dict(zip(members, naive_scores(features[members], other), strict=True))
    least = min(scores.values())
    assert smaller.handles.tolist() == [i for i in members if scores[i] <= least + 1.0]
    assert subset.best(other) == next(i for i in members if scores[i] == least)
    assert smaller.rows.tolist() == features[smaller.handles].tolist()
    assert smaller.features(smaller.handles).tolist() == smaller.rows.tolist()
    assert smaller.size == len(smaller.handles)


def test_a_subset_answers_for_itself_and_leaves_the_whole_alone() -> None:
    actions = Actions([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], coordinates=1)
    subset = actions.top(np.array([1.0, 1.0]), 3)
    assert subset.handles.tolist() == [1, 2, 3]
    assert subset.largest_norm() == 2.0
    assert actions.largest_norm() == 5.0
    assert actions.size == 4
    assert (subset.dim, subset.coordinates) == (2, 1)
    assert subset.action_features(2).tolist() == [0.0, 2.0]
    assert repr(subset) == "Actions(3 actions, dim 2)"
    assert subset.listed() is subset


def test_scores_of_every_member() -> None:
    actions = Actions(SQUARE)
    assert actions.scores(np.array([2.0, -1.0])) == pytest.approx([2.0, -1.0, 0.6])
    assert actions.within(np.array([2.0, -1.0]), 1.7).scores(np.array([1.0, 0.0])) == pytest.approx([0.0, 0.6])


def test_design_of_a_subset_has_handles_of_the_whole() -> None:
    """Algorithm 2, step 1: after elimination the remaining actions span less, and the design stays among them."""
    actions = Actions([[5.0, 5.0, 5.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    subset = actions.within(np.array([1.0, 1.0, 1.0]), 0.5)
    design = subset.design(1e-6)
    assert (design.actions.tolist(), design.rank) == ([1, 2], 2)
    assert design.weights == pytest.approx([0.5, 0.5], abs=1e-6)


def test_design_is_found_once_per_tolerance_and_set() -> None:
    actions = Actions(SQUARE)
    coarse = actions.design(0.1)
    assert actions.design(0.1) is coarse
    assert actions.design(1e-6) is not coarse
    assert actions.top(np.array([1.0, 0.0]), 3).design(0.1) is not coarse


@given(features=arrays(np.float64, (5, 3), elements=st.floats(-1e3, 1e3).map(lambda x: x if abs(x) > 1e-20 else 0.0)))
@settings(max_examples=30)
def test_scaled_divides_by_one_scalar(features: Matrix) -> None:
    """Synthetic example: actions are scaled so that no norm exceeds one."""
    largest = max(math.hypot(*row) for row in features)
    assume(largest > 1e-100)
    scaled = Actions.scaled(features).matrix
    assert scaled == pytest.approx(features / largest, rel=1e-12, abs=1e-300)
    assert np.linalg.norm(scaled, axis=1).max() == pytest.approx(1.0, rel=1e-12)


def test_scaled_leaves_zero_vectors_and_passes_coordinates_on() -> None:
    actions = Actions.scaled([[0.0, 0.0]], coordinates=1)
    assert actions.matrix.tolist() == [[0.0, 0.0]]
    assert actions.coordinates == 1
    assert Actions.scaled([[0.0, 2.0]]).coordinates == 2


def test_fingerprints_differ_between_different_sets() -> None:
    first = Actions(SQUARE)
    others = [
        Actions([*SQUARE[:2], [0.6, 0.7]]),
        Actions(SQUARE[::-1]),
        Actions(SQUARE[:2]),
        Actions(np.array(SQUARE).reshape(2, 3)),
        first.top(np.array([1.0, 0.0]), 2),
    ]
    assert first.fingerprint == Actions(SQUARE).fingerprint
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_sample_is_uniform_over_the_members() -> None:
    """9,000 draws over 3 members: each count is binomial with standard deviation 44.7; six of them allow for 270."""
    subset = Actions(np.arange(10.0).reshape(5, 2)).top(np.array([-1.0, 0.0]), 3)
    drawn = subset.sample(np.random.default_rng(4), 9000)
    members, counts = np.unique(drawn, return_counts=True)
    assert members.tolist() == subset.handles.tolist() == [2, 3, 4]
    assert np.abs(counts - 3000).max() < 270
    assert drawn.dtype == np.int64
    assert subset.sample(np.random.default_rng(4), 9000).tolist() == drawn.tolist()
    assert len(subset.sample(np.random.default_rng(4), 0)) == 0


@pytest.mark.parametrize("make", [Actions, Actions.scaled])
@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], r"features must be rows of numbers of equal length \(2 axes\), was of shape \(0,\)"),
        ([[]], r"features must not be empty, was of shape \(1, 0\)"),
        ([[1.0], [1.0, 2.0]], "features must be rows of numbers of equal length, was ragged or not numeric"),
        ([1.0, 2.0], r"features must be rows of numbers of equal length \(2 axes\), was of shape \(2,\)"),
        ([["a"]], "features must be rows of numbers of equal length, was ragged or not numeric"),
        ([[math.nan]], r"features must be finite, was nan at \[0, 0\]"),
        ([[1.0], [math.inf]], r"features must be finite, was inf at \[1, 0\]"),
        (None, "features must be rows of numbers of equal length"),
    ],
)
def test_bad_features(make: Any, features: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        make(features)


@pytest.mark.parametrize("coordinates", [0, -1, 1.0, "2", True, [1]])
def test_bad_coordinates(coordinates: Any) -> None:
    with pytest.raises(InputError) as caught:
        Actions(SQUARE, coordinates=coordinates)
    assert str(caught.value) == f"coordinates must be a positive integer, was {coordinates!r}"


@pytest.mark.parametrize(
    "ask",
    [
        lambda actions, coef: actions.best(coef),
        lambda actions, coef: actions.scores(coef),
        lambda actions, coef: actions.within(coef, 0.1),
        lambda actions, coef: actions.top(coef, 1),
    ],
)
@pytest.mark.parametrize(
    ("coef", "expected"),
    [
        ([1.0], "coef must have 2 entries, had 1"),
        ([1.0, 2.0, 3.0], "coef must have 2 entries, had 3"),
        ([], r"coef must not be empty, was of shape \(0,\)"),
        ([[1.0, 2.0]], "coef must be a list of numbers"),
        ([1.0, math.nan], r"coef must be finite, was nan at \[1\]"),
        ([-math.inf, 1.0], r"coef must be finite, was -inf at \[0\]"),
        (["a", "b"], "coef must be a list of numbers"),
        (2.0, "coef must be a list of numbers"),
        (None, "coef must be a list of numbers"),
    ],
)
def test_bad_coefficients(ask: Any, coef: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        ask(Actions(SQUARE), coef)


@pytest.mark.parametrize("tolerance", [-1e-12, math.nan, math.inf, "wide", None, [1.0]])
def test_within_wants_a_tolerance_of_at_least_zero(tolerance: Any) -> None:
    with pytest.raises(InputError) as caught:
        Actions(SQUARE).within(np.array([1.0, 0.0]), tolerance)
    assert str(caught.value) == f"tolerance must be a number of at least 0, was {tolerance!r}"


@pytest.mark.parametrize("count", [0, -1, 1.0, "2", True, None])
def test_top_wants_a_positive_count(count: Any) -> None:
    with pytest.raises(InputError) as caught:
        Actions(SQUARE).top(np.array([1.0, 0.0]), count)
    assert str(caught.value) == f"count must be a positive integer, was {count!r}"


def test_top_wants_no_more_than_there_are() -> None:
    subset = Actions(SQUARE).top(np.array([1.0, 0.0]), 2)
    with pytest.raises(InputError, match="count must be at most 2, was 3"):
        subset.top(np.array([1.0, 0.0]), 3)


@pytest.mark.parametrize("tolerance", [0, -1, math.nan, 11, "fine", None])
def test_bad_tolerance_of_a_design(tolerance: Any) -> None:
    with pytest.raises(InputError, match="tolerance must be a number of at least 1e-09 and of at most 10, was"):
        Actions(SQUARE).design(tolerance)


@pytest.mark.parametrize("seed", range(6))
def test_handles_lead_to_their_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    handles = np.unique(rng.integers(-5, 40, (200, 3)), axis=0)
    rng.shuffle(handles)
    index = _HandleIndex(handles, len(handles))
    asked = rng.permutation(len(handles))[:50]
    np.testing.assert_array_equal(index.rows_of(handles[asked]), asked)
    strange = handles[asked] + np.array([0, 1000, 0])
    assert (index.search(strange)[0] < 0).all()
    assert index.search(handles[asked])[1] == 0
    with pytest.raises(InputError, match="members of the action set"):
        index.rows_of(np.vstack([handles[asked], strange[:1]]))


def test_equal_handles_are_refused() -> None:
    with pytest.raises(InputError, match="must be distinct"):
        _HandleIndex(np.array([[1, 2], [1, 2]]), 2)


@pytest.mark.parametrize("shape", [(0,), (1,), (70,), (40, 1), (90, 4), (0, 3)])
def test_different_handles_come_in_the_sequence_in_which_they_appear(shape: tuple[int, ...]) -> None:
    batch = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    first, place = distinct_actions(batch)
    different = batch[first]
    keys = [tuple(np.atleast_1d(row).tolist()) for row in batch]
    expected = list(dict.fromkeys(keys))
    assert [tuple(np.atleast_1d(row).tolist()) for row in different] == expected
    assert place.tolist() == [expected.index(key) for key in keys]
    assert different.shape[1:] == batch.shape[1:]
