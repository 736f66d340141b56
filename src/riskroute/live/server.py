"""The service on a socket."""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket

import uvicorn

from riskroute.core.errors import StateError
from riskroute.live.api import make_app
from riskroute.live.gate_link import GateKeeper
from riskroute.live.gate_process import GateProcess, listening
from riskroute.live.service import LOGGER, Service

STOP_SECONDS = 3
"""Requests that are under way have so long to end when the service stops."""


COLLECT_AFTER = (500_000, 20, 100)
"""Objects, and searches of the younger generations, after which cycles are searched for."""


@contextmanager
def rare_collection() -> Iterator[None]:
    """Search for cycles rarely, and not in what is there already.

    Records have none, and there are many: looking through them all the time takes a large part of every order's time.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Server(uvicorn.Server):
    """Says when it is there, and ends by a signal as if nothing had happened.

    With a gate it does not listen, and serves the connections that the gate hands over.
    """

    def __init__(
        self, config: uvicorn.Config, service: Service, on_started: Callable[[], None], gate: GateKeeper | None
    ) -> None:
        super().__init__(config)
        self._service, self._on_started, self._gate = service, on_started, gate
        self._attaching: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            if self._gate is not None:
                self._gate.open(self._attach)
            self._on_started()

    def _attach(self, connection: socket, data: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._attached(connection, data))
        self._attaching.add(task)
        task.add_done_callback(self._attaching.discard)

    async def _attached(self, connection: socket, data: bytes) -> None:
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: _Attached(self, data), connection)
        except Exception as error:
            connection.close()
            if not isinstance(error, OSError):  # otherwise the client has left
                LOGGER.exception("a connection of the gate cannot be served")

    def protocol(self) -> asyncio.Protocol:
        """What serves one connection."""
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn makes it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def on_tick(self, counter: int) -> bool:
        """Stop also when another process has taken the log over, or there is no gate any more."""
        ended = self._service.engine.fenced or (self._gate is not None and bool(self._gate.failed))
        return await super().on_tick(counter) or ended

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Let the gate give its answers first; what it still hands over is served like all the rest."""
        if self._gate is not None:
            began = time.monotonic()
            await self._gate.stop(STOP_SECONDS, lambda: self.force_exit)
            if self._attaching:
                await asyncio.wait(self._attaching)
            self.config.timeout_graceful_shutdown = max(STOP_SECONDS - math.floor(time.monotonic() - began), 1)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Attached(asyncio.Protocol):
    """Gives a connection to a protocol of uvicorn, with what was read from it before anything that comes now."""

    def __init__(self, server: _Server, data: bytes) -> None:
        self._server, self._data = server, data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        protocol = self._server.protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(self._data)


def serve(service: Service, on_started: Callable[[], None], gate: GateProcess | None = None) -> bool:
    """Serve until SIGINT or SIGTERM comes, or another process takes over; returns whether it could begin to.

    Answers that are due are given first. With a gate, that listens and takes orders; `StateError` says that it ended
    again and again.
    """
    host, port = service.config.address
    config = uvicorn.Config(
        make_app(service),
        host,
        port,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    if gate is None:
        return _run(_Server(config, service, on_started, None), None)
    try:
        listeners = listening(host, port)
    except OSError as error:
        LOGGER.error("%s", error)
        return False
    keeper = GateKeeper(service, listeners, gate)
    try:
        return _run(_Server(config, service, on_started, keeper), [])
    finally:
        keeper.close()
        if keeper.failed:
            raise StateError(keeper.failed)


def _run(server: _Server, sockets: list[socket] | None) -> bool:
    try:
        with rare_collection():
            server.run(sockets)
    except SystemExit:
        return False
    return server.started
