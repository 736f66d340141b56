"""Requests that a gate answers itself: plain orders, and nothing that is unusual in any way."""

from __future__ import annotations

import re
from collections.abc import Mapping

from riskroute.live.gate_frames import GateConfig
from riskroute.live.order_terms import Prepared, prepared
from riskroute.live.tokens import bearer_owner
from riskroute.live.wire import OrderIn, read_json

REQUEST = b"POST /orders HTTP/1.1\r\n"
"""How a plain order begins."""

MOST_HEAD = 8_192
"""Bytes of the request line and the headers, at most."""

MOST_BYTES = 65_536
"""Bytes of a whole request, at most."""

_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([!-~](?:[ -~]*[!-~])?)")
_BEGUN = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+(?::[ -~]*\r?)?)?|\r")
_DIGITS = re.compile(rb"[0-9]{1,8}")

_ONCE = frozenset({b"authorization", b"connection", b"content-length"})
_UNUSUAL = frozenset({b"expect", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"})


class NotPlainError(Exception):
    """A request that is not for the gate to answer."""


class PlainOrders:
    """Reads the plain orders of one connection.

    Parameters
    ----------
    config : GateConfig
        Who may trade what, and how large a body may be.
    """

    def __init__(self, config: GateConfig) -> None:
        self._config = config
        self._head, self._length = b"", 0  # of the last request: the next one of a client mostly has the same

    def read(self, data: bytes) -> tuple[Prepared, int] | None:
        """The order that data begin with, and the bytes that it takes; None if more of them must come first.

        `NotPlainError` says that this is, or will be, anything but a plain order that its sender may place.
        """
        if not data.startswith(REQUEST) and not REQUEST.startswith(data):
            raise NotPlainError
        end = data.find(b"\r\n\r\n", 0, MOST_HEAD)
        if end < 0:
            if len(data) >= MOST_HEAD:
                raise NotPlainError
            if len(data) > len(REQUEST):
                _check_begun(data[len(REQUEST) :])
            return None
        head = data[:end]
        if head != self._head:
            self._length = self._body_length(head)
            self._head = head
        size = end + 4 + self._length
        if size > MOST_BYTES:
            raise NotPlainError
        if len(data) < size:
            return None
        try:
            order = read_json(data[end + 4 : size], OrderIn, "an order")
            return prepared(self._config.terms, order), size
        except Exception:  # the service says what is wrong with it
            raise NotPlainError from None

    def _body_length(self, head: bytes) -> int:
        """Bytes of the body of an order whose sender may trade."""
        headers = _headers(head[len(REQUEST) :])
        length = headers.get(b"content-length", b"")
        if not _DIGITS.fullmatch(length) or int(length) > self._config.body_bytes:
            raise NotPlainError
        if headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            raise NotPlainError
        found = bearer_owner(self._config.tokens, headers.get(b"authorization", b"").decode("ascii"))
        if found is None or "trade" not in found[1]:
            raise NotPlainError
        return int(length)


def _headers(text: bytes) -> Mapping[bytes, bytes]:
    """Headers by name in small letters, if they are plain ones."""
    headers: dict[bytes, bytes] = {}
    for line in text.split(b"\r\n"):
        found = _HEADER.fullmatch(line)
        if found is None:
            raise NotPlainError
        name = found[1].lower()
        if name in _UNUSUAL or (name in _ONCE and name in headers):
            raise NotPlainError
        headers[name] = found[2]
    return headers


def _check_begun(text: bytes) -> None:
    """Raise `NotPlainError` if headers of which more must come cannot become plain ones."""
    *lines, last = text.split(b"\r\n")
    if lines:
        _headers(b"\r\n".join(lines))
    if not _BEGUN.fullmatch(last):
        raise NotPlainError
