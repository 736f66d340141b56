"""Cut the parts of a book into session days of its instrument, and carry the book over from one day to the next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars

from riskroute.core.arrays import Stamps
from riskroute.core.errors import DataError
from riskroute.core.instrument import Instrument
from riskroute.market.readers.reading import ReaderPart
from riskroute.market.schema import TIME


class _SessionPart(NamedTuple):
    """Rows of one session day: snapshots, events if any, and the numbers of snapshots that were left out.

    ``carried`` is the time (UTC nanoseconds) of the snapshot that was in force when the session began, if
    ``snapshots`` begins with it.
    """

    day: dt.date
    snapshots: polars.DataFrame
    events: polars.DataFrame | None
    outside: int = 0
    other_days: int = 0
    carried: int | None = None


class SessionCut:
    """Cuts the parts of one book, possibly from several files, into session days.

    Snapshots between two sessions are left out. Events there are kept with the next day, because they place orders in
    the queues of its books. A day begins with the last snapshot before its session, stamped with the session's
    beginning, unless that book was empty, crossed or locked, precedes a period in which the market was closed (every
    night for US equities), or is from another file and precedes the previous session.

    Parameters
    ----------
    instrument : Instrument
        Its sessions cut the days.
    date : dt.date, optional
        The only day to keep; default: all.
    start, end : dt.time, optional
        Hours of every day to keep, for snapshots and events; default: the session. With hours, nothing is carried.
    """

    def __init__(
        self,
        instrument: Instrument,
        date: dt.date | None = None,
        start: dt.time | None = None,
        end: dt.time | None = None,
    ) -> None:
        self.instrument = instrument
        self._date, self._start, self._end = date, start, end
        self._last: polars.DataFrame | None = None  # the latest snapshot
        self._elsewhere = False  # whether the latest snapshot is from another file
        self._begun: dt.date | None = None  # the latest day that has snapshots

    def begin_file(self, day: dt.date | None) -> None:
        """Begin another file; a file of a fixed ``day`` keeps only this day, and its book continues no earlier book."""
        self._elsewhere = True
        if day is not None:
            self._date, self._last = day, None

    def cut(self, part: ReaderPart) -> Iterator[_SessionPart]:
        """Yield the rows of a part, which is sorted by time, by session day."""
        events = part.events
        stamps, times = _stamps(part.snapshots), _stamps(events) if events is not None else np.empty(0, dtype=np.int64)
        for some, what in ((stamps, "snapshots"), (times, "events")):
            if (np.diff(some) < 0).any():
                raise DataError(f"{what} of {part.venue} {part.symbol} must be sorted by time")
        place, event = 0, 0
        while place < len(stamps) or event < len(times):
            first = min(int(some[at]) for some, at in ((stamps, place), (times, event)) if at < len(some))
            day = self.instrument.session_day(first)
            begin, end = self.instrument.session(day)
            to, until = int(np.searchsorted(stamps, end)), int(np.searchsorted(times, end))
            rows, happened = part.snapshots[place:to], None if events is None else events[event:until]
            yield self._day(day, begin, end, rows, happened)
            if rows.height:
                self._last, self._elsewhere = rows.tail(1), False
            place, event = to, until

    def _day(
        self, day: dt.date, begin: int, end: int, rows: polars.DataFrame, events: polars.DataFrame | None
    ) -> _SessionPart:
        """Cut the rows of a day, all of which are before the ``end`` of its session."""
        early = int(np.searchsorted(_stamps(rows), begin))
        if self._date not in (None, day):
            return _SessionPart(day, rows.head(0), None, outside=early, other_days=rows.height - early)
        inside = rows[early:]
        if self._start is not None or self._end is not None:
            begin, end = self.instrument.session_hours(day, self._start, self._end)
            events = None if events is None else _between(events, begin, end)
            return _SessionPart(day, _between(inside, begin, end), events, outside=early)
        carried = None
        if inside.height and self._begun != day:
            before = rows[early - 1 : early] if early else self._last
            if before is not None and self._in_force(before, day, begin) and _stamps(inside)[0] > begin:
                carried = int(_stamps(before)[0])
                moved = before.with_columns(polars.lit(begin).cast(TIME).alias("ts_event"))
                inside = polars.concat([moved, inside])
            self._begun = day
        return _SessionPart(day, inside, events, outside=early, carried=carried)

    def _in_force(self, before: polars.DataFrame, day: dt.date, begin: int) -> bool:
        """Return whether a snapshot was in force when the session of ``day`` began."""
        if self.instrument.active_session(day) != self.instrument.session(day):
            return False  # books of US equities are emptied overnight
        opened, closed = self.instrument.session(day - dt.timedelta(days=1))
        # A snapshot of another file must be of the previous session: days without a file may lie between.
        oldest = closed if closed < begin else opened if self._elsewhere else 0
        bid, ask = before["bid_px_00"][0], before["ask_px_00"][0]
        empty, crossed = bid is None and ask is None, bid is not None and ask is not None and bid >= ask
        return oldest <= int(_stamps(before)[0]) < begin and not empty and not crossed


def _stamps(frame: polars.DataFrame) -> Stamps:
    return frame["ts_event"].cast(polars.Int64).to_numpy()


def _between(frame: polars.DataFrame, begin: int, end: int) -> polars.DataFrame:
    first, last = np.searchsorted(_stamps(frame), [begin, end])
    return frame[int(first) : int(last)]
