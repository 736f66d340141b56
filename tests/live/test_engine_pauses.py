"""The process stands still for a while: nobody is blamed for that."""

from __future__ import annotations

import threading
import time

import pytest

from live_engines import World, child_order, parent_order, stored_events
from riskroute.live.state.amounts import NANO
from riskroute.live.state.effects import CancelEffect, QueryEffect, SendEffect
from riskroute.live.state.events import UnansweredEvent
from riskroute.live.venues.simulated import Faults


def test_a_pause_of_the_engine_does_not_count_as_silence_of_venues() -> None:
    """After a pause of the whole process, reports that came meanwhile are booked before anything counts as unknown."""
    world = World()
    engine = world.start()
    for number in range(30):
        engine.submit(parent_order(f"o{number}", received=world.clock.now))
    engine.flush()
    engine.tick()
    assert sum(not child.done for child in world.state.children.values()) == 30
    world.clock.now += NANO  # ten times the patience
    engine.tick()
    assert (world.state.unknown, world.state.halted) == ({}, "")
    for venue in world.venues.values():
        venue.deliver()
    world.pass_time(1)
    assert (len(world.state.unsettled), world.state.halted) == (0, "")


def test_a_venue_silent_after_a_pause_is_queried() -> None:
    world = World(faults=Faults(silence=1.0))
    engine = world.start()
    engine.submit(parent_order(received=world.clock.now))
    engine.flush()
    engine.tick()
    world.clock.now += NANO
    engine.tick()
    assert not world.state.unknown
    world.pass_time(0.101)
    assert any(isinstance(event, UnansweredEvent) for event in stored_events(world.store))


def test_timers_run_while_many_children_are_sent() -> None:
    """Something to do that always brings something more to do, as under a load that never ends."""
    world = World()
    engine = world.start(clock=time.time_ns, monotonic=time.monotonic_ns)
    ticked = threading.Event()

    def more() -> None:
        engine.outbox.post_last(more)

    engine.timers.add(engine.clock(), "child", "nobody")
    engine._on_timer = lambda *timer: ticked.set()  # type: ignore[method-assign]  # to see that it is called
    engine.outbox.post_last(more)
    engine.serve()
    try:
        assert ticked.wait(60)
    finally:
        engine.close()


def test_cancels_and_queries_do_not_wait_behind_new_children(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = World().start()
    order, outbox = parent_order(), engine.outbox
    first, second, third = (child_order(order, slot, 100) for slot in range(3))
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(
        engine.outbox, "_send", lambda children: seen.extend(("send", child.slot) for child in children)
    )
    monkeypatch.setattr(outbox, "_cancel", lambda task: seen.append(("cancel", task.child.slot)))
    monkeypatch.setattr(outbox.gateways["A"], "query", lambda child: seen.append(("query", child.slot)))
    engine.outbox.post([SendEffect(first), CancelEffect(second)])
    engine.outbox.post([QueryEffect(third)])
    engine.pump()
    assert seen == [("cancel", 1), ("query", 2), ("send", 0)]
