"""Logs in processes that tests kill: a program of its own, since forking is safe only without threads.

killed_logs.py disk FOLDER STEP     one child for every STEP-th change of the files, killed before, in or after it
killed_logs.py live FILE            one life that prints each answered key, to be killed from outside
killed_logs.py wait FILE            takes the lease, appends, and then appends once for every line of its input
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from faulty_disk import FaultyDisk, FaultyLog, FaultyStateStore, Operation
from live_logs import ENVIRONMENT, LONG, append, complaint, entry, live, store_beside
from riskroute.core.errors import LeaseError
from riskroute.live.log.interface import Log
from riskroute.live.log.postgres import PostgresLog
from riskroute.live.log.sqlite import SqliteLog

PROGRAM = Path(__file__)


class LogWriter:
    """A log in a process of its own, which appends when told to."""

    def __init__(self, where: object, seconds: float, *stream: str) -> None:
        command = [sys.executable, str(PROGRAM), "wait", str(where), str(seconds), *stream]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


MANNERS = ("before", "in", "after")


def killing(when: int, manner: str, folder: Path) -> Callable[[int, Operation, Callable[[], None]], None]:
    """A fault that ends this process at a given change of the files."""

    def fault(number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if number < when:
            perform()
            return
        if manner == "in" and operation.what == "write":
            file = os.open(folder / operation.file, os.O_WRONLY)
            os.pwrite(file, operation.data[: len(operation.data) // 2], operation.offset)
        elif manner == "after":
            perform()
        os.kill(os.getpid(), signal.SIGKILL)

    return fault


def killed_once(folder: Path, when: int, manner: str) -> str | None:
    """What is wrong after a life that is ended at a given change; None if it ends by itself before that."""
    folder.mkdir()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        disk = FaultyDisk(killing(when, manner, folder))
        with FaultyLog(folder / "live.db", disk, pages=8) as log:
            live(log, FaultyStateStore(folder / "live.db-state", disk, pages=8), lambda key: _say(writing, key))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        answered = said.read().split()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return None
    if not os.WIFSIGNALED(status):
        return f"the child ended with status {status}"
    return complaint(folder / "live.db", answered)


def kill_all(folder: Path, step: int) -> None:
    """Kill at every ``step``-th change, and print how many lives were cut short and what was wrong."""
    killed, wrong, when = 0, [], 1
    while True:
        manners = MANNERS if LONG else [MANNERS[when % 3]]
        said = {manner: killed_once(folder / f"{when}{manner}", when, manner) for manner in manners}
        if None in said.values():
            break
        killed += len(said)
        wrong += [f"killed {manner} change {when}: {text}" for manner, text in said.items() if text]
        when += step
    print(json.dumps({"killed": killed, "wrong": wrong}))  # noqa: T201 - for the test


def wait(log: Log, seconds: float) -> None:
    """Write while there is input; say what came of it."""
    log.lease("waiting", seconds)
    append(log, [entry("first")])
    _say(1, "ready")
    for number, _ in enumerate(sys.stdin):
        try:
            append(log, [entry(f"more {number}")])
            _say(1, "written")
        except LeaseError as error:
            _say(1, f"{type(error).__name__}: {error}")


def _say(file: int, text: str) -> None:
    os.write(file, f"{text}\n".encode())


if __name__ == "__main__":
    what, where, *more = sys.argv[1:]
    if what == "disk":
        kill_all(Path(where), int(more[0]))
    elif what == "live":
        with SqliteLog(where, "test") as log:
            live(log, store_beside(Path(where)), lambda key: _say(1, key))
    else:
        with PostgresLog(where, more[1]) if len(more) > 1 else SqliteLog(where, "test") as waiting:
            wait(waiting, float(more[0]))
