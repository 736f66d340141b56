"""The log in PostgreSQL: which databases it takes, what it does when connections are lost, and who may write."""

from __future__ import annotations

import itertools
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from killed_logs import LogWriter
from live_logs import append, entry
from once import one_at_a_time, shared_folder
from postgres_server import postgres_server
from riskroute.core.errors import DataError, FencedError, InputError, LeaseError, RiskrouteError, StateError, WriteError
from riskroute.live.log import postgres as postgres_log
from riskroute.live.log.interface import LogLease, verify_log_chain
from riskroute.live.log.postgres import PostgresLog

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'riskroute[postgres]'")

Survived = Callable[[str, int], None]
_NUMBERS = itertools.count()


@pytest.fixture
def stream() -> str:
    """A name that no other test has."""
    return f"desk-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture
def log(postgres: str, stream: str) -> Any:
    """A log with the lease taken, and one row."""
    with PostgresLog(postgres, stream) as log:
        log.record_every = 1e6  # or a record might find out first that its connection is lost
        log.lease("first", math.inf)
        append(log, [entry("a", "one")])
        yield log


def execute(database: str, *statements: str) -> list[Any]:
    """Do something to the database behind the back of the log; rows of the last statement, if it has any."""
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def end_session(database: str, connection: Any) -> None:
    """End a session, as an administrator or a network may."""
    pid = connection.info.backend_pid
    execute(database, f"SELECT pg_terminate_backend({pid})")
    while execute(database, f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"):
        time.sleep(0.005)


def test_streams_in_one_database_are_separate(postgres: str, stream: str, log: PostgresLog) -> None:
    with PostgresLog(postgres, f"{stream}-other") as other:
        assert other.lease("other", math.inf).term == 1
        assert append(other, [entry("a", "two")]) == [1]
        assert [row.body for row in other.read()] == [b"two"]
    assert [row.body for row in log.read()] == [b"one"]


def test_a_database_that_cannot_be_used_is_refused(postgres: str, stream: str) -> None:
    with pytest.raises(InputError, match="database must be a libpq connection string: "):
        PostgresLog("hots=nowhere")
    with pytest.raises(WriteError, match="the database cannot be reached: ") as caught:
        PostgresLog("host=/nowhere dbname=desk password=secret")
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match=f"the database has no log of stream '{stream}'"):
        PostgresLog(postgres, stream, create=False)
    with pytest.raises(DataError, match="the database has no log of stream 'main'"):
        PostgresLog(postgres.replace("dbname=postgres", "dbname=template1"), create=False)


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskroute.core.runtime.find_spec", lambda library: None)
    with pytest.raises(RiskrouteError, match=r"logs in PostgreSQL need psycopg: pip install 'riskroute\[postgres\]'"):
        PostgresLog("dbname=desk")


def test_a_database_that_does_not_sync_is_refused(postgres: str, stream: str) -> None:
    with PostgresLog(postgres, stream) as log:
        try:
            execute(postgres, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
            _wait_for(lambda: execute(postgres, "SHOW fsync") == [("off",)])
            with pytest.raises(StateError, match="the database must have fsync on"):
                log.lease("desk", 1)
        finally:
            execute(postgres, "ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
            _wait_for(lambda: execute(postgres, "SHOW fsync") == [("on",)])


def _wait_for(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE riskroute_log SET body = 'x' WHERE seq = 1", "row 1 of the log was changed"),
        ("DELETE FROM riskroute_log WHERE seq = 0", "row 0 of the log is missing"),
        ("""UPDATE riskroute_log SET body = '{"format": 4}' WHERE seq = 0""", "has format 4, newer than 3"),
        ("""UPDATE riskroute_log SET body = '{"format": 1}' WHERE seq = 0""", "has format 1, older than 3"),
    ],
)
def test_a_changed_log_is_refused(postgres: str, stream: str, log: PostgresLog, change: str, said: str) -> None:
    log.close()
    execute(postgres, f"{change} AND stream = '{stream}'")
    with pytest.raises(DataError, match=said):
        PostgresLog(postgres, stream)


def test_a_lost_connection_is_reopened_and_nothing_was_written(postgres: str, log: PostgresLog) -> None:
    end_session(postgres, log._writer)
    end_session(postgres, log._reader)
    with pytest.raises(WriteError, match="the database cannot be written: terminating connection") as caught:
        append(log, [entry("b")])
    assert caught.value.definite
    assert log.head().seq == 1
    assert append(log, [entry("b")]) == [2]
    end_session(postgres, log._writer)
    with pytest.raises(WriteError):
        append(log, [])
    assert log.lease("first", math.inf).term == 1
    verify_log_chain(log)


@pytest.mark.parametrize("notices", ["renewal", "record"])
def test_a_new_connection_locks_the_log_before_writing(
    postgres: str, stream: str, log: PostgresLog, notices: str
) -> None:
    end_session(postgres, log._writer)
    if notices == "renewal":
        log._awake_writer()
    else:
        log._record("")
    assert append(log, [entry("b")]) == [2]
    with PostgresLog(postgres, stream) as second, pytest.raises(LeaseError, match="'first' writes this log"):
        second.lease("second", 1)


def test_a_replaced_writer_is_refused(postgres: str, stream: str, log: PostgresLog) -> None:
    log.lease("first", 0)
    with PostgresLog(postgres, stream) as second:
        second.lease("second", math.inf)
        log._awake_writer()
        with pytest.raises(FencedError, match="'second' took over the lease"):
            append(log, [entry("b")])
        assert append(second, [entry("c")]) == [2]


class Losing:
    """A connection that is lost right after the next statement was carried out, before the answer came."""

    closed = False

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, *given: Any) -> Any:
        self.connection.execute(*given)
        self.connection.close()
        self.closed = True
        raise psycopg.OperationalError("the connection was lost")

    def close(self) -> None:
        self.connection.close()


def test_rows_whose_answer_was_lost_are_found(log: PostgresLog) -> None:
    log._writer = Losing(log._writer)  # type: ignore[assignment] # as far as it is used
    assert append(log, [entry("b"), entry("c")]) == [2, 3]
    assert append(log, [entry("d")]) == [4]
    verify_log_chain(log)


def lease_soon(log: PostgresLog, owner: str) -> LogLease:
    """Take the lease once the server has noticed that its last owner is gone."""
    until = time.monotonic() + 30
    while True:
        try:
            return log.lease(owner, 60)
        except LeaseError:
            assert time.monotonic() < until
            time.sleep(0.005)


def test_after_an_unknown_outcome_the_log_must_be_reopened(
    postgres: str, stream: str, log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        log._writer = Losing(log._writer)  # type: ignore[assignment] # as far as it is used
        patched.setattr(log, "_database", "host=/nowhere")
        with pytest.raises(WriteError, match="the connection was lost") as caught:
            append(log, [entry("b")])
        assert not caught.value.definite
    with pytest.raises(WriteError, match="the connection was lost"):
        append(log, [entry("c")])
    log.close()
    with PostgresLog(postgres, stream) as again:
        lease_soon(again, "second")
        assert append(again, [entry("b"), entry("c")]) == [2, 3]


def test_a_statement_that_fails_writes_nothing(postgres: str, stream: str, log: PostgresLog) -> None:
    table = f"ALTER TABLE riskroute_log ADD CONSTRAINT no CHECK (stream <> '{stream}' OR kind <> 'bad')"
    execute(postgres, table)
    try:
        with pytest.raises(WriteError, match='violates check constraint "no"') as caught:
            append(log, [entry("b"), entry("c", kind="bad")])
        assert caught.value.definite
    finally:
        execute(postgres, "ALTER TABLE riskroute_log DROP CONSTRAINT no")
    assert append(log, [entry("c")]) == [2]


def test_the_term_and_the_primary_key_are_fences_too(postgres: str, stream: str, log: PostgresLog) -> None:
    """Should the lock ever fail, as with a pooler between: no row is written twice, and none out of term."""
    copy = "INSERT INTO riskroute_log SELECT stream, 2, at, kind, '', body, chain FROM riskroute_log WHERE seq = 1"
    execute(postgres, f"{copy} AND stream = '{stream}'")
    with pytest.raises(FencedError):
        append(log, [entry("b")])
    execute(
        postgres,
        f"DELETE FROM riskroute_log WHERE seq = 2 AND stream = '{stream}'",
        f"UPDATE riskroute_lease SET term = 7, owner = 'other' WHERE stream = '{stream}'",
    )
    for entries in ([entry("b")], [entry("a", "one")], []):
        with pytest.raises(FencedError, match="'other' took over the lease"):
            append(log, entries)
    assert log.head().seq == 1


def test_a_session_that_will_not_end_keeps_its_lease(
    postgres: str, stream: str, log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresLog, "patience", 0.05)
    log.lease("first", 0)
    with PostgresLog(postgres, stream) as second:
        monkeypatch.setattr(second, "_lease_row", lambda: postgres_log._LeaseRow("first", 1, 0, 1, None))
        with pytest.raises(LeaseError, match="'first' writes this log"):
            second.lease("second", 1)


@pytest.mark.crash
def test_another_takes_over_when_the_leader_is_killed(postgres: str, stream: str, survived: Survived) -> None:
    writer = LogWriter(postgres, math.inf, stream)
    try:
        assert writer.answer() == "ready"
        with PostgresLog(postgres, stream) as log:
            with pytest.raises(LeaseError, match="'waiting' writes this log"):
                log.lease("second", 1)
            writer.process.kill()
            assert lease_soon(log, "second").term == 2
            assert append(log, [entry("second")]) == [2]
            assert verify_log_chain(log).seq == 2
    finally:
        writer.end()
    survived("kill -9 of the leader on PostgreSQL", 1)


@pytest.mark.crash
def test_an_old_leader_woken_up_is_refused(postgres: str, stream: str, survived: Survived) -> None:
    writer = LogWriter(postgres, 0, stream)
    try:
        assert writer.answer() == "ready"
        os.kill(writer.process.pid, signal.SIGSTOP)
        with PostgresLog(postgres, stream) as log:
            assert log.lease("second", math.inf).term == 2
            append(log, [entry("second")])
            writer.ask()
            os.kill(writer.process.pid, signal.SIGCONT)
            assert writer.answer() == "FencedError: 'second' took over the lease of this log: nothing was written"
            assert append(log, [entry("third")]) == [3]
            assert [row.key for row in log.read()] == ["first", "second", "third"]
            verify_log_chain(log)
    finally:
        writer.end()
    survived("old leader on PostgreSQL stopped, taken over from, and woken", 1)


@pytest.mark.crash
@pytest.mark.usefixtures("postgres")
def test_nothing_answered_is_lost_when_the_server_crashes(
    tmp_path_factory: pytest.TempPathFactory, survived: Survived
) -> None:
    template: Path = shared_folder(tmp_path_factory, "postgres")
    with one_at_a_time(template):
        pass
    with postgres_server(template) as server, PostgresLog(server.database) as log:
        log.lease("desk", math.inf)
        answered: list[int] = []
        for crash in range(2):
            batches = [log.append([entry(f"{crash}.{k}")]) for k in range(300)]
            answered += batches[150].result(30)
            server.stop(as_in_a_crash=True)
            done = [batch for batch in batches if batch.exception(30) is None]
            answered += [number for batch in done for number in batch.result()]
            server.start()
            log.close()
            log = PostgresLog(server.database)
            assert log.lease("desk", math.inf).term == crash + 2
            assert verify_log_chain(log).seq >= max(answered)
        log.close()
    survived("crash of the PostgreSQL server", 2)
