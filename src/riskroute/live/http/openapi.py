"""The OpenAPI description of the HTTP service, from its routes and records."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from riskroute._version import __version__
from riskroute.live.http.api import ROUTES
from riskroute.live.http.requests import HaltRequest, OrderRequest, QuotesRequest, ShadowRequest
from riskroute.live.shadow import ShadowComparison
from riskroute.live.state.events import Decision

_BODIES: dict[str, type] = {
    "/orders": OrderRequest,
    "/shadow/orders": ShadowRequest,
    "/quotes": QuotesRequest,
    "/halt": HaltRequest,
}
_ANSWERS: dict[tuple[str, str], type] = {("POST", "/orders"): Decision, ("POST", "/shadow/orders"): ShadowComparison}
_REFUSALS = {
    "400": "The body is not JSON or has the wrong form.",
    "401": "The token is missing or invalid.",
    "403": "The token lacks the required scope.",
    "404": "The order is unknown.",
    "409": "The key belongs to another order, or the request does not fit the current state.",
    "413": "The body is too large.",
    "422": "The request is invalid or exceeds a limit; quotes may be stale, or the symbol unknown.",
    "503": "Trading is halted, or the router is not ready.",
}


@cache
def openapi_json() -> bytes:
    """Return the description as JSON."""
    kinds = [*_BODIES.values(), *_ANSWERS.values()]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    refs = dict(zip(kinds, schemas, strict=True))
    components["Refusal"] = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    paths: dict[str, dict[str, Any]] = {}
    for method, path, scope, handler in ROUTES:
        shown = path.replace(":path", "")
        paths.setdefault(shown, {})[method.lower()] = _operation(method, shown, scope, handler.__doc__ or "", refs)
    description = {
        "openapi": "3.1.0",
        "info": {
            "title": "riskroute live",
            "version": __version__,
            "description": "Money is in 1e-9 dollars, times are nanoseconds since 1970, quantities are whole shares.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
    # Private records of a request get public names.
    return re.sub(rb'(schemas/|")_(?=[A-Z])', rb"\1", msgspec.json.encode(description))


def _operation(method: str, path: str, scope: str, text: str, refs: dict[type, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": text.strip(), "x-scope": scope or "none"}
    if scope:
        made["security"] = [{"token": []}]
    if "{key}" in path:
        made["parameters"] = [{"name": "key", "in": "path", "required": True, "schema": {"type": "string"}}]
    if method == "POST" and path in _BODIES:
        body = {"application/json": {"schema": refs[_BODIES[path]]}}
        made["requestBody"] = {"required": path != "/halt", "content": body}
    answer = _ANSWERS.get((method, path))
    media = {"/events": "text/event-stream", "/metrics": "text/plain"}.get(path, "application/json")
    success: dict[str, Any] = {
        "description": "Success.",
        "content": {media: {"schema": refs[answer]} if answer else {}},
    }
    codes = ["401", "403"] if scope else []
    if method == "POST":
        codes += ["400", "409", "413", "422", "503"]
    if "{key}" in path:
        codes += ["404"]
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    made["responses"] = {"200": success} | {
        code: {"description": _REFUSALS[code], "content": refusal} for code in sorted(codes)
    }
    return made
