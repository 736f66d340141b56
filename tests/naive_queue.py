"""A book that is replayed event by event with our order in its queues, and random days to replay."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import polars

from riskroute.market.sampling import Moments
from riskroute.market.tables import EVENT_SCHEMA, snapshot_schema

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

    def trade(self, volume: int) -> list[tuple[int, int, int]]:
        """Fills ``(order id, price, size)`` of whoever comes with ``volume``."""
        fills = []
        for one in sorted(self.orders, key=lambda order: order[1]):
            taken = min(volume, one[2])
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

    def _drop_empty(self) -> None:
        self.orders = [one for one in self.orders if one[2] > 0]


class Flow:
    """A random day: cents as prices, asks from 101 and bids to 100, events and snapshots as rows.

    Fills go to the first in the queue, or with ``rule`` pro-rata to orders at random. Only the executions of one
    incoming order share a timestamp with each other.
    """

    def __init__(self, seed: int, steps: int, rule: str = "price-time", replaces: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.rule = rule
        self.books = {"A": NaiveBook(), "B": NaiveBook()}
        self.events: list[Row] = []
        self.snapshots: list[Row] = []
        self.stamp, self.last_id = 0, 0
        kinds = ["add", "cancel", "delete", "replace" if replaces else "add", "trade"]
        for side in "ABAB":
            self.step("add", side)
        for _ in range(steps):
            self.step(str(self.rng.choice(kinds, p=[0.4, 0.1, 0.15, 0.1, 0.25])), str(self.rng.choice(["A", "B"])))

    def step(self, kind: str, side: str) -> None:
        book = self.books[side]
        self.stamp += int(self.rng.integers(1, 4))
        if kind == "add" or not book.orders:
            self._join(side, "A", 0)
        elif kind == "trade":
            self._trade(side, int(self.rng.integers(1, 20)))
        else:
            order, price, size = book.orders[self.rng.integers(len(book.orders))]
            if kind == "replace":
                book.remove(order)
                self._join(side, "M", order)
            else:
                taken = size if kind == "delete" else int(self.rng.integers(1, size + 1))
                book.cancel(order, taken)
                self._record("C", side, price, taken, order)

    def _join(self, side: str, action: str, old: int) -> None:
        self.last_id += 1
        price, size = int(self.rng.integers(0, 4)), int(self.rng.integers(1, 9))
        self.books[side].add(self.last_id, price, size)
        self._record(action, side, price, size, self.last_id, old)

    def _trade(self, side: str, volume: int) -> None:
        book = self.books[side]
        if self.rule == "pro-rata":
            self.rng.shuffle(book.orders)
        whole = [list(order) for order in book.orders]
        fills = book.trade(volume)
        book.orders = whole  # the book is recorded after each execution, not after all of them
        for order, price, size in fills:
            book.cancel(order, size)
            self._record("F", side, price, size, order)

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

    def moments(self, buckets: int = 3) -> Moments:
        edges = np.linspace(0, self.stamp + 1, buckets + 1).astype(np.int64)
        return Moments(edges, self.rng.integers(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1)))


def snapshot_table(rows: list[Row], depth: int = DEPTH) -> polars.DataFrame:
    return polars.DataFrame(rows, schema=snapshot_schema(depth), orient="row")


def event_table(rows: list[Row]) -> polars.DataFrame:
    return polars.DataFrame(rows, schema=EVENT_SCHEMA, orient="row")


def naive_fill(flow: Flow, side: str, rule: str, sequence: int, end: int, quantity: int) -> int:
    """Replay all events; after ``sequence`` our order stands in the book, and whoever comes to trade meets it."""
    letter, first, step = ("A", 101, 1) if side == "sell" else ("B", 100, -1)
    rows = [row for row in flow.events if row[5] == letter and row[0] < end]
    book, filled, ours = NaiveBook(), 0, -1
    for (_, executed, joined), group in groupby(rows, key=lambda row: (row[0], row[4] == "F", row[1] > sequence)):
        some = [(row[4], round((row[6] * 100 - first) * step), row[7], row[9], row[10]) for row in group]
        if joined and ours < 0:
            ours = book.levels()[0][0]
            if rule == "price-time":
                book.add(US, ours, quantity)
        if executed and joined and rule == "price-time":
            fills = book.trade(sum(size for _, _, size, _, _ in some))
            filled += sum(size for order, _, size in fills if order == US)
            continue
        if executed and joined:
            volume, left = sum(size for _, price, size, _, _ in some if price >= ours), quantity - filled
            total = book.size_at(ours) + left
            filled += min(volume, total) * left // total if left else 0
        for action, price, size, order, old in some:
            if action in "AM":
                book.remove(old)
                book.add(order, price, size)
            else:
                book.cancel(order, size)
    return filled


def naive_profit(flow: Flow, side: str, sequence: int, end: int, filled: int, quantity: int) -> float:
    """Dollars against the middle: the fills at the limit, the rest share by share at the other side's last levels."""
    letters = ("B", "A") if side == "sell" else ("A", "B")
    first, last = flow.snapshots[sequence - 1], [row for row in flow.snapshots if row[0] < end][-1]
    bid, ask = best = [levels_of(first, letter)[0][0] for letter in "BA"]
    middle, limit, sign = (bid + ask) / 2, best[side == "sell"], 1 if side == "sell" else -1
    shares = [price for price, size in levels_of(last, letters[0]) for _ in range(size)][: quantity - filled]
    if len(shares) < quantity - filled:
        return float("nan")
    return sign * (filled * (limit - middle) + sum(price - middle for price in shares))


def levels_of(row: Row, letter: str) -> list[tuple[float, int]]:
    begin = 4 if letter == "B" else 6
    return [(row[k], row[k + 1]) for k in range(begin, len(row), 4) if row[k] is not None]
