"""The whole live service in simulated time: faults from seeds, every guarantee checked, and deliberate bugs found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from checkout import ROOT

SEEDS = 10  # with a second process that repeats one, less than half a minute of a core
MUTANTS = (
    "tell_reports_apart_by_exec_id_alone",
    "settle_while_a_fill_is_on_its_way",
    "settle_a_second_time",
    "send_again_instead_of_asking",
    "do_not_sync_commits",
    "answer_before_durable",
    "save_snapshots_ahead_of_the_log",
    "send_before_the_decision_is_durable",
    "book_a_fill_again_after_a_reconnection",
    "forget_a_halt_in_recovery",
    "lose_timers_in_a_restart",
    "wait_for_a_stopped_worker_for_ever",
    "record_the_head_ahead_of_the_log",
    "decide_for_places_that_are_down",
    "raise_places_without_an_event",
)


def run(*words: str) -> tuple[str, int]:
    """What the command prints, and its status."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "support"), str(ROOT / "src")]),
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "simulated_service", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, done.returncode


def played(*words: str) -> tuple[list[dict[str, Any]], int]:
    """What came of some seeds, and the status of the process that played them."""
    said, status = run("--worker", "0", "1", *words)
    return [json.loads(line) for line in said.splitlines()], status


@pytest.mark.crash
def test_every_guarantee_holds_under_the_faults_of_some_seeds(survived: Callable[[str, int], None]) -> None:
    lines, _ = played("--seeds", str(SEEDS))
    assert [line["broken"] for line in lines] == [""] * SEEDS
    kinds = {kind for line in lines for kind in line["survived"]}
    assert {
        "kill",
        "power cut",
        "silent venue",
        "cut line",
        "bust",
        "pause",
        "full disk",
        "halt",
        "refit given up",
    } <= kinds
    for line in lines:
        for kind, count in line["survived"].items():
            if not kind.startswith("orders "):
                survived(f"{kind} in the simulated service", count)
    again, _ = played("--seeds", "1", "--first", "2")
    assert again[0]["mark"] == lines[1]["mark"], "a seed plays the same in another process"


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_simulation_finds_a_deliberate_bug(mutant: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines, status = played("--mutant", mutant, "--seeds", "500", "--seconds", "3600")  # under ten minutes of a core
    assert status == 1, "not found in 500 seeds"
    with capsys.disabled():
        seconds = sum(line["cpu"] for line in lines)
        print(f"\n{mutant}: {len(lines)} seeds, {seconds:.1f} s: {lines[-1]['broken']}")  # noqa: T201 - the finding


@pytest.mark.thorough
def test_a_failing_seed_is_shrunk_to_the_orders_and_faults_that_it_needs() -> None:
    said, status = run("--seed", "1", "--mutant", "do_not_sync_commits")
    assert status == 1
    found = re.search(r"shrunk from (\d+) orders and (\d+) faults to (\d+) and (\d+):", said)
    assert found is not None
    orders, faults, fewer_orders, fewer_faults = map(int, found.groups())
    assert fewer_orders <= 3 < orders
    assert fewer_faults <= 3 < faults
    assert "was durable before the crash" in said.splitlines()[-1]
