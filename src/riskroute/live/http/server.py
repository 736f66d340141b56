"""The HTTP server: uvicorn, with a shorter path for ``POST /orders``."""

from __future__ import annotations

import asyncio
import gc
import hmac
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from riskroute.live.http.api import OrderApi, make_api
from riskroute.live.http.connections import Connections
from riskroute.live.service import Service


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Collect garbage rarely, and never scan objects that exist when this begins.

    Most objects are records without cycles, and scanning them again and again would take much of an order's time.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 200, 100)  # a collection stops everything: about 25 ms for 50,000 new objects
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _OrderCycle:
    """Replaces uvicorn's `RequestResponseCycle` for an order, which the connection answers itself."""

    message_event: ClassVar[asyncio.Event] = asyncio.Event()  # set by uvicorn, never awaited
    more_body: ClassVar[bool] = True  # nothing is written before the body is complete

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.body = bytearray()
        self.response_complete = self.disconnected = False
        self.keep_alive = True

    def respond(self, status: int, body: bytes) -> None:
        """Send the whole response in one write."""
        if self.disconnected:
            return
        self.response_complete = True
        connection = self._connection
        head = [STATUS_LINE[status]]
        for name, value in connection.server_state.default_headers:
            head += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            head.append(b"connection: close\r\n")
        head.append(b"content-length: %d\r\ncontent-type: application/json\r\n\r\n" % len(body))
        connection.transport.write(b"".join((*head, body)))
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()


class _Connection(HttpToolsProtocol):
    """A connection that passes authorised orders directly to `OrderApi`, without an asyncio task and ASGI messages.

    All other requests, and orders without a Content-Length, go to the ASGI application.
    """

    together = 2_048  # bytes parsed at a time, which may have many requests
    largest = 65_536  # bytes of a body; above, uvicorn pauses reading until the application reads

    def __init__(self, config: uvicorn.Config, *arguments: Any, **more: Any) -> None:
        super().__init__(config, *arguments, **more)
        self._handler: OrderApi = config.app.state.orders  # type: ignore[union-attr]  # the application of `serve`
        self._open: Connections = config.app.state.connections  # type: ignore[union-attr]  # likewise
        self._authorised = b""  # the last header of this connection whose token may send orders
        self._answered: RequestResponseCycle | _OrderCycle | None = None  # the request being answered, or the last one
        self._in_head = False  # whether the head of a request is incomplete
        self._bytes = 0  # received of the current request, without those parsed together with its first byte
        self._unread = memoryview(b"")  # received bytes that are not parsed yet

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's type is wider
        super().connection_made(transport)
        self._open.open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._answered is not None:  # uvicorn notifies only the newest of pipelined requests
            self._answered.disconnected = True
            self._answered.message_event.set()
        self._open.close(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._open.wait(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if not (self.cycle.response_complete or self.cycle.more_body):
            self._open.resume(self)

    def data_received(self, data: bytes) -> None:
        self._unread = memoryview(bytes(self._unread) + data if self._unread else data)
        self._read()

    def _read(self) -> None:
        """Parse received bytes until a request must wait for another: pipelined requests must not fill memory."""
        while self._unread and not self.pipeline and not self.transport.is_closing():
            data, self._unread = self._unread[: self.together], self._unread[self.together :]
            self._bytes += len(data)
            super().data_received(data)  # type: ignore[arg-type]  # the parser takes any buffer
            # Nothing else limits a body that the application does not read, or the lines between chunks.
            if self._bytes > (self.largest if self._in_head else 8 * self._handler.body_bytes):
                self.transport.abort()
        if self._unread or self.pipeline:
            self.flow.pause_reading()

    def _read_rest(self) -> None:
        if not self.pipeline:
            self.flow.resume_reading()
        self._read()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._bytes = True, 0
        if self.cycle is None or self.cycle.response_complete:
            self._open.wait(self)

    def on_response_complete(self) -> None:
        begins = self.pipeline and not self.pipeline[-1][0].more_body and not self.transport.is_closing()
        super().on_response_complete()
        if not begins:
            self._open.wait(self)
        if self._unread or self.pipeline:
            self.flow.pause_reading()  # which uvicorn has resumed
            self.loop.call_soon(self._read_rest)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._is_plain_order():
            self._unset_keepalive_if_required()
            self.cycle = self._answered = _OrderCycle(self)  # type: ignore[assignment]  # has all that uvicorn uses
        else:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if not (cycle.response_complete or self.flow.write_paused):
            self._open.resume(self)
        if isinstance(cycle, _OrderCycle):
            self._handler.handle(bytes(cycle.body), cycle.respond)
        else:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        body = b'{"error":"the request is not valid HTTP/1.1"}'  # not uvicorn's plain text
        head = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        head += b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[400] + head + body)
        self.transport.close()

    def _is_plain_order(self) -> bool:
        """Return whether the request is an order with a valid token, and all earlier requests are answered."""
        parser = self.parser
        if self.url != b"/orders" or parser.get_method() != b"POST" or parser.get_http_version() != "1.1":
            return False
        if (self.cycle is not None and not self.cycle.response_complete) or self.pipeline or self.flow.write_paused:
            return False
        token = length = b""
        for name, value in self.headers:
            if name == b"authorization":
                token = token or value
            elif name == b"content-length":
                length = value
            elif name in (b"expect", b"upgrade", b"transfer-encoding") or (
                name == b"connection" and value.lower() != b"keep-alive"
            ):
                return False
        if not length.isdigit() or int(length) > min(self.largest, self._handler.body_bytes):
            return False
        if not self._authorised or not hmac.compare_digest(token, self._authorised):
            if not self._handler.authorises(token):
                return False
            self._authorised = token
        return True


class _Server(uvicorn.Server):
    """Server that calls ``on_started`` when it listens, and shuts down cleanly on a signal."""

    def __init__(self, config: uvicorn.Config, service: Service, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._on_started = service, on_started

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop: on a signal, or if another process has taken over the log."""
        return await super().on_tick(counter) or self._service.engine.fenced

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        # Let the loop read requests that have arrived; uvicorn would close their connections without an answer.
        await asyncio.sleep(0.05)
        self.config.app.state.streams.close()  # type: ignore[union-attr]  # they would not end by themselves
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Not uvicorn's own, which raises the signal again after the stop, and so kills the process.
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(service: Service, on_started: Callable[[], None]) -> bool:
    """Serve until SIGINT, SIGTERM or another process takes over the log; return whether the address could be used.

    Requests in flight are answered before the server stops.
    """
    host, port = service.config.address
    config = uvicorn.Config(
        make_api(service),
        host,
        port,
        http=_Connection,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,  # seconds for requests in flight
    )
    server = _Server(config, service, on_started)
    try:
        with _rare_collection():
            server.run()
    except SystemExit:  # raised by uvicorn if the address is in use
        return False
    return server.started
