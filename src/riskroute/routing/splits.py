"""Explicit lists of the splits of an order of S shares over m slots.

A slot is a venue with an order type (market or limit orders on a lit venue) or a dark pool. A split is a vector of
whole numbers that sum to S. Its features are its entries and their squares, so the dimension is ``2 m``.
"""

from __future__ import annotations

import math

import numpy as np

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.text import count_text
from riskroute.core.validation import real_number, whole_number
from riskroute.learning.actions import Actions
from riskroute.learning.design.g_optimal import Design, too_wide_for_g_optimal
from riskroute.learning.design.wide import wide_optimal
from riskroute.learning.tally import ActionBatch
from riskroute.routing.separable import SeparableScores


class SplitList(Actions):
    """Explicit list of allocations of one order; handles are tuples of shares, as in `Allocations`.

    Designs over many slots avoid tables of all pairs of coordinates, which would fill the memory. If the list holds all
    allocations within bounds, in lexicographic order, ``whole`` optimises many scores at once without scanning every
    row. ``whole`` is None for other lists.

    Examples
    --------
    >>> from riskroute.routing.splits import split_actions
    >>> split_actions(shares=4, slots=3).best(np.array([0.0, 1.0, 2.0, 0.0, 0.0, 0.0]))
    (4, 0, 0)
    """

    whole: SeparableScores | None = None

    def best_each(self, coefs: Floats) -> ActionBatch:
        if self.whole is None or self.size <= 1000:  # a short list is scanned faster than kernels are compiled
            return super().best_each(coefs)
        return self.whole.best_each(coefs)

    def _subset(self, kept: Flags | Integers) -> Actions:
        subset = super()._subset(kept)
        subset.__dict__["whole"] = None
        return subset

    def __repr__(self) -> str:
        return f"SplitList({self.shares} shares over {self.slots} slots, {self.size:,} allocations)"

    @property
    def shares(self) -> int:
        """Shares of the order."""
        return int(self.handles[0].sum())

    @property
    def slots(self) -> int:
        """Number of slots."""
        return int(self.handles.shape[1])

    @property
    def largest_amounts(self) -> Integers:
        """Largest number of shares in each slot, ``(slots,)``."""
        return np.asarray(self.handles.max(axis=0))

    def _solved_design(self, tolerance: float) -> Design:
        wide = too_wide_for_g_optimal(self.size, self.dim)
        return wide_optimal(self.rows, tolerance) if wide else super()._solved_design(tolerance)


_LARGEST_LIST = 5_000_000  # maximum number of splits in a list
COMFORTABLE_LIST = 200_000  # sets up to this size are listed by default: a lookup is faster than a search
MOST_SLOTS = 200  # policies learn two coordinates per slot, and designs need all pairs of coordinates


def split_list_limit(slots: int, most: int = _LARGEST_LIST) -> int:
    """Return the maximum number of splits to list: ``most``, or fewer with many slots, since rows are longer."""
    return min(most, 20_000_000 // slots)  # with its features, a larger table would not fit into a gigabyte


def count_splits(shares: int, slots: int) -> int:
    """Count the splits of ``shares`` over ``slots``: C(S + m - 1, m - 1), exactly.

    Examples
    --------
    >>> count_splits(8, 6)
    1287
    """
    shares, slots = whole_number("shares", shares), whole_number("slots", slots, maximum=MOST_SLOTS)
    return math.comb(shares + slots - 1, slots - 1)


def list_splits(shares: int, slots: int) -> Integers:
    """Return all splits ``(K, m)`` in lexicographic order.

    Examples
    --------
    >>> list_splits(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    count = count_splits(shares, slots)
    limit = split_list_limit(slots, _LARGEST_LIST)
    if count > limit:
        raise InputError(
            f"too many splits to list (limit {limit:,}): "
            f"{count_text(count)} for {shares} shares over {slots} slots; use Allocations"
        )
    # Each partial split branches into one split per amount of the remainder that the next slot can take.
    splits = np.zeros((1, 0), dtype=np.int64)
    left = np.array([shares], dtype=np.int64)
    for _ in range(slots - 1):
        options = left + 1
        parent = np.repeat(np.arange(len(left)), options)
        given = np.arange(len(parent)) - np.repeat(np.cumsum(options) - options, options)
        splits = np.column_stack([splits[parent], given])
        left = left[parent] - given
    return np.column_stack([splits, left])


def split_actions(shares: int, slots: int, *, scale: float | None = None) -> SplitList:
    """Return the listed splits ``a`` as an action set with features ``(a, a^2) / scale``.

    The default scale makes the largest norm of the features 1. Handles are the splits, as tuples of shares. Orders of
    different sizes share coefficients only if their features have the same scale.

    Examples
    --------
    >>> actions = split_actions(shares=2, slots=2)
    >>> actions.handles.tolist(), actions.action_features((1, 1)).round(3).tolist()
    ([[0, 2], [1, 1], [2, 0]], [0.224, 0.224, 0.224, 0.224])
    """
    splits = list_splits(shares, slots)
    # the whole order in one slot has the largest norm
    scale = math.hypot(shares, shares**2) if scale is None else real_number("scale", scale, above=0)
    amounts = splits.astype(np.float64)
    listed = SplitList(np.hstack([amounts, amounts**2]) / scale, coordinates=slots, handles=splits)
    lows, highs = np.zeros(slots, dtype=np.int64), np.full(slots, shares, dtype=np.int64)
    listed.whole = SeparableScores(shares, 1, lows, highs, scale)
    return listed
