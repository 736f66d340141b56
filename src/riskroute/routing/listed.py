"""Lists of allocations, whose features may have hundreds of coordinates."""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.validation import real_number
from riskroute.learning.actions import Actions
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.wide import is_wide, wide_optimal
from riskroute.learning.handles import HandleIndex
from riskroute.learning.tally import ActionBatch
from riskroute.routing.separable_each import SeparableScores


class ListedAllocations(Actions):
    """An explicit list of allocations of one order; handles are tuples of shares, as in sets that are not listed.

    Designs over many slots are made without tables of all pairs of coordinates, which would fill the memory. A list of
    all allocations, in lexicographic order, may say so: the best ones for many scores are then worked out, which is
    faster than looking at every row.

    Attributes
    ----------
    whole : SeparableScores, optional
        The allocations that are listed, if these are all that bounds allow; None for other lists.

    Examples
    --------
    >>> from riskroute.routing.splits import split_actions
    >>> split_actions(shares=4, slots=3).best(np.array([0.0, 1.0, 2.0, 0.0, 0.0, 0.0]))
    (4, 0, 0)
    """

    whole: SeparableScores | None = None

    @property
    def index(self) -> HandleIndex:
        """The way from a handle to its row."""
        assert self._names is not None
        return self._names

    def best_each(self, coefs: Floats) -> ActionBatch:
        if self.whole is None:
            return super().best_each(coefs)
        return self.whole.best_each(coefs)

    def _subset(self, kept: Flags | Integers) -> Actions:
        subset = super()._subset(kept)
        subset.__dict__["whole"] = None
        return subset

    def __repr__(self) -> str:
        return f"ListedAllocations({self.shares} shares over {self.slots} slots, {self.size:,} allocations)"

    @property
    def shares(self) -> int:
        """Shares of the order."""
        return int(self.handles[0].sum())

    @property
    def slots(self) -> int:
        """Slots that shares go to."""
        return int(self.handles.shape[1])

    @property
    def largest_amounts(self) -> Integers:
        """Most shares that any allocation puts into each slot, ``(slots,)``."""
        return np.asarray(self.handles.max(axis=0))

    def design(self, tolerance: float) -> Design:
        if not is_wide(self.size, self.dim):
            return super().design(tolerance)
        tolerance = real_number("tolerance", tolerance, minimum=1e-9, maximum=10)
        if tolerance not in self._designs:
            found = wide_optimal(self.rows, tolerance)
            actions = self._named(self.members[found.actions])
            self._designs[tolerance] = Design(actions, found.weights, found.bound, found.rank)
        return self._designs[tolerance]
