"""Compilation of kernels: announced once, and kept out of the seconds of tables."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numba import njit

from riskroute.core.runtime import announce_compilation, compilation_timed


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("riskroute.core.runtime._announce", [])
    said: list[str] = []
    announce_compilation(said.append)
    return said


def test_compilation_is_announced_once_and_timed(lines: list[str]) -> None:
    @njit
    def added(values: np.ndarray) -> float:
        total = 0.0
        for value in values:
            total += value
        return total

    with compilation_timed("adaptive") as seconds:
        began = time.perf_counter()
        assert added(np.ones(3)) == added(np.ones(4, dtype=np.float32)) - 1  # two signatures
        assert 0 < seconds() <= time.perf_counter() - began
    assert lines == ["compiling kernels for adaptive (once, about 10 s)"]


def test_nothing_is_said_where_nothing_is_compiled(lines: list[str]) -> None:
    with compilation_timed("rise") as seconds:
        assert seconds() == 0.0
    assert lines == []
