"""What the engine does at venues once events are durable: children sent, cancelled and queried."""

from __future__ import annotations

import heapq
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from riskroute.core.errors import one_line_error
from riskroute.live.ledger import Ledger, Task
from riskroute.live.state.events import ChildOrder, Sent, Withheld
from riskroute.live.state.trading_state import Cancel, Query, Send
from riskroute.live.venues.gateway import Gateway


class Timers:
    """What is due when, by the engine's clock: a heap of times, each with a kind, a name and a number of attempts."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str, str, int]] = []
        self._count = 0  # breaks ties in the order of `add`
        # When a child must have been heard of. A timer from before something else was asked of it comes earlier, and
        # does not count.
        self.answer_by: dict[str, int] = {}

    def add(self, when: int, kind: str, name: str, attempts: int = 0) -> None:
        """Add a timer: ``child``, ``deadline``, ``recall``, ``look`` or ``public``."""
        if kind == "child":
            self.answer_by[name] = when
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, kind, name, attempts))

    @property
    def next_due(self) -> int | None:
        """The earliest time, None without timers."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> Iterator[tuple[str, str, int]]:
        """Remove timers up to a time, earliest first, as kind, name and attempts."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2:]

    def clear(self) -> None:
        """Forget all timers."""
        self._heap = []


class Outbox:
    """Tasks of durable events, and the venues where they are done.

    Parameters
    ----------
    gateways : Mapping[str, Gateway]
        Venues and pools by name.
    ledger : Ledger
        Records what is sent and what could not be.
    timers : Timers
        Gets the time by which a venue must have answered.
    patience : int
        Nanoseconds that a venue has to answer.
    """

    together = 64  # children sent together, under one lock and in one append

    def __init__(self, gateways: Mapping[str, Gateway], ledger: Ledger, timers: Timers, patience: int) -> None:
        self.gateways, self.patience = dict(gateways), patience
        self._ledger, self._timers = ledger, timers
        self.clear()
        self.unresolved: set[str] = set()  # children open at the start that their venues have not answered for yet

    def clear(self) -> None:
        """Forget all tasks."""
        self._sends: queue.SimpleQueue[Sequence[Task]] = queue.SimpleQueue()
        self._urgent: queue.SimpleQueue[Sequence[Task]] = queue.SimpleQueue()

    @property
    def urgent(self) -> bool:
        """Whether something waits that goes before sending: cancels, queries, and calls."""
        return not self._urgent.empty()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return self._sends.empty() and self._urgent.empty()

    def post(self, tasks: Sequence[Task]) -> None:
        """Take the tasks of durable events, from any thread; cancels and queries overtake children to send."""
        sends = [task for task in tasks if isinstance(task, Send)]
        if len(sends) < len(tasks):
            self._urgent.put([task for task in tasks if not isinstance(task, Send)])
        if sends:
            self._sends.put(sends)

    def post_last(self, task: Task) -> None:
        """Take a task that waits behind everything else."""
        self._sends.put([task])

    def work(self, more_time: Callable[[], bool]) -> bool:
        """Do tasks while there is time; return whether all are done. Consecutive children are sent together."""
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
                if isinstance(task, Send):
                    children.append(task.child)
                    continue
                self._send(children)
                children = []
                if isinstance(task, Cancel):
                    self._cancel(task.child)
                elif isinstance(task, Query):
                    with suppress(Exception):  # a gateway may raise anything; its timer asks again
                        self.gateways[task.child.place].query(task.child)
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
                    continue
                if ledger.state.halted or child.cancelling:
                    reason = "halted" if ledger.state.halted else "called back"
                    ledger.record(Withheld(at=now, child=order.id, reason=reason))
                else:
                    sending.append(order)
                    self._timers.add(now + self.patience, "child", order.id)
            if sending:
                ledger.record(*[Sent(at=now, child=order.id) for order in sending])
        for order in sending:
            try:
                self.gateways[order.place].send(order)
            except Exception as error:  # by its contract, a gateway that raises has not sent
                with ledger.lock:
                    ledger.record(Withheld(at=ledger.clock(), child=order.id, reason=one_line_error(error)))

    def _cancel(self, order: ChildOrder) -> None:
        ledger, now = self._ledger, self._ledger.clock()
        with ledger.lock:
            child = ledger.state.children.get(order.id)
            if child is None or child.done:
                return
            if child.sends == 0 and order.id not in self.unresolved:
                ledger.record(Withheld(at=now, child=order.id, reason="called back"))
                return
            self._timers.add(now + self.patience, "child", order.id)
        with suppress(Exception):  # a gateway may raise anything; the timer asks the venue what became of the child
            self.gateways[order.place].cancel(order)

    def cancel_all(self) -> None:
        """Cancel every open child that rests."""
        for name, child in self._ledger.state.children.items():
            if not child.done and not child.order.immediate:
                self.post_last(Cancel(child.order))
                self._timers.add(self._ledger.clock() + self.patience, "child", name)

    def close(self) -> None:
        """Close the gateways."""
        for gateway in self.gateways.values():
            gateway.close()
