"""Time: trading hours and days in a time zone, and timestamps in UTC nanoseconds."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from riskroute.core.arrays import Stamps
from riskroute.core.errors import InputError
from riskroute.core.instrument import SHARES, TRADING_ZONE, Instrument
from riskroute.core.text import shown
from riskroute.core.validation import valid_day, whole_number

SECOND = 1_000_000_000  # nanoseconds
YEARS = range(1970, 2262)  # whole years since the epoch whose nanoseconds fit into a signed 64-bit integer


def check_clock_time(field: str, value: Any) -> None:
    """Raise `InputError` unless ``value`` is a time of day without a zone."""
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise InputError(f"{field} must be a time without a zone, such as 11:00, was {shown(value)}")


def zone_label(zone: str) -> str:
    """Return the city or short name of a time zone; "local" for an empty ``zone``, which stands for several zones.

    >>> zone_label("America/New_York"), zone_label("UTC"), zone_label("")
    ('New York', 'UTC', 'local')
    """
    return zone.rpartition("/")[2].replace("_", " ") or "local"


def clock_stamp(day: dt.date, moment: dt.time, zone: str = TRADING_ZONE) -> int:
    """Return a local date and time as a UTC timestamp in nanoseconds."""
    local = dt.datetime.combine(day, moment, tzinfo=ZoneInfo(zone))
    return int(local.timestamp()) * SECOND + moment.microsecond * 1000


def local_day(stamp: int, zone: str = TRADING_ZONE) -> dt.date:
    """Return the local date at a UTC timestamp in nanoseconds.

    >>> str(local_day(1_577_836_800 * SECOND)), str(local_day(1_577_836_800 * SECOND, "UTC"))
    ('2019-12-31', '2020-01-01')
    """
    return dt.datetime.fromtimestamp(stamp // SECOND, ZoneInfo(zone)).date()


def local_time(stamp: int, zone: str = TRADING_ZONE) -> dt.time:
    """Return the local time of day, to the second, at a UTC timestamp in nanoseconds.

    >>> str(local_time(1_577_836_800 * SECOND)), str(local_time(1_577_836_800 * SECOND, "UTC"))
    ('19:00:00', '00:00:00')
    """
    return dt.datetime.fromtimestamp(stamp // SECOND, ZoneInfo(zone)).time()


def parse_clock_hours(text: str) -> tuple[dt.time, dt.time]:
    """Parse two times of day from text such as 11:00-13:00, or raise `ValueError` with the expected form.

    The second may be earlier, on the next day; 24:00 is 00:00.

    >>> parse_clock_hours("9:35-13"), parse_clock_hours("22:00-24:00")
    ((datetime.time(9, 35), datetime.time(13, 0)), (datetime.time(22, 0), datetime.time(0, 0)))
    """
    try:
        first, last = (part.strip() for part in text.split("-"))
        last = "00:00" if last in ("24", "24:00") else last
        times = [dt.time.fromisoformat(f"0{part}" if part[1:2] in ("", ":") else part) for part in (first, last)]
    except ValueError:
        raise ValueError("two times such as 11:00-13:00") from None
    if any(moment.tzinfo is not None for moment in times):
        raise ValueError("two times without a zone, such as 11:00-13:00")
    if times[0] == times[1] != dt.time(0):
        raise ValueError("two different times")
    return times[0], times[1]


def clock_duration(first: dt.time, last: dt.time) -> int:
    """Return the nanoseconds from time of day ``first`` to the next ``last``; a whole day if they are equal.

    >>> clock_duration(dt.time(22), dt.time(1)) // (3600 * SECOND)
    3
    """
    begin, end = (
        ((moment.hour * 60 + moment.minute) * 60 + moment.second) * SECOND + moment.microsecond * 1000
        for moment in (first, last)
    )
    day = 86_400 * SECOND
    return (end - begin) % day or day


@dataclass(frozen=True)
class TimeWindow:
    """Part of the trading day, cut into equal buckets; defaults are the paper's. Times are in the instrument's zone."""

    start: dt.time = dt.time(11)
    end: dt.time = dt.time(13)
    buckets: int = 60

    def __post_init__(self) -> None:
        whole_number("buckets", self.buckets, minimum=2, maximum=1_000_000)
        check_clock_time("start of the window", self.start)
        check_clock_time("end of the window", self.end)
        if self.start == self.end != dt.time(0):
            raise InputError(f"window must end after it starts, was {self.start} to {self.end}")
        if clock_duration(self.start, self.end) < self.buckets:
            raise InputError(f"expected buckets of at least 1 ns, got {self.buckets} from {self.start} to {self.end}")

    def edges(self, day: dt.date, instrument: Instrument = SHARES) -> Stamps:
        """Return the edges of the buckets on a session day, ``(buckets + 1,)`` UTC nanoseconds."""
        valid_day("day", day)
        begin, end = instrument.session_hours(day, self.start, self.end)
        # Integer arithmetic: neighbouring float64 values of this size are 256 ns apart.
        whole, rest = divmod(end - begin, self.buckets)
        step = np.arange(self.buckets + 1)
        return np.asarray(begin + step * whole + step * rest // self.buckets)
