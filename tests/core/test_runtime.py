"""Compilation of kernels: each subject is announced once, also from workers, and no table counts its seconds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numba import njit
from numba.core.event import trigger_event

from riskroute.core.runtime import announce_compilation, compilation_timed
from riskroute.simulation.backends import Backend, run_backend_tasks

LINE = "compiling kernels for {}; later runs load them from the cache"


@pytest.fixture
def lines() -> Iterator[list[str]]:
    said: list[str] = []
    announce_compilation(said.append, after=0.0)
    yield said
    announce_compilation(None)


@pytest.fixture
def subject() -> str:
    """A subject that this process has not announced."""
    return f"test {next(_numbers)}"


_numbers = itertools.count()


def test_compilation_is_announced_once_and_timed(lines: list[str], subject: str) -> None:
    @njit
    def added(values: np.ndarray) -> float:
        total = 0.0
        for value in values:
            total += value
        return total

    with compilation_timed(subject) as seconds:
        began = time.perf_counter()
        assert added(np.ones(3)) == added(np.ones(4, dtype=np.float32)) - 1  # two signatures
        assert 0 < seconds() <= time.perf_counter() - began
    assert lines == [LINE.format(subject)]


def test_nothing_is_said_where_nothing_is_compiled(lines: list[str], subject: str) -> None:
    with compilation_timed(subject) as seconds:
        assert seconds() == 0.0
    assert lines == []


def test_kernels_that_are_only_loaded_are_timed_and_not_announced(lines: list[str], subject: str) -> None:
    with compilation_timed(subject) as seconds:
        with trigger_event("numba:compiler_lock"):
            pass
        assert seconds() > 0
        assert lines == []
        with trigger_event("numba:compiler_lock"), trigger_event("numba:compile"):
            pass
    assert lines == [LINE.format(subject)]


def test_short_compilation_is_silent_and_several_short_ones_add_up(
    lines: list[str], subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce_compilation(lines.append, after=2.0)
    now = 0.0
    monkeypatch.setattr("riskroute.core.runtime.time.perf_counter", lambda: now)
    said = []
    with compilation_timed(subject) as seconds:
        for _ in range(4):
            with trigger_event("numba:compile"):
                now += 0.75
            now += 100.0  # not compilation
            said.append(list(lines))
        assert seconds() == 3.0
    assert said == [[], [], [LINE.format(subject)], [LINE.format(subject)]]


def test_the_innermost_subject_is_announced(lines: list[str], subject: str) -> None:
    with compilation_timed("outer"), compilation_timed(subject), trigger_event("numba:compile"):
        pass
    assert lines == [LINE.format(subject)]


@dataclass(frozen=True)
class Compiled:
    """A task that claims to compile."""

    subject: str

    def prepare(self) -> None: ...

    def perform(self) -> int:
        from numba.core.event import trigger_event

        from riskroute.core.runtime import compilation_timed

        with compilation_timed(self.subject), trigger_event("numba:compile"):
            return 1


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_announce_a_subject_once(lines: list[str], subject: str, workers: int) -> None:
    tasks = [Compiled(f"{subject} of {workers}")] * 4
    assert list(run_backend_tasks(tasks, Backend(workers=workers))) == [1] * 4
    assert lines == [LINE.format(f"{subject} of {workers}")]
