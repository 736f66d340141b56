"""Engines: a list of independent tasks in, their results in task order out, on one machine or many.

``local`` is joblib with processes of its own; ``dask`` and ``ray`` are joblib's backends on a cluster, an existing one
given by its address or one started here. The engine never shows in a result. A task lost with its worker is done
again; with a shelf, a finished task is remembered there and never done twice.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
import joblib
from joblib.externals.loky.process_executor import BrokenProcessPool

from riskroute.errors import InputError, RiskrouteError, one_of, whole_number
from riskroute.results import PolicyResult
from riskroute.simulation.tasks import Shelf, Task

ENGINES = ("local", "dask", "ray")
_ATTEMPTS = 3  # in a row without one more finished task
_TIMEOUT = 5  # seconds to reach a cluster

Finished = Callable[[Task], None]
Player = Callable[[Sequence[int], Sequence[Task]], Iterator[tuple[int, PolicyResult]]]


class _LostError(Exception):
    """Workers were lost: some tasks have no result."""


@dataclass(frozen=True)
class Engine:
    """Where tasks are done.

    Parameters
    ----------
    kind : ``local``, ``dask`` or ``ray``.
    workers : processes; one per core if None.
    address : of a running dask or ray cluster; one is started here if None.
    """

    kind: str = "local"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        one_of("engine", self.kind, ENGINES)
        if self.workers is not None:
            whole_number("workers", self.workers)
        if self.address is not None and self.kind == "local":
            raise InputError(f"address must be left out with the local engine, was {self.address!r}")

    @property
    def processes(self) -> int:
        """Workers in all."""
        return self.workers or os.cpu_count() or 1


def run_tasks(
    tasks: Sequence[Task],
    engine: Engine,
    *,
    shelf: Shelf | None = None,
    finished: Finished | None = None,
) -> Iterator[PolicyResult]:
    """Do all tasks, then give their results in the order of the tasks, whatever the engine.

    Parameters
    ----------
    shelf : where results lie until they are asked for; tasks found there are not done again. In memory if None.
    finished : called after every task, also for those found on the shelf.
    """
    held: dict[int, PolicyResult] = {}
    left = []
    for number, task in enumerate(tasks):
        if shelf is not None and shelf.has(task):
            _tell(finished, task)
        else:
            left.append(number)
    failures = 0
    with ExitStack() as stack:
        player = stack.enter_context(_player(engine)) if left else None
        while left and player is not None:
            done = set()
            try:
                for number, result in player(left, tasks):
                    if shelf is None:
                        held[number] = result
                    else:
                        shelf.put(tasks[number], result)
                    done.add(number)
                    _tell(finished, tasks[number])
            except _LostError as error:
                failures = 0 if done else failures + 1
                if failures >= _ATTEMPTS:
                    raise RiskrouteError(
                        f"the {engine.kind} engine lost its workers {failures} times in a row: {error.__cause__}"
                    ) from error
            left = [number for number in left if number not in done]
    return _in_order(tasks, held, shelf)


def _in_order(tasks: Sequence[Task], held: dict[int, PolicyResult], shelf: Shelf | None) -> Iterator[PolicyResult]:
    for number, task in enumerate(tasks):
        result = held.pop(number) if shelf is None else shelf.get(task)
        yield task.perform() if result is None else result  # a file spoilt on the way is made anew


def _tell(finished: Finished | None, task: Task) -> None:
    if finished is not None:
        finished(task)


def _packed(numbers: Sequence[int], tasks: Sequence[Task]) -> Iterator[tuple[int, bytes]]:
    """Tasks as bytes: engines that move arrays in ways of their own place them so that sums round differently."""
    return ((number, cloudpickle.dumps(tasks[number])) for number in numbers)


def _perform(number: int, packed: bytes) -> tuple[int, PolicyResult]:
    task: Task = pickle.loads(packed)
    return number, task.perform()


def _perform_apart(number: int, packed: bytes) -> tuple[int, PolicyResult]:
    """In a process of our own: Ctrl-C on the terminal reaches it too, but is for the main process to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return _perform(number, packed)


@contextmanager
def _player(engine: Engine) -> Iterator[Player]:
    start = {"local": _local, "dask": _dask, "ray": _ray}[engine.kind]
    with ExitStack() as stack:
        try:
            player = stack.enter_context(start(engine.processes, engine.address))
        except ImportError:
            message = f"the {engine.kind} engine needs more packages: pip install 'riskroute[cluster]'"
            raise RiskrouteError(message) from None
        except (OSError, ValueError) as error:
            if engine.address is None:
                raise
            raise InputError(
                f"address must be that of a running {engine.kind} cluster, was {engine.address!r}: {error}"
            ) from error
        yield player


def _as_they_finish(
    backend: str, workers: int, calls: Iterable[Any], lost: type[Exception]
) -> Iterator[tuple[int, PolicyResult]]:
    try:
        with joblib.parallel_config(backend, n_jobs=workers):
            yield from joblib.Parallel(return_as="generator_unordered", batch_size=1)(calls)
    except lost as error:
        raise _LostError from error


@contextmanager
def _local(workers: int, address: str | None) -> Iterator[Player]:
    def play(numbers: Sequence[int], tasks: Sequence[Task]) -> Iterator[tuple[int, PolicyResult]]:
        if workers == 1:
            yield from (_perform(*pair) for pair in _packed(numbers, tasks))
            return
        calls = (joblib.delayed(_perform_apart)(*pair) for pair in _packed(numbers, tasks))
        yield from _as_they_finish("loky", workers, calls, BrokenProcessPool)

    yield play


@contextmanager
def _dask(workers: int, address: str | None) -> Iterator[Player]:
    from dask.distributed import Client, LocalCluster
    from distributed.scheduler import KilledWorker

    def play(numbers: Sequence[int], tasks: Sequence[Task]) -> Iterator[tuple[int, PolicyResult]]:
        calls = (joblib.delayed(_perform)(*pair) for pair in _packed(numbers, tasks))
        yield from _as_they_finish("dask", workers, calls, KilledWorker)

    with ExitStack() as stack:
        if address is None:
            address = stack.enter_context(
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
            ).scheduler_address
        stack.enter_context(Client(address, timeout=_TIMEOUT))
        yield play


def _knock(address: str | None) -> None:
    """Raise an `OSError` soon if nobody listens at an address; ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()


@contextmanager
def _ray(workers: int, address: str | None) -> Iterator[Player]:
    import ray
    from ray.exceptions import RayError
    from ray.util.joblib import register_ray

    def play(numbers: Sequence[int], tasks: Sequence[Task]) -> Iterator[tuple[int, PolicyResult]]:
        wave = 4 * workers  # ray's backend gives nothing back before it has everything
        try:
            with joblib.parallel_config("ray", n_jobs=workers), joblib.Parallel(batch_size=1) as parallel:
                for start in range(0, len(numbers), wave):
                    some = _packed(numbers[start : start + wave], tasks)
                    yield from parallel(joblib.delayed(_perform)(*pair) for pair in some)
        except RayError as error:
            raise _LostError from error

    mine = not ray.is_initialized()
    if mine:
        _knock(address)
        size = {"num_cpus": workers, "include_dashboard": False} if address is None else {"address": address}
        ray.init(log_to_driver=False, logging_level="ERROR", configure_logging=False, **size)
    register_ray()
    try:
        yield play
    finally:
        if mine:
            ray.shutdown()
