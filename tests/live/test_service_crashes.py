"""The whole router is killed at every write of an order's life, and at random among many orders: nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkout import ROOT
from killed_services import complaint
from live_logs import ENVIRONMENT, LONG
from live_services import ServiceProcess, order_json, write_config
from riskroute.live.log.recovery import replay_log
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.state.amounts import NANO

pytestmark = pytest.mark.crash

Survived = Callable[[str, int], None]
SUPPORT = ROOT / "tests" / "support"


def told(*words: object) -> dict[str, Any]:
    """Run the program that kills its children; return what it prints."""
    command = [sys.executable, str(SUPPORT / "killed_services.py"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stderr)  # noqa: T201 - says why a life failed, if the test fails
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_nothing_is_lost_or_doubled_when_the_service_is_killed_at_any_write(
    quick_folder: Path, survived: Survived
) -> None:
    """Before, in the middle of, and after each change of a file, each message and each answer.

    Then it is started again: answers are the same, no venue has a child twice, every fill is booked and every order
    learned once, and the log leads to the same state and the same decisions.
    """
    routers = "dark-first+sweep", "rest-even+sweep"
    found = told("service", quick_folder, 1 if LONG else 19, *routers)
    assert found.keys() == set(routers)
    for one in found.values():
        assert one["wrong"] == []
        assert one["changes"] > 60  # how many appends share a write depends on the machine
        assert one["killed"] >= (300 if LONG else 5)
    killed = sum(one["killed"] for one in found.values())
    survived("kill -9 of the service at a write, a message or an answer", killed)


def test_a_service_that_resends_instead_of_querying_is_caught(quick_folder: Path) -> None:
    """The same check must fail when children of before the start are sent, not asked for."""
    found = told("resend", quick_folder, 5, "dark-first+sweep")
    assert any("twice" in text for text in found["dark-first+sweep"]["wrong"])


def test_positions_cash_and_outcomes_equal_those_of_a_run_without_faults(
    quick_folder: Path, survived: Survived
) -> None:
    """5 % of the reports come twice, 5 % late, 2 % only when asked for, and the process is killed at random."""
    orders, kills = (10_000, 20) if LONG else (120, 3)
    found = told("engine", quick_folder, "dark-first+sweep", orders, kills, 7, 0.02)
    assert found == {"killed": kills, "orders": orders, "wrong": []}
    survived("kill -9 among many orders with bad reports", kills)


def test_a_router_learns_the_same_whatever_goes_wrong(quick_folder: Path, survived: Survived) -> None:
    """Every order is settled before the next: decisions, outcomes and beliefs are equal, bit for bit."""
    orders, kills = (1_000, 20) if LONG else (60, 3)
    router = "thompson:units=4,awaited=1000,ahead=true,rounds=10000"
    found = told("engine", quick_folder, router, orders, kills, 3, 0)
    assert found == {"killed": kills, "orders": orders, "wrong": []}
    survived("kill -9 of a router that learns, with bad reports", kills)


@pytest.mark.thorough  # tests/cli/test_live_demo.py kills the real command too, between orders
def test_the_real_command_survives_kills_from_outside(tmp_path: Path, survived: Survived) -> None:
    """`riskroute live serve`, killed at its k-th system call that writes, and started again."""
    strace = shutil.which("strace")
    traced = strace and subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True, check=False)
    if not strace or not traced or traced.returncode != 0:
        pytest.skip("needs strace, and the right to trace a process")
    calls = "pwrite64,fdatasync"
    kills = range(4, 100, 8) if LONG else (45,)
    for when in kills:
        folder = tmp_path / str(when)
        folder.mkdir()
        config = write_config(folder)
        inject = f"inject={calls}:signal=SIGKILL:when={when}"
        trace = [strace, "-D", "-f", "-o", os.devnull, "-e", f"trace={calls}", "-e", inject]
        first = ServiceProcess(config, before=trace)
        orders: list[dict[str, Any]] = []
        answers: dict[str, str] = {}
        while first.process.poll() is None and len(answers) < 100:
            if len(orders) == len(answers):
                deadline = time.time_ns() + 600 * NANO
                orders.append(order_json(f"order {len(orders)}", quantity=350 + len(orders), deadline=deadline))
            answer = first.answered(orders[-1])
            if answer is not None and answer.status_code == 200:
                answers[orders[-1]["key"]] = answer.text
            else:
                time.sleep(0.01)
        assert first.process.poll() is not None
        first.end()
        second = ServiceProcess(config)
        try:
            found = {order["key"]: second.waited(order).text for order in orders}
            for order in orders:
                second.settled(order["key"])
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait(60) == 0
        finally:
            second.end()
        assert answers.items() <= found.items()
        with SqliteLog(folder / "live.sqlite", create=False) as log:
            assert complaint(folder, log, replay_log(log)) == ""
    survived("kill -9 of the real command at a system call", len(kills))
