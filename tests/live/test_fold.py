"""The fold, case by case: fills on their way, busts, unknown children, settlements, and days that end."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from live_engines import CENT, START, accepted, child_order, parent_order, report
from live_logs import MemoryStateStore
from riskroute.core.errors import DataError, StateError
from riskroute.live.state import fold
from riskroute.live.state.amounts import NANO
from riskroute.live.state.archive import OrderArchive, archived_state
from riskroute.live.state.effects import (
    AlertEffect,
    CancelEffect,
    Effect,
    LearnEffect,
    NextEffect,
    QueryEffect,
    SendEffect,
)
from riskroute.live.state.events import (
    AnyEvent,
    ExpiredEvent,
    HaltedEvent,
    MarkedEvent,
    ReportedEvent,
    ResumedEvent,
    SentEvent,
    SettledEvent,
    UnansweredEvent,
    WithheldEvent,
)
from riskroute.live.state.fold import apply
from riskroute.live.state.orders import ChildOrder, OrderOutcome
from riskroute.live.state.trading_state import DAY, TradingState, decode_trading_state, encode_trading_state

ORDER = parent_order(quantity=100)
CHILD = child_order(ORDER, 0, 100)
PRICE = 1002 * CENT


class Desk:
    """A book to which events are put one by one."""

    def __init__(self, *children: ChildOrder) -> None:
        self.state, self.archive, self.at = TradingState(), OrderArchive(), START
        self.effects: list[Effect] = self.put(accepted(ORDER, *(children or (CHILD,))))

    def put(self, event: AnyEvent) -> list[Effect]:
        self.at += 1000
        self.state, self.effects = apply(self.state, event, self.archive)
        return self.effects

    def hear(self, kind: str, exec_id: str, child: ChildOrder = CHILD, **more: Any) -> list[Effect]:
        return self.put(ReportedEvent(at=self.at, report=report(child, kind, exec_id, **({"at": self.at} | more))))

    def fill(self, exec_id: str, quantity: int, cum: int, child: ChildOrder = CHILD, **more: Any) -> list[Effect]:
        given = {"price": PRICE, "leaves": child.quantity - cum} | more
        return self.hear("filled", exec_id, child, quantity=quantity, cum=cum, **given)

    @property
    def learned(self) -> list[OrderOutcome]:
        return [effect.outcome for effect in self.effects if isinstance(effect, LearnEffect)]


def test_a_cancel_with_more_than_is_booked_waits_for_the_fill_on_its_way() -> None:
    desk = Desk()
    desk.fill("1", 60, 60)
    assert desk.hear("cancelled", "3", cum=90) == []
    assert list(desk.state.waiting) == [CHILD.id]
    assert not desk.state.children[CHILD.id].done
    effects = desk.fill("2", 30, 90)
    assert desk.state.children[CHILD.id].done
    assert effects == [NextEffect(ORDER.key)]
    desk.put(MarkedEvent(at=desk.at, parent=ORDER.key, price=PRICE))
    (outcome,) = desk.learned
    assert (outcome.filled, outcome.left, outcome.marked, outcome.cost) == (90, 10, True, 100 * CENT)
    assert [(child.place, child.filled, child.marked) for child in outcome.children] == [
        ("A", 90, False),
        ("beyond", 10, True),
    ]


def test_the_last_fill_may_overtake_the_first() -> None:
    desk = Desk()
    desk.fill("2", 40, 100, leaves=0)
    assert not desk.learned
    desk.fill("1", 60, 60)
    assert [outcome.filled for outcome in desk.learned] == [100]


@pytest.mark.parametrize("bust_first", [True, False])
def test_a_bust_takes_a_fill_back_whichever_comes_first(bust_first: bool) -> None:
    desk = Desk()
    if bust_first:
        desk.hear("busted", "2", reference="1", quantity=60)
        desk.fill("1", 60, 60)
    else:
        desk.fill("1", 60, 60)
        desk.hear("busted", "2", reference="1", quantity=60)
    assert desk.state.children[CHILD.id].filled == 0
    desk.hear("cancelled", "3", cum=0)
    desk.put(MarkedEvent(at=desk.at, parent=ORDER.key, price=PRICE))
    (outcome,) = desk.learned
    assert (outcome.filled, outcome.busted) == (0, True)
    assert (desk.state.positions["QVEX"].shares, desk.state.positions["QVEX"].cash) == (0, 0)


def test_a_bust_after_the_venue_was_done_is_not_waited_for() -> None:
    """The cancel says 60, and the bust that came later but arrives before it leaves none: no fill is on its way."""
    desk = Desk()
    desk.fill("1", 60, 60)
    desk.hear("busted", "3", reference="1", quantity=60, at=START + NANO)
    desk.hear("cancelled", "2", cum=60, at=START + NANO // 2)
    assert desk.state.children[CHILD.id].done


def test_a_settled_order_is_corrected_and_not_learned_again() -> None:
    desk = Desk()
    desk.fill("1", 100, 100, leaves=0, fee=7)
    assert len(desk.learned) == 1
    assert desk.hear("corrected", "2", reference="1", quantity=100, price=PRICE - CENT, fee=5) == []
    assert desk.hear("busted", "3", reference="2", quantity=100) == []
    position = desk.state.positions["QVEX"]
    assert (position.shares, position.cash, position.fees) == (0, 0, 0)
    assert desk.state.corrections == 2
    assert desk.state.settled == 1


def test_the_same_exec_id_of_another_venue_or_day_is_another_fill() -> None:
    other = child_order(ORDER, 1, 50, "B")
    desk = Desk(child_order(ORDER, 0, 50), other)
    mine = child_order(ORDER, 0, 50)
    desk.fill("1", 20, 20, mine)
    desk.fill("1", 20, 20, mine)
    desk.fill("1", 20, 20, mine, day="2")
    desk.fill("1", 50, 50, other)
    assert desk.state.parents[ORDER.key].filled == 90
    assert desk.state.duplicates == 1


def test_an_unknown_child_is_queried_and_resent_only_if_its_venue_does_not_know_it() -> None:
    desk = Desk()
    assert desk.effects == [SendEffect(CHILD)]
    desk.put(SentEvent(at=desk.at, child=CHILD.id))
    assert desk.put(UnansweredEvent(at=desk.at, child=CHILD.id)) == [QueryEffect(CHILD)]
    assert list(desk.state.unknown) == [CHILD.id]
    assert desk.hear("not_known", "q1") == [SendEffect(CHILD)]
    desk.put(SentEvent(at=desk.at, child=CHILD.id))
    desk.put(UnansweredEvent(at=desk.at, child=CHILD.id))
    assert desk.hear("acknowledged", "q2", leaves=100) == []
    assert not desk.state.unknown
    assert desk.state.children[CHILD.id].status == "acknowledged"
    desk.put(ExpiredEvent(at=desk.at, parent=ORDER.key))
    assert desk.effects == [CancelEffect(CHILD)]


def test_an_answer_to_a_query_from_before_a_child_was_resent_changes_nothing() -> None:
    desk = Desk()
    desk.put(SentEvent(at=desk.at, child=CHILD.id))
    desk.put(UnansweredEvent(at=desk.at, child=CHILD.id))
    assert desk.hear("not_known", "q1") == [SendEffect(CHILD)]
    assert desk.hear("not_known", "q2") == []  # of a second query, which was under way
    desk.put(SentEvent(at=desk.at, child=CHILD.id))
    assert desk.hear("not_known", "q3") == []
    desk.put(UnansweredEvent(at=desk.at, child=CHILD.id))
    assert desk.hear("not_known", "q4") == [SendEffect(CHILD)]


def test_a_child_its_venue_never_received_is_not_sent_after_the_deadline() -> None:
    desk = Desk()
    desk.put(ExpiredEvent(at=desk.at, parent=ORDER.key))
    assert desk.hear("not_known", "q1") == [NextEffect(ORDER.key)]
    assert desk.state.children[CHILD.id].reason == "withheld"


def test_inconsistent_reports_are_booked_and_reported() -> None:
    desk = Desk()
    desk.fill("1", 60, 60)
    assert isinstance(desk.hear("not_known", "q1")[0], AlertEffect)
    assert isinstance(desk.hear("filled", "9", child_order(parent_order("strange"), 0, 5), quantity=5)[0], AlertEffect)
    assert desk.state.orphans == 1
    effects = desk.fill("2", 90, 150, leaves=0)
    assert any(isinstance(effect, AlertEffect) and "150 shares of 100 shares" in effect.reason for effect in effects)
    assert desk.state.positions["QVEX"].shares == 150


def test_a_halt_cancels_children_and_only_a_resume_ends_it() -> None:
    desk = Desk()
    assert desk.put(HaltedEvent(at=desk.at, reason="storm", by="desk")) == [CancelEffect(CHILD)]
    desk.put(HaltedEvent(at=desk.at, reason="more storm", by="limits"))
    assert (desk.state.halted, desk.state.halted_by) == ("storm", "desk")
    desk.put(WithheldEvent(at=desk.at, child=CHILD.id))
    desk.fill("1", 60, 60)  # it had been sent after all
    assert desk.state.positions["QVEX"].shares == 60
    assert decode_trading_state(encode_trading_state(desk.state)).halted == "storm"
    desk.put(ResumedEvent(at=desk.at, by="desk"))
    assert desk.state.halted == ""


def test_limits_of_a_day_end_with_it_and_old_orders_are_dropped() -> None:
    desk = Desk()
    desk.hear("rejected", "1")
    desk.put(MarkedEvent(at=desk.at, parent=ORDER.key, price=PRICE))
    assert (desk.state.day.orders, desk.state.day.rejects, desk.state.day.loss) == (1, 1, 100 * CENT)
    second = parent_order("second")
    desk.put(accepted(second, child_order(second, 0, 100), at=START + DAY))
    assert (desk.state.day.orders, desk.state.day.rejects, desk.state.day.loss) == (1, 0, 0)
    assert ORDER.key in desk.state.parents
    desk.put(HaltedEvent(at=START + 2 * DAY, reason="", by="night"))
    assert list(desk.state.parents) == ["second"]
    assert list(desk.state.children) == [child_order(second, 0, 100).id]
    assert desk.state.reports == {}
    desk.hear("filled", "late", quantity=1, cum=1)
    assert desk.state.orphans == 1


def test_events_of_unknown_orders_are_refused() -> None:
    desk = Desk()
    with pytest.raises(StateError, match="unknown order 'no'"):
        desk.put(ExpiredEvent(at=desk.at, parent="no"))
    with pytest.raises(StateError, match="unknown child 'no'"):
        desk.put(SentEvent(at=desk.at, child="no"))
    with pytest.raises(DataError, match="the encoded state is damaged"):
        decode_trading_state(b"nonsense")
    with pytest.raises(DataError, match="a state must have version 5, had 1"):
        decode_trading_state(msgspec.msgpack.encode({"version": 1, "unknown_field": 3, "parents": 0}))


def test_settled_orders_are_archived_and_restored_by_late_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "SETTLED_KEPT", 10)
    monkeypatch.setattr(fold, "ARCHIVED_TOGETHER", 0)
    state, archive, children = TradingState(), OrderArchive(), []

    def put(event: AnyEvent) -> list[Effect]:
        return apply(state, event, archive)[1]

    for number in range(300):
        order = parent_order(f"order {number}")
        children.append(child_order(order, 0, 100))
        put(accepted(order, children[-1]))
        fill = report(children[-1], "filled", str(number), quantity=100, cum=100, price=PRICE)
        (outcome,) = (one.outcome for one in put(ReportedEvent(at=START, report=fill)) if isinstance(one, LearnEffect))
        put(SettledEvent(at=START, outcome=outcome))
    assert (len(state.parents), len(archive.unsaved), len(state.reports)) == (10, 290, 10)
    assert state.archived == 290
    assert len(encode_trading_state(state)) < 1000 * 20
    found = archived_state(archive, "order 3", state)
    assert found is not None
    assert found.parents["order 3"].filled == 100
    again = report(children[3], "filled", "3", quantity=100, cum=100, price=PRICE)
    assert put(ReportedEvent(at=START, report=again)) == []
    assert state.duplicates == 1
    bust = report(children[5], "busted", "bust", reference="5", quantity=100)
    assert put(ReportedEvent(at=START, report=bust)) == []
    assert state.corrections == 1
    assert state.positions["QVEX"].shares == 29_900
    assert len(state.parents) == 10
    assert (len(archive.unsaved), archive.unsaved_bytes) == (
        290,
        sum(len(one.body) for one in archive.unsaved.values()),
    )
    for number in range(10, 30):  # until the busted order is archived again, with what it replaced
        put(ReportedEvent(at=START, report=report(children[number], "cancel_rejected", f"late {number}")))
    assert "order 5" not in state.parents
    assert state.replaced == {}
    assert put(ReportedEvent(at=START, report=bust)) == []
    assert state.duplicates == 2
    late = report(children[5], "filled", "5", quantity=100, cum=100, price=PRICE)
    assert put(ReportedEvent(at=START, report=late)) == []
    put(HaltedEvent(at=START + 2 * DAY, reason="", by="night"))
    assert (state.parents, state.children, state.executions, state.replaced, archive.unsaved) == ({}, {}, {}, {}, {})
    assert archive.unsaved_bytes == 0
    assert isinstance(put(ReportedEvent(at=START + 2 * DAY, report=bust))[0], AlertEffect)


def test_an_archive_with_a_store_gives_the_same_state_as_one_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders are moved to the store at any time, restored, archived again, and expire."""
    monkeypatch.setattr(fold, "SETTLED_KEPT", 3)
    monkeypatch.setattr(fold, "ARCHIVED_TOGETHER", 2)
    rng, store = random.Random(5), MemoryStateStore()
    one, other = (TradingState(), OrderArchive()), (TradingState(), OrderArchive("main", store.find))
    term, at, reports = store.begin(None), START, list[ReportedEvent]()
    for number in range(400):
        at += DAY // 100
        if reports and rng.random() < 0.5:
            events: list[AnyEvent] = [msgspec.structs.replace(rng.choice(reports[-200:]), at=at)]
        elif reports and rng.random() < 0.3:
            old = rng.choice(reports[-200:]).report
            if old.kind != "filled":
                continue
            again = {"exec_id": f"{old.exec_id} {number}", "kind": "busted", "reference": old.exec_id, "at": at}
            events = [ReportedEvent(at=at, report=msgspec.structs.replace(old, **again))]
        else:
            order = parent_order(f"order {number}")
            child = child_order(order, 0, 100)
            fill = report(child, "filled", str(number), quantity=100, cum=100, price=PRICE)
            events = [accepted(order, child, at=at), ReportedEvent(at=at, report=fill)]
        for event in events:
            effects = [apply(*both[:1], event, both[1])[1] for both in (one, other)]
            assert effects[0] == effects[1]
            if isinstance(event, ReportedEvent):
                reports.append(event)
        if rng.random() < 0.1:
            some = [order for order in other[1].unsaved.values() if rng.random() < 0.7]
            store.save(term, None, some)
            other[1].forget(some)
        assert encode_trading_state(one[0]) == encode_trading_state(other[0])
    assert one[0].corrections > 10
    assert one[0].orphans > 10
    assert len(one[1].unsaved) < 300
