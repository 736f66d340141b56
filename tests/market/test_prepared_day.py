"""Days made ready: what is read is what was written, and what is damaged is said in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pytest

from riskroute.core.errors import DataError
from riskroute.market import RecordingStore
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.queue_fills import QueueReplay

ARRAYS = ("offsets", "stamps", "sequences", "bid_px", "bid_sz", "ask_px", "ask_sz")


@pytest.fixture(scope="module")
def day(half_hour: RecordingStore) -> PreparedDayBooks:
    recordings = half_hour.recordings()
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=3)
    events = {one.venue: half_hour.events(one) for one in recordings if one.venue != "XBOS"}
    return PreparedDayBooks(books, QueueReplay(books, events, {"XPSX": "pro-rata"}))


def test_a_day_comes_back_as_it_was(day: PreparedDayBooks, tmp_path: Path) -> None:
    folder = day.write(tmp_path / "a day")
    back = PreparedDayBooks.read(folder)
    assert back.books.venues == day.books.venues
    for name in ARRAYS:
        assert np.array_equal(getattr(back.books, name), getattr(day.books, name), equal_nan=name.endswith("px"))
    assert day.queue is not None
    assert back.queue is not None
    assert back.queue.flows.keys() == day.queue.flows.keys()
    assert len(day.queue.flows) == 4
    assert back.queue.pro_rata == day.queue.pro_rata
    assert any(back.queue.pro_rata)
    for key, flow in day.queue.flows.items():
        assert all(np.array_equal(one, other) for one, other in zip(flow, back.queue.flows[key], strict=True))
    rng, some = np.random.default_rng(0), 0
    for begin in rng.integers(day.books.first, day.books.last - 300 * SECOND, 40).tolist():
        venue, sign, shares = int(rng.integers(3)), int(rng.choice([-1, 1])), int(rng.integers(1, 500))
        asked = (venue, sign, begin, begin + 300 * SECOND, shares)
        price, fills = back.queue.fills(*asked)
        assert (str(price), fills) == (str(day.queue.fills(*asked)[0]), day.queue.fills(*asked)[1])
        assert back.queue.outflow(venue, sign, begin, 300) == day.queue.outflow(venue, sign, begin, 300)
        some += len(fills)
    assert some > 10
    assert list(tmp_path.iterdir()) == [folder]  # nothing is left beside it


def test_a_day_without_events_has_no_queues(day: PreparedDayBooks, tmp_path: Path) -> None:
    back = PreparedDayBooks.read(PreparedDayBooks(day.books).write(tmp_path / "day"))
    assert back.queue is None


def test_a_day_is_written_over_and_what_is_read_can_be_changed(day: PreparedDayBooks, tmp_path: Path) -> None:
    folder = day.write(tmp_path / "day")
    first = PreparedDayBooks.read(folder)
    first.books.bid_sz[0, 0] = -5.0
    assert PreparedDayBooks.read(folder).books.bid_sz[0, 0] == day.books.bid_sz[0, 0]
    PreparedDayBooks(day.books).write(folder)
    assert PreparedDayBooks.read(folder).queue is None
    assert not list(folder.glob("flow_*"))


def _record(folder: Path, **changes: object) -> None:
    record = json.loads((folder / PreparedDayBooks.RECORD).read_text()) | changes
    (folder / PreparedDayBooks.RECORD).write_text(
        json.dumps({key: value for key, value in record.items() if value != "gone"})
    )


def _a_flow(folder: Path) -> Path:
    return next(folder.glob("flow_*.npy"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no record": lambda folder: (folder / PreparedDayBooks.RECORD).unlink(),
    "no JSON": lambda folder: (folder / PreparedDayBooks.RECORD).write_text("{"),
    "another kind of JSON": lambda folder: (folder / PreparedDayBooks.RECORD).write_text("[1]"),
    "another format": lambda folder: _record(folder, format=PreparedDayBooks.FORMAT + 1),
    "no venues": lambda folder: _record(folder, venues="gone"),
    "no rules": lambda folder: _record(folder, pro_rata="gone"),
    "rules of fewer venues": lambda folder: _record(folder, pro_rata=[True]),
    "fewer venues": lambda folder: _record(folder, venues=["XNAS"]),
    "a flow of another venue": lambda folder: _record(folder, flows=[[9, 1]]),
    "no prices": lambda folder: (folder / "bid_px.npy").unlink(),
    "empty prices": lambda folder: (folder / "bid_px.npy").write_bytes(b""),
    "prices cut off": lambda folder: (folder / "bid_px.npy").write_bytes((folder / "bid_px.npy").read_bytes()[:-800]),
    "fewer prices": lambda folder: np.save(folder / "bid_px.npy", np.zeros((3, 3))),
    "whole numbers for prices": lambda folder: np.save(folder / "bid_px.npy", np.zeros((3, 3), dtype=np.int64)),
    "a flow cut off": lambda folder: _a_flow(folder).write_bytes(b"no numbers"),
    "a flow of fewer columns": lambda folder: np.save(_a_flow(folder), np.zeros((2, 5), dtype=np.int64)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_day_is_said_in_a_sentence(damage: str, day: PreparedDayBooks, tmp_path: Path) -> None:
    folder = day.write(tmp_path / "day")
    assert PreparedDayBooks.exists(folder)
    DAMAGES[damage](folder)
    assert PreparedDayBooks.exists(folder) == (damage != "no record")
    with pytest.raises(DataError) as said:
        PreparedDayBooks.read(folder)
    text = str(said.value)
    assert text.startswith(f"{folder} must ")
    assert "\n" not in text
    assert text.count(" must ") < 3


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(DataError, match="must hold a day prepared for backtests"):
        PreparedDayBooks.read(Path("nowhere"))


def test_nothing_is_read_that_is_not_looked_at(day: PreparedDayBooks, tmp_path: Path) -> None:
    """Arrays are mapped, not copied: their memory is the file's."""
    books = PreparedDayBooks.read(day.write(tmp_path / "day")).books
    assert not books.bid_px.flags.owndata
    assert polars.Series(books.stamps).len() == len(books.bid_px)
