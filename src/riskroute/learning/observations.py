"""Tallies by feature vector. Unlike tallies by action, they remain valid when the action set changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Vector
from riskroute.core.validation import exact_array
from riskroute.learning.actions import distinct_actions
from riskroute.learning.tally import Tallies, merge_tally_groups

Columns = tuple[Matrix, Vector, Vector, Vector, Vector]  # features, counts, means, spreads, degrees of freedom


@dataclass(frozen=True, eq=False)
class Observations:
    """One row per feature vector: count, mean and sum of squared deviations of its rewards.

    Counts are fractional if rewards are discounted. ``free`` holds the degrees of freedom of the squared deviations:
    ``sum(w) - sum(w^2) / sum(w)`` for rewards of weights ``w``, which is the count minus one if all weights are one.
    ``spreads / free`` estimates the variance.
    """

    features: Matrix
    counts: Vector
    means: Vector
    spreads: Vector
    free: Vector = None  # type: ignore[assignment]  # default: counts - 1, at least 0

    def __post_init__(self) -> None:
        counts = exact_array("counts", self.counts, np.float64, (None,))
        free = np.maximum(counts - 1, 0.0) if self.free is None else self.free
        columns = {"counts": counts, "means": self.means, "spreads": self.spreads, "free": free}
        object.__setattr__(self, "features", _contiguous("features", self.features, (len(counts), None)))
        for name, column in columns.items():
            object.__setattr__(self, name, _contiguous(name, column, counts.shape))

    @classmethod
    def none(cls, dim: int) -> Observations:
        """Return an empty set of observations with ``dim`` features."""
        return cls(np.zeros((0, dim)), np.zeros(0), np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, features: Matrix, tallies: Tallies) -> Observations:
        """Convert the tallies of actions with ``features`` ``(n, dim)`` to observations."""
        return cls(features, tallies.counts.astype(np.float64), tallies.means, tallies.spreads)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rounds(self) -> float:
        """Number of rewards: the sum of the counts, fractional after discounting."""
        return float(self.counts.sum())

    @property
    def columns(self) -> Columns:
        """Features, counts, means, spreads and degrees of freedom."""
        return self.features, self.counts, self.means, self.spreads, self.free

    def joined(self, *others: Observations) -> Observations:
        """Concatenate observations, merge rows with equal features, and sort the rows by features."""
        columns = zip(*(part.columns for part in (self, *others)), strict=True)
        features, counts, means, spreads, free = (np.concatenate(column) for column in columns)
        # a hash table finds rows with equal bits: + 0.0 turns -0.0 into 0.0, and the high bits are mixed into the low
        # ones, which are all 0 in numbers with few significant bits
        bits = (features + 0.0).view(np.int64)
        first, group = distinct_actions(bits ^ (bits >> 32))
        order = np.lexsort(features[first].T[::-1])
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        group = place[group]
        merged = merge_tally_groups(group, len(order), counts, means, spreads)
        squared = np.bincount(group, counts * (counts - free), len(order))  # sum of squared weights
        left = merged[0] - squared / merged[0]
        left = np.where(left > 1e-9 * merged[0], left, 0.0)  # smaller values are rounding errors
        return Observations(features[first[order]], *merged, left)

    def faded(self, factor: float, least: float = 1e-3) -> Observations:
        """Return the observations down-weighted by ``factor``, without rows whose count falls to ``least`` or below."""
        kept = self.counts * factor > least
        return Observations(
            self.features[kept],
            self.counts[kept] * factor,
            self.means[kept],
            self.spreads[kept] * factor,
            self.free[kept] * factor,
        )


def _contiguous(name: str, value: Any, shape: tuple[int | None, ...]) -> Floats:
    """Check an array of real numbers and return it in row-major order, which kernels require."""
    return np.ascontiguousarray(exact_array(name, value, np.float64, shape))
