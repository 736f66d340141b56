"""The page of the service, at ``/``: what it shows comes from ``/state`` and ``/events``, with the reader's token."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from riskroute.live.service import Service

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>riskroute live</title>
<h1>riskroute live</h1>
<p>The router is running. <a href="/health">Health</a>, <a href="/openapi.json">addresses</a>.</p>
</html>
"""


def page_routes(service: Service) -> list[BaseRoute]:
    """Routes of the page; it holds no data itself, so that anybody may load it."""

    async def page(request: Request) -> Response:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": "default-src 'self'"})

    return [Route("/", page, methods=["GET"])]
