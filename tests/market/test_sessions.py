"""Sessions cut the data into days: against a row-by-row cut, over clock changes, files and midnight."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkout import SHARED_DATA
from instruments import instrument_of
from market_files import ITCH_NAME, itch_bytes, random_messages, refusal
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument
from riskroute.market import importing, recordings
from riskroute.market.calibration import calibrate
from riskroute.market.clock import TimeWindow
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReaderPart, ReadingOptions, label_reading_rows, reading_snapshots
from riskroute.market.recordings import Recording, RecordingStore
from riskroute.market.schema import TIME
from riskroute.market.session_cut import SessionCut

SECOND = 10**9
HOUR = 3600 * SECOND
ZONES = ("UTC", "America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Havana")
HOURS = ("", "09:30-16:00", "18:00-17:00", "18:00-18:00", "00:00-08:15", "22:00-01:30", "02:15-23:45", "03:10-02:50")
# Clocks change on some of these days: in March in America, in April in Lord Howe, in October and November elsewhere.
STARTS = [dt.date(2024, 3, 8), dt.date(2024, 4, 5), dt.date(2024, 10, 25), dt.date(2024, 11, 1), dt.date(2024, 7, 1)]


class Row(NamedTuple):
    """A snapshot; a price of 0 stands for an empty side."""

    stamp: int
    bid: float
    ask: float


def books(rows: list[Row], *, first: int = 0) -> polars.DataFrame:
    """A table of snapshots, numbered from ``first`` on."""
    columns: dict[str, Any] = {
        "ts_event": polars.Series([row.stamp for row in rows], dtype=polars.Int64).cast(TIME),
        "sequence": range(first, first + len(rows)),
    }
    for name, values in (("bid", [row.bid for row in rows]), ("ask", [row.ask for row in rows])):
        columns |= {f"{name}_px_00": values, f"{name}_sz_00": [5.0 if price else 0.0 for price in values]}
    return reading_snapshots(label_reading_rows(polars.DataFrame(columns, strict=False), "X", "ES"), 1, fractional=True)


def naive_session(one: Instrument, day: dt.date) -> tuple[int, int]:
    """The session of a day, by the clock on the wall."""
    opens, closes = one.hours.split("-") if one.hours else ("00:00", "00:00")
    over_night = bool(one.hours) and opens >= closes
    first, last = day - dt.timedelta(days=over_night), day if one.hours else day + dt.timedelta(days=1)

    def stamp(date: dt.date, clock: str) -> int:
        local = dt.datetime.combine(date, dt.time.fromisoformat(clock), tzinfo=ZoneInfo(one.zone))
        return int(local.astimezone(dt.UTC).timestamp()) * SECOND

    return stamp(first, opens), min(stamp(last, closes), stamp(first + dt.timedelta(days=1), opens))


def naive_cut(one: Instrument, rows: list[Row]) -> tuple[dict[dt.date, list[tuple[int, int]]], int]:
    """Times and numbers of the snapshots of every day, row by row, and the number of rows outside all sessions."""
    days: dict[dt.date, list[tuple[int, int]]] = {}
    outside = 0
    for number, row in enumerate(rows):
        date = dt.datetime.fromtimestamp(row.stamp / SECOND, dt.UTC).date()
        near = [date + dt.timedelta(days=k) for k in range(-2, 4)]
        found = [day for day in near if naive_session(one, day)[0] <= row.stamp < naive_session(one, day)[1]]
        assert len(found) <= 1
        if not found:
            outside += 1
            continue
        (day,) = found
        begin, _ = naive_session(one, day)
        if day not in days:
            days[day] = []
            before = rows[number - 1] if number else None
            closed = naive_session(one, day - dt.timedelta(days=1))[1]
            us_equity = one.zone == "America/New_York" and not one.hours
            if (
                before is not None
                and not us_equity
                and row.stamp > begin
                and (closed == begin or before.stamp >= closed)
            ):
                known, crossed = before.bid or before.ask, before.bid and before.ask and before.bid >= before.ask
                days[day] += [(begin, number - 1)] if known and not crossed else []
        days[day].append((row.stamp, number))
    return days, outside


@st.composite
def instruments(draw: st.DrawFn) -> Instrument:
    return Instrument("ES", zone=draw(st.sampled_from(ZONES)), hours=draw(st.sampled_from(HOURS)))


@st.composite
def snapshots(draw: st.DrawFn) -> list[Row]:
    begin = int(dt.datetime.combine(draw(st.sampled_from(STARTS)), dt.time(0), tzinfo=dt.UTC).timestamp()) * SECOND
    times = draw(st.lists(st.integers(0, 5 * 24 * 60), min_size=1, max_size=40))
    prices = st.sampled_from([(9.0, 10.0), (10.0, 10.0), (11.0, 10.0), (0.0, 0.0), (9.0, 0.0)])
    return [Row(begin + minute * 60 * SECOND, *draw(prices)) for minute in sorted(times)]


@given(one=instruments(), rows=snapshots(), cuts=st.sets(st.integers(1, 39)))
def test_days_are_those_of_a_cut_row_by_row(one: Instrument, rows: list[Row], cuts: set[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    found: dict[dt.date, list[tuple[int, int]]] = {}
    cut, outside = SessionCut(one), 0
    for first, last in pairwise(edges):
        for piece in cut.cut(ReaderPart("X", "ES", books(rows[first:last], first=first))):
            outside += piece.outside
            table = piece.snapshots.select(polars.col("ts_event").cast(polars.Int64), "sequence")
            if table.height:
                found.setdefault(piece.day, []).extend(table.rows())
    assert (found, outside) == naive_cut(one, rows)


@given(one=instruments(), start=st.sampled_from(STARTS), minute=st.integers(0, 5 * 24 * 60))
def test_every_time_belongs_to_the_session_that_ends_after_it(one: Instrument, start: dt.date, minute: int) -> None:
    stamp = int(dt.datetime.combine(start, dt.time(0), tzinfo=dt.UTC).timestamp()) * SECOND + minute * 60 * SECOND
    day = one.session_day(stamp)
    begin, end = one.session(day)
    assert (begin, end) == naive_session(one, day) or begin == end
    assert one.session(day - dt.timedelta(days=1))[1] <= stamp < end
    assert one.session(day - dt.timedelta(days=1))[1] <= begin


FUTURE = instrument_of("ES", zone="America/New_York", hours="18:00-17:00", unit=1, multiplier=50)
DAY = dt.date(2024, 1, 9)
OPEN, CLOSE = FUTURE.session(DAY)
COIN = instrument_of("ES", zone="UTC", unit="0.5", quantity="BTC", currency="USDT")


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import files of a made-up format, each a list of parts; returns the recordings."""
    found: dict[Path, list[ReaderPart]] = {}

    class Reader:
        name, depth, date, fractional = "table", 1, None, True

        def __init__(self, path: Path, options: ReadingOptions) -> None:
            self.source, self.zone = path, options.zone or "UTC"

        def parts(self) -> Any:
            yield from found[self.source]

    def run(*files: list[ReaderPart] | list[Row], declared: Instrument | None = FUTURE, **fields: Any) -> Any:
        paths = [tmp_path / f"file{k}" for k in range(len(files))]
        for path, content in zip(paths, files, strict=True):
            path.touch()
            rows = [one for one in content if isinstance(one, Row)]
            found[path] = [ReaderPart("X", "ES", books(rows))] if rows else list(content)  # type: ignore[arg-type]
        known = {} if declared is None else {"ES": declared}
        options = ReadingOptions(instruments=known, **fields)
        return import_files(paths, tmp_path / "out", options, kind="table", max_crossed=1)

    monkeypatch.setitem(importing.READERS, "table", Reader)
    return run


def stored(folder: Path, one: Recording) -> list[tuple[int, float | None, float | None]]:
    table = RecordingStore(folder / "out").snapshots(one)
    return table.select(polars.col("ts_event").cast(polars.Int64), "bid_px_00", "ask_px_00").rows()


def test_a_session_crosses_midnight_and_leaves_breaks_out(imported: Any, tmp_path: Path) -> None:
    rows = [
        Row(OPEN - 2 * HOUR, 8.0, 10.0),  # of the session before
        Row(OPEN - 600 * SECOND, 10.0, 9.0),  # pre-open: crossed on purpose
        Row(OPEN - 60 * SECOND, 9.0, 10.0),
        Row(OPEN + HOUR, 9.5, 10.0),
        Row(OPEN + 10 * HOUR, 9.0, 10.0),  # after midnight, in New York and in UTC
        Row(CLOSE, 9.0, 11.0),  # the break
    ]
    first, second = imported(rows)
    assert [one.date for one in (first, second)] == [DAY - dt.timedelta(days=1), DAY]
    assert stored(tmp_path, second) == [(OPEN, 9.0, 10.0), (OPEN + HOUR, 9.5, 10.0), (OPEN + 10 * HOUR, 9.0, 10.0)]
    assert second.crossed == 0
    assert first.notes["outside"] + second.notes.get("outside", 0) == 3
    assert second.notes["carried"].startswith("2024-01-08T22:59:00")
    assert any("left out 3 snapshots outside the session" in text for text in (*first.remarks, *second.remarks))


@pytest.mark.parametrize("before", [Row(OPEN - 60 * SECOND, 11.0, 10.0), Row(OPEN - 60 * SECOND, 0.0, 0.0)])
def test_a_crossed_or_unknown_book_is_not_carried(before: Row, imported: Any, tmp_path: Path) -> None:
    (one,) = imported([before, Row(OPEN + HOUR, 9.0, 10.0)])
    assert stored(tmp_path, one) == [(OPEN + HOUR, 9.0, 10.0)]
    assert one.notes["outside"] == 1


def test_crossed_books_of_an_undeclared_session_are_refused_with_advice(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-09 07:{minute}:00,{bid},5,10,5\n" for minute, bid in ((58, 11), (59, 11), (60 - 1, 9)))
    (tmp_path / "books.csv").write_text(f"time,bid,bid_size,ask,ask_size\n{rows}2024-01-09 08:00:00,9,5,10,5\n")
    declared = instrument_of("ES", zone="Europe/Berlin", hours="08:00-16:30")
    options = ReadingOptions(("ES",), venue="X")
    said = refusal(tmp_path / "books.csv", options)
    assert said.endswith("imports it anyway; an instrument with hours leaves out those outside its session")
    (one,) = import_files([tmp_path / "books.csv"], tmp_path / "out", replace(options, instruments={"ES": declared}))
    assert (one.snapshots, one.notes["outside"]) == (1, 3)


def test_a_book_from_before_a_closed_market_is_not_carried(imported: Any, tmp_path: Path) -> None:
    _, one = imported([Row(OPEN - 3 * HOUR, 9.0, 10.0), Row(OPEN + HOUR, 9.5, 10.0)])
    assert stored(tmp_path, one) == [(OPEN + HOUR, 9.5, 10.0)]


def test_a_continuous_book_is_carried_over_midnight_and_into_the_next_file(imported: Any, tmp_path: Path) -> None:
    midnight = COIN.session(DAY)[0]
    evening = [Row(midnight - HOUR, 9.0, 10.0), Row(midnight - SECOND, 9.5, 10.0)]
    morning = [Row(midnight + HOUR, 9.0, 11.0)]
    for files in ([evening + morning], [evening, morning]):
        first, second = imported(*files, declared=COIN)
        assert stored(tmp_path, first) == [tuple(row) for row in evening]
        assert stored(tmp_path, second) == [(midnight, 9.5, 10.0), *(tuple(row) for row in morning)]
    later = [Row(midnight + 49 * HOUR, 9.0, 11.0)]  # another file, after days without one
    _, third = imported(evening, later, declared=COIN)
    assert stored(tmp_path, third) == [tuple(row) for row in later]
    _, third = imported(evening + later, declared=COIN)  # one file: the book did not change
    assert stored(tmp_path, third)[0] == (midnight + 48 * HOUR, 9.5, 10.0)


def test_several_files_make_one_recording(imported: Any, tmp_path: Path) -> None:
    halves = [[Row(OPEN + k * HOUR, 9.0 + k / 100, 10.0) for k in some] for some in (range(3), range(3, 6))]
    (one,) = imported(*halves)
    assert stored(tmp_path, one) == [tuple(row) for half in halves for row in half]
    assert one.source == "file0, file1"
    table = RecordingStore(tmp_path / "out").snapshots(one)
    assert (table["sequence"].diff().drop_nulls() >= 0).all()


def test_rows_in_two_files_are_never_doubled(imported: Any, tmp_path: Path) -> None:
    rows = [Row(OPEN + k * HOUR, 9.0 + k / 100, 10.0) for k in range(4)]
    (one,) = imported(rows[:3], rows[2:])
    assert stored(tmp_path, one) == [tuple(row) for row in rows]
    assert one.notes["repeated"] == 1
    assert f"{one.stem}: left out 1 rows that two files hold." in one.remarks
    message = "two files hold X_ES_2024-01-09 at the same time, file0 and file1; import one of them"
    for files in ([rows, rows], [rows[:3], rows[1:]], [rows[2:], rows[:2]]):
        with pytest.raises(InputError, match=message):
            imported(*files)
    days = [Row(one.stamp + 24 * HOUR, one.bid, one.ask) for one in rows]
    with pytest.raises(InputError, match=message):  # the first day is complete once the second has begun
        imported([*rows[:2], *days], rows[2:])


def test_one_day_or_some_hours_can_be_chosen(imported: Any, tmp_path: Path) -> None:
    rows = [Row(OPEN + k * HOUR, 9.0 + k / 100, 10.0) for k in range(-3, 30)]
    (one,) = imported(rows, date=DAY)
    assert (one.date, one.snapshots, one.notes["other_days"], one.notes["outside"]) == (DAY, 23, 8, 2)
    assert stored(tmp_path, one)[0][0] == OPEN
    night, _ = imported(rows, start=dt.time(20), end=dt.time(2))  # from the evening before
    assert [row[0] for row in stored(tmp_path, night)] == [OPEN + k * HOUR for k in range(2, 8)]
    with pytest.raises(InputError, match=r"hours must be two times of the session 18:00-17:00 America/New_York"):
        imported(rows, start=dt.time(17, 10), end=dt.time(17, 50))
    with pytest.raises(DataError, match="has no snapshots of ES in the requested part of the day"):
        imported(rows, date=DAY + dt.timedelta(days=9))


def test_days_of_one_import_share_the_derived_unit_and_tick(imported: Any) -> None:
    midnight = COIN.session(DAY)[0]
    fine = books([Row(midnight + HOUR, 9.25, 10.0)]).with_columns(bid_sz_00=polars.lit(0.001))
    some = imported(
        [ReaderPart("X", "ES", books([Row(midnight - HOUR, 9.0, 10.0)])), ReaderPart("X", "ES", fine)], declared=None
    )
    assert [(str(one.instrument.unit), str(one.instrument.tick)) for one in some] == [("0.001", "0.25")] * 2


def test_trades_of_a_closed_market_go_with_the_next_day(imported: Any, tmp_path: Path) -> None:
    columns = {
        "ts_event": polars.Series([OPEN - 60 * SECOND, OPEN + HOUR, CLOSE + SECOND], dtype=polars.Int64).cast(TIME),
        "sequence": [1, 2, 3],
        "action": ["A", "F", "A"],
        "side": ["B"] * 3,
        "price": [9.0] * 3,
        "size": [5] * 3,
        "remaining": [5, 0, 5],
        "order_id": [7, 7, 8],
        "old_order_id": [0] * 3,
    }
    events = label_reading_rows(polars.DataFrame(columns), "X", "ES")
    (one,) = imported([ReaderPart("X", "ES", books([Row(OPEN + HOUR, 9.0, 10.0)]), events)])
    assert RecordingStore(tmp_path / "out").events(one)["sequence"].to_list() == [1, 2]


def test_gaps_are_those_of_the_session(imported: Any) -> None:
    rows = [Row(OPEN + k * HOUR, 9.0, 10.0) for k in (0, 1, 4, 5)]
    assert imported(rows)[0].notes["longest_gap"] == ["00:00:00", "03:00:00"]
    late = Instrument("ES", zone="America/New_York", hours="22:00-17:00")
    assert "longest_gap" not in imported(rows, declared=late)[0].notes


@pytest.mark.parametrize(
    ("hours", "zone", "asked", "expected"),
    [
        ("18:00-17:00", "America/New_York", ("20:00", "02:00"), ("2024-01-08T20:00-05:00", "2024-01-09T02:00-05:00")),
        ("18:00-17:00", "America/New_York", ("09:30", "16:00"), ("2024-01-09T09:30-05:00", "2024-01-09T16:00-05:00")),
        ("18:00-17:00", "America/New_York", ("16:00", "17:30"), ("2024-01-09T16:00-05:00", "2024-01-09T17:00-05:00")),
        ("18:00-18:00", "UTC", ("18:00", "18:00"), ("2024-01-08T18:00+00:00", "2024-01-09T18:00+00:00")),
        ("", "Asia/Tokyo", ("00:00", "00:00"), ("2024-01-09T00:00+09:00", "2024-01-10T00:00+09:00")),
        ("", "UTC", ("22:00", "00:00"), ("2024-01-09T22:00+00:00", "2024-01-10T00:00+00:00")),
        ("09:30-16:00", "America/New_York", ("09:00", "10:00"), ("2024-01-09T09:30-05:00", "2024-01-09T10:00-05:00")),
    ],
)
def test_hours_are_local_times_of_the_session(
    hours: str, zone: str, asked: tuple[str, str], expected: tuple[str, str]
) -> None:
    one = Instrument("ES", zone=zone, hours=hours)
    first, last = (dt.time.fromisoformat(text) for text in asked)
    stamps = tuple(int(dt.datetime.fromisoformat(text).timestamp()) * SECOND for text in expected)
    assert one.session_hours(DAY, first, last) == stamps


@pytest.mark.parametrize(
    ("hours", "asked"),
    [("18:00-17:00", ("17:10", "17:50")), ("09:30-16:00", ("20:00", "02:00")), ("", ("14:00", "13:00"))],
)
def test_hours_outside_the_session_are_refused(hours: str, asked: tuple[str, str]) -> None:
    one = Instrument("ES", zone="UTC", hours=hours)
    text = f"two times of the session {hours or '00:00-24:00'} UTC, the first before the second, was {'-'.join(asked)}"
    with pytest.raises(InputError, match=text):
        one.session_hours(DAY, *(dt.time.fromisoformat(text) for text in asked))


def test_a_declared_session_replaces_the_recorded_one(imported: Any, tmp_path: Path) -> None:
    midnight = COIN.session(DAY)[0]
    rows = [Row(midnight + k * HOUR // 2, 9.0 + k / 100, 10.0) for k in range(48)]
    (one,) = imported(rows, declared=COIN)
    day = instrument_of("ES", zone="UTC", hours="09:15-16:00", unit="0.5")
    store = RecordingStore(tmp_path / "out", {"ES": day})
    (found,) = store.recordings()
    assert found.instrument == day
    times = store.snapshots(found)["ts_event"].cast(polars.Int64).to_list()
    begin, end = day.session(DAY)
    assert times == [begin, *(row.stamp for row in rows if begin < row.stamp < end)]
    assert store.snapshots(found)["bid_px_00"][0] == 9.18  # in force at 09:15
    assert RecordingStore(tmp_path / "out").snapshots(one).height == len(rows)
    night = RecordingStore(tmp_path / "out", {"ES": Instrument("ES", zone="UTC", hours="18:00-17:00")})
    with pytest.raises(
        DataError, match=r"session of ES must lie within its recorded days, 00:00-24:00 UTC, was 18:00-"
    ):
        night.recordings()


@pytest.mark.real_data
def test_a_real_coin_over_midnight(tmp_path: Path) -> None:
    """Two files that meet at midnight, the second without a snapshot, against one stream of both."""
    paths = [SHARED_DATA / "binance" / f"spot_btcusdt_2024080{day}.gz" for day in (8, 9)]
    if not paths[0].is_file():
        pytest.skip(f"no {paths[0]}")
    first, second = import_files(paths, tmp_path / "two", ReadingOptions(depth=10))
    store = RecordingStore(tmp_path / "two")
    midnight = int(dt.datetime(2024, 8, 9, tzinfo=dt.UTC).timestamp()) * SECOND
    before, after = store.snapshots(first), store.snapshots(second)
    stamps = after["ts_event"].cast(polars.Int64)
    assert [str(one.date) for one in (first, second)] == ["2024-08-08", "2024-08-09"]
    assert (first.gaps, second.gaps, first.crossed, second.crossed) == (0, 0, 0, 0)
    assert before["ts_event"].cast(polars.Int64).max() < midnight == stamps[0] < stamps[1]  # type: ignore[operator]
    levels = [name for name in before.columns if "_px_" in name or "_sz_" in name]
    assert before.select(levels).row(-1) == after.select(levels).row(0)
    both = tmp_path / "both.gz"
    both.write_bytes(b"".join(path.read_bytes() for path in paths))
    import_files([both], tmp_path / "one", ReadingOptions(depth=10))
    for one in RecordingStore(tmp_path / "one").recordings():
        whole = RecordingStore(tmp_path / "one").snapshots(one)
        same = next(store.snapshots(each) for each in (first, second) if each.date == one.date)
        assert whole.drop("sequence").equals(same.drop("sequence"))
    with pytest.raises(DataError, match="must have a time not before that of the previous line"):
        import_files([paths[0], both], tmp_path / "twice", ReadingOptions(depth=10))


def test_a_calibration_samples_hours_of_the_session(imported: Any, tmp_path: Path) -> None:
    rows = [Row(OPEN + k * 300 * SECOND, 9.0 + k % 7 / 100, 10.0 + k % 5 / 100) for k in range(270)]
    imported(rows)
    store = RecordingStore(tmp_path / "out")
    window = TimeWindow(dt.time(20), dt.time(2), 20)
    found = calibrate(store, "ES", quantities=[1, 2, 3], window=window)
    assert found.fits["X"].samples == 20
    edges = window.edges(DAY, FUTURE)
    assert (edges[0], edges[-1]) == (OPEN + 2 * HOUR, OPEN + 8 * HOUR)
    declared = RecordingStore(tmp_path / "out", {"ES": instrument_of("ES", zone="UTC", hours="23:30-21:00")})
    assert calibrate(declared, "ES", quantities=[1, 2, 3]).config["zone"] == "UTC"


def test_days_of_files_of_fixed_days_are_apart(tmp_path: Path) -> None:
    """Orders after the close of one file are not those of the next day's file; orders before the opening are kept."""
    content = itch_bytes(random_messages(21, 40, kinds="A"))  # one a second from 09:30 on
    files = [tmp_path / ITCH_NAME.replace("27", day) for day in ("27", "28")]
    for path in files:
        path.write_bytes(content)
    one = Instrument("ACME", hours="09:30:10-09:30:20", protection="reg-nms")
    options = ReadingOptions(("ACME",), instruments={"ACME": one})
    found = import_files(files, tmp_path / "out", options)
    store = RecordingStore(tmp_path / "out")
    assert [str(each.date) for each in found] == ["2019-03-27", "2019-03-28"]
    for each in found:
        begin, end = one.session(each.date)
        for table, first in ((store.snapshots(each), begin), (store.events(each), begin - 10 * SECOND)):
            stamps = table["ts_event"].cast(polars.Int64)
            assert first <= stamps.min() <= stamps.max() < end  # type: ignore[operator]
        assert store.events(each).height > store.snapshots(each).height > 0
        assert each.notes["outside"] > 0


def test_few_files_are_open_however_many_days(imported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    open_now: set[int] = set()
    most = 0

    class Stream(recordings._ParquetStream):
        def add(self, frame: polars.DataFrame) -> None:
            nonlocal most
            open_now.add(id(self))
            most = max(most, len(open_now))
            super().add(frame)

        def close(self) -> None:
            open_now.discard(id(self))
            super().close()

    monkeypatch.setattr(recordings, "_ParquetStream", Stream)
    found = imported([Row(OPEN + k * 24 * HOUR, 9.0, 10.0) for k in range(40) if k % 7 < 5])
    assert len(found) == 30
    assert most == 1
