"""Speed of the live router's log: durable appends, one or many at a time, and reading.

The reference is a write and a sync of the same bytes to the same disk, the minimum work of a durable append. Appends
and reference are measured in turn, since other users of the disk slow both down.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from riskroute.core.runtime import extra_is_installed
from riskroute.live.log.interface import Log, LogEntry
from riskroute.live.log.postgres import PostgresLog
from riskroute.live.log.sqlite import SqliteLog
from timing import REPEATS, duration, leave, print_heading, print_table, progress, say, sized, verdict

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from postgres_server import postgres_programs, postgres_server

WAITING = (1, 8, 32, 64)
APPENDS = sized(2_000, 20)
"""Number of sequential appends; concurrent appends are four times as many."""

ROWS = sized(1_000_000, 2_000)
BODY = b"x" * 200
LONGEST_READ = 15.0
LEAST_GAIN = 4.0


@dataclass
class Appends:
    """Appends per second, and the seconds that each waited."""

    rate: float
    waits: list[float]


def floor(folder: Path) -> float:
    """Return writes with a sync per second."""
    file = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT)
    began = time.perf_counter()
    for number in range(APPENDS):
        os.pwrite(file, BODY, number * len(BODY))
        os.fdatasync(file)
    seconds = time.perf_counter() - began
    os.close(file)
    return APPENDS / seconds


def appended(log: Log, waiting: int, label: str) -> Appends:
    """Append entries, with up to ``waiting`` of them not yet durable; return their rate and waits."""
    count = APPENDS if waiting == 1 else 4 * APPENDS
    sent: deque[float] = deque()
    out: deque[Future[list[int]]] = deque()
    waits = []
    began = time.perf_counter()
    for number in range(count + waiting):
        if len(out) == waiting or number >= count:
            out.popleft().result()
            waits.append(time.perf_counter() - sent.popleft())
        if number < count:
            sent.append(time.perf_counter())
            out.append(log.append([LogEntry("order", f"{label}.{waiting}.{number}", BODY, time.time_ns())]))
    return Appends(count / (time.perf_counter() - began), waits)


def read(log: Log) -> float:
    """Return rows read per second, with verification of their hashes."""
    began = time.perf_counter()
    rows = sum(1 for _ in log.read())
    return rows / (time.perf_counter() - began)


def fill(log: Log, rows: int) -> None:
    """Append until the log has a number of rows."""
    head = log.head().seq
    futures = [
        log.append([LogEntry("fill", f"{number}", BODY, number) for number in range(begin, min(begin + 1000, rows))])
        for begin in range(head, rows, 1000)
    ]
    for future in futures:
        future.result()


@contextmanager
def logs(folder: Path) -> Iterator[dict[str, Log]]:
    """Yield the logs available on this machine."""
    with SqliteLog(folder / "live.db") as sqlite:
        if not extra_is_installed("psycopg") or postgres_programs() is None:
            say("PostgreSQL is left out: it needs psycopg and a server\n")
            yield {"SQLite": sqlite}
            return
        with postgres_server(on_disk=True) as server, PostgresLog(server.database) as postgres:
            yield {"SQLite": sqlite, "PostgreSQL": postgres}


def appends_of(label: str, log: Log, folder: Path) -> tuple[list[list[str]], float]:
    """Return the rows of the table of appends, and the speed-up of 64 concurrent appends over one."""
    log.lease("benchmark", float("inf"))
    floors, rates = list[float](), dict[int, list[Appends]]()
    for repeat in range(REPEATS):
        progress(f"{label}, {repeat + 1} of {REPEATS}")
        floors.append(floor(folder))
        for waiting in WAITING:
            rates.setdefault(waiting, []).append(appended(log, waiting, f"{repeat}"))
    middle = {waiting: statistics.median(one.rate for one in some) for waiting, some in rates.items()}
    rows = [[label, "write and sync", f"{statistics.median(floors):,.0f}", "1.00", "", ""]]
    for waiting, some in rates.items():
        ratio = statistics.median(one.rate / least for one, least in zip(some, floors, strict=True))
        waits = sorted(wait for one in some for wait in one.waits)
        times = [duration(waits[len(waits) * part // 100]) for part in (50, 99)]
        rows.append([label, f"{waiting} waiting", f"{middle[waiting]:,.0f}", f"{ratio:.2f}", *times])
    return rows, middle[WAITING[-1]] / middle[1]


def main() -> None:
    print_heading("The log of the live router", ["riskroute", "msgspec", "psycopg"])
    said: list[str] = []
    held: list[bool] = []
    with tempfile.TemporaryDirectory() as name, logs(Path(name)) as stores:
        rows = []
        for label, log in stores.items():
            some, gain = appends_of(label, log, Path(name))
            rows += some
            held.append(gain >= LEAST_GAIN)
            text = f"{label}: 64 waiting appends are {gain:.1f} times as fast as one"
            said.append(f"{text}, target at least {LEAST_GAIN:g}")
        header = ["log", "durable appends", "a second", "to write and sync", "median wait", "99th percentile"]
        print_table(header, rows, left=2)
        rows = []
        for label, log in stores.items():
            progress(f"{label}, reading")
            fill(log, ROWS)
            speed = read(log)
            rows.append([label, f"{log.head().seq:,}", f"{speed:,.0f}"])
            held.append(1e6 / speed <= LONGEST_READ)
            said.append(f"{label}: a million rows are read in {1e6 / speed:.1f} s, target at most {LONGEST_READ:g}")
        print_table(["log", "rows", "read a second"], rows)
    for text, holds in zip(said, held, strict=True):
        say(f"{text}: {verdict(holds)}")
    leave([], held)


if __name__ == "__main__":
    main()
