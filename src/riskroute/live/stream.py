"""Server-sent events: the state whenever it has changed, and the rows of the log as they become durable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from riskroute.live.http import Call
from riskroute.live.log.event_rows import event_kind, row_events
from riskroute.live.service import Service
from riskroute.live.state.events import Planned
from riskroute.live.views import state_view, viewer_view

EVERY = 0.2
"""Seconds between two looks at the state."""

QUIET = 10.0
"""After so many seconds without news a comment is sent, so that nobody takes the line for dead."""

MOST_ROWS = 500
"""Rows of the log in one look, at most."""


def event_stream(call: Call) -> Response:
    """Answer with events until the client leaves.

    ``viewer`` comes first and says what the token is good for; ``state`` comes at once and after every change, at most
    five times a second. With ``?after=SEQ``, or a header Last-Event-ID, the events in the rows of the log after that
    number come too, each by its kind; the last one of a row has its number as id.
    """
    asked = call.request.query_params.get("after", call.request.headers.get("last-event-id"))
    after: int | None = None
    if asked is not None:
        if not asked.isdigit() or len(asked) > 18:
            raise HTTPException(422, "after must be the number of a row of the log, was not")
        after = int(asked)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(call.service, call.by, after), 200, headers, "text/event-stream")


async def _events(service: Service, by: str, after: int | None) -> AsyncIterator[bytes]:
    yield message("viewer", viewer_view(service, by))
    loop, shown, quiet = asyncio.get_running_loop(), None, 0.0
    while not service.closing:
        news = []
        if after is not None:
            rows = await loop.run_in_executor(None, _rows, service, after)
            news += [one for seq, events in rows for one in _row_messages(seq, events)]
            after = rows[-1][0] if rows else after
        mark = service.mark()
        if mark != shown:
            shown = mark
            view = await loop.run_in_executor(None, state_view, service)
            news.append(message("state", view))
        if news:
            quiet = 0.0
            yield b"".join(news)
        elif (quiet := quiet + EVERY) >= QUIET:
            quiet = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(EVERY)


def _rows(service: Service, after: int) -> list[tuple[int, list[tuple[str, Any]]]]:
    """Rows of the log: their events as plain values, without the states of routers, which are large."""
    found = []
    for row in service.log.read(after, MOST_ROWS):
        events = []
        for event in row_events(row):
            body = msgspec.to_builtins(event)
            if isinstance(event, Planned):
                del body["state"]
            events.append((event_kind(event), body))
        found.append((row.seq, events))
    return found


def _row_messages(seq: int, events: list[tuple[str, Any]]) -> Iterator[bytes]:
    """The events of a row; the last has its number, so that who comes back with that number has seen all of them."""
    for number, (kind, body) in enumerate(events, start=1):
        yield message(kind, body, seq if number == len(events) else None)


def message(kind: str, value: Any, seq: int | None = None) -> bytes:
    r"""One event, as it goes over the line.

    Examples
    --------
    >>> message("state", {"orders": 1})
    b'event: state\ndata: {"orders":1}\n\n'
    """
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
