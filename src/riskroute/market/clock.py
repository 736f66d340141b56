"""Time on the exchanges: New York hours, days in the names of files, and nanoseconds of UTC."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np

from riskroute.arrays import Stamps
from riskroute.errors import InputError, shown
from riskroute.validation import day_of, whole_number

NEW_YORK = ZoneInfo("America/New_York")
SECOND = 1_000_000_000
"""Nanoseconds."""

YEARS = range(1970, 2262)
"""What 64 bits of nanoseconds can tell, in whole years."""

_DATES: tuple[tuple[str, tuple[tuple[int, int, int], ...]], ...] = (
    (r"^(\d{2})(\d{2})(\d{4})\.(?:NASDAQ|BX|PSX)_ITCH", ((3, 1, 2),)),
    (r"^S(\d{2})(\d{2})(\d{2})-v50", ((3, 1, 2),)),
    (r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?!\d)", ((1, 2, 3),)),
    (r"(?<!\d)(\d{2})(\d{2})(\d{4})(?!\d)", ((3, 1, 2), (3, 2, 1))),
)
"""Where names have a day, and which groups are year, month and day; every way of reading them counts."""


def clock_stamp(day: dt.date, moment: dt.time) -> int:
    """UTC nanoseconds of a New York time."""
    return int(dt.datetime.combine(day, moment, tzinfo=NEW_YORK).timestamp()) * SECOND + moment.microsecond * 1000


def clock_hours(text: str) -> tuple[dt.time, dt.time]:
    """Two New York times from a text; a `ValueError` says what was expected.

    Examples
    --------
    >>> clock_hours("9:35-13")
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
        begin, step = clock_stamp(day, self.start), np.arange(self.buckets + 1)
        # in whole numbers, as floats of this size are 256 apart
        whole, rest = divmod(clock_stamp(day, self.end) - begin, self.buckets)
        return np.asarray(begin + step * whole + step * rest // self.buckets)


def clock_date(name: str) -> dt.date | None:
    """The day that a file name tells; none if it tells no day, or several.

    Examples
    --------
    >>> clock_date("12302019.NASDAQ_ITCH50.gz"), clock_date("20190327.BX_ITCH_50"), clock_date("S081321-v50.txt.gz")
    (datetime.date(2019, 12, 30), datetime.date(2019, 3, 27), datetime.date(2021, 8, 13))
    >>> clock_date("books_10112012.bin"), clock_date("20190327-20190329.bin")
    (None, None)
    """
    for pattern, readings in _DATES:
        days = {
            day
            for found in re.finditer(pattern, name)
            for year, month, date in readings
            if (day := _day(found[year], found[month], found[date])) is not None
        }
        if days:
            return days.pop() if len(days) == 1 else None
    return None


def _day(year: str, month: str, day: str) -> dt.date | None:
    full = int(year) + (2000 if len(year) == 2 else 0)
    try:
        return dt.date(full, int(month), int(day)) if full in YEARS else None
    except ValueError:
        return None
