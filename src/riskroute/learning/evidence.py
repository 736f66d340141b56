"""Evidence: tallies by feature vector, which stay meaningful when the set of actions changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from riskroute.errors import exact_array
from riskroute.learning.tally import Tallies, are_moments, merge_groups

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """One row per feature vector: count, mean and sum of squared deviations of its rewards.

    Counts may be fractions, for rewards half forgotten.

    >>> from riskroute.learning.tally import Tally
    >>> some = Evidence.of(np.array([[1.0], [2.0]]), Tallies.of(np.array([0, 1]), [Tally.of([1.0]), Tally.of([5.0])]))
    >>> more = Evidence.of(np.array([[2.0]]), Tallies.of(np.array([1]), [Tally.of([7.0])]))
    >>> both = some.joined(more)
    >>> both.features.ravel().tolist(), both.counts.tolist(), both.means.tolist(), both.spreads.tolist()
    ([1.0, 2.0], [1.0, 2.0], [1.0, 6.0], [0.0, 2.0])
    """

    features: Matrix
    counts: Vector
    means: Vector
    spreads: Vector

    def __post_init__(self) -> None:
        if are_moments(self.counts, self.means, self.spreads) and _are_rows(self.features, self.counts):
            return
        n = len(exact_array("counts", self.counts, np.float64, (None,)))
        for name, shape in (("features", (n, None)), ("counts", (n,)), ("means", (n,)), ("spreads", (n,))):
            object.__setattr__(self, name, exact_array(name, getattr(self, name), np.float64, shape))

    @classmethod
    def none(cls, dim: int) -> Evidence:
        """No rewards at all."""
        return cls(np.zeros((0, dim)), np.zeros(0), np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, features: Matrix, tallies: Tallies) -> Evidence:
        """Rewards of some actions with the given features, ``(n, dim)``."""
        return cls(features, tallies.counts.astype(np.float64), tallies.means, tallies.spreads)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rounds(self) -> float:
        """Number of rewards."""
        return float(self.counts.sum())

    def joined(self, *others: Evidence) -> Evidence:
        """Return all of it together, rows of equal features merged."""
        parts = (self, *others)
        features, group = np.unique(np.vstack([part.features for part in parts]), axis=0, return_inverse=True)
        merged = merge_groups(
            group.reshape(-1),
            len(features),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.means for part in parts]),
            np.concatenate([part.spreads for part in parts]),
        )
        return Evidence(features, *merged)

    def faded(self, factor: float, least: float = 1e-3) -> Evidence:
        """Count every reward ``factor`` times; rows that then count less than ``least`` rewards are dropped."""
        kept = self.counts * factor > least
        return Evidence(self.features[kept], self.counts[kept] * factor, self.means[kept], self.spreads[kept] * factor)


def _are_rows(features: Matrix, counts: Vector) -> bool:
    return (
        type(features) is np.ndarray
        and features.dtype == counts.dtype == np.float64
        and features.ndim == 2
        and len(features) == len(counts)
    )
