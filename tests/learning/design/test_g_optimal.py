"""G-optimal designs: every certificate is recomputed in rational arithmetic, every solver has a slow twin."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from exact_designs import (
    Matrix,
    Vector,
    as_rationals,
    exact_leverages,
    feature_sets,
    full_weights,
    plain_leverages,
    reduced,
)
from riskroute.core.errors import InputError, RiskrouteError
from riskroute.learning.design import g_optimal as design_module
from riskroute.learning.design.g_optimal import DesignError, g_optimal


def orthonormal_points(features: Matrix) -> Matrix:
    """Coordinates of the rows in an orthonormal basis of their span, as in step 1 of Algorithm 2."""
    _, singular, rows = np.linalg.svd(features, full_matrices=False)
    return np.array(features @ rows[singular > 1e-10 * singular[0]].T)


def plain_leverages_of_many(features: Matrix, weights: Vector) -> Vector:
    """The same without a diagonal matrix of all weights."""
    inverse = np.linalg.inv(features.T @ (features * weights[:, None]))
    return np.array(np.einsum("ij,jk,ik->i", features, inverse, features))


def log_det(points: Matrix, weights: Vector) -> float:
    return float(np.linalg.slogdet(points.T @ np.diag(weights) @ points)[1])


def frank_wolfe(points: Matrix, steps: int) -> Vector:
    """Wynn's algorithm with the best step: move weight to the point of largest leverage, again and again."""
    rank = points.shape[1]
    weights = np.full(len(points), 1 / len(points))
    for _ in range(steps if rank > 1 else 0):
        levers = plain_leverages_of_many(points, weights)
        worst = int(np.argmax(levers))
        step = (levers[worst] / rank - 1) / (levers[worst] - 1)
        weights = (1 - step) * weights
        weights[worst] += step
    if rank == 1:
        weights = np.zeros(len(points))
        weights[int(np.argmax(np.abs(points[:, 0])))] = 1.0
    return weights


tolerances = st.sampled_from([1e-6, 1e-3, 0.01, 0.5])


@pytest.mark.usefixtures("untraced")
@given(features=feature_sets(), tolerance=tolerances)
@settings(max_examples=60)
def test_certificate_holds_in_rational_arithmetic(features: Matrix, tolerance: float) -> None:
    """Eq. for the G-optimal design: max leverage at most the bound, the bound within tolerance of the rank.

    Rows differ in scale by at most 2^12, so the coordinates lose at most six digits of sixteen: 1e-7 is ample.
    """
    design = g_optimal(features, tolerance)
    rank = len(reduced(as_rationals(features))[1])
    assert design.rank == rank
    assert (design.weights > 0).all()
    assert design.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert len(design.actions) == len(design.weights) == len(design)
    assert (np.diff(design.actions) > 0).all()  # ascending, so distinct
    assert design.actions.min() >= 0
    assert design.actions.max() < len(features)
    assert len(design) <= max(1, rank * (rank + 1) // 2)
    assert design.bound <= rank * (1 + tolerance) * (1 + 1e-12)
    if rank > 0:
        largest = float(max(exact_leverages(features, design)))
        assert largest <= design.bound * (1 + 1e-7)
        assert design.bound <= largest * (1 + 1e-7)
        assert largest >= rank * (1 - 1e-12)  # Kiefer and Wolfowitz: no design does better


@given(features=feature_sets(), seed=st.integers(0, 1000))
@settings(max_examples=25)
def test_design_does_not_depend_on_the_coordinates(features: Matrix, seed: int) -> None:
    """Under an invertible map the rank stays, and designs found on either side serve the other as well."""
    tolerance = 1e-3
    dim = features.shape[1]
    rng = np.random.default_rng(seed)
    lower = np.tril(rng.integers(-2, 3, size=(dim, dim)), -1) + np.eye(dim)  # integers, determinant one
    mapped = features @ (lower @ lower.T) * 2.0 ** rng.integers(-10, 11, size=dim)
    here, there = g_optimal(features, tolerance), g_optimal(mapped, tolerance)
    assert here.rank == there.rank
    if here.rank > 0:
        for one in (here, there):
            largest = max(exact_leverages(features, one))
            assert largest <= here.rank * (1 + tolerance) * (1 + 1e-7)


@given(features=feature_sets())
@settings(max_examples=30)
def test_equal_input_gives_equal_output_and_is_left_alone(features: Matrix) -> None:
    before = features.copy()
    first, second = g_optimal(features), g_optimal(features.tolist())
    assert features.tolist() == before.tolist()
    assert first.actions.tolist() == second.actions.tolist()
    assert first.weights.tolist() == second.weights.tolist()
    assert (first.bound, first.rank) == (second.bound, second.rank)


SETS = {
    "gaussian": np.random.default_rng(0).standard_normal((40, 4)),
    "heavy tails": np.random.default_rng(1).standard_normal((60, 3)) ** 3,
    "rank two of three": np.random.default_rng(2).standard_normal((25, 2)) @ np.array([[1.0, 2, 3], [0, 1, -1]]),
    "every row twice": np.repeat(np.random.default_rng(3).standard_normal((15, 3)), 2, axis=0),
    "one line": np.outer([1.0, -3.0, 2.0, 3.0], [1.0, 2.0]),
    "splits": np.array([row for row in itertools.product(range(4), repeat=3) if sum(row) == 3], dtype=np.float64),
}


@pytest.mark.parametrize("name", SETS)
def test_design_finds_what_frank_wolfe_finds(name: str) -> None:
    """Within tolerance e of the smallest leverage, log det is within r log(1 + e) of the largest."""
    features, tolerance = SETS[name], 1e-6
    points = orthonormal_points(features)
    rank = points.shape[1]
    twin = frank_wolfe(points, 3000)
    reached = plain_leverages(points, twin).max() / rank - 1
    assert reached < 5e-3
    design = g_optimal(features, tolerance)
    assert design.rank == rank
    difference = log_det(points, full_weights(design, len(features))) - log_det(points, twin)
    assert -rank * tolerance - 1e-9 <= difference <= rank * reached + 1e-9


@pytest.mark.parametrize("tolerance", [1e-9, 1e-7, 1e-4, 0.01, 0.04, 0.3, 10])
@pytest.mark.parametrize("name", SETS)
def test_every_tolerance_is_met(name: str, tolerance: float) -> None:
    design = g_optimal(SETS[name], tolerance)
    points = orthonormal_points(SETS[name])
    largest = plain_leverages(points, full_weights(design, len(points))).max()
    assert largest == pytest.approx(design.bound, rel=1e-11)
    assert design.excess == design.bound / design.rank - 1
    assert -1e-12 <= design.excess <= tolerance * (1 + 1e-3)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_unit_vectors_share_equally(dim: int) -> None:
    design = g_optimal(np.eye(dim), 1e-9)
    assert design.actions.tolist() == list(range(dim))
    assert design.weights == pytest.approx(np.full(dim, 1 / dim), abs=1e-9)
    assert design.bound == pytest.approx(dim, rel=1e-9)


@pytest.mark.parametrize(
    ("degree", "nodes"), [(1, [-1, 1]), (2, [-1, 0, 1]), (3, [-1, -math.sqrt(1 / 5), math.sqrt(1 / 5), 1])]
)
def test_polynomial_regression_has_the_known_design(degree: int, nodes: list[float]) -> None:
    """Optimal on [-1, 1]: equal weights at the ends and at the extrema of the Legendre polynomial (Guest 1958)."""
    grid = np.union1d(np.linspace(-1, 1, 501), nodes)
    design = g_optimal(np.vander(grid, degree + 1), 1e-9)
    at_nodes = [design.weights[np.abs(grid[design.actions] - node) < 0.01].sum() for node in nodes]
    assert at_nodes == pytest.approx([1 / (degree + 1)] * (degree + 1), abs=1e-4)


def test_the_longest_of_parallel_vectors_takes_all() -> None:
    design = g_optimal(np.array([[1.0, 2.0], [-3.0, -6.0], [0.0, 0.0], [2.0, 4.0]]))
    assert (design.actions.tolist(), design.weights.tolist(), design.rank) == ([1], [1.0], 1)
    assert design.bound == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (5, 2)])
def test_zero_vectors_leave_nothing_to_learn(shape: tuple[int, int]) -> None:
    design = g_optimal(np.zeros(shape))
    assert (design.actions.tolist(), design.weights.tolist()) == ([0], [1.0])
    assert (design.bound, design.rank, design.excess) == (0.0, 0, 0.0)


def test_units_of_a_feature_do_not_decide_the_rank() -> None:
    features = SETS["gaussian"] * np.array([1e-30, 1.0, 1e30, 1e100])
    design = g_optimal(features, 0.01)
    assert design.rank == 4
    assert float(max(exact_leverages(features, design))) <= design.bound * (1 + 1e-9)


@pytest.mark.parametrize("angle", [1e-3, 1e-6, 1e-8])
def test_nearly_parallel_features_are_told_apart(angle: float) -> None:
    """The certificate loses as many digits as the features share: one part in angle / 1e-16, at most."""
    features = np.random.default_rng(6).standard_normal((12, 3))
    features[:, 2] = features[:, 0] + angle * features[:, 2]
    design = g_optimal(features, 0.01)
    assert design.rank == 3
    assert float(max(exact_leverages(features, design))) <= design.bound * (1 + max(1e-9, 1e-14 / angle))


def test_many_actions_need_several_scans_and_chunks() -> None:
    """More actions than one chunk and one working set: the certificate covers all of them."""
    features = np.random.default_rng(7).standard_normal((9001, 6))
    design = g_optimal(features, 1e-6)
    levers = plain_leverages_of_many(features, full_weights(design, len(features)))
    assert levers.max() == pytest.approx(design.bound, rel=1e-9)
    assert design.excess <= 1e-6 * (1 + 1e-6)
    assert len(design) <= 21


def test_actions_outside_the_first_working_set_are_found_by_the_scan() -> None:
    """Seen from the whole set the crowd on the first axis looks short, but the others reach only 0.6 along it."""
    rng = np.random.default_rng(14)
    crowd = np.column_stack([np.linspace(0.9, 1.0, 10_000), np.zeros(10_000)])
    others = np.column_stack([0.6 * rng.choice([-1.0, 1.0], size=250), np.ones(250)]) * rng.uniform(0.9, 1.0, (250, 1))
    features = np.vstack([crowd, others])
    design = g_optimal(features, 1e-6)
    weights = full_weights(design, len(features))
    assert weights[9999] > 0.05
    assert plain_leverages_of_many(features, weights).max() == pytest.approx(design.bound, rel=1e-9)
    assert design.excess <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize("tolerance", [0.04, 0.1])
def test_more_support_than_needed_is_thinned(tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a sphere the solver leaves more than r (r + 1) / 2 actions; the paper promises that many are enough."""
    before = []
    original = design_module.thin_support

    def noted(*given: Any) -> Any:
        before.append(len(given[1]))
        return original(*given)

    monkeypatch.setattr(design_module, "thin_support", noted)
    directions = np.random.default_rng(0).standard_normal((300, 3))
    sphere = directions / np.linalg.norm(directions, axis=1)[:, None]
    design = g_optimal(sphere, tolerance)
    assert before[0] > 6 >= len(design)
    assert plain_leverages(sphere, full_weights(design, 300)).max() <= 3 * (1 + tolerance)


def test_outermost_actions_in_a_subspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest 250 vectors, seen from the whole set, span a plane; the third direction is in the crowd."""
    used = []
    original = design_module._spanning_rows

    def noted(*given: Any) -> Any:
        used.append(True)
        return original(*given)

    monkeypatch.setattr(design_module, "_spanning_rows", noted)
    angles = np.linspace(0, math.pi, 250, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(250)])
    crowd = np.tile([0.0, 0.0, 1.0], (10_000, 1))
    design = g_optimal(np.vstack([crowd, circle]), 1e-6)
    assert used
    assert design.rank == 3
    assert design.bound == pytest.approx(3.0, rel=1e-6)
    assert design.weights[design.actions < 10_000].sum() == pytest.approx(1 / 3, abs=1e-5)


def test_exchange_goes_on_where_newton_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_module, "_newton_polish", lambda points, weights, tolerance: (weights, False))
    assert g_optimal(SETS["gaussian"], 1e-5).excess <= 1e-5


def test_a_design_that_cannot_be_certified_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_module, "_MAX_SCANS", 1)
    monkeypatch.setattr(design_module, "_solve_small", lambda points, weights, tolerance: weights)
    with pytest.raises(DesignError, match=r"did not reach 0.01 in 1 scans of 40 actions"):
        g_optimal(SETS["gaussian"])
    assert issubclass(DesignError, RiskrouteError)


def test_a_bound_spoiled_at_the_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(points: Matrix, weights: Vector, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], Vector]:
        return index, np.where(np.arange(len(weights)) == 0, 0.9, 0.1 / (len(weights) - 1))

    monkeypatch.setattr(design_module, "thin_support", spoil)
    with pytest.raises(DesignError, match=r"above the optimum, wanted 0.01"):
        g_optimal(SETS["gaussian"])


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], r"features must be rows of numbers of equal length \(2 axes\), was of shape \(0,\)"),
        ([[]], r"features must not be empty, was of shape \(1, 0\)"),
        (np.zeros((0, 3)), r"features must not be empty, was of shape \(0, 3\)"),
        ([[1.0], [1.0, 2.0]], r"features must be rows of numbers of equal length, was ragged or not numeric"),
        ([1.0, 2.0], r"features must be rows of numbers of equal length \(2 axes\), was of shape \(2,\)"),
        (3.0, r"features must be rows of numbers of equal length \(2 axes\), was of shape \(\)"),
        ([["a", "b"]], r"features must be rows of numbers of equal length, was ragged or not numeric"),
        ([[1.0, math.nan]], r"features must be finite, was nan at \[0, 1\]"),
        ([[1.0], [-math.inf]], r"features must be finite, was -inf at \[1, 0\]"),
    ],
)
def test_bad_features(features: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        g_optimal(features)


@pytest.mark.parametrize("tolerance", [0, -0.1, 0.9e-9, 10.1, math.nan, math.inf, "small", None, [0.1]])
def test_bad_tolerance(tolerance: Any) -> None:
    with pytest.raises(InputError) as caught:
        g_optimal(np.eye(2), tolerance)
    assert str(caught.value) == (f"tolerance must be a number of at least 1e-09 and of at most 10, was {tolerance!r}")
