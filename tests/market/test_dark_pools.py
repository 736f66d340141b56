"""Dark pools: generated moments relative to lit venues, and the mechanism against exact sums and a naive loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.core.validation import SIDES
from riskroute.market.dark_pools import DarkPool, generated_dark_pools
from riskroute.market.order_profits import market_profits
from riskroute.market.sampling import SampledBooks
from riskroute.routing.instances import PAPER_VENUES
from riskroute.routing.venue_models import VenueModel

LIT = PAPER_VENUES[:3]

coefficients = st.floats(-2.0, 2.0).map(lambda value: round(value, 4))
pairs = st.tuples(coefficients, coefficients)
lit_venues = st.lists(st.tuples(pairs, pairs), min_size=1, max_size=5).map(
    lambda rows: [VenueModel(f"V{k}", mean, variance) for k, (mean, variance) in enumerate(rows)]
)
pools = st.builds(
    DarkPool,
    presence=st.floats(0.0, 1.0),
    tail=st.floats(0.05, 5.0),
    smallest=st.integers(1, 20),
    improvement=st.floats(-1.0, 1.0),
    fee=st.floats(-0.01, 0.01),
)


def books_of(rows: list[tuple[float, float, float, float]], sizes: tuple[float, float] = (30.0, 40.0)) -> SampledBooks:
    """Books of two levels: ``(second bid, best bid, best ask, second ask)`` each, NaN where there is none."""
    prices = np.array(rows).reshape(-1, 4)
    bids, asks = prices[:, 1::-1], prices[:, 2:]
    there = [np.where(np.isnan(side), 0.0, sizes) for side in (bids, asks)]
    return SampledBooks(np.arange(len(rows)), bids, there[0], asks, there[1])


SPREAD = (9.98, 9.99, 10.01, 10.03)


@given(lit=lit_venues, seed=st.integers(0, 1000))
def test_generated_pools_are_better_on_average_and_more_volatile(lit: list[VenueModel], seed: int) -> None:
    best = max(model.mean[0] for model in lit)
    for pool in generated_dark_pools(lit, 3, seed=seed):
        assert pool.kind == "dark"
        assert 0.25 * abs(best) <= pool.mean[0] - best + 1e-12
        assert pool.mean[0] - best <= 0.9 * abs(best) + 1e-12
        assert abs(pool.mean[1]) <= max(abs(model.mean[1]) for model in lit)
        for shares in (1, 2, 10, 1000):
            scale = max(abs(model.variance[0]) * shares + abs(model.variance[1]) * shares**2 for model in lit)
            assert 0.0 <= pool.variance_of(shares) <= 4.0 * scale + 1e-9
            for model in lit:
                assert pool.variance_of(shares) >= 1.25 * model.variance_of(shares) - 1e-9


def test_generated_pools_beat_the_best_venue_of_the_papers_table_at_every_size() -> None:
    nasdaq = LIT[2]
    for pool in generated_dark_pools(LIT, 5, seed=4):
        assert all(nasdaq.mean_of(shares) < pool.mean_of(shares) < 0.0 for shares in range(1, 11))


def test_generated_pools_depend_on_the_seed_and_not_on_their_number() -> None:
    assert generated_dark_pools(LIT, 4, seed=1)[:2] == generated_dark_pools(LIT, 2, seed=1)
    assert generated_dark_pools(LIT, seed=1) != generated_dark_pools(LIT, seed=2)
    assert len({pool.mean for pool in generated_dark_pools(LIT, 4)}) == 4
    assert [pool.name for pool in generated_dark_pools(LIT)] == ["Dark 1", "Dark 2"]


def test_hidden_sizes_have_the_chances_stated() -> None:
    """Shares of 200,000 draws, a count of independent events: within four and a half standard errors."""
    pool, draws = DarkPool(presence=0.6, tail=1.3, smallest=3), 200_000
    sizes = pool.hidden_sizes(draws, seed=8)
    assert set(sizes.tolist()).isdisjoint({1, 2})
    for size in (1, 3, 4, 5, 10, 100, 1000):
        chance = float(pool.chance_of([size])[0])
        assert chance == pytest.approx(0.6 * min(1.0, 3 / size) ** 1.3)
        assert abs((sizes >= size).mean() - chance) < 4.5 * (chance * (1 - chance) / draws) ** 0.5


def test_fills_have_the_exact_moments() -> None:
    """Mean and variance of the fill against the exact sums, margins from the standard errors of both (4.5 of them)."""
    pool, draws, quantities = DarkPool(presence=0.7, tail=0.8, smallest=2), 4000, [1, 3, 10, 60]
    filled = pool.profits(books_of([SPREAD] * 50), quantities, seed=3, draws=draws).filled.astype(float)
    count = len(filled)
    assert count == 50 * draws
    mean, variance = pool.mean_fill(quantities), pool.fill_variance(quantities)
    squares = (filled - mean) ** 2
    assert (np.abs(filled.mean(axis=0) - mean) < 4.5 * np.sqrt(variance / count)).all()
    assert (np.abs(squares.mean(axis=0) - variance) < 4.5 * squares.std(axis=0) / count**0.5).all()


def test_profits_have_the_exact_moments_on_a_deep_book() -> None:
    """On one deep level profit is linear in the fill, so its mean and variance follow from the fill's."""
    pool, quantities = DarkPool(presence=0.4, tail=1.1, improvement=0.2, fee=0.001), [1, 5, 25]
    books = books_of([SPREAD] * 20, sizes=(100.0, 100.0))
    profits = pool.profits(books, quantities, seed=5, taker_fee=(0.003, 0.0), draws=5000).profits
    per_fill, per_rest = 0.2 * 0.01 - 0.001, -0.01 - 0.003
    mean = per_rest * np.array(quantities) + (per_fill - per_rest) * pool.mean_fill(quantities)
    variance = (per_fill - per_rest) ** 2 * pool.fill_variance(quantities)
    squares = (profits - mean) ** 2
    assert (np.abs(profits.mean(axis=0) - mean) < 4.5 * np.sqrt(variance / len(profits))).all()
    assert (np.abs(squares.mean(axis=0) - variance) < 4.5 * squares.std(axis=0) / len(profits) ** 0.5).all()


@given(pool=pools, largest=st.integers(1, 60))
def test_exact_moments_equal_those_of_the_distribution_written_out(pool: DarkPool, largest: int) -> None:
    """P(fill = n) as differences of chances, for every n up to the quantity."""
    shares = np.arange(1, largest + 1)
    at_least = np.concatenate([[1.0], pool.chance_of(shares), [0.0]])
    weights, fills = at_least[:-1] - at_least[1:], np.arange(largest + 1)
    mean = float(weights @ fills)
    assert pool.mean_fill([largest])[0] == pytest.approx(mean, abs=1e-9)
    assert pool.fill_variance([largest])[0] == pytest.approx(float(weights @ (fills - mean) ** 2), abs=1e-8)


@settings(max_examples=30)
@given(pool=pools, seed=st.integers(0, 100), side=st.sampled_from(SIDES), draws=st.integers(1, 3))
def test_profits_equal_a_loop_over_shares(pool: DarkPool, seed: int, side: str, draws: int) -> None:
    books = books_of([SPREAD, (9.0, 9.5, 10.0, 11.0), (float("nan"), 9.9, 10.0, float("nan"))])
    quantities = [1, 7, 30, 45, 70, 71, 90]
    outcome = pool.profits(books, quantities, seed=seed, side=side, taker_fee=(0.002, 0.001), draws=draws)
    hidden = pool.hidden_sizes(3 * draws, seed=seed)
    assert outcome.filled.tolist() == [[min(q, size) for q in quantities] for size in hidden.tolist()]
    for row, filled in enumerate(outcome.filled):
        book = row % 3
        prices, sizes = (side_of[book] for side_of in books.side("bid" if side == "sell" else "ask"))
        shares = [price for price, size in zip(prices, sizes, strict=True) for _ in range(int(size))]
        half = (books.ask_px[book, 0] - books.bid_px[book, 0]) / 2
        for k, quantity in enumerate(quantities):
            rest = quantity - filled[k]
            lost = sum(abs(price - books.mid[book]) + 0.002 + 0.001 * price for price in shares[:rest])
            expected = filled[k] * (pool.improvement * half - pool.fee) - lost if rest <= len(shares) else np.nan
            np.testing.assert_allclose(outcome.profits[row, k], expected, atol=1e-9)


@given(pool=pools, seed=st.integers(0, 100))
def test_fills_grow_with_the_order_and_profits_are_there_where_the_book_suffices(pool: DarkPool, seed: int) -> None:
    quantities = np.arange(1, 91)
    outcome = pool.profits(books_of([SPREAD] * 4), quantities, seed=seed)
    assert ((outcome.filled >= 0) & (outcome.filled <= quantities)).all()
    assert (np.diff(outcome.filled, axis=1) >= 0).all()
    assert np.isfinite(outcome.profits).tolist() == (quantities - outcome.filled <= 70).tolist()


def test_a_pool_without_size_is_a_market_order_and_one_full_of_it_costs_nothing() -> None:
    books, quantities = books_of([SPREAD, (9.0, 9.5, 10.0, 11.0)]), np.array([1, 20, 70, 71])
    for side in SIDES:
        nothing = DarkPool(presence=0.0, tail=1.0).profits(books, quantities, seed=0, side=side)
        np.testing.assert_allclose(nothing.profits, market_profits(books, quantities, side), atol=1e-9)
        full = DarkPool(presence=1.0, tail=1.0, smallest=71).profits(books, quantities, seed=0, side=side)
        np.testing.assert_array_equal(full.profits, np.zeros((2, 4)))


def test_books_without_a_middle_have_no_outcome() -> None:
    nan = float("nan")
    books = books_of([(nan, nan, 10.0, 11.0), (9.0, 9.5, nan, nan), SPREAD])
    for side in SIDES:
        outcome = DarkPool(presence=1.0, tail=1.0, smallest=5).profits(books, [1, 2], seed=0, side=side)
        assert np.isnan(outcome.profits).tolist() == [[True] * 2, [True] * 2, [False] * 2]
        assert outcome.filled.tolist() == [[0, 0], [0, 0], [1, 2]]
    assert DarkPool(1.0, 1.0).profits(books_of([]), [1, 2], seed=0).profits.shape == (0, 2)


def test_draws_depend_on_the_seed_and_the_name_and_not_on_their_number() -> None:
    pool, books = DarkPool(presence=0.5, tail=1.0), books_of([SPREAD] * 60)
    once, often = (pool.profits(books, [50], seed=1, draws=draws).filled for draws in (1, 3))
    np.testing.assert_array_equal(often[:60], once)
    assert (often[60:120] != once).any()
    assert (pool.profits(books, [50], seed=2).filled != once).any()
    assert (DarkPool(presence=0.5, tail=1.0, name="Other").profits(books, [50], seed=1).filled != once).any()


def test_the_heaviest_tail_stays_in_range() -> None:
    sizes = DarkPool(presence=1.0, tail=1e-9, smallest=10**9).hidden_sizes(1000, seed=0)
    assert sizes.min() >= 10**9
    assert sizes.max() <= 10**12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"presence": -0.1}, "presence must be a number of at least 0 and of at most 1, was -0.1"),
        ({"presence": 1.1}, "presence must be a number of at least 0 and of at most 1, was 1.1"),
        ({"presence": True}, "presence must be a number"),
        ({"tail": 0.0}, "tail must be a number above 0, was 0.0"),
        ({"tail": float("nan")}, "tail must be a number above 0, was nan"),
        ({"smallest": 0}, "smallest must be a positive integer, was 0"),
        ({"smallest": 1.5}, "smallest must be a positive integer, was 1.5"),
        ({"improvement": 1.01}, "improvement must be a number of at least -1 and of at most 1, was 1.01"),
        ({"fee": "x"}, "fee must be a finite number, was 'x'"),
        ({"name": ""}, "name must be a name of up to 64 letters, digits, spaces or .* was ''"),
    ],
)
def test_bad_parameters_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DarkPool(**{"presence": 0.5, "tail": 1.0, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quantities": [0]}, "quantities must be a positive integer, was 0"),
        ({"quantities": []}, "quantities must be one or more strictly ascending integers"),
        ({"side": "short"}, "side must be one of buy, sell, was 'short'"),
        ({"seed": -1}, "seed must be a non-negative integer, was -1"),
        ({"taker_fee": (float("inf"), 0.0)}, "taker_fee must be finite, was inf"),
        ({"draws": 0}, "draws must be a positive integer, was 0"),
    ],
)
def test_bad_options_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DarkPool(presence=0.5, tail=1.0).profits(books_of([SPREAD]), **{"quantities": [1], "seed": 0, **change})


def test_bad_calls_are_named() -> None:
    pool = DarkPool(presence=0.5, tail=1.0)
    for call, message in (
        (lambda: generated_dark_pools([]), r"lit must be one or more lit venues, was \[\]"),
        (lambda: generated_dark_pools(PAPER_VENUES), r"lit must be one or more lit venues.*\('Dark 2', 'dark'\)"),
        (lambda: generated_dark_pools(LIT, 0), "count must be a positive integer, was 0"),
        (lambda: generated_dark_pools(LIT, seed=-1), "seed must be a non-negative integer, was -1"),
        (lambda: pool.hidden_sizes(-1, seed=0), "count must be a non-negative integer, was -1"),
        (lambda: pool.chance_of([0]), "quantities must be a positive integer, was 0"),
        (lambda: pool.mean_fill([10**7 + 1]), "quantities must be at most 10,000,000, was 10,000,001"),
        (lambda: pool.fill_variance([3, 2]), "quantities must be one or more strictly ascending integers"),
    ):
        with pytest.raises(InputError, match=message):
            call()
