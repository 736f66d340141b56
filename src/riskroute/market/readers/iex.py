"""IEX's historical feeds DEEP 1.0 and TOPS 1.5 and 1.6: captures (pcap or pcapng; plain, gzip or zstd) of IEX-TP.

A capture holds UDP packets with one IEX-TP segment each, and a segment holds numbered messages. DEEP reports the new
size of a price level, TOPS the best bid and offer; both report trades, without the side of the resting order. All
changes of one DEEP event, the last of which is flagged, are one message of the book. Trades of auctions are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import polars

from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.core.validation import LONGEST_SYMBOL, is_valid_name
from riskroute.market.readers.csv_files import csv_file_errors, read_csv_file_fully, unpacked_csv_file
from riskroute.market.readers.level_book import LevelBook, LevelBookMessages, level_book_snapshots
from riskroute.market.readers.reading import MOST_SYMBOLS, ReaderPart, ReadingOptions, require_reading_symbols
from riskroute.market.schema import snapshot_schema

_FEEDS = {0x8002: "TOPS 1.5", 0x8003: "TOPS 1.6", 0x8004: "DEEP 1.0"}  # message protocols of IEX-TP
_SEGMENT = struct.Struct("<BxHIIHHqqq")  # version, protocol, channel, session, length, count, offset, first, time
_LEVEL = struct.Struct("<BBq8sIq")  # kind, flags, time, symbol, size, price in ten-thousandths
_QUOTE = struct.Struct("<BBq8sIqqI")  # kind, flags, time, symbol, bid size, bid, ask, ask size


class _Segment(NamedTuple):
    """A segment: its protocol and session, the number of its first message, and the messages."""

    protocol: int
    session: int
    first: int
    messages: list[bytes]


class IexReader:
    """Yields the books of IEX after every event, and its trades."""

    name = "iex"
    date = None
    us_equity = True
    PART = 500_000  # levels and trades collected before they are handed on, approximately

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a network capture begins with a segment of a known feed."""
        try:
            with closing(_segments(path)) as segments:
                return next(segments).protocol in _FEEDS
        except (RiskrouteError, StopIteration):
            return False

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.source, self.options = path, options
        with closing(_segments(path)) as segments:
            first = next(segments, None)
        if first is None or first.protocol not in _FEEDS:
            was = "without one" if first is None else f"of protocol {first.protocol:#x}"
            raise DataError(f"{path} must be a capture of {', '.join(_FEEDS.values())} of IEX, was {was}")
        self._protocol, self._start = first.protocol, first.first
        self.depth = options.kept(1 if _FEEDS[first.protocol].startswith("TOPS") else options.depth or 50)
        self.venue = options.venue or "IEXG"
        self._books: dict[bytes, LevelBookMessages | None] = {}  # None: not requested
        self._levels: dict[bytes, LevelBook] = {}
        self._changes: dict[bytes, tuple[list[tuple[float, float]], list[tuple[float, float]]]] = {}
        self._names: dict[str, None] = {}

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per symbol and chunk of the capture."""
        waiting = 0
        for number, message in self._messages():
            waiting += self._take(number, message)
            if waiting >= self.PART:
                yield from self._parts()
                waiting = 0
        yield from self._parts()
        for symbol, book in self._levels.items():
            for frame in book.rest():
                yield self._part(symbol.decode().strip(), frame, None)
        require_reading_symbols(self.options.symbols, self._names, self.source.name)

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        """Yield numbered messages; refuse missing ones, and skip repeated ones."""
        expected: int | None = None
        session = -1
        for segment in _segments(self.source):
            if segment.protocol != self._protocol:
                continue
            if segment.session != session:
                session, expected = segment.session, None
            if expected is not None and segment.first > expected and segment.messages:
                missing = f"messages {expected:,} to {segment.first - 1:,}"
                raise DataError(f"{self.source} lacks {missing}, so its books are unknown; download or record it again")
            for number, message in enumerate(segment.messages, segment.first):
                if expected is None or number >= expected:
                    yield number, message
                    expected = number + 1

    def _take(self, number: int, message: bytes) -> int:
        """Add a message to the book of its symbol; return the number of levels and trades."""
        kind = message[:1]
        if kind not in b"85TQ" or len(message) < _LEVEL.size:
            return 0
        symbol = message[10:18]
        book = self._books[symbol] if symbol in self._books else self._book(symbol)
        if book is None:
            return 0
        if kind == b"Q":
            _, _, stamp, _, bid_size, bid, ask, ask_size = _QUOTE.unpack_from(message)
            bids, asks = (
                [(price / 10_000, size)] if size else [] for price, size in ((bid, bid_size), (ask, ask_size))
            )
            book.add(number, stamp, bids, asks, reset=True)
            return 2
        _, flags, stamp, _, size, price = _LEVEL.unpack_from(message)
        if kind == b"T":
            if not flags & 0x08:  # an auction
                book.trade(number, stamp, price / 10_000, size, "")
            return 1
        changes = self._changes.setdefault(symbol, ([], []))
        changes[kind == b"5"].append((price / 10_000, size))
        if flags & 0x01:  # the event is complete
            del self._changes[symbol]
            book.add(number, stamp, *changes)
        return 1

    def _book(self, symbol: bytes) -> LevelBookMessages | None:
        """Return a new book of a symbol; None if it is not requested or its name is not valid in recordings."""
        name = symbol.decode("ascii", "replace").strip()
        self._names[name] = None
        wanted = self.options.symbols
        found = None
        if name in wanted or (not wanted and is_valid_name(name, longest=LONGEST_SYMBOL)):
            found = LevelBookMessages(self.venue, name, self.source, "message", fractional=False)
            self._levels[symbol] = LevelBook(self.depth)
        self._books[symbol] = found
        if not wanted and len(self._levels) > MOST_SYMBOLS:
            raise InputError(f"{self.source.name!r} has more than {MOST_SYMBOLS} symbols; name those to import")
        return found

    def _parts(self) -> Iterator[ReaderPart]:
        for symbol, book in self._books.items():
            if book is not None and len(book):
                part = book.take()
                frames = self._levels[symbol].follow(part.updates)
                found = self._part(book.symbol, next(frames, None), part.events)
                found.notes = dict(part.notes) | ({"no_snapshot": 1} if self._start > 1 else {})
                yield found
                yield from (self._part(book.symbol, frame, None) for frame in frames)

    def _part(self, symbol: str, frame: polars.DataFrame | None, events: polars.DataFrame | None) -> ReaderPart:
        if frame is None:
            return ReaderPart(self.venue, symbol, polars.DataFrame(schema=snapshot_schema(self.depth)), events)
        kept = level_book_snapshots(frame, self.venue, symbol, self.depth, fractional=False)
        return ReaderPart(self.venue, symbol, kept.with_columns(frame["deeper"]), events)


def _segments(path: Path) -> Generator[_Segment]:
    """Yield the IEX-TP segments of a capture."""
    with closing(_payloads(path)) as payloads:
        for number, payload in enumerate(payloads, 1):
            if len(payload) < _SEGMENT.size or payload[0] != 1:
                continue
            _, protocol, _, session, length, count, _, first, _ = _SEGMENT.unpack_from(payload)
            messages, place = [], _SEGMENT.size
            for _ in range(count):
                size = int.from_bytes(payload[place : place + 2], "little")
                messages.append(payload[place + 2 : place + 2 + size])
                place += 2 + size
            if place != _SEGMENT.size + length or place > len(payload):
                raise DataError(f"packet {number:,} of {path.name} must have {length:,} bytes of messages, was damaged")
            yield _Segment(protocol, session, first, messages)


def _payloads(path: Path) -> Generator[bytes]:
    """Yield the contents of the UDP packets of a capture, pcap or pcapng."""
    with csv_file_errors(path), unpacked_csv_file(path) as file:
        magic = _exactly(path, file, 4)
        packets = _pcapng(path, file) if magic == b"\x0a\x0d\x0d\x0a" else _pcap(path, file, magic)
        for link, packet in packets:
            payload = _udp(link, packet)
            if payload is not None:
                yield payload


def _pcap(path: Path, file: Any, magic: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield link type and content of the packets of a pcap file."""
    order = {b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">", b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<"}
    if magic not in order:
        raise DataError(f"{path} must be a network capture (pcap or pcapng)")
    link = struct.unpack(order[magic] + "I", _exactly(path, file, 20)[16:])[0] & 0xFFFF
    head = struct.Struct(order[magic] + "IIII")
    while start := read_csv_file_fully(file, 16):
        if len(start) < 16:
            raise DataError(f"{path} is truncated")
        _, _, kept, whole = head.unpack(start)
        if kept != whole:
            raise DataError(f"{path} must have whole packets, was cut to {kept} of {whole} bytes")
        yield link, _exactly(path, file, kept)


def _pcapng(path: Path, file: Any) -> Iterator[tuple[int, bytes]]:
    """Yield link type and content of the packets of a pcapng file, after the first four bytes."""
    order, links = "<", list[int]()
    kind, start = 0x0A0D0D0A, _exactly(path, file, 4)
    while True:
        if kind == 0x0A0D0D0A:  # a section, which states its byte order
            mark = _exactly(path, file, 4)
            order, links = ("<" if mark == b"\x4d\x3c\x2b\x1a" else ">"), []
            body = mark + _exactly(path, file, struct.unpack(order + "I", start)[0] - 16)
        else:
            body = _exactly(path, file, struct.unpack(order + "I", start)[0] - 12)
        _exactly(path, file, 4)  # the length again
        if kind == 1:
            links.append(struct.unpack(order + "H", body[:2])[0])
        elif kind == 6:
            interface, _, _, kept, whole = struct.unpack(order + "IIIII", body[:20])
            if kept != whole or interface >= len(links):
                raise DataError(f"{path} must have whole packets, was cut to {kept} of {whole} bytes")
            yield links[interface], body[20 : 20 + kept]
        start = read_csv_file_fully(file, 8)
        if not start:
            return
        if len(start) < 8:
            raise DataError(f"{path} is truncated")
        kind, start = struct.unpack(order + "I", start[:4])[0], start[4:]


def _udp(link: int, packet: bytes) -> bytes | None:
    """Return the content of a UDP packet over IPv4 on Ethernet or without a link layer; None for others."""
    place = 0
    if link == 1:
        place = 14
        while packet[place - 2 : place] in (b"\x81\x00", b"\x88\xa8"):  # VLAN tags
            place += 4
        if packet[place - 2 : place] != b"\x08\x00":
            return None
    elif link != 101:
        return None
    if len(packet) < place + 28 or packet[place] >> 4 != 4 or packet[place + 9] != 17:
        return None
    place += 4 * (packet[place] & 0x0F)
    length = int.from_bytes(packet[place + 4 : place + 6], "big")
    return packet[place + 8 : place + length]


def _exactly(path: Path, file: Any, count: int) -> bytes:
    content = read_csv_file_fully(file, count) if count >= 0 else b""
    if count < 0 or len(content) < count:
        raise DataError(f"{path} is truncated or damaged")
    return content
