"""A small reproduction of many short tasks: for tests that kill it, here and as a program that kills itself.

As a program it is killed once a number of tasks is finished, a while later.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from riskroute.paper.reproduce import plan_experiments, reproduce
from riskroute.simulation.backends import Backend
from riskroute.simulation.runner import Task

TASKS = 30


def play(out: Path, workers: int, finished: Callable[[Task], None] | None = None, *, resume: bool = False) -> bytes:
    """The table of thirty instances, one run each."""
    experiments = plan_experiments("instances", panel="a", policies=["rise"], runs=1, horizon=100)
    (done,) = reproduce(experiments, out, Backend(workers=workers), resume=resume, finished=finished)
    return done.files[0].read_bytes()


def main(out: Path, count: int, seconds: float) -> None:
    """Play until ``count`` tasks are finished, and some seconds longer."""
    left = count

    def one_more(task: Task | None = None) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    one_more()
    play(out, 2, one_more)
    signal.pause()  # until the kill comes, where everything was faster


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
