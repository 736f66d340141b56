"""A demonstration of crash safety: a live router on simulated venues, killed and restarted while it trades.

Clients repeat unanswered orders with the same key; at the end, the log is compared with the venues.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from riskroute.core.errors import InputError, StateError
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable
from riskroute.live.log.interface import log_events_after
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import AcceptedEvent, IntendedEvent, ReportedEvent, SettledEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.tokens import new_token, token_hash

_TIMEOUT = 60.0  # seconds for an answer, a start, or settling


@dataclass
class _Client:
    """A client that repeats every order until the service answers."""

    port: int
    token: str
    todo: queue.SimpleQueue[int]
    on_answer: Callable[[], None]
    answered: list[str] = field(default_factory=list)
    repeated: int = 0
    failed: str = ""

    def run(self) -> None:
        try:
            while True:
                self._send(self.todo.get_nowait())
                time.sleep(0.03)
        except queue.Empty:
            return
        except Exception as error:  # raised again by the main thread
            self.failed = f"{type(error).__name__}: {error}"

    def _send(self, number: int) -> None:
        order = _order(number, time.time_ns())
        until, failed_before, body = time.monotonic() + _TIMEOUT, False, "nothing"
        while time.monotonic() < until:
            try:
                status, body = _request(self.port, "POST", "/orders", self.token, order)
            except (OSError, http.client.HTTPException):
                self.repeated += not failed_before
                failed_before = True
                time.sleep(0.1)
                continue
            if status == 200:
                self.answered.append(order["key"])
                self.on_answer()
                return
            if status == 422:  # its quotes or its deadline are out of date
                order = _order(number, time.time_ns())
            elif status != 503 or "halted" in body["error"]:
                raise StateError(f"the service refused an order of the demo with status {status}: {body}")
            time.sleep(0.05)
        raise StateError(f"the service did not accept an order within {_TIMEOUT:g} s; its last answer was {body}")


def _order(number: int, now: int) -> dict[str, Any]:
    """Return the JSON of an order on books around a moving mid; everything but its times follows from ``number``."""
    rng = np.random.default_rng(seed_stream(0, "live demo", number))
    symbol, base = (("DEMO", 5000), ("OTHER", 2500))[number % 2]
    mid = base + round(6 * float(np.sin(number / 80)))
    quotes = []
    for venue in ("NYSE", "NASDAQ", "BATS"):
        half = int(rng.integers(1, 3))
        sizes = rng.integers(1, 8, size=(2, 3)) * 100
        sides = {
            name: [[(mid + sign * (half + k)) / 100, int(sizes[s, k])] for k in range(3)]
            for s, (name, sign) in enumerate((("bids", -1), ("asks", 1)))
        }
        quotes.append({"venue": venue, "at": now, **sides})
    return {
        "key": f"demo-{number:04d}",
        "symbol": symbol,
        "side": "buy" if rng.random() < 0.5 else "sell",
        "quantity": int(rng.integers(1, 10)) * 100,
        "deadline": now + 3 * NANO,
        "quotes": quotes,
    }


def _request(port: int, method: str, path: str, token: str = "", body: Any = None) -> tuple[int, Any]:
    """Send a request; return status and body."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        line.request(method, path, None if body is None else json.dumps(body), headers)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        line.close()


_FAULTS = "partial = 0.2, duplicate = 0.05, disorder = 0.05, silence = 0.01"  # faults of every venue and pool
_CONFIG = """\
# Written by riskroute live demo.
listen = "127.0.0.1:{port}"
halt_file = "HALT"
patience_seconds = 1.0
log = {{ path = "live.sqlite" }}
router = {{ name = "{router}" }}
limits = {{ quote_seconds = 10.0, unknown = 1000 }}  # after a kill, all resting children are unknown for a moment
instruments = {{ DEMO = {{ protection = "reg-nms" }}, OTHER = {{ protection = "reg-nms" }} }}

[venues]
NYSE = {{ taker = "0.0030 per share", maker = "-0.0020 per share", {faults} }}
NASDAQ = {{ taker = "0.0030 per share", maker = "-0.0015 per share", {faults} }}
BATS = {{ taker = "-0.0002 per share", maker = "0.0004 per share", {faults} }}

[pools]
DARK = {{ fee = "0.0010 per share", hidden = 250, {faults} }}
MIDPOINT = {{ fee = "0.0005 per share", hidden = 60, {faults} }}

[tokens]
"""


@dataclass
class DemoResult:
    """Counts of the clients, the log and the venues after a kill and a restart.

    Each has a label, a value, and an expected value, which is None if any value is right.
    """

    checks: list[tuple[str, Any, Any]]

    @property
    def nothing_lost(self) -> bool:
        """Whether every count has its expected value: nothing was lost, and nothing was booked twice."""
        return all(expected in (None, found) for _, found, expected in self.checks)

    @property
    def table(self) -> TextTable:
        """The counts beside their expected values."""

        def cell(value: Any) -> str:
            if isinstance(value, dict):
                return ", ".join(f"{symbol} {shares:+,}" for symbol, shares in sorted(value.items()))
            return "" if value is None else f"{value:,}"

        rows = [[label, cell(found), cell(expected)] for label, found, expected in self.checks]
        return TextTable(["after kill -9 and restart", "found", "expected"], rows)


class Demo:
    """A live router in a new or empty folder, on simulated venues.

    It listens on ``port``; default: 8470 if that is free, otherwise any.
    """

    def __init__(self, folder: Path, orders: int = 500, *, router: str = "contextual", port: int | None = None) -> None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"out must be a new or empty folder, was {str(folder)!r}")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.orders = folder, orders
        self.port = _free_port(port)
        self.tokens = {name: new_token() for name in ("desk", "risk", "screen")}
        text = _CONFIG.format(port=self.port, router=router, faults=_FAULTS)
        for (name, token), scope in zip(self.tokens.items(), ("trade", "halt", "read"), strict=True):
            text += f'{name} = {{ hash = "{token_hash(token)}", scopes = ["{scope}"] }}\n'
        self.config = folder / "live.toml"
        self.config.write_text(text, encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Address of the dashboard."""
        return f"http://127.0.0.1:{self.port}/"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the service, and stop it at the end."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        """Start the service and wait until it takes orders."""
        words = [sys.executable, "-m", "riskroute", "live", "serve", str(self.config)]
        with (self.folder / "service.txt").open("ab") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        until = time.monotonic() + _TIMEOUT
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise StateError(f"the service ended before it was ready; see {self.folder / 'service.txt'}")
            try:
                status, said = _request(self.port, "GET", "/state", self.tokens["screen"])
                if status == 401:
                    raise StateError(f"another service listens on port {self.port}")
                if status == 200 and said["status"] in ("ready", "halted"):
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        raise StateError(f"the service was not ready within {_TIMEOUT:g} s")

    def kill(self) -> None:
        """Kill the service as `kill -9` does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Terminate the service, and kill it if it does not stop."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.kill()

    def trade(self, say: Callable[[str], None], on_answer: Callable[[], None]) -> DemoResult:
        """Send all orders, kill the service half-way, restart it, and compare the log with the venues."""
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(self.orders):
            todo.put(number)
        count, half = threading.Semaphore(0), max(self.orders // 2, 1)

        def on_client_answer() -> None:
            count.release()
            on_answer()

        clients = [_Client(self.port, self.tokens["desk"], todo, on_client_answer) for _ in range(min(4, self.orders))]
        threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for _ in range(half):
            if not count.acquire(timeout=_TIMEOUT):
                self._check(clients)
                raise StateError(f"the service answered no order within {_TIMEOUT:g} s")
        self.kill()
        began = time.monotonic()
        say(f"killed the service (kill -9) after {half:,} answers")
        self.start()
        say(f"restarted it: {time.monotonic() - began:.1f} s to recover, query the venues and accept orders")
        for thread in threads:
            thread.join()
        self._check(clients)
        events = self._settle()
        keys = [key for client in clients for key in client.answered]
        return self._compare(keys, sum(client.repeated for client in clients), events)

    @staticmethod
    def _check(clients: list[_Client]) -> None:
        for client in clients:
            if client.failed:
                raise StateError(client.failed)

    def _settle(self) -> int:
        """Wait until all orders are settled; return the number of events so far."""
        until = time.monotonic() + _TIMEOUT
        while time.monotonic() < until:
            state = _request(self.port, "GET", "/state", self.tokens["screen"])[1]
            if state["unsettled"] == state["waiting"] == 0:
                return int(state["events"])
            time.sleep(0.1)
        raise StateError(f"some orders were not settled within {_TIMEOUT:g} s")

    def _compare(self, keys: list[str], repeated: int, events: int) -> DemoResult:
        """Compare the log, once it has ``events`` events, with the journals of the venues."""
        accepted: list[str] = []
        settled: list[str] = []
        intended: set[str] = set()
        booked: set[tuple[str, str]] = set()
        with SqliteLog(self.folder / "live.sqlite", create=False) as log:
            until = time.monotonic() + _TIMEOUT
            while sum(1 for _ in log_events_after(log)) < events and time.monotonic() < until:
                time.sleep(0.01)  # the log gets the last events a few milliseconds after the state
            for _, event in log_events_after(log):
                if isinstance(event, AcceptedEvent | IntendedEvent):
                    intended.update(child.id for child in event.children)
                if isinstance(event, AcceptedEvent):
                    accepted.append(event.order.key)
                elif isinstance(event, SettledEvent):
                    settled.append(event.outcome.parent)
                elif isinstance(event, ReportedEvent) and event.report.kind == "filled":
                    booked.add((event.report.venue, event.report.exec_id))
        children, reports = self._journals()
        held: dict[str, int] = {}
        for report in reports.values():
            symbol, sign = children[report.child]
            held[symbol] = held.get(symbol, 0) + sign * report.quantity
        positions = _request(self.port, "GET", "/positions", self.tokens["screen"])[1]
        return DemoResult(
            [
                ("orders sent", self.orders, None),
                ("orders answered", len(set(keys)), self.orders),
                ("repeated after the kill", repeated, None),
                ("decisions in the log", len(accepted), len(set(keys))),
                ("answered, but not in the log", len(set(keys) - set(accepted)), 0),
                ("orders settled and learned", len(settled), len(accepted)),
                ("children at the venues", len(children), None),
                ("unknown to the log", len(set(children) - intended), 0),
                ("fills booked", len(booked), len(reports)),
                ("positions", {name: one["quantity"] for name, one in positions.items()}, held),
            ]
        )

    def _journals(self) -> tuple[dict[str, tuple[str, int]], dict[tuple[str, str], ExecutionReport]]:
        """Return symbol and sign of the children in the venues' journals, and their fills."""
        children: dict[str, tuple[str, int]] = {}
        fills: dict[tuple[str, str], ExecutionReport] = {}
        for path in sorted(self.folder.glob("live.sqlite-venue-*.jsonl")):
            for line in path.read_bytes().splitlines():
                try:
                    found = msgspec.json.decode(line)
                except msgspec.MsgspecError:
                    continue  # truncated by the kill
                if (child := found.get("child")) is not None:  # the first line of a child
                    children[child["id"]] = child["symbol"], 1 if child["side"] == "buy" else -1
                if (report := found.get("report")) is not None and report["kind"] == "filled":
                    fill = msgspec.convert(report, ExecutionReport)
                    fills[fill.venue, fill.exec_id] = fill
        return children, fills


def _free_port(asked: int | None) -> int:
    """Return the requested port; by default 8470 if it is free, otherwise any."""
    for port in (asked,) if asked else (8470, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as server:
                return int(server.getsockname()[1])
        except OSError as error:
            if asked:
                raise InputError(f"port must be free, was {port}: {os.strerror(error.errno or 0)}") from None
    raise StateError("no port of this machine is free")
