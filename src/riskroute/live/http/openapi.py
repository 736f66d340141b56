"""The OpenAPI description of the HTTP service, generated from its routes and record types."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from riskroute._version import __version__
from riskroute.live.http.api import ROUTES
from riskroute.live.http.requests import HaltRequest, OrderRequest, QuotesRequest, ShadowRequest
from riskroute.live.shadow import ShadowComparison
from riskroute.live.state.orders import OrderDecision

_BODIES: dict[str, type] = {
    "/orders": OrderRequest,
    "/shadow/orders": ShadowRequest,
    "/quotes": QuotesRequest,
    "/halt": HaltRequest,
}
_ORDER: dict[str, Any] = {
    "key": "A-17",
    "symbol": "DEMO",
    "side": "buy",
    "quantity": 500,
    "deadline": 1794850005000000000,
    "quotes": [{"venue": "NYSE", "at": 1794850000000000000, "bids": [[10.00, 900]], "asks": [["10.02", "700"]]}],
}
_EXAMPLES: dict[str, Any] = {
    "/orders": _ORDER,
    "/shadow/orders": {
        "order": _ORDER,
        "arrived": 1794850000000000000,
        "children": [{"kind": "take", "place": "NYSE", "sent": 500, "filled": 500, "price": 10.02, "fee": 1.5}],
    },
    "/quotes": {
        "symbol": "DEMO",
        "quotes": _ORDER["quotes"],
        "trades": [{"venue": "NYSE", "side": "bid", "price": 10.0, "quantity": 400, "at": 1794850000000000000}],
    },
    "/halt": {"reason": "prices look wrong"},
}
_ANSWERS: dict[tuple[str, str], type] = {
    ("POST", "/orders"): OrderDecision,
    ("POST", "/shadow/orders"): ShadowComparison,
}
_REFUSALS = {
    "400": "The body is not JSON or has the wrong form.",
    "401": "The token is missing or invalid.",
    "403": "The token lacks the required scope.",
    "404": "The order is unknown.",
    "409": "The key belongs to another order, or the request does not fit the current state.",
    "413": "The body is too large.",
    "422": "The request is invalid or exceeds a limit; quotes may be stale, or the symbol unknown.",
    "503": "Trading is halted, the router is not ready or overloaded, or too many event streams are open.",
}


@cache
def openapi_json() -> bytes:
    """Return the OpenAPI description of the service as JSON."""
    kinds = [*_BODIES.values(), *_ANSWERS.values()]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    _narrow(components)
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
            "description": (
                "Prices, quantities and amounts are decimal numbers, exact in both directions; requests may give them "
                "as JSON numbers or as text. Amounts are in the quote currency, times are nanoseconds since 1970."
            ),
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
    # Private classes of records get public names.
    return re.sub(rb'(schemas/|")_(?=[A-Z])', rb"\1", msgspec.json.encode(description))


def _narrow(schema: Any) -> None:
    """Replace the bounds of integers in decoding by the ranges of valid values, and describe exact numbers."""
    if isinstance(schema, dict) and "range" in schema:
        schema["minimum"], schema["maximum"] = schema.pop("range")
    if isinstance(schema, dict) and "number" in schema:
        bounds = schema.pop("number")
        number: dict[str, Any] = {"type": "number"}
        if bounds is not None:
            number["minimum"], number["maximum"] = bounds
        schema["anyOf"] = [number, {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "maxLength": 40}]
        return
    if isinstance(schema, dict) and schema.get("format") == "decimal":  # msgspec's default; responses have numbers
        del schema["format"]
        schema["type"] = "number"
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _narrow(part)


def _operation(method: str, path: str, scope: str, text: str, refs: dict[type, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": text.strip(), "x-scope": scope or "none"}
    if scope:
        made["security"] = [{"token": []}]
    if "{key}" in path:
        made["parameters"] = [{"name": "key", "in": "path", "required": True, "schema": {"type": "string"}}]
    if path == "/events":
        row = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
        made["parameters"] = [
            {"name": "after", "in": "query", "schema": row},
            {"name": "Last-Event-ID", "in": "header", "schema": row},
        ]
    if method == "POST" and path in _BODIES:
        body = {"application/json": {"schema": refs[_BODIES[path]], "example": _EXAMPLES[path]}}
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
    codes += {"/orders/{key}": ["404"], "/health": ["503"], "/events": ["422", "503"]}.get(path, [])
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    made["responses"] = {"200": success} | {
        code: {"description": _REFUSALS[code], "content": refusal} for code in sorted(codes)
    }
    return made
