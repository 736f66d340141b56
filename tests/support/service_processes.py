"""The real command, `riskroute live serve`, in processes that tests kill, stop and wake."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from live_services import TOKENS
from log_writer import ENVIRONMENT
from riskroute.live.config import token_hash

HEADERS = {"Authorization": f"Bearer {TOKENS['trade']}"}


def write_config(folder: Path, patience: float = 0.5, **log: Any) -> Path:
    """A configuration with two venues and a pool that answer at once."""
    log = log or {"path": "live.sqlite"}
    lines = ['listen = "127.0.0.1:1"', f"patience_seconds = {patience}", "[log]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in log.items()]
    lines += ["[limits]", "unknown = 100000", "venue_open = 100000", "day_loss = 1e9"]
    lines += ["quote_seconds = 3600.0", "slow_write_seconds = 600.0", "clock_jump_seconds = 600.0"]
    for name in ("DEMO", "OTHER", "THIRD"):
        lines.append(f"[instruments.{name}]")
    for name in ("venues.A", "venues.B", "pools.P"):
        lines += [f"[{name}]", "latency_ms = 0.0"]
    for name, token in TOKENS.items():
        lines += [f"[tokens.{name}]", f'hash = "{token_hash(token)}"', f'scopes = ["{name}"]']
    path = folder / "live.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


class ServiceProcess:
    """One process of the service, and a client of it."""

    def __init__(self, config: Path, *words: str, before: Sequence[str] = ()) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.listen = f"127.0.0.1:{one.getsockname()[1]}"
        command = [*before, sys.executable, "-m", "riskroute", "live", "serve", str(config), *words]
        self.process = subprocess.Popen(
            [*command, "--listen", self.listen],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=ENVIRONMENT,
            cwd=config.parent,
        )
        self.http = httpx.Client(base_url=f"http://{self.listen}", headers=HEADERS, timeout=60)

    def said(self, word: str) -> str:
        """Wait for a line with a word."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if word in line:
                return line
        raise AssertionError("".join(lines))

    def answered(self, order: dict[str, Any]) -> httpx.Response | None:
        """The answer to an order; None from a service that is not there."""
        try:
            return self.http.post("/orders", json=order)
        except httpx.TransportError:
            return None

    def waited(self, order: dict[str, Any], seconds: float = 60.0) -> httpx.Response:
        """The answer to an order as soon as the service is there and ready."""
        end = time.monotonic() + seconds
        while (answer := self.answered(order)) is None or answer.status_code == 503:
            assert time.monotonic() < end
            time.sleep(0.002)
        return answer

    def settled(self, key: str) -> None:
        """Wait until an order is settled."""
        end = time.monotonic() + 60
        while self.http.get(f"/orders/{key}").json()["status"] != "settled":
            assert time.monotonic() < end
            time.sleep(0.005)

    def end(self) -> str:
        """Kill it if it still runs, and let go of everything; what it said."""
        self.http.close()
        self.process.kill()
        return self.process.communicate()[0]
