"""The service as a process on loopback: starts, takes orders, is killed, starts again, and stops by a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from live_services import LONGEST, PATIENT, KeptPort, order_json
from riskroute.live.config import write_live_config
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.log.sqlite import SqliteLog


class Desk:
    """A configuration with its tokens, and the service that runs on it."""

    def __init__(self, folder: Path) -> None:
        self.file, self.log = folder / "live.toml", folder / "live.sqlite"
        self.tokens = write_live_config(self.file)
        self.kept_port = KeptPort()
        text = self.file.read_text().replace("8470", str(self.kept_port.number))
        for name, most in PATIENT.items():
            text, count = re.subn(rf"{name} = \S+", f"{name} = {most}", text)
            assert count == 1
        self.file.write_text(re.sub(r"^(\[venues\.\w+\])", r"\1\nlatency_ms = 0.1", text, flags=re.M))
        self.url = "http://" + re.findall(r'listen = "(.+?)"', text)[0]

    @contextmanager
    def served(self) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "riskroute", "live", "serve", str(self.file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                assert process.stdout is not None
                said = []
                for line in process.stdout:
                    said.append(line)
                    if line.startswith("live on "):
                        break
                assert said
                assert said[-1].startswith("live on "), said
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def client(self, token: str = "desk") -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.tokens[token]}"}, timeout=LONGEST
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.kept_port.close()


def order(key: str) -> dict[str, object]:
    made = order_json(key)
    for quote, name in zip(made["quotes"], ("NYSE", "NASDAQ"), strict=True):
        quote["venue"] = name
    return made


@pytest.mark.thorough  # tests/cli/test_live_demo.py kills the same command, and test_service_crashes.py at every write
def test_nothing_answered_is_lost_when_the_service_is_killed(desk: Desk) -> None:
    answers = {}
    with desk.served() as process, desk.client() as http:
        sent = {f"k{number}": order(f"k{number}") for number in range(40)}
        for key, one in sent.items():
            answers[key] = http.post("/orders", json=one).json()
        process.kill()
        assert process.wait() == -signal.SIGKILL
    with desk.served() as process, desk.client() as http:
        for key, one in sent.items():
            assert http.post("/orders", json=one).json() == answers[key]
        while http.get("/state").json()["unsettled"]:
            time.sleep(0.02)
        positions = http.get("/positions").json()
        with http.stream("GET", "/events", params={"after": 0}) as stream:
            kinds = []
            for line in stream.iter_lines():
                kinds += [line.removeprefix("event: ")] * line.startswith("event: ")
                if "state" in kinds and kinds.count("accepted") == 40:
                    break
        assert kinds[:2] == ["viewer", "planned"]
        assert kinds.count("accepted") == 40
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=LONGEST)[0]
        assert process.returncode == 0
    with SqliteLog(desk.log, create=False) as log:
        state = replay_log(log)
        assert verify_log(log).holds
        assert f"stopped: 40 orders, 0 unsettled, all in the log, with head {log.head()}\n" in rest
    assert state.positions["DEMO"].shares == positions["DEMO"]["quantity"] == 4000


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no SIGUSR1 here")
def test_a_signal_halts_and_the_event_stream_reports_it(desk: Desk) -> None:
    with desk.served() as process, desk.client("screen") as http:
        assert process.stdout is not None
        with http.stream("GET", "/events") as stream:
            lines = stream.iter_lines()
            states = (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))
            assert "scopes" in next(states)  # who looks comes first
            next(one for one in states if one["status"] == "ready")
            os.kill(process.pid, signal.SIGUSR1)
            halted = next(one for one in states if one["status"] == "halted")
            assert (halted["halted"], halted["halted_by"]) == ("received SIGUSR1", "signal")
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST) == 0
