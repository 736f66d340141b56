"""What Databento's files are made of: records and their fields, publishers, flags, and what stands for nothing.

Prices are whole numbers of 10^-9 dollars, times are nanoseconds of UTC.
"""

from __future__ import annotations

import numpy as np

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
