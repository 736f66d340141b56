"""Fee schedules: which entry holds on a day, and files that are not what they should be."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkout import ROOT
from riskroute.core.errors import DataError, InputError
from riskroute.routing.fees import Fee, FeeSchedule, load_fees

EXAMPLE = ROOT / "docs" / "fees.toml"
NEW_YEAR = dt.date(2019, 1, 1)
GOOD = {"venue": '"XNAS"', "from": "2019-01-01", "taker": "0.003", "maker": "-0.002"}


def written(folder: Path, **fields: str) -> Path:
    """A file of one entry, good but for the fields given; an empty text leaves a field out."""
    lines = [f"{name} = {value}" for name, value in (GOOD | fields).items() if value]
    path = folder / "fees.toml"
    path.write_text("\n".join(["[[fees]]", *lines]) + "\n")
    return path


def test_the_latest_entry_that_has_begun_holds() -> None:
    days = [NEW_YEAR, dt.date(2020, 6, 1), dt.date(2021, 6, 1)]
    fees = [Fee("XNAS", day, taker=k / 1000, maker=0.0) for k, day in enumerate(days)]
    schedule = FeeSchedule([fees[2], fees[0], Fee("XBOS", dt.date(2020, 1, 1), 0.009, 0.0), fees[1]])
    one = dt.timedelta(days=1)
    for k, day in enumerate(days):
        assert schedule.fee("XNAS", day) is fees[k], "a fee holds on its first day"
        assert schedule.fee("XNAS", day + one) is fees[k]
        if k:
            assert schedule.fee("XNAS", day - one) is fees[k - 1]
    assert schedule.fee("XNAS", dt.date(2050, 1, 1)) is fees[2]


@given(
    entries=st.sets(st.tuples(st.sampled_from(["XNAS", "XBOS"]), st.integers(0, 20)), max_size=8),
    asked=st.tuples(st.sampled_from(["XNAS", "XBOS", "XPSX"]), st.integers(-1, 21)),
)
def test_schedules_equal_a_search_by_hand(entries: set[tuple[str, int]], asked: tuple[str, int]) -> None:
    def day(number: int) -> dt.date:
        return NEW_YEAR + dt.timedelta(days=number)

    schedule = FeeSchedule([Fee(venue, day(number), number / 100, 0.0) for venue, number in entries])
    begun = [number for venue, number in entries if venue == asked[0] and number <= asked[1]]
    if begun:
        assert schedule.fee(asked[0], day(asked[1])).since == day(max(begun))
    else:
        with pytest.raises(InputError, match=f"no fee for {asked[0]} on {day(asked[1])}; the schedule has"):
            schedule.fee(asked[0], day(asked[1]))


def test_a_day_before_the_first_entry_names_what_is_known() -> None:
    schedule = FeeSchedule([Fee("XNAS", NEW_YEAR, 0.003, -0.002), Fee("XBOS", NEW_YEAR, -0.001, 0.002)])
    known = "the schedule has XBOS from 2019-01-01, XNAS from 2019-01-01"
    with pytest.raises(InputError, match=f"no fee for XNAS on 2018-12-31; {known}"):
        schedule.fee("XNAS", dt.date(2018, 12, 31))
    with pytest.raises(InputError, match=f"no fee for XPSX on 2019-03-27; {known}"):
        schedule.fee("XPSX", dt.date(2019, 3, 27))
    with pytest.raises(InputError, match="the schedule has none"):
        FeeSchedule([]).fee("XNAS", NEW_YEAR)


@pytest.mark.parametrize(
    ("taker", "maker", "inverted"),
    [(-0.001, 0.002, True), (0.003, -0.002, False), (0.0, 0.002, False), (-0.001, 0.0, False), (0.001, 0.002, False)],
)
def test_inverted_venues_pay_takers_and_charge_makers(taker: float, maker: float, inverted: bool) -> None:
    assert Fee("XBOS", NEW_YEAR, taker, maker).inverted is inverted


def test_two_entries_of_a_venue_and_day_are_refused() -> None:
    entries = [Fee("XNAS", NEW_YEAR, 0.003, 0.0), Fee("XBOS", NEW_YEAR, 0.0, 0.0), Fee("XNAS", NEW_YEAR, 0.001, 0.0)]
    with pytest.raises(InputError, match="one fee per venue and day, got two for XNAS from 2019-01-01"):
        FeeSchedule(entries)


@pytest.mark.parametrize("value", [10.1, -11, float("nan"), float("inf"), "0.003", None, True])
@pytest.mark.parametrize("name", ["taker", "maker"])
def test_fees_are_numbers_of_a_plausible_size(name: str, value: object) -> None:
    fields: dict[str, Any] = {"taker": 0.0, "maker": 0.0, name: value}
    with pytest.raises(InputError, match=f"{name} fee of XNAS must be a number of at least -10 and of at most 10, was"):
        Fee("XNAS", NEW_YEAR, **fields)


@pytest.mark.parametrize("since", ["2019-01-01", None, dt.datetime(2019, 1, 1)])
def test_a_fee_holds_from_a_day(since: Any) -> None:
    with pytest.raises(InputError, match="since of the fee of XNAS must be a day, was"):
        Fee("XNAS", since, 0.0, 0.0)


def test_a_file_is_read_as_written(tmp_path: Path) -> None:
    fee = load_fees(written(tmp_path, taker="0")).fee("XNAS", NEW_YEAR)
    assert fee == Fee("XNAS", NEW_YEAR, 0.0, -0.002)
    assert isinstance(fee.taker, float)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"venue": "3"}, "venue of entry 1 of .*fees.toml must be a string, was 3"),
        (
            {"venue": ""},
            r"entry 1 of .*fees.toml must have venue, from, taker and maker, was \['from', 'maker', 'taker'\]",
        ),
        ({"from": '"2019-01-01"'}, "from of entry 1 of .*fees.toml must be a day such as 2019-01-01, was '2019-01-01'"),
        ({"from": "2019-01-01T09:30:00"}, "from of entry 1 of .* must be a day such as 2019-01-01, was datetime"),
        ({"from": "09:30:00"}, "from of entry 1 of .* must be a day such as 2019-01-01, was datetime.time"),
        ({"from": ""}, "must have venue, from, taker and maker, was"),
        ({"taker": '"0.003"'}, "taker of entry 1 of .* must be a number, was '0.003'"),
        ({"taker": "true"}, "taker of entry 1 of .* must be a number, was True"),
        ({"taker": ""}, "must have venue, from, taker and maker, was"),
        ({"maker": "[0.1]"}, r"maker of entry 1 of .* must be a number, was \[0.1\]"),
        ({"maker": ""}, "must have venue, from, taker and maker, was"),
        ({"rebate": "0.1"}, "must have venue, from, taker and maker, was .*rebate"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, fields: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_fees(written(tmp_path, **fields))


@pytest.mark.parametrize("value", ["nan", "inf", "30.0"])
def test_impossible_numbers_in_a_file_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(InputError, match="taker fee of XNAS must be a number of at least -10"):
        load_fees(written(tmp_path, taker=value))


@pytest.mark.parametrize(
    "text", ["", "fees = 3", "fees = [3]", "[fees]\nvenue = 'XNAS'", "[[fee]]\nvenue = 'XNAS'", "[[fees", b"\xff\xfe"]
)
def test_files_that_are_no_schedule_are_refused(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "fees.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=r"fees.toml must"):
        load_fees(path)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(DataError, match=f"{path} must be a TOML file of"):
            load_fees(path)


def test_the_documented_example_is_a_schedule() -> None:
    schedule = load_fees(EXAMPLE)
    assert {fee.venue for fee in schedule.fees} == {"XNAS", "XBOS", "XPSX"}
    day = dt.date(2019, 3, 27)
    assert [schedule.fee(venue, day).inverted for venue in ("XNAS", "XBOS", "XPSX")] == [False, True, False]
    assert schedule.fee("XNAS", dt.date(2018, 12, 31)).maker == -0.002
    assert schedule.fee("XNAS", NEW_YEAR).maker == -0.0025
