"""What an order would have cost with another plan: small cases worked out by hand, in cents a share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_engines import CENT, START, parent_order
from riskroute.live.children import context_of
from riskroute.live.counterfactual import Counterfactual, counterfactual_plan
from riskroute.live.state.amounts import NANO
from riskroute.live.state.orders import ChildOrderOutcome, ParentOrder
from riskroute.live.state.quotes import PoolQuote
from riskroute.live.state.trading_state import _BatchMean
from riskroute.routers.plan import Plan
from riskroute.routers.rules import DarkFirstRule

ORDER = parent_order(quantity=1500)
"""Both venues show 1,000 shares at 10.02 and at 10.03, for a fee of 0.3 cents; the mid is 10.01."""


def slot(kind: str, place: str, sent: int, filled: int, money: float, **more: Any) -> ChildOrderOutcome:
    given: dict[str, Any] = {"slot": 0, "attempt": 0, "fees": 0, "sent_at": START, "last_fill": 0, "done_at": START}
    return ChildOrderOutcome(
        kind=kind, place=place, sent=sent, filled=filled, money=round(money * CENT), **given | more
    )


def cents(plan: Plan, *seen: ChildOrderOutcome) -> float:
    return Counterfactual().cost(ORDER, plan, seen).cost / CENT


def test_taking_pays_what_is_displayed() -> None:
    assert cents(Plan("one")) == pytest.approx(1500 * 1.3)
    assert cents(Plan("one", take={"A": 1500}, rest="venue:A")) == pytest.approx(1000 * 1.3 + 500 * 2.3)
    assert cents(Plan("one", take={"A": 1500}, take_limits={"A": 10.02})) == pytest.approx(1500 * 1.3)


def test_taken_shares_pay_the_slippage_of_the_observed_ones() -> None:
    paid = slot("sweep", "A", 600, 600, 600 * 1.5, fees=600 * 3 * CENT // 10)  # half a cent more than displayed
    assert cents(Plan("one"), paid) == pytest.approx(1500 * 1.8)


def test_a_partial_fill_exhausts_a_pool_and_a_full_fill_is_a_lower_bound() -> None:
    tried = Plan("one", dark={"P": 1500}, in_turn=True)
    left = slot("dark", "P", 400, 100, 0)
    assert cents(tried, left) == pytest.approx(1400 * 1.3)
    assert Counterfactual().cost(ORDER, tried, [left]).guessed == 0
    full = slot("dark", "P", 400, 400, 0)
    found = Counterfactual().cost(ORDER, tried, [full])
    assert found.guessed == 1100
    assert found.cost / CENT < 1100 * 1.3
    smaller = Plan("one", dark={"P": 300})
    assert cents(smaller, full) == pytest.approx(1200 * 1.3)


def test_untried_places_are_expected_to_fill_as_in_other_orders() -> None:
    tried, counterfactual = Plan("one", dark={"P": 1500}), Counterfactual()
    first = counterfactual.cost(ORDER, tried, ()).cost
    for _ in range(200):
        counterfactual.learn(ORDER, [slot("dark", "P", 1500, 0, 0)])
    assert counterfactual.cost(ORDER, tried, ()).cost / CENT == pytest.approx(1500 * 1.3, rel=0.02)
    for _ in range(20_000):
        counterfactual.learn(ORDER, [slot("dark", "P", 1500, 1500, 0)])
    assert counterfactual.cost(ORDER, tried, ()).cost < first
    (shown,) = counterfactual.fill_beliefs()
    assert (shown["place"], shown["kind"], shown["trials"]) == ("P", "dark", 20_200)
    assert all(size["low"] <= size["chance"] <= size["high"] for size in shown["sizes"])


def test_unfilled_resting_shares_pay_the_price_at_the_deadline() -> None:
    posted = Plan("one", limit={"A": 1500})
    rested = slot("limit", "A", 1000, 600, -600)  # at the bid, a cent below the mid
    late = slot("sweep", "B", 400, 400, 400 * 5, sent_at=START + 9 * NANO)
    assert cents(posted, rested, late) == pytest.approx(-600 + 900 * 5)
    assert cents(posted, rested) == pytest.approx(-600 + 900 * 1.3)


def standard_plan(order: ParentOrder) -> Plan:
    return counterfactual_plan(context_of(order, order.received))


def test_the_standard_rule_skips_pools_that_cost_more_than_the_sweep() -> None:
    pools = (PoolQuote(pool="P"), PoolQuote(pool="Q", fee=5 * CENT))
    assert standard_plan(parent_order(pools=pools)).dark == {"P": 100}
    assert standard_plan(parent_order(pools=())).dark == {}


def test_an_interval_covers_the_mean_of_autocorrelated_values() -> None:
    import numpy as np

    rng, covered = np.random.default_rng(5), 0
    for _ in range(200):
        noise, mean = rng.normal(size=1000), _BatchMean()
        for k in range(1, 1000):
            noise[k] += 0.5 * noise[k - 1]  # single values would promise intervals half as wide
        for value in noise:
            mean.add(float(value))
        shown = mean.view()
        covered += shown["low"] <= 0 <= shown["high"]
    assert covered >= 176  # 190 expected; 176 is four standard errors of 3.1 and a little dependence below


def test_few_values_have_no_interval() -> None:
    mean = _BatchMean()
    assert mean.view() == {"orders": 0, "mean": None, "low": None, "high": None}
    mean.add(2.0)
    assert mean.view() == {"orders": 1, "mean": 2.0, "low": None, "high": None}


@given(quantity=st.integers(1, 5000), fees=st.tuples(st.integers(-CENT, 3 * CENT), st.integers(-CENT, 3 * CENT)))
def test_the_standard_rule_is_the_first_plan_of_the_router_of_its_name(quantity: int, fees: tuple[int, int]) -> None:
    pools = PoolQuote(pool="P", fee=fees[0]), PoolQuote(pool="Q", fee=fees[1], improvement=0.5)
    order = parent_order(quantity=quantity, pools=pools)
    assert standard_plan(order) == DarkFirstRule().route(context_of(order, order.received))
