"""G-optimal designs: every certificate is recomputed in rational arithmetic, every solver has a slow twin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from riskroute.core.errors import DesignError, InputError, RiskrouteError
from riskroute.learning.design import g_optimal as design_module
from riskroute.learning.design import g_optimal as polish_module
from riskroute.learning.design.g_optimal import (
    Design,
    _newton_polish,
    _spanning_start,
    _vertex_information,
    design_leverages,
    g_optimal,
    g_optimal_coordinates,
    thin_g_optimal,
    vertex_exchange,
    vertex_exchange_root,
)

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Rationals = list[list[Fraction]]


def as_rationals(matrix: Matrix) -> Rationals:
    """Floating-point numbers are rational numbers: nothing is lost."""
    return [[Fraction(float(entry)) for entry in row] for row in matrix]


def reduced(rows: Rationals) -> tuple[Rationals, list[int]]:
    """Reduced row echelon form, and its pivot columns."""
    rows = [row[:] for row in rows]
    pivots: list[int] = []
    for column in range(len(rows[0])):
        top = len(pivots)
        found = next((i for i in range(top, len(rows)) if rows[i][column] != 0), None)
        if found is None:
            continue
        rows[top], rows[found] = rows[found], rows[top]
        head = [entry / rows[top][column] for entry in rows[top]]
        rows[top] = head
        for i, row in enumerate(rows):
            if i != top and row[column] != 0:
                rows[i] = [entry - row[column] * first for entry, first in zip(row, head, strict=True)]
        pivots.append(column)
    return rows, pivots


def in_span(features: Matrix) -> Rationals:
    """Exact coordinates of the rows in their span: the entries on the pivot columns decide the rest of a row."""
    rows = as_rationals(features)
    pivots = reduced(rows)[1]
    return [[row[column] for column in pivots] for row in rows]


def exact_information(points: Rationals, weights: list[Fraction]) -> Rationals:
    rank = len(points[0])
    return [
        [sum((w * y[a] * y[b] for y, w in zip(points, weights, strict=True)), Fraction(0)) for b in range(rank)]
        for a in range(rank)
    ]


def exact_leverages(features: Matrix, design: Design) -> list[Fraction]:
    """Solve M z = x for every row x by elimination, and return x' z."""
    points = in_span(features)
    rank = len(points[0])
    support = [points[action] for action in design.actions]
    matrix = exact_information(support, [Fraction(float(weight)) for weight in design.weights])
    system = [matrix[a] + [point[a] for point in points] for a in range(rank)]
    solved, pivots = reduced(system)
    assert pivots[:rank] == list(range(rank)), "the support of the design does not span"
    return [sum((point[a] * solved[a][rank + k] for a in range(rank)), Fraction(0)) for k, point in enumerate(points)]


def full_weights(design: Design, n_actions: int) -> Vector:
    weights = np.zeros(n_actions)
    weights[design.actions] = design.weights
    return weights


def plain_leverages(points: Matrix, weights: Vector) -> Vector:
    inverse = np.linalg.inv(points.T @ np.diag(weights) @ points)
    return np.array([point @ inverse @ point for point in points])


@st.composite
def feature_sets(draw: st.DrawFn) -> Matrix:
    """Small sets that are rank-deficient, repeated, tied, ill-scaled by row and column, or hold zero vectors.

    Entries are small integers times powers of two, so that all of it is exact in floating point.
    """
    n_actions, dim = draw(st.integers(1, 10)), draw(st.integers(1, 5))
    inner = draw(st.integers(1, dim))
    small = st.integers(-3, 3).map(float)
    features = draw(arrays(np.float64, (n_actions, inner), elements=small))
    if inner < dim:
        features = features @ draw(arrays(np.float64, (inner, dim), elements=small))
    features = features[draw(st.lists(st.integers(0, n_actions - 1), min_size=1, max_size=12))]
    row_powers = draw(st.sampled_from([0, 6]))
    column_powers = draw(st.sampled_from([0, 20]))
    rows = draw(arrays(np.int64, (len(features), 1), elements=st.integers(-row_powers, row_powers)))
    columns = draw(arrays(np.int64, (1, dim), elements=st.integers(-column_powers, column_powers)))
    return np.array(features * 2.0**rows * 2.0**columns)


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
    original = design_module.thin_g_optimal

    def noted(*given: Any) -> Any:
        before.append(len(given[1]))
        return original(*given)

    monkeypatch.setattr(design_module, "thin_g_optimal", noted)
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
    with pytest.raises(DesignError, match=r"did not reach tolerance 0.01 in 1 scans of 40 actions"):
        g_optimal(SETS["gaussian"])
    assert issubclass(DesignError, RiskrouteError)


def test_a_bound_spoiled_at_the_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(points: Matrix, weights: Vector, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], Vector]:
        return index, np.where(np.arange(len(weights)) == 0, 0.9, 0.1 / (len(weights) - 1))

    monkeypatch.setattr(design_module, "thin_g_optimal", spoil)
    with pytest.raises(DesignError, match=r"relative excess of the design was .*, expected at most 0.01"):
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


integer_points = st.tuples(st.integers(1, 4), st.integers(0, 20)).flatmap(
    lambda size: arrays(np.float64, (size[0] + size[1], size[0]), elements=st.integers(-3, 3).map(float))
)


def naive_information(points: Matrix, weights: Vector) -> Matrix:
    return np.array(sum(weight * np.outer(point, point) for point, weight in zip(points, weights, strict=True)))


def naive_leverages(points: Matrix, weights: Vector) -> Vector:
    inverse = np.linalg.inv(naive_information(points, weights))
    return np.array([point @ inverse @ point for point in points])


def multiplicative(points: Matrix, steps: int = 3000) -> Vector:
    """Design by Titterington's multiplicative algorithm: scale every weight by its leverage over the rank."""
    weights = np.full(len(points), 1 / len(points))
    for _ in range(steps):
        information = points.T @ (points * weights[:, None])
        levers = np.einsum("ij,ji->i", points, np.linalg.solve(information, points.T))
        weights = weights * levers / points.shape[1]
    return weights


def spanning(points: Matrix) -> bool:
    return bool(np.linalg.matrix_rank(points) == points.shape[1])


def basis_weights(points: Matrix) -> Vector:
    """Equal weights on the first rows that span: a start with the smallest support there is."""
    rows: list[int] = []
    for i in range(len(points)):
        if np.linalg.matrix_rank(points[[*rows, i]]) > len(rows):
            rows.append(i)
    weights = np.zeros(len(points))
    weights[rows] = 1 / len(rows)
    return weights


def uniform(points: Matrix) -> Vector:
    return np.full(len(points), 1 / len(points))


def random_points(seed: int, n: int, rank: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n, rank))


EXCHANGE_SETS = {
    "gaussian": random_points(1, 60, 5),
    "one dimension": np.array([[0.5], [-2.0], [1.0]]),
    "square basis": np.eye(4),
    "hypercube": np.array(list(itertools.product([-1.0, 1.0], repeat=4))),
    "octahedron twice": np.vstack([np.eye(3), -np.eye(3)] * 2),
    "parabola": np.vander(np.linspace(-1, 1, 41), 3),
    "with zero vectors": np.vstack([np.zeros((3, 2)), [[1, 0], [1, 1], [2, 1]]]),
}


def test_information_is_the_weighted_sum_of_outer_products() -> None:
    points = random_points(2, 9, 3)
    weights = np.random.default_rng(3).dirichlet(np.ones(9))
    assert _vertex_information(points, weights) == pytest.approx(
        naive_information(points, weights), rel=1e-13, abs=1e-15
    )


def test_inverse_root_is_a_triangular_root_of_the_inverse() -> None:
    points = random_points(4, 9, 3)
    weights = np.random.default_rng(5).dirichlet(np.ones(9))
    root = vertex_exchange_root(points, weights)
    assert root == pytest.approx(np.triu(root))
    assert root @ root.T == pytest.approx(np.linalg.inv(naive_information(points, weights)), rel=1e-10)


@given(seed=st.integers(0, 10**6), n=st.integers(4, 12), rank=st.integers(2, 4))
@settings(max_examples=30)
def test_the_exchange_step_is_the_best_of_all_steps(seed: int, n: int, rank: int) -> None:
    """log det on the line from the low to the high point, against a grid over all weight that can be moved."""
    points = random_points(seed, n, rank)
    weights = np.random.default_rng(seed + 1).dirichlet(np.ones(n))
    levers = naive_leverages(points, weights)
    high, low = int(np.argmax(levers)), int(np.argmin(levers))
    found = vertex_exchange(points, weights, 0.0, 1)
    assert 0 <= found[low] <= weights[low]

    def after(moved: float) -> float:
        changed = weights.copy()
        changed[low] -= moved
        changed[high] += moved
        return log_det(points, changed)

    assert found == pytest.approx(np.where(np.isin(range(n), (low, high)), found, weights), rel=1e-12)
    assert found.sum() == pytest.approx(1)
    assert log_det(points, found) >= max(after(moved) for moved in np.linspace(0, weights[low], 101)[:-1]) - 1e-12


def test_between_parallel_points_all_weight_moves() -> None:
    points = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert vertex_exchange(points, np.array([0.25, 0.25, 0.5]), 0.0, 1).tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("start", [uniform, basis_weights])
@pytest.mark.parametrize("name", EXCHANGE_SETS)
def test_exchange_reaches_its_tolerance(name: str, start: Callable[[Matrix], Vector]) -> None:
    """Eq. for the G-optimal design: no leverage above the rank (Kiefer and Wolfowitz), here up to one in a thousand."""
    points = EXCHANGE_SETS[name]
    weights = vertex_exchange(points, start(points), 1e-3, 100_000)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert naive_leverages(points, weights).max() <= points.shape[1] * (1 + 1e-3) * (1 + 1e-9)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", EXCHANGE_SETS)
def test_exchange_finds_what_the_multiplicative_algorithm_finds(name: str) -> None:
    """A design within tolerance e of the optimal leverage is within r log(1 + e) of the largest log det."""
    points = EXCHANGE_SETS[name]
    rank = points.shape[1]
    twin = multiplicative(points)
    reached = naive_leverages(points, twin).max() / rank - 1
    assert reached < 0.01
    weights = vertex_exchange(points, uniform(points), 1e-6, 100_000)
    difference = log_det(points, weights) - log_det(points, twin)
    assert -rank * 2e-6 <= difference <= rank * reached + 1e-9


@given(points=integer_points)
@settings(max_examples=30)
def test_exchange_on_sets_with_ties_and_repeats(points: Matrix) -> None:
    assume(spanning(points))
    weights = vertex_exchange(points, basis_weights(points), 0.01, 100_000)
    assert (weights >= 0).all()
    assert naive_leverages(points, weights).max() <= points.shape[1] * 1.01 * (1 + 1e-9)


def test_every_step_gains_and_none_is_taken_beyond_the_limit() -> None:
    points = EXCHANGE_SETS["gaussian"]
    start = basis_weights(points)
    gains = [log_det(points, vertex_exchange(points, start, 0.0, steps)) for steps in range(20)]
    assert gains[0] == log_det(points, start)
    assert (np.diff(gains) > 0).all()


def test_rank_one_updates_do_not_drift() -> None:
    """A set with many optimal designs takes thousands of steps; the leverages computed anew then still agree."""
    splits = np.array([row for row in itertools.product(range(7), repeat=5) if sum(row) == 6], dtype=np.float64)
    points = np.hstack([splits, splits**2])
    start = basis_weights(points)
    allowed = 10 * (1 + 1e-5) * (1 + 1e-8)
    assert naive_leverages(points, vertex_exchange(points, start, 1e-5, 512)).max() > allowed
    assert naive_leverages(points, vertex_exchange(points, start, 1e-5, 10_240)).max() <= allowed


@pytest.mark.parametrize(
    "improve", [lambda p, w: vertex_exchange(p, w, 1e-3, 1000), lambda p, w: _newton_polish(p, w, 1e-6)[0]]
)
def test_the_weights_given_are_not_changed(improve: Callable[[Matrix, Vector], Vector]) -> None:
    points = EXCHANGE_SETS["gaussian"]
    start = uniform(points)
    improve(points, start)
    assert (start == 1 / 60).all()


@pytest.mark.parametrize("name", EXCHANGE_SETS)
def test_polish_reaches_a_billionth(name: str) -> None:
    points = EXCHANGE_SETS[name]
    weights, reached = _newton_polish(points, vertex_exchange(points, uniform(points), 0.02, 100_000), 1e-9)
    assert reached
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert naive_leverages(points, weights).max() <= points.shape[1] * (1 + 1e-9) * (1 + 1e-10)


@given(points=integer_points)
@settings(max_examples=30)
def test_polish_never_claims_what_it_did_not_reach(points: Matrix) -> None:
    """From a poor start Newton's steps may fail, but then they say so, and never lose log det."""
    assume(spanning(points))
    start = basis_weights(points)
    weights, reached = _newton_polish(points, start, 1e-6)
    assert log_det(points, weights) >= log_det(points, start) - 1e-9
    if reached:
        assert naive_leverages(points, weights).max() <= points.shape[1] * (1 + 1e-6) * (1 + 1e-9)


def test_polish_leaves_a_design_that_is_good_enough() -> None:
    weights, reached = _newton_polish(np.eye(3), np.full(3, 1 / 3), 1e-9)
    assert reached
    assert weights.tolist() == [1 / 3] * 3


def test_polish_gives_up_when_least_squares_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("too many iterations")

    monkeypatch.setattr(scipy.optimize, "nnls", fail)
    start = uniform(EXCHANGE_SETS["parabola"])
    weights, reached = _newton_polish(EXCHANGE_SETS["parabola"], start, 1e-9)
    assert not reached
    assert weights.tolist() == start.tolist()


def test_polish_gives_up_when_no_step_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line search refuses a target that is worse than where it starts."""
    points = EXCHANGE_SETS["parabola"]
    start = multiplicative(points, 20)
    worse = multiplicative(points, 1)
    monkeypatch.setattr(polish_module, "_newton_target", lambda *_: worse)
    weights, reached = _newton_polish(points, start, 1e-9)
    assert not reached
    assert weights.tolist() == start.tolist()


def test_polish_stops_after_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polish_module, "_NEWTON_STEPS", 1)
    points = EXCHANGE_SETS["gaussian"]
    weights, reached = _newton_polish(points, uniform(points), 1e-9)
    assert not reached
    assert log_det(points, weights) > log_det(points, uniform(points))


def test_polish_goes_half_way_when_the_target_does_not_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """All the way to the target log det is minus infinity; half way it gains more than a quarter of the promise."""
    monkeypatch.setattr(polish_module, "_NEWTON_STEPS", 1)
    monkeypatch.setattr(polish_module, "_newton_target", lambda *_: np.array([0.0, 1.0]))
    weights, reached = _newton_polish(np.eye(2), np.array([0.9, 0.1]), 1e-9)
    assert not reached
    assert weights == pytest.approx([0.45, 0.55], abs=1e-15)


@given(features=feature_sets())
@settings(max_examples=30)
def test_round_coordinates_make_the_set_round(features: Matrix) -> None:
    to_round = g_optimal_coordinates(features)
    rank = len(reduced(as_rationals(features))[1])
    assert to_round.shape == (features.shape[1], rank)
    points = features @ to_round
    assert points.T @ points / len(points) == pytest.approx(np.eye(rank), abs=1e-6)


def test_round_coordinates_of_an_ill_conditioned_set() -> None:
    features = np.random.default_rng(9).standard_normal((30, 2))
    features[:, 1] = features[:, 0] + 1e-7 * features[:, 1]  # its Gram matrix has condition 1e14
    points = features @ g_optimal_coordinates(features)
    assert points.T @ points / 30 == pytest.approx(np.eye(2), abs=1e-6)


@pytest.mark.parametrize("n_actions", [1, 4095, 4096, 4097, 8193])
def test_leverages_by_chunks_are_leverages(n_actions: int) -> None:
    rng = np.random.default_rng(10)
    features, root = rng.standard_normal((n_actions, 3)), rng.standard_normal((3, 2))
    matrix = root @ root.T
    assert design_leverages(features, root) == pytest.approx(
        np.array([row @ matrix @ row for row in features]), rel=1e-12
    )


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
    index, thin = thin_g_optimal(points, weights, np.arange(len(points)))
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
    index, weights = thin_g_optimal(points, np.array([0.5, 0.0, 0.5]), np.array([7, 8, 9]))
    assert (index.tolist(), weights.tolist()) == ([7, 9], [0.5, 0.5])


def test_thinning_moves_the_weight_of_short_vectors_to_long_ones() -> None:
    """On a line one point is enough; keeping the longest adds information."""
    points = np.array([[1.0], [-4.0], [2.0]])
    index, weights = thin_g_optimal(points, np.array([0.5, 0.25, 0.25]), np.arange(3))
    assert (index.tolist(), weights.tolist()) == ([1], [1.0])
