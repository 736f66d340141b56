"""Small runs of whole commands: one study that tests share, a reproduction that is killed, and printed numbers.

small_runs.py reproduce OUT COUNT SECONDS   a reproduction that kills itself SECONDS after COUNT finished tasks
small_runs.py print FOLDER                  the demo's table, one study and one sweep, to compare unlike machines
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from riskroute.cli.app import run_app
from riskroute.paper.experiments import plan_experiments, reproduce
from riskroute.routers.risk import CHEAPEST
from riskroute.simulation.backends import Backend
from riskroute.simulation.runner import SimulationTask
from riskroute.study import stresses
from riskroute.study.config import BacktestConfig, StudyConfig
from riskroute.study.markets import MarketDay
from riskroute.study.result import StudyResult
from riskroute.study.stresses import stress_configs
from riskroute.study.study import Study
from small_days import HERE

CONFIG = StudyConfig(
    orders=12,
    seeds=1,
    horizons=(10.0,),
    block_minutes=1,
    routers=("static", "contextual"),
    surface_orders=12,
    quantities=(2500,),
    risk=CHEAPEST,  # with a charge for risk a rule would be chosen
    stresses=True,
)
WORLDS = (
    *("baseline", "latency 10 ms", "half the liquidity in pools", "market impact x 1"),
    "pessimistic queue positions",
)


def study_of(config: StudyConfig) -> Study:
    """Return the study of a configuration."""
    return Study(**{item.name: getattr(config, item.name) for item in dataclasses.fields(config)})


def small_study(days: Sequence[MarketDay], folder: Path) -> StudyResult:
    """Return the study that is kept in a folder; it is made if it is not there yet."""
    kept = folder / "study.json"
    if not kept.exists():
        with few_worlds():
            found = study_of(CONFIG).play(days, kept=folder, backend=HERE)
        kept.write_text(json.dumps(found.to_json(), allow_nan=False))
    return StudyResult.from_json(json.loads(kept.read_text()))


def few_worlds() -> AbstractContextManager[Any]:
    """Studies play only a few of the harder worlds."""
    return mock.patch.object(stresses, "stress_configs", _few_worlds)


def _few_worlds(config: BacktestConfig, **more: Any) -> dict[str, BacktestConfig]:
    worlds = stress_configs(config, **more)
    return {name: worlds[name] for name in WORLDS}


REPRODUCTION_TASKS = 30


def small_reproduction(
    out: Path, workers: int, finished: Callable[[SimulationTask], None] | None = None, *, resume: bool = False
) -> bytes:
    """The table of thirty instances, one run each."""
    experiments = plan_experiments("instances", panel="a", policies=["rise"], runs=1, horizon=100)
    (done,) = reproduce(experiments, out, Backend(workers=workers), resume=resume, finished=finished)
    return done.files[0].read_bytes()


def reproduce_until_killed(out: Path, count: int, seconds: float) -> None:
    """Play until ``count`` tasks are finished, and some seconds longer."""
    left = count

    def one_more(task: SimulationTask | None = None) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    one_more()
    small_reproduction(out, 2, one_more)
    signal.pause()  # until the kill comes, where everything was faster


POLICIES = ("adaptive", "thompson", "rise", "rise++", "risk-ucb", "risk-exp-exp", "uniform")

SWEEP = f"""
slots = [3]
shares = 6
risk_tolerances = [0.5, 2.0]
horizons = 600
instances = 1
runs = 1
policies = {list(POLICIES)}
"""

STUDY = f"""
quantities = 10
train = "10:40-10:46"
test = "10:46-10:52"
bucket_minutes = 1
repeats = 2
horizon = 200
runs = 1
policies = {list(POLICIES)}
"""


def print_numbers(folder: Path) -> int:
    """Run the three commands, with their files in ``folder``; returns an exit code."""
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "split-study.toml").write_text(STUDY)
    chosen = [word for name in POLICIES for word in ("--policy", name)]
    code = run_app(["simulate", "--runs", "2", "--horizon", "1000", "--json", str(folder / "table.json"), *chosen])
    for command in ("sweep", "split-study"):
        code = code or run_app(
            [command, str(folder / f"{command}.toml"), "--workers", "1", "--out", str(folder / command)]
        )
    return code


if __name__ == "__main__":
    task, where, *words = sys.argv[1:]
    if task == "print":
        sys.exit(print_numbers(Path(where)))
    reproduce_until_killed(Path(where), int(words[0]), float(words[1]))
