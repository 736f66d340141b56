"""Hooks of schemathesis: keep the example orders valid, as their times pass and trading is halted now and then."""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

import httpx
import schemathesis

from riskroute.live.state.amounts import NANO

NUMBERS = itertools.count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Give orders and books in the symbol of the examples the times of now, and the example order a new key."""
    if case.path == "/orders":
        headers = {"Authorization": f"Bearer {os.environ['FUZZED_TOKEN']}"}
        httpx.post(f"{os.environ['FUZZED_ADDRESS']}/resume", headers=headers, timeout=60)
    body = case.body if isinstance(case.body, dict) else {}
    order = body["order"] if isinstance(body.get("order"), dict) else body
    if order.get("symbol") != "DEMO":
        return
    now = time.time_ns()
    if isinstance(order.get("deadline"), int):
        order["deadline"] = now + 60 * NANO
    if order.get("key") == "A-17":
        order["key"] = f"A-17 {next(NUMBERS)}"
    for quote in order["quotes"] if isinstance(order.get("quotes"), list) else ():
        if isinstance(quote, dict) and isinstance(quote.get("at"), int):
            quote["at"] = now
    if isinstance(body.get("arrived"), int):
        body["arrived"] = now
