"""Many simulations in parallel, one process per core; used for evidence, not for timings."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskroute import Policy, Problem, simulate
from riskroute.simulation.environments import Environment
from timing import quick


@functools.cache
def _pool() -> ProcessPoolExecutor:
    """Return the process pool, started once: each process loads compiled kernels before its first task."""
    return ProcessPoolExecutor(os.cpu_count())


def side_by_side(call: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return ``call(*job)`` for every job, in order; on a terminal, show how many are finished."""
    done = []
    play = map if quick() else _pool().map
    for result in play(call, *zip(*jobs, strict=True)):
        done.append(result)
        if sys.stderr.isatty():
            print(f"\r{len(done)} of {len(jobs)}", end="\r", file=sys.stderr, flush=True)
    return done


def final_regret(
    problem: Problem | Environment, policies: dict[str, str | Policy], horizon: int, runs: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """Return the `steady_regret` of every run at the horizon, by policy label."""
    result = simulate(problem, policies, horizon, runs, seed, checkpoints=1)
    return {label: one.steady_regret[:, -1] for label, one in result.policies.items()}


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def geometric_mean(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(values))))
