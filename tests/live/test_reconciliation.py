"""Accounts of venues against the log: open orders, balances, what halts, and what is only shown."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from live_engines import START, World, parent_order, stored_events
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.places import PlaceRules
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import ReconciledEvent
from riskroute.live.state.trading_state import encode_trading_state
from riskroute.live.venues.gateway import OpenOrder, VenueAccount, VenueTerms, wire_id
from riskroute.live.venues.simulated import SimulatedVenue, SimulatedVenueMarket
from riskroute.routers.rules import RestEvenRule


class Bank(SimulatedVenue):
    """A venue with balances: what it has traded for us, and what we had before."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.funds = {"QVEX": Decimal(1000), "USD": Decimal(50_000), "GOLD": Decimal(3)}
        self.others: list[OpenOrder] = []
        self.hidden: set[str] = set()  # children that its list of open orders lacks
        self.requests = 0

    def terms(self, symbol: str) -> VenueTerms | None:
        return msgspec.structs.replace(super().terms(symbol), base="QVEX", quote="USD")  # type: ignore[type-var]

    def request_account(self) -> None:
        self.requests += 1
        super().request_account()

    def balances(self) -> dict[str, Decimal]:
        """Return what an account shows."""
        held = dict(self.funds)
        for there in self.children.values():
            sign = 1 if there.child.side == "buy" else -1
            for one in there.reports:
                if one.kind == "filled":
                    held["QVEX"] += sign * one.quantity
                    held["USD"] -= Decimal(sign * one.quantity * one.price + one.fee) / NANO
        return held

    def _answer_account(self) -> None:
        opened = [
            OpenOrder(wire_id=wire_id(name), symbol=there.child.symbol, side=there.child.side, leaves=there.leaves)
            for name, there in self.children.items()
            if there.open and name not in self.hidden
        ]
        assert self._sink is not None
        self._sink.account(VenueAccount(self.clock(), (*opened, *self.others), self.balances()))


class Banks(World):
    """Venues with balances."""

    def __init__(self, **engine: Any) -> None:
        super().__init__(**engine)
        market = SimulatedVenueMarket(self.books, hidden={"P": 0}, fill_seconds=1e6)
        self.banks = {name: Bank(name, market, self.clock) for name in ("A", "B", "P")}
        self.venues.update(self.banks)

    def trade(self, *keys: str, **more: Any) -> None:
        for key in keys:
            now = self.clock.now
            order = parent_order(key, 300, received=now, deadline=now + 600 * NANO, **more)
            self.engine.submit(order)
            self.pass_time(0.2)

    def reconciled(self) -> Sequence[ReconciledEvent]:
        return [event for event in stored_events(self.store) if isinstance(event, ReconciledEvent)]


def test_accounts_that_agree_are_compared_every_minute_and_logged_once() -> None:
    world = Banks()
    engine = world.start()
    world.pass_time(0.1)
    assert [bank.requests for bank in world.banks.values()] == [1, 1, 1], "as soon as a place is up"
    world.trade("one", "two", side="buy")
    world.trade("three", side="sell")
    world.pass_time(200)
    # Once more at A, which has traded: the first offset of a currency counts once it is seen twice.
    assert [bank.requests for bank in world.banks.values()] == [5, 4, 4]
    traded = {event.place: event for event in world.reconciled()}
    assert len(traded) == len(world.reconciled())
    assert traded
    for event in traded.values():
        assert event.offsets == {"QVEX": 1000, "USD": 50_000}
        assert event.difference == ""
    world.die()
    engine = world.start()
    world.pass_time(100)
    assert len(world.reconciled()) == len(traded), "a new process finds the same"
    assert engine.reconciliation.differences == {"A": [], "B": [], "P": []}
    assert set(engine.reconciliation.checked) == {"A", "B", "P"}
    assert verify_log(engine.log).holds
    assert encode_trading_state(replay_log(engine.log)) == encode_trading_state(world.state)


def test_balances_that_no_fill_explains_are_logged_and_shown_and_do_not_halt() -> None:
    world = Banks()
    engine = world.start()
    world.trade("one")
    world.pass_time(100)
    (place,) = {event.place for event in world.reconciled()}
    bank = world.banks[place]
    world.die()
    bank.funds["QVEX"] += 7  # somebody else buys while we are away
    bank.funds["USD"] -= 70
    bank.funds["GOLD"] = Decimal(0)  # which we do not trade
    engine = world.start()
    world.pass_time(0.5)
    assert len(world.reconciled()) == 1, "one account may be ahead of a fill"
    world.pass_time(3)
    last = world.reconciled()[-1]
    assert (last.place, last.difference) == (place, "7 QVEX, -70 USD")
    assert (world.state.venues[place].difference, world.state.halted) == ("7 QVEX, -70 USD", "")
    world.pass_time(200)
    assert len(world.reconciled()) == 2, "it is reported once"
    assert verify_log(engine.log).holds


def test_a_fill_under_way_is_no_difference() -> None:
    world = Banks()
    world.start()
    world.trade("one")
    world.pass_time(100)
    (place,) = {event.place for event in world.reconciled()}
    bank, post = world.banks[place], world.banks[place]._post
    bank._post = lambda report, wait: post(report, wait + NANO // 2)  # type: ignore[method-assign]  # reports come late
    for number in range(3):
        world.engine.submit(parent_order(f"late {number}", received=world.clock.now))
        world.pass_time(0.005)
        world.engine.reconciliation.on_timer(place, once=True)
        world.pass_time(4)
    assert bank.requests > 5
    assert len(world.reconciled()) == 1


def test_an_order_of_ours_that_the_log_does_not_know_halts() -> None:
    world = Banks()
    engine = world.start()
    lost = wire_id("MAIN2222MAIN2222-0-0")
    world.banks["A"].others = [OpenOrder(wire_id=lost, symbol="QVEX", side="buy")]
    world.pass_time(61)
    assert world.state.halted == f"A has our order {lost!r}, which the log does not know"
    assert engine.reconciliation.differences["A"] == [world.state.halted]


@pytest.mark.parametrize("foreign", ["ignore", "halt"])
def test_open_orders_of_others_are_ignored_or_halt(foreign: Any) -> None:
    world = Banks(rules={"A": PlaceRules(foreign=foreign)})
    engine = world.start()
    world.banks["A"].others = [OpenOrder(wire_id="", symbol="QVEX", side="buy", venue_id="4711")]
    world.pass_time(130)
    assert world.state.halted == ("" if foreign == "ignore" else "A has an order that is not ours, '4711'")
    assert engine.places.foreign == {"A": 3}, "in every account"
    assert engine.reconciliation.differences["A"] == []


def test_an_order_that_is_done_in_the_log_and_open_at_its_venue_is_cancelled_and_halts() -> None:
    world = Banks()
    world.start(RestEvenRule())
    world.trade("one")
    bank = world.banks["P"]
    ((name, there),) = bank.children.items()
    world.engine.halt("a test", "test")
    world.pass_time(1)
    assert world.state.children[name].done
    world.engine.resume("test")
    there.open, there.leaves = True, 5  # the venue was wrong
    cancelled = len(there.reports)
    world.engine.reconciliation.on_timer("P", once=True)
    world.pass_time(0.5)
    assert not world.state.halted, "a list of open orders may be late"
    world.pass_time(2)
    assert world.state.halted == f"P has {name}, which is done in the log: it is cancelled"
    assert not there.open
    assert len(there.reports) == cancelled + 1


def test_a_resting_child_that_an_account_lacks_is_queried() -> None:
    world = Banks()
    world.start(RestEvenRule())
    world.trade("one")
    bank = world.banks["P"]
    ((name, there),) = bank.children.items()
    assert world.state.children[name].status == "acknowledged"
    post = bank._post
    bank._post = lambda report, wait: None  # type: ignore[method-assign]  # the last report is lost
    bank._cancelled(name)
    bank._post = post  # type: ignore[method-assign]  # as it was
    world.pass_time(70)
    assert world.state.children[name].done
    assert world.state.children[name].reason == "cancelled"
    assert not there.open
    assert not world.state.halted
    assert world.engine.reconciliation.checked["P"] > START
