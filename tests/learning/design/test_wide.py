"""Designs on many coordinates, against plain linear algebra and the design for few of them."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute.learning.design.g_optimal import g_optimal, too_wide_for_g_optimal
from riskroute.learning.design.wide import (
    _orthogonalised,
    _wide_inverse_root,
    _wide_spanning_start,
    few_wide_rows,
    wide_design,
    wide_optimal,
)


def leverages(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    inverse = np.linalg.pinv((features * weights[:, None]).T @ features, rcond=1e-10, hermitian=True)
    return np.einsum("ni,ij,nj->n", features, inverse, features)


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01])
@pytest.mark.parametrize("seed", range(3))
def test_largest_leverage_is_within_the_tolerance(tolerance: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((90, 7)) * 10.0 ** rng.uniform(-4, 4, 7)
    design = wide_design(features, tolerance)
    assert design.weights.sum() == pytest.approx(1)
    assert (design.weights >= 0).all()
    expected = leverages(features / np.abs(features).max(axis=0), design.weights)
    np.testing.assert_allclose(np.sum((features @ design.whitening) ** 2, axis=1), expected, rtol=1e-6)
    np.testing.assert_allclose(np.einsum("ni,ij,nj->n", features, design.form(), features), expected, rtol=1e-6)
    assert expected.max() <= 7 * (1 + tolerance) * (1 + 1e-9)
    assert design.excess == pytest.approx(expected.max() / 7 - 1, abs=1e-9)


def test_points_in_a_subspace_have_its_rank() -> None:
    rng = np.random.default_rng(4)
    features = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 8))
    features[:, 2] = 0.0
    design = wide_design(features, 0.02)
    assert design.rank == 3
    assert leverages(features, design.weights).max() <= 3 * 1.02 * (1 + 1e-6)


def test_a_start_is_used_if_it_spans_and_replaced_if_not() -> None:
    features = np.random.default_rng(5).standard_normal((40, 5))
    first = wide_design(features, 0.01)
    again = wide_design(features, 0.01, first.weights)
    np.testing.assert_allclose(again.weights, first.weights, atol=1e-12)
    lame = np.zeros(40)
    lame[:3] = 1.0
    assert wide_design(features, 0.01, lame).excess <= 0.01


def test_parts_against_plain_linear_algebra() -> None:
    rng = np.random.default_rng(6)
    columns = rng.standard_normal((6, 50))
    points, back, rank = _orthogonalised(columns)
    assert rank == 6
    np.testing.assert_allclose(points @ points.T / 50, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(back.T @ columns, points, atol=1e-12)
    weights = rng.random(50)
    root = _wide_inverse_root(points, weights)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv((points * weights) @ points.T), rtol=1e-9, atol=1e-12)
    start = _wide_spanning_start(points)
    assert (start > 0).sum() == 6
    assert np.linalg.matrix_rank(points[:, start > 0]) == 6
    assert np.isnan(_wide_inverse_root(points, np.where(np.arange(50) < 4, 1.0, 0.0))).any()


def test_few_points_do_as_well() -> None:
    """With two coordinates three points are enough, however many carry weight."""
    angles = np.linspace(0, np.pi, 40, endpoint=False)
    features = np.column_stack([np.cos(angles), np.sin(angles)])
    design = wide_design(features, 0.001, np.ones(40))
    assert (design.weights > 0).sum() > 3
    index, weights, whitening = few_wide_rows(features, design)
    assert len(index) <= 3
    assert weights.sum() == pytest.approx(1)
    levers = np.sum((features @ whitening) ** 2, axis=1)
    assert levers.max() <= 2 * 1.001 * (1 + 1e-6)


def test_wide_sets_get_designs_like_others() -> None:
    features = np.random.default_rng(7).standard_normal((300, 10))
    wide, usual = wide_optimal(features, 0.01), g_optimal(features, 0.01)
    assert wide.rank == usual.rank == 10
    weights = np.zeros(300)
    weights[wide.actions] = wide.weights
    assert leverages(features, weights).max() == pytest.approx(wide.bound, rel=1e-9)
    assert wide.bound <= 10 * 1.01 * (1 + 1e-9)


def test_sets_are_wide_by_their_table_of_pairs() -> None:
    assert not too_wide_for_g_optimal(10**6, 24)
    assert not too_wide_for_g_optimal(1000, 40)
    assert too_wide_for_g_optimal(2000, 40)
    assert not too_wide_for_g_optimal(30, 400)  # rank 30 at most
