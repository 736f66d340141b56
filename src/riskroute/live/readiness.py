"""Readiness of the live router: checks of disk, clock, log and decision time, and warm-up before the first order."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from riskroute.core.errors import RiskrouteError
from riskroute.core.instrument import instrument_terms
from riskroute.core.provenance import machine_type, provenance_versions
from riskroute.live.config import LiveConfig
from riskroute.live.http.requests import ExecutedChildRequest
from riskroute.live.learner import Learner, learn_quietly
from riskroute.live.log.interface import check_log_heads
from riskroute.live.shadow import shadow_outcome
from riskroute.live.state.amounts import NANO, amount_scale, natural_amount
from riskroute.live.state.orders import ParentOrder, minimum_order_units
from riskroute.live.state.quotes import PoolQuote, VenueQuote
from riskroute.routers.registry import router_bytes, router_from
from riskroute.routers.router import Router


def _sample_order(config: LiveConfig, number: int) -> ParentOrder:
    """Return an order in the first configured symbol, on books of all venues."""
    now = time.time_ns()
    symbol, instrument = next(iter(config.instruments.items()))
    lot, terms = instrument.lot_units, instrument_terms(instrument)
    lots = max(100, -(-minimum_order_units(terms, 100 * amount_scale(terms).at_one) // lot))
    bids, asks = ((100 * NANO, 50 * lots * lot),), ((100 * NANO + int(instrument.tick * NANO), 50 * lots * lot),)
    return ParentOrder(
        key=f"sample {number}",
        symbol=symbol,
        side="buy" if number % 2 else "sell",
        quantity=lot * (lots + number),
        deadline=now + 10 * NANO,
        quotes=tuple(VenueQuote(venue=name, bids=bids, asks=asks, at=now) for name in config.venues),
        pools=tuple(PoolQuote(pool=name) for name in config.pools),
        received=now,
        terms=terms,
    )


def warm_up(config: LiveConfig, router: Router, orders: int = 6) -> None:
    """Let a copy of a router decide and learn, so that the first order neither compiles nor loads anything."""
    learner = Learner(router_from(type(router), router_bytes(router)))
    for number in range(orders):
        order = _sample_order(config, number)
        try:
            learner.decide(order, order.received)
        except RiskrouteError:  # reported with the first real decision
            return
        quote = order.quotes[0]
        price = natural_amount((quote.asks if order.sign > 0 else quote.bids)[0][0])
        quantity = order.instrument.natural(order.quantity)
        child = ExecutedChildRequest(kind="take", place=quote.venue, sent=quantity, filled=quantity, price=price)
        learn_quietly(learner.router, shadow_outcome(order, [child]))


@dataclass(frozen=True)
class ReadinessCheck:
    """The result of one check."""

    name: str
    passed: bool
    result: str


def check_readiness(config: LiveConfig) -> Iterator[ReadinessCheck]:
    """Yield the checks of a machine and a configuration, in order."""
    yield ReadinessCheck("configuration", True, f"{config.mode} on {config.listen}, {len(config.tokens)} tokens")
    versions = ", ".join(f"{name} {version}" for name, version in provenance_versions().items())
    yield ReadinessCheck("versions", True, f"{versions}; {machine_type()}")
    folder = Path.cwd() if config.log.path is None else config.log.path.parent
    yield from _disk(folder)
    yield _log(config)
    yield _clock()
    yield _decision(config)


def _disk(folder: Path, syncs: int = 50) -> Iterator[ReadinessCheck]:
    there = next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))
    free = shutil.disk_usage(there).free
    yield ReadinessCheck("disk", free >= 1 << 30, f"{free / 1e9:.1f} GB free at {there}; needs 1 GB")
    probe = there / f".riskroute-doctor-{os.getpid()}"
    times = []
    try:
        with probe.open("wb", buffering=0) as file:
            for _ in range(syncs):
                file.write(bytes(4096))
                began = time.perf_counter()
                os.fdatasync(file.fileno())
                times.append(time.perf_counter() - began)
    except OSError as error:
        yield ReadinessCheck("fsync", False, f"{there} cannot be written: {error.strerror}")
        return
    finally:
        probe.unlink(missing_ok=True)
    middle, worst = statistics.median(times), max(times)
    text = f"median {1e3 * middle:.2f} ms, maximum {1e3 * worst:.2f} ms of {syncs}; 50 ms is the limit"
    yield ReadinessCheck("fsync", worst < 0.05, text)


def _log(config: LiveConfig) -> ReadinessCheck:
    if config.log.path is not None and not config.log.path.exists():
        return ReadinessCheck("log", True, f"{config.log.path} does not exist yet; serve creates it")
    try:
        with config.open_log(create=False) as log:
            check_log_heads(log, log.recorded())
            return ReadinessCheck("log", True, f"{log.head().seq:,} rows, stream {log.header.stream}")
    except RiskrouteError as error:
        return ReadinessCheck("log", False, str(error))


def _clock() -> ReadinessCheck:
    """Check that the wall clock follows the monotonic clock and shows a plausible year."""
    before = time.time_ns() - time.monotonic_ns()
    time.sleep(0.05)
    drift = (time.time_ns() - time.monotonic_ns()) - before
    year = time.gmtime().tm_year
    passed = abs(drift) < 10_000_000 and 2024 <= year < 2100
    return ReadinessCheck(
        "clock", passed, f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, drift {drift / 1e6:.3f} ms in 50 ms"
    )


def _decision(config: LiveConfig, decisions: int = 200) -> ReadinessCheck:
    """Measure decision times; skip the first quarter, which loads and compiles."""
    try:
        learner = Learner(config.build_router())
        began = time.perf_counter()
        times = []
        for number in range(decisions):
            order, asked = _sample_order(config, number), time.perf_counter()
            learner.decide(order, order.received)
            times.append(time.perf_counter() - asked)
    except RiskrouteError as error:
        return ReadinessCheck("router", False, str(error))
    warm = sorted(times[decisions // 4 :])
    text = (
        f"{learner.router.name}: first decision {1e3 * times[0]:.0f} ms (serve warms up), then median "
        f"{1e3 * warm[len(warm) // 2]:.3f} ms, 99th percentile {1e3 * warm[int(len(warm) * 0.99)]:.3f} ms"
    )
    most = config.router.decision_ms
    return ReadinessCheck(
        "router", most is None or 1e3 * warm[-1] < most, f"{text}; {time.perf_counter() - began:.1f} s in total"
    )
