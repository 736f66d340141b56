"""`riskroute live demo`: a short run with a kill in the middle, and the verdict on its counts."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest

from riskroute.cli.app import run_app
from riskroute.live.demo import DemoResult

FINE = DemoResult(
    sent=4,
    answered=4,
    repeated=1,
    decisions=4,
    missing=0,
    settled=4,
    children=9,
    unknown=0,
    venue_fills=7,
    booked_fills=7,
    venue_positions={"DEMO": 300},
    positions={"DEMO": 300},
)


@pytest.mark.usefixtures("untraced")
def test_nothing_is_lost_when_it_is_killed_in_the_middle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    router = "dark-first+sweep"
    words = ["live", "demo", "--orders", "40", "--no-wait", "--router", router, "--out", str(tmp_path / "demo")]
    assert run_app(words) == 0
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if line.strip()]
    assert "killed the service (kill -9) after 20 answers" in lines
    assert lines[-1] == "nothing was lost"
    found = {line[:40].strip(): line[40:].split() for line in lines[-11:-1]}
    assert found["orders answered"] == ["40", "40"]
    assert found["decisions in the log"] == ["40", "40"]
    assert "dashboard: http://127.0.0.1:" in said
    assert sum(line.startswith(("  desk ", "  risk ", "  screen ")) for line in lines) == 3
    assert run_app(["live", "demo", "--out", str(tmp_path / "demo")]) == 2
    assert "out must be a new or empty folder" in capsys.readouterr().err


def test_nothing_is_lost_only_if_every_count_agrees() -> None:
    assert FINE.nothing_lost
    for change in (
        {"answered": 3},
        {"decisions": 5},
        {"missing": 1},
        {"settled": 3},
        {"unknown": 1},
        {"booked_fills": 8},
        {"positions": {"DEMO": 200}},
    ):
        changed: dict[str, Any] = change
        assert not dataclasses.replace(FINE, **changed).nothing_lost


def test_a_port_that_is_taken_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen()
        port = line.getsockname()[1]
        assert run_app(["live", "demo", "--port", str(port), "--out", str(tmp_path / "demo")]) == 2
    assert f"port must be free, was {port}" in capsys.readouterr().err
