"""Allocation sets nobody lists: what designs, best allocations and whole runs cost, and how that grows with the order.

1. 1,000 shares over 20 slots and 10,000 over 30: the certified design (no cache: a new set every time), the best
   allocation for convex and for arbitrary scores, whole runs of RISE and RISE++ with 100,000 rounds, and the peak
   memory of a process that does both runs.
2. Ten slots and orders of 10 to 10,000 shares: the same questions, beside the number of allocations. The cost may grow
   with the square of the order at most: a factor of 100 for ten times the shares, judged by the fastest repeats.

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
from riskroute.routing.splits import about
from timing import REPEATS, duration, interleaved, leave, print_heading, print_table, say, verdict

MEGABYTES = """
import resource
from riskroute import Allocations, random_problem, simulate
simulate(random_problem(Allocations(1000, 20), 0), ["rise", "rise++"], 100_000, 1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def questions(shares: int, slots: int, tolerance: float) -> dict[str, Callable[[], Any]]:
    """What is timed for one set."""
    allocations = Allocations(shares, slots)
    rng = np.random.default_rng(0)
    linear, square = rng.standard_normal((2, slots))
    return {
        "design": lambda: Allocations(shares, slots).design(tolerance),
        "best, convex": lambda: allocations.best(np.concatenate([linear, np.abs(square)])),
        "best, any": lambda: allocations.best(np.concatenate([linear, square])),
    }


def run(shares: int, slots: int, policy: str) -> Callable[[], Any]:
    """Return one run of a policy, on a new set so that nothing is remembered."""
    return lambda: simulate(random_problem(Allocations(shares, slots), 0), [policy], 100_000, 1)


def targets() -> list[bool]:
    """First part: the two large sets against their targets."""
    cases: list[tuple[str, Callable[[], Any], float]] = []
    for shares, slots, tolerance, limits in (
        (1000, 20, 0.01, {"design": 1.0, "best, convex": 1e-3, "best, any": 30e-3}),
        (10_000, 30, 0.05, {"design": 10.0}),
    ):
        asked = questions(shares, slots, tolerance)
        cases += [(f"{shares:,} over {slots}: {name}", asked[name], limit) for name, limit in limits.items()]
    cases.append(("1,000 over 20: RISE, 100,000 rounds", run(1000, 20, "rise"), 2.0))
    cases.append(("1,000 over 20: RISE++, 100,000 rounds", run(1000, 20, "rise++"), 30.0))
    timings = interleaved({name: call for name, call, _ in cases}, REPEATS, patience=2.0)
    rows, held = [], []
    for name, _, limit in cases:
        held.append(timings[name].median <= limit)
        rows.append([name, duration(timings[name].median), f"at most {duration(limit)}", verdict(held[-1])])
    for name, most in (("1,000 over 20: design", 0.01), ("10,000 over 30: design", 0.05)):
        excess = timings[name].outcome.excess
        held.append(excess <= most)
        rows.append([f"{name}, certified excess", f"{excess:.2%}", f"at most {most:.0%}", verdict(held[-1])])
    memory = float(subprocess.run([sys.executable, "-c", MEGABYTES], capture_output=True, text=True, check=True).stdout)
    held.append(memory < 500)
    rows.append(["1,000 over 20: peak memory of both runs", f"{memory:.0f} MB", "below 500 MB", verdict(held[-1])])
    print_table(["question", "median", "target", ""], rows)
    return held


def growth() -> list[bool]:
    """Second part: cost against the size of the order."""
    sizes = (10, 100, 1000, 10_000)
    asked = {shares: questions(shares, 10, 0.05) for shares in sizes}
    timings = {shares: interleaved(asked[shares], REPEATS, patience=5.0) for shares in sizes}
    names = list(asked[10])
    rows = [
        [f"{shares:,}", about(Allocations(shares, 10).size), *(duration(timings[shares][n].median) for n in names)]
        for shares in sizes
    ]
    print_table(["shares", "allocations", *names], rows)
    ratios = {
        name: max(timings[more][name].fastest / timings[less][name].fastest for less, more in itertools.pairwise(sizes))
        for name in names
    }
    for name, ratio in ratios.items():
        say(f"{name}: at most {ratio:.1f} times for ten times the shares, target at most 100: {verdict(ratio <= 100)}")
    return [ratio <= 100 for ratio in ratios.values()]


def main() -> None:
    print_heading("Allocation sets", ["riskroute", "numpy", "scipy", "numba"])
    say("compiling")
    for call in questions(50, 8, 0.05).values():
        call()
    simulate(random_problem(Allocations(60, 10), 0), ["rise", "rise++"], 20_000, 1)
    say(f"\n1. targets, {REPEATS} repeats")
    held = targets()
    say("2. ten slots")
    leave(held + growth())


if __name__ == "__main__":
    main()
