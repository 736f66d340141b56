"""Hours of orders are those of the recordings' zone, and must be there; rules of the market come with its days."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import riskroute as rr
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument
from riskroute.market.clock import SECOND, clock_stamp
from riskroute.study.backtest import _tercile_table, run_backtest
from riskroute.study.candidates import Candidate
from riskroute.study.config import BacktestConfig, StudyConfig
from riskroute.study.costs import costs_by_router
from riskroute.study.markets import MarketDay, market_days
from riskroute.study.page import _study_page
from riskroute.study.play import PlayTask, day_to_play
from small_days import HERE, record_day, short_days
from small_runs import study_of

AFTERNOON = (dt.time(14), dt.time(15))


def recorded(tmp_path: Path, **more: Any) -> list[MarketDay]:
    return market_days(record_day(tmp_path / "books", **more), kept=tmp_path / "kept", backend=HERE)


def test_hours_that_the_books_do_not_have_are_refused(tmp_path: Path) -> None:
    folder = record_day(tmp_path / "books")
    words: dict[str, Any] = {"orders": 4, "routers": ["sweep"], "kept": tmp_path / "kept", "backend": HERE}
    with pytest.raises(
        InputError,
        match=r"hours must overlap those of the books, 10:30:00 to 10:49:59 New York without the first minute, was "
        r"03:00-04:00 New York, on TARN 2019-03-04",
    ):
        rr.backtest(folder, hours="03:00-04:00", **words)
    with pytest.raises(InputError, match="was 10:30-10:31 New York"):
        rr.backtest(folder, hours="10:30-10:31", **words)
    study = rr.Study(market=folder, hours="16:00-17:00", orders=4, horizons=0, routers=("spray",))
    with pytest.raises(InputError, match="was 16:00-17:00 New York"):
        study.run(kept=tmp_path / "kept", backend=HERE)


def test_hours_are_those_of_the_zone_of_the_recordings(tmp_path: Path) -> None:
    (day,) = recorded(tmp_path, zone="UTC", hours=AFTERNOON)
    assert day.zone == "UTC"
    config = BacktestConfig(orders=20, hours="14:10-14:20", horizon=30.0, quantities=(100,), routers=("sweep",))
    result = run_backtest("coins", [day], config, backend=HERE)
    orders = result.tables.orders
    first, last = (clock_stamp(day.date, dt.time(14, minute), "UTC") for minute in (10, 20))
    assert first <= orders["time"].min()  # type: ignore[operator]  # not empty
    assert (orders["time"] + (30 * SECOND)).max() < last  # type: ignore[operator]  # not empty
    assert orders["zone"].unique().to_list() == ["UTC"]
    assert dt.time(14, 10) <= orders["clock"].min() <= orders["clock"].max() < dt.time(14, 20)  # type: ignore[operator]
    assert str(result).startswith("coins, 1 day, 14:10-14:20 UTC, protection none\n")
    assert result.to_json()["config"]["zone"] == "UTC"
    costs = costs_by_router(orders, result.tables.children, result.tables.fills)
    assert {row[1] for row in _tercile_table(costs).rows if row[1].startswith("time")} == {"time, UTC"}
    with pytest.raises(InputError, match=r"14:00:00 to 14:59:59 UTC .*, was 10:00-11:00 UTC"):
        rr.backtest(tmp_path / "books", hours="10:00-11:00", kept=tmp_path / "kept", backend=HERE, routers=["sweep"])


def test_the_session_is_that_of_new_york_alone(tmp_path: Path) -> None:
    """From 14:00 UTC it is 09:00 in New York, where orders come from 09:35 on."""
    config = BacktestConfig(orders=20, seeds=1)
    for zone, first in (("UTC", dt.time(14, 1)), ("America/New_York", dt.time(9, 35))):
        hours = AFTERNOON if zone == "UTC" else (dt.time(9), dt.time(10))
        (day,) = recorded(tmp_path / zone.replace("/", " "), zone=zone, hours=hours)
        times = day_to_play(day, config).orders.times
        begin = clock_stamp(day.date, first, zone)
        assert begin <= times[0] < begin + 200 * SECOND


NIGHT: dict[str, Any] = {"session": "18:00-17:00", "hours": (dt.time(23, 40), dt.time(0, 20)), "zone": "Europe/London"}


def test_hours_may_cross_midnight_within_a_session(tmp_path: Path) -> None:
    (day,) = recorded(tmp_path, **NIGHT)
    midnight = clock_stamp(day.date, dt.time(0), day.zone)
    assert day.load().books.stamps.min() == midnight - 1200 * SECOND
    words: dict[str, Any] = {"kept": tmp_path / "kept", "backend": HERE, "routers": ["sweep"], "orders": 20}
    result = rr.backtest(tmp_path / "books", hours="23:50-00:10", quantities=100, **words)
    times = result.tables.orders["time"]
    assert midnight - 600 * SECOND <= times.min() < midnight < times.max() < midnight + 600 * SECOND  # type: ignore[operator]
    assert "23:50-00:10 London" in str(result)
    assert result.tables.orders["day"].unique().to_list() == [str(day.date)]
    with pytest.raises(InputError, match=r"23:40:00 to 00:19:59 London .*, was 09:30-16:00 London, on TARN"):
        rr.backtest(tmp_path / "books", hours="09:30-16:00", **words)
    said = r"hours must be two times of the session 18:00-17:00 Europe/London, .*, was 17:10-17:40, on TARN 2019-03-04"
    with pytest.raises(InputError, match=said):
        rr.backtest(tmp_path / "books", hours="17:10-17:40", **words)


def test_the_default_hours_are_those_of_the_declared_session(tmp_path: Path) -> None:
    (day,) = recorded(tmp_path, session="09:00-10:00", hours=(dt.time(9), dt.time(10)))
    times = day_to_play(day, BacktestConfig(orders=20, seeds=1)).orders.times
    assert times[0] < clock_stamp(day.date, dt.time(9, 10))  # not from 09:35 on


def test_a_session_can_be_declared_for_a_study(tmp_path: Path) -> None:
    folder = record_day(tmp_path / "books", zone="UTC", hours=AFTERNOON)
    one = Instrument("TARN", zone="UTC", hours="14:20-14:40", currency="USDT")
    file = tmp_path / "instruments.toml"
    file.write_text('[instruments.TARN]\nzone = "UTC"\nhours = "14:20-14:40"\ncurrency = "USDT"\n')
    study = rr.Study(market=folder, instruments=file, orders=8, horizons=0, quantities=100, routers=("spray",))
    assert study.instruments == {"TARN": one}
    (day,) = study.days(kept=tmp_path / "kept", backend=HERE)
    stamps = day.load().books.stamps
    assert (day.instrument, int(stamps.min()), int(stamps.max())) == (
        one,
        one.session(day.date)[0],
        one.session(day.date)[1] - SECOND,
    )
    with pytest.raises(InputError, match="instruments cannot be given for a synthetic market"):
        rr.Study(market="dark", instruments={"LUMO": one}).days(kept=tmp_path / "kept", backend=HERE)


def test_recordings_of_two_zones_do_not_go_together(tmp_path: Path) -> None:
    record_day(tmp_path / "books", "XNAS")
    record_day(tmp_path / "books", "BINANCE", zone="UTC", hours=AFTERNOON)
    with pytest.raises(DataError, match=r"recordings of TARN on 2019-03-04 with the same zone, got .*UTC"):
        market_days(tmp_path / "books", kept=tmp_path / "kept", backend=HERE)


def test_a_study_shows_the_zone_with_every_time(tmp_path: Path) -> None:
    days = recorded(tmp_path, zone="UTC", hours=AFTERNOON)
    asked = StudyConfig(
        market="coins", hours="14:00-15:00", orders=16, horizons=(0.0,), quantities=(100,), routers=("primary",)
    )
    result = study_of(asked).play(days, kept=tmp_path / "kept", backend=HERE)
    (case,) = result.cases
    assert case.zone == result.zone == "UTC"
    assert {one.hour for one in case.hours} == {14}
    assert all("14:01" <= one.time <= "15:00" and one.zone == "UTC" for one in case.examples)
    page = repr(_study_page(result))
    assert "hour beginning, UTC time" in page
    assert f"at {case.examples[0].time} UTC: " in page
    assert "coins, 14:00-15:00 UTC, protection none" in page
    assert "New York" not in page + str(result)


def test_the_rules_are_those_of_the_market_unless_said_otherwise(tmp_path: Path) -> None:
    (coin,) = recorded(tmp_path / "a")
    (stock,) = recorded(tmp_path / "b", reader="lobster")
    record_day(tmp_path / "c" / "books", "XBOS", reader="lobster")
    (mixed,) = recorded(tmp_path / "c")
    (made,) = short_days(tmp_path / "kept", "comparable", days=1, minutes=3)
    days = (coin, stock, mixed, made)
    assert [day.protection for day in days] == ["none", "reg-nms", "none", "reg-nms"]
    assert [day.synthetic for day in days] == [False, False, False, True]
    identities = set()
    for asked in (None, "reg-nms", "none"):
        config = BacktestConfig(orders=2, quantities=(100,), protection=asked, routers=("sweep",))
        assert day_to_play(stock, config).instrument.protection == (asked or "reg-nms")
        found = run_backtest("m", [stock], config, backend=HERE)
        assert found.protection == found.to_json()["protection"] == (asked or "reg-nms")
        identities.add(PlayTask(Candidate("sweep", "sweep"), (stock,), 1, config).identity)
    assert len(identities) == 2
    with pytest.raises(InputError, match="protection must be one of none, reg-nms, was 'nms'"):
        StudyConfig(protection="nms")


def test_symbols_of_a_synthetic_market_are_its_own(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"symbol must be one of LUMO, TARN, VEKO in the synthetic market dark, was 'AAPL'; real symbols need "
        r"recordings, see `riskroute market import`",
    ):
        market_days("dark", symbols=["AAPL"], days=1, kept=tmp_path, backend=HERE)
    with pytest.raises(InputError, match="one of QVEX, ZORN, XALT in the synthetic market paper, was 'LUMO'"):
        market_days("paper", symbols=["LUMO"], days=1, kept=tmp_path, backend=HERE)
