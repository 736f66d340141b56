"""Recovery from snapshots and from the log alone: always the same state, archive and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from live_engines import World, parent_order, stored_events
from riskroute.core.errors import KeyUsedError
from riskroute.live.learner import Learner
from riskroute.live.log.interface import NO_CHAIN
from riskroute.live.log.recovery import recover_log, replay_log
from riskroute.live.state import fold
from riskroute.live.state.archive import ArchivedOrder, archived_state
from riskroute.live.state.events import ReportedEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import order_id
from riskroute.live.state.trading_state import DAY, encode_trading_state
from riskroute.live.venues.simulated import Faults
from riskroute.routers.rules import DarkFirstRule


@pytest.fixture(autouse=True)
def _few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "SETTLED_KEPT", 5)
    monkeypatch.setattr(fold, "ARCHIVED_TOGETHER", 2)


def filled_reports(world: World) -> list[ExecutionReport]:
    """All fills in the log."""
    events = stored_events(world.store)
    return [one.report for one in events if isinstance(one, ReportedEvent) and one.report.kind == "filled"]


def bust(world: World, fill: ExecutionReport) -> None:
    """Bust a fill."""
    changed: dict[str, Any] = {"exec_id": f"{fill.exec_id} bust", "kind": "busted", "reference": fill.exec_id}
    world.engine.report(msgspec.structs.replace(fill, at=world.clock.now, **changed))


def played(orders: int = 60) -> World:
    """A world with archived orders, some of them busted late, and two snapshots."""
    world = World(faults=Faults(partial=0.3, duplicate=0.2, disorder=0.2), snapshot_every=200)
    world.start(DarkFirstRule())
    for number in range(orders):
        world.engine.submit(parent_order(f"order {number}", 300, received=world.clock.now))
        world.pass_time(0.1)
        if number % 9 == 8:
            bust(world, filled_reports(world)[number])
    world.pass_time(5)
    assert len(world.states.kept) == 2
    assert world.state.corrections
    return world


def found(world: World, store: Any) -> tuple[bytes, list[ArchivedOrder]]:
    """The recovered state, and every archived order."""
    state, archive, _ = recover_log(world.engine.log, Learner(DarkFirstRule()), store)
    keys = [f"order {number}" for number in range(state.decisions)]
    every = [archive.find(order_id(archive.stream, key)) for key in keys if key not in state.parents]
    return encode_trading_state(state), [one for one in every if one is not None]


def without_newest(world: World) -> None:
    world.states.kept.pop()


def without_any(world: World) -> None:
    world.states.kept.clear()


def ahead_of_the_log(world: World) -> None:
    world.states.kept[-1] = msgspec.structs.replace(world.states.kept[-1], seq=10**6)


def of_another_log(world: World) -> None:
    world.states.kept[-1] = msgspec.structs.replace(world.states.kept[-1], chain=NO_CHAIN)


def undecodable(world: World) -> None:
    world.states.kept[-1] = msgspec.structs.replace(world.states.kept[-1], body=b"\x92\xc4\x01x\xc4\x01x")


def of_a_shorter_log(world: World) -> None:
    """The log is restored from a backup from before the newest snapshot."""
    world.store.rows = world.store.rows[: world.states.kept[-1].seq - 3]


@pytest.mark.parametrize(
    "damage", [without_newest, without_any, ahead_of_the_log, of_another_log, undecodable, of_a_shorter_log]
)
def test_a_snapshot_that_does_not_fit_is_not_used(damage: Callable[[World], None]) -> None:
    world = played()
    damage(world)
    whole = found(world, None)
    assert len(whole[1]) > 40 or damage is of_a_shorter_log
    assert found(world, world.states) == whole
    assert encode_trading_state(replay_log(world.engine.log)) == whole[0]
    assert len(world.states.kept) == (0 if damage is without_any else 1)
    assert found(world, world.states) == whole


def test_a_damaged_order_leads_back_to_the_log() -> None:
    world = played()
    fill = filled_reports(world)[0]
    id = fill.child.rsplit("-", 2)[0]
    world.pass_time(1)
    bust(world, fill)
    world.engine.flush()
    whole = found(world, None)
    world.states.orders = [
        msgspec.structs.replace(one, body=b"damaged") if one.id == id else one for one in world.states.orders
    ]
    assert found(world, world.states) == whole
    assert not world.states.kept


def test_what_is_archived_during_a_long_recovery_does_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from riskroute.live.log import interface

    monkeypatch.setattr(interface, "PAGE", 20)
    world = played()
    whole = found(world, None)
    world.states.kept.clear()
    _, archive, _ = recover_log(world.engine.log, Learner(DarkFirstRule()), world.states, most_bytes=5_000)
    assert archive.unsaved_bytes < 20_000
    assert len(world.states.orders) > 30
    assert all(archive.find(one.id) == one for one in whole[1])


def test_a_repeated_order_gets_its_first_answer_however_old_it_is() -> None:
    world = played()
    order = parent_order("old", 300, received=world.clock.now)
    first = world.engine.submit(order).result(60)
    world.pass_time(5)
    world.clock.now += 3 * DAY
    for number in range(20):
        world.engine.submit(parent_order(f"later {number}", received=world.clock.now)).result(60)
        world.pass_time(0.5)
    for _ in range(2):
        assert "old" not in world.state.parents
        assert archived_state(world.engine.ledger.archive, "old", world.state) is None
        assert world.engine.submit(order).result(60) == first
        with pytest.raises(KeyUsedError, match="key 'old' belongs to another order"):
            world.engine.submit(msgspec.structs.replace(order, quantity=301))
        world.die()
        world.start(DarkFirstRule())
        world.pass_time(1)
    assert world.state.decisions == 81


def test_orders_leave_the_store_two_days_later() -> None:
    world = played()
    assert len(world.states.orders) > 40
    for day in range(3):
        world.clock.now += DAY
        for number in range(60):
            world.engine.submit(parent_order(f"day {day}, {number}", received=world.clock.now)).result(60)
            world.pass_time(0.2)
    days = {one.day for one in world.states.orders}
    assert max(days) - min(days) <= 2
    assert len(world.states.orders) + len(world.engine.ledger.archive.unsaved) < 200
