"""Sweeps and printed costs against brute force: fees per quantity, in basis points and per order, in any unit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.instrument import PROTECTIONS
from riskroute.routers.context import Context, read_context
from riskroute.routers.decision import Decision, price_decision
from riskroute.routers.plan import Plan
from riskroute.routers.rules import NbboRule, PrimaryRule, RawSweepRule, SprayRule, SweepRule

ROUTERS = (SweepRule, RawSweepRule, NbboRule, SprayRule, PrimaryRule)
Level = tuple[Decimal, int]  # price, units


class Venue(NamedTuple):
    """Asks of a purchase or bids of a sale, the best first, and what takers are charged."""

    levels: list[Level]
    per_quantity: Decimal
    bps: Decimal
    least: Decimal
    most: Decimal


class Case(NamedTuple):
    """An order and its books."""

    side: str
    units: int
    venues: dict[str, Venue]
    instrument: dict[str, Any]
    far: Decimal  # best price of the other side

    @property
    def sign(self) -> int:
        return 1 if self.side == "buy" else -1

    @property
    def unit(self) -> Decimal:
        return Decimal(self.instrument["unit"])

    @property
    def multiplier(self) -> Decimal:
        return Decimal(self.instrument["multiplier"])

    @property
    def mid(self) -> Decimal:
        best = [venue.levels[0][0] for venue in self.venues.values() if venue.levels]
        return ((min(best) if self.sign > 0 else max(best)) + self.far) / 2

    def fee(self, venue: Venue, price: Decimal) -> Decimal:
        """Fee of a unit in money."""
        return self.unit * (venue.per_quantity + venue.bps / 10_000 * abs(price) * self.multiplier)

    def cost(self, price: Decimal) -> Decimal:
        """Cost of a unit against the mid in money, before fees."""
        return self.sign * (price - self.mid) * self.unit * self.multiplier

    def child_cost(self, venue: Venue, taken: list[Decimal]) -> Decimal:
        """Cost of a child that takes single units at some prices."""
        fees = sum((self.fee(venue, price) for price in taken), Decimal(0))
        charged = min(max(fees, venue.least), venue.most) if taken else Decimal(0)
        return sum((self.cost(price) for price in taken), charged)

    def context(self, protection: str) -> Context:
        name = self.instrument["quantity"][:-1] if self.instrument["quantity"] == "contracts" else "BTC"
        shown, other = ("asks", "bids") if self.sign > 0 else ("bids", "asks")
        venues: dict[str, Any] = {}
        for key, venue in self.venues.items():
            limits = {"minimum": venue.least, "maximum": venue.most}
            fee = {"fee": f"{venue.per_quantity} per {name} + {venue.bps} bps"}
            fee |= {word: str(value) for word, value in limits.items() if value.is_finite()}
            levels = [[float(price), float(units * self.unit)] for price, units in venue.levels]
            venues[key] = {shown: levels, "taker": fee}
        venues["A"][other] = [[float(self.far), float(self.unit)]]
        books = {"venues": venues, "instrument": self.instrument | {"protection": protection}}
        return read_context(books, side=self.side, quantity=str(self.units * self.unit))


@st.composite
def cases(draw: st.DrawFn, *, limits: bool) -> Case:
    """Two or three venues of up to three levels, with fees from -5 to 30 bps and of up to several ticks."""
    side, negative = draw(st.sampled_from(["buy", "sell"])), draw(st.booleans())
    sign, centre = (1 if side == "buy" else -1), draw(st.sampled_from([0, 3] if negative else [1000, 250_000]))
    unit, multiplier, quantity = draw(
        st.sampled_from(
            [("0.05", "1", "BTC"), ("0.00001", "1", "BTC"), ("1", "50", "contracts"), ("0.1", "0.5", "BTC")]
        )
    )
    venues = {}
    for key in draw(st.sampled_from(["AB", "ABC"])):
        steps = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=3))
        ticks = list(itertools.accumulate(step for step, _ in steps))
        levels = [(Decimal(centre + sign * tick) / 100, units) for tick, (_, units) in zip(ticks, steps, strict=True)]
        per_quantity = Decimal(draw(st.integers(-30, 50))) / 1000 * Decimal(multiplier)
        bps = Decimal(draw(st.integers(-10, 60))) / 2
        least, most = Decimal("-inf"), Decimal("inf")
        if limits:
            scale = Decimal(unit) * Decimal(multiplier)
            least = draw(st.sampled_from([least, scale / 10, scale]))
            most = draw(st.sampled_from([most, scale * 2]))
        venues[key] = Venue([level for level in levels if level[1]], per_quantity, bps, least, most)
    venues["A"].levels.insert(0, (Decimal(centre) / 100, 1))
    depth = sum(units for venue in venues.values() for _, units in venue.levels)
    instrument = {"unit": unit, "tick": "0.01", "multiplier": multiplier, "quantity": quantity, "currency": "USDT"}
    far = Decimal(centre - sign * 2) / 100
    units = draw(st.integers(1, min(depth, 6)))
    return Case(side, units, venues, instrument | {"negative_prices": negative}, far)


def single(venue: Venue) -> list[Decimal]:
    """Prices of single units, the best first."""
    return [price for price, units in venue.levels for _ in range(units)]


def splits(case: Case) -> Iterator[tuple[int, ...]]:
    depths = [len(single(venue)) for venue in case.venues.values()]
    return (split for split in itertools.product(*(range(d + 1) for d in depths)) if sum(split) == case.units)


def money(decision: Decision, cost: float) -> float:
    return cost * decision.context.instrument.value


@given(case=cases(limits=False))
@settings(max_examples=150, deadline=None)
def test_a_sweep_is_the_cheapest_split_or_takes_better_prices_first(case: Case) -> None:
    found = {}
    for protection in PROTECTIONS:
        context = case.context(protection)
        decision = price_decision(context, SweepRule().route(context))
        assert sum(decision.plan.take.values()) == context.shares == case.units
        assert decision.estimated_shares == 0
        assert decision.cost_if_filled == decision.cost_if_swept
        found[protection] = money(decision, decision.cost_if_swept)
    cheapest = min(
        sum(case.child_cost(venue, single(venue)[:n]) for venue, n in zip(case.venues.values(), split, strict=True))
        for split in splits(case)
    )
    assert found["none"] == pytest.approx(float(cheapest), rel=1e-9, abs=1e-9)
    each = sorted(
        (case.sign * price, case.cost(price) + case.fee(venue, price))
        for venue in case.venues.values()
        for price in single(venue)
    )
    protected = sum((cost for _, cost in each[: case.units]), Decimal(0))
    assert found["reg-nms"] == pytest.approx(float(protected), rel=1e-9, abs=1e-9)


def executed(case: Case, plan: Plan, protection: str) -> Decimal:
    """Cost of the children of a plan that only takes, on books that hold: the plan's, then those of the remainder."""
    left = {key: single(venue) for key, venue in case.venues.items()}
    tops = {key: (levels[0], left[key].count(levels[0])) for key, levels in left.items() if levels}
    cost, remaining = Decimal(0), case.units
    for key, units in plan.take.items():
        limit = case.sign * plan.take_limits.get(key, case.sign * math.inf)
        others = [
            float(case.sign * price) for other, (price, size) in tops.items()
            if other != key and size - plan.take.get(other, 0) >= 1
        ]  # fmt: skip
        if protection == "reg-nms" and not plan.trade_through:
            limit = min([limit, *others])
        taken = [price for price in left[key] if float(case.sign * price) <= limit + 1e-12][:units]
        left[key] = left[key][len(taken) :]
        cost += case.child_cost(case.venues[key], taken)
        remaining -= len(taken)
    where = [plan.rest.partition(":")[2]] if plan.rest.startswith("venue:") else list(left)
    offers = []
    for key in where:
        venue = case.venues[key]
        for price in left[key]:
            all_in = case.cost(price) + case.fee(venue, price)
            before = case.cost(price)
            size = -left[key].count(price)
            order = (before, all_in, size, key) if protection == "reg-nms" else (all_in, before, size, key)
            offers.append((order, key, price))
    taken_at: dict[str, list[Decimal]] = {}
    for _, key, price in sorted(offers)[:remaining]:
        taken_at.setdefault(key, []).append(price)
    assert sum(map(len, taken_at.values())) == remaining
    return sum((case.child_cost(case.venues[key], taken) for key, taken in taken_at.items()), cost)


@given(case=cases(limits=True), protection=st.sampled_from(PROTECTIONS), data=st.data())
@settings(max_examples=200, deadline=None)
def test_the_printed_cost_is_that_of_the_children(case: Case, protection: str, data: st.DataObject) -> None:
    context = case.context(protection)
    for router in ROUTERS:
        plan = router().route(context)
        if plan.rest.startswith("venue:") and len(single(case.venues["A"])) < case.units:
            continue  # shares beyond the displayed depth are estimated
        decision = price_decision(context, plan)
        assert money(decision, decision.cost_if_swept) == pytest.approx(
            float(executed(case, plan, protection)), rel=1e-9, abs=1e-9
        ), router
    depths = {key: len(single(venue)) for key, venue in case.venues.items()}
    take: dict[str, int] = {}
    for key, depth in depths.items():
        take[key] = data.draw(st.integers(0, min(depth, case.units - sum(take.values()))))
    limits = {key: float(single(case.venues[key])[n - 1]) for key, n in take.items() if n and data.draw(st.booleans())}
    plan = Plan("order", take=take, take_limits=limits, trade_through=data.draw(st.booleans()))
    decision = price_decision(context, plan.checked(context))
    assert money(decision, decision.cost_if_swept) == pytest.approx(
        float(executed(case, plan, protection)), rel=1e-9, abs=1e-9
    )


@given(case=cases(limits=True), protection=st.sampled_from(PROTECTIONS))
@settings(max_examples=60, deadline=None)
def test_contexts_survive_json_to_the_last_bit(case: Case, protection: str) -> None:
    context = case.context(protection)
    again = read_context(context.to_json())
    for name in ("bid_px", "bid_sz", "ask_px", "ask_sz", "takers", "makers", "fee_limits"):
        one, other = getattr(context.books, name), getattr(again.books, name)
        assert np.array_equal(one, other, equal_nan=True), name
    assert (again.instrument, again.shares, again.side) == (context.instrument, context.shares, context.side)
