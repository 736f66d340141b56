"""Tallies: what a policy learns from.

A tally of some rewards is their count, their mean and the sum of their squared deviations from that mean. Both
least-squares estimators and the mean-variance of a path are functions of tallies, and tallies merge exactly
(Chan, Golub and LeVeque 1983), so rewards never need to be kept and ``E[x^2] - mean^2`` is never formed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

ActionBatch = NDArray[np.int64]
"""Handles of several actions: the first axis runs over actions."""

Number = TypeVar("Number", np.int64, np.float64)
"""How many rewards: a whole number, or a fraction of rewards half forgotten."""


def merge_moments(
    count: float, mean: float, spread: float, more: float, more_mean: float, more_spread: float
) -> tuple[float, float, float]:
    """Merge two tallies given as (count, mean, sum of squared deviations); either may be empty."""
    if more == 0:
        return count, mean, spread
    total = count + more
    step = more_mean - mean
    return total, mean + step * (more / total), spread + more_spread + step * step * (count * (more / total))


merge_moments_compiled = njit(cache=True)(merge_moments)


@dataclass(frozen=True, slots=True)
class Tally:
    """Count, mean and sum of squared deviations of some rewards.

    >>> Tally.of([1.0, 2.0, 6.0])
    Tally(count=3, mean=3.0, spread=14.0)
    >>> Tally.of([1.0, 2.0]).merge(Tally.of([6.0])) == Tally.of([1.0, 2.0, 6.0])
    True
    """

    count: int = 0
    mean: float = 0.0
    spread: float = 0.0

    @classmethod
    def of(cls, rewards: Iterable[float]) -> Tally:
        """Tally ``rewards`` one by one, in the order (and with the rounding) of a live router."""
        tally = cls()
        for reward in rewards:
            tally = tally.merge(cls(1, float(reward), 0.0))
        return tally

    def merge(self, other: Tally) -> Tally:
        """Return the tally of both sets of rewards together."""
        count, mean, spread = merge_moments(self.count, self.mean, self.spread, other.count, other.mean, other.spread)
        return Tally(int(count), mean, spread)


@dataclass(frozen=True)
class Tallies:
    """One tally per entry of a plan, in the plan's order.

    ``actions`` holds the handles; ``counts``, ``means`` and ``spreads`` (sums of squared deviations) have shape
    ``(n,)``.
    """

    actions: ActionBatch
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    spreads: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def of(cls, actions: ActionBatch, tallies: Iterable[Tally]) -> Tallies:
        """Gather single tallies, one per action handle."""
        rows = list(tallies)
        return cls(
            actions,
            np.array([t.count for t in rows], dtype=np.int64),
            np.array([t.mean for t in rows], dtype=np.float64),
            np.array([t.spread for t in rows], dtype=np.float64),
        )

    def joined(self, other: Tallies) -> Tallies:
        """Return the entries of both, one after the other (the same action may then appear twice)."""
        return Tallies(
            np.concatenate([self.actions, other.actions]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.spreads, other.spreads]),
        )

    def by_action(self) -> Tallies:
        """Merge entries of the same action; actions come out in ascending order of their handles.

        >>> twice = Tallies.of(np.array([4, 2, 4]), [Tally.of([1.0]), Tally.of([5.0]), Tally.of([3.0])])
        >>> merged = twice.by_action()
        >>> merged.actions.tolist(), merged.counts.tolist(), merged.means.tolist(), merged.spreads.tolist()
        ([2, 4], [1, 2], [5.0, 2.0], [0.0, 2.0])
        """
        actions, group = np.unique(self.actions, axis=0, return_inverse=True)
        return Tallies(actions, *merge_groups(group.reshape(-1), len(actions), self.counts, self.means, self.spreads))


@njit(cache=True)
def merge_into(
    counts: NDArray[Any],
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
    where: NDArray[np.int64],
    more: NDArray[Any],
    more_means: NDArray[np.float64],
    more_spreads: NDArray[np.float64],
) -> None:
    """Merge tally ``i`` of the second three arrays into tally ``where[i]`` of the first three, in order, in place."""
    for i in range(len(where)):
        k = where[i]
        total, means[k], spreads[k] = merge_moments_compiled(
            float(counts[k]), means[k], spreads[k], float(more[i]), more_means[i], more_spreads[i]
        )
        counts[k] = total


def merge_groups(
    group: NDArray[np.int64],
    n_groups: int,
    counts: NDArray[Number],
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
) -> tuple[NDArray[Number], NDArray[np.float64], NDArray[np.float64]]:
    """Merge tallies of the same group ``0 .. n_groups - 1``, in order; counts may be fractions."""
    merged: NDArray[Number] = np.zeros(n_groups, dtype=counts.dtype)
    merged_means, merged_spreads = np.zeros(n_groups), np.zeros(n_groups)
    merge_into(merged, merged_means, merged_spreads, group, counts, means, spreads)
    return merged, merged_means, merged_spreads
