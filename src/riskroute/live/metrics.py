"""Numbers for Prometheus: counters and gauges from the state of the engine, and how long the router takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from riskroute.live.service import Service
from riskroute.live.state.events import NANO

BUCKETS = (1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.2, 1.0)
"""Seconds up to which times are counted together."""


class Times:
    """Counts times by how long they were; one thread at a time counts, so that no lock is needed for every order."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a time."""
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._total += seconds

    def family(self, name: str, text: str) -> Metric:
        """All of them, as Prometheus counts: those of at most so many seconds."""
        buckets = zip((*map(str, BUCKETS), "+Inf"), accumulate(self._counts), strict=True)
        return HistogramMetricFamily(name, text, buckets=list(buckets), sum_value=self._total)


class Metrics:
    """The numbers of one service, in a registry of their own."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.registry = CollectorRegistry()
        self.router_seconds = Times()
        self.registry.register(self)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """The numbers of the engine, and how long the router took."""
        yield self.router_seconds.family("riskroute_router_seconds", "Time that the router took for a decision")
        engine = self.service.engine
        with engine.lock:
            state = engine.state
            counters = {
                "events": ("Events in the log", state.events),
                "orders": ("Orders accepted", state.decisions),
                "orders_settled": ("Orders settled and learned", state.settled),
                "orders_declined": ("Orders refused after the router was asked", state.declined),
                "corrections": ("Fills changed after their order was settled", state.corrections),
                "duplicate_reports": ("Reports that came again", state.duplicates),
                "orphan_reports": ("Reports of children that nobody knows", state.orphans),
                "beliefs": ("Beliefs that the router has had", max(engine.learner.belief, -1) + 1),
            }
            gauges = {
                "ready": ("Whether orders are accepted", float(engine.ready and not state.halted)),
                "halted": ("Whether trading is halted", float(bool(state.halted))),
                "failed": ("Whether the engine must be started anew", float(bool(engine.failed))),
                "unsettled_orders": ("Orders not settled", float(len(state.unsettled))),
                "unknown_children": ("Children of which nothing is heard", float(len(state.unknown))),
                "waiting_children": ("Children whose fills are on their way", float(len(state.waiting))),
                "router_out": ("Whether the safe router decides", float(bool(engine.learner.out))),
                "day_loss_dollars": ("Cost of the day against arrival mids", state.day.loss / NANO),
                "day_rejects": ("Rejected children of the day", float(state.day.rejects)),
            }
            open_children = {name: float(use.open) for name, use in state.venues.items()}
            shares = {name: float(one.shares) for name, one in state.positions.items()}
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(f"riskroute_{name}", text, value=value)
        for name, (text, level) in gauges.items():
            yield GaugeMetricFamily(f"riskroute_{name}", text, value=level)
        for name, text, label, values in (
            ("open_children", "Children at a venue", "venue", open_children),
            ("position_shares", "Shares held", "symbol", shares),
        ):
            family = GaugeMetricFamily(f"riskroute_{name}", text, labels=[label])
            for key, number in values.items():
                family.add_metric([key], number)
            yield family
