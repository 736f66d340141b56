"""The fold under a random market: reports in disorder and more than once, busts, corrections, cancels that overtake.

After every run the state equals the plain twin's, positions equal what the venues know, and every order was learned
once. Known mistakes, put in on purpose, must be found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from live_engines import CENT, START, accepted, child_order, parent_order, stored_again
from riskroute.live.state import fold
from riskroute.live.state.archive import OrderArchive, restore_order
from riskroute.live.state.effects import Effect, LearnEffect
from riskroute.live.state.events import AcceptedEvent, AnyEvent, ExpiredEvent, IntendedEvent, MarkedEvent, ReportedEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.fold import SETTLED_KEPT, apply
from riskroute.live.state.orders import ChildOrder, ParentOrder
from riskroute.live.state.trading_state import (
    ChildState,
    ParentState,
    TradingState,
    decode_trading_state,
    encode_trading_state,
)


def naive_book(events: Sequence[AnyEvent]) -> dict[str, Any]:
    """Positions, fills of children, and for every settled order the number of events, shares and cost at that time."""
    ended: set[str] = set()
    settled: dict[str, tuple[int, int, int]] = {}
    for count in range(1, len(events) + 1):
        seen = events[:count]
        children = children_in(seen)
        ended |= {name for name, (child, reports) in children.items() if name not in ended and is_over(child, reports)}
        for key, order in orders_in(seen).items():
            if key in settled:
                continue
            mine = {name: pair for name, pair in children.items() if pair[0].parent == key}
            filled = sum(shares_of(reports) for _, reports in mine.values())
            marks = [event.price for event in seen if isinstance(event, MarkedEvent) and event.parent == key]
            if ended.issuperset(mine) and (filled >= order.quantity or marks):
                settled[key] = count, filled, cost_of(order, mine, filled, marks)
    final = children_in(events)
    return {
        "settled": settled,
        "filled": {name: shares_of(reports) for name, (_, reports) in final.items()},
        "ended": ended,
        "positions": positions_in(events),
    }


def orders_in(events: Sequence[AnyEvent]) -> dict[str, ParentOrder]:
    found: dict[str, ParentOrder] = {}
    for event in events:
        if isinstance(event, AcceptedEvent):
            found.setdefault(event.order.key, event.order)
    return found


def children_in(events: Sequence[AnyEvent]) -> dict[str, tuple[ChildOrder, list[ExecutionReport]]]:
    """Children by id, each with its different reports in the sequence in which they came."""
    found: dict[str, tuple[ChildOrder, list[ExecutionReport]]] = {}
    known = set()
    for event in events:
        if isinstance(event, AcceptedEvent | IntendedEvent):
            for child in event.children:
                found.setdefault(child.id, (child, []))
        elif isinstance(event, ReportedEvent):
            report = event.report
            if names(report) not in known:
                known.add(names(report))
                found[report.child][1].append(report)
    return found


def names(report: ExecutionReport) -> tuple[str, str, str]:
    return report.venue, report.day, report.exec_id


def executions_that_count(reports: list[ExecutionReport]) -> list[ExecutionReport]:
    gone = {(one.venue, one.day, one.reference) for one in reports if one.kind in ("busted", "corrected")}
    return [one for one in reports if one.kind in ("filled", "corrected") and names(one) not in gone]


def shares_of(reports: list[ExecutionReport]) -> int:
    return sum(one.quantity for one in executions_that_count(reports))


def is_over(child: ChildOrder, reports: list[ExecutionReport]) -> bool:
    """Whether the venue is done with a child, and all that it had counted then is booked."""
    ends = [one for one in reports if one.kind in ("cancelled", "rejected", "expired")]
    ends += [one for one in reports if one.kind == "filled" and one.leaves == 0]
    if not ends:
        return shares_of(reports) >= child.quantity
    last = max(one.at for one in ends)
    end = [one for one in reports if one in ends and one.at == last][-1]
    changes = [one for one in reports if one.kind in ("busted", "corrected")]
    after = [one for one in changes if one.at > end.at]
    at_once = [one for one in changes if one.at == end.at]
    options = (reports, without(reports, after), without(reports, after + at_once))
    return end.cum in {shares_of(option) for option in options}


def without(reports: list[ExecutionReport], others: list[ExecutionReport]) -> list[ExecutionReport]:
    return [one for one in reports if one not in others]


def cost_of(
    order: ParentOrder, children: dict[str, tuple[ChildOrder, list[ExecutionReport]]], filled: int, marks: list[int]
) -> int:
    bid = max(price for quote in order.quotes for price, _ in quote.bids)
    ask = min(price for quote in order.quotes for price, _ in quote.asks)
    mid, sign, cost = (bid + ask) // 2, 1 if order.side == "buy" else -1, 0
    for _, reports in children.values():
        cost += sum(sign * one.quantity * (one.price - mid) + one.fee for one in executions_that_count(reports))
    left = max(order.quantity - filled, 0)
    return cost + (sign * left * (marks[-1] - mid) if left else 0)


def positions_in(events: Sequence[AnyEvent]) -> dict[str, tuple[int, int, int]]:
    totals: dict[str, tuple[int, int, int]] = {}
    for child, reports in children_in(events).values():
        sign = 1 if child.side == "buy" else -1
        for one in executions_that_count(reports):
            shares, cash, fees = totals.get(child.symbol, (0, 0, 0))
            totals[child.symbol] = (
                shares + sign * one.quantity,
                cash - sign * one.quantity * one.price,
                fees + one.fee,
            )
    return totals


QUICK = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class AtVenue:
    """A child as its venue knows it."""

    child: ChildOrder
    leaves: int
    open: bool = True
    fills: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """What counts, by exec id: shares, price and fee."""

    @property
    def cum(self) -> int:
        return sum(shares for shares, _, _ in self.fills.values())


class Market(RuleBasedStateMachine):
    """Venues that do what they like, and a post that delivers as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.archive = TradingState(), OrderArchive()
        self.events: list[AnyEvent] = []
        self.venues: dict[str, AtVenue] = {}
        self.days: dict[str, str] = {}
        self.exec_ids: Counter[tuple[str, str]] = Counter()
        self.post: list[ExecutionReport] = []
        self.delivered: list[ExecutionReport] = []
        self.learned: dict[str, int] = {}
        self.changed: set[str] = set()
        self.over: set[str] = set()
        self.clock = START
        self.orders = 0

    def put(self, event: AnyEvent) -> list[Effect]:
        event = stored_again(event)
        self.events.append(event)
        self.state, effects = apply(self.state, event, self.archive)
        for effect in effects:
            if isinstance(effect, LearnEffect):
                key = effect.outcome.parent
                assert key not in self.learned, "learned twice"
                self.learned[key] = len(self.events)
                if key not in self.changed:
                    assert effect.outcome.filled == self.truly_filled(key), "learned before all fills were booked"
        if isinstance(event, ReportedEvent) and self.venues:
            self.compare_child(event.report.child)
        return effects

    def compare_child(self, name: str) -> None:
        """A child is done when its venue is, and every fill that the venue had counted is booked."""
        came = [one for one in self.delivered if one.child == name]
        if is_over(self.venues[name].child, [one for k, one in enumerate(came) if one not in came[:k]]):
            self.over.add(name)
        child = self.state.children.get(name)
        assert child is not None or self.archive.find(name.rsplit("-", 2)[0]) is not None
        done = child is None or child.done
        assert done == (name in self.over)

    def truly_filled(self, key: str) -> int:
        return sum(there.cum for there in self.venues.values() if there.child.parent == key)

    def now(self) -> int:
        self.clock += 1000
        return self.clock

    # orders

    @rule(
        splits=st.lists(st.tuples(st.integers(1, 100), st.sampled_from("AB")), min_size=1, max_size=3),
        side=st.sampled_from(["buy", "sell"]),
        more=st.sampled_from([0, 0, 20]),
    )
    def order_comes(self, splits: list[tuple[int, str]], side: str, more: int) -> None:
        if self.orders >= 4:
            return
        order = parent_order(f"order {self.orders}", sum(n for n, _ in splits) + more, side=side)
        children = tuple(child_order(order, slot, *split) for slot, split in enumerate(splits))
        for child in children:
            self.venues[child.id] = AtVenue(child, child.quantity)
            self.days[child.id] = "1" if self.orders < 2 else "2"
        self.orders += 1
        self.put(accepted(order, *children, at=self.now()))

    # venues

    def say(self, there: AtVenue, kind: Any, **more: Any) -> None:
        venue, day = there.child.place, self.days[there.child.id]
        self.exec_ids[venue, day] += 1
        exec_id = str(self.exec_ids[venue, day])
        if kind in ("filled", "corrected"):
            there.fills[exec_id] = more["quantity"], more["price"], more["fee"]
        about: dict[str, Any] = {
            "venue": venue,
            "day": day,
            "exec_id": exec_id,
            "child": there.child.id,
            "at": self.now(),
        }
        self.post.append(ExecutionReport(kind=kind, cum=there.cum, leaves=there.leaves, **about, **more))

    def working(self) -> list[AtVenue]:
        return [there for there in self.venues.values() if there.open]

    @precondition(lambda self: self.working())
    @rule(data=st.data(), part=st.sampled_from([0.2, 0.5, 1.0]), ticks=st.integers(0, 3))
    def a_child_is_filled(self, data: st.DataObject, part: float, ticks: int) -> None:
        there = data.draw(st.sampled_from(self.working()))
        shares = max(int(part * there.leaves), 1)
        there.leaves -= shares
        there.open = there.leaves > 0
        self.say(there, "filled", quantity=shares, price=(1000 + ticks) * CENT, fee=shares * ticks)

    @precondition(lambda self: self.working())
    @rule(data=st.data())
    def a_child_is_cancelled(self, data: st.DataObject) -> None:
        there = data.draw(st.sampled_from(self.working()))
        there.leaves, there.open = 0, False
        self.say(there, "cancelled")

    @precondition(lambda self: any(there.fills for there in self.venues.values()))
    @rule(data=st.data(), corrected=st.booleans())
    def a_fill_is_taken_back(self, data: st.DataObject, corrected: bool) -> None:
        there = data.draw(st.sampled_from([one for one in self.venues.values() if one.fills]))
        exec_id = data.draw(st.sampled_from(list(there.fills)))
        shares, price, fee = there.fills.pop(exec_id)
        self.changed.add(there.child.parent)
        if corrected:
            self.say(there, "corrected", reference=exec_id, quantity=max(shares // 2, 1), price=price + CENT, fee=fee)
        else:
            self.say(there, "busted", reference=exec_id, quantity=shares, price=price)

    # the post

    @precondition(lambda self: self.post)
    @rule(data=st.data())
    def a_report_comes(self, data: st.DataObject) -> None:
        report = self.post.pop(data.draw(st.integers(0, len(self.post) - 1)))
        self.delivered.append(report)
        self.put(ReportedEvent(at=self.now(), report=report))

    @precondition(lambda self: self.post)
    @rule()
    def the_last_report_overtakes(self) -> None:
        self.delivered.append(self.post.pop())
        self.put(ReportedEvent(at=self.now(), report=self.delivered[-1]))

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def a_report_comes_again(self, data: st.DataObject) -> None:
        self.put(ReportedEvent(at=self.now(), report=data.draw(st.sampled_from(self.delivered))))

    # the end of orders

    @precondition(lambda self: self.state.unsettled)
    @rule(data=st.data())
    def a_deadline_passes(self, data: st.DataObject) -> None:
        self.put(ExpiredEvent(at=self.now(), parent=data.draw(st.sampled_from(list(self.state.unsettled)))))

    @precondition(lambda self: self.state.unsettled)
    @rule(data=st.data())
    def the_rest_is_given_up(self, data: st.DataObject) -> None:
        parent = self.state.parents[data.draw(st.sampled_from(list(self.state.unsettled)))]
        if parent.open == 0:
            self.put(MarkedEvent(at=self.now(), parent=parent.order.key, price=1002 * CENT))

    @rule()
    def the_state_is_saved(self) -> None:
        body = encode_trading_state(self.state)
        self.state = decode_trading_state(body)
        assert encode_trading_state(self.state) == body

    # what must hold

    def teardown(self) -> None:
        for there in self.working():
            there.leaves, there.open = 0, False
            self.say(there, "cancelled")
        for report in self.post:
            self.delivered.append(report)
            self.put(ReportedEvent(at=self.now(), report=report))
        for key in list(self.state.unsettled):
            parent = self.state.parents[key]
            assert parent.open == 0, "a child waits for a fill that has come"
            self.put(MarkedEvent(at=self.now(), parent=key, price=1002 * CENT))
        self.compare_with_itself()
        for id in list(self.archive.unsaved):
            restore_order(self.state, self.archive, id)
        self.compare_with_venues()
        self.compare_with_twin()

    def compare_with_itself(self) -> None:
        again, archive = TradingState(), OrderArchive()
        for event in self.events:
            apply(again, event, archive)
        assert encode_trading_state(again) == encode_trading_state(self.state)

    def compare_with_venues(self) -> None:
        totals: dict[str, list[int]] = {}
        for name, there in self.venues.items():
            assert self.state.children[name].filled == there.cum
            sign = 1 if there.child.side == "buy" else -1
            total = totals.setdefault(there.child.symbol, [0, 0, 0])
            for shares, price, fee in there.fills.values():
                total[0] += sign * shares
                total[1] -= sign * shares * price
                total[2] += fee
        booked = {name: [one.shares, one.cash, one.fees] for name, one in self.state.positions.items()}
        assert {name: total for name, total in totals.items() if any(total)} == {
            name: total for name, total in booked.items() if any(total)
        }
        assert set(self.learned) == set(self.state.parents)
        assert not self.state.unsettled
        assert not self.state.waiting
        assert all(use.open == 0 for use in self.state.venues.values())
        assert all(use.quantity == use.notional == 0 for use in self.state.symbols.values())

    def compare_with_twin(self) -> None:
        twin = naive_book(self.events)
        assert {name: one.filled for name, one in self.state.children.items()} == twin["filled"]
        assert {name for name, one in self.state.children.items() if one.done} == twin["ended"]
        outcomes = {key: parent.outcome for key, parent in self.state.parents.items() if parent.outcome}
        assert {key: (self.learned[key], one.filled, one.cost) for key, one in outcomes.items()} == twin["settled"]
        assert {name: (one.shares, one.cash, one.fees) for name, one in self.state.positions.items()} == (
            twin["positions"] | {name: (0, 0, 0) for name in self.state.positions if name not in twin["positions"]}
        )


@pytest.mark.parametrize("kept", [1, SETTLED_KEPT])
def test_every_fill_is_booked_once_and_every_order_learned_once(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "SETTLED_KEPT", kept)
    monkeypatch.setattr(fold, "ARCHIVED_TOGETHER", 0)
    run_state_machine_as_test(Market, settings=QUICK)


def dedupe_by_exec_id_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExecutionReport, "key", property(lambda self: self.exec_id))
    monkeypatch.setattr(fold, "execution_report_key", lambda venue, day, exec_id: exec_id)


def settle_while_a_fill_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(state: TradingState, child: ChildState, at: int, effects: list[Effect]) -> None:
        if child.final >= 0 or child.filled >= child.order.quantity:
            fold._finish_child(state, child, child.reason, at, effects)

    monkeypatch.setattr(fold, "_end_if_complete", at_once)


def settle_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = fold._settle

    def forgetful(state: TradingState, parent: ParentState, effects: list[Effect]) -> None:
        settle(state, parent, effects)
        parent.settled = False
        state.unsettled[parent.order.key] = None
        use = state.symbols[parent.order.symbol]
        use.quantity += parent.order.quantity
        use.notional += parent.order.quantity * parent.mid

    monkeypatch.setattr(fold, "_settle", forgetful)


def book_a_duplicate(monkeypatch: pytest.MonkeyPatch) -> None:
    book = fold._book_report

    def twice(state: TradingState, event: ReportedEvent, effects: list[Effect]) -> None:
        state.reports.pop(event.report.key, None)
        book(state, event, effects)

    monkeypatch.setitem(fold._HANDLERS, ReportedEvent, twice)


def forget_a_bust_that_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    book = fold._book_report

    def without_memory(state: TradingState, event: ReportedEvent, effects: list[Effect]) -> None:
        book(state, event, effects)
        state.replaced.clear()

    monkeypatch.setitem(fold._HANDLERS, ReportedEvent, without_memory)


@pytest.mark.parametrize(
    "mistake",
    [
        dedupe_by_exec_id_alone,
        settle_while_a_fill_is_on_its_way,
        settle_a_second_time,
        book_a_duplicate,
        forget_a_bust_that_comes_first,
    ],
)
def test_known_mistakes_are_caught(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(Market, settings=settings(QUICK, max_examples=200))
