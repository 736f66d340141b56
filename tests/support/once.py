"""Things that take seconds to make, made once for all workers of a test run."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder of this test run that all its workers know by its name."""
    own = factory.getbasetemp()
    every = own.parent if own.name.startswith("popen-") else own
    folder = every / f"shared_{name}"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[bool]:
    """Wait until no other worker is in this block for a folder; says whether one has been through it before."""
    with (folder / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield (folder / ".made").exists()
        (folder / ".made").touch()
