"""Lets this process connect to loopback only: anything else raises before a packet leaves."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_guards = 0  # an audit hook cannot be removed, so it asks whether it is wanted
_installed = False


class OutsideError(RuntimeError):
    """The process tried to reach an address outside this machine."""


@contextmanager
def loopback_only() -> Iterator[None]:
    """Raise `OutsideError` from every socket and name lookup that leaves this machine."""
    global _guards, _installed
    if not _installed:
        sys.addaudithook(_check)
        _installed = True
    _guards += 1
    try:
        yield
    finally:
        _guards -= 1


def _check(event: str, given: tuple[Any, ...]) -> None:
    if not _guards or not event.startswith("socket."):
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = given[1]
        host = address[0] if isinstance(address, tuple) else None  # others are unix sockets and unconnected sends
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = given[0]
    else:
        return
    if host is not None and not _is_loopback(str(host)):
        raise OutsideError(f"{event} to {host}: only loopback may be reached")


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
