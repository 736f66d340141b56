"""What the benchmarks share: interleaved timing, tables and verdicts.

Machines are shared and noisy. Things that are compared are therefore timed in turn, in one process, several times over,
and what is reported is the median.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

REPEATS = 5


@dataclass
class Timing:
    """Seconds of every repeat, and what the last one returned."""

    seconds: list[float] = field(default_factory=list)
    outcome: Any = None

    @property
    def median(self) -> float:
        """Median over the repeats."""
        return statistics.median(self.seconds)

    @property
    def fastest(self) -> float:
        """Shortest repeat, the one the rest of the machine disturbed least."""
        return min(self.seconds)

    def run(self, call: Callable[[], Any]) -> None:
        """Time one more repeat."""
        began = time.perf_counter()
        self.outcome = call()
        self.seconds.append(time.perf_counter() - began)


def interleaved(
    calls: Mapping[str, Callable[[], Any]], repeats: int = REPEATS, patience: float = float("inf")
) -> dict[str, Timing]:
    """Time all calls in turn, ``repeats`` times over.

    A call that takes longer than ``patience`` seconds is not repeated: its noise is small next to its length.
    """
    timings = {label: Timing() for label in calls}
    for _ in range(repeats):
        for label, call in calls.items():
            if timings[label].seconds and timings[label].seconds[0] > patience:
                continue
            timings[label].run(call)
    return timings


def say(text: str) -> None:
    """Print progress at once, even into a pipe."""
    print(text, flush=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Print aligned columns: the first ``left`` of them to the left, the others to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    for number, line in enumerate(lines):
        cells = [
            text.ljust(w) if k < left else text.rjust(w) for k, (text, w) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    print(flush=True)


def duration(seconds: float) -> str:
    """Format seconds with three digits and a unit.

    >>> duration(0.00123)
    '1.23 ms'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def verdict(holds: bool) -> str:
    """Say whether a target is met."""
    return "holds" if holds else "does not hold"


def print_heading(title: str, packages: Sequence[str]) -> None:
    """Say what is measured, on what, with which versions."""
    say(title)
    say(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    say(", ".join(f"{package} {version(package)}" for package in packages) + "\n")


def leave(held: Iterable[bool]) -> None:
    """End the script, with status 1 if a target does not hold."""
    sys.exit(0 if all(held) else 1)
