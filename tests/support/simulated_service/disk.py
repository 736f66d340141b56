"""The disk of the simulation: files that SQLite writes through it, which are lost or torn at a power cut.

What was written since the last sync of a file is kept beside its durable content. A kill of the process keeps all of
it; a power cut keeps any part of it, and may tear one write in two.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from riskroute.live.log.group_commit import Batch, GroupCommitRows
from riskroute.live.log.interface import LogHead, LogLease, LogRow
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import SqliteStateStore
from simulated_service.scheduler import Crash, Scheduler

_NUMBERS = count()
_Change = tuple[int, bytes | None]  # offset and data; a truncation has no data


class _Content:
    """A file: its durable content, and what was written since."""

    def __init__(self, durable: bytes = b"", *, named: bool = False) -> None:
        self.durable = bytearray(durable)
        self.named = named  # whether its name is durable
        self.changes: list[_Change] = []

    def sync(self) -> None:
        _apply(self.durable, self.changes)
        self.changes = []


def _apply(content: bytearray, changes: Iterable[_Change]) -> None:
    for offset, data in changes:
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        if data is None:
            del content[offset:]
        else:
            content[offset : offset + len(data)] = data


class SimulatedDisk(apsw.VFS):
    """A folder in memory behind SQLite, which fails as the fields say.

    Parameters
    ----------
    folder : Path
        Where the files are.
    timer : Scheduler
        Simulated time, for slow syncs.
    on_point : Callable[[str], None]
        Called before every change; may raise `Crash`.
    """

    def __init__(self, folder: Path, timer: Scheduler, on_point: Callable[[str], None]) -> None:
        self.name = f"simulated-{next(_NUMBERS)}"
        self.folder, self.timer, self.on_point = folder, timer, on_point
        self.files: dict[str, _Content] = {}
        self.deleted: dict[str, _Content] = {}
        self.alive = True
        self.full = False
        self.failing_syncs = 0
        self.sync_seconds = 0.0003
        self.failed: dict[str, str] = {}  # the file of the last failure, by database
        self.writes = self.syncs = self.refused = 0
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 - SQLite's names
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's names
        if not self.alive:
            return
        self.on_point("delete")
        short = os.path.basename(filename)
        super().xDelete(filename, syncdir)
        if (content := self.files.pop(short, None)) is not None and content.named:
            self.deleted[short] = content

    def xSleep(self, microseconds: int) -> int:  # noqa: N802 - SQLite's names
        return microseconds

    def fail(self, file: str, code: int) -> None:
        """Raise an error of SQLite."""
        self.failed[file.removesuffix("-wal")] = file
        self.refused += 1
        raise apsw.exception_for(code)

    def cut_power(self, rng: random.Random) -> int:
        """Lose or tear what was not synced; return the number of changes lost."""
        lost = 0
        for name, content in {**self.deleted, **self.files}.items():
            path = self.folder / name
            if name not in self.files and rng.random() < 0.5:
                continue  # the deletion was durable
            kept = _survivors(content.changes, rng)
            lost += len(content.changes) - len(kept)
            if not content.named and rng.random() < 0.5:
                path.unlink(missing_ok=True)
                self.files.pop(name, None)
                continue
            _apply(content.durable, kept)
            path.write_bytes(content.durable)
            self.files[name] = content
        self._settle()
        return lost

    def keep_everything(self) -> None:
        """Keep everything: the process was killed, and the system goes on."""
        for content in self.files.values():
            _apply(content.durable, content.changes)
        self._settle()

    def _settle(self) -> None:
        for content in self.files.values():
            content.changes, content.named = [], True
        self.deleted = {}
        for path in self.folder.glob("*-shm"):
            path.unlink()


def _survivors(changes: list[_Change], rng: random.Random) -> list[_Change]:
    """Return what a disk may have made of changes that were not synced."""
    manner = rng.randrange(4)
    if manner == 0:
        return []
    if manner == 1:
        kept = changes[: rng.randrange(len(changes) + 1)]
    elif manner == 2:
        kept = [one for one in changes if rng.random() < 0.5]
    else:
        kept = list(changes)
    if kept and rng.random() < 0.5:
        place = rng.randrange(len(kept))
        offset, data = kept[place]
        if data:
            middle = rng.randrange(len(data))
            kept[place] = (offset, data[:middle]) if rng.random() < 0.5 else (offset + middle, data[middle:])
    return kept


class _File(apsw.VFSFile):
    def __init__(self, disk: SimulatedDisk, name: Any, flags: list[int]) -> None:
        whole = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.disk, self.short = disk, os.path.basename(whole)
        if disk.alive and (self.short not in disk.files or not os.path.exists(whole)):
            if os.path.exists(whole):
                disk.files[self.short] = _Content(Path(whole).read_bytes(), named=True)
            else:
                disk.on_point("create")
                disk.files[self.short] = _Content()
                disk.deleted.pop(self.short, None)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's names
        disk = self.disk
        if not disk.alive:
            return
        if disk.full:
            disk.fail(self.short, apsw.SQLITE_FULL)
        disk.writes += 1
        kept = bytes(data)
        disk.on_point("write")
        disk.files[self.short].changes.append((offset, kept))
        super().xWrite(kept, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's names
        disk = self.disk
        if not disk.alive:
            return
        disk.on_point("truncate")
        disk.files[self.short].changes.append((newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's names
        disk = self.disk
        if not disk.alive:
            return
        disk.syncs += 1
        if disk.timer.current is not None:
            disk.timer.sleep(disk.sync_seconds * (0.5 + disk.timer.random.random()))
        if disk.failing_syncs > 0:
            disk.failing_syncs -= 1
            disk.fail(self.short, apsw.SQLITE_IOERR_FSYNC)
        disk.on_point("sync")
        content = disk.files[self.short]
        if not content.named:  # SQLite syncs the folder with the first sync of a file that it made
            disk.deleted = {}
            for other in disk.files.values():
                other.named = True
        content.sync()


class _Connection:
    """A connection of apsw that looks like one of the standard library's, as far as the log needs."""

    def __init__(self, path: Path, disk: SimulatedDisk) -> None:
        self._connection = apsw.Connection(str(path), vfs=disk.name)
        self._name = path.name
        self._disk = disk

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        self._disk.failed.pop(self._name, None)
        try:
            with _as_sqlite_error():
                return self._connection.execute(query, values)
        except sqlite3.Error:
            if query == "COMMIT" and self._disk.failed.get(self._name) == self._name:
                return None  # a commit does not fail with its checkpoint, but apsw hands on the exception all the same
            raise

    def executemany(self, query: str, values: Iterable[Sequence[Any]]) -> Any:
        with _as_sqlite_error():
            return self._connection.executemany(query, values)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        with suppress(apsw.Error, Crash):  # of the last checkpoint, which SQLite keeps to itself
            self._connection.close()


@contextmanager
def _as_sqlite_error() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        translated = sqlite3.OperationalError(str(error))
        translated.sqlite_errorcode = getattr(error, "extendedresult", sqlite3.SQLITE_ERROR)
        raise translated from error


class SimulatedLog(SqliteLog):
    """The log of the service on a simulated disk.

    Parameters
    ----------
    path : Path
        Its file.
    disk : SimulatedDisk
        The disk.
    on_rows : Callable[[list[Row]], None]
        Called with rows as soon as they are durable.
    synchronous : str
        Setting of SQLite in place of the log's own; any other breaks its guarantee, and the simulation must notice.
    """

    synchronous = ""

    def __init__(
        self, path: Path, disk: SimulatedDisk, on_rows: Callable[[list[LogRow]], None], *, create: bool = True
    ) -> None:
        self.disk, self.on_rows = disk, on_rows
        super().__init__(path, "main", create=create)

    def _connect(self) -> Any:
        return _Connection(self.path, self.disk)

    def _opened(self) -> Any:
        connection = super()._opened()
        if self.synchronous:
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        return connection

    def _write(self, lease: LogLease, head: LogHead, batches: Sequence[Batch]) -> GroupCommitRows:
        written = super()._write(lease, head, batches)
        if written.rows:
            self.on_rows(written.rows)
        return written

    def _write_beside(self, record: bytes, *, sync: bool) -> None:
        disk, name = self.disk, self._lock.path.name
        if not disk.alive:
            return
        if disk.full:
            raise OSError("the disk is full")
        content = disk.files.setdefault(name, _Content(self._lock.path.read_bytes(), named=True))
        disk.on_point("write")
        content.changes.append((0, record))
        super()._write_beside(record, sync=sync)
        if sync or len(content.changes) >= 10:  # a system writes back when it likes
            disk.on_point("sync")
            content.sync()

    def abandon(self) -> None:
        """Close everything after the end of the process; the disk does nothing more."""
        self._lock.release()
        for connection in self._connections:
            connection.close()


class SimulatedStateStore(SqliteStateStore):
    """The store of snapshots and archived orders on a simulated disk."""

    def __init__(self, path: Path, disk: SimulatedDisk) -> None:
        self.disk = disk
        self._connections: list[_Connection] = []
        super().__init__(path, "main")

    def _connected(self) -> Any:
        connection = _Connection(self.path, self.disk)
        self._connections.append(connection)
        return connection

    def abandon(self) -> None:
        """Close everything after the end of the process."""
        for connection in self._connections:
            connection.close()
