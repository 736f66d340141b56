"""Events as rows of the log, and back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_engines import accepted, child_order, parent_order, report
from live_logs import MemoryLog
from riskroute.core.errors import DataError
from riskroute.live.log import interface
from riskroute.live.log.interface import (
    MOST_TOGETHER,
    NO_CHAIN,
    LogEntry,
    chained,
    log_entries_of,
    log_events_after,
    log_row_events,
    log_rows_events,
)
from riskroute.live.state.events import AnyEvent, ReportedEvent, ResumedEvent, SentEvent

_CHILD = child_order(parent_order(), 0, 100)
_WITHOUT_KEY = st.one_of(
    st.builds(SentEvent, at=st.integers(0, 9), child=st.text("ab", min_size=1, max_size=3)),
    st.builds(ResumedEvent, at=st.integers(-9, 9), by=st.just("desk")),
    st.builds(
        ReportedEvent, at=st.integers(0, 9), report=st.just(report(_CHILD, "filled", "1", quantity=1, raw=b"\xdd"))
    ),
)
_WITH_KEY = st.uuids().map(lambda key: accepted(parent_order(str(key))))


@given(st.lists(st.one_of(_WITHOUT_KEY, _WITHOUT_KEY, _WITH_KEY), max_size=40), st.integers(1, 8))
def test_events_come_back_from_the_log_in_their_sequence(events: list[AnyEvent], most: int) -> None:
    with pytest.MonkeyPatch.context() as patched, MemoryLog() as log:
        patched.setattr(interface, "MOST_TOGETHER", most)
        log.lease("test", math.inf)
        entries = log_entries_of(events)
        if entries:
            log.append(entries).result()
        assert [event for _, event in log_events_after(log)] == events
        rows = list(log.read())
        one_by_one = [list(log_row_events(row)) for row in rows]
        assert [list(some) for some in log_rows_events(rows)] == one_by_one
        for row, some in zip(rows, one_by_one, strict=True):
            assert len(some) <= most
            assert (row.kind == "together") == (len(some) > 1)
            assert (row.key == "") == (row.kind != "accepted")
            assert row.at == max(some[-1].at, 0)


def test_neighbours_without_a_key_share_a_row_and_no_others() -> None:
    sent = [SentEvent(at=1, child=f"{number}") for number in range(MOST_TOGETHER + 2)]
    events: list[AnyEvent] = [sent[0], accepted(parent_order()), *sent]
    assert [entry.kind for entry in log_entries_of(events)] == ["sent", "accepted", "together", "together"]
    assert log_entries_of([]) == []


@pytest.mark.parametrize("body", [b"", b"nothing", b"\x91\x01", b"\x90\x90", b"\xdd\xff\xff\xff\xff"])
def test_an_undecodable_row_is_named(body: bytes) -> None:
    good = log_entries_of([ResumedEvent(at=1, by="desk")])[0]
    rows = [chained(NO_CHAIN, 1, good), chained(NO_CHAIN, 2, LogEntry("together", "", body, 1))]
    with pytest.raises(DataError, match="row 2 of the log cannot be decoded as an event"):
        list(log_rows_events(rows))
