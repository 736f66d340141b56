"""Encode NASDAQ TotalView-ITCH 5.0 messages, each preceded by its length in two bytes.

Times are nanoseconds since midnight in 48 bits, prices ten-thousandths of a dollar.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from riskroute.core.arrays import Integers
from riskroute.core.errors import InputError

# Fields of each message type, after a head that all share; numpy types, big-endian.
_FIELDS = {
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


def _layout(fields: str) -> np.dtype[np.void]:
    head = "length:>u2 kind:S1 locate:>u2 tracking:>u2 time_high:>u2 time_low:>u4"
    return np.dtype([(name, kind) for name, kind in (field.split(":") for field in f"{head} {fields}".split())])


_LAYOUTS = {kind: _layout(fields) for kind, fields in _FIELDS.items()}


@dataclass(frozen=True)
class OrderMessages:
    """Messages about orders, one column per field, ``(n,)`` each; fields that a type lacks are ignored.

    ``kind`` is a character code, ``side`` 0 to buy and 1 to sell. ``reference`` is the message's order, the new one if
    it replaces ``old_reference``; ``attribution`` (type F) and ``stock`` are bytes.
    """

    time: Integers
    kind: Integers
    locate: Integers
    side: Integers
    price: Integers
    shares: Integers
    reference: Integers
    old_reference: Integers
    match: Integers
    stock: NDArray[np.bytes_]
    attribution: NDArray[np.bytes_]


def encode_messages(messages: OrderMessages) -> bytes:
    """Encode messages in the given order.

    >>> letter, time, one, name = np.array([ord("D")]), np.array([19]), np.array([1]), np.array([b"ACME"])
    >>> encode_messages(OrderMessages(time, letter, one, one, one, one, one, one, one, name, name)).hex(" ", 1)
    '00 13 44 00 01 00 00 00 00 00 00 00 13 00 00 00 00 00 00 00 01'
    """
    for name, limit in {"time": 2**48, "locate": 2**16, "price": 2**32, "shares": 2**32}.items():
        column = getattr(messages, name)
        if len(column) and not (column.min() >= 0 and column.max() < limit):
            raise InputError(f"{name} must be from 0 to {limit - 1:,}, was {column.min():,} to {column.max():,}")
    lengths = np.zeros(len(messages.kind), dtype=np.int64)
    chosen = {kind: np.flatnonzero(messages.kind == ord(kind)) for kind in "AFECXDUP"}
    for kind, rows in chosen.items():
        lengths[rows] = _LAYOUTS[kind].itemsize
    if not lengths.all():
        raise InputError(f"kind must be one of {', '.join('AFECXDUP')}, was {chr(messages.kind[lengths.argmin()])!r}")
    starts = np.cumsum(lengths) - lengths
    whole = np.zeros(lengths.sum(), dtype=np.uint8)
    for kind, rows in chosen.items():
        if not len(rows):
            continue
        parts = _filled(kind, messages, rows)
        whole[starts[rows, None] + np.arange(parts.itemsize)] = parts.view(np.uint8).reshape(len(rows), -1)
    return whole.tobytes()


def _filled(kind: str, messages: OrderMessages, rows: Integers) -> NDArray[np.void]:
    parts = _headed(kind, messages.time[rows], messages.locate[rows])
    names = _LAYOUTS[kind].names or ()
    for name in ("price", "shares", "reference", "old_reference", "match", "stock", "attribution"):
        if name in names:
            value = getattr(messages, name)[rows]
            parts[name] = np.char.ljust(value, _LAYOUTS[kind][name].itemsize) if value.dtype.kind == "S" else value
    if "side" in names:
        parts["side"] = np.where(messages.side[rows] == 0, b"B", b"S")
    if "printable" in names:
        parts["printable"] = b"Y"
    return parts


def _headed(kind: str, time: Integers, locate: Integers) -> NDArray[np.void]:
    parts = np.zeros(len(time), dtype=_LAYOUTS[kind])
    parts["length"], parts["kind"], parts["locate"] = parts.itemsize - 2, kind.encode(), locate
    parts["time_high"], parts["time_low"] = time >> 32, time & 0xFFFFFFFF
    return parts


def system_event(time: int, event: str) -> bytes:
    """Encode a system event, the begin or end of a part of the day: O, S, Q, M, E or C.

    >>> system_event(5, "O").hex(" ", 1)
    '00 0c 53 00 00 00 00 00 00 00 00 00 05 4f'
    """
    parts = _headed("S", np.array([time]), np.array([0]))
    parts["event"] = event.encode()
    return parts.tobytes()


def stock_directory(time: int, locate: int, stock: str) -> bytes:
    """Encode the directory entry of a common stock in round lots of 100."""
    parts = _headed("R", np.array([time]), np.array([locate]))
    fields = {"stock": stock.ljust(8), "market_category": "Q", "financial_status": "N", "round_lots_only": "N"}
    fields |= {"classification": "C", "subtype": "Z ", "authenticity": "P", "short_sale_threshold": "N"}
    fields |= {"new_issue": "N", "price_tier": "1", "exchange_traded": "N", "inverse": "N"}
    for name, text in fields.items():
        parts[name] = text.encode()
    parts["round_lot"] = 100
    return parts.tobytes()


def trading_begins(time: int, locate: int, stock: str) -> bytes:
    """Encode the message that trading in a stock begins."""
    parts = _headed("H", np.array([time]), np.array([locate]))
    parts["stock"], parts["state"], parts["reserved"], parts["reason"] = stock.ljust(8).encode(), b"T", b" ", b"    "
    return parts.tobytes()
