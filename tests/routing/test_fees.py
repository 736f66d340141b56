"""Fee schedules: which entry holds on a day, and files that are not what they should be."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkout import ROOT
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument
from riskroute.routing.fees import (
    Fee,
    FeeRate,
    FeeSchedule,
    FeeTier,
    charged_fee,
    fee_rate,
    load_fees,
    parse_fee,
)

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


def test_two_entries_of_a_venue_and_day_are_refused() -> None:
    entries = [Fee("XNAS", NEW_YEAR, 0.003, 0.0), Fee("XBOS", NEW_YEAR, 0.0, 0.0), Fee("XNAS", NEW_YEAR, 0.001, 0.0)]
    with pytest.raises(InputError, match="one fee per venue, symbol and day, got two for XNAS from 2019-01-01"):
        FeeSchedule(entries)


@pytest.mark.parametrize("name", ["taker", "maker"])
@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), None, True, "", "nan", "free", "3 bp", "bps", "10 bps +", "1 per", "per share",
        "1 bps 2 bps", "1 per share + 2 per share", "1..2 bps", [0.1],
    ],
)  # fmt: skip
def test_what_is_no_fee_is_refused(value: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} fee of XNAS must be a fee such as '0.0030 per share', '10 bps' or"):
        Fee("XNAS", NEW_YEAR, **({"taker": 0.0, "maker": 0.0} | {name: value}))


@pytest.mark.parametrize(
    ("value", "limit"),
    [(10.1, "10 per share"), (-11, "10 per share"), ("10.5 per share", "10 per share"), ("-11 %", "1000 bps"),
     ("600 bps + 500 bps", "1000 bps")],
)  # fmt: skip
def test_fees_have_a_plausible_size(value: Any, limit: str) -> None:
    with pytest.raises(InputError, match=f"taker fee of XNAS must be at most {limit} in magnitude, was"):
        Fee("XNAS", NEW_YEAR, value, 0.0)


@pytest.mark.parametrize("since", ["2019-01-01", None, dt.datetime(2019, 1, 1)])
def test_a_fee_holds_from_a_day(since: Any) -> None:
    with pytest.raises(InputError, match="since of the fee of XNAS must be a day, was"):
        Fee("XNAS", since, 0.0, 0.0)


def test_a_file_is_read_as_written(tmp_path: Path) -> None:
    fee = load_fees(written(tmp_path, taker="0")).fee("XNAS", NEW_YEAR)
    assert fee == Fee("XNAS", NEW_YEAR, 0.0, -0.002)
    assert fee.current == (FeeRate(), FeeRate(Decimal("-0.002")))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"venue": "3"}, "venue of entry 1 of .*fees.toml must be a string, was 3"),
        (
            {"venue": ""},
            r"entry 1 of .*fees.toml must have venue, from, taker and maker, .*; was \['from', 'maker', 'taker'\]",
        ),
        ({"from": '"2019-01-01"'}, "from of entry 1 of .*fees.toml must be a day such as 2019-01-01, was '2019-01-01'"),
        ({"from": "2019-01-01T09:30:00"}, "from of entry 1 of .* must be a day such as 2019-01-01, was datetime"),
        ({"from": "09:30:00"}, "from of entry 1 of .* must be a day such as 2019-01-01, was datetime.time"),
        ({"from": ""}, "must have venue, from, taker and maker, and may have .*; was"),
        ({"taker": '"3"', "maker": '"free"'}, "entry 1 of .*: maker fee of XNAS must be a fee such as .*, was 'free'"),
        ({"taker": "true"}, "entry 1 of .*: taker fee of XNAS must be a fee such as .*, was True"),
        ({"taker": "nan"}, "entry 1 of .*: taker fee of XNAS must be a fee such as .*, was nan"),
        ({"taker": "30.0"}, "entry 1 of .*: taker fee of XNAS must be at most 10 per share in magnitude, was 30.0"),
        ({"taker": "{fees = 3}"}, "entry 1 of .*: taker fee of XNAS must be a table of fee, minimum and maximum, had"),
        ({"taker": "{fee = 0, minimum = -1}"}, "minimum of taker fee of XNAS must be a number of at least 0, was -1"),
        ({"taker": "{minimum = 2, maximum = 1}"}, "maximum of taker fee of XNAS must be at least the minimum, was 1"),
        ({"symbol": "3"}, "symbol of entry 1 of .* must be a string, was 3"),
        ({"conversion": "0"}, "entry 1 of .*: conversion of the fee of XNAS must be a number of at least"),
        ({"volume": '"3 USD"'}, "entry 1 of .*: the fee of XNAS has volume but no tiers: state both"),
        ({"tiers": "3"}, "tiers of entry 1 of .* must be a list of tables, was 3"),
        ({"tiers": "[3]"}, "a tier of entry 1 of .* must have volume, taker and maker, was 3"),
        ({"tiers": "[{volume = '1 USD', taker = 0, maker = 0}]"}, "fee of XNAS has tiers but no volume: state both"),
        ({"tiers": "[{volume = 1, taker = 0, maker = 0}]"}, "volume of a tier must be a volume such as .*, was 1"),
        ({"taker": ""}, "must have venue, from, taker and maker, and may have .*; was"),
        ({"maker": "[0.1]"}, r"entry 1 of .*: maker fee of XNAS must be a fee such as .*, was \[0.1\]"),
        ({"maker": ""}, "must have venue, from, taker and maker, and may have .*; was"),
        ({"rebate": "0.1"}, "must have venue, from, taker and maker, .*; was .*rebate"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, fields: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_fees(written(tmp_path, **fields))


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
    schedule, day = load_fees(EXAMPLE), dt.date(2024, 3, 27)
    assert {fee.venue for fee in schedule.fees} == {"XNAS", "XBOS", "XPSX", "SPOT", "FUTURES"}
    shares = schedule.venue_fees(["XNAS", "XBOS", "XPSX"], Instrument("AMZN"), day)
    assert shares.takers.tolist() == [[0.003, 0.0], [-0.001, 0.0], [0.0025, 0.0]]
    assert [schedule.fee("XNAS", one).current[1].amount for one in (dt.date(2018, 12, 31), NEW_YEAR)] == [
        Decimal("-0.002"),
        Decimal("-0.0025"),
    ]
    coins = schedule.venue_fees(["SPOT"], COIN, day)
    assert (coins.takers.tolist(), coins.makers.tolist()) == ([[0.0, 0.0009]], [[0.0, 0.0007]])
    assert schedule.venue_fees(["FUTURES"], FUTURE, day).takers.tolist() == [[0.028, 0.0]]
    with pytest.raises(InputError, match="no fee for NQ at FUTURES on 2024-03-27; the schedule has FUTURES ES from"):
        schedule.venue_fees(["FUTURES"], Instrument("NQ", quantity="contracts"), day)


COIN = Instrument("BTCUSDT", unit=Decimal("0.00001"), quantity="BTC", currency="USDT")
FUTURE = Instrument("ES", tick=Decimal("0.25"), quantity="contracts", multiplier=Decimal(50))


@pytest.mark.parametrize(
    ("value", "instrument", "row", "text"),
    [
        ("0.0030 per share", Instrument(), (0.003, 0.0), "0.003 per share"),
        ("-0.002 per shares", Instrument(), (-0.002, 0.0), "-0.002 per shares"),
        (0.003, Instrument(), (0.003, 0.0), "0.003"),
        ("0.003", Instrument(), (0.003, 0.0), "0.003"),
        (0, COIN, (0.0, 0.0), "0"),
        ("10 bps", COIN, (0.0, 0.001), "10 bps"),
        ("0.1%", COIN, (0.0, 0.001), "10 bps"),
        ("-0.5bps", COIN, (0.0, -0.00005), "-0.5 bps"),
        ("0.85 per contract + 1 bps", FUTURE, (0.017, 0.0001), "0.85 per contract + 1 bps"),
        ("0.85 per contract - 1 bps", FUTURE, (0.017, -0.0001), "0.85 per contract + -1 bps"),
        ("0.85 USD per contract", FUTURE, (0.017, 0.0), "0.85 USD per contract"),
        ("1,000.5 per BTC", COIN, (1000.5, 0.0), "1000.5 per BTC"),
        ("1e-7 per BTC", COIN, (1e-7, 0.0), "0.0000001 per BTC"),
    ],
)
def test_fees_are_read_in_natural_units(
    value: Any, instrument: Instrument, row: tuple[float, float], text: str
) -> None:
    rate = parse_fee("taker", value)
    assert str(rate) == text
    assert rate.row("taker", instrument) == row
    assert parse_fee("taker", rate.to_json()) == rate


@pytest.mark.parametrize(
    ("value", "instrument", "message"),
    [
        (0.001, COIN, "x is without a unit, but BTCUSDT is counted in BTC; state it per BTC, or in bps"),
        ("1 per share", FUTURE, "x is per share, but ES is counted in contracts; state it per contract, or in bps"),
        ("1 per contract", Instrument(), "x is per contract, but the instrument is counted in shares; state it per sh"),
    ],
)
def test_fees_of_other_quantities_are_refused(value: Any, instrument: Instrument, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_fee("x", value).row("x", instrument)


@given(
    amount=st.decimals(-10, 10, places=9),
    bps=st.decimals(-999, 999, places=6),
    least=st.none() | st.decimals(0, 10, places=5),
    most=st.none() | st.decimals(11, 10**6, places=3),
    instrument=st.sampled_from(
        [Instrument(), COIN, FUTURE, Instrument(unit=Decimal("0.001"), multiplier=Decimal("0.01"))]
    ),
)
def test_rows_and_limits_are_reversible(
    amount: Decimal, bps: Decimal, least: Decimal | None, most: Decimal | None, instrument: Instrument
) -> None:
    unit = instrument.quantity.removesuffix("s") if instrument.quantity.islower() else instrument.quantity
    rate = FeeRate(amount, unit, bps, least, most)
    row, limits = rate.row("x", instrument), rate.limits(instrument)
    assert row == (float(amount / instrument.multiplier), float(bps / 10_000))
    again = parse_fee("x", fee_rate(np.array(row), np.array(limits), instrument).to_json())
    assert (again.row("x", instrument), again.limits(instrument)) == (row, limits)
    assert limits[0] * instrument.value == pytest.approx(-math.inf if least is None else float(least))


def test_an_entry_of_a_symbol_takes_precedence() -> None:
    later = dt.date(2020, 1, 1)
    fees = [Fee("X", NEW_YEAR, "1 bps", 0), Fee("X", later, "2 bps", 0), Fee("X", NEW_YEAR, "3 bps", 0, symbol="S")]
    schedule = FeeSchedule(fees)
    assert schedule.fee("X", later, "S") is fees[2]
    assert schedule.fee("X", later, "T") is schedule.fee("X", later) is fees[1]
    assert schedule.fee("X", NEW_YEAR, "T") is fees[0]
    with pytest.raises(InputError, match="expected one fee per venue, symbol and day, got two for S at X from"):
        FeeSchedule([*fees, fees[2]])


def test_the_stated_volume_selects_the_tier() -> None:
    tiers = (FeeTier("1,000 USD", "8 bps", "4 bps"), FeeTier("2,000.5 USD", "7 bps", "3 bps"))
    taken = {
        volume: float(Fee("X", NEW_YEAR, "9 bps", "5 bps", volume=volume, tiers=tiers).current[0].bps)
        for volume in ("0 USD", "999.99 USD", "1,000 USD", "2000 USD", "2000.5 USD", "1e9 USD")
    }
    assert list(taken.values()) == [9, 9, 8, 8, 7, 7]
    with pytest.raises(InputError, match="volumes of the fee of X must have the same unit, had EUR, USD"):
        Fee("X", NEW_YEAR, "9 bps", "5 bps", volume="3 EUR", tiers=tiers)
    with pytest.raises(InputError, match="tiers of X must be in ascending order of volume"):
        Fee("X", NEW_YEAR, "9 bps", "5 bps", volume="3 USD", tiers=tiers[::-1])


def test_amounts_in_another_currency_are_converted() -> None:
    def rows(**given: Any) -> Any:
        return Fee("X", NEW_YEAR, **({"taker": 0, "maker": 0} | given)).rows(FUTURE)

    limited = {"fee": "0.5 per contract", "minimum": 1}
    assert rows(taker=limited, currency="EUR", conversion=1.1)[0] == (0.011, 0.0)
    assert rows(taker=limited, currency="EUR", conversion=1.1)[2] == (0.022, math.inf, -math.inf, math.inf)
    assert rows(taker="0.5 EUR per contract", conversion=1.1)[0] == (0.011, 0.0)
    assert rows(taker="1 bps", currency="EUR")[0] == (0.0, 0.0001)
    assert rows(taker="0.5 USD per contract", conversion=1)[0] == (0.01, 0.0)
    with pytest.raises(InputError, match="taker fee of X is in EUR, not USD: add its conversion, the value of 1 EUR"):
        rows(taker="0.5 per contract", currency="EUR")
    with pytest.raises(InputError, match="taker fee of X needs no conversion: it is in USD, the quote currency"):
        rows(taker="0.5 per contract", conversion=1.1)
    with pytest.raises(InputError, match="taker fee of X must be in GBP, the currency of its entry, was in EUR"):
        rows(taker="0.5 EUR per contract", currency="GBP", conversion=1.1)


def test_an_order_pays_within_its_limits() -> None:
    limits = np.array([0.35, 5.0])
    assert [charged_fee(total, limits) for total in (-1.0, 0.0, 0.35, 1.0, 5.0, 9.0)] == [0.35, 0.35, 0.35, 1, 5, 5]
