"""The description of the addresses, made from the code: `write_openapi` writes the file that is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from riskroute._version import __version__
from riskroute.core.files import write_json
from riskroute.live.http.api import ADDRESSES
from riskroute.live.http.requests import HaltIn, OrderIn, QuotesIn, ShadowIn
from riskroute.live.shadow import ShadowComparison
from riskroute.live.state.events import Decision

FILE = Path(__file__).with_name("openapi.json")

_BODIES: dict[str, type] = {
    "/orders": OrderIn,
    "/shadow/orders": ShadowIn,
    "/quotes": QuotesIn,
    "/halt": HaltIn,
}
_ANSWERS: dict[tuple[str, str], type] = {("POST", "/orders"): Decision, ("POST", "/shadow/orders"): ShadowComparison}
_REFUSALS = {
    "400": "The body is not JSON, or not of the form that was expected.",
    "401": "There is no valid token.",
    "403": "The token is not good for this.",
    "404": "There is no such order.",
    "409": "The key belongs to another order, or this cannot be done in this state.",
    "413": "The body is too large.",
    "422": "What was asked for makes no sense, or is not allowed: limits, stale quotes, unknown symbols.",
    "503": "Trading is halted, or the router is not ready.",
}
_ALWAYS, _WITH_BODY = ("401", "403"), ("400", "409", "413", "422", "503")


def openapi() -> dict[str, Any]:
    """The description as plain values."""
    kinds = [*_BODIES.values(), *_ANSWERS.values()]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    refs = dict(zip(kinds, schemas, strict=True))
    components["Refusal"] = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    paths: dict[str, dict[str, Any]] = {}
    for method, path, scope, answer in (*ADDRESSES, ("GET", "/metrics", "read", _metrics)):
        shown = path.replace(":path", "")
        paths.setdefault(shown, {})[method.lower()] = _operation(method, shown, scope, answer.__doc__ or "", refs)
    bearer = {"type": "http", "scheme": "bearer"}
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "riskroute live",
            "version": __version__,
            "description": "Money is in 1e-9 dollars, times are nanoseconds since 1970, quantities are whole shares.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": bearer}},
    }
    plain: dict[str, Any] = json.loads(json.dumps(made))
    return plain


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
    good: dict[str, Any] = {"description": "Done.", "content": {media: {"schema": refs[answer]} if answer else {}}}
    codes = [
        *(_ALWAYS if scope else ()),
        *(_WITH_BODY if method == "POST" else ()),
        *(["404"] if "{key}" in path else []),
    ]
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    made["responses"] = {"200": good} | {
        code: {"description": _REFUSALS[code], "content": refusal} for code in sorted(codes)
    }
    return made


async def _metrics(call: Any) -> Any:
    """Give numbers to Prometheus."""


def write_openapi() -> Path:
    """Write the file that is served."""
    return write_json(FILE, openapi())
