"""Counts the faults that the tests of this room put the router through, and says so at the end."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FAULTS = "faults survived"


@pytest.fixture
def survived(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Note a kind of fault and how many of it were survived."""
    return lambda kind, count: record_property(FAULTS, [kind, count])


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A new folder, in memory where the system has one there: syncs are as cheap as they are many."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many faults of each kind were survived."""
    counts: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == FAULTS and report.when == "call":
                counts[value[0]] += value[1]
    if counts:
        terminalreporter.section(f"{FAULTS}: {sum(counts.values()):,}")
        for kind, count in counts.items():
            terminalreporter.write_line(f"{count:>7,}  {kind}")
