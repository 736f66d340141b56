"""Backends: run independent tasks on one machine or a cluster, and return their results in task order.

``local`` uses joblib processes; ``dask`` and ``ray`` connect to the cluster at a given address, or start one on this
machine. Results do not depend on the backend. If a worker dies, its task is retried. Tasks whose results are in a cache
are not run again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import resource_tracker as multiprocessing_tracker
from pathlib import Path
from typing import Any, Protocol, TypeVar

import cloudpickle
import joblib
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool

from riskroute.core.errors import InputError, RiskrouteError
from riskroute.core.files import write_whole
from riskroute.core.runtime import announce_compilation, compilation_announcer
from riskroute.core.text import shown
from riskroute.core.validation import if_given, one_of, whole_number

_ATTEMPTS = 3  # give up if workers die this many times in a row without finishing a task
_TIMEOUT = 5  # seconds to wait for a connection to a cluster

Result = TypeVar("Result")
Done = TypeVar("Done", covariant=True)


class _Work(Protocol[Done]):
    """A picklable task whose result depends only on its fields."""

    def prepare(self) -> None:
        """Precompute, in the parent process, data that several tasks share."""

    def perform(self) -> Done:
        """Run the task."""


class _WorkCache(Protocol[Result]):
    """Cache of the results of finished tasks."""

    def has(self, task: Any, /) -> bool:
        """Return whether the result of ``task`` is stored."""

    def put(self, task: Any, result: Result, /) -> None:
        """Store the result of ``task``."""

    def get(self, task: Any, /) -> Result | None:
        """Return the stored result of ``task``; None if it is missing or damaged."""


Finished = Callable[[Any], None]
_Player = Callable[[Sequence[int], Sequence[_Work[Any]]], Iterator[tuple[int, Any]]]


class _LostError(Exception):
    """Workers died: some tasks have no result."""


@dataclass(frozen=True)
class Backend:
    """Processes or cluster that run tasks.

    Parameters
    ----------
    kind : str
        ``local``, ``dask`` or ``ray``.
    workers : int, optional
        Number of processes; default: one per core of this machine, or all workers of the cluster at ``address``.
    address : str, optional
        Address of a running dask or ray cluster; default: start one on this machine.
    """

    kind: str = "local"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        one_of("backend", self.kind, ("local", "dask", "ray"))
        if_given(whole_number, "workers", self.workers)
        if self.address is not None and self.kind == "local":
            raise InputError(f"address must be omitted for the local backend, was {shown(self.address)}")


def run_backend_tasks(
    tasks: Sequence[_Work[Result]],
    backend: Backend,
    *,
    cache: _WorkCache[Result] | None = None,
    held: dict[int, Result] | None = None,
    finished: Finished | None = None,
) -> Iterator[Result]:
    """Run all tasks, then yield their results in task order.

    Tasks whose results are in the ``cache`` are not run again. Without a cache, ``held`` receives results by task
    number as they arrive, so that an interrupt does not lose them. ``finished`` is called after every task, even if its
    result was in the cache.
    """
    held = {} if held is None else held
    report = finished or (lambda task: None)
    left = []
    for number, task in enumerate(tasks):
        if cache is not None and cache.has(task):
            report(task)
        else:
            left.append(number)
    failures = 0
    with ExitStack() as stack:
        player = stack.enter_context(_player(backend)) if left else None
        while left and player is not None:
            done = set()
            try:
                for number, result in player(left, tasks):
                    if cache is None:
                        held[number] = result
                    else:
                        cache.put(tasks[number], result)
                    done.add(number)
                    report(tasks[number])
            except _LostError as error:
                failures = 0 if done else failures + 1
                if failures >= _ATTEMPTS:
                    cause = type(error.__cause__).__name__
                    raise RiskrouteError(
                        f"the {backend.kind} backend lost its workers {failures} times in a row ({cause}); "
                        "check their memory, or use fewer workers"
                    ) from error
            left = [number for number in left if number not in done]
    return _in_order(tasks, held, cache)


def _in_order(
    tasks: Sequence[_Work[Result]], held: dict[int, Result], cache: _WorkCache[Result] | None
) -> Iterator[Result]:
    for number, task in enumerate(tasks):
        result = held[number] if cache is None else cache.get(task)
        if result is None:  # the stored file is damaged: run the task again
            result = _perform(number, cloudpickle.dumps(task))[1]
        yield result


def _cores() -> int:
    return os.cpu_count() or 1


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let processes and threads started in the block ignore Ctrl-C; deliver it here at the end of the block."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    for tracker in (multiprocessing_tracker, loky_tracker):
        tracker.ensure_running()  # a tracker that starts later would reset the signal mask
    heard = []  # another thread of this process may still receive the signal
    handler = signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if heard:
        signal.raise_signal(signal.SIGINT)


def _packed(numbers: Sequence[int], tasks: Sequence[_Work[Any]]) -> Iterator[tuple[int, bytes]]:
    """Yield task numbers with tasks, pickled here: joblib would change the alignment of arrays, and thereby sums."""
    for number in numbers:
        tasks[number].prepare()
        yield number, cloudpickle.dumps(tasks[number])


def _perform(number: int, packed: bytes) -> tuple[int, Any]:
    task: _Work[Any] = pickle.loads(packed)
    return number, task.perform()


def _perform_apart(number: int, packed: bytes, lines: tuple[str, float] | None) -> tuple[int, Any]:
    """Run a task in a worker process, which ignores Ctrl-C even if it was started late.

    ``lines`` holds the folder for messages about compilation, and the seconds of compilation after which to write one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    announce_compilation(partial(_leave_line, lines[0]) if lines else None, after=lines[1] if lines else 0.0)
    return _perform(number, packed)


def _leave_line(folder: str, text: str) -> None:
    """Write a message for the parent process; workers that compile the same kernels write the same file."""
    path = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    with suppress(OSError):  # the parent may have ended
        write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


@contextmanager
def _lines_of_workers() -> Iterator[tuple[str, float] | None]:
    """Yield a folder for the workers' messages about compilation, and announce each message once in this process.

    Messages printed by a worker would break the progress bar, and repeat if several workers compile the same kernels.
    """
    announcer = compilation_announcer()
    if announcer is None:
        yield None
        return
    ended = threading.Event()
    said: set[str] = set()

    def say_new() -> None:
        for path in sorted(Path(folder).glob("*.txt")):
            if path.name not in said:
                said.add(path.name)
                announcer[0](path.read_text(encoding="utf-8"))

    def watch() -> None:
        while not ended.wait(0.5):
            say_new()

    with tempfile.TemporaryDirectory() as folder:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield folder, announcer[1]
        finally:
            ended.set()
            watcher.join()
            say_new()


@contextmanager
def _player(backend: Backend) -> Iterator[_Player]:
    start = {"local": _local, "dask": _dask, "ray": _ray}[backend.kind]
    with ExitStack() as stack:
        try:
            player = stack.enter_context(start(backend.workers, backend.address))
        except ImportError:
            needed = f"the {backend.kind} backend needs extra packages: pip install 'riskroute[cluster]'"
            raise RiskrouteError(needed) from None
        except (OSError, ValueError) as error:
            if backend.address is None or isinstance(error, InputError):
                raise
            raise InputError(f"no running {backend.kind} cluster at address {backend.address!r}: {error}") from error
        yield player


@contextmanager
def _local(workers: int | None, address: str | None) -> Iterator[_Player]:
    processes = workers or _cores()

    def play(numbers: Sequence[int], tasks: Sequence[_Work[Any]]) -> Iterator[tuple[int, Any]]:
        if processes == 1:
            yield from (_perform(*pair) for pair in _packed(numbers, tasks))
            return
        try:
            with _lines_of_workers() as lines, joblib.parallel_config("loky", n_jobs=processes):
                calls = (joblib.delayed(_perform_apart)(*pair, lines) for pair in _packed(numbers, tasks))
                with _interrupts_blocked():  # starts the processes, which spend seconds on imports
                    results = joblib.Parallel(return_as="generator_unordered", batch_size=1)(calls)
                yield from results
        except BrokenProcessPool as error:
            raise _LostError from error

    yield play


@contextmanager
def _dask(workers: int | None, address: str | None) -> Iterator[_Player]:
    """Use dask's own futures: joblib's dask backend hangs on a task that kills every worker."""
    from dask.distributed import Client, LocalCluster, as_completed
    from distributed.scheduler import KilledWorker

    with ExitStack() as stack:
        if address is None:
            with _interrupts_blocked():
                count = workers or _cores()
                cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs=50)
            address = stack.enter_context(cluster).scheduler_address
        client = stack.enter_context(Client(address, timeout=_TIMEOUT))

        def play(numbers: Sequence[int], tasks: Sequence[_Work[Any]]) -> Iterator[tuple[int, Any]]:
            places = workers or max(sum(client.nthreads().values()), 1)
            waiting = _packed(numbers, tasks)
            running = as_completed([client.submit(_perform, *pair, pure=False) for pair in islice(waiting, 2 * places)])
            try:
                for future in running:
                    yield future.result()
                    for pair in islice(waiting, 1):
                        running.add(client.submit(_perform, *pair, pure=False))
            except KilledWorker as error:
                raise _LostError from error

        yield play


def _require_listener(address: str | None) -> None:
    """Raise an `OSError` if nothing listens at ``address``; ray would retry for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()


def _set_ray_token() -> None:
    """Set a token for a ray cluster started here; otherwise ray would write one to the home folder."""
    named = any(name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if not named and not (Path.home() / ".ray" / "auth_token").exists():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def _ray(workers: int | None, address: str | None) -> Iterator[_Player]:
    import ray
    from ray.exceptions import RayError
    from ray.util.joblib import register_ray

    def play(numbers: Sequence[int], tasks: Sequence[_Work[Any]]) -> Iterator[tuple[int, Any]]:
        wave = 4 * processes  # ray's joblib backend returns nothing before all tasks of a call are finished
        try:
            with joblib.parallel_config("ray", n_jobs=processes), joblib.Parallel(batch_size=1) as parallel:
                for start in range(0, len(numbers), wave):
                    some = _packed(numbers[start : start + wave], tasks)
                    yield from parallel(joblib.delayed(_perform)(*pair) for pair in some)
        except RayError as error:
            raise _LostError from error

    mine = not ray.is_initialized()
    if mine:
        _require_listener(address)
        here = {"num_cpus": workers or _cores(), "include_dashboard": False}
        size = here if address is None else {"address": address}
        if address is None:
            _set_ray_token()
        ray.init(log_to_driver=False, logging_level="ERROR", configure_logging=False, **size)
    register_ray()
    try:
        there = int(ray.cluster_resources().get("CPU", 1))
        processes = there if workers is None else workers
        if processes > there:
            raise InputError(f"workers must be at most {there} on this cluster, was {processes}")
        yield play
    finally:
        if mine:
            ray.shutdown()
