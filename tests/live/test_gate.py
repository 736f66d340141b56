"""The real command with its gate: orders, everything else, and every way in which either of the two may end."""

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

from gates import request
from live_services import TOKENS, order_json
from log_writer import ENVIRONMENT
from riskroute.live.gate_process import gate_possible
from service_processes import ServiceProcess, write_config

pytestmark = pytest.mark.skipif(not gate_possible(), reason="a gate needs Linux")


@contextmanager
def up(folder: Path, *, gate: bool = True) -> Iterator[ServiceProcess]:
    """A service that runs."""
    folder.mkdir(exist_ok=True)
    config = write_config(folder)
    if not gate:
        config.write_text("gate = false\n" + config.read_text())
    service = ServiceProcess(config, before=["setsid"])
    try:
        service.said("live on")
        service.waited(order_json("first"))
        yield service
    finally:
        service.end()


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with up(tmp_path_factory.mktemp("gated")) as service:
        yield service


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with up(tmp_path_factory.mktemp("bare"), gate=False) as service:
        yield service


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


def gate_of(service: ServiceProcess) -> int:
    """The process of the gate."""
    return children(service.process.pid)[0]


def within(seconds: float, holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Line:
    """A connection to the service."""

    def __init__(self, service: ServiceProcess) -> None:
        host, _, port = service.listen.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
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

    def holders(self, *pids: int) -> list[int]:
        """Which of some processes have the other end of this connection."""
        port = f":{self.port:04X}"
        table = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        [inode] = [row[9] for row in table if row[2].endswith(port)]
        return [pid for pid in pids if f"socket:[{inode}]" in _files(pid)]

    def close(self) -> None:
        self.socket.close()


def _files(pid: int) -> set[str]:
    return {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}


@pytest.fixture
def line(gated: ServiceProcess) -> Iterator[Line]:
    made = Line(gated)
    yield made
    made.close()


def plain(key: str, **more: Any) -> bytes:
    """A plain order."""
    return request(json.dumps(order_json(key, **more)).encode())


GET = b"GET /health HTTP/1.1\r\nHost: desk\r\n\r\n"


def test_the_gate_has_the_connections_of_plain_orders_and_the_service_the_others(
    gated: ServiceProcess, line: Line
) -> None:
    both = gated.process.pid, gate_of(gated)
    requests = {key: plain(key) for key in "ab"}
    for key in "aba":
        line.send(requests[key])
        head, body = line.answer()
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert json.loads(body)["parent"] == key
    assert line.holders(*both) == [both[1]]
    line.send(GET)
    assert line.answer()[1] == b'{"status":"ready"}'
    within(5, lambda: line.holders(*both) == [both[0]])
    line.send(plain("c"))
    assert json.loads(line.answer()[1])["parent"] == "c"


def test_requests_that_come_at_once_are_answered_in_sequence(line: Line) -> None:
    line.send(plain("one") + plain("two") + GET + plain("three") + b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    bodies = [json.loads(line.answer()[1]) for _ in range(5)]
    assert [body.get("parent") for body in bodies] == ["one", "two", None, "three", None]
    assert bodies[2] == {"status": "ready"}
    assert bodies[4] == {"error": "there is nothing at this address"}


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
def test_bad_orders_are_refused_alike_with_and_without_a_gate(
    gated: ServiceProcess, bare: ServiceProcess, name: str
) -> None:
    answers = []
    for service in (gated, bare):
        line = Line(service)
        line.send(BAD[name])
        answers.append(line.answer())
        line.close()
    assert answers[0] == answers[1]
    assert re.match(rb"HTTP/1.1 4\d\d ", answers[0][0])


def test_events_halt_and_page_come_over_a_connection_that_had_orders(gated: ServiceProcess, line: Line) -> None:
    line.send(plain("before the events"))
    line.answer()
    line.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"text/html" in line.answer()[0]
    line.send(b"GET /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKENS["read"].encode() + b"\r\n\r\n")

    def heard(word: bytes) -> None:
        while word not in line._read:
            line._more()

    heard(b'"status":"ready"')
    with httpx.Client(base_url=f"http://{gated.listen}", timeout=30) as http:
        trade, halt = ({"Authorization": f"Bearer {TOKENS[name]}"} for name in ("trade", "halt"))
        assert http.post("/orders", json=order_json("d"), headers=trade).status_code == 200
        assert http.post("/halt", json={"reason": "a test"}, headers=halt).json() == {"halted": "a test"}
        heard(b'"status":"halted"')
        answer = http.post("/orders", json=order_json("e"), headers=trade)
        assert (answer.status_code, answer.json()) == (503, {"error": "trading is halted: a test"})
        assert http.post("/resume", headers=trade).json() == {"halted": ""}
        assert http.post("/orders", json=order_json("e"), headers=trade).status_code == 200


def test_another_gate_serves_when_one_is_killed(gated: ServiceProcess, line: Line) -> None:
    sent = plain("over the old one")
    line.send(sent)
    line.answer()
    old = gate_of(gated)
    os.kill(old, signal.SIGTERM)  # those are for the service
    os.kill(old, signal.SIGINT)
    line.send(plain("still there"))
    line.answer()
    kept = Line(gated)
    kept.send(GET)
    kept.answer()
    os.kill(old, signal.SIGKILL)
    assert line.socket.recv(10) == b""
    new = Line(gated)
    new.send(sent)
    assert json.loads(new.answer()[1])["parent"] == "over the old one"
    assert gate_of(gated) != old
    kept.send(GET)  # the service has it, and nothing happened to it
    assert kept.answer()[1] == b'{"status":"ready"}'
    kept.close()
    new.close()


def test_an_address_that_is_taken_leaves_nothing_behind(gated: ServiceProcess, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "riskroute",
        "live",
        "serve",
        str(write_config(tmp_path)),
        "--listen",
        gated.listen,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT) as one:
        within(30, lambda: bool(children(one.pid)))
        gates = children(one.pid)
        said = one.communicate(timeout=60)[0]
    assert one.returncode == 2
    assert f"cannot listen on {gated.listen}: another program may do so" in said
    assert not any(map(runs, gates))


def test_orders_that_are_under_way_are_answered_before_the_service_stops(tmp_path: Path) -> None:
    with up(tmp_path) as service:
        gate = gate_of(service)
        lines = [Line(service) for _ in range(40)]
        idle, half = Line(service), Line(service)
        half.send(plain("half")[:-5])
        os.kill(service.process.pid, signal.SIGSTOP)
        for number, line in enumerate(lines):
            line.send(plain(f"late {number}"))
        time.sleep(0.3)
        os.killpg(service.process.pid, signal.SIGTERM)  # as Ctrl-C does, for all of them
        os.kill(service.process.pid, signal.SIGCONT)
        for number, line in enumerate(lines):
            head, body = line.answer()
            assert head.endswith(b"connection: close")
            assert json.loads(body)["parent"] == f"late {number}"
        assert idle.socket.recv(10) == b""
        half.send(plain("half")[-5:])
        assert half.answer()[0].startswith(b"HTTP/1.1 ")
        for line in (*lines, idle, half):
            line.close()
        assert service.process.wait(20) == 0
        assert not runs(gate)
        assert service.said("stopped: 42 orders")


def test_a_service_that_is_told_twice_to_stop_waits_for_nobody_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with up(tmp_path) as service:
        gate, stuck, stream = gate_of(service), Line(service), Line(service)
        stream.send(b"GET /events HTTP/1.1\r\nAuthorization: Bearer " + TOKENS["read"].encode() + b"\r\n\r\n")
        stream._more()
        stuck.send(plain("stuck"))
        os.kill(gate, signal.SIGSTOP)
        os.killpg(service.process.pid, signal.SIGINT)
        time.sleep(0.2)
        os.killpg(service.process.pid, signal.SIGINT)
        assert service.process.wait(5) == 0
        assert not runs(gate)
        stuck.close()
        stream.close()


def test_the_gate_ends_with_a_service_that_is_killed_and_the_port_is_free(tmp_path: Path) -> None:
    with up(tmp_path) as service:
        gate = gate_of(service)
        line = Line(service)
        service.process.kill()
        began = time.monotonic()
        assert line.socket.recv(10) == b""
        within(1, lambda: not runs(gate))
        host, _, port = service.listen.partition(":")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((host, int(port)))
            other.listen()
        assert time.monotonic() - began < 1
        line.close()


def test_a_service_whose_gate_ends_again_and_again_stops(gated: ServiceProcess) -> None:
    while gated.process.poll() is None:
        with suppress(OSError, IndexError):  # one of the two has ended meanwhile
            os.kill(gate_of(gated), signal.SIGKILL)
        time.sleep(0.05)
    assert gated.process.returncode == 2
    assert gated.said("the gate ended 5 times within a minute; set gate = false to run without it")
