"""The engine's doors: orders in, decisions out once they are durable, reports, halts, and what the clock brings."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from live_engines import CENT, START, World, order_now, parent_order, quotes, stored_events
from live_logs import MemoryLog
from riskroute.core.errors import InputError, OverloadedError, RefusedError, StateError, WriteError
from riskroute.live.engine import new_engine_answer
from riskroute.live.ledger import LedgerTimers
from riskroute.live.limits import Limits
from riskroute.live.log.interface import LogEntry, log_row_events
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import AcceptedEvent, HaltedEvent, SentEvent, UnansweredEvent
from riskroute.live.state.trading_state import TradingState, encode_trading_state
from riskroute.live.venues.simulated import Faults, JournalledVenue, SimulatedVenueMarket
from riskroute.routers.registry import make_router
from riskroute.routers.rules import DarkFirstRule, RestEvenRule


def started(**more: Any) -> World:
    world = World(**more)
    world.start()
    return world


def events(world: World) -> list[Any]:
    return stored_events(world.store)


class HeldLog(MemoryLog):
    """A log whose entries become durable when the test says so."""

    held: list[tuple[Future[list[int]], Sequence[LogEntry]]]
    hold = False

    def append(self, entries: Sequence[LogEntry], *, deferrable: bool = False) -> Future[list[int]]:
        if not self.hold:
            return super().append(entries, deferrable=deferrable)
        done: Future[list[int]] = Future()
        self.held = [*getattr(self, "held", []), (done, entries)]
        return done

    def release(self) -> None:
        for done, entries in self.held:
            done.set_result(super().append(entries).result())
        self.held, self.hold = [], False


def test_nothing_is_sent_or_answered_before_it_is_durable() -> None:
    world = World()
    log = HeldLog(world.store)
    world.make_log = lambda: log
    engine = world.start()
    log.hold = True
    answer = engine.submit(parent_order())
    again = engine.submit(parent_order())
    assert not answer.done()
    assert not again.done()
    assert all(venue.next_due is None for venue in world.venues.values())
    log.release()
    engine.pump()
    assert answer.result(0).parent == "one"
    assert again.result(0) is answer.result(0)
    assert world.venues["A"].next_due is not None


def test_an_order_is_settled_and_learned_from() -> None:
    world = started()
    decision = world.engine.submit(parent_order(quantity=1500)).result(0)
    assert (decision.router, decision.belief, decision.ticket) == ("sweep", 0, 0)
    assert decision.plan["take"] == {"A": 1000, "B": 500}
    world.pass_time(1)
    parent = world.state.parents["one"]
    assert parent.settled
    assert parent.recorded
    assert world.state.positions["QVEX"].shares == 1500
    assert world.state.positions["QVEX"].cash == -1500 * 1002 * CENT
    assert world.engine.learner.router.under_way == ()
    assert world.state.day.loss == 1500 * CENT


def test_the_same_order_again_gets_the_same_decision_and_another_one_is_refused() -> None:
    world = started()
    first = world.engine.submit(parent_order()).result(0)
    world.pass_time(1)
    newer = msgspec.structs.replace(parent_order(), quotes=quotes(world.clock.now, size=7))
    assert world.engine.submit(newer).result(0) == first
    with pytest.raises(InputError, match="key 'one' belongs to another order"):
        world.engine.submit(parent_order(quantity=101))
    assert sum(isinstance(event, AcceptedEvent) for event in events(world)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quantity": -3}, "quantity must be above 0 and at most 100,000,000,000,000 shares, was -3 shares"),
        ({"quantity": 10**12}, "quantity must be at most 1,000,000 shares, was 1,000,000,000,000 shares"),
        ({"key": ""}, "key must be 1 to 200 printable characters, was ''"),
        ({"quotes": ()}, "quotes must be sent with the order"),
        ({"deadline": START - 1}, "deadline must be in the future, was in the past"),
        ({"quotes": quotes(START - 3 * NANO)}, "quotes must be at most 2 s old, was 3 s"),
        ({"quotes": quotes(START + 60 * NANO)}, "quotes must not be from the future, was 60 s ahead"),
        ({"limit": 0}, "limit must be above 0 and at most 1000000000, was 0"),
    ],
)
def test_invalid_orders_are_refused_and_not_logged(change: dict[str, Any], message: str) -> None:
    world = started()
    before = len(world.store.rows)
    with pytest.raises((InputError, RefusedError), match=message):
        world.engine.submit(msgspec.structs.replace(parent_order(), **change))
    assert len(world.store.rows) == before


def test_the_remainder_is_swept_at_the_deadline_and_then_marked_at_the_far_touch() -> None:
    world = World()
    world.books = lambda symbol: quotes(world.clock.now, size=100)  # type: ignore[method-assign]  # stand-in
    for venue in world.venues.values():
        venue.market.quotes = world.books  # type: ignore[attr-defined]  # stand-in
    world.start(RestEvenRule())
    world.engine.submit(parent_order(quantity=5000, limit=1002 * CENT))
    world.pass_time(20)
    (outcome,) = (event.outcome for event in events(world) if hasattr(event, "outcome"))
    assert outcome.marked
    assert outcome.left > 0
    (mark,) = (child for child in outcome.children if child.marked)
    assert (mark.place, mark.money) == ("beyond", outcome.left * CENT)
    assert any(child.kind == "sweep" and not child.marked for child in outcome.children)
    assert max(child.done_at for child in outcome.children) >= world.state.parents["one"].order.deadline


def test_a_silent_venue_is_queried_until_it_answers() -> None:
    world = World(faults=Faults(silence=0.6, lost=0.3), seed=3)
    engine = world.start(DarkFirstRule())
    for number in range(20):
        engine.submit(parent_order(f"order {number}", 400, received=world.clock.now))
        world.pass_time(0.05)
    assert world.state.unknown
    world.pass_time(60)
    assert not world.state.unknown
    assert world.state.settled == 20
    assert world.state.positions["QVEX"].shares == world.shares_at_venues() == 20 * 400
    assert all(len(set(venue.arrivals)) == len(venue.arrivals) for venue in world.venues.values())


def test_halt_is_durable_first_cancels_open_children_and_survives_a_restart() -> None:
    world = World()
    engine = world.start(RestEvenRule())
    engine.submit(parent_order(quantity=3000))
    world.pass_time(0.1)
    assert any(not child.done for child in world.state.children.values())
    engine.halt("a finger slipped", by="desk").result(0)
    with pytest.raises(RefusedError, match="trading is halted: a finger slipped"):
        engine.submit(parent_order("two"))
    world.pass_time(1)
    assert all(child.done for child in world.state.children.values())
    assert world.state.parents["one"].settled
    world.die()
    engine = world.start(RestEvenRule())
    with pytest.raises(RefusedError, match="trading is halted: a finger slipped"):
        engine.submit(parent_order("two", received=world.clock.now))
    engine.resume(by="supervisor")
    engine.submit(parent_order("two", received=world.clock.now)).result(0)
    world.pass_time(20)
    halt = next(k for k, event in enumerate(events(world)) if isinstance(event, HaltedEvent))
    resumed = next(k for k, event in enumerate(events(world)) if type(event).__name__ == "ResumedEvent")
    assert not any(isinstance(event, SentEvent | AcceptedEvent) for event in events(world)[halt:resumed])
    with pytest.raises(StateError, match="trading must be halted to be resumed, was not halted"):
        engine.resume(by="supervisor")


def test_children_that_a_halt_overtakes_are_withheld() -> None:
    world = World()
    log = HeldLog(world.store)
    world.make_log = lambda: log
    engine = world.start()
    log.hold = True
    engine.submit(parent_order())
    engine.halt("now", by="desk")
    log.release()
    engine.flush()
    world.pass_time(1)
    assert all(not venue.arrivals for venue in world.venues.values())
    assert {child.reason for child in world.state.children.values()} == {"withheld"}
    assert world.state.parents["one"].settled


@pytest.mark.parametrize(
    ("limits", "faults", "reason"),
    [
        (Limits(day_loss=NANO), Faults(), r"the day's cost of [\d.,]+ USD exceeds 1.00"),
        (Limits(rejects_in_a_row=2), Faults(reject=1.0), "rejected 3 children in a row, more than 2"),
        (Limits(day_rejects=3), Faults(reject=1.0), "4 children were rejected today, more than 3"),
        (Limits(unknown=2), Faults(lost=1.0), "3 children are unknown, more than 2"),
    ],
)
def test_automatic_halts(limits: Limits, faults: Faults, reason: str) -> None:
    world = World(faults=faults, limits=limits)
    engine = world.start()

    def submit_many() -> None:
        for number in range(20):
            engine.submit(parent_order(f"order {number}", 1200, received=world.clock.now))
            world.pass_time(0.15 if number % 5 == 4 else 0)

    with pytest.raises(RefusedError, match=reason):
        submit_many()
    world.pass_time(60)
    assert world.state.settled == world.state.decisions
    assert world.state.positions["QVEX"].shares == world.shares_at_venues() if world.state.positions else True


def test_a_jump_of_the_clock_a_slow_disk_and_old_quotes_halt() -> None:
    world = started(limits=Limits(stale_quotes=2))
    for _ in range(3):
        with pytest.raises(RefusedError, match="old"):
            world.engine.submit(parent_order(received=START - 9 * NANO, deadline=START + NANO))
    assert "had old quotes" in world.state.halted
    world = started(monotonic=lambda: 0)
    world.clock.now += 60 * NANO
    world.engine.tick()
    assert "the clock jumped by 60.000 s" in world.state.halted
    world = World()
    log = HeldLog(world.store)
    world.make_log = lambda: log
    engine = world.start()
    log.hold = True
    engine.submit(parent_order())
    world.clock.now += 11 * NANO
    log.release()
    engine.flush()
    assert "the log took more than 10 s to write" in engine.state.halted


def test_the_age_of_quotes_counts_until_the_receipt_of_an_order() -> None:
    """A stall of the router makes no quotes old, and does not halt; an order that waited for too long is not traded."""
    world = started(limits=Limits(stale_quotes=2))
    received = world.clock.now
    orders = [parent_order(f"order {number}", received=received - NANO) for number in range(8)]
    world.clock.now += 3 * NANO // 2
    for order in orders[:4]:
        assert world.engine.accept(order, b"", new_engine_answer(), received).result(60).parent == order.key
    world.clock.now += NANO
    for order in orders[4:]:
        with pytest.raises(OverloadedError, match=r"the router is overloaded: the order waited 2\.5 s; try again"):
            world.engine.accept(order, b"", new_engine_answer(), received)
    with pytest.raises(RefusedError, match="quotes must not be from the future, was 6 s ahead"):
        world.engine.submit(parent_order(received=world.clock.now + 6 * NANO))
    assert not world.state.halted
    assert world.state.decisions == 4


def test_a_log_that_cannot_be_written_stops_everything() -> None:
    world = started()

    def full(entries: Sequence[LogEntry], *, deferrable: bool = False) -> Future[list[int]]:
        done: Future[list[int]] = Future()
        done.set_exception(WriteError("the disk is full", definite=True, cause="the disk is full"))
        return done

    world.engine.log.append = full  # type: ignore[method-assign]  # stand-in
    answer = world.engine.submit(parent_order())
    with pytest.raises(WriteError, match="the disk is full"):
        answer.result(0)
    with pytest.raises(StateError, match="the engine has failed: the log cannot be written: the disk is full"):
        world.engine.submit(parent_order("two"))
    assert all(venue.next_due is None for venue in world.venues.values())
    world.die()
    world.start()
    assert world.engine.submit(parent_order("two")).result(0).parent == "two"


def apart_from_places(state: TradingState) -> bytes:
    """A state without the events of a start, which takes places down and up."""
    return encode_trading_state(msgspec.structs.replace(state, events=0, now=0, down={}))


def test_the_same_log_gives_the_same_state_and_the_same_decisions() -> None:
    world = World(faults=Faults(partial=0.3, duplicate=0.2, disorder=0.2, silence=0.1), snapshot_every=60)
    engine = world.start(make_router("thompson", units=4))
    for number in range(60):
        if number in (20, 45):
            world.die()
            engine = world.start(make_router("thompson", units=4))
            world.pass_time(1)
        engine.submit(parent_order(f"order {number}", 400, received=world.clock.now))
        world.pass_time(0.05)
    world.pass_time(30)
    assert world.states.kept
    assert encode_trading_state(replay_log(engine.log)) == encode_trading_state(world.state)
    result = verify_log(engine.log)
    assert result.holds
    assert result.decisions == 60
    world.die()
    before = apart_from_places(world.state)
    assert apart_from_places(world.start(make_router("thompson", units=4)).state) == before


def test_verification_finds_a_decision_that_the_router_does_not_make() -> None:
    world = started()
    order = parent_order(received=world.clock.now)
    world.engine.submit(order)
    row = next(row for row in world.store.rows if row.kind == "accepted")
    (event,) = log_row_events(row)
    assert isinstance(event, AcceptedEvent)
    plan = event.decision.plan | {"take": {"B": 100}, "take_limits": {}}
    other = msgspec.structs.replace(event, decision=msgspec.structs.replace(event.decision, plan=plan))
    log = MemoryLog()
    log.lease("test", 10)
    log.append([LogEntry("planned", "", world.store.rows[1].body, 0)])
    log.append([LogEntry("accepted", "one", msgspec.msgpack.encode(other), 0)])
    assert verify_log(log).different == ("one",)


def test_many_unsettled_orders_use_the_safe_router() -> None:
    world = World(faults=Faults(silence=1.0), limits=Limits(unsettled=3, unknown=10**6))
    engine = world.start(make_router("adaptive", units=4))
    decisions = [engine.submit(parent_order(f"order {k}")).result(0) for k in range(6)]
    assert [decision.safe for decision in decisions[:3]] == ["", "", ""]
    assert {(one.router, one.consulted) for one in decisions[3:]} == {("sweep", False)}
    with pytest.raises(RefusedError, match="orders that are not settled must be at most 6, was 7"):
        engine.submit(parent_order("order 6"))


def test_a_broken_gateway_is_queried_again_and_nothing_is_sent_twice() -> None:
    world = World()
    engine = world.start(RestEvenRule())
    venue, broken = world.venues["P"], iter([True, False] * 50)
    send, cancel, query = venue.send, venue.cancel, venue.query

    def breaking(call: Any) -> Any:
        def tried(child: Any) -> None:
            if next(broken):
                raise ConnectionError("the line is down")
            call(child)

        return tried

    venue.send, venue.cancel, venue.query = breaking(send), breaking(cancel), breaking(query)  # type: ignore[method-assign]
    for number in range(6):
        engine.submit(parent_order(f"order {number}", 900, received=world.clock.now))
        world.pass_time(0.2)
    world.pass_time(100)
    assert world.state.settled == 6
    assert not engine.failed
    assert world.state.positions["QVEX"].shares == world.shares_at_venues()
    assert {child.reason for child in world.state.children.values()} > {"withheld"}


def test_open_children_need_their_gateway_at_the_next_start() -> None:
    world = World()
    world.start(RestEvenRule())
    world.engine.submit(parent_order(quantity=900))
    world.pass_time(0.1)
    world.die()
    del world.venues["P"]
    with pytest.raises(StateError, match="no gateway reaches P, where children are open"):
        world.start(RestEvenRule())


def test_a_thread_serves_while_others_submit(tmp_path: Any) -> None:
    import time
    from concurrent.futures import ThreadPoolExecutor

    from riskroute.live.log.sqlite import SqliteLog

    world = World.in_real_time(log=lambda: SqliteLog(tmp_path / "log.db"), snapshot_every=20)
    engine = world.start(DarkFirstRule())
    engine.serve(0.001)
    with ThreadPoolExecutor(4) as pool:
        orders = [order_now(f"order {k}", 300) for k in range(40)]
        answers = [one.result(60) for one in pool.map(engine.submit, orders)]
    assert [answer.parent for answer in answers] == [order.key for order in orders]
    end = time.monotonic() + 60
    while engine.state.settled < 40 and time.monotonic() < end:
        for venue in world.venues.values():
            venue.deliver()
        time.sleep(0.002)
    assert engine.state.settled == 40
    assert engine.state.positions["QVEX"].shares == world.shares_at_venues() == 12_000
    with engine.lock:  # the last outcomes may not be recorded yet
        state = encode_trading_state(engine.state)
    engine.close()
    with SqliteLog(tmp_path / "log.db") as log:
        assert encode_trading_state(replay_log(log)) == state
        assert verify_log(log).holds
        assert world.states.kept


def test_a_partly_filled_resting_child_is_not_unknown() -> None:
    world = World(patience=3.0)
    world.start(RestEvenRule())
    world.engine.submit(parent_order(quantity=5000))
    world.pass_time(5)
    (child,) = [one for one in world.state.children.values() if not one.done]
    assert child.status == "partly_filled"
    assert not world.state.unknown
    assert not any(isinstance(event, UnansweredEvent) for event in events(world))


def test_a_cancelled_child_gets_the_full_patience() -> None:
    """The deadline comes just before the time at which the child itself would be asked for."""
    world = World(patience=10.0005)
    world.start(RestEvenRule())
    world.engine.submit(parent_order(quantity=5000))
    for name in ("A", "B", "P"):
        world.venues[name].latency = NANO  # answers take a second from now on
    world.pass_time(10.8)
    assert world.state.parents["one"].closing
    assert any(child.cancelling for child in world.state.children.values())
    assert not any(isinstance(event, UnansweredEvent) for event in events(world))


def test_timers_of_settled_orders_are_dropped_long_before_their_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LedgerTimers, "least_pruned", 40)
    world = started()
    for number in range(100):
        now = world.clock.now
        world.engine.submit(parent_order(f"order {number}", received=now, deadline=now + 3600 * NANO))
        world.pass_time(0.2)
    assert world.state.settled == 100
    assert len(world.engine.timers._heap) < 90
    assert len(world.engine.timers.answer_by) < 90
    for one in (world.engine.decider.maker.looks, world.engine.decider.maker._contexts, world.engine._answers):
        assert not one


def test_a_journalled_venue_forgets_ended_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JournalledVenue, "most_ended", 10)
    world = World()
    market = SimulatedVenueMarket(world.books, 1)
    venue = world.venues["A"] = JournalledVenue("A", market, world.clock, journal=tmp_path / "A.jsonl")
    world.start()
    for number in range(60):
        world.engine.submit(parent_order(f"order {number}", received=world.clock.now))
        world.pass_time(0.2)
    assert world.state.settled == 60
    assert len(venue.children) < 20
    assert len(venue.arrivals) < 20
    venue.stop()
