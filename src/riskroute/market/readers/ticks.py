"""Top-of-book ticks of the consolidated tape: one side of one venue per row, eight columns without a header.

Columns: milliseconds since New York midnight, bid times 10,000, bid size, ask times 10,000, ask size, exchange code,
condition, suspicious (0 if not). A side whose price is zero is unchanged.

The tape omits most quotes that do not set the best price, so a quote may go stale without a row that says so. A side is
known to be stale once a later quote contradicts it: the venue's own other side at or through its price, or another
venue's other side through it, since exchanges do not trade through each other. The side is dropped until the venue
quotes it again. If another venue contradicts it, the remaining side is no fresher, so the book is empty until the
venue's next tick.
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
from riskroute.core.errors import InputError, NoBooksError
from riskroute.market.clock import clock_stamp
from riskroute.market.readers.csv_files import csv_frames, csv_member, csv_members
from riskroute.market.readers.reading import (
    EXCHANGE_CODES,
    ReaderPart,
    ReadingOptions,
    label_reading_rows,
    reading_file_date,
    reading_snapshots,
    reading_ten_thousandths,
    refuse_rows,
    require_reading_option,
)

_VENUE_NUMBERS = {mic: k for k, mic in enumerate(dict.fromkeys(EXCHANGE_CODES.values()))}
_SIDES = ["bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00"]


class TickReader:
    """Yields the best bid and offer of every venue at its ticks, from the first tick after which both sides are known.

    When another venue's quote contradicts a side, an empty book is written.
    """

    name = "ticks"

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether the name of a file or of its first CSV file has a date followed by ``quote`` or ``trade``."""
        return bool(re.search(r"(?<!\d)\d{8}_.*(quote|trade)", path.name.lower() + csv_members(path)[0].lower()))

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.source, self.options, self.depth = path, options, 1
        self.member = csv_member(path)
        if "trade" in self.member.lower():
            raise NoBooksError(f"{path} holds trades; quotes are needed to build a book")
        day = options.date or reading_file_date(self.member) or reading_file_date(path.name)
        self.date, self.symbol = require_reading_option("date", day, path.name), self._symbol()

    def _symbol(self) -> str:
        if len(self.options.symbols) > 1:
            raise InputError(f"expected one symbol for a file of ticks, got {', '.join(self.options.symbols)}")
        if self.options.symbols:
            return self.options.symbols[0]
        named = re.match(r"\d{8}_([A-Za-z.]+)_quote", self.member, re.IGNORECASE)
        return require_reading_option("symbol", str(named[1]).upper() if named else None, self.member)

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per venue and chunk of the file."""
        import pyarrow

        types = dict.fromkeys(("ms", *_SIDES, "letter", "condition", "suspicious"), pyarrow.int64())
        types |= {"letter": pyarrow.string()}
        known = np.zeros((len(_VENUE_NUMBERS), 5), dtype=np.int64)
        row, latest = 0, 0
        for frame in csv_frames(self.source, self.member, types):
            numbered = frame.with_row_index("sequence", offset=row + 1)
            latest = _check(numbered, latest, self.source)
            row += frame.height
            yield from self._venues(numbered.filter(polars.col("suspicious") == 0), known)

    def _venues(self, ticks: polars.DataFrame, known: Integers) -> Iterator[ReaderPart]:
        numbers = {letter: _VENUE_NUMBERS[mic] for letter, mic in EXCHANGE_CODES.items()}
        codes = ticks["letter"].replace_strict(numbers).to_numpy()
        sides = ticks.select(_SIDES).to_numpy().astype(np.int64, order="C")
        rows, venues, books = _follow(codes.astype(np.int64), sides, known)
        stamps = polars.col("ms").cast(polars.Int64) * 1_000_000 + clock_stamp(self.date, dt.time(0))
        table = ticks[rows].select(
            "sequence",
            stamps.cast(polars.Datetime("ns", "UTC")).alias("ts_event"),
            polars.Series("venue", venues),
            *(polars.Series(name, books[:, k]) for k, name in enumerate(_SIDES)),
        )
        table = table.with_columns(reading_ten_thousandths(polars.col(["bid_px_00", "ask_px_00"])))
        names = list(_VENUE_NUMBERS)
        for code in table["venue"].unique(maintain_order=True):
            mine = label_reading_rows(table.filter(polars.col("venue") == code), names[code], self.symbol)
            kept = reading_snapshots(mine, 1, source=self.source.name)
            yield ReaderPart(names[code], self.symbol, kept)


@njit(cache=True)
def _follow(venues: Any, sides: Any, known: Any) -> tuple[Any, Any, Any]:
    """Return the books after ticks ``(n, 4)``: tick rows, venues and both sides ``(m, 4)``, 0 for an unknown side."""
    # ``known (venues, 5)`` has both sides of each venue and whether it has quoted both; it is updated in place.
    most = 3 * len(venues) + 2 * len(known)  # a book per tick, and one per dropped side
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
            state[4] = 1
        for other in range(len(known)):
            if other != venue:
                bid_gone, ask_gone = known[other, 0] > sides[k, 2] > 0, 0 < known[other, 2] < sides[k, 0]
                if not (bid_gone or ask_gone):
                    continue
                for side in range(4):
                    if (bid_gone and side < 2) or (ask_gone and side >= 2):
                        known[other, side] = 0
            if known[other, 4]:
                rows[count], codes[count] = k, other
                for side in range(4):
                    books[count, side] = known[other, side] if other == venue else 0
                count += 1
    return rows[:count], codes[:count], books[:count]


def _check(ticks: polars.DataFrame, latest: int, source: Path) -> int:
    """Refuse malformed quotes; return the time of the last row."""
    time = polars.col("ms")
    wrong = {
        "milliseconds between 0 and 86400000": ~time.is_between(0, 86_400_000),
        "a time not before that of the previous row": time < time.shift(1).fill_null(latest),
        "prices and sizes of 0 or more, up to 4294967295": polars.any_horizontal(
            ~polars.col(name).is_between(0, 2**32 - 1).fill_null(False) for name in _SIDES
        ),
        f"an exchange code of {''.join(EXCHANGE_CODES)}": ~polars.col("letter").is_in(list(EXCHANGE_CODES)),
        "a number in the last column": polars.col("suspicious").is_null(),
    }
    for expected, rule in wrong.items():
        refuse_rows(ticks, rule, expected, source)
    return int(ticks["ms"][-1])
