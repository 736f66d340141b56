"""Books that several slots cross: their orders walk one book together, not each from its best price."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from riskroute.errors import InputError

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class SharedBook:
    """One book in many scenarios, and what the slots that share it send there.

    Parameters
    ----------
    slots : their numbers, at least two.
    crossing : ``(scenarios, shares + 1)``, profit of 0, 1, 2 .. shares that cross the book.
    rests : ``(slots, scenarios, shares + 1)``, how many of 0, 1, 2 .. shares put into a slot cross: all of a market
        order, what a dark pool has not filled.
    depths : ``(scenarios,)``, shares on the levels that are known; profits beyond are an estimate.

    >>> rests = np.array([[[0, 1, 2, 3]], [[0, 0, 1, 2]]])  # the second slot's pool fills one share
    >>> book = SharedBook((0, 2), np.array([[0.0, -1.0, -3.0, -6.0]]), rests, np.array([2]))
    >>> book.extra(np.array([[2, 0, 1], [1, 0, 2]])).tolist()  # one and one cross: the second share costs 2, not 1
    [[0.0], [-1.0]]
    """

    slots: tuple[int, ...]
    crossing: Floats
    rests: Whole
    depths: Whole

    def __post_init__(self) -> None:
        if self.crossing.ndim != 2 or self.rests.shape != (len(self.slots), *self.crossing.shape):
            expected = (len(self.slots), *self.crossing.shape)
            raise InputError(f"rests must have shape {expected}, was {self.rests.shape}")
        if len(set(self.slots)) < 2:
            raise InputError(f"slots that share a book must be at least two, was {self.slots}")
        if self.depths.shape != self.crossing.shape[:1]:
            raise InputError(f"depths must have shape {self.crossing.shape[:1]}, was {self.depths.shape}")

    def of(self, scenarios: NDArray[np.bool_]) -> SharedBook:
        """The same in some of the scenarios."""
        return SharedBook(self.slots, self.crossing[scenarios], self.rests[:, scenarios], self.depths[scenarios])

    @cached_property
    def _alone(self) -> Floats:
        """Profit of what crosses from each slot, as if it were alone, ``(slots, scenarios, shares + 1)``."""
        return np.stack([np.take_along_axis(self.crossing, rests, axis=1) for rests in self.rests])

    def crossed(self, splits: Whole) -> Whole:
        """Shares that cross the book from all slots together, ``(n, scenarios)``."""
        return np.asarray(sum(rests.T[splits[:, slot]] for slot, rests in zip(self.slots, self.rests, strict=True)))

    def extra(self, splits: Whole) -> Floats:
        """Profit of crossing together above that of each alone, ``(n, scenarios)``: never positive on a real book."""
        together = self.crossing[np.arange(len(self.crossing)), self.crossed(splits)]
        return np.asarray(together - sum(a.T[splits[:, k]] for k, a in zip(self.slots, self._alone, strict=True)))

    def beyond(self, splits: Whole) -> NDArray[np.bool_]:
        """Where more crosses than the known levels hold, ``(n, scenarios)``."""
        return np.asarray(self.crossed(splits) > self.depths)
