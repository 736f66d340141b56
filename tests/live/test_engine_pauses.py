"""The process stands still for a while: nobody is blamed for that."""

from __future__ import annotations

from live_engines import World
from live_orders import parent_order
from riskroute.live.orders import NANO, Unanswered, decode_event
from riskroute.live.venues.simulated import Faults


def test_venues_are_not_blamed_for_the_time_in_which_the_engine_did_not_look() -> None:
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


def test_a_venue_that_stays_silent_after_a_pause_is_asked_all_the_same() -> None:
    world = World(faults=Faults(silence=1.0))
    engine = world.start()
    engine.submit(parent_order(received=world.clock.now))
    engine.flush()
    engine.tick()
    world.clock.now += NANO
    engine.tick()
    assert not world.state.unknown
    world.pass_time(0.101)
    assert any(isinstance(decode_event(row.body), Unanswered) for row in world.store.rows[1:])
