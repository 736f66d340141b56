"""Panels: one environment and some policies, as one picture of the paper or one cell of a sweep plays them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskroute.core.files import write_whole
from riskroute.core.results import PolicyResult, SimulationResult
from riskroute.core.text import number_text
from riskroute.learning.policy import Policy
from riskroute.simulation.backends import Backend, Finished, run_tasks
from riskroute.simulation.environments import Environment
from riskroute.simulation.runner import run_configuration, runs_by_label
from riskroute.simulation.tasks import Task, TaskCache, merged_tasks, split_into_tasks

if TYPE_CHECKING:
    import polars

Final = Mapping[str, Mapping[str, float]]
"""By policy: where it ended, as the digest of a result says under ``final``."""


@dataclass(frozen=True)
class PanelSize:
    """How much is played: rounds per run, runs per policy (``fewer`` for some, by label), and the seed."""

    horizon: int = 100_000
    runs: int = 50
    seed: int = 0
    fewer: Mapping[str, int] = field(default_factory=dict)

    def runs_of(self, label: str) -> int:
        """Runs of one policy."""
        return min(self.fewer.get(label, self.runs), self.runs)


@dataclass(frozen=True)
class Panel:
    """One environment and the policies played in it.

    ``policies`` are names, or labels with names or policies. ``facts`` are what a reader wants to know about the
    panel, as plain values: slots, shares, instance and the like.
    """

    name: str
    title: str
    environment: Environment
    policies: Sequence[str] | Mapping[str, str | Policy]
    facts: dict[str, Any]
    size: PanelSize
    checkpoints: int = 100
    spacing: str = "both"

    def chosen(self) -> dict[str, Policy]:
        """The policies by label."""
        return runs_by_label(self.policies, self.environment, self.size.horizon)

    def tasks(self) -> list[Task]:
        """All its runs, divided into tasks."""
        size, tasks = self.size, []
        for label, policy in self.chosen().items():
            runs = size.runs_of(label)
            whole = Task(
                self.environment, label, policy, size.horizon, size.seed, 0, runs, self.checkpoints, self.spacing
            )
            tasks += split_into_tasks(whole)
        return tasks

    @property
    def runs(self) -> int:
        """Runs of all policies."""
        return sum(self.size.runs_of(label) for label in self.policies)

    def gather(self, tasks: Sequence[Task], results: Iterable[PolicyResult]) -> SimulationResult:
        """Put the results of its tasks together."""
        by_task: dict[str, list[PolicyResult]] = {}
        for task, result in zip(tasks, results, strict=True):
            by_task.setdefault(task.label, []).append(result)
        horizon, runs, seed = self.size.horizon, self.size.runs, self.size.seed
        config = run_configuration(self.environment, self.chosen(), horizon, runs, seed)
        fewer = {label: self.size.runs_of(label) for label in by_task if self.size.runs_of(label) < runs}
        config |= {"fewer_runs": fewer} if fewer else {}
        found = {label: merged_tasks(parts) for label, parts in by_task.items()}
        return SimulationResult(self.facts | config, found, self.environment.last_comparator(horizon))

    def tidy(self, result: SimulationResult) -> polars.DataFrame:
        """The result as a tidy table, with the single facts as columns."""
        import polars

        single = {name: value for name, value in self.facts.items() if isinstance(value, str | int | float)}
        columns = [
            polars.lit(value, dtype=polars.Int64 if isinstance(value, int) else None).alias(name)
            for name, value in single.items()
        ]
        return result.to_frame().select(*columns, "*")


def play_panels(
    panels: Sequence[Panel],
    cache: TaskCache,
    backend: Backend,
    *,
    resume: bool = False,
    finished: Finished | None = None,
) -> Iterator[SimulationResult]:
    """Play all panels at once, then give their results one after the other, so that one at a time is in memory.

    With ``resume`` tasks found on the cache are not done again; without, they are forgotten first.
    """
    cuts = [panel.tasks() for panel in panels]
    tasks = [task for some in cuts for task in some]
    if not resume:
        cache.forget(tasks)
    results = run_tasks(tasks, backend, cache=cache, finished=finished)
    for panel, some in zip(panels, cuts, strict=True):
        yield panel.gather(some, islice(results, len(some)))


def panel_average(members: Sequence[Final], label: str) -> str:
    """Mean final regret of a policy with its standard error: over the runs of one panel, or over several panels."""
    ends = np.array([one[label]["regret"] for one in members])
    error = members[0][label]["regret_error"] if len(ends) == 1 else ends.std(ddof=1) / len(ends) ** 0.5
    return f"{number_text(ends.mean())} +- {number_text(error)}"


class PanelWriter:
    """One Parquet table of many panels, gathered in parts beside it so that it never has to fit into memory."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.parts: list[Path] = []

    def add(self, frame: polars.DataFrame) -> None:
        """Append some rows."""
        if not self.parts:  # a writer that was killed may have left some
            for begun in (f".{self.target.stem}.*", f"..{self.target.stem}.part*"):  # parts, and parts of parts
                for left in self.target.parent.glob(begun):
                    left.unlink(missing_ok=True)
        part = self.target.with_name(f".{self.target.stem}.part{len(self.parts):05d}.parquet")
        self.parts.append(write_whole(part, frame.write_parquet))

    def close(self) -> Path:
        """Put the parts together."""
        import polars

        rows = polars.scan_parquet(self.parts)
        write_whole(self.target, lambda beside: rows.sink_parquet(beside, row_group_size=100_000, maintain_order=True))
        for part in self.parts:
            part.unlink()
        return self.target
