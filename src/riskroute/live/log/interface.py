"""The event log: its interface, its hash chain and head, and the encoding of events as rows.

A log is an append-only sequence of rows. Row 0 is the header. Every row has a hash of its content and of the previous
row's hash, so a changed, removed or moved row is detected when the log is read. The head (number and hash of the last
row) is also recorded outside the rows, so rows missing at the end are detected too. `SqliteLog` and `PostgresLog`
survive a crash.

Events that must not be in the log twice have rows of their own, with a key. Other events written together share a row.
"""

from __future__ import annotations

import hmac
import math
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from types import TracebackType
from typing import Protocol, Self, get_args

import msgspec

from riskroute.core.errors import DataError, InputError, LeaseError, WriteError
from riskroute.core.provenance import machine_type, provenance_versions
from riskroute.core.records import decode_record, encode_record
from riskroute.core.text import one_line_text, shown
from riskroute.core.validation import real_number, whole_number
from riskroute.live.state.events import AcceptedEvent, AnyEvent, SettledEvent, ShadowedEvent

FORMAT = 3  # version of logs and their events; logs of any other version are refused
NO_CHAIN = bytes(16)  # the hash before row 0
PAGE = 2000  # rows read at once
LARGEST_BODY = 1 << 24  # bytes
MOST_TOGETHER = 256  # events that share a row
_LATEST = 2**63 - 1  # the latest time of an entry, and the end of a lease that does not expire
_FIXED = struct.Struct(">qqII")  # seq, at, and the lengths of kind and key


def public_log_message(error: BaseException) -> str:
    """Return a message about an error of the log that names no paths, hosts or users, for clients."""
    if isinstance(error, WriteError):
        return f"the log cannot be written: {error.cause}"
    if isinstance(error, LeaseError):
        return "the log cannot be written: another router writes it"
    return "the log cannot be written or read"


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry to append, at a time (ns since 1970); no two rows have the same kind and the same non-empty key."""

    kind: str
    key: str
    body: bytes
    at: int


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """An entry in the log with its number ``seq`` and the hash ``chain`` of its content and the previous row's hash."""

    seq: int
    at: int
    kind: str
    key: str
    body: bytes
    chain: bytes


class LogHead(msgspec.Struct, frozen=True):
    """Number and hash of the last row."""

    seq: int
    chain: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.chain.hex()}"


class LogLease(msgspec.Struct, frozen=True):
    """The exclusive right to write: its owner, its term (the fencing token), and its end in nanoseconds since 1970."""

    owner: str
    term: int
    until: int


class LogHeader(msgspec.Struct, frozen=True):
    """The body of row 0; decisions can be verified on a machine with the same ``machine`` and ``versions``."""

    format: int
    stream: str
    machine: str
    versions: dict[str, str]


class Log(Protocol):
    """A durable sequence of rows with one writer at a time; as a context manager, it closes itself at the end."""

    @property
    def header(self) -> LogHeader:
        """The content of row 0."""

    def append(self, entries: Sequence[LogEntry], *, deferrable: bool = False) -> Future[list[int]]:
        """Write all entries or none; the future returns the numbers of their rows once they are durable.

        A ``deferrable`` append may be written a few milliseconds later, together with others. Appends are written in
        the order of the calls. An entry whose kind and key are already in the log is not written again; its number is
        that of the old row. The future raises `ConflictError` if the bodies differ, `FencedError` if another process
        took over the lease, `LeaseError` if the lease was never taken, `WriteError` if storage fails. Any error except
        a conflict also fails the appends that wait to be written.
        """

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[LogRow]:
        """Yield up to ``limit`` rows with numbers above ``after``; -1 includes the header.

        Raises `DataError` where the hash chain is broken; the error names the row.
        """

    def head(self) -> LogHead:
        """Return number and hash of the last durable row."""

    def recorded(self) -> list[LogHead]:
        """Return the heads recorded outside the rows.

        Raises `DataError` for a head that cannot be read and, if the log has a key, for a head that is not signed with
        it, and for a log with entries but without a recorded head.
        """

    def find(self, kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]:
        """Return, by key, the durable rows whose kind is in ``kinds`` and whose key is in ``keys``."""

    def lease(self, owner: str, seconds: float, *, trusted: bool = False) -> LogLease:
        """Take or renew the lease for ``seconds``; an infinite lease ends when the log is closed or the process ends.

        Unless ``trusted``, raises `DataError` if the log lacks the row of a recorded head or has another hash there.
        Raises `LeaseError` while another running process holds an unexpired lease. The holder of an expired lease may
        write until another process takes the lease.
        """

    def close(self) -> None:
        """Write all waiting appends, release the lease, and close files and connections."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


# the hash chain


def chained(previous: bytes, seq: int, entry: LogEntry) -> LogRow:
    """Return an entry as row ``seq``; its hash is BLAKE2b of the previous row's hash and of its own content."""
    kind, key = entry.kind.encode(), entry.key.encode()
    fixed = _FIXED.pack(seq, entry.at, len(kind), len(key))
    chain = blake2b(previous + fixed + kind + key + entry.body, digest_size=16).digest()
    return LogRow(seq, entry.at, entry.kind, entry.key, entry.body, chain)


def linked_log_rows(rows: Iterable[LogRow], previous: LogHead) -> Iterator[LogRow]:
    """Yield rows whose numbers and hashes continue from ``previous``; raise `DataError` at the first that does not."""
    for row in rows:
        previous = check_links((row,), previous)
        yield row


def check_links(rows: Sequence[LogRow], previous: LogHead) -> LogHead:
    """Check that numbers and hashes of rows continue from ``previous``; return the new head, or raise `DataError`.

    This computes the hashes of `chained` without a call per row: a router may read a million rows when it starts.
    """
    seq, chain = previous.seq, previous.chain
    pack, kinds = _FIXED.pack, dict[str, bytes]()
    for row in rows:
        seq += 1
        if row.seq != seq:
            raise DataError(f"row {seq} of the log is missing: the next row has number {row.seq}")
        kind = kinds.get(row.kind)
        if kind is None:
            kind = kinds[row.kind] = row.kind.encode()
        key = row.key.encode()
        fixed = pack(seq, row.at, len(kind), len(key))
        chain = blake2b(chain + fixed + kind + key + row.body, digest_size=16).digest()
        if row.chain != chain:
            raise DataError(f"row {seq} of the log was changed, or the row before it: its hash does not fit")
    return LogHead(seq, chain)


def verify_log_chain(log: Log, *, trusted: bool = False) -> LogHead:
    """Check the hash chain of a log and, unless ``trusted``, its recorded heads; return its head.

    Raises `DataError` if rows were changed or are missing; the error names the first such row.
    """
    if not trusted:
        check_log_heads(log, log.recorded())
    end = log.head()
    last = LogHead(-1, NO_CHAIN)
    for row in log.read(-1, end.seq + 1):
        last = LogHead(row.seq, row.chain)
    if last != end:
        raise DataError(f"the log must end with row {end.seq}, ended with row {last.seq}")
    return end


def check_log_heads(log: Log, heads: Iterable[LogHead]) -> None:
    """Check that a log has the row of each recorded head, with the same hash; raise `DataError` otherwise."""
    for head in heads:
        end = log.head().seq
        if end < head.seq:
            raise DataError(
                f"the log ends at row {end:,}, but its head was recorded at row {head.seq:,}: "
                f"{head.seq - end:,} {'row is' if head.seq == end + 1 else 'rows are'} missing"
            )
        if next(log.read(head.seq - 1, 1)).chain != head.chain:
            raise DataError(f"row {head.seq:,} of the log has another hash than the recorded head: rows were rewritten")


def log_head_record(head: LogHead, key: bytes) -> str:
    """Return a head as text, with a signature if ``key`` is not empty, and a checksum that detects partial writes."""
    signature = hmac.digest(key, str(head).encode(), "sha256").hex() if key else "unsigned"
    return f"{head} {signature} {_checksum(f'{head} {signature}')}"


def recorded_log_head(record: str, key: bytes) -> LogHead | None:
    """Return the head in a record; None if the record is incomplete. Raises `DataError` if ``key`` did not sign it."""
    signed, _, checksum = record.strip().rpartition(" ")
    if checksum != _checksum(signed):
        return None
    try:
        head = parse_log_head(signed.partition(" ")[0])
    except InputError as error:
        raise DataError(f"the recorded head of the log cannot be read: {error}") from None
    if key and not hmac.compare_digest(record.strip().encode(), log_head_record(head, key).encode()):
        raise DataError("the recorded head of the log is not signed with the key of head_key")
    return head


def parse_log_head(text: str) -> LogHead:
    """Return the head that ``text`` (NUMBER:HASH) describes."""
    found = re.fullmatch("([0-9]{1,18}):([0-9a-f]{32})", text)
    if found is None:
        raise InputError(f"head must be NUMBER:HASH or HASH of a row, was {shown(text)}")
    return LogHead(int(found[1]), bytes.fromhex(found[2]))


def _checksum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def log_header_row(stream: str) -> LogRow:
    """Return row 0 of a new log."""
    header = LogHeader(FORMAT, stream, machine_type(), provenance_versions())
    return chained(NO_CHAIN, 0, LogEntry("header", "", msgspec.json.encode(header), time.time_ns()))


def log_header_of(row: LogRow, where: str) -> LogHeader:
    """Decode row 0 of the log named ``where``; raise `DataError` if it is no header, or of another format."""
    try:
        first = msgspec.json.decode(row.body, type=dict[str, msgspec.Raw])
        form = msgspec.json.decode(first["format"], type=int)
    except (msgspec.MsgspecError, KeyError):
        raise DataError(f"{where} is no riskroute log: row 0 is no header") from None
    check_log_format(form, where)
    try:
        return msgspec.json.decode(row.body, type=LogHeader)
    except msgspec.MsgspecError as error:
        raise DataError(f"{where} has a header that cannot be read: {error}") from None


def check_log_format(form: int, where: str) -> None:
    """Raise `DataError` unless a log has format `FORMAT`, the only one whose events can be decoded."""
    if form != FORMAT:
        age, advice = ("newer", "use a newer riskroute") if form > FORMAT else ("older", "start a new log")
        raise DataError(f"{where} has format {form}, {age} than {FORMAT}, the only one this version reads: {advice}")


# arguments of all stores


def checked_log_entries(entries: Sequence[LogEntry]) -> tuple[LogEntry, ...]:
    """Return ``entries`` if every kind of log can store them; raise `InputError` otherwise."""
    for entry in entries:
        if not isinstance(entry, LogEntry):
            raise InputError(f"entries must be of type LogEntry, was {shown(entry)}")
        if not (isinstance(entry.kind, str) and _is_fine_kind(entry.kind)):
            checked_log_text("kind", entry.kind, 64)
            raise InputError("kind must not be 'header', which is row 0")
        if entry.key != "":
            checked_log_text("key", entry.key, 512)
        if not isinstance(entry.body, bytes):
            raise InputError(f"body must be bytes, was {shown(entry.body)}")
        if len(entry.body) > LARGEST_BODY:
            raise InputError(f"body must have at most {LARGEST_BODY:,} bytes, had {len(entry.body):,}")
        if not (type(entry.at) is int and 0 <= entry.at <= _LATEST):
            whole_number("at", entry.at, minimum=0, maximum=_LATEST)
    return tuple(entries)


@lru_cache(256)
def _is_fine_kind(kind: str) -> bool:
    return bool(checked_log_text("kind", kind, 64)) and kind != "header"


def checked_log_text(field: str, text: str, longest: int) -> str:
    """Return ``text`` if every kind of log can store it; raise `InputError` otherwise."""
    expected = f"{field} must be a text of 1 to {longest} characters"
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        raise InputError(f"{expected}, was {shown(text)}")
    if "\0" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise InputError(f"{expected}, none of them NUL or half of a surrogate pair, was {shown(text)}")
    return text


def checked_log_range(after: int, limit: int | None) -> tuple[int, int]:
    """Return the number of the first row to read, and the maximum number of rows."""
    begin = whole_number("after", after, minimum=-1, maximum=_LATEST - 1) + 1
    return begin, _LATEST if limit is None else whole_number("limit", limit, minimum=0, maximum=_LATEST)


def lease_end(now: int, seconds: float) -> int:
    """Return when a lease of ``seconds`` that begins at ``now`` expires; one of more than a century never expires."""
    length = math.inf if seconds == math.inf else real_number("seconds", seconds, minimum=0)
    return _LATEST if length > 100 * 365.25 * 86_400.0 else now + round(length * 1e9)


# events as rows

_Body = AnyEvent | list[AnyEvent]
_KINDS: dict[type, str] = {kind: kind.__struct_config__.tag for kind in get_args(AnyEvent)}
_KEYS: dict[type, Callable[[AnyEvent], str]] = {  # events that must not be in the log twice
    AcceptedEvent: lambda event: event.order.key,  # type: ignore[union-attr]  # an Accepted
    SettledEvent: lambda event: event.outcome.parent,  # type: ignore[union-attr]  # a Settled
    ShadowedEvent: lambda event: event.order.key,  # type: ignore[union-attr]  # a Shadowed
}


def log_row_kind(event: type) -> str:
    """Return the kind of a row that holds a single event of this type."""
    return _KINDS[event]


def log_entries_of(events: Iterable[AnyEvent]) -> list[LogEntry]:
    """Encode events as entries, in the same order; several events without a key may share an entry.

    Examples
    --------
    >>> from riskroute.live.state.events import ResumedEvent, SentEvent
    >>> events = [SentEvent(at=5, child="X-0-0"), SentEvent(at=6, child="Y-0-0")]
    >>> [(entry.kind, entry.key, entry.at) for entry in log_entries_of(events)]
    [('together', '', 6)]
    >>> [entry.kind for entry in log_entries_of([ResumedEvent(at=7, by="desk")])]
    ['resumed']
    """
    entries: list[LogEntry] = []
    some: list[AnyEvent] = []
    for event in events:
        key_of = _KEYS.get(type(event))
        if key_of is None:
            some.append(event)
            if len(some) < MOST_TOGETHER:
                continue
        if some:
            entries.append(_shared(some))
            some = []
        if key_of is not None:
            entries.append(LogEntry(_KINDS[type(event)], key_of(event), encode_record(event), max(event.at, 0)))
    if some:
        entries.append(_shared(some))
    return entries


def _shared(events: list[AnyEvent]) -> LogEntry:
    last = events[-1]
    if len(events) == 1:
        return LogEntry(_KINDS[type(last)], "", encode_record(last), max(last.at, 0))
    return LogEntry("together", "", encode_record(events), max(last.at, 0))


def log_row_events(row: LogRow) -> Sequence[AnyEvent]:
    """Decode the events of a row; raise `DataError` if its body cannot be read."""
    try:
        body: _Body = decode_record(row.body, _Body)  # type: ignore[arg-type]  # a union
    except msgspec.MsgspecError as error:
        raise DataError(f"row {row.seq} of the log cannot be decoded as an event: {one_line_text(error)}") from None
    return body if isinstance(body, list) else (body,)


def log_rows_events(rows: Sequence[LogRow]) -> Iterator[Sequence[AnyEvent]]:
    """Decode the events of several rows at once, several times faster than `log_row_events` for each row."""
    try:
        # In msgpack, a list is this byte, the number of its items, and the items.
        bodies = msgspec.msgpack.decode(
            b"".join([b"\xdd", len(rows).to_bytes(4), *[row.body for row in rows]]), type=list[_Body]
        )
    except msgspec.MsgspecError:
        return map(log_row_events, rows)
    return (body if isinstance(body, list) else (body,) for body in bodies)


def log_pages_after(log: Log, after: int, until: int | None = None) -> Iterator[list[LogRow]]:
    """Yield the rows after number ``after``, up to ``until``, in pages."""
    rows = log.read(after, None if until is None else max(until - after, 0))
    while page := list(islice(rows, PAGE)):
        yield page


def log_events_after(log: Log, after: int = 0, until: int | None = None) -> Iterator[tuple[LogRow, AnyEvent]]:
    """Yield every event in the rows after number ``after``, up to ``until``, with its row."""
    for page in log_pages_after(log, after, until):
        for row, events in zip(page, log_rows_events(page), strict=True):
            for event in events:
                yield row, event
