"""Books from updates, from a dictionary per side: what the readers of book updates must agree with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

Side = list[tuple[float | None, float]]


class Update(NamedTuple):
    """The new size of a level; ``group`` is the message it came with, ``reset`` empties the book before."""

    group: int
    bid: bool
    price: float
    size: float
    reset: bool = False


def naive_books_of(updates: Iterable[Update], depth: int) -> list[tuple[int, Side, Side, bool]]:
    """Number of the last row, the best levels and whether there are more, after each message that changed those."""
    sides: dict[bool, dict[float, float]] = {True: {}, False: {}}
    rows = list(updates)
    books: list[tuple[int, Side, Side, bool]] = []
    before: tuple[Side, Side] = ([(None, 0.0)] * depth, [(None, 0.0)] * depth)
    for k, one in enumerate(rows):
        if one.reset:
            sides = {True: {}, False: {}}
        if one.size:
            sides[one.bid][one.price] = one.size
        else:
            sides[one.bid].pop(one.price, None)
        if k + 1 == len(rows) or rows[k + 1].group != one.group:
            now = (_best(sides[True], depth, True), _best(sides[False], depth, False))
            if now != before:
                books.append((k + 1, *now, max(map(len, sides.values())) > depth))
            before = now
    return books


def _best(levels: dict[float, float], depth: int, bid: bool) -> Side:
    best: Side = [(price, size) for price, size in sorted(levels.items(), reverse=bid)[:depth]]
    return best + [(None, 0.0)] * (depth - len(best))


def sides_of(row: dict[str, Any], depth: int) -> tuple[Side, Side]:
    """The two sides of a row of a snapshot table, as `naive_books_of` gives them."""
    bid, ask = (
        [(row[f"{side}_px_{k:02d}"], row[f"{side}_sz_{k:02d}"]) for k in range(depth)] for side in ("bid", "ask")
    )
    return bid, ask


def random_updates(rng: np.random.Generator) -> list[Update]:
    """A snapshot of three levels a side, and messages of one update each, at prices that do not cross."""
    levels = [Update(1, bid, 100.0 - k if bid else 100.0 + k, 1.0) for bid in (True, False) for k in (1, 2, 3)]
    places = [(bool(rng.integers(2)), int(rng.integers(1, 6))) for _ in range(25)]
    later = [
        Update(k, bid, 100.0 - away if bid else 100.0 + away, int(rng.integers(4)) / 2)
        for k, (bid, away) in enumerate(places, 2)
    ]
    return [levels[0]._replace(reset=True), *levels[1:], *later]


def tardis_text(updates: Sequence[Update], begin: int, exchange: str = "binance", symbol: str = "BTCUSDT") -> str:
    """A Tardis ``incremental_book_L2`` table: microseconds from ``begin`` on; resets and what follows are snapshots."""
    lines = ["exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount"]
    snapshot = False
    for k, one in enumerate(updates):
        snapshot = one.reset or (snapshot and one.group == updates[k - 1].group)
        time, flag = begin + one.group, str(snapshot).lower()
        side = "bid" if one.bid else "ask"
        lines.append(f"{exchange},{symbol},{time - 3},{time},{flag},{side},{one.price},{one.size}")
    return "\n".join(lines) + "\n"


def depth_update(time: int, first: int, last: int, bids: Any = (), asks: Any = (), **more: Any) -> str:
    """A line of Binance's diff-depth stream."""
    levels = {name: [[f"{p:.2f}", f"{s:.8f}"] for p, s in side] for name, side in (("b", bids), ("a", asks))}
    return json.dumps({"e": "depthUpdate", "E": time, "s": "BTCUSDT", "U": first, "u": last} | more | levels)


def binance_text(updates: Sequence[Update], begin: int) -> str:
    """Lines of Binance's stream after a snapshot, which the updates of the first message are; milliseconds."""
    first = updates[0].group
    sides = [
        [(one.price, one.size) for one in updates if one.group == first and one.bid == bid] for bid in (True, False)
    ]
    lines = [depth_snapshot(first, *sides)]
    for one in updates:
        if one.group > first:
            levels = [[(one.price, one.size)] if one.bid == bid else [] for bid in (True, False)]
            lines.append(depth_update(begin + one.group, one.group, one.group, *levels))
    return "\n".join(lines) + "\n"


def depth_snapshot(number: int, bids: Any = (), asks: Any = ()) -> str:
    """Binance's answer to a request for the book."""
    levels = {name: [[f"{p:.2f}", f"{s:.8f}"] for p, s in side] for name, side in (("bids", bids), ("asks", asks))}
    return json.dumps({"lastUpdateId": number} | levels)
