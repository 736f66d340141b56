"""Views of the HTTP service: orders, positions and limits in natural quantities and the currency, and metrics.

Quantities and amounts are exact decimals, which JSON shows as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from riskroute.core.errors import UnknownOrderError
from riskroute.core.instrument import Instrument, instrument_from_terms, natural_quantity
from riskroute.core.runtime import DurationHistogram
from riskroute.core.text import shown
from riskroute.live.limits import Limits
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO, amount_ratio, amount_scale, natural_amount
from riskroute.live.state.archive import archived_state
from riskroute.live.state.fold import fold_outcome
from riskroute.live.state.orders import OrderDecision, natural_order_plan
from riskroute.live.state.trading_state import ParentState, TradingState, VenueState
from riskroute.routers.router import FEEDBACK, Router

encode_view = msgspec.json.Encoder(decimal_format="number").encode
_BENCHMARK = "dark-first+sweep"  # the standard routing rule that savings are measured against


def order_view(service: Service, key: str) -> dict[str, Any]:
    """Return an order with its decision and child orders; raise `UnknownOrderError` for an unknown key."""
    engine = service.engine
    with engine.lock:
        if (parent := engine.state.parents.get(key)) is not None:
            return _order(engine.state, parent) | {"decision": decision_view(parent.decision, parent.order.instrument)}
        archive = engine.ledger.archive
    # Without the lock: orders must not wait for the store.
    state = archived_state(archive, key, engine.state) if key.isprintable() else None
    if state is None:
        if engine.order_event(key) is not None:
            raise UnknownOrderError(f"order {shown(key)} is older than two days; see the log")
        raise UnknownOrderError(f"unknown order {shown(key)}")
    parent = state.parents[key]
    return _order(state, parent) | {"decision": decision_view(parent.decision, parent.order.instrument)}


def decision_view(decision: OrderDecision, instrument: Instrument) -> OrderDecision:
    """Return a decision with natural quantities."""
    if instrument.unit == 1:
        return decision
    return msgspec.structs.replace(decision, plan=natural_order_plan(decision.plan, instrument))


def _order(state: TradingState, parent: ParentState) -> dict[str, Any]:
    order, outcome = parent.order, fold_outcome(state, parent)
    instrument, scale = order.instrument, order.scale
    natural, amount = partial(natural_quantity, instrument), scale.natural
    notional = parent.filled * parent.mid
    filled_cost = sum(child.money + child.fees for child in outcome.children if not child.marked)
    status = "settled" if parent.settled else "closing" if parent.closing else "open"
    return {
        "key": order.key,
        "symbol": order.symbol,
        "side": order.side,
        "quantity": natural(order.quantity),
        "filled": natural(parent.filled),
        "unit": instrument.quantity,
        "currency": instrument.currency,
        "status": status,
        "marked": bool(parent.marked),
        "busted": parent.busted,
        "corrections": parent.corrections,
        "at": parent.decision.at,
        "deadline": order.deadline,
        "mid": amount_ratio(parent.mid, scale.at_one),
        "router": parent.decision.router,
        "safe": parent.decision.safe,
        "cost": amount(filled_cost),
        "cost_bps": 1e4 * filled_cost / notional if notional else None,
        "children": [
            {
                "id": name,
                "kind": child.order.kind,
                "place": child.order.place,
                "quantity": natural(child.order.quantity),
                "filled": natural(child.filled),
                "price": amount_ratio(child.value, child.filled * scale.at_one) if child.filled else None,
                "fees": amount(child.fees),
                "status": child.status,
                "reason": child.reason,
            }
            for name in parent.children
            for child in (state.children[name],)
        ],
    }


def positions_view(service: Service) -> dict[str, Any]:
    """Return positions by symbol: quantity, cash without fees, and fees."""
    with service.engine.lock:
        return _positions(service.engine.state)


def _positions(state: TradingState) -> dict[str, Any]:
    found = {}
    for name, one in state.positions.items():
        instrument, amount = instrument_from_terms(name, one.terms), amount_scale(one.terms).natural
        held = natural_quantity(instrument, one.shares) - one.charged.get(instrument.quantity, 0)
        found[name] = {
            **{"quantity": held, "unit": instrument.quantity},
            **{"cash": amount(one.cash), "fees": amount(one.fees), "currency": instrument.currency},
        }
    return found


def replay_view(state: TradingState) -> dict[str, Any]:
    """Return the counts, positions and costs in a state, as ``riskroute live replay`` shows them."""
    shadow = state.settled and not state.parents and not state.positions
    return {
        "events": state.events,
        "orders": state.decisions,
        "settled": state.settled,
        "unsettled": len(state.unsettled),
        "unknown": len(state.unknown),
        "declined": state.declined,
        "corrections": state.corrections,
        "halted": state.halted,
        "currency": state.currency,
        "positions": _positions(state),
        "against": "the observed router" if shadow else _BENCHMARK,
        "totals": state.totals.view(),
    }


def state_view(service: Service, recent: int = 50) -> dict[str, Any]:
    """Return the content of the dashboard (see ``docs/live.md``), with ``recent`` orders: first the unsettled ones."""
    engine = service.engine
    beliefs = service.beliefs()
    with engine.lock:
        state = engine.state
        keys = list(state.unsettled)[-recent:]
        for key in reversed(state.parents):
            if len(keys) >= recent:
                break
            if key not in state.unsettled:
                keys.append(key)
        return replay_view(state) | {
            "status": service.status,
            "mode": service.config.mode,
            "currency": service.config.currency,
            "now": service.clock(),
            "began": service.began,
            "halted_by": state.halted_by,
            "failed": engine.failed,
            "waiting": len(state.waiting),
            "against": _BENCHMARK if service.config.mode == "live" else "the observed router",
            "router": {
                "name": engine.learner.router.name,
                "parameters": engine.learner.router.parameters,
                "belief": engine.learner.belief,
                "out": engine.learner.disabled,
                "learns_from": FEEDBACK[engine.learner.router.feedback],
                "waiting_to_learn": len(engine.learner.unlearned),
                "believes": _router_beliefs(engine.learner.router),
            },
            "beliefs": beliefs,
            "orders_now": [_order(state, state.parents[key]) for key in keys],
            "unknown_children": [
                {"id": name, "place": child.place, "parent": child.parent, "quantity": quantity}
                for name in list(state.unknown)[:recent]
                for child in (state.children[name].order,)
                for quantity in (natural_quantity(state.parents[child.parent].order.instrument, child.quantity),)
            ],
            "pools": list(service.config.pools),
            "venues": {
                name: {"open": use.open, "rejects": use.rejects, "rejects_in_a_row": use.rejects_in_a_row}
                for name, use in state.venues.items()
            },
            "connections": _connections(service),
            "service": _operations(service),
            "limits": _limits(engine.limits, state),
            "order_limits": {
                "quantity": engine.limits.order_quantity,
                "notional": natural_amount(engine.limits.order_notional),
                "collar_bps": engine.limits.collar,
                "quote_seconds": engine.limits.quote_age / NANO,
            },
        }


def _connections(service: Service) -> dict[str, Any]:
    """Return, by place, whether it is up, its newest book, what its session may send, and its reconciliation."""
    engine, newest = service.engine, service.history.newest
    places, reconciliation = engine.places, engine.reconciliation
    found = {}
    for name in places.gateways:
        budget, known = places.budgets.get(places.session(name)), engine.state.venues.get(name, VenueState())
        found[name] = {
            "down": engine.state.down.get(name, ""),
            "session": places.session(name),
            "book": newest.get(name),
            "gaps": sum(place == name for place, _ in service.gaps),
            "budget": budget
            and {"left": int(budget.left(engine.monotonic())), "most": budget.burst, "second": budget.per_second},
            "answers": _durations(places.answer_times[name]),
            "foreign": places.foreign[name],
            "reconciled": reconciliation.checked.get(name),
            "differences": reconciliation.differences.get(name, []),
            "moved": {"what": known.difference, "at": known.differed_at} if known.difference else None,
        }
    return found


def _operations(service: Service) -> dict[str, Any]:
    engine = service.engine
    learner, snapshots, archive = engine.learner, engine.snapshots, engine.ledger.archive
    commits = getattr(engine.log, "times", None)
    refits = {"every": learner.refit_every, "age": engine.belief_age, "overdue": engine.refit_overdue}
    return {
        "queue": engine.queue_length,
        "clients": {name: count() for name, count in service.clients.items()},
        "decisions": _durations(engine.decider.times),
        "commits": commits and _durations(commits.histogram) | {"longest": commits.longest},
        "snapshots": snapshots and {name: getattr(snapshots, name) for name in ("saved", "failed", "seconds", "bytes")},
        "unsaved": {"orders": len(archive.unsaved), "bytes": archive.unsaved_bytes},
        "refits": refits | {"failed": engine.failed_refits, "lags": service.learning_lags} if refits["every"] else None,
    }


def _durations(times: DurationHistogram) -> dict[str, Any]:
    """Return number and mean of the durations, and an upper bound on their 99th percentile; None if unknown."""
    buckets = times.cumulative()
    count = buckets[-1][1]
    within = next((float(bound) for bound, number in buckets[:-1] if count and number >= 0.99 * count), None)
    return {"count": count, "mean": times.total / count if count else None, "within": within}


def viewer_view(service: Service, by: str) -> dict[str, Any]:
    """Return the name and the scopes of the token named ``by``."""
    return {"name": by, "scopes": sorted({*service.config.tokens[by].scopes, "read"})}


def _router_beliefs(router: Router) -> list[dict[str, Any]]:
    try:
        return [one._asdict() for one in router.beliefs()]
    except Exception:  # a router may raise anything; the page must not fail with it
        return []


def _limits(limits: Limits, state: TradingState) -> list[dict[str, Any]]:
    """Return each limit with its current use and whether exceeding it halts trading."""
    day, money = state.day, natural_amount
    rows: list[tuple[str, float | Decimal, float | Decimal, str, bool]] = [
        ("orders of the day", day.orders, limits.day_orders, "", False),
        ("notional of the day", money(day.notional), money(limits.day_notional), state.currency, False),
        ("cost of the day", money(day.loss), money(limits.day_loss), state.currency, True),
        ("rejects of the day", day.rejects, limits.day_rejects, "", True),
        ("unknown children", len(state.unknown), limits.unknown, "", True),
        ("unsettled orders", len(state.unsettled), limits.unsettled, "", False),
    ]
    for name, use in state.symbols.items():
        if use.quantity:
            instrument, amount = instrument_from_terms(name, use.terms), amount_scale(use.terms).natural
            used = natural_quantity(instrument, use.quantity)
            rows.append((f"open quantity in {name}", used, limits.symbol_quantity, instrument.quantity, False))
            most = money(limits.symbol_notional)
            rows.append((f"open notional in {name}", amount(use.notional), most, state.currency, False))
    for name, at in state.venues.items():
        if at.open:
            rows.append((f"open children at {name}", at.open, limits.venue_open, "", False))
        if at.rejects_in_a_row:
            rows.append((f"rejects in a row at {name}", at.rejects_in_a_row, limits.rejects_in_a_row, "", True))
    return [
        {"what": what, "used": used, "most": most, "unit": unit, "halts": halts}
        for what, used, most, unit, halts in rows
    ]


class MetricsView(Collector):
    """Prometheus collector of the metrics of a service."""

    def __init__(self, service: Service) -> None:
        self._service, self._engine = service, service.engine

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        engine = self._engine
        histograms = {"router": ("Seconds per decision of the router", engine.decider.times)}
        if (commits := getattr(engine.log, "times", None)) is not None:
            histograms["commit"] = ("Seconds per commit of the log", commits.histogram)
        for name, (text, times) in histograms.items():
            buckets, total = times.cumulative(), times.total
            yield HistogramMetricFamily(f"riskroute_{name}_seconds", text, buckets=buckets, sum_value=total)
        with engine.lock:
            state = engine.state
            counters = {
                "events": ("Events in the log", state.events),
                "orders": ("Orders accepted", state.decisions),
                "orders_settled": ("Orders settled and learned", state.settled),
                "orders_declined": ("Orders refused after a decision", state.declined),
                "corrections": ("Fills, busts and corrections after their order was settled", state.corrections),
                "duplicate_reports": ("Duplicate execution reports", state.duplicates),
                "orphan_reports": ("Reports of unknown children", state.orphans),
                "beliefs": ("Beliefs adopted by the router", max(engine.learner.belief, -1) + 1),
            }
            gauges = {
                "ready": ("Whether orders are accepted", float(engine.ready and not state.halted)),
                "halted": ("Whether trading is halted", float(bool(state.halted))),
                "failed": ("Whether the log cannot be written", float(bool(engine.failed))),
                "unsettled_orders": ("Orders not settled", float(len(state.unsettled))),
                "unknown_children": ("Children whose venue has not answered", float(len(state.unknown))),
                "waiting_children": ("Finished children with outstanding fills", float(len(state.waiting))),
                "router_out": ("Whether the safe router decides", float(bool(engine.learner.disabled))),
                "day_loss": ("Cost of the day against arrival mids, in the currency", state.day.loss / NANO),
                "day_rejects": ("Rejected children of the day", float(state.day.rejects)),
            }
            archive = engine.ledger.archive
            gauges |= {
                "queue_length": ("Calls and reports that wait for the engine", float(engine.queue_length)),
                "unsaved_orders": ("Archived orders in memory, not in the state store", float(len(archive.unsaved))),
                "unsaved_bytes": ("Bytes of archived orders in memory", float(archive.unsaved_bytes)),
            }
            if engine.learner.refit_every:
                counters["refit_failures"] = ("Refits that failed or timed out", engine.failed_refits)
                gauges |= {
                    "belief_age_seconds": ("Seconds since a belief was adopted, or since the start", engine.belief_age),
                    "refit_overdue_seconds": ("Seconds since a refit was due", engine.refit_overdue),
                    "unlearned_orders": ("Settled orders that wait for a refit", float(len(engine.learner.unlearned))),
                }
            if (snapshots := engine.snapshots) is not None:
                counters |= {
                    "snapshots": ("Snapshots saved", snapshots.saved),
                    "snapshot_failures": ("Snapshots that could not be saved", snapshots.failed),
                }
                gauges |= {
                    "snapshot_seconds": ("Seconds to save the last snapshot", snapshots.seconds),
                    "snapshot_lock_seconds": ("Lock time of the last snapshot in seconds", snapshots.encoding_seconds),
                    "snapshot_bytes": ("Bytes of the last snapshot and its archived orders", float(snapshots.bytes)),
                }
            open_children = {name: float(use.open) for name, use in state.venues.items()}
            newest, now, known = dict(self._service.history.newest), self._service.clock(), engine.places
            connections: dict[str, tuple[str, Mapping[str, float]]] = {
                "place_up": (
                    "Whether a venue or pool can be used",
                    {one: one not in state.down for one in known.gateways},
                ),
                "book_age_seconds": ("Age of the newest book", {one: (now - at) / NANO for one, at in newest.items()}),
                "foreign_orders": ("Reports of foreign orders since the start", known.foreign),
                "reconciled_age_seconds": (
                    "Seconds since a venue's account was compared with the log",
                    {one: (now - at) / NANO for one, at in engine.reconciliation.checked.items()},
                ),
                "differences": (
                    "Differences of orders in the last account, and whether balances have ever differed",
                    {
                        one: len(found) + bool(one in state.venues and state.venues[one].difference)
                        for one, found in engine.reconciliation.differences.items()
                    },
                ),
            }
            budgets = {name: budget.left(engine.monotonic()) for name, budget in known.budgets.items()}
            answers = {name: (times.cumulative(), times.total) for name, times in known.answer_times.items()}
            held = {
                name: float(natural_quantity(instrument_from_terms(name, one.terms), one.shares))
                for name, one in state.positions.items()
            }
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(f"riskroute_{name}", text, value=value)
        for name, count in self._service.clients.items():
            gauges[name] = f"Open {name.replace('_', ' ')}", float(count())
        for name, (text, level) in gauges.items():
            yield GaugeMetricFamily(f"riskroute_{name}", text, value=level)
        for name, text, label, values in (
            ("open_children", "Open children at a venue", "venue", open_children),
            ("position", "Quantity held", "symbol", held),
            ("session_messages", "Orders, cancels and queries that a session may send now", "session", budgets),
            *((name, text, "place", values) for name, (text, values) in connections.items()),
        ):
            family = GaugeMetricFamily(f"riskroute_{name}", text, labels=[label])
            for key, number in values.items():
                family.add_metric([key], float(number))
            yield family
        histogram = HistogramMetricFamily("riskroute_answer_seconds", "Seconds to the first report", labels=["place"])
        for name, (buckets, total) in answers.items():
            histogram.add_metric([name], buckets, total)
        yield histogram
