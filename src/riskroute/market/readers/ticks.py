"""Top-of-book ticks of the consolidated tape: one side of one venue per row, eight columns without a header.

Milliseconds since New York midnight, bid times 10,000, bid size, ask times 10,000, ask size, venue letter, condition,
suspicious. A side of zero did not change. A side that the other one has reached since is out of date: nothing is told
until it is known again.
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

from riskroute.arrays import Integers
from riskroute.errors import DataError, InputError
from riskroute.market.clock import clock_date, clock_stamp
from riskroute.market.readers.csv_stream import csv_frames, csv_members
from riskroute.market.readers.reading import ImportOptions, ReaderPart, reader_dollars, reader_snapshots, reader_stamped
from riskroute.market.readers.tape import TAPE_VENUES

VENUES = TAPE_VENUES
"""Letters of the tape; NASDAQ has two."""

_CODES = {mic: k for k, mic in enumerate(dict.fromkeys(VENUES.values()))}
_COLUMNS = ("ms", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00", "letter", "condition", "suspicious")
_SIDES = ["bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00"]


def is_ticks(path: Path) -> bool:
    """Whether a file has a name as these ticks have: a day, and quote or trade."""
    return bool(re.search(r"(?<!\d)\d{8}_.*(quote|trade)", path.name.lower() + csv_members(path)[0].lower()))


class TickReader:
    """The last known best bid and ask of every venue, at every tick of that venue after which both are known."""

    name = "ticks"

    def __init__(self, path: Path, options: ImportOptions) -> None:
        self.source, self.options, self.depth = path, options, 1
        members = csv_members(path)
        if len(members) != 1:
            raise DataError(f"{path} must hold one CSV file, was {len(members)}")
        self.member = members[0]
        if "trade" in self.member.lower():
            raise DataError(f"{path} must hold quotes, was a file of trades, which tell no book")
        day = options.date or clock_date(self.member) or clock_date(path.name)
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
        known = np.zeros((len(_CODES), 4), dtype=np.int64)
        row, latest = 0, 0
        for frame in csv_frames(self.source, self.member, types):
            numbered = frame.with_row_index("sequence", offset=row + 1)
            latest = _check(numbered, latest, self.source)
            row += frame.height
            yield from self._venues(numbered.filter(polars.col("suspicious") == 0), known)

    def _venues(self, ticks: polars.DataFrame, known: Integers) -> Iterator[ReaderPart]:
        codes = ticks["letter"].replace_strict({letter: _CODES[mic] for letter, mic in VENUES.items()}).to_numpy()
        sides = ticks.select(_SIDES).to_numpy().astype(np.int64, order="C")
        _remember(codes.astype(np.int64), sides, known)
        filled = ticks.with_columns(polars.Series(name, sides[:, k]) for k, name in enumerate(_SIDES))
        stamps = polars.col("ms").cast(polars.Int64) * 1_000_000 + clock_stamp(self.date, dt.time(0))
        table = filled.with_columns(
            stamps.cast(polars.Datetime("ns", "UTC")).alias("ts_event"),
            reader_dollars(polars.col(["bid_px_00", "ask_px_00"])),
            polars.col("letter").replace_strict(VENUES).alias("mic"),
        )
        table = table.filter((polars.col("bid_px_00") > 0) & (polars.col("ask_px_00") > 0))  # the others are half known
        for mic in table["mic"].unique(maintain_order=True):
            if self.options.venue in (None, mic):
                mine = reader_stamped(table.filter(polars.col("mic") == mic), mic, self.symbol)
                yield ReaderPart(mic, self.symbol, self.options.within(reader_snapshots(mine, 1), self.date))


@njit(cache=True)
def _remember(venues: Any, sides: Any, known: Any) -> None:
    """Fill unchanged sides of ticks ``(n, 4)`` in place from what is ``known`` of each venue, and keep that up to date.

    A side that meets the other one, which did not change now, shows that the other is out of date: it is forgotten.
    """
    for k in range(len(venues)):
        state = known[venues[k]]
        for side in (0, 2):
            if sides[k, side] > 0:
                state[side], state[side + 1] = sides[k, side], sides[k, side + 1]
        if state[0] >= state[2] > 0:
            if sides[k, 2] == 0:
                state[2] = state[3] = 0
            elif sides[k, 0] == 0:
                state[0] = state[1] = 0
        for side in range(4):
            sides[k, side] = state[side]


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
