"""Small market data files of every kind that is read, made from one list of orders, so that their books are known."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars

from riskroute.market.schema import EVENT_SCHEMA, snapshot_schema
from riskroute.market.store import Store

DAY = "2019-03-27"
OPEN = 34_200 * 10**9
"""09:30 in nanoseconds since midnight, New York."""

MIDNIGHT = 1_553_659_200 * 10**9
"""New York midnight of the day in UTC nanoseconds: 04:00 UTC."""

ITCH_NAME = "20190327.NASDAQ_ITCH_50"
LOBSTER_NAME = "ACME_2019-03-27_34200000_57600000_{}_{}.csv"
TICK_NAME = "20190327_acme_Quote_Tick.csv"

Level = tuple[float | None, int]
Book = dict[str, list[Level]]


class Message(NamedTuple):
    """What happens to an order; ``time`` in nanoseconds since midnight, ``price`` in ten-thousandths of a dollar.

    ``kind`` as in ITCH: A or F add, E or C execute, X cancel, D delete, U replace ``reference`` by ``new``, P a trade
    with an order that was never displayed.
    """

    kind: str
    time: int
    reference: int
    side: str = "B"
    shares: int = 0
    price: int = 0
    new: int = 0


def random_messages(seed: int, count: int = 40, *, kinds: str = "AFECXDU", step: int = 10**9) -> list[Message]:
    """A day of orders at five prices per side that never cross; every reference is to a live order."""
    rng = np.random.default_rng(seed)
    live: dict[int, Message] = {}
    messages = []
    for k in range(count):
        time = OPEN + k * step
        kind = str(rng.choice(list(kinds))) if len(live) > 6 else "A"
        if kind in "AF":
            one = Message(kind, time, k + 1, *_place(rng))
            live[one.reference] = one
        else:
            old = live.pop(int(rng.choice(list(live))))
            shares = int(rng.integers(1, old.shares + 1))
            one = Message(kind, time, old.reference, old.side, shares, old.price)
            if kind == "U":
                _, shares, away = _place(rng)
                price = away if (away < 1_000_000) == (old.side == "B") else old.price
                one = Message(kind, time, old.reference, old.side, shares, price, k + 1)
                live[k + 1] = one._replace(reference=k + 1)
            elif kind != "D" and shares < old.shares:
                live[old.reference] = old._replace(shares=old.shares - shares)
        messages.append(one)
    return messages


def _place(rng: np.random.Generator) -> tuple[str, int, int]:
    side = "BS"[rng.integers(2)]
    away = 100 * int(rng.integers(1, 6))
    return side, 100 * int(rng.integers(1, 10)), 1_000_000 + (away if side == "S" else -away)


def naive_books(messages: Iterable[Message], depth: int) -> list[Book]:
    """The ``depth`` best levels per side after every message, from a dictionary of orders."""
    live: dict[int, Message] = {}
    books = []
    for one in messages:
        if one.kind in "AF":
            live[one.reference] = one
        elif one.kind == "D":
            del live[one.reference]
        elif one.kind == "U":
            live[one.new] = one._replace(side=live.pop(one.reference).side)
        elif one.kind != "P":
            old = live.pop(one.reference)
            if old.shares > one.shares:
                live[one.reference] = old._replace(shares=old.shares - one.shares)
        books.append({"bid": _levels(live, "B", depth), "ask": _levels(live, "S", depth)})
    return books


def _levels(live: dict[int, Message], side: str, depth: int) -> list[Level]:
    sizes: dict[int, int] = {}
    for one in live.values():
        if one.side == side:
            sizes[one.price] = sizes.get(one.price, 0) + one.shares
    best = sorted(sizes.items(), reverse=side == "B")[:depth]
    return [(price / 10_000, shares) for price, shares in best] + [(None, 0)] * (depth - len(best))


def levels_of(row: dict[str, Any], depth: int) -> Book:
    """The levels of a row of a snapshot table, as `naive_books` gives them."""
    return {
        side: [(row[f"{side}_px_{k:02d}"], row[f"{side}_sz_{k:02d}"]) for k in range(depth)] for side in ("bid", "ask")
    }


def itch_message(kind: str, locate: int, time: int, body: bytes) -> bytes:
    """One message after its length."""
    message = kind.encode() + struct.pack(">HH", locate, 0) + time.to_bytes(6, "big") + body
    return struct.pack(">H", len(message)) + message


def itch_directory(symbol: str, locate: int = 1, time: int = 1) -> bytes:
    """The message that gives a symbol its locate code."""
    flags = b"QN" + struct.pack(">I", 100) + b"NCZ PNN1N" + struct.pack(">I", 0) + b"N"
    return itch_message("R", locate, time, symbol.ljust(8).encode() + flags)


def itch_order(one: Message, symbol: str = "ACME", locate: int = 1) -> bytes:
    """One message about an order."""
    stock, attribution = symbol.ljust(8).encode(), b"NSDQ"
    added = struct.pack(">QcI8sI", one.reference, one.side.encode(), one.shares, stock, one.price)
    bodies = {
        "A": added,
        "F": added + attribution,
        "E": struct.pack(">QIQ", one.reference, one.shares, one.time),
        "C": struct.pack(">QIQcI", one.reference, one.shares, one.time, b"Y", one.price),
        "X": struct.pack(">QI", one.reference, one.shares),
        "D": struct.pack(">Q", one.reference),
        "U": struct.pack(">QQII", one.reference, one.new, one.shares, one.price),
        "P": added + struct.pack(">Q", one.time),
    }
    return itch_message(one.kind, locate, one.time, bodies[one.kind])


def itch_bytes(messages: Sequence[Message], symbol: str = "ACME") -> bytes:
    """A file of one symbol: its directory entry, then its orders; the first order is message number 2."""
    return itch_directory(symbol) + b"".join(itch_order(one, symbol) for one in messages)


def lobster_texts(messages: Sequence[Message], depth: int) -> tuple[str, str]:
    """The message file and the orderbook file; kinds A, X, D, E and P only, as LOBSTER has no others."""
    types = {"A": 1, "X": 2, "D": 3, "E": 4, "P": 5}
    lines, books = [], []
    for one, book in zip(messages, naive_books(messages, depth), strict=True):
        sign = 1 if one.side == "B" else -1
        lines.append(f"{one.time / 1e9:.9f},{types[one.kind]},{one.reference},{one.shares},{one.price},{sign}")
        cells = []
        for (ask, ask_size), (bid, bid_size) in zip(book["ask"], book["bid"], strict=True):
            cells += [_units(ask, 9_999_999_999), ask_size, _units(bid, -9_999_999_999), bid_size]
        books.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n", "\n".join(books) + "\n"


def _units(price: float | None, absent: int) -> int:
    return absent if price is None else round(price * 10_000)


def tick_text(messages: Sequence[Message], letters: str = "NQP") -> str:
    """Ticks: the best price and size of the side that a message is about, at venues in turn."""
    lines = []
    for k, (one, book) in enumerate(zip(messages, naive_books(messages, 1), strict=True)):
        sides = {side: (_units(book[side][0][0], 0), book[side][0][1]) for side in ("bid", "ask")}
        sides["ask" if one.side == "B" else "bid"] = (0, 0)
        cells = (one.time // 10**6, *sides["bid"], *sides["ask"], letters[k % len(letters)], 1, 0)
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def table_columns(
    messages: Sequence[Message], depth: int, venues: Sequence[str] = ("XNAS",), symbol: str = "ACME"
) -> dict[str, list[Any]]:
    """Books in columns of our names, times in UTC nanoseconds, venues in turn."""
    columns: dict[str, list[object]] = {
        "ts_event": [MIDNIGHT + one.time for one in messages],
        "venue": [venues[k % len(venues)] for k in range(len(messages))],
        "symbol": [symbol] * len(messages),
    }
    books = naive_books(messages, depth)
    for level in range(depth):
        for side in ("bid", "ask"):
            columns[f"{side}_px_{level:02d}"] = [book[side][level][0] for book in books]
            columns[f"{side}_sz_{level:02d}"] = [book[side][level][1] for book in books]
    return columns


def csv_text(columns: dict[str, list[Any]]) -> str:
    """Columns as CSV with a header; None is an empty field."""
    rows = [",".join("" if cell is None else str(cell) for cell in row) for row in zip(*columns.values(), strict=True)]
    return "\n".join([",".join(columns), *rows]) + "\n"


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip archive of files."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def gzipped(content: bytes) -> bytes:
    """Content as gzip, without a time in it."""
    return gzip.compress(content, mtime=0)


def visible(folder: Path) -> list[str]:
    """Names of everything in a folder, hidden files too; none if it is not there."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def check_recordings(folder: Path) -> None:
    """Assert that tables load, with their columns and types, rising times of one day, whole levels, known letters."""
    store = Store(folder)
    expected = set()
    for one in store.recordings():
        tables = {"snapshots": (store.snapshots(one), snapshot_schema(one.depth, one.unit))}
        if one.has_events:
            tables["events"] = (store.events(one), EVENT_SCHEMA)
        expected |= {f"{one.stem}.{name}.parquet" for name in tables} | {f"{one.stem}.record.json"}
        for name, (table, schema) in tables.items():
            assert dict(table.schema) == schema
            assert table.height == getattr(one, name)
            assert table["ts_event"].is_sorted()
            assert table["sequence"].is_sorted()
            assert not sum(table.select("ts_event", "sequence", "venue", "symbol").null_count().row(0))
            local = table["ts_event"].dt.convert_time_zone(one.zone).dt.date()
            assert (local == one.date).all(), f"{name} of {one.stem}: {local.min()!s} to {local.max()!s}"
        _check_levels(tables["snapshots"][0], one.depth)
        if one.has_events:
            events = tables["events"][0]
            assert set(events["action"]) <= set("ACFM")
            assert set(events["side"]) <= set("AB")
            assert not sum(events.drop("remaining").null_count().row(0))
            assert not events["price"].is_nan().any()
    assert expected
    assert {path.name for path in folder.iterdir()} == expected


def _check_levels(table: polars.DataFrame, depth: int) -> None:
    assert table.height
    for level in range(depth):
        for side in ("bid", "ask"):
            price, size = table[f"{side}_px_{level:02d}"], table[f"{side}_sz_{level:02d}"]
            assert not size.null_count()
            assert not price.is_nan().any()
            assert (price.is_null() == (size == 0)).all()
            assert (price.drop_nulls() > 0).all()
