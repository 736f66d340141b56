"""Halt and health over a unix socket, whose threads answer even if the HTTP service hangs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import TimeoutError as LateError
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread
from typing import Any

import msgspec

from riskroute.core.errors import RiskrouteError, StateError
from riskroute.core.records import Record
from riskroute.live.background import BackgroundThread
from riskroute.live.ledger import LOGGER
from riskroute.live.service import Service


class ControlRequest(Record, frozen=True):
    """A request on the control socket: ``halt`` is the reason for halting trading, or None to ask for the status."""

    halt: str | None = None


class ControlAnswer(Record, frozen=True):
    """The answer on the control socket: an error, or the status and, if trading is halted, the reason for the halt."""

    status: str = ""
    halted: str = ""
    error: str = ""


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Yield a short path of a socket, via its opened folder if necessary: the system limits it to about 107 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield str(path) if len(os.fsencode(path)) < 100 else f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class _Handler(StreamRequestHandler):
    timeout = 5.0  # seconds for each piece of the request, and for the response; a busy machine delays a halt
    lock_seconds, durable_seconds = 4.0, 10.0
    server: _Server

    def handle(self) -> None:
        try:
            asked = msgspec.json.decode(self.rfile.readline(4_096), type=ControlRequest)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return
        with suppress(OSError):  # the client has gone
            self.wfile.write(msgspec.json.encode(self._answer(asked)) + b"\n")

    def _answer(self, asked: ControlRequest) -> ControlAnswer:
        service = self.server.service
        late = "the engine does not return from a call: trading is halted as soon as it does"
        try:
            if asked.halt is not None:
                written = self.server.halts.submit(service.halt, asked.halt[:200], "command").result(self.lock_seconds)
                late = "trading is halted, but the log cannot be written in time"
                written.result(self.durable_seconds)
        except LateError:
            return ControlAnswer(error=late)
        except RiskrouteError as error:
            return ControlAnswer(error=str(error))
        return ControlAnswer(status=service.status, halted=service.engine.state.halted)


class _Server(ThreadingUnixStreamServer):
    """Server with a thread per client, so that no client waits for another."""

    daemon_threads, block_on_close, request_queue_size = True, False, 16

    def __init__(self, service: Service, path: Path) -> None:
        self.service, self._place = service, path
        super().__init__(str(path), _Handler)
        self.halts = BackgroundThread("riskroute control halts")  # a halt that is late is not given up

    def server_bind(self) -> None:
        new = self._place.with_name(f"{self._place.name}-new")
        new.unlink(missing_ok=True)
        with _short_path(new) as name:
            self.socket.bind(name)
        new.chmod(0o600)  # before anybody can connect
        new.rename(self._place)  # the holder of the lease owns the place: the socket of an earlier process is stale
        self.inode = self._place.stat().st_ino

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOGGER.exception("a request on the control socket failed")


@contextmanager
def control_socket(service: Service, path: Path) -> Iterator[str]:
    """Serve halt and health on a socket that only its owner can use; yield a message with the socket's path."""
    try:
        server = _Server(service, path)
    except OSError as error:  # trading does not depend on it
        yield f"no control socket: {path} cannot be created: {error.strerror or error}"
        return
    thread = Thread(target=server.serve_forever, name="riskroute control socket", daemon=True)
    thread.start()
    try:
        yield f"control socket: {path}"
    finally:
        server.shutdown()
        server.server_close()
        server.halts.shutdown(wait=False)
        with suppress(OSError):
            if path.stat().st_ino == server.inode:  # not the socket of a process that has taken over
                path.unlink()


def ask_control_socket(path: Path, halt: str | None = None, seconds: float = 15.0) -> ControlAnswer:
    """Ask the service at ``path`` for its status, or to halt trading; raise `StateError` if it does not answer."""
    with closing(socket.socket(socket.AF_UNIX)) as line:
        line.settimeout(seconds)
        try:
            with _short_path(path) as name:
                line.connect(name)
            line.sendall(msgspec.json.encode(ControlRequest(halt=halt)) + b"\n")
            with line.makefile("rb") as answers:
                found = msgspec.json.decode(answers.readline(), type=ControlAnswer)
        except (FileNotFoundError, ConnectionRefusedError):
            raise StateError(f"the service does not run: no process listens on {path}") from None
        except OSError as error:
            reason = error.strerror or error
            raise StateError(f"the service did not answer on {path} (limit {seconds:g} s): {reason}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise StateError(f"the service closed the connection on {path} without an answer") from None
    if found.error:
        raise StateError(found.error)
    return found
