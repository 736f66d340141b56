"""The book that is kept level by level against a dictionary: any updates, any depth, in any pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market_files import Update, naive_books_of, sides_of
from riskroute.market.readers.level_book import LevelBook, LevelUpdates

UPDATES = st.lists(
    st.tuples(st.integers(0, 2), st.booleans(), st.integers(1, 12), st.integers(0, 3), st.integers(0, 9)), max_size=60
)


def drawn(steps: Sequence[tuple[int, bool, int, int, int]]) -> list[Update]:
    """Messages of one to a few updates, a reset now and then."""
    group, found = 1, []
    for later, bid, price, size, reset in steps:
        group += later
        found.append(Update(group, bid, price / 4, float(size), reset == 0))
    return found


def arrays(updates: Sequence[Update], begin: int) -> LevelUpdates:
    groups = np.array([one.group for one in updates], dtype=np.int64)
    flags = [np.array([getattr(one, name) for one in updates], dtype=np.bool_) for name in ("reset", "bid")]
    values = [np.array([getattr(one, name) for one in updates], dtype=np.float64) for name in ("price", "size")]
    numbers = np.arange(begin + 1, begin + 1 + len(updates))
    return LevelUpdates(groups * 1000, numbers, groups, *flags, *values)  # type: ignore[arg-type]  # by kind


def followed(updates: Sequence[Update], depth: int, piece: int) -> list[polars.DataFrame]:
    book = LevelBook(depth)
    frames: list[polars.DataFrame] = []
    for begin in range(0, len(updates), piece):
        frames += book.follow(arrays(updates[begin : begin + piece], begin))
    return [*frames, *book.rest(), *book.rest()]


@given(UPDATES, st.integers(1, 4), st.sampled_from([1, 3, 7, 100]), st.sampled_from([1, 2, 1 << 20]))
@settings(max_examples=50, deadline=None)
def test_books_are_those_of_a_dictionary(
    steps: list[tuple[int, bool, int, int, int]], depth: int, piece: int, cells: int
) -> None:
    updates = drawn(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LevelBook, "CELLS", cells)
        frames = followed(updates, depth, piece)
    expected = naive_books_of(updates, depth)
    table = polars.concat(frames) if frames else polars.DataFrame({"sequence": []})
    assert table["sequence"].to_list() == [number for number, *_ in expected]
    for row, (number, bids, asks, deeper) in zip(table.fill_nan(None).iter_rows(named=True), expected, strict=True):
        assert sides_of(row, depth) == (bids, asks)
        assert row["deeper"] == deeper
        assert row["ts_event"].microsecond == updates[number - 1].group


def test_a_book_of_many_levels_grows() -> None:
    updates = [Update(1 + k // 50, k % 2 == 0, 1000 - k if k % 2 == 0 else 1000 + k, 1.0, k == 0) for k in range(900)]
    table = polars.concat(followed(updates, 2, 200))
    assert table["bid_px_01"][-1] == 998
    assert table["deeper"].all()
