"""Small market data files of every format, with their expected books, and imports that must be refused."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
import pytest

from riskroute.core.errors import RiskrouteError
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore
from riskroute.market.schema import event_schema, snapshot_schema

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
    store = RecordingStore(folder)
    expected = set()
    for one in store.recordings():
        tables = {"snapshots": (store.snapshots(one), snapshot_schema(one.depth, fractional=one.fractional))}
        if one.has_events or one.trades:
            tables["events"] = (store.events(one), event_schema(fractional=one.fractional))
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
        if "events" in tables:
            events = tables["events"][0]
            assert set(events["action"]) <= set("ACFMT")
            assert events.filter(action="T").height == one.trades
            orders = events.filter(polars.col("action") != "T")
            assert set(orders["side"]) <= set("AB")
            assert not sum(orders.drop("remaining").null_count().row(0))
            assert not sum(events.drop("remaining", "side").null_count().row(0))
            assert (events["price"] > 0).all()
            assert (events.filter(action="T")["size"] > 0).all()
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


ANY = ReadingOptions()


def refusal(path: Path, wanted: ReadingOptions = ANY, **options: Any) -> str:
    """The one sentence of the error; nothing may be left of the import."""
    out = path.parent / "refused"
    with pytest.raises(RiskrouteError) as caught:
        import_files([path], out, wanted, **options)
    assert visible(out) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


TAQ_NAME = "SPLITS_US_ALL_BBO_A_20190327"

TAQ_HEADER = (
    "Time|Exchange|Symbol|Bid_Price|Bid_Size|Offer_Price|Offer_Size|Quote_Condition|Sequence_Number|National_BBO_Ind|"
    "FINRA_BBO_Indicator|FINRA_ADF_MPID_Indicator|Quote_Cancel_Correction|Source_Of_Quote"
)
WRDS_HEADER = (
    "DATE,TIME_M,EX,SYM_ROOT,SYM_SUFFIX,BID,BIDSIZ,ASK,ASKSIZ,QU_COND,QU_SEQNUM,NATBBO_IND,QU_CANCEL,QU_SOURCE"
)


class Quote(NamedTuple):
    """A row; ``time`` in nanoseconds since midnight in New York, sizes in lots."""

    time: int
    letter: str = "N"
    bid: float = 10.0
    bid_size: int = 3
    ask: float = 10.01
    ask_size: int = 5
    condition: str = "R"
    cancelled: str = "A"
    symbol: str = "ACME"


def clock(time: int, form: str) -> str:
    """Hours, minutes, seconds and nanoseconds in a form."""
    seconds, rest = divmod(time, 10**9)
    return form.format(seconds // 3600, seconds // 60 % 60, seconds % 60, rest)


def taq_text(quotes: list[Quote], *, end: bool = True) -> str:
    """A file of Daily TAQ, with its last line or without."""
    rows = [TAQ_HEADER]
    for k, one in enumerate(quotes, start=1):
        time = clock(one.time, "{:02d}{:02d}{:02d}{:09d}")
        cells = (time, one.letter, one.symbol, one.bid, one.bid_size, one.ask, one.ask_size, one.condition, k)
        rows.append("|".join(map(str, cells)) + f"||||{one.cancelled}|C")
    return "\n".join([*rows, *([f"END|20190327|{len(quotes):09d}||||||||||"] if end else [])]) + "\n"


def wrds_text(quotes: list[Quote], day: str = "2019-03-27", *, lower: bool = False) -> str:
    """An extract of WRDS, its header in upper or lower case."""
    rows = [WRDS_HEADER.lower() if lower else WRDS_HEADER]
    for k, one in enumerate(quotes, start=1):
        root, _, suffix = one.symbol.partition(" ")
        time = clock(one.time, "{:d}:{:02d}:{:02d}.{:09d}")
        cells = (day, time, one.letter, root, suffix, one.bid, one.bid_size, one.ask, one.ask_size, one.condition, k)
        rows.append(",".join(map(str, cells)) + f",,{one.cancelled},C")
    return "\n".join(rows) + "\n"


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
