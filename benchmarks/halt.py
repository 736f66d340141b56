"""Time until a halt is confirmed, with the service under load or abuse.

One client halts over HTTP on a new connection each time, waits for the durable response, and resumes. The other clients
run in a separate process. Half-open connections are renewed as soon as the service closes them.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import selectors
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

from timing import duration, leave, print_heading, print_table, progress, quick, say, sized, verdict

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from live_load import Connection, order_request
from live_services import TOKENS, ServiceProcess, order_json, write_config

TRIES = sized(200, 3)
CLIENTS = 64
HALF_OPEN, FILES = sized(1_500, 300), sized(1_024, 256)
STREAMS, ROWS = sized(800, 40), sized(3_000, 50)
LONGEST = 1.0

HALF = b"POST /halt HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n"
EVENTS = f"GET /events?after=0 HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {TOKENS['read']}\r\n\r\n".encode()

UNPACED = """
from riskroute.live.log.snapshot_writer import SnapshotWriter
from riskroute.routers.rules import DarkFirstRule

SnapshotWriter.pause = 0  # otherwise 20 times the duration of a snapshot passes before the next one


class Unpaced(DarkFirstRule):
    name = "unpaced"
"""

Address = tuple[str, int]


def ask(address: Address, method: str, path: str, token: str, body: str = "") -> bytes:
    """Return the body of a response on a new connection; raise if it is not 200."""
    connection = HTTPConnection(*address, timeout=30)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKENS[token]}"})
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(text.decode())
        return text
    finally:
        connection.close()


# load generators, which run in a separate process


def send_orders(address: Address, label: str) -> None:
    """Send orders from many clients, and continue after refusals: trading is halted again and again."""
    with selectors.DefaultSelector() as selector:
        numbers = count()
        for _ in range(CLIENTS):
            one = Connection(address)
            selector.register(one.socket, selectors.EVENT_READ, one)
            one.send(order_request(f"{label} {next(numbers)}"))
        while True:
            for key, _ in selector.select():
                if key.data.response() is not None:
                    key.data.send(order_request(f"{label} {next(numbers)}"))


def hold_open(address: Address, label: str) -> None:
    """Hold connections with incomplete requests, and replace those that are closed."""
    _keep_open(address, HALF, HALF_OPEN)


def read_streams(address: Address, label: str) -> None:
    """Read event streams from the first row of the log, and ask again for those that are refused or closed."""
    _keep_open(address, EVENTS, STREAMS)


def _keep_open(address: Address, request: bytes, number: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < number:
                with suppress(OSError):
                    one = socket.create_connection(address)
                    one.sendall(request)
                    selector.register(one, selectors.EVENT_READ)
            for key, _ in selector.select(1.0):
                read = b""
                with suppress(OSError):
                    read = key.fileobj.recv(1 << 18)  # type: ignore[union-attr]  # they are sockets
                if not read or read.startswith(b"HTTP/1.1 503"):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
                    time.sleep(0.001)


@contextmanager
def others(do: Callable[[Address, str], None], address: Address, label: str) -> Iterator[None]:
    """Run other clients in a separate process."""
    process = multiprocessing.get_context("spawn").Process(target=do, args=(address, label), daemon=True)
    process.start()
    time.sleep(sized(5.0, 2.0))
    try:
        yield
        assert process.is_alive()
    finally:
        process.kill()
        process.join()


# conditions


@contextmanager
def at_rest(service: ServiceProcess, address: Address) -> Iterator[None]:
    """Run no other clients."""
    yield


@contextmanager
def under_load(service: ServiceProcess, address: Address) -> Iterator[None]:
    """Send orders from many clients."""
    with others(send_orders, address, "load"):
        yield


@contextmanager
def half_open(service: ServiceProcess, address: Address) -> Iterator[None]:
    """Hold more half-open connections than the service has descriptors."""
    with others(hold_open, address, ""):
        yield


@contextmanager
def event_streams(service: ServiceProcess, address: Address) -> Iterator[None]:
    """Read event streams on a log with many rows."""
    for _ in range(ROWS):
        ask(address, "POST", "/quotes", "trade", json.dumps({"symbol": "DEMO", "quotes": order_json()["quotes"]}))
    with others(read_streams, address, ""):
        yield


@contextmanager
def saving_snapshots(service: ServiceProcess, address: Address) -> Iterator[None]:
    """Send orders to a service that saves one snapshot after another."""
    with others(send_orders, address, "snapshots"):
        yield
    metrics = ask(address, "GET", "/metrics", "read").decode()
    saved = float(metrics.partition("\nriskroute_snapshots_total ")[2].split()[0])
    assert saved >= TRIES or quick(), f"only {saved:g} snapshots were saved"


@contextmanager
def stopped_worker(service: ServiceProcess, address: Address) -> Iterator[None]:
    """Send orders to a service whose refit worker is stopped."""
    tasks = Path(f"/proc/{service.process.pid}/task").glob("*/children")  # any thread may have started it
    children = [one for task in tasks for one in task.read_text().split()]
    workers = [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
    assert workers, "the service has no worker"
    for one in workers:
        os.kill(one, signal.SIGSTOP)
    try:
        with others(send_orders, address, "refits"):
            yield
    finally:
        for one in workers:
            os.kill(one, signal.SIGCONT)


def halts(address: Address) -> list[float]:
    """Return the seconds until each halt was confirmed, infinite after a connection error."""
    took: list[float] = []
    for number in range(TRIES):
        began = time.perf_counter()
        try:
            confirmed = ask(address, "POST", "/halt", "halt", json.dumps({"reason": f"try {number}"}))
        except OSError:
            took.append(float("inf"))
            continue
        took.append(time.perf_counter() - began)
        assert json.loads(confirmed) == {"halted": f"try {number}"}
        ask(address, "POST", "/resume", "trade")
        time.sleep(sized(0.05, 0.0))
    return took


CONDITIONS = {
    "at rest": at_rest,
    f"load of {CLIENTS} clients": under_load,
    f"{HALF_OPEN:,} half-open connections, {FILES:,} descriptors": half_open,
    f"{STREAMS} event streams from row 0 of {ROWS:,}": event_streams,
    f"snapshots in progress, {CLIENTS} clients": saving_snapshots,
    f"stopped refit worker, {CLIENTS} clients": stopped_worker,
}


def measured(name: str, folder: Path) -> tuple[list[float], float]:
    """Return the seconds of the halts under a condition, and the peak memory of the service in MB."""
    folder.mkdir()
    config = write_config(folder, path="live.sqlite", snapshot_every=100 if "snapshots" in name else 10_000)
    if "snapshots" in name:
        (folder / "own.py").write_text(UNPACED)
        config.write_text(config.read_text() + f'[router]\nname = "{folder}/own.py:Unpaced"\n')
    if "worker" in name:
        config.write_text(config.read_text() + "[router]\nrefit_every = 20\n")
    limited = ["bash", "-c", f'ulimit -n {FILES} && exec "$@"', "limited"] if "descriptors" in name else []
    service = ServiceProcess(config, before=limited)
    try:
        service.said("live on")
        said = threading.Thread(target=service.process.stdout.read)  # type: ignore[union-attr]  # it is a pipe
        said.start()
        service.waited(order_json("first"))
        host, _, port = service.listen.partition(":")
        with CONDITIONS[name](service, (host, int(port))):
            took = halts((host, int(port)))
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        memory = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0
        said.join()
        return took, memory
    finally:
        service.process.kill()
        service.http.close()


def main() -> None:
    print_heading("Halts of the live router", ["riskroute", "starlette", "uvicorn", "uvloop"])
    rows, held = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(CONDITIONS):
            progress(name)
            took, memory = measured(name, Path(folder) / f"{number}")
            confirmed = sum(seconds <= LONGEST for seconds in took)
            times = [duration(statistics.median(took)), duration(max(took))]
            rows.append([name, f"{TRIES}", f"{confirmed}", *times, f"{memory:.0f} MB"])
            held.append(confirmed == TRIES)
    print_table(["condition", "halts", "within 1 s", "median", "longest", "memory"], rows)
    say(f"every halt confirmed within {LONGEST:g} s: {verdict(all(held))}")
    leave([], held)


if __name__ == "__main__":
    main()
