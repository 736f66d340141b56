"""The network of the simulation: an event loop in simulated time, connections, and clients that speak HTTP over them.

The service is asked through uvicorn's own protocol. Bytes arrive in pieces and late; a connection may stay half-open,
or break without a word.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from simulated_service.scheduler import NANO, Condition, Process, Scheduler
from simulated_service.standard_library import ThreadPool


class _Selector:
    """What an event loop waits for: nothing but being woken."""

    def __init__(self) -> None:
        self._condition = Condition()
        self._woken = False

    def wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._condition.notify_all()

    def select(self, timeout: float | None = None) -> list[Any]:
        if not self._woken and (timeout is None or timeout > 0):
            with self._condition:
                self._condition.wait_for(lambda: self._woken, timeout)
        self._woken = False
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop that runs in a simulated thread."""

    def __init__(self, timer: Scheduler) -> None:
        super().__init__()
        self._timer = timer
        self._selector = _Selector()
        self._default_executor = ThreadPool(6, "asyncio")
        self.set_exception_handler(self._on_error)

    def time(self) -> float:
        return self._timer.now / NANO

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._selector.wake()

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        current = self._timer.current
        if current is not None and current.process.alive and "exception" in context:
            self._timer.errors.append(f"the event loop: {context['message']}: {context['exception']!r}")


class Connection:
    """A connection between a client and the service, with latency, as both ends see it.

    It is the transport of the service's protocol; the client calls `send`, `receive` and `leave`.
    """

    def __init__(self, network: Network, process: Process, rng: random.Random) -> None:
        self._network, self._process, self._rng = network, process, rng
        self._timer = network.timer
        self._protocol: Any = None
        self._closing = self._lost = False
        self._sent = self._answered = 0  # when the last bytes arrive
        self.received = bytearray()
        self.broken = False  # whether the client knows that it is over
        self._news = Condition()
        self._held: deque[bytes] = deque()  # bytes that wait while reading is paused
        self._reading = True
        self.silent = False  # whether nothing arrives any more, in either direction, without a word

    # the client's end

    def send(self, data: bytes, *, piece: int = 1 << 20, pause: float = 0.0) -> None:
        """Send bytes in pieces."""
        for begin in range(0, len(data), piece):
            if begin and pause:
                self._timer.sleep(pause)
            self._arrive_later(data[begin : begin + piece])

    def _arrive_later(self, data: bytes) -> None:
        self._sent = max(self._timer.now + self._latency(), self._sent + 1)
        self._timer.at(self._sent, self._arrive, data)

    def _arrive(self, data: bytes) -> None:
        if not self._process.alive or self.silent or self._lost:
            return
        self._network.in_loop(self._data_received, data)

    def _data_received(self, data: bytes) -> None:
        if self._lost or self._closing:
            return
        if self._reading:
            self._protocol.data_received(data)
        else:
            self._held.append(data)

    def wait_for(self, ready: Callable[[], Any], seconds: float) -> bool:
        """Wait until something has been received; return whether it was in time."""
        with self._news:
            return bool(self._news.wait_for(ready, seconds))

    def leave(self) -> None:
        """Close the client's end."""
        self.broken = True
        self._timer.at(max(self._timer.now + self._latency(), self._sent + 1), self._left)

    def _left(self) -> None:
        if self._process.alive and not self.silent:
            self._network.in_loop(self._lose)

    def _latency(self) -> int:
        return int(self._rng.expovariate(1 / 300_000)) + 100_000

    # the service's end

    def open(self, protocol: Any) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def _lose(self) -> None:
        if not self._lost:
            self._lost = self._closing = True
            self._protocol.connection_lost(None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": ("127.0.0.1", 8470), "peername": ("127.0.0.1", 40_000)}.get(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes) -> None:
        if self._lost or not self._process.alive:
            return
        self._network.on_point("answer")
        self._answered = max(self._timer.now + self._latency(), self._answered + 1)
        if not self.silent:
            self._timer.at(self._answered, self._answer, bytes(data))

    def _answer(self, data: bytes) -> None:
        if self.silent:
            return
        self.received += data
        self._news.notify_all()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._network.loop.call_soon(self._lose)
        if not self.silent and self._process.alive:
            self._timer.at(max(self._timer.now + self._latency(), self._answered + 1), self.end)

    abort = close

    def end(self) -> None:
        """Let the client know that the connection is over."""
        self.broken = True
        self._news.notify_all()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        while self._held and self._reading:
            self._protocol.data_received(self._held.popleft())


class Network:
    """Everything between the clients and one life of the service."""

    def __init__(self, timer: Scheduler, on_point: Callable[[str], None]) -> None:
        self.timer, self.on_point = timer, on_point
        self.loop: SimulatedLoop
        self._make: Callable[[], Any] | None = None
        self._process: Process | None = None
        self._open: dict[Connection, None] = {}

    def listen(self, process: Process, loop: SimulatedLoop, make: Callable[[], Any]) -> None:
        """Accept connections; ``make`` returns a protocol."""
        self._process, self.loop, self._make = process, loop, make

    def deafen(self) -> None:
        """Accept no more connections."""
        self._make = None

    def connect(self, rng: random.Random) -> Connection | None:
        """Open a connection; None if nobody listens."""
        self.timer.sleep(0.0003)
        if self._make is None or self._process is None or not self._process.alive:
            return None
        connection = Connection(self, self._process, rng)
        self._open[connection] = None
        self.in_loop(connection.open, self._make())
        return connection

    def in_loop(self, call: Callable[..., Any], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(call, *arguments)

    def cut(self, rng: random.Random, *, power: bool) -> None:
        """End all connections: the process has ended. After a power cut, nobody tells the clients."""
        self._make = None
        for connection in self._open:
            if power and rng.random() < 0.7:
                connection.silent = True
            else:
                self.timer.after(rng.randrange(100_000, 2_000_000), connection.end)
        self._open.clear()

    def forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)


class Answer:
    """The answer to a request; status 0 if there was none."""

    def __init__(self, status: int = 0, body: bytes = b"") -> None:
        self.status, self.body = status, body


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: service\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def read_answer(received: bytearray) -> Answer | None:
    """Return the first whole answer; None if there is none yet."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(received[:end]).lower()
    at = head.find(b"content-length: ")
    length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    if len(received) < end + 4 + length:
        return None
    answer = Answer(int(head[9:12]), bytes(received[end + 4 : end + 4 + length]))
    del received[: end + 4 + length]
    return answer
