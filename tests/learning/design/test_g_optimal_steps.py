"""The steps of a G-optimal design: round coordinates, leverages by chunks, a start that spans, thinning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from exact_designs import Matrix, Vector, as_rationals, feature_sets, plain_leverages, reduced
from riskroute.learning.design.g_optimal import _spanning_start, leverages, round_coordinates, thin_support


@given(features=feature_sets())
@settings(max_examples=30)
def test_round_coordinates_make_the_set_round(features: Matrix) -> None:
    to_round = round_coordinates(features)
    rank = len(reduced(as_rationals(features))[1])
    assert to_round.shape == (features.shape[1], rank)
    points = features @ to_round
    assert points.T @ points / len(points) == pytest.approx(np.eye(rank), abs=1e-6)


def test_round_coordinates_of_an_ill_conditioned_set() -> None:
    features = np.random.default_rng(9).standard_normal((30, 2))
    features[:, 1] = features[:, 0] + 1e-7 * features[:, 1]  # its Gram matrix has condition 1e14
    points = features @ round_coordinates(features)
    assert points.T @ points / 30 == pytest.approx(np.eye(2), abs=1e-6)


@pytest.mark.parametrize("n_actions", [1, 4095, 4096, 4097, 8193])
def test_leverages_by_chunks_are_leverages(n_actions: int) -> None:
    rng = np.random.default_rng(10)
    features, root = rng.standard_normal((n_actions, 3)), rng.standard_normal((3, 2))
    matrix = root @ root.T
    assert leverages(features, root) == pytest.approx(np.array([row @ matrix @ row for row in features]), rel=1e-12)


def test_spanning_start_takes_as_many_points_as_dimensions() -> None:
    points = np.array([[1.0, 0, 0], [2.0, 0, 0], [0, 0, 3.0], [0, 1e-3, 0], [0, 0, 1.0]])
    weights = _spanning_start(points)
    assert weights is not None
    assert weights.tolist() == [0.0, 1 / 3, 1 / 3, 1 / 3, 0.0]


@pytest.mark.parametrize("points", [np.eye(3)[:2], np.array([[1.0, 2], [2.0, 4], [-1.0, -2]])])
def test_spanning_start_says_when_points_do_not_span(points: Matrix) -> None:
    assert _spanning_start(points) is None


@st.composite
def weighted_points(draw: st.DrawFn) -> tuple[Matrix, Vector]:
    """Points that span, with weights, often more than needed and often repeated."""
    rank = draw(st.integers(1, 3))
    more = draw(arrays(np.float64, (draw(st.integers(0, 20)), rank), elements=st.integers(-2, 2).map(float)))
    points = np.vstack([np.eye(rank), more])
    raw = draw(arrays(np.float64, len(points), elements=st.integers(1, 100).map(float)))
    return points, raw / raw.sum()


@given(case=weighted_points())
@settings(max_examples=30)
def test_thinning_keeps_the_information_and_raises_no_leverage(case: tuple[Matrix, Vector]) -> None:
    """Caratheodory: at most r (r + 1) / 2 points, and an information matrix that is the old one or a multiple above."""
    points, weights = case
    rank = points.shape[1]
    index, thin = thin_support(points, weights, np.arange(len(points)))
    assert len(index) == len(thin) <= rank * (rank + 1) // 2 or len(points) <= rank * (rank + 1) // 2
    assert len(set(index.tolist())) == len(index)
    assert (thin > 0).all()
    assert thin.sum() == pytest.approx(1.0, abs=1e-12)
    before = points.T @ (points * weights[:, None])
    after = points[index].T @ (points[index] * thin[:, None])
    scale = float(np.trace(after) / np.trace(before))
    assert scale >= 1 - 1e-12
    assert after == pytest.approx(scale * before, abs=1e-11 * float(np.trace(after)))
    full = np.zeros(len(points))
    full[index] = thin
    assert (plain_leverages(points, full) <= plain_leverages(points, weights) * (1 + 1e-9) + 1e-12).all()


def test_thinning_leaves_a_small_support_as_it_is_but_for_zero_weights() -> None:
    points = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    index, weights = thin_support(points, np.array([0.5, 0.0, 0.5]), np.array([7, 8, 9]))
    assert (index.tolist(), weights.tolist()) == ([7, 9], [0.5, 0.5])


def test_thinning_moves_the_weight_of_short_vectors_to_long_ones() -> None:
    """On a line one point is enough; keeping the longest adds information."""
    points = np.array([[1.0], [-4.0], [2.0]])
    index, weights = thin_support(points, np.array([0.5, 0.25, 0.25]), np.arange(3))
    assert (index.tolist(), weights.tolist()) == ([1], [1.0])
