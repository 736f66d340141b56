"""A lock on a file that the system drops when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class LeaseFile:
    """A lock that one process at a time holds, and that can be taken from one that has stopped.

    Who takes it by force puts a new file in the place of the old one: the old holder keeps the lock of a file that has
    no name any more. Callers make sure that only one at a time tries to take it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self, *, by_force: bool) -> bool:
        """Lock the file, if nobody has, or in any case; whether it is ours now."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locked(file):
            os.close(file)
            if not by_force:
                return False
            beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _locked(file)
            beside.replace(self.path)
        self.release()
        self._file = file
        return True

    def release(self) -> None:
        """Let go of the lock, if it is ours."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
