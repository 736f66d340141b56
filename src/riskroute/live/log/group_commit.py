"""Group commit: one writer thread commits together all appends that arrived during the previous commit."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from riskroute.core.errors import (
    ConflictError,
    DataError,
    FencedError,
    KnownKeyError,
    LeaseError,
    StateError,
    WriteError,
)
from riskroute.core.runtime import DurationHistogram
from riskroute.live.log.interface import (
    NO_CHAIN,
    PAGE,
    LogEntry,
    LogHead,
    LogHeader,
    LogLease,
    LogRow,
    chained,
    check_links,
    check_log_heads,
    checked_log_entries,
    checked_log_range,
    checked_log_text,
    lease_end,
    linked_log_rows,
    log_head_record,
    recorded_log_head,
)

_LOGGER = logging.getLogger("riskroute.live")

Batch = tuple[LogEntry, ...]
Key = tuple[str, str]  # kind and key of a row
_Outcome = list[int] | StateError
_Result = TypeVar("_Result")


@dataclass
class _CommitTimes:
    """Number and durations (seconds) of the commits since the log was opened."""

    commits: int = 0
    rows: int = 0
    longest: float = 0.0
    slow: int = 0
    histogram: DurationHistogram = field(default_factory=DurationHistogram)


class _Append(NamedTuple):
    batch: Batch
    done: Future[list[int]]


class _Call(NamedTuple):
    call: Callable[[], Any]
    done: Future[Any]


class GroupCommitRows(NamedTuple):
    """Rows to write for some batches of entries, and the result of each batch: its row numbers, or an error."""

    rows: list[LogRow]
    outcomes: list[_Outcome]


def commit_rows(head: LogHead, batches: Sequence[Batch], known: Mapping[Key, tuple[int, bytes]]) -> GroupCommitRows:
    """Return the rows that append batches of entries after ``head``; a batch with a conflict has no rows.

    ``known`` has, by kind and key, number and body of the rows that are already in the log.
    """
    rows: list[LogRow] = []
    outcomes: list[_Outcome] = []
    seen = dict(known)
    for batch in batches:
        written = len(rows)
        added, numbers = list[Key](), list[int]()
        conflict = None
        for entry in batch:
            key = (entry.kind, entry.key) if entry.key else None
            old = None if key is None else seen.get(key)
            if old is None:
                row = chained(rows[-1].chain if rows else head.chain, head.seq + len(rows) + 1, entry)
                rows.append(row)
                numbers.append(row.seq)
                if key is not None:
                    seen[key] = (row.seq, row.body)
                    added.append(key)
            elif old[1] == entry.body:
                numbers.append(old[0])
            else:
                conflict = ConflictError(entry.kind, entry.key, old[0])
                break
        if conflict is not None:
            del rows[written:]
            for key in added:
                del seen[key]
        outcomes.append(numbers if conflict is None else conflict)
    return GroupCommitRows(rows, outcomes)


class GroupCommitLog(ABC):
    """Base class of logs on disk: all writes go through one queue to one writer thread.

    Batches that arrive while the thread waits for the disk are committed together next. Callbacks of futures and
    ``on_slow_commit`` run in the writer thread, so they may append, but must not wait for the log.
    """

    record_every = 1.0  # seconds between records of the head
    header: LogHeader
    linger = 0.005  # seconds that deferrable appends are held back, to be written with others
    most_lingering = 64  # appends held back

    def __init__(
        self,
        *,
        slow_commit: float = 1.0,  # seconds after which a commit is reported as slow
        on_slow_commit: Callable[[float], None] | None = None,  # gets the seconds; default: log a warning
        key: bytes = b"",  # signs recorded heads; heads without its signature are refused; default: not signed
    ) -> None:
        self.times = _CommitTimes()
        self._slow_commit = slow_commit
        self._on_slow_commit = on_slow_commit or _warn_of_slow_commit
        self._jobs: list[_Append | _Call] = []
        self._urgent = False  # whether one of the jobs is not deferrable
        self._wake = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._closed = False
        self._broken: WriteError | None = None
        self._lease: LogLease | None = None
        self._head: LogHead | None = None  # the last row, while the lease is ours
        self._key = key
        self._recorded: LogHead | None = None  # the head recorded last
        self._recorded_at = 0.0  # time of that record

    def append(self, entries: Sequence[LogEntry], *, deferrable: bool = False) -> Future[list[int]]:
        done: Future[list[int]] = Future()
        done.set_running_or_notify_cancel()  # a future cannot be cancelled: its entries are written anyway
        self._submit(_Append(checked_log_entries(entries), done), deferrable=deferrable)
        return done

    def lease(self, owner: str, seconds: float, *, trusted: bool = False) -> LogLease:
        checked_log_text("owner", owner, 64)
        lease_end(0, seconds)
        return self._in_writer(lambda: self._leased(owner, seconds, trusted))

    def _leased(self, owner: str, seconds: float, trusted: bool) -> LogLease:
        if self._lease is None and not trusted:
            check_log_heads(self, self.recorded())  # before the lease replaces them
        self._lease, self._head = self._take_lease(owner, seconds)
        self._recorded, self._recorded_at = self._head, time.monotonic()
        return self._lease

    def recorded(self) -> list[LogHead]:
        found = [recorded_log_head(record, self._key) for record in self._records()]
        if self._key and not any(found) and self.head().seq > 0:
            raise DataError("the log has no recorded head signed with the key of head_key")
        return [head for head in found if head is not None]

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[LogRow]:
        self._must_be_open()
        return self._linked(*checked_log_range(after, limit))

    def _linked(self, begin: int, most: int) -> Iterator[LogRow]:
        before = LogHead(-1, NO_CHAIN)
        if begin > 0:
            first = self._page(begin - 1, 1)
            if not first:
                return
            if first[0].seq != begin - 1:
                raise DataError(f"row {begin - 1} of the log is missing")
            before = LogHead(begin - 1, first[0].chain)
        for page in self._pages(begin, most):
            try:
                before = check_links(page, before)
            except DataError:
                yield from linked_log_rows(page, before)  # the rows before the broken link, then the error
            yield from page

    def _pages(self, begin: int, most: int) -> Iterator[list[LogRow]]:
        """Yield up to ``most`` rows, from row ``begin`` on, in pages."""
        while page := self._page(begin, min(PAGE, most)):
            yield page
            begin, most = page[-1].seq + 1, most - len(page)

    def close(self) -> None:
        with self._wake:
            if self._closed:
                return
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
        self._let_go()

    @abstractmethod
    def _take_lease(self, owner: str, seconds: float) -> tuple[LogLease, LogHead]:
        """Take or renew the lease durably and record the head; raise `LeaseError` if another process holds it."""

    @abstractmethod
    def _records(self) -> list[str]:
        """Return the texts of the recorded heads; a text is empty if no head is recorded in its place."""

    @abstractmethod
    def _record(self, record: str) -> None:
        """Record the text of the head outside the rows, without a sync; ignore errors."""

    @abstractmethod
    def _insert(self, lease: LogLease, rows: Sequence[LogRow]) -> None:
        """Commit all rows or none.

        Raises `KnownKeyError` if the log has the kind and key of a row, and `FencedError` if another process has taken
        the lease; nothing is written then. Raises `WriteError` if storage fails; a ``definite`` one wrote nothing.
        """

    @abstractmethod
    def _known(self, keys: Sequence[Key]) -> dict[Key, tuple[int, bytes]]:
        """Return, by pair of kind and key, number and body of the rows in the log with one of ``keys``."""

    @abstractmethod
    def head(self) -> LogHead: ...

    @abstractmethod
    def find(self, kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]: ...

    @abstractmethod
    def _page(self, begin: int, most: int) -> list[LogRow]:
        """Return up to ``most`` rows, from row ``begin`` on."""

    @abstractmethod
    def _let_go(self) -> None:
        """Release the lease, if this log holds it, and close the connections."""

    def _in_writer(self, call: Callable[[], _Result]) -> _Result:
        """Run ``call`` in the writer thread, after all earlier appends; return its result."""
        done: Future[_Result] = Future()
        self._submit(_Call(call, done))
        return done.result()

    def _submit(self, job: _Append | _Call, *, deferrable: bool = False) -> None:
        with self._wake:
            self._must_be_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="riskroute-log", daemon=True)
                self._thread.start()
            self._jobs.append(job)
            urgent = not deferrable or len(self._jobs) >= self.most_lingering
            if len(self._jobs) == 1 or (urgent and not self._urgent):
                self._wake.notify()
            self._urgent |= urgent

    def _must_be_open(self) -> None:
        if self._closed:
            raise StateError("the log is closed")

    def _run(self) -> None:
        """Run jobs until the log is closed; commit all appends before the next call together."""
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._jobs or self._closed, self._until_record())
                if not self._jobs and self._closed:
                    return
                if self._jobs:
                    self._wake.wait_for(lambda: self._urgent or self._closed, self.linger)
                group = self._next_appends()
                call = self._jobs.pop(0) if self._jobs and not group else None
                self._urgent = bool(self._jobs)
            if isinstance(call, _Call):
                self._settle(call)
            elif group:
                self._commit(group)
            if self._head is not None and self._until_record() == 0.0:
                self._recorded, self._recorded_at = self._head, time.monotonic()
                self._record(log_head_record(self._head, self._key))

    def _until_record(self) -> float | None:
        """Return the seconds until the head is due to be recorded; None if it is recorded."""
        waited = time.monotonic() - self._recorded_at
        return None if self._head == self._recorded else max(self.record_every - waited, 0.0)

    def _next_appends(self) -> list[_Append]:
        group = []
        for job in self._jobs:
            if not isinstance(job, _Append):
                break
            group.append(job)
        del self._jobs[: len(group)]
        return group

    def _settle(self, job: _Call) -> None:
        try:
            job.done.set_result(self._attempted(job.call))
        except Exception as error:
            job.done.set_exception(error)

    def _attempted(self, call: Callable[[], _Result]) -> _Result:
        """Call the store, unless an earlier call failed with an unknown outcome."""
        if self._broken is not None:
            raise self._broken
        try:
            return call()
        except WriteError as error:
            if not error.definite:
                self._broken = error
            raise

    def _commit(self, group: list[_Append]) -> None:
        began = time.perf_counter()
        rows = 0
        outcomes: Sequence[list[int] | Exception]
        failure = None
        try:
            rows, outcomes = self._written([append.batch for append in group])
        except Exception as error:
            failure, outcomes = error, [error] * len(group)
        seconds = time.perf_counter() - began
        for append, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, list):
                append.done.set_result(outcome)
            else:
                append.done.set_exception(outcome)
        if failure is not None:
            self._fail_waiting(failure)
        if rows:
            self._note(seconds, rows)

    def _fail_waiting(self, failure: Exception) -> None:
        """Refuse all appends in the queue: they may depend on the appends that failed."""
        with self._wake:
            waiting = [job for job in self._jobs if isinstance(job, _Append)]
            self._jobs = [job for job in self._jobs if isinstance(job, _Call)]
        for append in waiting:
            append.done.set_exception(failure)

    def _written(self, batches: list[Batch]) -> tuple[int, Sequence[_Outcome]]:
        lease, head = self._lease, self._head
        if lease is None or head is None:
            raise LeaseError("appending needs the lease: call lease first")
        written = self._attempted(lambda: self._write(lease, head, batches))
        if written.rows:
            self._head = LogHead(written.rows[-1].seq, written.rows[-1].chain)
        return len(written.rows), written.outcomes

    def _write(self, lease: LogLease, head: LogHead, batches: Sequence[Batch]) -> GroupCommitRows:
        """Insert the rows of batches as if all keys were new, which most are; look keys up only on a conflict."""
        written = commit_rows(head, batches, {})
        if all(isinstance(outcome, list) for outcome in written.outcomes):
            with suppress(KnownKeyError):
                self._insert(lease, written.rows)
                return written
        keys = list({(entry.kind, entry.key) for batch in batches for entry in batch if entry.key})
        written = commit_rows(head, batches, self._known(keys))
        try:
            self._insert(lease, written.rows)
        except KnownKeyError:
            raise fenced_commit("another process") from None
        return written

    def _check_last_rows(self) -> None:
        for _ in self.read(max(self.head().seq - 2, -1)):
            pass  # reading checks the hash chain

    def _note(self, seconds: float, rows: int) -> None:
        times = self.times
        times.commits += 1
        times.rows += rows
        times.histogram.observe(seconds)
        times.longest = max(times.longest, seconds)
        if seconds > self._slow_commit:
            times.slow += 1
            try:
                self._on_slow_commit(seconds)
            except Exception:
                _LOGGER.exception("the report of a slow commit failed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def fenced_commit(owner: str) -> FencedError:
    """Return the error for a writer whose lease ``owner`` has taken over."""
    return FencedError(f"{owner!r} took over the lease of this log: nothing was written")


def held_commit_lease(owner: str) -> LeaseError:
    """Return the error for a process that requests a lease that ``owner`` holds."""
    return LeaseError(f"{owner!r} writes this log, and holds its lease")


def _warn_of_slow_commit(seconds: float) -> None:
    _LOGGER.warning("a commit of the log took %.2f s", seconds)
