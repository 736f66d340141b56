"""Encoding against ``struct``, field by field."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_books import ITCH_SIZES
from riskroute.market.synthetic.generate import (
    _LAYOUTS,
    _encode_messages,
    _stock_directory,
    _system_event,
    _trading_begins,
)

FIELDS = {
    "time": st.integers(0, 2**48 - 1),
    "kind": st.sampled_from([ord(kind) for kind in "AFECXDUP"]),
    "locate": st.integers(0, 2**16 - 1),
    "side": st.integers(0, 1),
    "price": st.integers(0, 2**32 - 1),
    "shares": st.integers(0, 2**32 - 1),
    "reference": st.integers(0, 2**63 - 1),
    "old_reference": st.integers(0, 2**63 - 1),
    "match": st.integers(0, 2**63 - 1),
    "stock": st.text("ABC", min_size=1, max_size=8).map(str.encode),
    "attribution": st.text("ABC", min_size=1, max_size=4).map(str.encode),
}
ROWS = st.lists(st.fixed_dictionaries(FIELDS), max_size=20)


def columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    types = {"stock": "S8", "attribution": "S4"}
    return {name: np.array([row[name] for row in rows], dtype=types.get(name, "int64")) for name in FIELDS}


def packed(row: dict[str, Any]) -> bytes:
    """One message by ``struct``, from NASDAQ's description of the format."""
    kind, side = chr(row["kind"]), b"BS"[row["side"] : row["side"] + 1]
    reference, shares, price = row["reference"], row["shares"], row["price"]
    stock, match = row["stock"].ljust(8), row["match"]
    head = kind.encode() + struct.pack(">HH", row["locate"], 0) + row["time"].to_bytes(6, "big")
    order = struct.pack(">QcI8sI", reference, side, shares, stock, price)
    body = {
        "A": order,
        "F": order + row["attribution"].ljust(4),
        "E": struct.pack(">QIQ", reference, shares, match),
        "C": struct.pack(">QIQcI", reference, shares, match, b"Y", price),
        "X": struct.pack(">QI", reference, shares),
        "D": struct.pack(">Q", reference),
        "U": struct.pack(">QQII", row["old_reference"], reference, shares, price),
        "P": order + struct.pack(">Q", match),
    }[kind]
    return struct.pack(">H", len(head + body)) + head + body


@settings(max_examples=40)
@given(ROWS)
def test_messages_equal_those_packed_one_by_one(rows: list[dict[str, Any]]) -> None:
    assert _encode_messages(columns(rows)) == b"".join(packed(row) for row in rows)


def test_every_layout_has_the_length_that_nasdaq_gives() -> None:
    assert {kind: layout.itemsize - 2 for kind, layout in _LAYOUTS.items()} == ITCH_SIZES


def test_messages_around_the_day() -> None:
    time = 34_200_000_000_000
    stamp = time.to_bytes(6, "big")
    assert _system_event(time, "Q") == b"\x00\x0cS\x00\x00\x00\x00" + stamp + b"Q"
    assert _trading_begins(time, 3, "ACME") == b"\x00\x19H\x00\x03\x00\x00" + stamp + b"ACME    T     "
    directory = b"ACME    QN" + struct.pack(">I", 100) + b"NCZ PNN1N" + struct.pack(">I", 0) + b"N"
    assert _stock_directory(time, 3, "ACME") == b"\x00\x27R\x00\x03\x00\x00" + stamp + directory
