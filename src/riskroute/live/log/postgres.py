"""The event log in PostgreSQL, for several routers on one database, or a standby that takes over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from riskroute.core.errors import DataError, InputError, KnownKeyError, StateError, WriteError
from riskroute.core.runtime import require_extra
from riskroute.core.text import one_line_text
from riskroute.live.log.group_commit import GroupCommitLog, Key, fenced_commit, held_commit_lease
from riskroute.live.log.interface import (
    PAGE,
    LogHead,
    LogHeader,
    LogLease,
    LogRow,
    checked_log_text,
    lease_end,
    log_head_record,
    log_header_of,
    log_header_row,
)

if TYPE_CHECKING:
    from psycopg import Connection

_SCHEMA = """
CREATE TABLE IF NOT EXISTS riskroute_log (
    stream text NOT NULL, seq bigint NOT NULL, at bigint NOT NULL, kind text NOT NULL, key text NOT NULL,
    body bytea NOT NULL, chain bytea NOT NULL, CONSTRAINT riskroute_log_seq PRIMARY KEY (stream, seq));
CREATE UNIQUE INDEX IF NOT EXISTS riskroute_log_key ON riskroute_log (stream, kind, key) WHERE key <> '';
CREATE TABLE IF NOT EXISTS riskroute_lease (
    stream text PRIMARY KEY, owner text NOT NULL, term bigint NOT NULL, until bigint NOT NULL);
ALTER TABLE riskroute_lease ADD COLUMN IF NOT EXISTS record text NOT NULL DEFAULT ''
"""

_COLUMNS = "seq, at, kind, key, body, chain"
_LAST = "SELECT seq, chain FROM riskroute_log WHERE stream = %s ORDER BY seq DESC LIMIT 1"


class _LeaseRow(NamedTuple):
    """The lease in the database, the database's time (ns since 1970), and the session that holds the lock or None."""

    owner: str
    term: int
    until: int
    now: int
    holder: int | None


class PostgresLog(GroupCommitLog):
    """A log in a PostgreSQL database; a database can hold several logs, one per stream.

    The lease is a row and an advisory lock of the writing session, which the server releases when the session ends. A
    process that takes over an expired lease terminates the old session, so the old process cannot write any more. Rows
    are inserted only under the current term (the fencing token), and the primary key would refuse the rows of a
    second writer. The row of the lease also has the recorded head, updated after a commit, at most once a second.

    ``database`` is a libpq connection string such as "host=db1 dbname=desk" or "postgresql://db1/desk". Connect to the
    server itself: a connection pooler would share the session, and with it the lock. The other options are those of
    `GroupCommitLog`.
    """

    patience = 5.0  # seconds to wait for a terminated session to end

    def __init__(
        self,
        database: str,
        stream: str = "main",  # name of the log in this database
        *,
        create: bool = True,  # create missing tables and a missing log
        slow_commit: float = 1.0,
        on_slow_commit: Callable[[float], None] | None = None,
        key: bytes = b"",
    ) -> None:
        require_extra("logs in PostgreSQL", "postgres", "psycopg")
        super().__init__(slow_commit=slow_commit, on_slow_commit=on_slow_commit, key=key)
        self.stream = checked_log_text("stream", stream, 64)
        self._database = database
        self._lock = int.from_bytes(blake2b(f"riskroute {stream}".encode(), digest_size=8).digest()) >> 1
        self._locked = False
        self._reading = threading.Lock()
        self._writer: Connection[Any] | None = None
        self._reader = self._connected()
        try:
            if create:
                self._set_up()
            self.header: LogHeader = self._checked()
        except BaseException:
            self._reader.close()
            raise

    def _connected(self) -> Connection[Any]:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        try:
            settings: dict[str, Any] = {"connect_timeout": 10, "application_name": "riskroute"}
            connection = psycopg.connect(**settings | conninfo_to_dict(self._database), autocommit=True)
            connection.execute("SET synchronous_commit = on")
        except psycopg.ProgrammingError as error:
            raise InputError(f"database must be a libpq connection string: {one_line_text(error)}") from None
        except psycopg.Error as error:
            raise WriteError(
                f"the database cannot be reached: {one_line_text(error)}",
                definite=True,
                cause="the database cannot be reached",
            ) from None
        return connection

    def _set_up(self) -> None:
        with self._failing_as_write_error(), self._reader.transaction():
            there = self._reader.execute(
                """SELECT EXISTS (SELECT FROM pg_attribute
                   WHERE attrelid = to_regclass('riskroute_lease') AND attname = 'record')"""  # none in older logs
            ).fetchone()
            self._reader.execute("SELECT pg_advisory_xact_lock(0)")  # concurrent creation fails
            if not there or not there[0]:
                self._reader.execute(_SCHEMA)
            lease = "INSERT INTO riskroute_lease VALUES (%s, '', 0, 0) ON CONFLICT DO NOTHING"
            if self._reader.execute(lease, (self.stream,)).rowcount:
                first = f"INSERT INTO riskroute_log (stream, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)"
                self._reader.execute(first, (self.stream, *msgspec.structs.astuple(log_header_row(self.stream))))

    def _checked(self) -> LogHeader:
        """Return the header, after a check of the last rows."""
        there = self._query("SELECT to_regclass('riskroute_log') IS NOT NULL")[0][0]
        first = self._page(0, 1) if there else []
        if not first:
            raise DataError(f"the database has no log of stream {self.stream!r}")
        if first[0].seq != 0:
            raise DataError("row 0 of the log is missing")
        header = log_header_of(first[0], f"stream {self.stream!r}")
        self._check_last_rows()
        return header

    def head(self) -> LogHead:
        self._must_be_open()
        return LogHead(*self._query(_LAST, self.stream)[0])

    def _page(self, begin: int, most: int) -> list[LogRow]:
        query = f"SELECT {_COLUMNS} FROM riskroute_log WHERE stream = %s AND seq >= %s ORDER BY seq LIMIT %s"
        return list(starmap(LogRow, self._query(query, self.stream, begin, most)))

    def _pages(self, begin: int, most: int) -> Iterator[list[LogRow]]:
        """Yield rows in pages; while the caller processes a full page, a thread fetches the next."""
        with ThreadPoolExecutor(1, "riskroute-pages") as pool:
            page = self._page(begin, min(PAGE, most))
            while page:
                begin, most = page[-1].seq + 1, most - len(page)
                coming = pool.submit(self._page, begin, min(PAGE, most)) if len(page) == PAGE else None
                yield page
                page = self._page(begin, min(PAGE, most)) if coming is None else coming.result()

    def find(self, kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]:
        query = f"""SELECT {_COLUMNS} FROM riskroute_log
                    WHERE stream = %s AND kind = ANY(%s) AND key = ANY(%s) AND key <> ''"""
        with self._failing_as_write_error():
            rows = self._query(query, self.stream, list(kinds), list(keys))
        return {row.key: row for row in starmap(LogRow, rows)}

    def _take_lease(self, owner: str, seconds: float) -> tuple[LogLease, LogHead]:
        with self._failing_as_write_error():
            writer = self._awake_writer()
            if writer.execute("SHOW fsync").fetchone() != ("on",):
                raise StateError("the database must have fsync on: without it, a power cut loses durable rows")
            old = self._lease_row()
            if not self._locked:
                self._take_lock(old, by_force=self._is_ours(old) or old.now >= old.until)
                old = self._lease_row()
            term = old.term if self._is_ours(old) else old.term + 1
            lease = LogLease(owner, term, lease_end(old.now, seconds))
            last = writer.execute(_LAST, (self.stream,)).fetchone()
            assert last is not None
            head = LogHead(*last)
            update = "UPDATE riskroute_lease SET owner = %s, term = %s, until = %s, record = %s WHERE stream = %s"
            writer.execute(update, (owner, term, lease.until, log_head_record(head, self._key), self.stream))
        return lease, head

    def _records(self) -> list[str]:
        query = "SELECT coalesce(to_jsonb(lease) ->> 'record', '') FROM riskroute_lease AS lease WHERE stream = %s"
        return [row[0] for row in self._query(query, self.stream)]

    def _record(self, record: str) -> None:
        import psycopg

        writer, lease = self._writer, self._lease
        if writer is not None and lease is not None and not writer.closed:
            with suppress(psycopg.Error), writer.transaction():
                writer.execute("SET LOCAL synchronous_commit = off")
                update = "UPDATE riskroute_lease SET record = %s WHERE stream = %s AND term = %s"
                writer.execute(update, (record, self.stream, lease.term))

    def _is_ours(self, row: _LeaseRow) -> bool:
        return self._lease is not None and self._lease.term == row.term

    def _take_lock(self, old: _LeaseRow, *, by_force: bool) -> None:
        """Lock the stream for the writing session; ``by_force``, first terminate the session that holds the lock."""
        writer = self._live_writer()
        if by_force and old.holder is not None:
            writer.execute("SELECT pg_terminate_backend(%s)", (old.holder,))
        began = time.monotonic()
        while not self._locked:
            answer = writer.execute("SELECT pg_try_advisory_lock(%s)", (self._lock,)).fetchone()
            self._locked = answer == (True,)
            if not self._locked:
                now = self._lease_row()
                if not by_force or now.term != old.term or time.monotonic() > began + self.patience:
                    raise held_commit_lease(now.owner)
                time.sleep(0.002)

    def _lease_row(self) -> _LeaseRow:
        query = """SELECT owner, term, until, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint,
                       (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        AND (classid::bigint << 32 | objid::bigint) = %s)
                   FROM riskroute_lease WHERE stream = %s"""
        row = self._live_writer().execute(query, (self._lock, self.stream)).fetchone()
        assert row is not None
        return _LeaseRow(*row)

    def _live_writer(self) -> Connection[Any]:
        """Return the writing connection; if it was lost, a new connection, which does not hold the lock."""
        if self._writer is None or self._writer.closed:
            self._locked = False
            self._writer = self._connected()
        return self._writer

    def _awake_writer(self) -> Connection[Any]:
        """Return the writing connection after a ping, since a process that took over has terminated its session."""
        import psycopg

        with suppress(psycopg.OperationalError):
            self._live_writer().execute("SELECT 1")
        return self._live_writer()

    def _known(self, keys: Sequence[Key]) -> dict[Key, tuple[int, bytes]]:
        with self._failing_as_write_error():
            wanted = [[key[k] for key in keys] for k in range(2)]
            query = """SELECT kind, key, seq, body FROM riskroute_log
                       JOIN unnest(%s::text[], %s::text[]) AS wanted (kind, key) USING (kind, key)
                       WHERE stream = %s AND key <> ''"""
            found = self._live_writer().execute(query, (*wanted, self.stream)).fetchall()
        return {(kind, key): (seq, body) for kind, key, seq, body in found}

    def _lock_again(self, lease: LogLease) -> None:
        """Lock the stream for a new connection; raise `FencedError` if another process has taken the lease."""
        with self._failing_as_write_error():
            now = self._lease_row()
            if now.term == lease.term:
                self._take_lock(now, by_force=True)
                now = self._lease_row()
        if now.term != lease.term:
            raise fenced_commit(now.owner)

    def _insert(self, lease: LogLease, rows: Sequence[LogRow]) -> None:
        import psycopg

        self._live_writer()  # recording the head may have lost the connection, and with it the lock
        if not self._locked:
            self._lock_again(lease)
        writer = self._live_writer()
        columns = [[getattr(row, name) for row in rows] for name in _COLUMNS.split(", ")]
        try:
            if rows:
                insert = f"""INSERT INTO riskroute_log (stream, {_COLUMNS}) SELECT %s::text, row.* FROM
                    unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bytea[], %b::bytea[]) AS row
                    WHERE EXISTS (SELECT FROM riskroute_lease WHERE stream = %s AND term = %s)"""
                values = (self.stream, *columns, self.stream, lease.term)
                current = writer.execute(insert, values).rowcount == len(rows)
            else:
                current = self._lease_row().term == lease.term
        except psycopg.errors.UniqueViolation:
            raise KnownKeyError from None
        except psycopg.Error as error:
            if not writer.closed:
                raise _not_written(error, definite=True) from error
            self._check_written(lease, rows, error)
        else:
            if not current:
                raise fenced_commit(self._lease_row().owner)

    def _check_written(self, lease: LogLease, rows: Sequence[LogRow], error: Exception) -> None:
        """Return if the rows were written before the connection was lost; raise the appropriate error otherwise.

        Once this process or a successor holds the lock, the old session has ended, and the outcome is certain.
        """
        try:
            now = self._lease_row()
            if now.term == lease.term:
                self._take_lock(now, by_force=True)
            there = list(rows[:1]) and self._page(rows[0].seq, 1)
        except Exception:
            raise _not_written(error, definite=False) from error
        if there and there[0] == rows[0]:
            return
        if now.term != lease.term:
            raise fenced_commit(now.owner)
        raise _not_written(error, definite=True) from error

    @contextmanager
    def _failing_as_write_error(self) -> Iterator[None]:
        """Raise a definite `WriteError` for errors of the database: writes in such a block may be repeated."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise _not_written(error, definite=True) from error

    def _query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        import psycopg

        with self._reading:
            self._must_be_open()
            try:
                if self._reader.closed:
                    self._reader = self._connected()
                return self._reader.execute(query, values, binary=True).fetchall()
            except psycopg.OperationalError:
                if not self._reader.closed:
                    raise
                self._reader = self._connected()
            return self._reader.execute(query, values, binary=True).fetchall()

    def _let_go(self) -> None:
        import psycopg

        if self._writer is not None:
            if self._lease is not None and self._head is not None and self._locked:
                with suppress(psycopg.Error):
                    update = "UPDATE riskroute_lease SET until = 0, record = %s WHERE stream = %s AND term = %s"
                    record = log_head_record(self._head, self._key)
                    self._writer.execute(update, (record, self.stream, self._lease.term))
                    self._writer.execute("SELECT pg_advisory_unlock(%s)", (self._lock,))
            self._writer.close()
        with self._reading:
            self._reader.close()


def _not_written(error: Exception, *, definite: bool) -> WriteError:
    return WriteError(
        f"the database cannot be written: {one_line_text(error)}", definite=definite, cause="the database failed"
    )
