"""Stores of data derived from a log: snapshots of the state, and the archive of settled orders.

A snapshot is written in one transaction with the orders archived before it, so a store has all orders that any of its
snapshots needs. When a process starts from a snapshot, orders archived after it are removed. Durability does not depend
on the store, since the log suffices to rebuild it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from riskroute.core.errors import DataError, StateError
from riskroute.core.text import one_line_text
from riskroute.live.state.archive import ARCHIVE_DAYS, ArchivedOrder

if TYPE_CHECKING:
    from psycopg import Connection

_KEPT = 2  # snapshots: the newest, and the one before, in case the newest is damaged or ahead of a restored log
_PORTION = 64  # orders written by one statement


class StateSnapshot(msgspec.Struct, frozen=True):
    """The encoded state and learner after row ``seq`` of the log; ``chain`` is the hash of this row.

    ``archived`` is the number of orders archived before the snapshot, ``day`` the day of the state.
    """

    seq: int
    chain: bytes
    archived: int
    day: int
    body: bytes


class StateStore(Protocol):
    """Snapshots and archived orders of one stream, with one writer at a time and any number of readers."""

    def snapshots(self) -> Iterator[StateSnapshot]:
        """Yield the snapshots that are not damaged, newest first."""

    def begin(self, start: StateSnapshot | None) -> int:
        """Remove snapshots and orders newer than ``start`` (None: all); return the new term for later writes."""

    def save(self, term: int, snapshot: StateSnapshot | None, orders: Sequence[ArchivedOrder]) -> None:
        """Write a snapshot and archived orders together, and remove old snapshots.

        Raises `StateError`, and writes nothing, if another process has begun a newer term or the store fails.
        """

    def expire(self, term: int, orders: int) -> bool:
        """Remove up to ``orders`` orders that no snapshot needs; return whether there may be more; raise as `save`."""

    def find(self, id: str) -> ArchivedOrder | None:
        """Return the latest archived version of an order; None if the order is not in the store."""

    def close(self) -> None:
        """Close the store."""


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


def _check_term(term: int, current: int) -> None:
    if term != current:
        raise StateError("another process writes the snapshots of this log")


def _portions(orders: Sequence[ArchivedOrder]) -> Iterator[list[ArchivedOrder]]:
    rest = iter(orders)
    while portion := list(islice(rest, _PORTION)):
        yield portion


_APPLICATION = 0x52525453  # SQLite's application id of a state store: "RRTS"
_VERSION = 1
_SCHEMA = (
    "CREATE TABLE writer (stream TEXT NOT NULL, term INTEGER NOT NULL)",
    "CREATE TABLE snapshot (seq INTEGER PRIMARY KEY, chain BLOB NOT NULL, archived INTEGER NOT NULL,"
    " day INTEGER NOT NULL, body BLOB NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE archive (number INTEGER PRIMARY KEY, id TEXT NOT NULL, day INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE INDEX archive_id ON archive (id)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)
_COLUMNS = "number, id, day, body"


class SqliteStateStore:
    """A store in an SQLite file beside the log, which only its owner can read.

    A file that is damaged, or of another stream or version, is replaced. A power cut may lose the newest transactions,
    but never part of a transaction.
    """

    def __init__(self, path: Path, stream: str) -> None:
        self.path, self.stream = path, stream
        self._reading, self._writing = threading.Lock(), threading.Lock()
        try:
            self._open()
        except DataError:
            for name in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
                name.unlink(missing_ok=True)
            self._open()

    def _open(self) -> None:
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.path.chmod(0o600)
        except OSError as error:
            raise StateError(f"{self.path} cannot be written: {error.strerror}") from error
        self._writer, self._reader = self._connect(), self._connect()
        try:
            with self._transaction() as writer:
                if writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                    for statement in _SCHEMA:
                        writer.execute(statement)
                    writer.execute("INSERT INTO writer VALUES (?, 0)", (self.stream,))
                found = [writer.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
                known = found == [_APPLICATION, _VERSION] and self._term(writer)[0] == self.stream
        except BaseException:
            self.close()
            raise
        if not known:
            self.close()
            raise DataError(f"{self.path} is no state store of stream {self.stream!r} and version {_VERSION}")

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=5.0, isolation_level=None, check_same_thread=False)

    def _connect(self) -> sqlite3.Connection:
        connection = self._connected()
        with self._as_data_error():
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {1 << 24}")
        return connection

    def snapshots(self) -> Iterator[StateSnapshot]:
        for (seq,) in self._query("SELECT seq FROM snapshot ORDER BY seq DESC"):
            query = "SELECT seq, chain, archived, day, body, digest FROM snapshot WHERE seq = ?"
            for *snapshot, digest in self._query(query, seq):
                if _digest(snapshot[-1]) == digest:
                    yield StateSnapshot(*snapshot)

    def begin(self, start: StateSnapshot | None) -> int:
        with self._transaction() as writer:
            if start is None:
                writer.execute("DELETE FROM snapshot")
                writer.execute("DELETE FROM archive")
            else:
                writer.execute("DELETE FROM snapshot WHERE seq > ?", (start.seq,))
                writer.execute("DELETE FROM archive WHERE number > ?", (start.archived,))
            writer.execute("UPDATE writer SET term = term + 1")
            return int(self._term(writer)[1])

    def save(self, term: int, snapshot: StateSnapshot | None, orders: Sequence[ArchivedOrder]) -> None:
        with self._transaction(term) as writer:
            for portion in _portions(orders):
                insert = f"INSERT INTO archive ({_COLUMNS}) VALUES {', '.join(['(?, ?, ?, ?)'] * len(portion))}"
                writer.execute(insert, [value for one in portion for value in msgspec.structs.astuple(one)])
            if snapshot is not None:
                values = (*msgspec.structs.astuple(snapshot), _digest(snapshot.body))
                writer.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?)", values)
                old = "SELECT seq FROM snapshot ORDER BY seq DESC LIMIT -1 OFFSET ?"
                writer.execute(f"DELETE FROM snapshot WHERE seq IN ({old})", (_KEPT,))

    def expire(self, term: int, orders: int) -> bool:
        with self._transaction(term) as writer:
            oldest = writer.execute("SELECT min(day) FROM snapshot").fetchone()[0]
            rows = writer.execute("SELECT number, day FROM archive ORDER BY number LIMIT ?", (orders,)).fetchall()
            gone = [(number,) for number, day in rows if oldest is not None and day <= oldest - ARCHIVE_DAYS]
            writer.executemany("DELETE FROM archive WHERE number = ?", gone)
            return len(gone) == orders

    def find(self, id: str) -> ArchivedOrder | None:
        query = f"SELECT {_COLUMNS} FROM archive WHERE id = ? ORDER BY number DESC LIMIT 1"
        return next((ArchivedOrder(*row) for row in self._query(query, id)), None)

    def close(self) -> None:
        with self._writing, self._reading:
            self._writer.close()
            self._reader.close()

    def _term(self, connection: sqlite3.Connection) -> tuple[str, int]:
        stream, term = connection.execute("SELECT stream, term FROM writer").fetchone()
        return stream, term

    def _query(self, query: str, *values: int | str) -> list[tuple[Any, ...]]:
        with self._reading, self._as_data_error():
            return self._reader.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self, term: int | None = None) -> Iterator[sqlite3.Connection]:
        """Run a transaction and commit it, or roll it back after an error; raise `StateError` for an old ``term``."""
        with self._writing, self._as_data_error():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                if term is not None:
                    _check_term(term, self._term(self._writer)[1])
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def _as_data_error(self) -> Iterator[None]:
        """Raise `DataError` if the file is damaged, and `StateError` for other errors of SQLite."""
        try:
            yield
        except sqlite3.Error as error:
            code = (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR) & 0xFF
            kind = DataError if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) else StateError
            raise kind(f"{self.path} cannot be used: {one_line_text(error)}") from error


_POSTGRES_SCHEMA = """
CREATE TABLE IF NOT EXISTS riskroute_state_writer (stream text PRIMARY KEY, term bigint NOT NULL);
CREATE TABLE IF NOT EXISTS riskroute_state (
    stream text NOT NULL, seq bigint NOT NULL, chain bytea NOT NULL, archived bigint NOT NULL, day bigint NOT NULL,
    body bytea NOT NULL, digest bytea NOT NULL, PRIMARY KEY (stream, seq));
CREATE TABLE IF NOT EXISTS riskroute_archive (
    stream text NOT NULL, number bigint NOT NULL, id text NOT NULL, day bigint NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (stream, number));
CREATE INDEX IF NOT EXISTS riskroute_archive_id ON riskroute_archive (stream, id)
"""


class PostgresStateStore:
    """A store in the database of a `PostgresLog`, with its own connections."""

    def __init__(self, database: str, stream: str) -> None:
        self._database, self.stream = database, stream
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._writer: Connection[Any] | None = None
        self._reader: Connection[Any] | None = None
        with self._transaction() as writer:
            writer.execute("SELECT pg_advisory_xact_lock(0)")  # concurrent creation fails
            writer.execute(_POSTGRES_SCHEMA)
            writer.execute("INSERT INTO riskroute_state_writer VALUES (%s, 0) ON CONFLICT DO NOTHING", (self.stream,))

    def _live(self, connection: Connection[Any] | None) -> Connection[Any]:
        import psycopg

        if connection is None or connection.closed:
            connection = psycopg.connect(self._database, autocommit=True, connect_timeout=10)
            connection.execute("SET synchronous_commit = off")
        return connection

    def snapshots(self) -> Iterator[StateSnapshot]:
        seqs = self._query("SELECT seq FROM riskroute_state WHERE stream = %s ORDER BY seq DESC", self.stream)
        query = "SELECT seq, chain, archived, day, body, digest FROM riskroute_state WHERE stream = %s AND seq = %s"
        for (seq,) in seqs:
            for *snapshot, digest in self._query(query, self.stream, seq):
                if _digest(snapshot[-1]) == digest:
                    yield StateSnapshot(*snapshot)

    def begin(self, start: StateSnapshot | None) -> int:
        seq, number = (-1, 0) if start is None else (start.seq, start.archived)
        with self._transaction() as writer:
            writer.execute("DELETE FROM riskroute_state WHERE stream = %s AND seq > %s", (self.stream, seq))
            writer.execute("DELETE FROM riskroute_archive WHERE stream = %s AND number > %s", (self.stream, number))
            update = "UPDATE riskroute_state_writer SET term = term + 1 WHERE stream = %s RETURNING term"
            found = writer.execute(update, (self.stream,)).fetchone()
            assert found is not None
            return int(found[0])

    def save(self, term: int, snapshot: StateSnapshot | None, orders: Sequence[ArchivedOrder]) -> None:
        insert = f"""INSERT INTO riskroute_archive (stream, {_COLUMNS}) SELECT %s::text, row.* FROM
                     unnest(%b::bigint[], %b::text[], %b::bigint[], %b::bytea[]) AS row"""
        with self._transaction(term) as writer:
            for portion in _portions(orders):
                columns = [[getattr(one, name) for one in portion] for name in _COLUMNS.split(", ")]
                writer.execute(insert, (self.stream, *columns))
            if snapshot is not None:
                values = (self.stream, *msgspec.structs.astuple(snapshot), _digest(snapshot.body))
                writer.execute(
                    """INSERT INTO riskroute_state VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (stream, seq)
                       DO UPDATE SET body = excluded.body, digest = excluded.digest, archived = excluded.archived""",
                    values,
                )
                writer.execute(
                    """DELETE FROM riskroute_state WHERE stream = %s AND seq IN (
                       SELECT seq FROM riskroute_state WHERE stream = %s ORDER BY seq DESC OFFSET %s)""",
                    (self.stream, self.stream, _KEPT),
                )

    def expire(self, term: int, orders: int) -> bool:
        with self._transaction(term) as writer:
            gone = writer.execute(
                """WITH oldest AS (SELECT min(day) - %s AS day FROM riskroute_state WHERE stream = %s),
                        first AS (SELECT number, day FROM riskroute_archive WHERE stream = %s ORDER BY number LIMIT %s)
                   DELETE FROM riskroute_archive WHERE stream = %s AND number IN (
                       SELECT number FROM first WHERE first.day <= (SELECT day FROM oldest))""",
                (ARCHIVE_DAYS, self.stream, self.stream, orders, self.stream),
            )
            return gone.rowcount == orders

    def find(self, id: str) -> ArchivedOrder | None:
        query = f"""SELECT {_COLUMNS} FROM riskroute_archive WHERE stream = %s AND id = %s
                    ORDER BY number DESC LIMIT 1"""
        return next((ArchivedOrder(*row) for row in self._query(query, self.stream, id)), None)

    def close(self) -> None:
        with self._writing, self._reading:
            for connection in (self._writer, self._reader):
                if connection is not None:
                    connection.close()

    def _query(self, query: str, *values: int | str) -> list[tuple[Any, ...]]:
        import psycopg

        with self._reading, self._as_state_error():
            for _ in range(2):
                self._reader = self._live(self._reader)
                try:
                    return self._reader.execute(query, values, binary=True).fetchall()
                except psycopg.OperationalError:
                    if not self._reader.closed:
                        raise
            return self._live(self._reader).execute(query, values, binary=True).fetchall()

    @contextmanager
    def _transaction(self, term: int | None = None) -> Iterator[Connection[Any]]:
        """Run a transaction; raise `StateError` if ``term`` is no longer the current term."""
        with self._writing, self._as_state_error():
            self._writer = self._live(self._writer)
            with self._writer.transaction():
                if term is not None:
                    query = "SELECT term FROM riskroute_state_writer WHERE stream = %s FOR UPDATE"
                    found = self._writer.execute(query, (self.stream,)).fetchone()
                    _check_term(term, 0 if found is None else found[0])
                yield self._writer

    @contextmanager
    def _as_state_error(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise StateError(f"the database cannot be used: {one_line_text(error)}") from error
