"""Tasks: some runs of one policy in one environment, the unit of work that backends hand out and files remember.

What a task draws depends on its identity alone: the environment, the policy with its parameters, the horizon, the seed
and which runs. So its result is the same wherever and whenever it is done.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from riskroute._version import __version__
from riskroute.core.files import write_whole
from riskroute.core.results import PolicyResult
from riskroute.core.seeding import seeding_hash
from riskroute.learning.actions import as_action, as_batch
from riskroute.learning.policy import Policy
from riskroute.learning.regret import regret_checkpoints
from riskroute.learning.state import encode_state
from riskroute.simulation.environments import Environment
from riskroute.simulation.runner import Episode, gather_runs, play_runs

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
    method: str = "auto"

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.last - self.first

    def describe(self) -> dict[str, Any]:
        """Everything the result depends on, as plain values."""
        return {
            "version": __version__,
            "code": task_code_hash(),
            "environment": self.environment.identity,
            "label": self.label,
            "policy": self.policy.name,
            "parameters": encode_state(self.policy.parameters),
            "horizon": self.horizon,
            "seed": self.seed,
            "runs": [self.first, self.last],
            "checkpoints": self.checkpoints,
            "spacing": self.spacing,
            "method": self.method,
        }

    @property
    def identity(self) -> str:
        """Hash of everything the result depends on."""
        return seeding_hash(self.describe(), 24)

    def prepare(self) -> None:
        """Find the environment's comparators, which may take long and are the same for all tasks."""
        _ = self.environment.comparators

    def perform(self, after_run: Callable[[int], bool] | None = None) -> PolicyResult:
        """Play the runs.

        Parameters
        ----------
        after_run : Callable[[int], bool], optional
            Called with the number of finished runs after each of them; true ends the task there.
        """
        began = time.perf_counter()
        rounds = regret_checkpoints(self.horizon, self.checkpoints, self.spacing)
        comparator = self.environment.expected_comparator(rounds)
        episodes: list[Episode] = []
        try:
            with _linear_algebra().limit(limits=1):  # matrices are tiny: threads only wait for each other
                for run in range(self.first, self.last):
                    identity = self.seed, self.label, run
                    one = play_runs(
                        self.environment, self.policy, self.horizon, rounds, comparator, identity, self.method
                    )
                    episodes.append(one)
                    if after_run is not None and after_run(len(episodes)):
                        break
        except KeyboardInterrupt:
            if after_run is None or not episodes:
                raise
        return gather_runs(rounds, episodes, time.perf_counter() - began)


@functools.cache
def _linear_algebra() -> ThreadpoolController:
    """The libraries that multiply matrices. To look for them takes milliseconds, so that is done once for all tasks."""
    import scipy.linalg  # noqa: F401  # has a library of its own, which must be loaded by then

    return ThreadpoolController().select(user_api="blas")


def split_into_tasks(task: Task) -> list[Task]:
    """Divide a task into tasks of about a second each.

    Where the divisions are depends neither on the machine nor on the number of runs, so that a longer task finds the
    full parts of a shorter one done.
    """
    drawn_singly = not (task.environment.independent and task.environment.gaussian)
    seconds = task.policy.estimated_seconds(task.horizon, drawn_singly=drawn_singly)
    each = min(math.ceil(1 / seconds), MOST_RUNS)
    starts = range(task.first, task.last, each)
    return [replace(task, first=first, last=min(first + each, task.last)) for first in starts]


def merged_tasks(results: Sequence[PolicyResult]) -> PolicyResult:
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
def task_code_hash() -> str:
    """Hash of the source code of this package."""
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
