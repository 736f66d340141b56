"""Sweeps: simulate a grid of slots, shares, policies, risk tolerances, horizons and instances."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from riskroute.core.config import (
    Count,
    Counts,
    Seed,
    Texts,
    Tolerances,
    config_all_different,
    config_list,
    read_toml_config,
    validated_config,
)
from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_json
from riskroute.core.text import TextTable
from riskroute.core.validation import instance_of, one_of, true_or_false, valid_path
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.policy import Policy
from riskroute.learning.problem import random_problem
from riskroute.learning.registry import POLICIES, make_policy
from riskroute.routing.allocations import routing_actions
from riskroute.simulation.backends import Backend, Finished
from riskroute.simulation.environments import Environment
from riskroute.simulation.policy_comparison import comparison_must_list
from riskroute.simulation.runner import (
    Final,
    RunnerCache,
    RunnerPanelWriter,
    SimulationPanel,
    SimulationSize,
    run_panels,
    simulation_panel_average,
)

Rounds = Annotated[int, Field(ge=1, le=LONGEST_HORIZON, strict=True)]


class SweepConfig(BaseModel):
    """Configuration of a sweep, which simulates every combination of the lists; a single value is a list of one.

    Attributes
    ----------
    slots, shares : Counts
        Sizes of the routing problem.
    risk_tolerances : Tolerances
        Weights of the mean against the variance.
    horizons : Annotated[list[Rounds], BeforeValidator(config_list), Field(min_length=1)]
        Rounds per run.
    instances : Count | Annotated[list[Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1)]
        Numbers of random instances; a single integer ``n`` stands for instances 0 to ``n - 1``.
    policies : Annotated[Texts, Field(min_length=1)]
        Names, see `riskroute.POLICIES`.
    parameters : dict[str, dict[str, Any]]
        Parameters that differ from their defaults, by name of the policy.
    runs : Count
        Runs per policy and combination.
    seed : Seed
        Seed of rewards and of the random decisions of policies.
    checkpoints : Annotated[int, Field(ge=1, le=10000, strict=True)]
        Number of rounds of a run at which regret is recorded; the last round is always one of them.
    """

    model_config = ConfigDict(extra="forbid")

    slots: Counts = [4]
    shares: Counts = [4]
    risk_tolerances: Tolerances = [2.0]
    horizons: Annotated[list[Rounds], BeforeValidator(config_list), Field(min_length=1)] = [100_000]
    instances: Count | Annotated[list[Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1)] = 1
    policies: Annotated[Texts, Field(min_length=1)] = ["adaptive", "rise"]
    parameters: dict[str, dict[str, Any]] = {}
    runs: Count = 10
    seed: Seed = 0
    checkpoints: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1

    @property
    def instance_numbers(self) -> list[int]:
        """Numbers of the simulated instances."""
        return list(range(self.instances)) if isinstance(self.instances, int) else self.instances

    @property
    def all_runs(self) -> int:
        """Number of runs of all policies in all combinations."""
        lists = (self.slots, self.shares, self.risk_tolerances, self.horizons, self.instance_numbers)
        return math.prod(len(values) for values in lists) * len(set(self.policies)) * self.runs

    @classmethod
    def read(cls, path: Path) -> SweepConfig:
        """Read and validate a TOML file."""
        return cls.of(read_toml_config(path))

    @classmethod
    def of(cls, values: dict[str, Any]) -> SweepConfig:
        """Validate a configuration given as plain values."""
        config = validated_config(cls, values)
        for name in ("slots", "shares", "risk_tolerances", "horizons", "instance_numbers", "policies"):
            config_all_different(name.replace("_numbers", "s"), getattr(config, name))
        for name in (*config.policies, *config.parameters):
            one_of("policies" if name in config.policies else "parameters", name, tuple(POLICIES))
        unused = [name for name in config.parameters if name not in config.policies]
        if unused:
            raise InputError(f"parameters are given for {unused[0]!r}: add it to policies, or remove its parameters")
        config._chosen()
        for slots, shares in itertools.product(config.slots, config.shares):
            comparison_must_list(config.policies, slots, shares)
        return config

    def _chosen(self) -> dict[str, str | Policy]:
        """Return the policies with their parameters; `oracle` depends on the environment and stays a name."""
        changed = self.parameters
        return {
            name: make_policy(name, **changed[name]) if changed.get(name) else name
            for name in dict.fromkeys(self.policies)
        }

    def panels(self) -> list[SimulationPanel]:
        """Return one panel per combination of the lists other than policies."""
        policies = self._chosen()
        sets = {
            (slots, shares): routing_actions(shares, slots, listed=comparison_must_list(self.policies, slots, shares))
            for slots, shares in itertools.product(self.slots, self.shares)
        }
        size = (self.slots, self.shares, self.risk_tolerances, self.horizons, self.instance_numbers)
        panels = []
        for slots, shares, tolerance, horizon, instance in itertools.product(*size):
            facts = {"slots": slots, "shares": shares, "risk_tolerance": tolerance, "horizon": horizon}
            facts["instance"] = instance
            name = ", ".join(f"{key} {value:g}" for key, value in facts.items())
            environment = Environment(random_problem(sets[slots, shares], instance, risk_tolerance=tolerance))
            run_size = SimulationSize(horizon, self.runs, self.seed)
            panels.append(SimulationPanel(name, name, environment, policies, facts, run_size, self.checkpoints))
        return panels


@dataclass(frozen=True)
class SweepResult:
    """Final regret of every combination and policy, and the files written."""

    panels: Sequence[SimulationPanel]
    finals: Sequence[Final]
    files: list[Path]

    def table(self) -> TextTable:
        """Return mean final regret and standard error: over instances, or over runs if there is one instance."""
        groups: dict[tuple[Any, ...], list[Final]] = {}
        for panel, final in zip(self.panels, self.finals, strict=True):
            key = tuple(value for name, value in panel.facts.items() if name != "instance")
            groups.setdefault(key, []).append(final)
        labels = list(self.finals[0])
        rows = [
            [
                *(f"{value:,}" for value in key),
                str(len(members)),
                *(simulation_panel_average(members, label) for label in labels),
            ]
            for key, members in groups.items()
        ]
        return TextTable(["slots", "shares", "risk tolerance", "rounds", "instances", *labels], rows)


def sweep(
    config: SweepConfig | str | os.PathLike[str],
    out: str | os.PathLike[str],
    backend: Backend | None = None,
    *,
    resume: bool = False,
    finished: Finished | None = None,
) -> SweepResult:
    """Simulate every combination of a configuration.

    Parameters
    ----------
    config : SweepConfig or path
        A TOML file, or the result of `SweepConfig.of`.
    out : path
        Folder for ``sweep.parquet`` (the tidy table), ``sweep.json`` (the summary) and ``config.json``.
    backend : Backend, optional
        Processes or cluster that run the tasks; default: one process per core of this machine.
    resume : bool
        Reuse the finished tasks of an earlier sweep in the same folder.
    finished : Finished, optional
        Function to call after every task, with the task.
    """
    backend = Backend() if backend is None else instance_of("backend", backend, Backend, "a Backend")
    config = config if isinstance(config, SweepConfig) else SweepConfig.read(valid_path("config", config))
    true_or_false("resume", resume)
    panels, folder = config.panels(), writable_folder("out", out)
    table, finals = RunnerPanelWriter(folder / "sweep.parquet"), []
    played = run_panels(panels, RunnerCache(folder / "tasks"), backend, resume=resume, finished=finished)
    for panel, result in zip(panels, played, strict=True):
        table.add(panel.tidy(result))
        finals.append({label: one["final"] for label, one in result.digest()["policies"].items()})
    contents = {
        "sweep.json": [panel.facts | {"policies": final} for panel, final in zip(panels, finals, strict=True)],
        "config.json": config.model_dump(),
    }
    files = [table.close(), *(write_json(folder / name, content) for name, content in contents.items())]
    return SweepResult(panels, finals, files)
