"""The engine: what comes in is applied and written down, and once it is durable, what follows from it is done.

It is the only place with a clock. An order and its decision are one entry of the log; nothing is sent, and nobody gets
an answer, before that entry is durable. All doors may be used from any thread. What must be done outside is done by
`Engine.pump`, and what is due by the clock by `Engine.tick`: a thread of the service calls both (`Engine.serve`), or a
test does.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

import msgspec

from riskroute.core.errors import InputError, StateError, shown
from riskroute.live.children import Quotes
from riskroute.live.desk import Desk
from riskroute.live.engine_thread import EngineThread
from riskroute.live.learner import Learner, router_bytes
from riskroute.live.limits import Limits, order_refusal, quotes_too_old
from riskroute.live.log.interface import Log
from riskroute.live.log.recovery import recover
from riskroute.live.market_history import PUBLIC_AFTER, MarketHistory
from riskroute.live.order_checks import checked_order
from riskroute.live.order_ids import order_digest
from riskroute.live.state.events import (
    Accepted,
    Decision,
    Declined,
    ExecutionReport,
    Expired,
    Halted,
    MarketTrade,
    ParentOrder,
    Quoted,
    Recalled,
    Reported,
    Resumed,
    Unanswered,
)
from riskroute.live.state.trading_state import Next, TradingState, archived_order
from riskroute.live.venues.gateway import Gateway
from riskroute.routers.router import Router

BACKOFF = 5
"""A child of which nothing is heard is asked for after the patience, then after twice that, up to 2^5 times."""


MOST_TOLD = 5
"""Public outcomes of so many orders at most are worked out before others have their turn."""

MOST_UNSEEN = 10_000
"""Orders whose public outcomes are awaited, at most."""


class RefusedError(StateError):
    """An order is not accepted, now; it says why."""


class KeyUsedError(InputError):
    """An order has the key of another one."""


class Engine(EngineThread):
    """A router that trades.

    Parameters
    ----------
    log : Log
        Where everything is written; the engine takes the lease.
    gateways : Mapping[str, Gateway]
        Venues and pools by name.
    router : Router
        The router to begin with; a log that has a belief of the same router goes on with that one.
    limits : Limits
        What is allowed.
    refit_every : int
        Settled orders from which a worker learns together; 0 learns from each at once.
    worker : Executor, optional
        Runs refits; without one they are run at once.
    quotes : Callable, optional
        Returns the books of a symbol as they are now; without it those of the order's arrival are used.
    clock, monotonic : Callable[[], int]
        Nanoseconds since 1970, and since any time.
    patience : float
        Seconds without an answer after which a venue is asked.
    decision_seconds : float, optional
        The time that a decision of the router may take; one that takes longer is put out of service.
    snapshot_every : int
        Events between snapshots, ten times as many while there is always something to do; 0 takes none.
    owner : str
        Holder of the lease.
    lease_seconds : float
        How long the lease lasts; it is renewed in good time. Without end unless another engine stands by.
    reopen : Callable[[], Log], optional
        Opens the log anew, after a failure that leaves in doubt what was written.
    tape : MarketHistory, optional
        Says what could be seen of the market until the deadline of an order, to routers that learn from it.
    """

    def __init__(
        self,
        log: Log,
        gateways: Mapping[str, Gateway],
        router: Router,
        limits: Limits | None = None,
        *,
        refit_every: int = 0,
        worker: Executor | None = None,
        quotes: Callable[[str], Quotes | None] | None = None,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        patience: float = 2.0,
        decision_seconds: float | None = None,
        snapshot_every: int = 10_000,
        owner: str = "engine",
        lease_seconds: float = math.inf,
        reopen: Callable[[], Log] | None = None,
        tape: MarketHistory | None = None,
    ) -> None:
        super().__init__()
        self.log, self.gateways, self.limits = log, dict(gateways), limits or Limits()
        self.learner = Learner(router, refit_every)
        self.desk = Desk(log.header.stream, self.limits, frozenset(gateways), self.learner, quotes, decision_seconds)
        self.clock, self.monotonic = clock, monotonic
        self.patience, self.snapshot_every, self.owner = int(patience * 1e9), snapshot_every, owner
        self._worker, self._reopen = worker, reopen
        self.on_recovered: Callable[[TradingState], None] = _ignore
        """Told the state at the start, before any venue is asked."""
        self._first_router = router_bytes(router)
        self._lease_seconds = lease_seconds
        self._stale = 0
        self._answers: dict[str, Future[Decision]] = {}
        self.tape = tape

    # life

    def start(self) -> None:
        """Take the lease, recover, ask every venue, and warm up; orders are accepted once `ready`."""
        self._lease()
        self._begin(recover(self.log, self.learner))
        self.on_recovered(self.state)
        for gateway in self.gateways.values():
            gateway.connect(self.report)
        self._ask_for_open_children()
        self.pump()

    @property
    def ready(self) -> bool:
        """Whether every child that was open before the start has been answered for."""
        return self._started and not self._closed and not self._asked and not self.failed

    # doors

    def submit(self, order: ParentOrder) -> Future[Decision]:
        """Accept an order; its decision comes once it is durable. The same order again gets the same decision.

        Raises `InputError` for an order that makes no sense or has the key of another, and `RefusedError` for one that
        is not accepted now.
        """
        checked_order(order)
        return self.accept(order, order_digest(order), new_answer())

    def accept(self, order: ParentOrder, digest: bytes, answer: Future[Decision]) -> Future[Decision]:
        """Accept an order that was checked, as `submit` does; ``digest`` is its `order_digest`.

        A new order is answered by ``answer``. Returns what will have the answer.
        """
        with self._lock:
            now = self.clock()
            if (known := self._known(order.key, digest)) is not None:
                return known
            self._must_accept()
            if stale := quotes_too_old(self.limits, order, now):
                self._stale += 1
                if self._stale > self.limits.stale_quotes and not self.state.halted:
                    self._put(Halted(at=now, reason=f"{self._stale} orders in a row had old quotes", by="limits"))
                raise RefusedError(stale)
            self._stale = 0
            if refusal := order_refusal(self.limits, self.state, order, now):
                raise RefusedError(refusal)
            order = msgspec.structs.replace(order, received=now)
            ticket = self.state.decisions
            decision, children, refusal = self.desk.decide(self.state, order, now, ticket)
            if refusal:
                if decision.consulted:
                    self._put(Declined(at=now, order=order, plan=decision.plan, reason=refusal))
                raise RefusedError(refusal)
            self._answers[order.key] = answer
            self._gather(
                Accepted(at=now, order=order, decision=decision, children=children, digest=digest),
                lambda written: self._answer(order.key, decision, written),
            )
            self._timers_of(order.key)
            self._await_public(order)
        self._pump_here()
        return answer

    def book(self, reports: list[ExecutionReport]) -> None:
        """Book what venues say."""
        with self._lock:
            if self._closed or self.failed:
                return  # it will be asked for again
            now = self.clock()
            new: dict[str, ExecutionReport] = {}
            for report in reports:
                if (key := report.key) not in self.state.reports:
                    new.setdefault(key, report)
            if new:
                self._put(*[Reported(at=now, report=one) for one in new.values()])
            if self._asked:
                self._asked.difference_update([report.child for report in reports])
            if self.state.waiting:
                for report in new.values():
                    if report.child in self.state.waiting:
                        self._after(now + self.patience, "child", report.child)
        self._pump_here()

    def quoted(self, symbol: str, quotes: Quotes, trades: tuple[MarketTrade, ...]) -> None:
        """Write down books and trades that somebody told us."""
        with self._lock:
            if not self._started or self._closed or self.failed:
                return  # what the market does is not lost with us
            self._put(Quoted(at=self.clock(), symbol=symbol, quotes=quotes, trades=trades))

    def halt(self, reason: str, by: str) -> Future[list[int]]:
        """Stop trading: no new children, open ones come back. The future is done when the halt is durable."""
        with self._lock:
            self._must_work()
            done = self._put(Halted(at=self.clock(), reason=reason, by=by))
        self._pump_here()
        return done

    def resume(self, by: str) -> Future[list[int]]:
        """Trade again after a halt."""
        with self._lock:
            self._must_work()
            if not self.state.halted:
                raise StateError("trading must be halted to be resumed, was not")
            self._stale = 0
            done = self._put(Resumed(at=self.clock(), by=by))
            for key in list(self.state.unsettled):
                self._put(Next(key))
        self._pump_here()
        return done

    def view(self) -> dict[str, Any]:
        """The most important numbers, as plain values."""
        with self._lock:
            state = self.state
            return {
                "ready": self.ready,
                "halted": state.halted,
                "failed": self.failed,
                "events": state.events,
                "orders": state.decisions,
                "settled": state.settled,
                "unsettled": len(state.unsettled),
                "unknown": len(state.unknown),
                "waiting": len(state.waiting),
                "corrections": state.corrections,
                "belief": self.learner.belief,
                "router_out": self.learner.out,
                "positions": {name: msgspec.structs.asdict(one) for name, one in state.positions.items()},
                "day": msgspec.structs.asdict(state.day),
            }

    # time

    def tick(self, *, quiet: bool = True) -> None:
        """Do what is due by the clock: deadlines, recalls, questions to venues, refits and snapshots."""
        with self._lock:
            if not self._started or self._closed or self.failed:
                return
            now = self.clock()
            self._watch_clock(now)
            self._watch_ticks(now)
            while self._timers and self._timers[0][0] <= now:
                _, _, kind, name, times = heapq.heappop(self._timers)
                self._due(now, kind, name, times)
            self._refit()
            self._snapshot(quiet=quiet)
        self.pump()

    def _due(self, now: int, kind: str, name: str, times: int) -> None:
        if kind == "child":
            child = self.state.children.get(name)
            if child is None or child.done:
                self._patient.pop(name, None)
                return
            if self._patient.get(name, 0) > now:
                return
            if self._deaf_until > now:
                self._after(self._deaf_until, "child", name, times)
                return
            heard = child.status in ("acknowledged", "partly_filled")
            if not heard or child.cancelling or child.order.immediate or child.final >= 0:
                self._put(Unanswered(at=now, child=name))
                self._after(now + (self.patience << min(times + 1, BACKOFF)), "child", name, times + 1)
        elif kind == "public" and self._told >= MOST_TOLD:
            self._after(now + 1, "public", name)
        elif kind == "public":
            self._told += 1
            self._tell_public(self._unseen.pop(name), now)
        elif name in self.state.unsettled:
            self._put(
                Expired(at=now, parent=name) if kind == "deadline" else Recalled(at=now, parent=name, kind="dark_rest")
            )

    def _await_public(self, order: ParentOrder) -> None:
        """Look at the market once more when the deadline of an order is over, if the router learns from that."""
        if self.tape is None or not self.learner.wants_public or len(self._unseen) >= MOST_UNSEEN:
            return
        self.tape.expect(order)
        if (now := self.clock()) >= order.deadline + PUBLIC_AFTER:
            self._tell_public(order, now)
        else:
            self._unseen[order.key] = order
            self._after(order.deadline + PUBLIC_AFTER, "public", order.key)

    def _tell_public(self, order: ParentOrder, now: int) -> None:
        if self.tape is not None and (seen := self.tape.seen(order, now)) is not None:
            self._put(seen)

    def known(self, key: str, digest: bytes) -> Future[Decision] | None:
        """The answer to an order that came before, None to a new one."""
        with self._lock:
            return self._known(key, digest)

    def _known(self, key: str, digest: bytes) -> Future[Decision] | None:
        parent = self.state.parents.get(key) or archived_order(self.state, key)
        known = self.state.retired.get(key) if parent is None else parent.digest
        if known is None:
            return None
        if known != digest:
            raise KeyUsedError(f"key must be new for a new order, was {shown(key)}, which another order has")
        if parent is None:
            raise InputError(f"key must be of the last two days, was {shown(key)}, whose order is done with")
        waiting = self._answers.get(key)
        if waiting is not None:
            return waiting
        answer: Future[Decision] = new_answer()
        answer.set_result(parent.decision)
        return answer

    def _answer(self, key: str, decision: Decision, written: Future[list[int]]) -> None:
        answer = self._answers.pop(key)
        error = written.exception()
        if error is None:
            answer.set_result(decision)
        else:
            answer.set_exception(error)

    def _must_accept(self) -> None:
        self._must_work()
        if self._asked:
            raise RefusedError(f"{len(self._asked)} children from before the start are not answered for yet")


def new_answer() -> Future[Any]:
    """Return a future that cannot be cancelled: an order is decided whether or not its client still waits."""
    answer: Future[Any] = Future()
    answer.set_running_or_notify_cancel()
    return answer


def _ignore(state: TradingState) -> None:
    """Take no note of a state."""
