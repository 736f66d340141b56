"""Handles of actions: which rows of a list they name, and which of a batch are different."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Flags, Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, exact_array
from riskroute.learning.tally import ActionBatch

_FACTOR = 6364136223846793005  # odd and large: products that wrap around spread over all 64-bit numbers


class HandleIndex:
    """Vector handles of the rows of a matrix, and the way back from a handle to its row.

    Vectors are looked up by a 64-bit key, a sum of products that wraps around; keys are checked to be different.

    Examples
    --------
    >>> index = HandleIndex(np.array([[2, 0], [1, 1], [0, 2]]), 3)
    >>> index.rows_of(np.array([[0, 2], [2, 0]])).tolist()
    [2, 0]
    """

    def __init__(self, handles: ActionBatch, count: int) -> None:
        self.handles = np.ascontiguousarray(exact_array("handles", handles, np.int64, (count, None)))
        for seed in range(8):
            drawn = np.random.default_rng(seed).integers(1, 2**62, self.handles.shape[1], dtype=np.int64)
            self.factors = np.asarray(drawn * 2 + 1)
            with np.errstate(over="ignore"):
                keys = np.asarray((self.handles * self.factors).sum(axis=1))
            self.order = np.argsort(keys, kind="stable")
            self.keys = keys[self.order]
            if (np.diff(self.keys) != 0).all():
                return
        raise InputError("handles must be different for different actions, some were equal")

    def search(self, actions: ActionBatch) -> tuple[Integers, Flags]:
        """Return the row of each handle, and whether it is a member at all; of others the row is 0."""
        rows, _ = self._searched(actions)
        return np.maximum(rows, 0), rows >= 0

    def rows_of(self, actions: ActionBatch) -> Integers:
        """Return the row of each handle; all must be members."""
        rows, missed = self._searched(actions)
        if missed:
            raise InputError("actions must be members of the list they are looked up in")
        return rows

    def _searched(self, actions: ActionBatch) -> tuple[Integers, int]:
        """Return the row of each handle, -1 for those that are not members, and how many these are."""
        actions = exact_array("actions", actions, np.int64, (None, self.handles.shape[1]))
        rows: Integers = np.empty(len(actions), dtype=np.int64)
        return rows, handle_rows_compiled(
            self.handles, self.factors, self.keys, self.order, np.ascontiguousarray(actions), rows
        )


@njit(cache=True)
def handle_rows_compiled(
    handles: Integers, factors: Integers, keys: Integers, order: Integers, actions: Integers, rows: Integers
) -> int:
    """Write the row of each handle, -1 for those that are not members, and return how many these are."""
    count, length = actions.shape
    missed = 0
    for i in range(count):
        key = 0
        for k in range(length):
            key += actions[i, k] * factors[k]
        low, high = 0, len(keys) - 1  # the first key that is not smaller, or the last one
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        rows[i] = order[low] if len(keys) > 0 and _same(handles, order[low], actions, i) else -1
        missed += rows[i] < 0
    return missed


@register_jitable
def _same(first: Integers, i: int, second: Integers, j: int) -> bool:
    for k in range(first.shape[1]):  # noqa: SIM110 - numba compiles no generators
        if first[i, k] != second[j, k]:
            return False
    return True


def different_handles(actions: ActionBatch) -> tuple[ActionBatch, Integers]:
    """Return the different handles of a batch, in the sequence in which they appear, and the place of each among them.

    Examples
    --------
    >>> different, place = different_handles(np.array([7, 4, 7, 5]))
    >>> different.tolist(), place.tolist()
    ([7, 4, 5], [0, 1, 0, 2])
    """
    several = getattr(actions, "ndim", 1) > 1
    check_array("actions", actions, np.int64, (None, None) if several else (None,))
    first, place = first_of_each(np.ascontiguousarray(actions if several else actions[:, None]))
    return actions[first], place


def first_of_each(rows: Integers) -> tuple[Integers, Integers]:
    """Return where each different row ``(n, m)`` appears first, and the place of each row among the different ones."""
    first, place = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    return first[: _first_of_each(rows, first, place)], place


@njit(cache=True)
def _first_of_each(actions: Integers, first: Integers, place: Integers) -> int:
    count, length = actions.shape
    size = 4
    while size < 2 * count:
        size *= 2
    table, known = np.full(size, -1), 0  # numbers of different rows, by a hash of the row
    for i in range(count):
        key = 0
        for k in range(length):
            key = (key + actions[i, k]) * _FACTOR
        spot = (key >> 32) & (size - 1)
        while table[spot] >= 0 and not _same(actions, first[table[spot]], actions, i):
            spot = (spot + 1) & (size - 1)
        if table[spot] < 0:
            table[spot] = known
            first[known] = i
            known += 1
        place[i] = table[spot]
    return known
