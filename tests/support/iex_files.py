"""IEX's feeds as they are published: messages, segments of IEX-TP, and network captures."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

DEEP, TOPS = 0x8004, 0x8003


def iex_level(side: str, time: int, symbol: str, size: int, price: float, *, complete: bool = True) -> bytes:
    """A price level update of DEEP; side B or A."""
    kind, name = b"8" if side == "B" else b"5", symbol.encode().ljust(8)
    return kind + struct.pack("<Bq", int(complete), time) + name + struct.pack("<Iq", size, round(price * 10_000))


def iex_trade(time: int, symbol: str, size: int, price: float, *, auction: bool = False) -> bytes:
    """A trade report of both feeds."""
    terms = struct.pack("<Iqq", size, round(price * 10_000), 7)
    return b"T" + struct.pack("<Bq", 0x08 * auction, time) + symbol.encode().ljust(8) + terms


def iex_quote(time: int, symbol: str, bid: tuple[float, int], ask: tuple[float, int]) -> bytes:
    """A quote update of TOPS: price and size of both sides, zeros for none."""
    name = symbol.encode().ljust(8)
    sides = struct.pack("<IqqI", bid[1], round(bid[0] * 10_000), round(ask[0] * 10_000), ask[1])
    return b"Q" + struct.pack("<Bq", 0, time) + name + sides


def iex_segment(messages: Sequence[bytes], first: int, protocol: int = DEEP, session: int = 1) -> bytes:
    """A segment of IEX-TP."""
    body = b"".join(struct.pack("<H", len(one)) + one for one in messages)
    head = struct.pack("<BBHIIHHqqq", 1, 0, protocol, 1, session, len(body), len(messages), 0, first, 0)
    return head + body


def _packet(payload: bytes, tag: bytes = b"") -> bytes:
    """An Ethernet frame with an IPv4 packet with a UDP packet."""
    udp = struct.pack(">HHHH", 10378, 10378, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes(4), bytes(4))
    return bytes(12) + tag + b"\x08\x00" + head + udp


def pcap(payloads: Sequence[bytes], order: str = "<", tag: bytes = b"") -> bytes:
    """A pcap file of UDP packets; ``tag`` is a VLAN tag."""
    whole = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for payload in payloads:
        packet = _packet(payload, tag)
        whole += struct.pack(order + "IIII", 0, 0, len(packet), len(packet)) + packet
    return whole


def pcapng(payloads: Sequence[bytes], order: str = "<") -> bytes:
    """A pcapng file of UDP packets, with a block of another kind in between."""
    blocks: list[tuple[int, bytes]] = [(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    blocks += [(1, struct.pack(order + "HHI", 1, 0, 0)), (5, bytes(12))]
    for payload in payloads:
        packet = _packet(payload)
        padded = packet + bytes(-len(packet) % 4)
        blocks.append((6, struct.pack(order + "IIIII", 0, 0, 0, len(packet), len(packet)) + padded))
    return b"".join(_block(kind, body, order) for kind, body in blocks)


def _block(kind: int, body: bytes, order: str) -> bytes:
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def naive_deep(messages: Sequence[dict[str, Any]], depth: int) -> list[tuple[list[tuple[float, int]], ...]]:
    """The best levels after every complete event that changed them, by a dictionary of prices per side."""
    sides: dict[str, dict[float, int]] = {"B": {}, "A": {}}
    books: list[tuple[list[tuple[float, int]], ...]] = []
    before: tuple[list[tuple[float, int]], ...] = ([], [])
    for one in messages:
        sides[one["side"]][one["price"]] = one["size"]
        if one["complete"]:
            now = tuple(
                sorted(((p, s) for p, s in sides[side].items() if s), reverse=side == "B")[:depth] for side in "BA"
            )
            if now != before:
                books.append(now)
            before = now
    return books
