"""Logs for tests: one in memory, which defines the others; every kind of store; and a short life to interrupt."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from riskroute.core.errors import ConflictError, DataError, FencedError, LeaseError, StateError
from riskroute.live.log.interface import (
    NO_CHAIN,
    Log,
    LogEntry,
    LogHead,
    LogHeader,
    LogLease,
    LogRow,
    chained,
    checked_log_entries,
    checked_log_range,
    checked_log_text,
    lease_end,
    linked_log_rows,
    log_header_of,
    log_header_row,
    verify_log_chain,
)
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import SqliteStateStore, StateSnapshot, StateStore
from riskroute.live.state.archive import ARCHIVE_DAYS, ArchivedOrder


@dataclass
class MemoryStore:
    """What a file or a database is to the other logs: rows and the lease, for any number of logs."""

    stream: str = "main"
    rows: list[LogRow] = field(default_factory=list)
    lease: LogLease = field(default_factory=lambda: LogLease("", 0, 0))
    holder: MemoryLog | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            self.rows.append(log_header_row(checked_log_text("stream", self.stream, 64)))


class MemoryLog:
    """A log that ends with the process.

    Parameters
    ----------
    store : MemoryStore
        Where the rows are, a new one if none is given; several logs may have the same store.

    Examples
    --------
    >>> with MemoryLog() as log:
    ...     term = log.lease("desk", 10).term
    ...     first = log.append([LogEntry("order", "A1", b"buy 100", at=0), LogEntry("tick", "", b"", at=1)]).result()
    ...     again = log.append([LogEntry("order", "A1", b"buy 100", at=2)]).result()
    ...     kinds = [row.kind for row in log.read()]
    >>> term, first, again, kinds
    (1, [1, 2], [1], ['order', 'tick'])
    """

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self.header: LogHeader = log_header_of(self.store.rows[0], "the store")
        self._term = 0
        self._closed = False

    def append(self, entries: Sequence[LogEntry], *, deferrable: bool = False) -> Future[list[int]]:
        self._must_be_open()
        done: Future[list[int]] = Future()
        checked = checked_log_entries(entries)
        try:
            done.set_result(self._append(checked))
        except StateError as error:
            done.set_exception(error)
        return done

    def _append(self, entries: tuple[LogEntry, ...]) -> list[int]:
        if self._term == 0:
            raise LeaseError("appending needs the lease: call lease first")
        if self._term != self.store.lease.term:
            raise FencedError(f"{self.store.lease.owner!r} took over the lease of this log: nothing was written")
        rows = list(self.store.rows)
        numbers = []
        for entry in entries:
            old = next((row for row in rows if entry.key and (row.kind, row.key) == (entry.kind, entry.key)), None)
            if old is None:
                old = chained(rows[-1].chain, len(rows), entry)
                rows.append(old)
            elif old.body != entry.body:
                raise ConflictError(entry.kind, entry.key, old.seq)
            numbers.append(old.seq)
        self.store.rows = rows
        return numbers

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[LogRow]:
        self._must_be_open()
        begin, most = checked_log_range(after, limit)
        rows = self.store.rows[begin : begin + most]
        chain = self.store.rows[begin - 1].chain if rows and begin > 0 else NO_CHAIN
        return linked_log_rows(rows, LogHead(begin - 1, chain))

    def head(self) -> LogHead:
        self._must_be_open()
        return LogHead(self.store.rows[-1].seq, self.store.rows[-1].chain)

    def find(self, kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]:
        self._must_be_open()
        wanted = set(keys) - {""}
        return {row.key: row for row in self.store.rows if row.kind in kinds and row.key in wanted}

    def recorded(self) -> list[LogHead]:
        return []

    def lease(self, owner: str, seconds: float, *, trusted: bool = False) -> LogLease:
        self._must_be_open()
        checked_log_text("owner", owner, 64)
        now = time.time_ns()
        old, ours = self.store.lease, self._term == self.store.lease.term != 0
        if not ours and self.store.holder is not None and now < old.until:
            raise LeaseError(f"{old.owner!r} writes this log, and holds its lease")
        self.store.lease = LogLease(owner, old.term if ours else old.term + 1, lease_end(now, seconds))
        self.store.holder, self._term = self, self.store.lease.term
        return self.store.lease

    def close(self) -> None:
        if self.store.holder is self:
            self.store.holder = None
        self._closed = True

    def _must_be_open(self) -> None:
        if self._closed:
            raise StateError("the log is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


LogOpener = Callable[[], Log]
"""Opens one more log on the same store."""

STORES = ("memory", "sqlite", "postgres")

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("COV_")}
# For child processes: coverage measures only this one.

_NUMBERS = itertools.count()


class MemoryStateStore:
    """A store of snapshots and archived orders in memory: the plain definition of what the others do."""

    def __init__(self) -> None:
        self.kept: list[StateSnapshot] = []
        self.orders: list[ArchivedOrder] = []
        self.term = 0

    def snapshots(self) -> Iterator[StateSnapshot]:
        return iter(sorted(self.kept, key=lambda one: -one.seq))

    def begin(self, start: StateSnapshot | None) -> int:
        seq, archived = (-1, 0) if start is None else (start.seq, start.archived)
        self.kept = [one for one in self.kept if one.seq <= seq]
        self.orders = [one for one in self.orders if one.number <= archived]
        self.term += 1
        return self.term

    def save(self, term: int, snapshot: StateSnapshot | None, orders: Sequence[ArchivedOrder]) -> None:
        self._check(term)
        known = {one.number for one in self.orders}
        assert known.isdisjoint(one.number for one in orders), "written twice"
        self.orders = sorted([*self.orders, *orders], key=lambda one: one.number)
        if snapshot is not None:
            kept = [one for one in self.kept if one.seq != snapshot.seq] + [snapshot]
            self.kept = sorted(kept, key=lambda one: one.seq)[-2:]

    def expire(self, term: int, orders: int) -> bool:
        self._check(term)
        oldest = min((one.day for one in self.kept), default=0)
        gone = {one.number for one in self.orders[:orders] if one.day <= oldest - ARCHIVE_DAYS}
        self.orders = [one for one in self.orders if one.number not in gone]
        return len(gone) == orders

    def find(self, id: str) -> ArchivedOrder | None:
        return next((one for one in reversed(self.orders) if one.id == id), None)

    def close(self) -> None:
        pass

    def _check(self, term: int) -> None:
        if term != self.term:
            raise StateError("another process writes the snapshots of this log")


@contextmanager
def new_store(kind: str, folder: Path, database: str = "") -> Iterator[LogOpener]:
    """A new store of some kind: in memory, in a folder, or in a database. Closes all that was opened on it."""
    number = next(_NUMBERS)
    stream = f"test-{os.getpid()}-{number}"
    store = MemoryStore(stream)

    def opened() -> Log:
        if kind == "memory":
            return MemoryLog(store)
        if kind == "sqlite":
            return SqliteLog(folder / f"{number}.db", stream)
        from riskroute.live.log.postgres import PostgresLog

        return PostgresLog(database, stream)

    with ExitStack() as stack:
        yield lambda: stack.enter_context(opened())


def entry(key: str = "", body: bytes | str = b"", kind: str = "order", at: int = 0) -> LogEntry:
    """An entry with little to say."""
    return LogEntry(kind, key, body.encode() if isinstance(body, str) else body, at)


def append(log: Log, entries: Sequence[LogEntry]) -> list[int]:
    """Append, and wait until it is durable."""
    return log.append(entries).result(timeout=30)


LONG = os.environ.get("RISKROUTE_CRASH") == "long"
"""Whether to try every fault, as `make crash` does, or a selection in a few seconds."""

BATCHES: list[list[LogEntry]] = [
    [entry(f"{k}.{j}", bytes([k]) * (37 * k % 700)) for j in range(1 + k % 3)] for k in range(24 if LONG else 12)
]
"""What is appended, one batch after another."""


def store_beside(path: Path) -> SqliteStateStore:
    """The store of snapshots and archived orders beside a log."""
    return SqliteStateStore(path.with_name(f"{path.name}-state"), "test")


def archived(number: int) -> ArchivedOrder:
    """An archived order."""
    return ArchivedOrder(number, f"order {number % 7}", 0, bytes([number]) * (53 * number % 900))


def live(log: Log, store: StateStore, answered: Callable[[str], None]) -> None:
    """Take the lease, append all batches, and save snapshots with orders, telling of every key once it is durable."""
    log.lease("desk", math.inf)
    term, count = store.begin(None), 0
    for number, batch in enumerate(BATCHES):
        append(log, batch)
        for one in batch:
            answered(one.key)
        if number % 5 == 4:
            head = log.head()
            orders = [archived(count + 1 + k) for k in range(number)]
            count += len(orders)
            if number > 10:  # those that wait in memory may be moved before a snapshot is taken
                store.save(term, None, orders[:3])
                orders = orders[3:]
            store.save(term, StateSnapshot(head.seq, head.chain, count, 0, b"state" * 100), orders)


def complaint(path: Path, answered: Collection[str]) -> str:
    """What is wrong with the file of a log whose life was cut short, in words; nothing if all promises hold."""
    with SqliteLog(path, "test") as log:
        rows = [LogEntry(row.kind, row.key, row.body, row.at) for row in log.read()]
        if lost := set(answered) - {row.key for row in rows}:
            return f"{len(lost)} answered entries are lost"
        try:
            verify_log_chain(log)
        except DataError as error:
            return str(error)
        if rows not in _PREFIXES:
            return "a batch is there in part, or in another sequence"
        if text := _store_complaint(path, log):
            return text
        log.lease("next", math.inf)
        numbers = append(log, _PREFIXES[-1])
        if numbers != list(range(1, len(numbers) + 1)):
            return "a second life does not end where the first would have"
        verify_log_chain(log)
    return ""


def _store_complaint(path: Path, log: Log) -> str:
    """What is wrong with the store beside a log: a snapshot must fit the log, and have all orders before it."""
    store = store_beside(path)
    try:
        for snapshot in store.snapshots():
            if [(row.seq, row.chain) for row in log.read(snapshot.seq - 1, 1)] != [(snapshot.seq, snapshot.chain)]:
                return "a snapshot is ahead of its log"
            if snapshot.body != b"state" * 100:
                return "a snapshot is damaged"
            store.begin(snapshot)
            newest = {one.id: one for one in map(archived, range(1, snapshot.archived + 1))}
            if any(store.find(id) != one for id, one in newest.items()):
                return "orders of a snapshot are lost"
            if store.find(archived(snapshot.archived + 1).id) != newest.get(archived(snapshot.archived + 1).id):
                return "an order is there that was archived after the snapshot"
    finally:
        store.close()
    return ""


_PREFIXES = [[one for batch in BATCHES[:k] for one in batch] for k in range(len(BATCHES) + 1)]
