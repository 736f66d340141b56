"""What all addresses of the service share: who asks, how large a request may be, and how a refusal looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.live.engine import KeyUsedError, RefusedError
from riskroute.live.log.interface import LeaseError, WriteError, told_outside
from riskroute.live.service import LOGGER, HaltedError, Service
from riskroute.live.tokens import bearer_owner
from riskroute.live.views import NotFoundError
from riskroute.live.wire import MalformedError

Answer = Callable[["Call"], Awaitable[Response]]

_STATUS = (
    (NotFoundError, 404),
    (MalformedError, 400),
    (KeyUsedError, 409),
    (HaltedError, 503),
    (RefusedError, 422),
    (InputError, 422),
    (WriteError, 503),
    (LeaseError, 503),
    (DataError, 503),
    (RiskrouteError, 409),
)
"""Status by kind of error; the first that fits counts."""


class Call:
    """A request that may be answered: by whom, with which body."""

    def __init__(self, scope: Scope, receive: Receive, service: Service, by: str) -> None:
        self.scope, self.service, self.by = scope, service, by
        self._receive = receive

    @property
    def request(self) -> Request:
        """All that a client may say; orders do without, since it takes long to make."""
        return Request(self.scope, self._receive)

    async def body(self) -> bytes:
        """The body, unless it is larger than allowed."""
        most = self.service.config.body_bytes
        told = header_of(self.scope, b"content-length") or "0"
        if not told.isdigit() or int(told) > most:
            raise HTTPException(413, f"the body must have at most {most:,} bytes, had more")
        body, more = b"", True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                raise HTTPException(413, f"the body must have at most {most:,} bytes, had more")
        return body


def answer_json(value: Any, status: int = 200) -> Response:
    """Plain values or records as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """One sentence."""
    return Response(msgspec.json.encode({"error": sentence}), status, headers, "application/json")


class Endpoint:
    """An address, as an ASGI application.

    Parameters
    ----------
    service : Service
        What is asked.
    right : str
        Scope that a token must have; if it is empty, anybody may ask.
    answer : Answer
        Answers those who may ask.
    """

    def __init__(self, service: Service, right: str, answer: Answer) -> None:
        self.service, self.right, self.answer = service, right, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answered(scope, receive)
        await response(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive) -> Response:
        by = ""
        if self.right:
            found = bearer_owner(self.service.config.tokens, header_of(scope, b"authorization"))
            if found is None:
                headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
                return refusal(401, "a valid token must be sent as Authorization: Bearer TOKEN, was not", headers)
            by, scopes = found
            if self.right not in scopes:
                return refusal(403, f"the token must have the scope {self.right}, has not", {"Connection": "close"})
        try:
            return await self.answer(Call(scope, receive, self.service, by))
        except HTTPException as error:
            return refusal(error.status_code, error.detail, {"Connection": "close"})
        except ClientDisconnect:
            return refusal(400, "the request must be complete, was not")
        except Exception as error:
            return refusal(*explained(error, scope["method"], scope["path"]))


def explained(error: BaseException, method: str, path: str) -> tuple[int, str]:
    """Status and sentence for what was refused; of a mistake of ours the client learns that it was one, and no more."""
    if not isinstance(error, RiskrouteError):
        LOGGER.error("%s %s failed", method, path, exc_info=error)
        return 500, "something went wrong here; the log of the service says more"
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    inside = isinstance(error, WriteError | LeaseError | DataError)
    return status, told_outside(error) if inside else str(error)


def header_of(scope: Scope, name: bytes) -> str:
    """The first header with a name in small letters; empty if there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return ""


async def on_http_error(request: Request, error: Exception) -> Response:
    """An address that is not there, or a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    known = {404: "there is nothing at this address", 405: "this address does not know this method"}
    return refusal(status, known.get(status, "the request cannot be answered"))
