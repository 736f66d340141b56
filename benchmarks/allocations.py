"""Time designs, best allocations and whole runs on implicit allocation sets, by order size.

1. 1,000 shares over 20 slots, 10,000 over 30 and 100 over 200: the certified design (no cache: a new set every time),
   the best allocation for convex and for arbitrary scores, whole runs of RISE and RISE++ with 100,000 rounds, and the
   peak memory of a process that does both runs, and of one that makes the design over 200 slots.
2. Ten slots and orders of 10 to 10,000 shares: the same measurements, and the number of allocations. The time may grow
   in proportion to the order, with room for noise: at most 20 times for ten times the shares. Growth is judged by the
   fastest repeats; times below a millisecond count as a millisecond.

Everything is timed after a warm-up that compiles the kernels; the median is reported.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from riskroute import Allocations, random_problem, simulate
from riskroute.core.text import count_text
from timing import REPEATS, duration, interleaved, leave, print_heading, print_table, progress, say, sized, verdict

ROUNDS = sized(100_000, 500)
MANY = sized(200, 20)
"""Slots of the set with the most slots."""

SIZES = sized((10, 100, 1000, 10_000), (10, 100))
MOST_GROWTH = 20.0
NOTICEABLE = 1e-3
"""Seconds below which growth is not judged."""

PEAK = """
from pathlib import Path
from riskroute import Allocations, random_problem, simulate
{work}
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) / 1000)  # not ru_maxrss, which includes the parent's peak
"""
MEMORY = {
    "1,000 over 20: peak memory of both runs": (
        f'simulate(random_problem(Allocations(1000, 20), 0), ["rise", "rise++"], {ROUNDS}, 1)',
        500,
    ),
    f"100 over {MANY}: peak memory of the design": (f"Allocations(100, {MANY}).design(0.01)", 1000),
}
MEASURED = sized(list(MEMORY), list(MEMORY)[:1])
"""Measured in processes of their own, each of which takes a second to start."""


def questions(shares: int, slots: int, tolerance: float) -> dict[str, Callable[[], Any]]:
    """Return the calls to time for one set."""
    allocations = Allocations(shares, slots)
    rng = np.random.default_rng(0)
    linear, square = rng.standard_normal((2, slots))
    return {
        "design": lambda: Allocations(shares, slots).design(tolerance),
        "best, convex": lambda: allocations.best(np.concatenate([linear, np.abs(square)])),
        "best, any": lambda: allocations.best(np.concatenate([linear, square])),
    }


def run(shares: int, slots: int, policy: str) -> Callable[[], Any]:
    """Return a call that runs a policy once on a new set, without cached designs."""
    return lambda: simulate(random_problem(Allocations(shares, slots), 0), [policy], ROUNDS, 1)


def targets() -> tuple[list[bool], list[bool]]:
    """Print the first part: targets of the large sets on excess, memory and time."""
    cases: list[tuple[str, Callable[[], Any], float]] = []
    most_excess = {}
    for shares, slots, tolerance, limits in (
        (1000, 20, 0.01, {"design": 1.0, "best, convex": 1e-3, "best, any": 30e-3}),
        (10_000, 30, 0.05, {"design": 3.0}),
        (100, MANY, 0.01, {"design": 30.0}),
    ):
        asked = questions(shares, slots, tolerance)
        cases += [(f"{shares:,} over {slots}: {name}", asked[name], limit) for name, limit in limits.items()]
        most_excess[f"{shares:,} over {slots}: design"] = tolerance
    cases.append((f"1,000 over 20: RISE, {ROUNDS:,} rounds", run(1000, 20, "rise"), 2.0))
    cases.append((f"1,000 over 20: RISE++, {ROUNDS:,} rounds", run(1000, 20, "rise++"), 30.0))
    timings = interleaved({name: call for name, call, _ in cases}, REPEATS, patience=2.0)
    rows, held, measured = [], [], []
    for name, _, limit in cases:
        measured.append(timings[name].median <= limit)
        rows.append([name, duration(timings[name].median), f"at most {duration(limit)}", verdict(measured[-1])])
    for name, most in most_excess.items():
        excess = timings[name].outcome.excess
        held.append(excess <= most)
        rows.append([f"{name}, certified excess", f"{excess:.2%}", f"at most {most:.0%}", verdict(held[-1])])
    for name in MEASURED:
        work, most = MEMORY[name]
        said = subprocess.run(
            [sys.executable, "-c", PEAK.format(work=work)], capture_output=True, text=True, check=True
        )
        held.append(float(said.stdout) < most)
        rows.append([name, f"{float(said.stdout):.0f} MB", f"below {most} MB", verdict(held[-1])])
    print_table(["question", "median", "target", ""], rows)
    return held, measured


def growth() -> list[bool]:
    """Print the second part: cost by order size."""
    asked = {shares: questions(shares, 10, 0.05) for shares in SIZES}
    timings = {shares: interleaved(asked[shares], REPEATS, patience=5.0) for shares in SIZES}
    names = list(asked[SIZES[0]])
    rows = [
        [
            f"{shares:,}",
            count_text(Allocations(shares, 10).size),
            *(duration(timings[shares][n].median) for n in names),
        ]
        for shares in SIZES
    ]
    print_table(["shares", "allocations", *names], rows)
    held = []
    for name in names:
        fastest = [max(timings[shares][name].fastest, NOTICEABLE) for shares in SIZES]
        ratio = max(more / less for less, more in itertools.pairwise(fastest))
        held.append(ratio <= MOST_GROWTH)
        target = f"target at most {MOST_GROWTH:g}: {verdict(held[-1])}"
        say(f"{name}: at most {ratio:.1f} times for ten times the shares, {target}")
    return held


def main() -> None:
    print_heading("Allocation sets", ["riskroute", "numpy", "scipy", "numba"])
    progress("compiling")
    for call in questions(50, 8, 0.05).values():
        call()
    simulate(random_problem(Allocations(60, 10), 0), ["rise", "rise++"], sized(20_000, 500), 1)
    say(f"1. targets, medians of {REPEATS} repeats")
    held, measured = targets()
    say("2. ten slots")
    leave(held, measured + growth())


if __name__ == "__main__":
    main()
