"""The recorded head of a log: rows missing at the end and rewritten rows are noticed, and no crash raises an alarm."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from live_logs import append, entry
from live_services import service_config
from riskroute.core.errors import DataError, InputError
from riskroute.live.log.interface import (
    Log,
    LogHead,
    LogRow,
    chained,
    log_head_record,
    parse_log_head,
    recorded_log_head,
    verify_log_chain,
)
from riskroute.live.log.postgres import PostgresLog
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.service import Service

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a log with 1,000 rows after its header."""
    path = tmp_path / "live.db"
    with SqliteLog(path) as log:
        log.lease("first", math.inf)
        append(log, [entry(str(k)) for k in range(1000)])
    return path


def change(path: Path, *statements: str) -> None:
    """Change a file behind the back of the log."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def rewrite(path: Path, number: int) -> None:
    """Change a row, and the hashes of it and all later ones, so that the chain is intact."""
    with SqliteLog(path, create=False) as log:
        rows = list(log.read(number - 2))
    connection = sqlite3.connect(path)
    chain = rows[0].chain
    with connection:
        for row in rows[1:]:
            body = b"rewritten" if row.seq == number else row.body
            new: LogRow = chained(chain, row.seq, entry(row.key, body, row.kind, row.at))
            chain = new.chain
            connection.execute("UPDATE log SET body = ?, chain = ? WHERE seq = ?", (body, chain, row.seq))
    connection.close()


def every_use(path: Path) -> list[Callable[[], object]]:
    """What must refuse a log whose head is not as recorded."""

    def verified() -> None:
        with SqliteLog(path) as log:
            verify_log_chain(log)

    def leased() -> None:
        with SqliteLog(path) as log:
            log.lease("next", math.inf)

    return [verified, leased, leased, verified]  # a refusal must not replace the record


@pytest.mark.parametrize("kept", ["both", "file", "row"])
def test_rows_removed_from_the_end_are_noticed(path: Path, kept: str) -> None:
    change(path, "DELETE FROM log WHERE seq > 900")
    if kept == "file":
        change(path, "UPDATE lease SET record = ''")
    elif kept == "row":
        path.with_name("live.db-lease").unlink()
    said = r"the log ends at row 900, but its head was recorded at row 1,000: 100 rows are missing"
    for use in every_use(path):
        with pytest.raises(DataError, match=said):
            use()


def test_a_rewritten_log_with_recomputed_hashes_is_noticed(path: Path) -> None:
    rewrite(path, 700)
    for use in every_use(path):
        with pytest.raises(DataError, match="row 1,000 of the log has another hash than the recorded head"):
            use()


def test_a_file_replaced_by_an_older_one_is_noticed(path: Path) -> None:
    shutil.copy(path, path.with_name("old.db"))
    with SqliteLog(path) as log:
        log.lease("desk", math.inf)
        append(log, [entry("one more")])
    shutil.copy(path.with_name("old.db"), path)
    with SqliteLog(path) as log, pytest.raises(DataError, match=r"recorded at row 1,001: 1 row is missing"):
        log.lease("desk", math.inf)
    with SqliteLog(path) as log:
        log.lease("desk", math.inf, trusted=True)
    with SqliteLog(path) as log:
        assert verify_log_chain(log).seq == 1000
    shutil.copy(path, path.with_name("copy.db"))
    with SqliteLog(path.with_name("copy.db")) as log:
        assert [head.seq for head in log.recorded()] == [1000], "of the row: the lease file was not copied"


def test_the_service_does_not_start_on_a_log_that_lacks_rows(tmp_path: Path) -> None:
    config = service_config(tmp_path)
    with config.open_log() as log:
        log.lease("desk", math.inf)
        append(log, [entry(str(k), kind="tick") for k in range(5)])
    assert config.log.path is not None
    change(config.log.path, "DELETE FROM log WHERE seq > 3")
    for _ in range(2):
        service = Service(config)
        with pytest.raises(DataError, match="the log ends at row 3, but its head was recorded at row 5"):
            service.start()
        service.close()


def test_the_head_is_recorded_while_the_log_is_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon after a commit, though no other follows; and with every thousandth row."""
    with SqliteLog(path) as log:
        log.lease("desk", math.inf)
        until = time.monotonic() + 60
        for number in (1001, 1002):
            append(log, [entry(f"more {number}")])
            while log.recorded()[1].seq < number:
                assert time.monotonic() < until
                time.sleep(0.01)
        assert [head.seq for head in log.recorded()] == [1000, 1002]
        monkeypatch.setattr(log, "record_every", 1e6)
        append(log, [entry(f"many {k}") for k in range(1100)])
        assert log.recorded()[0].seq == 2102
        verify_log_chain(log)
    with SqliteLog(path) as log:
        assert log.recorded() == [log.head()] * 2


def test_a_torn_record_is_ignored() -> None:
    head = LogHead(12345, bytes(range(16)))
    for key in (b"", KEY):
        record = log_head_record(head, key)
        assert recorded_log_head(f"{record}   \n", key) == head
        later = log_head_record(LogHead(12399, bytes(range(1, 17))), key)
        for middle in range(1, len(record)):
            assert recorded_log_head(record[:middle], key) is None
            assert recorded_log_head(later[:middle] + record[middle:], key) in (
                None,
                head,
                recorded_log_head(later, key),
            )
    assert recorded_log_head("", KEY) is None


def test_a_key_refuses_records_that_it_did_not_sign(path: Path) -> None:
    unsigned = r"the recorded head of the log is not signed with the key of head_key"
    with SqliteLog(path, key=KEY) as log, pytest.raises(DataError, match=unsigned):
        log.lease("desk", math.inf)
    with SqliteLog(path, key=KEY) as log:
        log.lease("desk", math.inf, trusted=True)
        append(log, [entry("signed")])
    for key in (KEY, b""):
        with SqliteLog(path, key=key) as log:
            assert verify_log_chain(log).seq == 1001
    with SqliteLog(path, key=OTHER_KEY) as log, pytest.raises(DataError, match=unsigned):
        verify_log_chain(log)
    change(path, "UPDATE lease SET record = ''")
    with SqliteLog(path, key=KEY) as log:
        assert [head.seq for head in log.recorded()] == [1001]
    path.with_name("live.db-lease").write_text("nonsense")
    with SqliteLog(path, key=KEY) as log, pytest.raises(DataError, match="no recorded head signed with the key"):
        verify_log_chain(log)


def test_without_the_key_nobody_can_rewrite_a_signed_log(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with SqliteLog(path, key=KEY) as log:
        log.lease("desk", math.inf)
        append(log, [entry(str(k)) for k in range(20)])
    rewrite(path, 7)
    with SqliteLog(path) as log:  # somebody who may write the folder records the new head
        log.lease("intruder", math.inf, trusted=True)
    with SqliteLog(path) as log:
        verify_log_chain(log)
    with SqliteLog(path, key=KEY) as log, pytest.raises(DataError, match="not signed with the key"):
        verify_log_chain(log)


def test_a_new_log_with_a_key_survives_a_crash_before_its_first_row(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    SqliteLog(path, key=KEY).close()
    with SqliteLog(path, key=KEY) as log:
        verify_log_chain(log)
        log.lease("desk", math.inf)


def test_a_log_from_before_heads_were_recorded_is_taken(path: Path) -> None:
    change(path, "ALTER TABLE lease DROP COLUMN record")
    path.with_name("live.db-lease").unlink()
    with SqliteLog(path) as log:
        assert log.recorded() == []
        verify_log_chain(log)
        log.lease("desk", math.inf)
        assert log.recorded() == [log.head()] * 2
        append(log, [entry("more")])


def test_a_replaced_writer_does_not_change_the_record(path: Path) -> None:
    with SqliteLog(path) as old, SqliteLog(path) as new:
        old.lease("old", 0)
        new.lease("new", math.inf)
        append(new, [entry("new")])
        old.close()
        assert recorded_log_head(path.with_name("live.db-lease").read_text(), b"") in (
            new.head(),
            LogHead(1000, _chain(new)),
        )


def _chain(log: Log) -> bytes:
    return next(log.read(999, 1)).chain


def test_a_head_is_written_and_read_as_one_text() -> None:
    head = LogHead(17, b"\x0a" * 16)
    assert str(head) == f"17:{'0a' * 16}"
    assert parse_log_head(str(head)) == head
    for text in ("17", "17:xyz", "seventeen:0a", ""):
        with pytest.raises(InputError, match="head must be NUMBER:HASH or HASH of a row, was"):
            parse_log_head(text)


@pytest.mark.parametrize(
    ("bad", "said"), [("missing", "No such file"), ("open", "of 32 bytes and mode 644"), ("short", "of 5 bytes and")]
)
def test_a_key_file_must_be_long_and_private(tmp_path: Path, bad: str, said: str) -> None:
    file = tmp_path / "head.key"
    if bad != "missing":
        file.write_bytes(b"short" if bad == "short" else KEY)
        file.chmod(0o644 if bad == "open" else 0o600)
    config = service_config(tmp_path, log={"path": str(tmp_path / "live.sqlite"), "head_key": str(file)})
    with pytest.raises(InputError, match=rf"log\.head_key must be a file of at least 32 bytes, .*{said}"):
        config.open_log()


def test_postgres_notices_missing_and_rewritten_rows(postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    stream = f"head-{os.getpid()}"
    with PostgresLog(postgres, stream, key=KEY) as log:
        log.lease("desk", math.inf)
        append(log, [entry(str(k)) for k in range(10)])
        until = time.monotonic() + 60
        while [head.seq for head in log.recorded()] != [10]:
            assert time.monotonic() < until
            time.sleep(0.01)
        append(log, [entry("last")])
    with psycopg.connect(postgres, autocommit=True) as connection:
        for statement, said in (
            ("DELETE FROM riskroute_log WHERE seq > 8", "the log ends at row 8, but its head was recorded at row 11"),
            ("UPDATE riskroute_lease SET record = replace(record, '11:', '8:')", "no recorded head signed with the"),
            ("UPDATE riskroute_lease SET record = ''", "no recorded head signed with the key"),
        ):
            connection.execute(f"{statement} {'AND' if 'seq' in statement else 'WHERE'} stream = '{stream}'")
            for _ in range(2):
                with PostgresLog(postgres, stream, key=KEY) as log, pytest.raises(DataError, match=said):
                    log.lease("desk", math.inf)
        with PostgresLog(postgres, stream) as log:
            verify_log_chain(log)
        with PostgresLog(postgres, stream, key=KEY) as log:
            log.lease("desk", math.inf, trusted=True)
        connection.execute("ALTER TABLE riskroute_lease DROP COLUMN record")
        with PostgresLog(postgres, stream, create=False) as log:
            assert log.recorded() == []
        with PostgresLog(postgres, stream) as log:
            log.lease("desk", math.inf)
            assert log.recorded() == [log.head()]
