"""Times as counts since 1970: which unit they are in, one unit throughout, and what is no time."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market_files import MIDNIGHT, csv_text, random_messages, table_columns, visible
from riskroute.core.errors import DataError
from riskroute.market.importing import import_files
from riskroute.market.readers import csv_files
from riskroute.market.readers.columns import _COUNTED, UNITS, TimeColumn, _epoch_unit
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore

MESSAGES = random_messages(4, 20)
EDGES = [int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) for year in (_COUNTED[0], _COUNTED[1] + 1)]


def stamps(values: list[Any], dtype: Any = None, zone: str = "America/New_York") -> list[int | None]:
    column = TimeColumn(Path("x.csv"), "ts_event", zone).read(polars.Series(values, dtype=dtype))
    return column.cast(polars.Int64).to_list()


@given(st.sampled_from(list(UNITS)), st.integers(EDGES[0], EDGES[1] - 1))
@settings(max_examples=30, deadline=None)
def test_a_count_has_the_one_unit_that_puts_it_between_1990_and_2200(unit: str, second: int) -> None:
    count = second * 10**9 // UNITS[unit]
    assert _epoch_unit(count) == unit
    assert stamps([count, None]) == [second * 10**9, None]


@pytest.mark.parametrize("unit", UNITS)
def test_the_years_have_sharp_ends(unit: str) -> None:
    first, last = (edge * 10**9 // UNITS[unit] for edge in EDGES)
    assert [_epoch_unit(count) for count in (first - 1, first, last - 1, last)] == [None, unit, unit, None]


@given(st.integers(EDGES[0] * 10**6, 4 * 10**15))
@settings(max_examples=30, deadline=None)
def test_decimal_seconds_keep_the_microsecond(microseconds: int) -> None:
    seconds = float(f"{microseconds // 10**6}.{microseconds % 10**6:06d}")
    assert stamps([seconds]) == [microseconds * 1000]
    assert stamps([f"{microseconds // 10**6}.{microseconds % 10**6:06d}"]) == [microseconds * 1000]


def test_other_types_of_counts() -> None:
    expected = [1_577_836_800_500_000_000]
    assert stamps([1_577_836_800_500.0]) == expected
    assert stamps(["1577836800500"]) == expected
    assert stamps([1_577_836_800_500], polars.UInt64) == expected
    assert stamps(["1577836800.5"], polars.Decimal(20, 3)) == expected
    assert stamps([None, None], polars.Int64) == [None, None]


def test_times_without_a_zone_are_those_of_the_zone_that_is_told() -> None:
    assert stamps(["2020-01-01 00:00:00"], zone="UTC") == [1_577_836_800 * 10**9]
    assert stamps(["2020-01-01 00:00:00"]) == [1_577_836_800 * 10**9 + 5 * 3600 * 10**9]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([34_200_000], "s, ms, us or ns since 1970, between 1990 and 2200, was 34200000"),
        ([20200101], "between 1990 and 2200, was 20200101"),
        ([20200101093000], "between 1990 and 2200, was 20200101093000"),
        ([float("nan")], "between 1990 and 2200, was nan"),
        ([float("inf")], "between 1990 and 2200, was inf"),
        ([1_577_836_800, 5], "between 1990 and 2200, was 5"),
        ([1_577_836_800, 1_577_836_800_000], "in one unit throughout, s as in the first row, was 1577836800000"),
        ([2**64 - 1], "cannot parse the times"),
        ([True], "ts_event must be a time, was Boolean"),
    ],
)
def test_counts_that_are_no_times(values: list[Any], expected: str) -> None:
    with pytest.raises(DataError, match=r"x\.csv: ") as caught:
        stamps(values, polars.UInt64 if values == [2**64 - 1] else None)
    assert expected in str(caught.value)


@pytest.mark.parametrize("unit", UNITS)
def test_a_table_with_counts_of_any_unit(tmp_path: Path, unit: str) -> None:
    columns = table_columns(MESSAGES, 1)
    expected = columns["ts_event"]
    columns["ts_event"] = [stamp // UNITS[unit] for stamp in expected]
    path = tmp_path / "books.csv"
    path.write_text(csv_text(columns))
    (one,) = import_files([path], tmp_path / "out", ReadingOptions())
    assert RecordingStore(tmp_path / "out").snapshots(one)["ts_event"].cast(polars.Int64).to_list() == expected


def test_the_unit_may_not_change_from_piece_to_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = table_columns(MESSAGES, 1)
    columns["ts_event"] = [stamp // (10**9 if k < 15 else 10**6) for k, stamp in enumerate(columns["ts_event"])]
    path = tmp_path / "books.csv"
    path.write_text(csv_text(columns))
    monkeypatch.setattr(csv_files, "BLOCK", 160)
    with pytest.raises(
        DataError, match=f"one unit throughout, s as in the first row, was {MIDNIGHT // 10**9 + 34215}000"
    ):
        import_files([path], tmp_path / "out", ReadingOptions())
    assert visible(tmp_path / "out") == []
