"""The commands that read a log work in a folder that cannot be written, and never skip rows of the write-ahead file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from live_logs import ENVIRONMENT
from live_services import order_json, running, service_config

COMMANDS = """
import sys
from riskroute.cli.app import run_app

for name in ("stopped", "killed", "without-shm"):
    for words in (["verify"], ["replay"], ["export", "--out", sys.argv[2] + "/" + name]):
        print(name, words[0], run_app(["live", words[0], f"{sys.argv[1]}/{name}/live.sqlite", *words[1:]]), flush=True)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Logs of three orders: of a stopped service, of a killed one, and of a killed one whose -shm is missing."""
    base = tmp_path / "logs"
    base.mkdir()
    with running(service_config(base)) as up:
        for number in range(3):
            up.client.post("/orders", json=order_json(f"o{number}"))
        for number in range(3):
            up.client.settled(f"o{number}")
        up.service.engine.flush()
        for name, ends in (("killed", ("", "-wal", "-shm", "-lease")), ("without-shm", ("", "-wal"))):
            (base / name).mkdir()
            for end in ends:
                shutil.copy(base / f"live.sqlite{end}", base / name)
    (base / "stopped").mkdir()
    shutil.copy(base / "live.sqlite", base / "stopped")
    return base


def read_only(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that cannot write a folder; as root, which may write anything, on a mount that is read-only."""
    if os.geteuid() == 0:
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        able = shutil.which("unshare") and subprocess.run(
            ["unshare", "-m", "sh", "-c", mount, str(folder), "true"], capture_output=True, check=False
        )
        if not able or able.returncode != 0:
            pytest.skip("as root, needs unshare and the right to mount")
        command = ["unshare", "-m", "sh", "-c", mount, str(folder), *command]
    else:
        for place in (folder, *folder.rglob("*")):
            place.chmod(0o500 if place.is_dir() else 0o400)
    try:
        return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    finally:
        for place in (folder, *folder.rglob("*")):
            place.chmod(0o700 if place.is_dir() else 0o600)


def test_logs_are_read_in_a_read_only_folder_with_all_their_rows(base: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in base.rglob("*") if file.is_file() and not file.name.endswith("-shm")}
    done = read_only([sys.executable, "-c", COMMANDS, str(base), str(tmp_path)], base)
    said = done.stdout.splitlines()
    for name in ("stopped", "killed"):
        for word in ("verify", "replay", "export"):
            assert f"{name} {word} 0" in said, done
    assert sum("3 decisions recomputed, 0 differ" in line for line in said) == 2
    assert sum("3 orders, 3 settled, 0 unsettled" in line for line in said) == 2
    assert "without-shm verify 2" in said
    assert "without-shm replay 2" in said
    assert "path must be in a writable folder, since live.sqlite-wal has rows too" in done.stderr
    after = {file: file.read_bytes() for file in before}
    assert after == before
