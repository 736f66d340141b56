"""The service among clients that misuse connections: too many, half-open, silent, or without reading the responses."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest

from live_services import LONGEST, TOKENS, ServiceProcess, order_json, write_config

FILES = 256  # descriptors of the service
LIMITED = ["bash", "-c", f'ulimit -n {FILES} && exec "$@"', "limited"]
READ, HALT = ({"Authorization": f"Bearer {TOKENS[name]}"} for name in ("read", "halt"))
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
EVENTS = b"GET /events?after=%%d HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n" % TOKENS["read"].encode()
HALTING = b"POST /halt HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nAuthorization: Bearer " + TOKENS["halt"].encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    made = ServiceProcess(write_config(tmp_path_factory.mktemp("service")), before=LIMITED)
    try:
        made.said("live on")
        made.waited(order_json("first"))
        yield made
    finally:
        made.http.close()
        made.process.terminate()
        said = made.process.communicate(timeout=LONGEST)[0]
        made.kept_port.close()
    assert "Traceback" not in said, said
    assert "stopped:" in said


def opened(service: ServiceProcess, receive: int = 0) -> socket.socket:
    """A connection, with a small buffer for what it receives if that is given."""
    host, _, port = service.listen.partition(":")
    line = socket.socket()
    if receive:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    line.settimeout(LONGEST)
    line.connect((host, int(port)))
    return line


def gauge(service: ServiceProcess, name: str) -> int:
    """A gauge, asked for on a connection of its own."""
    metrics = httpx.get(f"http://{service.listen}/metrics", headers=READ, timeout=LONGEST).text
    found = re.findall(rf"^riskroute_{name} (\d+)", metrics, flags=re.MULTILINE)
    return int(found[0])


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def closed_after(line: socket.socket) -> float:
    """Read until the service closes a connection; return how long that took."""
    began = time.monotonic()
    with suppress(ConnectionError):
        while line.recv(1 << 16):
            pass
    return time.monotonic() - began


@pytest.mark.parametrize("half", [b"", HALTING, HALTING + b"\r\n\r\n{", HEALTH[:9]])
def test_half_open_connections_do_not_keep_a_halt_out(service: ServiceProcess, half: bytes) -> None:
    """Twice as many as the service has descriptors."""
    with ExitStack() as stack:
        for _ in range(2 * FILES):
            line = stack.enter_context(closing(opened(service)))
            with suppress(ConnectionError):
                line.sendall(half)
        with httpx.Client(base_url=f"http://{service.listen}", timeout=LONGEST) as http:
            assert http.post("/halt", json={"reason": "a test"}, headers=HALT).json() == {"halted": "a test"}
        assert gauge(service, "connections") <= FILES // 2
        files = len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
        assert files < FILES - 50, "some are left for log, snapshots and venues"
    service.http.post("/resume")
    service.waited(order_json(f"after {half!r}"))
    assert service.process.poll() is None


def test_an_incomplete_request_is_closed(service: ServiceProcess) -> None:
    requests = [HEALTH[:9], HALTING, HALTING + b"\r\n\r\n{", HEALTH + HEALTH[:9], b"\r\n"]
    began = time.monotonic()
    lines = [opened(service) for _ in requests]
    for line, request in zip(lines, requests, strict=True):
        line.sendall(request)
    closed_after(lines[0])
    assert time.monotonic() - began > 3
    for line in lines:
        closed_after(line)
        line.close()


def test_a_request_that_comes_byte_by_byte_is_closed_before_it_is_complete(service: ServiceProcess) -> None:
    until = time.monotonic() + LONGEST
    with closing(opened(service)) as line, suppress(ConnectionError):
        line.sendall(HEALTH[:-2] + b"X-A: ")
        while time.monotonic() < until:
            line.sendall(b"b")
            time.sleep(0.3)
        pytest.fail("the service reads on and on")


@pytest.mark.parametrize(
    "request_begin",
    [
        b"GET /" + b"a" * (1 << 20),
        b"GET /health HTTP/1.1\r\n" + b"X-A: b\r\n" * (1 << 17),
        b"POST /halt HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (1 << 22),
    ],
)
def test_a_request_without_end_is_closed(service: ServiceProcess, request_begin: bytes) -> None:
    for _ in range(10):  # where others use the machine too
        with closing(opened(service)) as line:
            with suppress(ConnectionError):
                line.sendall(request_begin)
            if closed_after(line) < 3:
                return
    pytest.fail("it should be closed long before a silent one")


def test_a_client_that_does_not_read_its_responses_is_closed(service: ServiceProcess) -> None:
    before = gauge(service, "connections")
    with closing(opened(service, 4096)) as line:
        line.settimeout(1)
        with suppress(TimeoutError):  # the service stops reading too
            while True:
                line.sendall(b"GET /static/panels.js HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        eventually(lambda: gauge(service, "connections") <= before)


def test_an_event_stream_whose_client_does_not_read_is_closed(service: ServiceProcess) -> None:
    bids, asks = ([[round(10 + side * number / 10**9, 9), 1000] for number in range(1, 101)] for side in (-1, 1))
    for _ in range(1_000):
        books = [{"venue": venue, "at": time.time_ns(), "bids": bids, "asks": asks} for venue in "AB"]
        assert service.http.post("/quotes", json={"symbol": "OTHER", "quotes": books}).status_code == 200
    with closing(opened(service, 4096)) as stuck, closing(opened(service)) as reading:
        for line in (stuck, reading):
            line.sendall(EVENTS % 0)
        assert stuck.recv(16) == b"HTTP/1.1 200 OK\r"
        read = 0
        while read < 6_000_000:  # what is sent is more than the system keeps for the other one
            some = reading.recv(1 << 20)
            assert some
            read += len(some)
        eventually(lambda: gauge(service, "event_streams") == 1)
    eventually(lambda: gauge(service, "event_streams") == 0)


def test_event_streams_have_a_limit_and_read_the_log_from_any_row(service: ServiceProcess) -> None:
    most = FILES // 4
    with ExitStack() as stack:
        for number in range(most):
            line = stack.enter_context(closing(opened(service)))
            line.sendall(EVENTS % (number % 2))
            read = line.recv(1 << 16)
            assert read.startswith(b"HTTP/1.1 200 ")
            while b"\nid: " not in read:
                read += line.recv(1 << 16)
            assert re.search(rb"\nid: (\d+)", read)[1] == b"%d" % (number % 2 + 1)  # type: ignore[index]  # it is there
        refused = service.http.get("/events", headers=READ)
        assert refused.status_code == 503
        assert refused.json()["error"].startswith(f"at most {most} event streams may be open")
        assert gauge(service, "event_streams") == most
        assert gauge(service, "connections") > most
    eventually(lambda: gauge(service, "event_streams") == 0)


def test_clients_that_leave_at_any_time_leave_no_traceback(service: ServiceProcess) -> None:
    """The fixture looks at everything that the service has printed."""
    body = json.dumps(order_json("left halfway")).encode()
    order = b"POST /orders HTTP/1.1\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
    whole = order % (TOKENS["trade"].encode(), len(body), body)
    events = EVENTS % 0
    for request in (whole, events, HEALTH, HALTING + b"\r\n\r\n{", whole + events, events + whole):
        for part in (1, 2):
            for reset in (False, True):
                line = opened(service)
                line.sendall(request[: len(request) // part])
                if part == 1:
                    time.sleep(0.3)
                if reset:
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                line.close()
    assert service.http.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/orders", {"POST"}),
        ("POST", "/orders/one", {"GET", "HEAD"}),
        ("GET", "/halt", {"POST"}),
        ("PATCH", "/", {"GET", "HEAD"}),
    ],
)
def test_a_refused_method_comes_with_the_allowed_ones(
    service: ServiceProcess, method: str, path: str, allowed: set[str]
) -> None:
    answer = service.http.request(method, path)
    assert answer.status_code == 405
    assert answer.json() == {"error": "this path does not support this method"}
    assert set(answer.headers["allow"].split(", ")) == allowed
