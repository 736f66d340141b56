"""Play seeds, and say what was survived; shrink and print the first scenario that breaks a guarantee.

python -m simulated_service                       for 600 seconds, on two cores
python -m simulated_service --seconds 60 --jobs 1
python -m simulated_service --seed 17             one seed, with its trace
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

ERASE = "\r\x1b[K"


def main(words: list[str]) -> int:
    """Run the command; return its status."""
    parser = argparse.ArgumentParser(prog="simulated_service", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to play; default: 600")
    parser.add_argument("--jobs", type=int, default=2, help="processes that play; default: 2")
    parser.add_argument("--first", type=int, default=1, help="the first seed; default: 1")
    parser.add_argument("--seeds", type=int, help="how many seeds; default: as many as there is time for")
    parser.add_argument("--seed", type=int, help="play this seed alone, and print its trace")
    parser.add_argument("--mutant", default="", help="plant this mistake first (see mutants.py)")
    parser.add_argument("--worker", type=int, nargs=2, metavar=("K", "N"), help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets are iterated by hash: the same seed must play the same
        environment = os.environ | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "simulated_service", *words], environment)
    if given.worker:
        return work(given)
    if given.seed is not None:
        return replay(given.seed, given.mutant)
    return watch(given)


def plant(name: str) -> None:
    """Plant a mutant, if one is named."""
    if name:
        from simulated_service.mutants import MUTANTS

        MUTANTS[name]()


def work(given: argparse.Namespace) -> int:
    """Play every N-th seed, and print what came of each as a line of JSON."""
    from simulated_service.scenario import drawn
    from simulated_service.simulation import simulate

    plant(given.mutant)
    gc.set_threshold(100_000, 50, 100)  # records hold no cycles, as in the service itself
    start, step = given.worker
    until = time.monotonic() + given.seconds
    for seed in count(given.first + start, step):
        if time.monotonic() > until or (given.seeds is not None and seed >= given.first + given.seeds):
            return 0
        began = time.process_time()
        outcome = simulate(drawn(seed))
        line = {
            "seed": seed,
            "broken": outcome.broken,
            "seconds": outcome.seconds,
            "orders": outcome.orders,
            "survived": outcome.survived,
            "mark": outcome.mark,
            "cpu": time.process_time() - began,
        }
        print(json.dumps(line), flush=True)
        if outcome.broken:
            return 1
    return 0


class Tally:
    """What was played so far."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seeds = self.orders = 0
        self.simulated = self.cpu = 0.0
        self.survived: Counter[str] = Counter()

    def add(self, line: dict[str, Any]) -> None:
        """Count a seed."""
        self.seeds += 1
        self.orders += line["orders"]
        self.simulated += line["seconds"]
        self.cpu += line["cpu"]
        self.survived.update(line["survived"])

    @property
    def faults(self) -> int:
        """The number of faults."""
        return sum(number for kind, number in self.survived.items() if not kind.startswith("orders "))

    def progress(self) -> str:
        """Return one line."""
        return (
            f"{time.monotonic() - self.began:5.0f} s: {self.simulated / 3600:,.1f} simulated hours, "
            f"{self.orders:,} orders, {self.faults:,} faults survived"
        )

    def lines(self) -> Iterator[str]:
        """Yield the whole account."""
        hours = self.simulated / 3600
        speed = self.simulated / self.cpu if self.cpu else 0.0
        yield f"{hours:,.1f} simulated hours in {self.seeds:,} seeds, {speed:,.0f} per hour of a core"
        answered, refused = self.survived["orders answered"], self.survived["orders refused"]
        yield f"{self.orders:,} orders, {answered:,} answers, {refused:,} refusals"
        yield f"faults survived: {self.faults:,}"
        for kind, number in self.survived.most_common():
            if not kind.startswith("orders "):
                yield f"{number:>7,}  {kind}"


def watch(given: argparse.Namespace) -> int:
    """Let several processes play, show their progress, and shrink the first scenario that breaks a guarantee."""
    lines: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    tally, jobs = Tally(), []
    for number in range(given.jobs):
        words = ["--worker", str(number), str(given.jobs), "--seconds", str(given.seconds), "--first", str(given.first)]
        words += ["--mutant", given.mutant] if given.mutant else []
        words += ["--seeds", str(given.seeds)] if given.seeds is not None else []
        job = subprocess.Popen(
            [sys.executable, "-m", "simulated_service", *words], stdout=subprocess.PIPE, start_new_session=True
        )
        jobs.append(job)
        threading.Thread(target=_read, args=(job, lines), daemon=True).start()
    broken: dict[str, Any] | None = None
    running, status = len(jobs), 0
    try:
        while running and broken is None:
            try:
                line = lines.get(timeout=1.0)
            except Empty:
                line = {}
            if line is None:
                running -= 1
            elif line:
                tally.add(line)
                broken = line if line["broken"] else None
            if sys.stderr.isatty():
                print(f"{ERASE}{tally.progress()}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        status = 130
    for job in jobs:
        if broken is not None or status:
            job.kill()
        job.wait()
        if job.returncode > 0 and broken is None:
            status = job.returncode
    if sys.stderr.isatty():
        print(ERASE, end="", file=sys.stderr)
    for text in tally.lines():
        print(text)
    if broken is not None:
        print(f"\nseed {broken['seed']} after {time.monotonic() - tally.began:.0f} s: {broken['broken']}")
        return replay(broken["seed"], given.mutant)
    return status


def _read(job: subprocess.Popen[bytes], lines: SimpleQueue[dict[str, Any] | None]) -> None:
    assert job.stdout is not None
    for line in job.stdout:
        lines.put(json.loads(line))
    lines.put(None)


def replay(seed: int, mutant: str) -> int:
    """Play one seed, and print its trace; shrink it first if it breaks a guarantee."""
    from simulated_service.scenario import drawn
    from simulated_service.shrink import shrink
    from simulated_service.simulation import simulate

    plant(mutant)
    scenario = drawn(seed)
    outcome = simulate(scenario)
    if outcome.broken:
        before = len(scenario.orders), len(scenario.faults)
        scenario, outcome = shrink(scenario, outcome, simulate)
        after = len(scenario.orders), len(scenario.faults)
        print(f"shrunk from {before[0]} orders and {before[1]} faults to {after[0]} and {after[1]}:")
        print(f"{scenario.settings}")
    for line in outcome.trace:
        print(line)
    said = outcome.broken or "every guarantee held"
    print(f"seed {seed}, mark {outcome.mark}: {said}")
    return int(bool(outcome.broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
