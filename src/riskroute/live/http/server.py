"""The service on a socket, by uvicorn."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket

import uvicorn

from riskroute.live.http.api import make_app
from riskroute.live.service import Service


@contextmanager
def rare_collection() -> Iterator[None]:
    """Collect garbage rarely, and not among the objects that exist now.

    Records hold no cycles, and there are many: scanning them again and again takes a large part of an order's time.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Server(uvicorn.Server):
    """Calls back when it listens, and treats a stopping signal as an orderly end."""

    def __init__(self, config: uvicorn.Config, service: Service, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._on_started = service, on_started

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def on_tick(self, counter: int) -> bool:
        """Stop also when another process has taken over the log."""
        return await super().on_tick(counter) or self._service.engine.fenced

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        # Requests that have arrived but were not read yet are answered too; uvicorn would close their connections.
        await asyncio.sleep(0.05)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again once it has stopped, which would kill the process with its status
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(service: Service, on_started: Callable[[], None]) -> bool:
    """Serve until SIGINT or SIGTERM, or until another process takes over; return whether it could listen.

    Requests in flight are answered before it stops.
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
        timeout_graceful_shutdown=3,  # seconds for requests in flight
    )
    server = _Server(config, service, on_started)
    try:
        with rare_collection():
            server.run()
    except SystemExit:  # uvicorn's answer to an address that is taken
        return False
    return server.started
