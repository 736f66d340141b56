"""One design among equally good ones: unique, even, and not moved by rounding errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from riskroute.learning.design.canonical import (
    canonical_least_norm,
    canonical_products,
    canonical_weights,
    on_canonical_grid,
)
from riskroute.learning.design.g_optimal import g_optimal
from riskroute.routing.splits import list_splits, split_actions

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def naive_least_norm(rows: Matrix, target: Vector) -> Vector:
    """Non-negative least squares of the equations, heavily weighted, beside the weights themselves."""
    heavy = 1e5
    system = np.vstack([heavy * rows.T, np.eye(len(rows))])
    return np.asarray(scipy.optimize.nnls(system, np.append(heavy * target, np.zeros(len(rows))))[0])


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[Matrix, Vector]:
    """Rows, often repeated or dependent, and a mixture of some of them with non-negative weights."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, q = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    rows = rng.integers(-2, 3, (n, q)).astype(float)
    weights = rng.random(n) * (rng.random(n) < draw(st.sampled_from([0.3, 1.0])))
    return rows, rows.T @ weights


@given(case=mixtures())
@settings(max_examples=75)
def test_least_norm_agrees_with_its_naive_twin(case: tuple[Matrix, Vector]) -> None:
    rows, target = case
    found = canonical_least_norm(rows, target)
    assert found is not None
    assert (found >= 0).all()
    assert rows.T @ found == pytest.approx(target, abs=1e-9)
    assert found == pytest.approx(naive_least_norm(rows, target), abs=2e-4)


def test_what_no_weights_make_has_none() -> None:
    assert canonical_least_norm(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.5, -0.5])) is None


def test_actions_that_play_the_same_part_get_the_same_weight() -> None:
    """All permutations of a split play the same part: their weights are equal to the last bit."""
    splits = list_splits(8, 6)
    design = g_optimal(split_actions(8, 6).rows, 0.01)
    kinds: dict[tuple[int, ...], set[float]] = {}
    for action, weight in zip(design.actions, design.weights, strict=True):
        kinds.setdefault(tuple(sorted(splits[action].tolist())), set()).add(float(weight))
    corners = kinds[0, 0, 0, 0, 0, 8]
    assert len(corners) == 1
    assert corners.pop() == pytest.approx(0.0827, abs=5e-5)


@pytest.mark.parametrize(("shares", "slots"), [(4, 4), (6, 6), (8, 6), (10, 8)])
def test_last_bits_of_the_features_choose_nothing(shares: int, slots: int) -> None:
    features = split_actions(shares, slots).rows
    plain = g_optimal(features, 0.01)
    for seed in range(3):
        blurred = features * (1 + 4e-16 * np.random.default_rng(seed).standard_normal(features.shape))
        again = g_optimal(blurred, 0.01)
        assert again.actions.tolist() == plain.actions.tolist()
        assert again.weights == pytest.approx(plain.weights, abs=1e-7)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=12)
def test_last_bits_choose_nothing_among_what_an_elimination_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = split_actions(6, 6).rows
    scores = features @ rng.standard_normal(12)
    kept = features[scores <= np.quantile(scores, rng.uniform(0.05, 0.6))]
    plain, again = (g_optimal(rows, 0.01) for rows in (kept, kept * (1 + 4e-16 * rng.standard_normal(kept.shape))))
    assert again.actions.tolist() == plain.actions.tolist()
    assert again.weights == pytest.approx(plain.weights, abs=1e-6)


def test_order_of_the_slots_does_not_change_the_design() -> None:
    features = split_actions(6, 6).rows
    plain = g_optimal(features, 0.01)
    order = np.random.default_rng(0).permutation(6)
    turned = g_optimal(features[:, [*order, *(6 + order)]], 0.01)
    assert turned.actions.tolist() == plain.actions.tolist()
    assert turned.weights.tolist() == plain.weights.tolist()


@given(case=mixtures(), limit=st.integers(1, 6))
@settings(max_examples=50)
def test_moving_weights_keeps_their_sum_of_columns(case: tuple[Matrix, Vector], limit: int) -> None:
    rows, target = case
    weights = np.maximum(naive_least_norm(rows, target), 0.0)
    moved = canonical_weights(np.ascontiguousarray(rows.T), weights, limit)
    assert rows.T @ moved == pytest.approx(rows.T @ weights, abs=1e-9)
    assert (moved >= 0).all()
    assert moved.sum() <= weights.sum() + 1e-9
    assert (moved > 0).sum() <= max(limit, np.linalg.matrix_rank(rows))


def test_products_have_the_inner_products_of_their_matrices() -> None:
    white = np.random.default_rng(1).standard_normal((5, 3))
    assert canonical_products(white) @ canonical_products(white).T == pytest.approx((white @ white.T) ** 2)


@pytest.mark.parametrize("grid", [2.0**24, 2.0**40])
def test_rounding_errors_are_off_the_grid(grid: float) -> None:
    weights = np.array([1 / 3, 1 / 4, 5 / 12, 0.0])
    blurred = weights * (1 + 1e-15) + 1e-16
    assert on_canonical_grid(blurred, grid).tolist() == on_canonical_grid(weights, grid).tolist()
    assert on_canonical_grid(weights, grid) == pytest.approx(weights, abs=2 / grid)
