"""The addresses of the service.

Every answer to an order, a halt or a resume comes after it is durable. Nothing here waits for the router or for a disk
in the thread that serves: that is done elsewhere, and awaited.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.live.config import bearer_owner
from riskroute.live.engine import KeyUsedError, RefusedError
from riskroute.live.http.requests import HaltIn, MalformedError, OrderIn, QuotesIn, ShadowIn, read_json
from riskroute.live.http.views import Metrics, NotFoundError, order_view, positions_view, state_view, viewer_view
from riskroute.live.log.event_rows import event_kind, row_events
from riskroute.live.log.interface import LeaseError, WriteError, told_outside
from riskroute.live.service import LOGGER, HaltedError, Service
from riskroute.live.state.events import Planned

Answer = Callable[["Call"], Awaitable[Response]]

_STATUS = (
    (NotFoundError, 404),
    (MalformedError, 400),
    (KeyUsedError, 409),
    (HaltedError, 503),
    (RefusedError, 422),
    (InputError, 422),
    (WriteError, 503),
    (LeaseError, 503),
    (DataError, 503),
    (RiskrouteError, 409),
)
"""Status by kind of error; the first that fits counts."""


class Call:
    """A request that may be answered: by whom, with which body."""

    def __init__(self, scope: Scope, receive: Receive, service: Service, by: str) -> None:
        self.scope, self.service, self.by = scope, service, by
        self._receive = receive

    @property
    def request(self) -> Request:
        """All that a client may say; orders do without, since it takes long to make."""
        return Request(self.scope, self._receive)

    async def body(self) -> bytes:
        """The body, unless it is larger than allowed."""
        most = self.service.config.body_bytes
        told = header_of(self.scope, b"content-length") or "0"
        if not told.isdigit() or int(told) > most:
            raise HTTPException(413, f"the body must have at most {most:,} bytes, had more")
        body, more = b"", True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                raise HTTPException(413, f"the body must have at most {most:,} bytes, had more")
        return body


def answer_json(value: Any, status: int = 200) -> Response:
    """Plain values or records as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """One sentence."""
    return Response(msgspec.json.encode({"error": sentence}), status, headers, "application/json")


class Endpoint:
    """An address, as an ASGI application.

    Parameters
    ----------
    service : Service
        What is asked.
    right : str
        Scope that a token must have; if it is empty, anybody may ask.
    answer : Answer
        Answers those who may ask.
    """

    def __init__(self, service: Service, right: str, answer: Answer) -> None:
        self.service, self.right, self.answer = service, right, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answered(scope, receive)
        await response(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive) -> Response:
        by = ""
        if self.right:
            found = bearer_owner(self.service.config.tokens, header_of(scope, b"authorization"))
            if found is None:
                headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
                return refusal(401, "a valid token must be sent as Authorization: Bearer TOKEN, was not", headers)
            by, scopes = found
            if self.right not in scopes:
                return refusal(403, f"the token must have the scope {self.right}, has not", {"Connection": "close"})
        try:
            return await self.answer(Call(scope, receive, self.service, by))
        except HTTPException as error:
            return refusal(error.status_code, error.detail, {"Connection": "close"})
        except ClientDisconnect:
            return refusal(400, "the request must be complete, was not")
        except Exception as error:
            return refusal(*explained(error, scope["method"], scope["path"]))


def explained(error: BaseException, method: str, path: str) -> tuple[int, str]:
    """Status and sentence for what was refused; of a mistake of ours the client learns that it was one, and no more."""
    if not isinstance(error, RiskrouteError):
        LOGGER.error("%s %s failed", method, path, exc_info=error)
        return 500, "something went wrong here; the log of the service says more"
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    inside = isinstance(error, WriteError | LeaseError | DataError)
    return status, told_outside(error) if inside else str(error)


def header_of(scope: Scope, name: bytes) -> str:
    """The first header with a name in small letters; empty if there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return ""


async def on_http_error(request: Request, error: Exception) -> Response:
    """An address that is not there, or a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    known = {404: "there is nothing at this address", 405: "this address does not know this method"}
    return refusal(status, known.get(status, "the request cannot be answered"))


EVERY = 0.2
"""Seconds between two looks at the state."""

QUIET = 10.0
"""After so many seconds without news a comment is sent, so that nobody takes the line for dead."""

MOST_ROWS = 500
"""Rows of the log in one look, at most."""


def event_stream(call: Call) -> Response:
    """Answer with events until the client leaves.

    ``viewer`` comes first and says what the token is good for; ``state`` comes at once and after every change, at most
    five times a second. With ``?after=SEQ``, or a header Last-Event-ID, the events in the rows of the log after that
    number come too, each by its kind; the last one of a row has its number as id.
    """
    asked = call.request.query_params.get("after", call.request.headers.get("last-event-id"))
    after: int | None = None
    if asked is not None:
        if not asked.isdigit() or len(asked) > 18:
            raise HTTPException(422, "after must be the number of a row of the log, was not")
        after = int(asked)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(call.service, call.by, after), 200, headers, "text/event-stream")


async def _events(service: Service, by: str, after: int | None) -> AsyncIterator[bytes]:
    yield message("viewer", viewer_view(service, by))
    loop, shown, quiet = asyncio.get_running_loop(), None, 0.0
    while not service.closing:
        news = []
        if after is not None:
            rows = await loop.run_in_executor(None, _rows, service, after)
            news += [one for seq, events in rows for one in _row_messages(seq, events)]
            after = rows[-1][0] if rows else after
        mark = service.mark()
        if mark != shown:
            shown = mark
            view = await loop.run_in_executor(None, state_view, service)
            news.append(message("state", view))
        if news:
            quiet = 0.0
            yield b"".join(news)
        elif (quiet := quiet + EVERY) >= QUIET:
            quiet = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(EVERY)


def _rows(service: Service, after: int) -> list[tuple[int, list[tuple[str, Any]]]]:
    """Rows of the log: their events as plain values, without the states of routers, which are large."""
    found = []
    for row in service.log.read(after, MOST_ROWS):
        events = []
        for event in row_events(row):
            body = msgspec.to_builtins(event)
            if isinstance(event, Planned):
                del body["state"]
            events.append((event_kind(event), body))
        found.append((row.seq, events))
    return found


def _row_messages(seq: int, events: list[tuple[str, Any]]) -> Iterator[bytes]:
    """The events of a row; the last has its number, so that who comes back with that number has seen all of them."""
    for number, (kind, body) in enumerate(events, start=1):
        yield message(kind, body, seq if number == len(events) else None)


def message(kind: str, value: Any, seq: int | None = None) -> bytes:
    r"""One event, as it goes over the line.

    Examples
    --------
    >>> message("state", {"orders": 1})
    b'event: state\ndata: {"orders":1}\n\n'
    """
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


KINDS = {
    "index.html": "text/html",
    "style.css": "text/css",
    "main.js": "text/javascript",
    "panels.js": "text/javascript",
    "words.js": "text/javascript",
}
"""Files of the dashboard, and what they are."""

HEADERS = {
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
"""Nothing is loaded from elsewhere, nothing inline is run, and no other page may hold this one in a frame."""


def page_routes(service: Service) -> list[BaseRoute]:
    """Routes of the page; it holds no data itself, so that anybody may load it."""
    folder = files("riskroute.live.http") / "static"

    def route(path: str, name: str) -> Route:
        body = (folder / name).read_bytes()

        async def answer(request: Request) -> Response:
            return Response(body, headers=HEADERS, media_type=KINDS[name])

        return Route(path, answer, methods=["GET"])

    return [route("/", "index.html"), *(route(f"/static/{name}", name) for name in KINDS if name != "index.html")]


Value = TypeVar("Value")


async def post_order(call: Call) -> Response:
    """Accept an order, and answer with its decision."""
    order = read_json(await call.body(), OrderIn, "an order")
    return answer_json(await asyncio.wrap_future(call.service.submit(order)))


async def post_shadow_order(call: Call) -> Response:
    """Judge an order that another router has executed, and learn from it."""
    given = read_json(await call.body(), ShadowIn, "an executed order")
    judged = await asyncio.wrap_future(call.service.shadow(given))
    return answer_json({"key": given.order.key, "known": True} if judged is None else judged)


async def get_order(call: Call) -> Response:
    """Say what became of an order."""
    return answer_json(await _looked(call, lambda: order_view(call.service, call.request.path_params["key"])))


async def get_positions(call: Call) -> Response:
    """Say what is held."""
    return answer_json(await _looked(call, lambda: positions_view(call.service)))


async def get_state(call: Call) -> Response:
    """Say what a page shows."""
    return answer_json(await _looked(call, lambda: state_view(call.service)))


async def post_quotes(call: Call) -> Response:
    """Take books and trades."""
    quotes = read_json(await call.body(), QuotesIn, "quotes")
    return answer_json({"venues": await asyncio.wrap_future(call.service.told(quotes))})


async def post_halt(call: Call) -> Response:
    """Halt trading."""
    body = await call.body()
    given = read_json(body, HaltIn, "a halt") if body else HaltIn()
    await asyncio.wrap_future(await _looked(call, lambda: call.service.halt(given.reason[:200], call.by)))
    return answer_json({"halted": call.service.engine.state.halted})


async def post_resume(call: Call) -> Response:
    """Trade again."""
    await call.body()
    await asyncio.wrap_future(await _looked(call, lambda: call.service.resume(call.by)))
    return answer_json({"halted": call.service.engine.state.halted})


async def get_health(call: Call) -> Response:
    """Say in a word how it is."""
    status = call.service.status
    return answer_json({"status": status}, 200 if status in ("ready", "halted") else 503)


async def get_events(call: Call) -> Response:
    """Tell what happens as it happens."""
    return event_stream(call)


async def get_openapi(call: Call) -> Response:
    """Describe these addresses."""
    return Response((files("riskroute.live.http") / "openapi.json").read_bytes(), media_type="application/json")


async def _looked(call: Call, look: Callable[[], Value]) -> Value:
    return await asyncio.get_running_loop().run_in_executor(None, look)


ADDRESSES: tuple[tuple[str, str, str, Answer], ...] = (
    ("POST", "/orders", "trade", post_order),
    ("GET", "/orders/{key:path}", "read", get_order),
    ("GET", "/positions", "read", get_positions),
    ("GET", "/state", "read", get_state),
    ("POST", "/shadow/orders", "trade", post_shadow_order),
    ("POST", "/quotes", "trade", post_quotes),
    ("POST", "/halt", "halt", post_halt),
    ("POST", "/resume", "trade", post_resume),
    ("GET", "/health", "", get_health),
    ("GET", "/events", "read", get_events),
    ("GET", "/openapi.json", "", get_openapi),
)
"""Method, path, scope and function of every address but those of metrics and of the page."""


def make_app(service: Service) -> Starlette:
    """The service as an ASGI application; it starts and closes the service."""
    metrics = Metrics(service)

    async def get_metrics(call: Call) -> Response:
        body = await _looked(call, metrics.text)
        return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [
        Route(path, Endpoint(service, right, answer), methods=[method])
        for method, path, right, answer in (*ADDRESSES, ("GET", "/metrics", "read", get_metrics))
    ]
    handlers: dict[Any, Any] = {HTTPException: on_http_error}
    app = Starlette(
        routes=[*routes, *page_routes(service)],
        lifespan=_life(service, metrics),
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False
    return app


def _life(service: Service, metrics: Metrics) -> Any:
    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        service.engine.decider.on_asked = metrics.router_seconds.observe
        if not service.started:
            await loop.run_in_executor(None, service.start)
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or no signals here
            loop.add_signal_handler(signal.SIGUSR1, _halt_by_signal, service)
        try:
            yield
        finally:
            await loop.run_in_executor(None, service.close)

    return life


def _halt_by_signal(service: Service) -> None:
    try:
        service.halt("the signal SIGUSR1 came", "signal")
    except RiskrouteError as error:
        LOGGER.error("halt by signal: %s", error)
