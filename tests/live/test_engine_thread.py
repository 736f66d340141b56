"""The thread of an engine takes what waits together, and changes neither the sequence nor the outcome of anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from live_engines import World, child_order, parent_order, quotes, stored_events
from riskroute.live.engine import TradingEngine
from riskroute.live.log.recovery import verify
from riskroute.live.state.events import Accepted, Decision, ExecutionReport, Reported, Sent


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


@pytest.fixture
def world() -> Iterator[World]:
    """A world whose engine is served by its thread."""
    made = World(clock=time.time_ns, monotonic=time.monotonic_ns)
    made.books = lambda symbol: quotes(time.time_ns())  # type: ignore[method-assign]  # stand-in
    for venue in made.venues.values():
        venue.clock = time.time_ns
        venue.market.quotes = made.books  # type: ignore[attr-defined]  # stand-in
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


def test_orders_that_waited_together_are_durable_before_anything_of_them_is_sent(world: World) -> None:
    engine, answers = world.engine, list[Future[Decision]]()
    with held(engine):
        for number in range(20):
            order = parent_order(f"order {number}", received=time.time_ns())
            engine.call_soon(lambda order=order: answers.append(engine.submit(order)))  # type: ignore[misc]  # bound now
    after_all(engine)
    assert [answer.result(9).parent for answer in answers] == [f"order {number}" for number in range(20)]
    end = time.monotonic() + 20
    while engine.view()["settled"] < 20 and time.monotonic() < end:
        for venue in world.venues.values():
            venue.deliver()
        time.sleep(0.001)
    assert engine.view()["settled"] == 20
    accepted: set[str] = set()
    sent: set[str] = set()
    for event in stored_events(world.store):
        if isinstance(event, Accepted):
            accepted |= {child.id for child in event.children}
        elif isinstance(event, Sent):
            assert event.child in accepted
            sent.add(event.child)
        elif isinstance(event, Reported):
            assert event.report.child in sent
    assert verify(engine.log).holds


def test_a_snapshot_waits_for_a_quiet_moment_but_not_forever() -> None:
    world = World(snapshot_every=10)
    engine = world.start()

    def trade(until: int) -> None:
        while engine.state.events < until:
            engine.submit(parent_order(f"order {engine.state.decisions}", received=world.clock.now))
            engine.flush()
            engine.tick(quiet=False)

    trade(engine.overdue * 10 // 2)
    assert engine.log.snapshot() is None
    engine.tick()
    engine.pump()
    assert engine.log.snapshot() is not None
    taken = engine.state.events
    trade(taken + engine.overdue * 10)
    engine.pump()
    newest = engine.log.snapshot()
    assert newest is not None
    assert newest.seq > taken
