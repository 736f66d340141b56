"""A live service in a process of its own, on a port of this machine, that can be killed and started again."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from live_services import TOKENS, order_json
from riskroute.live.config import token_hash

_CONFIG = """\
listen = "127.0.0.1:{port}"
patience_seconds = 1.0
[log]
path = "live.sqlite"
[venues.A]
latency_ms = 0.0
taker = 0.003
[venues.B]
latency_ms = 0.0
taker = 0.003
[pools.P]
latency_ms = 0.0
fee = 0.001
[instruments.DEMO]
"""


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


class ServedRouter:
    """A service in a folder; its tokens are those of `live_services`."""

    def __init__(self, folder: Path, seconds: float = 60.0) -> None:
        self.folder, self.seconds, self.port = folder, seconds, free_port()
        text = _CONFIG.format(port=self.port)
        for name, token in TOKENS.items():
            text += f'[tokens.{name}]\nhash = "{token_hash(token)}"\nscopes = ["{name}"]\n'
        (folder / "live.toml").write_text(text)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [sys.executable, "-m", "riskroute", "live", "serve", "live.toml"]
        with (self.folder / "said.txt").open("ab") as said:
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=said, stderr=said)
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            assert self.process.poll() is None, (self.folder / "said.txt").read_text()
            try:
                if self.ask("GET", "/health", "")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.03)
        raise AssertionError("the service did not start")

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def ask(self, method: str, path: str, scope: str = "trade", body: Any = None) -> tuple[int, Any]:
        """Ask with the token of a scope; with none if it is empty."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {TOKENS[scope]}"} if scope else {}
        try:
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            line.close()

    def order(self, key: str, **more: Any) -> int:
        """Send an order; returns the status of the answer."""
        return self.ask("POST", "/orders", body=order_json(key, **more))[0]
