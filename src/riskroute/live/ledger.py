"""State and log of the engine: events are applied and appended at once, and acted on when they are durable."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from riskroute.core.errors import StateError, one_line_error
from riskroute.live.decider import Decider
from riskroute.live.learner import Learner
from riskroute.live.limits import Limits
from riskroute.live.log.interface import Entry, LeaseError, Log, entries_of, told_outside
from riskroute.live.state.events import (
    Accepted,
    AnyEvent,
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

Task = Effect | Callable[[], None]  # done outside the engine once its events are durable
Written = Future[list[int]]  # numbers of the rows, or the reason why they could not be written

_VENUE_EFFECTS = frozenset((Send, Cancel, Query))
# Nobody waits for these to be durable: after a crash, venues are asked for whatever the log does not have of them.
_DEFERRABLE = frozenset((Sent, Withheld, Reported, Settled))
# These change none of what automatic halts look at: the day's cost, rejects, unknown children.
_NEVER_HALTING = frozenset((Accepted, Intended, Sent, Settled))


class Ledger:
    """State and log of an engine.

    Every method is called with `lock` held, except `append_batch` and what the log calls back.

    Parameters
    ----------
    log : Log
        Where events are appended.
    decider : Decider
        Decides what follows from an event, and holds the learner.
    limits : Limits
        Conditions of automatic halts.
    clock, monotonic : Callable[[], int]
        Nanoseconds since 1970, and since any time.
    on_durable : Callable[[list[Task]], None]
        Takes the tasks of durable events; called by the log's writer thread.
    """

    def __init__(
        self,
        log: Log,
        decider: Decider,
        limits: Limits,
        clock: Callable[[], int],
        monotonic: Callable[[], int],
        on_durable: Callable[[list[Task]], None],
    ) -> None:
        self.log, self.decider, self.limits, self.clock, self.monotonic = log, decider, limits, clock, monotonic
        self._on_durable = on_durable
        self.state = TradingState()
        self.lock = threading.RLock()
        self.thread: threading.Thread | None = None  # the engine's own thread, once it runs
        self.failed = ""  # why nothing can be recorded now, as told to clients; empty if it can
        self.failure: Exception | None = None
        self.last: Written | None = None  # the newest append
        # Accepted orders are appended together at the end of the engine thread's turn:
        self._batch: list[Entry] = []
        self._batch_tasks: list[Task] = []
        self._batch_answers: list[Callable[[Written], None]] = []

    @property
    def fenced(self) -> bool:
        """Whether another process holds the lease: this engine can never write again."""
        return isinstance(self.failure, LeaseError)

    def reset(self, state: TradingState) -> None:
        """Continue from a state that was recovered from the log."""
        self.state, self.failed, self.failure, self.last = state, "", None, None

    def fail(self, error: BaseException) -> None:
        """Record nothing more after the first failure: later events would build on events that the log lacks."""
        with self.lock:
            self.failure = self.failure or error  # type: ignore[assignment]  # logs raise no other
            self.failed = self.failed or told_outside(error)

    def record(self, *events: AnyEvent | Next) -> Written:
        """Apply events and what follows from them, and append all of it as one; refuse once writing has failed."""
        if self.failed:
            return self._refused()
        self.append_batch()
        entries, tasks, deferrable = self._apply(events)
        if not entries:
            done: Written = Future()
            done.set_result([])
            return done
        return self._append(entries, tasks, (), deferrable=deferrable)

    def record_in_batch(self, event: AnyEvent, answer: Callable[[Written], None]) -> None:
        """Apply an event and what follows from it; the engine's thread appends it with others of the same turn.

        ``answer`` is called when that is durable, before any of its tasks is done.
        """
        if self.failed:
            answer(self._refused())
            return
        entries, tasks, _ = self._apply((event,))
        self._batch += entries
        self._batch_tasks += tasks
        self._batch_answers.append(answer)
        if threading.current_thread() is not self.thread:
            self.append_batch()

    def append_batch(self) -> None:
        """Append the batch, or refuse it if writing has failed meanwhile."""
        with self.lock:
            if not self._batch:
                return
            entries, tasks, answers = self._batch, self._batch_tasks, self._batch_answers
            self._batch, self._batch_tasks, self._batch_answers = [], [], []
            if self.failed:
                _answer_all(answers, self._refused())
                return
            try:
                self._append(entries, tasks, answers, deferrable=False)
            except Exception as error:  # the engine is broken, but clients wait for answers
                refused: Written = Future()
                refused.set_exception(error)
                _answer_all(answers, refused)
                raise

    def _refused(self) -> Written:
        refused: Written = Future()
        refused.set_exception(self.failure or StateError(self.failed))
        return refused

    def _apply(self, first: Sequence[AnyEvent | Next]) -> tuple[list[Entry], list[Task], bool]:
        """Return the entries of events and what follows from them, the tasks, and whether writing may be deferred."""
        todo: deque[AnyEvent | Next] = deque(first)
        events: list[AnyEvent] = []
        tasks: list[Task] = []
        deferrable = self.thread is not None
        state, learner = self.state, self.decider.learner
        while todo:
            one = todo.popleft()
            event = self.decider.next_event(state, one.parent, self.clock()) if isinstance(one, Next) else one
            if event is None:
                continue
            state, effects = apply(state, event)
            kind = type(event)
            if kind in Learner.events:
                learner.on_event(state.events, event, live=True)
            deferrable = deferrable and kind in _DEFERRABLE
            events.append(event)
            if effects:
                self._follow(event, effects, todo, tasks)
            elif isinstance(event, Reported) and event.report.kind != "rejected":
                continue  # nothing that automatic halts look at has changed
            if kind not in _NEVER_HALTING and not state.halted and (reason := self.limits.automatic_halt(state)):
                todo.append(Halted(at=event.at, reason=reason, by="limits"))
            if kind is Halted:
                todo.extend([Next(key) for key in state.unsettled])
        self.state = state
        return entries_of(events), tasks, deferrable and not tasks

    def _follow(self, event: AnyEvent, effects: list[Effect], todo: deque[AnyEvent | Next], tasks: list[Task]) -> None:
        """Sort the effects of an event into tasks and further events, and learn from settled orders."""
        state = self.state
        for effect in effects:
            if type(effect) in _VENUE_EFFECTS:
                tasks.append(effect)
            elif isinstance(effect, Next):
                todo.append(effect)
            elif isinstance(effect, Learn):
                if not isinstance(event, Shadowed):
                    # Before the learner sees the outcome: exploration is measured against the belief of the decision.
                    todo.append(self.decider.settled(effect.order, effect.outcome, event.at, state.settled))
                self.decider.counterfactual.learn(effect.order, effect.outcome.slots)
                self.decider.learner.settle(state.events, effect.outcome)
            elif isinstance(effect, Alert) and not state.halted:
                todo.append(Halted(at=event.at, reason=effect.reason, by="book"))

    def _append(
        self,
        entries: list[Entry],
        tasks: list[Task],
        answers: Sequence[Callable[[Written], None]],
        *,
        deferrable: bool,
    ) -> Written:
        began = self.monotonic()
        self.last = written = self.log.append(entries, patient=deferrable)
        written.add_done_callback(lambda done: self._written(done, tasks, began, answers))
        return written

    def _written(
        self, written: Written, tasks: list[Task], began: int, answers: Sequence[Callable[[Written], None]]
    ) -> None:
        error = written.exception()
        if error is not None:
            with self.lock:
                if self.failure is None:
                    LOGGER.error("the log cannot be written: %s", one_line_error(error))
                self.fail(error)
        _answer_all(answers, written)
        if error is not None:
            return
        if self.monotonic() - began > self.limits.slow_write:
            tasks = [*tasks, self._halt_slow]
        if tasks:
            self._on_durable(tasks)

    def _halt_slow(self) -> None:
        with self.lock:
            if not (self.state.halted or self.failed):
                seconds = self.limits.slow_write / 1e9
                self.record(
                    Halted(at=self.clock(), reason=f"the log took more than {seconds:g} s to write", by="limits")
                )


def _answer_all(answers: Sequence[Callable[[Written], None]], written: Written) -> None:
    for answer in answers:
        answer(written)
