"""Leverages of a design in rational arithmetic and by plain formulas, and small feature sets that are hard on both."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from riskroute.learning.design.g_optimal import Design

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
