"""Sampling: times per bucket, and the closest books against a plain loop over all snapshots."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from riskroute.core.errors import DataError, InputError
from riskroute.market.clock import TimeWindow, clock_stamp
from riskroute.market.sampling import (
    SampledBooks,
    SampleTimes,
    draw_sample_times,
    sample_books,
    sample_closest_books,
    sample_closest_rows,
    sample_last_rows,
)
from riskroute.market.schema import level_columns, snapshot_schema

DAY = dt.date(2019, 3, 27)


def snapshots_at(stamps: list[int], depth: int = 1) -> polars.DataFrame:
    """A snapshot table whose prices tell the row: the best bid of row 3 is 3."""
    rows = [
        [
            stamp,
            row,
            "XNAS",
            "ZZ",
            *itertools.chain.from_iterable([row - k, 10 + k, row + 1 + k, 20 + k] for k in range(depth)),
        ]
        for row, stamp in enumerate(stamps)
    ]
    schema = snapshot_schema(depth)
    return polars.DataFrame(rows, schema=schema, orient="row") if rows else polars.DataFrame(schema=schema)


def chosen_rows(books: SampledBooks) -> list[int]:
    return [int(price) if there else -1 for price, there in zip(books.bid_px[:, 0], books.found, strict=True)]


def naive_closest(stamps: list[int], sample_times: SampleTimes) -> list[int]:
    """Row of each bucket's closest snapshot, by looking at every one."""
    rows = []
    for left, right, time in zip(sample_times.edges[:-1], sample_times.edges[1:], sample_times.times, strict=True):
        best = -1
        for row, stamp in enumerate(stamps):
            inside = left <= stamp < right
            if inside and (best < 0 or abs(stamp - time) <= abs(stamps[best] - time)):
                best = row
        rows.append(best)
    return rows


def naive_last(stamps: list[int], sample_times: SampleTimes) -> list[int]:
    """Row of each bucket's last snapshot, by looking at every one."""
    buckets = itertools.pairwise(sample_times.edges)
    return [max([r for r, stamp in enumerate(stamps) if left <= stamp < right], default=-1) for left, right in buckets]


@st.composite
def bucketed(draw: st.DrawFn) -> SampleTimes:
    edges = np.array(sorted(draw(st.sets(st.integers(0, 30), min_size=2, max_size=6))))
    times = [draw(st.integers(left, right - 1)) for left, right in itertools.pairwise(edges.tolist())]
    return SampleTimes(edges, np.array(times))


sorted_stamps = st.lists(st.integers(0, 35), max_size=25).map(sorted)
THREE_BUCKETS = SampleTimes(np.array([0, 10, 20, 30]), np.array([5, 14, 29]))


@given(stamps=sorted_stamps, sample_times=bucketed())
@example(stamps=[], sample_times=THREE_BUCKETS)
@example(stamps=[12], sample_times=THREE_BUCKETS)
@example(stamps=[3, 7], sample_times=THREE_BUCKETS)
@example(stamps=[3, 7, 7, 7], sample_times=THREE_BUCKETS)
@example(stamps=[6, 6, 6, 9], sample_times=THREE_BUCKETS)
@example(stamps=[0, 10, 20, 30], sample_times=THREE_BUCKETS)
@example(stamps=[9, 20], sample_times=THREE_BUCKETS)
def test_closest_and_last_books_are_those_of_a_loop(stamps: list[int], sample_times: SampleTimes) -> None:
    snapshots = snapshots_at(stamps)
    closest = sample_closest_books(snapshots, sample_times, levels=1)
    assert sample_closest_rows(snapshots, sample_times).tolist() == naive_closest(stamps, sample_times)
    assert chosen_rows(closest) == naive_closest(stamps, sample_times)
    assert sample_last_rows(snapshots, sample_times).tolist() == naive_last(stamps, sample_times)
    for books in (closest,):
        inside = (books.stamps >= sample_times.edges[:-1]) & (books.stamps < sample_times.edges[1:])
        assert (inside | ~books.found).all(), "a book came from another bucket"
        assert [books.stamps[k] for k, row in enumerate(chosen_rows(books)) if row >= 0] == [
            stamps[row] for row in chosen_rows(books) if row >= 0
        ]


def test_the_later_of_equally_close_books_is_taken() -> None:
    sample_times = SampleTimes(np.array([0, 10]), np.array([5]))
    assert chosen_rows(sample_closest_books(snapshots_at([4, 6]), sample_times)) == [1]
    assert chosen_rows(sample_closest_books(snapshots_at([1, 6, 6, 6]), sample_times)) == [3]
    assert chosen_rows(sample_closest_books(snapshots_at([5, 5, 6]), sample_times)) == [1]
    assert chosen_rows(sample_closest_books(snapshots_at([8, 8, 8, 9]), sample_times)) == [2]


def test_a_book_on_an_edge_belongs_to_the_bucket_that_begins_there() -> None:
    sample_times = SampleTimes(np.array([0, 10, 20]), np.array([9, 10]))
    assert chosen_rows(sample_closest_books(snapshots_at([10]), sample_times)) == [-1, 0]
    assert chosen_rows(sample_closest_books(snapshots_at([0, 20]), sample_times)) == [0, -1]


def test_books_hold_all_levels_and_mark_what_is_missing() -> None:
    snapshots = snapshots_at([1, 2], depth=3).with_columns(
        polars.when(polars.col("sequence") == 1).then(None).otherwise(polars.col("bid_px_02")).alias("bid_px_02"),
        polars.lit(0, dtype=polars.UInt32).alias("bid_sz_02"),
    )
    books = sample_books(snapshots, np.array([1, -1, 0]), levels=5)
    assert books.found.tolist() == [True, False, True]
    assert books.stamps.tolist() == [2, -1, 1]
    np.testing.assert_array_equal(books.bid_px, [[1, 0, np.nan], [np.nan] * 3, [0, -1, -2]])
    np.testing.assert_array_equal(books.bid_sz, [[10, 11, 0], [0] * 3, [10, 11, 0]])
    np.testing.assert_array_equal(books.ask_px, [[2, 3, 4], [np.nan] * 3, [1, 2, 3]])
    np.testing.assert_array_equal(books.ask_sz, [[20, 21, 22], [0] * 3, [20, 21, 22]])
    np.testing.assert_array_equal(books.mid, [1.5, np.nan, 0.5])
    assert books.side("bid")[0] is books.bid_px
    assert books.side("ask")[1] is books.ask_sz


@pytest.mark.parametrize("levels", [1, 2, 3, 9])
def test_no_more_levels_are_given_than_asked_for_or_recorded(levels: int) -> None:
    books = sample_books(snapshots_at([1], depth=3), np.array([0]), levels=levels)
    assert books.ask_px.shape == (1, min(levels, 3))


@pytest.mark.parametrize("levels", [0, -1, 2.0, True, "5"])
def test_levels_are_checked(levels: Any) -> None:
    with pytest.raises(InputError, match=r"levels must be a positive integer, was"):
        sample_closest_books(snapshots_at([1]), THREE_BUCKETS, levels=levels)


def test_a_table_without_levels_is_refused() -> None:
    with pytest.raises(DataError, match=r"expected snapshot columns bid_px_00.*, got \['ts_event'\]"):
        sample_closest_books(snapshots_at([1]).select("ts_event"), THREE_BUCKETS)
    with pytest.raises(DataError, match="expected snapshot columns"):
        sample_closest_books(snapshots_at([1], depth=2).drop(level_columns(1)[1]), THREE_BUCKETS)


def test_one_time_is_drawn_in_every_bucket() -> None:
    sample_times = draw_sample_times(DAY, TimeWindow(), seed=0)
    assert sample_times.edges.shape == (61,)
    assert (np.diff(sample_times.edges) == 120 * 10**9).all()
    assert sample_times.times.shape == (60,)
    assert (sample_times.times >= sample_times.edges[:-1]).all()
    assert (sample_times.times < sample_times.edges[1:]).all()


def test_times_are_uniform_and_independent() -> None:
    """Twelve thousand times of 200 seeds.

    The largest distance to the uniform distribution (Kolmogorov and Smirnov) exceeds 1.95 / sqrt(n) once in a thousand
    seeds, a correlation 4 / sqrt(n) once in ten thousand; seeds are fixed.
    """
    draws = [draw_sample_times(DAY, TimeWindow(), seed) for seed in range(200)]
    inside = np.array([(one.times - one.edges[:-1]) / np.diff(one.edges) for one in draws])
    ranked = np.sort(inside.ravel())
    steps = np.arange(1, ranked.size + 1) / ranked.size
    assert max((steps - ranked).max(), (ranked - steps + 1 / ranked.size).max()) < 1.95 / ranked.size**0.5
    assert abs(np.corrcoef(inside[:, :-1].ravel(), inside[:, 1:].ravel())[0, 1]) < 4 / inside[:, 1:].size ** 0.5
    assert abs(np.corrcoef(inside[:-1].ravel(), inside[1:].ravel())[0, 1]) < 4 / inside[1:].size ** 0.5


def test_every_nanosecond_of_a_bucket_is_drawn_and_its_end_never() -> None:
    """Buckets of two nanoseconds, a thousand of them: both ends up in a share of 1/2, six deviations of 1/63 wide."""
    window = TimeWindow(dt.time(11), dt.time(11, 0, 0, 2), buckets=1000)
    sample_times = draw_sample_times(DAY, window, seed=1)
    places = sample_times.times - sample_times.edges[:-1]
    assert set(places.tolist()) == {0, 1}
    assert abs(places.mean() - 0.5) < 6 / 63


def test_times_follow_from_seed_and_day() -> None:
    first, again = (draw_sample_times(DAY, TimeWindow(), seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.times, again.times)
    assert (first.times != draw_sample_times(DAY, TimeWindow(), seed=4).times).any()
    other = draw_sample_times(DAY + dt.timedelta(days=1), TimeWindow(), seed=3)
    assert (other.times - other.edges[0] != first.times - first.edges[0]).any()


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_the_seed_is_checked(seed: Any) -> None:
    with pytest.raises(InputError, match=r"seed must be a non-negative integer, was"):
        draw_sample_times(DAY, TimeWindow(), seed)


@given(
    start=st.times(),
    length=st.integers(1, 10**9),
    buckets=st.integers(2, 1000),
)
def test_edges_are_those_of_exact_fractions(start: dt.time, length: int, buckets: int) -> None:
    """Every edge is the whole nanosecond at or before its place, worked out in Python's integers."""
    begin = clock_stamp(DAY, start)
    last = clock_stamp(DAY, dt.time.max)
    end = min(begin + length * 1000, last)
    if end - begin < buckets * 1000:
        return
    moment = (dt.datetime.combine(DAY, start) + dt.timedelta(microseconds=(end - begin) // 1000)).time()
    edges = TimeWindow(start, moment, buckets).edges(DAY)
    assert edges.tolist() == [begin + (end - begin) * k // buckets for k in range(buckets + 1)]


@pytest.mark.parametrize(
    ("day", "utc_hour"),
    [
        (dt.date(2019, 3, 8), 16),  # the last trading day of winter time
        (dt.date(2019, 3, 11), 15),
        (dt.date(2019, 11, 1), 15),  # the last trading day of summer time
        (dt.date(2019, 11, 4), 16),
    ],
)
def test_windows_are_in_new_york_time_all_year(day: dt.date, utc_hour: int) -> None:
    expected = dt.datetime(day.year, day.month, day.day, utc_hour, tzinfo=dt.UTC)
    assert clock_stamp(day, dt.time(11)) == int(expected.timestamp()) * 10**9
    edges = TimeWindow().edges(day)
    assert edges[0] == int(expected.timestamp()) * 10**9
    assert edges[-1] - edges[0] == 2 * 3600 * 10**9


def test_stamps_are_exact_to_the_microsecond() -> None:
    assert clock_stamp(DAY, dt.time(9, 30, 0, 999_999)) - clock_stamp(DAY, dt.time(9, 30)) == 999_999_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"start": dt.time(13), "end": dt.time(13)}, "window must end after it starts, was 13:00:00 to 13:00:00"),
        ({"buckets": 1}, "buckets must be an integer of at least 2, was 1"),
        ({"buckets": 60.0}, "buckets must be an integer of at least 2, was 60.0"),
        ({"buckets": 1_000_001}, "buckets must be at most 1,000,000, was 1,000,001"),
        ({"start": "11:00"}, "start of the window must be a time without a zone, such as 11:00, was '11:00'"),
        ({"end": None}, "end of the window must be a time without a zone, such as 11:00, was None"),
        ({"end": dt.time(13, tzinfo=dt.UTC)}, "end of the window must be a time without a zone"),
        ({"end": dt.time(11, 0, 0, 1), "buckets": 1001}, "expected buckets of at least 1 ns, got 1001 from 11:00:00"),
    ],
)
def test_windows_are_checked(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TimeWindow(**fields)
