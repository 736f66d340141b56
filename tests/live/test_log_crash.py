"""The log of the live router keeps its promises when processes are killed, power is cut and disks fail."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from faulty_disk import DiskImage, FaultyDisk, FaultyLog, FaultyStateStore, Operation, disk_images
from killed_logs import PROGRAM, LogWriter
from live_logs import BATCHES, ENVIRONMENT, LONG, append, complaint, entry, live
from riskroute.core.errors import LeaseError, WriteError
from riskroute.live.log.group_commit import _Call
from riskroute.live.log.interface import verify_log_chain
from riskroute.live.log.sqlite import SqliteLog

pytestmark = pytest.mark.crash

Survived = Callable[[str, int], None]


def test_nothing_answered_is_lost_when_killed_at_any_write(quick_folder: Path, survived: Survived) -> None:
    """Before, in the middle of, and after each change of a file."""
    command = [sys.executable, str(PROGRAM), "disk", str(quick_folder), "1" if LONG else "4"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["killed"] >= (700 if LONG else 30)
    survived("kill -9 before, in or after a change of a file of SQLite", found["killed"])


def test_nothing_answered_is_lost_when_killed_at_any_system_call(quick_folder: Path, survived: Survived) -> None:
    """With the SQLite that Python came with, killed from outside."""
    strace = shutil.which("strace")
    traced = strace and subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True, check=False)
    if not strace or not traced or traced.returncode != 0:
        pytest.skip("needs strace, and the right to trace a process")
    calls = "pwrite64,fdatasync,fsync,ftruncate,unlink"
    killed, when = 0, 1 if LONG else 9
    while True:
        path = quick_folder / str(when) / "live.db"
        inject = f"inject={calls}:signal=SIGKILL:when={when}"
        command = [strace, "-f", "-o", os.devnull, "-e", f"trace={calls}", "-e", inject]
        done = subprocess.run(
            [*command, sys.executable, str(PROGRAM), "live", str(path)],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
        if done.returncode == 0:
            break
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
        assert complaint(path, done.stdout.split()) == ""
        killed += 1
        when += 1 if LONG else 23
    assert killed >= (100 if LONG else 2)
    survived("kill -9 at a system call of the writer", killed)


def recorded_life(folder: Path, synchronous: str = "") -> list[DiskImage]:
    """All disk images that a power cut in the life of a log may leave."""
    folder.mkdir()
    disk = FaultyDisk()
    with FaultyLog(folder / "live.db", disk, synchronous, pages=8) as log:
        store = FaultyStateStore(folder / "live.db-state", disk, pages=8)
        live(log, store, disk.answered)
        store.close()
    assert {one.what for one in disk.operations} == {"create", "write", "sync", "truncate", "delete", "answer"}
    return list(disk_images(disk.operations, ["live.db", "live.db-state"]))


def complaints(folder: Path, images: list[DiskImage]) -> list[str]:
    """What is wrong with images, once the log has been opened on them."""
    found = []
    for number, image in enumerate(images):
        place = folder / str(number)
        place.mkdir()
        for name, content in image.files.items():
            (place / name).write_bytes(content)
        if text := complaint(place / "live.db", image.answered):
            found.append(text)
        shutil.rmtree(place)
    return found


def test_nothing_answered_is_lost_when_the_power_is_cut(quick_folder: Path, survived: Survived) -> None:
    images = recorded_life(quick_folder / "life")
    assert len(images) > 500
    tried = images if LONG else images[::9]
    assert complaints(quick_folder, tried) == []
    survived("power cut, all that was not synced lost or torn", len(tried))


def test_a_log_that_does_not_sync_every_commit_is_caught(quick_folder: Path) -> None:
    """The same check must fail without the sync: it is what keeps the promise."""
    images = recorded_life(quick_folder / "life", "NORMAL")
    found = complaints(quick_folder, images[:: 9 if LONG else 45])
    lost = [text for text in found if text.endswith("answered entries are lost")]
    assert len(lost) > 5
    assert all("head" in text for text in found if text not in lost), "the others lost rows that were recorded"


class FailsFrom:
    """A fault that raises at a change of a file and all later ones, while it is on."""

    def __init__(self, when: int, what: str, code: int) -> None:
        self.when, self.what, self.code, self.on, self.failed = when, what, code, True, 0

    def __call__(self, number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if self.on and number >= self.when and operation.what == self.what:
            self.failed += 1
            raise apsw.exception_for(self.code)
        perform()


def test_nothing_is_lost_or_half_written_when_the_disk_is_full(quick_folder: Path, survived: Survived) -> None:
    """Every append on the full disk is refused for certain; with space again, the log goes on where it was."""
    full = 0
    for when in range(25, 2000, 1 if LONG else 11):
        path = quick_folder / f"{when}.db"
        fault = FailsFrom(when, "write", apsw.SQLITE_FULL)
        with FaultyLog(path, FaultyDisk(fault), pages=8) as log:
            log.lease("desk", math.inf)
            refused = 0
            for batch in BATCHES:
                before = log.head()
                if (error := log.append(batch).exception(30)) is not None:
                    assert isinstance(error, WriteError)
                    assert error.definite
                    assert "cannot be written" in str(error)
                    assert log.head() == before
                    refused += 1
                    if refused == 3:
                        fault.on = False
            fault.on = False
            append(log, BATCHES[-1])
            verify_log_chain(log)
        assert complaint_of_some(path) == ""
        if fault.failed == 0:
            break
        full += 1
    else:
        pytest.fail("the life of a log has fewer changes than that")
    survived("full disk from a write on", full)


def test_appends_after_a_failed_one_fail_too(quick_folder: Path) -> None:
    """Who appended it could not know of the failure: it must not be there without what came before it."""
    stopped, going = threading.Event(), threading.Event()

    def fault(number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if stopped.is_set():
            going.set()
            if not queued.wait(60):
                raise TimeoutError
            stopped.clear()
            raise apsw.exception_for(apsw.SQLITE_FULL)
        perform()

    queued = threading.Event()
    with FaultyLog(quick_folder / "live.db", FaultyDisk(fault)) as log:
        log.lease("desk", math.inf)
        stopped.set()
        futures = [log.append([entry("first")])]
        assert going.wait(60)
        futures += [log.append([entry(f"later {k}")]) for k in range(5)]
        between = threading.Thread(target=log.lease, args=("desk", math.inf))
        between.start()
        while not isinstance(log._jobs[-1], _Call):
            time.sleep(0.001)
        futures.append(log.append([entry("last")]))
        queued.set()
        between.join()
        for future in futures:
            error = future.exception(30)
            assert isinstance(error, WriteError)
            assert error.definite
        assert append(log, [entry("first")]) == [1]


def complaint_of_some(path: Path) -> str:
    """What is wrong with a log in which some batches may be missing, each whole or not at all."""
    with SqliteLog(path, "test") as log:
        keys = [row.key for row in log.read()]
        expected = [one.key for batch in BATCHES if batch[0].key in keys for one in batch]
        return "" if sorted(keys) == sorted(expected) and len(keys) == len(set(keys)) else "a batch is there in part"


def test_after_a_failed_sync_the_log_must_be_opened_again(quick_folder: Path, survived: Survived) -> None:
    """Whether the rows reached the disk is not known: no other is written until the file has been read again."""
    failed = 0
    for when in range(40, 400, 5 if LONG else 60):
        path = quick_folder / f"{when}.db"
        fault = FailsFrom(when, "sync", apsw.SQLITE_IOERR_FSYNC)
        answered = []
        with FaultyLog(path, FaultyDisk(fault)) as log:
            log.lease("desk", math.inf)
            for batch in BATCHES:
                error = log.append(batch).exception(30)
                if error is not None:
                    break
                answered += [one.key for one in batch]
            fault.on = False
            if error is None:
                break
            assert isinstance(error, WriteError)
            assert not error.definite
            with pytest.raises(WriteError, match="cannot be written"):
                append(log, [entry("more")])
            with pytest.raises(WriteError, match="cannot be written"):
                log.lease("desk", 1)
        assert complaint(path, answered) == ""
        failed += 1
    assert failed >= 1
    survived("failed sync", failed)


def test_a_slow_sync_is_reported(quick_folder: Path) -> None:
    told: list[float] = []
    slow = threading.Event()

    def fault(number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if slow.is_set() and operation.what == "sync":
            time.sleep(0.2)
        perform()

    with FaultyLog(quick_folder / "live.db", FaultyDisk(fault), slow_commit=0.19, on_slow_commit=told.append) as log:
        log.lease("desk", math.inf)
        slow.set()
        append(log, [entry("slow")])
        slow.clear()
    assert len(told) == 1
    assert told[0] >= 0.2


def test_two_processes_never_both_write(quick_folder: Path) -> None:
    """One is refused while the other lives, and takes over at once when that is killed."""
    writer = LogWriter(quick_folder / "live.db", math.inf)
    try:
        assert writer.answer() == "ready"
        with SqliteLog(quick_folder / "live.db") as log:
            with pytest.raises(LeaseError, match="'waiting' writes this log"):
                log.lease("second", 1)
            writer.process.kill()
            writer.process.wait()
            assert log.lease("second", 1).term == 2
            assert append(log, [entry("second")]) == [2]
    finally:
        writer.end()


def test_a_process_that_was_stopped_and_woken_is_refused(quick_folder: Path, survived: Survived) -> None:
    writer = LogWriter(quick_folder / "live.db", 0)
    try:
        assert writer.answer() == "ready"
        os.kill(writer.process.pid, signal.SIGSTOP)
        with SqliteLog(quick_folder / "live.db") as log:
            assert log.lease("second", math.inf).term == 2
            append(log, [entry("second")])
            writer.ask()
            os.kill(writer.process.pid, signal.SIGCONT)
            assert writer.answer() == ("FencedError: 'second' took over the lease of this log: nothing was written")
            assert [row.key for row in log.read()] == ["first", "second"]
            verify_log_chain(log)
            writer.end()
            with SqliteLog(quick_folder / "live.db") as third, pytest.raises(LeaseError, match="'second' writes"):
                third.lease("third", 1)
    finally:
        writer.end()
    survived("old writer stopped, taken over from, and woken", 1)
