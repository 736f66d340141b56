"""The inner part of the engine: what durable events ask for is done, and what is due by the clock."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress

from riskroute.core.errors import StateError, one_line_error
from riskroute.live.engine_ledger import EngineLedger
from riskroute.live.log.recovery import snapshot_saver
from riskroute.live.state.events import (
    NANO,
    ChildOrder,
    Halted,
    ParentOrder,
    Planned,
    Sent,
    Withheld,
)
from riskroute.live.state.trading_state import Cancel, Query, Send
from riskroute.live.venues.gateway import Gateway

PUMP = NANO // 20
"""Under load there is always something to send: after so many nanoseconds timers and refits have their turn."""

OVERDUE = 10
"""A snapshot waits for a quiet moment, until it is due so many times over."""

MOST_SENDS = 64
"""Children that are handed to their venues together, at most."""


class EngineCore(EngineLedger):
    """What an engine does about durable events, and when; everything is called with the lock held, but for `pump`."""

    gateways: Mapping[str, Gateway]
    patience: int
    snapshot_every: int

    def __init__(self) -> None:
        super().__init__()
        self._timers: list[tuple[int, int, str, str, int]] = []
        self._timer_count = 0
        self._patient: dict[str, int] = {}
        """When a child must have been heard of: earlier timers, from before something else was asked, do not count."""
        self._asked: set[str] = set()
        """Children from before the start that were not answered for."""
        self._unseen: dict[str, ParentOrder] = {}
        """Orders of which public data will tell more at their deadlines."""
        self._started = self._closed = False
        self._worker: Executor | None = None
        self._refitting = False
        self._snapshot_at = 0
        self._clocks = (0, 0)
        self._ticked = self._deaf_until = self._told = 0

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
        self._append_gathered()
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
