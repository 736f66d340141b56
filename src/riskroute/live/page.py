"""The dashboard at ``/``: files of our own; what they show comes from ``/events``, with the reader's token.

The token is sent in a header by ``fetch``, which reads the events as they come: ``EventSource`` cannot send headers, a
token in an address ends up in histories and logs, and a cookie would let other sites' pages act for the reader.
"""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from riskroute.live.service import Service

KINDS = {
    "index.html": "text/html",
    "style.css": "text/css",
    "main.js": "text/javascript",
    "panels.js": "text/javascript",
    "words.js": "text/javascript",
}
"""Files of the dashboard, and what they are."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Nothing is loaded from elsewhere, nothing inline is run, and no other page may hold this one in a frame."""


def page_routes(service: Service) -> list[BaseRoute]:
    """Routes of the page; it holds no data itself, so that anybody may load it."""
    folder = files("riskroute.live") / "static"

    def route(path: str, name: str) -> Route:
        body = (folder / name).read_bytes()

        async def answer(request: Request) -> Response:
            return Response(body, headers=HEADERS, media_type=KINDS[name])

        return Route(path, answer, methods=["GET"])

    return [route("/", "index.html"), *(route(f"/static/{name}", name) for name in KINDS if name != "index.html")]
