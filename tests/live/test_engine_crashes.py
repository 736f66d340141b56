"""The engine is killed at every write and at every message, starts again, and nothing is lost, doubled or forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import pytest

from live_engines import World, parent_order, stored_events
from live_logs import MemoryLog
from riskroute.core.errors import RefusedError
from riskroute.live import places
from riskroute.live.log.interface import LogEntry
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.state.amounts import NANO
from riskroute.live.state.effects import SendEffect
from riskroute.live.state.events import AcceptedEvent, SettledEvent
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.trading_state import encode_trading_state
from riskroute.live.venues.simulated import Faults, SimulatedVenue
from riskroute.routers.router import Router
from riskroute.routers.rules import DarkFirstRule, RestEvenRule

ORDERS = 3


class Killed(BaseException):
    """The process ends here."""


class Countdown:
    """Kills at the n-th point."""

    def __init__(self, points: int) -> None:
        self.left = points

    def point(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


class KillingLog(MemoryLog):
    """A log whose process may die before an entry is written, and after."""

    countdown: Countdown

    def append(self, entries: Sequence[LogEntry], *, deferrable: bool = False) -> Future[list[int]]:
        self.countdown.point()
        done = super().append(entries, deferrable=deferrable)
        self.countdown.point()
        return done


class KillingVenue(SimulatedVenue):
    """A venue to which messages go out before the process dies, or do not."""

    countdown = Countdown(0)

    def send(self, child: ChildOrder) -> None:
        self.countdown.point()
        super().send(child)
        self.countdown.point()

    def cancel(self, child: ChildOrder) -> None:
        self.countdown.point()
        super().cancel(child)
        self.countdown.point()


def lived(points: int, faults: Faults, router: type[Router] = DarkFirstRule) -> Iterator[World]:
    """Play a few orders, dying at one point; yield the world at the end, and nothing if that point is not reached."""
    countdown = Countdown(points)
    world = World(faults=faults)

    def log() -> MemoryLog:
        made = KillingLog(world.store)
        made.countdown = countdown
        return made

    world.make_log = log
    for venue in world.venues.values():
        venue.__class__ = KillingVenue
        venue.countdown = countdown  # type: ignore[attr-defined]  # stand-in
    answered: dict[str, object] = {}
    deadlines: dict[str, int] = {}
    deaths = submitted = 0
    running = finished = False
    while not finished:
        try:
            if not running:
                world.start(router())
                running = True
                world.pass_time(2)
                assert world.engine.ready
            while submitted < ORDERS:
                key = f"order {submitted}"
                side = "buy" if submitted % 2 else "sell"
                deadline = deadlines.setdefault(key, world.clock.now + 10 * NANO)
                order = parent_order(key, 350 + submitted, side=side, received=world.clock.now, deadline=deadline)
                answered[key] = world.engine.submit(order).result(0)
                submitted += 1
                world.pass_time(0.003)
            world.pass_time(40)
            finished = True
        except Killed:
            deaths += 1
            running = False
            world.die()
    if deaths:
        keys = {one.order.key for one in stored_events(world.store) if isinstance(one, AcceptedEvent)}
        assert keys.issuperset(answered)
        yield world


@pytest.mark.parametrize(
    ("router", "faults"),
    [
        (DarkFirstRule, Faults()),
        (DarkFirstRule, Faults(partial=0.5, duplicate=0.3, disorder=0.3, silence=0.2)),
        (RestEvenRule, Faults(partial=0.3, disorder=0.3, silence=0.1)),  # children that rest, and are called back
    ],
)
def test_no_order_is_sent_twice_and_nothing_is_lost_by_a_kill(
    router: type[Router], faults: Faults, survived: Callable[[str, int], None]
) -> None:
    points = 1
    while any(check(world) for world in lived(points, faults, router)):
        points += 1
    assert points > 40
    survived("death of the engine before or after a write or a message", points - 1)


def check(world: World) -> bool:
    state = world.state
    assert not state.unsettled
    assert not state.halted
    for name, venue in world.venues.items():
        assert Counter(venue.arrivals).most_common(1)[0][1] == 1 if venue.arrivals else True
        ours = {child for child, one in state.children.items() if one.order.place == name and one.reason != "withheld"}
        assert ours == set(venue.children)
        for child, there in venue.children.items():
            assert state.children[child].filled == there.cum
    assert state.positions["QVEX"].shares == world.shares_at_venues()
    outcomes = [one.outcome.parent for one in stored_events(world.store) if isinstance(one, SettledEvent)]
    assert sorted(outcomes) == sorted(state.parents)
    assert encode_trading_state(replay_log(world.engine.log)) == encode_trading_state(state)
    assert verify_log(world.engine.log).holds
    return True


def play(faults: Faults, deaths: frozenset[int], seed: int = 1) -> World:
    """Many orders, one after the other, with reports that go wrong and a process that dies now and then."""
    world = World(faults=faults, seed=seed, snapshot_every=150)
    world.start(DarkFirstRule())
    for number in range(60):
        if number in deaths:
            world.die()
            world.start(DarkFirstRule())
            world.pass_time(1)
        side = "buy" if number % 3 else "sell"
        world.engine.submit(parent_order(f"order {number}", 150 + number, side=side, received=world.clock.now))
        world.pass_time(0.02)
    world.pass_time(60)
    return world


def test_faults_and_deaths_change_no_position_and_no_outcome(survived: Callable[[str, int], None]) -> None:
    plain = play(Faults(), frozenset())
    wrong = Faults(duplicate=0.05, disorder=0.05, silence=0.02)
    deaths = frozenset(range(5, 60, 5))
    shaken = play(wrong, deaths)
    assert shaken.state.positions == plain.state.positions

    def outcomes(world: World) -> dict[str, tuple[int, int]]:
        settled = (event.outcome for event in stored_events(world.store) if isinstance(event, SettledEvent))
        return {one.parent: (one.filled, one.cost) for one in settled}

    assert len(outcomes(plain)) == 60
    assert outcomes(shaken) == outcomes(plain)
    check(shaken)
    survived("death of the engine between orders", len(deaths))


def test_an_engine_that_resends_instead_of_querying_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "QueryEffect", SendEffect)

    def die_everywhere() -> None:
        for points in range(1, 60):
            for world in lived(points, Faults()):
                check(world)

    with pytest.raises((AssertionError, RefusedError), match=r"assert|overfilled"):
        die_everywhere()


def test_a_child_whose_sending_was_not_logged_is_cancelled_at_its_venue() -> None:
    world = World()
    engine = world.start(RestEvenRule())
    engine.submit(parent_order(quantity=400, received=world.clock.now, deadline=world.clock.now + 60 * NANO))
    world.pass_time(0.01)
    (name,) = world.venues["P"].children
    kept = next(row.seq for row in world.store.rows if row.kind == "accepted") + 1
    world.die()
    del world.store.rows[kept:]  # a crash: only the decision was durable, the child is at its venue
    engine = world.start(RestEvenRule())
    world.pass_time(0.05)
    assert engine.ready
    assert engine.state.children[name].status in ("acknowledged", "partly_filled")
    engine.halt("test", "desk")
    world.pass_time(0.5)
    assert not world.venues["P"].children[name].open
    assert engine.state.children[name].reason in ("cancelled", "filled")
    assert engine.state.children[name].filled == world.venues["P"].children[name].cum
