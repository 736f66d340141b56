"""Speed of the live router: durable decisions, reports, recovery, memory, the router's own time, and takeover.

Clients send orders over HTTP to a service in a separate process and wait for each response. They share the machine with
the service, so they keep their connections and build requests before the clock starts. The reference is durable appends
of one entry each to a log on the same disk, measured in turn. The recovered log has orders that were sent to two venues
each, partly filled, and settled.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from riskroute.core.instrument import SHARES
from riskroute.core.runtime import extra_is_installed
from riskroute.live.background import BackgroundProcess
from riskroute.live.engine import TradingEngine
from riskroute.live.learner import Learner
from riskroute.live.log.interface import Log, LogEntry, log_entries_of
from riskroute.live.log.postgres import PostgresLog
from riskroute.live.log.recovery import recover_log
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import PostgresStateStore, SqliteStateStore, StateSnapshot, StateStore
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.events import AnyEvent
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.trading_state import TradingState, encode_trading_state
from riskroute.live.venues.gateway import GatewaySink, VenueTerms, instrument_venue_terms
from riskroute.routers.registry import make_router
from riskroute.routers.router import Router
from timing import REPEATS, duration, leave, print_heading, print_table, progress, quick, say, sized, verdict

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from live_load import ask_for_decisions, filled, new_order, order_events
from live_services import ServiceProcess, order_json, write_config
from postgres_server import postgres_programs, postgres_server

APPENDS = sized(1_000, 20)
DECISIONS = {1: sized(1_000, 10), 64: sized(4_000, 70)}
"""Number of orders, by number of clients."""

TURNS = sized(9, 1)
"""Repeats of appends and decisions in turn: ratios vary by a tenth from one repeat to the next."""

REPORTS, WAITING = sized(20_000, 200), 32
EVENTS = sized(1_000_000, 3_000)
ROUTED = sized(2_000, 20)
SLOTS, LOTS, REFIT_EVERY = 8, 100, 50

LEAST_RATIO, LEAST_GAIN, LONGEST, LONGEST_WITH, MOST_MEMORY, LONGEST_DECISION = 0.2, 4.0, 15.0, 2.0, 500.0, 0.001

Speeds = dict[str, list[float]]


# appends and decisions


def appends(log: Log, label: str) -> float:
    """Return sequential durable appends per second, of one entry each with the size of an order's decision."""
    body = b"x" * 1_200
    began = time.perf_counter()
    for number in range(APPENDS):
        log.append([LogEntry("order", f"{label}.{number}", body, time.time_ns())]).result()
    return APPENDS / (time.perf_counter() - began)


def decisions(service: ServiceProcess, log: Log, label: str) -> tuple[Speeds, dict[int, list[float]]]:
    """Return appends and decisions per second, measured in turn, and the latency of every decision."""
    speeds: Speeds = {"appends": [], "1": [], "64": []}
    waits: dict[int, list[float]] = {1: [], 64: []}
    for repeat in range(TURNS):
        progress(f"{label}, {repeat + 1} of {TURNS}")
        speeds["appends"].append(appends(log, f"{repeat}"))
        for clients in DECISIONS:
            rate, some = ask_for_decisions(service.listen, f"{repeat}", clients, DECISIONS[clients])
            speeds[f"{clients}"].append(rate)
            waits[clients] += some
            time.sleep(sized(1.0, 0.1))  # orders of one repeat are settled before the next begins
    return speeds, waits


# engines in this process


class Filling:
    """A venue that fills every child at once; a silent one fills nothing."""

    def __init__(self, name: str, *, silent: bool) -> None:
        self.name, self.session, self.silent, self.count = name, name, silent, 0
        self.sink: GatewaySink | None = None

    def connect(self, sink: GatewaySink) -> None:
        self.sink = sink
        sink.up()

    def terms(self, symbol: str) -> VenueTerms | None:
        return instrument_venue_terms(SHARES, idempotent=True)

    def request_account(self) -> None:
        return

    def send(self, child: ChildOrder) -> None:
        if not self.silent and self.sink is not None:
            self.count += 1
            self.sink(filled(child, child.quantity, child.quantity, self.count))

    def cancel(self, child: ChildOrder) -> None:
        return

    def query(self, child: ChildOrder) -> None:
        return

    def close(self) -> None:
        return


def reports(log: Log) -> float:
    """Return reports booked per second, with up to `WAITING` reports not yet durable."""
    venues = {f"V{k}": Filling(f"V{k}", silent=True) for k in range(2)}
    engine = TradingEngine(log, venues, make_router("sweep"), patience=3600.0)
    engine.start()
    engine.submit(new_order("reported", 2 * REPORTS, time.time_ns())).result()
    engine.flush()
    child = next(iter(engine.state.children.values())).order
    out: deque[Future[list[int]]] = deque()
    began = time.perf_counter()
    for number in range(min(REPORTS, child.quantity)):
        if len(out) == WAITING:
            out.popleft().result()
        engine.report(filled(child, 1, number + 1, number))
        assert engine.ledger.last is not None
        out.append(engine.ledger.last)
    engine.flush()
    seconds = time.perf_counter() - began
    assert engine.state.positions["DEMO"].shares == number + 1
    engine.close()
    return (number + 1) / seconds


def routed() -> tuple[list[float], int]:
    """Return the seconds of every decision while a worker refits the router, and the number of refits."""
    router = make_router("thompson", units=LOTS, awaited=1000, ahead=True, rounds=100_000)
    venues = {f"V{k}": Filling(f"V{k}", silent=False) for k in range(SLOTS)}
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder, BackgroundProcess() as worker:
        log = SqliteLog(Path(folder) / "log.sqlite")
        engine = TradingEngine(log, venues, router, refit_every=sized(REFIT_EVERY, 5), worker=worker, snapshot_every=0)
        vars(engine.decider.times)["observe"] = times.append  # each latency, not a histogram
        engine.start()
        engine.serve()
        numbers = itertools.count()

        def decide() -> None:
            engine.submit(new_order(f"{next(numbers)}", LOTS, time.time_ns(), SLOTS)).result()
            time.sleep(0.001)

        while engine.learner.belief < 1:  # until the worker has compiled its kernels
            decide()
        times.clear()
        first = engine.learner.belief
        for _ in range(ROUTED):
            decide()
        refits = engine.learner.belief - first
        engine.close()
    return times, refits


# recovery


def fill(log: Log, router: Router) -> None:
    """Write the events in rows like those that an engine writes for sequential orders."""
    log.lease("benchmark", math.inf)
    batch: list[AnyEvent] = []
    written: Future[list[int]] | None = None
    for event in order_events(router, EVENTS):
        batch.append(event)
        if len(batch) == 1_000:
            if written is not None:
                written.result()
            written, batch = log.append(log_entries_of(batch)), []
    log.append(log_entries_of(batch)).result()


def recovered(log: Log, store: StateStore) -> tuple[float, TradingState, OrderArchive, int, Learner]:
    """Return the seconds from opening a log to its state, and what was recovered."""
    learner = Learner(make_router("sweep"))
    began = time.perf_counter()
    found = recover_log(log, learner, store)
    return time.perf_counter() - began, *found, learner


def recovery_in_child(open_log: Callable[[], Log], open_store: Callable[[], StateStore]) -> tuple[float, float, float]:
    """Return the seconds of recovery without and with a snapshot, and the memory of this process in MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_log() as log, closing(open_store()) as store:
        log.lease("benchmark", math.inf)
        without, state, archive, term, learner = recovered(log, store)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        head, body = log.head(), msgspec.msgpack.encode((encode_trading_state(state), learner.state()))
        snapshot = StateSnapshot(head.seq, head.chain, state.archived, state.day.day, body)
        store.save(term, snapshot, list(archive.unsaved.values()))
        with_one, again, *_ = recovered(log, store)
        assert again.events == state.events == EVENTS
    assert memory >= before / 1024
    return without, with_one, memory


def recovery(open_log: Callable[[], Log], open_store: Callable[[], StateStore]) -> tuple[float, float, float]:
    """Measure recovery in a separate process, on a log that this one writes."""
    with open_log() as log:
        fill(log, make_router("sweep"))
    if quick():
        return recovery_in_child(open_log, open_store)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as worker:
        return worker.submit(recovery_in_child, open_log, open_store).result()


# takeover


def takeover(folder: Path, database: str) -> float:
    """Return the seconds from kill -9 of a service to the first response of its standby."""
    config = write_config(folder, postgres=database, stream="takeover")
    first, second = ServiceProcess(config), None
    try:
        first.said("live on")
        second = ServiceProcess(config)
        second.said("standing by")
        first.waited(order_json("before"))
        first.process.kill()
        began = time.perf_counter()
        second.waited(order_json("after"))
        return time.perf_counter() - began
    finally:
        for one in (first, second):
            if one is not None:
                one.end()


def main() -> None:
    print_heading("The live router", ["riskroute", "msgspec", "starlette", "uvicorn", "psycopg"])
    held: list[tuple[str, bool]] = []
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        database = None
        if quick():
            say("PostgreSQL is left out of a quick run\n")
        elif extra_is_installed("psycopg") and postgres_programs() is not None:
            database = stack.enter_context(postgres_server(on_disk=True)).database
        else:
            say("PostgreSQL is left out: it needs psycopg and a server\n")
        stores: dict[str, tuple[Callable[[str], Log], dict[str, Any]]] = {
            "SQLite": (lambda stream: SqliteLog(folder / f"{stream}.db"), {"path": "live.sqlite"})
        }
        if database is not None:
            address = database
            stores["PostgreSQL"] = (
                lambda stream: PostgresLog(address, stream),
                {"postgres": address, "stream": "served"},
            )
        for label, (open_log, given) in stores.items():
            measured(label, open_log, given, folder, rows, held)
        file, stream = folder / "recovery.db", "recovery"
        for label, opener, store_opener in (
            ("SQLite", partial(SqliteLog, file, stream), partial(SqliteStateStore, folder / "recovery.state", stream)),
            (
                "PostgreSQL",
                partial(PostgresLog, str(database), stream),
                partial(PostgresStateStore, str(database), stream),
            ),
        ):
            if label not in stores:
                continue
            progress(f"{label}, recovery")
            without, with_one, memory = recovery(opener, store_opener)
            rows.append([label, f"recovery of {EVENTS:,} events", duration(without), "", "", ""])
            rows.append([label, "recovery with a snapshot", duration(with_one), "", "", ""])
            rows.append([label, "memory of the recovery", f"{memory:.0f} MB", "", "", ""])
            held += [
                (f"{label}: recovery in {without:.1f} s, target at most {LONGEST:g}", without <= LONGEST),
                (
                    f"{label}: recovery with a snapshot in {with_one:.2f} s, target at most {LONGEST_WITH:g}",
                    with_one <= LONGEST_WITH,
                ),
                (f"{label}: recovery uses {memory:.0f} MB, target under {MOST_MEMORY:g}", memory < MOST_MEMORY),
            ]
        progress("router")
        times, refits = routed()
        middle, late = np.percentile(times, [50, 99])
        about = f"router, {SLOTS} slots, {LOTS} lots, {refits} refits"
        rows.append(["", about, "", "", duration(middle), duration(late)])
        about = f"router: 99th percentile {duration(late)}, target under 1 ms while refits run"
        held.append((about, late < LONGEST_DECISION and (refits > 0 or quick())))
        if database is not None:
            some = []
            for repeat in range(REPEATS):
                place = folder / f"takeover {repeat}"
                place.mkdir()
                some.append(takeover(place, database))
            rows.append(["PostgreSQL", "takeover after kill -9", duration(statistics.median(some)), "", "", ""])
    header = ["log", "", "a second, or time", "to appends", "median", "99th percentile"]
    print_table(header, rows, left=2)
    for text, holds in held:
        say(f"{text}: {verdict(holds)}")
    leave([], [holds for _, holds in held])


def measured(
    label: str,
    open_log: Callable[[str], Log],
    given: dict[str, Any],
    folder: Path,
    rows: list[list[str]],
    held: list[tuple[str, bool]],
) -> None:
    """Measure appends, decisions and reports on a store."""
    place = folder / label
    place.mkdir()
    service = ServiceProcess(write_config(place, **given))
    try:
        service.said("live on")
        with open_log("appends") as log:
            log.lease("benchmark", math.inf)
            speeds, waits = decisions(service, log, label)
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(60)
    finally:
        service.end()
    raw = statistics.median(speeds["appends"])
    rows.append([label, "durable appends, one after the other", f"{raw:,.0f}", "1.00", "", ""])
    for clients, some in waits.items():
        rate = statistics.median(speeds[f"{clients}"])
        ratio = statistics.median(a / b for a, b in zip(speeds[f"{clients}"], speeds["appends"], strict=True))
        times = [duration(value) for value in np.percentile(some, [50, 99])]
        word = "client" if clients == 1 else "clients"
        rows.append([label, f"durable decisions, {clients} {word}", f"{rate:,.0f}", f"{ratio:.2f}", *times])
    ratio = statistics.median(a / b for a, b in zip(speeds["1"], speeds["appends"], strict=True))
    gain = statistics.median(a / b for a, b in zip(speeds["64"], speeds["1"], strict=True))
    text = f"{label}: one client gets {ratio:.2f} decisions per append, target at least {LEAST_RATIO:g}"
    held.append((text, ratio >= LEAST_RATIO))
    text = f"{label}: 64 clients get {gain:.1f} times as many as one, target at least {LEAST_GAIN:g}"
    held.append((text, gain >= LEAST_GAIN))
    rate = reports(open_log("reports"))
    rows.append([label, f"reports booked, {WAITING} waiting", f"{rate:,.0f}", f"{rate / raw:.2f}", "", ""])


if __name__ == "__main__":
    main()
