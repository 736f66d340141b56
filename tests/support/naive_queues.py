"""Naive queues of depth and trades: one share at a time, with lists, for models that place cancellations."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import polars

from naive_books import Flow, levels_of

Levels = list[tuple[int, int]]
NaiveTrade = tuple[int, int, int]  # time, price, shares
Part = tuple[int, int, int, int]  # snapshot, time, price, shares


class NaiveDepth(NamedTuple):
    """A snapshot: time and levels of both sides, best first, in cents that rise as they get worse for a counterparty
    of ours."""

    stamp: int
    ours: Levels
    theirs: Levels


def hidden_ids(events: polars.DataFrame) -> polars.DataFrame:
    """The executions as public trades without order ids."""
    zero = polars.lit(0, dtype=polars.UInt64)
    return events.filter(polars.col("action") == "F").with_columns(
        action=polars.lit("T"), order_id=zero, old_order_id=zero
    )


def naive_depth(flow: Flow, side: str, spacing: int) -> list[NaiveDepth]:
    """Snapshots of a random day as a seller or a buyer sees them, ``spacing`` nanoseconds per unit of time."""
    letters, sign = (("A", "B"), 1) if side == "sell" else (("B", "A"), -1)
    found = []
    for row in flow.snapshots:
        ours, theirs = ([(sign * round(100 * px), size) for px, size in levels_of(row, one)] for one in letters)
        found.append(NaiveDepth(row[0] * spacing, ours, theirs))
    return found


def shown(levels: Levels, price: int, direction: int, deepest: int) -> int | None:
    """Shares at a price, None if unknown: nothing is shown, or all levels that are ever shown are better."""
    if not levels:
        return None
    for at, size in levels:
        if at == price:
            return size
    beyond = all(direction * (price - at) > 0 for at, _ in levels)
    return None if beyond and len(levels) == deepest else 0


def naive_match(books: list[NaiveDepth], trades: list[NaiveTrade], apart: int) -> list[Part]:
    """Assign every traded share on its own to the decrease that it explains, or to the next snapshot."""
    deepest = max(len(book.ours) for book in books)
    found: Counter[tuple[int, int, int]] = Counter()
    for price in {price for _, price, _ in trades}:
        falls = {}
        for row in range(1, len(books)):
            before, after = (shown(books[k].ours, price, 1, deepest) for k in (row - 1, row))
            falls[row] = max(before - after, 0) if before is not None and after is not None else 0
        left = [(stamp, size) for stamp, at, size in sorted(trades) if at == price]
        for backward in (False, True):
            waiting: list[tuple[int, int]] = []
            for stamp, size in left:
                following = next((row for row, book in enumerate(books) if book.stamp >= stamp), len(books))
                near = [row for row in falls if abs(books[row].stamp - stamp) <= apart]
                if backward:
                    rows = sorted((row for row in near if row < following), reverse=True)
                else:
                    rows = sorted({row for row in near if row >= following} | ({following} & falls.keys()))
                for _ in range(size):
                    explaining = [one for one in rows if falls[one]][:1]
                    for row in explaining:
                        falls[row] -= 1
                        found[row, stamp, price] += 1
                    if explaining:
                        continue
                    if backward:
                        found[following, stamp, price] += 1
                    else:
                        waiting.append((stamp, 1))
            left = waiting
    return sorted((row, stamp, price, size) for (row, stamp, price), size in found.items())


class NaiveEstimate:
    """The queue at a price, with our order in it: shares ahead and behind, and what reached us when."""

    def __init__(self, model: str, exponent: float, ahead: int) -> None:
        self.model, self.exponent = model, exponent
        self.ahead, self.behind = float(ahead), 0.0
        self.reached: list[tuple[int, float]] = []

    def trade(self, stamp: int, size: int, counts: bool) -> None:
        through = max(size - self.ahead, 0.0)
        self.ahead -= size - through
        self.behind = max(self.behind - through, 0.0)
        if counts:
            self.reached.append((stamp, through))

    def now_shown(self, size: int) -> None:
        """Shares more than before join behind us; of those less, the model says where they were."""
        gone = self.ahead + self.behind - size
        if gone <= 0:
            self.behind -= gone
            return
        part = {"pessimistic": 0.0, "optimistic": 1.0}.get(self.model)
        if part is None:
            power = self.exponent if self.model == "power" else 1.0
            weights = [one**power if one else 0.0 for one in (self.ahead, self.behind)]
            part = weights[0] / sum(weights)
        ahead = min(part * gone, self.ahead)
        behind = gone - ahead
        if behind > self.behind:
            ahead, behind = ahead + behind - self.behind, self.behind
        self.ahead, self.behind = self.ahead - ahead, self.behind - behind


def naive_estimate(
    books: list[NaiveDepth],
    parts: list[Part],
    row: int,
    begin: int,
    end: int,
    model: str,
    exponent: float = 1.0,
    apart: int = 0,
) -> tuple[list[tuple[int, float]], float]:
    """What reaches an order at the best price of ``row``, and how many shares ahead of it left."""
    price, size = books[row].ours[0]
    deepest = max(len(book.ours) for book in books), max(len(book.theirs) for book in books)
    queue = NaiveEstimate(model, exponent, size)
    over = next((k for k, book in enumerate(books) if book.stamp >= end), len(books))
    for number in range(row + 1, len(books) + 1):
        if number > over and (number == len(books) or books[number].stamp > end + apart):
            break
        for _, stamp, at, some in (part for part in parts if part[0] == number):
            if at == price and (number < over or stamp < end):
                queue.trade(stamp, some, begin <= stamp < end)
            elif at > price and begin <= stamp < end:
                queue.behind, queue.ahead = queue.ahead + queue.behind, 0.0
                queue.reached.append((stamp, float(some)))
        if number >= over:
            continue
        there = shown(books[number].ours, price, 1, deepest[0])
        if there is not None:
            queue.now_shown(there)
        came = 0
        for at, some in books[number].theirs:
            before = shown(books[number - 1].theirs, at, -1, deepest[1])
            if at >= price and before is not None:
                came += max(some - before, 0)
        came -= sum(some for at, some in books[number].ours if at <= price)
        if came > 0:
            queue.behind, queue.ahead = queue.ahead + queue.behind, 0.0
            queue.reached.append((books[number].stamp, float(came)))
    return [one for one in queue.reached if one[1] > 0], size - queue.ahead


def whole_fills(reached: list[tuple[int, float]], shares: int) -> list[tuple[int, int]]:
    """Fills of whole shares, as soon as so much has reached the order."""
    fills: dict[int, int] = {}
    total, latest = 0.0, 0
    for stamp, volume in reached:
        some = min(int(total + volume + 1e-9), shares) - min(int(total + 1e-9), shares)
        total += volume
        if some:
            latest = max(latest, stamp)
            fills[latest] = fills.get(latest, 0) + some
    return list(fills.items())
