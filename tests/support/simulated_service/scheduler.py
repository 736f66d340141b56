"""The scheduler of the simulation: simulated time, threads as greenlets, and what they wait for.

Only one thread runs at a time, and only a wait lets another one run, so that a seed determines everything that happens.
`Lock`, `RLock`, `Condition`, `Event`, `SimpleQueue` and `Thread` behave like those of the standard library.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

from greenlet import getcurrent, greenlet

NANO = 10**9
NEVER = 1 << 62


class Crash(BaseException):
    """The simulated process has ended: raised in every thread of it."""


class Timer:
    """Something that happens at a time, unless it is cancelled before."""

    __slots__ = ("action", "arguments")

    def __init__(self, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.action: Callable[..., Any] | None = action
        self.arguments = arguments

    def cancel(self) -> None:
        self.action = None


class Process:
    """A process whose threads end together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused_until = 0
        self.threads: list[Thread] = []


class Scheduler:
    """Simulated time in nanoseconds, and what happens when.

    Parameters
    ----------
    seed : int
        Seed of the delays between a wake-up and the run of its thread.
    start : int
        Nanoseconds since 1970 at the start.
    """

    most_at_once = 200_000  # events without progress of the time: a loop that never waits

    def __init__(self, seed: int, start: int = 1_700_000_000 * NANO) -> None:
        self.start = start
        self.now = 0
        self.skew = 0  # by which the wall clock has jumped
        self.random = random.Random(seed)
        self.current: Thread | None = None
        self.steps = 0
        self.errors: list[str] = []
        self.on_step: Callable[[], None] = lambda: None
        # By name of a thread that polls: when a poll may find something. Polls before that are skipped.
        self.poll_due: dict[str, Callable[[], int]] = {}
        self._polls: dict[Thread, tuple[int, int, int]] = {}  # next poll, interval, number of the wait
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._hub = getcurrent()
        self._stopped = False

    def at(self, when: int, action: Callable[..., Any], *arguments: Any) -> Timer:
        """Call something at a time."""
        timer = Timer(action, arguments)
        self._count += 1
        heapq.heappush(self._heap, (max(when, self.now), self._count, timer))
        return timer

    def after(self, wait: int, action: Callable[..., Any], *arguments: Any) -> Timer:
        """Call something after some nanoseconds."""
        return self.at(self.now + wait, action, *arguments)

    def run(self, until: int) -> None:
        """Let time pass, until then or `stop`."""
        stuck = 0
        while not self._stopped and not self.errors:
            heap = self._heap
            while heap and heap[0][2].action is None:
                heapq.heappop(heap)
            when = heap[0][0] if heap else NEVER
            thread = self._next_poll(when) if self._polls else None
            if thread is not None:
                polled, _, wait = self._polls[thread]
                if polled > until:
                    break
                self.now, stuck = max(polled, self.now), 0
                thread.idle += 1
                self._resume(thread, wait, False)
                continue
            if when > until:
                break
            stuck = 0 if when > self.now else stuck + 1
            if stuck > self.most_at_once:
                self.errors.append("time stands still: a thread loops without waiting")
                break
            _, _, timer = heapq.heappop(heap)
            self.now = when
            action = timer.action
            assert action is not None
            action(*timer.arguments)
        self.now = max(self.now, min(until, self.now if self._stopped or self.errors else until))

    def stop(self) -> None:
        """End `run`."""
        self._stopped = True

    def _next_poll(self, when: int) -> Thread | None:
        """Return the thread whose poll comes before anything else, after polls that find nothing are skipped."""
        best, found = when, None
        for thread, (polled, every, wait) in self._polls.items():
            if polled >= best:
                continue
            if thread.idle >= 2:
                until = min(when, self.poll_due.get(thread.name, _never)())
                if until > polled:
                    polled += (until - polled) // every * every
                    self._polls[thread] = polled, every, wait
            if polled < best:
                best, found = polled, thread
        return found

    # threads

    def block(self, seconds: float | None = None) -> bool:
        """Let others run until `wake`, which gives True, or for some seconds, which gives False."""
        thread = self.current
        if thread is None:
            raise RuntimeError("only a simulated thread can wait")
        if not thread.process.alive:
            raise Crash
        thread.waits += 1
        timer = None
        if seconds is not None:
            wait = max(int(seconds * NANO), 0)
            if wait > 0 and seconds < 1.0 and thread.name in self.poll_due:
                self._polls[thread] = self.now + wait, wait, thread.waits
            else:
                timer = self.at(self.now + wait, self._resume, thread, thread.waits, False)
        woken: bool = self._hub.switch()
        if timer is not None:
            timer.cancel()
        if not thread.process.alive:
            raise Crash
        return woken

    def wake(self, thread: Thread) -> None:
        """Let a thread that waits run soon."""
        self.after(self.random.randrange(2_000, 60_000), self._resume, thread, thread.waits, True)

    def _resume(self, thread: Thread, wait: int, woken: bool) -> None:
        if thread.waits != wait or thread.done or not thread.process.alive:
            return
        if thread.process.paused_until > self.now:
            self._polls.pop(thread, None)
            self.at(thread.process.paused_until, self._resume, thread, wait, woken)
            return
        self._polls.pop(thread, None)
        if woken:
            thread.idle = 0
        thread.waits += 1
        self._switch(thread, woken)

    def _switch(self, thread: Thread, value: Any) -> None:
        self.current = thread
        self.steps += 1
        thread.greenlet.switch(value)
        self.current = None
        self.on_step()

    def kill(self, process: Process) -> None:
        """End a process: raise `Crash` in each of its threads, wherever it waits; not to be called from one of them."""
        process.alive = False
        for thread in process.threads:
            self._polls.pop(thread, None)
            while not thread.done and thread.greenlet:
                self.current = thread
                thread.greenlet.throw(Crash)
                self.current = None
            thread.finish()
        process.threads.clear()

    def sleep(self, seconds: float) -> None:
        """Let others run for some seconds."""
        end = self.now + int(seconds * NANO)
        while self.now < end:
            self.block((end - self.now) / NANO)

    # clocks

    def wall(self) -> int:
        """Nanoseconds since 1970, by the clock of the service's machine."""
        return self.true_time() + self.skew

    def true_time(self) -> int:
        """Nanoseconds since 1970."""
        return self.start + self.now

    def monotonic(self) -> int:
        """Nanoseconds since the start."""
        return self.now


def _never() -> int:
    return NEVER


_active: list[Scheduler] = []


def scheduler() -> Scheduler:
    """Return the scheduler of the simulation that runs."""
    return _active[-1]


@contextmanager
def active(one: Scheduler) -> Iterator[None]:
    """Use a scheduler for all threads, locks and clocks."""
    _active.append(one)
    try:
        yield
    finally:
        _active.pop()


class Thread:
    """A thread of the process that starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str = "",
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
        process: Process | None = None,
    ) -> None:
        self.name, self.daemon = name or "thread", daemon
        self._call = target, args, kwargs or {}
        self._process = process
        self.waits = self.idle = 0
        self.started = self.done = False
        self._joining: list[Thread] = []

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        timer = scheduler()
        if self._process is None:
            assert timer.current is not None
            self._process = timer.current.process
        if not self._process.alive:
            raise Crash
        self.started = True
        self.process.threads.append(self)
        self.greenlet = greenlet(self._run, timer._hub)
        timer.wake(self)

    def _run(self, _: object) -> None:
        target, arguments, more = self._call
        timer = scheduler()
        try:
            if target is not None:
                target(*arguments, **more)
            else:
                self.run()
        except Crash:
            pass
        except BaseException as error:
            if self.process.alive:
                timer.errors.append(f"the thread {self.name!r} raised {error!r}")
        if self.process.alive:
            self.process.threads.remove(self)
        self.finish()

    def run(self) -> None:
        """Do nothing; subclasses do."""

    def finish(self) -> None:
        self.done = True
        for thread in self._joining:
            scheduler().wake(thread)
        self._joining.clear()

    def is_alive(self) -> bool:
        return self.started and not self.done

    def join(self, timeout: float | None = None) -> None:
        timer = scheduler()
        if not self.done and timer.current is not None:
            self._joining.append(timer.current)
            timer.block(timeout)


class _Main:
    """Stands for whatever runs outside simulated threads."""

    name = "main"


_MAIN = _Main()


def current_thread() -> Any:
    return scheduler().current or _MAIN


class Lock:
    """A lock that is not re-entrant."""

    def __init__(self) -> None:
        self._owner: Any = None
        self._count = 0
        self._waiting: deque[Thread] = deque()

    reentrant = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        timer = _active[-1]
        me = timer.current or _MAIN
        if self._count and self.reentrant and self._owner is me:
            self._count += 1
            return True
        while self._count:
            if not blocking:
                return False
            thread = timer.current
            if thread is None:
                raise RuntimeError("a lock that is held was taken outside of simulated threads")
            self._waiting.append(thread)
            timer.block(None if timeout < 0 else timeout)
            if timeout >= 0 and self._count:
                return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if not self._count:
            current = _active[-1].current
            if current is not None and not current.process.alive:
                return  # unwinding after a crash
            raise RuntimeError("a lock must be held to be released, was not")
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiting:
                _active[-1].wake(self._waiting.popleft())

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def locked(self) -> bool:
        return self._count > 0

    def _release_save(self) -> tuple[Any, int]:
        saved = self._owner, self._count
        self._count = 1
        self.release()
        return saved

    def _acquire_restore(self, saved: tuple[Any, int]) -> None:
        self.acquire()
        self._owner, self._count = saved


class RLock(Lock):
    """A lock that its holder may take again."""

    reentrant = True


class Condition:
    """A condition variable."""

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = RLock() if lock is None else lock
        self.acquire, self.release = self._lock.acquire, self._lock.release
        self._waiting: deque[Thread] = deque()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        timer = _active[-1]
        thread = timer.current
        if thread is None:
            raise RuntimeError("only a simulated thread can wait")
        self._waiting.append(thread)
        saved = self._lock._release_save()
        woken = False
        try:
            woken = timer.block(timeout)
        finally:
            if not woken and thread in self._waiting:
                self._waiting.remove(thread)
            if thread.process.alive:
                self._lock._acquire_restore(saved)
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        timer = _active[-1]
        end = None if timeout is None else timer.now + int(timeout * NANO) + 1
        while not (found := predicate()):
            left = None if end is None else (end - timer.now) / NANO
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        while n > 0 and self._waiting:
            _active[-1].wake(self._waiting.popleft())
            n -= 1

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class Event:
    """A flag to wait for."""

    def __init__(self) -> None:
        self._condition = Condition()
        self._flag = False

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        self._flag = True
        self._condition.notify_all()

    def clear(self) -> None:
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._flag:
            with self._condition:
                self._condition.wait_for(self.is_set, timeout)
        return self._flag


class SimpleQueue:
    """An unbounded queue."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[Thread] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        if self._waiting:
            _active[-1].wake(self._waiting.popleft())

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        timer = _active[-1]
        end = None if timeout is None else timer.now + int(timeout * NANO) + 1
        while not self._items:
            left = None if end is None else (end - timer.now) / NANO
            if not block or (left is not None and left <= 0):
                raise Empty
            thread = timer.current
            if thread is None:
                raise RuntimeError("only a simulated thread can wait")
            self._waiting.append(thread)
            if not timer.block(left) and thread in self._waiting:
                self._waiting.remove(thread)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)
