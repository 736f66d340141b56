"""Tasks: some runs of one policy in one environment, the unit of work that engines hand out and files remember.

What a task draws depends on its identity alone: the environment, the policy with its parameters, the horizon, the seed
and which runs. So its result is the same wherever and whenever it is done.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from riskroute._version import __version__
from riskroute.files import write_whole
from riskroute.learning.actions import as_action, as_batch
from riskroute.learning.policies.arm_policy import IndexPolicy
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.learning.policy import Policy
from riskroute.learning.regret import checkpoint_rounds
from riskroute.learning.state import encode
from riskroute.results import PolicyResult
from riskroute.seeding import short_hash
from riskroute.simulation.environments import Environment
from riskroute.simulation.runner import gather, play

MOST_RUNS = 250
"""Runs in one task, at most."""


@dataclass(frozen=True, eq=False)
class Task:
    """Runs ``first`` to ``last - 1`` of a policy."""

    environment: Environment
    label: str
    policy: Policy
    horizon: int
    seed: int
    first: int
    last: int
    checkpoints: int = 100
    spacing: str = "both"

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.last - self.first

    def describe(self) -> dict[str, Any]:
        """Everything the result depends on, as plain values."""
        return {
            "version": __version__,
            "code": _code(),
            "environment": self.environment.identity,
            "label": self.label,
            "policy": self.policy.name,
            "parameters": encode(self.policy.parameters),
            "horizon": self.horizon,
            "seed": self.seed,
            "runs": [self.first, self.last],
            "checkpoints": self.checkpoints,
            "spacing": self.spacing,
        }

    @property
    def identity(self) -> str:
        """A short text that differs between different tasks."""
        return short_hash(self.describe(), 24)

    def perform(self) -> PolicyResult:
        """Do the work."""
        began = time.perf_counter()
        rounds = checkpoint_rounds(self.horizon, self.checkpoints, self.spacing)
        comparator = self.environment.expected_comparator(rounds)
        with threadpool_limits(1, "blas"):  # one process per core already
            episodes = [
                play(self.environment, self.policy, self.horizon, rounds, comparator, (self.seed, self.label, run))
                for run in range(self.first, self.last)
            ]
        return gather(rounds, episodes, time.perf_counter() - began)


def split_runs(
    environment: Environment,
    label: str,
    policy: Policy,
    horizon: int,
    runs: int,
    seed: int,
    *,
    checkpoints: int = 100,
    spacing: str = "both",
) -> list[Task]:
    """Cut the runs of a policy into tasks of about a second each.

    Where the cuts are depends neither on the machine nor on the number of runs, so that a longer run finds the full
    tasks of a shorter one done.
    """
    each = min(math.ceil(1 / estimated_seconds(environment, policy, horizon)), MOST_RUNS)
    return [
        Task(environment, label, policy, horizon, seed, first, min(first + each, runs), checkpoints, spacing)
        for first in range(0, runs, each)
    ]


def estimated_seconds(environment: Environment, policy: Policy, horizon: int) -> float:
    """Seconds that a run takes on an ordinary core, roughly."""
    if isinstance(policy, IndexPolicy):
        return 1e-3 + 3e-7 * horizon
    if isinstance(policy, LinearPolicy):
        return 1e-3 + 1e-3 * math.log(max(horizon, 2)) / policy.growth
    drawn_singly = not (environment.independent and environment.gaussian)
    return 1e-2 + (3e-7 * horizon if drawn_singly or policy.needs_list else 0.0)


def merged(results: Sequence[PolicyResult]) -> PolicyResult:
    """Put the runs of several tasks of the same policy together, in their order."""
    return PolicyResult(
        results[0].checkpoints,
        np.concatenate([one.regret for one in results]),
        np.concatenate([one.pseudo_regret for one in results]),
        np.concatenate([one.luck for one in results]),
        [action for one in results for action in one.recommended],
        np.concatenate([one.exploration for one in results]),
        sum(one.seconds for one in results),
    )


@functools.cache
def _code() -> str:
    """A text that differs between different states of this package, released or not."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


class TaskCache:
    """Finished tasks in a folder, one file each, written beside and renamed so that none is ever half there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def forget(self, tasks: Iterable[Task]) -> None:
        """Forget some tasks, and what writers that were killed left behind."""
        for path in (*map(self._path, tasks), *self.folder.glob(".*.npz")):
            path.unlink(missing_ok=True)

    def has(self, task: Task) -> bool:
        """Whether a task was finished before."""
        return self._path(task).exists()

    def put(self, task: Task, result: PolicyResult) -> None:
        """Remember the result of a task."""

        def write(beside: Path) -> None:
            with beside.open("wb") as file:
                np.savez(
                    file,
                    checkpoints=result.checkpoints,
                    regret=result.regret,
                    pseudo_regret=result.pseudo_regret,
                    luck=result.luck,
                    recommended=as_batch(*result.recommended),
                    exploration=result.exploration,
                    seconds=result.seconds,
                )

        write_whole(self._path(task), write)

    def get(self, task: Task) -> PolicyResult | None:
        """Return the result of a task if it was finished before; a file that cannot be read counts as unfinished."""
        try:
            with self._path(task).open("rb") as file, np.load(file) as saved:
                return PolicyResult(
                    saved["checkpoints"],
                    saved["regret"],
                    saved["pseudo_regret"],
                    saved["luck"],
                    [as_action(row) for row in saved["recommended"]],
                    saved["exploration"],
                    float(saved["seconds"]),
                )
        except (FileNotFoundError, zipfile.BadZipFile, EOFError, KeyError, ValueError):
            return None

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.identity}.npz"
