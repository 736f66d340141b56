"""What files of book updates have in common: rows that are checked, and their columns as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars

from riskroute.core.errors import DataError
from riskroute.market.readers.level_book import LevelUpdates

UPDATE_SCHEMA = {
    "stamp": polars.Int64,
    "number": polars.Int64,
    "group": polars.Int64,
    "reset": polars.Boolean,
    "bid": polars.Boolean,
    "price": polars.Float64,
    "size": polars.Float64,
}
"""Columns of updates, as `LevelUpdates` has them: UTC nanoseconds, row or line, message, a level with its new size."""


class BookUpdates(NamedTuple):
    """Updates of one book, and how often some were missing before them."""

    venue: str
    symbol: str
    updates: LevelUpdates
    gaps: int


class UpdateFile(Protocol):
    """A file of book updates: the time of its first one (UTC nanoseconds, None if not told), and names of symbols."""

    first: int | None
    names: dict[str, None]

    def pieces(self, begin: int, end: int) -> Iterator[BookUpdates]:
        """Updates of the symbols that are asked for; refuses times outside of a day, but for a recorder's clock."""


class UpdateCheck:
    """Refuses rows that are no updates, or out of the order of time; ``word`` is what a row is called.

    Rows may be ``spill`` nanoseconds outside of the day from ``begin`` to ``end``.
    """

    def __init__(self, source: Path, word: str, begin: int, end: int, spill: int = 0) -> None:
        self.source, self.word, self.begin, self.end, self.spill = source, word, begin, end, spill
        self.latest = 0

    def times(self, frame: polars.DataFrame) -> None:
        """Look at ``stamp`` of all rows."""
        stamp = polars.col("stamp")
        before = stamp.shift(1).fill_null(self.latest)
        self._refuse(frame, "stamp", "a time", stamp.is_null())
        self._refuse(frame, "stamp", f"a time not before that of the {self.word} above", stamp < before)
        day = f"a time from {_time(self.begin)} on and before {_time(self.end)}, the day of the first"
        inside = stamp.is_between(self.begin - self.spill, self.end + self.spill, closed="left")
        self._refuse(frame, "stamp", day, ~inside)
        self.latest = int(frame["stamp"][-1]) if frame.height else self.latest

    def levels(self, frame: polars.DataFrame) -> None:
        """Look at ``bid``, ``price`` and ``size`` of the rows that are wanted."""
        price, size = polars.col("price"), polars.col("size")
        self._refuse(frame, "side", "bid or ask as side", polars.col("bid").is_null())
        self._refuse(frame, "price", "a price above 0", ~((price > 0) & price.is_finite()).fill_null(False))
        self._refuse(frame, "size", "an amount of 0 or more", ~((size >= 0) & size.is_finite()).fill_null(False))

    def _refuse(self, frame: polars.DataFrame, name: str, expected: str, rule: polars.Expr) -> None:
        odd = frame.filter(rule)
        if odd.height:
            value = odd[name][0] if name in odd.columns else None
            was = _time(value) if name == "stamp" and value is not None else repr(value)
            where = f"{self.word} {odd['number'][0]} of {self.source.name}"
            raise DataError(f"{where} must have {expected}, was {was}")


def update_arrays(frame: polars.DataFrame) -> LevelUpdates:
    """The columns of `UPDATE_SCHEMA` as arrays."""
    arrays: list[Any] = [frame[name].cast(kind).to_numpy() for name, kind in UPDATE_SCHEMA.items()]
    return LevelUpdates(*map(np.ascontiguousarray, arrays))


def _time(stamp: int) -> str:
    """UTC nanoseconds as a date and time.

    >>> _time(1_577_836_800_000_001_000)
    '2020-01-01 00:00:00.000001 UTC'
    """
    seconds, rest = divmod(stamp, 10**9)
    text = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{text}.{rest // 1000:06d} UTC" if rest else f"{text} UTC"
