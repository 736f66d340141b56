"""Costs: walking a book against a walk share by share, and the paper's relative profit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.market.order_profits import (
    check_profit_quantities,
    extrapolated_market_profits,
    market_order_value,
    market_profits,
)
from riskroute.market.sampling import SampledBooks

Level = tuple[float, int]

cents = st.integers(900, 1100).map(lambda value: value / 100)
levels = st.lists(st.tuples(st.one_of(cents, st.just(math.nan)), st.integers(0, 6)), min_size=1, max_size=5)


def naive_walk(book: list[Level], quantity: int) -> float:
    """Sell one share after the other to the best level that has any left; NaN if one finds no buyer."""
    queue = [price for price, size in book if not math.isnan(price) for _ in range(size)]
    if len(queue) < quantity:
        return math.nan
    money = 0.0
    for price in queue[:quantity]:
        money += price
    return money


def arrays(books: list[list[Level]]) -> tuple[np.ndarray, np.ndarray]:
    """Prices and sizes ``(B, levels)``; shorter books end in levels that are not there."""
    depth = max(map(len, books))
    whole = [book + [(math.nan, 0)] * (depth - len(book)) for book in books]
    return np.array([[price for price, _ in b] for b in whole]), np.array(
        [[float(size) for _, size in b] for b in whole]
    )


def two_sided(bids: list[list[Level]], asks: list[list[Level]]) -> SampledBooks:
    return SampledBooks(np.arange(len(bids)), *arrays(bids), *arrays(asks))


@given(books=st.lists(levels, min_size=1, max_size=4), wanted=st.sets(st.integers(1, 35), min_size=1, max_size=6))
def test_walking_is_selling_share_by_share(books: list[list[Level]], wanted: set[int]) -> None:
    quantities = np.array(sorted(wanted))
    expected = [[naive_walk(book, quantity) for quantity in quantities] for book in books]
    np.testing.assert_allclose(market_order_value(*arrays(books), quantities), expected, rtol=1e-12)


@given(data=st.data(), books=st.lists(levels, min_size=1, max_size=4))
def test_every_book_may_have_quantities_of_its_own(data: st.DataObject, books: list[list[Level]]) -> None:
    wanted = [data.draw(st.lists(st.integers(0, 20), min_size=3, max_size=3)) for _ in books]
    expected = [[naive_walk(book, quantity) for quantity in row] for book, row in zip(books, wanted, strict=True)]
    np.testing.assert_allclose(market_order_value(*arrays(books), np.array(wanted)), expected, rtol=1e-12)


def test_a_short_book_gives_nothing_rather_than_a_part() -> None:
    money = market_order_value(np.array([[10.0, 9.0]]), np.array([[3.0, 2.0]]), np.array([3, 5, 6, 100]))
    assert money[0, :2].tolist() == [30.0, 48.0]
    assert np.isnan(money[0, 2:]).all()


def test_a_size_without_a_price_does_not_count() -> None:
    money = market_order_value(np.array([[10.0, np.nan, 9.0]]), np.array([[1.0, 50.0, 1.0]]), np.array([2, 3]))
    assert money[0, 0] == 19.0
    assert np.isnan(money[0, 1])


def test_a_book_without_levels_is_short() -> None:
    assert np.isnan(market_order_value(np.full((2, 3), np.nan), np.zeros((2, 3)), np.array([1]))).all()


def test_relative_profit_is_the_papers_equation() -> None:
    """Seven shares: 3 at 99.98, 4 of the 6 at 99.95, against a middle of 100.00; by hand -0.06 - 0.20."""
    books = two_sided([[(99.98, 3), (99.95, 6)]], [[(100.02, 4), (100.09, 5)]])
    by_hand = 3 * 99.98 + 4 * 99.95 - 100.00 * 7
    assert by_hand == pytest.approx(-0.26)
    assert market_profits(books, np.array([7]))[0, 0] == pytest.approx(by_hand, abs=1e-9)
    # buying: 4 at 100.02, 3 at 100.09
    assert market_profits(books, np.array([7]), "buy")[0, 0] == pytest.approx(-(4 * 0.02 + 3 * 0.09), abs=1e-9)


def test_fees_are_charged_on_what_is_traded() -> None:
    """Seven shares trade for 699.74 or 700.35; 10 bps of that, and a tenth of a cent per share."""
    books = two_sided([[(99.98, 3), (99.95, 6)]], [[(100.02, 4), (100.09, 5)]])
    for side, profit, value in (("sell", -0.26, 699.74), ("buy", -0.35, 700.35)):
        for found in (market_profits, extrapolated_market_profits):
            paid = found(books, np.array([7]), side, (0.001, 0.001))[0, 0]
            assert paid == pytest.approx(profit - 0.007 - 0.001 * value, abs=1e-8)
    # nine bids, the last 0.05 below the mid: share m trades 0.05 m / 9 below it
    more = extrapolated_market_profits(books, np.array([12]), "sell", (0.0, 0.001))[0, 0]
    known = 3 * 99.98 + 6 * 99.95 - 900
    further = 0.05 * (12**2 - 9**2) / (2 * 9)
    assert more == pytest.approx(known - further - 0.001 * (3 * 99.98 + 6 * 99.95 + 300 - further), abs=1e-8)


def test_each_side_is_short_on_its_own() -> None:
    books = two_sided([[(99.0, 1)]], [[(101.0, 9)]])
    assert np.isnan(market_profits(books, np.array([2]), "sell")).all()
    assert market_profits(books, np.array([2]), "buy").tolist() == [[-2.0]]


def test_a_one_sided_book_has_no_middle_and_no_profit() -> None:
    books = two_sided([[(99.0, 9)], [(math.nan, 0)]], [[(math.nan, 0)], [(101.0, 9)]])
    for side in ("sell", "buy"):
        assert np.isnan(market_profits(books, np.array([1, 2]), side)).all()


@st.composite
def sorted_books(draw: st.DrawFn) -> SampledBooks:
    """Books whose bids fall from 100 and whose asks rise from 101."""
    count = draw(st.integers(1, 3))
    sides = []
    for direction in (-1, 1):
        books = []
        for _ in range(count):
            steps = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=4))
            ends = np.cumsum([step for step, _ in steps])
            start = 100 if direction < 0 else 101
            books.append([(start + direction * float(e) / 8, size) for e, (_, size) in zip(ends, steps, strict=True)])
        sides.append(books)
    return two_sided(*sides)


@given(books=sorted_books())
def test_buying_is_selling_in_the_mirror(books: SampledBooks) -> None:
    """Swap the sides and negate the prices: what was an ask is a bid, and profits are the same."""
    mirrored = SampledBooks(books.stamps, -books.ask_px, books.ask_sz, -books.bid_px, books.bid_sz)
    quantities = np.arange(1, 25)
    buying, selling = market_profits(books, quantities, "buy"), market_profits(books, quantities, "sell")
    np.testing.assert_array_equal(buying, market_profits(mirrored, quantities, "sell"))
    np.testing.assert_array_equal(selling, market_profits(mirrored, quantities, "buy"))
    for profits in (buying, selling):
        gone = np.isnan(profits)
        assert (profits[~gone] < 0).all(), "an order that crosses the spread cannot earn"
        per_share = np.where(gone, np.nan, profits / quantities)
        assert not (np.diff(per_share, axis=1) > 1e-9).any(), "deeper levels are not better"
        assert not (gone[:, :-1] & ~gone[:, 1:]).any(), "what is short for some is short for more"


def test_rounding_of_large_amounts_does_not_look_like_risk() -> None:
    """The same half-spread at many prices is the same profit, to the last bit."""
    middles = np.random.default_rng(0).integers(10_000, 500_000, size=200) / 100
    books = two_sided([[(float(m) - 0.07, 50)] for m in middles], [[(float(m) + 0.07, 50)] for m in middles])
    profits = market_profits(books, np.array([1, 7, 50]))
    assert (profits == [-0.07, -0.49, -3.5]).all()


@pytest.mark.parametrize("values", [[1], [1, 2, 10], range(5, 50, 5), np.array([3, 4]), (10**9,)])
def test_quantities_are_kept(values: Any) -> None:
    quantities = check_profit_quantities(values)
    assert quantities.dtype == np.int64
    assert quantities.tolist() == list(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"quantities must be one or more strictly ascending integers, was \[\]"),
        ([2, 1], r"quantities must be one or more strictly ascending integers, was \[2, 1\]"),
        (np.array([1, 1]), r"quantities must be one or more strictly ascending integers, was \[1, 1\]"),
        ([0, 1], r"quantities must be a positive integer, was 0"),
        ([-5], r"quantities must be a positive integer, was -5"),
        ([1.0, 2.0], r"quantities must be a positive integer, was 1.0"),
        ([True, 2], r"quantities must be a positive integer, was True"),
        ([math.nan], r"quantities must be a positive integer, was nan"),
        (["1"], r"quantities must be a positive integer, was '1'"),
        ("12", r"quantities must be a positive integer, was '1'"),
        ([[1, 2]], r"quantities must be a positive integer, was \[1, 2\]"),
        ([[1], [2, 3]], r"quantities must be a positive integer, was \[1\]"),
        ([10**9 + 1], r"quantities must be at most 1,000,000,000, was 1,000,000,001"),
        ([2**70], r"quantities must be at most 1,000,000,000"),
        (5, r"quantities must be a list of positive integers, was 5"),
        (None, r"quantities must be a list of positive integers, was None"),
        (np.array(5), r"quantities must be a list of positive integers, was"),
    ],
)
def test_quantities_are_checked(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_profit_quantities(values)
