"""Backends: the same tables from one process, two, dask and ray; lost workers and killed runs cost nothing but time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import pytest

import small_runs
from riskroute import Environment, InputError, Policy, PolicyResult, RiskrouteError
from riskroute.cli.app import run_app as command
from riskroute.learning.policies.rise import Rise
from riskroute.paper.experiments import plan_experiments, reproduce
from riskroute.policies import Adaptive, RiskUcb
from riskroute.routing.instances import random_routing_problem
from riskroute.simulation import backends
from riskroute.simulation.backends import Backend, run_backend_tasks
from riskroute.simulation.runner import RunnerCache, SimulationTask

HORIZON, RUNS = 500, 2

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers elsewhere cannot import this file


def tables(out: Path, backend: Backend, *, resume: bool = False) -> dict[str, bytes]:
    """Every file of a small reproduction, by name."""
    experiments = [
        one
        for name, panel in (("figure2", "c"), ("nonstationary", "a"))
        for one in plan_experiments(
            name, panel=panel, runs=RUNS, horizon=HORIZON, policies=["rise", "risk-ucb", "adaptive"]
        )
    ]
    files = [path for done in reproduce(experiments, out, backend, resume=resume) for path in done.files]
    assert len({path.parent for path in files}) == 2
    assert all(path.exists() for path in files)
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process finds."""
    return tables(tmp_path_factory.mktemp("alone"), Backend(workers=1))


def test_two_workers_give_the_same_bytes(tmp_path: Path, alone: dict[str, bytes]) -> None:
    assert tables(tmp_path, Backend(workers=2)) == alone


@pytest.fixture(scope="module")
def dask_address() -> Iterator[str]:
    """A running cluster, which gives up a task at the first worker it kills, not at the fourth as usual."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.mark.filterwarnings("ignore")  # of the backends' own making
def test_a_running_cluster_of_dask_is_used_by_its_address_and_gives_the_same_bytes(
    tmp_path: Path, alone: dict[str, bytes], dask_address: str
) -> None:
    assert tables(tmp_path, Backend("dask", address=dask_address)) == alone


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "address"), [("dask", "tcp://127.0.0.1:9"), ("ray", "127.0.0.1:9")])
def test_an_address_without_a_listener_is_refused(kind: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(kind)
    monkeypatch.setattr(backends, "_TIMEOUT", 0.5)  # dask retries until then
    with pytest.raises(InputError, match=rf"no running {kind} cluster at address '{address}'"):
        run_backend_tasks([some_task(0)], Backend(kind, address=address))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "spark"}, "backend must be one of local, dask, ray, was 'spark'"),
        ({"workers": 0}, "workers must be a positive integer, was 0"),
        ({"address": "tcp://x"}, "address must be omitted for the local backend, was 'tcp://x'"),
    ],
)
def test_invalid_backends_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Backend(**values)


@dataclass(kw_only=True)
class Fragile(Rise):
    """Kills the process it plays in, the first time it does."""

    name: ClassVar[str] = "fragile"
    marker: str = ""
    always: bool = False

    def begin(self) -> None:
        super().begin()
        path = Path(self.marker)
        if self.always or not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(kw_only=True)
class Broken(Rise):
    """A policy with a bug."""

    name: ClassVar[str] = "broken"

    def begin(self) -> None:
        raise ZeroDivisionError("a mistake")


WORLD = Environment(random_routing_problem(3, 3, seed=1))


def some_task(number: int, policy: Policy | None = None) -> SimulationTask:
    return SimulationTask(WORLD, "rise", policy or Rise(), 300, 5, number, number + 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", ["local", *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("dask", "ray"))]
)
def test_a_lost_worker_costs_only_its_tasks(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Its tasks are done again, what was finished before is not, and all results are those of one process.

    Clusters take seconds to start: that of dask is shared, and this is ray's only one; see also test_ray_backend.
    """
    pytest.importorskip("joblib" if kind == "local" else kind)
    address = request.getfixturevalue("dask_address") if kind == "dask" else None
    monkeypatch.setenv("RAY_worker_niceness", "0")  # or its workers starve beside other tests
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    policies = (Rise(), RiskUcb(), Adaptive(), Rise())
    tasks = [some_task(number, policies[number % 4]) for number in range(8)]
    tasks[4] = some_task(4, Fragile(marker=str(tmp_path / "killed")))
    finished: list[int] = []
    cache = RunnerCache(tmp_path / "tasks")
    results = list(
        run_backend_tasks(
            tasks, Backend(kind, 2, address), cache=cache, finished=lambda one: finished.append(one.first)
        )
    )
    assert (tmp_path / "killed").exists()
    assert sorted(finished) == list(range(8))
    assert not list(home.iterdir()), "backends leave nothing in the home folder"
    for one, result in zip(tasks, results, strict=True):
        if one.first != 4:
            assert_same(result, one.perform())


def assert_same(ours: PolicyResult, theirs: PolicyResult) -> None:
    """Every number but the time it took."""
    for field in dataclasses.fields(PolicyResult):
        if field.name != "seconds":
            np.testing.assert_array_equal(getattr(ours, field.name), getattr(theirs, field.name), err_msg=field.name)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backends try once: workers take a second to start. That they try three times is seen in test_ray_backend."""
    monkeypatch.setattr(backends, "_ATTEMPTS", 1)


def give_up(backend: Backend, marker: Path) -> None:
    with pytest.raises(RiskrouteError, match=f"the {backend.kind} backend lost its workers 1 times in a row"):
        run_backend_tasks([some_task(0, Fragile(marker=str(marker), always=True))], backend)


@pytest.mark.thorough  # tasks of lost workers are covered above
@pytest.mark.usefixtures("soon")
@pytest.mark.filterwarnings("ignore")
def test_repeatedly_lost_workers_raise_an_error(tmp_path: Path) -> None:
    give_up(Backend(workers=2), tmp_path / "killed")


@pytest.mark.thorough  # losses on dask are noticed above, and given up as those of the local backend
@pytest.mark.usefixtures("soon")
@pytest.mark.filterwarnings("ignore")
def test_repeatedly_lost_dask_workers_raise_an_error(tmp_path: Path, dask_address: str) -> None:
    give_up(Backend("dask", address=dask_address), tmp_path / "killed")


def test_a_failing_policy_raises_its_own_error() -> None:
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        run_backend_tasks([some_task(0, Broken())], Backend(workers=2))


def test_cached_tasks_are_not_repeated(tmp_path: Path) -> None:
    cache, tasks = RunnerCache(tmp_path), [some_task(number) for number in range(3)]
    for one in tasks[:2]:
        cache.put(one, some_task(2).perform())  # not theirs, so that it shows
    found = list(run_backend_tasks(tasks, Backend(workers=1), cache=cache))
    for result in found:
        np.testing.assert_array_equal(result.regret, some_task(2).perform().regret)


COMMAND = [sys.executable, "-m", "riskroute", "reproduce", "figure2", "--workers", "2", "--policy", "rise"]
QUICK = ["--policy", "uniform", "--runs", "2", "--horizon", "200", "--workers", "1"]
SLOW = ["--policy", "adaptive", "--runs", "14", "--horizon", "1000"]


def reproduced(out: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the command with its output in a file, since orphaned workers would keep a pipe open."""
    with (out / "said").open("ab") as said:
        return subprocess.Popen(
            [*COMMAND, "--out", str(out), *more], stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )


def clean_up(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the process and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def finished(out: Path) -> int:
    """Tasks on the cache."""
    return sum(not path.name.startswith(".") for path in (out / "tasks").glob("*.npz"))


def workers(parent: int) -> list[int]:
    """Processes that play tasks for another."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                command = (folder / "cmdline").read_bytes()
                if b"loky" in command and b"resource_tracker" not in command:
                    found.append(int(folder.name))
        except (OSError, ProcessLookupError):
            continue
    return found


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    late = time.monotonic() + 300
    while not reached():
        assert process.poll() is None, "ended too soon"
        assert time.monotonic() < late, "takes too long"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The table of the same runs in one undisturbed process."""
    out = tmp_path_factory.mktemp("undisturbed")
    table = small_runs.small_reproduction(out, 1)
    assert finished(out) == small_runs.REPRODUCTION_TASKS
    return table


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("first", "second"),
    [(0, 9), (20, 4), (28, 1)],
)
@pytest.mark.thorough  # kills while a table is written, below, are quicker
def test_killed_at_random_and_resumed_gives_the_same_table(
    tmp_path: Path, undisturbed: bytes, first: int, second: int
) -> None:
    """Kill the main process, then a worker of the resumed run, each in the middle of a task.

    The main process dies while its workers start, in the middle, and with hardly any task left. A task takes a few
    milliseconds, and the kills come up to twenty after one is finished.
    """
    rng = np.random.default_rng(first)
    program = [sys.executable, small_runs.__file__, "reproduce", str(tmp_path), str(first), str(rng.uniform(0, 0.02))]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(program, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        assert process.wait(300) == -signal.SIGKILL, (tmp_path / "said").read_text()
    finally:
        clean_up(process)
    found = finished(tmp_path)
    assert found >= first
    played: list[SimulationTask] = []

    def kill_a_worker(task: SimulationTask) -> None:
        played.append(task)
        if len(played) == min(found + second, small_runs.REPRODUCTION_TASKS) > found:
            time.sleep(rng.uniform(0, 0.02))
            os.kill(workers(os.getpid())[0], signal.SIGKILL)

    assert small_runs.small_reproduction(tmp_path, 2, kill_a_worker, resume=True) == undisturbed
    assert len(played) == small_runs.REPRODUCTION_TASKS
    assert not [path for path in (tmp_path / "instances").iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("unpainted")
def test_killed_while_the_table_is_written_and_resumed_gives_the_same_table(tmp_path: Path) -> None:
    """By the command, the second time in this process; nothing is left to play then."""
    process = reproduced(tmp_path, *QUICK)
    try:
        wait_until(lambda: (tmp_path / "figure2").exists(), process)
    finally:
        process.kill()
        clean_up(process)
    assert finished(tmp_path) == 8
    assert not (tmp_path / "figure2" / "figure2.png").exists()
    assert command([*COMMAND[3:], *QUICK, "--out", str(tmp_path), "--resume"]) == 0
    (experiment,) = plan_experiments("figure2", policies=["rise", "uniform"], runs=2, horizon=200)
    (done,) = reproduce([experiment], tmp_path / "undisturbed", Backend(workers=1))
    assert (tmp_path / "figure2" / "figure2.parquet").read_bytes() == done.files[0].read_bytes()
    assert not [path for path in (tmp_path / "figure2").iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_finished_tasks_and_a_hint(tmp_path: Path) -> None:
    process = reproduced(tmp_path, *SLOW)
    wait_until(lambda: finished(tmp_path) > 0, process)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: the whole group
    process.wait(300)
    clean_up(process)
    text = (tmp_path / "said").read_text()
    assert process.returncode == 130, text
    assert text.strip().splitlines()[-1].endswith("the same command with --resume continues")
    assert "Traceback" not in text
    assert finished(tmp_path) > 0


@pytest.mark.thorough  # the interrupt above goes the same way, a second later
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_workers_start_is_as_quiet(tmp_path: Path) -> None:
    process = reproduced(tmp_path, *SLOW)
    wait_until(lambda: len(workers(process.pid)) >= 2, process)
    time.sleep(0.1)  # they are importing now
    os.killpg(process.pid, signal.SIGINT)
    process.wait(300)
    clean_up(process)
    text = (tmp_path / "said").read_text()
    assert process.returncode == 130, text
    assert "Traceback" not in text
