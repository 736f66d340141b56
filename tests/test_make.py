"""The Makefile: one room at a time, what it says of rooms that are not there, and what `make test` leaves alone."""

from __future__ import annotations

import os
import subprocess

import pytest

from checkout import ROOT
from longest import LONGEST

ROOMS = sorted(path.parent.name for path in (ROOT / "src" / "riskroute").glob("*/__init__.py"))


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """Ask make what it would do, without the settings of a make that these tests may run in."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ROOM"))}
    command = ["make", "--dry-run", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_tests_of_its_own(room: str) -> None:
    assert list((ROOT / "tests" / room).glob("test_*.py"))
    last = make("test", f"ROOM={room}").stdout.splitlines()[-1]
    assert last.endswith(f" tests/{room} src/riskroute/{room}")
    assert "--cov" not in last


def test_an_unknown_room_is_answered_by_a_sentence() -> None:
    done = make("test", "ROOM=kitchen")
    assert f"ROOM must be one of {' '.join(ROOMS)}, was kitchen" in done.stdout
    assert "install" not in done.stdout
    assert "pytest" not in done.stdout


def test_the_files_that_are_begun_first_are_there() -> None:
    assert {path.name for path in (ROOT / "tests").rglob("test_*.py")} >= set(LONGEST)


def test_what_testing_leaves_out_is_run_by_continuous_integration() -> None:
    assert make("thorough").stdout.splitlines()[-1].endswith(" -m thorough tests")
    steps = (ROOT / ".ci" / "run").read_text().splitlines()
    assert {"make coverage", "make thorough"} <= set(steps)


def test_testing_installs_nothing_into_the_system() -> None:
    assert "apt-get" in make("browser", "PATH=").stdout
    commands = make("test").stdout
    assert "apt-get" not in commands
    assert "--cov" not in commands.splitlines()[-1]
    assert "--cov" in make("coverage").stdout.splitlines()[-1]


def test_every_fault_is_tried_when_asked_for() -> None:
    last = make("crash").stdout.splitlines()[-1]
    assert last.startswith("RISKROUTE_CRASH=long ")
    assert last.endswith(" -m crash tests/live")


def test_the_running_router_is_shown_by_its_own_command() -> None:
    assert make("live-demo").stdout.splitlines()[-1].endswith("-m riskroute live demo")
