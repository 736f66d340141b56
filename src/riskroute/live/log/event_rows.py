"""How events become rows of the log, and rows events again.

An order, an outcome, and whatever else must not be in the log twice has a row of its own, with a key. Other events that
are written together share a row: children that are sent together, reports that come together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import get_args

import msgspec

from riskroute.core.errors import DataError, one_line_error
from riskroute.live.log.group_commit import PAGE
from riskroute.live.log.interface import Entry, Log, Row
from riskroute.live.state.events import Accepted, AnyEvent, Settled, Shadowed

TOGETHER = "together"
"""Kind of a row with several events."""

MOST_TOGETHER = 256
"""Events that share a row, at most."""

Body = AnyEvent | list[AnyEvent]

_KINDS: dict[type, str] = {kind: kind.__name__.lower() for kind in get_args(AnyEvent)}
_KEYS: dict[type, Callable[[AnyEvent], str]] = {
    Accepted: lambda event: event.order.key,  # type: ignore[union-attr]  # an Accepted
    Settled: lambda event: event.outcome.parent,  # type: ignore[union-attr]  # a Settled
    Shadowed: lambda event: event.order.key,  # type: ignore[union-attr]  # a Shadowed
}
"""What must not be in the log twice, by kind of event."""

_ENCODER = msgspec.msgpack.Encoder()
_BODY: msgspec.msgpack.Decoder[Body] = msgspec.msgpack.Decoder(Body)
_BODIES: msgspec.msgpack.Decoder[list[Body]] = msgspec.msgpack.Decoder(list[Body])
_LIST = b"\xdd"  # what a list begins with in msgpack, before the number of its items


def event_kind(event: AnyEvent) -> str:
    """The kind of a row that has this event alone.

    Examples
    --------
    >>> from riskroute.live.state.events import Resumed
    >>> event_kind(Resumed(at=5, by="desk"))
    'resumed'
    """
    return _KINDS[type(event)]


def entries_of(events: Iterable[AnyEvent]) -> list[Entry]:
    """Entries for a log, with all events in their sequence.

    Examples
    --------
    >>> from riskroute.live.state.events import Resumed, Sent
    >>> events = [Sent(at=5, child="X-0-0"), Sent(at=6, child="Y-0-0")]
    >>> [(entry.kind, entry.key, entry.at) for entry in entries_of(events)]
    [('together', '', 6)]
    >>> [entry.kind for entry in entries_of([Resumed(at=7, by="desk")])]
    ['resumed']
    """
    entries: list[Entry] = []
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
            entries.append(Entry(_KINDS[type(event)], key_of(event), _ENCODER.encode(event), max(event.at, 0)))
    if some:
        entries.append(_shared(some))
    return entries


def _shared(events: list[AnyEvent]) -> Entry:
    last = events[-1]
    if len(events) == 1:
        return Entry(_KINDS[type(last)], "", _ENCODER.encode(last), max(last.at, 0))
    return Entry(TOGETHER, "", _ENCODER.encode(events), max(last.at, 0))


def row_events(row: Row) -> Sequence[AnyEvent]:
    """The events of a row; `DataError` names the row if its body cannot be read."""
    try:
        body = _BODY.decode(row.body)
    except msgspec.MsgspecError as error:
        raise DataError(f"row {row.seq} of the log cannot be read, it has no event: {one_line_error(error)}") from None
    return body if isinstance(body, list) else (body,)


def rows_events(rows: Sequence[Row]) -> Iterator[Sequence[AnyEvent]]:
    """The events of each of some rows, read together: the same as `row_events` of each, in a fraction of the time."""
    try:
        bodies = _BODIES.decode(b"".join([_LIST, len(rows).to_bytes(4), *[row.body for row in rows]]))
    except msgspec.MsgspecError:
        return map(row_events, rows)
    return (body if isinstance(body, list) else (body,) for body in bodies)


def pages_after(log: Log, after: int) -> Iterator[list[Row]]:
    """Rows of the log after a number, in pages."""
    rows = log.read(after)
    while page := list(islice(rows, PAGE)):
        yield page


def events_after(log: Log, after: int = 0) -> Iterator[tuple[Row, AnyEvent]]:
    """Every event in the rows of the log after a number, with its row."""
    for page in pages_after(log, after):
        for row, events in zip(page, rows_events(page), strict=True):
            for event in events:
                yield row, event
