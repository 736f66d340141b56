"""Naive order books: ITCH messages one at a time, and a replay with our order in the queue on random days."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.market.sampling import SampleTimes
from riskroute.market.schema import EVENT_SCHEMA, snapshot_schema

Levels = list[tuple[int, int]]

ITCH_SIZES = {"S": 12, "R": 39, "H": 25, "A": 36, "F": 40, "E": 31, "C": 36, "X": 23, "D": 19, "U": 35, "P": 44}


def read_messages(path: Path) -> Iterator[bytes]:
    """Bodies of the messages of a file, without their lengths."""
    with Path(path).open("rb") as file:
        while head := file.read(2):
            (length,) = struct.unpack(">H", head)
            body = file.read(length)
            assert len(body) == length, "the file ends within a message"
            yield body


@dataclass
class ItchOrder:
    """An order that rests; prices are ten-thousandths of a dollar."""

    locate: int
    side: str
    price: int
    size: int


class NaiveItchBook:
    """Books of all stocks in a file. Prices are ten-thousandths of a dollar, bids have side B and asks S."""

    def __init__(self) -> None:
        self.orders: dict[int, ItchOrder] = {}
        self.sizes: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
        self.symbols: dict[int, str] = {}
        self.kinds: Counter[str] = Counter()
        self.events: list[tuple[str, int]] = []
        self.time = 0
        self._references: set[int] = set()
        self._matches: set[int] = set()

    def apply(self, message: bytes) -> None:
        """Take in one message, and check that the books are still such as books may be."""
        kind = chr(message[0])
        assert len(message) == ITCH_SIZES[kind], f"{kind} has {len(message)} bytes"
        locate, _, high, low = struct.unpack(">HHHI", message[1:11])
        time = (high << 32) + low
        assert time >= self.time, f"time falls from {self.time} to {time}"
        self.time = time
        self.kinds[kind] += 1
        getattr(self, f"_on_{kind}")(locate, message[11:])
        bids, asks = self.sizes[locate, "B"], self.sizes[locate, "S"]
        assert not bids or not asks or max(bids) < min(asks), f"crossed or locked at {time}"

    def levels(self, locate: int, depth: int) -> tuple[Levels, Levels]:
        """Bids and asks of a stock, best first: price and total size."""
        bids, asks = self.sizes[locate, "B"], self.sizes[locate, "S"]
        return sorted(bids.items(), reverse=True)[:depth], sorted(asks.items())[:depth]

    def queue(self, locate: int, side: str, price: int) -> list[tuple[int, int]]:
        """Reference and size of the orders at a price, first come first."""
        return [
            (reference, order.size)
            for reference, order in self.orders.items()
            if (order.locate, order.side, order.price) == (locate, side, price)
        ]

    def _rest(self, locate: int, reference: int, side: str, size: int, price: int) -> None:
        assert reference not in self._references, f"reference {reference} came twice"
        assert size > 0
        assert price > 0
        assert side in ("B", "S")
        self._references.add(reference)
        self.orders[reference] = ItchOrder(locate, side, price, size)
        level = self.sizes[locate, side]
        level[price] = level.get(price, 0) + size

    def _take(self, locate: int, reference: int, size: int | None = None) -> ItchOrder:
        assert reference in self.orders, f"reference {reference} is not in the book"
        order = self.orders[reference]
        assert order.locate == locate, f"reference {reference} is of another stock"
        taken = order.size if size is None else size
        assert 0 < taken <= order.size, f"{taken} shares are taken from an order of {order.size}"
        order.size -= taken
        level = self.sizes[locate, order.side]
        level[order.price] -= taken
        if not level[order.price]:
            del level[order.price]
        if not order.size:
            del self.orders[reference]
        return order

    def _trade(self, match: int) -> None:
        assert match not in self._matches, f"match number {match} came twice"
        self._matches.add(match)

    def _on_S(self, locate: int, body: bytes) -> None:
        assert locate == 0
        self.events.append((body.decode(), self.time))

    def _on_R(self, locate: int, body: bytes) -> None:
        assert locate not in self.symbols
        self.symbols[locate] = body[:8].decode().rstrip()

    def _on_H(self, locate: int, body: bytes) -> None:
        assert self.symbols[locate] == body[:8].decode().rstrip()

    def _on_A(self, locate: int, body: bytes) -> None:
        reference, side, size, stock, price = struct.unpack(">QcI8sI", body[:25])
        assert stock.decode().rstrip() == self.symbols[locate]
        self._rest(locate, reference, side.decode(), size, price)

    def _on_F(self, locate: int, body: bytes) -> None:
        assert body[25:].strip()
        self._on_A(locate, body[:25])

    def _on_E(self, locate: int, body: bytes) -> None:
        reference, size, match = struct.unpack(">QIQ", body)
        self._take(locate, reference, size)
        self._trade(match)

    def _on_C(self, locate: int, body: bytes) -> None:
        reference, size, match, printable, price = struct.unpack(">QIQcI", body)
        assert printable in (b"Y", b"N")
        assert price > 0
        self._take(locate, reference, size)
        self._trade(match)

    def _on_X(self, locate: int, body: bytes) -> None:
        reference, size = struct.unpack(">QI", body)
        self._take(locate, reference, size)

    def _on_D(self, locate: int, body: bytes) -> None:
        self._take(locate, *struct.unpack(">Q", body))

    def _on_U(self, locate: int, body: bytes) -> None:
        old, new, size, price = struct.unpack(">QQII", body)
        self._rest(locate, new, self._take(locate, old).side, size, price)

    def _on_P(self, locate: int, body: bytes) -> None:
        reference, side, size, stock, price, match = struct.unpack(">QcI8sIQ", body)
        assert (reference, stock.decode().rstrip()) == (0, self.symbols[locate])
        assert side == b"B"
        assert size > 0
        assert price > 0
        self._trade(match)


US = -1
DEPTH = 5
Row = tuple[Any, ...]


class NaiveBook:
    """One side of a book as a list of ``[order id, price, size]``; the best price is the lowest, first come first."""

    def __init__(self) -> None:
        self.orders: list[list[int]] = []

    def add(self, order: int, price: int, size: int) -> None:
        self.orders.append([order, price, size])

    def cancel(self, order: int, size: int) -> None:
        self.orders = [[one, price, left - size * (one == order)] for one, price, left in self.orders]
        self._drop_empty()

    def remove(self, order: int) -> None:
        self.orders = [one for one in self.orders if one[0] != order]

    def trade(self, volume: int, worst: int = 99) -> list[tuple[int, int, int]]:
        """Fills ``(order id, price, size)`` of whoever comes with ``volume`` and takes prices up to ``worst``."""
        fills = []
        for one in sorted(self.orders, key=lambda order: order[1]):
            taken = min(volume, one[2]) if one[1] <= worst else 0
            volume -= taken
            one[2] -= taken
            if taken:
                fills.append((one[0], one[1], taken))
        self._drop_empty()
        return fills

    def levels(self) -> list[tuple[int, int]]:
        totals: dict[int, int] = {}
        for _, price, size in self.orders:
            totals[price] = totals.get(price, 0) + size
        return sorted(totals.items())[:DEPTH]

    def size_at(self, price: int) -> int:
        return sum(size for _, at, size in self.orders if at == price)

    def ahead_of_us(self) -> int:
        """Shares that trade before our order does."""
        order = sorted(self.orders, key=lambda one: one[1])
        return sum(size for _, _, size in order[: [one[0] for one in order].index(US)])

    def _drop_empty(self) -> None:
        self.orders = [one for one in self.orders if one[2] > 0]


class Flow:
    """A random day in cents: asks from 99 and bids up to 102, events and snapshots as rows.

    Fills go to the first in the queue, or with ``rule`` pro-rata to orders at random. An order that finds others to
    trade with does so first, and what is left of it is added at the same time; if ``crossed``, half of them are added
    whole. Half of the replacements are a cancel and an add. Some events share a timestamp by chance.
    """

    def __init__(
        self, seed: int, steps: int, rule: str = "price-time", replaces: bool = True, crossed: bool = False
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.rule, self.crossed = rule, crossed
        self.books = {"A": NaiveBook(), "B": NaiveBook()}
        self.events: list[Row] = []
        self.snapshots: list[Row] = []
        self.stamp, self.last_id = 0, 0
        kinds = ["add", "cancel", "delete", "replace" if replaces else "add", "trade"]
        for side in "ABAB":
            self.step("add", side)
        for _ in range(steps):
            self.step(str(self.rng.choice(kinds, p=[0.35, 0.1, 0.2, 0.15, 0.2])), str(self.rng.choice(["A", "B"])))

    def step(self, kind: str, side: str) -> None:
        book = self.books[side]
        self.stamp += int(self.rng.integers(0, 4))
        if kind == "add" or not book.orders:
            self._join(side, 0)
        elif kind == "trade":
            self._trade(side, int(self.rng.integers(1, 20)))
        else:
            order, price, size = book.orders[self.rng.integers(len(book.orders))]
            if kind == "replace" and self.rng.random() < 0.5:
                self._join(side, order)
            else:
                taken = int(self.rng.integers(1, size + 1)) if kind == "cancel" else size
                book.cancel(order, taken)
                self._record("C", side, price, taken, order)
                if kind == "replace":
                    self._join(side, 0)

    def _join(self, side: str, old: int) -> None:
        """An order comes, in the place of an old one if there is one."""
        price, size = int(self.rng.integers(-2, 4)), int(self.rng.integers(1, 9))
        if not (self.crossed and self.rng.random() < 0.5):
            size -= self._trade("B" if side == "A" else "A", size, -1 - price)
        replaced = [one for one in self.books[side].orders if one[0] == old]
        self.books[side].remove(old)
        if size:
            self.last_id += 1
            self.books[side].add(self.last_id, price, size)
            self._record("M" if old else "A", side, price, size, self.last_id, old)
        for order, at, left in [] if size else replaced:
            self._record("C", side, at, left, order)

    def _trade(self, side: str, volume: int, worst: int = 99) -> int:
        """Shares that trade, each execution recorded with the book after it."""
        book = self.books[side]
        if self.rule == "pro-rata":
            self.rng.shuffle(book.orders)
        whole = [list(order) for order in book.orders]
        fills = book.trade(volume, worst)
        book.orders = whole
        for order, price, size in fills:
            book.cancel(order, size)
            self._record("F", side, price, size, order)
        return sum(size for _, _, size in fills)

    def _record(self, action: str, side: str, price: int, size: int, order: int, old: int = 0) -> None:
        key = (self.stamp, len(self.events) + 1, "XNAS", "ZZ")
        dollars = (101 + price if side == "A" else 100 - price) / 100
        self.events.append((*key, action, side, dollars, size, None, order, old))
        levels = {name: self.books[name].levels() for name in "AB"}
        row: list[Any] = list(key)
        for k in range(DEPTH):
            for name, first, step in (("B", 100, -1), ("A", 101, 1)):
                there = k < len(levels[name])
                row += [
                    (first + step * levels[name][k][0]) / 100 if there else None,
                    levels[name][k][1] if there else 0,
                ]
        self.snapshots.append(tuple(row))

    def tables(self) -> tuple[polars.DataFrame, polars.DataFrame]:
        return snapshot_table(self.snapshots), event_table(self.events)

    def moments(self, buckets: int = 3) -> SampleTimes:
        edges = np.linspace(0, self.stamp + 1, buckets + 1).astype(np.int64)
        return SampleTimes(edges, self.rng.integers(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1)))


def snapshot_table(rows: list[Row], depth: int = DEPTH) -> polars.DataFrame:
    return polars.DataFrame(rows, schema=snapshot_schema(depth), orient="row")


def event_table(rows: list[Row]) -> polars.DataFrame:
    return polars.DataFrame(rows, schema=EVENT_SCHEMA, orient="row")


class NaiveQueue:
    """Our side of the book, with our order in it from `join` on."""

    def __init__(self, rule: str, quantity: int) -> None:
        self.rule, self.left, self.book = rule, quantity, NaiveBook()
        self.price: int | None = None
        self.volume, self.shown = 0, 0

    def join(self) -> None:
        self.price = self.book.levels()[0][0]
        if self.rule == "price-time":
            self.book.add(US, self.price, self.left)

    def event(self, action: str, price: int, size: int, order: int, old: int) -> None:
        if action in "AM":
            self.book.remove(old)
            self.book.add(order, price, size)
        elif action == "C" or self.price is None:
            self.book.cancel(order, size)
        elif self.rule == "price-time":
            self.left -= sum(taken for one, _, taken in self.book.trade(size) if one == US)
        else:
            self._share(size if price >= self.price else 0)
            self.book.cancel(order, size)

    def meet(self, size: int) -> None:
        """An order of the other side comes to our price or through it, and finds what the recording has and us."""
        if self.rule == "pro-rata":
            assert self.price is not None
            self._share(max(size - sum(shares for _, at, shares in self.book.orders if at < self.price), 0))
        elif self.left:
            taken = min(max(size - self.book.ahead_of_us(), 0), self.left)
            self.book.cancel(US, taken)
            self.left -= taken

    def _share(self, volume: int) -> None:
        if volume and not self.volume:
            assert self.price is not None
            self.shown = self.book.size_at(self.price)
        self.volume += volume

    def end_of_time(self) -> None:
        """Nothing more happens at this timestamp: its trades are shared as one."""
        if self.volume and self.left:
            total = self.shown + self.left
            self.left -= min(self.volume, total) * self.left // total
        self.volume = 0


def naive_fill(flow: Flow, side: str, rule: str, sequence: int, end: int, quantity: int) -> int:
    """Replay all events; after ``sequence`` our order stands in the book, and whoever comes to trade meets it."""
    letter, first, step = ("A", 101, 1) if side == "sell" else ("B", 100, -1)
    queue, before, done = NaiveQueue(rule, quantity), (0, "", "", 0), set()
    for stamp, number, _, _, action, where, dollars, size, _, order, old in flow.events:
        if stamp >= end:
            break
        if stamp != before[0]:
            queue.end_of_time()
        if number > sequence and queue.price is None:
            queue.join()
        price = round((dollars * 100 - first) * step)
        if where == letter:
            queue.event(action, price, size, order, old)
        elif action in "AM" and queue.price is not None:
            if action == "A" and before[:3] == (stamp, where, "C"):
                old = before[3]
            if old in done:
                done.add(order)
            elif price >= queue.price:
                done.add(order)
                queue.meet(size)
        before = (stamp, where, action, order)
    queue.end_of_time()
    return quantity - queue.left


def naive_profit(flow: Flow, side: str, sequence: int, end: int, filled: int, quantity: int) -> float:
    """Dollars against the middle: the fills at the limit, the rest share by share at the other side's last levels.

    Of these, levels at the limit or through it were traded with before.
    """
    letters = ("B", "A") if side == "sell" else ("A", "B")
    first, last = flow.snapshots[sequence - 1], [row for row in flow.snapshots if row[0] < end][-1]
    bid, ask = best = [levels_of(first, letter)[0][0] for letter in "BA"]
    middle, limit, sign = (bid + ask) / 2, best[side == "sell"], 1 if side == "sell" else -1
    there = [(price, size) for price, size in levels_of(last, letters[0]) if (limit - price) * sign > 1e-9]
    shares = [price for price, size in there for _ in range(size)][: quantity - filled]
    if len(shares) < quantity - filled:
        return float("nan")
    return sign * (filled * (limit - middle) + sum(price - middle for price in shares))


def levels_of(row: Row, letter: str) -> list[tuple[float, int]]:
    begin = 4 if letter == "B" else 6
    return [(row[k], row[k + 1]) for k in range(begin, len(row), 4) if row[k] is not None]


def naive_outflow(flow: Flow, side: str, sequence: int, end: int) -> tuple[int, int]:
    """Shares at the best price after ``sequence``, and how many left: those that stood there, and those that followed.

    Who stood there is listed by name. What trades once they are gone, and whoever comes to our price from the other
    side and was not there before, is for us.
    """
    letter, first, step = ("A", 101, 1) if side == "sell" else ("B", 100, -1)
    book, there, met = NaiveBook(), dict[int, int](), set[int]()
    touch = shown = reached = 0
    before: tuple[int, str, str, int] = (0, "", "", 0)
    for stamp, number, _, _, action, where, dollars, size, _, order, old in flow.events:
        if stamp >= end:
            break
        if number > sequence and not shown:
            touch = book.levels()[0][0]
            there = {one: shares for one, price, shares in book.orders if price == touch}
            shown = sum(there.values())
        price = round((dollars * 100 - first) * step)
        if where != letter and action in "AM":
            replaced = before[3] if action == "A" and before[:3] == (stamp, where, "C") else old
            if replaced in met:
                met.add(order)
            elif shown and price >= touch:
                met.add(order)
                better = sum(shares for _, at, shares in book.orders if at < touch)
                reached += max(size - sum(there.values()) - better, 0)
        elif where == letter and action in "AM":
            book.remove(old)
            book.add(order, price, size)
            there.pop(old, None)
        elif where == letter:
            at = next(price for one, price, _ in book.orders if one == order)
            book.cancel(order, size)
            if order in there:
                there[order] -= size
            elif shown and action == "F" and at >= touch:  # others have traded in our turn
                there, reached = {}, reached + size
        before = (stamp, where, action, order)
    return shown, shown - sum(there.values()) + reached


def events_of_levels(flow: Flow, depth: int) -> list[Row]:
    """Events as a recording of ``depth`` levels has them: those at prices that it shows before or after."""
    kept = []
    for row in flow.events:
        books = [flow.snapshots[number] for number in (row[1] - 2, row[1] - 1) if number >= 0]
        if any(abs(price - row[6]) < 1e-9 for book in books for price, _ in levels_of(book, row[5])[:depth]):
            kept.append(row)
    return kept


def naive_joined(events: list[Row]) -> list[int]:
    """The sequence at which the order of each event joined, by a list of all that were added before.

    Of an order that was never added it is one more than that of the last added with a lower id, as ids rise; -1 without
    any.
    """
    joined: dict[int, int] = {}
    found = []
    for _, number, _, _, action, *_, order, _ in events:
        if action == "A":
            joined[order] = number
        elif order not in joined:
            found.append(max((came + 1 for other, came in joined.items() if other < order), default=-1))
            continue
        found.append(joined[order])
    return found
