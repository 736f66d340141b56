"""Sizes with decimals: kept as they are in a recording, counted in whole units when played; what is no size."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments import instrument_of
from market_files import ITCH_NAME, check_recordings, csv_text, itch_bytes, random_messages, refusal, table_columns
from riskroute.cli.app import run_app as command
from riskroute.core.errors import DataError
from riskroute.core.instrument import Instrument
from riskroute.market.calibration import calibrate
from riskroute.market.clock import TimeWindow
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore, recording_in_units

MESSAGES = random_messages(4, 40, kinds="AD")  # sizes of whole hundreds
COIN = instrument_of("XBT/USD", unit="0.0001", tick="0.01", quantity="XBT", zone="UTC")


def coins(factor: float = 0.0001) -> dict[str, list[Any]]:
    """A table whose sizes are fractions and whose prices are those of whole coins, at venues that are no MIC."""
    columns = table_columns(MESSAGES, 2, ("kraken",), "XBT/USD")
    for name in columns:
        if "_sz_" in name:
            columns[name] = [round(size * factor, 8) for size in columns[name]]
    return columns


def written(path: Path, columns: dict[str, list[Any]]) -> Path:
    if path.suffix == ".csv":
        path.write_text(csv_text(columns))
    else:
        polars.DataFrame(columns).write_parquet(path)
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("declared", [None, COIN])
def test_a_recording_keeps_the_sizes_of_its_source(tmp_path: Path, ending: str, declared: Instrument | None) -> None:
    path = written(tmp_path / f"books{ending}", coins())
    instruments = {} if declared is None else {declared.symbol: declared}
    (one,) = import_files([path], tmp_path / "out", ReadingOptions(instruments=instruments))
    check_recordings(tmp_path / "out")
    (again,) = RecordingStore(tmp_path / "out").recordings()
    assert again == one
    assert (one.stem, one.derived) == ("kraken_XBT%2FUSD_2019-03-27", declared is None)
    assert one.instrument.unit == (Decimal("0.01") if declared is None else declared.unit)
    assert one.instrument.zone == ("America/New_York" if declared is None else "UTC")
    table, plain = RecordingStore(tmp_path / "out").snapshots(one), polars.DataFrame(coins())
    for name in ("bid_sz_00", "ask_sz_01", "bid_px_00"):
        assert table[name].to_list() == plain[name].to_list()
    played = recording_in_units(table, one.instrument)
    assert played["bid_sz_00"].to_list() == [round(size / one.instrument.unit_size) for size in plain["bid_sz_00"]]


def test_unit_and_tick_are_derived_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = coins() | {"bid_px_00": [99.0, 99.5] * 20, "bid_sz_00": [*[0.5] * 39, 0.50001]}
    path = written(tmp_path / "books.csv", columns)
    assert command(["market", "import", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "XBT/USD: quantities in multiples of 0.00001 XBT, ticks of 0.01, amounts in USD" in capsys.readouterr().out


def test_sizes_finer_than_a_declared_unit_are_refused(tmp_path: Path) -> None:
    frame = polars.DataFrame({"bid_px_00": [99.0, 99.0], "bid_sz_00": [0.5, 0.50001]})
    with pytest.raises(DataError, match=r"sizes of XBT/USD must be multiples of its unit, 0\.0001, was 0\.50001; decl"):
        recording_in_units(frame, COIN)


@pytest.mark.parametrize("value", [-0.5, float("inf"), 1e20])
def test_what_is_no_size_is_refused(tmp_path: Path, value: float) -> None:
    columns = coins() | {"bid_px_00": [99.0] * 40, "bid_sz_00": [*[0.5] * 39, value]}
    said = refusal(written(tmp_path / "books.parquet", columns), ReadingOptions())
    assert said.endswith(f"sizes from 0 to 1e14, was {value}")


@given(st.sampled_from(["1e-8", "0.0001", "0.25", "1", "100"]), st.integers(1, 10**13))
@settings(max_examples=60, deadline=None)
def test_every_whole_number_of_units_is_found_again(unit: str, count: int) -> None:
    instrument = instrument_of(unit=unit)
    natural = instrument.natural(count)
    frame = polars.DataFrame({"bid_sz_00": [float(natural)]})
    assert recording_in_units(frame, instrument)["bid_sz_00"][0] == count == instrument.units(natural)


def test_single_precision_sizes_are_accepted(tmp_path: Path) -> None:
    frame = polars.DataFrame(coins()).with_columns(polars.selectors.contains("_sz_").cast(polars.Float32))
    frame.write_parquet(tmp_path / "books.parquet")
    (one,) = import_files([tmp_path / "books.parquet"], tmp_path / "out", ReadingOptions())
    assert (one.snapshots, one.instrument.unit) == (40, Decimal("0.01"))


def test_zones_are_refused_for_files_that_have_their_own(tmp_path: Path) -> None:
    (tmp_path / ITCH_NAME).write_bytes(itch_bytes(MESSAGES))
    said = refusal(tmp_path / ITCH_NAME, ReadingOptions(("ACME",), zone="UTC"))
    assert said == f"omit zone for {ITCH_NAME}, whose days are in America/New_York time; zone was 'UTC'"


BERLIN, TOKYO = (
    instrument_of(symbol, zone=zone) for symbol, zone in (("SAP", "Europe/Berlin"), ("7203", "Asia/Tokyo"))
)


@pytest.mark.parametrize(
    ("options", "hour"),
    [
        (ReadingOptions(("SAP",)), 15),  # New York
        (ReadingOptions(("SAP",), zone="UTC"), 10),
        (ReadingOptions(("SAP",), instruments={"SAP": BERLIN}), 9),
        (ReadingOptions(("SAP",), instruments={"SAP": BERLIN, "7203": TOKYO}), 9),
        (ReadingOptions(("SAP",), instruments={"SAP": BERLIN}, zone="Asia/Tokyo"), 1),
        (ReadingOptions(("SAP",), instruments={"SAP.DE": BERLIN}, symbol_names={"SAP": "SAP.DE"}), 9),
    ],
)
@pytest.mark.parametrize("kind", ["books", "updates"])
def test_local_times_of_books_and_trades_are_in_one_zone(
    options: ReadingOptions, hour: int, kind: str, tmp_path: Path
) -> None:
    """They are in the zone of the instrument unless another one is given."""
    if kind == "books":
        rows = "time,bid,bid_size,ask,ask_size\n2024-01-09 10:00:00,99,1,101,1\n2024-01-09 10:00:09,99,1,101,2\n"
    else:
        rows = "time,side,price,size\n2024-01-09 10:00:00,bid,99,1\n2024-01-09 10:00:00,ask,101,1\n"
        hour = 10 if options == ReadingOptions(("SAP",)) else hour
    (tmp_path / "books.csv").write_text(rows)
    (tmp_path / "trades.csv").write_text("time,price,size,side\n2024-01-09 10:00:05,101,1,buy\n")
    files = [tmp_path / "trades.csv", tmp_path / "books.csv"]
    (one,) = import_files(files, tmp_path / "out", dataclasses.replace(options, venue="XETR"))
    store = RecordingStore(tmp_path / "out")
    first, traded = store.snapshots(one)["ts_event"][0], store.events(one)["ts_event"][0]
    assert (first.hour, first.minute, first.second) == (hour, 0, 0)
    assert (traded - first).total_seconds() == 5


def test_local_times_need_a_zone_if_instruments_are_in_several(tmp_path: Path) -> None:
    options = ReadingOptions(venue="X", instruments={"SAP": BERLIN, "7203": TOKYO})
    path = tmp_path / "books.csv"
    path.write_text("time,symbol,bid,bid_size,ask,ask_size\n2024-01-09 10:00:00,SAP,99,1,101,1\n")
    assert "declared in several time zones; or give zone" in refusal(path, options)
    path.write_text("time,symbol,bid,bid_size,ask,ask_size\n2024-01-09T10:00:00Z,SAP,99,1,101,1\n")
    (one,) = import_files([path], tmp_path / "out", options)
    assert one.instrument == BERLIN


def test_a_model_of_units_is_the_model_of_coins(tmp_path: Path) -> None:
    """An order of Q units earns the same money whether a unit is a coin or, of prices ten times as high, a tenth."""
    begin = int(dt.datetime(2020, 1, 1, 11, tzinfo=dt.UTC).timestamp())
    rng, count = np.random.default_rng(0), 200
    bids, sizes = 100 + rng.integers(0, 50, count) / 100, rng.integers(1, 20, count) + 30
    models = []
    for unit, factor in (("1", 1.0), ("0.1", 0.1)):
        columns: dict[str, Any] = {
            "ts": begin + np.arange(count) * 30,
            "venue": ["x"] * count,
            "symbol": ["C"] * count,
            "bid": np.round(bids / factor, 6),
            "bid_size": np.round(sizes * factor, 1),
            "ask": np.round((bids + 0.1) / factor, 6),
            "ask_size": np.round(sizes * factor, 1),
        }
        path, out = tmp_path / "books.parquet", tmp_path / f"out{factor}"
        polars.DataFrame(columns).write_parquet(path)
        import_files([path], out, ReadingOptions(zone="UTC"))
        found = calibrate(
            RecordingStore(out),
            "C",
            quantities=[Decimal(unit) * units for units in (1, 5, 9)],
            window=TimeWindow(dt.time(11), dt.time(12), 30),
        )
        assert (found.config["instrument"]["unit"], found.config["zone"]) == (unit, "UTC")
        assert found.config["quantities"] == pytest.approx([factor, 5 * factor, 9 * factor])
        models.append(found.models[0])
    # coefficients are per coin and per squared coin
    np.testing.assert_allclose(models[0].mean, np.array(models[1].mean) * (0.1, 0.01), rtol=1e-6, atol=1e-12)
    assert models[0].mean[0] == pytest.approx(-0.05)


def test_recordings_of_different_instruments_do_not_go_together(tmp_path: Path) -> None:
    for venue, currency in (("kraken", "USD"), ("bitstamp", "EUR")):
        path = written(tmp_path / "books.csv", coins() | {"venue": [venue] * 40})
        declared = instrument_of("XBT/USD", unit="0.01", currency=currency)
        import_files([path], tmp_path / "out", ReadingOptions(instruments={"XBT/USD": declared}))
    with pytest.raises(DataError, match=r"with the same currency, got EUR \(bitstamp\), USD \(kraken\)"):
        RecordingStore(tmp_path / "out").of_symbol("XBT/USD")
    assert len(RecordingStore(tmp_path / "out").of_symbol("XBT/USD", venues=["kraken"])) == 1
