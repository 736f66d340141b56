"""Tallies: the sufficient statistics that policies learn from.

A tally of rewards is their count, their mean and the sum of their squared deviations from this mean. The least-squares
estimates of mean and variance and the mean-variance of a path are functions of tallies. Tallies merge without loss of
information (Chan, Golub and LeVeque 1983), so single rewards need not be kept. The cancellation in ``E[x^2] - mean^2``
is avoided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, instance_of, real_number, valid_list, whole_number

ActionBatch = Integers  # handles of several actions; the first axis runs over actions

Number = TypeVar("Number", np.int64, np.float64)  # counts: whole numbers, or fractions after discounting


def _merge_moments(
    count: float, mean: float, spread: float, more: float, more_mean: float, more_spread: float
) -> tuple[float, float, float]:
    """Merge two tallies given as (count, mean, sum of squared deviations); either may be empty."""
    if more == 0:
        return count, mean, spread
    total = count + more
    step = more_mean - mean
    return total, mean + step * (more / total), spread + more_spread + step * step * (count * (more / total))


merge_moments_compiled = njit(cache=True)(_merge_moments)


@dataclass(frozen=True, slots=True)
class Tally:
    """Count, mean and sum of squared deviations of rewards.

    Examples
    --------
    >>> Tally.of([1.0, 2.0, 6.0])
    Tally(count=3, mean=3.0, spread=14.0)
    >>> Tally.of([1.0, 2.0]).merge(Tally.of([6.0])) == Tally.of([1.0, 2.0, 6.0])
    True
    """

    count: int = 0
    mean: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not (type(self.count) is int and type(self.mean) is type(self.spread) is float):
            object.__setattr__(self, "count", whole_number("count", self.count, minimum=0))
            object.__setattr__(self, "mean", real_number("mean", self.mean))
            object.__setattr__(self, "spread", real_number("spread", self.spread, minimum=0))

    @classmethod
    def of(cls, rewards: Iterable[float]) -> Tally:
        """Return the tally of ``rewards``, merged one by one, with the same rounding as `riskroute.Policy.update`."""
        tally = cls()
        for reward in valid_list("rewards", rewards, object, "numbers"):
            tally = tally.merge(cls(1, real_number("a reward", reward), 0.0))
        return tally

    def merge(self, other: Tally) -> Tally:
        """Return the tally of the rewards in both tallies."""
        if type(other) is not Tally:
            instance_of("other", other, Tally, "a Tally")
        count, mean, spread = _merge_moments(self.count, self.mean, self.spread, other.count, other.mean, other.spread)
        return Tally(int(count), mean, spread)


@dataclass(frozen=True)
class Tallies:
    """One tally per entry of a plan, in the same order.

    ``actions`` holds the handles; ``counts``, ``means`` and ``spreads`` (sums of squared deviations) have shape
    ``(n,)``.
    """

    actions: ActionBatch
    counts: Integers
    means: Floats
    spreads: Floats

    def __post_init__(self) -> None:
        counts = exact_array("counts", self.counts, np.int64, (None,))
        store = object.__setattr__
        store(self, "actions", tally_handles(self.actions, len(counts)))
        store(self, "counts", counts)
        store(self, "means", exact_array("means", self.means, np.float64, counts.shape))
        store(self, "spreads", exact_array("spreads", self.spreads, np.float64, counts.shape))

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def rounds(self) -> int:
        """Number of rewards."""
        return int(self.counts.sum())

    @classmethod
    def of(cls, actions: ActionBatch, tallies: Iterable[Tally]) -> Tallies:
        """Gather single tallies, one per action handle."""
        rows = valid_list("tallies", tallies, Tally, "tallies")
        return cls(
            actions,
            np.array([t.count for t in rows], dtype=np.int64),
            np.array([t.mean for t in rows], dtype=np.float64),
            np.array([t.spread for t in rows], dtype=np.float64),
        )

    def joined(self, other: Tallies) -> Tallies:
        """Concatenate the entries of two `Tallies`; an action may appear twice."""
        instance_of("other", other, Tallies, "Tallies")
        if self.actions.shape[1:] != other.actions.shape[1:]:
            raise InputError(f"expected handles of shape {self.actions.shape[1:]}, got {other.actions.shape[1:]}")
        return Tallies(
            np.concatenate([self.actions, other.actions]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.spreads, other.spreads]),
        )

    def by_action(self) -> Tallies:
        """Merge entries of the same action; actions are sorted by their handles.

        Examples
        --------
        >>> twice = Tallies.of(np.array([4, 2, 4]), [Tally.of([1.0]), Tally.of([5.0]), Tally.of([3.0])])
        >>> merged = twice.by_action()
        >>> merged.actions.tolist(), merged.counts.tolist(), merged.means.tolist(), merged.spreads.tolist()
        ([2, 4], [1, 2], [5.0, 2.0], [0.0, 2.0])
        """
        if len(self) and self.counts.min() < 0:
            raise InputError(f"counts must not be negative, was {self.counts.min()}")
        actions, group = np.unique(self.actions, axis=0, return_inverse=True)
        return Tallies(
            actions, *merge_tally_groups(group.reshape(-1), len(actions), self.counts, self.means, self.spreads)
        )


def tally_handles(value: Any, length: int) -> ActionBatch:
    """Return ``value`` as a batch of ``length`` handles, each a whole number or a vector of whole numbers."""
    first = value[0] if isinstance(value, list | tuple) and value else None
    several = getattr(value, "ndim", 1) == 2 or isinstance(first, list | tuple | np.ndarray)
    return exact_array("actions", value, np.int64, (length, None) if several else (length,))


@njit(cache=True)
def merge_tallies_compiled(
    counts: NDArray[Any],
    means: Floats,
    spreads: Floats,
    where: Integers,
    more: NDArray[Any],
    more_means: Floats,
    more_spreads: Floats,
) -> None:
    """Merge tally ``i`` of ``more`` into tally ``where[i]`` of the first three arrays, in order and in place."""
    if not (
        len(counts) == len(means) == len(spreads) and len(where) == len(more) == len(more_means) == len(more_spreads)
    ):
        raise InputError("arrays of tallies must have equal lengths, some differed")
    for i in range(len(where)):
        if not 0 <= where[i] < len(counts):
            raise InputError("an index in where is out of range: expected 0 <= index < number of tallies")
    for i in range(len(where)):
        k = where[i]
        total, means[k], spreads[k] = merge_moments_compiled(
            float(counts[k]), means[k], spreads[k], float(more[i]), more_means[i], more_spreads[i]
        )
        counts[k] = total


def merge_tally_groups(
    group: Integers,
    n_groups: int,
    counts: NDArray[Number],
    means: Floats,
    spreads: Floats,
) -> tuple[NDArray[Number], Floats, Floats]:
    """Merge the tallies of each group ``0 .. n_groups - 1`` in order; counts may be fractional."""
    merged: NDArray[Number] = np.zeros(n_groups, dtype=counts.dtype)
    merged_means, merged_spreads = np.zeros(n_groups), np.zeros(n_groups)
    merge_tallies_compiled(merged, merged_means, merged_spreads, group, counts, means, spreads)
    return merged, merged_means, merged_spreads
