"""Background work for the engine: threads, and a worker process that is killed if a call takes too long."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec, TypeVar

import cloudpickle

from riskroute.core.errors import StateError
from riskroute.core.text import one_line_text

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


class BackgroundThread(Executor):
    """An executor with one thread, or several; unlike a `ThreadPoolExecutor`, it does not keep the process alive."""

    patience = 5.0  # seconds to wait in `shutdown` for calls; a snapshot usually takes less than one

    def __init__(self, name: str, threads: int = 1) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(
        self, call: Callable[_Arguments, _Value], /, *arguments: _Arguments.args, **more: _Arguments.kwargs
    ) -> Future[_Value]:
        answer: Future[_Value] = Future()
        self._calls.put((answer, partial(call, *arguments, **more)))
        return answer

    def _run(self) -> None:
        while self._make(self._calls.get()):
            pass

    def _make(self, given: tuple[Future[Any], Callable[[], Any]] | None) -> bool:
        if given is None:
            return False
        answer, call = given
        if answer.set_running_or_notify_cancel():
            try:
                value = call()
            except BaseException as error:  # the caller handles it
                answer.set_exception(error)
            else:
                answer.set_result(value)
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after all submitted calls; ``wait`` for each thread, but no longer than `patience`."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads if wait else ():
            thread.join(self.patience)


class BackgroundProcess(BackgroundThread):
    """A worker process, started when first needed, and again after it has died or taken too long.

    Not a `ProcessPoolExecutor`, whose threads keep a service from ending while its process is stopped.
    """

    least = 60.0  # lower bound on `limit`, in seconds; a refit takes a second or two

    def __init__(self) -> None:
        # Seconds after which a call is abandoned and the process killed: four times the duration of the last call. Each
        # kill doubles the limit, so that even a slow refit eventually completes.
        self.limit = self.least
        self._line: Connection | None = None
        self._process: BaseProcess | None = None
        self._closed = False
        super().__init__("riskroute refits")

    def submit(
        self, call: Callable[_Arguments, _Value], /, *arguments: _Arguments.args, **more: _Arguments.kwargs
    ) -> Future[_Value]:
        return super().submit(self._in_process, partial(call, *arguments, **more))

    def _in_process(self, call: Callable[[], _Value]) -> _Value:
        if self._closed:
            raise StateError("the worker is shut down")
        process, line = self._started()
        limit, began = self.limit, time.monotonic()
        # A stopped process does not read: only its death ends a blocked write.
        alarm = threading.Timer(limit, process.kill)
        alarm.start()
        try:
            line.send_bytes(cloudpickle.dumps(call))  # pickle cannot import the class of a router from a file
            failed, value = line.recv()
        except (EOFError, OSError):
            process.join(1.0)
            process.kill()
            self._process = None
            if time.monotonic() - began < limit:
                raise StateError(f"the worker process died, exit code {process.exitcode}") from None
            self.limit = 2 * limit
            raise StateError(f"the worker process was killed: no answer within {limit:g} s") from None
        finally:
            alarm.cancel()
        self.limit = max(self.least, 4 * (time.monotonic() - began))
        if failed:
            raise StateError(failed)
        return value  # type: ignore[no-any-return]  # from the process

    def _started(self) -> tuple[BaseProcess, Connection]:
        if self._process is None or self._line is None or not self._process.is_alive():
            spawn = multiprocessing.get_context("spawn")
            self._line, theirs = spawn.Pipe()
            process = spawn.Process(target=_work, args=(theirs, os.getpid()), name="riskroute refits", daemon=True)
            process.start()
            theirs.close()  # so that the pipe closes when the process ends
            self._process = process
            if self._closed:  # another thread has called `shutdown` meanwhile
                process.kill()
        return self._process, self._line

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Kill the process: the log has all that a refit needs."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()  # SIGTERM waits for as long as the process is stopped
        super().shutdown(wait)
        if process is not None:
            process.join(1.0)


def _work(line: Connection, parent: int) -> None:
    """Serve calls in the worker process; exit when the parent process dies, even if it is killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    threading.Thread(target=watch, name="riskroute orphan", daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(10)  # decisions come first
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            call = line.recv_bytes()
            try:
                answer = "", pickle.loads(call)()
            except Exception as error:  # a router may raise anything
                answer = one_line_text(error) or type(error).__name__, None
            line.send(answer)
