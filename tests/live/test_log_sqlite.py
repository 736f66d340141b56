"""The log in a file of SQLite: which files it takes, who may write them, and what it says when the disk fails."""

from __future__ import annotations

import logging
import math
import sqlite3
import stat
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from live_logs import append, entry
from riskroute.core.errors import ConflictError, DataError, InputError, LeaseError, WriteError
from riskroute.live.log.group_commit import _Call, commit_rows
from riskroute.live.log.interface import LogEntry, LogHead, log_header_row, verify_log_chain
from riskroute.live.log.sqlite import SqliteLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a log with three rows."""
    path = tmp_path / "live.db"
    with SqliteLog(path, "desk") as log:
        log.lease("first", math.inf)
        append(log, [entry("a", "one"), entry("b", "two"), entry("c", "three")])
    return path


def change(path: Path, *statements: str) -> None:
    """Change a file behind the back of the log."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_only_the_owner_can_read_the_files(path: Path) -> None:
    path.chmod(0o644)
    with SqliteLog(path) as log:
        log.lease("desk", 60)
        append(log, [entry("d")])
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("live.db", "live.db-wal", "live.db-shm", "live.db-lease"), 0o600)


def test_a_log_is_reopened(path: Path) -> None:
    with SqliteLog(path) as log:
        assert log.header.stream == "desk"
        assert [row.body for row in log.read()] == [b"one", b"two", b"three"]
        assert log.lease("second", 60).term == 2
        assert append(log, [entry("b", "two"), entry("d", "four")]) == [2, 4]


def test_a_log_of_another_stream_or_format_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match=r"live\.db is the log of stream 'desk', not of 'other'"):
        SqliteLog(path, "other")
    for version, expected in ((4, "newer than 3, .* use a newer riskroute"), (2, "older than 3, .* start a new log")):
        change(path, f"PRAGMA user_version = {version}")
        with pytest.raises(DataError, match=rf"live\.db has format {version}, {expected}"):
            SqliteLog(path)


def test_other_files_are_refused_and_left_unchanged(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    change(other, "CREATE TABLE prices (price REAL)")
    before = other.read_bytes()
    with pytest.raises(DataError, match=r"other\.db is no riskroute log"):
        SqliteLog(other)
    assert other.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("Remember the milk. " * 100)
    with pytest.raises(DataError, match=r"notes\.txt cannot be read: file is not a database"):
        SqliteLog(text)
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(DataError, match=r"empty\.db is no riskroute log"):
        SqliteLog(empty, create=False)
    with pytest.raises(InputError, match=r"path must be the file of a log, was '.*none\.db'"):
        SqliteLog(tmp_path / "none.db", create=False)
    with pytest.raises(InputError, match="path must be a writable file, was"):
        SqliteLog(tmp_path)
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE log SET body = x'00' WHERE seq = 3", "row 3 of the log was changed"),
        ("DELETE FROM log WHERE seq = 2", "row 2 of the log is missing"),
        ("DELETE FROM log WHERE seq = 0", "row 0 of the log is missing"),
    ],
)
def test_a_broken_chain_near_the_end_is_refused_at_once(path: Path, statement: str, said: str) -> None:
    change(path, statement)
    with pytest.raises(DataError, match=said):
        SqliteLog(path)


@pytest.mark.parametrize("statement", ["UPDATE log SET key = 'z' WHERE seq = 1", "DELETE FROM log WHERE seq = 1"])
def test_reading_finds_a_broken_chain(path: Path, statement: str) -> None:
    with SqliteLog(path) as log:
        log.lease("desk", 1)
        append(log, [entry(str(k)) for k in range(20)])
    change(path, statement)
    with SqliteLog(path) as log:
        assert len(list(log.read(after=4))) == 19
        for read in (lambda: list(log.read()), lambda: verify_log_chain(log)):
            with pytest.raises(DataError, match="row 1 of the log"):
                read()


class StallingLog(SqliteLog):
    """A log whose disk takes its time when told to."""

    stall = threading.Event()
    going = threading.Event()

    def _write(self, *given: object) -> object:  # type: ignore[override] # handed on as they are
        self.going.set()
        self.stall.wait(60)
        return super()._write(*given)  # type: ignore[arg-type]  # passed on


def test_waiting_appends_share_a_commit(path: Path) -> None:
    StallingLog.stall.clear()
    with StallingLog(path, slow_commit=0.0) as log:
        log.lease("desk", 60)
        waiting = [log.append([entry("d0")])]
        StallingLog.going.wait(60)
        waiting += [log.append([entry(f"d{k}"), entry("", "tick")]) for k in range(1, 50)]
        waiting.insert(25, log.append([entry("a", "another body")]))
        StallingLog.stall.set()
        results = [_outcome(future) for future in waiting]
        assert results[0] == [4]
        assert isinstance(results.pop(25), ConflictError)
        assert results[1:] == [[seq, seq + 1] for seq in range(5, 103, 2)]
        assert log.times.commits == 2
        assert log.times.rows == 99
        verify_log_chain(log)


def _outcome(future: Future[list[int]]) -> list[int] | BaseException:
    return future.exception(30) or future.result()


def test_what_was_appended_is_written_before_the_log_closes_and_cannot_be_cancelled(path: Path) -> None:
    with SqliteLog(path) as log:
        log.lease("desk", 60)
        futures = [log.append([entry(f"d{k}")]) for k in range(200)]
        assert not any(future.cancel() for future in futures)
    assert [future.result(0) for future in futures] == [[seq] for seq in range(4, 204)]
    with SqliteLog(path) as log:
        assert verify_log_chain(log).seq == 203


def test_a_slow_commit_is_reported(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[float] = []

    def complain(seconds: float) -> None:
        told.append(seconds)
        raise ValueError("the complaints desk is closed")

    with SqliteLog(path, slow_commit=0.0, on_slow_commit=complain) as log:
        log.lease("desk", 60)
        assert append(log, [entry("d")]) == [4]
    assert log.times.slow == len(told) == 1
    assert log.times.longest == told[0] > 0
    assert "the report of a slow commit failed" in caplog.text
    with caplog.at_level(logging.WARNING), SqliteLog(path, slow_commit=0.0) as log:
        log.lease("desk", 60)
        append(log, [entry("e")])
    assert "a commit of the log took" in caplog.text
    with SqliteLog(path, slow_commit=600.0) as log:
        log.lease("desk", 60)
        append(log, [entry("f")])
        assert log.times.slow == 0


def test_a_file_locked_by_another_writer_is_an_error_without_loss(path: Path) -> None:
    with SqliteLog(path) as log:
        log.lease("desk", 60)
        log._writer.execute("PRAGMA busy_timeout = 10")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(WriteError, match=r"live\.db cannot be written: database is locked") as caught:
            append(log, [entry("d")])
        assert caught.value.definite
        other.execute("ROLLBACK")
        other.close()
        assert append(log, [entry("d")]) == [4]


def test_a_failed_attempt_at_the_lease_leaves_no_lock(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    with SqliteLog(path) as log:
        other.execute("CREATE TRIGGER no BEFORE UPDATE ON lease BEGIN SELECT RAISE(ABORT, 'not today'); END")
        with pytest.raises(WriteError, match="not today"):
            log.lease("desk", 60)
        with pytest.raises(WriteError, match="not today"):  # what happened in the file is not certain
            log.lease("desk", 60)
        other.execute("DROP TRIGGER no")
        other.close()
        with SqliteLog(path) as second:
            assert second.lease("second", 60).term == 2
            with SqliteLog(path) as third, pytest.raises(LeaseError, match="'second' writes this log"):
                third.lease("third", 60)


def test_batches_are_arranged_one_after_another() -> None:
    head = LogHead(7, log_header_row("main").chain)
    batches = [(entry("a", "1"), entry("b", "2")), (entry("c", "3"), entry("a", "other")), (entry("c", "4"),), ()]
    rows, outcomes = commit_rows(head, batches, {("order", "b"): (5, b"2")})
    assert [(row.seq, row.key) for row in rows] == [(8, "a"), (9, "c")]
    assert isinstance(outcomes[1], ConflictError)
    assert [outcomes[k] for k in (0, 2, 3)] == [[8, 5], [9], []]


def test_deferrable_entries_are_written_with_the_next_awaited_one(tmp_path: Path) -> None:
    with SqliteLog(tmp_path / "log.db") as log:
        log.lease("one", math.inf)
        gate = threading.Event()
        log._submit(_Call(gate.wait, Future()))  # or the first might be written before the last comes
        deferred = [log.append([LogEntry("tick", "", b"x", k)], deferrable=True) for k in range(3)]
        awaited = log.append([LogEntry("order", "A", b"x", 3)])
        gate.set()
        assert awaited.result(60) == [4]
        assert [one.result(0) for one in deferred] == [[1], [2], [3]]
        assert log.times.commits == 1


def test_deferrable_entries_are_written_without_an_awaited_one(tmp_path: Path) -> None:
    with SqliteLog(tmp_path / "log.db") as log:
        log.lease("one", math.inf)
        assert log.append([LogEntry("tick", "", b"x", 0)], deferrable=True).result(60) == [1]
        last = log.append([LogEntry("tick", "", b"x", 1)], deferrable=True)
    assert last.result(0) == [2]


@pytest.mark.parametrize("count", [1, 3, 5, 100, 170])
def test_a_known_key_among_many_new_ones_keeps_its_row(tmp_path: Path, count: int) -> None:
    with SqliteLog(tmp_path / "log.db") as log:
        log.lease("one", math.inf)
        assert log.append([LogEntry("order", "known", b"x", 0)]).result(60) == [1]
        many = [LogEntry("order", f"{k}", b"x", 0) for k in range(count)]
        numbers = log.append([*many, LogEntry("order", "known", b"x", 5), LogEntry("order", "last", b"x", 6)]).result(
            10
        )
        assert numbers == [*range(2, count + 2), 1, count + 2]
        assert len(list(log.read())) == count + 2
        verify_log_chain(log)


def test_the_write_ahead_file_shrinks_after_a_long_read_and_at_the_end(path: Path) -> None:
    wal = path.with_name("live.db-wal")
    with SqliteLog(path) as log, sqlite3.connect(path, isolation_level=None) as reader:
        log.lease("desk", math.inf)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchone()
        for number in range(3):
            append(log, [entry(f"large {number}", bytes(9_000_000))])
        assert wal.stat().st_size > 1 << 24
        reader.execute("ROLLBACK")
        append(log, [entry("moves rows out of it")])
        append(log, [entry("begins it again")])
        assert wal.stat().st_size <= 1 << 24
        log.close()
        assert wal.stat().st_size == 0, "although another process has the file open"
    reader.close()
