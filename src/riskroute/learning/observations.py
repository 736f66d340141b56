"""Observations: tallies by feature vector, which stay meaningful when the set of actions changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from riskroute.arrays import Matrix, Vector
from riskroute.learning.tally import Tallies, are_tally_moments, merge_tally_groups
from riskroute.validation import exact_array

_ROUNDING = 1e-9  # fewer degrees of freedom per reward than this are a rounding error
_FROM_COUNTS: Any = None


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
        if not (are_tally_moments(self.counts, self.means, self.spreads) and _are_rows(self.features, self.counts)):
            n = len(exact_array("counts", self.counts, np.float64, (None,)))
            for name, shape in (("features", (n, None)), ("counts", (n,)), ("means", (n,)), ("spreads", (n,))):
                object.__setattr__(self, name, exact_array(name, getattr(self, name), np.float64, shape))
        free = np.maximum(self.counts - 1, 0.0) if self.free is None else self.free
        object.__setattr__(self, "free", exact_array("free", free, np.float64, (len(self.counts),)))

    @classmethod
    def none(cls, dim: int) -> Observations:
        """No rewards at all."""
        return cls(np.zeros((0, dim)), np.zeros(0), np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, features: Matrix, tallies: Tallies) -> Observations:
        """Rewards of some actions with the given features, ``(n, dim)``."""
        return cls(features, tallies.counts.astype(np.float64), tallies.means, tallies.spreads)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rounds(self) -> float:
        """Number of rewards."""
        return float(self.counts.sum())

    def joined(self, *others: Observations) -> Observations:
        """Return all observations together, with rows of equal features merged."""
        parts = (self, *others)
        features, group = np.unique(np.vstack([part.features for part in parts]), axis=0, return_inverse=True)
        group, counts = group.reshape(-1), np.concatenate([part.counts for part in parts])
        means, spreads, free = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "spreads", "free")
        )
        merged = merge_tally_groups(group, len(features), counts, means, spreads)
        squared = np.bincount(group, counts * (counts - free), len(features))  # sum of squared weights
        left = merged[0] - squared / merged[0]
        return Observations(features, *merged, np.where(left > _ROUNDING * merged[0], left, 0.0))

    def faded(self, factor: float, least: float = 1e-3) -> Observations:
        """Count every reward ``factor`` times; rows that then count less than ``least`` rewards are dropped."""
        kept = self.counts * factor > least
        return Observations(
            self.features[kept],
            self.counts[kept] * factor,
            self.means[kept],
            self.spreads[kept] * factor,
            self.free[kept] * factor,
        )


def _are_rows(features: Matrix, counts: Vector) -> bool:
    return (
        type(features) is np.ndarray
        and features.dtype == counts.dtype == np.float64
        and features.ndim == 2
        and len(features) == len(counts)
    )
