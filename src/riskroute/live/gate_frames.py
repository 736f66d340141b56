"""What the service and its gate tell each other: records, frames, and how they are written to a socket."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from riskroute.live.order_terms import OrderTerms, Prepared
from riskroute.live.state.events import Record

READ_BYTES = 1 << 16
"""Bytes that are read from the other process at a time, at most."""

PACKET_BYTES = 1 << 15
"""Bytes of a packet, at most: systems differ in how many they take."""

STOP = b"stop"
"""The packet that tells a gate to stop."""

LISTEN = b"listen"
"""The packet that brings the sockets on which a gate is to listen."""

MOST_LISTENERS = 16
"""Sockets to listen on, at most: a name may have several addresses."""

_LENGTH = struct.Struct("<I")


class GateToken(Record, frozen=True):
    """A token, as a gate knows it."""

    hash: str
    scopes: tuple[str, ...]


class GateConfig(Record, frozen=True):
    """What a gate must know of the configuration."""

    tokens: dict[str, GateToken]
    body_bytes: int
    terms: OrderTerms


Order = tuple[int, Prepared]
"""The number of a connection, and what it orders."""

Answer = tuple[int, int, bytes]
"""The number of a connection, the status, and the body."""

read_config = msgspec.msgpack.Decoder(GateConfig).decode
read_orders = msgspec.msgpack.Decoder(list[Order]).decode
read_answers = msgspec.msgpack.Decoder(list[Answer]).decode

_encode = msgspec.msgpack.Encoder().encode


def frame(value: GateConfig | Sequence[Order] | Sequence[Answer]) -> bytes:
    """A value as bytes, after their number."""
    body = _encode(value)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Cuts what comes over a stream into the bodies of frames."""

    def __init__(self) -> None:
        self._read = bytearray()

    def cut(self, data: bytes) -> list[bytearray]:
        """The frames that are complete now; the rest is kept until more of it comes.

        Examples
        --------
        >>> frames = Frames()
        >>> two = frame([(1, 200, b"a")]) + frame([(2, 422, b"b")])
        >>> [read_answers(body) for body in frames.cut(two[:20])]
        [[(1, 200, b'a')]]
        >>> [read_answers(body) for body in frames.cut(two[20:])]
        [[(2, 422, b'b')]]
        """
        self._read += data
        found, at = [], 0
        while len(self._read) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(self._read, at)[0]
            if end > len(self._read):
                break
            found.append(self._read[at + _LENGTH.size : end])
            at = end
        del self._read[:at]
        return found


class FrameWriter:
    """Writes to a stream without ever waiting: what it does not take now is written when it can be.

    Parameters
    ----------
    loop : AbstractEventLoop
        Says when there is room again.
    stream : socket
        Where to; it must not block. If the other end is gone, nothing is written, and whoever reads there finds out.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: socket.socket) -> None:
        self._loop, self._stream = loop, stream
        self._rest, self._closed, self._lock = b"", False, threading.Lock()

    @property
    def empty(self) -> bool:
        """Whether everything is written."""
        return not self._rest

    def write(self, data: bytes) -> None:
        """Write now, or after what still waits; any thread may do so."""
        with self._lock:
            if self._rest:
                self._rest += data
                return
            self._rest = self._written(data)
        if self._rest:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._watch)

    def _written(self, data: bytes) -> bytes:
        """Write what there is room for; returns the rest."""
        if self._closed:
            return b""
        try:
            return data[self._stream.send(data) :]
        except (BlockingIOError, InterruptedError):
            return data
        except OSError:
            return b""

    def _watch(self) -> None:
        if self._rest:
            self._loop.add_writer(self._stream, self._go_on)

    def _go_on(self) -> None:
        with self._lock:
            self._rest = self._written(self._rest)
        if not self._rest:
            self._loop.remove_writer(self._stream)

    def close(self) -> None:
        """Write nothing any more, in no thread; the stream may be closed then."""
        with self._lock:
            self._closed = True
            waiting, self._rest = self._rest, b""
        if waiting and not self._loop.is_closed():
            self._loop.remove_writer(self._stream)


class HandOver:
    """Hands connections to another process: their sockets, with all that was read from them and not answered.

    The first packet of a connection has its socket, and says how many bytes belong to it; they are in this packet and
    in those that follow.

    Parameters
    ----------
    loop : AbstractEventLoop
        Says when there is room for more.
    packets : socket
        Where to, a socket that keeps packets apart and does not block.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, packets: socket.socket) -> None:
        self._loop, self._packets = loop, packets
        self._waiting: deque[tuple[bytes, socket.socket | None]] = deque()

    @property
    def empty(self) -> bool:
        """Whether everything is handed over."""
        return not self._waiting

    def give(self, connection: socket.socket, data: bytes) -> None:
        """Hand over a connection, now or after those that still wait; it is closed here once that is done."""
        first = not self._waiting
        whole = _LENGTH.pack(len(data)) + data
        self._waiting.append((whole[:PACKET_BYTES], connection))
        self._waiting.extend(
            (whole[at : at + PACKET_BYTES], None) for at in range(PACKET_BYTES, len(whole), PACKET_BYTES)
        )
        if first:
            self._go_on()
            if self._waiting:
                self._loop.add_writer(self._packets, self._written)

    def _written(self) -> None:
        self._go_on()
        if not self._waiting:
            self._loop.remove_writer(self._packets)

    def _go_on(self) -> None:
        while self._waiting:
            data, connection = self._waiting[0]
            try:
                if connection is None:
                    self._packets.send(data)
                else:
                    socket.send_fds(self._packets, [data], [connection.fileno()])
                    connection.close()
            except OSError:  # no room, or too many sockets on their way; if the other end is gone, so are we soon
                return
            self._waiting.popleft()

    def close(self) -> None:
        """Close the connections that were not handed over."""
        if self._waiting:
            self._loop.remove_writer(self._packets)
        for _, connection in self._waiting:
            if connection is not None:
                connection.close()
        self._waiting.clear()


class TakeOver:
    """Puts together the connections that `HandOver` gives."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._data, self._missing = b"", 0

    def take(self, data: bytes, sockets: Sequence[int]) -> tuple[socket.socket, bytes] | None:
        """Take a packet; returns the connection that is complete with it, and what was read from it."""
        if sockets:
            self.close()
            self._connection = socket.socket(fileno=sockets[0])
            self._missing, self._data = _LENGTH.unpack_from(data)[0], b""
            data = data[_LENGTH.size :]
        if self._connection is None:  # its socket was lost: this process has too many files open
            return None
        self._data += data
        if len(self._data) < self._missing:
            return None
        taken, self._connection = self._connection, None
        return taken, self._data

    def close(self) -> None:
        """Close a connection that was not handed over whole."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
