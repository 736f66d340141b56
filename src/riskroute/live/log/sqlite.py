"""The event log in an SQLite file, for a router on one machine."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any

import msgspec

from riskroute.core.errors import DataError, InputError, KnownKeyError, WriteError
from riskroute.core.text import one_line_text
from riskroute.core.validation import valid_path
from riskroute.live.log.group_commit import GroupCommitLog, Key, fenced_commit, held_commit_lease
from riskroute.live.log.interface import (
    FORMAT,
    LogHead,
    LogHeader,
    LogLease,
    LogRow,
    check_log_format,
    checked_log_text,
    lease_end,
    log_head_record,
    log_header_of,
    log_header_row,
)


class _LeaseFile:
    """A file lock, which the system releases when the process ends, and which can be taken from a stopped process.

    Taking the lock by force replaces the file; the old holder then locks a file that no longer has a name. Callers
    ensure that only one process tries at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self, *, by_force: bool) -> bool:
        """Lock the file, ``by_force`` even if another process holds it; return whether this process holds the lock."""
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

    def write(self, record: bytes, *, sync: bool) -> None:
        """Replace the content of the file, if this process holds the lock."""
        if self._file is not None:
            os.pwrite(self._file, record, 0)
            if sync:
                os.fsync(self._file)

    def release(self) -> None:
        """Release the lock, if this process holds it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_APPLICATION = 0x52525447  # SQLite's application id of a log: "RRTG"
_RECORD = "ALTER TABLE lease ADD COLUMN record TEXT NOT NULL DEFAULT ''"  # missing in older logs
_RECORD_BYTES = 160  # length of a record in the lease file, padded; the longest has 134
_SCHEMA = (
    "CREATE TABLE log (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,"
    " body BLOB NOT NULL, chain BLOB NOT NULL)",
    "CREATE UNIQUE INDEX log_key ON log (kind, key) WHERE key <> ''",
    "CREATE TABLE lease (one INTEGER PRIMARY KEY CHECK (one = 1), owner TEXT NOT NULL, term INTEGER NOT NULL,"
    " until INTEGER NOT NULL)",
    "INSERT INTO lease VALUES (1, '', 0, 0)",
    _RECORD,
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
_COLUMNS = "seq, at, kind, key, body, chain"
_LAST = "SELECT seq, chain FROM log ORDER BY seq DESC LIMIT 1"
_INSERTS = {  # by number of rows; few statements, since each one releases the GIL to other threads
    size: f"INSERT INTO log ({_COLUMNS}) VALUES {', '.join(['(?, ?, ?, ?, ?, ?)'] * size)}" for size in (64, 16, 4, 1)
}


@cache
def _found_by(kinds: int) -> str:
    marks = ", ".join("?" * kinds)
    return f"SELECT {_COLUMNS} FROM log WHERE kind IN ({marks}) AND key = ? AND key <> ''"


class SqliteLog(GroupCommitLog):
    """A log in an SQLite file that only its owner can read.

    Durable appends survive a crash of the process or system, and a power cut: the write-ahead log is synced at every
    commit. The lease is a row in the file, checked in every commit, and a lock on a file beside it, which the system
    releases when the process ends. Forked processes inherit this lock, so spawn workers instead. The head is recorded
    in both places: in the row with every 1,000th row of the log, in the same transaction, and in the file beside it
    after a commit, at most once a second.

    Without ``create``, a log is opened for reading if this process may not write to its file or folder. The other
    options are those of `GroupCommitLog`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],  # beside it: SQLite's ``-wal`` and ``-shm`` while it is open, and ``-lease``
        stream: str | None = None,  # a file of another stream is refused; default: "main" for a new file
        *,
        create: bool = True,  # create a missing file
        slow_commit: float = 1.0,
        on_slow_commit: Callable[[float], None] | None = None,
        key: bytes = b"",
    ) -> None:
        super().__init__(slow_commit=slow_commit, on_slow_commit=on_slow_commit, key=key)
        self.path = valid_path("path", path)
        if stream is not None:
            checked_log_text("stream", stream, 64)
        if not create and not self.path.is_file():
            raise InputError(f"path must be the file of a log, was {str(self.path)!r}, which does not exist")
        self._read_only = not create and not all(os.access(place, os.W_OK) for place in (self.path, self.path.parent))
        if not self._read_only:
            self._make_file()
        self._lock = _LeaseFile(self.path.with_name(f"{self.path.name}-lease"))
        self._reading, self._finding = threading.Lock(), threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        try:
            with self._as_data_error():
                self._writer = self._opened()
                if create:
                    self._set_up(stream or "main")
                self._reader, self._finder = self._opened(), self._opened()
                self.header: LogHeader = self._checked(stream)
        except BaseException:
            self._let_go()
            raise

    def _make_file(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.path.chmod(0o600)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(folder)  # otherwise a power cut may lose the name of the new file
            os.close(folder)
        except OSError as error:
            raise InputError(f"path must be a writable file, was {str(self.path)!r}: {error.strerror}") from error

    def _connect(self) -> sqlite3.Connection:
        if not self._read_only:
            return self._connected(self.path)
        where = self.path.absolute().as_uri()
        connection = self._connected(f"{where}?mode=ro", uri=True)
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
        else:
            return connection
        # SQLite needs its two other files, or must be able to create them. If the write-ahead log is empty or missing,
        # all rows are in the file, which can be read alone.
        wal = self.path.with_name(f"{self.path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            raise InputError(
                f"path must be in a writable folder, since {wal.name} has rows too, was {str(self.path)!r}: "
                "copy both files to such a folder"
            )
        return self._connected(f"{where}?immutable=1", uri=True)

    def _connected(self, where: Path | str, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(where, timeout=5.0, isolation_level=None, check_same_thread=False, uri=uri)

    def _opened(self) -> sqlite3.Connection:
        connection = self._connect()
        self._connections.append(connection)
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._must_be_known(connection)
        if self._read_only:
            return connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {1 << 24}")  # a long read lets the write-ahead log grow
        connection.execute("PRAGMA fullfsync = ON")  # on macOS, where fsync alone does not reach the disk
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        return connection

    def _must_be_known(self, connection: sqlite3.Connection) -> None:
        """Raise `DataError` for a file that is no log, or a log of another format, before anything is changed."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise DataError(f"{self.path} is no riskroute log")
        check_log_format(connection.execute("PRAGMA user_version").fetchone()[0], str(self.path))

    def _set_up(self, stream: str) -> None:
        with self._transaction():
            if self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _SCHEMA:
                    self._writer.execute(statement)
                self._writer.execute(_INSERTS[1], msgspec.structs.astuple(log_header_row(stream)))

    def _checked(self, stream: str | None) -> LogHeader:
        self._must_be_known(self._reader)
        (first,) = self.read(-1, 1)
        header = log_header_of(first, str(self.path))
        if stream is not None and stream != header.stream:
            raise DataError(f"{self.path} is the log of stream {header.stream!r}, not of {stream!r}")
        self._check_last_rows()
        return header

    def head(self) -> LogHead:
        self._must_be_open()
        return LogHead(*self._query(_LAST)[0])

    def _page(self, begin: int, most: int) -> list[LogRow]:
        query = f"SELECT {_COLUMNS} FROM log WHERE seq >= ? ORDER BY seq LIMIT ?"
        return list(starmap(LogRow, self._query(query, begin, most)))

    def find(self, kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]:
        with self._finding, self._as_data_error():  # on its own connection: the engine must not wait for readers
            self._must_be_open()
            query, rows = _found_by(len(kinds)), []
            for key in keys:
                rows += self._finder.execute(query, (*kinds, key)).fetchall()
        return {row.key: row for row in starmap(LogRow, rows)}

    def _take_lease(self, owner: str, seconds: float) -> tuple[LogLease, LogHead]:
        taken = False
        try:
            with self._transaction():
                _, old_owner, term, until, *record = self._writer.execute("SELECT * FROM lease").fetchone()
                now = time.time_ns()
                if self._lease is None or self._lease.term != term:
                    taken = self._lock.take(by_force=now >= until)
                    if not taken:
                        raise held_commit_lease(old_owner)
                    term += 1
                lease = LogLease(owner, term, lease_end(now, seconds))
                head = LogHead(*self._writer.execute(_LAST).fetchone())
                if not record:
                    self._writer.execute(_RECORD)
                values = (owner, term, lease.until, log_head_record(head, self._key))
                self._writer.execute("UPDATE lease SET owner = ?, term = ?, until = ?, record = ?", values)
        except WriteError:
            if taken:
                self._lock.release()
            raise
        self._record(values[-1], sync=True)
        return lease, head

    def _records(self) -> list[str]:
        try:
            beside = self._lock.path.read_text("ascii", "replace")
        except OSError:
            beside = ""
        return [*self._query("SELECT * FROM lease")[0][4:], beside]

    def _record(self, record: str, *, sync: bool = False) -> None:
        with suppress(OSError):
            self._write_beside(record.ljust(_RECORD_BYTES).encode(), sync=sync)

    def _write_beside(self, record: bytes, *, sync: bool) -> None:
        self._lock.write(record, sync=sync)

    def _known(self, keys: Sequence[Key]) -> dict[Key, tuple[int, bytes]]:
        query = "SELECT seq, body FROM log WHERE kind = ? AND key = ? AND key <> ''"
        with self._transaction():
            found = {key: self._writer.execute(query, key).fetchone() for key in keys}
        return {key: old for key, old in found.items() if old is not None}

    def _insert(self, lease: LogLease, rows: Sequence[LogRow]) -> None:
        with self._transaction():
            owner, term = self._writer.execute("SELECT owner, term FROM lease").fetchone()
            if term != lease.term:
                raise fenced_commit(owner)
            begin = 0
            for size, statement in _INSERTS.items():
                while len(rows) - begin >= size:
                    values: list[int | str | bytes] = []
                    for row in rows[begin : begin + size]:
                        values += msgspec.structs.astuple(row)
                    self._writer.execute(statement, values)
                    begin += size
            if rows and rows[-1].seq % 1000 < len(rows):
                record = log_head_record(LogHead(rows[-1].seq, rows[-1].chain), self._key)
                self._writer.execute("UPDATE lease SET record = ?", (record,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run a transaction and commit it, or roll it back after an error; raise `WriteError` if SQLite fails."""
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            yield
            self._writer.execute("COMMIT")
        except BaseException as error:
            rolled_back = self._rolled_back()
            if not isinstance(error, sqlite3.Error):
                raise
            code = getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR
            if code == sqlite3.SQLITE_CONSTRAINT_UNIQUE and rolled_back:
                raise KnownKeyError from None
            code &= 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise DataError(f"{self.path} cannot be read: {one_line_text(error)}") from error
            definite = rolled_back and code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
            cause = "the disk is full" if code == sqlite3.SQLITE_FULL else "the disk failed"
            said = f"{self.path} cannot be written: {one_line_text(error)}"
            raise WriteError(said, definite=definite, cause=cause) from error

    def _rolled_back(self) -> bool:
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error:
            return False
        return True

    def _query(self, query: str, *values: int) -> list[tuple[Any, ...]]:
        with self._reading, self._as_data_error():
            self._must_be_open()
            return self._reader.execute(query, values).fetchall()

    @contextmanager
    def _as_data_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(f"{self.path} cannot be read: {one_line_text(error)}") from error

    def _let_go(self) -> None:
        if self._lease is not None and self._head is not None and self._broken is None:
            record = log_head_record(self._head, self._key)
            with suppress(WriteError, DataError, sqlite3.Error):  # the system drops the lock anyway
                with self._transaction():
                    update = "UPDATE lease SET until = 0, record = ? WHERE term = ?"
                    self._writer.execute(update, (record, self._lease.term))
                self._record(record, sync=True)
                self._writer.execute("PRAGMA busy_timeout = 0")  # a long read of another process must not delay this
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._lock.release()
        with self._reading, self._finding:
            for connection in self._connections:
                connection.close()
