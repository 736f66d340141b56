"""Soak test of the live router: latency and memory under steady load on a large state, with snapshots and without.

A log of settled orders is written first, and a service recovers from it. Clients then send orders at a steady rate,
whether or not the service keeps up: the latency of an order is measured from the time at which it was due. Refits run
meanwhile. The same load is measured without snapshots. A refused order or a halt fails the benchmark.

Retention is measured in another process, on a simulated clock, one day after the other: memory and the size of the
store must stop growing on the day on which the first orders expire.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from riskroute.live.learner import Learner
from riskroute.live.log.interface import log_entries_of
from riskroute.live.log.recovery import recover_log
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import SqliteStateStore, StateSnapshot
from riskroute.live.state.events import PlannedEvent
from riskroute.live.state.fold import apply
from riskroute.live.state.trading_state import DAY, encode_trading_state
from riskroute.routers.registry import make_router, router_bytes, router_parameters
from timing import duration, leave, print_heading, print_table, progress, quick, say, sized, verdict

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from live_load import Connection, order_events, order_request
from live_services import ServiceProcess, write_config


def _seconds() -> float:
    """Return the seconds of a run: the number after ``--seconds``, ten minutes without it."""
    words = sys.argv[1:]
    return float(words[words.index("--seconds") + 1]) if "--seconds" in words else 600.0


SETTLED = sized(200_000, 1_000)  # orders in the log before the run
EVENTS_PER_ORDER = 8
RATE = sized(200, 50)  # orders per second
SECONDS = sized(_seconds(), 2.0)
CLIENTS = 64
DAYS, ORDERS_PER_DAY = 6, sized(40_000, 400)
ROUTER, REFIT_EVERY = "thompson:units=4,awaited=1000,ahead=true,rounds=1000000", sized(500, 50)

MOST_TO_MEDIAN, MOST_TO_BASELINE, MOST_GROWTH = 5.0, 3.0, 1.1


class Run(NamedTuple):
    """Latencies in seconds, refusals by message, memory in MB once per second, and the final metrics."""

    waits: list[float]
    refused: Counter[str]
    memory: list[float]
    metrics: dict[str, float]
    halted: str


def fill(path: Path) -> None:
    """Write a log of orders that settled in the last minutes, with a belief after every thousand of them."""
    name, parameters = router_parameters(ROUTER)
    router, count = make_router(name, **parameters), 0
    with SqliteLog(path) as log:
        log.lease("benchmark", math.inf)
        written: Future[list[int]] | None = None
        events = order_events(router, SETTLED * EVENTS_PER_ORDER, time.time_ns() - SETTLED * 1_000_000)
        while batch := list(islice(events, 1_000 * EVENTS_PER_ORDER)):
            count += len(batch) + 1
            state, at = router_bytes(router), batch[-1].at
            batch.append(PlannedEvent(at=at, belief=count, router=router.name, after=count, learned=1_000, state=state))
            if written is not None:
                written.result()
            written = log.append(log_entries_of(batch))
        assert written is not None
        written.result()


def run(folder: Path, filled: Path, snapshot_every: int) -> Run:
    """Serve a copy of a log under load."""
    folder.mkdir()
    shutil.copy(filled, folder / "live.sqlite")
    config = write_config(folder, path="live.sqlite", snapshot_every=snapshot_every)
    text = config.read_text().replace("quote_seconds = 3600.0", "quote_seconds = 2.0\nday_orders = 100000000\n")
    text = text.replace("slow_write_seconds = 600.0", "day_notional = 1e15")
    config.write_text(text + f'[router]\nname = "{ROUTER}"\nrefit_every = {REFIT_EVERY}\n')
    service = ServiceProcess(config)
    try:
        service.said("live on")
        send_orders(service, sized(2.0, 0.5))  # until everything is loaded
        waits, refused, memory = send_orders(service, SECONDS)
        state = service.http.get("/state").json()
        lines = service.http.get("/metrics").text.splitlines()
        metrics = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(60)
    finally:
        service.end()
    return Run(waits, refused, memory, metrics, state["halted"] or state["failed"])


def send_orders(service: ServiceProcess, seconds: float) -> tuple[list[float], Counter[str], list[float]]:
    """Send orders at a steady rate; return latencies, refusals by message, and the memory of the service over time."""
    host, _, port = service.listen.partition(":")
    label, count = f"{time.time_ns()}", round(seconds * RATE)
    waits: list[float] = []
    refused: Counter[str] = Counter()
    memory: list[float] = []
    with selectors.DefaultSelector() as selector:
        free = deque(Connection((host, int(port))) for _ in range(CLIENTS))
        for one in free:
            selector.register(one.socket, selectors.EVENT_READ, one)
        due: dict[Connection, float] = {}
        began, sent = time.perf_counter(), 0
        while sent < count or due:
            now = time.perf_counter() - began
            while free and sent < count and sent / RATE <= now:
                one = free.popleft()
                due[one], sent = began + sent / RATE, sent + 1
                one.send(order_request(f"{label}.{sent}"))
            if now >= len(memory):
                memory.append(resident(service.process.pid))
            for key, _ in selector.select(max(min(sent / RATE - now, 0.05), 0.0) if free and sent < count else 0.05):
                one = key.data
                if (answer := one.response()) is None:
                    continue
                status, body = answer
                waits.append(time.perf_counter() - due.pop(one))
                free.append(one)
                if status != 200:
                    refused[json.loads(body)["error"]] += 1
        for one in free:
            one.socket.close()
    return waits, refused, memory


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


class Day(NamedTuple):
    """Memory and size of the store in MB at the end of a day."""

    memory: float
    store: float


def days(folder: Path) -> list[Day]:
    """Fold the orders of one day after another, with snapshots as an engine takes them; return the sizes."""
    path = folder / "state"
    store, found = SqliteStateStore(path, "main"), list[Day]()
    log = SqliteLog(folder / "empty.sqlite")
    learner = Learner(make_router("sweep"))
    state, archive, term = recover_log(log, learner, store)
    first = time.time_ns() // DAY * DAY
    for day in range(DAYS):
        events = order_events(make_router("sweep"), ORDERS_PER_DAY * EVENTS_PER_ORDER, first + day * DAY, f"day {day} ")
        for number, event in enumerate(events, start=1):
            apply(state, event, archive)
            if number % sized(10_000, 500) == 0:
                orders = list(archive.unsaved.values())
                body = msgspec.msgpack.encode((encode_trading_state(state), learner.state()))
                store.save(term, StateSnapshot(state.events, b"", state.archived, state.day.day, body), orders)
                archive.forget(orders)
                left = 2 * len(orders) + 200
                while left > 0 and store.expire(term, 200):
                    left -= 200
        size = sum(file.stat().st_size for file in folder.glob("state*")) / 1e6
        found.append(Day(resident(multiprocessing.current_process().pid or 0), size))
    store.close()
    log.close()
    return found


def main() -> None:
    print_heading("The live router under steady load", ["riskroute", "msgspec", "starlette", "uvicorn"])
    held: list[tuple[str, bool]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress(f"writing {SETTLED:,} settled orders")
        fill(folder / "filled.sqlite")
        runs = {}
        for label, every in (("without snapshots", 0), ("with snapshots", sized(10_000, 200))):
            progress(f"{RATE} orders per second for {SECONDS:g} s, {label}")
            runs[label] = run(folder / label, folder / "filled.sqlite", every)
        progress(f"{DAYS} days of {ORDERS_PER_DAY:,} orders")
        place = folder / "days"
        place.mkdir()
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as worker:
            passed = days(place) if quick() else worker.submit(days, place).result()
    report(runs, held)
    header = ["day", "memory", "state store"]
    rows = [[f"{number}", f"{day.memory:.0f} MB", f"{day.store:.1f} MB"] for number, day in enumerate(passed, start=1)]
    print_table(header, rows)
    for what, last, before in (
        ("memory", passed[-1].memory, passed[2].memory),
        ("state store", passed[-1].store, passed[2].store),
    ):
        text = f"{what} after day {DAYS}: {last / before:.2f} times that after day 3, target at most {MOST_GROWTH:g}"
        held.append((text, last <= MOST_GROWTH * before))
    for text, holds in held:
        say(f"{text}: {verdict(holds)}")
    always = [holds for text, holds in held if "refused" in text or "halted" in text]
    leave(always, [holds for _, holds in held])


def report(runs: dict[str, Run], held: list[tuple[str, bool]]) -> None:
    """Print both runs; append every target and its outcome to ``held``."""
    rows, late = [], {}
    for label, one in runs.items():
        middle, late[label] = np.percentile(one.waits, [50, 99])
        times = [duration(value) for value in (middle, late[label], max(one.waits))]
        thirds = [one.memory[k * (len(one.memory) - 1) // 2] for k in range(3)]
        memory = " to ".join(f"{value:.0f}" for value in thirds)
        rows.append([label, f"{len(one.waits):,}", *times, f"{sum(one.refused.values())}", f"{memory} MB"])
        refused = ", ".join(f"{count} times {sentence!r}" for sentence, count in one.refused.items())
        held.append((f"{label}: {refused or 'no order'} refused, target none", not one.refused))
        held.append((f"{label}: {one.halted or 'not'} halted", not one.halted))
    print_table(["", "orders", "median", "99th percentile", "maximum", "refused", "memory: begin, middle, end"], rows)
    one = runs["with snapshots"]
    for name in sorted(name for name in one.metrics if "snapshot" in name or "unsaved" in name or "commit" in name):
        if "bucket" not in name and "created" not in name:
            say(f"{name} {one.metrics[name]:g}")
    say("")
    ratio = late["with snapshots"] / np.percentile(one.waits, 50)
    held.append(
        (f"99th percentile {ratio:.1f} times the median, target at most {MOST_TO_MEDIAN:g}", ratio <= MOST_TO_MEDIAN)
    )
    ratio = late["with snapshots"] / late["without snapshots"]
    held.append(
        (
            f"99th percentile {ratio:.1f} times that without snapshots, target at most {MOST_TO_BASELINE:g}",
            ratio <= MOST_TO_BASELINE,
        )
    )


if __name__ == "__main__":
    main()
