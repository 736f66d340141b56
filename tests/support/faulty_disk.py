"""A disk that records the changes SQLite makes and fails on demand, and the files a power cut may leave of them."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import SqliteStateStore


class Operation(NamedTuple):
    """Something done to a file: create, write, truncate, sync or delete; or what a client was told: answer."""

    what: str
    file: str
    offset: int = 0
    data: bytes = b""


class DiskImage(NamedTuple):
    """What had been answered before the power was cut, and what the files contain after it."""

    answered: frozenset[str]
    files: dict[str, bytes]


class _Change(NamedTuple):
    """A write to the inode of a file, or its truncation where ``data`` is None."""

    inode: int
    offset: int
    data: bytes | None


class _Entry(NamedTuple):
    """A name that a folder got, or lost where ``inode`` is None."""

    name: str
    inode: int | None


def disk_images(operations: Sequence[Operation], existing: Sequence[str]) -> Iterator[DiskImage]:
    """Every image of the disk that a power cut during some operations may leave, as far as they can be listed.

    ``existing`` are empty files that were there before. Writes since a file was last synced may be there or not, each
    for itself, in whole or torn in two; those images are listed in which all are lost, all are kept, the first few are
    kept, one alone is kept or lost, or one is torn. Names come and go in sequence, and are certain once the folder is
    synced: SQLite does that with the first sync of a file it made.
    """
    disk = _Disk(existing)
    seen: set[tuple[int, frozenset[tuple[str, bytes]]]] = set()
    answered: frozenset[str] = frozenset()
    for operation in operations:
        if operation.what == "answer":
            answered |= {operation.file}
        else:
            disk.do(operation)
        for files in disk.images():
            mark = (len(answered), frozenset(files.items()))
            if mark not in seen:
                seen.add(mark)
                yield DiskImage(answered, files)


class _Disk:
    """Inodes and names: as they are, and as they would be found after a power cut."""

    def __init__(self, existing: Sequence[str]) -> None:
        self.names = {name: inode for inode, name in enumerate(existing)}
        self.durable_names = dict(self.names)
        self.durable = dict.fromkeys(self.names.values(), b"")
        self.changes: list[_Change] = []
        self.entries: list[_Entry] = []

    def do(self, operation: Operation) -> None:
        what, name, offset, data = operation
        if what == "create":
            self.names[name] = inode = len(self.durable)
            self.durable[inode] = b""
            self.entries.append(_Entry(name, inode))
        elif what == "delete":
            del self.names[name]
            self.entries.append(_Entry(name, None))
        elif what == "sync":
            self._sync(self.names[name])
        else:
            self.changes.append(_Change(self.names[name], offset, data if what == "write" else None))

    def _sync(self, inode: int) -> None:
        self.durable = _changed(self.durable, [one for one in self.changes if one.inode == inode])
        self.changes = [one for one in self.changes if one.inode != inode]
        if any(one.inode == inode for one in self.entries):
            self.durable_names = _renamed(self.durable_names, self.entries)
            self.entries = []

    def images(self) -> Iterator[dict[str, bytes]]:
        folders = [_renamed(self.durable_names, self.entries[:k]) for k in range(len(self.entries) + 1)]
        for names, kept in product(folders, _survivors(self.changes)):
            contents = _changed(self.durable, kept)
            yield {name: contents[inode] for name, inode in names.items()}


def _survivors(changes: list[_Change]) -> Iterator[list[_Change]]:
    """What a disk may have made of changes that were not synced."""
    for k in range(len(changes) + 1):
        yield changes[:k]
    for k, one in enumerate(changes):
        yield [one]
        yield changes[:k] + changes[k + 1 :]
        middle = len(one.data or b"") // 2
        if one.data and middle:
            first = one._replace(data=one.data[:middle])
            second = one._replace(data=one.data[middle:], offset=one.offset + middle)
            for torn in (first, second):
                yield [*changes[:k], torn]
                yield [*changes[:k], torn, *changes[k + 1 :]]


def _renamed(names: dict[str, int], entries: Iterable[_Entry]) -> dict[str, int]:
    after = dict(names)
    for name, inode in entries:
        if inode is None:
            after.pop(name, None)
        else:
            after[name] = inode
    return after


def _changed(contents: dict[int, bytes], changes: Iterable[_Change]) -> dict[int, bytes]:
    after = dict(contents)
    for inode, offset, data in changes:
        before = after[inode][:offset].ljust(offset, b"\0")
        after[inode] = before if data is None else before + data + after[inode][offset + len(data) :]
    return after


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
            if query == "COMMIT" and failed is not None and not failed.file.endswith(("-wal", "-shm")):
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

    record_every = 0.0  # every commit records its head: faults come there too

    def __init__(self, path: Path, disk: FaultyDisk, synchronous: str = "", pages: int = 1000, **options: Any) -> None:
        self.disk, self.synchronous, self.pages, self.unsynced = disk, synchronous, pages, -1
        super().__init__(path, "test", **options)

    def _write_beside(self, record: bytes, *, sync: bool) -> None:
        name = self._lock.path.name
        if self.unsynced < 0:
            self.disk.perform(Operation("create", name), lambda: None)
        self.unsynced += 1
        try:
            self.disk.perform(
                Operation("write", name, 0, record), lambda: super(FaultyLog, self)._write_beside(record, sync=sync)
            )
            if sync or self.unsynced >= 4:  # a system writes back when it likes
                self.disk.perform(Operation("sync", name), lambda: None)
                self.unsynced = 0
        except apsw.Error as error:
            raise OSError(str(error)) from error

    def _connect(self) -> Any:
        return _Connection(self.path, self.disk)

    def _opened(self) -> Any:
        connection = super()._opened()
        if self.synchronous:
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {self.pages}")
        return connection


class FaultyStateStore(SqliteStateStore):
    """A store of snapshots and archived orders on a faulty disk."""

    def __init__(self, path: Path, disk: FaultyDisk, pages: int = 1000) -> None:
        self.disk, self.pages = disk, pages
        super().__init__(path, "test")

    def _connected(self) -> Any:
        return _Connection(self.path, self.disk)

    def _connect(self) -> Any:
        connection = super()._connect()
        connection.execute(f"PRAGMA wal_autocheckpoint = {self.pages}")
        return connection
