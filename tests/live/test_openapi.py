"""The OpenAPI description matches the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.routing import Route

from live_logs import MemoryLog, MemoryStore
from live_services import running, service_config
from riskroute.live.http.api import ROUTES, make_api
from riskroute.live.http.openapi import openapi_json
from riskroute.live.service import Service


def test_every_route_is_described_and_no_other(tmp_path: Path) -> None:
    app = make_api(Service(service_config(tmp_path, mode="shadow"), log=MemoryLog()))
    routes = {
        (method, route.path.replace(":path", ""))
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {
        (method.upper(), path)
        for path, operations in json.loads(openapi_json())["paths"].items()
        for method in operations
    }
    assert described == {one for one in routes if one[1] != "/" and not one[1].startswith("/static")}


def test_scopes_are_those_of_the_code() -> None:
    paths = json.loads(openapi_json())["paths"]
    for method, path, scope, _ in ROUTES:
        operation = paths[path.replace(":path", "")][method.lower()]
        assert operation["x-scope"] == (scope or "none")
        assert ("security" in operation) == bool(scope)


@pytest.mark.parametrize("path", ["/openapi.json", "/health", "/"])
def test_some_routes_need_no_token(tmp_path: Path, path: str) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        answer = up.client.ask("GET", path, scope="")
        assert answer.status_code == 200
        if path == "/openapi.json":
            assert answer.content == openapi_json()
