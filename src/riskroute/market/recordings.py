"""Imported market data in a folder: per venue, symbol and day a snapshot table, an event table if any, and a record.

Files are written under temporary names and renamed at the end, the record last: a recording with a record is complete.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.arrays import Flags, Integers, Stamps
from riskroute.core.errors import DataError, InputError
from riskroute.core.files import in_file_name, write_json
from riskroute.core.instrument import (
    NO_PROTECTION,
    REG_NMS,
    SHARES,
    TRADING_ZONE,
    Instrument,
    instrument_from_plain,
    instrument_step,
    named_after_symbol,
)
from riskroute.core.text import decimal_text, one_line_text
from riskroute.core.validation import (
    LONGEST_SYMBOL,
    LONGEST_VENUE,
    as_name,
    if_given,
    instance_of,
    one_of,
    valid_day,
    valid_decimal,
    valid_list,
    valid_path,
    whole_number,
)
from riskroute.market.clock import SECOND
from riskroute.market.readers.reading import ITCH_LEVELS, ReaderPart
from riskroute.market.schema import EVENT_SCHEMA, event_schema, snapshot_schema
from riskroute.market.session_cut import SessionCut

RECORD, SNAPSHOTS, EVENTS = ".record.json", ".snapshots.parquet", ".events.parquet"  # endings of file names
# Largest price of US equities and of other instruments: anything above is in other units or a placeholder.
_LARGEST_PRICES = {REG_NMS: 1e7, NO_PROTECTION: 1e9}

# Notes of a recording as sentences.
_REMARKS = {
    "other_days": "skipped {n:,} snapshots of other days",
    "outside": "left out {n:,} snapshots outside the session",
    "repeated": "left out {n:,} rows that two files hold",
    "late": "{n:,} records were up to one second late and take the time of the previous record",
    "maybe_bad_book": "skipped {n:,} snapshots that the feed marks as doubtful after a gap",
    "bad_receipt": "{n:,} snapshots have a time that is marked as inaccurate",
    "half_levels": "dropped {n:,} levels with a price and size 0, or a size and no price",
    "finra": "skipped {n:,} quotes from outside the exchanges (D, FINRA)",
    "cancelled_quotes": "skipped {n:,} cancelled quotes",
    "not_firm": "{n:,} quotes were not firm and count as empty books",
    "lots_of_100": "sizes were read as round lots of 100 shares",
    "no_last_line": "the file has no END line and may be truncated",
    "other_trades": "skipped {n:,} trades of days without books",
    "no_snapshot": "updates begin without a snapshot; levels are missing until they change",
    "best_only": "the file holds only quotes that changed the national best bid and offer; books may be stale",
}


@dataclass
class Recording:
    """Metadata of one venue, symbol and session day.

    ``depth`` is the number of levels per side in the table, ``levels`` the number in the deepest snapshot. ``deeper``
    counts snapshots with more levels in the source than were kept, ``gaps`` periods without a book because updates are
    missing. ``has_events`` is whether there are events of orders, ``trades`` counts public trades without orders.
    ``fractional`` is whether sizes may have decimals. ``instrument`` is declared or a default; if ``derived``, its unit
    and tick come from the data. ``notes`` has other issues, see `remarks`.
    """

    venue: str
    symbol: str
    date: dt.date
    depth: int
    source: str
    reader: str
    snapshots: int = 0
    events: int = 0
    has_events: bool = False
    trades: int = 0
    first: str = ""
    last: str = ""
    crossed: int = 0
    unresolved: int = 0
    references: int = 0
    levels: int = 0
    deeper: int = 0
    gaps: int = 0
    fractional: bool = False
    derived: bool = False
    instrument: Instrument = SHARES
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        as_name("venue", self.venue, longest=LONGEST_VENUE)
        as_name("symbol", self.symbol, longest=LONGEST_SYMBOL)
        self.instrument = replace(self.instrument, symbol=self.symbol)

    @property
    def zone(self) -> str:
        """Time zone of the day and of hours."""
        return self.instrument.zone

    @property
    def stem(self) -> str:
        """Prefix of the recording's file names."""
        return f"{in_file_name(self.venue)}_{in_file_name(self.symbol)}_{self.date.isoformat()}"

    @property
    def unresolved_share(self) -> float:
        """Fraction of order references that the file does not resolve."""
        return self.unresolved / self.references if self.references else 0.0

    @property
    def cut(self) -> str:
        """A sentence about levels that were dropped; empty if none were."""
        if not self.deeper:
            return ""
        some = f"{self.deeper:,} of {self.snapshots:,} snapshots of {self.stem} had"
        if self.reader == "itch" and self.depth >= ITCH_LEVELS:
            return f"{some} {self.depth} or more levels on a side; ITCH imports keep at most {self.depth}."
        return f"{some} more levels on a side than the {self.depth} kept."

    @property
    def remarks(self) -> list[str]:
        """Sentences about dropped levels, gaps and quality."""
        times = "once" if self.gaps == 1 else f"{self.gaps:,} times"
        facts = {
            self.cut: bool(self.cut),
            f"Updates of {self.stem} are missing {times}; its book is unknown until the next snapshot.": self.gaps,
        }
        notes = [f"{self.stem}: {text}." for text in _remarks_on(self.notes)]
        return [*(sentence for sentence, holds in facts.items() if holds), *notes]

    @property
    def crossed_share(self) -> float:
        """Fraction of snapshots that are crossed or locked (best bid at or above best ask)."""
        return self.crossed / self.snapshots if self.snapshots else 0.0


def _remarks_on(notes: dict[str, Any]) -> list[str]:
    """Return the notes of a recording as sentences, without full stops.

    >>> _remarks_on({"other_days": 1200, "longest_gap": ["15:00:00", "16:30:00"]})
    ['no snapshot from 15:00:00 to 16:30:00 UTC', 'skipped 1,200 snapshots of other days']
    """
    remarks = []
    if "longest_gap" in notes:
        begin, end = notes["longest_gap"]
        remarks.append(f"no snapshot from {begin} to {end} UTC")
    if "longest_crossed" in notes:
        longest, total = notes["longest_crossed"], notes["crossed_seconds"]
        remarks.append(f"crossed or locked for {total:,.1f} s, longest stretch {longest:,.1f} s")
    return remarks + [text.format(n=notes[name]) for name, text in _REMARKS.items() if name in notes]


def _check_prices(frame: polars.DataFrame, instrument: Instrument, source: str) -> None:
    """Refuse prices that the instrument cannot have; the error names row, venue, column, value and time."""
    names = [name for name in frame.columns if name == "price" or "_px_" in name]
    if not names:
        return
    most = _LARGEST_PRICES[instrument.protection]
    signed = [] if instrument.negative_prices else names
    # events that are no trades, such as cancellations, may state no price
    stated = polars.col("action") == "T" if "action" in frame.columns else polars.lit(True)
    odd = polars.any_horizontal(polars.col(names).abs() > most, *((polars.col(name) <= 0) & stated for name in signed))
    rows = frame.filter(odd.fill_null(False))
    if not rows.height:
        return
    number, venue, time = rows.select("sequence", "venue", "ts_event").row(0)
    values = rows.select(names).row(0, named=True).items()
    name, was = next(
        (name, price)
        for name, price in values
        if price is not None and (abs(price) > most or (name in signed and price <= 0))
    )
    where = f"row {number:,} of {source}, venue {venue}: {name}"
    if abs(was) > most:
        expected = f"at most {most:,.0f}, was {was:,.2f} at {time:%H:%M:%S} UTC: are its prices in another unit?"
        raise DataError(f"{where} must be {expected}")
    advice = "declare an instrument with negative_prices to allow it"
    raise DataError(f"{where} must be above 0, was {was} at {time:%H:%M:%S} UTC; {advice}")


class _BookWatch:
    """Tracks the longest gap in a session, and the total and longest time of crossed or locked books."""

    def __init__(self, begin: int, end: int) -> None:
        self._session = begin, end  # UTC nanoseconds
        self._last: int | None = None
        self._since: int | None = None
        self._first = 0
        self.crossed_time = self.crossed_stretch = 0.0
        self._gap = (0.0, 0, 0)

    def add(self, stamps: Stamps, crossed: Flags) -> None:
        """Add snapshots in ascending time (UTC nanoseconds)."""
        if self._last is None:
            self._first = self._last = int(stamps[0])
        whole = np.concatenate([[self._last], stamps])
        gaps = np.diff(np.clip(whole, self._session[0], self._session[1]))
        place = int(gaps.argmax())
        if gaps[place] / SECOND > self._gap[0]:
            self._gap = (gaps[place] / SECOND, int(whole[place]), int(whole[place + 1]))
        for turn in np.flatnonzero(np.diff(np.concatenate([[self._since is not None], crossed]))):
            stamp = int(stamps[turn])
            if self._since is None:
                self._since = stamp
                continue
            seconds = (stamp - self._since) / SECOND
            self.crossed_time += seconds
            self.crossed_stretch = max(self.crossed_stretch, seconds)
            self._since = None
        self._last = int(stamps[-1])

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
            edges = (dt.datetime.fromtimestamp(at // SECOND, dt.UTC) for at in self._gap[1:])
            found["longest_gap"] = [f"{edge:%H:%M:%S}" for edge in edges]
        return found


class RecordingSteps:
    """Derives the unit and the tick of an instrument from the sizes and prices of its snapshots."""

    def __init__(self) -> None:
        self._unit, self._digits, self._tick = Decimal(1), Decimal(1), 0

    def add(self, frame: polars.DataFrame) -> None:
        """Add the sizes and prices of snapshots."""
        sizes = [name for name, kind in frame.schema.items() if "_sz_" in name and kind.is_float()]
        if sizes:
            self._unit = instrument_step(frame.select(sizes).to_numpy(), largest=self._unit)
        prices = np.unique(frame.select(polars.selectors.contains("_px_")).to_numpy())
        digits = instrument_step(prices, largest=self._digits)
        self._tick *= int(self._digits / digits)
        self._digits = digits
        counts = np.rint(np.abs(prices[np.isfinite(prices)]) / float(digits)).astype(np.int64)
        self._tick = math.gcd(self._tick, int(np.gcd.reduce(np.unique(counts)))) if len(counts) else self._tick

    def apply(self, instrument: Instrument) -> Instrument:
        """Return the instrument with the derived unit, lot and tick.

        If sizes are fractional, the zone is not New York or the quantity is not shares, quantity and currency are named
        after a symbol such as BTCUSDT or XBT/USD; the currency of other symbols is unknown.
        """
        tick = self._tick * self._digits or instrument.tick
        found = replace(instrument, unit=self._unit, lot=None, tick=tick)
        if self._unit == 1 and instrument.zone == TRADING_ZONE and instrument.quantity == SHARES.quantity:
            return found
        return named_after_symbol(found)


class _ParquetStream:
    """Appends frames to a Parquet file in a thread; a write error is raised by one of the next calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None
        self._thread = ThreadPoolExecutor(1)
        self._waiting: deque[Future[None]] = deque()

    def add(self, frame: polars.DataFrame) -> None:
        """Queue a frame; wait while two are pending."""
        while len(self._waiting) >= 2:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._append, frame))

    def close(self) -> None:
        """Wait until everything is written; idempotent."""
        try:
            while self._waiting:
                self._waiting.popleft().result()
        finally:
            self._thread.shutdown(cancel_futures=True)
            if self._writer is not None:
                self._writer.close()

    def _append(self, frame: polars.DataFrame) -> None:
        from pyarrow.parquet import ParquetWriter

        table = frame.to_arrow()
        if self._writer is None:
            words = [name for name, kind in frame.schema.items() if kind == polars.String]
            # Dictionaries for numbers, and statistics for other columns, would not pay off: only times are searched.
            options = {"use_dictionary": words, "write_statistics": ["ts_event"]}
            self._writer = ParquetWriter(self._path, table.schema, compression="lz4", **options)
        self._writer.write_table(table)


class RecordingWriter:
    """Streams one recording into a folder, under temporary names until `commit`.

    Recordings of one book on several days share ``steps``, so that they have the same derived unit and tick.
    """

    def __init__(self, folder: Path, recording: Recording, steps: RecordingSteps | None = None) -> None:
        self.folder, self.recording = folder, recording
        self._writers: dict[str, _ParquetStream] = {}
        self._watch = _BookWatch(*recording.instrument.active_session(recording.date))
        self._steps = RecordingSteps() if steps is None else steps
        self.source = recording.source  # the current file, for errors
        self._sources = [recording.source]
        self._new: set[str] = set()  # tables to which the latest file has added nothing yet
        self._ends: dict[str, polars.DataFrame] = {}  # by table, the rows with the latest time
        self._offset = self._sequence = 0
        self._closed: set[str] = set()

    def extend(self, source: str) -> None:
        """Continue with another file of the same book; rows that repeat rows of the latest time are left out."""
        self._sources.append(source)
        self.source = source
        self.recording.source = ", ".join(self._sources)
        self._new = {SNAPSHOTS, EVENTS}
        self._offset = self._sequence  # numbers of messages ascend throughout the recording

    def _later(self, ending: str, frame: polars.DataFrame) -> polars.DataFrame:
        """Return the rows that the recording does not have yet; refuse rows earlier than its last ones."""
        end = self._ends.get(ending)
        if ending in self._closed or (end is not None and frame["ts_event"][0] < end["ts_event"][0]):
            files = " and ".join(self._sources[-2:])
            advice = "import one of them, name files in the order of their times, or give venue or date"
            raise InputError(f"two files hold {self.recording.stem} at the same time, {files}; {advice}")
        if ending in self._new:
            self._new.discard(ending)
            if end is not None:
                keys = [name for name in frame.columns if name not in ("sequence", "deeper")]
                same = frame.filter(polars.col("ts_event") == end["ts_event"][0])
                fresh = same.join(end, on=keys, how="anti", nulls_equal=True)
                repeated = same.height - fresh.height
                if repeated:
                    self.recording.notes["repeated"] = self.recording.notes.get("repeated", 0) + repeated
                    frame = polars.concat([fresh, frame[same.height :]])
        if frame.height:
            self._ends[ending] = frame.filter(polars.col("ts_event") == frame["ts_event"][-1])
        return frame.with_columns(polars.col("sequence") + self._offset) if self._offset else frame

    def add_snapshots(self, frame: polars.DataFrame) -> None:
        """Append snapshots in ascending time; ``deeper`` marks snapshots with more levels in the source."""
        if frame.height:
            one = self.recording
            _check_prices(frame, one.instrument, self.source)
            frame = self._later(SNAPSHOTS, frame)
        if frame.height:
            self._write(SNAPSHOTS, frame.select(list(snapshot_schema(self.recording.depth))))
            one.deeper += int(frame["deeper"].sum()) if "deeper" in frame.columns else 0
            if one.derived:
                self._steps.add(frame)
            used = (int(name[7:]) + 1 for name in frame.columns if "_px_" in name and frame[name].count())
            one.levels = max([one.levels, *used])
            one.snapshots += frame.height
            crossed = (frame["bid_px_00"] >= frame["ask_px_00"]).fill_null(False).to_numpy()
            one.crossed += int(crossed.sum())
            self._watch.add(frame["ts_event"].cast(polars.Int64).to_numpy(), crossed)
            one.notes |= self._watch.notes()
            one.first = one.first or str(frame["ts_event"][0])
            one.last = str(frame["ts_event"][-1])

    def add_events(self, frame: polars.DataFrame) -> None:
        """Append events in ascending time."""
        one = self.recording
        trades = int((frame["action"] == "T").sum()) if frame.height else 0
        one.has_events |= trades < frame.height or not frame.height
        if frame.height:
            _check_prices(frame, one.instrument, self.source)
            frame = self._later(EVENTS, frame)
        if frame.height:
            self._write(EVENTS, frame.select(list(EVENT_SCHEMA)))
            one.events += frame.height
            one.trades += trades

    def close(self, ending: str) -> None:
        """Flush and close a temporary file that gets no more rows, to limit the number of open files."""
        self._closed.add(ending)
        if ending in self._writers:
            with self._writing():
                self._writers[ending].close()

    def finish(self) -> None:
        """Flush and close the temporary files, so that a full disk fails here and not halfway through `commit`."""
        if self.recording.derived:
            self.recording.instrument = self._steps.apply(self.recording.instrument)
        if self.recording.has_events and EVENTS not in self._writers:
            self._write(EVENTS, polars.DataFrame(schema=event_schema(fractional=self.recording.fractional)))
        with self._writing():
            for writer in self._writers.values():
                writer.close()

    def commit(self) -> Path:
        """Rename the files into place, replacing those of an earlier import."""
        self.finish()
        one = self.recording
        record = self.folder / f"{one.stem}{RECORD}"
        with self._writing():
            record.unlink(missing_ok=True)
            for ending in (SNAPSHOTS, EVENTS):
                target = self.folder / f"{one.stem}{ending}"
                if ending in self._writers:
                    self._beside(ending).replace(target)
                else:
                    target.unlink(missing_ok=True)
        return write_json(record, recording_to_json(one))

    def discard(self) -> None:
        """Remove uncommitted files."""
        for ending, writer in self._writers.items():
            with suppress(Exception):  # remove the file even if closing it fails
                writer.close()
            self._beside(ending).unlink(missing_ok=True)

    def _beside(self, ending: str) -> Path:
        return self.folder / f".{self.recording.stem}.{os.getpid()}{ending}"

    def _write(self, ending: str, frame: polars.DataFrame) -> None:
        last = frame["sequence"].max()
        self._sequence = max(self._sequence, int(last)) if isinstance(last, int) else self._sequence
        with self._writing():
            if ending not in self._writers:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._writers[ending] = _ParquetStream(self._beside(ending))
            self._writers[ending].add(frame)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where, text = str(self.folder), error.strerror or one_line_text(error)
            raise InputError(f"out must be a writable folder, was {where!r}: {text}") from error


class RecordingStore:
    """Reads the records and tables of a folder of recordings.

    Parameters
    ----------
    folder : Path
        Folder written by `import_files`.
    instruments : Mapping[str, Instrument], optional
        Declared instruments by symbol, which replace the recorded ones. Their sessions must lie within the recorded
        days, and their snapshots are cut to the session.
    """

    def __init__(self, folder: Path, instruments: Mapping[str, Instrument] | None = None) -> None:
        self.folder, self.instruments = valid_path("folder", folder), dict(instruments or {})
        if not self.folder.is_dir():
            raise InputError(f"folder must hold imported market data, was {str(folder)!r}, which is not a folder")

    def recordings(self) -> list[Recording]:
        """Return all complete recordings, sorted by venue, symbol and day."""
        return [self._declared(_read_record(path)) for path in sorted(self.folder.glob(f"*{RECORD}"))]

    def _declared(self, recording: Recording) -> Recording:
        """Return a recording with the declared instrument of its symbol."""
        if recording.symbol not in self.instruments:
            return recording
        one = replace(recording, instrument=self.instruments[recording.symbol], derived=False)
        (begin, end), (first, last) = (each.instrument.session(one.date) for each in (one, recording))
        if begin < first or end > last:
            raise DataError(
                f"session of {one.symbol} must lie within its recorded days, {recording.instrument.session_text}, was "
                f"{one.instrument.session_text}; import the data with this instrument"
            )
        return one

    def of_symbol(self, symbol: str, date: dt.date | None = None, venues: Sequence[str] = ()) -> list[Recording]:
        """Return the recordings of a symbol on ``date`` (default: their only day) at ``venues`` (default: all)."""
        if_given(valid_day, "date", date)
        venues = valid_list("venues", venues, str, "venues")
        found = self.recordings()
        if not found:
            raise DataError(f"{self.folder} holds no imported market data; run `riskroute market import` first")
        one_of("symbol", symbol, tuple(dict.fromkeys(one.symbol for one in found)))
        mine = [one for one in found if one.symbol == symbol]
        days = sorted({one.date for one in mine})
        if date is None and len(days) > 1:
            raise InputError(f"date must be one of {', '.join(map(str, days))}, was None")
        day = date or days[0]
        one_of("date", str(day), tuple(map(str, days)))
        mine = [one for one in mine if one.date == day]
        comparable_recordings(symbol, [one for one in mine if not venues or one.venue in venues])
        for venue in venues:
            one_of("venue", venue, tuple(one.venue for one in mine))
        return [one for one in mine if not venues or one.venue in venues]

    def snapshots(self, recording: Recording, begin: int | None = None, end: int | None = None) -> polars.DataFrame:
        """Return the snapshots of a recording with ``begin`` <= time < ``end`` (UTC nanoseconds)."""
        instance_of("recording", recording, Recording, "a recording of this store")
        rules = _between(begin, end)
        cut = recording.symbol in self.instruments
        table = self._table(recording, SNAPSHOTS, list(snapshot_schema(recording.depth)), [] if cut else rules)
        if not cut:
            return table
        whole = ReaderPart(recording.venue, recording.symbol, table)
        days = {one.day: one.snapshots for one in SessionCut(recording.instrument, recording.date).cut(whole)}
        return days.get(recording.date, table.head(0)).filter(*rules)

    def times(self, recording: Recording, begin: int, end: int) -> polars.DataFrame:
        """Return the column ``ts_event`` of the recorded snapshots with ``begin`` <= time < ``end``."""
        return self._table(recording, SNAPSHOTS, ["ts_event"], _between(begin, end))

    def snapshots_at(self, recording: Recording, stamps: Integers) -> polars.DataFrame:
        """Return the snapshots at the given times (UTC nanoseconds) without loading the whole table."""
        there = _stamp().is_in(polars.Series(np.unique(stamps)).implode())
        return self._table(recording, SNAPSHOTS, list(snapshot_schema(recording.depth)), [there])

    def events(self, recording: Recording, begin: int | None = None, end: int | None = None) -> polars.DataFrame:
        """Return the events of a recording; raise `DataError` if it has none."""
        instance_of("recording", recording, Recording, "a recording of this store")
        if not (recording.has_events or recording.trades):
            raise DataError(
                f"limit orders require events; {recording.stem} has none ({recording.reader} files hold snapshots only)"
            )
        return self._table(recording, EVENTS, list(EVENT_SCHEMA), _between(begin, end))

    def summary(self, recording: Recording) -> dict[str, Any]:
        """Return metadata and statistics of a recording: median spread and depth, fraction of one-sided books."""
        path = self.folder / f"{recording.stem}{SNAPSHOTS}"
        depth = recording.depth
        sizes = {side: [f"{side}_sz_{level:02d}" for level in range(depth)] for side in ("bid", "ask")}
        columns = polars.scan_parquet(path, glob=False).select(
            (polars.col("ask_px_00") - polars.col("bid_px_00")).median().alias("spread"),
            polars.sum_horizontal(sizes["bid"]).median().alias("bid_depth"),
            polars.sum_horizontal(sizes["ask"]).median().alias("ask_depth"),
            (polars.col("bid_px_00").is_null() | polars.col("ask_px_00").is_null()).mean().alias("one_sided"),
        )
        found = _collect(path, columns).row(0, named=True)
        return recording_to_json(recording) | {
            name: float("nan") if value is None else float(value) for name, value in found.items()
        }

    def _table(
        self, recording: Recording, ending: str, columns: list[str], rules: Sequence[polars.Expr]
    ) -> polars.DataFrame:
        path = self.folder / f"{recording.stem}{ending}"
        return _collect(path, polars.scan_parquet(path, glob=False).filter(*rules).select(columns))


def comparable_recordings(symbol: str, recordings: Sequence[Recording]) -> None:
    """Refuse recordings whose instruments differ in zone, hours, quantity, currency or multiplier."""
    for name in ("zone", "hours", "quantity", "currency", "multiplier"):
        found = {str(getattr(one.instrument, name)): one.venue for one in recordings}
        if len(found) > 1:
            some = ", ".join(f"{value} ({venue})" for value, venue in found.items())
            raise DataError(f"expected recordings of {symbol} with the same {name}, got {some}; declare the instrument")


def recordings_instrument(recordings: Sequence[Recording]) -> Instrument:
    """Return the common instrument of comparable recordings.

    It has the smallest unit and tick, the largest lot, and order protection only if every recording has it.
    """
    some = [one.instrument for one in recordings]
    unprotected = next((one for one in some if one.protection == NO_PROTECTION), some[0])
    unit, tick = min(one.unit for one in some), min(one.tick for one in some)
    return replace(unprotected, unit=unit, tick=tick, lot=max(one.lot or one.unit for one in some))


def recording_in_units(table: polars.DataFrame, instrument: Instrument) -> polars.DataFrame:
    """Return a table of snapshots or events with sizes in units.

    >>> table = polars.DataFrame({"bid_px_00": [60_000.0], "bid_sz_00": [0.25]})
    >>> recording_in_units(table, Instrument(unit="0.01")).row(0)
    (60000.0, 25.0)
    """
    unit = instrument.unit_size
    sizes = [name for name in table.columns if "_sz_" in name or name in ("size", "remaining")]
    floats = [name for name in sizes if unit != 1 or table.schema[name].is_float()]
    changed = table.with_columns((polars.col(name) / unit).round() for name in floats)
    for name in floats:
        # relative, because a float64 size is within half a rounding error of its decimal
        gap = (changed[name] * unit - table[name]).abs()
        odd = (gap > 2.0**-50 * table[name].abs()).fill_null(False)
        if odd.any():
            size = decimal_text(valid_decimal(name, table.filter(odd)[name][0]))
            raise DataError(
                f"sizes of {instrument.symbol or 'the instrument'} must be multiples of its unit, "
                f"{decimal_text(instrument.unit)}, was {size}; declare a smaller unit"
            )
    return changed


def recording_to_json(recording: Recording) -> dict[str, Any]:
    """Return plain JSON values of a recording."""
    changes = {"date": recording.date.isoformat(), "instrument": recording.instrument.to_json()}
    return vars(recording) | changes


def _collect(path: Path, query: polars.LazyFrame) -> polars.DataFrame:
    try:
        return query.collect(engine="streaming")
    except (OSError, polars.exceptions.PolarsError) as error:
        text = one_line_text(error)
        raise DataError(f"{path} must be a table written by `riskroute market import`: {text}") from error


def _stamp() -> polars.Expr:
    return polars.col("ts_event").cast(polars.Int64)


def _between(begin: int | None, end: int | None) -> list[polars.Expr]:
    for name, edge in (("begin", begin), ("end", end)):
        if_given(whole_number, name, edge, minimum=0, maximum=2**63 - 1)
    rules = [_stamp() >= begin] if begin is not None else []
    return [*rules, _stamp() < end] if end is not None else rules


def _read_record(path: Path) -> Recording:
    try:
        fields = instance_of("the record", json.loads(path.read_text()), dict, "an object")
        instrument = instrument_from_plain("", fields["instrument"] | {"symbol": ""})
        one = Recording(**fields | {"date": dt.date.fromisoformat(fields["date"]), "instrument": instrument})
        for name, value in vars(Recording("X", "X", one.date, 0, "", "")).items():
            if type(fields.get(name, value)) is not type(value) and name not in ("date", "instrument"):
                raise TypeError(f"{name} must be of type {type(value).__name__}, was {fields[name]!r}")  # noqa: TRY301
    except (OSError, ValueError, TypeError, KeyError, DataError) as error:
        fault = f"{error} is missing" if isinstance(error, KeyError) else one_line_text(error)
        expected = "a record written by `riskroute market import`"
        raise DataError(f"{path} must be {expected}: {fault}; import the data again") from error
    return one
