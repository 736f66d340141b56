"""The connections of a gate: plain orders go to the service, and with anything else the connection itself does."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from riskroute.live.gate_frames import Answer, FrameWriter, GateConfig, HandOver, Order, frame
from riskroute.live.gate_requests import MOST_BYTES, NotPlainError, PlainOrders

KEEP_ALIVE_SECONDS = 5.0
"""A connection that sends nothing for so long after an answer is closed, as those of the service are."""

LOOK_SECONDS = 1.0
"""Seconds between two checks of whether a connection must be closed."""

READ_AT_ONCE = 65_536
"""Bytes that are read from a connection at a time, at most."""


class Connections:
    """All connections of a gate, and what goes to the service from them.

    Parameters
    ----------
    loop : AbstractEventLoop
        Says when something can be read or written.
    config : GateConfig
        Who may trade.
    orders, others : socket
        Lead to the service, and do not block: a stream for orders and answers, and one of packets for connections.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, config: GateConfig, orders: socket.socket, others: socket.socket
    ) -> None:
        self.loop, self.config = loop, config
        self.stopping = False
        self._open: dict[int, Connection] = {}
        self._numbers = itertools.count()
        self._orders, self._others = FrameWriter(loop, orders), HandOver(loop, others)
        self._asked: list[Order] = []
        self._look = loop.call_later(LOOK_SECONDS, self._close_idle)

    @property
    def done(self) -> bool:
        """Whether nobody waits for anything any more."""
        return not self._open and not self._asked and self._orders.empty and self._others.empty

    def add(self, client: socket.socket) -> None:
        """Serve a client that was just accepted."""
        number = next(self._numbers)
        self._open[number] = Connection(self, number, client)

    def remove(self, number: int) -> None:
        """Forget a connection; an answer that is still due to it is dropped."""
        self._open.pop(number, None)

    def ask(self, order: Order) -> None:
        """Send an order to the service, with all others that come in this turn of the loop."""
        if not self._asked:
            self.loop.call_soon(self._flush)
        self._asked.append(order)

    def _flush(self) -> None:
        asked, self._asked = self._asked, []
        self._orders.write(frame(asked))

    def answer(self, answers: list[Answer]) -> None:
        """Pass on what the service answered."""
        date = _date(int(time.time()))
        for number, status, body in answers:
            if (connection := self._open.get(number)) is not None:
                connection.answered(answer_bytes(status, body, date, close=self.stopping))

    def hand_over(self, number: int, client: socket.socket, data: bytes) -> None:
        """Hand a connection to the service, with all bytes of it that were not answered."""
        self.remove(number)
        self._others.give(client, data)

    def stop(self) -> None:
        """Close connections as soon as answers that are due to them are given; those with half a request go on."""
        self.stopping = True
        for connection in list(self._open.values()):
            connection.stop()

    def _close_idle(self) -> None:
        self._look = self.loop.call_later(LOOK_SECONDS, self._close_idle)
        before = self.loop.time() - KEEP_ALIVE_SECONDS
        for connection in list(self._open.values()):
            if connection.idle_since is not None and connection.idle_since < before:
                connection.close()

    def close(self) -> None:
        """Close everything at once."""
        self._look.cancel()
        for connection in list(self._open.values()):
            connection.close()
        self._orders.close()
        self._others.close()


class Connection:
    """One client: at most one of its orders is under way, and what it sends meanwhile waits, up to a bound."""

    def __init__(self, all_of_them: Connections, number: int, client: socket.socket) -> None:
        self.idle_since: float | None = None  # nothing came since the last answer was given
        self._all, self._number, self._client, self._loop = all_of_them, number, client, all_of_them.loop
        self._plain = PlainOrders(all_of_them.config)
        self._data = b""  # read, and not yet answered
        self._rest = b""  # of an answer that the client has not yet taken
        self._asked = False  # an order is under way
        self._reading, self._writing = True, False
        self._loop.add_reader(client, self._read)

    def _read(self) -> None:
        try:
            data = self._client.recv(READ_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self.idle_since = None
        self._data += data
        if not self._asked and not self._rest:
            self._go_on()
        elif len(self._data) >= MOST_BYTES:
            self._read_no_more()

    def _go_on(self) -> None:
        """Ask for the next order, wait for more bytes of it, or hand the connection over."""
        try:
            found = self._plain.read(self._data)
        except NotPlainError:
            self._hand_over()
            return
        if found is not None:
            order, size = found
            self._data = self._data[size:]
            self._asked = True
            self._all.ask((self._number, order))

    def _hand_over(self) -> None:
        self._read_no_more()
        self._all.hand_over(self._number, self._client, self._data)

    def _read_no_more(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._client)

    def answered(self, answer: bytes) -> None:
        """Give the answer to the order that is under way, and go on with what came since."""
        self._asked = False
        self._rest = answer
        self._write()

    def _write(self) -> None:
        try:
            self._rest = self._rest[self._client.send(self._rest) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()
            return
        if bool(self._rest) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(self._client, self._write)
            else:
                self._loop.remove_writer(self._client)
        if not self._rest:
            self._given()

    def _given(self) -> None:
        """What to do once an answer is given."""
        if self._all.stopping:
            self.close()
            return
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._client, self._read)
        if self._data:
            self._go_on()
        else:
            self.idle_since = self._loop.time()

    def stop(self) -> None:
        """Close after the answer that is due; half a request may still become whole, in the service."""
        if self._asked or self._rest:
            return
        if self._data:
            self._hand_over()
        else:
            self.close()

    def close(self) -> None:
        """Close at once."""
        self._read_no_more()
        if self._writing:
            self._loop.remove_writer(self._client)
        self._client.close()
        self._all.remove(self._number)


def answer_bytes(status: int, body: bytes, date: bytes, *, close: bool = False) -> bytes:
    """The whole answer, as the service gives it to those who ask it itself."""
    ending = b"\r\nconnection: close\r\n\r\n" if close else b"\r\n\r\n"
    return (
        b"%b%b\r\ncontent-length: %d\r\ncontent-type: application/json" % (_status_line(status), date, len(body))
        + ending
        + body
    )


@lru_cache
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ndate: ".encode()


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
