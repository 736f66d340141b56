"""A real PostgreSQL server for tests and benchmarks, reached through a socket in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOMES = Path("/usr/lib/postgresql")
"""Where Debian's packages put the programs, one folder per version."""

SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "50",
    "unix_socket_permissions": "0700",
}
"""Syncing is left on: it is what logs promise."""


def postgres_programs() -> Path | None:
    """The folder with the newest server of this machine; None if there is none."""
    found = sorted(HOMES.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    named = shutil.which("initdb")
    places = [path.parent for path in found] + ([Path(named).resolve().parent] if named else [])
    return places[-1] if places else None


class PostgresServer:
    """A server whose files are in ``folder / "data"``. As root, it runs as another user: it refuses to run as root."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        self.database = f"host={folder} dbname=postgres user=postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), *settings]
        printed = self.folder / "server.log"
        with printed.open("wb") as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said, **_other_user(self.folder))
        for _ in range(6000):
            if self._process.poll() is not None:
                raise OSError(printed.read_text())
            status = self.folder / "data" / "postmaster.pid"
            lines = status.read_text().splitlines() if status.exists() else []
            if lines and lines[-1].strip() == "ready":
                return
            time.sleep(0.05)
        self.stop()
        raise TimeoutError(printed.read_text())

    def stop(self, *, as_in_a_crash: bool = False) -> None:
        """End it in good order, or at once, so that it has to recover."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if as_in_a_crash else signal.SIGINT)
            self._process.wait(60)


@contextmanager
def postgres_server(template: Path | None = None, *, on_disk: bool = False) -> Iterator[PostgresServer]:
    """Start a server with an empty database.

    ``template`` is a folder for the files of a new server, made if it is empty and copied from then on. The server's
    own files are in memory where there is a place for them, unless ``on_disk``.
    """
    programs = postgres_programs()
    assert programs is not None
    memory = "/dev/shm" if not on_disk and os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="rr-pg-", dir=memory) as name:
        folder = Path(name)
        _make_files(programs, folder, template)
        server = PostgresServer(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _make_files(programs: Path, folder: Path, template: Path | None) -> None:
    """Fill ``folder/data``, with a server that was made before or a new one."""
    made = None if template is None else template / "data"
    if made is not None and made.exists():
        shutil.copytree(made, folder / "data", symlinks=True)
    else:
        words = ["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C"]
        command = [str(programs / "initdb"), "-D", str(folder / "data"), *words]
        subprocess.run(command, check=True, capture_output=True, **_other_user(folder))
        if made is not None:
            shutil.copytree(folder / "data", made, symlinks=True)
    (folder / "data").chmod(0o700)


def _other_user(folder: Path) -> dict[str, Any]:
    """How to start a process as another user, who is given the folder, if this is root."""
    if os.geteuid() != 0:
        return {"cwd": folder}
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, "nobody", "nogroup")
    return {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": folder}
