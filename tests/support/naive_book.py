"""An order book as plain as can be: reads ITCH 5.0 one message at a time, and complains of every one that is wrong."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Levels = list[tuple[int, int]]

SIZES = {"S": 12, "R": 39, "H": 25, "A": 36, "F": 40, "E": 31, "C": 36, "X": 23, "D": 19, "U": 35, "P": 44}


def read_messages(path: Path) -> Iterator[bytes]:
    """Bodies of the messages of a file, without their lengths."""
    with Path(path).open("rb") as file:
        while head := file.read(2):
            (length,) = struct.unpack(">H", head)
            body = file.read(length)
            assert len(body) == length, "the file ends within a message"
            yield body


@dataclass
class Order:
    """An order that rests; prices are ten-thousandths of a dollar."""

    locate: int
    side: str
    price: int
    size: int


class NaiveBook:
    """Books of all stocks in a file. Prices are ten-thousandths of a dollar, bids have side B and asks S."""

    def __init__(self) -> None:
        self.orders: dict[int, Order] = {}
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
        assert len(message) == SIZES[kind], f"{kind} has {len(message)} bytes"
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
        self.orders[reference] = Order(locate, side, price, size)
        level = self.sizes[locate, side]
        level[price] = level.get(price, 0) + size

    def _take(self, locate: int, reference: int, size: int | None = None) -> Order:
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
