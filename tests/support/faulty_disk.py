"""A disk that records what SQLite does to it, and fails when told to, for logs that write through it."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from disk_images import Operation
from riskroute.live.log.sqlite import SqliteLog

_NUMBERS = itertools.count()


Fault = Callable[[int, Operation, Callable[[], None]], None]
"""Called in place of an operation, with its number from 1 on and what does it."""


def no_fault(number: int, operation: Operation, perform: Callable[[], None]) -> None:
    """Do what was asked for."""
    perform()


class FaultyDisk(apsw.VFS):
    """The system's files, all of whose changes are recorded, and go through ``fault``."""

    def __init__(self, fault: Fault = no_fault) -> None:
        self.name = f"faulty-{next(_NUMBERS)}"
        self.fault = fault
        self.operations: list[Operation] = []
        self.count = 0
        self.failed: Operation | None = None
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 - SQLite's names
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's names
        self.perform(
            Operation("delete", os.path.basename(filename)), lambda: super(FaultyDisk, self).xDelete(filename, syncdir)
        )

    def perform(self, operation: Operation, call: Callable[[], None]) -> None:
        """Do something to a file, unless it fails."""
        self.count += 1
        try:
            self.fault(self.count, operation, call)
        except apsw.Error:
            self.failed = operation
            raise
        self.operations.append(operation)

    def answered(self, key: str) -> None:
        """Note that a client was told that something is durable."""
        self.operations.append(Operation("answer", key))


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        whole = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.disk, self.short = disk, os.path.basename(whole)
        if os.path.exists(whole):
            super().__init__("", name, flags)
        else:
            disk.perform(Operation("create", self.short), lambda: super(_File, self).__init__("", name, flags))

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's names
        kept = bytes(data)
        self.disk.perform(Operation("write", self.short, offset, kept), lambda: super(_File, self).xWrite(kept, offset))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's names
        self.disk.perform(Operation("truncate", self.short, newsize), lambda: super(_File, self).xTruncate(newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's names
        self.disk.perform(Operation("sync", self.short), lambda: super(_File, self).xSync(flags))


class _Connection:
    """A connection of apsw that looks like one of the standard library's, as far as the log needs."""

    def __init__(self, path: Path, disk: FaultyDisk) -> None:
        self._connection = apsw.Connection(str(path), vfs=disk.name)
        self._connection.set_busy_timeout(5000)
        self._disk = disk

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        try:
            with _as_sqlite_error():
                return self._connection.execute(query, values)
        except sqlite3.Error:
            failed = self._disk.failed
            if query == "COMMIT" and failed is not None and failed.file.endswith(".db"):
                return None  # a commit does not fail with its checkpoint, but apsw hands on the exception all the same
            raise

    def executemany(self, query: str, values: Iterable[Sequence[Any]]) -> Any:
        with _as_sqlite_error():
            return self._connection.executemany(query, values)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        with suppress(apsw.Error):  # of the last checkpoint, which SQLite keeps to itself
            self._connection.close()


@contextmanager
def _as_sqlite_error() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        translated = sqlite3.OperationalError(str(error))
        translated.sqlite_errorcode = getattr(error, "extendedresult", sqlite3.SQLITE_ERROR)
        raise translated from error


class FaultyLog(SqliteLog):
    """A log on a faulty disk; ``synchronous`` in place of its own breaks its promise, and tests must notice."""

    def __init__(self, path: Path, disk: FaultyDisk, synchronous: str = "", pages: int = 1000, **options: Any) -> None:
        self.disk, self.synchronous, self.pages = disk, synchronous, pages
        super().__init__(path, "test", **options)

    def _connect(self) -> Any:
        return _Connection(self.path, self.disk)

    def _opened(self) -> Any:
        connection = super()._opened()
        if self.synchronous:
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {self.pages}")
        return connection
