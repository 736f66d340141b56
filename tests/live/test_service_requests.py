"""Requests to the real command over a socket: well-formed, mangled, in pieces, many at once, and while it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from live_logs import ENVIRONMENT
from live_services import LONGEST, TOKENS, ServiceProcess, order_json, write_config


def request(body: bytes, *headers: bytes, line: bytes = b"POST /orders HTTP/1.1", token: str = "trade") -> bytes:
    """A request as clients send it; ``headers`` come between the others."""
    first = [line, b"Host: desk", b"Authorization: Bearer " + TOKENS[token].encode()]
    return b"\r\n".join([*first, *headers, b"Content-Length: %d" % len(body), b"", body])


@contextmanager
def up(folder: Path) -> Iterator[ServiceProcess]:
    """A service that runs."""
    folder.mkdir(exist_ok=True)
    config = write_config(folder)
    service = ServiceProcess(config, before=["setsid"])
    try:
        service.said("live on")
        service.waited(order_json("first"))
        yield service
    finally:
        service.end()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with up(tmp_path_factory.mktemp("service")) as made:
        yield made


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


class Line:
    """A connection to the service."""

    def __init__(self, service: ServiceProcess) -> None:
        host, _, port = service.listen.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=LONGEST)
        self.port = self.socket.getsockname()[1]
        self._read = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[bytes, bytes]:
        """Head and body of the next answer that is due."""
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, body = self._read.partition(b"\r\n\r\n")
        length = int(re.findall(rb"content-length: (\d+)", head)[0])
        while len(body) < length:
            self._more()
            body = self._read.partition(b"\r\n\r\n")[2]
        self._read = body[length:]
        return re.sub(rb"\r\ndate: [^\r]+GMT", b"", head), body[:length]

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        assert data, "closed"
        self._read += data

    def rest(self) -> bytes:
        """Everything until the service closes the connection."""
        read = b""
        with suppress(ConnectionError):
            while data := self.socket.recv(1 << 16):
                read += data
        return read

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def line(service: ServiceProcess) -> Iterator[Line]:
    made = Line(service)
    yield made
    made.close()


def plain(key: str, **more: Any) -> bytes:
    """A plain order."""
    return request(json.dumps(order_json(key, **more)).encode())


READ = {"Authorization": f"Bearer {TOKENS['read']}"}
GET = b"GET /health HTTP/1.1\r\nHost: desk\r\n\r\n"


def test_simultaneous_requests_are_answered_in_sequence(line: Line) -> None:
    line.send(plain("one") + plain("two") + GET + plain("three") + b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    bodies = [json.loads(line.answer()[1]) for _ in range(5)]
    assert [body.get("parent") for body in bodies] == ["one", "two", None, "three", None]
    assert bodies[2] == {"status": "ready"}
    assert bodies[4] == {"error": "unknown path"}


NOW = order_json("refused")
ORDERS = {
    "not JSON": b"{",
    "empty": b"",
    "no key": b'{"symbol": "DEMO"}',
    "unknown field": json.dumps(NOW | {"x": 1}).encode(),
    "unknown symbol": json.dumps(NOW | {"symbol": "NONE"}).encode(),
    "no shares": json.dumps(NOW | {"quantity": 0}).encode(),
    "too many shares": json.dumps(NOW | {"quantity": 10**8}).encode(),
    "a number that is too large": json.dumps(NOW | {"quantity": 10**30}).encode(),
    "no quotes": json.dumps(NOW | {"quotes": [], "symbol": "OTHER"}).encode(),
    "unknown venue": json.dumps(NOW | {"quotes": [NOW["quotes"][0] | {"venue": "Z"}]}).encode(),
    "an old deadline": json.dumps(NOW | {"deadline": 1}).encode(),
    "the key of another order": json.dumps(NOW | {"key": "first", "quantity": 7}).encode(),
    "a long order": json.dumps(NOW | {"features": {f"{number:0900}": 0.5 for number in range(200)}}).encode(),
}
CHUNKED = b"POST /orders HTTP/1.1\r\nAuthorization: Bearer %b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
BAD = {name: request(body) for name, body in ORDERS.items()} | {
    "no token": request(b"{}").replace(b"Authorization", b"X-Authorization"),
    "another token": request(b"{}").replace(TOKENS["trade"].encode(), b"a-guess"),
    "a token that may only look": request(b"{}", token="read"),
    "too long": request(b"{}").replace(b"Content-Length: 2", b"Content-Length: 10000000"),
    "not HTTP": b"\0\1\2\r\n\r\n",
    "closing": request(b"{}", b"Connection: close"),
    "HTTP/1.0": request(b"{}", line=b"POST /orders HTTP/1.0"),
    "chunked": request(b"", b"Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    + b"2\r\n{}\r\n0\r\n\r\n",
    "two lengths": request(b"{}", b"Content-Length: 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_orders_are_refused(service: ServiceProcess, name: str) -> None:
    line = Line(service)
    line.send(BAD[name])
    assert re.match(rb"HTTP/1.1 4\d\d ", line.answer()[0])
    line.close()


NEW = json.dumps(order_json("unusual")).encode()
PLAIN = request(NEW)
MANGLED = {
    "folded": request(NEW, b"X-A: 1\r\n 2"),
    "another length": request(NEW, b"Content-Length: 3"),
    "lengths in a list": PLAIN.replace(b"Content-Length: ", b"Content-Length: 3, "),
    "a length with a sign": PLAIN.replace(b"Content-Length: ", b"Content-Length: +"),
    "a length in hexadecimal": PLAIN.replace(b"Content-Length: ", b"Content-Length: 0x"),
    "no length": PLAIN.partition(b"Content-Length")[0] + b"X: y\r\n\r\n" + NEW,
    "chunked and a length": request(NEW, b"Transfer-Encoding: chunked"),
    "a bare carriage return": PLAIN.replace(b"Host: desk\r\n", b"Host: desk\r"),
    "another path": request(NEW, line=b"POST /orders/ HTTP/1.1"),
    "small letters": request(NEW, line=b"post /orders HTTP/1.1"),
    "another method": request(NEW, line=b"PUT /orders HTTP/1.1"),
    "no name": request(NEW, b": 1"),
    "a zero byte": request(NEW, b"X-A: \0"),
    "another scheme": PLAIN.replace(b"Bearer", b"Basic"),
    "a field twice": request(NEW[:-1] + b', "key": "two"}'),
    "noise": bytes(range(256)),
}


@pytest.mark.parametrize("name", MANGLED)
def test_a_malformed_request_places_no_order(service: ServiceProcess, name: str) -> None:
    """Whoever reads the request differently, such as a proxy, must not find another order in it."""
    line = Line(service)
    line.send(MANGLED[name])
    line.socket.shutdown(socket.SHUT_WR)
    read = line.rest()
    line.close()
    assert not re.search(rb"HTTP/1.1 [235]", read), read
    assert b"text/plain" not in read
    assert not read or set(json.loads(read.rpartition(b"\r\n\r\n")[2])) == {"error"}
    assert service.http.get("/orders/unusual").status_code in (403, 404)
    assert service.http.get("/health").json() == {"status": "ready"}


@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_order_in_pieces_is_one_order(service: ServiceProcess, size: int) -> None:
    line, data = Line(service), plain(f"in pieces of {size}")
    for begin in range(0, len(data), size):
        line.send(data[begin : begin + size])
    assert json.loads(line.answer()[1])["parent"] == f"in pieces of {size}"
    line.send(data)
    assert json.loads(line.answer()[1])["parent"] == f"in pieces of {size}"
    line.close()


def test_many_orders_of_one_client_are_answered_in_sequence(service: ServiceProcess) -> None:
    """More than the service reads ahead: it must stop reading, and start again."""
    line, keys = Line(service), [f"pipelined {number}" for number in range(300)]
    line.send(b"".join(plain(key) for key in keys))
    assert [json.loads(line.answer()[1])["parent"] for _ in keys] == keys
    line.close()


def test_a_client_that_leaves_before_its_answer_has_placed_its_order(service: ServiceProcess) -> None:
    line, sent = Line(service), plain("left")
    line.send(sent)
    line.close()
    eventually(lambda: service.http.get("/orders/left", headers=READ).status_code == 200)


def test_a_connection_that_stays_silent_after_an_answer_is_closed(service: ServiceProcess) -> None:
    line, began = Line(service), time.monotonic()
    line.send(GET)
    line.answer()
    assert line.socket.recv(10) == b""
    assert time.monotonic() - began > 3
    line.close()


def test_events_halt_and_page_work_on_a_connection_used_for_orders(service: ServiceProcess, line: Line) -> None:
    line.send(plain("before the events"))
    line.answer()
    line.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"text/html" in line.answer()[0]
    line.send(b"GET /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKENS["read"].encode() + b"\r\n\r\n")

    def heard(word: bytes) -> None:
        while word not in line._read:
            line._more()

    heard(b'"status":"ready"')
    with httpx.Client(base_url=f"http://{service.listen}", timeout=LONGEST) as http:
        trade, halt = ({"Authorization": f"Bearer {TOKENS[name]}"} for name in ("trade", "halt"))
        assert http.post("/orders", json=order_json("d"), headers=trade).status_code == 200
        assert http.post("/halt", json={"reason": "a test"}, headers=halt).json() == {"halted": "a test"}
        heard(b'"status":"halted"')
        answer = http.post("/orders", json=order_json("e"), headers=trade)
        assert (answer.status_code, answer.json()) == (503, {"error": "trading is halted: a test"})
        assert http.post("/resume", headers=trade).json() == {"halted": ""}
        assert http.post("/orders", json=order_json("e"), headers=trade).status_code == 200


def test_an_address_in_use_is_refused(service: ServiceProcess, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "riskroute",
        "live",
        "serve",
        str(write_config(tmp_path)),
        "--listen",
        service.listen,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT) as one:
        said = one.communicate(timeout=LONGEST)[0]
    assert one.returncode == 2
    assert f"cannot listen on {service.listen}: another program may be using it" in said


def test_orders_in_flight_are_answered_before_the_service_stops(tmp_path: Path) -> None:
    with up(tmp_path) as service:
        lines, held = [Line(service) for _ in range(40)], plain("half")
        idle, half = Line(service), Line(service)
        for line in (*lines, idle, half):
            line.send(GET)
        for line in (*lines, idle, half):  # the service has accepted all connections
            line.answer()
        half.send(held[:-5])
        os.kill(service.process.pid, signal.SIGSTOP)
        for number, line in enumerate(lines):
            line.send(plain(f"late {number}"))
        os.killpg(service.process.pid, signal.SIGTERM)  # as Ctrl-C does, for all of them
        os.kill(service.process.pid, signal.SIGCONT)
        half.send(held[-5:])
        for number, line in enumerate(lines):
            head, body = line.answer()
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert json.loads(body)["parent"] == f"late {number}"
        assert idle.socket.recv(10) == b""
        assert half.answer()[0].startswith(b"HTTP/1.1 ")
        for line in (*lines, idle, half):
            line.close()
        assert service.process.wait(LONGEST) == 0
        assert service.said("stopped: 42 orders")


def test_a_second_stop_signal_stops_at_once(tmp_path: Path) -> None:
    with up(tmp_path) as service:
        stuck, stream = Line(service), Line(service)
        stream.send(b"GET /events HTTP/1.1\r\nAuthorization: Bearer " + TOKENS["read"].encode() + b"\r\n\r\n")
        stream._more()
        stuck.send(plain("stuck")[:-5])
        os.killpg(service.process.pid, signal.SIGINT)
        stream.rest()  # until the service has seen the signal
        os.killpg(service.process.pid, signal.SIGINT)
        assert service.process.wait(LONGEST) == 0
        stuck.close()
        stream.close()
