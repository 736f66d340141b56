"""The ray backend with a stand-in for ray in this process: what riskroute itself does before, between and after tasks.

A real cluster, and a worker of it that is lost, are in test_backends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import joblib
import pytest
from joblib._parallel_backends import SequentialBackend

from riskroute.core.errors import InputError, RiskrouteError
from riskroute.simulation import backends
from riskroute.simulation.backends import Backend, run_backend_tasks

CORES = 2


class LostWorkerError(Exception):
    """What ray raises when a worker is gone."""


@dataclass(frozen=True)
class Doubled:
    """Doubles a number; a task with a marker loses its worker until the marker file exists, or always."""

    number: int
    marker: Path | None = None
    always: bool = False

    def prepare(self) -> None:
        """There is nothing to prepare."""

    def perform(self) -> int:
        if self.marker is not None and (self.always or not self.marker.exists()):
            self.marker.touch()
            raise LostWorkerError
        return 2 * self.number


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """How clusters were started, each with ``ended``; tasks run sequentially in this process."""
    clusters: list[dict[str, Any]] = []
    ray, exceptions, util, bridge = (ModuleType(f"ray{end}") for end in ("", ".exceptions", ".util", ".util.joblib"))
    running: dict[str, Any] = {
        "is_initialized": lambda: any(not one["ended"] for one in clusters),
        "init": lambda **options: clusters.append({**options, "ended": False}),
        "shutdown": lambda: clusters[-1].update(ended=True),
        "cluster_resources": lambda: {"CPU": float(CORES)},
    }
    vars(ray).update(running)
    vars(exceptions).update(RayError=LostWorkerError)
    vars(bridge).update(register_ray=lambda: None)
    for module in (ray, exceptions, util, bridge):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(joblib.parallel.BACKENDS, "ray", SequentialBackend)
    monkeypatch.setenv("HOME", str(tmp_path))
    with mock.patch.dict(os.environ):
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            os.environ.pop(name, None)
        yield clusters


def test_results_are_in_the_sequence_of_the_tasks_and_the_cluster_ends(started: list[dict[str, Any]]) -> None:
    """More tasks than a wave of four for each process."""
    assert list(run_backend_tasks([Doubled(k) for k in range(19)], Backend("ray", CORES))) == [2 * k for k in range(19)]
    (cluster,) = started
    assert cluster["num_cpus"] == CORES
    assert cluster["ended"]


def test_a_lost_worker_costs_only_the_tasks_of_its_wave(started: list[dict[str, Any]], tmp_path: Path) -> None:
    tasks = [Doubled(k, tmp_path / "lost" if k == 9 else None) for k in range(19)]
    told: list[int] = []
    found = list(run_backend_tasks(tasks, Backend("ray", CORES), finished=lambda one: told.append(one.number)))
    assert (tmp_path / "lost").exists()
    assert found == [2 * k for k in range(19)]
    assert told == list(range(19))


def test_repeatedly_lost_workers_raise_an_error(started: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(RiskrouteError, match=r"the ray backend lost its workers 3 times in a row \(LostWorkerError\)"):
        run_backend_tasks([Doubled(0, tmp_path / "lost", always=True)], Backend("ray", 1))
    assert started[0]["ended"]


def test_more_workers_than_the_cluster_has_are_refused(started: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="workers must be at most 2 on this cluster, was 3"):
        run_backend_tasks([Doubled(0)], Backend("ray", 3))
    assert started[0]["ended"]


def test_an_existing_cluster_is_left_running(started: list[dict[str, Any]]) -> None:
    sys.modules["ray"].init(num_cpus=CORES)
    assert list(run_backend_tasks([Doubled(3)], Backend("ray"))) == [6]
    assert [one["ended"] for one in started] == [False]


def test_only_a_cluster_that_is_started_here_gets_a_token(
    started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    knocked: list[str | None] = []
    monkeypatch.setattr(backends, "_require_listener", knocked.append)
    assert list(run_backend_tasks([Doubled(1)], Backend("ray", address="10.0.0.1:6379"))) == [2]
    assert knocked == ["10.0.0.1:6379"]
    assert started[0]["address"] == "10.0.0.1:6379"
    assert "RAY_AUTH_TOKEN" not in os.environ
    assert list(run_backend_tasks([Doubled(1)], Backend("ray", 1))) == [2]
    token = os.environ["RAY_AUTH_TOKEN"]
    assert len(token) == 64
    assert list(run_backend_tasks([Doubled(1)], Backend("ray", 1))) == [2]
    assert os.environ["RAY_AUTH_TOKEN"] == token, "one that is there is used"
