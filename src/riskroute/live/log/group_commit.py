"""Base class of the logs on disk: one thread writes, and commits at once all that waits when it comes round."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import blake2b
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from riskroute.core.errors import DataError, InputError, StateError
from riskroute.live.log.interface import (
    NO_CHAIN,
    ConflictError,
    Entry,
    FencedError,
    Head,
    Lease,
    LeaseError,
    Row,
    Snapshot,
    WriteError,
    chained,
    check_links,
    checked_entries,
    checked_range,
    checked_text,
    lease_end,
    linked,
)

SLOW_COMMIT = 1.0
"""Seconds after which a commit is reported as slow, unless the log is told another limit."""

PAGE = 2000
"""Rows read at once."""

PATIENCE = 0.005
"""Seconds that entries which nobody waits for are kept, so that they are written with others."""

MANY = 64
"""So many appends that nobody waits for are written at once."""

SNAPSHOTS_KEPT = 2
"""Newest snapshots that a store keeps."""

_LOGGER = logging.getLogger("riskroute.live")

Key = tuple[str, str]
"""Kind and key of a row."""

Batch = tuple[Entry, ...]
Outcome = list[int] | StateError
Result = TypeVar("Result")


@dataclass
class CommitTimes:
    """How long commits of rows took, in seconds, since the log was opened."""

    commits: int = 0
    rows: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    slow: int = 0


class _Append(NamedTuple):
    batch: Batch
    done: Future[list[int]]


class _Call(NamedTuple):
    call: Callable[[], Any]
    done: Future[Any]


class NewRows(NamedTuple):
    """Rows to write for some batches, and what each batch gets: numbers of rows, or the error that refuses it."""

    rows: list[Row]
    outcomes: list[Outcome]


def new_rows(head: Head, batches: Sequence[Batch], known: Mapping[Key, tuple[int, bytes]]) -> NewRows:
    """What to write for batches after a head, each whole or not at all.

    ``known`` has number and body of the rows in the log whose kind and key occur in the batches.
    """
    rows: list[Row] = []
    outcomes: list[Outcome] = []
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
    return NewRows(rows, outcomes)


class GroupCommitLog(ABC):
    """Base class of logs that wait for a disk.

    Everything that writes goes through one queue to one thread. While it waits for the disk, more batches queue up;
    then it commits them all at once, so many that wait cost hardly more than one.

    Parameters
    ----------
    slow_commit : float
        Seconds after which a commit is reported as slow.
    on_slow_commit : callable, optional
        Called with the seconds of a slow commit. Without it, a warning is logged.

    Notes
    -----
    What is called when a commit was slow, and what was hung on the futures of appends, runs in the thread that writes:
    it may append, but must not wait for the log.
    """

    def __init__(
        self, *, slow_commit: float = SLOW_COMMIT, on_slow_commit: Callable[[float], None] | None = None
    ) -> None:
        self.times = CommitTimes()
        self._slow_commit = slow_commit
        self._on_slow_commit = on_slow_commit or _warn_of_slow_commit
        self._jobs: list[_Append | _Call] = []
        self._urgent = False  # whether anybody waits for one of the jobs
        self._wake = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._closed = False
        self._broken: WriteError | None = None
        self._lease: Lease | None = None
        self._head: Head | None = None  # the last row, while the lease is ours

    def append(self, entries: Sequence[Entry], *, patient: bool = False) -> Future[list[int]]:
        done: Future[list[int]] = Future()
        done.set_running_or_notify_cancel()  # what was appended is written, whether or not anybody waits for it
        self._submit(_Append(checked_entries(entries), done), patient=patient)
        return done

    def lease(self, owner: str, seconds: float) -> Lease:
        checked_text("owner", owner, 64)
        lease_end(0, seconds)
        return self._in_writer(lambda: self._leased(owner, seconds))

    def _leased(self, owner: str, seconds: float) -> Lease:
        self._lease, self._head = self._take_lease(owner, seconds)
        return self._lease

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Row]:
        self._must_be_open()
        return self._linked(*checked_range(after, limit))

    def _linked(self, begin: int, most: int) -> Iterator[Row]:
        before = Head(-1, NO_CHAIN)
        if begin > 0:
            first = self._page(begin - 1, 1)
            if not first:
                return
            if first[0].seq != begin - 1:
                raise DataError(f"row {begin - 1} of the log is missing")
            before = Head(begin - 1, first[0].chain)
        for page in self._pages(begin, most):
            try:
                before = check_links(page, before)
            except DataError:
                yield from linked(page, before)  # those before the one that does not fit, and then the error
            yield from page

    def _pages(self, begin: int, most: int) -> Iterator[list[Row]]:
        """At most so many rows from a number on, in pages."""
        while page := self._page(begin, min(PAGE, most)):
            yield page
            begin, most = page[-1].seq + 1, most - len(page)

    def snapshot(self, save: Snapshot | None = None) -> Snapshot | None:
        self._must_be_open()
        if save is None:
            fitting = (one for one, digest in self._snapshots() if digest == _digest(one.body))
            return next(fitting, None)
        if not self._in_writer(lambda: self._save(save, _digest(save.body))):
            raise InputError(f"snapshot must fit a row of the log, was of row {save.seq} with another hash")
        return save

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
    def _take_lease(self, owner: str, seconds: float) -> tuple[Lease, Head]:
        """Take or keep the lease, durably; the lease and the last row, or `LeaseError`."""

    @abstractmethod
    def _write(self, lease: Lease, head: Head, batches: Sequence[Batch]) -> NewRows:
        """Commit what `new_rows` makes of the batches; `FencedError` or `WriteError` if nothing could be written."""

    @abstractmethod
    def _page(self, begin: int, most: int) -> list[Row]:
        """At most so many rows, in sequence, with numbers of at least ``begin``."""

    @abstractmethod
    def _snapshots(self) -> Iterator[tuple[Snapshot, bytes]]:
        """Snapshots that fit a row, newest first, each with the hash of its body when it was saved.

        They are large: each is read when it is asked for.
        """

    @abstractmethod
    def _save(self, save: Snapshot, digest: bytes) -> bool:
        """Save a snapshot if it fits a row, and remove old ones; whether it fits."""

    @abstractmethod
    def _let_go(self) -> None:
        """Give the lease back, if it is ours, and close the connections."""

    def _in_writer(self, call: Callable[[], Result]) -> Result:
        """What a call returns that the writing thread makes, after all that was appended before."""
        done: Future[Result] = Future()
        self._submit(_Call(call, done))
        return done.result()

    def _submit(self, job: _Append | _Call, *, patient: bool = False) -> None:
        with self._wake:
            self._must_be_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="riskroute-log", daemon=True)
                self._thread.start()
            self._jobs.append(job)
            urgent = not patient or len(self._jobs) >= MANY
            if len(self._jobs) == 1 or (urgent and not self._urgent):
                self._wake.notify()
            self._urgent |= urgent

    def _must_be_open(self) -> None:
        if self._closed:
            raise StateError("the log is closed")

    def _run(self) -> None:
        """Do what waits, all appends up to the next call at once, until the log is closed."""
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    return
                self._wake.wait_for(lambda: self._urgent or self._closed, PATIENCE)
                group = self._next_appends()
                call = None if group else self._jobs.pop(0)
                self._urgent = bool(self._jobs)
            if isinstance(call, _Call):
                self._settle(call)
            else:
                self._commit(group)

    def _next_appends(self) -> list[_Append]:
        """Take the appends before the next call out of what waits."""
        group = []
        for job in self._jobs:
            if not isinstance(job, _Append):
                break
            group.append(job)
        del self._jobs[: len(group)]
        return group

    def _settle(self, job: _Call) -> None:
        """Make a call, and hand on what comes of it."""
        try:
            job.done.set_result(self._attempted(job.call))
        except Exception as error:
            job.done.set_exception(error)

    def _attempted(self, call: Callable[[], Result]) -> Result:
        """What a call to the store returns; after one that may or may not have written, no other is made."""
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
        """Refuse what waits too: it was appended by somebody who did not know, and may build on what failed."""
        with self._wake:
            waiting = [job for job in self._jobs if isinstance(job, _Append)]
            self._jobs = [job for job in self._jobs if isinstance(job, _Call)]
        for append in waiting:
            append.done.set_exception(failure)

    def _written(self, batches: list[Batch]) -> tuple[int, Sequence[Outcome]]:
        """Write batches; how many rows that made, and what each batch gets."""
        lease, head = self._lease, self._head
        if lease is None or head is None:
            raise LeaseError("appending needs the lease: call lease first")
        written = self._attempted(lambda: self._write(lease, head, batches))
        if written.rows:
            self._head = Head(written.rows[-1].seq, written.rows[-1].chain)
        return len(written.rows), written.outcomes

    def _note(self, seconds: float, rows: int) -> None:
        """Add a commit to the times, and report it if it was slow."""
        times = self.times
        times.commits += 1
        times.rows += rows
        times.seconds += seconds
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


def fenced(owner: str) -> FencedError:
    """What a writer is told whose lease somebody else took over."""
    return FencedError(f"{owner!r} took over the lease of this log: nothing was written")


def held(owner: str) -> LeaseError:
    """What is told to whoever asks for a lease that somebody else has."""
    return LeaseError(f"{owner!r} writes this log, and is not done")


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


def _warn_of_slow_commit(seconds: float) -> None:
    _LOGGER.warning("a commit of the log took %.2f s", seconds)
