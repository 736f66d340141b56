"""Days made ready for backtests: books and queues of all venues as arrays on disk, shared by the processes that play.

A folder holds one array per file, mapped into memory where it is used, and ``day.json``, which is written last: a
folder without it is not finished.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.errors import DataError, one_line_error
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.queue_position import QueueEvents
from riskroute.market.schema import LEVEL_FIELDS

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
