"""Instruments: exact quantities, prices and money for every unit and tick; sessions; files; bad input."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments import instrument_of
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import (
    LARGEST_QUANTITY,
    Instrument,
    instrument_from_plain,
    instrument_step,
    load_instruments,
    valid_instrument_zone,
)
from riskroute.core.text import decimal_text, plain_number

UNITS = st.sampled_from([f"1e-{k}" for k in range(9)] + ["0.25", "0.05", "10", "1000000"])


@given(UNITS, st.integers(0, LARGEST_QUANTITY))
@settings(max_examples=200, deadline=None)
def test_quantities_are_exact_in_every_form(unit: str, count: int) -> None:
    instrument = instrument_of(unit=unit)
    natural = instrument.natural(count)
    assert natural == count * Decimal(unit)
    assert instrument.units(natural) == instrument.units(str(natural)) == count
    assert instrument.units(f"{natural:f}") == count
    if len(natural.normalize().as_tuple().digits) <= 15:
        assert instrument.units(plain_number(natural)) == count
    assert instrument.quantity_text(count).split()[0].replace(",", "") == decimal_text(natural, "")


@given(UNITS, st.integers(1, 10**6), st.integers(1, 200))
@settings(max_examples=100, deadline=None)
def test_orders_are_multiples_of_the_lot_and_reach_the_minimum(unit: str, count: int, lot: int) -> None:
    step = Decimal(unit)
    least, floor = 3 * lot * step, 5 * lot * step
    one = instrument_of(unit=unit, lot=lot * step, minimum_quantity=least, minimum_notional=floor, multiplier=2)
    accepted = count % lot == 0 and count >= 3 * lot and 2 * count >= 5 * lot  # at a price of 1
    if accepted:
        assert one.order_units(count * step, price=1.0) == count
    else:
        with pytest.raises(InputError, match=r"quantity must be (a positive multiple|at least|worth at least)"):
            one.order_units(count * step, price=1.0)


@given(st.sampled_from(["1e-9", "0.0001", "0.01", "0.25", "0.5", "1", "100"]), st.integers(1, 10**6), st.booleans())
@settings(max_examples=200, deadline=None)
def test_prices_are_printed_in_full(tick: str, count: int, between: bool) -> None:
    """Multiples of the tick have its digits, and mids up to two more."""
    price = count * Decimal(tick) / (2 if between else 1)
    text = instrument_of(tick=tick).price_text(float(price))
    assert Decimal(text.replace(",", "")) == price
    digits = max(-int(Decimal(tick).as_tuple().exponent), 0) if "e" not in tick else 9
    assert digits <= len(text.partition(".")[2]) <= digits + 2


@given(UNITS, st.integers(1, 10**9), st.integers(1, 99))
@settings(max_examples=100, deadline=None)
def test_a_part_of_a_unit_is_refused(unit: str, count: int, percent: int) -> None:
    given_quantity = (count + Decimal(percent) / 100) * Decimal(unit)
    with pytest.raises(InputError, match="quantity must be a multiple of"):
        instrument_of(unit=unit).units(given_quantity)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), st.integers(0, 8))
@settings(max_examples=100, deadline=None)
def test_the_step_of_numbers_is_that_of_their_decimals(counts: list[int], digits: int) -> None:
    values = [Decimal(count).scaleb(-digits) for count in counts]
    expected = max((-int(value.normalize().as_tuple().exponent) for value in values if value), default=0)
    assert instrument_step([float(value) for value in values]) == Decimal(1).scaleb(-max(expected, 0))


def test_steps_ignore_what_is_no_number_and_end_at_a_millionth_of_a_millionth() -> None:
    assert instrument_step([np.nan, np.inf, -0.5]) == Decimal("0.1")
    assert instrument_step([]) == 1
    assert instrument_step([1 / 3]) == Decimal("1e-12")
    assert instrument_step([3.0], largest=Decimal("0.01")) == Decimal("0.01")


def test_texts_are_natural_numbers_with_their_word() -> None:
    coin = instrument_of("BTCUSDT", unit="0.00001", quantity="BTC", currency="USDT")
    future = instrument_of("ESZ4", quantity="contracts", multiplier=50, tick="0.25")
    assert [coin.quantity_text(n) for n in (25_000, 100_000, 1)] == ["0.25 BTC", "1 BTC", "0.00001 BTC"]
    assert [future.quantity_text(n) for n in (1, 3, 12_000)] == ["1 contract", "3 contracts", "12,000 contracts"]
    assert [Instrument().quantity_text(n) for n in (1, 1000)] == ["1 share", "1,000 shares"]
    assert (future.value, coin.value, future.price_step) == (50.0, 1e-05, 0.25)


def test_a_session_may_begin_on_the_day_before() -> None:
    chicago = ZoneInfo("America/Chicago")
    future = Instrument(zone="America/Chicago", hours="17:00-16:00")
    begin, end = (dt.datetime.fromtimestamp(at / 1e9, chicago) for at in future.session(dt.date(2024, 3, 5)))
    assert (begin.day, begin.hour, end.day, end.hour) == (4, 17, 5, 16)
    for hour, day in ((15, 5), (16, 6), (17, 6), (23, 6), (0, 5)):
        stamp = int(dt.datetime(2024, 3, 5, hour, tzinfo=chicago).timestamp()) * 10**9
        assert future.session_day(stamp) == dt.date(2024, 3, day)


@given(st.sampled_from(["", "09:30-16:00", "17:00-16:00", "00:00-00:00"]), st.integers(0, 400 * 24 * 60))
@settings(max_examples=100, deadline=None)
def test_every_time_before_the_end_of_its_session_follows_the_session_before(hours: str, minute: int) -> None:
    """Clocks change twice in the range of days."""
    instrument = Instrument(zone="America/New_York", hours=hours)
    stamp = (int(dt.datetime(2024, 1, 1, tzinfo=dt.UTC).timestamp()) + 60 * minute) * 10**9
    day = instrument.session_day(stamp)
    before = instrument.session(day - dt.timedelta(days=1))[1]
    assert before <= stamp < instrument.session(day)[1]


def test_plain_values_and_files_give_the_same_instrument_again(tmp_path: Path) -> None:
    coin = instrument_of("BTC-PERP", unit="0.00001", tick="0.1", quantity="BTC", zone="UTC", negative_prices=True)
    assert instrument_from_plain("BTC-PERP", coin.to_json()) == coin
    path = tmp_path / "instruments.toml"
    path.write_text('[instruments.ESZ4]\nmultiplier = 50\ntick = 0.25\nquantity = "contracts"\n')
    assert load_instruments(path) == {"ESZ4": instrument_of("ESZ4", multiplier=50, tick="0.25", quantity="contracts")}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unit": 0}, "unit must be a number of at least 0.000000000001 and at most 1,000,000,000,000, was 0"),
        ({"tick": "fine"}, "tick must be a number of at least"),
        ({"tick": float("nan")}, "was nan"),
        ({"multiplier": True}, "multiplier must be a number"),
        ({"lot": "0.5"}, "lot must be a number of at least 1, was '0.5'"),
        ({"unit": "0.2", "lot": "0.5"}, "lot must be a multiple of the unit, 0.2, was 0.5"),
        ({"minimum_notional": -1}, "minimum_notional must be a number of at least 0"),
        ({"hours": "9.30-16"}, "hours must be two times such as 09:30-16:00, was '9.30-16'"),
        ({"hours": "09:30Z-16:00Z"}, "hours must be two times without a zone"),
        ({"zone": "Mars"}, "zone must be a time zone such as UTC"),
        ({"protection": "nms"}, "protection must be one of none, reg-nms, was 'nms'"),
        ({"currency": "<b>"}, "currency must be a name"),
        ({"negative_prices": 1}, "negative_prices must be True or False"),
        ({"ticks": 1}, "unknown field 'ticks' of instrument A; fields are symbol, unit"),
        ({"symbol": "B"}, "symbol of instrument A must be left out or A, was 'B'"),
    ],
)
def test_invalid_instruments_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        instrument_from_plain("A", fields)
    assert message in str(error.value)


@pytest.mark.parametrize("value", [True, None, "much", -1, float("inf"), [1], 1e30])
def test_what_is_no_quantity_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="quantity must be"):
        Instrument().units(value)


def test_files_without_instruments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "instruments.toml"
    for text, message in (
        ("", r"must have a table \[instruments.SYMBOL\] per symbol"),
        ("instruments = 3", r"must have a table \[instruments.SYMBOL\] per symbol"),
        ("[instruments]\nA = 3", "instrument A in .* must be a table of symbol, unit"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            load_instruments(path)
    with pytest.raises(InputError, match="zone must be a time zone"):
        valid_instrument_zone("zone", "Mars/Olympus")
