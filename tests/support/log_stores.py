"""Every kind of store that a live log can have, for tests that hold of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from riskroute.live.log import Entry, Log
from riskroute.live.log_memory import MemoryLog, MemoryStore
from riskroute.live.log_sqlite import SqliteLog

LogOpener = Callable[[], Log]
"""Opens one more log on the same store."""


@contextmanager
def memory_store(folder: Path) -> Iterator[LogOpener]:
    """A new store in memory."""
    store = MemoryStore("test")
    yield from _opened(lambda: MemoryLog(store))


@contextmanager
def sqlite_store(folder: Path) -> Iterator[LogOpener]:
    """A new file of SQLite."""
    yield from _opened(lambda: SqliteLog(folder / "live.db", "test"))


def _opened(opener: LogOpener) -> Iterator[LogOpener]:
    """The opener, with a promise that what it opened is closed."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(opener())


STORES = {"memory": memory_store, "sqlite": sqlite_store}


def entry(key: str = "", body: bytes | str = b"", kind: str = "order", at: int = 0) -> Entry:
    """An entry with little to say."""
    return Entry(kind, key, body.encode() if isinstance(body, str) else body, at)


def append(log: Log, entries: Sequence[Entry]) -> list[int]:
    """Append, and wait until it is durable."""
    return log.append(entries).result(timeout=30)
