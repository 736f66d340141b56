"""Tournament trees: the smallest of many values, kept up to date as one value at a time changes.

The winner is at the root. After a change only one path to the root is decided anew: ``log2`` of the number of values.

Arrays are copied element by element, here and in other kernels: numba takes three seconds to compile an assignment to
a slice, nearly all of them for the text of an error about shapes. These functions are compiled within the kernels that
call them; called from Python they are plain Python.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from riskroute.core.arrays import Floats, Integers


@register_jitable
def build_tournament(values: Floats) -> Integers:
    """Build a tree over ``values``, whose length is a power of two; the root, entry 1, holds the first minimum."""
    size = len(values)
    winners = np.empty(2 * size, dtype=np.int64)
    for leaf in range(size):
        winners[size + leaf] = leaf
    for node in range(size - 1, 0, -1):
        left, right = winners[2 * node], winners[2 * node + 1]
        winners[node] = left if values[left] <= values[right] else right
    return winners


@register_jitable
def update_tournament(winners: Integers, values: Floats, leaf: int) -> None:
    """Restore the tree after ``values[leaf]`` has changed."""
    node = (len(values) + leaf) // 2
    while node > 0:
        left, right = winners[2 * node], winners[2 * node + 1]
        winners[node] = left if values[left] <= values[right] else right
        node //= 2


@register_jitable
def padded_tournament(values: Floats) -> Floats:
    """Return ``values`` followed by infinities up to a power of two."""
    size = 1
    while size < len(values):
        size *= 2
    result = np.full(size, np.inf)
    for k in range(len(values)):
        result[k] = values[k]
    return result
