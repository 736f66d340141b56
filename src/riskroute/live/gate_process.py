"""The process of a gate, as the service starts and ends it, and the sockets on which it listens."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from riskroute.live.config import LiveConfig
from riskroute.live.gate_frames import GateConfig, GateToken
from riskroute.live.order_terms import order_terms
from riskroute.live.service import LOGGER

BACKLOG = 2048
"""Clients that may wait until they are accepted, at most."""

END_SECONDS = 1.0
"""A gate that was let go has so long to end, before it is killed."""

_OURS = {signal.SIGINT, signal.SIGTERM} | ({signal.SIGUSR1} if hasattr(signal, "SIGUSR1") else set())


def gate_possible() -> bool:
    """Whether there can be a gate here."""
    return sys.platform == "linux" and hasattr(socket, "SOCK_SEQPACKET") and hasattr(socket, "send_fds")


def gate_config(config: LiveConfig) -> GateConfig:
    """What a gate must know."""
    tokens = {name: GateToken(hash=one.hash, scopes=tuple(one.scopes)) for name, one in config.tokens.items()}
    return GateConfig(tokens=tokens, body_bytes=config.body_bytes, terms=order_terms(config))


class GateProcess:
    """A gate that was started and waits for its configuration.

    Signals for the whole group of processes are not for it: it ends when its sockets are closed, or when it is told.
    """

    def __init__(self) -> None:
        self.orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.others, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.orders.setblocking(False)
        self.others.setblocking(False)
        files = orders.fileno(), others.fileno()
        command = [sys.executable, "-P", "-m", "riskroute.live.gate", *map(str, files)]  # -P: nothing from this folder
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            with orders, others:
                self._process = subprocess.Popen(
                    command, pass_fds=files, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
                )
        except BaseException:
            self.orders.close()
            self.others.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def close(self) -> None:
        """Let it go, and wait until it has ended."""
        self.orders.close()
        self.others.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_gate() -> GateProcess | None:
    """Start a gate; None, and a line in the log, if no process can be started."""
    try:
        return GateProcess()
    except OSError as error:
        LOGGER.error("the gate cannot be started: %s", error)
        return None


@contextmanager
def early_gate(config: LiveConfig) -> Iterator[GateProcess | None]:
    """A gate that gets ready while the service does; None where there is none. It has ended at the end."""
    gate = start_gate() if config.gate and gate_possible() else None
    try:
        yield gate
    finally:
        if gate is not None:
            gate.close()


def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host; `OSError` if that cannot be."""
    made: list[socket.socket] = []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                one = socket.socket(family, kind, protocol)
            except OSError:  # this system does not know such addresses
                continue
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                with suppress(OSError):
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.listen(BACKLOG)
    except OSError:
        for one in made:
            one.close()
        raise
    if not made:
        raise OSError(f"cannot listen on any address of {host}")
    return made
