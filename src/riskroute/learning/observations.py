"""Observations: tallies by feature vector, which stay meaningful when the set of actions changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Floats, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, kernel_array
from riskroute.learning.tally import Tallies, merge_moments_compiled, merge_tally_groups

_ROUNDING = 1e-9  # fewer degrees of freedom per reward than this are a rounding error
_FROM_COUNTS: Any = None

Columns = tuple[Matrix, Vector, Vector, Vector, Vector]
"""Features, counts, means, spreads and degrees of freedom of some rows."""


@dataclass(frozen=True, eq=False)
class Observations:
    """One row per feature vector: count, mean and sum of squared deviations of its rewards.

    Counts may be fractions, for rewards half forgotten. ``free`` are the degrees of freedom of the squared deviations,
    such that ``spreads / free`` are the variances: one less than the count, if every reward counts once. In general,
    with rewards that count ``w``, it is ``sum(w) - sum(w^2) / sum(w)``.

    Examples
    --------
    >>> from riskroute.learning.tally import Tally
    >>> tallies = Tallies.of(np.array([0, 1]), [Tally.of([1.0]), Tally.of([5.0])])
    >>> some = Observations.of(np.array([[1.0], [2.0]]), tallies)
    >>> more = Observations.of(np.array([[2.0]]), Tallies.of(np.array([1]), [Tally.of([7.0])]))
    >>> both = some.joined(more)
    >>> both.features.ravel().tolist(), both.counts.tolist(), both.means.tolist(), both.spreads.tolist()
    ([1.0, 2.0], [1.0, 2.0], [1.0, 6.0], [0.0, 2.0])
    """

    features: Matrix
    counts: Vector
    means: Vector
    spreads: Vector
    free: Vector = _FROM_COUNTS

    def __post_init__(self) -> None:
        counts = exact_array("counts", self.counts, np.float64, (None,))
        free = np.maximum(counts - 1, 0.0) if self.free is None else self.free
        columns = {"counts": counts, "means": self.means, "spreads": self.spreads, "free": free}
        object.__setattr__(self, "features", _in_rows("features", self.features, (len(counts), None)))
        for name, column in columns.items():
            object.__setattr__(self, name, _in_rows(name, column, counts.shape))

    @classmethod
    def _checked(cls, features: Matrix, counts: Vector, means: Vector, spreads: Vector, free: Vector) -> Observations:
        """Observations of arrays that need not be checked, since they are what `__post_init__` makes of others."""
        one = object.__new__(cls)
        one.__dict__.update(features=features, counts=counts, means=means, spreads=spreads, free=free)
        return one

    @classmethod
    def none(cls, dim: int) -> Observations:
        """No rewards at all."""
        return cls(np.zeros((0, dim)), np.zeros(0), np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, features: Matrix, tallies: Tallies) -> Observations:
        """Rewards of some actions with the given features, ``(n, dim)``."""
        features = _in_rows("features", features, (len(tallies), None))
        counts = tallies.counts.astype(np.float64)
        means, spreads = np.ascontiguousarray(tallies.means), np.ascontiguousarray(tallies.spreads)
        return cls._checked(features, counts, means, spreads, np.maximum(counts - 1, 0.0))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rounds(self) -> float:
        """Number of rewards."""
        return float(self.counts.sum())

    def joined(self, *others: Observations) -> Observations:
        """Return all observations together, with rows of equal features merged."""
        for other in others:
            if other.features.shape[1] != self.features.shape[1]:
                raise InputError(f"other must have dimension {self.features.shape[1]}, was {other.features.shape[1]}")
        others = others or (Observations.none(self.features.shape[1]),)
        news = others[0].columns if len(others) == 1 else _together(others)
        return Observations._checked(*_merged(self.columns, news))

    @property
    def columns(self) -> Columns:
        """All fields, for compiled code."""
        return self.features, self.counts, self.means, self.spreads, self.free

    def faded(self, factor: float, least: float = 1e-3) -> Observations:
        """Count every reward ``factor`` times; rows that then count less than ``least`` rewards are dropped."""
        kept = self.counts * factor > least
        return Observations._checked(
            self.features[kept],
            self.counts[kept] * factor,
            self.means[kept],
            self.spreads[kept] * factor,
            self.free[kept] * factor,
        )


def _in_rows(name: str, value: Any, shape: tuple[int | None, ...]) -> Floats:
    """Return an array of real numbers, row after row in memory: what kernels take."""
    return np.ascontiguousarray(exact_array(name, value, np.float64, shape))


def joined_rows(features: Matrix, counts: Vector, means: Vector, spreads: Vector, free: Vector) -> Columns:
    """Merge rows of equal features one by one, and sort by features: compiled `joined_rows_plainly`."""
    features = kernel_array("features", features, (None, None))
    columns = {"counts": counts, "means": means, "spreads": spreads, "free": free}
    counts, means, spreads, free = (kernel_array(name, columns[name], (len(features),)) for name in columns)
    return _merged(Observations.none(features.shape[1]).columns, (features, counts, means, spreads, free))


def _together(parts: tuple[Observations, ...]) -> Columns:
    """Return the rows of all parts, one after the other."""
    return (
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.means for part in parts]),
        np.concatenate([part.spreads for part in parts]),
        np.concatenate([part.free for part in parts]),
    )


def _merged(first: Columns, second: Columns) -> Columns:
    """Do what `joined_rows` does, with rows in two parts that were checked."""
    n, dim = len(first[0]) + len(second[0]), first[0].shape[1]
    rows, merged = np.empty((n, dim)), np.empty((4, n))
    size = joined_rows_compiled(first, second, rows, *merged)
    return rows[:size], merged[0, :size], merged[1, :size], merged[2, :size], merged[3, :size]


def joined_rows_plainly(features: Matrix, counts: Vector, means: Vector, spreads: Vector, free: Vector) -> Columns:
    """Merge rows of equal features one by one, and sort by features: the definition of what is compiled."""
    different, group = np.unique(features, axis=0, return_inverse=True)
    group = group.reshape(-1)
    merged = merge_tally_groups(group, len(different), counts, means, spreads)
    squared = np.bincount(group, counts * (counts - free), len(different))  # sum of squared weights
    left = merged[0] - squared / merged[0]
    return different, *merged, np.where(left > _ROUNDING * merged[0], left, 0.0)


@register_jitable
def _compared(features: Matrix, i: int, j: int) -> int:
    """Return -1, 0 or 1: whether row ``i`` comes before row ``j``, is equal, or comes after it."""
    for k in range(features.shape[1]):
        if features[i, k] != features[j, k]:
            return -1 if features[i, k] < features[j, k] else 1
    return 0


@njit(cache=True, error_model="numpy")
def joined_rows_compiled(
    some: Columns,
    others: Columns,
    rows: Matrix,
    merged: Vector,
    merged_means: Vector,
    merged_spreads: Vector,
    merged_free: Vector,
) -> int:
    """Write the merged rows, and return how many they are."""
    n, dim = rows.shape
    features, columns = np.empty((n, dim)), np.empty((4, n))
    row = 0
    for part in (some, others):
        for i in range(len(part[0])):
            for a in range(dim):
                features[row, a] = part[0][i, a]
            columns[0, row], columns[1, row] = part[1][i], part[2][i]
            columns[2, row], columns[3, row] = part[3][i], part[4][i]
            row += 1
    counts, means, spreads, free = columns
    order, first, size = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), 0
    for i in range(n):  # `order` holds one row of each kind, sorted; `first` which one a row is equal to
        low, high = 0, size
        if size > 0 and _compared(features, order[size - 1], i) < 0:  # most rows come sorted
            low = size
        first[i] = i
        while low < high:
            middle = (low + high) // 2
            side = _compared(features, order[middle], i)
            if side == 0:
                first[i] = order[middle]
                break
            if side < 0:
                low = middle + 1
            else:
                high = middle
        if first[i] == i:
            for k in range(size, low, -1):
                order[k] = order[k - 1]
            order[low] = i
            size += 1
    place = np.empty(n, dtype=np.int64)
    for k in range(size):
        place[order[k]] = k
        merged[k], merged_means[k], merged_spreads[k], merged_free[k] = 0.0, 0.0, 0.0, 0.0
        for a in range(dim):
            rows[k, a] = features[order[k], a]
    for i in range(n):
        k = place[first[i]]
        merged[k], merged_means[k], merged_spreads[k] = merge_moments_compiled(
            merged[k], merged_means[k], merged_spreads[k], counts[i], means[i], spreads[i]
        )
        merged_free[k] += counts[i] * (counts[i] - free[i])  # sum of squared weights
    for k in range(size):
        left = merged[k] - merged_free[k] / merged[k]
        merged_free[k] = left if left > _ROUNDING * merged[k] else 0.0
    return size
