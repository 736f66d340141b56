"""Public trades of a day, and averages of its mid: plain twins, and what counts as a trade."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.market import RecordingStore
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.day_trades import DayTrades

NAMES = ["ts_event", "action", "price", "size", "order_id"]


def events(*rows: tuple[int, str, float | None, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=NAMES, orient="row")


def test_trades_without_order_ids_count_only_where_no_execution_names_an_order() -> None:
    named = events(
        (1, "A", 9.0, 5, 7), (2, "F", 9.0, 3, 7), (2, "T", 9.0, 3, 0), (4, "F", 9.5, 1, 0), (5, "C", 9.0, 2, 7)
    )
    public = events((3, "T", 8.0, 4, 0), (6, "F", 8.5, 2, 0), (7, "T", None, 2, 0), (8, "T", 8.0, 0, 0))
    found = DayTrades.of_events({"A": named, "B": public})
    assert found is not None
    assert found.stamps.tolist() == [2, 3, 4, 6]
    assert found.prices.tolist() == [9.0, 8.0, 9.5, 8.5]
    assert found.sizes.tolist() == [3.0, 4.0, 1.0, 2.0]
    assert DayTrades.of_events({"A": events((1, "A", 9.0, 5, 7))}) is None
    assert DayTrades.of_events({"A": events((1, "T", None, 5, 0))}) is None
    assert DayTrades.of_events({}) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(900, 1100), st.integers(1, 50)), min_size=1, max_size=30))
@settings(max_examples=50)
def test_the_vwap_is_that_of_the_trades_between(rows: list[tuple[int, int, int]]) -> None:
    trades = DayTrades.of_events({"A": events(*((time, "T", price / 100, size, 0) for time, price, size in rows))})
    assert trades is not None
    begins, ends = (np.array(some) for some in zip(*((b, e) for b in range(20) for e in range(b, 21)), strict=True))
    prices, volumes = trades.between(begins, ends)
    for begin, end, price, volume in zip(begins, ends, prices, volumes, strict=True):
        there = [(at / 100, size) for time, at, size in rows if begin <= time <= end]
        assert volume == sum(size for _, size in there)
        if there:
            assert price == pytest.approx(sum(at * size for at, size in there) / volume, abs=1e-12)
        else:
            assert np.isnan(price)


def random_books(seed: int, rows: int) -> DayBooks:
    """Books of three venues within a minute; sides are empty at times."""
    rng = np.random.default_rng(seed)
    count = 3 * rows
    stamps = np.sort(rng.integers(0, 60, (3, rows)) * SECOND // 2, axis=1).ravel()
    bids, asks = 10 - rng.integers(1, 9, (2, count, 1)) / 100 * np.array([[[1.0]], [[-1.0]]])
    sizes = rng.integers(0, 4, (2, count, 1)).astype(float)
    prices = [np.where(size > 0, price, np.nan) for price, size in zip((bids, asks), sizes, strict=True)]
    offsets = np.arange(4) * rows
    return DayBooks(("A", "B", "C"), offsets, stamps, np.arange(count), prices[0], sizes[0], prices[1], sizes[1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stale", [0.7, 3.2, 1e4])
def test_the_mean_mid_weighs_every_half_second_alike(seed: int, stale: float) -> None:
    """Books change at half-seconds only, and become stale between them: samples every tenth of a second are exact."""
    books = random_books(seed, 25).aged(stale)
    rng = np.random.default_rng(seed)
    begins = rng.integers(-5, 60, 40) * SECOND // 2
    ends = begins + rng.integers(0, 40, 40) * SECOND // 2
    found = books.mean_mids(begins, ends)
    for begin, end, mean in zip(begins.tolist(), ends.tolist(), found.tolist(), strict=True):
        times = np.arange(begin, end, SECOND // 10) + 1 if end > begin else np.array([begin])
        mids = books.mids(times)
        known = mids[np.isfinite(mids)]
        # a book is there until a nanosecond after its age, which the samples a nanosecond later do not see
        expected = known.mean() if len(known) else np.nan
        assert mean == pytest.approx(expected, abs=1e-8, nan_ok=True)


def test_trades_come_back_with_the_day(half_hour: RecordingStore, tmp_path: Path) -> None:
    recordings = half_hour.recordings()
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=1)
    trades = DayTrades.of_events({one.venue: half_hour.events(one) for one in recordings})
    assert trades is not None
    assert len(trades.stamps) > 100
    folder = PreparedDayBooks(books, None, trades).write(tmp_path / "day")
    back = PreparedDayBooks.read(folder).trades
    assert back is not None
    assert all(np.array_equal(one, other) for one, other in zip(back, trades, strict=True))
    assert PreparedDayBooks.record(folder)["tape"] is True
    alone = PreparedDayBooks(books).write(tmp_path / "day")
    assert PreparedDayBooks.read(alone).trades is None
    assert PreparedDayBooks.record(alone)["tape"] is False
