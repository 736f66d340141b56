"""State, log and outbox of the engine: events are applied and appended at once, and acted on when they are durable."""

from __future__ import annotations

import heapq
import logging
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from riskroute.core.errors import LeaseError, StateError
from riskroute.core.text import one_line_text
from riskroute.live.decider import Decider
from riskroute.live.limits import Limits
from riskroute.live.log.interface import Log, LogEntry, log_entries_of, public_log_message
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.effects import (
    AlertEffect,
    CancelEffect,
    Effect,
    LearnEffect,
    NextEffect,
    QueryEffect,
    SendEffect,
)
from riskroute.live.state.events import (
    AcceptedEvent,
    AnyEvent,
    HaltedEvent,
    IntendedEvent,
    ReportedEvent,
    SentEvent,
    SettledEvent,
    ShadowedEvent,
    WithheldEvent,
)
from riskroute.live.state.fold import apply
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.trading_state import TradingState

if TYPE_CHECKING:
    from riskroute.live.places import Places

LOGGER = logging.getLogger("riskroute.live")

Task = Effect | Callable[[], None]  # run by the outbox once its events are durable
Written = Future[list[int]]  # numbers of the rows, or the reason why they could not be written

_VENUE_EFFECTS = frozenset((SendEffect, CancelEffect, QueryEffect))
# No client waits for these to be durable: after a crash, venues are queried for what the log lacks.
_DEFERRABLE = frozenset((SentEvent, WithheldEvent, ReportedEvent, SettledEvent))
# These change nothing that automatic halts depend on: the day's cost, rejects, unknown children.
_NEVER_HALTING = frozenset((AcceptedEvent, IntendedEvent, SentEvent, SettledEvent))


class Ledger:
    """State and log of an engine.

    Call its methods with `lock` held, except `append_batch` and the log's callbacks. The log's writer thread passes the
    tasks of durable events to ``on_durable``.
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
        self.state, self.archive = TradingState(), OrderArchive()
        self.lock = threading.RLock()
        self.thread: threading.Thread | None = None  # the engine's own thread, once it runs
        self.failed = ""  # reason reported to clients while events cannot be recorded
        self.failure: Exception | None = None  # the first error of a write
        self.last: Written | None = None  # the newest append
        # Accepted orders are appended together at the end of the engine thread's turn:
        self._batch: list[LogEntry] = []
        self._batch_tasks: list[Task] = []
        self._batch_answers: list[Callable[[Written], None]] = []

    @property
    def fenced(self) -> bool:
        """Whether another process holds the lease: this engine can never write again."""
        return isinstance(self.failure, LeaseError)

    def reset(self, state: TradingState, archive: OrderArchive) -> None:
        """Continue from a state that was recovered from the log."""
        self.state, self.archive, self.failed, self.failure, self.last = state, archive, "", None, None

    def fail(self, error: BaseException) -> None:
        """Stop recording after the first failure: later events would build on events that the log lacks."""
        with self.lock:
            self.failure = self.failure or error  # type: ignore[assignment]  # logs raise no other
            self.failed = self.failed or public_log_message(error)

    def record(self, *events: AnyEvent | NextEffect) -> Written:
        """Apply events and their consequences, and append all of them together; refused once a write has failed."""
        if self.failed:
            return self._refused()
        self.append_batch()
        entries, tasks, deferrable = self._apply(events)
        if not entries:
            done: Written = Future()
            done.set_result([])
            return done
        return self._append(entries, tasks, (), deferrable=deferrable)

    def halt(self, reason: str, by: str = "limits") -> None:
        """Halt trading because of a limit or an inconsistency (``book``), unless it is halted already."""
        with self.lock:
            if not self.state.halted:
                self.record(HaltedEvent(at=self.clock(), reason=reason, by=by))

    def record_in_batch(self, event: AnyEvent, answer: Callable[[Written], None]) -> None:
        """Apply an event and its consequences; the engine's thread appends them with other events of the same turn.

        ``answer`` is called once they are durable, before any of their tasks runs, or once the write has failed.
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
        """Append the batch, or refuse it if a write has failed meanwhile."""
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
            except Exception as error:  # the engine is broken; its clients still get an answer
                refused: Written = Future()
                refused.set_exception(error)
                _answer_all(answers, refused)
                raise

    def _refused(self) -> Written:
        refused: Written = Future()
        refused.set_exception(self.failure or StateError(self.failed))
        return refused

    def _apply(self, first: Sequence[AnyEvent | NextEffect]) -> tuple[list[LogEntry], list[Task], bool]:
        """Apply events and their consequences; return log entries, tasks, and whether the write may be deferred."""
        todo: deque[AnyEvent | NextEffect] = deque(first)
        events: list[AnyEvent] = []
        tasks: list[Task] = []
        deferrable = self.thread is not None
        state, learner = self.state, self.decider.learner
        while todo:
            one = todo.popleft()
            event = self.decider.next_event(state, one.parent, self.clock()) if isinstance(one, NextEffect) else one
            if event is None:
                continue
            state, effects = apply(state, event, self.archive)
            kind = type(event)
            learner.on_event(state.events, event, live=True)
            deferrable = deferrable and kind in _DEFERRABLE
            events.append(event)
            if effects:
                self._follow(event, effects, todo, tasks)
            elif isinstance(event, ReportedEvent) and event.report.kind != "rejected":
                continue  # nothing that automatic halts depend on has changed
            if kind not in _NEVER_HALTING and not state.halted and (reason := self.limits.automatic_halt(state)):
                todo.append(HaltedEvent(at=event.at, reason=reason, by="limits"))
            if kind is HaltedEvent:
                todo.extend([NextEffect(key) for key in state.unsettled])
        self.state = state
        return log_entries_of(events), tasks, deferrable and not tasks

    def _follow(
        self, event: AnyEvent, effects: list[Effect], todo: deque[AnyEvent | NextEffect], tasks: list[Task]
    ) -> None:
        """Add the effects of an event to tasks and further events, and learn from settled orders."""
        state = self.state
        for effect in effects:
            if type(effect) in _VENUE_EFFECTS:
                tasks.append(effect)
            elif isinstance(effect, NextEffect):
                todo.append(effect)
            elif isinstance(effect, LearnEffect):
                if not isinstance(event, ShadowedEvent):
                    # Before the learner gets the outcome: exploration is measured under the belief that decided.
                    todo.append(self.decider.settled(effect.order, effect.outcome, event.at, state.settled))
                self.decider.counterfactual.learn(effect.order, effect.outcome.children)
                self.decider.learner.settle(state.events, effect.outcome)
            elif isinstance(effect, AlertEffect) and not state.halted:
                todo.append(HaltedEvent(at=event.at, reason=effect.reason, by="book"))

    def _append(
        self,
        entries: list[LogEntry],
        tasks: list[Task],
        answers: Sequence[Callable[[Written], None]],
        *,
        deferrable: bool,
    ) -> Written:
        began = self.monotonic()
        self.last = written = self.log.append(entries, deferrable=deferrable)
        written.add_done_callback(lambda done: self._written(done, tasks, began, answers))
        return written

    def _written(
        self, written: Written, tasks: list[Task], began: int, answers: Sequence[Callable[[Written], None]]
    ) -> None:
        error = written.exception()
        if error is not None:
            with self.lock:
                if self.failure is None:
                    LOGGER.error("the log cannot be written: %s", one_line_text(error))
                self.fail(error)
        _answer_all(answers, written)
        if error is not None:
            return
        if self.monotonic() - began > self.limits.slow_write:
            reason = f"the log took more than {self.limits.slow_write / 1e9:g} s to write"
            tasks = [*tasks, lambda: self.halt(reason)]
        if tasks:
            self._on_durable(tasks)


def _answer_all(answers: Sequence[Callable[[Written], None]], written: Written) -> None:
    for answer in answers:
        answer(written)


class LedgerTimers:
    """Heap of timers by the engine's clock, each with a kind, a name and a number of attempts."""

    least_pruned = 10_000  # with more timers, unneeded ones are dropped before they are due

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str, str, int]] = []
        self._most = self.least_pruned
        self._count = 0  # breaks ties in the order of `add`
        # Deadline for an answer about each child; timers from before a later request fire earlier, and are ignored.
        self.answer_by: dict[str, int] = {}

    def add(self, when: int, kind: str, name: str, attempts: int = 0) -> None:
        """Add a timer; the engine defines the kinds."""
        if kind == "child":
            self.answer_by[name] = when
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, kind, name, attempts))

    @property
    def next_due(self) -> int | None:
        """The time of the earliest timer; None without timers."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> Iterator[tuple[str, str, int]]:
        """Remove timers up to a time, earliest first; yield kind, name and attempts of each."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2:]

    def prune(self, needed: Callable[[str, str], bool]) -> None:
        """Drop the timers whose kind and name are not ``needed``, if there are twice as many as after the last pruning.

        Orders settle long before their deadlines, whose timers would otherwise fill the memory.
        """
        if len(self._heap) > self._most:
            self._heap = [one for one in self._heap if needed(one[2], one[3])]
            heapq.heapify(self._heap)
            self._most = max(2 * len(self._heap), self.least_pruned)

    def clear(self) -> None:
        """Remove all timers."""
        self._heap, self.answer_by = [], {}


class LedgerOutbox:
    """Queue of the tasks of durable events; sets timers for answers due within ``patience`` nanoseconds.

    Children, cancels and queries that a session may not send yet are held: cancels and queries until it may, children
    for at most the ``hold`` in the rules of their place.
    """

    together = 64  # children sent together, under one lock and in one append

    def __init__(self, places: Places, ledger: Ledger, timers: LedgerTimers, patience: int) -> None:
        self.places, self.gateways, self.patience = places, places.gateways, patience
        self._ledger, self._timers = ledger, timers
        self.clear()

    def clear(self) -> None:
        """Remove all tasks."""
        self._sends: queue.SimpleQueue[Sequence[Task]] = queue.SimpleQueue()
        self._urgent: queue.SimpleQueue[Sequence[Task]] = queue.SimpleQueue()
        self._held: dict[str, list[Task]] = {}  # by session, what waits for its budget
        self._release_at: dict[str, int] = {}  # by session, time of the earliest timer
        self._held_until: dict[str, int] = {}  # by child

    @property
    def urgent(self) -> bool:
        """Whether a task that overtakes sends is waiting: a cancel, a query or a call."""
        return not self._urgent.empty()

    @property
    def empty(self) -> bool:
        """Whether no task waits."""
        return self._sends.empty() and self._urgent.empty()

    def post(self, tasks: Sequence[Task]) -> None:
        """Queue the tasks of durable events, from any thread; cancels, queries and calls overtake sends."""
        sends = [task for task in tasks if isinstance(task, SendEffect)]
        if len(sends) < len(tasks):
            self._urgent.put([task for task in tasks if not isinstance(task, SendEffect)])
        if sends:
            self._sends.put(sends)

    def post_last(self, task: Task) -> None:
        """Queue a task behind everything else."""
        self._sends.put([task])

    def work(self, more_time: Callable[[], bool]) -> bool:
        """Run tasks until none is left or the ledger fails, and return True; return False if ``more_time`` does.

        Consecutive children are sent together.
        """
        children: list[ChildOrder] = []
        while not self._ledger.failed:
            if not more_time():
                self._send(children)
                return False
            try:
                tasks = self._sends.get_nowait() if self._urgent.empty() else self._urgent.get_nowait()
            except queue.Empty:
                if not children:
                    return True
                tasks = ()
            for task in tasks:
                if isinstance(task, SendEffect):
                    children.append(task.child)
                    continue
                self._send(children)
                children = []
                if isinstance(task, CancelEffect | QueryEffect):
                    self._cancel(task) if isinstance(task, CancelEffect) else self._query(task)
                elif callable(task):
                    task()
            if not tasks or len(children) >= self.together:
                self._send(children)
                children = []
        return True

    def _send(self, children: list[ChildOrder]) -> None:
        if not children:
            return
        ledger, now = self._ledger, self._ledger.clock()
        sending: list[ChildOrder] = []
        with ledger.lock:
            for order in children:
                child = ledger.state.children.get(order.id)
                if child is None or child.done:
                    self._held_until.pop(order.id, None)
                    continue
                down = ledger.state.down.get(order.place)
                if ledger.state.halted or child.cancelling or down is not None:
                    reason = "halted" if ledger.state.halted else "called back" if down is None else f"down: {down}"
                elif self._may_send(order.place, urgent=False):
                    sending.append(order)
                    self.places.sending(order.id)
                    self._timers.add(now + self.patience, "child", order.id)
                    self._held_until.pop(order.id, None)
                    continue
                elif now < (until := self._held_until.setdefault(order.id, now + self.places.rules[order.place].hold)):
                    self._hold(SendEffect(order), until)
                    continue
                else:
                    reason = f"the limit of {self.places.session(order.place)} on orders per second"
                self._held_until.pop(order.id, None)
                ledger.record(WithheldEvent(at=now, child=order.id, reason=reason))
            if sending:
                ledger.record(*[SentEvent(at=now, child=order.id) for order in sending])
        for order in sending:
            failure = ledger.state.down.get(order.place)
            if failure is None:
                try:
                    self.gateways[order.place].send(order)
                except Exception as error:  # by its contract, a gateway that raises has not sent
                    failure = one_line_text(error) or type(error).__name__
                    with ledger.lock:  # before the child is withheld: its shares must not go there again
                        self.places.send_failed(order.place, failure)
                else:
                    self.places.sent(order.place)
                    continue
            with ledger.lock:
                ledger.record(WithheldEvent(at=ledger.clock(), child=order.id, reason=failure))

    def _may_send(self, place: str, *, urgent: bool) -> bool:
        """Count a message, and return True, if the budget of the place's session allows it."""
        session = self.places.session(place)
        budget = self.places.budgets.get(session)
        # children wait behind those that are held already
        return budget is None or (
            (urgent or session not in self._held) and budget.take(self._ledger.monotonic(), urgent=urgent)
        )

    def _hold(self, task: SendEffect | CancelEffect | QueryEffect, until: float = math.inf) -> None:
        """Hold a message until its session may send it, or until a time."""
        session, now = self.places.session(task.child.place), self._ledger.clock()
        wait = self.places.budgets[session].wait(self._ledger.monotonic(), urgent=not isinstance(task, SendEffect))
        when = max(int(min(now + wait, until)), now + 1)
        self._held.setdefault(session, []).append(task)
        if when < self._release_at.get(session, math.inf):
            self._release_at[session] = when
            with self._ledger.lock:
                self._timers.add(when, "session", session)

    def release(self, session: str) -> None:
        """Try again to send what waits for the budget of a session."""
        self._release_at.pop(session, None)
        self.post(self._held.pop(session, []))

    def _query(self, task: QueryEffect) -> None:
        if not self._may_send(task.child.place, urgent=True):
            self._hold(task)
            return
        with suppress(Exception):  # a gateway may raise anything; a timer queries again
            self.gateways[task.child.place].query(task.child)

    def _cancel(self, task: CancelEffect) -> None:
        ledger, now, order = self._ledger, self._ledger.clock(), task.child
        with ledger.lock:
            child = ledger.state.children.get(order.id)
            if child is None or child.done:
                return
            unresolved = self.places.unresolved.get(order.place, ())
            # After a crash, a venue may have a child whose `SentEvent` was lost: it must be cancelled there.
            if child.sends == 0 and child.status == "intended" and order.id not in unresolved:
                ledger.record(WithheldEvent(at=now, child=order.id, reason="called back"))
                return
            self._timers.add(now + self.patience, "child", order.id)
        if not self._may_send(order.place, urgent=True):
            self._hold(task)
            return
        with suppress(Exception):  # a gateway may raise anything; a timer queries the child
            self.gateways[order.place].cancel(order)

    def cancel_all(self) -> None:
        """Cancel every resting child."""
        for name, child in self._ledger.state.children.items():
            if not child.done and not child.order.immediate:
                self.post_last(CancelEffect(child.order))
                self._timers.add(self._ledger.clock() + self.patience, "child", name)
