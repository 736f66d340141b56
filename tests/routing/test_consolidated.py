"""All books as one: the sweep is as cheap as dynamic and linear programming find, whatever the books."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError
from riskroute.routing.consolidated import ConsolidatedBook, cheapest_shares, displayed_cost, sweep_cost
from riskroute.routing.fees import fee_at, fee_rows

SALE = (np.array([[10.00, 9.98], [10.00, 9.99]]), np.array([[150.0, 500], [100, 300]]), fee_rows([0.003, -0.002]))
"""Two venues that an order of 300 shares to sell meets."""


def sale(**more: Any) -> ConsolidatedBook:
    return ConsolidatedBook(*SALE, mid=10.01, side="sell", **more)


@st.composite
def books(draw: st.DrawFn) -> ConsolidatedBook:
    """Two to four venues of up to three levels, some of them missing, prices in cents and fees below several ticks."""
    side = draw(st.sampled_from(["buy", "sell"]))
    venues, levels = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    prices, sizes = np.full((venues, levels), np.nan), np.zeros((venues, levels))
    for v in range(venues):
        there = draw(st.integers(0, levels))
        steps = draw(st.lists(st.integers(1, 3), min_size=there, max_size=there))
        prices[v, :there] = (1000 + (1 if side == "buy" else -1) * np.cumsum(steps)) / 100
        sizes[v, :there] = draw(st.lists(st.integers(0, 6), min_size=there, max_size=there))
    takers = np.array(draw(st.lists(st.integers(-30, 30), min_size=2 * venues, max_size=2 * venues))) / 1e4
    takers = takers.reshape(venues, 2) * [1.0, draw(st.sampled_from([0.0, 1.0]))]
    return ConsolidatedBook(prices, sizes, takers, mid=10.0, side=side)


def venue_cost(book: ConsolidatedBook, venue: int, shares: int) -> float:
    """Walk one venue's levels share by share; infinite beyond its depth."""
    cost = 0.0
    for price, size in zip(book.prices[venue], book.sizes[venue], strict=True):
        taken = min(shares, int(size))
        if taken:
            cost += taken * (book.sign * (price - book.mid) + fee_at(book.takers[venue], price))
        shares -= taken
    return cost if shares == 0 else np.inf


def cheapest(book: ConsolidatedBook, shares: int, lot: int = 1) -> float:
    """Least cost of exactly so many shares in whole lots, by dynamic programming over venues."""
    best = {0: 0.0}
    for venue in range(len(book.takers)):
        after: dict[int, float] = {}
        for had, cost in best.items():
            for more in range(0, shares - had + 1, lot):
                total = cost + venue_cost(book, venue, more)
                after[had + more] = min(after.get(had + more, np.inf), total)
        best = after
    return best.get(shares, np.inf)


def test_the_two_venues_of_the_literature() -> None:
    single, lots = sale().take(300), sale().take(300, lot=100)
    assert single.shares.tolist() == [150, 150]
    assert 300 * 10.01 - single.cost == pytest.approx(2999.35, abs=1e-9)
    assert lots.shares.tolist() == [100, 200]
    proceeds = {
        split: 300 * 10.01 - sum(venue_cost(sale(), v, n) for v, n in enumerate(split))
        for split in ((0, 300), (100, 200), (200, 100), (300, 0))
    }
    assert proceeds == pytest.approx({(0, 300): 2998.60, (100, 200): 2999.10, (200, 100): 2998.60, (300, 0): 2996.10})
    assert 300 * 10.01 - lots.cost == pytest.approx(2999.10, abs=1e-9)


@given(books(), st.integers(0, 30), st.booleans())
def test_compiled_calls_agree_with_the_book(shown: ConsolidatedBook, shares: int, protect: bool) -> None:
    levels, sign, mid = (shown.prices, shown.sizes, shown.takers), shown.sign, shown.mid
    book = ConsolidatedBook(*levels, mid=mid, side="buy" if sign > 0 else "sell", protect=protect)
    chosen = cheapest_shares(*levels, sign=sign, shares=shares, protect=protect)
    assert chosen.tolist() == book.take(shares).shares.tolist()
    inside, cost = displayed_cost(*levels, sign=sign, mid=mid, shares=shares, protect=protect)
    assert inside == min(shares, book.depth)
    assert cost == (float(book.costs(inside)) if inside else 0.0)


@given(books(), st.integers(0, 30))
def test_single_shares_cost_what_dynamic_programming_finds(book: ConsolidatedBook, shares: int) -> None:
    taken = book.take(shares)
    there = min(shares, book.depth)
    assert taken.shares.sum() == there
    assert taken.beyond == shares - there
    assert taken.cost == pytest.approx(cheapest(book, there), abs=1e-9)
    assert book.costs(there) == pytest.approx(taken.cost, abs=1e-9)
    for venue, n in enumerate(taken.shares):
        assert venue_cost(book, venue, int(n)) < np.inf
        assert np.isnan(taken.limits[venue]) == (n == 0)


@given(books(), st.integers(0, 5), st.integers(2, 4))
def test_lots_cost_what_dynamic_programming_finds(book: ConsolidatedBook, units: int, lot: int) -> None:
    best = cheapest(book, units * lot, lot)
    if best < np.inf:
        taken = book.take(units * lot, lot=lot)
        assert (taken.shares % lot == 0).all()
        assert taken.cost == pytest.approx(best, abs=1e-9)
        same = book.take(units * lot, lot=lot, minimums=np.zeros(len(book.takers), dtype=np.int64))
        assert same.cost == pytest.approx(best, abs=1e-9)


@settings(max_examples=40)
@given(books(), st.integers(1, 20))
def test_single_shares_cost_what_linear_programming_finds(book: ConsolidatedBook, shares: int) -> None:
    there = min(shares, book.depth)
    prices = np.nan_to_num(book.prices)
    costs = (book.sign * (prices - book.mid) + fee_at(book.takers[:, None], prices)).ravel()
    if there:
        found = linprog(costs, A_eq=np.ones((1, costs.size)), b_eq=[there], bounds=[(0, s) for s in book.sizes.ravel()])
        assert book.take(there).cost == pytest.approx(found.fun, abs=1e-7)


@given(books())
def test_the_cost_is_convex_and_below_that_of_every_venue_alone(book: ConsolidatedBook) -> None:
    numbers = np.arange(book.depth + 4)
    costs = book.costs(numbers)
    if book.depth:
        assert (np.diff(costs, 2) > -1e-9).all()
        for venue in range(len(book.takers)):
            alone = [venue_cost(book, venue, n) for n in range(book.depth + 1)]
            assert (costs[: book.depth + 1] <= np.array(alone) + 1e-9).all()


@given(books(), st.integers(0, 20), st.permutations(range(4)))
def test_the_names_of_venues_do_not_matter(book: ConsolidatedBook, shares: int, order: list[int]) -> None:
    order = [v for v in order if v < len(book.takers)]
    side = "buy" if book.sign > 0 else "sell"
    other = ConsolidatedBook(book.prices[order], book.sizes[order], book.takers[order], mid=book.mid, side=side)
    assert other.take(shares).cost == pytest.approx(book.take(shares).cost, abs=1e-9)


def test_a_smallest_order_size_is_kept() -> None:
    """Below 300 shares the second venue is closed, so all go to the first, or all to the second."""
    assert sale().take(200, lot=100, minimums=np.array([0, 300])).shares.tolist() == [200, 0]
    assert sale().take(300, lot=100, minimums=np.array([0, 300])).shares.tolist() == [0, 300]
    brute = min(
        sum(venue_cost(sale(), v, n) for v, n in enumerate(split))
        for split in itertools.product(range(0, 401, 100), repeat=2)
        if sum(split) == 400 and (split[1] == 0 or split[1] >= 300)
    )
    assert sale().take(400, lot=100, minimums=np.array([0, 300])).cost == pytest.approx(brute)


def test_shares_that_no_venue_accepts_stay_unassigned() -> None:
    taken = sale().take(300, lot=100, minimums=np.array([1000, 1000]))
    assert taken.shares.tolist() == [0, 0]
    assert taken.beyond == 300


def test_a_remainder_goes_where_it_is_cheapest() -> None:
    assert sale().take(330, lot=100).shares.tolist() == [130, 200]


def test_equal_prices_go_to_the_better_fee_then_to_the_larger_size_then_to_the_first() -> None:
    prices = np.full((3, 1), 10.0)
    sizes = np.array([[100.0], [200], [200]])
    by_fee = ConsolidatedBook(prices, sizes, fee_rows([0.0, 0.0, -0.001]), mid=9.99, side="buy")
    assert by_fee.take(100).shares.tolist() == [0, 0, 100]
    by_size = ConsolidatedBook(prices, sizes, np.zeros((3, 2)), mid=9.99, side="buy")
    assert by_size.take(100).shares.tolist() == [0, 100, 0]


def test_under_order_protection_a_better_displayed_price_goes_first_whatever_the_fees() -> None:
    """A fee of two cents is more than the cent between the prices."""
    prices, sizes, takers = np.array([[10.00], [10.01]]), np.full((2, 1), 100.0), fee_rows([0.02, 0.0])
    protected = ConsolidatedBook(prices, sizes, takers, mid=9.99, side="buy", protect=True)
    cheaper = ConsolidatedBook(prices, sizes, takers, mid=9.99, side="buy")
    assert protected.take(100).shares.tolist() == [100, 0]
    assert cheaper.take(100).shares.tolist() == [0, 100]
    assert cheaper.take(100).cost < protected.take(100).cost


def test_beyond_the_display_prices_go_on_to_worsen() -> None:
    """Two shares a dollar off; the third and fourth trade 1 to 2 dollars off, and pay the fee."""
    book = ConsolidatedBook(np.array([[11.0]]), np.array([[2.0]]), fee_rows([0.1]), mid=10.0, side="buy")
    assert book.costs([1, 2, 4]).tolist() == pytest.approx([1.1, 2.2, 5.0 + 0.4])


@pytest.mark.parametrize("depth", [1.0, 20.0])
def test_estimated_prices_of_a_sale_stay_above_zero_and_fall(depth: float) -> None:
    """Extrapolated in a straight line, the last shares of a sale into a thin book would cost more than their price."""
    book = ConsolidatedBook(np.array([[10.0, 6.0]]), np.full((1, 2), depth), np.zeros((1, 2)), mid=10.0, side="sell")
    prices = 10.0 - np.diff(book.costs(np.arange(2 * depth, 5000)))
    assert prices[0] < 6.0
    assert (np.diff(prices) < 0).all()
    assert prices[-1] > 0


def test_a_sale_mirrors_a_purchase_in_relative_prices() -> None:
    """A purchase pays 1 + r m / n times the mid for its share m, a sale gets the mid divided by that."""
    share = np.arange(10, 40)
    for side, prices in (("buy", 10.0 * (1 + 0.25 * share / 10)), ("sell", 10.0 / (1 + 0.25 * share / 10))):
        last = 12.5 if side == "buy" else 8.0
        book = ConsolidatedBook(np.array([[last]]), np.array([[10.0]]), np.zeros((1, 2)), mid=10.0, side=side)
        estimated = 10.0 + book.sign * np.diff(book.costs(np.arange(10, 41)))
        assert estimated == pytest.approx(prices, abs=0.15)  # of the whole share m to m + 1, not of its beginning


def test_fees_are_charged_on_estimated_prices() -> None:
    """Shares 3 and 4 trade at 11.5 on average: 1 % of that."""
    book = ConsolidatedBook(np.array([[11.0]]), np.array([[2.0]]), np.array([[0.0, 0.01]]), mid=10.0, side="buy")
    assert book.beyond(2) == pytest.approx((11.5, 0.115))
    assert book.costs([4]).tolist() == pytest.approx([2 * 1.11 + 2 * 1.615])


def test_negative_prices_have_fees_and_estimates() -> None:
    """Bids at -1 and below, a mid of 0: a sale costs its distance, and 10 % of the magnitude of the price."""
    book = ConsolidatedBook(
        np.array([[-1.0, -2.0]]), np.array([[1.0, 1.0]]), np.array([[0.0, 0.1]]), mid=0.0, side="sell"
    )
    assert book.costs([1, 2, 3]).tolist() == pytest.approx([1.1, 3.3, 3.3 + 2.5 * 1.1])


def test_estimates_never_improve_on_the_last_level_of_a_crossed_book() -> None:
    book = ConsolidatedBook(np.array([[9.5]]), np.array([[10.0]]), fee_rows([0.01]), mid=10.0, side="buy")
    assert book.beyond(100) == (9.5, 0.01)
    assert book.beyond_cost(100) == pytest.approx(100 * (9.5 - 10.0 + 0.01))


@pytest.mark.parametrize("lot", [1, 5])
def test_lots_follow_order_protection(lot: int) -> None:
    prices, sizes, takers = np.array([[10.00], [10.01]]), np.full((2, 1), 10.0), fee_rows([0.02, 0.0])
    for protect, shares in ((True, [10, 0]), (False, [0, 10])):
        book = ConsolidatedBook(prices, sizes, takers, mid=9.99, side="buy", protect=protect)
        assert book.take(10, lot=lot).shares.tolist() == shares


def test_the_cost_of_empty_books_is_unknown() -> None:
    book = ConsolidatedBook(np.full((2, 1), np.nan), np.zeros((2, 1)), np.zeros((2, 2)), mid=10.0, side="buy")
    costs: Floats = book.costs([0, 1])
    assert costs[0] == 0
    assert np.isnan(costs[1])
    assert book.take(5).beyond == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"side": "bye"}, r"side must be one of buy, sell, was 'bye' \(did you mean buy\?\)"),
        ({"mid": np.nan}, "mid must be a finite number, was nan"),
        ({"prices": np.array([[10.0, 11.0], [10.0, 9.0]])}, r"in order, best level first, was \[10.0, 11.0\]"),
        ({"sizes": np.array([[-1.0, 1], [1, 1]])}, "sizes must be at least 0, one is negative"),
        ({"takers": np.zeros(2)}, r"takers must have shape \(2, 2\), was \(2,\)"),
        ({"takers": np.ones((2, 2))}, r"takers must have fractions of the price between -1 and 1, had \[1.0, 1.0\]"),
    ],
)
def test_invalid_books_are_refused(change: dict[str, Any], message: str) -> None:
    named: dict[str, Any] = dict(zip(("prices", "sizes", "takers"), SALE, strict=True))
    with pytest.raises(InputError, match=message):
        ConsolidatedBook(**named | {"mid": 10.01, "side": "sell"} | change)


@pytest.mark.parametrize("shares", [-1, 1.5])
def test_shares_must_be_whole(shares: Any) -> None:
    with pytest.raises(InputError, match="shares must be a non-negative integer"):
        sale().take(shares)


@given(books(), st.lists(st.integers(0, 60), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_costs_are_those_of_levels_taken_one_after_the_other(book: ConsolidatedBook, shares: list[int]) -> None:
    """The plain version: all levels by price after fees, cumulated and interpolated."""
    there = np.nan_to_num(book.sizes) > 0
    levels = sorted(
        (book.sign * book.prices[v, k] + fee_at(book.takers[v], book.prices[v, k]), book.sizes[v, k])
        for v, k in np.argwhere(there).tolist()
    )
    if not levels:
        assert np.isnan(book.costs(1))
        return
    sizes = np.array([size for _, size in levels])
    each = np.array([price - book.sign * book.mid for price, _ in levels])
    ends, totals = np.append(0.0, np.cumsum(sizes)), np.append(0.0, np.cumsum(sizes * each))
    wanted = np.minimum(np.array(shares, dtype=float), ends[-1]).reshape(1, -1)
    np.testing.assert_allclose(book.costs(wanted), np.interp(wanted, ends, totals), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lot", [1, 10])
def test_ties_are_those_of_decimals(lot: int) -> None:
    """9.50 - 0.0125 and 9.51 - 0.0225 are equal, but not in binary: the better price is taken."""
    prices, takers = np.array([[9.51], [9.50]]), fee_rows([-0.0225, -0.0125])
    assert prices[0, 0] + takers[0, 0] < prices[1, 0] + takers[1, 0]
    book = ConsolidatedBook(prices, np.full((2, 1), 50.0), takers, mid=9.0, side="buy")
    assert book.take(50, lot=lot).shares.tolist() == [0, 50]


def test_the_estimate_beyond_the_depth_and_a_sweep_by_hand() -> None:
    book = ConsolidatedBook(np.array([[9.0]]), np.array([[10.0]]), np.zeros((1, 2)), mid=10.0, side="sell")
    assert 10 < book.beyond_cost(10) < 100 == 10 * book.mid  # worse than the last level, but the price stays above zero
    prices, sizes = np.array([[10.00, 9.98], [10.00, 9.99]]), np.array([[150.0, 500], [100, 300]])
    assert round(sweep_cost(prices, sizes, fee_rows([0.003, -0.002]), sign=-1, mid=10.01, shares=250), 9) == 2.75
