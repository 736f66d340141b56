"""Databento's records out of DBN and CSV files, plain or packed, as tables of whole numbers with the same columns.

CSV files come with prices as whole numbers or in dollars, and with times as whole numbers or as text; what the file
has decides. A price or a time that is not there is null.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars

from riskroute.core.errors import DataError, one_line_error
from riskroute.core.runtime import require_extra
from riskroute.market.readers.reading import NoBooksError
from riskroute.market.readers.streams import csv_frames, csv_members, file_errors, read_fully, unpacked

# What Databento's files are made of: records and their fields, publishers, flags, and what stands for nothing.
#
# Prices are whole numbers of 10^-9 dollars, times are nanoseconds of UTC.
#


PRICE_UNIT = 1_000_000_000
"""Units of a price in a dollar."""

NO_PRICE, NO_TIME = 2**63 - 1, 2**64 - 1
"""What stands for a price, and for a time, that is not there."""

LAST, TOP_OF_BOOK, SNAPSHOT, LEVELS_ONLY, BAD_RECEIPT, MAYBE_BAD_BOOK = 128, 64, 32, 16, 8, 4
"""Flags of a record, in Databento's words: F_LAST, F_TOB, F_SNAPSHOT, F_MBP, F_BAD_TS_RECV, F_MAYBE_BAD_BOOK."""

BOOK_DEPTHS = {"mbp-1": 1, "mbp-10": 10, "bbo-1s": 1, "bbo-1m": 1}
"""Schemas whose records hold books, and their levels."""

SCHEMAS = ("mbo", *BOOK_DEPTHS)
"""Schemas that are read."""

RECORD_TYPES = {0xA0: "mbo", 0x01: "mbp-1", 0x0A: "mbp-10", 0xC3: "bbo-1s", 0xC4: "bbo-1m"}
"""Schemas by the type of record that they are made of."""

OTHER_TYPES = {
    0x00: "trades",
    0x12: "status",
    0x13: "definition",
    0x14: "imbalance",
    0x15: "an error message",
    0x16: "a symbol mapping",
    0x17: "a system message",
    0x18: "statistics",
    0x20: "ohlcv-1s",
    0x21: "ohlcv-1m",
    0x22: "ohlcv-1h",
    0x23: "ohlcv-1d",
    0x24: "ohlcv-eod",
    0xB1: "cmbp-1",
    0xC0: "cbbo-1s",
    0xC1: "cbbo-1m",
    0xC2: "tcbbo",
    0xC5: "tbbo",
}
"""What other types of record are called."""

_HEAD = [("length", "u1"), ("rtype", "u1"), ("publisher_id", "<u2"), ("instrument_id", "<u4"), ("ts_event", "<u8")]
_ORDER = [
    *_HEAD,
    ("order_id", "<u8"),
    ("price", "<i8"),
    ("size", "<u4"),
    ("flags", "u1"),
    ("channel_id", "u1"),
    ("action", "u1"),
    ("side", "u1"),
    ("ts_recv", "<u8"),
    ("ts_in_delta", "<i4"),
    ("sequence", "<u4"),
]
_BOOK = [
    *_HEAD,
    ("price", "<i8"),
    ("size", "<u4"),
    ("action", "u1"),
    ("side", "u1"),
    ("flags", "u1"),
    ("depth", "u1"),
    ("ts_recv", "<u8"),
    ("ts_in_delta", "<i4"),
    ("sequence", "<u4"),
]


def record_layout(schema: str) -> np.dtype[np.void]:
    """Fields of the records of a schema, without the time of sending that live recordings add.

    Examples
    --------
    >>> [record_layout(schema).itemsize for schema in ("mbo", "mbp-1", "mbp-10", "bbo-1s")]
    [56, 80, 368, 80]
    """
    fields = list(_ORDER if schema == "mbo" else _BOOK)
    for level in range(BOOK_DEPTHS.get(schema, 0)):
        fields += [(f"{side}_px_{level:02d}", "<i8") for side in ("bid", "ask")]
        fields += [(f"{side}_{what}_{level:02d}", "<u4") for what in ("sz", "ct") for side in ("bid", "ask")]
    return np.dtype(fields)


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
"""Venues of US equities by ``publisher_id``; a venue has one number per feed that it is published in."""

GATHERED = (59, 60, 90, 93, 94, 95, 96)
"""Numbers of publishers that gather the best prices of several venues."""

_EQUITY_DATASETS = (*_FEEDS, "DBEQ", "EQUS")  # what stands before the dot, as in XNAS.ITCH


def is_us_equity_dataset(dataset: str) -> bool:
    """Whether a dataset of Databento's is of US equities.

    Examples
    --------
    >>> [is_us_equity_dataset(name) for name in ("XNAS.ITCH", "EQUS.MINI", "GLBX.MDP3", "OPRA.PILLAR", "")]
    [True, True, False, False, False]
    """
    return dataset.partition(".")[0] in _EQUITY_DATASETS


_LONGEST_HEAD = 1 << 28
_DAY = 86_400 * 10**9
_SMALLEST_RAW = 1_000_000
"""Whole prices below this are dollars, those from here on are units: no share costs a million, or a thousandth."""


class DatabentoFile(Protocol):
    """Records of one schema; ``day`` is the UTC day of the first, ``symbols`` the names of ids on a day, if told.

    ``us_equity`` says whether they are of US equities, false where the file does not tell.
    """

    schema: str
    day: dt.date
    us_equity: bool

    def symbols(self, day: dt.date) -> dict[int, str]:
        """Symbols by instrument id, empty where the file does not tell or its rows do."""

    def frames(self, rows: int) -> Iterator[polars.DataFrame]:
        """Tables of about so many records, with their number in the file as ``record``."""


def record_columns(schema: str) -> list[str]:
    """Columns that a table of records has, besides ``record`` and ``symbol``."""
    keys = ["publisher_id", "instrument_id", "ts_event", "ts_recv", "flags"]
    if schema == "mbo":
        return [*keys, "action", "side", "price", "size", "order_id"]
    levels = range(BOOK_DEPTHS[schema])
    return keys + [f"{side}_{what}_{level:02d}" for level in levels for side in ("bid", "ask") for what in ("px", "sz")]


def known_schema(schema: str, path: Path) -> str:
    """The schema, if its records tell the books of single venues."""
    if schema in SCHEMAS:
        return schema
    why = "holds no books"
    if schema.startswith(("cmbp", "cbbo", "tcbbo")):
        why = "holds the best prices of all venues, which are not the book of one"
    raise NoBooksError(
        f"{path} must be of schema {', '.join(SCHEMAS)}, was {schema}, which {why}; download mbp-1, mbp-10 or mbo "
        "instead"
    )


def open_databento(path: Path) -> DatabentoFile:
    """A file of either kind, by what it holds."""
    with file_errors(path), unpacked(path) as file:
        start = read_fully(file, 3)
    return DbnFile(path) if start == b"DBN" else DatabentoCsv(path)


class DbnFile:
    """Databento's binary files, of any version."""

    def __init__(self, path: Path) -> None:
        require_extra("DBN files", "market", "databento_dbn", "pyarrow")
        self.path = path
        with file_errors(path), unpacked(path) as file:
            self._about = self._metadata(file)
            head = read_fully(file, 2)
        if len(head) < 2:
            raise DataError(f"{path} must hold records, was without any")
        kind = RECORD_TYPES.get(head[1], OTHER_TYPES.get(head[1], f"type {head[1]}"))
        self.schema = known_schema(str(self._about.schema or kind), path)
        self.day = _utc_day(int(self._about.start))
        self.us_equity = is_us_equity_dataset(str(self._about.dataset))

    def _metadata(self, file: Any) -> Any:
        from databento_dbn import DBNDecoder, DBNError

        head = read_fully(file, 8)
        length = int.from_bytes(head[4:8], "little")
        body = read_fully(file, length) if length < _LONGEST_HEAD else b""
        if head[:3] != b"DBN" or len(head) < 8 or len(body) < length:
            raise DataError(f"{self.path} must be a whole DBN file, was cut off or damaged in its metadata")
        try:
            decoder = DBNDecoder()
            decoder.write(head + body)
            found = decoder.decode()
        except (DBNError, ValueError) as error:
            raise DataError(f"{self.path} must be a DBN file: {one_line_error(error)}") from error
        if not found:
            raise DataError(f"{self.path} must be a whole DBN file, was cut off or damaged in its metadata")
        return found[0]

    def symbols(self, day: dt.date) -> dict[int, str]:
        """Symbols by instrument id, from the metadata."""
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
                    raise DataError(f"{self.path} must give every instrument id one symbol, was {both} on {day}")
        return found

    def frames(self, rows: int) -> Iterator[polars.DataFrame]:
        """Tables of records."""
        layout = record_layout(self.schema)
        if self._about.ts_out:
            layout = np.dtype([*((name, layout[name]) for name in layout.names or ()), ("ts_out", "<u8")])
        before = 0
        with file_errors(self.path), unpacked(self.path) as file:
            self._metadata(file)
            while block := read_fully(file, rows * layout.itemsize):
                whole = len(block) // layout.itemsize
                records = np.frombuffer(block, layout, whole)
                self._check(records, before, block)
                yield _table(records, self.schema, before)
                before += whole
                if len(block) % layout.itemsize:
                    raise DataError(f"{self.path} must be a whole DBN file, was cut off in record {before + 1:,}")

    def _check(self, records: Any, before: int, block: bytes) -> None:
        """Refuse records of another type or length than the first."""
        kind = next(code for code, schema in RECORD_TYPES.items() if schema == self.schema)
        odd = (records["rtype"] != kind) | (records["length"].astype(np.int64) * 4 != records.dtype.itemsize)
        row = int(odd.argmax()) if odd.any() else len(records)
        place = row * records.dtype.itemsize
        if odd.any() or (len(block) > place + 1 and block[place + 1] != kind):
            was = RECORD_TYPES.get(block[place + 1], OTHER_TYPES.get(block[place + 1], f"type {block[place + 1]}"))
            size = f" of {block[place] * 4} bytes" if was == self.schema else ""
            expected = f"{self.schema}, as the file says, of {records.dtype.itemsize} bytes"
            raise DataError(f"record {before + row + 1:,} of {self.path} must be {expected}, was {was}{size}")


def _table(records: Any, schema: str, before: int) -> polars.DataFrame:
    columns = {name: np.ascontiguousarray(records[name]) for name in record_columns(schema)}
    table = polars.DataFrame(columns).with_row_index("record", before + 1)
    letters = {code: chr(code) for code in range(32, 127)}
    for name in ("action", "side"):
        if name in columns:
            table = table.with_columns(
                polars.col(name).replace_strict(letters, default="?", return_dtype=polars.String).alias(name)
            )
    return _nulls(table).with_columns(symbol=polars.lit(None, dtype=polars.String))


def _nulls(table: polars.DataFrame) -> polars.DataFrame:
    """Nothing where a price or a time is not there; times as signed numbers."""
    prices = [name for name in table.columns if name == "price" or "_px_" in name]
    times = ["ts_event", "ts_recv"]
    return table.with_columns(
        [polars.when(polars.col(name) != NO_PRICE).then(polars.col(name)).alias(name) for name in prices]
        + [
            polars.when(polars.col(name) != NO_TIME).then(polars.col(name)).cast(polars.Int64, strict=False).alias(name)
            for name in times
        ]
    )


class DatabentoCsv:
    """Databento's CSV files, in either form."""

    def __init__(self, path: Path) -> None:
        self.path = path
        members = csv_members(path)
        if len(members) != 1:
            raise DataError(f"{path} must hold one CSV file, was {len(members)}")
        self._member = members[0]
        first = next(self._pieces(), None)
        if first is None:
            raise DataError(f"{path} must hold a header and at least one row, was empty")
        kind: Any = first["rtype"][0] if "rtype" in first.columns else None
        self.schema = known_schema(RECORD_TYPES.get(kind, OTHER_TYPES.get(kind, f"record type {kind}")), path)
        missing = [name for name in record_columns(self.schema) if name not in first.columns]
        if missing:
            raise DataError(f"{path} must have columns {', '.join(missing)} as {self.schema} files do, was without")
        self._kind, self._raw = kind, self._is_raw(first)
        stamp = self._typed(first.head(1))["ts_recv"][0]
        self.day = _utc_day(stamp if stamp is not None else 0)
        self.us_equity = first["publisher_id"][0] in (*PUBLISHERS, *GATHERED)  # rows do not name their dataset

    def symbols(self, day: dt.date) -> dict[int, str]:
        """None: rows name their symbol themselves, if at all."""
        return {}

    def frames(self, rows: int) -> Iterator[polars.DataFrame]:
        """Tables of records."""
        before = 0
        for piece in self._pieces():
            numbered = piece.with_row_index("record", before + 1)
            before += piece.height
            odd = numbered.filter(polars.col("rtype").ne_missing(self._kind))
            if odd.height:
                number, was = odd.select("record", "rtype").row(0)
                raise DataError(f"row {number:,} of {self.path} must have rtype {self._kind} as the first, was {was}")
            for some in numbered.iter_slices(rows):
                yield self._typed(some)

    def _pieces(self) -> Iterator[polars.DataFrame]:
        require_extra("CSV files", "market", "pyarrow")
        import pyarrow

        levels = [name for schema in BOOK_DEPTHS for name in record_columns(schema)]
        types = dict.fromkeys((*levels, "size"), pyarrow.int64())
        types |= dict.fromkeys(["rtype", "publisher_id", "instrument_id", "flags"], pyarrow.int64())
        texts = ["ts_event", "ts_recv", "action", "side", "symbol", "price"]
        types |= dict.fromkeys(texts + [name for name in levels if "_px_" in name], pyarrow.string())
        types |= {"order_id": pyarrow.uint64()}
        yield from csv_frames(self.path, self._member, types, header=True)

    def _prices(self) -> list[str]:
        return [name for name in record_columns(self.schema) if name == "price" or "_px_" in name]

    def _is_raw(self, first: polars.DataFrame) -> bool:
        """Whether prices are whole numbers of units rather than dollars."""
        texts = polars.concat([first[name].drop_nulls().alias("price") for name in self._prices()])
        if texts.str.contains(".", literal=True).any():
            return False
        whole = texts.cast(polars.Int64, strict=False)
        largest = whole.filter(whole != NO_PRICE).max()
        return largest is None or int(str(largest)) >= _SMALLEST_RAW

    def _typed(self, piece: polars.DataFrame) -> polars.DataFrame:
        """The piece in the columns of all files, prices and times as whole numbers."""
        wanted = ["record"] * ("record" in piece.columns) + record_columns(self.schema)
        changes: list[polars.Expr] = []
        for name in self._prices():
            text = polars.when(polars.col(name) != "").then(polars.col(name))
            dollars = (text.cast(polars.Float64) * PRICE_UNIT).round().cast(polars.Int64)
            changes.append((text.cast(polars.Int64) if self._raw else dollars).alias(name))
        form = "whole numbers of 10^-9 dollars" if self._raw else "dollars"
        try:
            table = piece.select(wanted).with_columns(changes)
        except polars.exceptions.PolarsError as error:
            raise DataError(f"{self.path} must have prices in {form}, was: {one_line_error(error)}") from error
        table = table.with_columns(self._times(table[name]).alias(name) for name in ("ts_event", "ts_recv"))
        symbol = (
            piece["symbol"] if "symbol" in piece.columns else polars.Series([None] * piece.height, dtype=polars.String)
        )
        return _nulls(table).with_columns(symbol.replace("", None).alias("symbol"))

    def _times(self, column: polars.Series) -> polars.Series:
        """Nanoseconds from texts of them, or from dates with times; ``NO_TIME`` where there is none."""
        texts = column.replace("", None)
        known = texts.drop_nulls()
        try:
            if not len(known) or known.str.contains(r"^\d+$")[0]:
                return texts.cast(polars.UInt64).fill_null(NO_TIME)
            stamps = texts.str.to_datetime(time_unit="ns", time_zone="UTC", strict=True)
            return stamps.cast(polars.Int64).cast(polars.UInt64).fill_null(NO_TIME)
        except polars.exceptions.PolarsError as error:
            raise DataError(
                f"{self.path} must have times in {column.name} such as 2024-01-02T14:30:00.000000000Z or whole "
                f"nanoseconds: {one_line_error(error)}"
            ) from error


def _utc_day(stamp: int) -> dt.date:
    """The day of a time, UTC nanoseconds; the first of all days where it is not there."""
    return dt.date(1970, 1, 1) + dt.timedelta(days=stamp // _DAY if stamp < 2**63 else 0)
