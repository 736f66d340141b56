"""Books of one symbol on one day at all its venues, to be looked up as of any moment: never a later snapshot."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Stamps
from riskroute.core.errors import DataError, InputError, one_line_error
from riskroute.core.validation import exact_array, list_of, real_number, whole_number
from riskroute.market.clock import SECOND
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.queue_position import QueueEvents
from riskroute.market.schema import LEVEL_FIELDS, table_depth

NEVER = 2**62
"""Nanoseconds that no snapshot reaches."""


class BooksNow(NamedTuple):
    """Books of all venues at one moment: prices and sizes ``(V, L)``, NaN and 0 where there is no level.

    ``ages (V,)`` are the nanoseconds since each snapshot, -1 for a venue that has shown none yet; ``rows (V,)`` say
    which snapshot it is. A snapshot that is too old has an age and no level.
    """

    bid_px: Matrix
    bid_sz: Matrix
    ask_px: Matrix
    ask_sz: Matrix
    ages: Integers
    rows: Integers


@dataclass(frozen=True, eq=False)
class DayBooks:
    """All snapshots of a day, venue after venue.

    Parameters
    ----------
    venues : tuple[str, ...]
        ``V`` names.
    offsets : Integers
        ``(V + 1,)``: snapshots ``offsets[v]`` to ``offsets[v + 1]`` are those of venue ``v``, in the order of time.
    stamps, sequences : Stamps
        ``(N,)``, times in nanoseconds of UTC, and numbers of the messages that made them.
    bid_px, bid_sz, ask_px, ask_sz : Matrix
        ``(N, L)``, best level first; NaN and 0 where there is no level.
    oldest : int
        Nanoseconds after which a snapshot is too old to be looked at.

    Examples
    --------
    >>> table = polars.DataFrame(
    ...     {"ts_event": [100, 300], "sequence": [1, 2], "bid_px_00": [9.0, 9.5], "bid_sz_00": [5, 6],
    ...      "ask_px_00": [10.0, 10.0], "ask_sz_00": [7, 8]}
    ... )
    >>> day = day_books({"XNAS": table})
    >>> now = day.as_of(299)
    >>> now.bid_px.tolist(), now.ages.tolist(), day.as_of(99).ages.tolist()
    ([[9.0]], [199], [-1])
    """

    venues: tuple[str, ...]
    offsets: Integers
    stamps: Stamps
    sequences: Integers
    bid_px: Matrix
    bid_sz: Matrix
    ask_px: Matrix
    ask_sz: Matrix
    oldest: int = NEVER

    def __post_init__(self) -> None:
        rows = len(exact_array("stamps", self.stamps, np.int64, (None,)))
        offsets = exact_array("offsets", self.offsets, np.int64, (len(self.venues) + 1,))
        if offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
            raise InputError(f"offsets must rise from 0 to {rows}, the number of snapshots, was {offsets.tolist()}")
        exact_array("sequences", self.sequences, np.int64, (rows,))
        shape: tuple[int | None, ...] = (rows, None)
        for name in LEVEL_FIELDS:
            shape = exact_array(name, getattr(self, name), np.float64, shape).shape
        for first, last in itertools.pairwise(offsets):
            if (np.diff(self.stamps[first:last]) < 0).any():
                raise InputError("snapshots of a venue must be in the order of time, were not")

    @property
    def first(self) -> int:
        """The first moment at which every venue has shown a book."""
        begins = self.offsets[:-1][np.diff(self.offsets) > 0]
        return int(self.stamps[begins].max())

    @property
    def last(self) -> int:
        """The time of the last snapshot of all."""
        return int(self.stamps.max())

    def as_of(self, time: int) -> BooksNow:
        """The last snapshot of every venue that is not later than ``time``."""
        return BooksNow(*_as_of(self.offsets, self.stamps, *self._levels, self.oldest, int(time)))

    @property
    def _levels(self) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        return self.bid_px, self.bid_sz, self.ask_px, self.ask_sz

    def aged(self, seconds: float) -> DayBooks:
        """Return the same books, in which snapshots older than some seconds count as gone."""
        oldest = int(seconds * SECOND) if math.isfinite(real_number("seconds", seconds, above=0)) else NEVER
        return replace(self, oldest=oldest)

    def touches(self, times: Sequence[int] | Stamps) -> tuple[Floats, Floats]:
        """Best bid and best ask of all venues as of each of some times, ``(n,)``; NaN where a side shows nothing."""
        stamps = exact_array("times", np.asarray(times), np.int64, (None,))
        bids, asks = _touches(self.offsets, self.stamps, *self._levels, self.oldest, stamps)
        return bids, asks

    def mids(self, times: Sequence[int] | Stamps) -> Floats:
        """Consolidated mid as of each of some times, ``(n,)``; NaN where a side shows nothing."""
        bids, asks = self.touches(times)
        return (bids + asks) / 2

    def spreads(self, times: Sequence[int] | Stamps) -> Floats:
        """Best ask less best bid of all venues as of each of some times, ``(n,)``; NaN where a side shows nothing."""
        bids, asks = self.touches(times)
        return asks - bids


def day_books(tables: dict[str, polars.DataFrame], *, levels: int | None = None) -> DayBooks:
    """Put the snapshot tables of several venues together, at most ``levels`` deep if given."""
    if not tables:
        raise InputError("tables must hold at least one venue, was empty")
    list_of("tables", list(tables.values()), polars.DataFrame, "snapshot tables")
    depth = max(table_depth(table) for table in tables.values())
    depth = min(depth, whole_number("levels", levels)) if levels is not None else depth
    offsets = np.cumsum([0, *(table.height for table in tables.values())])
    arrays: dict[str, Matrix] = {}
    for name in LEVEL_FIELDS:
        values = np.full((int(offsets[-1]), depth), np.nan if name.endswith("px") else 0.0)
        for v, table in enumerate(tables.values()):
            for level in range(min(depth, table_depth(table))):
                column = table[f"{name}_{level:02d}"].cast(polars.Float64)
                filled = column.fill_null(float("nan") if name.endswith("px") else 0.0)
                values[offsets[v] : offsets[v + 1], level] = filled.to_numpy()
        arrays[name] = values
    stamps, sequences = (
        np.concatenate([table[name].cast(polars.Int64).to_numpy() for table in tables.values()])
        for name in ("ts_event", "sequence")
    )
    bid_px, bid_sz, ask_px, ask_sz = (arrays[name] for name in LEVEL_FIELDS)
    return DayBooks(tuple(tables), offsets, stamps, sequences, bid_px, bid_sz, ask_px, ask_sz)


@njit(cache=True)
def _row_at(stamps: Stamps, first: int, last: int, time: int) -> int:
    """Row of the last stamp in ``first`` to ``last`` that is at most ``time``; -1 if there is none."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if stamps[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > first else -1


@njit(cache=True)
def _as_of(
    offsets: Integers,
    stamps: Stamps,
    bid_px: Matrix,
    bid_sz: Matrix,
    ask_px: Matrix,
    ask_sz: Matrix,
    oldest: int,
    time: int,
) -> tuple[Matrix, Matrix, Matrix, Matrix, Integers, Integers]:
    venues, levels = len(offsets) - 1, bid_px.shape[1]
    prices = np.full((2, venues, levels), np.nan)
    sizes = np.zeros((2, venues, levels))
    ages, rows = np.full(venues, -1), np.full(venues, -1)
    for v in range(venues):
        row = _row_at(stamps, offsets[v], offsets[v + 1], time)
        if row >= 0:
            ages[v], rows[v] = time - stamps[row], row
            if ages[v] <= oldest:
                prices[0, v], sizes[0, v] = bid_px[row], bid_sz[row]
                prices[1, v], sizes[1, v] = ask_px[row], ask_sz[row]
    return prices[0], sizes[0], prices[1], sizes[1], ages, rows


@njit(cache=True)
def _touches(
    offsets: Integers,
    stamps: Stamps,
    bid_px: Matrix,
    bid_sz: Matrix,
    ask_px: Matrix,
    ask_sz: Matrix,
    oldest: int,
    times: Stamps,
) -> tuple[Floats, Floats]:
    bids, asks = np.full(len(times), np.nan), np.full(len(times), np.nan)
    for k in range(len(times)):
        for v in range(len(offsets) - 1):
            row = _row_at(stamps, offsets[v], offsets[v + 1], times[k])
            if row >= 0 and times[k] - stamps[row] <= oldest:
                if bid_sz[row, 0] > 0 and not bid_px[row, 0] <= bids[k]:
                    bids[k] = bid_px[row, 0]
                if ask_sz[row, 0] > 0 and not ask_px[row, 0] >= asks[k]:
                    asks[k] = ask_px[row, 0]
    return bids, asks


# Days made ready for backtests: books and queues of all venues as arrays on disk, shared by the processes that play.
#
# A folder holds one array per file, mapped into memory where it is used, and ``day.json``, which is written last: a
# folder without it is not finished.
#


RECORD = "day.json"
FORMAT = 2
_BOOK_ARRAYS = ("offsets", "stamps", "sequences", *LEVEL_FIELDS)


@dataclass(frozen=True, eq=False)
class PreparedDay:
    """Books of a day, and the queues of those venues whose events are known; None without any."""

    books: DayBooks
    queue: QueueReplay | None = None


def write_prepared_day(folder: Path, day: PreparedDay) -> Path:
    """Write a day into a folder, beside it first: nobody meets half a day."""
    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    for name in _BOOK_ARRAYS:
        np.save(beside / f"{name}.npy", getattr(day.books, name))
    flows = day.queue.flows if day.queue else {}
    for (venue, sign), flow in flows.items():
        np.save(beside / f"flow_{venue}_{sign}.npy", np.stack(flow))
    hidden = day.queue.hidden if day.queue else {}
    for venue, trades in hidden.items():
        np.save(beside / f"hidden_{venue}.npy", trades)
    record = {
        "format": FORMAT,
        "venues": list(day.books.venues),
        "flows": [list(key) for key in flows],
        "hidden": list(hidden),
        "pro_rata": day.queue.pro_rata if day.queue else [],
    }
    (beside / RECORD).write_text(json.dumps(record))
    shutil.rmtree(folder, ignore_errors=True)
    beside.replace(folder)
    return folder


def is_prepared_day(folder: Path) -> bool:
    """Whether a folder holds a whole day."""
    return (folder / RECORD).is_file()


def read_prepared_day(folder: Path) -> PreparedDay:
    """Return the day of a folder, without reading more of it than is looked at."""
    try:
        record = json.loads((folder / RECORD).read_text())
        if record["format"] != FORMAT:
            raise DataError(f"{folder} must be of format {FORMAT}, was {record['format']!r}")
        arrays = {name: _mapped(folder / f"{name}.npy") for name in _BOOK_ARRAYS}
        books = DayBooks(tuple(record["venues"]), **arrays)
        flows = {
            (venue, sign): QueueEvents(*_mapped(folder / f"flow_{venue}_{sign}.npy")) for venue, sign in record["flows"]
        }
        rules = [rule for _, rule in zip(books.venues, record["pro_rata"], strict=bool(flows))]
        hidden = {int(venue): _mapped(folder / f"hidden_{venue}.npy") for venue in record["hidden"]}
        queue = QueueReplay.of_flows(books, flows, rules, hidden) if flows else None
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        text = one_line_error(error)
        raise DataError(f"{folder} must hold a day that was made ready for backtests: {text}") from error
    return PreparedDay(books, queue)


def _mapped(path: Path) -> Any:
    """An array on disk; changes to it stay in this process."""
    return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
