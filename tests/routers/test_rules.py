"""Routing rules on books whose plans were computed by hand."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import riskroute as rr
from riskroute.core.errors import InputError, StateError
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import read_context
from riskroute.routers.public_data import PublicData
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.rules import (
    DarkFirstPostRule,
    DarkFirstRule,
    DelayRule,
    HiddenRule,
    NbboRule,
    PrimaryRule,
    RawSweepRule,
    RestEvenRule,
    SprayRule,
    SweepRule,
)
from riskroute.simulation.exchange import Exchange
from riskroute.simulation.execute_plan import execute_plan
from router_cases import TWO_VENUES, random_context, sale


def test_the_sweep_takes_fees_into_account() -> None:
    """At 10.00 both venues bid; B pays for taking, so it comes first, and its next level beats A's."""
    assert SweepRule().route(sale(100)).take == {"B": 100}
    plan = SweepRule().route(sale(300))
    assert plan.take == {"A": 150, "B": 150}
    assert plan.take_limits == {"A": 10.00, "B": 9.99}
    assert SweepRule().route(sale(300, lot=100)).take == {"A": 100, "B": 200}


def test_without_fees_the_larger_size_comes_first() -> None:
    assert RawSweepRule().route(sale(100)).take == {"A": 100}


def test_discretion_worsens_the_limits_by_ticks() -> None:
    assert SweepRule(discretion=2).route(sale(100)).take_limits == pytest.approx({"B": 9.98})
    bought = read_context(TWO_VENUES, side="buy", shares=100)
    assert SweepRule(discretion=2).route(bought).take_limits == pytest.approx({"B": 10.04})


def test_more_than_the_display_is_taken_as_far_as_it_goes() -> None:
    assert sum(SweepRule().route(sale(5000)).take.values()) == 1050


def test_primary_sends_all_to_one_venue() -> None:
    plan = PrimaryRule("B").route(sale(300))
    assert (plan.take, plan.rest) == ({"B": 300}, "venue:B")
    with pytest.raises(InputError, match="venue must be one of A, B, was 'C'"):
        PrimaryRule("C").route(sale())


def test_spray_is_pro_rata_to_displayed_depth() -> None:
    """650 shares are bid at A, 400 at B."""
    assert SprayRule().route(sale(1050)).take == {"A": 650, "B": 400}
    assert SprayRule().route(sale(250, lot=100)).take == {"A": 150, "B": 100}


def test_nbbo_takes_the_best_price_alone() -> None:
    plan = NbboRule().route(sale(1000))
    assert (plan.take, plan.take_limits, plan.rest) == ({"A": 150, "B": 100}, {"A": 10.0, "B": 10.0}, "touch")


def test_resting_is_even_and_an_order_without_time_tries_instead() -> None:
    assert RestEvenRule().route(sale(300, horizon=60)).dark_rest == {"P": 150, "Q": 150}
    plan = RestEvenRule().route(sale(300))
    assert (plan.dark, plan.dark_rest) == ({"P": 150, "Q": 150}, {})


def test_a_fill_at_the_mid_saves_what_the_sweep_costs() -> None:
    """300 shares cost 3.65 dollars to sweep; a fill in a pool costs its fee."""
    assert sale(300).pool_savings == pytest.approx({"P": 3.65 / 300 - 0.001, "Q": 3.65 / 300 - 0.002})


def dark_child(number: int, pool: str, filled: int) -> ChildReport:
    return ChildReport(number, "dark", pool, 300, filled, 10.01 if filled else 0.0, 0.0, 0, 1)


def test_pools_are_ranked_by_what_they_saved() -> None:
    router = DarkFirstRule()
    assert router.route(sale(order="a")).dark == {"P": 300, "Q": 300}
    router.learn(Report("a", (dark_child(0, "P", 0), dark_child(1, "Q", 300)), complete=True, profit=0.0))
    assert router.scores == pytest.approx({"P": 0.95, "Q": 0.95 + 0.05 * (3.65 / 300 - 0.002)})
    assert list(router.route(sale(order="b")).dark) == ["Q", "P"]
    assert router.expected.keys() == {"b"}


def test_parallel_pools_share_by_score() -> None:
    router = DarkFirstRule(mode="parallel")
    router.scores = {"P": 0.03, "Q": 0.01}
    plan = router.route(sale(300))
    assert (plan.dark, plan.in_turn) == ({"P": 225, "Q": 75}, False)


def test_a_pool_gets_no_more_than_its_cap() -> None:
    assert DarkFirstRule(cap=100).route(sale(300)).dark == {"P": 100, "Q": 100}


def test_pools_that_save_nothing_are_left_out() -> None:
    books: dict[str, Any] = TWO_VENUES | {"pools": {"P": {"fee": 0.02}, "Q": {}}}
    assert DarkFirstRule().route(read_context(books, side="sell", shares=300)).dark == {"Q": 300}


def test_returned_shares_are_posted_at_the_quickest_queue() -> None:
    """Both venues offer at 10.02, A 100 shares and B 300."""
    assert sale().quickest_venue == "A"
    assert sale(features={"outflow A": 1.0, "outflow B": 5.0}).quickest_venue == "B"
    assert DarkFirstPostRule().route(sale(300, horizon=60)).rest == "post:A"
    assert DarkFirstPostRule().route(sale(300)).rest == "sweep"


def test_a_restored_router_ranks_alike() -> None:
    router = DarkFirstRule()
    router.route(sale(order="a"))
    router.learn(Report("a", (dark_child(0, "P", 0), dark_child(1, "Q", 300))))
    again = DarkFirstRule.restore(router.state())
    assert again.route(sale(order="b")) == router.route(sale(order="b"))
    with pytest.raises(StateError, match=r"scores: .*must be a number"):
        DarkFirstRule.restore(router.state() | {"memory": {"scores": {"P": "high"}, "expected": {}}})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DarkFirstRule(mode="random"), "mode must be one of sequential, parallel, was 'random'"),
        (lambda: DarkFirstRule(memory_weight=1.0), "memory_weight must be a number of at least 0 and below 1, was 1"),
        (lambda: DarkFirstRule(cap=0), "cap must be a positive integer, was 0"),
        (lambda: SweepRule(discretion=-1), "discretion must be a non-negative integer, was -1"),
    ],
)
def test_invalid_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_smallest_orders_of_venues_are_kept() -> None:
    books = {
        "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100]], "taker": 0.003},
        "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 100]], "taker": -0.002},
    }
    context = read_context({"venues": books}, side="sell", shares=300)
    assert SweepRule().route(context).take == {"A": 150, "B": 150}
    kept = SweepRule(minimums={"A": 200}).route(context).take
    assert kept == {"B": 300}  # 200 at A would be 50 at 9.98; all at B costs less
    with pytest.raises(InputError, match="minimum of 'A' must be a non-negative integer, was -1"):
        SweepRule(minimums={"A": -1})


def test_a_rebate_is_worth_some_delay() -> None:
    """At 10.02 A offers 100 shares without a fee, B 300 for 0.1 cents; B is 2.5 times as quick."""
    features = {"outflow A": 2.0, "outflow B": 15.0}  # 50 and 20 seconds
    order = sale(features=features, horizon=60)
    assert DelayRule(gamma=0.001 / 30 * 0.99).decide(order).rest == "post:A"
    assert DelayRule(gamma=0.001 / 30 * 1.01).decide(order).rest == "post:B"
    assert DelayRule(gamma=0.0).route(sale(300, horizon=60)).rest == "post:A"


def test_a_rebate_in_basis_points_is_worth_its_share_of_the_price() -> None:
    """1 bp of 10.00 is 0.1 cents: more than 0.09 cents a share, and less than 0.11."""
    for rebate, venue in ((0.0009, "A"), (0.0011, "B")):
        books = {
            "A": {"bids": [[10.00, 100]], "asks": [[10.02, 9]], "maker": "-1 bps"},
            "B": {"bids": [[10.00, 100]], "maker": f"-{rebate} per share"},
        }
        order = rr.routers.read_context({"venues": books}, side="buy", shares=10, horizon=60)
        assert DelayRule(gamma=0.0).decide(order).rest == f"post:{venue}"


def test_a_venue_behind_the_best_price_is_not_joined() -> None:
    books = {"A": {"bids": [[9.99, 1]], "asks": [[10.02, 9]], "maker": -0.003}, "B": {"bids": [[10.0, 900]]}}
    order = rr.routers.read_context({"venues": books}, side="buy", shares=10, horizon=60)
    assert DelayRule(gamma=1e-6).decide(order).rest == "post:B"


def test_a_high_price_of_time_is_the_shortest_delay() -> None:
    rng = np.random.default_rng(3)
    for number in range(100):
        features = {f"outflow V{k}": float(rng.integers(1, 50)) for k in range(6)}
        context = dataclasses.replace(random_context(rng, number, features=features), horizon=60.0)
        venue = context.quickest_venue
        assert not venue or DelayRule(gamma=1000.0).decide(context).rest == f"post:{venue}"


def test_without_time_it_sweeps() -> None:
    assert DelayRule().route(sale(300)) == SweepRule().route(sale(300))


def test_delay_passes_the_router_checks() -> None:
    rr.check_router(DelayRule())
    with pytest.raises(InputError, match="gamma must be a number of at least 0 and of at most 1000, was -1"):
        DelayRule(gamma=-1.0)


def trades_at_a(**by_side: list[tuple[int, int]]) -> PublicData:
    return PublicData(sale(), {}, trades={"A": by_side})


def test_the_reserve_recursion() -> None:
    router, found = HiddenRule(delta=0.9), []
    for trade in ((150, 100), (80, 100), (300, 100)):
        router.on_public_data(trades_at_a(bid=[trade]))
        found.append(router.reserves["A"]["bid"])
    assert found == pytest.approx([50, 45, 240.5])


def test_the_reserve_recursion_is_a_discounted_sum() -> None:
    """Worked out the other way round, and its mean for independent excesses: mean excess over 1 - delta."""
    rng = np.random.default_rng(0)
    sizes, shown = rng.integers(1, 500, 2000), rng.integers(1, 500, 2000)
    router, excess = HiddenRule(delta=0.98), np.maximum(sizes - shown, 0)
    reached = []
    for size, displayed in zip(sizes.tolist(), shown.tolist(), strict=True):
        router.on_public_data(trades_at_a(ask=[(size, displayed)]))
        reached.append(router.reserves["A"]["ask"])
    assert reached[-1] == pytest.approx(float(excess @ 0.98 ** np.arange(1999, -1, -1)))
    assert np.mean(reached[500:]) == pytest.approx(excess.mean() / 0.02, rel=0.1)


def test_sides_and_venues_are_apart() -> None:
    router = HiddenRule()
    router.on_public_data(trades_at_a(bid=[(300, 100)]))
    assert SweepRule().route(sale(300, order="a")).take == {"A": 150, "B": 150}
    assert router.route(sale(300, order="a")).take == {"A": 200, "B": 100}
    bought = read_context(sale().to_json(), side="buy", shares=100, order="b")
    assert router.route(bought) == SweepRule().route(bought)


def test_counting_on_none_is_the_sweep() -> None:
    rng, router, sweep = np.random.default_rng(1), HiddenRule(eta=0.0), SweepRule()
    router.on_public_data(
        PublicData(sale(), {}, trades={f"V{v}": {"bid": [(900, 1)], "ask": [(900, 1)]} for v in range(6)})
    )
    for number in range(60):
        context = random_context(rng, number)
        assert router.route(context) == sweep.route(context)


def reserve_at_a(reserve: float) -> DayBooks:
    """A shows 100 shares and holds a reserve, B shows 100 there and 300 a cent worse."""
    prices, sizes = np.array([[10.0, 9.98], [10.0, 9.99]]), np.array([[100.0 + reserve, 900], [100, 300]])
    one = np.full((2, 2), np.nan), np.zeros((2, 2))
    one[0][:, 0], one[1][:, 0] = 10.02, 500.0
    stamps = np.zeros(2, dtype=np.int64)
    return DayBooks(("A", "B"), np.arange(3), stamps, stamps, prices, sizes, one[0], one[1])


def test_where_a_reserve_stands_it_sends_more_and_pays_less() -> None:
    """300 shares always stand behind A's 100: it sends all 400 there, and the sweep goes a cent down at B.

    Nothing displayed forbids the latter, so children may trade through what is hidden.
    """
    fees = np.zeros((2, 2)), np.zeros((2, 2))
    shown, real = (Exchange(reserve_at_a(reserve), *fees) for reserve in (0.0, 300.0))
    router, sweep, costs = HiddenRule(), SweepRule(), {"hidden+sweep": 0.0, "sweep": 0.0}
    for number in range(20):
        router.on_public_data(trades_at_a(bid=[(400, 100)]))
        order = rr.routers.Context(f"o{number}", "sell", 400, shown.venue_books(1), time=1)
        for one in (router, sweep):
            plan = dataclasses.replace(one.route(order), trade_through=True)
            costs[one.name] += execute_plan(real, 0, order, plan.checked(order)).cost / 20
            assert (plan.take["A"] > 100) == (one is router)
    assert costs["hidden+sweep"] == pytest.approx(400 * 0.01)
    assert costs["sweep"] == pytest.approx(200 * 0.01 + 200 * 0.02)


def test_shares_that_are_not_there_come_back_and_are_swept() -> None:
    exchange = Exchange(reserve_at_a(0.0), np.zeros((2, 2)), np.zeros((2, 2)))
    router = HiddenRule()
    router.on_public_data(trades_at_a(bid=[(400, 100)]))
    order = rr.routers.Context("o", "sell", 400, exchange.venue_books(1), time=1)
    done = execute_plan(exchange, 0, order, router.route(order))
    assert [(child.kind, child.place, child.sent, child.filled) for child in done.children] == [
        ("take", "A", 400, 100),
        ("sweep", "B", 300, 300),
    ]


def test_hidden_passes_the_router_checks() -> None:
    rr.check_router(HiddenRule())
    router = HiddenRule()
    router.on_public_data(trades_at_a(bid=[(400, 100)]))
    again = HiddenRule.restore(json.loads(json.dumps(router.state())))
    again.on_public_data(trades_at_a(bid=[(200, 100)]))
    router.on_public_data(trades_at_a(bid=[(200, 100)]))
    assert again.route(sale()) == router.route(sale())
    broken = dataclasses.replace(router).state() | {"memory": {"reserves": {"A": {"left": 1.0}}}}
    with pytest.raises(StateError, match=r"reserves: .*\^\(bid\|ask\)\$"):
        HiddenRule.restore(broken)
    with pytest.raises(InputError, match="delta must be a number above 0 and below 1, was 1"):
        HiddenRule(delta=1.0)
    with pytest.raises(InputError, match="eta must be a number of at least 0"):
        HiddenRule(eta=-0.1)


def test_a_pool_saves_half_a_spread_less_its_fee() -> None:
    books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {"fee": 0.001}}}
    assert read_context(books, side="sell", shares=300).pool_savings == {"P": pytest.approx(0.009)}
