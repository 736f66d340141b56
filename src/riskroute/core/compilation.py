"""Compilation of kernels: how long it takes, and a line to the user who waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_announce: list[Callable[[str], None]] = []


def announce_compilation(say: Callable[[str], None]) -> None:
    """Let ``say`` print a line whenever `compilation_timed` code begins to compile; the command line does."""
    _announce[:] = [say]


@contextmanager
def compilation_timed(subject: str) -> Iterator[Callable[[], float]]:
    """Yield a function that returns the seconds spent compiling kernels in this context.

    Kernels are compiled at first use and cached on disk, so a table that includes this time charges it to whichever
    policy happens to come first.
    """
    from numba.core.event import Event, Listener, install_listener

    class Timer(Listener):
        seconds = began = 0.0
        depth = 0  # kernels that call others compile them on the way

        def on_start(self, event: Event) -> None:
            if self.depth == 0:
                if _announce and self.seconds == 0:
                    _announce[0](f"compiling kernels for {subject} (once, about 10 s)")
                self.began = time.perf_counter()
            self.depth += 1

        def on_end(self, event: Event) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.perf_counter() - self.began

    timer = Timer()
    with install_listener("numba:compile", timer):
        yield lambda: timer.seconds
