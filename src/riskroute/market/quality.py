"""What every import looks at, whatever the format: prices and days that cannot be, hours without books, crossed books.

What cannot be is refused. What is odd is kept in the notes of a recording, and said in a sentence each.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars

from riskroute.core.arrays import Flags, Stamps
from riskroute.core.errors import DataError
from riskroute.market.clock import SECOND, utc_stamp

LARGEST_PRICE = 1e7
"""Dollars that a share may cost: what is beyond is a price in other units, or stands for none."""

FIRST_DAY = dt.date(1990, 1, 1)
"""No order book was recorded before: an earlier day is a time in other units."""

LONGEST_GAP = 3600
"""Seconds without a book, in regular hours, that go without saying."""

CROSSED_FOR = 1.0
"""Seconds that a book may be crossed without saying, as it is for a moment where two sides come one by one."""

CROSSED_TOO_LONG = 60.0
"""Seconds from which on a crossed book counts by its time and not only by its number."""

REGULAR_HOURS = dt.time(9, 30), dt.time(16)
"""Of the exchanges, in New York."""


def check_recorded_day(day: dt.date, source: object) -> None:
    """Refuse days on which nothing can have been recorded.

    Examples
    --------
    >>> check_recorded_day(dt.date(1970, 1, 20), "books.csv")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.DataError: books.csv must be of 1990-01-01 or later, was of 1970-01-20: are its times in
    another unit?
    """
    if day < FIRST_DAY:
        raise DataError(f"{source} must be of {FIRST_DAY} or later, was of {day}: are its times in another unit?")


def check_prices(frame: polars.DataFrame, source: object) -> None:
    """Refuse prices above `LARGEST_PRICE`, by row, venue, column, value and time."""
    names = [name for name in frame.columns if name == "price" or "_px_" in name]
    for name, largest in frame.select(polars.col(names).max()).row(0, named=True).items() if names else ():
        if largest is not None and largest > LARGEST_PRICE:
            number, venue, time = (
                frame.filter(polars.col(name) > LARGEST_PRICE).select("sequence", "venue", "ts_event").row(0)
            )
            raise DataError(
                f"row {number:,} of {source}, venue {venue}, must have prices of at most {LARGEST_PRICE:,.0f} dollars, "
                f"was {largest:,.2f} in {name} at {time:%H:%M:%S} UTC: are its prices in another unit?"
            )


class BookWatch:
    """Follows the books of one recording, part by part: the longest stretch without one, and of a crossed one.

    A book stands until the next. ``crossed_time`` and ``crossed_stretch`` are seconds in all and at longest.
    """

    def __init__(self, day: dt.date) -> None:
        self._open, self._close = (utc_stamp(day, moment) for moment in REGULAR_HOURS)
        self._last: int | None = None
        self._since: int | None = None
        self._first = 0
        self.crossed_time = self.crossed_stretch = 0.0
        self._gap = (0.0, 0, 0)

    def look(self, stamps: Stamps, crossed: Flags) -> None:
        """Take in books in the order of time, UTC nanoseconds."""
        if self._last is None:
            self._first = int(stamps[0])
        before = int(stamps[0]) if self._last is None else self._last
        self._look_for_gaps(np.concatenate([[before], stamps]))
        turns = np.flatnonzero(np.diff(np.concatenate([[self._since is not None], crossed])))
        for turn in turns:
            if self._since is None:
                self._since = int(stamps[turn])
            else:
                self._end_stretch(int(stamps[turn]))
        self._last = int(stamps[-1])

    def _look_for_gaps(self, stamps: Stamps) -> None:
        inside = np.clip(stamps, self._open, self._close)
        gaps = np.diff(inside)
        place = int(gaps.argmax())
        if gaps[place] / SECOND > self._gap[0]:
            self._gap = (gaps[place] / SECOND, int(stamps[place]), int(stamps[place + 1]))

    def _end_stretch(self, stamp: int) -> None:
        if self._since is not None:
            seconds = (stamp - self._since) / SECOND
            self.crossed_time += seconds
            self.crossed_stretch = max(self.crossed_stretch, seconds)
            self._since = None

    def notes(self) -> dict[str, Any]:
        """What must be said of the books so far; a crossed book at the end stands until the last."""
        found: dict[str, Any] = {}
        if self._last is None:
            return found
        total, longest = self.crossed_time, self.crossed_stretch
        if self._since is not None:
            seconds = (self._last - self._since) / SECOND
            total, longest = total + seconds, max(longest, seconds)
        if longest > CROSSED_FOR:
            found |= {"crossed_seconds": round(total, 3), "longest_crossed": round(longest, 3)}
            found["crossed_time_share"] = total * SECOND / (self._last - self._first)
        if self._gap[0] > LONGEST_GAP:
            found["longest_gap"] = [_iso(self._gap[1]), _iso(self._gap[2])]
        return found


def _iso(stamp: int) -> str:
    return dt.datetime.fromtimestamp(stamp // SECOND, dt.UTC).strftime("%H:%M:%S")


_SENTENCES = {
    "other_days": "{n:,} books of other days were left out",
    "late": "{n:,} records came up to a second late and have the time of the one before",
    "maybe_bad_book": "{n:,} books after a gap of the feed, marked as doubtful, were left out",
    "bad_receipt": "{n:,} books have a time that is marked as inaccurate",
    "half_levels": "{n:,} levels with a price and size 0, or a size and no price, were left out",
    "finra": "{n:,} quotes from outside the exchanges (D, FINRA) were left out of the file",
    "cancelled_quotes": "{n:,} cancelled quotes were left out",
    "not_firm": "{n:,} quotes were not firm and count as empty books",
    "lots_of_100": "sizes were taken for round lots of 100 shares",
    "no_last_line": "the file has no last line (END) and may be cut off",
    "best_only": "the file has only quotes that changed the best price of all venues",
}


def remarks_on(notes: dict[str, Any]) -> list[str]:
    """Sentences about what the notes of a recording hold, without their full stops.

    Examples
    --------
    >>> remarks_on({"other_days": 1200, "longest_gap": ["15:00:00", "16:30:00"]})
    ['no book from 15:00:00 to 16:30:00 UTC', '1,200 books of other days were left out']
    """
    said = []
    if "longest_gap" in notes:
        begin, end = notes["longest_gap"]
        said.append(f"no book from {begin} to {end} UTC")
    if "longest_crossed" in notes:
        longest, total = notes["longest_crossed"], notes["crossed_seconds"]
        said.append(f"bid at or above ask for {longest:,.1f} s at longest, {total:,.1f} s in all")
    return said + [text.format(n=notes[name]) for name, text in _SENTENCES.items() if name in notes]
