"""A book maintained level by level (market by price): updates of single levels in, snapshots of the best levels out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers, Matrix
from riskroute.market.schema import TIME


class LevelUpdates(NamedTuple):
    """Updates sorted by time, ``(n,)`` each; those of one ``group`` form one message.

    ``stamps`` are UTC nanoseconds and ``numbers`` the rows of the file. A ``reset`` empties the book before its row is
    applied; size 0 removes the level.
    """

    stamps: Integers
    numbers: Integers
    groups: Integers
    resets: Flags
    bids: Flags
    prices: Floats
    sizes: Floats


class _Sides(NamedTuple):
    """Levels of bids and asks, ``(2, room)``, best last: ascending keys (bids, negated asks), sizes; counts ``(2,)``.

    Most changes happen near the best level, so keeping it last moves little memory.
    """

    keys: Matrix
    sizes: Matrix
    counts: Integers


class LevelBook:
    """The levels of one book; yields the best ``depth`` levels of each side after every message that changes them.

    >>> updates = LevelUpdates(
    ...     np.array([1, 1, 2]), np.array([1, 2, 3]), np.array([1, 1, 2]), np.array([True, False, False]),
    ...     np.array([True, False, True]), np.array([9.0, 10.0, 9.5]), np.array([5.0, 7.0, 2.0])
    ... )
    >>> book = LevelBook(1)
    >>> frames = polars.concat([*book.follow(updates), *book.rest()])
    >>> frames.select("sequence", "bid_px_00", "bid_sz_00", "ask_px_00", "deeper").rows()
    [(2, 9.0, 5.0, 10.0, False), (3, 9.5, 2.0, 10.0, True)]
    """

    CELLS = 1 << 20  # prices of a side per chunk of snapshots, approximately

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._sides = _Sides(np.zeros((2, 64)), np.zeros((2, 64)), np.zeros(2, dtype=np.int64))
        self._state = np.zeros(4, dtype=np.int64)
        self._last = np.zeros((4, depth))
        self._last[::2] = np.nan
        self._rows = max(self.CELLS // depth, 1)

    def rest(self) -> Iterator[polars.DataFrame]:
        """Yield the snapshot of the last message; no updates may follow."""
        end = np.array([-1])
        flag, number = np.array([False]), np.array([0.0])
        yield from self.follow(LevelUpdates(end, end, end, flag, flag, number, number))

    def follow(self, updates: LevelUpdates) -> Iterator[polars.DataFrame]:
        """Apply updates; yield snapshots of all complete messages (the last one may continue)."""
        keys, sizes, counts = self._sides
        needed = int(counts.max()) + len(updates.stamps)  # every update may add a level
        if needed > keys.shape[1]:
            wider = np.zeros((2, 2 * needed - keys.shape[1]))
            self._sides = _Sides(np.hstack([keys, wider]), np.hstack([sizes, wider]), counts)
        done, rows = 0, min(self._rows, len(updates.stamps) + 1)
        while done < len(updates.stamps):
            levels = np.empty((4, rows, self.depth))
            marks = np.empty((3, rows), dtype=np.int64)
            done, found = _follow(updates, done, self._sides, self._state, self._last, levels, marks)
            if found:
                yield self._frame(levels[:, :found], marks[:, :found])

    def _frame(self, levels: Matrix, marks: Integers) -> polars.DataFrame:
        columns = {"ts_event": polars.Series(marks[0]).cast(TIME), "sequence": polars.Series(marks[1])}
        for level in range(self.depth):
            for k, field in enumerate(("bid_px", "bid_sz", "ask_px", "ask_sz")):
                columns[f"{field}_{level:02d}"] = polars.Series(np.ascontiguousarray(levels[k, :, level]))
        return polars.DataFrame(columns | {"deeper": polars.Series(marks[2] > 0)})


@njit(cache=True)
def _follow(
    updates: LevelUpdates,
    begin: int,
    sides: _Sides,
    state: Integers,
    last: Matrix,
    levels: Matrix,
    marks: Integers,
) -> tuple[int, int]:
    """Apply updates from ``begin`` until ``levels`` is full; return the updates applied and the snapshots taken.

    ``state`` is the current group, its stamp and number, and whether it
    changed a kept level; group -1 marks the end and changes nothing.
    """
    stamps, numbers, groups, resets, bids, prices, sizes = updates
    keys, kept, counts = sides
    found, depth = 0, last.shape[1]
    for k in range(begin, len(stamps)):
        if groups[k] != state[0] and state[3]:  # the previous message is complete: take a snapshot
            if found == levels.shape[1]:
                return k, found
            state[3] = 0
            changed = False
            for side in range(2):
                for level in range(depth):
                    there = level < counts[side]
                    place = counts[side] - 1 - level
                    price = abs(keys[side, place]) if there else np.nan
                    size = kept[side, place] if there else 0.0
                    levels[2 * side, found, level] = price
                    levels[2 * side + 1, found, level] = size
                    before = last[2 * side, level]
                    same = price == before or (np.isnan(price) and np.isnan(before))
                    if not same or size != last[2 * side + 1, level]:
                        changed = True
                        last[2 * side, level], last[2 * side + 1, level] = price, size
            if changed:
                marks[0, found], marks[1, found] = state[1], state[2]
                marks[2, found] = counts[0] > depth or counts[1] > depth
                found += 1
        if groups[k] < 0:
            continue
        state[0], state[1], state[2] = groups[k], stamps[k], numbers[k]
        if resets[k]:
            counts[0] = counts[1] = 0
            state[3] = 1
        side = 0 if bids[k] else 1
        key = prices[k] if bids[k] else -prices[k]
        low, high = 0, counts[side]
        while low < high:
            middle = (low + high) // 2
            if keys[side, middle] < key:
                low = middle + 1
            else:
                high = middle
        known = low < counts[side] and keys[side, low] == key
        if known and sizes[k] > 0:
            kept[side, low] = sizes[k]
        elif known:
            for place in range(low, counts[side] - 1):
                keys[side, place], kept[side, place] = keys[side, place + 1], kept[side, place + 1]
            counts[side] -= 1
        elif sizes[k] > 0:
            for place in range(counts[side], low, -1):
                keys[side, place], kept[side, place] = keys[side, place - 1], kept[side, place - 1]
            keys[side, low], kept[side, low] = key, sizes[k]
            counts[side] += 1
        if counts[side] - low <= depth:  # deeper changes leave the kept levels as they are
            state[3] = 1
    return len(stamps), found
