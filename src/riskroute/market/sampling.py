"""The paper's sampling: a window of the day in buckets, one random time in each, and the closest book of every venue.

The time is shared by all venues. A venue without a snapshot in a bucket has no sample there.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import polars
from numpy.typing import NDArray

from riskroute.errors import InputError, day_of, shown, whole_number
from riskroute.market.tables import depth_of
from riskroute.seeding import stream

NEW_YORK = ZoneInfo("America/New_York")
SECOND = 1_000_000_000

Floats = NDArray[np.float64]
Stamps = NDArray[np.int64]


def stamp_of(day: dt.date, moment: dt.time) -> int:
    """UTC nanoseconds of a New York time."""
    return int(dt.datetime.combine(day, moment, tzinfo=NEW_YORK).timestamp()) * SECOND + moment.microsecond * 1000


def hours_of(text: str) -> tuple[dt.time, dt.time]:
    """Two New York times from a text; a `ValueError` says what was expected.

    >>> hours_of("9:35-13")
    (datetime.time(9, 35), datetime.time(13, 0))
    """
    try:
        parts = [part.strip() for part in text.split("-")]
        first, last = (dt.time.fromisoformat(f"0{part}" if part[1:2] in ("", ":") else part) for part in parts)
    except ValueError:
        raise ValueError("two times such as 11:00-13:00") from None
    if first.tzinfo is not None or last.tzinfo is not None:
        raise ValueError("two times without a zone, such as 11:00-13:00")
    if first >= last:
        raise ValueError("two times, the first before the second")
    return first, last


@dataclass(frozen=True)
class Window:
    """A part of the trading day, New York time, in equal buckets; the paper's if nothing is said."""

    start: dt.time = dt.time(11)
    end: dt.time = dt.time(13)
    buckets: int = 60

    def __post_init__(self) -> None:
        whole_number("buckets", self.buckets, minimum=2, maximum=1_000_000)
        for name in ("start", "end"):
            moment = getattr(self, name)
            if not isinstance(moment, dt.time) or moment.tzinfo is not None:
                raise InputError(f"{name} of the window must be a New York time such as 11:00, was {shown(moment)}")
        if self.start >= self.end:
            raise InputError(f"window must end after it starts, was {self.start} to {self.end}")
        if np.diff(self.edges(dt.date(2000, 1, 3))).min() < 1:
            raise InputError(f"buckets must last a nanosecond, was {self.buckets} from {self.start} to {self.end}")

    def edges(self, day: dt.date) -> Stamps:
        """Where buckets begin, and the end: ``(buckets + 1,)`` UTC nanoseconds."""
        day_of("day", day)
        begin, step = stamp_of(day, self.start), np.arange(self.buckets + 1)
        # in whole numbers, as floats of this size are 256 apart
        whole, rest = divmod(stamp_of(day, self.end) - begin, self.buckets)
        return np.asarray(begin + step * whole + step * rest // self.buckets)


@dataclass(frozen=True)
class Moments:
    """One time per bucket: ``edges (B + 1,)`` and ``times (B,)``, UTC nanoseconds."""

    edges: Stamps
    times: Stamps


def draw_moments(day: dt.date, window: Window, seed: int) -> Moments:
    """Draw one time per bucket, uniformly; the same for every venue."""
    edges = window.edges(day)
    rng = np.random.default_rng(stream(seed, "sampled times", str(day)))
    return Moments(edges, rng.integers(edges[:-1], edges[1:]))


@dataclass(frozen=True)
class Books:
    """One book per bucket: prices and sizes ``(B, levels)``, NaN and 0 where there is no level, ``stamps (B,)``.

    A bucket without a snapshot has stamp -1 and no levels.
    """

    stamps: Stamps
    bid_px: Floats
    bid_sz: Floats
    ask_px: Floats
    ask_sz: Floats

    @property
    def found(self) -> NDArray[np.bool_]:
        """Buckets that have a snapshot, ``(B,)``."""
        return self.stamps >= 0

    @property
    def mid(self) -> Floats:
        """Middle of best bid and best ask, ``(B,)``, NaN where a side is empty."""
        return np.asarray((self.bid_px[:, 0] + self.ask_px[:, 0]) / 2)

    def side(self, name: str) -> tuple[Floats, Floats]:
        """Prices and sizes of the ``bid`` or the ``ask`` side."""
        return (self.bid_px, self.bid_sz) if name == "bid" else (self.ask_px, self.ask_sz)


def closest_rows(snapshots: polars.DataFrame, moments: Moments) -> Stamps:
    """Row of the snapshot of each bucket that is closest to its time, ``(B,)``, -1 if there is none.

    Of equally close ones it is the later.
    """
    stamps = snapshots["ts_event"].cast(polars.Int64).to_numpy()
    first, last = _spans(stamps, moments)
    rows = np.full(len(first), -1, dtype=np.int64)
    found = first <= last
    first, last, times = first[found], last[found], moments.times[found]
    before = np.clip(np.searchsorted(stamps, times, side="right") - 1, first, last)
    after = np.clip(before + 1, first, last)
    closest = np.where(np.abs(stamps[after] - times) <= np.abs(stamps[before] - times), after, before)
    # many snapshots may share a stamp, and only the last of them stood for longer than no time
    rows[found] = np.searchsorted(stamps, stamps[closest], side="right") - 1
    return rows


def closest_books(snapshots: polars.DataFrame, moments: Moments, *, levels: int | None = None) -> Books:
    """The snapshots of `closest_rows`."""
    return books_at(snapshots, closest_rows(snapshots, moments), levels=levels)


def last_rows(snapshots: polars.DataFrame, moments: Moments) -> Stamps:
    """Row of the last snapshot of each bucket, ``(B,)``, -1 if there is none."""
    stamps = snapshots["ts_event"].cast(polars.Int64).to_numpy()
    first, last = _spans(stamps, moments)
    return np.where(first <= last, last, -1)


def last_books(snapshots: polars.DataFrame, moments: Moments, *, levels: int | None = None) -> Books:
    """The snapshots of `last_rows`."""
    return books_at(snapshots, last_rows(snapshots, moments), levels=levels)


def books_at(snapshots: polars.DataFrame, rows: Stamps, *, levels: int | None = None) -> Books:
    """Books of some rows of a snapshot table, at most ``levels`` deep if given; row -1 is no book."""
    depth = depth_of(snapshots)
    if levels is not None:
        depth = min(depth, whole_number("levels", levels))
    found = rows >= 0
    chosen = snapshots[rows[found]]
    stamps = np.full(len(rows), -1, dtype=np.int64)
    stamps[found] = chosen["ts_event"].cast(polars.Int64).to_numpy()
    sides = []
    for field in ("bid_px", "bid_sz", "ask_px", "ask_sz"):
        values = np.full((len(rows), depth), np.nan if field.endswith("px") else 0.0)
        columns = [chosen[f"{field}_{level:02d}"].cast(polars.Float64).to_numpy() for level in range(depth)]
        values[found] = np.column_stack(columns)
        sides.append(values)
    return Books(stamps, *sides)


def _spans(stamps: Stamps, moments: Moments) -> tuple[Stamps, Stamps]:
    """First and last row of each bucket; the last is before the first where there is none."""
    return np.searchsorted(stamps, moments.edges[:-1]), np.searchsorted(stamps, moments.edges[1:]) - 1
