"""Tournament trees: kernels that track the minimum of ``n`` values, where a change recomputes one path to the root."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from riskroute.core.arrays import Floats, Integers


@register_jitable
def build_tournament(values: Floats) -> Integers:
    """Build the tree over ``values`` (length: a power of two); entry 1, the root, is the index of the first minimum."""
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
    """Update the tree in place after a change of ``values[leaf]``."""
    node = (len(values) + leaf) // 2
    while node > 0:
        left, right = winners[2 * node], winners[2 * node + 1]
        winners[node] = left if values[left] <= values[right] else right
        node //= 2


@register_jitable
def padded_tournament(values: Floats) -> Floats:
    """Pad ``values`` with infinities to a length that is a power of two."""
    size = 1
    while size < len(values):
        size *= 2
    result = np.full(size, np.inf)
    for k in range(len(values)):
        result[k] = values[k]
    return result
