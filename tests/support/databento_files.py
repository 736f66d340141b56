"""Small Databento files, made with Databento's own encoder, and a book kept in plain dictionaries."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import databento_dbn
import numpy as np

DATE = dt.date(2024, 1, 3)
OPEN = 1_704_292_200 * 10**9
"""09:30 in New York on the day, UTC nanoseconds."""

dbn: Any = databento_dbn  # its own types say less than it takes
LAST = 128
UNIT = 10**9


class Order(NamedTuple):
    """A record of an ``mbo`` file; ``price`` in cents."""

    action: str
    order_id: int = 0
    side: str = "N"
    price: int = 0
    size: int = 0
    flags: int = LAST
    time: int = OPEN
    symbol: int = 42
    publisher: int = 2


class Interval(NamedTuple):
    """When an instrument id was a symbol's."""

    start_date: dt.date
    end_date: dt.date
    symbol: str


class Mapping(NamedTuple):
    """Instrument ids of a symbol."""

    raw_symbol: str
    intervals: list[Interval]


def metadata(schema: str | None, names: dict[int, str] | None = None, **changes: Any) -> bytes:
    """What stands before the records: ids and symbols, 42 and ACME if nothing is said."""
    names = {42: "ACME"} if names is None else names
    mappings = [
        Mapping(name, [Interval(DATE, DATE + dt.timedelta(days=1), str(number))]) for number, name in names.items()
    ]
    fields: dict[str, Any] = {
        "dataset": "XNAS.ITCH",
        "start": OPEN,
        "stype_in": dbn.SType.RAW_SYMBOL,
        "stype_out": dbn.SType.INSTRUMENT_ID,
        "schema": dbn.Schema.from_str(schema) if schema is not None else None,
        "symbols": list(names.values()),
        "mappings": mappings,
    }
    return bytes(dbn.Metadata(**fields | changes))


def order_record(one: Order) -> bytes:
    """A record as bytes."""
    price = one.price * UNIT // 100 if one.price else dbn.UNDEF_PRICE
    record = dbn.MBOMsg(
        publisher_id=one.publisher,
        instrument_id=one.symbol,
        ts_event=one.time,
        order_id=one.order_id,
        price=price,
        size=one.size,
        action=dbn.Action.from_str(one.action),
        side=dbn.Side.from_str(one.side),
        ts_recv=one.time + 100,
        flags=one.flags,
    )
    return bytes(record)


def mbo_file(orders: Iterable[Order], names: dict[int, str] | None = None) -> bytes:
    """A DBN file of orders."""
    return metadata("mbo", names) + b"".join(map(order_record, orders))


Levels = Sequence[tuple[int, int, int, int]]
"""Bid, size, ask, size of every level; prices in cents, 0 for none."""


def book_record(
    levels: Levels, time: int = OPEN, *, flags: int = LAST, number: int = 42, publisher: int = 2, schema: str = "mbp-1"
) -> bytes:
    """A record with a book as bytes."""
    pairs = [
        dbn.BidAskPair(
            bid_px=bid * UNIT // 100 if bid else dbn.UNDEF_PRICE,
            ask_px=ask * UNIT // 100 if ask else dbn.UNDEF_PRICE,
            bid_sz=bid_size,
            ask_sz=ask_size,
        )
        for bid, bid_size, ask, ask_size in levels
    ]
    keys: dict[str, Any] = {"publisher_id": publisher, "instrument_id": number, "ts_event": time}
    keys |= {"price": dbn.UNDEF_PRICE, "size": 0, "side": dbn.Side.NONE, "ts_recv": time + 100, "flags": flags}
    if schema.startswith("bbo"):
        kind = dbn.RType.BBO_1S if schema == "bbo-1s" else dbn.RType.BBO_1M
        return bytes(dbn.BBOMsg(rtype=kind, levels=pairs[0], **keys))
    keys |= {"action": dbn.Action.MODIFY, "depth": 0}
    if schema == "mbp-10":
        pairs += [dbn.BidAskPair() for _ in range(10 - len(pairs))]
        return bytes(dbn.MBP10Msg(levels=pairs, **keys))
    return bytes(dbn.MBP1Msg(levels=pairs[0], **keys))


def transcoded(content: bytes, *, pretty_px: bool = True, pretty_ts: bool = True, zstd: bool = False) -> bytes:
    """A DBN file as CSV, as Databento writes it."""
    whole = io.BytesIO()
    packing = dbn.Compression.ZSTD if zstd else dbn.Compression.NONE
    coder = dbn.Transcoder(whole, dbn.Encoding.CSV, packing, pretty_px=pretty_px, pretty_ts=pretty_ts)
    coder.write(content)
    coder.finish()
    return whole.getvalue()


def packed(content: bytes) -> bytes:
    """Content as zstd."""
    import pyarrow

    whole = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(whole, "zstd") as file:
        file.write(content)
    return bytes(whole.getvalue())


def random_orders(seed: int, count: int = 60, *, step: int = 1000) -> list[Order]:
    """Orders at five prices per side that never cross: adds, changes, cancels, fills with what follows them, clears."""
    rng = np.random.default_rng(seed)
    live: dict[int, list[Any]] = {}
    orders: list[Order] = []

    def order(action: str, number: int, fields: list[Any], time: int) -> Order:
        side, price, size = fields
        return Order(action, number, side, price, size, time=time)

    for k in range(count):
        time = OPEN + k * step
        kind = str(rng.choice(list("AAACCMMFR"), p=[0.12, 0.12, 0.11, 0.15, 0.1, 0.1, 0.1, 0.18, 0.02]))
        if kind == "R":
            live.clear()
            orders.append(Order("R", time=time))
        elif kind == "A" or not live:
            side = "BA"[rng.integers(2)]
            price = 10_000 + (-1 if side == "B" else 1) * int(rng.integers(1, 6))
            live[k + 1] = [side, price, int(rng.integers(1, 10)) * 100]
            orders.append(order("A", k + 1, live[k + 1], time))
        else:
            number = int(rng.choice(list(live)))
            side, price, size = live[number]
            some = int(rng.integers(1, size + 1))
            if kind == "F":
                orders.append(Order("T", 0, "A" if side == "B" else "B", price, some, flags=0, time=time))
                orders.append(Order("F", number, side, price, some, flags=0, time=time))
            if kind in "CF":
                orders.append(Order("C", number, side, price, some, time=time))
                live[number][2] -= some
            else:
                away = 10_000 + (-1 if side == "B" else 1) * int(rng.integers(1, 6))
                live[number][1:] = [away, int(rng.integers(1, 10)) * 100]
                orders.append(order("M", number, live[number], time))
            if not live[number][2]:
                del live[number]
    return orders


def naive_orders(orders: Iterable[Order], depth: int) -> tuple[list[Any], list[Any]]:
    """Books (record, bids, asks) at the ends of events that change them, and events, from a dictionary of orders."""
    live: dict[int, list[Any]] = {}
    filled: dict[int, tuple[int, int]] = {}
    books: list[Any] = []
    events: list[Any] = []
    before: Any = ([(None, 0)] * depth, [(None, 0)] * depth)
    for number, one in enumerate(orders, start=1):
        old = live.get(one.order_id)
        stays = old is not None and old[:2] == [one.side, one.price] and one.size <= old[2]
        if one.action == "R":
            for k, (side, price, size) in sorted(live.items()):
                events.append((number, "C", side, price / 100, size, 0, k, 0))
            live.clear()
        elif one.action == "F" and old:
            filled[one.order_id] = (min(filled.get(one.order_id, (0, 0))[0] + one.size, old[2]), one.price)
        elif old and (one.action == "C" or (one.action == "M" and stays)):
            gone = min(one.size, old[2]) if one.action == "C" else old[2] - one.size
            pending, at = filled.get(one.order_id, (0, 0))
            executed = min(gone, pending)
            if executed:
                events.append((number, "F", old[0], at / 100, executed, old[2] - executed, one.order_id, 0))
            old[2] -= gone
            if gone > executed:
                events.append((number, "C", old[0], old[1] / 100, gone - executed, old[2], one.order_id, 0))
            filled[one.order_id] = (pending - executed, at)
            if not old[2]:
                del live[one.order_id]
        elif one.action in "AM" and one.size:
            filled.pop(one.order_id, None)
            live[one.order_id] = [one.side, one.price, one.size]
            event = (number, "M" if old else "A", one.side, one.price / 100, one.size, one.size, one.order_id)
            events.append((*event, one.order_id if old else 0))
        sides = tuple(_best(live, side, depth) for side in "BA")
        if one.flags & LAST and sides != before:
            books.append((number, *sides))
            before = sides
    return books, events


def _best(live: dict[int, list[Any]], side: str, depth: int) -> list[tuple[float | None, int]]:
    sizes: dict[int, int] = {}
    for of, price, size in live.values():
        if of == side:
            sizes[price] = sizes.get(price, 0) + size
    best = sorted(sizes.items(), reverse=side == "B")[:depth]
    return [(price / 100, size) for price, size in best] + [(None, 0)] * (depth - len(best))
