"""Limits on open HTTP connections: how many there may be, and how long each may wait for its client."""

from __future__ import annotations

import asyncio
import resource

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connections:
    """Count open connections, and close those that have waited too long for their clients.

    A connection waits for its client while it is idle, has received an incomplete request, or has a response that the
    client does not read. Above ``most`` connections, a new one replaces the one that has waited longest.
    """

    seconds = 5.0  # longest wait for a client

    def __init__(self, most: int | None = None) -> None:
        if most is None:  # leave descriptors for log, snapshots, venues, workers and the control socket
            files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            most = 4_096 if files == resource.RLIM_INFINITY else min(max(files - 128, files // 2), 4_096)
        self.most = most
        self.count = 0
        self._waiting: dict[HttpToolsProtocol, float] = {}  # start of the wait, earliest first
        self._watched = False

    def open(self, connection: HttpToolsProtocol) -> None:
        """Count a new connection, which waits for its first request."""
        self.count += 1
        self.wait(connection)
        if self.count > self.most:
            self._abort(next(iter(self._waiting)))

    def close(self, connection: HttpToolsProtocol) -> None:
        """Stop counting a connection that has closed."""
        self.count -= 1
        self.resume(connection)

    def wait(self, connection: HttpToolsProtocol) -> None:
        """Record that a connection waits for its client from now on."""
        loop = connection.loop
        self._waiting.pop(connection, None)
        self._waiting[connection] = loop.time()
        if not self._watched:
            self._watched = True
            loop.call_later(self.seconds, self._look, loop)

    def resume(self, connection: HttpToolsProtocol) -> None:
        """Record that a connection no longer waits for its client."""
        self._waiting.pop(connection, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        # If the process was stopped, first read what clients have sent meanwhile.
        loop.call_later(0.1, self._close_late, loop, loop.time() - self.seconds)

    def _close_late(self, loop: asyncio.AbstractEventLoop, before: float) -> None:
        for connection, since in list(self._waiting.items()):
            if since > before:
                loop.call_later(max(since + self.seconds - loop.time(), 0.0), self._look, loop)
                return
            self._abort(connection)
        self._watched = False

    def _abort(self, connection: HttpToolsProtocol) -> None:
        self.resume(connection)
        connection.transport.abort()  # not `close`, which waits until the client has read everything
