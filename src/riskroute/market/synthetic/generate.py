"""A synthetic market of correlated stocks on different venues, written as NASDAQ ITCH 5.0 files.

The orders of a stock at a venue do not depend on the other stocks and venues of the market, so adding stocks or venues
does not change them.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskroute.core.arrays import Integers
from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_whole
from riskroute.core.text import shown
from riskroute.core.validation import if_given, real_number, valid_function, whole_number
from riskroute.market.clock import SECOND, clock_stamp
from riskroute.market.synthetic.order_flow import COLUMN, MESSAGE, order_flow_messages
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
        Names of stocks. An unknown name gets a starting price that depends on the name and on ``seed``.
    hours : tuple[dt.time, dt.time]
        Begin and end in New York time; books are empty at the beginning.
    rate : float
        Factor by which the number of messages is multiplied.
    progress : Progress, optional
        Called after each symbol of a venue, with ``VENUE SYMBOL``, the number of finished pairs, and their total.
    """
    names = _checked(seed, symbols, hours, date, venues)
    if_given(valid_function, "progress", progress)
    scaled = real_number("rate", rate, minimum=0.001, maximum=100)
    midnight = clock_stamp(date, dt.time(0))
    begin, end = (clock_stamp(date, moment) - midnight for moment in hours)
    folder, paths = writable_folder("out", out), []
    for done, venue in enumerate(venues):
        parts = []
        for symbol in names:
            parts.append(order_flow_messages(seed, venue, symbol, begin, end, scaled))
            if progress is not None:
                progress(f"{venue.name} {symbol}", done * len(names) + len(parts), len(venues) * len(names))
        blocks = _file(names, parts, begin, end)
        paths.append(write_whole(folder / date.strftime(venue.file_name), partial(_write, blocks)))
    return paths


def _checked(
    seed: int, symbols: Sequence[str], hours: tuple[dt.time, dt.time], date: dt.date, venues: Sequence[SyntheticVenue]
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
    given = venues if isinstance(venues, Sequence) else ()
    if not given or not all(isinstance(venue, SyntheticVenue) for venue in given):
        raise InputError(f"venues must be one or more SyntheticVenue, was {shown(venues)}")
    for field, values in (
        ("name", [venue.name for venue in venues]),
        ("file_name", [date.strftime(venue.file_name) for venue in venues]),
    ):
        if len(set(values)) < len(values):
            raise InputError(f"{field} must be distinct across venues, was {values}")
    return names


def _write(blocks: Iterator[bytes], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(blocks)


def _file(symbols: Sequence[str], parts: list[Integers], begin: int, end: int) -> Iterator[bytes]:
    """Yield the contents of a file in blocks: start of day, the messages of all symbols by time, end of day."""
    yield _system_event(begin, "O")
    yield from (_stock_directory(begin, locate, symbol) for locate, symbol in enumerate(symbols, 1))
    yield _system_event(begin, "S")
    yield from (_trading_begins(begin, locate, symbol) for locate, symbol in enumerate(symbols, 1))
    locates = np.repeat(np.arange(1, len(parts) + 1), [len(part) for part in parts])
    rows = np.concatenate(parts)
    parts.clear()  # frees memory: ``rows`` is a copy
    order = np.argsort(rows[:, COLUMN.time], kind="stable")
    rows, locates = rows[order], locates[order]
    opening, closing = int(9.5 * 3600 * SECOND), min(max(16 * 3600 * SECOND, begin), end)  # regular session
    first, last = np.searchsorted(rows[:, COLUMN.time], [opening, closing])
    matches: Integers = np.cumsum(np.isin(rows[:, COLUMN.kind], (MESSAGE.execute, MESSAGE.execute_at, MESSAGE.trade)))
    encoded = partial(_blocks, rows, locates, _references(rows, locates), matches, np.array(symbols, dtype="S8"))
    yield from encoded(0, first)
    if begin <= opening < end:
        yield _system_event(opening, "Q")
    yield from encoded(first, last)
    yield _system_event(closing, "M")
    yield from encoded(last, len(rows))
    yield from (_system_event(end, event) for event in "EC")


def _references(rows: Integers, locates: Integers) -> Integers:
    """Return the reference numbers of each message's order and of the order that it replaces, ``(n, 2)``; 0 if none."""
    created = np.flatnonzero(np.isin(rows[:, COLUMN.kind], (MESSAGE.add, MESSAGE.attributed, MESSAGE.replace)))
    found = np.zeros((len(rows), 2), dtype=np.int64)
    for locate in range(1, locates.max(initial=0) + 1):
        references = 1 + np.flatnonzero(locates[created] == locate)
        mine = np.flatnonzero(locates == locate)
        for column, field in enumerate((COLUMN.order, COLUMN.old)):
            wanted = rows[mine, field]
            found[mine, column] = np.where(wanted >= 0, references[wanted], 0)
    return found


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
        part, numbers = rows[some], references[some]
        fields = {"time": part[:, COLUMN.time], "kind": part[:, COLUMN.kind], "side": part[:, COLUMN.side]}
        fields |= {"price": part[:, COLUMN.price] * 100, "shares": part[:, COLUMN.size]}  # 1e-4 dollars
        fields |= {"locate": locates[some], "reference": numbers[:, 0], "old_reference": numbers[:, 1]}
        texts = {"stock": stocks[locates[some] - 1], "attribution": members[numbers[:, 0] % len(members)]}
        yield _encode_messages(fields | {"match": matches[some]} | texts)


# Fields of each message type after the header that all types share; big-endian NumPy types.
_ITCH_FIELDS = {
    "S": "event:S1",
    "R": "stock:S8 market_category:S1 financial_status:S1 round_lot:>u4 round_lots_only:S1 classification:S1 "
    "subtype:S2 authenticity:S1 short_sale_threshold:S1 new_issue:S1 price_tier:S1 exchange_traded:S1 "
    "leverage:>u4 inverse:S1",
    "H": "stock:S8 state:S1 reserved:S1 reason:S4",
    "A": "reference:>u8 side:S1 shares:>u4 stock:S8 price:>u4",
    "F": "reference:>u8 side:S1 shares:>u4 stock:S8 price:>u4 attribution:S4",
    "E": "reference:>u8 shares:>u4 match:>u8",
    "C": "reference:>u8 shares:>u4 match:>u8 printable:S1 price:>u4",
    "X": "reference:>u8 shares:>u4",
    "D": "reference:>u8",
    "U": "old_reference:>u8 reference:>u8 shares:>u4 price:>u4",
    "P": "reference:>u8 side:S1 shares:>u4 stock:S8 price:>u4 match:>u8",
}


_HEAD = "length:>u2 kind:S1 locate:>u2 tracking:>u2 time_high:>u2 time_low:>u4 "
_LAYOUTS = {
    kind: np.dtype([(name, form) for name, form in (field.split(":") for field in (_HEAD + fields).split())])
    for kind, fields in _ITCH_FIELDS.items()
}


def _encode_messages(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Encode messages given as one column per field; a message type ignores fields that it does not have.

    >>> kind, time, one = np.array([ord("D")]), np.array([19]), np.array([1])
    >>> _encode_messages({"kind": kind, "time": time, "locate": one, "reference": one}).hex(" ")
    '00 13 44 00 01 00 00 00 00 00 00 00 13 00 00 00 00 00 00 00 01'
    """
    kinds = columns["kind"]
    lengths = np.zeros(len(kinds), dtype=np.int64)
    chosen = {kind: np.flatnonzero(kinds == ord(kind)) for kind in "AFECXDUP"}
    for kind, rows in chosen.items():
        lengths[rows] = _LAYOUTS[kind].itemsize
    starts = np.cumsum(lengths) - lengths
    whole = np.zeros(lengths.sum(), dtype=np.uint8)
    for kind, rows in chosen.items():
        if len(rows):
            parts = _filled(kind, {name: column[rows] for name, column in columns.items()})
            whole[starts[rows, None] + np.arange(parts.itemsize)] = parts.view(np.uint8).reshape(len(rows), -1)
    return whole.tobytes()


def _filled(kind: str, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.void]:
    parts = _headed(kind, columns["time"], columns["locate"])
    names = _LAYOUTS[kind].names or ()
    for name in ("price", "shares", "reference", "old_reference", "match", "stock", "attribution"):
        if name in names:
            value = columns[name]
            parts[name] = np.char.ljust(value, _LAYOUTS[kind][name].itemsize) if value.dtype.kind == "S" else value
    if "side" in names:
        parts["side"] = np.where(columns["side"] == 0, b"B", b"S")
    if "printable" in names:
        parts["printable"] = b"Y"
    return parts


def _headed(kind: str, time: Integers, locate: Integers) -> NDArray[np.void]:
    parts = np.zeros(len(time), dtype=_LAYOUTS[kind])
    parts["length"], parts["kind"], parts["locate"] = parts.itemsize - 2, kind.encode(), locate
    parts["time_high"], parts["time_low"] = time >> 32, time & 0xFFFFFFFF
    return parts


def _system_event(time: int, event: str) -> bytes:
    """Encode a system event, which starts or ends messages (O, C), system hours (S, E) or market hours (Q, M).

    >>> _system_event(5, "O").hex(" ", 1)
    '00 0c 53 00 00 00 00 00 00 00 00 00 05 4f'
    """
    parts = _headed("S", np.array([time]), np.array([0]))
    parts["event"] = event.encode()
    return parts.tobytes()


def _stock_directory(time: int, locate: int, stock: str) -> bytes:
    """Encode the directory entry of a common stock in round lots of 100."""
    parts = _headed("R", np.array([time]), np.array([locate]))
    fields = {"stock": stock.ljust(8), "market_category": "Q", "financial_status": "N", "round_lots_only": "N"}
    fields |= {"classification": "C", "subtype": "Z ", "authenticity": "P", "short_sale_threshold": "N"}
    fields |= {"new_issue": "N", "price_tier": "1", "exchange_traded": "N", "inverse": "N"}
    for name, text in fields.items():
        parts[name] = text.encode()
    parts["round_lot"] = 100
    return parts.tobytes()


def _trading_begins(time: int, locate: int, stock: str) -> bytes:
    parts = _headed("H", np.array([time]), np.array([locate]))
    parts["stock"], parts["state"], parts["reserved"], parts["reason"] = stock.ljust(8).encode(), b"T", b" ", b"    "
    return parts.tobytes()
