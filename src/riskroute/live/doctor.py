"""Whether this machine can run the router: the disk, the clock, the versions, and how long a decision takes."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from riskroute.core.errors import RiskrouteError
from riskroute.core.runtime import machine_type, provenance_versions
from riskroute.live.config import LiveConfig
from riskroute.live.configured import configured_router, open_log
from riskroute.live.learner import Learner
from riskroute.live.warm_up import sample_order

SYNCS, DECISIONS = 50, 200
SLOW_SYNC, LEAST_FREE = 0.05, 1 << 30


@dataclass(frozen=True)
class Finding:
    """Something that was looked at: whether it is good, and what was found."""

    what: str
    good: bool
    found: str


def examine(config: LiveConfig) -> Iterator[Finding]:
    """Look at everything in turn."""
    yield Finding("configuration", True, f"{config.mode} on {config.listen}, {len(config.tokens)} tokens")
    versions = ", ".join(f"{name} {version}" for name, version in provenance_versions().items())
    yield Finding("versions", True, f"{versions}; {machine_type()}")
    folder = Path.cwd() if config.log.path is None else config.log.path.parent
    yield from _disk(folder)
    yield _log(config)
    yield _clock()
    yield _decision(config)


def _disk(folder: Path) -> Iterator[Finding]:
    there = next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))
    free = shutil.disk_usage(there).free
    yield Finding("disk", free >= LEAST_FREE, f"{free / 1e9:.1f} GB free at {there}, at least 1 is good")
    probe = there / f".riskroute-doctor-{os.getpid()}"
    times = []
    try:
        with probe.open("wb", buffering=0) as file:
            for _ in range(SYNCS):
                file.write(bytes(4096))
                began = time.perf_counter()
                os.fdatasync(file.fileno())
                times.append(time.perf_counter() - began)
    except OSError as error:
        yield Finding("fsync", False, f"{there} cannot be written: {error.strerror}")
        return
    finally:
        probe.unlink(missing_ok=True)
    middle, worst = statistics.median(times), max(times)
    text = f"{1e3 * middle:.2f} ms in the middle, {1e3 * worst:.2f} ms at worst of {SYNCS}; 50 ms is slow"
    yield Finding("fsync", worst < SLOW_SYNC, text)


def _log(config: LiveConfig) -> Finding:
    if config.log.path is not None and not config.log.path.exists():
        return Finding("log", True, f"{config.log.path} is not there yet: serve makes it")
    try:
        with open_log(config, create=False) as log:
            return Finding("log", True, f"{log.head().seq:,} rows, stream {log.header.stream}")
    except RiskrouteError as error:
        return Finding("log", False, str(error))


def _clock() -> Finding:
    """The clock must not jump against the time that passes, and must know the year."""
    before = time.time_ns() - time.monotonic_ns()
    time.sleep(0.05)
    drift = (time.time_ns() - time.monotonic_ns()) - before
    year = time.gmtime().tm_year
    good = abs(drift) < 10_000_000 and 2024 <= year < 2100
    return Finding(
        "clock", good, f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, moved {drift / 1e6:.3f} ms"
    )


def _decision(config: LiveConfig) -> Finding:
    """Time of decisions on books like those to come, after the first few, which load and compile."""
    try:
        learner = Learner(configured_router(config))
        began = time.perf_counter()
        times = [_one(learner, config, number) for number in range(DECISIONS)]
    except RiskrouteError as error:
        return Finding("router", False, str(error))
    warm = sorted(times[DECISIONS // 4 :])
    text = (
        f"{learner.router.name}: first decision {1e3 * times[0]:.0f} ms (serve warms up), then "
        f"{1e3 * warm[len(warm) // 2]:.3f} ms in the middle and "
        f"{1e3 * warm[int(len(warm) * 0.99)]:.3f} ms at the 99th percentile"
    )
    most = config.router.decision_ms
    return Finding(
        "router", most is None or 1e3 * warm[-1] < most, f"{text}; {time.perf_counter() - began:.1f} s in all"
    )


def _one(learner: Learner, config: LiveConfig, number: int) -> float:
    order = sample_order(config, number)
    began = time.perf_counter()
    learner.decide(order, order.received)
    return time.perf_counter() - began
