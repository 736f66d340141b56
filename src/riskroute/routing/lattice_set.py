"""What every set of allocations is made of: shares in lots over slots, their features, and cuts through them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Flags, Floats, Integers, Vector
from riskroute.core.validation import exact_array, finite_array
from riskroute.learning.actions import ActionSet
from riskroute.learning.tally import ActionBatch
from riskroute.routing.lattice import Lattice
from riskroute.routing.listed import ListedAllocations
from riskroute.routing.separable_each import SeparableScores


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
