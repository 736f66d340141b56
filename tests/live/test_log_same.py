"""Every store of the live log does what the one in memory does, whatever is asked of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from live_logs import LONG, LogOpener, new_store
from riskroute.core.errors import RiskrouteError
from riskroute.live.log.interface import Log, LogEntry, verify_log_chain

KEYS = ["", "a", "b", "c"]
ENTRIES = st.builds(
    LogEntry,
    kind=st.sampled_from(["order", "fill"]),
    key=st.sampled_from(KEYS),
    body=st.sampled_from([b"", b"\0one", b"two"]),
    at=st.integers(0, 3),
)


class Step(NamedTuple):
    """Something that one of two users of a store does."""

    user: int
    what: str
    value: Any


def step(what: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.integers(0, 1), st.just(what), values)


STEPS = st.lists(
    st.one_of(
        step("append", st.lists(ENTRIES, max_size=4)),
        step("append at once", st.lists(st.lists(ENTRIES, max_size=3), max_size=4)),
        step("lease", st.sampled_from([0, math.inf])),
        step("read", st.tuples(st.integers(-1, 6), st.none() | st.integers(0, 4))),
        step("head", st.none()),
        step("find", st.sampled_from(KEYS)),
        step("reopen", st.none()),
    ),
    max_size=12,
)


class Users:
    """Two logs on one store, and what came of each step; of rows without their hashes, as headers differ."""

    def __init__(self, opener: LogOpener) -> None:
        self.opener = opener
        self.logs = [opener(), opener()]
        self.outcomes: list[object] = []

    def do(self, step: Step) -> None:
        log = self.logs[step.user]
        try:
            self.outcomes.append(self._done(log, step))
        except RiskrouteError as error:
            self.outcomes.append((type(error), str(error)))

    def _done(self, log: Log, step: Step) -> object:
        if step.what == "append":
            return log.append(step.value).result(30)
        if step.what == "append at once":
            futures = [log.append(batch) for batch in step.value]
            return [str(future.exception(30) or future.result()) for future in futures]
        if step.what == "lease":
            lease = log.lease(f"user {step.user}", step.value)
            return lease.owner, lease.term
        if step.what == "read":
            rows = list(log.read(*step.value))
            return [
                (row.seq, row.kind, row.key, row.at if row.seq else "", row.body if row.seq else "") for row in rows
            ]
        if step.what == "head":
            return log.head().seq
        if step.what == "find":
            return [(key, row.seq, row.body) for key, row in log.find(("order",), [step.value]).items()]
        log.close()
        self.logs[step.user] = self.opener()
        return None


def outcomes(kind: str, folder: Path, database: str, steps: list[Step]) -> list[object]:
    """What came of steps on a new store of some kind."""
    with new_store(kind, folder, database) as opener:
        users = Users(opener)
        for one in steps:
            users.do(one)
        verify_log_chain(users.logs[0])
        return users.outcomes


@pytest.mark.crash
@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 500 if LONG else 50), ("postgres", 200 if LONG else 15)])
def test_every_store_behaves_like_the_memory_log(
    kind: str, examples: int, quick_folder: Path, request: pytest.FixtureRequest
) -> None:
    database = request.getfixturevalue("postgres") if kind == "postgres" else ""

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(STEPS)
    def compare(steps: list[Step]) -> None:
        assert outcomes(kind, quick_folder, database, steps) == outcomes("memory", quick_folder, "", steps)

    compare()
