"""What must hold: the guarantees of docs/live.md, checked at every step where that is cheap, and in full at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar
from unittest import mock

import msgspec

from riskroute.live.http.views import decision_view, encode_view
from riskroute.live.limits import Limits
from riskroute.live.log.interface import NO_CHAIN, Log, LogHead, LogRow, check_links, log_row_events, verify_log_chain
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.state import fold
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.events import (
    AcceptedEvent,
    AnyEvent,
    HaltedEvent,
    IntendedEvent,
    PlaceDownEvent,
    PlaceUpEvent,
    ReportedEvent,
    ResumedEvent,
    SettledEvent,
)
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.fold import apply
from riskroute.live.state.orders import ChildOrder, ParentOrder, minimum_order_units
from riskroute.live.state.trading_state import TradingState, encode_trading_state
from riskroute.routers.router import Router
from simulated_service.venues import Venue, fills, shares


class BrokenGuaranteeError(Exception):
    """A guarantee does not hold. It is noted when it is raised: whoever calls may survive all exceptions."""

    noted: ClassVar[list[str]] = []  # those of the simulation that runs

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.noted.append(message)


class Durable:
    """What the log holds for certain, folded a second time as its rows become durable."""

    def __init__(self) -> None:
        self.head = LogHead(-1, NO_CHAIN)
        self.state, self.archive = TradingState(), OrderArchive()
        self.accepted: dict[str, tuple[ParentOrder, Any]] = {}
        self.children: dict[str, ChildOrder] = {}
        self.made: dict[str, ExecutionReport] = {}  # every report that a venue has made
        self.reports: set[str] = set()
        self.settled: dict[str, None] = {}
        self.halted = False
        self.down: set[str] = set()

    def take(self, rows: Sequence[LogRow]) -> None:
        """Take rows that have become durable."""
        self.head = check_links(rows, self.head)
        for row in rows:
            if row.kind != "header":
                for event in log_row_events(row):
                    self._event(event)

    def _event(self, event: AnyEvent) -> None:
        apply(self.state, event, self.archive)
        if isinstance(event, ReportedEvent):
            if self.made.get(event.report.key) != event.report:
                raise BrokenGuaranteeError(f"no venue has made the report {event.report.key!r} in the log")
            self.reports.add(event.report.key)
        elif isinstance(event, AcceptedEvent):
            if event.order.key in self.accepted:
                raise BrokenGuaranteeError(f"the order {event.order.key} is in the log twice")
            self.accepted[event.order.key] = event.order, event.decision
            self._intend(event.children)
        elif isinstance(event, IntendedEvent):
            self._intend(event.children)
        elif isinstance(event, PlaceDownEvent):
            self.down.add(event.place)
        elif isinstance(event, PlaceUpEvent):
            self.down.discard(event.place)
        elif isinstance(event, SettledEvent):
            if event.outcome.parent in self.settled:
                raise BrokenGuaranteeError(f"the order {event.outcome.parent} is learned twice")
            self.settled[event.outcome.parent] = None
        elif isinstance(event, HaltedEvent):
            self.halted = True
        elif isinstance(event, ResumedEvent):
            self.halted = False

    def _intend(self, children: Sequence[ChildOrder]) -> None:
        for child in children:
            if child.place in self.down:
                raise BrokenGuaranteeError(f"the child {child.id} is decided for {child.place}, which is down")
            self.children[child.id] = child


class Checks:
    """Everything that is checked.

    Parameters
    ----------
    venues : dict[str, Venue]
        The venues' own account.
    limits : Limits
        Limits of children.
    """

    def __init__(self, venues: dict[str, Venue], limits: Limits) -> None:
        self.venues, self.limits = venues, limits
        self.durable = Durable()
        self.answered: dict[str, Any] = {}  # decisions that clients know, by key
        self._exposure: dict[str, dict[str, ChildOrder]] = {}  # children at venues by order
        for venue in venues.values():
            venue.on_arrival = self.on_arrival
            venue.on_report = self.on_report

    # at every step

    def on_rows(self, rows: Sequence[LogRow]) -> None:
        """Note rows that are durable, and check the reports among them."""
        self.durable.take(rows)

    def on_report(self, report: ExecutionReport) -> None:
        """Note a report that a venue makes."""
        self.durable.made[report.key] = report

    def on_send(self, child: ChildOrder) -> None:
        """Check a child that the service sends."""
        if child.id not in self.durable.children:
            raise BrokenGuaranteeError(f"the child {child.id} is sent before its decision is durable")
        if self.durable.halted:
            raise BrokenGuaranteeError(f"the child {child.id} is sent after a halt")
        order, _ = self.durable.accepted[child.parent]
        mid = self.durable.state.parents[child.parent].mid
        worst = self.limits.worst_price(mid // order.scale.unit, order.sign)
        if order.limit is not None:
            worst = min(worst, order.limit) if order.sign > 0 else max(worst, order.limit)
        if child.limit is None or order.sign * child.limit > order.sign * worst:
            raise BrokenGuaranteeError(f"the limit of the child {child.id} is beyond the collar")
        if child.quantity < minimum_order_units(order.terms, mid):
            raise BrokenGuaranteeError(f"the child {child.id} is smaller than its venue accepts")

    def on_arrival(self, child: ChildOrder, again: bool) -> None:
        """Check a child that arrives at its venue."""
        if again:
            raise BrokenGuaranteeError(f"{child.place} gets the child {child.id} twice")
        siblings = self._exposure.setdefault(child.parent, {})
        held = child.quantity
        for name, one in siblings.items():
            there = self.venues[one.place].children[name]
            held += there.cum + (there.leaves if there.open else 0)
        siblings[child.id] = child
        quantity = self.durable.accepted[child.parent][0].quantity
        if held > quantity:
            raise BrokenGuaranteeError(
                f"venues hold {held} shares of the order {child.parent}, which is for {quantity}"
            )

    def on_answer(self, key: str, decision: Any) -> None:
        """Check a decision that a client gets."""
        if key not in self.durable.accepted:
            raise BrokenGuaranteeError(f"the order {key} is answered before it is durable")
        order, made = self.durable.accepted[key]
        plain = json.loads(encode_view(decision_view(made, order.instrument)))
        if plain != decision:
            raise BrokenGuaranteeError(f"the order {key} is answered with another decision than that of the log")
        before = self.answered.setdefault(key, decision)
        if before != decision:
            raise BrokenGuaranteeError(f"the order {key} is answered in two ways")

    # after a start

    def on_opened(self, log: Log) -> None:
        """Check that a log that is opened again has everything that was durable; note what it has beyond."""
        durable = self.durable
        if durable.head.seq >= 0:
            row = next(iter(log.read(durable.head.seq - 1, 1)), None)
            if row is None or row.chain != durable.head.chain:
                raise BrokenGuaranteeError(
                    f"the log ends with row {log.head().seq}, and row {durable.head.seq} was durable before the crash"
                )
        more = list(log.read(durable.head.seq))
        if more:
            durable.take(more)

    def on_recovered(self, state: TradingState, archive: OrderArchive) -> None:
        """Check the state and the archive that the service begins with against those of the rows."""
        for name, order in self.durable.archive.unsaved.items():
            if archive.find(name) != order:
                raise BrokenGuaranteeError(f"the archived order {name} is lost or another one after the recovery")
        if encode_trading_state(state) != encode_trading_state(self.durable.state):
            raise BrokenGuaranteeError(
                f"the recovered state is not that of the log: {difference(state, self.durable.state)}"
            )

    # at the end

    def at_the_end(self, log: Log, kind: type[Router], refits: bool) -> None:
        """Check a log after all faults, and after everything has settled."""
        if verify_log_chain(log) != self.durable.head:
            raise BrokenGuaranteeError("the log does not end with the last row that was durable")
        state = self.durable.state
        if state.unsettled:
            raise BrokenGuaranteeError(
                f"{len(state.unsettled)} orders are not settled, such as {next(iter(state.unsettled))}"
            )
        if state.unknown or state.waiting:
            raise BrokenGuaranteeError("children are unknown, or wait for fills")
        if state.orphans or state.overfilled:
            raise BrokenGuaranteeError(
                f"{state.orphans} reports of unknown children, {state.overfilled} orders overfilled"
            )
        if sorted(self.durable.settled) != sorted(self.durable.accepted):
            raise BrokenGuaranteeError("not every order was learned once")
        for key in self.answered:
            if key not in self.durable.accepted:
                raise BrokenGuaranteeError(f"the order {key} was answered, and is not in the log")
        with mock.patch.object(fold, "SETTLED_KEPT", 10**9):  # all orders in the state
            self.compare_with_venues(replay_log(log))
        check = verify_log(log, kind, refits=refits)
        if not check.holds:
            raise BrokenGuaranteeError(f"decisions come out differently: {check.different[:3]}")

    def compare_with_venues(self, state: TradingState) -> None:
        """Check that every fill is booked exactly once, by the venues' own account."""
        totals: dict[str, list[int]] = {}
        for venue in self.venues.values():
            for symbol, total in shares(venue).items():
                held = totals.setdefault(symbol, [0, 0, 0])
                for place, amount in enumerate(total):
                    held[place] += amount
            for name, there in venue.children.items():
                child = state.children.get(name)
                if child is not None and child.filled != sum(one.quantity for one in fills(there)):
                    raise BrokenGuaranteeError(
                        f"{child.filled} shares of {name} are booked, {there.cum} traded at {venue.place}"
                    )
        booked = {name: [one.shares, one.cash, one.fees] for name, one in state.positions.items()}
        if {name: total for name, total in totals.items() if any(total)} != {
            name: total for name, total in booked.items() if any(total)
        }:
            raise BrokenGuaranteeError(f"positions are {booked}, at the venues {totals}")


def difference(first: TradingState, second: TradingState) -> str:
    """Return the names of the fields in which two states differ."""
    return ", ".join(
        name
        for name in first.__struct_fields__
        if msgspec.msgpack.encode(getattr(first, name)) != msgspec.msgpack.encode(getattr(second, name))
    )
