"""Book updates from a source in the process of the live router: how many it takes, and what they cost decisions.

A source in a thread of its own replaces one book of ten levels at a time: 2,000 instruments at three venues. Updates
are first applied as fast as possible, then logged as fast as the log takes them. Then orders without quotes arrive at a
steady rate, in turns with and without updates at half the target rate.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path

import numpy as np

from riskroute.live.http.requests import OrderRequest
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.state.quotes import VenueQuote
from riskroute.live.venues.gateway import QuoteSink
from timing import duration, leave, print_heading, print_table, progress, quick, say, sized, verdict

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from live_services import service_config

INSTRUMENTS, VENUES, LEVELS = sized(2_000, 50), ("A", "B", "C"), 10
SECONDS = sized(10.0, 0.3)  # of each measurement of a rate
TURNS, ORDERS, RATE = sized(4, 1), sized(1_000, 20), 100  # orders per turn, and per second
LEAST, LEAST_LOGGED, MOST_MEMORY, MOST_RATIO = 20_000, 5_000, 2e9, 1.25
CENT = NANO // 100


class Source:
    """Books of all instruments at all venues, in turn."""

    def __init__(self) -> None:
        self.sink: QuoteSink
        self._keys = cycle([(symbol, venue) for symbol in symbols() for venue in VENUES])
        self._moves = cycle(range(7))

    def connect(self, sink: QuoteSink) -> None:
        self.sink = sink

    def subscribe(self, subscribed: Sequence[str]) -> None:
        assert len(subscribed) == INSTRUMENTS

    def close(self) -> None:
        return

    def update(self) -> None:
        """Replace one book, made as a decoder of messages makes it."""
        symbol, venue = next(self._keys)
        mid = (10_000 + next(self._moves)) * CENT
        bids = tuple([(mid - (k + 1) * CENT, 500 + k) for k in range(LEVELS)])
        asks = tuple([(mid + (k + 1) * CENT, 500 + k) for k in range(LEVELS)])
        self.sink.put(symbol, (VenueQuote(venue=venue, bids=bids, asks=asks, at=time.time_ns()),))


def symbols() -> list[str]:
    """Return the names of the instruments."""
    return [f"S{number}" for number in range(INSTRUMENTS)]


@contextmanager
def served(folder: Path, *, logged: bool) -> Iterator[tuple[Service, Source]]:
    """Run a service with a source and simulated venues."""
    folder.mkdir()
    config = service_config(
        folder,
        log={"path": str(folder / "live.sqlite"), "source_quotes": logged},
        venues={name: {"latency_ms": 0.0} for name in VENUES},
        pools={},
        instruments={name: {} for name in symbols()},
        limits={"day_loss": 1e9, "quote_seconds": 3600.0, "slow_write_seconds": 600.0, "clock_jump_seconds": 600.0},
    )
    source = Source()
    service = Service(config, sources=[source])
    service.start()
    try:
        while service.engine.state.down:
            time.sleep(0.01)
        for _ in range(INSTRUMENTS * len(VENUES)):  # every book once
            source.update()
            wait(service)
        yield service, source
    finally:
        service.close()


def wait(service: Service) -> None:
    """Wait while the engine is far behind with updates to log."""
    while service.engine.queue_length > service.most_waiting // 2:
        time.sleep(0.001)


def rate(service: Service, source: Source) -> float:
    """Return the updates per second that a source gets rid of, once they are durable if they are logged."""
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        source.update()
        wait(service)
        done += 1
    while service.engine.queue_length:
        time.sleep(0.001)
    service.engine.flush(60)
    assert not service.unlogged_quotes
    return done / (time.perf_counter() - began)


@contextmanager
def streaming(source: Source, per_second: float) -> Iterator[None]:
    """Let a thread replace books at a steady rate."""
    stop = threading.Event()

    def stream() -> None:
        began, done = time.perf_counter(), 0
        while not stop.is_set():
            due = (time.perf_counter() - began) * per_second
            while done < due:
                source.update()
                done += 1
            time.sleep(0.001)
        assert done > 0.9 * (time.perf_counter() - began - 0.1) * per_second or quick(), "the source was too slow"

    thread = threading.Thread(target=stream)
    if per_second:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if per_second:
            thread.join()


def decisions(service: Service, numbers: Iterator[int]) -> list[float]:
    """Return the seconds until the decision of each order is durable, from the time at which it was due."""
    took: list[float] = []
    began = time.perf_counter()
    for k in range(ORDERS):
        due = began + k / RATE
        time.sleep(max(due - time.perf_counter(), 0))
        number = next(numbers)
        deadline = time.time_ns() + 5 * NANO
        symbol = f"S{number % INSTRUMENTS}"
        order = OrderRequest(key=f"{number}", symbol=symbol, side="buy", quantity=200, deadline=deadline)
        service.submit(order).add_done_callback(lambda done, due=due: took.append(time.perf_counter() - due))  # type: ignore[misc]  # bound now
    while len(took) < ORDERS:
        time.sleep(0.001)
    return took


def main() -> None:
    print_heading("Book updates from a source in the process", ["riskroute", "msgspec"])
    numbers = count()
    found: dict[float, list[float]] = {0.0: [], LEAST / 2: []}
    with tempfile.TemporaryDirectory() as name:
        progress("applied")
        with served(Path(name) / "applied", logged=False) as (service, source):
            applied = rate(service, source)
            progress("decisions")
            decisions(service, numbers)  # until everything is loaded
            for _ in range(TURNS):
                for per_second, took in found.items():
                    with streaming(source, per_second):
                        took += decisions(service, numbers)
            books = sum(len(service.history(symbol) or ()) for symbol in symbols())
            failed = service.engine.failed or service.engine.state.halted
        progress("logged")
        with served(Path(name) / "logged", logged=True) as (service, source):
            logged = rate(service, source)
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = [
        ("updates per second, not logged", f"{applied:,.0f}"),
        ("updates per second, logged and durable", f"{logged:,.0f}"),
        (f"peak memory, {books:,} books of {LEVELS} levels a side", f"{memory / 1e6:,.0f} MB"),
    ]
    tails = []
    for per_second, took in found.items():
        middle, tail = np.quantile(took, (0.5, 0.99))
        tails.append(float(tail))
        label = f"decision with {per_second:,.0f} updates per second: median, 99th percentile"
        rows.append((label, f"{duration(middle)}, {duration(tail)}"))
    print_table(("measured", "value"), rows)
    held = [not failed, books == INSTRUMENTS * len(VENUES)]
    say(f"every book known, no halt: {verdict(all(held))}")
    measured = [applied >= LEAST, logged >= LEAST_LOGGED, memory < MOST_MEMORY, tails[1] <= MOST_RATIO * tails[0]]
    say(f"{applied:,.0f} updates per second, target at least {LEAST:,}: {verdict(measured[0])}")
    say(f"{logged:,.0f} logged per second, target at least {LEAST_LOGGED:,}: {verdict(measured[1])}")
    say(f"{memory / 1e6:,.0f} MB, target under {MOST_MEMORY / 1e6:,.0f} MB: {verdict(measured[2])}")
    ratio = tails[1] / tails[0]
    say(f"99th percentile {ratio:.2f} times that without updates, target at most {MOST_RATIO}: {verdict(measured[3])}")
    leave(held, measured)


if __name__ == "__main__":
    main()
