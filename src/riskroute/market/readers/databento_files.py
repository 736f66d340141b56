"""Databento's records from DBN and CSV files, plain or compressed, as tables of integers with the same columns.

Prices are integers of 10^-9 dollars and times UTC nanoseconds; an absent price or time is null. CSV files may have
prices in dollars and times as text.
"""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.errors import DataError, NoBooksError
from riskroute.core.runtime import require_extra
from riskroute.core.text import one_line_text
from riskroute.market.clock import SECOND
from riskroute.market.readers.csv_files import (
    csv_file_errors,
    csv_frames,
    csv_member,
    read_csv_file_fully,
    unpacked_csv_file,
)

PRICE_UNIT = 1_000_000_000  # units of a price per dollar
NO_PRICE, NO_TIME = 2**63 - 1, 2**64 - 1  # placeholders of an absent price and time
BOOK_DEPTHS = {"mbp-1": 1, "mbp-10": 10, "bbo-1s": 1, "bbo-1m": 1}  # schemas whose records hold books, and their levels


# Flags of a record; Databento's names are F_LAST, F_TOB, F_SNAPSHOT, F_MBP, F_BAD_TS_RECV, F_MAYBE_BAD_BOOK.
_Flags = namedtuple("_Flags", "last top_of_book snapshot levels_only bad_receipt maybe_bad_book")
FLAG = _Flags(128, 64, 32, 16, 8, 4)

# Schemas by record type; only mbo and the schemas in `BOOK_DEPTHS` are read.
_RECORD_TYPES = {
    **{0xA0: "mbo", 0x01: "mbp-1", 0x0A: "mbp-10", 0xC3: "bbo-1s", 0xC4: "bbo-1m", 0x00: "trades", 0x12: "status"},
    **{0x13: "definition", 0x14: "imbalance", 0x15: "an error message", 0x16: "a symbol mapping"},
    **{0x17: "a system message", 0x18: "statistics", 0x20: "ohlcv-1s", 0x21: "ohlcv-1m", 0x22: "ohlcv-1h"},
    **{0x23: "ohlcv-1d", 0x24: "ohlcv-eod", 0xB1: "cmbp-1", 0xC0: "cbbo-1s", 0xC1: "cbbo-1m", 0xC2: "tcbbo"},
    **{0xC5: "tbbo"},
}

_FIELDS = {
    "head": "length:u1 rtype:u1 publisher_id:<u2 instrument_id:<u4 ts_event:<u8",
    "order": "order_id:<u8 price:<i8 size:<u4 flags:u1 channel_id:u1 action:u1 side:u1",
    "book": "price:<i8 size:<u4 action:u1 side:u1 flags:u1 depth:u1",
    "tail": "ts_recv:<u8 ts_in_delta:<i4 sequence:<u4",
}

# Publisher ids of US equity venues; a venue has one id per feed that carries it.
_FEEDS = {
    "XNAS": (2, 46, 47, 52, 66, 81),
    "XBOS": (3, 75, 86, 88),
    "XPSX": (4, 76, 87, 89),
    "BATS": (5, 71),
    "BATY": (6, 72),
    "EDGA": (7, 73),
    "EDGX": (8, 74),
    "XNYS": (9, 44, 45, 53, 67, 92),
    "XCIS": (10, 13, 14, 40, 49, 63, 91),
    "XASE": (11, 78),
    "XCHI": (12, 39, 48, 62),
    "MEMX": (15, 77),
    "EPRL": (16, 42, 51, 65),
    "IEXG": (38, 41, 50, 64),
    "ARCX": (43, 79),
    "LTSE": (80,),
}
PUBLISHERS = {number: venue for venue, numbers in _FEEDS.items() for number in numbers}
CONSOLIDATED = (59, 60, 90, 93, 94, 95, 96)  # publishers of consolidated best prices, not of one venue


def _record_layout(schema: str) -> np.dtype[np.void]:
    """Return the record layout of a schema, without the send time that live recordings append.

    >>> [_record_layout(schema).itemsize for schema in ("mbo", "mbp-1", "mbp-10", "bbo-1s")]
    [56, 80, 368, 80]
    """
    groups = ("head", "order" if schema == "mbo" else "book", "tail")
    fields = [(name, kind) for group in groups for name, kind in (pair.split(":") for pair in _FIELDS[group].split())]
    for level in range(BOOK_DEPTHS.get(schema, 0)):
        fields += [(f"{side}_px_{level:02d}", "<i8") for side in ("bid", "ask")]
        fields += [(f"{side}_{what}_{level:02d}", "<u4") for what in ("sz", "ct") for side in ("bid", "ask")]
    return np.dtype(fields)


def _is_us_equity(dataset: str) -> bool:
    """Return whether a Databento dataset covers US equities.

    >>> [_is_us_equity(name) for name in ("XNAS.ITCH", "EQUS.MINI", "GLBX.MDP3", "OPRA.PILLAR", "")]
    [True, True, False, False, False]
    """
    return dataset.partition(".")[0] in (*_FEEDS, "DBEQ", "EQUS")


def _record_columns(schema: str) -> list[str]:
    """Return the columns of a table of records, besides ``record`` and ``symbol``."""
    keys = ["publisher_id", "instrument_id", "ts_event", "ts_recv", "flags"]
    if schema == "mbo":
        return [*keys, "action", "side", "price", "size", "order_id"]
    levels = range(BOOK_DEPTHS[schema])
    return keys + [f"{side}_{what}_{level:02d}" for level in levels for side in ("bid", "ask") for what in ("px", "sz")]


def _check_schema(schema: str, path: Path) -> str:
    """Return ``schema`` if its records hold the books of single venues, else raise `NoBooksError`."""
    if schema != "mbo" and schema not in BOOK_DEPTHS:
        consolidated = schema.startswith(("cmbp", "cbbo", "tcbbo"))
        why = "consolidated best prices, not the book of one venue" if consolidated else "no books"
        raise NoBooksError(
            f"{path} must be of schema mbo, {', '.join(BOOK_DEPTHS)}, was {schema}, which holds {why}; "
            "download mbp-1, mbp-10 or mbo instead"
        )
    return schema


def open_databento(path: Path) -> _DbnFile | _CsvFile:
    """Open a DBN or CSV file, told apart by its first bytes."""
    with csv_file_errors(path), unpacked_csv_file(path) as file:
        start = read_csv_file_fully(file, 3)
    return _DbnFile(path) if start == b"DBN" else _CsvFile(path)


class _DbnFile:
    """A binary file (DBN) of any version: records of one schema from ``day``, a UTC date."""

    def __init__(self, path: Path) -> None:
        require_extra("DBN files", "market", "databento_dbn", "pyarrow")
        self.path = path
        with csv_file_errors(path), unpacked_csv_file(path) as file:
            self._about = self._metadata(file)
            head = read_csv_file_fully(file, 2)
        if len(head) < 2:
            raise DataError(f"{path} has no records")
        kind = _RECORD_TYPES.get(head[1], f"type {head[1]}")
        self.schema = _check_schema(str(self._about.schema or kind), path)
        self.day = _utc_day(int(self._about.start))
        self.us_equity = _is_us_equity(str(self._about.dataset))

    def _metadata(self, file: Any) -> Any:
        from databento_dbn import DBNDecoder, DBNError

        head = read_csv_file_fully(file, 8)
        length = int.from_bytes(head[4:8], "little")
        body = read_csv_file_fully(file, length) if length < 1 << 28 else b""
        if head[:3] != b"DBN" or len(head) < 8 or len(body) < length:
            raise DataError(f"{self.path} is truncated or damaged in its DBN metadata")
        try:
            decoder = DBNDecoder()
            decoder.write(head + body)
            found = decoder.decode()
        except (DBNError, ValueError) as error:
            raise DataError(f"{self.path} must be a DBN file: {one_line_text(error)}") from error
        if not found:
            raise DataError(f"{self.path} is truncated or damaged in its DBN metadata")
        return found[0]

    def symbols(self, day: dt.date) -> dict[int, str]:
        """Return symbols by instrument id on a day, from the metadata."""
        found: dict[int, str] = {}
        for name, intervals in self._about.mappings.items():
            for one in intervals:
                number, symbol = one["symbol"], name
                if str(self._about.stype_out) != "instrument_id":
                    number, symbol = symbol, number
                if not (one["start_date"] <= day < one["end_date"] and number.isdecimal()):
                    continue
                if found.setdefault(int(number), symbol) != symbol:
                    both = f"{found[int(number)]} and {symbol} for {number}"
                    raise DataError(f"expected one symbol per instrument id in {self.path}, got {both} on {day}")
        return found

    def frames(self, rows: int) -> Iterator[polars.DataFrame]:
        """Yield tables of up to ``rows`` records, numbered in the column ``record``."""
        layout = _record_layout(self.schema)
        if self._about.ts_out:
            layout = np.dtype([*((name, layout[name]) for name in layout.names or ()), ("ts_out", "<u8")])
        before = 0
        with csv_file_errors(self.path), unpacked_csv_file(self.path) as file:
            self._metadata(file)
            while block := read_csv_file_fully(file, rows * layout.itemsize):
                whole = len(block) // layout.itemsize
                records = np.frombuffer(block, layout, whole)
                self._check(records, before, block)
                yield _table(records, self.schema, before)
                before += whole
                if len(block) % layout.itemsize:
                    raise DataError(f"{self.path} is truncated in record {before + 1:,}")

    def _check(self, records: Any, before: int, block: bytes) -> None:
        """Refuse records of a type or length other than the schema's."""
        kind = next(code for code, schema in _RECORD_TYPES.items() if schema == self.schema)
        odd = (records["rtype"] != kind) | (records["length"].astype(np.int64) * 4 != records.dtype.itemsize)
        row = int(odd.argmax()) if odd.any() else len(records)
        place = row * records.dtype.itemsize
        if odd.any() or (len(block) > place + 1 and block[place + 1] != kind):
            was = _RECORD_TYPES.get(block[place + 1], f"type {block[place + 1]}")
            size = f" of {block[place] * 4} bytes" if was == self.schema else ""
            expected = f"{self.schema}, the file's schema, of {records.dtype.itemsize} bytes"
            raise DataError(f"record {before + row + 1:,} of {self.path} must be {expected}, was {was}{size}")


def _table(records: Any, schema: str, before: int) -> polars.DataFrame:
    columns = {name: np.ascontiguousarray(records[name]) for name in _record_columns(schema)}
    table = polars.DataFrame(columns).with_row_index("record", before + 1)
    letters = {code: chr(code) for code in range(32, 127)}
    for name in ("action", "side"):
        if name in columns:
            table = table.with_columns(
                polars.col(name).replace_strict(letters, default="?", return_dtype=polars.String).alias(name)
            )
    return _nulls(table).with_columns(symbol=polars.lit(None, dtype=polars.String))


def _nulls(table: polars.DataFrame) -> polars.DataFrame:
    """Replace placeholders of absent prices and times by null; convert times to signed integers."""
    prices = [name for name in table.columns if name == "price" or "_px_" in name]
    present = [polars.when(polars.col(name) != NO_PRICE).then(polars.col(name)).alias(name) for name in prices]
    for name in ("ts_event", "ts_recv"):
        time = polars.when(polars.col(name) != NO_TIME).then(polars.col(name))
        present.append(time.cast(polars.Int64, strict=False).alias(name))
    return table.with_columns(present)


class _CsvFile:
    """A CSV file, with prices as integers or in dollars, and times as integers or text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._member = csv_member(path)
        first = next(self._pieces(), None)
        if first is None:
            raise DataError(f"{path} has no rows")
        kind: Any = first["rtype"][0] if "rtype" in first.columns else None
        self.schema = _check_schema(_RECORD_TYPES.get(kind, f"record type {kind}"), path)
        missing = [name for name in _record_columns(self.schema) if name not in first.columns]
        if missing:
            raise DataError(f"{path} lacks columns {', '.join(missing)} of {self.schema} files")
        self._kind = kind
        self._prices = [name for name in _record_columns(self.schema) if name == "price" or "_px_" in name]
        self._raw = self._is_raw(first)
        stamp = self._typed(first.head(1))["ts_recv"][0]
        self.day = _utc_day(stamp if stamp is not None else 0)
        self.us_equity = first["publisher_id"][0] in (*PUBLISHERS, *CONSOLIDATED)  # rows do not name their dataset

    def symbols(self, day: dt.date) -> dict[int, str]:
        """Return an empty dictionary: CSV files state symbols by row, if at all."""
        return {}

    def frames(self, rows: int) -> Iterator[polars.DataFrame]:
        """Yield tables of up to ``rows`` records, numbered in the column ``record``."""
        before = 0
        for piece in self._pieces():
            numbered = piece.with_row_index("record", before + 1)
            before += piece.height
            odd = numbered.filter(polars.col("rtype").ne_missing(self._kind))
            if odd.height:
                number, was = odd.select("record", "rtype").row(0)
                raise DataError(
                    f"row {number:,} of {self.path}: rtype must be {self._kind} as in the first row, was {was}"
                )
            for some in numbered.iter_slices(rows):
                yield self._typed(some)

    def _pieces(self) -> Iterator[polars.DataFrame]:
        require_extra("CSV files", "market", "pyarrow")
        import pyarrow

        levels = [name for schema in BOOK_DEPTHS for name in _record_columns(schema)]
        types = dict.fromkeys((*levels, "size"), pyarrow.int64())
        types |= dict.fromkeys(["rtype", "publisher_id", "instrument_id", "flags"], pyarrow.int64())
        texts = ["ts_event", "ts_recv", "action", "side", "symbol", "price"]
        types |= dict.fromkeys(texts + [name for name in levels if "_px_" in name], pyarrow.string())
        types |= {"order_id": pyarrow.uint64()}
        yield from csv_frames(self.path, self._member, types, header=True)

    def _is_raw(self, first: polars.DataFrame) -> bool:
        """Return whether prices are integers of 10^-9 dollars rather than dollars."""
        texts = polars.concat([first[name].drop_nulls().alias("price") for name in self._prices])
        if texts.str.contains(".", literal=True).any():
            return False
        # Integers below a million are dollars, others units: no share costs $1,000,000, or under $0.001.
        whole = texts.cast(polars.Int64, strict=False)
        largest = whole.filter(whole != NO_PRICE).max()
        return largest is None or int(str(largest)) >= 1_000_000

    def _typed(self, piece: polars.DataFrame) -> polars.DataFrame:
        """Convert a chunk to the common columns, prices and times as integers."""
        wanted = ["record"] * ("record" in piece.columns) + _record_columns(self.schema)
        changes: list[polars.Expr] = []
        for name in self._prices:
            text = polars.when(polars.col(name) != "").then(polars.col(name))
            dollars = (text.cast(polars.Float64) * PRICE_UNIT).round().cast(polars.Int64)
            changes.append((text.cast(polars.Int64) if self._raw else dollars).alias(name))
        form = "integers of 10^-9 dollars" if self._raw else "dollars"
        try:
            table = piece.select(wanted).with_columns(changes)
        except polars.exceptions.PolarsError as error:
            raise DataError(f"{self.path}: prices must be {form}: {one_line_text(error)}") from error
        table = table.with_columns(self._times(table[name]).alias(name) for name in ("ts_event", "ts_recv"))
        if "symbol" in piece.columns:
            return _nulls(table).with_columns(piece["symbol"].replace("", None).alias("symbol"))
        return _nulls(table).with_columns(symbol=polars.lit(None, dtype=polars.String))

    def _times(self, column: polars.Series) -> polars.Series:
        """Parse nanoseconds or ISO times; `NO_TIME` where absent."""
        texts = column.replace("", None)
        known = texts.drop_nulls()
        try:
            if not len(known) or known.str.contains(r"^\d+$")[0]:
                return texts.cast(polars.UInt64).fill_null(NO_TIME)
            stamps = texts.str.to_datetime(time_unit="ns", time_zone="UTC", strict=True)
            return stamps.cast(polars.Int64).cast(polars.UInt64).fill_null(NO_TIME)
        except polars.exceptions.PolarsError as error:
            raise DataError(
                f"{self.path}: {column.name} must be a time such as 2024-01-02T14:30:00.000000000Z or integer "
                f"nanoseconds: {one_line_text(error)}"
            ) from error


def _utc_day(stamp: int) -> dt.date:
    """Return the UTC date of a time in nanoseconds; 1970-01-01 if it is absent."""
    return dt.date(1970, 1, 1) + dt.timedelta(days=stamp // (86_400 * SECOND) if stamp < 2**63 else 0)
