"""The log of the live router: what all stores of it promise.

A log is a sequence of rows that only grows. Row 0 is the header; every row carries a hash of itself and of the row
before it, so a row that was changed, removed or put elsewhere is found when it is read. `MemoryLog` is the definition,
`SqliteLog` and `PostgresLog` are the stores that survive a crash.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache
from hashlib import blake2b
from types import TracebackType
from typing import Protocol, Self

import msgspec

from riskroute.core.errors import DataError, InputError, StateError, shown
from riskroute.core.runtime import machine_type, provenance_versions
from riskroute.core.validation import real_number, whole_number

FORMAT = 1
"""Version of what a log looks like in its store; a log of a newer version is refused."""

HEADER = "header"
"""Kind of row 0, and of no other."""

LONGEST_KIND, LONGEST_KEY, LARGEST_BODY = 64, 512, 1 << 24
"""Characters of a kind and of a key, and bytes of a body, at most."""

LATEST = 2**63 - 1
"""End of a lease that does not run out, in nanoseconds since 1970; also the latest time an entry may have."""

NO_CHAIN = bytes(16)
"""The hash before row 0."""

_CENTURY = 100 * 365.25 * 86_400.0
_FIXED = struct.Struct(">qqII")  # seq, at, and the lengths of kind and key


class ConflictError(StateError):
    """An entry has the kind and key of a row in the log, and another body."""

    def __init__(self, kind: str, key: str, seq: int) -> None:
        super().__init__(f"key {shown(key)} of {kind} was used before, in row {seq}, with another body")
        self.kind, self.key, self.seq = kind, key, seq


class LeaseError(StateError):
    """Somebody else writes this log, or its lease was not taken."""


class FencedError(LeaseError):
    """Somebody else took the lease over: nothing was written."""


class WriteError(StateError):
    """The store could not write, because the disk is full, say.

    ``definite`` says whether it is certain that nothing was written. If it is not, only reading the log again tells.
    ``cause`` says in a few words why, and nothing of paths, hosts or users: clients may be told.
    """

    def __init__(self, message: str, *, definite: bool, cause: str = "its store failed") -> None:
        super().__init__(message)
        self.definite, self.cause = definite, cause


def told_outside(error: BaseException) -> str:
    """What clients are told of an error of a log: no paths, no hosts, no users."""
    if isinstance(error, WriteError):
        return f"the log cannot be written: {error.cause}"
    if isinstance(error, LeaseError):
        return "the log cannot be written: another router writes it"
    return "the log cannot be written or read"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What is appended.

    Attributes
    ----------
    kind, key : str
        No two rows have the same kind and key. An empty key is none: it may occur any number of times.
    body : bytes
        What the entry says, in any encoding.
    at : int
        When, in nanoseconds since 1970.
    """

    kind: str
    key: str
    body: bytes
    at: int


class Row(msgspec.Struct, frozen=True, gc=False):
    """An entry in the log: its number, and ``chain``, the hash of the row before it and of itself."""

    seq: int
    at: int
    kind: str
    key: str
    body: bytes
    chain: bytes


class Head(msgspec.Struct, frozen=True):
    """Number and hash of the last row."""

    seq: int
    chain: bytes


class Snapshot(msgspec.Struct, frozen=True):
    """The state after row ``seq``, whose hash is ``chain``, in any encoding."""

    seq: int
    chain: bytes
    body: bytes


class Lease(msgspec.Struct, frozen=True):
    """The right to write: whose it is, the how-manieth of this log, and when it runs out (ns since 1970)."""

    owner: str
    term: int
    until: int


class Header(msgspec.Struct, frozen=True):
    """The body of row 0: what the log is, and what it was begun with.

    Decisions can be computed again, and compared, where ``machine`` and ``versions`` are the same.
    """

    format: int
    stream: str
    machine: str
    versions: dict[str, str]


class Log(Protocol):
    """Rows in a durable sequence, written by one at a time. A log is also a context manager that closes it."""

    @property
    def header(self) -> Header:
        """What row 0 says."""
        ...

    def append(self, entries: Sequence[Entry], *, patient: bool = False) -> Future[list[int]]:
        """Write entries, all of them or none; the numbers of their rows come when they are durable.

        ``patient`` says that nobody waits for them: they may be written a few milliseconds later, with others.

        Calls take effect in their sequence. An entry whose kind and key are in the log already is not written again:
        it has the number of the old row. The result is `ConflictError` if the body is another one, `FencedError` if
        somebody else took over the lease, `LeaseError` if it was never taken, `WriteError` if the store fails. But for
        a conflict, which is one batch's own, all that waits to be written then fails too.
        """
        ...

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Row]:
        """Rows with numbers above ``after``, at most ``limit`` of them; -1 includes the header.

        Raises `DataError`, which names the row, where a row does not follow from the one before it.
        """
        ...

    def head(self) -> Head:
        """Number and hash of the last durable row."""
        ...

    def snapshot(self, save: Snapshot | None = None) -> Snapshot | None:
        """Save a snapshot and return it; without one, return the newest that fits the rows, or None."""
        ...

    def lease(self, owner: str, seconds: float) -> Lease:
        """Become the only writer, or stay it: call again before ``seconds`` are over.

        The lease is somebody else's, which is a `LeaseError`, while they live and it has not run out. Who holds a lease
        that has run out may write until somebody else takes it. Infinite ``seconds`` hold until `close`, or until the
        process ends.
        """
        ...

    def close(self) -> None:
        """Write what was appended, give the lease back, and let go of the store."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def chained(previous: bytes, seq: int, entry: Entry) -> Row:
    """An entry as the row after the one whose hash is ``previous``."""
    return Row(seq, entry.at, entry.kind, entry.key, entry.body, row_hash(previous, seq, entry))


def row_hash(previous: bytes, seq: int, entry: Entry | Row) -> bytes:
    """BLAKE2b, 16 bytes, of the hash of the row before and of everything in this one."""
    kind, key = entry.kind.encode(), entry.key.encode()
    fixed = _FIXED.pack(seq, entry.at, len(kind), len(key))
    return blake2b(previous + fixed + kind + key + entry.body, digest_size=16).digest()


def linked(rows: Iterable[Row], previous: Head) -> Iterator[Row]:
    """The same rows, each after the check that it follows from the one before; `DataError` where one does not."""
    for row in rows:
        previous = check_links((row,), previous)
        yield row


def check_links(rows: Sequence[Row], previous: Head) -> Head:
    """Number and hash of the last of some rows, each of which must follow from the one before: `DataError` otherwise.

    The same as `row_hash` of each, without a call for each: a million rows are read when a router starts.
    """
    seq, chain = previous.seq, previous.chain
    pack, kinds = _FIXED.pack, dict[str, bytes]()
    for row in rows:
        seq += 1
        if row.seq != seq:
            raise DataError(f"row {seq} of the log is missing: the next one has the number {row.seq}")
        kind = kinds.get(row.kind)
        if kind is None:
            kind = kinds[row.kind] = row.kind.encode()
        key = row.key.encode()
        fixed = pack(seq, row.at, len(kind), len(key))
        chain = blake2b(chain + fixed + kind + key + row.body, digest_size=16).digest()
        if row.chain != chain:
            raise DataError(f"row {seq} of the log was changed, or the row before it: its hash does not fit")
    return Head(seq, chain)


def verify_chain(log: Log) -> Head:
    """Read all of a log, from the header on, and return its head; `DataError` names the first row that does not fit.

    Rows cut off at the end leave a chain that fits: only who knows the head, from a backup say, can notice.
    """
    end = log.head()
    last = Head(-1, NO_CHAIN)
    for row in log.read(-1, end.seq + 1):
        last = Head(row.seq, row.chain)
    if last != end:
        raise DataError(f"the log must end with row {end.seq}, ended with row {last.seq}")
    return end


def header_row(stream: str) -> Row:
    """Row 0 of a new log."""
    header = Header(FORMAT, stream, machine_type(), provenance_versions())
    return chained(NO_CHAIN, 0, Entry(HEADER, "", msgspec.json.encode(header), time.time_ns()))


def header_of(row: Row, where: str) -> Header:
    """What row 0 says; `DataError` if it is none, or of a newer format."""
    try:
        first = msgspec.json.decode(row.body, type=dict[str, msgspec.Raw])
        form = msgspec.json.decode(first["format"], type=int)
    except (msgspec.MsgspecError, KeyError):
        raise DataError(f"{where} is no log of riskroute: row 0 is no header") from None
    if form > FORMAT:
        raise DataError(f"{where} has format {form}, newer than {FORMAT}: it needs a newer riskroute")
    try:
        return msgspec.json.decode(row.body, type=Header)
    except msgspec.MsgspecError as error:
        raise DataError(f"{where} has a header that cannot be read: {error}") from None


def checked_entries(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries, if a log can hold them; `InputError` otherwise."""
    for entry in entries:
        if not isinstance(entry, Entry):
            raise InputError(f"entries must be of type Entry, was {shown(entry)}")
        if not (isinstance(entry.kind, str) and _is_fine_kind(entry.kind)):
            checked_text("kind", entry.kind, LONGEST_KIND)
            raise InputError(f"kind must not be {HEADER!r}, which is row 0")
        if entry.key != "":
            checked_text("key", entry.key, LONGEST_KEY)
        if not isinstance(entry.body, bytes):
            raise InputError(f"body must be bytes, was {shown(entry.body)}")
        if len(entry.body) > LARGEST_BODY:
            raise InputError(f"body must have at most {LARGEST_BODY:,} bytes, had {len(entry.body):,}")
        if not (type(entry.at) is int and 0 <= entry.at <= LATEST):
            whole_number("at", entry.at, minimum=0, maximum=LATEST)
    return tuple(entries)


@lru_cache(256)
def _is_fine_kind(kind: str) -> bool:
    """Whether entries may be of a kind: there are few, and a million entries."""
    return bool(checked_text("kind", kind, LONGEST_KIND)) and kind != HEADER


def checked_text(field: str, text: str, longest: int) -> str:
    """The text, if every store can hold it."""
    expected = f"{field} must be a text of 1 to {longest} characters"
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        raise InputError(f"{expected}, was {shown(text)}")
    if "\0" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise InputError(f"{expected}, none of them NUL or half of a pair, was {shown(text)}")
    return text


def checked_range(after: int, limit: int | None) -> tuple[int, int]:
    """First row and number of rows, at most, that a reader asked for."""
    begin = whole_number("after", after, minimum=-1, maximum=LATEST - 1) + 1
    return begin, LATEST if limit is None else whole_number("limit", limit, minimum=0, maximum=LATEST)


def lease_end(now: int, seconds: float) -> int:
    """When a lease that begins now (ns since 1970) runs out."""
    length = math.inf if seconds == math.inf else real_number("seconds", seconds, minimum=0)
    return LATEST if length > _CENTURY else now + round(length * 1e9)
