"""A short life of a log, for tests that end it in some bad way, and what must hold of what they leave."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from pathlib import Path

from log_stores import append, entry
from riskroute.live.log.interface import Entry, Log, Snapshot, verify_chain
from riskroute.live.log.sqlite import SqliteLog

LONG = os.environ.get("RISKROUTE_CRASH") == "long"
"""Whether to try every fault, as `make crash` does, or a selection in a few seconds."""

BATCHES: list[list[Entry]] = [
    [entry(f"{k}.{j}", bytes([k]) * (37 * k % 700)) for j in range(1 + k % 3)] for k in range(24 if LONG else 12)
]
"""What is appended, one batch after another."""


def live(log: Log, answered: Callable[[str], None]) -> None:
    """Take the lease, append all batches, and save snapshots, telling of every key once it is durable."""
    log.lease("desk", math.inf)
    for number, batch in enumerate(BATCHES):
        append(log, batch)
        for one in batch:
            answered(one.key)
        if number % 5 == 4:
            head = log.head()
            log.snapshot(Snapshot(head.seq, head.chain, b"state" * 100))


def complaint(path: Path, answered: Collection[str]) -> str:
    """What is wrong with the file of a log whose life was cut short, in words; nothing if all promises hold."""
    with SqliteLog(path, "test") as log:
        verify_chain(log)
        rows = [Entry(row.kind, row.key, row.body, row.at) for row in log.read()]
        if lost := set(answered) - {row.key for row in rows}:
            return f"{len(lost)} answered entries are lost"
        if rows not in _PREFIXES:
            return "a batch is there in part, or in another sequence"
        snapshot = log.snapshot()
        if snapshot is not None and snapshot.body != b"state" * 100:
            return "a snapshot is damaged"
        log.lease("next", math.inf)
        numbers = append(log, _PREFIXES[-1])
        if numbers != list(range(1, len(numbers) + 1)):
            return "a second life does not end where the first would have"
        verify_chain(log)
    return ""


_PREFIXES = [[one for batch in BATCHES[:k] for one in batch] for k in range(len(BATCHES) + 1)]
