"""A live service in the process of the test, asked as over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from log_memory import MemoryLog, MemoryStore
from riskroute.live.config import LiveConfig, live_config, token_hash
from riskroute.live.http.api import make_app
from riskroute.live.service import Service
from riskroute.live.state.events import NANO

TOKENS = {name: f"the-token-that-is-good-for-{name}" for name in ("trade", "halt", "read")}


def service_config(folder: Path, **more: Any) -> LiveConfig:
    """Two venues and a pool that answer at once."""
    quick = {"latency_ms": 0.0}
    given: dict[str, Any] = {
        "log": {"path": str(folder / "live.sqlite")},
        "router": {"name": "dark-first+sweep"},
        "venues": {"A": quick | {"taker": 0.003}, "B": quick | {"taker": 0.003}},
        "pools": {"P": quick | {"fee": 0.001}},
        "instruments": {"DEMO": {}, "OTHER": {"lot": 10}},
        "tokens": {name: {"hash": token_hash(token), "scopes": [name]} for name, token in TOKENS.items()},
        "halt_file": str(folder / "HALT"),
    }
    return live_config(given | more)


def order_json(key: str = "one", **more: Any) -> dict[str, Any]:
    """An order of 100 shares with books of this moment, 10.00 to 10.02 at both venues."""
    now = time.time_ns()
    books = {"bids": [[10 * NANO, 1000]], "asks": [[10 * NANO + NANO // 50, 1000]], "at": now}
    order = {"key": key, "symbol": "DEMO", "side": "buy", "quantity": 100, "deadline": now + 5 * NANO}
    return order | {"quotes": [{"venue": name} | books for name in ("A", "B")]} | more


class Client:
    """Requests to an application without a socket."""

    def __init__(self, app: Starlette, runner: asyncio.Runner) -> None:
        self.runner = runner
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://service")

    def ask(self, method: str, path: str, scope: str = "trade", **more: Any) -> httpx.Response:
        """Ask with the token of a scope; with none if it is empty."""
        headers = {"Authorization": f"Bearer {TOKENS[scope]}"} if scope else {}
        return self.runner.run(self.http.request(method, path, headers=headers | more.pop("headers", {}), **more))

    def post(self, path: str, scope: str = "trade", **more: Any) -> httpx.Response:
        return self.ask("POST", path, scope, **more)

    def get(self, path: str, scope: str = "read") -> httpx.Response:
        return self.ask("GET", path, scope)

    def settled(self, key: str) -> dict[str, Any]:
        """Wait until an order is settled."""
        for _ in range(1000):
            found: dict[str, Any] = self.get(f"/orders/{key}").json()
            if found["status"] == "settled":
                return found
            time.sleep(0.01)
        raise AssertionError(found)


class Running:
    """A service that runs, and a client of it."""

    def __init__(self, service: Service, client: Client, store: MemoryStore | None) -> None:
        self.service, self.client, self.store = service, client, store

    @property
    def rows(self) -> int:
        return self.service.log.head().seq


@contextmanager
def served(service: Service) -> Iterator[Client]:
    """The service, asked as over HTTP."""
    app = make_app(service)
    with asyncio.Runner() as runner:
        life = app.router.lifespan_context(app)
        runner.run(life.__aenter__())
        client = Client(app, runner)
        try:
            yield client
        finally:
            runner.run(client.http.aclose())
            runner.run(life.__aexit__(None, None, None))


@contextmanager
def running(config: LiveConfig, store: MemoryStore | None = None) -> Iterator[Running]:
    """Run a service: with a log in memory if a store is given, and with that of its configuration otherwise."""
    service = Service(config, log=None if store is None else MemoryLog(store))
    with served(service) as client:
        yield Running(service, client, store)
