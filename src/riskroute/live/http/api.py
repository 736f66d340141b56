"""HTTP API and dashboard of the live router, as an ASGI application.

Requests to place an order, halt or resume are answered once their events are durable. The event loop never waits for
the router or the disk: the engine's thread handles orders, reader threads compute views, and halts and event streams
have threads of their own.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from riskroute.core import errors
from riskroute.live.background import BackgroundThread
from riskroute.live.http.connections import Connections
from riskroute.live.http.requests import HaltRequest, OrderRequest, QuotesRequest, ShadowRequest, decode_request
from riskroute.live.http.streams import EventStream, EventStreams
from riskroute.live.http.views import (
    MetricsView,
    decision_view,
    encode_view,
    order_view,
    positions_view,
    state_view,
)
from riskroute.live.ledger import LOGGER
from riskroute.live.log.interface import public_log_message
from riskroute.live.service import Service
from riskroute.live.state.orders import OrderDecision
from riskroute.live.tokens import token_owner

Value = TypeVar("Value")

# HTTP status by type of error; the first match applies.
_STATUS = (
    (errors.UnknownOrderError, 404),
    (errors.MalformedRequestError, 400),
    (errors.KeyUsedError, 409),
    (errors.HaltedError, 503),
    (errors.OverloadedError, 503),
    (errors.RefusedError, 422),
    (errors.InputError, 422),
    (errors.WriteError, 503),
    (errors.LeaseError, 503),
    (errors.DataError, 503),
    (errors.RiskrouteError, 409),
)


class _Call:
    """An authorised request; ``by`` is the name of its token."""

    def __init__(self, scope: Scope, receive: Receive, service: Service, by: str) -> None:
        self.request, self.service, self.by = Request(scope, receive), service, by

    async def body(self) -> bytes:
        """Return the body of the request; refuse a body above the configured size before reading all of it."""
        most = self.service.config.body_bytes
        too_large = HTTPException(413, f"the body must have at most {most:,} bytes")
        length = self.request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise too_large
        body = b""
        async for part in self.request.stream():
            body += part
            if len(body) > most:
                raise too_large
        return body

    async def read(self, view: Callable[[], Value]) -> Value:
        """Compute a view of the state in a reader thread, since it waits for the engine's lock."""
        return await asyncio.get_running_loop().run_in_executor(self.request.app.state.readers, view)

    async def control(self, call: Callable[[], Future[list[int]]]) -> Response:
        """Halt or resume trading in a thread of its own, since it waits for the engine's lock; answer once durable."""
        written = await asyncio.get_running_loop().run_in_executor(self.request.app.state.halts, call)
        await asyncio.wrap_future(written)
        return _json({"halted": self.service.engine.state.halted})


_Handler = Callable[[_Call], Awaitable[Response]]
_Respond = Callable[[int, bytes], None]


class _Endpoint:
    """The ASGI application of a route: checks the token, calls the handler, and converts errors to responses."""

    def __init__(self, service: Service, scope: str, handler: _Handler) -> None:
        self._service, self._scope, self._handler = service, scope, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(scope, receive)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        by = ""
        if self._scope:  # a route without scope is public
            header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            found = token_owner(self._service.config.tokens, header.decode("latin-1"))
            if found is None:
                headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
                return _refusal(401, "send a valid token as Authorization: Bearer TOKEN", headers)
            by, scopes = found
            if self._scope not in scopes:
                return _refusal(403, f"the token lacks the scope {self._scope}", {"Connection": "close"})
        try:
            return await self._handler(_Call(scope, receive, self._service, by))
        except HTTPException as error:
            return _refusal(error.status_code, error.detail, {"Connection": "close"})
        except ClientDisconnect:
            return _refusal(400, "the request was incomplete")
        except Exception as error:
            return _refusal(*_status_and_message(error, f"{scope['method']} {scope['path']}"))


def _status_and_message(error: BaseException, request: str) -> tuple[int, str]:
    """Return the HTTP status and the message for the client if handling a request raised ``error``."""
    if not isinstance(error, errors.RiskrouteError):
        LOGGER.error("%s failed", request, exc_info=error)
        return 500, "internal error; see the log of the service"
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    internal = isinstance(error, errors.WriteError | errors.LeaseError | errors.DataError)  # may name files and hosts
    return status, public_log_message(error) if internal else str(error)


class OrderApi:
    """Handles ``POST /orders`` without ASGI messages, which would double the time of an order."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.body_bytes = service.config.body_bytes
        self._done: deque[tuple[_Respond, str, Future[OrderDecision]]] = deque()  # orders to answer, with their symbols
        self._woken = False  # whether the event loop is about to answer them

    def authorises(self, header: bytes) -> bool:
        """Return whether the token of an ``Authorization`` header may place orders."""
        found = token_owner(self._service.config.tokens, header.decode("latin-1"))
        return found is not None and "trade" in found[1]

    def handle(self, body: bytes, respond: _Respond) -> None:
        """Submit the order in ``body``; later call ``respond`` with status and body of the answer in the event loop."""
        try:
            order = decode_request(body, OrderRequest, "an order")
            decision = self._service.submit(order)
        except Exception as error:
            _refuse_order(error, respond)
            return
        loop = asyncio.get_running_loop()

        def on_done(done: Future[OrderDecision]) -> None:
            # A commit completes many orders at a time: they share one wake-up of the loop, which is a system call.
            self._done.append((respond, order.symbol, done))
            if not self._woken:  # read after the append and reset before the queue is emptied, so no result is missed
                self._woken = True
                with suppress(RuntimeError):  # the loop is closed, and no request waits
                    loop.call_soon_threadsafe(self._answer_done)

        decision.add_done_callback(on_done)

    def _answer_done(self) -> None:
        self._woken = False
        while self._done:
            respond, symbol, done = self._done.popleft()
            if (error := done.exception()) is None:
                respond(200, encode_view(decision_view(done.result(), self._service.config.instruments[symbol])))
            else:
                _refuse_order(error, respond)


def _refuse_order(error: BaseException, respond: _Respond) -> None:
    status, sentence = _status_and_message(error, "POST /orders")
    respond(status, msgspec.json.encode({"error": sentence}))


def _json(value: Any, status: int = 200) -> Response:
    return Response(encode_view(value), status, media_type="application/json")


def _refusal(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode({"error": sentence}), status, headers, "application/json")


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {404: "unknown path", 405: "this path does not support this method"}
    return _refusal(error.status_code, sentences.get(error.status_code, "the request failed"), error.headers)


# Handlers; their docstrings are the summaries of the OpenAPI description.


async def _post_order(call: _Call) -> Response:
    """Accept an order and return its decision."""
    order = decode_request(await call.body(), OrderRequest, "an order")
    decision = await asyncio.wrap_future(call.service.submit(order))
    return _json(decision_view(decision, call.service.config.instruments[order.symbol]))


async def _post_shadow_order(call: _Call) -> Response:
    """Compare another router's execution of an order with this router's plan, and learn from its fills."""
    given = decode_request(await call.body(), ShadowRequest, "an executed order")
    compared = await asyncio.wrap_future(call.service.compare(given))
    return _json({"key": given.order.key, "known": True} if compared is None else compared)


async def _get_order(call: _Call) -> Response:
    """Return the status of an order and its children."""
    key = call.request.path_params["key"]
    return _json(await call.read(lambda: order_view(call.service, key)))


async def _get_positions(call: _Call) -> Response:
    """Return the positions by symbol."""
    return _json(await call.read(lambda: positions_view(call.service)))


async def _get_state(call: _Call) -> Response:
    """Return the content of the dashboard."""
    return _json(await call.read(lambda: state_view(call.service)))


async def _post_quotes(call: _Call) -> Response:
    """Accept books and trades of a symbol."""
    quotes = decode_request(await call.body(), QuotesRequest, "quotes")
    return _json({"venues": await asyncio.wrap_future(call.service.take_quotes(quotes))})


async def _post_halt(call: _Call) -> Response:
    """Halt trading."""
    body = await call.body()
    given = decode_request(body, HaltRequest, "a halt") if body else HaltRequest()
    return await call.control(partial(call.service.halt, given.reason[:200], call.by))


async def _post_resume(call: _Call) -> Response:
    """Resume trading after a halt."""
    await call.body()
    return await call.control(partial(call.service.resume, call.by))


async def _get_health(call: _Call) -> Response:
    """Return the status: ready, halted, starting or failed."""
    status = call.service.status
    return _json({"status": status}, 200 if status in ("ready", "halted") else 503)


async def _get_events(call: _Call) -> Response:
    """Stream the state and the events of the log as server-sent events."""
    # ``viewer`` comes first and names the scopes of the token; ``state`` follows at once and after every change. With
    # ?after=SEQ, or the header Last-Event-ID, the events of the log's rows after that number are streamed too.
    asked = call.request.query_params.get("after", call.request.headers.get("last-event-id"))
    after: int | None = None
    if asked is not None:
        if not asked.isdecimal() or len(asked) > 18:
            raise HTTPException(422, "after must be the number of a row of the log")
        after = int(asked)
    streams: EventStreams = call.request.app.state.streams
    if streams.count >= streams.most:
        raise HTTPException(503, f"at most {streams.most} event streams may be open: close one, or try again later")
    return EventStream(streams, call.by, after)


async def _get_openapi(call: _Call) -> Response:
    """Return the OpenAPI description of the service."""
    from riskroute.live.http.openapi import openapi_json  # which imports the routes of this module

    return Response(openapi_json(), media_type="application/json")


async def _get_metrics(call: _Call) -> Response:
    """Return metrics for Prometheus."""
    body = await call.read(call.request.app.state.metrics.text)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


# Method, path, scope of the token, and handler; routes without a scope are public.
ROUTES: tuple[tuple[str, str, str, _Handler], ...] = (
    ("POST", "/orders", "trade", _post_order),
    ("GET", "/orders/{key:path}", "read", _get_order),
    ("GET", "/positions", "read", _get_positions),
    ("GET", "/state", "read", _get_state),
    ("POST", "/shadow/orders", "trade", _post_shadow_order),
    ("POST", "/quotes", "trade", _post_quotes),
    ("POST", "/halt", "halt", _post_halt),
    ("POST", "/resume", "trade", _post_resume),
    ("GET", "/health", "", _get_health),
    ("GET", "/events", "read", _get_events),
    ("GET", "/openapi.json", "", _get_openapi),
    ("GET", "/metrics", "read", _get_metrics),
)


def make_api(service: Service) -> Starlette:
    """Return the ASGI application of a service; it starts and closes the service."""
    connections = Connections()
    streams = EventStreams(service, min(200, connections.most // 2))
    routes: list[BaseRoute] = [
        Route(path, _Endpoint(service, scope, handler), methods=[method]) for method, path, scope, handler in ROUTES
    ]
    app = Starlette(
        routes=[*routes, *_page_routes()],
        lifespan=_lifespan(service),
        exception_handlers={HTTPException: _on_http_error},
    )
    app.state.orders, app.state.connections, app.state.streams = OrderApi(service), connections, streams
    # If the engine never releases its lock, these threads never end, but do not keep the process alive.
    app.state.readers, app.state.halts = BackgroundThread("riskroute readers", 4), BackgroundThread("riskroute halts")
    app.state.metrics = MetricsView(service)
    service.clients |= {"connections": lambda: connections.count, "event_streams": lambda: streams.count}
    app.router.redirect_slashes = False
    return app


def _lifespan(service: Service) -> Any:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        if not service.started:
            await loop.run_in_executor(None, service.start)
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or no signals here
            loop.add_signal_handler(signal.SIGUSR1, app.state.halts.submit, _halt_by_signal, service)
        try:
            yield
        finally:
            await loop.run_in_executor(None, service.close)
            app.state.streams.close()
            app.state.readers.shutdown(wait=False)
            app.state.halts.shutdown(wait=False)

    return lifespan


def _halt_by_signal(service: Service) -> None:
    try:
        service.halt("received SIGUSR1", "signal")
    except errors.RiskrouteError as error:
        LOGGER.error("halt by signal: %s", error)


def _page_routes() -> list[BaseRoute]:
    """Return the routes of the dashboard: static files that are public and hold no data.

    The page reads ``/events`` with ``fetch`` and sends its token in a header. ``EventSource`` cannot send headers, a
    token in an address ends up in histories and logs, and a cookie would let pages of other sites act for the user.
    """
    media = {
        "index.html": "text/html",
        "style.css": "text/css",
        "main.js": "text/javascript",
        "panels.js": "text/javascript",
        "words.js": "text/javascript",
    }
    headers = {  # no other hosts, no inline code, no framing
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }

    def route(path: str, name: str) -> Route:
        body = (files("riskroute.live.http") / "static" / name).read_bytes()

        async def answer(request: Request) -> Response:
            return Response(body, headers=headers, media_type=media[name])

        return Route(path, answer, methods=["GET"])

    return [route("/", "index.html"), *(route(f"/static/{name}", name) for name in media if name != "index.html")]
