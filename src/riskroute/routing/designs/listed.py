"""Lists of allocations, whose features may have hundreds of coordinates."""

from __future__ import annotations

from riskroute.learning.actions import Actions
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.wide import is_wide, wide_optimal
from riskroute.validation import real_number


class ListedAllocations(Actions):
    """An explicit list of allocations under their own handles.

    Designs over many slots are made without tables of all pairs of coordinates, which would fill the memory.
    """

    def design(self, tolerance: float) -> Design:
        if not is_wide(self.size, self.dim):
            return super().design(tolerance)
        tolerance = real_number("tolerance", tolerance, minimum=1e-9, maximum=10)
        if tolerance not in self._designs:
            found = wide_optimal(self.rows, tolerance)
            actions = self._named(self.members[found.actions])
            self._designs[tolerance] = Design(actions, found.weights, found.bound, found.rank)
        return self._designs[tolerance]
