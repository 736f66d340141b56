"""`riskroute live demo`: a short run with a kill in the middle, and the verdict on its counts."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from riskroute.cli.app import run_app
from riskroute.live.demo import DemoResult


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
    for name in ("orders answered", "decisions in the log", "orders settled and learned"):
        assert found[name] == ["40", "40"]
    for name in ("answered, but not in the log", "unknown to the log"):
        assert found[name] == ["0", "0"]
    booked, at_venues = found["fills booked"]
    assert booked == at_venues
    positions = re.search(r"^positions +(.*\S) {2,}(.*)$", said, flags=re.MULTILINE)
    assert positions is not None
    assert positions[1].strip() == positions[2].strip()
    assert "dashboard: http://127.0.0.1:" in said
    assert sum(line.startswith(("  desk ", "  risk ", "  screen ")) for line in lines) == 3
    assert run_app(["live", "demo", "--out", str(tmp_path / "demo")]) == 2
    assert "out must be a new or empty folder" in capsys.readouterr().err


def test_nothing_is_lost_only_if_every_count_agrees() -> None:
    fine = [("sent", 4, None), ("missing", 0, 0), ("answered", 4, 4), ("positions", {"DEMO": 300}, {"DEMO": 300})]
    assert DemoResult(fine).nothing_lost
    for wrong in (("missing", 1, 0), ("answered", 3, 4), ("positions", {"DEMO": 200}, {"DEMO": 300})):
        assert not DemoResult([*fine, wrong]).nothing_lost


def test_a_port_that_is_taken_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen()
        port = line.getsockname()[1]
        assert run_app(["live", "demo", "--port", str(port), "--out", str(tmp_path / "demo")]) == 2
    assert f"port must be free, was {port}" in capsys.readouterr().err
