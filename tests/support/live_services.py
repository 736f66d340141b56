"""A live service for tests: in this process, or as the real command in a process that tests kill, stop and wake."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from live_logs import ENVIRONMENT, MemoryLog, MemoryStore
from riskroute.live.config import LiveConfig, live_config
from riskroute.live.http.api import make_api
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.tokens import token_hash

LONGEST = 300.0  # seconds that tests wait for what takes a moment, however busy the machine is
PATIENT = {"quote_seconds": 3600.0, "slow_write_seconds": 600.0, "clock_jump_seconds": 600.0}
"""Limits that no slow machine exceeds."""
TOKENS = {name: f"the-token-that-is-good-for-{name}" for name in ("trade", "halt", "read")}


def service_config(folder: Path, **more: Any) -> LiveConfig:
    """Two venues and a pool that answer at once; no limit and no patience depends on the speed of the machine."""
    quick = {"latency_ms": 0.0}
    given: dict[str, Any] = {
        "limits": PATIENT,
        "patience_seconds": LONGEST,
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
    books = {"bids": [[10.00, 1000]], "asks": [[10.02, 1000]], "at": now}
    order = {"key": key, "symbol": "DEMO", "side": "buy", "quantity": 100, "deadline": now + 600 * NANO}
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
        """Wait until an order that was accepted is settled."""
        until = time.monotonic() + LONGEST
        while True:
            answer = self.get(f"/orders/{key}")
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            if found["status"] == "settled":
                return found
            assert time.monotonic() < until, found
            time.sleep(0.01)


class Running:
    """A service that runs, and a client of it."""

    def __init__(self, service: Service, client: Client, store: MemoryStore | None) -> None:
        self.service, self.client, self.store = service, client, store

    @property
    def rows(self) -> int:
        """Rows of the log, once all orders are settled and all is written."""
        engine, until = self.service.engine, time.monotonic() + LONGEST
        while engine.state.unsettled:
            assert time.monotonic() < until, list(engine.state.unsettled)
            time.sleep(0.001)
        with engine.lock:
            last = engine.ledger.last
        if last is not None:
            last.exception(LONGEST)
        return self.service.log.head().seq


def wait_until_connected(service: Service) -> None:
    """Wait until every place is up and its account is compared: then nothing happens by itself for a minute."""
    engine, until = service.engine, time.monotonic() + LONGEST
    while not engine.failed and any(
        place in engine.state.down or place not in engine.reconciliation.checked for place in engine.places.gateways
    ):
        assert time.monotonic() < until, f"places are not connected: {engine.state.down}"
        time.sleep(0.001)
    if (last := engine.ledger.last) is not None:
        last.exception(LONGEST)


@contextmanager
def served(service: Service) -> Iterator[Client]:
    """The service, once all its places are connected, asked as over HTTP."""
    app = make_api(service)
    with asyncio.Runner() as runner:
        life = app.router.lifespan_context(app)
        runner.run(life.__aenter__())
        client = Client(app, runner)
        try:
            wait_until_connected(service)
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


HEADERS = {"Authorization": f"Bearer {TOKENS['trade']}"}


def write_config(folder: Path, **log: Any) -> Path:
    """A configuration with two venues and a pool that answer at once."""
    log = log or {"path": "live.sqlite"}
    lines = ['listen = "127.0.0.1:1"', f"patience_seconds = {LONGEST}", "[log]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in log.items()]
    lines += ["[limits]", "unknown = 100000", "venue_open = 100000", "day_loss = 1e9"]
    lines += [f"{name} = {value}" for name, value in PATIENT.items()]
    for name in ("DEMO", "OTHER", "THIRD"):
        lines.append(f"[instruments.{name}]")
    for name in ("venues.A", "venues.B", "pools.P"):
        lines += [f"[{name}]", "latency_ms = 0.0"]
    for name, token in TOKENS.items():
        lines += [f"[tokens.{name}]", f'hash = "{token_hash(token)}"', f'scopes = ["{name}"]']
    path = folder / "live.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


class KeptPort:
    """A free port, kept until `close` for servers that bind with SO_REUSEADDR: no other socket gets it meanwhile."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        self._socket.close()


class ServiceProcess:
    """One process of the service, and a client of it."""

    def __init__(self, config: Path, *words: str, before: Sequence[str] = ()) -> None:
        self.kept_port = KeptPort()
        self.listen = f"127.0.0.1:{self.kept_port.number}"
        command = [*before, sys.executable, "-m", "riskroute", "live", "serve", str(config), *words]
        self.process = subprocess.Popen(
            [*command, "--listen", self.listen],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=ENVIRONMENT,
            cwd=config.parent,
        )
        self.http = httpx.Client(base_url=f"http://{self.listen}", headers=HEADERS, timeout=LONGEST)

    def said(self, word: str) -> str:
        """Wait for a line with a word."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if word in line:
                return line
        raise AssertionError("".join(lines))

    def answered(self, order: dict[str, Any]) -> httpx.Response | None:
        """The answer to an order; None from a service that is not there."""
        try:
            return self.http.post("/orders", json=order)
        except httpx.TransportError:
            return None

    def waited(self, order: dict[str, Any]) -> httpx.Response:
        """The answer to an order as soon as the service is there and ready."""
        end = time.monotonic() + LONGEST
        while (answer := self.answered(order)) is None or answer.status_code == 503:
            assert time.monotonic() < end
            time.sleep(0.002)
        return answer

    def settled(self, key: str) -> None:
        """Wait until an order is settled."""
        end = time.monotonic() + LONGEST
        while self.http.get(f"/orders/{key}").json()["status"] != "settled":
            assert time.monotonic() < end
            time.sleep(0.005)

    def end(self) -> str:
        """Kill it if it still runs, and let go of everything; what it said."""
        self.http.close()
        self.kept_port.close()
        self.process.kill()
        return self.process.communicate()[0]


_CONFIG = f"""\
listen = "127.0.0.1:{{port}}"
patience_seconds = {LONGEST}
[log]
path = "live.sqlite"
[venues.A]
latency_ms = 0.0
taker = 0.003
[venues.B]
latency_ms = 0.0
taker = 0.003
[pools.P]
latency_ms = 0.0
fee = 0.001
[instruments.DEMO]
"""


class ServedRouter:
    """A service in a folder; its tokens are those of `live_services`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept_port = folder, KeptPort()
        self.port = self.kept_port.number
        text = _CONFIG.format(port=self.port) + "[limits]\n"
        text += "".join(f"{name} = {value}\n" for name, value in PATIENT.items())
        for name, token in TOKENS.items():
            text += f'[tokens.{name}]\nhash = "{token_hash(token)}"\nscopes = ["{name}"]\n'
        (folder / "live.toml").write_text(text)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [sys.executable, "-m", "riskroute", "live", "serve", "live.toml"]
        with (self.folder / "said.txt").open("ab") as said:
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=said, stderr=said)
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            assert self.process.poll() is None, (self.folder / "said.txt").read_text()
            try:
                if self.ask("GET", "/health", "")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.03)
        raise AssertionError("the service did not start")

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end(self) -> None:
        """Kill it if it still runs, and let go of its port."""
        self.kill()
        self.kept_port.close()

    def ask(self, method: str, path: str, scope: str = "trade", body: Any = None) -> tuple[int, Any]:
        """Ask with the token of a scope; with none if it is empty."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST)
        headers = {"Authorization": f"Bearer {TOKENS[scope]}"} if scope else {}
        try:
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            line.close()

    def order(self, key: str, **more: Any) -> int:
        """Send an order; returns the status of the answer."""
        return self.ask("POST", "/orders", body=order_json(key, **more))[0]
