"""The ledger of an engine: its state and its log. Events are applied and written at once, and acted on once durable."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from riskroute.core.errors import StateError, one_line_error
from riskroute.live.desk import Desk
from riskroute.live.learner import NOTED, Learner
from riskroute.live.limits import Limits, automatic_halt
from riskroute.live.log.event_rows import entries_of
from riskroute.live.log.interface import Entry, Log, told_outside
from riskroute.live.state.events import (
    Accepted,
    AnyEvent,
    ExecutionReport,
    Halted,
    Intended,
    Reported,
    Sent,
    Settled,
    Shadowed,
    Withheld,
)
from riskroute.live.state.fold import apply
from riskroute.live.state.trading_state import Alert, Cancel, Effect, Learn, Next, Query, Send, TradingState

LOGGER = logging.getLogger("riskroute.live")

Outside = Effect | Callable[[], None]
"""What is done once something is durable."""

Told = Callable[[Future[list[int]]], None]
"""Takes the rows that were written, or the reason why they were not."""

_OUTSIDE = frozenset((Send, Cancel, Query))
_AWAITED_BY_NOBODY = frozenset((Sent, Withheld, Reported, Settled))
"""Events that may be written a little later: venues are asked for what a crash takes of them."""

_HARMLESS = frozenset((Accepted, Intended, Sent, Settled))
"""Events that change nothing for which trading is halted: the day's cost, rejects, unknown children."""


class EngineLedger:
    """State and log of an engine; everything is called with the lock held, but for `_durable`."""

    log: Log
    limits: Limits
    learner: Learner
    desk: Desk
    clock: Callable[[], int]
    monotonic: Callable[[], int]

    def __init__(self) -> None:
        self.state = TradingState()
        self.failed = ""
        """Why nothing can be done now; empty if it can."""
        self._failure: Exception | None = None
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._last: Future[list[int]] | None = None
        self._entries: list[Entry] = []
        self._outside: list[Outside] = []
        self._tells: list[Told] = []
        """What was gathered: entries to append, what is done once they are durable, and who waits for that."""
        self._outbox: queue.SimpleQueue[Sequence[Outside]] = queue.SimpleQueue()
        self._urgent: queue.SimpleQueue[Sequence[Outside]] = queue.SimpleQueue()
        """What does not wait behind children that are to be sent: calling others back, and asking for them."""
        self._inbox: queue.SimpleQueue[Callable[[], None] | Sequence[ExecutionReport]] = queue.SimpleQueue()
        """What wakes the thread that serves: calls to make, and reports, which may be none."""

    @property
    def lock(self) -> threading.RLock:
        """Held by who looks at `state` from outside."""
        return self._lock

    def _put(self, *first: AnyEvent | Next) -> Future[list[int]]:
        """Apply events and what follows from them, and write all of it down at once; not once writing has failed."""
        if self.failed:
            return self._refused()
        self._append_gathered()
        entries, outside, patient = self._applied(first)
        if not entries:
            done: Future[list[int]] = Future()
            done.set_result([])
            return done
        return self._append(entries, outside, (), patient=patient)

    def _gather(self, event: AnyEvent, tell: Told) -> None:
        """Apply an event and what follows from it; in the thread that serves, it is written with others of its turn.

        ``tell`` is told when that is durable, before anything is done about it: somebody waits for an answer.
        """
        if self.failed:
            tell(self._refused())
            return
        entries, outside, _ = self._applied((event,))
        self._entries += entries
        self._outside += outside
        self._tells.append(tell)
        if threading.current_thread() is not self._thread:
            self._append_gathered()

    def _append_gathered(self) -> None:
        """Write what was gathered; refuse it once writing has failed, since it builds on what the log does not have."""
        with self._lock:
            if not self._entries:
                return
            entries, outside, tells = self._entries, self._outside, self._tells
            self._entries, self._outside, self._tells = [], [], []
            if self.failed:
                self._tell_all(tells, self._refused())
                return
            try:
                self._append(entries, outside, tells, patient=False)
            except Exception as error:  # the engine cannot go on, but somebody waits for an answer
                refused: Future[list[int]] = Future()
                refused.set_exception(error)
                self._tell_all(tells, refused)
                raise

    def _tell_all(self, tells: Sequence[Told], written: Future[list[int]]) -> None:
        for tell in tells:
            tell(written)

    def _refused(self) -> Future[list[int]]:
        refused: Future[list[int]] = Future()
        refused.set_exception(self._failure or StateError(self.failed))
        return refused

    def _applied(self, first: Sequence[AnyEvent | Next]) -> tuple[list[Entry], list[Outside], bool]:
        """Apply events and what follows from them: entries, what is done outside, and whether nobody waits for it."""
        todo: deque[AnyEvent | Next] = deque(first)
        events: list[AnyEvent] = []
        outside: list[Outside] = []
        patient = self._thread is not None
        state, learner = self.state, self.learner
        while todo:
            one = todo.popleft()
            event = self.desk.next_event(state, one.parent, self.clock()) if isinstance(one, Next) else one
            if event is None:
                continue
            state, effects = apply(state, event)
            kind = type(event)
            if kind in NOTED:
                learner.saw(state.events, event, live=True)
            patient = patient and kind in _AWAITED_BY_NOBODY
            events.append(event)
            if effects:
                self._follow(event, effects, todo, outside)
            elif isinstance(event, Reported) and event.report.kind != "rejected":
                continue  # nothing has changed for which trading is halted
            if kind not in _HARMLESS and not state.halted and (reason := automatic_halt(self.limits, state)):
                todo.append(Halted(at=event.at, reason=reason, by="limits"))
            if kind is Halted:
                todo.extend([Next(key) for key in state.unsettled])
        self.state = state
        return entries_of(events), outside, patient and not outside

    def _follow(
        self, event: AnyEvent, effects: list[Effect], todo: deque[AnyEvent | Next], outside: list[Outside]
    ) -> None:
        """See to what an event asks for: outside, later, or now in what is learned."""
        state = self.state
        for effect in effects:
            if type(effect) in _OUTSIDE:
                outside.append(effect)
            elif isinstance(effect, Next):
                todo.append(effect)
            elif isinstance(effect, Learn):
                if not isinstance(event, Shadowed):
                    todo.append(self.desk.settled(effect.order, effect.outcome, event.at, state.settled))
                self.desk.counterfactual.learn(effect.order, effect.outcome.slots)
                self.learner.settle(state.events, effect.outcome)
            elif isinstance(effect, Alert) and not state.halted:
                todo.append(Halted(at=event.at, reason=effect.reason, by="book"))

    def _append(
        self, entries: list[Entry], outside: list[Outside], tells: Sequence[Told], *, patient: bool
    ) -> Future[list[int]]:
        began = self.monotonic()
        self._last = done = self.log.append(entries, patient=patient)
        done.add_done_callback(lambda written: self._durable(written, outside, began, tells))
        return done

    def _durable(
        self, written: Future[list[int]], outside: list[Outside], began: int, tells: Sequence[Told] = ()
    ) -> None:
        error = written.exception()
        if error is not None:
            with self._lock:  # what is being applied meanwhile is refused: by the log, or when it would be appended
                if not self._failure:
                    LOGGER.error("the log cannot be written: %s", one_line_error(error))
                self._failure = self._failure or error  # type: ignore[assignment]  # logs raise no other
                self.failed = self.failed or told_outside(error)
        self._tell_all(tells, written)
        if error is not None:
            return
        if self.monotonic() - began > self.limits.slow_write:
            outside = [*outside, self._halt_slow]
        sends = [effect for effect in outside if isinstance(effect, Send)]
        if len(sends) < len(outside):
            self._urgent.put([effect for effect in outside if not isinstance(effect, Send)])
        if sends:
            self._outbox.put(sends)
        if outside:
            self._wake()

    def _halt_slow(self) -> None:
        with self._lock:
            if not (self.state.halted or self.failed):
                seconds = self.limits.slow_write / 1e9
                self._put(Halted(at=self.clock(), reason=f"the log took more than {seconds:g} s to write", by="limits"))

    def _wake(self) -> None:
        """Wake the thread that serves."""
        self._inbox.put(())
