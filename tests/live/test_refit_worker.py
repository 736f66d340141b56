"""The process in which a router learns: it may die, stop, or take too long."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live_services import LONGEST
from riskroute.core.errors import StateError
from riskroute.live.background import BackgroundProcess
from riskroute.live.learner import Refit
from riskroute.routers.registry import make_router, router_bytes

LONG = 1_000_000  # bytes, more than a pipe holds


@pytest.fixture
def worker() -> Iterator[BackgroundProcess]:
    worker = BackgroundProcess()
    worker.least = worker.limit = LONGEST  # a process may take long to start
    yield worker
    worker.shutdown()


def test_a_worker_that_dies_is_started_again(worker: BackgroundProcess) -> None:
    with pytest.raises(StateError, match="the worker process died, exit code 3"):
        worker.submit(os._exit, 3).result(LONGEST)
    assert worker.submit(abs, -3).result(LONGEST) == 3


def test_a_worker_that_is_killed_while_it_works_is_started_again(worker: BackgroundProcess, tmp_path: Path) -> None:
    pid, began = worker.submit(os.getpid).result(LONGEST), tmp_path / "began"
    working = worker.submit(eval, f"(open({str(began)!r}, 'w').close(), __import__('time').sleep(600))")
    while not began.exists():  # a call that is not under way yet goes to the next process
        assert not working.done()
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(StateError, match="the worker process died, exit code -9"):
        working.result(LONGEST)
    assert worker.submit(os.getpid).result(LONGEST) != pid


def test_a_call_that_fails_gives_its_error_and_the_worker_stays(worker: BackgroundProcess) -> None:
    pid = worker.submit(os.getpid).result(LONGEST)
    with pytest.raises(StateError, match="invalid literal for int"):
        worker.submit(int, "three").result(LONGEST)
    assert worker.submit(os.getpid).result(LONGEST) == pid


@pytest.mark.parametrize("size", [0, LONG])
def test_a_stopped_worker_is_given_up_and_replaced(worker: BackgroundProcess, size: int) -> None:
    """It does not even read a long call."""
    pid = worker.submit(os.getpid).result(LONGEST)
    os.kill(pid, signal.SIGSTOP)
    worker.least = worker.limit = 0.2
    with pytest.raises(StateError, match=r"the worker process was killed: no answer within 0\.2 s"):
        worker.submit(len, b"x" * size).result(LONGEST)
    assert worker.limit == 0.4
    worker.limit = LONGEST
    assert worker.submit(os.getpid).result(LONGEST) != pid


def test_a_slow_call_gets_more_time_until_it_succeeds(worker: BackgroundProcess) -> None:
    worker.submit(abs, 0).result(LONGEST)
    worker.least = worker.limit = 0.1
    failures = 0
    while worker.submit(time.sleep, 1.0).exception(LONGEST) is not None:
        failures += 1
        assert failures < 20
    assert failures >= 4
    assert worker.limit >= 4.0
    until = time.monotonic() + LONGEST
    while worker.limit >= 4.0:  # the first short call is enough, unless the machine is busy
        worker.submit(abs, 0).result(LONGEST)
        assert time.monotonic() < until


@pytest.mark.parametrize("size", [0, LONG])
def test_a_stopped_worker_does_not_delay_the_shutdown(size: int) -> None:
    worker = BackgroundProcess()
    pid = worker.submit(os.getpid).result(LONGEST)
    os.kill(pid, signal.SIGSTOP)
    waiting = [worker.submit(len, b"x" * size) for _ in range(2)]
    began = time.monotonic()
    worker.shutdown()
    assert time.monotonic() - began < worker.least / 2
    assert all(isinstance(one.exception(LONGEST), StateError) for one in waiting)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_router_of_a_file_learns_in_the_worker(tmp_path: Path, worker: BackgroundProcess) -> None:
    """The class is in no module that the worker could import."""
    (tmp_path / "own.py").write_text(
        "from riskroute.routers.rules import DarkFirstRule\n\n\nclass Own(DarkFirstRule):\n    name = 'own'\n"
    )
    router = make_router(f"{tmp_path / 'own.py'}:Own", cap=50)
    body = worker.submit(Refit(type(router), router_bytes(router), [], [], [])).result(LONGEST)
    assert body == router_bytes(router)
