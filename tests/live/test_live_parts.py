"""Quick forms of things that others define: each gives the same as its definition."""

from __future__ import annotations

import gc
import math
from base64 import b32encode
from hashlib import blake2b

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily

from live_engines import START, child_order, parent_order, quotes
from live_logs import MemoryLog
from riskroute.core.errors import DataError
from riskroute.core.instrument import SHARES
from riskroute.core.runtime import DurationHistogram
from riskroute.live.children import ChildMaker, _Making, child_id
from riskroute.live.http.server import _rare_collection
from riskroute.live.limits import Limits
from riskroute.live.log.interface import LogEntry, log_entries_of, log_events_after
from riskroute.live.state.events import ResumedEvent
from riskroute.live.venues.gateway import instrument_venue_terms
from riskroute.live.venues.simulated import SimulatedVenueMarket
from riskroute.routers.plan import Plan


def test_ids_of_children_are_hashes_in_base_32() -> None:
    for number in range(200):
        digest = blake2b(f"main\x1forder {number}".encode(), digest_size=10).digest()
        assert child_id("main", f"order {number}", 3, 1) == f"{b32encode(digest).decode()}-3-1"


def test_times_are_counted_in_prometheus_buckets() -> None:
    ours, theirs = DurationHistogram(), CollectorRegistry()
    histogram = Histogram("seconds", "text", buckets=DurationHistogram.buckets, registry=theirs)
    for seconds in (*DurationHistogram.buckets, *np.random.default_rng(1).exponential(0.001, 300), 5.0):
        ours.observe(float(seconds))
        histogram.observe(float(seconds))

    class Ours:
        def collect(self) -> list[object]:
            return [HistogramMetricFamily("seconds", "text", buckets=ours.cumulative(), sum_value=ours.total)]

    registry = CollectorRegistry()
    registry.register(Ours())  # type: ignore[arg-type]  # all that is asked of it
    counted = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert generate_latest(registry).splitlines() == counted


def test_an_undecodable_row_is_named_among_many() -> None:
    with MemoryLog() as log:
        log.lease("test", math.inf)
        (good,) = log_entries_of([ResumedEvent(at=1, by="desk")])
        log.append([good, good, LogEntry("resumed", "", b"nothing", 1), good]).result()
        with pytest.raises(DataError, match="row 3 of the log cannot be decoded as an event"):
            list(log_events_after(log))


def test_hidden_sizes_are_geometric_and_repeatable_per_child() -> None:
    """Mean and standard deviation of 4,000 draws lie within 4 standard errors: 6.3 shares, and about 9."""
    market = SimulatedVenueMarket(lambda symbol: quotes(), seed=3, hidden={"P": 100})
    children = [
        child_order(parent_order(f"{k}", 10**6), 0, 10**6, kind="dark", place="P", until=0) for k in range(4000)
    ]
    held = [sum(shares for _, _, shares in market.trades(child, 0, 0)) for child in children]
    assert abs(np.mean(held) - 100) < 6.4
    assert abs(np.std(held) - math.sqrt(100 * 101)) < 9
    assert held[:50] == [sum(shares for _, _, shares in market.trades(child, 0, 0)) for child in children[:50]]


def test_garbage_collection_is_rare_while_a_service_runs() -> None:
    before = gc.get_threshold()
    with _rare_collection():
        assert gc.get_threshold() == (50_000, 200, 100)
    assert gc.get_threshold() == before


def test_fills_at_a_venue_whose_book_is_not_known_any_more_are_left_out() -> None:
    order = parent_order()
    maker = ChildMaker("main", Limits().worst_price, lambda place, symbol: instrument_venue_terms(SHARES))
    made = [
        _Making(maker, order, Plan(order.key), order.quotes, (), own, START).levels()
        for own in ([], [("Z", 10.02, 50, START)])
    ]
    assert made[0].venues == made[1].venues == ("A", "B")
    np.testing.assert_array_equal(made[0].sizes, made[1].sizes)
