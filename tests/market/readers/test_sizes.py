"""Sizes that are fractions: stored in whole units that are told, refused otherwise, the same money in the end."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market_files import ITCH_NAME, check_recordings, csv_text, itch_bytes, random_messages, refusal, table_columns
from riskroute.cli.app import run_app as command
from riskroute.core.errors import DataError, InputError
from riskroute.market.calibration import calibrate
from riskroute.market.clock import TimeWindow
from riskroute.market.importing import import_files
from riskroute.market.readers.columns import SizeColumn
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore

MESSAGES = random_messages(4, 40, kinds="AD")  # sizes of whole hundreds


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
@pytest.mark.parametrize("unit", [0.0001, 0.001, 0.01])
def test_fractions_become_whole_units(tmp_path: Path, ending: str, unit: float) -> None:
    """Shares times price is money whatever the unit."""
    path = written(tmp_path / f"books{ending}", coins())
    (one,) = import_files([path], tmp_path / "out", ReadingOptions(unit=unit))
    check_recordings(tmp_path / "out")
    table, plain = RecordingStore(tmp_path / "out").snapshots(one), polars.DataFrame(coins())
    assert (one.unit, one.stem) == (unit, "kraken_XBT%2FUSD_2019-03-27")
    assert table["bid_sz_00"].dtype == polars.UInt64
    sizes, prices = (polars.concat([table[f"{side}_{x}_00"] for side in ("bid", "ask")]) for x in ("sz", "px"))
    theirs = [polars.concat([plain[f"{side}_{x}_00"] for side in ("bid", "ask")]) for x in ("sz", "px")]
    there = theirs[1].is_not_null()
    np.testing.assert_allclose((sizes * unit).to_numpy(), theirs[0].to_numpy(), rtol=1e-12)
    money = (theirs[0] * theirs[1]).filter(there).to_numpy()
    np.testing.assert_allclose((sizes * prices).filter(there).to_numpy(), money, rtol=1e-12)


def test_fractions_without_a_unit_name_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "books.csv", coins())
    said = refusal(path, ReadingOptions())
    assert said.startswith(
        "row 1 of books.csv, venue kraken: prices must be numbers and sizes whole numbers up to 4294967295, was 0.0"
    )
    assert said.endswith("; unit = 0.01 fits all sizes")
    assert command(["market", "import", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "; --unit 0.01 fits all sizes" in capsys.readouterr().err


def test_what_is_finer_than_the_unit_is_named(tmp_path: Path) -> None:
    columns = coins()
    columns["bid_px_00"], columns["bid_sz_00"] = [99.0] * 40, [*[0.5] * 39, 0.50001]
    said = refusal(written(tmp_path / "books.csv", columns), ReadingOptions(unit=0.01))
    assert "whole multiples of 0.01, up to 100000000000000 units, was 0.50001; unit = 0.00001 fits" in said


@pytest.mark.parametrize("value", [-0.5, float("inf"), 1e20])
def test_what_is_no_size_is_refused(tmp_path: Path, value: float) -> None:
    columns = coins() | {"bid_px_00": [99.0] * 40, "bid_sz_00": [*[0.5] * 39, value]}
    said = refusal(written(tmp_path / "books.parquet", columns), ReadingOptions(unit=0.0001))
    assert said.endswith(f"was {value:.15g}")


@given(st.sampled_from([10.0**-k for k in range(1, 10)] + [0.25, 0.0005, 100.0]), st.integers(1, 10**12))
@settings(max_examples=40, deadline=None)
def test_every_whole_number_of_units_is_found_whole(unit: float, count: int) -> None:
    frame = polars.DataFrame({"size": [count * unit, (count + 0.3) * unit]})
    counts, odd = SizeColumn(unit).count("size", polars.Float64())
    assert odd is not None
    found = frame.select(counts.cast(polars.UInt64).alias("count"), odd.alias("odd"))
    assert found.rows()[0] == (count, False)
    assert found["odd"][1]
    assert "unit =" not in SizeColumn(unit).explain([count * unit])


def test_single_precision_has_a_wider_margin(tmp_path: Path) -> None:
    frame = polars.DataFrame(coins()).with_columns(polars.selectors.contains("_sz_").cast(polars.Float32))
    frame.write_parquet(tmp_path / "books.parquet")
    (one,) = import_files([tmp_path / "books.parquet"], tmp_path / "out", ReadingOptions(unit=0.01))
    assert one.snapshots == 40


def test_a_unit_may_be_a_round_lot(tmp_path: Path) -> None:
    path = written(tmp_path / "books.csv", table_columns(MESSAGES, 1))
    (one,) = import_files([path], tmp_path / "out", ReadingOptions(unit=100))
    table = RecordingStore(tmp_path / "out").snapshots(one)
    assert table["bid_sz_00"].max() == max(columns // 100 for columns in table_columns(MESSAGES, 1)["bid_sz_00"])
    assert table["bid_px_00"].max() == 9999.0


@pytest.mark.parametrize("unit", [0, -1, float("nan"), "much", 1e-13, 1e13, True])
def test_units_that_are_none(unit: Any) -> None:
    with pytest.raises(InputError, match="unit must be a number of at least 1e-12 and of at most 1e"):
        ReadingOptions(unit=unit)
    assert SizeColumn.MOST * 2.0**-50 < 0.5


def test_units_and_zones_are_refused_for_files_that_have_their_own(tmp_path: Path) -> None:
    (tmp_path / ITCH_NAME).write_bytes(itch_bytes(MESSAGES))
    said = refusal(tmp_path / ITCH_NAME, ReadingOptions(("ACME",), unit=0.1))
    assert said == f"omit unit for {ITCH_NAME}, whose sizes are whole shares; unit was 0.1"
    said = refusal(tmp_path / ITCH_NAME, ReadingOptions(("ACME",), zone="UTC"))
    assert said == f"omit zone for {ITCH_NAME}, whose days are in America/New_York time; zone was 'UTC'"


def test_a_model_in_units_is_the_model_in_coins(tmp_path: Path) -> None:
    """An order of Q units earns the same money whether a unit is a coin or, of prices ten times as high, a tenth."""
    begin = int(dt.datetime(2020, 1, 1, 11, tzinfo=dt.UTC).timestamp())
    rng, count = np.random.default_rng(0), 200
    bids, sizes = 100 + rng.integers(0, 50, count) / 100, rng.integers(1, 20, count) + 30
    models = []
    for unit, factor in ((None, 1.0), (0.1, 0.1)):
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
        import_files([path], out, ReadingOptions(unit=unit, zone="UTC"))
        found = calibrate(
            RecordingStore(out), "C", quantities=[1, 5, 9], window=TimeWindow(dt.time(11), dt.time(12), 30)
        )
        assert (found.config["unit"], found.config["zone"]) == (unit or 1, "UTC")
        models.append(found.models[0])
    np.testing.assert_allclose(models[0].mean, models[1].mean, rtol=1e-6, atol=1e-12)
    assert models[0].mean[0] == pytest.approx(-0.05)


def test_recordings_in_other_units_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for venue, unit in (("kraken", "0.01"), ("bitstamp", "0.0001")):
        path = written(tmp_path / "books.csv", coins() | {"venue": [venue] * 40})
        assert command(["market", "import", str(path), "--unit", unit, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Sizes of kraken_XBT%2FUSD_2019-03-27 are in units of 0.01, and prices are per unit." in said
    assert command(["market", "inspect", str(out)]) == 0
    assert "in units of 0.0001" in capsys.readouterr().out
    with pytest.raises(DataError, match=r"with the same unit of size, got 0\.0001 \(bitstamp\), 0\.01 \(kraken\)"):
        RecordingStore(out).of_symbol("XBT/USD")
    assert len(RecordingStore(out).of_symbol("XBT/USD", venues=["kraken"])) == 1
