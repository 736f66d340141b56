"""Bounded vectors of whole numbers with a fixed sum: exact counts, ranks, uniform draws and action sets.

The numbers of ways in which slots ``k, k + 1 ..`` can take ``n`` units are kept as running sums of Python integers,
which do not overflow: there are about 1e40 ways to split 1,000 shares over 20 slots.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riskroute.core.arrays import Flags, Floats, Integers, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, finite_array
from riskroute.learning.actions import ActionSet
from riskroute.learning.tally import ActionBatch
from riskroute.routing.separable import SeparableScores
from riskroute.routing.splits import SplitList


class Lattice:
    """Vectors ``v`` with ``lows <= v <= highs`` and ``sum v = units``, in lexicographic order."""

    def __init__(self, units: int, lows: Units, highs: Units) -> None:
        self.units, self.lows, self.highs = units, lows, highs
        self.free = units - int(lows.sum())  # units left when every slot has its minimum
        self.room = np.minimum(highs - lows, self.free)
        self.unbounded = bool((self.room == self.free).all())

    @cached_property
    def size(self) -> int:
        """Number of vectors."""
        if self.free < 0:
            return 0
        if self.unbounded:
            return math.comb(self.free + len(self.lows) - 1, len(self.lows) - 1)
        self._check_counts(3)
        *_, sums = self._running_sums()
        return int(sums[self.free] - (sums[self.free - 1] if self.free else 0))

    def _running_sums(self) -> Iterator[list[int]]:
        """Yield the numbers of ways in which the last 0, 1 .. m slots take at most 0, 1, 2 .. free units."""
        sums = [1] * (self.free + 1)  # no slots: one way, to take nothing
        yield sums
        for room in reversed(self.room.tolist()):
            cut = itertools.chain(itertools.repeat(0, room + 1), sums)
            sums = list(itertools.accumulate(map(operator.sub, sums, cut)))
            yield sums

    @cached_property
    def _sums(self) -> list[list[int]]:
        """``_sums[k][n]``: number of ways in which slots ``k``, ``k + 1`` .. take at most ``n`` free units."""
        self._check_counts(len(self.lows) + 1)
        return list(self._running_sums())[::-1]

    def _check_counts(self, rows: int) -> None:
        """Raise `InputError` if ``rows`` rows of counts would take more than 400 MB."""
        slots = len(self.lows)
        places = self.free + slots
        digits = (math.lgamma(places + 1) - math.lgamma(slots + 1) - math.lgamma(self.free + 1)) / math.log(2)
        limit = int(400_000_000 / rows / (44 + digits / 7.5))  # bytes of an integer: 44, plus 1 per 7.5 bits
        if self.free > limit:
            size = f"{self.free:,} lots above the minimums of {slots} slots"
            raise InputError(f"too many lots to count or draw allocations (limit {limit:,}): {size}")

    @cached_property
    def ways(self) -> Units:
        """Number of ways in which slots ``k ..`` can take ``n`` units, ``(m + 1, units + 1)``, capped at 2^63 - 1."""
        self._check_counts(3)
        table = np.zeros((len(self.lows) + 1, self.units + 1), dtype=np.int64)
        for k, sums in zip(range(len(self.lows), -1, -1), self._running_sums(), strict=True):
            least = int(self.lows[k:].sum())
            counts = map(operator.sub, sums, itertools.chain([0], sums))
            # a set of fewer than 2^63 vectors reaches no capped entry
            table[k, least : least + len(sums)] = [min(count, 2**63 - 1) for count in counts]
        return table

    def rank(self, vector: Units) -> int:
        """Return the number of lexicographically smaller vectors."""
        left, before = self.free, 0
        for k, value in enumerate((np.asarray(vector) - self.lows).tolist()):
            after = self._sums[k + 1]
            before += after[left] - (after[left - value] if value <= left else 0)
            left -= value
        return before

    def unrank(self, rank: int) -> Units:
        """Return the vector that follows ``rank`` lexicographically smaller ones."""
        left, vector = self.free, np.zeros(len(self.lows), dtype=np.int64)
        for k in range(len(vector)):
            after = self._sums[k + 1]
            # the largest value v with after[left] - after[left - v] <= rank
            floor = after[left] - rank
            value = left - bisect.bisect_left(after, floor, 0, left + 1)
            rank -= after[left] - after[left - value]
            vector[k] = value
            left -= value
        return vector + self.lows

    def sample(self, rng: np.random.Generator, count: int) -> Units:
        """Draw ``count`` vectors ``(count, m)`` uniformly."""
        slots = len(self.lows)
        if count == 0:
            return np.zeros((0, slots), dtype=np.int64)
        if self.unbounded:  # stars and bars: m - 1 bars among free + m - 1 places
            places = self.free + slots - 1
            bars = np.stack([np.sort(rng.choice(places, slots - 1, replace=False)) for _ in range(count)])
            edges = np.column_stack([np.full(count, -1), bars, np.full(count, places)])
            return np.diff(edges, axis=1) - 1 + self.lows
        self._check_counts(slots + 1)
        return np.stack([self.unrank(_random_integer(rng, self.size)) for _ in range(count)])


def _random_integer(rng: np.random.Generator, limit: int) -> int:
    if limit <= 2**63 - 1:
        return int(rng.integers(limit))
    bits = (limit - 1).bit_length()
    while True:
        drawn = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if drawn < limit:
            return drawn


@dataclass(frozen=True)
class LatticeCut:
    """Constraint ``<coef, features> <= limit`` on an allocation set."""

    coef: Vector
    limit: float


class LatticeSet(ActionSet):
    """Base class of allocation sets: lattice vectors times the lot, with features ``(shares, shares^2) / scale``."""

    shares: int
    slots: int
    lot: int
    lattice: Lattice
    scale: float

    def features(self, actions: ActionBatch) -> Floats:
        shares = self._checked(actions).astype(np.float64)
        return np.hstack([shares, shares**2]) / self.scale

    def _checked(self, actions: ActionBatch) -> ActionBatch:
        return exact_array("actions", actions, np.int64, (None, self.slots))

    def contains(self, actions: ActionBatch) -> Flags:
        """Return a boolean mask ``(n,)`` of the share vectors ``(n, slots)`` that are in this set."""
        shares = self._checked(actions)
        units = shares // self.lot
        inside = (units >= self.lattice.lows) & (units <= self.lattice.highs) & (shares % self.lot == 0)
        return np.asarray(inside.all(axis=1) & (shares.sum(axis=1) == self.shares))

    def separable(self, coef: Floats) -> tuple[Floats, Floats]:
        """Return the cost per unit and per squared unit of each slot, for a linear score of the features."""
        coef = finite_array("coef", coef, ndim=1, length=self.dim)
        return coef[: self.slots] * (self.lot / self.scale), coef[self.slots :] * (self.lot**2 / self.scale)

    @property
    def scores(self) -> SeparableScores:
        """Solver for many scores over the whole lattice."""
        lattice = self.lattice
        return SeparableScores(lattice.units, self.lot, lattice.lows, lattice.highs, self.scale)

    @property
    def largest_amounts(self) -> Integers:
        """Upper bound on the shares in each slot, ``(slots,)``."""
        return np.asarray(np.minimum(self.lattice.highs, self.lattice.units) * self.lot)

    def listed_rows(self, allocations: ActionBatch) -> SplitList:
        """Return ``allocations`` as an explicit list, with the allocations as handles."""
        return SplitList(self.features(allocations), coordinates=self.slots, handles=allocations)
