"""The log in one SQLite file: the store of a router that runs on one machine."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import starmap
from pathlib import Path
from typing import Any

from riskroute.core.errors import DataError, InputError, one_line_error
from riskroute.core.validation import path_of
from riskroute.live.log.group_commit import (
    SLOW_COMMIT,
    SNAPSHOTS_KEPT,
    Batch,
    GroupCommitLog,
    NewRows,
    fenced,
    held,
    new_rows,
)
from riskroute.live.log.interface import (
    FORMAT,
    Head,
    Header,
    Lease,
    Row,
    Snapshot,
    WriteError,
    checked_text,
    header_of,
    header_row,
    lease_end,
)


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


APPLICATION = 0x52525447
"""What a file of SQLite says it belongs to, if it is a log: "RRTG"."""

_SCHEMA = (
    "CREATE TABLE log (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,"
    " body BLOB NOT NULL, chain BLOB NOT NULL)",
    "CREATE UNIQUE INDEX log_key ON log (kind, key) WHERE key <> ''",
    "CREATE TABLE snapshot (seq INTEGER PRIMARY KEY, chain BLOB NOT NULL, body BLOB NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE lease (one INTEGER PRIMARY KEY CHECK (one = 1), owner TEXT NOT NULL, term INTEGER NOT NULL,"
    " until INTEGER NOT NULL)",
    "INSERT INTO lease VALUES (1, '', 0, 0)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
_COLUMNS = "seq, at, kind, key, body, chain"
_LAST = "SELECT seq, chain FROM log ORDER BY seq DESC LIMIT 1"
_INSERT = f"INSERT INTO log ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_INSERTS = {
    size: f"INSERT INTO log ({_COLUMNS}) VALUES {', '.join(['(?, ?, ?, ?, ?, ?)'] * size)}" for size in (64, 16, 4, 1)
}
"""Statements for so many rows at a time: each lets other threads run, so there should be few."""


class _KnownKeyError(Exception):
    """The log has a row with the key of one that was to be written."""


class SqliteLog(GroupCommitLog):
    """A log in a file of SQLite, which only its owner can read.

    What was answered survives the end of the process, of the system and of the power: the write-ahead log is synced at
    every commit. The lease is a row in the file, checked in every commit, and a lock on a file beside it, which the
    system drops when the process ends. A child that was forked holds that lock too: start workers by spawning them.

    Parameters
    ----------
    path : path
        The file. Beside it, SQLite keeps ``-wal`` and ``-shm`` while it is open, and we keep ``-lease``.
    stream : str, optional
        Name of the stream, "main" for a new file if none is given. A file of another stream is refused.
    create : bool
        Whether to make the file if there is none.
    slow_commit, on_slow_commit
        See `GroupCommitLog`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        stream: str | None = None,
        *,
        create: bool = True,
        slow_commit: float = SLOW_COMMIT,
        on_slow_commit: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(slow_commit=slow_commit, on_slow_commit=on_slow_commit)
        self.path = path_of("path", path)
        if stream is not None:
            checked_text("stream", stream, 64)
        self._make_file(create)
        self._lock = LeaseFile(self.path.with_name(f"{self.path.name}-lease"))
        self._reading = threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        try:
            with self._as_data_error():
                self._writer = self._opened()
                if create:
                    self._set_up(stream or "main")
                self._reader = self._opened()
                self.header: Header = self._checked(stream)
        except BaseException:
            self._let_go()
            raise

    def _make_file(self, create: bool) -> None:
        if not create and not self.path.is_file():
            raise InputError(f"path must be the file of a log, was {str(self.path)!r}, where there is none")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.path.chmod(0o600)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(folder)  # or a power cut may take the name of the new file
            os.close(folder)
        except OSError as error:
            raise InputError(f"path must be a file we may write, was {str(self.path)!r}: {error.strerror}") from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=5.0, isolation_level=None, check_same_thread=False)

    def _opened(self) -> sqlite3.Connection:
        connection = self._connect()
        self._connections.append(connection)
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._must_be_known(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # on macOS, where fsync alone does not reach the disk
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        return connection

    def _must_be_known(self, connection: sqlite3.Connection) -> None:
        """Refuse what is no log, and a log of a newer format, before anything in it is changed."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise DataError(f"{self.path} is no log of riskroute")
        form = connection.execute("PRAGMA user_version").fetchone()[0]
        if form > FORMAT:
            raise DataError(f"{self.path} has format {form}, newer than {FORMAT}: it needs a newer riskroute")

    def _set_up(self, stream: str) -> None:
        """Make the tables and the header, if the file is new."""
        with self._transaction():
            if self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _SCHEMA:
                    self._writer.execute(statement)
                self._writer.execute(_INSERT, _as_tuple(header_row(stream)))

    def _checked(self, stream: str | None) -> Header:
        """The header, after a look at whether this is a log, of this stream, whose last row fits."""
        self._must_be_known(self._reader)
        (first,) = self.read(-1, 1)
        header = header_of(first, str(self.path))
        if stream is not None and stream != header.stream:
            raise DataError(f"{self.path} is the log of stream {header.stream!r}, not of {stream!r}")
        for _ in self.read(max(self.head().seq - 2, -1)):
            pass  # reading checks
        return header

    def head(self) -> Head:
        self._must_be_open()
        return Head(*self._query(_LAST)[0])

    def _page(self, begin: int, most: int) -> list[Row]:
        query = f"SELECT {_COLUMNS} FROM log WHERE seq >= ? ORDER BY seq LIMIT ?"
        return list(starmap(Row, self._query(query, begin, most)))

    def _snapshots(self) -> Iterator[tuple[Snapshot, bytes]]:
        for (seq,) in self._query("SELECT seq FROM snapshot s JOIN log USING (seq, chain) ORDER BY seq DESC"):
            for *snapshot, digest in self._query("SELECT seq, chain, body, digest FROM snapshot WHERE seq = ?", seq):
                yield Snapshot(*snapshot), digest

    def _save(self, save: Snapshot, digest: bytes) -> bool:
        with self._transaction():
            fitting = self._writer.execute("SELECT 1 FROM log WHERE seq = ? AND chain = ?", (save.seq, save.chain))
            if fitting.fetchone() is None:
                return False
            values = (save.seq, save.chain, save.body, digest)
            self._writer.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?)", values)
            self._writer.execute(
                "DELETE FROM snapshot WHERE seq NOT IN (SELECT seq FROM snapshot ORDER BY seq DESC LIMIT ?)",
                (SNAPSHOTS_KEPT,),
            )
        return True

    def _take_lease(self, owner: str, seconds: float) -> tuple[Lease, Head]:
        taken = False
        try:
            with self._transaction():
                old_owner, term, until = self._writer.execute("SELECT owner, term, until FROM lease").fetchone()
                now = time.time_ns()
                if self._lease is None or self._lease.term != term:
                    taken = self._lock.take(by_force=now >= until)
                    if not taken:
                        raise held(old_owner)
                    term += 1
                lease = Lease(owner, term, lease_end(now, seconds))
                self._writer.execute("UPDATE lease SET owner = ?, term = ?, until = ?", (owner, term, lease.until))
                last = self._writer.execute(_LAST).fetchone()
        except WriteError:
            if taken:
                self._lock.release()
            raise
        return lease, Head(*last)

    def _write(self, lease: Lease, head: Head, batches: Sequence[Batch]) -> NewRows:
        """Insert as if no key were known, since most are new; only if one is known, look them all up."""
        written = new_rows(head, batches, {})
        if all(isinstance(outcome, list) for outcome in written.outcomes):
            with suppress(_KnownKeyError), self._fenced_transaction(lease):
                self._insert(written.rows)
                return written
        with self._fenced_transaction(lease):
            known = {}
            for key in {(entry.kind, entry.key) for batch in batches for entry in batch if entry.key}:
                query = "SELECT seq, body FROM log WHERE kind = ? AND key = ? AND key <> ''"
                old = self._writer.execute(query, key).fetchone()
                if old is not None:
                    known[key] = old
            written = new_rows(head, batches, known)
            self._writer.executemany(_INSERT, map(_as_tuple, written.rows))
        return written

    def _insert(self, rows: Sequence[Row]) -> None:
        """Insert rows; `_KnownKeyError` if the log has the key of one."""
        begin = 0
        for size, statement in _INSERTS.items():
            while len(rows) - begin >= size:
                values: list[int | str | bytes] = []
                for row in rows[begin : begin + size]:
                    values += (row.seq, row.at, row.kind, row.key, row.body, row.chain)
                try:
                    self._writer.execute(statement, values)
                except sqlite3.Error as error:
                    if (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF == sqlite3.SQLITE_CONSTRAINT:
                        raise _KnownKeyError from None
                    raise
                begin += size

    @contextmanager
    def _fenced_transaction(self, lease: Lease) -> Iterator[None]:
        """A transaction of whoever holds the lease; `FencedError` if that is somebody else."""
        with self._transaction():
            owner, term = self._writer.execute("SELECT owner, term FROM lease").fetchone()
            if term != lease.term:
                raise fenced(owner)
            yield

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One transaction of the writer: committed at the end, or undone; `WriteError` if SQLite fails."""
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            yield
            self._writer.execute("COMMIT")
        except BaseException as error:
            undone = self._undone()
            if not isinstance(error, sqlite3.Error):
                raise
            code = getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR
            if code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise DataError(f"{self.path} cannot be read: {one_line_error(error)}") from error
            definite = undone and code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
            cause = "the disk is full" if code & 0xFF == sqlite3.SQLITE_FULL else "the disk failed"
            said = f"{self.path} cannot be written: {one_line_error(error)}"
            raise WriteError(said, definite=definite, cause=cause) from error

    def _undone(self) -> bool:
        """Undo a transaction; whether none is open any more."""
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error:
            return False
        return True

    def _query(self, query: str, *values: int) -> list[tuple[Any, ...]]:
        """All rows of a query, by the connection for readers."""
        with self._reading, self._as_data_error():
            self._must_be_open()
            return self._reader.execute(query, values).fetchall()

    @contextmanager
    def _as_data_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(f"{self.path} cannot be read: {one_line_error(error)}") from error

    def _let_go(self) -> None:
        if self._lease is not None and self._broken is None:
            try:
                with self._transaction():
                    self._writer.execute("UPDATE lease SET until = 0 WHERE term = ?", (self._lease.term,))
            except (WriteError, DataError):
                pass  # the lock says that we are gone
        self._lock.release()
        with self._reading:
            for connection in self._connections:
                connection.close()


def _as_tuple(row: Row) -> tuple[int, int, str, str, bytes, bytes]:
    return row.seq, row.at, row.kind, row.key, row.body, row.chain
