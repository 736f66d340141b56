"""Books of one symbol and day at all venues, looked up as of a time without look-ahead; prepared days on disk.

A prepared day is a folder with one array per file, memory-mapped by the processes that replay it, and ``day.json``,
which is written last: a folder without it is incomplete.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Stamps
from riskroute.core.errors import DataError, InputError
from riskroute.core.text import one_line_text
from riskroute.core.validation import exact_array, real_number, valid_list, whole_number
from riskroute.market.clock import SECOND
from riskroute.market.day_trades import DayTrades
from riskroute.market.queue_fills import QueueEvents, QueueReplay
from riskroute.market.queue_models import QueueTrades
from riskroute.market.schema import LEVEL_FIELDS, schema_depth

_BOOK_ARRAYS = ("offsets", "stamps", "sequences", *LEVEL_FIELDS)


class _BooksNow(NamedTuple):
    """Books of all venues at one time: prices and sizes ``(V, L)``, NaN and 0 for absent levels and stale books."""

    bid_px: Matrix
    bid_sz: Matrix
    ask_px: Matrix
    ask_sz: Matrix
    ages: Integers  # ``(V,)``, nanoseconds since each venue's last snapshot, -1 before its first one
    rows: Integers  # ``(V,)``, rows of these snapshots in `DayBooks`


class _DayArrays(NamedTuple):
    """The arrays of `DayBooks`, for compiled functions."""

    offsets: Integers
    stamps: Stamps
    bid_px: Matrix
    bid_sz: Matrix
    ask_px: Matrix
    ask_sz: Matrix
    oldest: int


@dataclass(frozen=True, eq=False)
class DayBooks:
    """All snapshots of a day, venue by venue.

    Snapshots ``offsets[v]`` to ``offsets[v + 1]`` belong to venue ``v`` of ``V``, sorted by time. ``stamps (N,)`` are
    their times in UTC nanoseconds, ``sequences (N,)`` the sequence numbers of their messages. Prices and sizes are
    ``(N, L)``, best level first; NaN and 0 for absent levels. ``oldest`` is the age in nanoseconds beyond which a
    snapshot is stale.

    >>> table = polars.DataFrame(
    ...     {"ts_event": [100, 300], "sequence": [1, 2], "bid_px_00": [9.0, 9.5], "bid_sz_00": [5, 6],
    ...      "ask_px_00": [10.0, 10.0], "ask_sz_00": [7, 8]}
    ... )
    >>> day = DayBooks.of_tables({"XNAS": table})
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
    oldest: int = 2**62

    def __post_init__(self) -> None:
        rows = len(exact_array("stamps", self.stamps, np.int64, (None,)))
        offsets = exact_array("offsets", self.offsets, np.int64, (len(self.venues) + 1,))
        if offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
            raise InputError(f"offsets must ascend from 0 to {rows}, the number of snapshots, was {offsets.tolist()}")
        exact_array("sequences", self.sequences, np.int64, (rows,))
        shape: tuple[int | None, ...] = (rows, None)
        for name in LEVEL_FIELDS:
            shape = exact_array(name, getattr(self, name), np.float64, shape).shape
        for first, last in itertools.pairwise(offsets):
            if (np.diff(self.stamps[first:last]) < 0).any():
                raise InputError("snapshots of a venue must be sorted by time")

    @classmethod
    def of_tables(cls, tables: dict[str, polars.DataFrame], *, levels: int | None = None) -> Self:
        """Combine the snapshot tables of several venues; keep the best ``levels`` (default: all)."""
        if not tables:
            raise InputError("tables must have at least one venue, was empty")
        valid_list("tables", list(tables.values()), polars.DataFrame, "snapshot tables")
        depth = max(schema_depth(table) for table in tables.values())
        depth = min(depth, whole_number("levels", levels)) if levels is not None else depth
        offsets = np.cumsum([0, *(table.height for table in tables.values())])
        arrays: dict[str, Matrix] = {}
        for name in LEVEL_FIELDS:
            values = np.full((int(offsets[-1]), depth), np.nan if name.endswith("px") else 0.0)
            for v, table in enumerate(tables.values()):
                for level in range(min(depth, schema_depth(table))):
                    column = table[f"{name}_{level:02d}"].cast(polars.Float64)
                    filled = column.fill_null(float("nan") if name.endswith("px") else 0.0)
                    values[offsets[v] : offsets[v + 1], level] = filled.to_numpy()
            arrays[name] = values
        stamps, sequences = (
            np.concatenate([table[name].cast(polars.Int64).to_numpy() for table in tables.values()])
            for name in ("ts_event", "sequence")
        )
        bid_px, bid_sz, ask_px, ask_sz = (arrays[name] for name in LEVEL_FIELDS)
        return cls(tuple(tables), offsets, stamps, sequences, bid_px, bid_sz, ask_px, ask_sz)

    @property
    def first(self) -> int:
        """The time of the latest of the venues' first snapshots, in UTC nanoseconds."""
        begins = self.offsets[:-1][np.diff(self.offsets) > 0]
        return int(self.stamps[begins].max())

    @property
    def last(self) -> int:
        """The time of the last snapshot, in UTC nanoseconds."""
        return int(self.stamps.max())

    def as_of(self, time: int) -> _BooksNow:
        """Return the last snapshot of every venue at or before ``time``."""
        return _BooksNow(*_as_of(self._arrays, int(time)))

    def opposite(self, time: int, sign: int) -> tuple[Matrix, Matrix, Integers]:
        """Return prices, sizes ``(V, L)`` and rows of the asks (``sign`` 1) or bids (-1) as of ``time``."""
        now = self.as_of(time)
        return (now.ask_px, now.ask_sz, now.rows) if sign > 0 else (now.bid_px, now.bid_sz, now.rows)

    @cached_property
    def _arrays(self) -> _DayArrays:
        return _DayArrays(*(getattr(self, name) for name in _DayArrays._fields))

    def aged(self, seconds: float) -> DayBooks:
        """Return the same books, with snapshots older than ``seconds`` treated as stale."""
        oldest = int(seconds * SECOND) if math.isfinite(real_number("seconds", seconds, above=0)) else 2**62
        return replace(self, oldest=oldest)

    def touches(self, times: Sequence[int] | Stamps) -> tuple[Floats, Floats]:
        """Return the best bid and offer over all venues at each time, ``(n,)``; NaN where a side is empty."""
        stamps = exact_array("times", np.asarray(times), np.int64, (None,))
        bids, asks = _touches(self._arrays, stamps)
        return bids, asks

    def mids(self, times: Sequence[int] | Stamps) -> Floats:
        """Return the consolidated mid at each time, ``(n,)``; NaN where a side is empty."""
        bids, asks = self.touches(times)
        return (bids + asks) / 2

    def spreads(self, times: Sequence[int] | Stamps) -> Floats:
        """Return the consolidated spread at each time, ``(n,)``; NaN where a side is empty."""
        bids, asks = self.touches(times)
        return asks - bids

    def mean_mids(self, begins: Stamps, ends: Stamps) -> Floats:
        """Return the time-weighted average of the consolidated mid from each begin to its end, ``(n,)``.

        Only times at which both sides have a price count; NaN if there are none. If begin and end are equal, the
        average is the mid at that time.
        """
        return np.asarray(_mean_mids(self._arrays, begins, ends))


@njit(cache=True)
def _row_at(stamps: Stamps, first: int, last: int, time: int) -> int:
    """Return the row of the last stamp at or before ``time`` in rows ``first`` to ``last - 1``; -1 if none."""
    count = np.searchsorted(stamps[first:last], time, side="right")
    return int(first + count - 1) if count else -1


@njit(cache=True)
def _as_of(day: _DayArrays, time: int) -> tuple[Matrix, Matrix, Matrix, Matrix, Integers, Integers]:
    venues, levels = len(day.offsets) - 1, day.bid_px.shape[1]
    prices = np.full((2, venues, levels), np.nan)
    sizes = np.zeros((2, venues, levels))
    ages, rows = np.full(venues, -1), np.full(venues, -1)
    for v in range(venues):
        row = _row_at(day.stamps, day.offsets[v], day.offsets[v + 1], time)
        if row >= 0:
            ages[v], rows[v] = time - day.stamps[row], row
            if ages[v] <= day.oldest:
                prices[0, v], sizes[0, v] = day.bid_px[row], day.bid_sz[row]
                prices[1, v], sizes[1, v] = day.ask_px[row], day.ask_sz[row]
    return prices[0], sizes[0], prices[1], sizes[1], ages, rows


@njit(cache=True)
def _touches(day: _DayArrays, times: Stamps) -> tuple[Floats, Floats]:
    bids, asks = np.full(len(times), np.nan), np.full(len(times), np.nan)
    for k in range(len(times)):
        for v in range(len(day.offsets) - 1):
            row = _row_at(day.stamps, day.offsets[v], day.offsets[v + 1], times[k])
            if row >= 0 and times[k] - day.stamps[row] <= day.oldest:
                # Negated comparisons, because the best so far is NaN before the first venue.
                if day.bid_sz[row, 0] > 0 and not day.bid_px[row, 0] <= bids[k]:
                    bids[k] = day.bid_px[row, 0]
                if day.ask_sz[row, 0] > 0 and not day.ask_px[row, 0] >= asks[k]:
                    asks[k] = day.ask_px[row, 0]
    return bids, asks


@njit(cache=True)
def _mean_mids(day: _DayArrays, begins: Stamps, ends: Stamps) -> Floats:
    venues, found = len(day.offsets) - 1, np.full(len(begins), np.nan)
    rows, changes = np.zeros(venues, dtype=np.int64), np.zeros(venues, dtype=np.int64)
    bids, asks = np.zeros(venues), np.zeros(venues)
    for k in range(len(begins)):
        for v in range(venues):
            rows[v] = max(_row_at(day.stamps, day.offsets[v], day.offsets[v + 1], begins[k]), day.offsets[v] - 1)
            bids[v], asks[v], changes[v] = _quote(day, v, rows[v], begins[k])
        time, first, moved, known = begins[k], np.nan, 0.0, 0
        while True:
            bid, ask, until, changing = -np.inf, np.inf, ends[k], -1  # the quotes hold until the next change of one
            for v in range(venues):
                bid, ask = max(bid, bids[v]), min(ask, asks[v])
                if changes[v] < until:
                    until, changing = changes[v], v
            if bid > -np.inf and ask < np.inf:
                mid = (bid + ask) / 2
                first = mid if known == 0 else first
                moved += (mid - first) * (until - time)  # moves, not prices, so that less is lost to rounding
                known += until - time
            if changing < 0:
                break
            v, time = changing, until
            while rows[v] + 1 < day.offsets[v + 1] and day.stamps[rows[v] + 1] <= time:
                rows[v] += 1
            bids[v], asks[v], changes[v] = _quote(day, v, rows[v], time)
        found[k] = first + moved / known if known > 0 else first
    return found


@njit(cache=True)
def _quote(day: _DayArrays, venue: int, row: int, time: int) -> tuple[float, float, int]:
    """Return the best bid and ask of a venue (infinite if absent), and the time at which they are replaced or stale."""
    bid, ask, change = -np.inf, np.inf, 2**62
    if row + 1 < day.offsets[venue + 1]:
        change = day.stamps[row + 1]
    if row >= day.offsets[venue] and time - day.stamps[row] <= day.oldest:
        change = min(change, day.stamps[row] + day.oldest + 1)
        bid = day.bid_px[row, 0] if day.bid_sz[row, 0] > 0 else bid
        ask = day.ask_px[row, 0] if day.ask_sz[row, 0] > 0 else ask
    return bid, ask, change


@dataclass(frozen=True, eq=False)
class PreparedDayBooks:
    """Books of a day, the queues of the venues with events, and the public trades; None where there are none."""

    RECORD: ClassVar[str] = "day.json"
    FORMAT: ClassVar[int] = 4

    books: DayBooks
    queue: QueueReplay | None = None
    trades: DayTrades | None = None

    def write(self, folder: Path) -> Path:
        """Write the day under a temporary name and rename it, so that no process reads an incomplete day."""
        beside = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for name in _BOOK_ARRAYS:
            np.save(beside / f"{name}.npy", getattr(self.books, name))
        flows = self.queue.flows if self.queue else {}
        for (venue, sign), flow in flows.items():
            np.save(beside / f"flow_{venue}_{sign}.npy", np.stack(flow))
        matched = self.queue.matched if self.queue else {}
        for (venue, sign), some in matched.items():
            np.save(beside / f"trades_{venue}_{sign}.npy", np.stack(some))
        hidden = self.queue.hidden if self.queue else {}
        for venue, trades in hidden.items():
            np.save(beside / f"hidden_{venue}.npy", trades)
        for name, column in self.trades._asdict().items() if self.trades else ():
            np.save(beside / f"tape_{name}.npy", column)
        record = {
            "format": self.FORMAT,
            "venues": list(self.books.venues),
            "flows": [list(key) for key in flows],
            "trades": [list(key) for key in matched],
            "estimated": list(self.queue.estimated) if self.queue else [],
            "hidden": list(hidden),
            "tape": self.trades is not None,
            "pro_rata": self.queue.pro_rata if self.queue else [],
        }
        (beside / self.RECORD).write_text(json.dumps(record))
        shutil.rmtree(folder, ignore_errors=True)
        beside.replace(folder)
        return folder

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Return whether a folder holds a complete day."""
        return (folder / cls.RECORD).is_file()

    @classmethod
    def record(cls, folder: Path) -> Any:
        """Return the record that `write` stored in a folder; raise `DataError` if there is none of this format.

        ``estimated`` names the venues without exact queue positions, ``tape`` is whether there are public trades.
        """
        try:
            record = json.loads((folder / cls.RECORD).read_text())
            if record["format"] != cls.FORMAT:
                raise DataError(
                    f"{folder} must have format {cls.FORMAT}, has {record['format']!r}; prepare the day again"
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = one_line_text(error)
            raise DataError(f"{folder} must hold a day prepared for backtests: {text}") from error
        return record

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the day in a folder, memory-mapped."""
        record = cls.record(folder)
        try:
            arrays = {name: _mapped(folder / f"{name}.npy") for name in _BOOK_ARRAYS}
            books = DayBooks(tuple(record["venues"]), **arrays)
            flows = {
                (venue, sign): QueueEvents(*_mapped(folder / f"flow_{venue}_{sign}.npy"))
                for venue, sign in record["flows"]
            }
            matched = {
                (venue, sign): QueueTrades(*_mapped(folder / f"trades_{venue}_{sign}.npy"))
                for venue, sign in record["trades"]
            }
            rules = [rule for _, rule in zip(books.venues, record["pro_rata"], strict=bool(flows or matched))]
            hidden = {int(venue): _mapped(folder / f"hidden_{venue}.npy") for venue in record["hidden"]}
            queue = QueueReplay.of_flows(books, flows, rules, hidden, matched) if flows or matched else None
            tape = [_mapped(folder / f"tape_{name}.npy") for name in DayTrades._fields] if record["tape"] else None
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            text = one_line_text(error)
            raise DataError(f"{folder} must hold a day prepared for backtests: {text}") from error
        return cls(books, queue, None if tape is None else DayTrades(*tape))


def _mapped(path: Path) -> Any:
    """Map an array copy-on-write: changes stay in this process."""
    return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
