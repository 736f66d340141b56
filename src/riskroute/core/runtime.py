"""Optional extras, time spent compiling, a lock-free cached property, a histogram."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from typing import Any, Generic, Self, TypeVar, overload

from riskroute.core.errors import RiskrouteError


def extra_is_installed(library: str) -> bool:
    """Return whether a library is installed, without importing it."""
    return find_spec(library) is not None


def require_extra(what: str, extra: str, *libraries: str) -> None:
    """Raise `RiskrouteError` with the command that installs ``extra`` if one of ``libraries`` is missing."""
    for library in libraries:
        if not extra_is_installed(library):
            raise RiskrouteError(f"{what} need {library}: pip install 'riskroute[{extra}]'")


Value = TypeVar("Value")


class cached(Generic[Value]):  # noqa: N801 - a decorator, like property
    """A property that is computed once: `functools.cached_property` without its lock in Python 3.11.

    Two threads may compute the property at the same time, so the result must be deterministic.
    """

    def __init__(self, work: Callable[[Any], Value]) -> None:
        self._work, self._name, self.__doc__ = work, work.__name__, work.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type[Any]) -> Value: ...

    def __get__(self, owner: object | None, kind: type[Any]) -> Self | Value:
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._work(owner)
        return value


_announcer: list[tuple[Callable[[str], None], float]] = []  # at most one entry: a function and its threshold in seconds


def announce_compilation(say: Callable[[str], None] | None, *, after: float = 2.0) -> None:
    """Call ``say`` with a message for each subject of `compilation_timed` that compiles for ``after`` seconds or more.

    If ``say`` is None, compilation is not announced.
    """
    _announcer[:] = [] if say is None else [(say, after)]


def compilation_announcer() -> tuple[Callable[[str], None], float] | None:
    """Return ``say`` and ``after`` of `announce_compilation`; None if compilation is not announced."""
    return _announcer[0] if _announcer else None


@contextmanager
def compilation_timed(subject: str) -> Iterator[Callable[[], float]]:
    """Yield a function that returns the seconds spent compiling and loading kernels in the ``with`` block.

    Kernels are compiled at first use and cached on disk. Tables of timings exclude compilation, which would otherwise
    be charged to the first policy or router. Contexts nest; ``subject`` of the innermost is announced.
    """
    clock, before = _compilation_clock(), compilation_seconds()
    clock.subjects.append(subject)
    try:
        yield lambda: compilation_seconds() - before
    finally:
        clock.subjects.pop()


def compilation_seconds() -> float:
    """Return the seconds that this process has spent compiling and loading kernels since the first call."""
    return float(_compilation_clock().seconds)


@cache
def _compilation_clock() -> Any:
    """Return this process's listener to numba's compiler, which measures seconds and announces each subject once."""
    from numba.core.event import Event, Listener, register

    class Clock(Listener):
        def __init__(self) -> None:
            self.seconds = self.began = 0.0
            self.depth = 0  # open events: compiling a kernel also compiles the kernels it calls
            self.compiling = 0  # open compilation events; other events only load or store a kernel
            self.subjects: list[str] = []
            self.spent: dict[str, float] = {}

        def on_start(self, event: Event) -> None:
            if self.depth == 0:
                self.began = time.perf_counter()
            self.depth += 1
            self.compiling += event.kind == "numba:compile"
            self.announce()

        def on_end(self, event: Event) -> None:
            self.announce()
            self.compiling -= event.kind == "numba:compile"
            self.depth -= 1
            if self.depth == 0:
                self.seconds += (elapsed := time.perf_counter() - self.began)
                if self.subjects:
                    self.spent[self.subjects[-1]] = self.spent.get(self.subjects[-1], 0.0) + elapsed

        def announce(self) -> None:
            if not (self.compiling and self.subjects and _announcer):
                return
            (say, after), subject = _announcer[0], self.subjects[-1]
            if self.spent.get(subject, 0.0) + time.perf_counter() - self.began >= after:
                self.spent[subject] = -math.inf  # each subject once
                say(f"compiling kernels for {subject}; later runs load them from the cache")

    clock = Clock()
    for event in ("numba:compile", "numba:compiler_lock"):  # the lock is also held to load and store kernels
        register(event, clock)  # type: ignore[no-untyped-call]  # numba has no types
    return clock


class DurationHistogram:
    """Cumulative histogram of durations, as in Prometheus; safe without a lock for a single writer."""

    buckets = (1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.2, 1.0)  # upper bounds in seconds

    def __init__(self) -> None:
        self._counts = [0] * (len(self.buckets) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(self.buckets, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each bucket's upper bound, as text, and the number of durations up to that bound."""
        return list(zip((*map(str, self.buckets), "+Inf"), accumulate(self._counts), strict=True))
