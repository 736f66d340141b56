"""Messages of NASDAQ's TotalView-ITCH 5.0 as bytes, many at a time, each after its length in two bytes.

Numbers are big-endian, times are nanoseconds since midnight in 48 bits, prices ten-thousandths of a dollar.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from riskroute.core.arrays import Integers
from riskroute.core.errors import InputError

_HEAD = [
    ("length", ">u2"),
    ("kind", "S1"),
    ("locate", ">u2"),
    ("tracking", ">u2"),
    ("time_high", ">u2"),
    ("time_low", ">u4"),
]
_REFERENCE, _SHARES, _STOCK, _PRICE = ("reference", ">u8"), ("shares", ">u4"), ("stock", "S8"), ("price", ">u4")
_MATCH, _SIDE = ("match", ">u8"), ("side", "S1")

LAYOUTS: dict[str, np.dtype[np.void]] = {
    kind: np.dtype(_HEAD + fields)
    for kind, fields in {
        "S": [("event", "S1")],
        "R": [
            _STOCK,
            ("market_category", "S1"),
            ("financial_status", "S1"),
            ("round_lot", ">u4"),
            ("round_lots_only", "S1"),
            ("classification", "S1"),
            ("subtype", "S2"),
            ("authenticity", "S1"),
            ("short_sale_threshold", "S1"),
            ("new_issue", "S1"),
            ("price_tier", "S1"),
            ("exchange_traded", "S1"),
            ("leverage", ">u4"),
            ("inverse", "S1"),
        ],
        "H": [_STOCK, ("state", "S1"), ("reserved", "S1"), ("reason", "S4")],
        "A": [_REFERENCE, _SIDE, _SHARES, _STOCK, _PRICE],
        "F": [_REFERENCE, _SIDE, _SHARES, _STOCK, _PRICE, ("attribution", "S4")],
        "E": [_REFERENCE, _SHARES, _MATCH],
        "C": [_REFERENCE, _SHARES, _MATCH, ("printable", "S1"), _PRICE],
        "X": [_REFERENCE, _SHARES],
        "D": [_REFERENCE],
        "U": [("old_reference", ">u8"), _REFERENCE, _SHARES, _PRICE],
        "P": [_REFERENCE, _SIDE, _SHARES, _STOCK, _PRICE, _MATCH],
    }.items()
}
"""Layout of a message of each kind, with its length before it."""

FLOW = "AFECXDUP"
"""Kinds that `encode_messages` writes: what happens to orders, and trades."""

_LIMITS = {"time": 2**48, "locate": 2**16, "price": 2**32, "shares": 2**32}


@dataclass(frozen=True)
class OrderMessages:
    """Messages about orders, a column per field, ``(n,)`` each; a column that a kind has no use for is not read.

    ``kind`` is the letter's code, ``side`` 0 to buy and 1 to sell. ``reference`` is the order a message is about, the
    new one if it replaces ``old_reference``; ``attribution`` (kind F) and ``stock`` are bytes.
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
    """Messages as bytes, in their order.

    Examples
    --------
    >>> letter, time, one, name = np.array([ord("D")]), np.array([19]), np.array([1]), np.array([b"ACME"])
    >>> encode_messages(OrderMessages(time, letter, one, one, one, one, one, one, one, name, name)).hex(" ", 1)
    '00 13 44 00 01 00 00 00 00 00 00 00 13 00 00 00 00 00 00 00 01'
    """
    for name, limit in _LIMITS.items():
        column = getattr(messages, name)
        if len(column) and not (column.min() >= 0 and column.max() < limit):
            raise InputError(f"{name} must be from 0 to {limit - 1:,}, was {column.min():,} to {column.max():,}")
    lengths = np.zeros(len(messages.kind), dtype=np.int64)
    chosen = {kind: np.flatnonzero(messages.kind == ord(kind)) for kind in FLOW}
    for kind, rows in chosen.items():
        lengths[rows] = LAYOUTS[kind].itemsize
    if not lengths.all():
        raise InputError(f"kind must be one of {', '.join(FLOW)}, was {chr(messages.kind[lengths.argmin()])!r}")
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
    names = LAYOUTS[kind].names or ()
    for name in ("price", "shares", "reference", "old_reference", "match", "stock", "attribution"):
        if name in names:
            value = getattr(messages, name)[rows]
            parts[name] = np.char.ljust(value, LAYOUTS[kind][name].itemsize) if value.dtype.kind == "S" else value
    if "side" in names:
        parts["side"] = np.where(messages.side[rows] == 0, b"B", b"S")
    if "printable" in names:
        parts["printable"] = b"Y"
    return parts


def _headed(kind: str, time: Integers, locate: Integers) -> NDArray[np.void]:
    parts = np.zeros(len(time), dtype=LAYOUTS[kind])
    parts["length"], parts["kind"], parts["locate"] = parts.itemsize - 2, kind.encode(), locate
    parts["time_high"], parts["time_low"] = time >> 32, time & 0xFFFFFFFF
    return parts


def system_event(time: int, event: str) -> bytes:
    """The message that a part of the day begins or ends: O, S, Q, M, E or C.

    Examples
    --------
    >>> system_event(5, "O").hex(" ", 1)
    '00 0c 53 00 00 00 00 00 00 00 00 00 05 4f'
    """
    parts = _headed("S", np.array([time]), np.array([0]))
    parts["event"] = event.encode()
    return parts.tobytes()


def stock_directory(time: int, locate: int, stock: str) -> bytes:
    """The message that gives a stock its locate code: a common stock in round lots of 100."""
    parts = _headed("R", np.array([time]), np.array([locate]))
    fields = {"stock": stock.ljust(8), "market_category": "Q", "financial_status": "N", "round_lots_only": "N"}
    fields |= {"classification": "C", "subtype": "Z ", "authenticity": "P", "short_sale_threshold": "N"}
    fields |= {"new_issue": "N", "price_tier": "1", "exchange_traded": "N", "inverse": "N"}
    for name, text in fields.items():
        parts[name] = text.encode()
    parts["round_lot"] = 100
    return parts.tobytes()


def trading_begins(time: int, locate: int, stock: str) -> bytes:
    """The message that a stock trades."""
    parts = _headed("H", np.array([time]), np.array([locate]))
    parts["stock"], parts["state"], parts["reserved"], parts["reason"] = stock.ljust(8).encode(), b"T", b" ", b"    "
    return parts.tobytes()
