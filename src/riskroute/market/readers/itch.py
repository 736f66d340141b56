"""NASDAQ ITCH 5.0 day files, raw or gzip, read with itch-book; no other module uses that library."""

from __future__ import annotations

import datetime as dt
import gzip
import re
import warnings
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars
from numba import njit

from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.core.runtime import require_extra
from riskroute.market.clock import clock_stamp
from riskroute.market.readers.csv_files import read_csv_file_fully, unpacked_csv_file
from riskroute.market.readers.reading import (
    ITCH_LEVELS,
    ReaderPart,
    ReadingOptions,
    label_reading_rows,
    reading_events,
    reading_file_date,
    require_reading_option,
    require_reading_symbols,
)
from riskroute.market.schema import keep_schema_levels, level_columns

BLOCK = 1 << 24  # bytes that `_scan_symbols` reads at once

# Length in bytes of an ITCH 5.0 message by its type, without the two-byte length prefix.
_ITCH_LENGTHS = {
    **{"S": 12, "R": 39, "H": 25, "Y": 20, "L": 26, "V": 35, "W": 12, "K": 28, "J": 35, "h": 21, "O": 48},
    **{"A": 36, "F": 40, "E": 31, "C": 36, "X": 23, "D": 19, "U": 35, "P": 44, "Q": 40, "B": 19, "I": 50, "N": 20},
}


def looks_like_itch(head: bytes) -> bool:
    r"""Return whether bytes begin with length-prefixed ITCH 5.0 messages; checks up to ten.

    >>> looks_like_itch(b"\x00\x0cS" + bytes(11)), looks_like_itch(b"\x00\x0dS" + bytes(12)), looks_like_itch(b"")
    (True, False, False)
    """
    place = seen = 0
    while seen < 10 and place + 3 <= len(head):
        length = int.from_bytes(head[place : place + 2], "big")
        if length == 0 and seen:  # some files end a session with an empty message
            break
        if _ITCH_LENGTHS.get(chr(head[place + 2])) != length:
            return False
        place += 2 + length
        seen += 1
    return seen > 0


def _scan_symbols(path: Path) -> dict[int, str]:
    """Return symbols by locate code from the messages that add orders: excerpts of a day may lack the directory."""
    names: dict[int, str] = {}
    with unpacked_csv_file(path) as file:
        rest = b""
        while block := read_csv_file_fully(file, BLOCK):
            whole = np.frombuffer(rest + block, dtype=np.uint8)
            starts = np.empty(len(whole) // 2 + 1, dtype=np.int64)
            count, end = _walk(whole, starts)
            _learn_names(names, whole, starts[:count], path)
            rest = whole[end:].tobytes()
    return names


def _learn_names(names: dict[int, str], whole: Any, starts: Any, path: Path) -> None:
    kinds = whole[starts + 2]
    fields: Any = {"names": ["locate", "stock"], "formats": [">u2", "S8"], "offsets": [3, 26]}
    for kind in "AF":  # messages that add an order; F also names the participant
        layout = np.dtype(fields | {"itemsize": _ITCH_LENGTHS[kind] + 2})
        mine = starts[kinds == ord(kind)]
        mine = mine[mine + layout.itemsize <= len(whole)]
        rows = whole[mine[:, None] + np.arange(layout.itemsize)]
        messages = np.ascontiguousarray(rows).view(layout).reshape(-1)
        for code, stock in np.unique(messages):
            name = stock.decode("latin-1").strip()
            if names.setdefault(int(code), name) != name:
                both = f"{names[int(code)]!r} and {name!r}"
                raise DataError(f"expected one symbol per locate code in {path}, got {both} for {code}")


@njit(cache=True)
def _walk(block: Any, starts: Any) -> tuple[int, int]:
    """Fill ``starts`` with the message offsets; return their count and the offset of the first incomplete one."""
    place = count = 0
    while place + 2 <= len(block):
        following = place + 2 + 256 * int(block[place]) + int(block[place + 1])
        if following > len(block):
            break
        if following > place + 2:
            starts[count] = place
            count += 1
        place = following
    return count, place


def _venue_in_name(name: str) -> str:
    """Return the exchange named in a file name; the Nasdaq Stock Market by default.

    >>> _venue_in_name("20190327.PSX_ITCH_50.gz"), _venue_in_name("excerpt.itch50")
    ('XPSX', 'XNAS')
    """
    words = re.split(r"[^A-Z]+", name.upper())
    return next((venue for word, venue in (("BX", "XBOS"), ("PSX", "XPSX")) if word in words), "XNAS")


class ItchReader:
    """Yields books and events of the requested symbols.

    It reads one level more than it keeps, to count deeper books. If it keeps all `ITCH_LEVELS`, which itch-book cannot
    exceed, it counts the books with that many levels instead.
    """

    name = "itch"
    ROWS, BYTES = 100_000, 1 << 21  # rows per part and bytes read at once for books of 10 levels; less for deeper ones

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.source, self.options, self.depth = path, options, options.kept(ITCH_LEVELS)
        self.date = require_reading_option("date", options.date or reading_file_date(path.name), path.name)
        self.venue = options.venue or _venue_in_name(path.name)
        self.stats: dict[str, Any] = {}
        self._known = min(self.depth + 1, ITCH_LEVELS)
        self._latest: dict[int, dict[str, Any]] = {}

    def parts(self) -> Iterator[ReaderPart]:
        """Yield parts of the requested symbols; first of those in the directory, then of the others."""
        names: dict[int, str] = {}
        wanted = self.options.symbols
        yield from self._reading(names, wanted or ("?",))
        missing = [symbol for symbol in wanted if symbol not in names.values()]
        if (missing or not wanted) and len(names) < 1000:  # a larger directory covers a whole day
            columns = list(zip(*_scan_symbols(self.source).items(), strict=True)) or [(), ()]
            self._learn(names, {"locate": columns[0], "symbol": columns[1]})
            rest = {code: name for code, name in names.items() if name in missing}
            if rest:
                yield from self._reading(rest, ())
        found = tuple(dict.fromkeys(names.values()))
        if not wanted:
            some = ", ".join(sorted(found)[:8]) + (", ..." if len(found) > 8 else "")
            symbols = f"{len(found):,} symbol{'s' * (len(found) != 1)}"
            raise InputError(f"{self.source.name} has {symbols} ({some}); give symbol")
        require_reading_symbols(wanted, found, self.source.name)

    def _reading(self, names: dict[int, str], wanted: tuple[str, ...]) -> Iterator[ReaderPart]:
        """Yield parts of the ``wanted`` symbols of the directory, or of those in ``names`` if none are wanted."""
        latest = clock_stamp(self.date, dt.time(0))
        try:
            for batch in _ahead(self._batches(wanted)):
                if wanted:
                    self._learn(names, batch.symbols)
                depth = polars.DataFrame({name: values for name, values in batch.depth.items() if "_ct_" not in name})
                messages = _with_hidden_trades(batch.messages, batch.trades)
                latest = self._check(messages, latest)
                alone = len(wanted) == 1
                for locate in [code for code, name in names.items() if name in self.options.symbols]:
                    yield self._part(names[locate], locate, depth, messages, alone)
        except (ValueError, RuntimeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            if isinstance(error, RiskrouteError):
                raise
            text = str(error).removeprefix(f"{self.source}: ")
            raise DataError(f"{self.source} must be a complete NASDAQ ITCH 5.0 file, raw or gzip: {text}") from error
        except OSError as error:
            raise DataError(f"cannot read {self.source}: {error.strerror or error}") from error

    def _batches(self, wanted: tuple[str, ...]) -> Generator[Any, None, None]:
        require_extra("ITCH files", "market", "itch_book")
        import itch_book

        wide = max(self._known, 10)
        feed = itch_book.open(str(self.source), date=self.date, chunk_bytes=self.BYTES * 10 // wide)
        tables, rows = ("depth", "messages", "trades", "symbols"), self.ROWS * 10 // wide
        with warnings.catch_warnings(), feed:
            warnings.simplefilter("ignore")  # `parts` reports missing symbols in more detail
            yield from feed.batches(tables=tables, rows=rows, depth=self._known, symbols=wanted)
        self.stats = feed.stats or {}
        if self.stats.get("malformed") or self.stats.get("unknown"):
            odd = self.stats["malformed"] + self.stats["unknown"]
            raise DataError(f"{self.source} must be a complete NASDAQ ITCH 5.0 file, had {odd:,} malformed messages")

    def _learn(self, names: dict[int, str], symbols: dict[str, Any]) -> None:
        """Add symbols to ``names``; refuse a code with two symbols, or a requested symbol with two codes."""
        codes = {name: code for code, name in names.items()}
        for code, name in zip(symbols["locate"], symbols["symbol"], strict=True):
            twice = name in self.options.symbols and codes.setdefault(name, code) != code
            if twice or names.setdefault(code, name) != name:
                raise DataError(f"expected one locate code per symbol in {self.source}, got also {code} for {name!r}")

    def _check(self, messages: dict[str, Any], latest: int) -> int:
        """Refuse messages of other days, out of order, or without side or price; return the last time."""
        stamps = messages["ts_event"]
        if not len(stamps):
            return latest
        ends = clock_stamp(self.date, dt.time(23, 59, 59)) + 10**9
        unpriced = (messages["action"] == b"F") & (messages["side"] != b"N") & np.isnan(messages["price"])
        wrong = {
            "a time not before that of the previous message": (np.diff(stamps, prepend=latest) < 0, stamps),
            f"a time on {self.date}": (stamps >= ends, stamps),
            "side B or S": (~_one_of(messages["side"], "BSN"), messages["side"]),
            "a price above 0": (unpriced, messages["price"]),
        }
        for expected, (rows, values) in wrong.items():
            if rows.any():
                row = rows.argmax()
                number, value = messages["seq"][row], values[row]
                raise DataError(f"message {number:,} of {self.source} must have {expected}, was {value.item()!r}")
        return int(stamps[-1])

    def _part(
        self, symbol: str, locate: int, depth: polars.DataFrame, messages: dict[str, Any], alone: bool
    ) -> ReaderPart:
        mine: Any = slice(None)
        if not alone:
            depth = depth.filter(polars.col("locate") == locate)
            mine = messages["locate"] == locate
        chosen = {name: values[mine] for name, values in messages.items()}
        changes = depth["seq"].to_numpy()
        strange = changes[~np.isin(changes, chosen["seq"])]
        if len(strange):
            raise DataError(f"message {strange[0]:,} of {self.source} reuses the reference of another symbol's order")
        prices = [name for name in depth.columns if "_px_" in name]
        snapshots = depth.with_columns(
            polars.col("ts_event").cast(polars.Datetime("ns", "UTC")), polars.col(prices).fill_nan(None)
        ).rename({"seq": "sequence"})
        whole = label_reading_rows(snapshots, self.venue, symbol)
        inside = whole.filter(self._changes(locate, whole))
        kept = keep_schema_levels(inside, self.depth)
        if self._known == self.depth:  # no extra level was read: mark the books with as many levels
            kept = kept.with_columns(keep_schema_levels(inside, self.depth - 1)["deeper"])
        refers = _one_of(chosen["action"], "FCM") & ~_one_of(chosen["type"], "P")
        unresolved = _one_of(chosen["side"], "N")
        events = self._events(symbol, chosen, ~unresolved)
        counts = int(refers.sum()), int((refers & unresolved).sum())
        return ReaderPart(self.venue, symbol, kept, events, *counts)

    def _changes(self, locate: int, snapshots: polars.DataFrame) -> polars.Series:
        """Return which books differ from their predecessor in a kept level, not only in the extra one."""
        changed = np.full(snapshots.height, self._known == self.depth)
        if self._known > self.depth and snapshots.height:
            before = self._latest.get(locate)
            changed[0] = before is None
            for name in level_columns(self.depth):
                column = snapshots[name]
                earlier = column.shift(1) if before is None else column.shift(1, fill_value=before[name])
                changed |= column.ne_missing(earlier).to_numpy()
            self._latest[locate] = snapshots.row(-1, named=True)
        return polars.Series(changed)

    def _events(self, symbol: str, messages: dict[str, Any], known: Any) -> polars.DataFrame:
        applied = known & ~(_one_of(messages["action"], "AM") & (messages["remaining"] == 0))
        columns = {
            "ts_event": messages["ts_event"],
            "sequence": messages["seq"],
            "action": messages["action"].view(np.uint8),
            "side": messages["side"].view(np.uint8),
            "price": messages["price"],
            "size": messages["size"],
            "remaining": messages["remaining"],
            "hidden": _one_of(messages["type"], "P"),
            "order_id": messages["order_id"],
            "old_order_id": messages["old_order_id"],
        }
        frame = polars.DataFrame({name: values[applied] for name, values in columns.items()})
        codes = {ord(letter): letter for letter in "ABCFM"} | {ord("S"): "A"}  # itch-book's sell side is the ask
        letters = {
            name: polars.col(name).replace_strict(codes, return_dtype=polars.String) for name in ("action", "side")
        }
        remaining = polars.when(~polars.col("hidden")).then("remaining").alias("remaining")
        return reading_events(label_reading_rows(frame.with_columns(remaining, **letters), self.venue, symbol))


def _with_hidden_trades(messages: dict[str, Any], trades: dict[str, Any]) -> dict[str, Any]:
    """Merge trades with hidden orders (type P) into the messages, as executions of order 0."""
    mine = _one_of(trades["kind"], "P")
    if not mine.any():
        return messages
    added = {name: np.zeros(int(mine.sum()), dtype=column.dtype) for name, column in messages.items()}
    added |= {name: trades[name][mine] for name in ("ts_event", "seq", "locate", "price", "size")}
    added["type"][:], added["action"][:], added["side"][:] = b"P", b"F", b"B"  # these messages all say B
    sequence = np.argsort(np.concatenate([messages["seq"], added["seq"]]), kind="stable")
    return {name: np.concatenate([column, added[name]])[sequence] for name, column in messages.items()}


def _ahead(batches: Generator[Any, None, None]) -> Iterator[Any]:
    """Yield ``batches``, while a thread prepares the next one."""
    end = object()
    with closing(batches), ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, batches, end)
        while (batch := following.result()) is not end:
            following = thread.submit(next, batches, end)
            yield batch


def _one_of(codes: Any, letters: str) -> Any:
    """Return which single-letter codes are among ``letters``."""
    table = np.zeros(256, dtype=bool)
    table[[ord(letter) for letter in letters]] = True
    return table[codes.view(np.uint8)]
