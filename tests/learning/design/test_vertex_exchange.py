"""Vertex exchange and Newton polishing against the multiplicative algorithm, which is slow and cannot go wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from riskroute.learning.design import g_optimal as polish_module
from riskroute.learning.design.g_optimal import (
    _newton_polish,
    _vertex_exchange_step,
    _vertex_information,
    exchange_step_compiled,
    vertex_exchange,
    vertex_inverse_root,
)

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

integer_points = st.tuples(st.integers(1, 4), st.integers(0, 20)).flatmap(
    lambda size: arrays(np.float64, (size[0] + size[1], size[0]), elements=st.integers(-3, 3).map(float))
)


def naive_information(points: Matrix, weights: Vector) -> Matrix:
    return np.array(sum(weight * np.outer(point, point) for point, weight in zip(points, weights, strict=True)))


def naive_leverages(points: Matrix, weights: Vector) -> Vector:
    inverse = np.linalg.inv(naive_information(points, weights))
    return np.array([point @ inverse @ point for point in points])


def log_det(points: Matrix, weights: Vector) -> float:
    return float(np.linalg.slogdet(naive_information(points, weights))[1])


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


SETS = {
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
    root = vertex_inverse_root(points, weights)
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
    cross = float(points[low] @ np.linalg.inv(naive_information(points, weights)) @ points[high])
    step = _vertex_exchange_step(levers[high], levers[low], cross, weights[low])
    assert 0 <= step <= weights[low]

    def after(moved: float) -> float:
        changed = weights.copy()
        changed[low] -= moved
        changed[high] += moved
        return log_det(points, changed)

    assert after(step) >= max(after(moved) for moved in np.linspace(0, weights[low], 101)[:-1]) - 1e-12
    assert exchange_step_compiled(levers[high], levers[low], cross, weights[low]) == step


def test_between_parallel_points_all_weight_moves() -> None:
    assert _vertex_exchange_step(4.0, 1.0, 2.0, 0.3) == 0.3
    assert exchange_step_compiled(4.0, 1.0, 2.0, 0.3) == 0.3


@pytest.mark.parametrize("start", [uniform, basis_weights])
@pytest.mark.parametrize("name", SETS)
def test_exchange_reaches_its_tolerance(name: str, start: Callable[[Matrix], Vector]) -> None:
    """Eq. for the G-optimal design: no leverage above the rank (Kiefer and Wolfowitz), here up to one in a thousand."""
    points = SETS[name]
    weights = vertex_exchange(points, start(points), 1e-3, 100_000)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert naive_leverages(points, weights).max() <= points.shape[1] * (1 + 1e-3) * (1 + 1e-9)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", SETS)
def test_exchange_finds_what_the_multiplicative_algorithm_finds(name: str) -> None:
    """A design within tolerance e of the optimal leverage is within r log(1 + e) of the largest log det."""
    points = SETS[name]
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
    points = SETS["gaussian"]
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
    points = SETS["gaussian"]
    start = uniform(points)
    improve(points, start)
    assert (start == 1 / 60).all()


@pytest.mark.parametrize("name", SETS)
def test_polish_reaches_a_billionth(name: str) -> None:
    points = SETS[name]
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
    start = uniform(SETS["parabola"])
    weights, reached = _newton_polish(SETS["parabola"], start, 1e-9)
    assert not reached
    assert weights.tolist() == start.tolist()


def test_polish_gives_up_when_no_step_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line search refuses a target that is worse than where it starts."""
    points = SETS["parabola"]
    start = multiplicative(points, 20)
    worse = multiplicative(points, 1)
    monkeypatch.setattr(polish_module, "_newton_target", lambda *_: worse)
    weights, reached = _newton_polish(points, start, 1e-9)
    assert not reached
    assert weights.tolist() == start.tolist()


def test_polish_stops_after_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polish_module, "_NEWTON_STEPS", 1)
    points = SETS["gaussian"]
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
