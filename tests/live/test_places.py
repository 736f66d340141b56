"""Places that go down and come up: what is sent where, what becomes of shares and children, what is learned."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from live_engines import CENT, START, World, parent_order, quotes, stored_events
from riskroute.core.errors import RefusedError
from riskroute.live.children import report_of
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.places import PlaceRules
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import PlaceDownEvent, PlaceUpEvent, SettledEvent, UnansweredEvent, WithheldEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.quotes import VenueQuote
from riskroute.live.state.trading_state import encode_trading_state
from riskroute.live.venues.gateway import VenueAccount, VenueTerms, instrument_venue_terms, wire_id
from riskroute.live.venues.simulated import Faults, SimulatedVenue, SimulatedVenueMarket
from riskroute.routers.rules import RestEvenRule


class Three(World):
    """Venues A, B and C: A shows the best price, the others 800 shares one tick away."""

    def __init__(self, **engine: Any) -> None:
        super().__init__(**engine)
        market = SimulatedVenueMarket(self.books)
        self.venues = {name: SimulatedVenue(name, market, self.clock) for name in "ABC"}

    def books(self, symbol: str) -> tuple[VenueQuote, ...]:
        bids = ((1000 * CENT, 1000),)
        return tuple(
            VenueQuote(venue=name, bids=bids, asks=((ask * CENT, 800),), at=self.clock.now)
            for name, ask in (("A", 1002), ("B", 1003), ("C", 1003))
        )

    def order(self, key: str, quantity: int = 100, **more: Any) -> Any:
        return parent_order(
            key,
            quantity,
            quotes=self.books(""),
            pools=(),
            received=self.clock.now,
            deadline=self.clock.now + NANO,
            **more,
        )


class BrokenLine:
    """Counts attempts to send to a venue, which all fail."""

    def __init__(self, world: World, place: str) -> None:
        self.attempts, self.world = list[int](), world
        world.venues[place].send = self  # type: ignore[method-assign]  # stand-in

    def __call__(self, child: ChildOrder) -> None:
        self.attempts.append(self.world.clock.now)
        raise ConnectionError("the line is cut")


def test_no_share_is_given_up_that_another_venue_shows_and_no_storm_of_attempts_follows() -> None:
    world = Three()
    engine = world.start()
    broken = BrokenLine(world, "A")
    for number in range(5):
        engine.submit(world.order(f"order {number}"))
    engine.flush()
    assert len(broken.attempts) == 1, "the other children that waited for A are withheld without an attempt"
    assert world.state.down == {"A": "send failed: the line is cut"}
    world.pass_time(0.9)
    assert world.state.settled == 5
    assert sum(parent.filled for parent in world.state.parents.values()) == 500
    assert sum(parent.marked for parent in world.state.parents.values()) == 0
    assert len(broken.attempts) == 1
    for number in range(5, 400):
        engine.submit(world.order(f"order {number}"))
        world.pass_time(0.1)
    waits = [round((after - before) / NANO) for before, after in pairwise(broken.attempts)]
    assert waits == [1, 2, 4, 8, 16], "seconds: the wait doubles"
    assert sum(parent.filled for parent in world.state.parents.values()) == 100 * len(world.state.parents)
    outcomes = [event.outcome for event in stored_events(world.store) if isinstance(event, SettledEvent)]
    assert "A" not in {child.place for outcome in outcomes for child in report_of(outcome).children}
    assert verify_log(engine.log).holds
    assert encode_trading_state(replay_log(engine.log)) == encode_trading_state(world.state)


def test_a_gateway_that_sends_again_waits_a_second_after_its_next_failure() -> None:
    world = Three()
    engine = world.start()
    send, broken = world.venues["A"].send, BrokenLine(world, "A")
    for number in range(3):
        engine.submit(world.order(f"order {number}"))
        world.pass_time(2**number + 0.1)
    assert len(broken.attempts) == 3
    world.venues["A"].send = send  # type: ignore[method-assign]  # as it was
    engine.submit(world.order("order 3"))
    world.pass_time(0.1)
    assert world.state.parents["order 3"].children[0] in world.venues["A"].children
    broken = BrokenLine(world, "A")
    engine.submit(world.order("order 4"))
    world.pass_time(1.1)
    assert not world.state.down


def test_contexts_and_children_leave_out_places_that_are_down() -> None:
    world = Three()
    engine = world.start()
    sink = engine.sink("A")
    sink.down("maintenance")
    sink.down("maintenance, still")
    engine.submit(world.order("one", 900))
    world.pass_time(0.5)
    assert not world.venues["A"].arrivals
    assert world.state.parents["one"].filled == 900
    accepted = next(event for event in stored_events(world.store) if getattr(event, "order", None) is not None)
    assert [quote.venue for quote in accepted.order.quotes] == ["B", "C"]
    sink.up()
    assert not world.state.down
    engine.submit(world.order("two"))
    world.pass_time(0.1)
    assert world.venues["A"].arrivals
    changes = [type(event) for event in stored_events(world.store) if isinstance(event, PlaceDownEvent | PlaceUpEvent)]
    assert changes[-2:] == [PlaceDownEvent, PlaceUpEvent]


def test_orders_are_refused_only_if_no_place_is_left_and_say_why() -> None:
    world = Three()
    engine = world.start()
    old = tuple(
        VenueQuote(venue=quote.venue, bids=quote.bids, asks=quote.asks, at=quote.at - back * NANO)
        for quote, back in zip(world.books(""), (3600, 0, 3), strict=True)
    )
    engine.submit(parent_order("one", quotes=old, pools=()))
    accepted = next(event for event in stored_events(world.store) if getattr(event, "order", None) is not None)
    assert [quote.venue for quote in accepted.order.quotes] == ["B"]
    engine.sink("B").down("maintenance")
    said = "quotes must be at most 2 s old, was 3600 s at A; B is down: maintenance; .* was 3 s at C"
    with pytest.raises(RefusedError, match=said):
        engine.submit(parent_order("two", quotes=old, pools=()))
    for place in "AC":
        engine.sink(place).down("cut")
    with pytest.raises(RefusedError, match="not ready: A is down: cut; B is down: maintenance; C is down: cut"):
        engine.submit(parent_order("two", quotes=old, pools=()))


def test_a_silent_place_does_not_hold_up_the_others_at_a_start() -> None:
    world = World()
    engine = world.start(RestEvenRule())
    engine.submit(parent_order(quantity=900))
    world.pass_time(0.05)
    assert [child.order.place for child in world.state.children.values() if not child.done] == ["P"]
    world.die()
    world.venues["P"].query = lambda child: None  # type: ignore[method-assign]  # silent
    engine = world.start(RestEvenRule())
    assert not engine.ready
    assert set(world.state.down) == {"P"}
    world.pass_time(0.15)  # longer than `patience`
    assert engine.ready
    engine.submit(parent_order("two", quotes=quotes(world.clock.now), received=world.clock.now))
    world.pass_time(0.3)
    assert world.state.parents["two"].filled == 100
    assert any(isinstance(event, UnansweredEvent) for event in stored_events(world.store))
    del world.venues["P"].query
    world.pass_time(20)
    assert not world.state.down
    assert world.state.positions["QVEX"].shares == world.shares_at_venues()


def test_orders_from_before_a_start_wait_for_places_before_shares_are_given_up() -> None:
    world = Three()
    engine = world.start()
    for venue in world.venues.values():
        venue.latency = NANO // 50
    engine.submit(world.order("one", 2000))
    engine.flush()
    world.die()
    world.clock.now += 2 * NANO  # its deadline passes
    engine = world.start()
    assert world.state.unsettled
    world.pass_time(1)
    assert world.state.parents["one"].filled == 2000
    assert world.state.positions["QVEX"].shares == world.shares_at_venues()


def test_a_lost_cancel_is_repeated() -> None:
    world = World()
    engine = world.start(RestEvenRule())
    venue = world.venues["P"]
    venue.market.hidden = {"P": 0}  # type: ignore[attr-defined]  # nothing trades
    cancel, lost = venue.cancel, list[ChildOrder]()

    def lose(child: ChildOrder) -> None:
        lost.append(child)
        venue.cancel = cancel  # type: ignore[method-assign]  # as it was

    venue.cancel = lose  # type: ignore[method-assign]  # stand-in
    engine.submit(parent_order(quantity=900, deadline=START + NANO))
    world.pass_time(0.1)
    engine.halt("a test", "test")
    engine.flush()
    (child,) = lost
    assert venue.children[child.id].open
    world.pass_time(0.5)  # longer than `patience`, and before its deadline
    assert not venue.children[child.id].open


def test_children_beyond_the_rate_of_a_session_wait_a_little_and_then_go_elsewhere() -> None:
    limited = PlaceRules(orders_per_second=10, burst=5, hold=NANO // 20)
    world = Three(rules={"A": limited})
    engine = world.start()
    world.pass_time(1)
    for number in range(8):
        engine.submit(world.order(f"order {number}"))
    engine.flush()
    world.pass_time(0.04)
    assert len(world.venues["A"].arrivals) == 4, "a fifth of five is for cancels and queries"
    assert not any(isinstance(event, WithheldEvent) for event in stored_events(world.store))
    world.pass_time(0.5)
    withheld = [event for event in stored_events(world.store) if isinstance(event, WithheldEvent)]
    assert [event.reason for event in withheld] == ["the limit of A on orders per second"] * 4
    assert world.state.settled == 8
    assert sum(parent.filled for parent in world.state.parents.values()) == 800, "others show the shares"
    assert not world.state.down
    outcomes = [event.outcome for event in stored_events(world.store) if isinstance(event, SettledEvent)]
    assert sum(child.place == "A" for outcome in outcomes for child in report_of(outcome).children) == 4
    engine.submit(world.order("later"))
    world.pass_time(0.1)
    assert len(world.venues["A"].arrivals) == 5, "the budget has grown again"


def test_a_child_is_held_no_longer_than_until_its_session_may_send() -> None:
    world = Three(rules={name: PlaceRules(orders_per_second=100, burst=2, hold=NANO // 10) for name in "ABC"})
    engine = world.start()
    world.pass_time(1)
    for number in range(5):
        engine.submit(world.order(f"order {number}"))
    engine.flush()
    world.pass_time(0.05)
    assert len(world.venues["A"].arrivals) == 5, "one at once, and one every 10 ms"
    assert not any(isinstance(event, WithheldEvent) for event in stored_events(world.store))


def test_cancels_have_room_where_orders_have_used_their_share_and_none_is_lost() -> None:
    world = World(rules={"P": PlaceRules(orders_per_second=1, burst=5, hold=NANO // 20)})
    engine = world.start(RestEvenRule())
    venue = world.venues["P"]
    venue.market.hidden, venue.market._fill_seconds = {"P": 0}, 1e6  # type: ignore[attr-defined]  # nothing trades
    world.pass_time(1)
    for number in range(4):
        engine.submit(
            parent_order(f"order {number}", 900, received=world.clock.now, deadline=world.clock.now + 60 * NANO)
        )
    world.pass_time(0.05)
    assert len(venue.arrivals) == 4
    engine.halt("a test", "test")
    engine.flush()
    world.pass_time(0.05)
    assert sum(there.open for there in venue.children.values()) == 3, "one cancel may be sent at once"
    world.pass_time(8)
    assert not any(there.open for there in venue.children.values())


def test_places_of_one_session_share_its_lowest_limit() -> None:
    world = Three(rules={"A": PlaceRules(orders_per_second=50), "B": PlaceRules(orders_per_second=1, burst=5, hold=0)})
    world.venues["A"].session = world.venues["B"].session = "exchange"
    engine = world.start()
    world.pass_time(5)
    for number in range(9):
        engine.submit(world.order(f"order {number}"))
    world.pass_time(2)
    assert len(world.venues["A"].arrivals) + len(world.venues["B"].arrivals) == 4
    assert sum(parent.filled for parent in world.state.parents.values()) == 900


class Forgetful(SimulatedVenue):
    """Loses every third child; ``idempotent`` is whether it refuses a second order with the same id."""

    idempotent = False

    def terms(self, symbol: str) -> VenueTerms | None:
        return instrument_venue_terms(self.market.instrument(symbol), idempotent=self.idempotent)

    def send(self, child: ChildOrder) -> None:
        self.sent = [*getattr(self, "sent", []), child.id]
        if len(self.sent) % 3:
            super().send(child)


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_lost_child_is_sent_again_only_where_the_venue_refuses_a_second_one(idempotent: bool) -> None:
    world = Three()
    market = SimulatedVenueMarket(world.books)
    venue = Forgetful("A", market, world.clock)
    venue.idempotent = idempotent
    world.venues["A"] = venue
    engine = world.start()
    for number in range(30):
        engine.submit(world.order(f"order {number}"))
        world.pass_time(0.4)
    world.pass_time(5)
    assert world.state.settled == 30
    assert sum(parent.filled for parent in world.state.parents.values()) == 3000, "nothing is given up"
    again = len(venue.sent) - len(set(venue.sent))
    assert (again > 5) if idempotent else (again == 0)
    lost = [child for child in world.state.children.values() if child.losses]
    assert len(lost) > 5
    if not idempotent:
        assert {child.reason for child in lost} == {"withheld"}
    outcomes = [event.outcome for event in stored_events(world.store) if isinstance(event, SettledEvent)]
    learned = sum(child.sent for outcome in outcomes for child in report_of(outcome).children)
    assert learned == 3000, "a child that never arrived is not learned"
    assert verify_log(engine.log).holds


class WiredVenue(SimulatedVenue):
    """Takes and reports wire ids alone, as most exchanges do."""

    def _tell(self, said: ExecutionReport | VenueAccount) -> None:
        if isinstance(said, ExecutionReport):
            said = ExecutionReport(
                **{name: getattr(said, name) for name in said.__struct_fields__} | {"child": wire_id(said.child)}
            )
        super()._tell(said)


def test_reports_by_wire_id_lead_back_to_children_of_this_process_and_the_last() -> None:
    world = World(seed=3)
    faults = Faults(partial=0.5, duplicate=0.2, disorder=0.2, silence=0.05)
    market = SimulatedVenueMarket(world.books, 3, hidden={"P": 100})
    world.venues = {name: WiredVenue(name, market, world.clock, faults=faults, seed=3) for name in "ABP"}
    for life in range(4):
        engine = world.start(RestEvenRule())
        world.pass_time(0.3)
        for number in range(10):
            now = world.clock.now
            engine.submit(parent_order(f"order {life} {number}", 700, received=now, deadline=now + 2 * NANO))
            world.pass_time(0.02)
        if life < 3:
            world.die()
            world.clock.now += NANO // 10
    world.pass_time(30)
    assert world.state.settled == 40
    assert not world.state.halted
    assert world.state.positions["QVEX"].shares == world.shares_at_venues()


@pytest.mark.parametrize("foreign", ["ignore", "halt"])
def test_orders_of_others_are_ignored_or_halt_and_are_not_in_the_log(foreign: Any) -> None:
    world = Three(rules={"A": PlaceRules(foreign=foreign)})
    engine = world.start()
    events = world.state.events
    engine.sink("A")(
        ExecutionReport(venue="A", day="1", exec_id="1", child="by hand 17", kind="filled", at=START, cum=5)
    )
    engine.flush()
    assert engine.places.foreign == {"A": 1}
    assert not world.state.reports
    if foreign == "halt":
        assert world.state.halted == "A has an order that is not ours, 'by hand 17'"
    else:
        assert (world.state.halted, world.state.events) == ("", events)


def test_an_order_in_our_form_that_the_log_does_not_know_halts_whatever_the_rules() -> None:
    world = Three(rules={name: PlaceRules(foreign="ignore") for name in "ABC"})
    engine = world.start()
    engine.sink("A")(
        ExecutionReport(venue="A", day="1", exec_id="1", child=wire_id("nobody"), kind="acknowledged", at=START)
    )
    engine.flush()
    assert "A reports an unknown child" in world.state.halted
