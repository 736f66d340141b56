"""Top-of-book ticks of the consolidated tape: one side of one venue per row, eight columns without a header.

Milliseconds since New York midnight, bid times 10,000, bid size, ask times 10,000, ask size, venue letter, condition,
suspicious. A side of zero did not change.

The tape has few of the quotes that do not set the best price, so a price may be gone without a row that says so. A side
is known to be wrong once a later quote contradicts it: the venue's own other side at its price or through it, or
another venue's other side through it, as exchanges do not trade through each other. The side is left out of the book
until the venue shows it again. A quote of another venue is no news of the side that is left, which would look fresh:
the book is then empty until the venue's next tick.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Integers
from riskroute.core.errors import DataError, InputError
from riskroute.market.clock import date_in_name, utc_stamp
from riskroute.market.readers.exchange_codes import TAPE_VENUES
from riskroute.market.readers.reading import (
    ImportOptions,
    NoBooksError,
    ReaderPart,
    from_ten_thousandths,
    label_rows,
    to_snapshots,
)
from riskroute.market.readers.streams import csv_frames, csv_members

VENUES = TAPE_VENUES
"""Letters of the tape; NASDAQ has two."""

_CODES = {mic: k for k, mic in enumerate(dict.fromkeys(VENUES.values()))}
_COLUMNS = ("ms", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00", "letter", "condition", "suspicious")
_SIDES = ["bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00"]
_BEGUN = 4  # column of what is known of a venue: whether it has shown both sides


def is_ticks(path: Path) -> bool:
    """Whether a file has a name as these ticks have: a day, and quote or trade."""
    return bool(re.search(r"(?<!\d)\d{8}_.*(quote|trade)", path.name.lower() + csv_members(path)[0].lower()))


class TickReader:
    """The best bid and ask of every venue at its ticks, from the first after which both are known.

    A quote of another venue that contradicts a side is written too, as an empty book.
    """

    name = "ticks"

    def __init__(self, path: Path, options: ImportOptions) -> None:
        self.source, self.options, self.depth = path, options, 1
        members = csv_members(path)
        if len(members) != 1:
            raise DataError(f"{path} must hold one CSV file, was {len(members)}")
        self.member = members[0]
        if "trade" in self.member.lower():
            raise NoBooksError(f"{path} must hold quotes, was a file of trades, which tell no book")
        day = options.date or date_in_name(self.member) or date_in_name(path.name)
        if day is None:
            raise InputError(f"date must be given where the file name does not tell it, was None for {path.name!r}")
        self.date, self.symbol = day, self._symbol()

    def _symbol(self) -> str:
        if len(self.options.symbols) > 1:
            raise InputError(f"symbol must be one for a file of ticks, was {', '.join(self.options.symbols)}")
        if self.options.symbols:
            return self.options.symbols[0]
        named = re.match(r"\d{8}_([A-Za-z.]+)_quote", self.member, re.IGNORECASE)
        if named is None:
            raise InputError(f"symbol must be given where the file name does not tell it, was None for {self.member!r}")
        return named[1].upper()

    def parts(self) -> Iterator[ReaderPart]:
        """A part per venue and piece of the file."""
        import pyarrow

        types = dict.fromkeys(_COLUMNS, pyarrow.int64()) | {"letter": pyarrow.string()}
        known = np.zeros((len(_CODES), _BEGUN + 1), dtype=np.int64)
        row, latest = 0, 0
        for frame in csv_frames(self.source, self.member, types):
            numbered = frame.with_row_index("sequence", offset=row + 1)
            latest = _check(numbered, latest, self.source)
            row += frame.height
            yield from self._venues(numbered.filter(polars.col("suspicious") == 0), known)

    def _venues(self, ticks: polars.DataFrame, known: Integers) -> Iterator[ReaderPart]:
        codes = ticks["letter"].replace_strict({letter: _CODES[mic] for letter, mic in VENUES.items()}).to_numpy()
        sides = ticks.select(_SIDES).to_numpy().astype(np.int64, order="C")
        rows, venues, books = _follow(codes.astype(np.int64), sides, known)
        stamps = polars.col("ms").cast(polars.Int64) * 1_000_000 + utc_stamp(self.date, dt.time(0))
        table = ticks[rows].select(
            "sequence",
            stamps.cast(polars.Datetime("ns", "UTC")).alias("ts_event"),
            polars.Series("venue", venues),
            *(polars.Series(name, books[:, k]) for k, name in enumerate(_SIDES)),
        )
        table = table.with_columns(from_ten_thousandths(polars.col(["bid_px_00", "ask_px_00"])))
        names = list(_CODES)
        for code in table["venue"].unique(maintain_order=True):
            mine = label_rows(table.filter(polars.col("venue") == code), names[code], self.symbol)
            yield ReaderPart(
                names[code],
                self.symbol,
                self.options.within(to_snapshots(mine, 1, source=self.source.name), self.date),
            )


@njit(cache=True)
def _follow(venues: Any, sides: Any, known: Any) -> tuple[Any, Any, Any]:
    """Books after ticks ``(n, 4)``: rows of ticks, venues, and both sides ``(m, 4)``, zero where a side is not known.

    ``known`` has the sides of each venue, and whether it has shown both; it is kept up to date.
    """
    most = 3 * len(venues) + 2 * len(known)  # a book per tick, and one per side that is forgotten
    rows, codes = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    books = np.empty((most, 4), dtype=np.int64)
    count = 0
    for k in range(len(venues)):
        venue = venues[k]
        state = known[venue]
        for side in (0, 2):
            if sides[k, side] > 0:
                state[side], state[side + 1] = sides[k, side], sides[k, side + 1]
        if state[0] >= state[2] > 0:
            if sides[k, 2] == 0:
                state[2] = state[3] = 0
            elif sides[k, 0] == 0:
                state[0] = state[1] = 0
        if state[0] > 0 and state[2] > 0:
            state[_BEGUN] = 1
        for other in range(len(known)):
            if other != venue:
                bid_gone, ask_gone = known[other, 0] > sides[k, 2] > 0, 0 < known[other, 2] < sides[k, 0]
                if not (bid_gone or ask_gone):
                    continue
                for side in range(4):
                    if (bid_gone and side < 2) or (ask_gone and side >= 2):
                        known[other, side] = 0
            if known[other, _BEGUN]:
                rows[count], codes[count] = k, other
                for side in range(4):
                    books[count, side] = known[other, side] if other == venue else 0
                count += 1
    return rows[:count], codes[:count], books[:count]


def _check(ticks: polars.DataFrame, latest: int, source: Path) -> int:
    """Refuse rows that are not quotes; returns the time of the last row."""
    time = polars.col("ms")
    wrong = {
        "milliseconds between 0 and 86400000": ~time.is_between(0, 86_400_000),
        "a time not before that of the row above": time < time.shift(1).fill_null(latest),
        "prices and sizes of 0 or more, up to 4294967295": polars.any_horizontal(
            ~polars.col(name).is_between(0, 2**32 - 1).fill_null(False) for name in _SIDES
        ),
        f"a venue letter of {''.join(VENUES)}": ~polars.col("letter").is_in(list(VENUES)),
        "a last column of numbers": polars.col("suspicious").is_null(),
    }
    for expected, rule in wrong.items():
        rows = ticks.filter(rule.fill_null(True))
        if rows.height:
            raise DataError(
                f"row {rows['sequence'][0]} of {source.name} must have {expected}, was {rows.drop('sequence').row(0)}"
            )
    return int(ticks["ms"][-1])
