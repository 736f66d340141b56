"""Every kind of store that a live log can have, for tests that hold of all of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from log_memory import MemoryLog, MemoryStore
from riskroute.live.log.interface import Entry, Log
from riskroute.live.log.sqlite import SqliteLog

LogOpener = Callable[[], Log]
"""Opens one more log on the same store."""

STORES = ("memory", "sqlite", "postgres")

_NUMBERS = itertools.count()


@contextmanager
def new_store(kind: str, folder: Path, database: str = "") -> Iterator[LogOpener]:
    """A new store of some kind: in memory, in a folder, or in a database. Closes all that was opened on it."""
    number = next(_NUMBERS)
    stream = f"test-{os.getpid()}-{number}"
    store = MemoryStore(stream)

    def opened() -> Log:
        if kind == "memory":
            return MemoryLog(store)
        if kind == "sqlite":
            return SqliteLog(folder / f"{number}.db", stream)
        from riskroute.live.log.postgres import PostgresLog

        return PostgresLog(database, stream)

    with ExitStack() as stack:
        yield lambda: stack.enter_context(opened())


def entry(key: str = "", body: bytes | str = b"", kind: str = "order", at: int = 0) -> Entry:
    """An entry with little to say."""
    return Entry(kind, key, body.encode() if isinstance(body, str) else body, at)


def append(log: Log, entries: Sequence[Entry]) -> list[int]:
    """Append, and wait until it is durable."""
    return log.append(entries).result(timeout=30)
