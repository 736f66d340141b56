"""The trading engine: applies events, writes them to the log, and acts on them once they are durable.

The state depends on the clock only through the times in events. An order and its decision are one entry of the log; no
child is sent and no client is answered before this entry is durable. Every public method may be called from any thread.
The engine's own thread (`TradingEngine.serve`) sends to venues (`TradingEngine.pump`) and runs due timers (`tick`).
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from riskroute.core import errors
from riskroute.core.text import one_line_text, shown
from riskroute.live.children import Quotes
from riskroute.live.decider import Decider
from riskroute.live.learner import Learner
from riskroute.live.ledger import LOGGER, Ledger, LedgerOutbox, LedgerTimers, Task, Written
from riskroute.live.limits import Limits, check_order
from riskroute.live.log.interface import Log, LogHead, LogRow, log_row_events, log_row_kind
from riskroute.live.log.recovery import recover_log
from riskroute.live.log.snapshot_writer import SnapshotWriter
from riskroute.live.log.state_store import StateStore
from riskroute.live.market_history import MarketHistory
from riskroute.live.places import PlaceRules, Places
from riskroute.live.reconciliation import Reconciliation
from riskroute.live.state import events
from riskroute.live.state.amounts import NANO
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.effects import NextEffect
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import OrderDecision, ParentOrder, order_digest
from riskroute.live.state.quotes import MarketTrade, quoted_touch
from riskroute.live.state.trading_state import TradingState
from riskroute.live.venues.gateway import Gateway, GatewaySink, VenueAccount, VenueTerms
from riskroute.routers.execution import PUBLIC_AFTER
from riskroute.routers.registry import router_bytes, router_from
from riskroute.routers.router import Router

_Value = TypeVar("_Value")
_ORDER_KINDS = log_row_kind(events.AcceptedEvent), log_row_kind(events.ShadowedEvent)  # kinds of rows keyed by order


class _Call(NamedTuple):
    """A call for the engine's thread, and the key of its order, if it has one."""

    make: Callable[[], None]
    key: str | None


class _PlaceSink:
    """Passes the reports and the status of a place from its gateway to the engine."""

    def __init__(self, engine: TradingEngine, place: str) -> None:
        self._engine, self._place = engine, place

    def __call__(self, *reports: ExecutionReport) -> None:
        self._engine.report(*reports)

    def up(self) -> None:
        def up() -> None:
            self._engine.decider.maker.forget_terms()  # the venue may have changed them
            self._engine.places.up(self._place)

        self._engine.run_soon(up)

    def down(self, reason: str) -> None:
        self._engine.run_soon(lambda: self._engine.places.down(self._place, one_line_text(reason)))

    def account(self, account: VenueAccount) -> None:
        engine = self._engine

        def take() -> None:
            with engine.lock:
                if not engine.failed:
                    engine.reconciliation.take(self._place, account)

        # last, since reports that came before it are booked at the end of this turn
        engine.run_soon(lambda: engine.outbox.post_last(take))


class TradingEngine:
    """A router that trades, composed of a ledger, timers, an outbox and a decider."""

    turn = NANO // 200  # time that the thread spends on calls and reports before it works on the outbox
    longest_pump = NANO // 20  # under load the outbox never empties; timers and refits run after this time
    booked_together = 64  # reports booked per hold of the lock, for which a halt may have to wait some milliseconds
    longest_backoff = 5  # the wait for a silent venue doubles after every query, up to 2^5 times `patience`
    most_observed = 5  # public outcomes computed per tick; each takes milliseconds
    most_unobserved = 10_000  # orders that wait for their public outcomes
    pause_after_failed_refit = 10 * NANO  # otherwise a worker that dies at once would be restarted in a loop
    longest_call = 5.0  # seconds in one call after which the engine counts as stuck, and `close` abandons its thread

    def __init__(
        self,
        log: Log,  # the engine takes its lease
        gateways: Mapping[str, Gateway],  # venues and pools by name
        router: Router,  # starts from its last belief in the log, if there is one
        limits: Limits | None = None,
        *,
        refit_every: int = 0,  # settled orders per refit in the worker; 0 learns from each order when it settles
        worker: Executor | None = None,  # runs refits; default: the engine's thread
        quotes: Callable[[str], Quotes | None] | None = None,  # current books; default: those at the order's arrival
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        patience: float = 2.0,  # seconds without an answer after which a venue is queried
        decision_seconds: float | None = None,  # a router that takes longer is disabled
        store: StateStore | None = None,  # keeps snapshots and settled orders; default: two days of orders in memory
        snapshot_every: int = 10_000,  # events between snapshots; 0: none
        saver: Executor | None = None,  # saves snapshots; default: the engine's thread
        owner: str = "engine",  # name of the holder of the lease
        lease_seconds: float = math.inf,  # a third of it is the time between renewals; infinite without a standby
        reopen: Callable[[], Log] | None = None,  # opens the log again after a write whose outcome is unknown
        history: MarketHistory | None = None,  # market data around orders, for routers that learn from public data
        rules: Mapping[str, PlaceRules] | None = None,  # limits on the use of places
    ) -> None:
        self.limits, self.clock, self.monotonic, self.history = limits or Limits(), clock, monotonic, history
        learner = Learner(router, refit_every)
        self.decider = Decider(log.header.stream, self.limits, self._terms, learner, quotes, decision_seconds)
        self.ledger = Ledger(log, self.decider, self.limits, clock, monotonic, self._post)
        self.timers = LedgerTimers()
        self.decider.maker.on_wait = lambda key, when: self.timers.add(when, "look", key)
        self.places = Places(gateways, self.ledger, self.timers, int(patience * 1e9), self._post, rules)
        self.outbox = LedgerOutbox(self.places, self.ledger, self.timers, int(patience * 1e9))
        self.reconciliation = Reconciliation(self.places, self.ledger, self.timers, self._post)
        self.on_recovered: Callable[[TradingState], None] = lambda state: None  # called before venues are queried
        self._store = store
        save = self.outbox.post_last if saver is None else saver.submit
        self.snapshots = None if store is None else SnapshotWriter(store, snapshot_every, save, monotonic)
        self._owner, self._lease_seconds, self._term, self._leased = owner, lease_seconds, 0, 0
        self._worker, self._reopen, self._first_router = worker, reopen, router_bytes(router)
        self._answers: dict[str, Future[OrderDecision]] = {}  # by key, for orders that are not durable yet
        self.unwritten_digests: dict[str, bytes] = {}  # by key, for orders executed elsewhere, not durable yet
        self._first = threading.Lock()  # held while a halt or resume waits for `lock`; the engine's thread gives way
        self._inbox: queue.SimpleQueue[_Call | Sequence[ExecutionReport]] = queue.SimpleQueue()
        self._taken: deque[_Call | Sequence[ExecutionReport]] = deque()  # from the inbox, not processed yet
        self._looked_up: dict[str, LogRow | None] = {}  # rows of orders by key
        self._looked_up_at = 0  # number of archived orders at the lookup
        self._unbooked: list[ExecutionReport] = []  # reports that could not be written, for `revive`
        self._unobserved: dict[str, ParentOrder] = {}  # by key, orders whose public outcomes are not known yet
        self.failed_refits = 0
        self._started = self._closed = self._refitting = self._resuming = False
        self._refit_not_before = 0
        self._adopted = self._not_due = monotonic()  # when the last belief was adopted; when last no refit was due
        self._stale = 0  # consecutive orders with old quotes
        self._clocks = (0, 0)  # both clocks at the last tick
        self._ticked = self._silent_until = self._observed = 0
        self.end: LogHead | None = None  # head of the log, once the engine is closed

    @property
    def state(self) -> TradingState:
        """The state; hold `lock` to read it consistently."""
        return self.ledger.state

    @property
    def lock(self) -> threading.RLock:
        """The lock that is held while the state changes."""
        return self.ledger.lock

    @property
    def log(self) -> Log:
        """The log, which may be reopened after a failure."""
        return self.ledger.log

    @property
    def learner(self) -> Learner:
        """The router, with the outcomes that it has not learned yet."""
        return self.decider.learner

    @property
    def failed(self) -> str:
        """Why events cannot be recorded; empty if they can."""
        return self.ledger.failed

    @property
    def fenced(self) -> bool:
        """Whether another process has taken over the log."""
        return self.ledger.fenced

    @property
    def serving(self) -> bool:
        """Whether the engine's thread runs."""
        return self.ledger.thread is not None and not self._closed

    @property
    def stuck(self) -> bool:
        """Whether one call has kept the engine's thread busy for more than `longest_call` seconds."""
        return self.serving and self.monotonic() - self._ticked > self.longest_call * NANO

    @property
    def ready(self) -> bool:
        """Whether orders are accepted unless trading is halted: the engine works, and a place is up after the start."""
        return not self.not_ready

    @property
    def not_ready(self) -> str:
        """Why no order is accepted, even if trading is not halted; empty if orders are accepted."""
        if self.failed:
            return self.failed
        if not self._started or self._closed:
            return "it was not started, or is closed"
        if self._resuming:
            return "places are being connected"
        return self.places.unusable if self.state.down else ""

    # start, failure and revival

    def start(self) -> None:
        """Take the lease, recover the state, and query every venue; orders are accepted once `ready`."""
        self._take_lease()
        self._begin(*recover_log(self.log, self.learner, self._store))
        self.on_recovered(self.state)
        self.places.connect(self.sink)
        self._resume_orders()
        self.pump()

    def _take_lease(self) -> None:
        asked = self.monotonic()
        self._term, self._leased = self.log.lease(self._owner, self._lease_seconds).term, asked

    def _renew_lease(self) -> None:
        if self.failed or self.monotonic() - self._leased < self._lease_seconds * NANO / 3:
            return
        term = self._term
        try:
            self._take_lease()
            if self._term != term:  # another process may have written in between
                raise errors.FencedError("another process held the lease meanwhile")
        except errors.StateError as error:
            LOGGER.error("the lease was lost: %s", one_line_text(error))
            self.ledger.fail(error)

    def _begin(self, state: TradingState, archive: OrderArchive, term: int) -> None:
        """Continue from a recovered state."""
        with self.lock:
            self.ledger.reset(state, archive)
            if self.snapshots is not None:
                self.snapshots.begin(state.events, term)
            learner, name = self.learner, self.learner.router.name
            if learner.belief < 0 or learner.disabled:  # a new log, or a disabled router, which a restart enables
                known = learner.refit_every > 0 and learner.belief >= 0
                first = learner.planned if known else router_bytes(learner.router)
                after = -1 if known else state.events
                belief = learner.belief + 1
                self.ledger.record(
                    events.PlannedEvent(
                        at=self.clock(), belief=belief, router=name, after=after, learned=0, state=first
                    )
                )
            self.places.begin("not connected yet")
            self.reconciliation.begin()
            self.decider.warm_up(self.clock(), self.places.gateways)
            self._started = self._resuming = True
            self._adopted = self._not_due = self.monotonic()
            self._clocks = self.clock(), self.monotonic()

    def _resume_orders(self) -> None:
        """Continue unsettled orders once places have had time to connect; no share is abandoned before that."""
        with self.lock:
            if self.failed or not self._resuming or not self.places.begun:
                return
            self._resuming = False
            for key in list(self.state.unsettled):
                self._start_timers(key)
                self.ledger.record(NextEffect(key))
            if self.state.halted:
                self.outbox.cancel_all()

    def revive(self) -> bool:
        """Recover from the log after a failed write, and halt trading; return whether the engine works again.

        Venues are queried for all open children, so reports that were dropped meanwhile are booked.
        """
        failure = self.ledger.failure
        if not self._started or self._closed or not isinstance(failure, errors.WriteError):
            return False
        try:
            if not failure.definite:
                if self._reopen is None:
                    return False
                self.log.close()
                self.ledger.log = self._reopen()
            self._take_lease()
            learner = Learner(router_from(self.learner.kind, self._first_router), self.learner.refit_every)
            recovered = recover_log(self.log, learner, self._store)
        except errors.LeaseError as error:
            self.ledger.failure = error
            return False
        except errors.StateError:
            return False
        with self.lock:
            self.decider.learner = learner
            self.timers.clear()
            self.decider.maker.clear()
            self.outbox.clear()
            self._refitting, self._unobserved = False, {}
            self._begin(*recovered)
            written = self.ledger.record(
                events.HaltedEvent(
                    at=self.clock(), reason=f"the log could not be written: {failure.cause}", by="limits"
                )
            )
        if (refused := written.exception()) is not None:
            self.ledger.fail(refused)  # a future wakes this thread before the ledger gets the error
            return False
        with self.lock:
            for place in list(self.places.connected):
                self.places.resolve(place)
        self._resume_orders()
        unbooked, self._unbooked = self._unbooked, []
        self.book(unbooked)  # no query returns a bust of a child that is done
        return not self.failed

    # orders

    def submit(self, order: ParentOrder) -> Future[OrderDecision]:
        """Accept an order; the future has its decision once it is durable. A repeated order gets the same decision.

        Raises `InputError` if the order is invalid or another order has its key, `RefusedError` if it is refused, and
        `StateError` if the engine is not started, has failed or is closed.
        """
        check_order(order)
        digest = order_digest(order)
        with self.lock:
            made = self.known(order.key, digest) or self.accept(order, digest, new_engine_answer(), self.clock())
        self._pump_unless_served()
        return made

    def accept(
        self, order: ParentOrder, digest: bytes, answer: Future[OrderDecision], received: int
    ) -> Future[OrderDecision]:
        """Accept a valid order; ``answer`` gets its decision. Call `known` first, and hold `lock` during both calls.

        ``digest`` is its `order_digest`. The age of its quotes is measured at ``received``: a stall of the router
        neither makes quotes old nor halts trading.
        """
        with self.lock:
            now = self.clock()
            self.check_working()
            if waiting := self.not_ready:
                raise errors.RefusedError(f"the router is not ready: {waiting}")
            if now - received > self.limits.quote_age:
                raise errors.OverloadedError(
                    f"the router is overloaded: the order waited {(now - received) / NANO:.1f} s; try again"
                )
            usable, unusable = self.limits.usable_quotes(order, received, now, self.state.down)
            if not all(quoted_touch(usable)):
                self._stale += any(quote.venue not in self.state.down for quote in order.quotes)
                if self._stale > self.limits.stale_quotes:
                    self.ledger.halt(f"{self._stale} orders in a row had old quotes")
                raise errors.RefusedError(unusable)
            self._stale = 0
            if unusable or self.state.down:
                pools = tuple([one for one in order.pools if one.pool not in self.state.down])
                order = msgspec.structs.replace(order, quotes=usable, pools=pools)
            if refusal := self.limits.order_refusal(self.state, order, now):
                raise errors.RefusedError(refusal)
            order = msgspec.structs.replace(order, received=now)
            decision, children, refusal = self.decider.decide(self.state, order, now, self.state.decisions)
            if refusal:
                if decision.consulted:  # the router was asked: a replay must ask it again
                    self.ledger.record(events.DeclinedEvent(at=now, order=order, plan=decision.plan, reason=refusal))
                raise errors.RefusedError(refusal)
            self._answers[order.key] = answer
            self.ledger.record_in_batch(
                events.AcceptedEvent(at=now, order=order, decision=decision, children=children, digest=digest),
                lambda written: complete_engine_answer(self._answers.pop(order.key), written, decision),
            )
            self._start_timers(order.key)
            self.await_public_data(order)
        return answer

    def known(self, key: str, digest: bytes) -> Future[OrderDecision] | None:
        """Return a repeated order's answer, None for a new key; raise `KeyUsedError` if the key is another order's."""
        with self.lock:
            # After a failed write, the state may have orders that the log lacks.
            if not self.failed and (parent := self.state.parents.get(key)) is not None:
                before, decision = parent.digest, parent.decision
            elif (event := self._known_event(key)) is not None:
                # No order matches the key of an order that another router executed.
                before = event.digest if isinstance(event, events.AcceptedEvent) else b""
                decision = event.decision
            else:
                return None
            if before != digest:
                raise errors.KeyUsedError(f"key {shown(key)} belongs to another order")
            if (waiting := self._answers.get(key)) is not None:
                return waiting
            answer: Future[OrderDecision] = new_engine_answer()
            answer.set_result(decision)
            return answer

    def order_event(self, key: str) -> events.AcceptedEvent | events.ShadowedEvent | None:
        """Return the durable event of an order, however old; None for a new key."""
        return _order_event(self._find([key]).get(key))

    def _find(self, keys: Sequence[str]) -> dict[str, LogRow]:
        return self.log.find(_ORDER_KINDS, [key for key in keys if key.isprintable()])  # no order has other keys

    def _known_event(self, key: str) -> events.AcceptedEvent | events.ShadowedEvent | None:
        """Return the `order_event` of a key, from `_looked_up` if it is still valid."""
        if key in self._looked_up and self._looked_up_at == self.state.archived:
            return _order_event(self._looked_up.pop(key))
        return self.order_event(key)

    def check_working(self) -> None:
        """Raise `StateError` unless the engine is started and can write its log."""
        if self.failed:
            raise errors.StateError(f"the engine has failed: {self.failed}")
        if not self._started or self._closed:
            raise errors.StateError("the engine must be running: it was not started, or is closed")

    def halt(self, reason: str, by: str) -> Written:
        """Halt trading: send no children, cancel resting ones. The future is done when the halt is durable."""
        with self._first, self.lock:
            self.check_working()
            written = self.ledger.record(events.HaltedEvent(at=self.clock(), reason=reason, by=by))
        self._pump_unless_served()
        return written

    def resume(self, by: str) -> Written:
        """Resume trading after a halt."""
        with self._first, self.lock:
            self.check_working()
            if not self.state.halted:
                raise errors.StateError("trading must be halted to be resumed, was not halted")
            self._stale = 0
            written = self.ledger.record(events.ResumedEvent(at=self.clock(), by=by))
            for key in list(self.state.unsettled):
                self.ledger.record(NextEffect(key))
        self._pump_unless_served()
        return written

    # reports and market data

    def report(self, *reports: ExecutionReport) -> None:
        """Book execution reports: at once, or in the next turn of the engine's thread."""
        if self.ledger.thread is None:
            self.book(list(reports))
        else:
            self._inbox.put(reports)

    def book(self, reports: list[ExecutionReport]) -> None:
        """Book execution reports now; duplicates are ignored."""
        with self.lock:
            if self._closed:
                return  # venues are queried again at the next start
            if self.failed:
                self._unbooked += reports
                return
            now, reports = self.clock(), self.places.ours(reports)
            new: dict[str, ExecutionReport] = {}
            for report in reports:
                if (key := report.key) not in self.state.reports:
                    new.setdefault(key, report)
            if new:
                written = self.ledger.record(*[events.ReportedEvent(at=now, report=one) for one in new.values()])
                written.add_done_callback(lambda done: self._keep_unbooked(done, new.values()))
            self.places.answered(reports)
            if self.state.waiting:
                for report in new.values():
                    if report.child in self.state.waiting:
                        self.timers.add(now + self.outbox.patience, "child", report.child)
        self._pump_unless_served()

    def _keep_unbooked(self, written: Written, reports: Iterable[ExecutionReport]) -> None:
        if written.exception() is not None:
            with self.lock:
                self._unbooked += reports

    def record_quotes(self, symbol: str, quotes: Quotes, trades: tuple[MarketTrade, ...], terms: str = "") -> None:
        """Write books and trades of a symbol to the log."""
        with self.lock:
            if self._started and not self._closed and not self.failed:
                event = events.QuotedEvent(at=self.clock(), symbol=symbol, quotes=quotes, trades=trades, terms=terms)
                self.ledger.record(event)

    def await_public_data(self, order: ParentOrder) -> None:
        """Observe the market until after the deadline of an order, if the router learns from public data."""
        full = len(self._unobserved) >= self.most_unobserved
        if self.history is None or self.learner.kind.feedback != "F3" or full:
            return
        self.history.expect(order)
        if (now := self.clock()) >= order.deadline + PUBLIC_AFTER:
            self._record_public_data(order, now)
        else:
            self._unobserved[order.key] = order
            self.timers.add(order.deadline + PUBLIC_AFTER, "public", order.key)

    def _record_public_data(self, order: ParentOrder, now: int) -> None:
        if self.history is not None and (seen := self.history.seen(order, now)) is not None:
            self.ledger.record(seen)

    @property
    def queue_length(self) -> int:
        """Number of calls and batches of reports that wait for the engine's thread."""
        return self._inbox.qsize() + len(self._taken)

    @property
    def belief_age(self) -> float:
        """Seconds since the last belief was adopted, or since the start."""
        return (self.monotonic() - self._adopted) / NANO

    @property
    def refit_overdue(self) -> float:
        """Seconds for which a refit has been due; 0 if none is due."""
        return (self.monotonic() - self._not_due) / NANO if self.learner.refit_due else 0.0

    # time

    def tick(self) -> None:
        """Run due timers, refits and snapshots."""
        with self.lock:
            if not self._started or self._closed or self.failed:
                return
            now = self.clock()
            self._watch_clocks(now)
            self._resume_orders()
            for kind, name, attempts in self.timers.due(now):
                self._on_timer(now, kind, name, attempts)
                if self._first.locked():
                    break  # the other timers run in the next turn
            self.timers.prune(self._is_needed)
            self._refit()
            writer, archive = self.snapshots, self.ledger.archive
            if writer is not None and (self.state.events >= writer.due or archive.unsaved_bytes > writer.most_unsaved):
                writer.take(self.log, self.state, archive, self.learner, self.ledger.last, self.lock)
        self.pump()

    def _watch_clocks(self, now: int) -> None:
        passed = self.monotonic()
        jump = (now - self._clocks[0]) - (passed - self._clocks[1])
        self._clocks = now, passed
        if abs(jump) > self.limits.clock_jump:
            self.ledger.halt(f"the clock jumped by {jump / 1e9:.3f} s")
        # After a pause of this process, reports that arrived meanwhile are booked before venues count as silent.
        if self._ticked and passed - self._ticked > self.outbox.patience:
            self._silent_until = now + self.outbox.patience
        self._ticked, self._observed = passed, 0

    def _start_timers(self, key: str) -> None:
        parent = self.state.parents[key]
        if not parent.settled:
            self.timers.add(parent.order.deadline, "deadline", key)
            recall = parent.decision.plan.get("recall")
            if recall is not None:
                self.timers.add(parent.decision.at + int(recall * 1e9), "recall", key)

    def _on_timer(self, now: int, kind: str, name: str, attempts: int) -> None:
        if kind == "child":
            self._query_silent(now, name, attempts)
        elif kind == "place":
            self.places.resolve(name)
        elif kind == "session":
            self.outbox.release(name)
        elif kind == "account":
            self.reconciliation.on_timer(name, attempts > 0)
        elif kind == "public" and self._observed >= self.most_observed:
            self.timers.add(now + 1, "public", name)
        elif kind == "public":
            self._observed += 1
            self._record_public_data(self._unobserved.pop(name), now)
        elif kind == "look" and name in self.state.unsettled:
            self.ledger.record(NextEffect(name))
        elif name in self.state.unsettled:
            if kind == "deadline":
                self.ledger.record(events.ExpiredEvent(at=now, parent=name))
            else:
                self.ledger.record(events.RecalledEvent(at=now, parent=name, kind="dark_rest"))

    def _is_needed(self, kind: str, name: str) -> bool:
        """Return whether a timer may still have an effect."""
        return kind in ("child", "place", "session", "account") or name in (
            self._unobserved if kind == "public" else self.state.unsettled
        )

    def _query_silent(self, now: int, name: str, attempts: int) -> None:
        """Query the venue of a child if its answer is overdue."""
        child = self.state.children.get(name)
        if child is None or child.done:
            self.timers.answer_by.pop(name, None)
            return
        if self.timers.answer_by.get(name, 0) > now:
            return
        if self._silent_until > now:
            self.timers.add(self._silent_until, "child", name, attempts)
            return
        awaited = name in self.places.unresolved.get(child.order.place, ())
        heard = child.status in ("acknowledged", "partly_filled") and not awaited
        if not heard or child.cancelling or child.order.immediate or child.final >= 0:
            self.ledger.record(events.UnansweredEvent(at=now, child=name))
            later = now + (self.outbox.patience << min(attempts + 1, self.longest_backoff))
            self.timers.add(later, "child", name, attempts + 1)
        else:  # it rests, and its venue owes no answer until the next request
            self.timers.answer_by.pop(name, None)

    def _refit(self) -> None:
        learner, now = self.learner, self.monotonic()
        if not learner.refit_due:
            self._not_due = now
            return
        if self._refitting or now < self._refit_not_before:
            return
        job, learned, after, self._refitting = learner.next_refit(), len(learner.unlearned), self.state.events, True

        def adopt(state: bytes) -> None:
            with self.lock:
                if learner is not self.learner:
                    return  # `revive` has begun anew: this belief may include events that were never written
                self._refitting = False
                if not (self._closed or self.failed):
                    name, belief = learner.router.name, learner.belief + 1
                    self.ledger.record(
                        events.PlannedEvent(
                            at=self.clock(), belief=belief, router=name, after=after, learned=learned, state=state
                        )
                    )
                    self._adopted = self._not_due = self.monotonic()

        def on_fitted(work: Future[bytes]) -> None:
            if (error := work.exception()) is None:
                learner.prepare_belief(work.result(), after)
                self.outbox.post_last(lambda: adopt(work.result()))
            elif not self._closed:
                with self.lock:
                    self.failed_refits += 1
                    if learner is self.learner:
                        self._refitting = False
                        self._refit_not_before = self.monotonic() + self.pause_after_failed_refit
                said, count = one_line_text(error) or type(error).__name__, len(learner.unlearned)
                LOGGER.warning("a refit failed: %s; the last belief decides, and %d orders are unlearned", said, count)
            self.wake()

        if self._worker is None:
            adopt(job())
        else:
            self._worker.submit(job).add_done_callback(on_fitted)

    # the engine's thread

    def _post(self, tasks: list[Task]) -> None:
        self.outbox.post(tasks)
        self._inbox.put(())

    def pump(self) -> None:
        """Run the tasks of durable events; in the engine's own thread, for `longest_pump` at most."""
        if threading.current_thread() is self.ledger.thread:
            until = self.monotonic() + self.longest_pump

            def more_time() -> bool:
                self._let_halts_go_first()
                return self.monotonic() < until

            if not self.outbox.work(more_time):
                self._inbox.put(())
        else:
            self.outbox.work(lambda: True)

    def _pump_unless_served(self) -> None:
        if self.ledger.thread is None:
            self.pump()

    def wake(self) -> None:
        """Run waiting tasks, here or in the engine's thread."""
        self._pump_unless_served()
        self._inbox.put(())

    def flush(self, seconds: float = 10.0) -> None:
        """Wait until everything recorded is durable and its tasks have run, but no longer than ``seconds``."""
        self.ledger.append_batch()
        until = self.monotonic() + int(seconds * NANO)
        while (last := self.ledger.last) is not None and (left := until - self.monotonic()) > 0:
            wait([last], left / NANO)
            self.pump()
            if self.failed or (last is self.ledger.last and self.outbox.empty):
                return

    def call_soon(self, call: Callable[[], None], key: str | None = None) -> None:
        """Queue a call for the engine's thread, with the key of its order if it has one; the call must not raise."""
        self._inbox.put(_Call(call, key))

    def run_soon(self, call: Callable[[], None]) -> None:
        """Make a call with the lock held, at once or in the next turn of the engine's thread; none after `close`."""

        def run() -> None:
            with self.lock:
                if self._started and not self._closed:
                    call()
                    self._resume_orders()
            self._pump_unless_served()

        if self.ledger.thread is None:
            run()
        else:
            self.call_soon(run)

    def sink(self, place: str) -> GatewaySink:
        """Return what the gateway of a place reports to."""
        return _PlaceSink(self, place)

    def _terms(self, place: str, symbol: str) -> VenueTerms | None:
        gateway = self.places.gateways.get(place)
        return None if gateway is None else gateway.terms(symbol)

    def serve(self, every: float = 0.02) -> None:
        """Start the engine's thread, which runs until `close` and checks timers at least every ``every`` seconds."""
        self._ticked = self.monotonic()
        self.ledger.thread = threading.Thread(target=self._run, args=(every,), name="riskroute engine", daemon=True)
        self.ledger.thread.start()

    def _run(self, every: float) -> None:
        tried = ticked = self.monotonic()
        while not self._closed:
            try:
                busy = self._take(every)
                self.pump()
                if busy and self.monotonic() < ticked + NANO // 200:  # under load, check timers every 5 ms
                    continue
                self._renew_lease()
                self.tick()
                ticked = self.monotonic()
                if self.failed and ticked >= tried + NANO // 2:
                    self.revive()
                    tried = self.monotonic()
            except Exception as error:  # the state is uncertain: accept no more orders, and report it
                LOGGER.exception("the engine broke")
                self.ledger.failed = self.failed or f"the engine broke: {type(error).__name__}"

    def _take(self, seconds: float) -> bool:
        """Wait for calls and reports; make the calls, then book the reports. Return whether there were any."""
        taken = self._taken
        if not taken:
            try:
                taken.append(self._inbox.get(timeout=seconds))
            except queue.Empty:
                return False
            self._take_rest()
        reports: list[ExecutionReport] = []
        until = self.monotonic() + self.turn
        while taken:
            one = taken.popleft()
            if isinstance(one, _Call):
                self._let_halts_go_first()
                one.make()
            else:
                reports += one
            if self.monotonic() >= until or self.outbox.urgent:
                break
            if not taken:
                self._take_rest()
        self.ledger.append_batch()
        for begin in range(0, len(reports), self.booked_together):
            self._let_halts_go_first()
            self.book(reports[begin : begin + self.booked_together])
        return True

    def _let_halts_go_first(self) -> None:
        """Wait until no halt waits for `lock`: Python's locks are unfair, and this thread would get `lock` again."""
        with self._first:
            pass

    def _take_rest(self) -> None:
        """Empty the inbox, and look up the keys of its orders together."""
        with suppress(queue.Empty):
            while True:
                self._taken.append(self._inbox.get_nowait())
        keys = [one.key for one in self._taken if isinstance(one, _Call) and one.key is not None]
        if not keys:
            return
        with suppress(Exception):  # each key is looked up alone later, and its order refused if this fails too
            # One query, since a database takes long to answer, and without `lock`, so that no halt waits for it.
            found = self._find(keys)
            # An order that is accepted after this is in the state, at least until another one is archived.
            self._looked_up, self._looked_up_at = {key: found.get(key) for key in keys}, self.state.archived

    def close(self) -> None:
        """Stop. Open children stay at their venues, which are queried at the next start."""
        self._closed = True
        self._inbox.put(())
        if self.ledger.thread is not None:
            self.ledger.thread.join(self.longest_call)
            if self.ledger.thread.is_alive():  # it may hold `lock`, which closing the rest needs
                LOGGER.warning(
                    "the engine does not return from a call and is abandoned: the next start recovers from the log"
                )
                return
        self.places.close()
        self.decider.close()
        if self.snapshots is not None:
            self.snapshots.close()
        with suppress(errors.RiskrouteError):
            if (last := self.ledger.last) is not None:
                last.exception()
            self.end = self.log.head()
        self.log.close()


def _order_event(row: LogRow | None) -> events.AcceptedEvent | events.ShadowedEvent | None:
    return None if row is None else log_row_events(row)[0]  # type: ignore[return-value]  # of these kinds


def complete_engine_answer(answer: Future[_Value], done: Future[Any], value: _Value) -> None:
    """Set the result of an answer to ``value``, or let it fail with the error of the write."""
    if (error := done.exception()) is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)


def new_engine_answer() -> Future[Any]:
    """Return a future that cannot be cancelled: an order is decided whether or not its client still waits."""
    answer: Future[Any] = Future()
    answer.set_running_or_notify_cancel()
    return answer
