"""Clients of the live router that cost little: requests are made before the clock starts, and one thread serves all."""

from __future__ import annotations

import json
import selectors
import socket
import time

from live_services import order_json
from riskroute.live.state.events import NANO
from service_processes import HEADERS


class _Connection:
    """A connection, kept open, over which one order is sent after the other, each after the answer to the last."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self._read = b""

    def send(self, request: bytes) -> None:
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def answered(self) -> bool:
        """Whether the answer is complete; it must be a decision."""
        self._read += self.socket.recv(65_536)
        head, end, body = self._read.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return False
        if b" 200 " not in head[:20]:
            raise RuntimeError(body.decode())
        self._read = b""
        return True


def order_request(key: str) -> bytes:
    """The whole request of an order, with books of this moment."""
    body = json.dumps(order_json(key, deadline=time.time_ns() + 600 * NANO)).encode()
    token = HEADERS["Authorization"]
    head = f"POST /orders HTTP/1.1\r\nHost: b\r\nAuthorization: {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def ask_for_decisions(listen: str, label: str, clients: int, orders: int) -> tuple[float, list[float]]:
    """Decisions a second, and the seconds that each took, from so many clients that wait for their answers."""
    host, _, port = listen.partition(":")
    requests = iter([order_request(f"{label}.{clients}.{number}") for number in range(orders)])
    waits: list[float] = []
    with selectors.DefaultSelector() as selector:
        connections = [_Connection((host, int(port))) for _ in range(clients)]
        for one in connections:
            selector.register(one.socket, selectors.EVENT_READ, one)
        began = time.perf_counter()
        for one, request in zip(connections, requests, strict=False):
            one.send(request)
        while len(waits) < orders:
            for key, _ in selector.select():
                one = key.data
                if one.answered():
                    waits.append(time.perf_counter() - one.sent_at)
                    if (request := next(requests, b"")) != b"":
                        one.send(request)
        rate = orders / (time.perf_counter() - began)
        for one in connections:
            one.socket.close()
    return rate, waits
