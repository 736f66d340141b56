"""Imported market data in a folder: per venue, symbol and day a snapshot table, events where there are, and a record.

Everything is written beside its place and renamed at the end, the record last: what has a record is whole.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.arrays import Integers
from riskroute.core.errors import DataError, InputError, one_line_error
from riskroute.core.files import in_file_name, write_json
from riskroute.core.validation import (
    LONGEST_SYMBOL,
    LONGEST_VENUE,
    as_name,
    day_of,
    instance_of,
    list_of,
    one_of,
    path_of,
    whole_number,
)
from riskroute.market.clock import TRADING_ZONE, check_zone
from riskroute.market.quality import BookWatch, check_prices, remarks_on
from riskroute.market.readers.columns import check_unit, unit_text
from riskroute.market.readers.reading import ITCH_LEVELS
from riskroute.market.readers.streams import ParquetStream
from riskroute.market.schema import EVENT_SCHEMA, levels_used, snapshot_schema

US_EQUITY_READERS = ("itch", "lobster", "taq", "ticks")  # formats that only US equities come in
RECORD, SNAPSHOTS, EVENTS = ".record.json", ".snapshots.parquet", ".events.parquet"


@dataclass
class Recording:
    """What is known of one venue, symbol and day.

    ``depth`` is the number of levels per side that its table has room for, ``levels`` that of its deepest book.
    ``deeper`` counts snapshots that had more levels in the file than were kept, ``gaps`` periods in which updates are
    missing and no book is told. ``zone`` is that of its day and of hours; one share of ours is ``unit`` of the file's.
    ``us_equity`` says that it is of a US equity tape, whose venues protect each other's quotes; false if not known.
    ``notes`` has what else is odd.
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
    first: str = ""
    last: str = ""
    crossed: int = 0
    unresolved: int = 0
    references: int = 0
    levels: int = 0
    deeper: int = 0
    gaps: int = 0
    unit: float = 1.0
    zone: str = TRADING_ZONE
    us_equity: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        as_name("venue", self.venue, longest=LONGEST_VENUE)
        as_name("symbol", self.symbol, longest=LONGEST_SYMBOL)
        check_zone("zone", self.zone)
        check_unit("unit", self.unit)
        self.us_equity = self.us_equity or self.reader in US_EQUITY_READERS

    @property
    def stem(self) -> str:
        """Beginning of its files' names."""
        return f"{in_file_name(self.venue)}_{in_file_name(self.symbol)}_{self.date.isoformat()}"

    @property
    def unresolved_share(self) -> float:
        """Share of the references to orders that the file does not hold."""
        return self.unresolved / self.references if self.references else 0.0

    @property
    def cut(self) -> str:
        """A sentence about levels that were not kept; empty if there were none."""
        if not self.deeper:
            return ""
        some = f"{self.deeper:,} of {self.snapshots:,} books of {self.stem} had"
        if self.reader == "itch" and self.depth >= ITCH_LEVELS:
            return f"{some} {self.depth} levels or more on a side; no more than {self.depth} are kept of an ITCH file."
        return f"{some} more levels on a side than were kept ({self.depth})."

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was left out and what is odd: levels, gaps, units, days of another zone, quality."""
        unit = unit_text(self.unit)
        times = "once" if self.gaps == 1 else f"{self.gaps:,} times"
        facts = {
            self.cut: bool(self.cut),
            f"Updates of {self.stem} are missing {times}; no book is told until the snapshot that follows.": self.gaps,
            f"Sizes of {self.stem} count units of {unit}, and prices are those of one unit.": self.unit != 1,
            f"Days and hours of {self.stem} are those of {self.zone}.": self.zone != TRADING_ZONE,
        }
        odd = [f"{self.stem}: {text}." for text in remarks_on(self.notes)]
        return [*(sentence for sentence, holds in facts.items() if holds), *odd]

    @property
    def crossed_share(self) -> float:
        """Share of snapshots whose best bid is at or above the best ask."""
        return self.crossed / self.snapshots if self.snapshots else 0.0


class RecordingWriter:
    """Streams one recording into a folder; nothing shows there before `commit`."""

    def __init__(self, folder: Path, recording: Recording) -> None:
        self.folder, self.recording = folder, recording
        self._writers: dict[str, ParquetStream] = {}
        self._watch = BookWatch(recording.date)

    def add_snapshots(self, frame: polars.DataFrame) -> None:
        """Append snapshots, in the order of time."""
        if frame.height:
            check_prices(frame, self.recording.source)
            self._write(SNAPSHOTS, frame.select(list(snapshot_schema(self.recording.depth))))
            one = self.recording
            one.levels = max(one.levels, levels_used(frame))
            one.snapshots += frame.height
            crossed = (frame["bid_px_00"] >= frame["ask_px_00"]).fill_null(False).to_numpy()
            one.crossed += int(crossed.sum())
            self._watch.look(frame["ts_event"].cast(polars.Int64).to_numpy(), crossed)
            one.notes |= self._watch.notes()
            one.first = one.first or str(frame["ts_event"][0])
            one.last = str(frame["ts_event"][-1])

    def add_events(self, frame: polars.DataFrame) -> None:
        """Append events, in the order of time."""
        self.recording.has_events = True
        if frame.height:
            check_prices(frame, self.recording.source)
            self._write(EVENTS, frame.select(list(EVENT_SCHEMA)))
            self.recording.events += frame.height

    def finish(self) -> None:
        """Write the rest, still beside its place: a full disk shows here, before anything has its name."""
        if self.recording.has_events and EVENTS not in self._writers:
            self._write(EVENTS, polars.DataFrame(schema=EVENT_SCHEMA))
        with self._writing():
            for writer in self._writers.values():
                writer.close()

    def commit(self) -> Path:
        """Give the files their names; those of an earlier import are replaced."""
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
        return write_json(record, asdict(one) | {"date": one.date.isoformat()})

    def discard(self) -> None:
        """Remove what is not committed."""
        for ending, writer in self._writers.items():
            with suppress(Exception):  # what cannot be written to its end is removed all the same
                writer.close()
            self._beside(ending).unlink(missing_ok=True)

    def _beside(self, ending: str) -> Path:
        return self.folder / f".{self.recording.stem}.{os.getpid()}{ending}"

    def _write(self, ending: str, frame: polars.DataFrame) -> None:
        with self._writing():
            if ending not in self._writers:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._writers[ending] = ParquetStream(self._beside(ending))
            self._writers[ending].add(frame)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where, text = str(self.folder), error.strerror or one_line_error(error)
            raise InputError(f"out must be a folder that can be written to, was {where!r}: {text}") from error


class Store:
    """Recordings in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = path_of("folder", folder)
        if not self.folder.is_dir():
            raise InputError(f"folder must hold imported market data, was {str(folder)!r}, which is not a folder")

    def recordings(self) -> list[Recording]:
        """Everything whole, by venue, symbol and day."""
        return [_read_record(path) for path in sorted(self.folder.glob(f"*{RECORD}"))]

    def of_symbol(self, symbol: str, date: dt.date | None = None, venues: Sequence[str] = ()) -> list[Recording]:
        """Recordings of a symbol on one day: the one that is there, or ``date``."""
        if date is not None:
            day_of("date", date)
        venues = list_of("venues", venues, str, "venues")
        found = self.recordings()
        if not found:
            raise DataError(f"folder must hold imported market data, was {str(self.folder)!r} without any")
        one_of("symbol", symbol, tuple(dict.fromkeys(one.symbol for one in found)))
        mine = [one for one in found if one.symbol == symbol]
        days = sorted({one.date for one in mine})
        if date is None and len(days) > 1:
            raise InputError(f"date must be given, one of {', '.join(map(str, days))}, was None")
        day = date or days[0]
        one_of("date", str(day), tuple(map(str, days)))
        mine = [one for one in mine if one.date == day]
        check_comparable(symbol, [one for one in mine if not venues or one.venue in venues])
        for venue in venues:
            one_of("venue", venue, tuple(one.venue for one in mine))
        return [one for one in mine if not venues or one.venue in venues]

    def snapshots(self, recording: Recording, begin: int | None = None, end: int | None = None) -> polars.DataFrame:
        """Snapshots of a recording, from ``begin`` and before ``end`` (UTC nanoseconds) if given."""
        instance_of("recording", recording, Recording, "a recording of this store")
        return self._table(recording, SNAPSHOTS, list(snapshot_schema(recording.depth)), _between(begin, end))

    def times(self, recording: Recording, begin: int, end: int) -> polars.DataFrame:
        """The column ``ts_event`` of `snapshots` alone."""
        return self._table(recording, SNAPSHOTS, ["ts_event"], _between(begin, end))

    def snapshots_at(self, recording: Recording, stamps: Integers) -> polars.DataFrame:
        """All snapshots of some times (UTC nanoseconds): few of a large table, however deep its books are."""
        there = _stamp().is_in(polars.Series(np.unique(stamps)).implode())
        return self._table(recording, SNAPSHOTS, list(snapshot_schema(recording.depth)), [there])

    def events(self, recording: Recording, begin: int | None = None, end: int | None = None) -> polars.DataFrame:
        """Events of a recording; an error if its source has none."""
        if not instance_of("recording", recording, Recording, "a recording of this store").has_events:
            raise DataError(
                f"limit orders need events, and {recording.stem} has none ({recording.reader} data hold snapshots only)"
            )
        return self._table(recording, EVENTS, list(EVENT_SCHEMA), _between(begin, end))

    def _table(
        self, recording: Recording, ending: str, columns: list[str], rules: Sequence[polars.Expr]
    ) -> polars.DataFrame:
        path = self.folder / f"{recording.stem}{ending}"
        try:
            return polars.scan_parquet(path, glob=False).filter(*rules).select(columns).collect(engine="streaming")
        except (OSError, polars.exceptions.PolarsError) as error:
            raise DataError(
                f"{path} must be a table that `riskroute market import` wrote: {one_line_error(error)}"
            ) from error


def check_comparable(symbol: str, recordings: Sequence[Recording]) -> None:
    """Refuse recordings that do not go together: an order is so many shares of all of them, at one time of the day."""
    for name, what in (("unit", "sizes in one unit"), ("zone", "days of one zone")):
        found = {getattr(one, name): one.venue for one in recordings}
        if len(found) > 1:
            some = ", ".join(f"{value} ({venue})" for value, venue in found.items())
            raise DataError(
                f"recordings of {symbol} must have {what}, was {some}; import them again with the same {name}"
            )


def _stamp() -> polars.Expr:
    return polars.col("ts_event").cast(polars.Int64)


def _between(begin: int | None, end: int | None) -> list[polars.Expr]:
    for name, edge in (("begin", begin), ("end", end)):
        if edge is not None:
            whole_number(name, edge, minimum=0, maximum=2**63 - 1)
    rules = [_stamp() >= begin] if begin is not None else []
    return [*rules, _stamp() < end] if end is not None else rules


def _read_record(path: Path) -> Recording:
    try:
        return _record_of(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} must be a record that `riskroute market import` wrote: {error}") from error


def _record_of(fields: dict[str, Any]) -> Recording:
    one = Recording(**fields | {"date": dt.date.fromisoformat(fields["date"])})
    for name, value in asdict(Recording("X", "X", one.date, 0, "", "")).items():
        if type(fields.get(name, value)) is not type(value) and name != "date":
            raise TypeError(f"{name} must be of type {type(value).__name__}, was {fields[name]!r}")
    return one


def summarise_recording(store: Store, recording: Recording) -> dict[str, Any]:
    """What the books of a recording are like: spread in dollars, shares on all levels of a side, empty sides."""
    path = store.folder / f"{recording.stem}{SNAPSHOTS}"
    depth = recording.depth
    sizes = {side: [f"{side}_sz_{level:02d}" for level in range(depth)] for side in ("bid", "ask")}
    columns = polars.scan_parquet(path, glob=False).select(
        (polars.col("ask_px_00") - polars.col("bid_px_00")).median().alias("spread"),
        polars.sum_horizontal(sizes["bid"]).median().alias("bid_depth"),
        polars.sum_horizontal(sizes["ask"]).median().alias("ask_depth"),
        (polars.col("bid_px_00").is_null() | polars.col("ask_px_00").is_null()).mean().alias("one_sided"),
    )
    try:
        found = columns.collect(engine="streaming").row(0, named=True)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise DataError(
            f"{path} must be a table that `riskroute market import` wrote: {one_line_error(error)}"
        ) from error
    record = asdict(recording) | {"date": recording.date.isoformat()}
    return record | {name: float("nan") if value is None else float(value) for name, value in found.items()}
