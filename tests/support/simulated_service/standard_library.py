"""Stand-ins for the modules and executors of the standard library that the live service uses, in simulated time."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.thread
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, _base
from concurrent.futures.process import BrokenProcessPool
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


THREADING = _Module(
    threading,
    Thread=simulated.Thread,
    Lock=simulated.Lock,
    RLock=simulated.RLock,
    Condition=simulated.Condition,
    Event=simulated.Event,
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


class RefitProcess:
    """What may be wrong with the process of the refit worker: it stops, or dies with its next job."""

    def __init__(self) -> None:
        self.stopped_until = 0
        self.dies = 0
        self.jobs = self.died = 0


refit_process = RefitProcess()


class ProcessPool(Executor):
    """A worker process: jobs take simulated time, and the process may stop or die."""

    def __init__(self, max_workers: int | None = None, *_: Any, **__: Any) -> None:
        self._jobs: Any = simulated.SimpleQueue()
        self._thread: simulated.Thread | None = None
        self._broken = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._broken:
            raise BrokenProcessPool("the worker died")
        if self._thread is None:
            self._thread = simulated.Thread(target=self._run, name="worker process")
            self._thread.start()
        future: Future[Any] = Future()
        self._jobs.put((future, fn, args, kwargs))
        return future

    def _run(self) -> None:
        timer = scheduler()
        while (job := self._jobs.get()) is not None:
            future, call, arguments, more = job
            if not future.set_running_or_notify_cancel():
                continue
            refit_process.jobs += 1
            timer.sleep(timer.random.expovariate(1 / 0.3))
            while refit_process.stopped_until > timer.now:
                timer.sleep((refit_process.stopped_until - timer.now) / NANO)
            if refit_process.dies > 0:
                refit_process.dies -= 1
                refit_process.died += 1
                self._broken = True
                future.set_exception(BrokenProcessPool("the worker died"))
                continue
            try:
                result = call(*arguments, **more)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._thread is None:
            return
        if cancel_futures:
            while not self._jobs.empty():
                self._jobs.get_nowait()[0].cancel()
        self._jobs.put(None)
        if wait:
            self._thread.join()


_STAND_INS = {
    id(threading): THREADING,
    id(queue): QUEUE,
    id(time): TIME,
    id(concurrent.futures.ThreadPoolExecutor): ThreadPool,
    id(concurrent.futures.ProcessPoolExecutor): ProcessPool,
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
