"""Quantities and prices are exact from a file to a decision and back, for instruments of thirty markets."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instruments import THIRTY, instrument_of
from market_files import csv_text, refusal
from riskroute.core.instrument import Instrument
from riskroute.core.text import decimal_text
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore, recording_in_units
from riskroute.routers.context import Context, read_context
from riskroute.study.markets import market_days
from small_days import HERE

DAY = dt.date(2024, 1, 9)
LARGEST = {"none": Decimal(10) ** 9, "reg-nms": Decimal(10) ** 7}  # prices that an import takes


@st.composite
def ladders(draw: st.DrawFn, one: Instrument) -> list[list[tuple[int, int]]]:
    """Books as ticks and units, bids and asks in turn, best first: two levels each."""
    most_units = int(min(Decimal(10) ** 14, Decimal(10) ** 12 / one.unit))
    most_ticks = int(min(LARGEST[one.protection] / one.tick, Decimal(10) ** 14)) - 8
    lowest = -most_ticks if one.negative_prices else 1
    books = []
    for _ in range(draw(st.integers(2, 4))):
        mid = draw(st.one_of(st.integers(lowest + 4, most_ticks), st.integers(max(lowest, -50) + 4, 200)))
        sizes = [draw(st.one_of(st.integers(1, most_units), st.integers(1, 5000))) for _ in range(4)]
        books.append([(mid - 1, sizes[0]), (mid - 3, sizes[1]), (mid + 1, sizes[2]), (mid + 2, sizes[3])])
    return books


def table_text(one: Instrument, books: list[list[tuple[int, int]]]) -> str:
    """Books as CSV in natural numbers, one a second from three hours into the session."""
    begin = one.session(DAY)[0] + 3 * 3600 * 10**9
    columns: dict[str, list[Any]] = {"ts_event": [begin + k * 10**9 for k in range(len(books))]}
    columns |= {"venue": ["X"] * len(books), "symbol": [one.symbol] * len(books)}
    for place, name in enumerate(("bid", "bid", "ask", "ask")):
        level = f"{place % 2:02d}"
        columns[f"{name}_px_{level}"] = [decimal_text(book[place][0] * one.tick, "") for book in books]
        columns[f"{name}_sz_{level}"] = [decimal_text(book[place][1] * one.unit, "") for book in books]
    return csv_text(columns)


def counts(values: np.ndarray, step: Decimal) -> list[int]:
    """Prices as whole numbers of ticks, by the shortest decimals of their floats."""
    found = [Decimal(f"{value:.15g}") / step for value in values.tolist()]
    assert all(one == one.to_integral_value() for one in found)
    return [int(one) for one in found]


@pytest.mark.parametrize("one", THIRTY, ids=lambda one: one.symbol)
@given(data=st.data())
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_quantities_and_prices_are_exact(one: Instrument, data: st.DataObject, tmp_path: Path) -> None:
    books = data.draw(ladders(one))
    path = tmp_path / "books.csv"
    path.write_text(table_text(one, books))
    options = ReadingOptions(instruments={one.symbol: one}, zone=one.zone)
    (recording,) = import_files([path], tmp_path / "out", options)
    assert (recording.instrument, recording.date) == (one, DAY)
    store = RecordingStore(tmp_path / "out")
    prepared = PreparedDayBooks(DayBooks.of_tables({"X": recording_in_units(store.snapshots(recording), one)}))
    day = PreparedDayBooks.read(prepared.write(tmp_path / "day")).books
    for k, book in enumerate(books):
        now = day.as_of(int(day.stamps[k]))
        for place, (prices, sizes) in enumerate(((now.bid_px, now.bid_sz), (now.ask_px, now.ask_sz))):
            both = book[2 * place : 2 * place + 2]
            assert counts(prices[0], one.tick) == [ticks for ticks, _ in both]
            assert sizes[0].tolist() == [units for _, units in both]
    # to a context and its export in natural numbers, and back
    first = books[0]
    levels = [
        [[float(ticks * one.tick), float(units * one.unit)] for ticks, units in some] for some in (first[:2], first[2:])
    ]
    quantity = min(units for _, units in first)
    any_size = replace(one, lot=None, minimum_quantity=Decimal(0), minimum_notional=Decimal(0))
    shown = {"venues": {"X": {"bids": levels[0], "asks": levels[1]}}}
    context = read_context(shown, instrument=any_size, side="buy", quantity=str(quantity * one.unit))
    assert context.shares == quantity
    again = read_context(context.to_json())
    assert isinstance(again, Context)
    assert (again.shares, again.instrument) == (quantity, any_size)
    for name in ("bid_px", "bid_sz", "ask_px", "ask_sz"):
        np.testing.assert_array_equal(getattr(again.books, name), getattr(context.books, name))
    assert context.books.ask_sz[0].tolist() == [units for _, units in first[2:]]
    assert Decimal(f"{one.value:.15g}") == one.unit * one.multiplier


@pytest.mark.parametrize("price", ["-0.25", "0"])
def test_prices_at_or_below_zero_need_an_instrument_that_has_them(tmp_path: Path, price: str) -> None:
    oil = instrument_of("CL", tick="0.01", zone="UTC", negative_prices=True)
    columns: dict[str, list[Any]] = {
        "ts_event": [oil.session(DAY)[0]],
        "venue": ["X"],
        "symbol": ["CL"],
        "bid_px_00": [price],
    }
    columns |= {"bid_sz_00": [5], "ask_px_00": ["0.5"], "ask_sz_00": [3]}
    path = tmp_path / "books.csv"
    path.write_text(csv_text(columns))
    (one,) = import_files([path], tmp_path / "out", ReadingOptions(instruments={"CL": oil}, zone="UTC"))
    assert RecordingStore(tmp_path / "out").snapshots(one)["bid_px_00"].to_list() == [float(price)]
    assert "half_levels" not in one.notes
    if price == "0":  # stands for an absent level in most tables
        (one,) = import_files([path], tmp_path / "out", ReadingOptions(zone="UTC"))
        assert one.notes["half_levels"] == 1
        return
    said = refusal(path, ReadingOptions(zone="UTC"))
    assert "bid_px_00 must be above 0, was -0.25 at 00:00:00 UTC; declare an instrument with negative_prices" in said


def test_updates_below_zero_are_books_of_negative_prices(tmp_path: Path) -> None:
    begin = 1_704_758_400_000_000
    rows = [
        (True, "bid", "-0.75", "5"),
        (True, "bid", "-0.25", "2"),
        (True, "ask", "-0.05", "4"),
        (True, "ask", "0", "1"),
    ]
    rows += [(False, "bid", "-0.25", "0"), (False, "bid", "-0.50", "7")]
    columns: dict[str, list[Any]] = {
        "exchange": ["x"] * 6,
        "symbol": ["CL"] * 6,
        "timestamp": [begin + k // 4 for k in range(6)],
        "local_timestamp": [begin + k // 4 for k in range(6)],
    }
    for place, name in enumerate(("is_snapshot", "side", "price", "amount")):
        columns[name] = [str(row[place]).lower() for row in rows]
    path = tmp_path / "updates.csv"
    path.write_text(csv_text(columns))
    oil = instrument_of("CL", tick="0.01", zone="UTC", negative_prices=True)
    (one,) = import_files([path], tmp_path / "out", ReadingOptions(instruments={"CL": oil}))
    table = RecordingStore(tmp_path / "out").snapshots(one).select(polars.selectors.contains("_px_"))
    best = table.select("bid_px_00", "bid_px_01", "ask_px_00", "ask_px_01").rows()
    assert best == [(-0.25, -0.75, -0.05, 0.0), (-0.5, -0.75, -0.05, 0.0)]
    assert "must have a price above 0, was -0.75" in refusal(path, ReadingOptions())


def test_a_declared_instrument_of_a_study_is_checked_like_a_recorded_one(tmp_path: Path) -> None:
    coin = THIRTY[0]
    path = tmp_path / "books.csv"
    path.write_text(table_text(coin, [[(999, 25), (998, 30), (1000, 35), (1001, 40)]] * 200))
    import_files([path], tmp_path / "books", ReadingOptions(zone="UTC"))
    words: dict[str, Any] = {"kept": tmp_path / "kept", "backend": HERE}
    (derived,) = market_days(tmp_path / "books", **words)
    assert (str(derived.instrument.unit), derived.instrument.currency) == ("0.00001", "USDT")
    (declared,) = market_days(tmp_path / "books", instruments={coin.symbol: coin}, **words)
    assert declared.instrument == coin
    assert declared.load().books.bid_sz[0].tolist() == [25, 30]
    fine = instrument_of("BTCUSDT", unit="0.000001", zone="UTC")
    (other,) = market_days(tmp_path / "books", instruments={coin.symbol: fine}, **words)
    assert other.load().books.bid_sz[0].tolist() == [250, 300]
    with pytest.raises(Exception, match=r"multiples of its unit, 0\.0001, was 0\.00025; declare a smaller unit"):
        market_days(
            tmp_path / "books", instruments={coin.symbol: instrument_of("BTCUSDT", unit="0.0001", zone="UTC")}, **words
        )
