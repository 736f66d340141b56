"""Many runs of several policies in one environment, here or on a backend."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping

from riskroute.core.results import PolicyResult, SimulationResult
from riskroute.core.validation import function_of, instance_of, one_of, whole_number
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.regret import regret_checkpoints
from riskroute.simulation.backends import Backend, run_tasks
from riskroute.simulation.environments import Environment
from riskroute.simulation.interrupts import polite_interrupts
from riskroute.simulation.runner import METHODS, run_configuration, runs_by_label
from riskroute.simulation.tasks import Task, merged_tasks, split_into_tasks

MOST_RUNS = 10**7
Progress = Callable[[str, int, int], None]
"""Called as ``progress(policy, finished runs, all runs)``."""


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
    """Play every policy ``runs`` times for ``horizon`` rounds and record its regret.

    Parameters
    ----------
    problem : Problem or Environment
        A problem is played with independent Gaussian rewards.
    policies : Iterable[str or Policy] or Mapping[str, str or Policy]
        Names, policies, or a mapping from labels to either.
    horizon : int
        Rounds of every run.
    runs : int
        Runs of every policy.
    seed : int
        Every (environment, policy label, run) has its own random stream, whatever else is run before or after.
    checkpoints : int
        How many rounds are recorded.
    spacing : str
        Whether checkpoints are ``log``-spaced, ``linear`` or ``both``.
    method : str
        ``auto`` picks the compiled kernel or blocks; ``blocks`` and ``rounds`` force one way.
    progress : Progress, optional
        Called after every run, or after every task of a backend.
    backend : Backend, optional
        Where to play; in this process if None. Results do not depend on it.

    Returns
    -------
    SimulationResult
        An interrupt (Ctrl-C) lets the current run finish and returns what there is, with ``interrupted`` set; a second
        one stops at once.

    Examples
    --------
    >>> from riskroute.routing.instances import random_routing_problem
    >>> result = simulate(random_routing_problem(3, 3, seed=1), ["oracle", "uniform"], horizon=2000, runs=5)
    >>> list(result.policies)
    ['oracle', 'uniform']
    """
    environment = problem if isinstance(problem, Environment) else Environment(problem)
    horizon = whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
    runs = whole_number("runs", runs, maximum=MOST_RUNS)
    seed = whole_number("seed", seed, minimum=0)
    one_of("method", method, METHODS)
    if progress is not None:
        function_of("progress", progress)
    if backend is not None:
        instance_of("backend", backend, Backend, "a Backend")
    recorded = len(regret_checkpoints(horizon, checkpoints, spacing))
    chosen = runs_by_label(policies, environment, horizon)
    tasks = [
        Task(environment, label, one, horizon, seed, 0, runs, checkpoints, spacing, method)
        for label, one in chosen.items()
    ]
    if backend is None:
        finished, interrupted = _perform_here(tasks, progress)
    else:
        finished, interrupted = _perform_there(
            [part for task in tasks for part in split_into_tasks(task)], backend, progress
        )
    if interrupted and not finished:
        raise KeyboardInterrupt
    config = run_configuration(environment, chosen, horizon, runs, seed)
    config |= {"checkpoints": recorded, "spacing": spacing, "method": method}
    return SimulationResult(config, finished, environment.last_comparator(horizon), interrupted)


def _perform_here(tasks: list[Task], progress: Progress | None) -> tuple[dict[str, PolicyResult], bool]:
    """Results by label, and whether an interrupt cut them short; one task after the other, in this process."""
    finished: dict[str, PolicyResult] = {}
    with polite_interrupts() as asked_to_stop:
        for task in tasks:

            def after_run(done: int, task: Task = task) -> bool:
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
    tasks: list[Task], backend: Backend, progress: Progress | None
) -> tuple[dict[str, PolicyResult], bool]:
    """Results by label, and whether an interrupt cut them short; all tasks at once, on a backend."""
    done, runs = collections.Counter[str](), collections.Counter[str]()
    for task in tasks:
        runs[task.label] += task.runs

    def finished(task: Task) -> None:
        done[task.label] += task.runs
        if progress is not None:
            progress(task.label, done[task.label], runs[task.label])

    held: dict[int, PolicyResult] = {}
    interrupted = False
    try:
        for _ in run_tasks(tasks, backend, held=held, finished=finished):
            pass
    except KeyboardInterrupt:
        interrupted = True
    parts: dict[str, list[PolicyResult]] = {}
    for number in sorted(held):
        parts.setdefault(tasks[number].label, []).append(held[number])
    return {label: merged_tasks(some) for label, some in parts.items()}, interrupted
