"""Stores of snapshots and archived orders: what is newer than a start is removed, what is expired too, nothing else."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from live_logs import MemoryStateStore
from riskroute.core.errors import StateError
from riskroute.live.log.state_store import PostgresStateStore, SqliteStateStore, StateSnapshot, StateStore
from riskroute.live.state.archive import ArchivedOrder

Opener = Callable[[], StateStore]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens a store once more."""
    opened: list[StateStore] = [MemoryStateStore()]

    def again() -> StateStore:
        if request.param == "sqlite":
            opened.append(SqliteStateStore(tmp_path / "live.sqlite-state", "main"))
        elif request.param == "postgres":
            stream = f"{os.getpid()} {request.node.name}"[:64]
            opened.append(PostgresStateStore(request.getfixturevalue("postgres"), stream))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


def snapshot(seq: int, archived: int, day: int = 100) -> StateSnapshot:
    return StateSnapshot(seq, bytes([seq]) * 16, archived, day, b"state %d" % seq)


def order(number: int, key: str, day: int = 100) -> ArchivedOrder:
    return ArchivedOrder(number, key, day, b"order %d" % number)


def test_the_newest_two_snapshots_are_kept_with_all_orders_before_them(opener: Opener) -> None:
    store = opener()
    term = store.begin(None)
    assert list(store.snapshots()) == []
    store.save(term, snapshot(3, 2), [order(1, "a"), order(2, "b")])
    store.save(term, snapshot(5, 3), [order(3, "a")])
    store.save(term, None, [order(4, "b")])
    store.save(term, snapshot(7, 5), [order(5, "c")])
    again = opener()
    assert list(again.snapshots()) == [snapshot(7, 5), snapshot(5, 3)]
    assert [again.find(key) for key in "abcd"] == [order(3, "a"), order(4, "b"), order(5, "c"), None]


def test_what_is_newer_than_the_start_is_removed(opener: Opener) -> None:
    store = opener()
    term = store.begin(None)
    store.save(term, snapshot(5, 2), [order(1, "a"), order(2, "b")])
    store.save(term, snapshot(9, 3), [order(3, "a")])
    store.save(term, None, [order(4, "b")])
    later = opener()
    later.begin(snapshot(5, 2))
    assert list(later.snapshots()) == [snapshot(5, 2)]
    assert [later.find(key) for key in "ab"] == [order(1, "a"), order(2, "b")]
    later.begin(None)
    assert list(later.snapshots()) == []
    assert later.find("a") is None


def test_only_who_began_last_writes(opener: Opener) -> None:
    old, new = opener(), opener()
    before = old.begin(None)
    term = new.begin(None)
    for write in (lambda: old.save(before, snapshot(3, 0), []), lambda: old.expire(before, 10)):
        with pytest.raises(StateError, match="another process writes the snapshots of this log"):
            write()
    new.save(term, snapshot(3, 0), [])
    assert list(old.snapshots()) == [snapshot(3, 0)]


def test_orders_expire_when_no_snapshot_needs_them(opener: Opener) -> None:
    store = opener()
    term = store.begin(None)
    orders = [order(number, f"{number}", 100 + number // 4) for number in range(12)]
    store.save(term, snapshot(3, 12, 102), orders)
    assert store.expire(term, 3)
    assert not store.expire(term, 3)
    assert [one.id for one in orders if store.find(one.id)] == [f"{number}" for number in range(4, 12)]
    store.save(term, snapshot(4, 12, 104), [])
    assert not store.expire(term, 3)
    store.save(term, snapshot(5, 12, 104), [])
    while store.expire(term, 3):
        pass
    assert not any(store.find(one.id) for one in orders)


def test_a_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "state", "main")
    store.begin(None)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    store.close()


@pytest.mark.parametrize("damage", ["stream", "version", "nonsense", "page"])
def test_a_file_that_is_damaged_or_of_another_log_is_replaced(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state"
    store = SqliteStateStore(path, "main")
    store.save(store.begin(None), snapshot(3, 1), [order(1, "a")])
    store.close()
    if damage == "version":
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
    elif damage == "nonsense":
        path.write_bytes(b"nonsense" * 1000)
    elif damage == "page":
        path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))
    store = SqliteStateStore(path, "other" if damage == "stream" else "main")
    assert list(store.snapshots()) == []
    store.save(store.begin(None), snapshot(4, 1), [order(1, "b")])
    store.close()


def test_a_damaged_snapshot_is_ignored(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "state", "main")
    term = store.begin(None)
    store.save(term, snapshot(3, 0), [])
    store.save(term, snapshot(4, 0), [])
    connection = sqlite3.connect(tmp_path / "state")
    with connection:
        connection.execute("UPDATE snapshot SET body = x'00' WHERE seq = 4")
    connection.close()
    assert list(store.snapshots()) == [snapshot(3, 0)]
    store.close()


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="state cannot be written: "):
        SqliteStateStore(tmp_path / "no folder" / "state", "main")
