"""The process in which a router learns while it goes on deciding."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

LOW_PRIORITY = 10
"""What is added to the niceness of the worker."""

ORPHAN_SECONDS = 1.0
"""A worker looks so often whether the service that started it is still there."""


class RefitWorker(Executor):
    """One process, started when it is first needed, and again if it dies."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def submit(
        self, job: Callable[Arguments, Value], /, *arguments: Arguments.args, **more: Arguments.kwargs
    ) -> Future[Value]:
        for _ in range(2):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), initializer=end_with_parent, initargs=(os.getpid(),)
                )
            try:
                return self._pool.submit(job, *arguments, **more)
            except BrokenProcessPool:
                self._pool = None
        failed: Future[Value] = Future()
        failed.set_exception(BrokenProcessPool("the process that learns cannot be started"))
        return failed

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)


def end_with_parent(parent: int) -> None:
    """End this process once its parent is gone, even if that was killed: a worker that waits would wait for ever.

    It learns at low priority: decisions come first.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, name="riskroute orphan", daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(LOW_PRIORITY)
