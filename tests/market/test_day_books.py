"""Books as of a moment: the last snapshot that is not later, at every venue."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.market.day_books import DayBooks


def table(stamps: list[int], first: float = 10.0, depth: int = 1) -> polars.DataFrame:
    """Snapshots whose bid counts up, two dollars below the ask."""
    columns: dict[str, Any] = {"ts_event": stamps, "sequence": list(range(len(stamps)))}
    for level in range(depth):
        bids = [first + k - level for k in range(len(stamps))]
        columns |= {f"bid_px_{level:02d}": bids, f"bid_sz_{level:02d}": [5] * len(stamps)}
        columns |= {f"ask_px_{level:02d}": [b + 2 + 2 * level for b in bids], f"ask_sz_{level:02d}": [7] * len(stamps)}
    return polars.DataFrame(columns)


STAMPS = st.lists(st.integers(0, 50), min_size=1, max_size=8).map(sorted)


@given(STAMPS, STAMPS, st.integers(-5, 60))
def test_never_a_later_snapshot_and_never_an_older_one_than_the_last(a: list[int], b: list[int], moment: int) -> None:
    now = DayBooks.of_tables({"A": table(a), "B": table(b, 20.0)}).as_of(moment)
    for venue, (stamps, first) in enumerate(((a, 10.0), (b, 20.0))):
        seen = [k for k, stamp in enumerate(stamps) if stamp <= moment]
        if seen:
            assert now.bid_px[venue, 0] == first + seen[-1]
            assert now.ages[venue] == moment - stamps[seen[-1]]
        else:
            assert np.isnan(now.bid_px[venue, 0])
            assert now.bid_sz[venue, 0] == 0
            assert now.ages[venue] == -1


def test_the_mid_is_halfway_between_the_best_quotes_of_all_venues() -> None:
    """Bids 10 and 20 (then 21), asks 12 and 22 (then 23): venue B bids more than A asks, and stays crossed."""
    day = DayBooks.of_tables({"A": table([0]), "B": table([5, 9], 20.0)})
    assert day.mids([0, 5, 9])[0] == 11.0
    assert day.mids([0, 5, 9]).tolist() == [11.0, (20 + 12) / 2, (21 + 12) / 2]
    assert np.isnan(day.mids([-1])[0])
    assert (day.first, day.last) == (5, 9)


def test_venues_of_different_depths_stand_side_by_side() -> None:
    day = DayBooks.of_tables({"A": table([0]), "B": table([0], depth=3)})
    assert day.bid_px.shape == (2, 3)
    assert np.isnan(day.bid_px[0, 1:]).all()
    assert DayBooks.of_tables({"A": table([0]), "B": table([0], depth=3)}, levels=2).bid_px.shape == (2, 2)


def test_what_is_returned_can_be_changed_without_harm() -> None:
    day = DayBooks.of_tables({"A": table([0])})
    day.as_of(3).bid_sz[:] = 0
    assert day.as_of(3).bid_sz[0, 0] == 5


def test_days_that_cannot_be() -> None:
    with pytest.raises(InputError, match="tables must have at least one venue"):
        DayBooks.of_tables({})
    with pytest.raises(InputError, match="sorted by time"):
        DayBooks.of_tables({"A": table([3, 1])})
    one, stamps = np.ones((2, 1)), np.zeros(2, dtype=np.int64)
    with pytest.raises(InputError, match="offsets must ascend from 0 to 2"):
        DayBooks(("A",), np.array([0, 1]), stamps, stamps, one, one, one, one)
