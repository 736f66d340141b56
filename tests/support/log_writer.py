"""Writers of logs in processes of their own, to be killed, stopped and woken."""

from __future__ import annotations

import os
import subprocess
import sys

from places import ROOT

PROGRAM = ROOT / "tests" / "support" / "killed_logs.py"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("COV_")}


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
