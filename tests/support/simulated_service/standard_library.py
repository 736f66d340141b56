"""Stand-ins for the modules and executors of the standard library that the live service uses, in simulated time."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.thread
import multiprocessing
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, _base
from contextlib import contextmanager
from typing import Any

from simulated_service import scheduler as simulated
from simulated_service.scheduler import NANO, scheduler


class _Module:
    """A module with some names replaced."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Alarm(simulated.Thread):
    """A `threading.Timer`: makes a call after some seconds, unless it is cancelled before."""

    def __init__(self, interval: float, function: Callable[[], Any]) -> None:
        super().__init__(name="alarm")
        self._seconds, self._function, self._cancelled = interval, function, simulated.Event()

    def run(self) -> None:
        if not self._cancelled.wait(self._seconds):
            self._function()

    def cancel(self) -> None:
        self._cancelled.set()


THREADING = _Module(
    threading,
    Thread=simulated.Thread,
    Lock=simulated.Lock,
    RLock=simulated.RLock,
    Condition=simulated.Condition,
    Event=simulated.Event,
    Timer=_Alarm,
    current_thread=simulated.current_thread,
)
QUEUE = _Module(queue, SimpleQueue=simulated.SimpleQueue, Queue=simulated.SimpleQueue)
TIME = _Module(
    time,
    time_ns=lambda: scheduler().wall(),
    time=lambda: scheduler().wall() / NANO,
    monotonic_ns=lambda: scheduler().monotonic(),
    monotonic=lambda: scheduler().monotonic() / NANO,
    perf_counter=lambda: scheduler().monotonic() / NANO,
    sleep=lambda seconds: scheduler().sleep(seconds),
)


class ThreadPool(Executor):
    """A pool of simulated threads."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "pool", **_: Any) -> None:
        self._most, self._name = max_workers or 6, thread_name_prefix
        self._jobs: Any = simulated.SimpleQueue()
        self._threads: list[simulated.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._jobs.put((future, fn, args, kwargs))
        if self._idle < self._jobs.qsize() and len(self._threads) < self._most:
            thread = simulated.Thread(target=self._run, name=f"{self._name} {len(self._threads)}")
            self._threads.append(thread)
            thread.start()
        return future

    def _run(self) -> None:
        while True:
            self._idle += 1
            job = self._jobs.get()
            self._idle -= 1
            if job is None:
                return
            future, call, arguments, more = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call(*arguments, **more)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        if wait:
            for thread in self._threads:
                thread.join()


class RefitFaults:
    """What is wrong with the worker process that runs, and how often a refit was given up or its process died."""

    def __init__(self) -> None:
        self.stopped_until = self.dies = 0
        self.given_up = self.died = 0


refit_faults = RefitFaults()


class WorkerLine:
    """Both ends of the pipe to a worker process."""

    def __init__(self) -> None:
        self.jobs: Any = simulated.SimpleQueue()
        self._answers: Any = simulated.SimpleQueue()

    def send_bytes(self, job: bytes) -> None:
        self.jobs.put(job)

    def send(self, answer: Any) -> None:
        self._answers.put(answer)

    def recv(self) -> Any:
        if (answer := self._answers.get()) is None:
            raise EOFError
        return answer

    def close(self) -> None:
        """Do nothing: the end of the process is the end of the line."""


class WorkerProcess:
    """A worker process: calls take simulated time, and the process may be stopped or die; a new one is sound."""

    def __init__(self, *, args: tuple[WorkerLine, int], **_: Any) -> None:
        self._line = args[0]
        self._thread = simulated.Thread(target=self._run, name="worker process")
        self.exitcode: int | None = None

    def start(self) -> None:
        refit_faults.stopped_until = refit_faults.dies = 0
        self._thread.start()

    def _run(self) -> None:
        timer = scheduler()
        while self.exitcode is None:
            job = self._line.jobs.get()
            timer.sleep(timer.random.expovariate(1 / 0.3))
            while self.exitcode is None and refit_faults.stopped_until > timer.now:
                timer.sleep(1.0)
            if self.exitcode is None and refit_faults.dies:
                refit_faults.died += 1
                self._end(1)
            if self.exitcode is None:
                self._line.send(("", pickle.loads(job)()))

    def _end(self, code: int) -> None:
        self.exitcode = code
        self._line.send(None)

    def kill(self) -> None:
        if self.exitcode is None:
            refit_faults.given_up += simulated.current_thread().name == "alarm"
            self._end(-9)

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        """Do nothing: a process has ended when its line has."""


def _pipe() -> tuple[WorkerLine, WorkerLine]:
    line = WorkerLine()
    return line, line


_SPAWN = _Module(multiprocessing, Pipe=_pipe, Process=WorkerProcess)
MULTIPROCESSING = _Module(multiprocessing, get_context=lambda _: _SPAWN)


_STAND_INS = {
    id(threading): THREADING,
    id(queue): QUEUE,
    id(time): TIME,
    id(multiprocessing): MULTIPROCESSING,
    id(concurrent.futures.ThreadPoolExecutor): ThreadPool,
}


@contextmanager
def stand_ins(package: str = "riskroute.live") -> Iterator[None]:
    """Replace modules and executors in all modules of a package, and in futures."""
    futures: Any = _base  # where futures get their conditions
    replaced: list[tuple[Any, str, Any]] = [(futures, "threading", futures.threading)]
    futures.threading = THREADING
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            for key, value in list(vars(module).items()):
                if (other := _STAND_INS.get(id(value))) is not None:
                    replaced.append((module, key, value))
                    setattr(module, key, other)
    try:
        yield
    finally:
        for module, key, value in replaced:
            setattr(module, key, value)
