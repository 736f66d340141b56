"""The addresses of the service.

Every answer to an order, a halt or a resume comes after it is durable. Nothing here waits for the router or for a disk
in the thread that serves: that is done elsewhere, and awaited.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from riskroute.core.errors import RiskrouteError
from riskroute.live.http import Answer, Call, Endpoint, answer_json, on_http_error
from riskroute.live.metrics import Metrics
from riskroute.live.page import page_routes
from riskroute.live.service import LOGGER, Service
from riskroute.live.stream import event_stream
from riskroute.live.views import order_view, positions_view, state_view
from riskroute.live.wire import HaltIn, OrderIn, QuotesIn, ShadowIn, read_json

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
    return Response((files("riskroute.live") / "openapi.json").read_bytes(), media_type="application/json")


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
