"""Simulated venues of the service remember what they did, however they ended."""

from __future__ import annotations

from pathlib import Path

from live_engines import START, Clock, child_order, parent_order, quotes
from live_services import order_json, running, service_config
from riskroute.live.state.events import NANO, ExecutionReport
from riskroute.live.venues.simulated import JournalledVenue, QuotedMarket

ORDER = parent_order(quantity=1000)


def venue(journal: Path, clock: Clock, heard: list[ExecutionReport]) -> JournalledVenue:
    market = QuotedMarket(lambda symbol: quotes(clock.now), fees={"A": (3, -2)}, fill_seconds=0.5)
    made = JournalledVenue("A", market, clock, latency=0.001, journal=journal)
    made.connect(lambda *reports: heard.extend(reports))
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


def test_fees_are_for_taking_or_for_resting_and_nothing_trades_without_books() -> None:
    market = QuotedMarket(lambda symbol: (), fees={"A": (3, -2)})
    assert (market.fee("A", "take"), market.fee("A", "limit"), market.fee("A", "sweep")) == (3, -2, 3)
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
