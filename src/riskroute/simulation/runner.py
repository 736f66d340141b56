"""Simulate policies: single runs, tasks of many runs, `simulate` over several policies, and the panels of a figure.

Index policies are played by a compiled kernel, all others plan by plan: however long a plan is, its rewards are drawn
as one tally per entry. Any policy can be played round by round, and tests compare this with the other methods. The
result of a task, apart from its seconds, depends only on the inputs that `SimulationTask.describe` lists, not on the
machine or process that runs it.
"""

from __future__ import annotations

import collections
import functools
import math
import signal
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from threadpoolctl import ThreadpoolController

from riskroute._version import __version__
from riskroute.core.arrays import Floats, Integers, Vector
from riskroute.core.errors import InputError
from riskroute.core.files import write_whole
from riskroute.core.provenance import code_hash
from riskroute.core.records import to_plain
from riskroute.core.runtime import compilation_timed
from riskroute.core.seeding import seed_stream, seeding_hash
from riskroute.core.text import number_text, shown
from riskroute.core.validation import (
    LABEL_MARKS,
    as_name,
    if_given,
    instance_of,
    one_of,
    valid_function,
    valid_list,
    whole_number,
)
from riskroute.learning.actions import Action, as_action, as_batch
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.policies.arm_policy import IndexPolicy
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.registry import make_policy
from riskroute.learning.regret import RegretBlocks, block_regret_curves, regret_checkpoints
from riskroute.learning.tally import ActionBatch, merge_moments_compiled
from riskroute.learning.tournament import build_tournament, padded_tournament, update_tournament
from riskroute.simulation.backends import Backend, Finished, run_backend_tasks
from riskroute.simulation.environments import Environment
from riskroute.simulation.results import PolicyResult, SimulationResult

if TYPE_CHECKING:
    import polars


@njit(cache=True)
def _index_episode(
    mean_table: Vector, deviation_table: Vector, pieces: Integers, noise: Vector, bonuses: Vector, risk_tolerance: float
) -> tuple[Integers, Vector, Integers, Vector, Vector]:
    """Play an `IndexPolicy` as `_play_rounds` would; tables ``(P, K)`` are by piece and arm, ``bonuses`` by round."""
    # While the bonus is constant, only the index of the arm just played changes, and a tournament tree finds the next
    # arm in log2 K comparisons.
    horizon = len(noise)
    n_arms = mean_table.shape[1]
    counts = np.zeros(n_arms, dtype=np.int64)
    means = np.zeros(n_arms)
    spreads = np.zeros(n_arms)
    index = padded_tournament(np.full(n_arms, np.inf))
    winners = build_tournament(index)
    arms = np.empty(horizon, dtype=np.int64)
    rewards = np.empty(horizon)
    for t in range(horizon):
        if t == n_arms or (t > n_arms and bonuses[t] != bonuses[t - 1]):
            for k in range(n_arms):
                total = float(counts[k])
                index[k] = spreads[k] / total - risk_tolerance * means[k] - bonuses[t] / np.sqrt(total)
            winners = build_tournament(index)
        arm = t if t < n_arms else winners[1]
        reward = mean_table[pieces[t], arm] + deviation_table[pieces[t], arm] * noise[t]
        total, means[arm], spreads[arm] = merge_moments_compiled(
            float(counts[arm]), means[arm], spreads[arm], 1.0, reward, 0.0
        )
        counts[arm] = int(total)
        if t >= n_arms:
            index[arm] = spreads[arm] / total - risk_tolerance * means[arm] - bonuses[t] / np.sqrt(total)
            update_tournament(winners, index, arm)
        arms[t] = arm
        rewards[t] = reward
    return arms, rewards, counts, means, spreads  # the first two by round, the others by arm


_RUNS_PER_TASK = 250  # maximum, so that progress is reported even if runs are short
Progress = Callable[[str, int, int], None]  # called as progress(policy, finished runs, all runs)


def _describe_run(
    environment: Environment, policies: Mapping[str, Policy], horizon: int, runs: int, seed: int
) -> dict[str, Any]:
    return {
        "version": __version__,
        "environment": environment.describe(),
        "actions": str(environment.actions.size),
        "dim": environment.actions.dim,
        "risk_tolerance": environment.risk_tolerance,
        "horizon": horizon,
        "runs": runs,
        "seed": seed,
        "policies": {label: {"name": p.name, **p.parameters} for label, p in policies.items()},
    }


def _play_run(
    environment: Environment,
    policy: Policy,
    horizon: int,
    checkpoints: Integers,
    comparator: Floats,
    identity: tuple[int, str, int],
    method: str = "auto",
) -> PolicyResult:
    """Play one run; its random streams depend only on the environment and ``identity`` (seed, label, run)."""
    seed, label, run = identity
    method = environment.playable(method)
    setting, instance = environment.setting(horizon), environment.stream_name
    policy = policy.clone().start(setting, seed_stream(seed, instance, label, run, "policy"))
    rng = np.random.default_rng(seed_stream(seed, instance, label, run, "rewards"))
    if method == "auto" and isinstance(policy, IndexPolicy) and policy.has_kernel:
        actions, blocks = _play_index(environment, policy, rng)
    elif method == "rounds":
        actions, blocks = _play_rounds(environment, policy, rng)
    else:
        actions, blocks = _play_blocks(environment, policy, rng, checkpoints)
    anchors = environment.comparator_means(checkpoints)
    xi, pseudo, luck = block_regret_curves(blocks, checkpoints, anchors, environment.risk_tolerance)
    if not environment.independent:
        luck = np.zeros(len(checkpoints))  # given the past, autocorrelated noise does not have mean zero
    recommended = policy.recommend()
    others = (actions != as_batch(recommended)).reshape(len(actions), -1).any(axis=1)
    if not environment.one_set:
        piece = environment.piece_at(np.arange(horizon))
        others &= piece == piece[-1]
    explored = blocks.counts[others].sum(keepdims=True)
    return PolicyResult(checkpoints, (xi - comparator)[None], pseudo[None], luck[None], [recommended], explored, 0.0)


_Log = tuple[ActionBatch, RegretBlocks]  # the action of every block of consecutive rounds of a run, and the blocks


def _play_blocks(environment: Environment, policy: Policy, rng: np.random.Generator, checkpoints: Integers) -> _Log:
    rewards = environment.run(rng)
    actions: list[ActionBatch] = []
    parts: list[RegretBlocks] = []
    while policy.remaining:
        plan = policy.plan()
        tallies, entry, blocks = rewards.plan_blocks(plan, checkpoints)
        policy.learn(tallies)
        actions.append(plan.actions[entry])
        parts.append(blocks)
    return np.concatenate(actions), RegretBlocks(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _play_rounds(environment: Environment, policy: Policy, rng: np.random.Generator) -> _Log:
    rewards = environment.run(rng)
    actions: list[Action] = []
    values: list[float] = []
    for _ in range(policy.remaining):
        if not environment.one_set:
            policy.offer(rewards.actions)
        action = policy.select()
        value = rewards.reward(action)
        policy.update(action, value)
        actions.append(action)
        values.append(value)
    return _single_rounds(environment, as_batch(*actions), np.array(values))


def _play_index(environment: Environment, policy: IndexPolicy, rng: np.random.Generator) -> _Log:
    handles, horizon = environment.actions.listed().handles, policy.horizon
    arms, rewards, counts, means, spreads = _index_episode(
        *environment.reward_tables(rng, horizon), policy.bonuses(horizon), environment.risk_tolerance
    )
    policy.absorb(counts, means, spreads)
    return _single_rounds(environment, handles[arms], rewards)


def _single_rounds(environment: Environment, actions: Integers, rewards: Floats) -> _Log:
    n = len(rewards)
    means, deviations, gaps = environment.outcomes_by_piece(actions, environment.piece_at(np.arange(n)))
    return actions, RegretBlocks(np.ones(n, dtype=np.int64), rewards, np.zeros(n), means, deviations**2, gaps)


def _policies_by_label(
    policies: Iterable[str | Policy] | Mapping[str, str | Policy], environment: Environment, horizon: int
) -> dict[str, Policy]:
    if isinstance(policies, str | Policy) or not isinstance(policies, Iterable):
        raise InputError(f"policies must be a list of names or policies, was {shown(policies)}")
    if isinstance(policies, Mapping):
        pairs = list(policies.items())
    else:
        listed = valid_list("policies", policies, object, "names or policies")
        pairs = [(item if isinstance(item, str) else getattr(item, "name", str(item)), item) for item in listed]
    chosen: dict[str, Policy] = {}
    for label, item in pairs:
        if label in chosen:
            raise InputError(f"policies must have different labels, {label!r} appeared twice")
        if isinstance(item, str) and item == Oracle.name:
            item = environment.oracle(horizon)
        chosen[label] = make_policy(item) if isinstance(item, str) else item
        if not isinstance(chosen[label], Policy):
            raise InputError(f"policies must be names or policies, was {shown(item)}")
        as_name("label of a policy", label, marks=LABEL_MARKS)
    if not chosen:
        raise InputError("policies must name at least one policy, was empty")
    return chosen


@dataclass(frozen=True, eq=False)
class SimulationTask:
    """Task that plays runs ``first`` to ``last - 1`` of a policy in an environment."""

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
        """Return all inputs that determine the result, as plain values."""
        return {
            "version": __version__,
            "code": code_hash(),
            "environment": self.environment.identity,
            "label": self.label,
            "policy": self.policy.name,
            "parameters": to_plain(self.policy.parameters),
            "horizon": self.horizon,
            "seed": self.seed,
            "runs": [self.first, self.last],
            "checkpoints": self.checkpoints,
            "spacing": self.spacing,
            "method": self.method,
        }

    @property
    def identity(self) -> str:
        """Hash of `describe`, the inputs that determine the result."""
        return seeding_hash(self.describe(), 24)

    def prepare(self) -> None:
        """Compute the comparators once, before the task is copied to workers."""
        _ = self.environment.comparators

    def perform(self, after_run: Callable[[int], bool] | None = None) -> PolicyResult:
        """Play the runs; call ``after_run`` with the number of finished runs, and stop if it returns True."""
        with compilation_timed(self.label) as compiling:
            began = time.perf_counter()
            result = _concatenated(self._play(after_run))
            seconds = time.perf_counter() - began - compiling()  # without compilation
        return replace(result, seconds=seconds)

    def _play(self, after_run: Callable[[int], bool] | None) -> list[PolicyResult]:
        rounds = regret_checkpoints(self.horizon, self.checkpoints, self.spacing)
        comparator = self.environment.expected_comparator(rounds)
        played: list[PolicyResult] = []
        try:
            with _linear_algebra().limit(limits=1):  # matrices are tiny: several threads would wait for each other
                for run in range(self.first, self.last):
                    stream = self.seed, self.label, run
                    played.append(
                        _play_run(self.environment, self.policy, self.horizon, rounds, comparator, stream, self.method)
                    )
                    if after_run is not None and after_run(len(played)):
                        break
        except KeyboardInterrupt:
            if after_run is None or not played:
                raise
        return played

    def split(self) -> list[SimulationTask]:
        """Divide into tasks of about a second each, with 1 to 250 runs.

        The number of runs per task depends neither on the machine nor on the total number of runs. A task with more
        runs therefore finds the results of a smaller one in the cache, except for an incomplete last part.
        """
        drawn_singly = not (self.environment.independent and self.environment.gaussian)
        seconds = self.policy.estimated_seconds(self.horizon, drawn_singly=drawn_singly)
        each = min(math.ceil(1 / seconds), _RUNS_PER_TASK)
        starts = range(self.first, self.last, each)
        return [replace(self, first=first, last=min(first + each, self.last)) for first in starts]


@functools.cache
def _linear_algebra() -> ThreadpoolController:
    """Return the loaded BLAS libraries; cached, because the search takes milliseconds."""
    import scipy.linalg  # noqa: F401  # bundles its own BLAS, which is found only if loaded

    return ThreadpoolController().select(user_api="blas")


def _merge_results(tasks: Iterable[SimulationTask], results: Iterable[PolicyResult]) -> dict[str, PolicyResult]:
    parts: dict[str, list[PolicyResult]] = {}
    for task, result in zip(tasks, results, strict=True):
        parts.setdefault(task.label, []).append(result)
    return {label: _concatenated(some) for label, some in parts.items()}


def _concatenated(parts: Sequence[PolicyResult]) -> PolicyResult:
    names = ("regret", "pseudo_regret", "luck", "exploration")
    regret, pseudo, luck, explored = (np.concatenate([getattr(one, name) for one in parts]) for name in names)
    recommended = [action for one in parts for action in one.recommended]
    seconds = sum(one.seconds for one in parts)
    return PolicyResult(parts[0].checkpoints, regret, pseudo, luck, recommended, explored, seconds)


class RunnerCache:
    """Folder with the results of finished tasks, one file each; files are renamed when complete, so none is partial."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def forget(self, tasks: Iterable[SimulationTask]) -> None:
        """Delete the results of ``tasks``, and temporary files that killed processes left in the folder."""
        for path in (*map(self._path, tasks), *self.folder.glob(".*.npz")):
            path.unlink(missing_ok=True)

    def has(self, task: SimulationTask) -> bool:
        """Return whether the result of a task is stored."""
        return self._path(task).exists()

    def put(self, task: SimulationTask, result: PolicyResult) -> None:
        """Store the result of a task."""

        def write(beside: Path) -> None:
            with beside.open("wb") as file:
                np.savez(file, **vars(result) | {"recommended": as_batch(*result.recommended)})

        write_whole(self._path(task), write)

    def get(self, task: SimulationTask) -> PolicyResult | None:
        """Return the stored result of a task; None if it is missing or its file is damaged."""
        try:
            with self._path(task).open("rb") as file, np.load(file) as saved:
                arrays = {one.name: saved[one.name] for one in fields(PolicyResult)}
            actions = [as_action(row) for row in arrays["recommended"]]
            return PolicyResult(**arrays | {"recommended": actions, "seconds": float(arrays["seconds"])})
        except (FileNotFoundError, zipfile.BadZipFile, EOFError, KeyError, ValueError):
            return None

    def _path(self, task: SimulationTask) -> Path:
        return self.folder / f"{task.identity}.npz"


@contextmanager
def _deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Record the first Ctrl-C, raise the second; yield a function that returns whether the first was received."""
    # Raised inside compiled code, an interrupt would become another error, and the current run would be lost.
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: False
        return
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def simulate(
    problem: Problem | Environment,
    policies: Iterable[str | Policy] | Mapping[str, str | Policy],
    horizon: int = 100_000,
    runs: int = 50,
    seed: int = 0,
    *,
    checkpoints: int = 100,
    spacing: str = "both",
    method: str = "auto",
    progress: Progress | None = None,
    backend: Backend | None = None,
) -> SimulationResult:
    """Simulate every policy ``runs`` times for ``horizon`` rounds and record its regret.

    Parameters
    ----------
    problem : Problem or Environment
        A problem is simulated as an `Environment` with independent Gaussian rewards.
    policies : Iterable[str or Policy] or Mapping[str, str or Policy]
        Names of registered policies, policies, or a mapping from labels to names or policies.
    horizon : int
        Rounds per run.
    runs : int
        Runs per policy.
    seed : int
        Every run of every policy has its own random stream, which no other policy or run affects.
    checkpoints : int
        Approximate number of recorded rounds.
    spacing : str
        Spacing of the checkpoints: ``log``, ``linear`` or ``both``.
    method : str
        ``auto`` (compiled kernel or blocks; rounds if action sets change), ``blocks`` or ``rounds``.
    progress : Progress, optional
        Called after every run, or after every task on a backend.
    backend : Backend, optional
        Processes or cluster that run the tasks; default: this process. Results do not depend on it.

    Returns
    -------
    SimulationResult
        After Ctrl-C, all finished runs, or with a backend all finished tasks, are returned with ``interrupted`` set.
        Without a backend the current run is finished first; a second Ctrl-C stops it too. `KeyboardInterrupt` is raised
        if nothing is finished.

    Examples
    --------
    >>> from riskroute.routing.instances import random_routing_problem
    >>> result = simulate(random_routing_problem(3, 3, seed=1), ["oracle", "uniform"], horizon=2000, runs=5)
    >>> list(result.policies)
    ['oracle', 'uniform']
    """
    environment = problem if isinstance(problem, Environment) else Environment(problem)
    horizon = whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
    runs = whole_number("runs", runs, maximum=10**7)
    seed = whole_number("seed", seed, minimum=0)
    one_of("method", method, ("auto", "blocks", "rounds"))
    if_given(valid_function, "progress", progress)
    if_given(instance_of, "backend", backend, Backend, "a Backend")
    recorded = len(regret_checkpoints(horizon, checkpoints, spacing))
    chosen = _policies_by_label(policies, environment, horizon)
    tasks = [
        SimulationTask(environment, label, one, horizon, seed, 0, runs, checkpoints, spacing, method)
        for label, one in chosen.items()
    ]
    if backend is None:
        finished, interrupted = _perform_here(tasks, progress)
    else:
        finished, interrupted = _perform_there([part for task in tasks for part in task.split()], backend, progress)
    if interrupted and not finished:
        raise KeyboardInterrupt
    config = _describe_run(environment, chosen, horizon, runs, seed)
    config |= {"checkpoints": recorded, "spacing": spacing, "method": method}
    return SimulationResult(config, finished, environment.last_comparator(horizon), interrupted)


def _perform_here(tasks: list[SimulationTask], progress: Progress | None) -> tuple[dict[str, PolicyResult], bool]:
    """Run tasks in this process; return results by label, and whether an interrupt ended them early."""
    finished: dict[str, PolicyResult] = {}
    with _deferred_interrupts() as asked_to_stop:
        for task in tasks:

            def after_run(done: int, task: SimulationTask = task) -> bool:
                if progress is not None:
                    progress(task.label, done, task.runs)
                return asked_to_stop()

            try:
                result = task.perform(after_run)
            except KeyboardInterrupt:
                return finished, True
            finished[task.label] = result
            if asked_to_stop() or result.runs < task.runs:
                return finished, True
    return finished, False


def _perform_there(
    tasks: list[SimulationTask], backend: Backend, progress: Progress | None
) -> tuple[dict[str, PolicyResult], bool]:
    done, runs = collections.Counter[str](), collections.Counter[str]()
    for task in tasks:
        runs[task.label] += task.runs

    def finished(task: SimulationTask) -> None:
        done[task.label] += task.runs
        if progress is not None:
            progress(task.label, done[task.label], runs[task.label])

    held: dict[int, PolicyResult] = {}
    interrupted = False
    try:
        for _ in run_backend_tasks(tasks, backend, held=held, finished=finished):
            pass
    except KeyboardInterrupt:
        interrupted = True
    done_tasks = sorted(held)
    return _merge_results([tasks[k] for k in done_tasks], [held[k] for k in done_tasks]), interrupted


Final = Mapping[str, Mapping[str, float]]  # final regret and its standard error by policy, from the digest of a result


@dataclass(frozen=True)
class SimulationSize:
    """Rounds per run, runs per policy, and the seed."""

    horizon: int = 100_000
    runs: int = 50
    seed: int = 0


@dataclass(frozen=True)
class SimulationPanel:
    """One environment and the policies compared in it: a panel of a figure, or a cell of a sweep.

    ``policies`` are names, or a mapping from labels to names or policies. ``facts`` describe the panel by plain values
    such as ``slots``, ``shares`` and ``instance``.
    """

    name: str
    title: str
    environment: Environment
    policies: Sequence[str] | Mapping[str, str | Policy]
    facts: dict[str, Any]
    size: SimulationSize
    checkpoints: int = 100
    spacing: str = "both"

    def chosen(self) -> dict[str, Policy]:
        """Return the policies by label."""
        return _policies_by_label(self.policies, self.environment, self.size.horizon)

    def tasks(self) -> list[SimulationTask]:
        """Return tasks of about a second each that together play all runs of all policies."""
        size, tasks = self.size, []
        for label, policy in self.chosen().items():
            runs = size.horizon, size.seed, 0, size.runs, self.checkpoints, self.spacing
            tasks += SimulationTask(self.environment, label, policy, *runs).split()
        return tasks

    @property
    def runs(self) -> int:
        """Number of runs of all policies together."""
        return self.size.runs * len(self.policies)

    def gather(self, tasks: Sequence[SimulationTask], results: Iterable[PolicyResult]) -> SimulationResult:
        """Combine the results of `tasks` into one result of the panel."""
        horizon, runs, seed = self.size.horizon, self.size.runs, self.size.seed
        config = _describe_run(self.environment, self.chosen(), horizon, runs, seed)
        found = _merge_results(tasks, results)
        return SimulationResult(self.facts | config, found, self.environment.last_comparator(horizon))

    def tidy(self, result: SimulationResult) -> polars.DataFrame:
        """Return the result as a tidy table, with one more column for each fact that is a number or a string."""
        import polars

        columns = [
            polars.lit(value, dtype=polars.Int64 if isinstance(value, int) else None).alias(name)
            for name, value in self.facts.items()
            if isinstance(value, str | int | float)
        ]
        return result.to_frame().select(*columns, "*")


def run_panels(
    panels: Sequence[SimulationPanel],
    cache: RunnerCache,
    backend: Backend,
    *,
    resume: bool = False,
    finished: Finished | None = None,
) -> Iterator[SimulationResult]:
    """Simulate all panels, then yield their results one by one, so that only one is in memory.

    With ``resume``, cached results are reused; otherwise the cached results of these panels are deleted first.
    """
    cuts = [panel.tasks() for panel in panels]
    tasks = [task for some in cuts for task in some]
    if not resume:
        cache.forget(tasks)
    results = run_backend_tasks(tasks, backend, cache=cache, finished=finished)
    for panel, some in zip(panels, cuts, strict=True):
        yield panel.gather(some, islice(results, len(some)))


def simulation_panel_average(members: Sequence[Final], label: str) -> str:
    """Return mean final regret and standard error as text: over panels, or over runs if there is one panel."""
    ends = np.array([one[label]["regret"] for one in members])
    error = members[0][label]["regret_error"] if len(ends) == 1 else ends.std(ddof=1) / len(ends) ** 0.5
    return f"{number_text(ends.mean())} +- {number_text(error)}"


class RunnerPanelWriter:
    """Write many panels to one Parquet table via part files, so that the table need not fit into memory."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.parts: list[Path] = []

    def add(self, frame: polars.DataFrame) -> None:
        """Append the rows of ``frame``."""
        if not self.parts:  # delete files that a killed process left
            for begun in (f".{self.target.stem}.*", f"..{self.target.stem}.part*"):  # parts, and parts half written
                for left in self.target.parent.glob(begun):
                    left.unlink(missing_ok=True)
        part = self.target.with_name(f".{self.target.stem}.part{len(self.parts):05d}.parquet")
        self.parts.append(write_whole(part, frame.write_parquet))

    def close(self) -> Path:
        """Concatenate the part files and delete them; return the table's path."""
        import polars

        rows = polars.scan_parquet(self.parts)
        write_whole(self.target, lambda beside: rows.sink_parquet(beside, row_group_size=100_000, maintain_order=True))
        for part in self.parts:
            part.unlink()
        return self.target
