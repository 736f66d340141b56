"""Quality checks of every import: impossible prices and dates, gaps in the session, crossed books.

Impossible values are refused. Oddities go into the notes of a recording and are reported as one sentence each.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars

from riskroute.core.arrays import Flags, Stamps
from riskroute.core.errors import DataError
from riskroute.market.clock import SECOND, utc_stamp

LARGEST_PRICE = 1e7  # dollars; anything above is a price in other units or a placeholder
CROSSED_TOO_LONG = 60.0  # seconds after which a crossed book is judged by its duration, not only by its count


def check_recorded_day(day: dt.date, source: object) -> None:
    """Refuse dates on which no order book can have been recorded.

    >>> check_recorded_day(dt.date(1970, 1, 20), "books.csv")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.DataError: books.csv must be of 1990-01-01 or later, was 1970-01-20: are its times in
    another unit?
    """
    first = dt.date(1990, 1, 1)  # no order book was recorded before: an earlier date is a time in other units
    if day < first:
        raise DataError(f"{source} must be of {first} or later, was {day}: are its times in another unit?")


def check_prices(frame: polars.DataFrame, source: object) -> None:
    """Refuse prices above `LARGEST_PRICE`; the error names row, venue, column, value and time."""
    names = [name for name in frame.columns if name == "price" or "_px_" in name]
    for name, largest in frame.select(polars.col(names).max()).row(0, named=True).items() if names else ():
        if largest is not None and largest > LARGEST_PRICE:
            number, venue, time = (
                frame.filter(polars.col(name) > LARGEST_PRICE).select("sequence", "venue", "ts_event").row(0)
            )
            raise DataError(
                f"row {number:,} of {source}, venue {venue}: {name} must be at most {LARGEST_PRICE:,.0f} dollars, "
                f"was {largest:,.2f} at {time:%H:%M:%S} UTC: are its prices in another unit?"
            )


class BookWatch:
    """Tracks the snapshots of one recording, part by part: the longest gap and the time spent crossed or locked.

    A snapshot is in force until the next. ``crossed_time`` is the total and ``crossed_stretch`` the longest stretch in
    seconds.
    """

    def __init__(self, day: dt.date) -> None:
        self._open, self._close = (utc_stamp(day, moment) for moment in (dt.time(9, 30), dt.time(16)))  # New York
        self._last: int | None = None
        self._since: int | None = None
        self._first = 0
        self.crossed_time = self.crossed_stretch = 0.0
        self._gap = (0.0, 0, 0)

    def add(self, stamps: Stamps, crossed: Flags) -> None:
        """Add snapshots in ascending time (UTC nanoseconds)."""
        if self._last is None:
            self._first = int(stamps[0])
        before = int(stamps[0]) if self._last is None else self._last
        self._find_gap(np.concatenate([[before], stamps]))
        turns = np.flatnonzero(np.diff(np.concatenate([[self._since is not None], crossed])))
        for turn in turns:
            if self._since is None:
                self._since = int(stamps[turn])
            else:
                self._end_stretch(int(stamps[turn]))
        self._last = int(stamps[-1])

    def _find_gap(self, stamps: Stamps) -> None:
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
        """Return the notes on the snapshots so far; a stretch that is still crossed ends at the last snapshot."""
        found: dict[str, Any] = {}
        if self._last is None:
            return found
        total, longest = self.crossed_time, self.crossed_stretch
        if self._since is not None:
            seconds = (self._last - self._since) / SECOND
            total, longest = total + seconds, max(longest, seconds)
        # Books that are crossed for a moment are normal where a feed updates one side at a time.
        if longest > 1.0:
            found |= {"crossed_seconds": round(total, 3), "longest_crossed": round(longest, 3)}
            found["crossed_time_share"] = total * SECOND / (self._last - self._first)
        if self._gap[0] > 3600:
            found["longest_gap"] = [_iso(self._gap[1]), _iso(self._gap[2])]
        return found


def _iso(stamp: int) -> str:
    return dt.datetime.fromtimestamp(stamp // SECOND, dt.UTC).strftime("%H:%M:%S")


_SENTENCES = {
    "other_days": "skipped {n:,} snapshots of other days",
    "late": "{n:,} records were up to one second late and take the time of the previous record",
    "maybe_bad_book": "skipped {n:,} snapshots that the feed marks as doubtful after a gap",
    "bad_receipt": "{n:,} snapshots have a time that is marked as inaccurate",
    "half_levels": "dropped {n:,} levels with a price and size 0, or a size and no price",
    "finra": "skipped {n:,} quotes from outside the exchanges (D, FINRA)",
    "cancelled_quotes": "skipped {n:,} cancelled quotes",
    "not_firm": "{n:,} quotes were not firm and count as empty books",
    "lots_of_100": "sizes were read as round lots of 100 shares",
    "no_last_line": "the file has no END line and may be truncated",
    "best_only": "the file holds only quotes that changed the national best bid and offer; books may be stale",
}


def remarks_on(notes: dict[str, Any]) -> list[str]:
    """Return the notes of a recording as sentences, without full stops.

    >>> remarks_on({"other_days": 1200, "longest_gap": ["15:00:00", "16:30:00"]})
    ['no snapshot from 15:00:00 to 16:30:00 UTC', 'skipped 1,200 snapshots of other days']
    """
    remarks = []
    if "longest_gap" in notes:
        begin, end = notes["longest_gap"]
        remarks.append(f"no snapshot from {begin} to {end} UTC")
    if "longest_crossed" in notes:
        longest, total = notes["longest_crossed"], notes["crossed_seconds"]
        remarks.append(f"crossed or locked for {total:,.1f} s, longest stretch {longest:,.1f} s")
    return remarks + [text.format(n=notes[name]) for name, text in _SENTENCES.items() if name in notes]
