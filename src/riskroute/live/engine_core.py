"""The inner part of the engine: events are applied and written at once, and done once they are durable."""

from __future__ import annotations

import heapq
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import get_args

from riskroute.errors import StateError, one_line_error
from riskroute.live.book import apply
from riskroute.live.book_state import Alert, BookState, Cancel, Effect, Learn, Next, Query, Send
from riskroute.live.desk import Desk
from riskroute.live.learner import Learner
from riskroute.live.limits import Limits, automatic_halt
from riskroute.live.log import Entry, Log, told_outside
from riskroute.live.orders import (
    NANO,
    Accepted,
    AnyEvent,
    ChildOrder,
    ExecutionReport,
    Halted,
    Intended,
    ParentOrder,
    Planned,
    Reported,
    Sent,
    Settled,
    Shadowed,
    Withheld,
    encode_event,
)
from riskroute.live.recovery import snapshot_saver
from riskroute.live.venues.gateway import Gateway

PUMP = NANO // 20
"""Under load there is always something to send: after so many nanoseconds timers and refits have their turn."""

LOGGER = logging.getLogger("riskroute.live")

OVERDUE = 10
"""A snapshot waits for a quiet moment, until it is due so many times over."""

MOST_SENDS = 64
"""Children that are handed to their venues together, at most."""

Outside = Effect | Callable[[], None]
"""What is done once something is durable."""

Told = Callable[[Future[list[int]]], None]
"""Takes the rows that were written, or the reason why they were not."""

_KINDS: dict[type, str] = {kind: kind.__name__.lower() for kind in get_args(AnyEvent)}
_OUTSIDE = frozenset((Send, Cancel, Query))
_AWAITED_BY_NOBODY = frozenset((Sent, Withheld, Reported, Settled))
"""Events that may be written a little later: venues are asked for what a crash takes of them."""

_HARMLESS = frozenset((Accepted, Intended, Sent, Settled))
"""Events that change nothing for which trading is halted: the day's cost, rejects, unknown children."""


class EngineCore:
    """State, log and outbox of an engine; everything below is called with the lock held, but for `pump`."""

    log: Log
    gateways: Mapping[str, Gateway]
    limits: Limits
    learner: Learner
    desk: Desk
    clock: Callable[[], int]
    monotonic: Callable[[], int]
    patience: int
    snapshot_every: int

    def __init__(self) -> None:
        self.state = BookState()
        self.failed = ""
        """Why nothing can be done now; empty if it can."""
        self._failure: Exception | None = None
        self._lock = threading.RLock()
        self._outbox: queue.SimpleQueue[Sequence[Outside]] = queue.SimpleQueue()
        self._urgent: queue.SimpleQueue[Sequence[Outside]] = queue.SimpleQueue()
        """What does not wait behind children that are to be sent: calling others back, and asking for them."""
        self._timers: list[tuple[int, int, str, str, int]] = []
        self._timer_count = 0
        self._patient: dict[str, int] = {}
        """When a child must have been heard of: earlier timers, from before something else was asked, do not count."""
        self._asked: set[str] = set()
        """Children from before the start that were not answered for."""
        self._unseen: dict[str, ParentOrder] = {}
        """Orders of which public data will tell more at their deadlines."""
        self._started = self._closed = False
        self._last: Future[list[int]] | None = None
        self._thread: threading.Thread | None = None
        self._inbox: queue.SimpleQueue[Callable[[], None] | Sequence[ExecutionReport]] = queue.SimpleQueue()
        """What wakes the thread that serves: calls to make, and reports, which may be none."""
        self._worker: Executor | None = None
        self._refitting = False
        self._snapshot_at = 0
        self._clocks = (0, 0)
        self._ticked = self._deaf_until = self._told = 0

    @property
    def lock(self) -> threading.RLock:
        """Held by who looks at `state` from outside."""
        return self._lock

    def _put(self, *first: AnyEvent | Next, tell: Told | None = None) -> Future[list[int]]:
        """Apply events and what follows from them, and write all of it down at once; not once writing has failed.

        ``tell`` is told when that is durable, before anything is done about it: somebody waits for an answer.
        """
        if self.failed:
            refused: Future[list[int]] = Future()
            refused.set_exception(self._failure or StateError(self.failed))
            if tell is not None:
                tell(refused)
            return refused
        todo: deque[AnyEvent | Next] = deque(first)
        entries: list[Entry] = []
        outside: list[Outside] = []
        patient = self._thread is not None
        while todo:
            one = todo.popleft()
            event = self.desk.next_event(self.state, one.parent, self.clock()) if isinstance(one, Next) else one
            if event is None:
                continue
            self.state, effects = apply(self.state, event)
            self.learner.saw(self.state.events, event, live=True)
            kind = type(event)
            patient = patient and kind in _AWAITED_BY_NOBODY
            entries.append(Entry(_KINDS[kind], _key(event), encode_event(event), max(event.at, 0)))
            for effect in effects:
                if type(effect) in _OUTSIDE:
                    outside.append(effect)
                elif isinstance(effect, Next):
                    todo.append(effect)
                elif isinstance(effect, Learn):
                    if not isinstance(event, Shadowed):
                        todo.append(self.desk.settled(effect.order, effect.outcome, event.at, self.state.settled))
                    self.desk.yardstick.learn(effect.order, effect.outcome.slots)
                    self.learner.settle(self.state.events, effect.outcome)
                elif isinstance(effect, Alert) and not self.state.halted:
                    todo.append(Halted(at=event.at, reason=effect.reason, by="book"))
            if kind not in _HARMLESS and not self.state.halted and (reason := automatic_halt(self.limits, self.state)):
                todo.append(Halted(at=event.at, reason=reason, by="limits"))
            if isinstance(event, Halted):
                todo.extend(Next(key) for key in self.state.unsettled)
        if not entries:
            done: Future[list[int]] = Future()
            done.set_result([])
            return done
        began = self.monotonic()
        self._last = done = self.log.append(entries, patient=patient and not outside)
        done.add_done_callback(lambda written: self._durable(written, outside, began, tell or _nobody))
        return done

    def _durable(
        self,
        written: Future[list[int]],
        outside: list[Outside],
        began: int,
        tell: Told,
    ) -> None:
        error = written.exception()
        if error is not None:
            with self._lock:  # what is being applied meanwhile is appended first, and refused with the rest
                if not self._failure:
                    LOGGER.error("the log cannot be written: %s", one_line_error(error))
                self._failure = self._failure or error  # type: ignore[assignment]  # logs raise no other
                self.failed = self.failed or told_outside(error)
        tell(written)
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

    def pump(self) -> None:
        """Do what durable events ask for, what is urgent first; children one after the other are sent together.

        The thread that serves stops after a while, to look at the clock.
        """
        until = self.monotonic() + PUMP if threading.current_thread() is self._thread else None
        children: list[ChildOrder] = []
        while not self.failed:
            if until is not None and self.monotonic() >= until:
                self._send(children)
                self._wake()
                return
            try:
                some = self._outbox.get_nowait() if self._urgent.empty() else self._urgent.get_nowait()
            except queue.Empty:
                if not children:
                    return
                some = ()
            for effect in some:
                if isinstance(effect, Send):
                    children.append(effect.child)
                    continue
                self._send(children)
                children = []
                if isinstance(effect, Cancel):
                    self._cancel(effect)
                elif isinstance(effect, Query):
                    with suppress(Exception):  # gateways are others' code; the question is asked again later
                        self.gateways[effect.child.place].query(effect.child)
                elif callable(effect):
                    effect()
            if not some or len(children) >= MOST_SENDS:
                self._send(children)
                children = []

    def flush(self, seconds: float = 10.0) -> None:
        """Wait until everything that was put is durable and done: for tests and for an orderly end."""
        while (last := self._last) is not None:
            last.exception(seconds)
            self.pump()
            if self.failed or (last is self._last and self._outbox.empty() and self._urgent.empty()):
                return

    def _send(self, children: list[ChildOrder]) -> None:
        if not children:
            return
        going: list[ChildOrder] = []
        now = self.clock()
        with self._lock:
            for order in children:
                child = self.state.children.get(order.id)
                if child is None or child.done:
                    continue
                if self.state.halted or child.cancelling:
                    reason = "halted" if self.state.halted else "called back"
                    self._put(Withheld(at=now, child=order.id, reason=reason))
                else:
                    going.append(order)
                    self._after(now + self.patience, "child", order.id)
            if going:
                self._put(*[Sent(at=now, child=order.id) for order in going])
        for order in going:
            try:
                self.gateways[order.place].send(order)
            except Exception as error:  # gateways are others' code; an error means that nothing was sent
                with self._lock:
                    self._put(Withheld(at=self.clock(), child=order.id, reason=one_line_error(error)))

    def _cancel(self, effect: Cancel) -> None:
        name, now = effect.child.id, self.clock()
        with self._lock:
            child = self.state.children.get(name)
            if child is None or child.done:
                return
            if child.sends == 0 and name not in self._asked:
                self._put(Withheld(at=now, child=name, reason="called back"))
                return
            self._after(now + self.patience, "child", name)
        with suppress(Exception):  # as above
            self.gateways[effect.child.place].cancel(effect.child)

    def _cancel_all(self) -> None:
        for name, child in self.state.children.items():
            if not child.done and not child.order.immediate:
                self._outbox.put([Cancel(child.order)])
                self._after(self.clock() + self.patience, "child", name)

    def _after(self, when: int, kind: str, name: str, times: int = 0) -> None:
        if kind == "child":
            self._patient[name] = when
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, kind, name, times))

    def _watch_clock(self, now: int) -> None:
        passed = self.monotonic()
        jump = (now - self._clocks[0]) - (passed - self._clocks[1])
        self._clocks = now, passed
        if abs(jump) > self.limits.clock_jump and not self.state.halted:
            self._put(Halted(at=now, reason=f"the clock jumped by {jump / 1e9:.3f} s", by="limits"))

    def _watch_ticks(self, now: int) -> None:
        """After a time in which nobody looked, let reports that came meanwhile be booked before venues are blamed."""
        passed = self.monotonic()
        if self._ticked and passed - self._ticked > self.patience:
            self._deaf_until = now + self.patience
        self._ticked, self._told = passed, 0

    def _timers_of(self, key: str) -> None:
        parent = self.state.parents[key]
        if not parent.settled:
            self._after(parent.order.deadline, "deadline", key)
            recall = parent.decision.plan.get("recall")
            if recall is not None:
                self._after(parent.decision.at + int(recall * 1e9), "recall", key)

    def _refit(self) -> None:
        if self._refitting:
            return
        job, learned = self.learner.job()
        if job is None:
            return
        after, self._refitting = self.state.events, True

        def planned(state: bytes) -> None:
            with self._lock:
                self._refitting = False
                if not (self._closed or self.failed):
                    name, belief = self.learner.router.name, self.learner.belief + 1
                    event = Planned(
                        at=self.clock(), belief=belief, router=name, after=after, learned=learned, state=state
                    )
                    self._put(event)

        def came(work: Future[bytes]) -> None:
            error = work.exception()
            if error is None:
                self.learner.make_ready(work.result(), after)
                self._outbox.put([lambda: planned(work.result())])
            else:
                self._refitting = False
            self._wake_up()

        if self._worker is None:
            planned(job())
        else:
            self._worker.submit(job).add_done_callback(came)

    def _snapshot(self, *, quiet: bool) -> None:
        """Take a snapshot if one is due: it holds all orders of two days, and nothing is written while it is saved."""
        every = self.snapshot_every if quiet else OVERDUE * self.snapshot_every
        if self._last is None or not every or self.state.events - self._snapshot_at < every:
            return
        self._snapshot_at = self.state.events
        save = snapshot_saver(self.log, self.state, self.learner, self._last)
        self._last.add_done_callback(lambda _: self._outbox.put([save]))

    def _must_work(self) -> None:
        if self.failed:
            raise StateError(f"the engine must work, but {self.failed}")
        if not self._started or self._closed:
            raise StateError("the engine must be started, was not")

    def _pump_here(self) -> None:
        """Do what there is to do, unless a thread serves, which is woken by what is durable."""
        if self._thread is None:
            self.pump()

    def _wake_up(self) -> None:
        """Do what there is to do: here, or in the thread that serves."""
        self._pump_here()
        self._wake()

    def _wake(self) -> None:
        """Wake the thread that serves."""
        self._inbox.put(())


def _nobody(written: Future[list[int]]) -> None:
    """Nobody waits."""


def _key(event: AnyEvent) -> str:
    """What must not be in the log twice."""
    if isinstance(event, Accepted):
        return event.order.key
    if isinstance(event, Settled):
        return event.outcome.parent
    return event.order.key if isinstance(event, Shadowed) else ""
