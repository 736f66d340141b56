"""The gate: a front-end process that parses and checks plain orders, so that the service does not have to.

It speaks HTTP with those who place orders, and hands every connection on which something else comes to the service.
It knows no order once it is answered, and ends when the service does, however that ends.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import socket
import sys
from collections.abc import Callable

from riskroute.live.gate_connections import Connections
from riskroute.live.gate_frames import (
    LISTEN,
    MOST_LISTENERS,
    READ_BYTES,
    STOP,
    Frames,
    GateConfig,
    read_answers,
    read_config,
)

ACCEPT_AT_ONCE = 100
"""Clients that are accepted at a time, at most."""

ACCEPT_AGAIN_SECONDS = 0.5
"""Seconds to wait before accepting again when no file descriptor is free."""

STOP_LOOK_SECONDS = 0.005
"""Seconds between two checks, when a gate stops, of whether everything is answered."""


class Gate:
    """Serves clients until it is told to stop, or until the service is gone.

    Parameters
    ----------
    config : GateConfig
        Who may trade.
    orders, others : socket
        Lead to the service: a stream for orders and answers, and one of packets for connections.
    listeners : list of socket
        Where clients come.
    """

    def __init__(
        self, config: GateConfig, orders: socket.socket, others: socket.socket, listeners: list[socket.socket]
    ) -> None:
        self._config, self._orders, self._others, self._listeners = config, orders, others, listeners
        self._frames = Frames()

    async def serve(self) -> None:
        """Serve until the end."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        for one in (self._orders, self._others, *self._listeners):
            one.setblocking(False)
        self._connections = Connections(self._loop, self._config, self._orders, self._others)
        self._loop.add_reader(self._orders, self._answers)
        self._loop.add_reader(self._others, self._told)
        for listener in self._listeners:
            self._listen(listener)
        try:
            await self._ended
        finally:
            self._close_listeners()
            self._connections.close()
            self._loop.remove_reader(self._orders)
            self._loop.remove_reader(self._others)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _answers(self) -> None:
        try:
            data = self._orders.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
        for body in self._frames.cut(data):
            self._connections.answer(read_answers(body))

    def _told(self) -> None:
        try:
            said = self._others.recv(len(STOP))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            said = b""
        if said == STOP:
            self._stop()
        else:
            self._end()

    def _stop(self) -> None:
        self._close_listeners()
        self._connections.stop()
        self._look()

    def _look(self) -> None:
        if self._connections.done:
            self._end()
        else:
            self._loop.call_later(STOP_LOOK_SECONDS, self._look)

    def _listen(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                client, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(listener)
                self._loop.call_later(ACCEPT_AGAIN_SECONDS, self._listen, listener)
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(client)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        self._listeners = []


def begin(orders: socket.socket, others: socket.socket) -> Gate | None:
    """Wait until the service says what to do; None if it does not any more."""
    frames = Frames()
    while not (bodies := frames.cut(data := orders.recv(READ_BYTES))):
        if not data:
            return None
    said, files, _, _ = socket.recv_fds(others, len(LISTEN), MOST_LISTENERS, socket.MSG_CMSG_CLOEXEC)
    if said != LISTEN:
        return None
    return Gate(read_config(bodies[0]), orders, others, [socket.socket(fileno=one) for one in files])


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop that the service has too."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


def main(words: list[str]) -> None:
    """Run a gate; the words are the numbers of its two sockets."""
    orders, others = (socket.socket(fileno=int(word)) for word in words)
    gate = begin(orders, others)
    if gate is None:
        return
    gc.freeze()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(gate.serve())


if __name__ == "__main__":
    main(sys.argv[1:])
