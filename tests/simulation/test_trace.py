"""The number of files that a simulation runs through stays small enough to read."""

from __future__ import annotations

import pytest

from riskroute.cli.app import run_app
from trace_files import traced_files


@pytest.mark.usefixtures("untraced")
def test_simulating_rise_runs_through_few_files(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "--policy", "rise", "--slots", "4", "--shares", "4", "--runs", "2", "--horizon", "1000"]
    calls = traced_files(lambda: run_app(words))
    assert "rise" in capsys.readouterr().out
    assert len(calls) <= 25, list(calls)
