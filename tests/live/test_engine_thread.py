"""The thread of an engine takes what waits together, and changes neither the sequence nor the outcome of anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from live_engines import World, child_order, order_now, parent_order, report, stored_events
from riskroute.core.errors import DataError, StateError
from riskroute.live.engine import TradingEngine
from riskroute.live.log.interface import LogRow
from riskroute.live.log.recovery import verify_log
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import AcceptedEvent, HaltedEvent, ReportedEvent, SentEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import OrderDecision, ParentOrder


@contextmanager
def held(engine: TradingEngine) -> Iterator[None]:
    """Let the thread of an engine wait, so that more comes together, until the end of the block."""
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait(60)

    engine.call_soon(wait)
    assert begun.wait(60)
    try:
        yield
    finally:
        go_on.set()


def after_all(engine: TradingEngine) -> None:
    """Wait until the thread of an engine has done what it was given, twice: what follows from it comes later."""
    for _ in range(2):
        done = threading.Event()
        engine.call_soon(done.set)
        assert done.wait(60)


def halted_while_held(engine: TradingEngine) -> tuple[threading.Thread, Callable[[], None]]:
    """Return a thread that halts, and a call for the engine's thread that holds the lock until that thread waits."""
    halting = threading.Thread(target=engine.halt, args=("a test", "desk"))

    def hold() -> None:
        with engine.lock:
            halting.start()
            while not engine._first.locked():
                time.sleep(0.001)

    return halting, hold


@pytest.fixture
def world() -> Iterator[World]:
    """A world whose engine is served by its thread."""
    made = World.in_real_time()
    made.start()
    made.engine.serve()
    yield made
    made.engine.close()


def test_calls_run_in_sequence_and_none_is_lost(world: World) -> None:
    made: list[int] = []
    with held(world.engine):
        for number in range(1000):
            world.engine.call_soon(lambda number=number: made.append(number))  # type: ignore[misc]  # bound now
    after_all(world.engine)
    assert made == list(range(1000))


def test_reports_that_came_together_are_booked_at_once_in_their_sequence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, booked = world.engine, list[list[ExecutionReport]]()
    monkeypatch.setattr(engine, "turn", 10**12)  # however slow the machine is
    monkeypatch.setattr(engine, "book", booked.append)
    child = child_order(parent_order(), 0, 100)
    some = [
        ExecutionReport(venue="A", day="1", exec_id=f"{number}", child=child.id, kind="acknowledged", at=number)
        for number in range(30)
    ]
    with held(engine):
        for begin in range(0, 30, 3):
            engine.report(*some[begin : begin + 3])
    after_all(engine)
    assert booked == [some]


@pytest.mark.parametrize("calls", [True, False])
def test_a_halt_that_waits_for_the_lock_goes_before_other_calls_and_tasks(world: World, calls: bool) -> None:
    engine, halted = world.engine, list[bool]()

    def look() -> None:
        with engine.lock:
            halted.append(bool(engine.state.halted))

    halting, hold = halted_while_held(engine)
    give = engine.call_soon if calls else engine.outbox.post_last
    with held(engine):
        for call in (hold, *[look] * 1000):
            give(call)
    after_all(engine)
    while len(halted) < 1000:
        after_all(engine)
    halting.join()
    assert all(halted)


def test_a_halt_does_not_wait_for_all_reports(world: World) -> None:
    engine = world.engine
    child = child_order(parent_order(), 0, 100)
    halting, hold = halted_while_held(engine)
    with held(engine):
        engine.call_soon(hold)
        for number in range(10 * engine.booked_together):
            engine.report(report(child, "acknowledged", f"{number}"))
    after_all(engine)
    halting.join()
    kinds = [type(event) for event in stored_events(world.store)]
    booked_before = kinds[: kinds.index(HaltedEvent)].count(ReportedEvent)
    assert booked_before <= engine.booked_together
    assert kinds.count(ReportedEvent) == 10 * engine.booked_together


def test_timers_leave_the_lock_to_a_halt_that_waits() -> None:
    world = World()
    engine = world.start()
    engine.tick()  # the timers of the start
    for number in range(3):
        engine.timers.add(world.clock.now, "child", f"{number}")
    assert engine._first.acquire()
    engine.tick()
    assert len(engine.timers.answer_by) == 2
    engine._first.release()
    engine.tick()
    assert not engine.timers.answer_by


def test_an_order_is_looked_up_without_the_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, find, free = world.engine, world.engine.log.find, list[bool]()

    def watched(kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]:
        free.append(not engine.lock._is_owned())  # type: ignore[attr-defined]  # of its implementation
        return find(kinds, keys)

    monkeypatch.setattr(engine.log, "find", watched)
    order = order_now()
    answers: list[Future[OrderDecision]] = []
    engine.call_soon(lambda: answers.append(engine.submit(order)), order.key)
    after_all(engine)
    assert answers[0].result(60).parent == order.key
    assert free == [True]


def test_orders_that_waited_together_are_durable_before_anything_of_them_is_sent(world: World) -> None:
    engine, answers = world.engine, list[Future[OrderDecision]]()
    with held(engine):
        for number in range(20):
            order = order_now(f"order {number}")
            engine.call_soon(lambda order=order: answers.append(engine.submit(order)))  # type: ignore[misc]  # bound now
    after_all(engine)
    assert [answer.result(60).parent for answer in answers] == [f"order {number}" for number in range(20)]
    end = time.monotonic() + 60
    while engine.state.settled < 20 and time.monotonic() < end:
        for venue in world.venues.values():
            venue.deliver()
        time.sleep(0.001)
    assert engine.state.settled == 20
    accepted: set[str] = set()
    sent: set[str] = set()
    for event in stored_events(world.store):
        if isinstance(event, AcceptedEvent):
            accepted |= {child.id for child in event.children}
        elif isinstance(event, SentEvent):
            assert event.child in accepted
            sent.add(event.child)
        elif isinstance(event, ReportedEvent):
            assert event.report.child in sent
    assert verify_log(engine.log).holds


def test_a_snapshot_is_due_after_so_many_events_but_not_soon_after_a_slow_one() -> None:
    world = World(snapshot_every=16)  # connecting takes 7 events
    engine, states = world.start(), world.states
    save = states.save

    def slowly(*arguments: Any) -> None:
        world.clock.now += NANO // 10
        save(*arguments)

    states.save = slowly  # type: ignore[method-assign, assignment]  # stand-in

    def trade(events: int) -> None:
        end = engine.state.events + events
        while engine.state.events < end:
            engine.submit(parent_order(f"order {engine.state.decisions}", received=world.clock.now))
            engine.flush()
            engine.tick()

    trade(5)
    assert not states.kept
    trade(10)
    assert len(states.kept) == 1
    assert engine.snapshots is not None
    assert engine.snapshots.seconds == 0.1
    trade(100)
    assert len(states.kept) == 1
    world.clock.now += 2 * NANO
    trade(1)
    assert len(states.kept) == 2
    engine.snapshots.most_unsaved = -1  # what waits in memory makes one due, whatever the last one took
    trade(1)
    assert engine.snapshots.saved == 3


def test_a_snapshot_that_fails_is_tried_again_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World(snapshot_every=1)
    engine, save = world.start(), world.states.save
    assert engine.snapshots is not None
    before = engine.snapshots.saved

    def fail(*arguments: Any) -> None:
        raise StateError("the disk is full")

    world.states.save = fail  # type: ignore[method-assign, assignment]  # stand-in
    world.clock.now += 10 * NANO
    engine.submit(parent_order("one", received=world.clock.now)).result(60)
    world.pass_time(1)
    assert "a snapshot could not be saved: the disk is full" in caplog.text
    assert (engine.snapshots.failed, engine.snapshots.saved, engine.failed) == (1, before, "")
    world.states.save = save  # type: ignore[method-assign]  # as it was
    world.pass_time(11)
    engine.submit(parent_order("two", received=world.clock.now)).result(60)
    world.pass_time(1)
    assert engine.snapshots.saved > before
    assert engine.state.settled == 2


def test_orders_that_come_together_are_looked_up_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, asked, find = world.engine, list[list[str]](), world.engine.log.find

    def watched(kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]:
        asked.append(list(keys))
        return find(kinds, asked[-1])

    monkeypatch.setattr(engine.log, "find", watched)
    answers: list[Future[OrderDecision]] = []
    orders = [order_now(f"order {number}") for number in range(8)] * 2
    with held(engine):
        for order in orders:
            engine.call_soon(lambda order=order: answers.append(engine.submit(order)), order.key)  # type: ignore[misc]
    after_all(engine)
    assert [answer.result(60).parent for answer in answers] == [order.key for order in orders]
    assert asked == [[order.key for order in orders]]
    assert engine.state.decisions == 8

    def fail(kinds: Sequence[str], keys: Iterable[str]) -> dict[str, LogRow]:
        raise DataError("the disk failed")

    monkeypatch.setattr(engine.log, "find", fail)
    refused: list[str] = []

    def attempt(order: ParentOrder) -> None:
        try:
            engine.submit(order)
        except DataError as error:
            refused.append(str(error))

    with held(engine):
        for number in range(3):
            new = order_now(f"new {number}")
            engine.call_soon(lambda new=new: attempt(new), new.key)  # type: ignore[misc]  # bound now
    after_all(engine)
    assert refused == ["the disk failed"] * 3
    assert not engine.failed
