"""The log of the live router: what every store of it does."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from live_logs import STORES, LogOpener, append, entry, new_store
from riskroute.core.errors import ConflictError, DataError, FencedError, InputError, LeaseError, StateError
from riskroute.core.provenance import machine_type, provenance_versions
from riskroute.live.log.interface import (
    LARGEST_BODY,
    NO_CHAIN,
    Log,
    LogEntry,
    LogHead,
    LogHeader,
    LogRow,
    chained,
    linked_log_rows,
    log_header_of,
    log_header_row,
    verify_log_chain,
)


@pytest.fixture(params=STORES)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogOpener]:
    """Opens logs on one new store."""
    database = request.getfixturevalue("postgres") if request.param == "postgres" else ""
    with new_store(request.param, tmp_path, database) as one:
        yield one


@pytest.fixture
def log(opener: LogOpener) -> Log:
    """A log with the lease taken."""
    log = opener()
    log.lease("desk", math.inf)
    return log


def test_rows_come_back_as_they_were_appended(log: Log) -> None:
    given = [LogEntry("order", "a", b"\0\xff", 5), LogEntry("fill", "a", b"", 7), LogEntry("order", "ü€𐍈", b"x", 0)]
    assert append(log, given) == [1, 2, 3]
    assert [LogEntry(row.kind, row.key, row.body, row.at) for row in log.read()] == given
    assert [row.seq for row in log.read(after=1)] == [2, 3]
    assert [row.seq for row in log.read(after=-1, limit=2)] == [0, 1]
    assert list(log.read(after=3)) == list(log.read(after=99)) == list(log.read(limit=0)) == []
    last = list(log.read())[-1]
    assert log.head() == LogHead(3, last.chain) == verify_log_chain(log)


def test_an_entry_with_a_known_key_is_not_written_again(log: Log) -> None:
    assert append(log, [entry("a", "one"), entry("b", "two")]) == [1, 2]
    assert append(log, [entry("b", "two", at=9), entry("c", "three"), entry("a", "one"), entry("c", "three")]) == [
        2,
        3,
        1,
        3,
    ]
    assert append(log, [entry("a", "another kind", kind="fill")]) == [4]
    assert append(log, [entry("", "tick"), entry("", "tick")]) == [5, 6]
    assert [row.at for row in log.read(limit=2)] == [0, 0]
    assert append(log, []) == []
    assert log.head().seq == 6


def test_a_known_key_with_another_body_is_refused_with_its_whole_batch(log: Log) -> None:
    append(log, [entry("a", "one")])
    after = log.append([entry("b", "two"), entry("a", "other"), entry("c", "three")])
    with pytest.raises(ConflictError, match="order 'a' is already in row 1 of the log, with another body") as caught:
        after.result()
    assert (caught.value.kind, caught.value.key, caught.value.seq) == ("order", "a", 1)
    with pytest.raises(ConflictError, match="order 'n'"):
        append(log, [entry("n", "1"), entry("n", "2")])
    assert log.head().seq == 1
    assert append(log, [entry("b", "two")]) == [2]


def test_the_header_names_what_created_the_log(log: Log) -> None:
    (first,) = log.read(-1, 1)
    assert (first.seq, first.kind, first.key) == (0, "header", "")
    assert msgspec.json.decode(first.body, type=LogHeader) == log.header
    assert log.header == LogHeader(3, log.header.stream, machine_type(), provenance_versions())
    assert log.header.stream.startswith("test-")
    assert log.header.versions.keys() == {"riskroute", "python", "numpy", "scipy", "numba"}
    assert 0 <= time.time_ns() - first.at < 600e9


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (LogEntry("", "", b"", 0), "kind must be a text of 1 to 64 characters, was ''"),
        (LogEntry("k" * 65, "", b"", 0), "kind must be a text of 1 to 64 characters, was 'kkk"),
        (LogEntry("header", "", b"", 0), "kind must not be 'header', which is row 0"),
        (LogEntry("order", "k" * 513, b"", 0), "key must be a text of 1 to 512 characters"),
        (LogEntry("order", "a\0", b"", 0), "none of them NUL or half of a surrogate pair, was 'a\\x00'"),
        (LogEntry("order", "\ud800", b"", 0), "none of them NUL or half of a surrogate pair"),
        (LogEntry("order", "", b"", -1), "at must be a non-negative integer, was -1"),
        (LogEntry("order", "", b"", 2**63), "at must be at most 9,223,372,036,854,775,807, was"),
        (LogEntry("order", "", bytes(LARGEST_BODY + 1), 0), "body must have at most 16,777,216 bytes, had 16,777,217"),
        (LogEntry("order", "", "text", 0), "body must be bytes, was 'text'"),  # type: ignore[arg-type]
        ("order", "entries must be of type LogEntry, was 'order'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_entries_that_no_store_can_hold_are_refused_before_writing(log: Log, bad: LogEntry, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        log.append([entry("a"), bad])
    assert log.head().seq == 0


def test_reading_refuses_invalid_ranges(log: Log) -> None:
    with pytest.raises(InputError, match="after must be an integer of at least -1, was -2"):
        list(log.read(after=-2))
    with pytest.raises(InputError, match="limit must be a non-negative integer, was -1"):
        list(log.read(limit=-1))


def test_a_row_is_found_by_its_key_once_it_is_durable(log: Log) -> None:
    append(log, [entry("a", "one"), entry("", "two"), entry("b", kind="fill")])
    found = log.find(("order", "other"), ["a", "b", "c", ""])
    assert list(found) == ["a"]
    assert (found["a"].seq, found["a"].body) == (1, b"one")
    assert found["a"] == next(log.read(0, 1))
    assert sorted(log.find(("order", "fill", "other"), ["b", "a"])) == ["a", "b"]
    assert log.find(("order",), []) == {}


def test_two_leaders_never_both_write(opener: LogOpener) -> None:
    old, new = opener(), opener()
    with pytest.raises(LeaseError, match="appending needs the lease: call lease first"):
        append(old, [entry("a")])
    assert old.lease("old", math.inf).term == 1
    append(old, [entry("a")])
    with pytest.raises(LeaseError, match="'old' writes this log"):
        new.lease("new", math.inf)
    lease = old.lease("old", 0)
    assert (lease.owner, lease.term) == ("old", 1), "asked again, it is the same lease"
    assert append(old, [entry("b")]) == [2], "it has run out, and nobody has taken it"
    assert new.lease("new", math.inf).term == 2
    with pytest.raises(FencedError, match="'new' took over the lease of this log: nothing was written"):
        append(old, [entry("c")])
    assert append(new, [entry("b"), entry("d")]) == [2, 3]
    with pytest.raises(FencedError):
        append(old, [entry("c")])
    with pytest.raises(LeaseError, match="'new' writes this log"):
        old.lease("old", 1)
    new.close()
    assert old.lease("old", 60).term == 3
    assert append(old, [entry("c")]) == [4]
    assert [row.key for row in old.read()] == ["a", "b", "d", "c"]
    verify_log_chain(old)


def test_a_lease_that_was_taken_over_can_be_taken_back(opener: LogOpener) -> None:
    one, other = opener(), opener()
    assert [log.lease("either", 0).term for log in (one, other, one, other)] == [1, 2, 3, 4]
    with pytest.raises(FencedError):
        append(one, [entry("a")])
    assert append(other, [entry("a")]) == [1]


def test_a_lease_expires(opener: LogOpener) -> None:
    old, new = opener(), opener()
    until = old.lease("old", 0.05).until
    while time.time_ns() <= until:
        time.sleep(0.01)
    assert new.lease("new", 1e300).term == 2


def test_reading_needs_no_lease(opener: LogOpener, log: Log) -> None:
    reader = opener()
    append(log, [entry("a")])
    assert [row.key for row in reader.read()] == ["a"]
    assert reader.head() == log.head()
    log.close()
    assert reader.head().seq == 1


@pytest.mark.parametrize("seconds", [-1, math.nan, "long"])
def test_a_lease_takes_a_time_and_a_name(opener: LogOpener, seconds: float) -> None:
    with pytest.raises(InputError, match="seconds must be a number of at least 0, was"):
        opener().lease("desk", seconds)
    with pytest.raises(InputError, match="owner must be a text of 1 to 64 characters, was ''"):
        opener().lease("", 1)


def test_a_closed_log_says_so(log: Log) -> None:
    log.close()
    log.close()
    for call in (
        lambda: log.append([]),
        log.head,
        log.read,
        lambda: log.find(("order",), ["a"]),
        lambda: log.lease("desk", 1),
    ):
        with pytest.raises(StateError, match="the log is closed"):
            call()


def test_a_changed_a_missing_and_a_moved_row_are_found() -> None:
    rows = [log_header_row("main")]
    for seq in range(1, 6):
        rows.append(chained(rows[-1].chain, seq, entry(str(seq))))
    start = LogHead(-1, NO_CHAIN)
    assert list(linked_log_rows(rows, start)) == rows
    assert list(linked_log_rows(rows[3:], LogHead(2, rows[2].chain))) == rows[3:]
    for field, value in {"at": 1, "kind": "orde", "key": "r3", "body": b"x", "chain": NO_CHAIN}.items():
        changed = LogRow(**{name: getattr(rows[3], name) for name in LogRow.__struct_fields__} | {field: value})
        with pytest.raises(DataError, match="row 3 of the log was changed"):
            list(linked_log_rows([*rows[:3], changed, *rows[4:]], start))
    with pytest.raises(DataError, match="row 3 of the log is missing: the next row has number 4"):
        list(linked_log_rows([*rows[:3], *rows[4:]], start))
    with pytest.raises(DataError, match="row 3 of the log was changed, or the row before it"):
        list(linked_log_rows(rows[3:], LogHead(2, rows[1].chain)))


def test_a_header_of_another_format_is_refused() -> None:
    row = log_header_row("main")
    for body, message in (
        (b'{"format": 4, "new_field": 1}', r"live\.db has format 4, newer than 3, .*: use a newer riskroute"),
        (b'{"format": 2}', r"live\.db has format 2, older than 3, .*: start a new log"),
        (b"nonsense", "row 0 is no header"),
        (b'{"format": 3}', "header that cannot be read"),
    ):
        with pytest.raises(DataError, match=message):
            log_header_of(LogRow(0, 0, "header", "", body, NO_CHAIN), "live.db")
    assert log_header_of(row, "live.db").stream == "main"
