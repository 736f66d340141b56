"""Days of a market: the same from the same seed, made once, and like what they are said to be."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore
from riskroute.market.synthetic.generate import generate_market
from riskroute.market.synthetic.venues import PRESETS
from riskroute.routing.fees import Fee, FeeSchedule
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.study import markets
from riskroute.study.markets import MarketDay, _business_days, market_days
from small_days import HERE, handmade_day, record_day, short_days

ARRAYS = ("offsets", "stamps", "sequences", "bid_px", "bid_sz", "ask_px", "ask_sz")


def same_books(one: DayBooks, other: DayBooks) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name.endswith("px"))
               for name in ARRAYS)  # fmt: skip


def test_a_seed_makes_a_day_and_another_one_another(tmp_path: Path) -> None:
    first, second = short_days(tmp_path / "a", minutes=3)
    (again,) = short_days(tmp_path / "b", days=1, minutes=3)
    (other,) = short_days(tmp_path / "b", days=1, seed=1, minutes=3)
    assert again.folder.name == first.folder.name != other.folder.name
    assert same_books(again.load().books, first.load().books)
    assert not same_books(other.load().books, first.load().books)
    assert not np.array_equal(first.load().books.bid_px[:50, 0], second.load().books.bid_px[:50, 0])
    assert [first.date, second.date] == _business_days(2)
    assert first.name == "LUMO 2019-03-04"


def test_days_that_are_kept_are_not_made_again(dark_days: list[MarketDay], kept_days: Path) -> None:
    before = {day.folder: (day.folder / PreparedDayBooks.RECORD).stat().st_mtime_ns for day in dark_days}
    told: list[tuple[str, int, int]] = []
    again = short_days(kept_days, progress=lambda *words: told.append(words))
    assert again == dark_days
    assert told == []
    assert before == {day.folder: (day.folder / PreparedDayBooks.RECORD).stat().st_mtime_ns for day in again}
    comparable = short_days(kept_days, "comparable")
    assert [day.folder for day in comparable] == [day.folder for day in dark_days]
    assert [day.pools for day in comparable] == [(), ()]


def test_days_of_other_hours_are_other_days(dark_days: list[MarketDay], kept_days: Path) -> None:
    (longer,) = short_days(kept_days, days=1, minutes=4)
    assert longer.folder != dark_days[0].folder
    assert longer.load().books.last < dark_days[0].load().books.last


def test_pools_and_fees_are_those_of_the_market(dark_days: list[MarketDay], kept_days: Path) -> None:
    assert [pool.name for pool in dark_days[0].pools] == ["POOL1", "POOL2", "POOL3"]
    fees = PRESETS["comparable"].fees
    both = zip(*(fees[venue] for venue in dark_days[0].load().books.venues), strict=True)
    for rows, theirs in zip(dark_days[0].fees[:2], both, strict=True):
        assert rows.tolist() == [[fee, 0.0] for fee in theirs]
    mine = DarkMarketPool("MINE", 0.5)
    assert short_days(kept_days, pools=[mine])[0].pools == (mine,)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of ``riskroute market import``: two venues of one symbol on two days, four minutes each."""
    out = tmp_path_factory.mktemp("recorded")
    venues = tuple(venue for venue in PRESETS["comparable"].venues if venue.name in ("XNAS", "EDGA"))
    for day, date in enumerate(_business_days(2)):
        hours = (dt.time(10, 30), dt.time(10, 34))
        files = generate_market(out / f"files {day}", seed=day, symbols=["TARN"], hours=hours, date=date, venues=venues)
        for venue, path in zip(venues, files, strict=True):
            import_files([path], out / "books", ReadingOptions(("TARN",), 5, date=date, venue=venue.name))
    return out / "books"


def test_a_folder_of_recordings_is_a_market(recorded: Path, tmp_path: Path) -> None:
    since = dt.date(2019, 1, 1)
    schedule = FeeSchedule([Fee("XNAS", since, taker=0.003, maker=-0.002), Fee("EDGA", since, taker="-2 bps", maker=0)])
    days = market_days(recorded, kept=tmp_path / "kept", backend=HERE, fees=schedule)
    assert [day.name for day in days] == ["TARN 2019-03-04", "TARN 2019-03-05"]
    store = RecordingStore(recorded)
    for day in days:
        ready = day.load()
        assert ready.queue is not None
        assert day.pools == ()
        takers = day.fees.takers.tolist()
        assert dict(zip(ready.books.venues, takers, strict=True)) == {"XNAS": [0.003, 0.0], "EDGA": [0.0, -0.0002]}
        for v, venue in enumerate(ready.books.venues):
            (one,) = (one for one in store.recordings() if (one.venue, one.date) == (venue, day.date))
            rows = slice(ready.books.offsets[v], ready.books.offsets[v + 1])
            table = store.snapshots(one)
            assert np.array_equal(ready.books.stamps[rows], table["ts_event"].cast(int).to_numpy())
            assert np.array_equal(ready.books.bid_sz[rows, 0], table["bid_sz_00"].fill_null(0).to_numpy())
    first = market_days(recorded, kept=tmp_path / "kept", backend=HERE, days=1, symbols=["TARN"])
    assert [day.date for day in first] == [dt.date(2019, 3, 4)]
    assert not first[0].fees.takers.any()


def test_recordings_that_were_replaced_are_prepared_again(tmp_path: Path) -> None:
    """The same rows at the same times, and asks that are five dollars higher."""
    asks = []
    for half_spread in (0.01, 5.01, 0.01):
        folder = record_day(tmp_path / "books", half_spread=half_spread)
        (day,) = market_days(folder, kept=tmp_path / "kept", backend=HERE)
        asks.append((day.folder.name, float(day.load().books.ask_px[0, 0])))
    assert [price for _, price in asks] == [100.01, 105.01, 100.01]
    assert asks[0] == asks[2]
    (elsewhere,) = market_days(record_day(tmp_path / "others"), kept=tmp_path / "kept", backend=HERE)
    assert elsewhere.folder.name == asks[0][0]  # the same content in another folder is the same day


def test_a_day_written_again_in_its_folder_is_loaded_again(tmp_path: Path) -> None:
    day = handmade_day(tmp_path, {"A": (1, 100)})
    assert day.load() is day.load()
    before = day.load().books.bid_sz.max()
    assert handmade_day(tmp_path, {"A": (1, 900)}) == day
    assert day.load().books.bid_sz.max() > 5 * before
    with pytest.raises(DataError, match="must hold a day prepared for backtests"):
        dataclasses.replace(day, folder=tmp_path / "none").load()


def test_all_recorded_levels_are_kept(tmp_path: Path) -> None:
    (day,) = market_days(record_day(tmp_path / "books", levels=30), kept=tmp_path / "kept", backend=HERE)
    books = day.load().books
    assert books.bid_px.shape[1] == 30
    assert (books.bid_sz > 0).all()


def test_markets_that_cannot_be(recorded: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(InputError, match=r"market must be one of paper, comparable, dark or a folder of .* was 'drak'"):
        market_days("drak", kept=kept, backend=HERE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"market must be a folder with recordings .* was '.*empty'"):
        market_days(tmp_path / "empty", kept=kept, backend=HERE)
    with pytest.raises(InputError, match="symbol must be one of TARN, was 'TRAN'"):
        market_days(recorded, symbols=["TRAN"], kept=kept, backend=HERE)
    with pytest.raises(InputError, match="symbol"):
        market_days("dark", symbols=["no such/name"], days=1, kept=kept, backend=HERE)
    for days in (0, -1):
        with pytest.raises(InputError, match=f"days must be a positive integer, was {days}"):
            market_days("dark", days=days, kept=kept, backend=HERE)
    with pytest.raises(InputError, match="seed must be"):
        market_days("dark", seed=-1, days=1, kept=kept, backend=HERE)
    with pytest.raises(InputError, match="fees cannot be given for a synthetic market, which has its own"):
        market_days("dark", days=1, kept=kept, backend=HERE, fees=FeeSchedule([]))
    assert not any(kept.glob("*/day.json"))


def test_venues_of_the_comparable_market_are_comparable(dark_days: list[MarketDay]) -> None:
    """Every venue is alone at the best for some of the time, none is far off, and queues are like those of stocks."""
    alone: dict[str, list[float]] = {}
    crossed, touches, halves = [], [], []
    for day in dark_days:
        books = day.load().books
        times = np.arange(books.first + 60 * SECOND, books.last, SECOND // 2)
        rows = [books.as_of(int(time)) for time in times]
        bids, asks = (np.array([getattr(now, side)[:, 0] for now in rows]) for side in ("bid_px", "ask_px"))
        sizes = np.array([[now.bid_sz[:, 0], now.ask_sz[:, 0]] for now in rows])
        for side, best in ((bids, np.nanmax(bids, axis=1)), (-asks, np.nanmax(-asks, axis=1))):
            at = side == best[:, None]
            only = at & (at.sum(axis=1) == 1)[:, None]
            for v, venue in enumerate(books.venues):
                alone.setdefault(venue, []).append(float(only[:, v].mean()))
        crossed.append(float((np.nanmax(bids, axis=1) >= np.nanmin(asks, axis=1)).mean()))
        touches.append(np.median(sizes, axis=(0, 1)))
        halves.append(np.nanmean(asks - bids, axis=0) / 2 / 0.01)
    # days of twenty minutes: a venue that stays as it is for 5 s makes 240 independent states, s.e. 2 % at 10 %
    for venue, shares in alone.items():
        assert all(0.03 <= share <= 0.30 for share in shares), (venue, shares)
    assert max(crossed) < 0.02
    assert ((np.array(touches) >= 200) & (np.array(touches) <= 3000)).all(), touches
    assert ((np.array(halves) >= 0.5) & (np.array(halves) <= 1.7)).all(), halves


def test_the_name_of_a_market_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of that name beside us changes nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dark").mkdir()
    (day,) = short_days(tmp_path / "kept", days=1, minutes=3)
    assert day.symbol == "LUMO"
    assert dataclasses.replace(day, instrument=Instrument("X")).name == "X 2019-03-04"
    assert set(markets.MARKETS) == {"paper", "comparable", "dark"}
