"""All ways to split an order of S shares over m slots, listed.

A slot is one place to put shares: market orders on a lit venue, limit orders on it, or a dark pool. A split is a
vector of whole numbers that sum to S; its features are the numbers and their squares, so the dimension is ``2 m``.
"""

from __future__ import annotations

import math

import numpy as np

from riskroute.core.arrays import Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import real_number, whole_number
from riskroute.routing.listed import ListedAllocations
from riskroute.routing.separable_each import SeparableScores

LARGEST_LIST = 5_000_000
"""Sets with more splits than this are not listed."""

LARGEST_TABLE = 20_000_000
"""Nor are sets whose list would have more entries than this: with its features it would not fit into a gigabyte."""

MOST_SLOTS = 200
"""Orders over more slots are refused: everything learned has two coordinates per slot, and designs need their pairs."""


def split_list_limit(slots: int, most: int = LARGEST_LIST) -> int:
    """Largest number of splits over so many slots that are listed, where ``most`` would be for few slots."""
    return min(most, LARGEST_TABLE // slots)


def count_splits(shares: int, slots: int) -> int:
    """Count the splits of ``shares`` over ``slots``: C(S + m - 1, m - 1), exactly.

    Examples
    --------
    >>> count_splits(8, 6)
    1287
    """
    shares, slots = whole_number("shares", shares), whole_number("slots", slots, maximum=MOST_SLOTS)
    return math.comb(shares + slots - 1, slots - 1)


def about_splits(count: int) -> str:
    """Write a whole number of any size: in full while it is short, as a power of ten when it is not.

    Examples
    --------
    >>> about_splits(1287), about_splits(10**40 + 1)
    ('1,287', 'about 1.0e+40')
    """
    if count < 10**12:
        return f"{count:,}"
    digits = str(count)
    return f"about {digits[0]}.{digits[1]}e+{len(digits) - 1}"


def list_splits(shares: int, slots: int) -> Integers:
    """All splits ``(K, m)``, in ascending lexicographic order.

    Examples
    --------
    >>> list_splits(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    count = count_splits(shares, slots)
    limit = split_list_limit(slots, LARGEST_LIST)
    if count > limit:
        raise InputError(
            f"shares over slots must give at most {limit:,} splits to be listed, "
            f"was {about_splits(count)} for {shares} shares over {slots} slots"
        )
    # Slot by slot: every partial split branches into all amounts its next slot can take of the remainder.
    splits = np.zeros((1, 0), dtype=np.int64)
    left = np.array([shares], dtype=np.int64)
    for _ in range(slots - 1):
        options = left + 1
        parent = np.repeat(np.arange(len(left)), options)
        given = np.arange(len(parent)) - np.repeat(np.cumsum(options) - options, options)
        splits = np.column_stack([splits[parent], given])
        left = left[parent] - given
    return np.column_stack([splits, left])


def largest_split_size(shares: int) -> float:
    """Largest norm of the features ``(a, a^2)`` of a split: that of everything in one slot.

    Examples
    --------
    >>> largest_split_size(1) == 2**0.5
    True
    """
    return math.hypot(shares, shares**2)


def split_actions(shares: int, slots: int, *, scale: float | None = None) -> ListedAllocations:
    """The listed splits as an action set with features ``(a, a^2)``, divided by ``scale``, or by their largest norm.

    Handles are the splits, as tuples of shares. Orders of different sizes share their coefficients only if their
    features share one scale.

    Examples
    --------
    >>> actions = split_actions(shares=2, slots=2)
    >>> actions.handles.tolist(), actions.action_features((1, 1)).round(3).tolist()
    ([[0, 2], [1, 1], [2, 0]], [0.224, 0.224, 0.224, 0.224])
    """
    splits = list_splits(shares, slots)
    scale = largest_split_size(shares) if scale is None else real_number("scale", scale, above=0)
    amounts = splits.astype(np.float64)
    listed = ListedAllocations(np.hstack([amounts, amounts**2]) / scale, coordinates=slots, handles=splits)
    lows, highs = np.zeros(slots, dtype=np.int64), np.full(slots, shares, dtype=np.int64)
    listed.whole = SeparableScores(shares, 1, lows, highs, scale)
    return listed
