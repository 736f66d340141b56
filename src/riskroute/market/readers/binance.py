"""Binance's depth updates, one JSON object per line, with the snapshot that they start from.

An object may be ``data`` of a combined stream, and the time at which a recorder received it may stand before it.

The rules are those that Binance gives for a local book. An update covers the numbers ``U`` to ``u``; those up to the
snapshot's ``lastUpdateId`` are dropped, the first that counts must cover the next number, and each must follow the one
before without a gap (``pu`` says so for futures). After a gap nothing is known until the next snapshot.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import DataError, one_line_error, shown
from riskroute.core.names import LONGEST_SYMBOL, is_name, name_rule
from riskroute.market.readers.csv_stream import csv_lines
from riskroute.market.readers.reading import ImportOptions, NoBooksError
from riskroute.market.readers.stamps import StampColumn
from riskroute.market.readers.updates import UPDATE_SCHEMA, BookUpdates, UpdateCheck, update_arrays

ROWS = 200_000
"""Levels per piece, about."""

SPILL = 60 * 10**9
"""Nanoseconds before and after a day that a file may hold: recorders end it by their own clock, not the exchange's."""

WAITING = 10_000
"""Updates at most that are kept while there is no snapshot: it may be written down later than it was taken."""

_RECEIVED = re.compile(r"\s*\d+\s+(?=\{)")  # the time at which a line was received, before its object
_FIELDS = ("number", "time", "group", "reset", "bid", "price", "size")


def received_until(line: str) -> int:
    """Where the JSON object of a line begins, after the time at which it was received if there is one.

    >>> received_until('1723161253937085768 {"e": 1}'), received_until('{"e": 1}')
    (20, 0)
    """
    found = _RECEIVED.match(line)
    return found.end() if found else 0


class DepthChain:
    """A book as a sequence of levels: which updates count, after which snapshot, and where some are missing.

    ``rows`` gather levels in the order of `_FIELDS`, ``gaps`` counts stretches that a later snapshot ended, ``lost``
    says what was wrong with the update that began the present one.

    Examples
    --------
    >>> chain = DepthChain("x")
    >>> chain.update(1, {"E": 5, "U": 3, "u": 4, "b": [["9", "1"]], "a": []})
    >>> chain.snapshot(2, {"lastUpdateId": 3, "bids": [["9", "7"]], "asks": []})
    >>> [row[3:] for row in chain.rows], chain.last
    ([(True, True, 1.0, 0.0), (False, True, 9.0, 7.0), (False, True, 9.0, 1.0)], 4)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[tuple[Any, ...]] = []
        self.last: int | None = None  # number of the last update of the book, if that is known
        self.gaps, self.lost = 0, ""
        self._snapshot: tuple[int, dict[str, Any]] | None = None
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque(maxlen=WAITING)

    def snapshot(self, line: int, one: dict[str, Any]) -> None:
        """Keep a snapshot that is newer than the book; where there is no book, the updates that wait follow it."""
        if self.last is not None and one["lastUpdateId"] <= self.last:
            return
        self._snapshot = line, one
        if self.last is None:
            waiting = list(self._waiting)
            self._waiting.clear()
            for number, update in waiting:
                self.update(number, update)

    def update(self, line: int, one: dict[str, Any]) -> None:
        """Apply an update that follows the book or the snapshot, or let it wait for one."""
        if self.last is not None:
            if one["u"] <= self.last:
                return
            if one["pu"] == self.last if "pu" in one else one["U"] <= self.last + 1:
                self._apply(line, one)
                return
            expected = f"pu = {self.last}" if "pu" in one else f"U up to {self.last + 1}"
            self._lose(line, one, expected, "pu" if "pu" in one else "U")
        if self._snapshot is not None:
            known = self._snapshot[1]["lastUpdateId"]
            if one["u"] < known + ("pu" not in one):
                return
            if one["U"] <= known + 1:
                self._start(line, one, *self._snapshot)
                return
            self._lose(line, one, f"U up to {known + 1}, after the snapshot in line {self._snapshot[0]}", "U")
            self._snapshot = None
        self._waiting.append((line, one))

    def _start(self, line: int, one: dict[str, Any], where: int, snapshot: dict[str, Any]) -> None:
        self.gaps, self.lost = self.gaps + bool(self.lost), ""
        self._empty(line, one)
        self._add(line, one["E"], where, snapshot["bids"], snapshot["asks"])
        self._apply(line, one)

    def _apply(self, line: int, one: dict[str, Any]) -> None:
        self._add(line, one["E"], line, one["b"], one["a"])
        self.last = one["u"]
        if self._snapshot is not None and self._snapshot[1]["lastUpdateId"] <= one["u"]:
            self._snapshot = None

    def _lose(self, line: int, one: dict[str, Any], expected: str, name: str) -> None:
        """Say what is wrong, once, and show an empty book until the next one is known."""
        self.lost = self.lost or f"line {line} of {self.name} must have {expected}, was {name} = {one[name]}"
        if self.last is not None:
            self._empty(line, one)
        self.last = None

    def _empty(self, line: int, one: dict[str, Any]) -> None:
        self.rows.append((line, one["E"], line, True, True, 1.0, 0.0))  # a level that is not there is removed

    def _add(self, line: int, time: int, where: int, bids: Any, asks: Any) -> None:
        for bid, levels in ((True, bids), (False, asks)):
            for level in levels:
                try:
                    price, size = float(level[0]), float(level[1])
                except (TypeError, ValueError, IndexError, KeyError):
                    text = f"line {where} of {self.name} must have levels of two numbers, price and quantity"
                    raise DataError(f"{text}, was {shown(level)}") from None
                self.rows.append((line, time, line, False, bid, price, size))


class BinanceUpdates:
    """Updates of the one symbol of a file."""

    def __init__(self, path: Path, options: ImportOptions, zone: str) -> None:
        self.source, self.options = path, options
        self._times = StampColumn(path, "E", zone)
        self.names: dict[str, None] = {}
        with closing(self._objects()) as objects:
            first = next((one for _, one in objects if "U" in one), None)
        if first is None:
            raise NoBooksError(
                f'{path} must hold depth updates ("e": "depthUpdate"), was without any; trades and best prices make no '
                "book"
            )
        self.first: int | None = self._times.read(polars.Series([first["E"]])).cast(polars.Int64)[0]
        self.symbol = str(first["s"]).upper()
        self.venue = options.venue or ("binance-futures" if "pu" in first else "binance")
        self._chain = DepthChain(path.name)

    def pieces(self, begin: int, end: int) -> Iterator[BookUpdates]:
        """Levels of snapshots and updates; a snapshot has no time, so it counts with the update that follows it."""
        self.names[self.symbol] = None
        check, chain = UpdateCheck(self.source, "line", begin, end, SPILL), self._chain
        for line, one in self._objects():
            if "U" in one:
                chain.update(line, one)
            else:
                chain.snapshot(line, one)
            if len(chain.rows) >= ROWS:
                yield self._piece(check)
        if chain.lost:
            raise DataError(f"{chain.lost}: updates are missing, and no snapshot follows that they go on from")
        if chain.last is None:
            raise DataError(
                f'{self.source} must hold a snapshot ("lastUpdateId") that updates follow, was without; add that of '
                "the exchange in a line of its own"
            )
        yield self._piece(check)

    def _piece(self, check: UpdateCheck) -> BookUpdates:
        chain, kinds = self._chain, {"time": polars.Int64} | UPDATE_SCHEMA
        columns = list(zip(*chain.rows, strict=True)) or [()] * len(_FIELDS)
        named = zip(_FIELDS, columns, strict=True)
        frame = polars.DataFrame([polars.Series(name, values, dtype=kinds[name]) for name, values in named])
        frame = frame.with_columns(stamp=self._times.read(frame["time"]).cast(polars.Int64))
        check.times(frame)
        check.levels(frame)
        gaps, chain.gaps, chain.rows = chain.gaps, 0, []
        return BookUpdates(self.venue, self.symbol, update_arrays(frame), gaps)

    def _objects(self) -> Generator[tuple[int, dict[str, Any]]]:
        """Snapshots and depth updates with their lines; other events and answers of the exchange are left out."""
        for line, text in enumerate(csv_lines(self.source), 1):
            where = f"line {line} of {self.source.name}"
            if not text.strip():
                continue
            try:
                one = json.loads(text[received_until(text) :])
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where} must be a whole JSON object: {one_line_error(error)}") from error
            if isinstance(one, dict) and isinstance(one.get("data"), dict):
                one = one["data"]  # of a combined stream
            if not isinstance(one, dict):
                raise DataError(f"{where} must be a JSON object, was {shown(one)}")
            if one.get("e", "depthUpdate") != "depthUpdate" or "result" in one:
                continue
            if "e" not in one and {"B", "A"} <= set(one):
                continue  # best prices of the spot market, whose events have no name
            yield line, self._checked(where, one)

    def _checked(self, where: str, one: dict[str, Any]) -> dict[str, Any]:
        update = "e" in one
        numbers = ("E", "U", "u", *(["pu"] if "pu" in one else [])) if update else ("lastUpdateId",)
        for name in numbers:
            if type(one.get(name)) is not int or not 0 <= one[name] < 2**62:
                what = "depth update" if update else "snapshot"
                raise DataError(f"{where} must have a whole number as {name} of a {what}, was {shown(one.get(name))}")
        for name in ("b", "a") if update else ("bids", "asks"):
            if not isinstance(one.get(name), list):
                raise DataError(f"{where} must have a list of levels as {name}, was {shown(one.get(name))}")
        if update and one["U"] > one["u"]:
            raise DataError(f"{where} must have U up to u = {one['u']}, was {one['U']}")
        if update and not is_name(one.get("s"), longest=LONGEST_SYMBOL):
            raise DataError(f"{where} must have as s {name_rule(LONGEST_SYMBOL)}, was {shown(one.get('s'))}")
        if update and self.names and one["s"].upper() not in self.names:
            mine = next(iter(self.names))
            raise DataError(
                f"{where} must be of {mine}, as snapshots name no symbol, was of {one['s']}; write a file per symbol"
            )
        return one
