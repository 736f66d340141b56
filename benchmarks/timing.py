"""Shared parts of the benchmarks: interleaved timing, tables, verdicts and printouts.

Machines are shared and noisy, so alternatives are timed in turn, in one process, several times; the median is reported.

With ``--quick`` every benchmark runs the same code on sizes that take seconds, for the tests. Targets on speed, and
those that need many runs, are then printed but not enforced. A full run writes its printout to ``out/bench``;
``docs/refresh.py benchmarks`` copies it into the documentation.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

PRINTOUTS = Path(__file__).parents[1] / "out" / "bench"

Value = TypeVar("Value")
_said: list[str] = []


def quick() -> bool:
    """Return whether this is a quick run."""
    return "--quick" in sys.argv[1:]


def sized(full: Value, small: Value) -> Value:
    """Return the full size, or the small one in a quick run."""
    return small if quick() else full


REPEATS = sized(5, 1)


@dataclass
class Timing:
    """Seconds of every repeat, and the result of the last one."""

    seconds: list[float] = field(default_factory=list)
    outcome: Any = None

    @property
    def median(self) -> float:
        """Median over the repeats."""
        return statistics.median(self.seconds)

    @property
    def fastest(self) -> float:
        """Shortest repeat, the one least disturbed by other processes."""
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

    A call that takes longer than ``patience`` seconds is not repeated: its noise is small relative to its duration.
    """
    timings = {label: Timing() for label in calls}
    for _ in range(repeats):
        for label, call in calls.items():
            if timings[label].seconds and timings[label].seconds[0] > patience:
                continue
            timings[label].run(call)
    return timings


def say(text: str) -> None:
    """Print a line of the printout at once, even into a pipe."""
    _said.append(text)
    print(text, flush=True)


def progress(text: str) -> None:
    """Print progress on standard error, outside the printout."""
    print(text, file=sys.stderr, flush=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Print aligned columns: the first ``left`` columns flush left, the others flush right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    for number, line in enumerate(lines):
        cells = [
            text.ljust(w) if k < left else text.rjust(w) for k, (text, w) in enumerate(zip(line, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())
        if number == 0:
            say("  ".join("-" * width for width in widths))
    say("")


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
    """Return in words whether a target holds."""
    return "holds" if holds else "does not hold"


def print_heading(title: str, packages: Sequence[str]) -> None:
    """Print a title, the machine and the library versions."""
    _said.clear()
    say(title)
    say(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    say(", ".join(map(_versioned, packages)) + "\n")


def _versioned(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def leave(held: Iterable[bool], measured: Iterable[bool] = ()) -> NoReturn:
    """End the script, with status 1 if a target does not hold.

    ``held`` are targets that any run must meet, ``measured`` those on speed or on many runs: a quick run does not judge
    them. A full run writes its printout.
    """
    if not quick():
        PRINTOUTS.mkdir(parents=True, exist_ok=True)
        (PRINTOUTS / f"{Path(sys.argv[0]).stem}.txt").write_text("\n".join(_said).strip() + "\n")
    sys.exit(0 if all(held) and (quick() or all(measured)) else 1)
