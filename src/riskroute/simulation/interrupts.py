"""Ctrl-C without losses: the first one asks to stop after the current run, the second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def polite_interrupts() -> Iterator[Callable[[], bool]]:
    """While active, note the first interrupt instead of raising it; yields the question whether there was one.

    An interrupt raised inside compiled code would surface as another error, and the run at hand would be lost.
    Outside the main thread, or where interrupts are handled by somebody else already, nothing is changed.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: False
        return
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
