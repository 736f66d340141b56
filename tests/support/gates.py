"""A gate's connections in the process of the test, with the service's ends of its sockets in the test's hands."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from live_services import TOKENS
from riskroute.live.gate_connections import Connections
from riskroute.live.gate_frames import (
    PACKET_BYTES,
    READ_BYTES,
    Answer,
    Frames,
    GateConfig,
    GateToken,
    Order,
    TakeOver,
    frame,
    read_answers,
    read_orders,
)
from riskroute.live.order_terms import Fees, Instrument, OrderTerms
from riskroute.live.state.events import PoolQuote
from riskroute.live.tokens import token_hash

CONFIG = GateConfig(
    tokens={name: GateToken(hash=token_hash(token), scopes=(name,)) for name, token in TOKENS.items()},
    body_bytes=50_000,
    terms=OrderTerms(
        partition="1/2",
        instruments={
            "DEMO": Instrument(lot=1, tick=10**7, partition="1/2"),
            "AWAY": Instrument(lot=1, tick=10**7, partition="2/2"),
        },
        venues={"A": Fees(taker=3, maker=-2)},
        pools=(PoolQuote(pool="P", fee=1),),
    ),
)


def order_body(key: str = "one", **more: object) -> bytes:
    """An order as small as can be."""
    return json.dumps({"key": key, "symbol": "DEMO", "side": "buy", "quantity": 5, "deadline": 9} | more).encode()


def request(body: bytes, *headers: bytes, line: bytes = b"POST /orders HTTP/1.1", token: str = "trade") -> bytes:
    """A request as clients send it; ``headers`` come between the others."""
    first = [line, b"Host: desk", b"Authorization: Bearer " + TOKENS[token].encode()]
    return b"\r\n".join([*first, *headers, b"Content-Length: %d" % len(body), b"", body])


def rest(client: socket.socket) -> bytes:
    """What can still be read from a connection."""
    try:
        return client.recv(1 << 20)
    except BlockingIOError:
        return b""


class Rig:
    """Connections of a gate on a loop that turns when the test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.orders, self._orders = socket.socketpair()
        self.others, self._others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for one in (self.orders, self._orders, self.others, self._others):
            one.setblocking(False)
        self.connections = Connections(loop, CONFIG, self._orders, self._others)
        self._frames, self._taking, self._ends = Frames(), TakeOver(), [self.orders, self.others]

    def client(self) -> socket.socket:
        """Connect; returns the end of the client."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.connections.add(theirs)
        self._ends.append(ours)
        return ours

    def turn(self, times: int = 3) -> None:
        """Let the gate do what it can."""
        for _ in range(times):
            self.loop.run_until_complete(asyncio.sleep(0))

    def asked(self) -> list[Order]:
        """The orders that came to the service."""
        self.turn()
        try:
            data = self.orders.recv(READ_BYTES)
        except BlockingIOError:
            return []
        return [order for body in self._frames.cut(data) for order in read_orders(body)]

    def answer(self, *answers: Answer) -> None:
        """Let the service answer."""
        self.connections.answer(read_answers(frame(answers)[4:]))
        self.turn()

    def handed_over(self) -> list[tuple[socket.socket, bytes]]:
        """The connections that came to the service, and the bytes that came with them."""
        found: list[tuple[socket.socket, bytes]] = []
        while True:
            self.turn()
            try:
                data, files, _, _ = socket.recv_fds(self.others, PACKET_BYTES, 1)
            except BlockingIOError:
                return found
            taken = self._taking.take(data, files)
            if taken is not None:
                self._ends.append(taken[0])
                taken[0].setblocking(False)
                found.append(taken)

    def close(self) -> None:
        self.connections.close()
        self._taking.close()
        for one in (*self._ends, self._orders, self._others):
            one.close()


@contextmanager
def rig() -> Iterator[Rig]:
    """Connections of a gate, closed at the end."""
    loop = asyncio.new_event_loop()
    try:
        made = Rig(loop)
        try:
            yield made
        finally:
            made.close()
    finally:
        loop.close()
