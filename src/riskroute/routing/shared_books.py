"""Books shared by several slots: the orders of all these slots take liquidity from one book jointly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.text import described
from riskroute.core.validation import exact_array, valid_list, whole_number


@dataclass(frozen=True)
class SharedBook:
    """One book in many scenarios, and the shares that several slots send to it.

    Parameters
    ----------
    slots : tuple[int, ...]
        Indices of the slots, at least two.
    crossing : Floats
        ``(scenarios, shares + 1)``, profit of crossing the book with 0, 1, 2 .. shares.
    rests : Integers
        ``(slots, scenarios, shares + 1)``, how many of 0, 1, 2 .. shares in a slot cross the book: all shares of a
        market order, the unfilled shares of a dark pool.
    depths : Integers
        ``(scenarios,)``, shares on the recorded levels; profits of crossing more shares are extrapolated.

    Examples
    --------
    >>> rests = np.array([[[0, 1, 2, 3]], [[0, 0, 1, 2]]])  # the second slot's pool fills one share
    >>> book = SharedBook((0, 2), np.array([[0.0, -1.0, -3.0, -6.0]]), rests, np.array([2]))
    >>> book.extra(np.array([[2, 0, 1], [1, 0, 2]])).tolist()  # two cross together: the second share costs 2, not 1
    [[0.0], [-1.0]]
    """

    slots: tuple[int, ...]
    crossing: Floats
    rests: Integers
    depths: Integers

    def __post_init__(self) -> None:
        slots = tuple(
            whole_number("a slot", slot, minimum=0) for slot in valid_list("slots", self.slots, object, "slots")
        )
        if len(set(slots)) < 2:
            raise InputError(f"a shared book needs at least two slots, got {slots}")
        if len(set(slots)) < len(slots):
            raise InputError(f"slots of a shared book must be different, was {slots}")
        crossing = exact_array("crossing", self.crossing, np.float64, (None, None))
        rests = exact_array("rests", self.rests, np.int64, (len(slots), *crossing.shape))
        if rests.size == 0 or rests.min() < 0 or rests.max() >= crossing.shape[1]:
            raise InputError(f"rests must be integers from 0 to {crossing.shape[1] - 1}")
        depths = exact_array("depths", self.depths, np.float64, crossing.shape[:1])
        for name, value in (("slots", slots), ("crossing", crossing), ("rests", rests), ("depths", depths)):
            object.__setattr__(self, name, value)

    def of(self, scenarios: Flags) -> SharedBook:
        """Return the book restricted to the scenarios that the mask ``(scenarios,)`` selects."""
        if not (isinstance(scenarios, np.ndarray) and scenarios.dtype == bool and scenarios.shape == self.depths.shape):
            raise InputError(f"scenarios must be {len(self.depths)} booleans, was {described(scenarios)}")
        return SharedBook(self.slots, self.crossing[scenarios], self.rests[:, scenarios], self.depths[scenarios])

    @cached_property
    def _alone(self) -> Floats:
        """Profit of the crossing shares of each slot on its own, ``(slots, scenarios, shares + 1)``."""
        return np.stack([np.take_along_axis(self.crossing, rests, axis=1) for rests in self.rests])

    def _check(self, splits: Integers) -> None:
        """Raise `InputError` for splits with missing slots or with more shares in a slot than tabulated."""
        exact_array("splits", splits, np.int64, (None, None))
        if splits.shape[1] <= max(self.slots):
            raise InputError(f"splits must have at least {max(self.slots) + 1} slots, had {splits.shape[1]}")
        mine = splits[:, list(self.slots)]
        if mine.size and (mine.min() < 0 or mine.max() >= self.crossing.shape[1]):
            most = self.crossing.shape[1] - 1
            raise InputError(f"splits must put 0 to {most} shares into a slot, was {mine.min()} to {mine.max()}")

    def crossed(self, splits: Integers) -> Integers:
        """Return the total number of shares that cross the book, over all its slots, ``(n, scenarios)``."""
        self._check(splits)
        return np.asarray(sum(rests.T[splits[:, slot]] for slot, rests in zip(self.slots, self.rests, strict=True)))

    def extra(self, splits: Integers) -> Floats:
        """Return the profit of crossing jointly minus the slots' profits alone, ``(n, scenarios)``: at most 0."""
        together = self.crossing[np.arange(len(self.crossing)), self.crossed(splits)]
        return np.asarray(together - sum(a.T[splits[:, k]] for k, a in zip(self.slots, self._alone, strict=True)))

    def beyond(self, splits: Integers) -> Flags:
        """Return whether more shares cross than the recorded levels hold, ``(n, scenarios)``."""
        return np.asarray(self.crossed(splits) > self.depths)
