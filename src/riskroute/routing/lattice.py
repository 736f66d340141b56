"""Counting, ranking and drawing vectors of whole numbers with bounds and a fixed sum, exactly.

``ways[k][n]`` is the number of ways in which the slots ``k, k + 1 ..`` can take ``n`` units. It is kept as running
sums of Python integers, which do not overflow: there are about 1e40 ways to split 1,000 shares over 20 slots. Tables of
them are refused before they would fill the memory.
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
from riskroute.routing.splits import ListedAllocations

LARGEST_COUNTS = 400_000_000
"""Bytes that a table of counts may take."""


class Lattice:
    """Vectors ``v`` with ``lows <= v <= highs`` and ``sum v = units``, in lexicographic order.

    Examples
    --------
    >>> lattice = Lattice(2, np.array([0, 0]), np.array([2, 1]))
    >>> lattice.size, lattice.unrank(0).tolist(), lattice.rank(np.array([2, 0]))
    (2, [1, 1], 1)
    """

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
        """Ways of the last slots, from none of them to all, to take at most 0, 1, 2 .. free units."""
        sums = [1] * (self.free + 1)  # no slots take nothing, in one way
        yield sums
        for room in reversed(self.room.tolist()):
            cut = itertools.chain(itertools.repeat(0, room + 1), sums)
            sums = list(itertools.accumulate(map(operator.sub, sums, cut)))
            yield sums

    @cached_property
    def _sums(self) -> list[list[int]]:
        """``_sums[k][n]``: ways of the slots from ``k`` on to take at most ``n`` free units."""
        self._check_counts(len(self.lows) + 1)
        return list(self._running_sums())[::-1]

    def _check_counts(self, rows: int) -> None:
        """Refuse to hold so many rows of counts at once if they would not fit."""
        slots = len(self.lows)
        places = self.free + slots
        digits = (math.lgamma(places + 1) - math.lgamma(slots + 1) - math.lgamma(self.free + 1)) / math.log(2)
        limit = int(LARGEST_COUNTS / rows / (44 + digits / 7.5))  # of whole numbers with so many binary digits
        if self.free > limit:
            what = f"over {slots} slots to count allocations or draw them"
            raise InputError(f"lots must be at most {limit:,} {what}, was {self.free:,}")

    @cached_property
    def ways(self) -> Units:
        """``(m + 1, units + 1)``: number of ways in which the slots from ``k`` on take ``n`` units, below 2^63."""
        self._check_counts(3)
        table = np.zeros((len(self.lows) + 1, self.units + 1), dtype=np.int64)
        for k, sums in zip(range(len(self.lows), -1, -1), self._running_sums(), strict=True):
            least = int(self.lows[k:].sum())
            counts = map(operator.sub, sums, itertools.chain([0], sums))
            # what no vector of the set reaches may be larger than the set, and is never looked up
            table[k, least : least + len(sums)] = [min(count, 2**63 - 1) for count in counts]
        return table

    def rank(self, vector: Units) -> int:
        """Number of vectors before this one."""
        left, before = self.free, 0
        for k, value in enumerate((np.asarray(vector) - self.lows).tolist()):
            after = self._sums[k + 1]
            before += after[left] - (after[left - value] if value <= left else 0)
            left -= value
        return before

    def unrank(self, rank: int) -> Units:
        """The vector with ``rank`` others before it."""
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
        """``count`` vectors ``(count, m)``, uniformly at random."""
        slots = len(self.lows)
        if count == 0:
            return np.zeros((0, slots), dtype=np.int64)
        if self.unbounded:  # stars and bars: m - 1 bars among free + m - 1 places
            places = self.free + slots - 1
            bars = np.stack([np.sort(rng.choice(places, slots - 1, replace=False)) for _ in range(count)])
            edges = np.column_stack([np.full(count, -1), bars, np.full(count, places)])
            return np.diff(edges, axis=1) - 1 + self.lows
        self._check_counts(slots + 1)
        return np.stack([self.unrank(random_lattice_integer(rng, self.size)) for _ in range(count)])


def random_lattice_integer(rng: np.random.Generator, limit: int) -> int:
    """Draw an integer from 0 to ``limit - 1``, uniformly, however large ``limit`` is."""
    if limit <= 2**63 - 1:
        return int(rng.integers(limit))
    bits = (limit - 1).bit_length()
    while True:
        drawn = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if drawn < limit:
            return drawn


# What every set of allocations is made of: shares in lots over slots, their features, and cuts through them.


@dataclass(frozen=True)
class LatticeCut:
    """Keep the allocations whose score ``<coef, features>`` is at most ``limit``."""

    coef: Vector
    limit: float


class LatticeSet(ActionSet):
    """Base class of sets of allocations: vectors of a lattice times the lot, described by shares and squared shares.

    Attributes
    ----------
    shares, slots, lot : int
        Shares to allocate, slots they go to, and shares in a lot.
    lattice : Lattice
        All vectors of lots that are allowed.
    scale : float
        What ``(shares, shares^2)`` are divided by.
    """

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
        """Whether each of some vectors of shares is an allocation of this set."""
        shares = self._checked(actions)
        units = shares // self.lot
        inside = (units >= self.lattice.lows) & (units <= self.lattice.highs) & (shares % self.lot == 0)
        return np.asarray(inside.all(axis=1) & (shares.sum(axis=1) == self.shares))

    def separable(self, coef: Floats) -> tuple[Floats, Floats]:
        """Cost per unit and per squared unit of each slot, for a linear score of the features."""
        coef = finite_array("coef", coef, ndim=1, length=self.dim)
        return coef[: self.slots] * (self.lot / self.scale), coef[self.slots :] * (self.lot**2 / self.scale)

    @property
    def scores(self) -> SeparableScores:
        """The whole lattice, for many scores at once."""
        lattice = self.lattice
        return SeparableScores(lattice.units, self.lot, lattice.lows, lattice.highs, self.scale)

    @property
    def largest_amounts(self) -> Integers:
        """Most shares that any allocation puts into each slot, ``(slots,)``."""
        return np.asarray(np.minimum(self.lattice.highs, self.lattice.units) * self.lot)

    def listed_rows(self, allocations: ActionBatch) -> ListedAllocations:
        """Some allocations as an explicit list, under their own handles."""
        return ListedAllocations(self.features(allocations), coordinates=self.slots, handles=allocations)
