"""The exchange of docs/own-venue.md, which speaks lines of JSON, under the control of a test."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

from riskroute.core.instrument import Instrument
from riskroute.live.state.amounts import NANO
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.gateway import Gateway, wire_id


class LineExchange:
    """A server on loopback; immediate orders trade at once at their limit."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.orders: dict[str, dict[str, Any]] = {}
        self.received: list[str] = []
        self.reports: dict[str, list[dict[str, Any]]] = {}
        self.count = 0
        self.muted = self.refusing = False
        self.held: list[bytes] | None = None  # reports to be sent in reverse
        self.last = b""
        self.said = self.heard = 0  # lines of the connection
        self.line: socket.socket | None = None
        self.port = 0
        self.open()

    def open(self) -> None:
        """Listen."""
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def cut(self) -> None:
        """Cut the connection, and take no new one."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            if self.line is not None:
                with suppress(OSError):  # it may be closed already
                    self.line.shutdown(socket.SHUT_RDWR)
                self.line = None

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.line, self.said, self.heard = line, 0, 0
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with suppress(OSError), line, line.makefile("rb") as lines:
            for data in lines:
                with self.lock:
                    if line is self.line:
                        self._hear(json.loads(data))
                        self.heard += 1

    def _hear(self, message: dict[str, Any]) -> None:
        name = message.get("id", "")
        order = self.orders.get(name)
        match message["do"]:
            case "new":
                self.received.append(name)
                if order is not None:
                    return  # a second order with the same id is refused for ever
                order = self.orders[name] = message | {"cum": 0, "leaves": message["units"], "end": ""}
                if self.refusing:
                    self.refusing = False
                    self._end(name, "rejected")
                    return
                self._report(name, "acknowledged")
                if not message["until"]:
                    self.fill(name, message["units"])
            case "cancel" if order is not None and order["leaves"]:
                self._end(name, "cancelled")
            case "query":
                if order is None:
                    self._say(self._made(name, "not_known", 0, 0))
                    return
                for one in list(self.reports[name]):
                    self._say(one)
                kind = order["end"] or "acknowledged"
                self._say(self._made(name, "cancelled" if kind == "filled" else kind, order["cum"], order["leaves"]))
            case "account":
                there = [
                    {"wire_id": name, "symbol": one["symbol"], "side": one["side"], "leaves": one["leaves"]}
                    for name, one in self.orders.items()
                    if one["leaves"]
                ]
                self._say({"at": time.time_ns(), "orders": there})

    def fill(self, name: str, units: int) -> None:
        """Trade a part of an order."""
        with self.lock:
            order = self.orders[name]
            order["cum"] += units
            order["leaves"] -= units
            if not order["leaves"]:
                order["end"] = "filled"
            self._report(name, "filled", quantity=units, price=order["price"])

    def _end(self, name: str, kind: str) -> None:
        self.orders[name] |= {"leaves": 0, "end": kind}
        self._report(name, kind)

    def _report(self, name: str, kind: str, **more: Any) -> None:
        order = self.orders[name]
        made = self._made(name, kind, order["cum"], order["leaves"], **more)
        self.reports.setdefault(name, []).append(made)
        self._say(made)

    def _made(self, name: str, kind: str, cum: int, leaves: int, **more: Any) -> dict[str, Any]:
        self.count += 1
        made = {"day": "20260102", "exec_id": str(self.count), "child": name, "kind": kind, "at": time.time_ns()}
        return made | {"cum": cum, "leaves": leaves} | more

    def _say(self, message: dict[str, Any]) -> None:
        self.last = json.dumps(message).encode() + b"\n"
        if self.muted:
            return
        if self.held is not None:
            self.held.append(self.last)
        else:
            self.send(self.last)

    def send(self, data: bytes) -> None:
        """Send a line, if there is a connection."""
        if self.line is not None:
            with suppress(OSError):
                self.line.sendall(data)
                self.said += 1


class _Counted:
    """A queue that counts what was put into it."""

    def __init__(self) -> None:
        self._queue, self.count = SimpleQueue[Any](), 0
        self.get = self._queue.get

    def put(self, item: Any) -> None:
        self._queue.put(item)
        self.count += item is not None


class LineBench:
    """A bench for `check_gateway`: the exchange, and gateways of a class whose lines are counted.

    Parameters
    ----------
    kind : Callable
        The class of the documentation.
    """

    place, symbol, quantity, limit = "OURS", "DEMO", 100, 10 * NANO

    def __init__(self, kind: Callable[..., Any]) -> None:
        self.kind, self.exchange = kind, LineExchange()
        self.deadline = time.time_ns() + 3600 * NANO
        self.current: Any = None

    def gateway(self) -> Gateway:
        options = {"host": "127.0.0.1", "port": self.exchange.port}
        setup = SimpleNamespace(place=self.place, options=options, instruments={self.symbol: Instrument()})
        made = self.current = self.kind(setup)
        made.lines, made.heard, made.before = _Counted(), 0, 0
        hear, up_of = made.hear, made.connect

        def counted(message: dict[str, Any]) -> None:
            hear(message)
            made.heard += 1

        def connect(sink: Any) -> None:
            up = sink.up

            def begun() -> None:
                made.heard, made.before = 0, made.lines.count  # the exchange counts anew too
                up()

            sink.up = begun
            up_of(sink)

        made.hear, made.connect = counted, connect
        return made  # type: ignore[no-any-return]  # the class of the documentation has no types

    def wait(self) -> None:
        exchange, made = self.exchange, self.current
        with exchange.lock:
            held, exchange.held = exchange.held, None
            for data in reversed(held or []):
                exchange.send(data)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with exchange.lock:
                if made.closed or not self._connected:
                    if made.closed or made.line is None:
                        return
                elif (
                    exchange.line is not None
                    and made.line is not None
                    and exchange.heard == made.lines.count - made.before
                    and made.heard == exchange.said
                ):
                    return
            time.sleep(0.001)
        raise TimeoutError("messages did not arrive")

    _connected = True

    def fill(self, child: ChildOrder, quantity: int) -> None:
        self.exchange.fill(wire_id(child.id), quantity)

    def refuse(self) -> None:
        self.exchange.refusing = True

    def mute(self, muted: bool) -> None:
        with self.exchange.lock:
            self.exchange.muted = muted

    def repeat(self) -> None:
        with self.exchange.lock:
            self.exchange.send(self.exchange.last)

    def reverse(self) -> None:
        self.exchange.held = []

    def cut(self) -> None:
        self._connected = False
        self.exchange.cut()

    def mend(self) -> None:
        self._connected = True
        self.exchange.open()

    def received(self) -> Sequence[str]:
        return self.exchange.received
