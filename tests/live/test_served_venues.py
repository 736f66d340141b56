"""Simulated venues of the service remember what they did, however they ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from live_engines import START, Clock, Listener, child_order, parent_order, quotes
from live_services import order_json, running, service_config
from riskroute.core.instrument import Instrument
from riskroute.live.fees import LivePlaceFees, OrderFee
from riskroute.live.state.amounts import NANO
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.venues.simulated import JournalledVenue, SimulatedVenueMarket

ORDER = parent_order(quantity=1000)


def charged(place: str, instrument: Instrument) -> LivePlaceFees:
    return LivePlaceFees(OrderFee(3), OrderFee(-2))


def venue(journal: Path, clock: Clock, heard: list[ExecutionReport]) -> JournalledVenue:
    market = SimulatedVenueMarket(lambda symbol: quotes(clock.now), fees=charged, fill_seconds=0.5)
    made = JournalledVenue("A", market, clock, latency=0.001, journal=journal)
    made.connect(Listener(heard))
    return made


def play(one: JournalledVenue, clock: Clock, seconds: float) -> None:
    end = clock.now + int(seconds * NANO)
    while one.next_due is not None and one.next_due <= end:
        clock.now = max(clock.now, one.next_due)
        one.deliver()
    clock.now = end


def test_a_killed_venue_remembers_its_children(tmp_path: Path) -> None:
    clock, heard, journal = Clock(), list[ExecutionReport](), tmp_path / "A.jsonl"
    taken = child_order(ORDER, 0, 300, kind="take", until=0)
    resting = child_order(ORDER, 1, 5000)
    first = venue(journal, clock, heard)
    first.send(taken)
    first.send(resting)
    play(first, clock, 2)
    assert 0 < first.children[resting.id].cum < 5000
    first.stop()
    with journal.open("ab") as file:
        file.write(b'{"child": {"id": "cut o')

    clock.now += NANO
    again: list[ExecutionReport] = []
    second = venue(journal, clock, again)
    assert second.children[taken.id].cum == 300
    before = first.children[resting.id].cum
    assert second.children[resting.id].cum == before
    second.send(taken)  # sent twice: traded once
    second.query(taken)
    play(second, clock, 20)
    assert {report.exec_id for report in heard if report.kind == "filled" and report.child == taken.id} == {
        report.exec_id for report in again if report.kind == "filled" and report.child == taken.id
    }
    last = [report for report in again if report.child == resting.id][-1]
    assert last.kind == "expired"
    assert last.cum > before
    new = {report.exec_id for report in again} - {report.exec_id for report in heard}
    assert min(map(int, new)) > max(int(report.exec_id) for report in heard)
    second.stop()


def test_a_venue_reads_a_long_journal_without_keeping_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, journal = Clock(), tmp_path / "A.jsonl"
    first = venue(journal, clock, [])
    resting = child_order(ORDER, 0, 5000)
    first.send(resting)
    for number in range(1, 100):
        first.send(child_order(ORDER, number, 10, kind="take", until=0))
    play(first, clock, 0.1)
    first.stop()
    monkeypatch.setattr(JournalledVenue, "most_ended", 10)
    second = venue(journal, clock, [])
    assert len(second.children) <= 20
    assert second.children[resting.id].open
    assert list(second.children)[-1] == list(first.children)[-1]
    second.stop()


def test_the_journal_has_only_the_children_that_a_venue_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, journal = Clock(), tmp_path / "A.jsonl"
    monkeypatch.setattr(JournalledVenue, "most_ended", 10)
    first, sizes = venue(journal, clock, []), []
    resting = child_order(ORDER, 0, 5000)
    first.send(resting)
    for number in range(1, 200):
        first.send(child_order(ORDER, number, 10, kind="take", until=0))
        play(first, clock, 0.1)
        sizes.append(journal.stat().st_size)
    first.stop()
    assert max(sizes[100:]) <= 1.1 * max(sizes[:100])
    assert journal.stat().st_mode & 0o777 == 0o600
    second = venue(journal, clock, [])
    assert {name: vars(there) for name, there in second.children.items()} == {
        name: vars(there) for name, there in first.children.items()
    }
    second.stop()


def test_every_file_of_the_service_is_for_its_owner_alone_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a mask, and without a later change of the mode, which would leave a window."""
    before = os.umask(0)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    try:
        with running(service_config(tmp_path)) as up:
            assert up.client.post("/orders", json=order_json()).status_code == 200
            up.client.settled("one")
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    ends = ("", "-wal", "-shm", "-lease", "-state", "-state-wal", "-state-shm")
    journals = [f"-venue-{name}.jsonl" for name in "ABP"]
    assert modes == {f"live.sqlite{end}": 0o600 for end in (*ends, *journals)}


def test_fees_are_for_taking_or_for_resting_and_nothing_trades_without_books() -> None:
    market = SimulatedVenueMarket(lambda symbol: (), fees=charged)
    children = [child_order(ORDER, 0, 300, kind=kind) for kind in ("take", "limit", "sweep")]
    assert [market.fee(child, [(NANO, 100), (NANO, 200)]) for child in children] == [900, -600, 900]
    assert market.trades(child_order(ORDER, 0, 300, kind="take", until=0), START, START) == []


def test_a_venue_may_have_any_valid_name(tmp_path: Path) -> None:
    """Its journal lies beside the log all the same."""
    config = service_config(tmp_path, venues={"A": {"latency_ms": 0.0}, "B/..": {"latency_ms": 0.0}})
    order = order_json()
    order["quotes"][1]["venue"] = "B/.."
    with running(config) as up:
        assert up.client.post("/orders", json=order).status_code == 200
        assert up.client.settled("one")["filled"] == 100
    assert (tmp_path / "live.sqlite-venue-B%2F...jsonl").is_file()
