"""Symbols of an ITCH file without a directory, as cut from the middle of a day: messages that add orders name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from riskroute.core.errors import DataError
from riskroute.market.readers.itch_messages import LAYOUTS
from riskroute.market.readers.packed import read_fully, unpacked

BLOCK = 1 << 24
"""Bytes that are looked at together."""

_KINDS = {ord(kind): LAYOUTS[kind] for kind in "AF"}


def itch_stocks(path: Path) -> dict[int, str]:
    """Symbols by locate code, from the messages that add orders; refuses a code of two symbols."""
    names: dict[int, str] = {}
    with unpacked(path) as file:
        rest = b""
        while block := read_fully(file, BLOCK):
            whole = np.frombuffer(rest + block, dtype=np.uint8)
            starts = np.empty(len(whole) // 2 + 1, dtype=np.int64)
            count, end = _walk(whole, starts)
            _learn(names, whole, starts[:count], path)
            rest = whole[end:].tobytes()
    return names


def _learn(names: dict[int, str], whole: Any, starts: Any, path: Path) -> None:
    kinds = whole[starts + 2]
    for kind, layout in _KINDS.items():
        mine = starts[kinds == kind]
        mine = mine[mine + layout.itemsize <= len(whole)]
        rows = whole[mine[:, None] + np.arange(layout.itemsize)]
        messages = np.ascontiguousarray(rows).view(layout).reshape(-1)
        pairs = np.unique(messages[["locate", "stock"]])
        for code, stock in pairs:
            name = stock.decode("latin-1").strip()
            if names.setdefault(int(code), name) != name:
                both = f"{names[int(code)]!r} and {name!r}"
                raise DataError(f"{path} must give every symbol one code, was {code} for {both}")


@njit(cache=True)
def _walk(block: Any, starts: Any) -> tuple[int, int]:
    """Where messages begin, and where the first one does that is not whole."""
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
