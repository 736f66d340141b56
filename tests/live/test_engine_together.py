"""What the engine does together: children sent, reports booked, snapshots whose larger part becomes bytes later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import msgspec
import pytest

from live_engines import World, parent_order, report, stored_events
from riskroute.core.errors import StateError, WriteError
from riskroute.live.learner import Learner
from riskroute.live.log.recovery import recover_log
from riskroute.live.state import fold
from riskroute.live.state.events import ReportedEvent, SentEvent
from riskroute.live.state.orders import OrderDecision, order_digest
from riskroute.live.state.trading_state import encode_trading_state
from riskroute.routers.registry import make_router


class CountingWorld(World):
    """A world that knows how many entries were appended at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.start()
        append, self.appended = self.engine.log.append, list[list[str]]()

        def counted(entries, *, deferrable=False):  # type: ignore[no-untyped-def]  # as the log's own
            self.appended.append([entry.kind for entry in entries])
            return append(entries, deferrable=deferrable)

        self.engine.log.append = counted  # type: ignore[method-assign]  # stand-in


def test_the_children_of_an_order_are_sent_together_and_each_is_written_down() -> None:
    world = CountingWorld()
    world.engine.submit(parent_order(quantity=1500))
    assert world.appended == [["accepted"], ["together"]]
    world.pass_time(1)
    assert {name: len(venue.arrivals) for name, venue in world.venues.items() if venue.arrivals} == {"A": 1, "B": 1}
    sent = [event for event in stored_events(world.store) if isinstance(event, SentEvent)]
    assert len({event.child for event in sent}) == 2


def test_reports_that_come_together_are_booked_once_each_in_their_sequence() -> None:
    world = CountingWorld()
    world.engine.submit(parent_order(quantity=1500))
    child = next(iter(world.state.children.values())).order
    some = report(child, "filled", "1", quantity=400, price=10, cum=400, leaves=600)
    more = report(child, "filled", "2", quantity=600, price=10, cum=1000, leaves=0)
    del world.appended[:]
    world.engine.report(some, more, some)
    world.engine.report(more, some)
    assert world.appended == [["together"]]
    assert world.state.children[child.id].filled == 1000
    assert world.state.duplicates == 0
    booked = [event for event in stored_events(world.store) if isinstance(event, ReportedEvent)]
    assert [event.report.exec_id for event in booked] == ["1", "2"]


@pytest.mark.parametrize("fails", ["before", "while"])
def test_gathered_events_are_refused_after_a_failed_write(fails: str) -> None:
    """Otherwise an order would be durable, and answered, that builds on events which the log does not have."""
    world = World()
    engine, answer = world.start(), Future[OrderDecision]()
    engine.ledger.thread = threading.current_thread()
    order = parent_order(received=world.clock.now)
    engine.accept(order, order_digest(order), answer, world.clock.now)
    rows = len(world.store.rows)
    if fails == "before":
        engine.ledger.fail(WriteError("the disk is full", definite=True, cause="the disk is full"))
        engine.ledger.append_batch()
    else:
        engine.log.close()
        with pytest.raises(StateError, match="the log is closed"):
            engine.ledger.append_batch()
    assert answer.exception() is not None
    engine.ledger.append_batch()
    assert len(world.store.rows) == rows


@pytest.mark.parametrize("kept", [3, fold.SETTLED_KEPT])
def test_a_snapshot_is_of_its_time_however_late_it_is_saved(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(fold, "SETTLED_KEPT", kept)
    monkeypatch.setattr(fold, "ARCHIVED_TOGETHER", 0)
    later: list[Callable[[], None]] = []
    world = World(snapshot_every=0)
    engine = world.start()
    assert engine.snapshots is not None
    engine.snapshots._submit = later.append

    def trade(numbers: range) -> None:
        for number in numbers:
            engine.submit(parent_order(f"order {number}", received=world.clock.now))
            world.pass_time(0.1)

    trade(range(10))
    first = [event.report for event in stored_events(world.store) if isinstance(event, ReportedEvent)][
        -1 if kept > 9 else 0
    ]
    engine.snapshots.every, engine.snapshots.due = 10**6, 0
    engine.tick()
    waiting = list(engine.ledger.archive.unsaved)
    assert (len(waiting) > 0) == (kept == 3)
    engine.report(msgspec.structs.replace(first, exec_id="bust", kind="busted", reference=first.exec_id))
    trade(range(10, 15))
    assert engine.state.corrections == 1
    later.pop()()
    assert [one.id for one in world.states.orders] == waiting
    assert not set(waiting) & set(engine.ledger.archive.unsaved) or kept == 3
    (snapshot,) = world.states.kept
    recovered, archive, _ = recover_log(engine.log, Learner(make_router("sweep")), world.states)
    whole, everything, _ = recover_log(engine.log, Learner(make_router("sweep")))
    assert encode_trading_state(recovered) == encode_trading_state(whole) == encode_trading_state(engine.state)
    assert snapshot.archived == len(waiting)
    for order in everything.unsaved.values():
        assert archive.find(order.id) == order
    assert recovered.events == engine.state.events
