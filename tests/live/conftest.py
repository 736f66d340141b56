"""Counts the faults that the tests of this room put the router through, and says so at the end."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from once import one_at_a_time, shared_folder
from postgres_server import postgres_programs, postgres_server
from riskroute.core.runtime import extra_is_installed

FAULTS = "faults survived"


@pytest.fixture
def survived(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Note a kind of fault and how many of it were survived."""
    return lambda kind, count: record_property(FAULTS, [kind, count])


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """How to connect to a real server of PostgreSQL, which this worker starts; its files are made once for all."""
    if not extra_is_installed("psycopg"):
        pytest.skip("needs psycopg: pip install 'riskroute[postgres]'")
    if postgres_programs() is None:
        pytest.skip("needs a server of PostgreSQL: Debian's package postgresql")
    folder = shared_folder(tmp_path_factory, "postgres")
    with ExitStack() as stack:
        with one_at_a_time(folder):
            server = stack.enter_context(postgres_server(folder))
        yield server.database


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
        for kind, count in counts.most_common():
            terminalreporter.write_line(f"{count:>7,}  {kind}")
