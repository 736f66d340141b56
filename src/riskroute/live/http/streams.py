"""Server-sent events: the state after every change, and the events of the log; both are read once for all clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from riskroute.core.errors import RiskrouteError
from riskroute.core.text import one_line_text
from riskroute.live.background import BackgroundThread
from riskroute.live.http.views import encode_view, state_view, viewer_view
from riskroute.live.ledger import LOGGER
from riskroute.live.log.interface import log_row_events, log_row_kind
from riskroute.live.service import Service
from riskroute.live.state.events import PlannedEvent


class EventStreams:
    """Event streams of all clients, up to ``most``; one thread encodes the state and reads the log for all of them.

    The state is encoded once per change. Pages of the log are shared between streams, and a stream holds at most one
    other page. `Connections` closes a stream whose client does not read.
    """

    every = 0.2  # seconds between checks for changes
    heartbeat = 10.0  # seconds of silence before a comment: proxies close silent connections
    page_rows, page_bytes, pages = 50, 1 << 18, 16  # most rows and bytes of a page of the log, and most shared pages

    def __init__(self, service: Service, most: int) -> None:
        self._service, self.most = service, most
        self.count = 0
        self._thread = BackgroundThread("riskroute event streams")
        self._pages: dict[int, tuple[int, bytes]] = {}  # by row before the page: its last row, and its encoded events
        self._head, self._state = 0, b""
        self._mark: tuple[Any, ...] | None = None  # mark of the encoded state
        self._news = asyncio.Event()  # set and replaced when there is something new
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._news.set()
        self._thread.shutdown(wait=False)

    async def messages(self, by: str, after: int | None) -> AsyncIterator[bytes]:
        """Yield messages for the token named ``by``: states and, unless ``after`` is None, the events of later rows."""
        yield stream_message("viewer", viewer_view(self._service, by))
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._look())
        shown: tuple[Any, ...] | None = None
        while not self._closed:
            news = self._news
            parts: list[bytes] = []
            if after is not None and after < self._head:
                after, events = await self._page_after(after)
                parts += [events] * bool(events)
            if self._mark is not None and self._mark != shown:
                shown = self._mark
                parts.append(self._state)
            if parts:
                yield b"".join(parts)
                continue
            try:
                async with asyncio.timeout(self.heartbeat):
                    await news.wait()
            except TimeoutError:
                yield b": heartbeat\n\n"

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while self.count and not self._closed:
            mark, head = self._service.mark(), self._head
            with suppress(RiskrouteError):  # while the log cannot be read, the state reports it
                head = (await loop.run_in_executor(self._thread, self._service.log.head)).seq
            if mark != self._mark:
                self._state = await loop.run_in_executor(self._thread, self._encoded_state)
            if (mark, head) != (self._mark, self._head):
                self._mark, self._head = mark, head
                self._news.set()
                self._news = asyncio.Event()
            await asyncio.sleep(self.every)

    def _encoded_state(self) -> bytes:
        return stream_message("state", state_view(self._service))

    async def _page_after(self, after: int) -> tuple[int, bytes]:
        if (page := self._pages.get(after)) is not None:
            return page
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read_page, after)

    def _read_page(self, after: int) -> tuple[int, bytes]:
        """Return the number of the last row and the encoded events of the page after row ``after``."""
        if (page := self._pages.get(after)) is not None:
            return page
        last, parts, size = after, [], 0
        for row in self._service.log.read(after, self.page_rows):
            events = log_row_events(row)
            for number, event in enumerate(events, start=1):
                # Only the last event of a row has the row's number as id: a client with that id has the whole row.
                parts.append(
                    stream_message(log_row_kind(type(event)), event, row.seq if number == len(events) else None)
                )
                size += len(parts[-1])
            last = row.seq
            if size >= self.page_bytes:
                break
        if len(self._pages) >= self.pages:
            del self._pages[next(iter(self._pages))]
        page = self._pages[after] = last, b"".join(parts)
        return page


class EventStream(StreamingResponse):
    """A response that streams `EventStreams.messages`; it counts as open until its client disconnects."""

    def __init__(self, streams: EventStreams, by: str, after: int | None) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(streams.messages(by, after), 200, headers, "text/event-stream")
        self._streams = streams
        streams.count += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except RiskrouteError as error:  # the log cannot be read
            LOGGER.error("an event stream ended: %s", one_line_text(error))
        finally:
            self._streams.count -= 1


def stream_message(kind: str, value: Any, seq: int | None = None) -> bytes:
    r"""Encode one server-sent event; the state of the router in `PlannedEvent` events is omitted, since it is large.

    Examples
    --------
    >>> stream_message("state", {"orders": 1})
    b'event: state\ndata: {"orders":1}\n\n'
    """
    if isinstance(value, PlannedEvent):
        value = msgspec.to_builtins(value)
        del value["state"]
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"event: " + kind.encode() + b"\ndata: " + encode_view(value) + b"\n\n"
