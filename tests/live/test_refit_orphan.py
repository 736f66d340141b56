"""The process that learns ends when the service is killed, and is not left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

SERVICE = """
import os, time
from riskroute.live.background import BackgroundProcess
if __name__ == "__main__":
    worker = BackgroundProcess()
    print(worker.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_does_not_outlive_a_service_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "service.py"
    file.write_text(SERVICE)
    with subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as service:
        assert service.stdout is not None
        worker = int(service.stdout.readline())
        assert runs(worker)
        service.kill()
    until = time.monotonic() + 300
    while runs(worker):
        assert time.monotonic() < until
        time.sleep(0.05)
