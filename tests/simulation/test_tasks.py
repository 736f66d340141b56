"""Tasks: the runs of `simulate`, however they are divided, and a cache without partial results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riskroute import Environment, simulate
from riskroute.policies import Rise
from riskroute.routing.instances import random_routing_problem
from riskroute.simulation.results import PolicyResult
from riskroute.simulation.runner import (
    _RUNS_PER_TASK,
    RunnerCache,
    SimulationPanel,
    SimulationSize,
    SimulationTask,
    _merge_results,
    _policies_by_label,
)

WORLD = Environment(random_routing_problem(3, 3, seed=1))
NAMES = ["rise", "risk-ucb", "adaptive"]


def assert_same(one: PolicyResult, other: PolicyResult) -> None:
    """Everything but the time is equal to the last bit."""
    for name in ("checkpoints", "regret", "pseudo_regret", "luck", "exploration"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.recommended == other.recommended


def task(**changes: Any) -> SimulationTask:
    policy = _policies_by_label(["rise"], WORLD, 500)["rise"]
    return replace(SimulationTask(WORLD, "rise", policy, 500, 7, 0, 3), **changes)


@pytest.mark.usefixtures("untraced")
def test_tasks_together_are_what_simulate_plays() -> None:
    together = simulate(WORLD, NAMES, horizon=500, runs=7, seed=3)
    for label, policy in _policies_by_label(NAMES, WORLD, 500).items():
        parts = [SimulationTask(WORLD, label, policy, 500, 3, first, last) for first, last in ((0, 2), (2, 3), (3, 7))]
        merged = _merge_results(parts, [part.perform() for part in parts])
        assert_same(merged[label], together.policies[label])


def test_a_panel_gathers_what_simulate_finds() -> None:
    panel = SimulationPanel("x", "x", WORLD, NAMES, {"slots": 3}, SimulationSize(500, 5, 3))
    tasks = panel.tasks()
    gathered = panel.gather(tasks, [one.perform() for one in tasks])
    simulated = simulate(WORLD, NAMES, horizon=500, runs=5, seed=3)
    for label in NAMES:
        assert_same(gathered.policies[label], simulated.policies[label])
    assert gathered.best == simulated.best
    shared = gathered.config.keys() & simulated.config.keys()
    assert {name: gathered.config[name] for name in shared} == {name: simulated.config[name] for name in shared}
    assert panel.tidy(gathered).columns[0] == "slots"
    assert panel.tidy(gathered).drop("slots").equals(simulated.to_frame())


@pytest.mark.parametrize("runs", [1, 4, 5, 1000])
def test_cuts_cover_every_run_once(runs: int) -> None:
    policies = _policies_by_label(["adaptive", "rise"], WORLD, 100_000)
    for label, policy in policies.items():
        mine = SimulationTask(WORLD, label, policy, 100_000, 0, 0, runs).split()
        assert [run for one in mine for run in range(one.first, one.last)] == list(range(runs))
        assert max(one.runs for one in mine) <= _RUNS_PER_TASK


def test_a_longer_run_finds_the_full_tasks_of_a_shorter_one() -> None:
    policy = _policies_by_label(["adaptive"], WORLD, 100_000)["adaptive"]
    short, long = (SimulationTask(WORLD, "adaptive", policy, 100_000, 0, 0, runs).split() for runs in (17, 100))
    assert short[-1].runs < short[0].runs
    assert [one.identity for one in short[:-1]] == [one.identity for one in long[: len(short) - 1]]


def test_tasks_take_about_a_second() -> None:
    """Not measured: the estimates must lie in the right order, and the cut must follow them."""
    policies = _policies_by_label(["adaptive", "rise", "risk-ucb"], WORLD, 100_000)
    seconds = {label: policy.estimated_seconds(100_000, drawn_singly=False) for label, policy in policies.items()}
    assert seconds["adaptive"] > 3 * seconds["risk-ucb"] > 3 * seconds["rise"]
    for one in (
        one
        for label, policy in policies.items()
        for one in SimulationTask(WORLD, label, policy, 100_000, 0, 0, 5000).split()
    ):
        assert 0.9 < one.runs * seconds[one.label] < 2 or one.runs == _RUNS_PER_TASK or one.last == 5000


@pytest.mark.parametrize(
    "changes",
    [
        {"label": "other"},
        {"horizon": 501},
        {"seed": 8},
        {"first": 1},
        {"last": 4},
        {"checkpoints": 99},
        {"spacing": "log"},
        {"environment": Environment(random_routing_problem(3, 3, seed=2))},
        {"policy": _policies_by_label(["rise++"], WORLD, 500)["rise++"]},
    ],
    ids=str,
)
def test_identities_differ_where_results_may(changes: dict[str, object]) -> None:
    assert task().identity == task().identity
    assert task(**changes).identity != task().identity


def test_a_parameter_changes_the_identity() -> None:
    policy = task().policy
    assert isinstance(policy, Rise)
    assert task(policy=replace(policy, explore_multiplier=3.0)).identity != task().identity


def test_the_cache_returns_stored_results(tmp_path: Path) -> None:
    cache, one = RunnerCache(tmp_path / "tasks"), task()
    assert not cache.has(one)
    assert cache.get(one) is None
    result = one.perform()
    cache.put(one, result)
    assert cache.has(one)
    found = cache.get(one)
    assert found is not None
    assert_same(found, result)
    assert found.seconds == result.seconds
    assert not list((tmp_path / "tasks").glob(".*"))
    other, left = task(seed=9), tmp_path / "tasks" / ".half.123.npz"
    cache.put(other, result)
    left.touch()
    cache.forget([one])
    assert not cache.has(one)
    assert cache.has(other)
    assert not left.exists()


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_damaged_file_counts_as_unfinished(tmp_path: Path, kept: float) -> None:
    cache, one = RunnerCache(tmp_path), task()
    cache.put(one, one.perform())
    path = next(tmp_path.glob("*.npz"))
    content = path.read_bytes()
    path.write_bytes(content[: int(kept if kept >= 1 else kept * len(content))])
    assert cache.get(one) is None
