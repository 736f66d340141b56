"""Routers that need no learning: what they do at books worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from riskroute.core.errors import InputError, StateError
from riskroute.routers.context import read_context
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.rules import (
    OPTIMISTIC,
    DarkFirst,
    DarkFirstPost,
    Nbbo,
    Primary,
    RawSweep,
    RestEven,
    Spray,
    Sweep,
    pool_savings,
    quickest_venue,
)
from router_books import TWO_VENUES, sale


def test_the_sweep_takes_fees_into_account() -> None:
    """At 10.00 both venues bid; B pays for taking, so it comes first, and its next level beats A's."""
    assert Sweep().route(sale(100)).take == {"B": 100}
    plan = Sweep().route(sale(300))
    assert plan.take == {"A": 150, "B": 150}
    assert plan.take_limits == {"A": 10.00, "B": 9.99}
    assert Sweep().route(sale(300, lot=100)).take == {"A": 100, "B": 200}


def test_without_fees_the_larger_size_comes_first() -> None:
    assert RawSweep().route(sale(100)).take == {"A": 100}


def test_discretion_worsens_the_limits_by_ticks() -> None:
    assert Sweep(discretion=2).route(sale(100)).take_limits == pytest.approx({"B": 9.98})
    bought = read_context(TWO_VENUES, side="buy", shares=100)
    assert Sweep(discretion=2).route(bought).take_limits == pytest.approx({"B": 10.04})


def test_more_than_the_display_is_taken_as_far_as_it_goes() -> None:
    assert sum(Sweep().route(sale(5000)).take.values()) == 1050


def test_primary_sends_all_to_one_venue() -> None:
    plan = Primary("B").route(sale(300))
    assert (plan.take, plan.rest) == ({"B": 300}, "venue:B")
    with pytest.raises(InputError, match="venue must be one of A, B, was 'C'"):
        Primary("C").route(sale())


def test_spray_is_pro_rata_to_displayed_depth() -> None:
    """650 shares are bid at A, 400 at B."""
    assert Spray().route(sale(1050)).take == {"A": 650, "B": 400}
    assert Spray().route(sale(250, lot=100)).take == {"A": 150, "B": 100}


def test_nbbo_takes_the_best_price_alone() -> None:
    plan = Nbbo().route(sale(1000))
    assert (plan.take, plan.take_limits, plan.rest) == ({"A": 150, "B": 100}, {"A": 10.0, "B": 10.0}, "touch")


def test_resting_is_even_and_an_order_without_time_tries_instead() -> None:
    assert RestEven().route(sale(300, horizon=60)).dark_rest == {"P": 150, "Q": 150}
    plan = RestEven().route(sale(300))
    assert (plan.dark, plan.dark_rest) == ({"P": 150, "Q": 150}, {})


def test_a_fill_at_the_mid_saves_what_the_sweep_costs() -> None:
    """300 shares cost 3.65 dollars to sweep; a fill in a pool costs its fee."""
    assert pool_savings(sale(300)) == pytest.approx({"P": 3.65 / 300 - 0.001, "Q": 3.65 / 300 - 0.002})


def dark_child(number: int, pool: str, filled: int) -> ChildReport:
    return ChildReport(number, "dark", pool, 300, filled, 10.01 if filled else 0.0, 0.0, 0, 1)


def test_pools_are_ranked_by_what_they_saved() -> None:
    router = DarkFirst()
    assert router.route(sale(order="a")).dark == {"P": 300, "Q": 300}
    router.learn(Report("a", (dark_child(0, "P", 0), dark_child(1, "Q", 300)), complete=True, profit=0.0))
    assert router.scores == pytest.approx(
        {"P": 0.95 * OPTIMISTIC, "Q": 0.95 * OPTIMISTIC + 0.05 * (3.65 / 300 - 0.002)}
    )
    assert list(router.route(sale(order="b")).dark) == ["Q", "P"]
    assert router.expected.keys() == {"b"}


def test_parallel_pools_share_by_score() -> None:
    router = DarkFirst(mode="parallel")
    router.scores = {"P": 0.03, "Q": 0.01}
    plan = router.route(sale(300))
    assert (plan.dark, plan.in_turn) == ({"P": 225, "Q": 75}, False)


def test_a_pool_gets_no_more_than_its_cap() -> None:
    assert DarkFirst(cap=100).route(sale(300)).dark == {"P": 100, "Q": 100}


def test_pools_that_save_nothing_are_left_out() -> None:
    books: dict[str, Any] = TWO_VENUES | {"pools": {"P": {"fee": 0.02}, "Q": {}}}
    assert DarkFirst().route(read_context(books, side="sell", shares=300)).dark == {"Q": 300}


def test_what_comes_back_is_posted_where_the_queue_is_shortest() -> None:
    """Both venues offer at 10.02, A 100 shares and B 300."""
    assert quickest_venue(sale()) == "A"
    assert quickest_venue(sale(features={"outflow A": 1.0, "outflow B": 5.0})) == "B"
    assert DarkFirstPost().route(sale(300, horizon=60)).rest == "post:A"
    assert DarkFirstPost().route(sale(300)).rest == "sweep"


def test_a_restored_router_ranks_alike() -> None:
    router = DarkFirst()
    router.route(sale(order="a"))
    router.learn(Report("a", (dark_child(0, "P", 0), dark_child(1, "Q", 300))))
    again = DarkFirst.restore(router.state())
    assert again.route(sale(order="b")) == router.route(sale(order="b"))
    with pytest.raises(StateError, match="score must be a finite number, was 'high'"):
        DarkFirst.restore(router.state() | {"memory": {"scores": {"P": "high"}, "expected": {}}})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DarkFirst(mode="random"), "mode must be one of sequential, parallel, was 'random'"),
        (lambda: DarkFirst(memory_weight=1.0), "memory_weight must be a number of at least 0 and below 1, was 1"),
        (lambda: DarkFirst(cap=0), "cap must be a positive integer, was 0"),
        (lambda: Sweep(discretion=-1), "discretion must be a non-negative integer, was -1"),
    ],
)
def test_parameters_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_smallest_orders_of_venues_are_kept() -> None:
    books = {
        "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100]], "taker": 0.003},
        "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 100]], "taker": -0.002},
    }
    context = read_context({"venues": books}, side="sell", shares=300)
    assert Sweep().route(context).take == {"A": 150, "B": 150}
    kept = Sweep(minimums={"A": 200}).route(context).take
    assert kept == {"B": 300}  # 200 at A would be 50 at 9.98; all at B costs less
    with pytest.raises(InputError, match="minimum of 'A' must be a non-negative integer, was -1"):
        Sweep(minimums={"A": -1})
