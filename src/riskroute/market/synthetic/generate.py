"""A synthetic market of correlated stocks on different venues, written as NASDAQ ITCH 5.0 files.

Everything is determined by the seed and by names: the orders of a stock do not depend on the other stocks or venues.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from riskroute.core.arrays import Integers
from riskroute.core.errors import InputError, shown
from riskroute.core.files import write_whole
from riskroute.core.validation import function_of, path_of, real_number, whole_number
from riskroute.market.clock import SECOND, utc_stamp
from riskroute.market.synthetic.itch_writer import (
    OrderMessages,
    encode_messages,
    stock_directory,
    system_event,
    trading_begins,
)
from riskroute.market.synthetic.order_flow import COLUMN, MESSAGE, venue_messages
from riskroute.market.synthetic.venues import DEFAULT_VENUES, SyntheticVenue

DEFAULT_SYMBOLS = ("QVEX", "ZORN", "XALT")

Progress = Callable[[str, int, int], None]


def generate_market(
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    symbols: Sequence[str] = DEFAULT_SYMBOLS,
    hours: tuple[dt.time, dt.time] = (dt.time(10, 30), dt.time(13, 30)),
    date: dt.date = dt.date(2019, 3, 27),
    rate: float = 1.0,
    venues: Sequence[SyntheticVenue] = DEFAULT_VENUES,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a synthetic market to the folder ``out``, one file per venue; return the paths.

    Parameters
    ----------
    symbols : Sequence[str]
        Names of stocks. An unknown name gets a starting price that depends on it and on ``seed``.
    hours : tuple[dt.time, dt.time]
        Begin and end in New York time; books start empty.
    rate : float
        Factor on the number of messages.
    progress : Progress, optional
        Called with venue and symbol, the number done and the total.
    """
    names = _checked(seed, symbols, hours, date, venues)
    if progress is not None:
        function_of("progress", progress)
    scaled = real_number("rate", rate, minimum=0.001, maximum=100)
    midnight = utc_stamp(date, dt.time(0))
    begin, end = (utc_stamp(date, moment) - midnight for moment in hours)
    folder = _folder(out)
    paths = []
    for done, venue in enumerate(venues):
        parts = []
        for symbol in names:
            parts.append(venue_messages(seed, venue, symbol, begin, end, scaled))
            if progress is not None:
                progress(f"{venue.name} {symbol}", done * len(names) + len(parts), len(venues) * len(names))
        blocks = _file(names, parts, begin, end)
        paths.append(write_whole(folder / date.strftime(venue.file_name), partial(_write, blocks)))
    return paths


def _checked(
    seed: int,
    symbols: Sequence[str],
    hours: tuple[dt.time, dt.time],
    date: dt.date,
    venues: Sequence[SyntheticVenue],
) -> tuple[str, ...]:
    whole_number("seed", seed, minimum=0)
    names = (symbols,) if isinstance(symbols, str) or not isinstance(symbols, Sequence) else tuple(symbols)
    for name in names:
        if not (isinstance(name, str) and re.fullmatch("[A-Z0-9.]{1,8}", name)):
            raise InputError(f"symbols must have 1 to 8 capital letters, digits or dots each, was {shown(name)}")
    if not names or len(set(names)) < len(names) or len(names) > 1000:
        raise InputError(f"symbols must be 1 to 1,000 distinct names, was {list(names)}")
    moments = tuple(hours) if isinstance(hours, Sequence) else ()
    plain = len(moments) == 2 and all(isinstance(moment, dt.time) and moment.tzinfo is None for moment in moments)
    if not (plain and moments[0] < moments[1]):
        raise InputError(f"hours must be two ascending times without a zone, was {shown(hours)}")
    if not isinstance(date, dt.date) or not 1970 < date.year < 2200:
        raise InputError(f"date must be from 1971 to 2199, was {shown(date)}")
    some = isinstance(venues, Sequence) and len(venues) > 0
    if not (some and all(isinstance(venue, SyntheticVenue) for venue in venues)):
        raise InputError(f"venues must be one or more SyntheticVenue, was {shown(venues)}")
    for field, values in (
        ("name", [venue.name for venue in venues]),
        ("file_name", [date.strftime(venue.file_name) for venue in venues]),
    ):
        if len(set(values)) < len(values):
            raise InputError(f"venues must differ in {field}, was {values}")
    return names


def _folder(out: str | os.PathLike[str]) -> Path:
    folder = path_of("out", out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out must be a writable folder, was {out!r}") from error
    return folder


def _write(blocks: Iterator[bytes], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(blocks)


def _file(symbols: Sequence[str], parts: list[Integers], begin: int, end: int) -> Iterator[bytes]:
    """Yield the blocks of a file: start of day, the messages of all symbols by time, end of day.

    ``parts`` is emptied to save memory.
    """
    yield system_event(begin, "O")
    yield from (stock_directory(begin, locate, symbol) for locate, symbol in enumerate(symbols, 1))
    yield system_event(begin, "S")
    yield from (trading_begins(begin, locate, symbol) for locate, symbol in enumerate(symbols, 1))
    locates = np.repeat(np.arange(1, len(parts) + 1), [len(part) for part in parts])
    rows = np.concatenate(parts)
    parts.clear()
    order = np.argsort(rows[:, COLUMN.time], kind="stable")
    rows, locates = rows[order], locates[order]
    opening, closing = int(9.5 * 3600 * SECOND), min(max(16 * 3600 * SECOND, begin), end)  # regular session
    first, last = np.searchsorted(rows[:, COLUMN.time], [opening, closing])
    encoded = partial(_blocks, rows, locates, _references(rows, locates), _matches(rows), np.array(symbols, dtype="S8"))
    yield from encoded(0, first)
    if begin <= opening < end:
        yield system_event(opening, "Q")
    yield from encoded(first, last)
    yield system_event(closing, "M")
    yield from encoded(last, len(rows))
    yield from (system_event(end, event) for event in "EC")


def _references(rows: Integers, locates: Integers) -> Integers:
    """Return the references of each message's order and of the order it replaces, ``(n, 2)``, 0 for none.

    Orders are numbered through the file as they arrive.
    """
    created = np.flatnonzero(np.isin(rows[:, COLUMN.kind], (MESSAGE.add, MESSAGE.attributed, MESSAGE.replace)))
    found = np.zeros((len(rows), 2), dtype=np.int64)
    for locate in range(1, locates.max(initial=0) + 1):
        references = 1 + np.flatnonzero(locates[created] == locate)
        mine = np.flatnonzero(locates == locate)
        for column, field in enumerate((COLUMN.order, COLUMN.old)):
            wanted = rows[mine, field]
            found[mine, column] = np.where(wanted >= 0, references[wanted], 0)
    return found


def _matches(rows: Integers) -> Integers:
    """Return match numbers ``(n,)``: trades are numbered through the file."""
    return np.cumsum(np.isin(rows[:, COLUMN.kind], (MESSAGE.execute, MESSAGE.execute_at, MESSAGE.trade)))


def _blocks(
    rows: Integers,
    locates: Integers,
    references: Integers,
    matches: Integers,
    stocks: NDArray[np.bytes_],
    first: int,
    last: int,
) -> Iterator[bytes]:
    members = np.array([b"MKRA", b"MKRB", b"MKRC", b"MKRD"])
    for begin in range(first, last, 1 << 17):
        some = slice(begin, min(begin + (1 << 17), last))
        yield encode_messages(
            OrderMessages(
                time=rows[some, COLUMN.time],
                kind=rows[some, COLUMN.kind],
                locate=locates[some],
                side=rows[some, COLUMN.side],
                price=rows[some, COLUMN.price] * 100,  # ten-thousandths of a dollar
                shares=rows[some, COLUMN.size],
                reference=references[some, 0],
                old_reference=references[some, 1],
                match=matches[some],
                stock=stocks[locates[some] - 1],
                attribution=members[references[some, 0] % len(members)],
            )
        )
