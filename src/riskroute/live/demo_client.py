"""Clients of the demonstration: orders with made-up books, sent again with the same key until they are answered."""

from __future__ import annotations

import http.client
import json
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riskroute.core.errors import StateError
from riskroute.core.seeding import seed_stream
from riskroute.live.state.events import NANO

PACE = 0.03
"""Seconds between two orders of a client."""

LONGEST = 60.0
"""Seconds that an answer may take."""

VENUES = ("NYSE", "NASDAQ", "BATS")


@dataclass
class DemoClient:
    """Sends orders until each is answered."""

    port: int
    token: str
    todo: queue.SimpleQueue[int]
    on_answer: Callable[[], None]
    answered: list[str] = field(default_factory=list)
    again: int = 0
    failed: str = ""

    def run(self) -> None:
        try:
            while True:
                self._send(self.todo.get_nowait())
                time.sleep(PACE)
        except queue.Empty:
            return
        except Exception as error:  # told by the thread that waits
            self.failed = f"{type(error).__name__}: {error}"

    def _send(self, number: int) -> None:
        order = demo_order(number, time.time_ns())
        until, tried, said = time.monotonic() + LONGEST, False, "nothing"
        while time.monotonic() < until:
            try:
                status, said = ask(self.port, "POST", "/orders", self.token, order)
            except OSError:
                self.again += not tried
                tried = True
                time.sleep(0.1)
                continue
            except http.client.HTTPException:
                self.again += not tried
                tried = True
                continue
            if status == 200:
                self.answered.append(order["key"])
                self.on_answer()
                return
            if status == 422:  # it was not accepted, and its quotes or its deadline are out of date now
                order = demo_order(number, time.time_ns())
            elif status != 503 or "halted" in said["error"]:
                raise StateError(f"an order of the demo must be accepted, was answered {status}: {said}")
            time.sleep(0.05)
        raise StateError(f"an order must be accepted within {LONGEST:g} s, was not; the last answer: {said}")


def demo_order(number: int, now: int) -> dict[str, Any]:
    """An order with books around a mid that wanders; the same number is the same order but for times."""
    rng = np.random.default_rng(seed_stream(0, "live demo", number))
    symbol, base = (("DEMO", 5000), ("OTHER", 2500))[number % 2]
    mid = base + round(6 * float(np.sin(number / 80)))
    quotes = []
    for venue in VENUES:
        half = int(rng.integers(1, 3))
        sizes = rng.integers(1, 8, size=(2, 3)) * 100
        sides = {
            name: [[(mid + sign * (half + k)) * NANO // 100, int(sizes[s, k])] for k in range(3)]
            for s, (name, sign) in enumerate((("bids", -1), ("asks", 1)))
        }
        quotes.append({"venue": venue, "at": now, **sides})
    return {
        "key": f"demo-{number:04d}",
        "symbol": symbol,
        "side": "buy" if rng.random() < 0.5 else "sell",
        "quantity": int(rng.integers(1, 10)) * 100,
        "deadline": now + 3 * NANO,
        "quotes": quotes,
    }


def ask(port: int, method: str, path: str, token: str = "", body: Any = None) -> tuple[int, Any]:
    """Ask the service; returns status and answer."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        line.request(method, path, None if body is None else json.dumps(body), headers)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        line.close()
