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
from riskroute.live.config import LiveConfig, configured_router, nano, open_log
from riskroute.live.learner import Learner, learn_quietly, router_bytes, router_from
from riskroute.live.state.events import NANO, ChildOutcome, Outcome, ParentOrder, PoolQuote, VenueQuote
from riskroute.routers.router import Router

ORDERS = 6
"""Orders that a copy of the router decides, and learns from, before the first one comes."""


def sample_order(config: LiveConfig, number: int) -> ParentOrder:
    """An order like those to come."""
    now = time.time_ns()
    symbol, instrument = next(iter(config.instruments.items()))
    bids, asks = ((100 * NANO, 5_000),), ((100 * NANO + nano(instrument.tick), 5_000),)
    return ParentOrder(
        key=f"sample {number}",
        symbol=symbol,
        side="buy" if number % 2 else "sell",
        quantity=instrument.lot * (100 + number),
        deadline=now + 10 * NANO,
        quotes=tuple(VenueQuote(venue=name, bids=bids, asks=asks, at=now) for name in config.venues),
        pools=tuple(PoolQuote(pool=name) for name in config.pools),
        lot=instrument.lot,
        received=now,
    )


def warm_up(config: LiveConfig, router: Router) -> None:
    """Let a copy of a router decide and learn; whatever it raises matters when it is asked in earnest."""
    learner = Learner(router_from(type(router), router_bytes(router)))
    for number in range(ORDERS):
        order = sample_order(config, number)
        try:
            learner.decide(order, order.received)
        except RiskrouteError:
            return
        learn_quietly(learner.router, _swept(order))


def _swept(order: ParentOrder) -> Outcome:
    """The outcome of an order that was taken at one venue."""
    half = order.quotes[0].asks[0][0] - order.quotes[0].bids[0][0]
    slot = ChildOutcome(
        slot=0,
        attempt=0,
        kind="take",
        place=order.quotes[0].venue,
        sent=order.quantity,
        filled=order.quantity,
        money=order.quantity * half // 2,
        fees=0,
        sent_at=order.received,
        last_fill=order.received,
        done_at=order.received,
    )
    return Outcome(
        parent=order.key,
        symbol=order.symbol,
        sign=order.sign,
        filled=order.quantity,
        left=0,
        mid=order.quotes[0].bids[0][0] + half // 2,
        cost=slot.money,
        slots=(slot,),
        at=order.received,
    )


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
