"""How an engine comes to life, keeps its lease, and comes back to life when its log can be written again."""

from __future__ import annotations

import queue
from collections.abc import Callable

from riskroute.core.errors import StateError, one_line_error
from riskroute.live.engine_core import EngineCore
from riskroute.live.engine_ledger import LOGGER
from riskroute.live.learner import Learner, router_bytes, router_from
from riskroute.live.log.interface import FencedError, LeaseError, Log, WriteError, told_outside
from riskroute.live.log.recovery import recover
from riskroute.live.state.events import NANO, Halted, Planned
from riskroute.live.state.trading_state import Next, Query, TradingState


class EngineLife(EngineCore):
    """Beginning, lease and revival of an engine."""

    owner: str
    _reopen: Callable[[], Log] | None
    _first_router: bytes
    _lease_seconds: float
    _term = 0
    _leased = 0

    def _lease(self) -> None:
        """Take the lease, or keep it."""
        asked = self.monotonic()
        self._term, self._leased = self.log.lease(self.owner, self._lease_seconds).term, asked

    def _begin(self, state: TradingState) -> None:
        """Go on from a state that was recovered."""
        with self._lock:
            self.state, self._snapshot_at = state, state.events
            if self.learner.belief < 0 or self.learner.out:
                self._put(self._first_belief())
            self.desk.warm_up(self.clock())
            self._started = True
            self._clocks = self.clock(), self.monotonic()
            asked = {name: child.order for name, child in self.state.children.items() if not child.done}
            if lost := {child.place for child in asked.values()} - set(self.gateways):
                raise StateError(f"gateways must reach {', '.join(sorted(lost))}, where children are open, did not")
            self._asked = set(asked)

    def _ask_for_open_children(self) -> None:
        """Ask venues for all that was open, and do what was left undone."""
        with self._lock:
            now = self.clock()
            for name in list(self._asked):
                child = self.state.children[name]
                if child.done:
                    self._asked.discard(name)
                else:
                    self._outbox.put([Query(child.order)])
                    self._after(now + self.patience, "child", name)
            for key in list(self.state.unsettled):
                self._timers_of(key)
                self._put(Next(key))
            if self.state.halted:
                self._cancel_all()

    def revive(self) -> bool:
        """Go on after the log could not be written, from what it has, halted; whether that was possible.

        Venues are asked for all that was open, so that reports which came meanwhile are booked.
        """
        failure = self._failure
        if not self._started or self._closed or not isinstance(failure, WriteError):
            return False
        try:
            if not failure.definite:
                if self._reopen is None:
                    return False
                self.log.close()
                self.log = self._reopen()
            self._lease()
            learner = Learner(router_from(self.learner.kind, self._first_router), self.learner.refit_every)
            state = recover(self.log, learner)
        except LeaseError as error:
            self._failure = error
            return False
        except StateError:
            return False
        with self._lock:
            self.failed, self._failure, self._last = "", None, None
            self.learner = self.desk.learner = learner
            self._timers, self._refitting, self._unseen = [], False, {}
            self._outbox, self._urgent = queue.SimpleQueue(), queue.SimpleQueue()
            self._begin(state)
            written = self._put(
                Halted(at=self.clock(), reason=f"the log could not be written: {failure.cause}", by="limits")
            )
        if (refused := written.exception()) is not None:
            with self._lock:  # a future wakes who waits for it before its callback, `_durable`, records the failure
                self._failure = self._failure or refused  # type: ignore[assignment]  # logs raise no other
                self.failed = self.failed or told_outside(refused)
            return False
        self._ask_for_open_children()
        return not self.failed

    def _renew(self) -> None:
        """Keep the lease, well before it runs out."""
        if self.failed or self.monotonic() - self._leased < self._lease_seconds * NANO / 3:
            return
        term = self._term
        try:
            self._lease()
            if self._term != term:
                raise FencedError("somebody else had the lease meanwhile")
        except StateError as error:
            with self._lock:
                self._failure = self._failure or error
                LOGGER.error("the lease was lost: %s", one_line_error(error))
                self.failed = self.failed or told_outside(error)

    @property
    def fenced(self) -> bool:
        """Whether somebody else writes the log now: this engine will never work again."""
        return isinstance(self._failure, LeaseError)

    def _first_belief(self) -> Planned:
        """What a new log begins with, and one whose router had to be put out of service goes on with."""
        learner = self.learner
        known = learner.refit_every > 0 and learner.belief >= 0
        return Planned(
            at=self.clock(),
            belief=learner.belief + 1,
            router=learner.router.name,
            after=-1 if known else self.state.events,
            learned=0,
            state=learner.planned if known else router_bytes(learner.router),
        )
