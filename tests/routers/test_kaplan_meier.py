"""Dark pool sizes by Kaplan-Meier, by a fitted power law, and by upper confidence bounds on it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.routers.literature.dark_allocation import (
    FINE,
    KaplanMeier,
    ParMl,
    RaUcb,
    _bin_edges,
    _BinCounts,
    _binned_tails,
    _count_fills,
    _fit_exponent,
    _greedy_units,
    _highest_chance,
    _optimistic_tails,
    _power_sizes,
    _power_tails,
    _theory_counts,
)
from router_cases import THREE_POOLS, TWO_POOLS, draw_pools, expected_fill, play_pools, pools_context, reported

FILLS = [(3, 3), (3, 1), (5, 0), (2, 2), (5, 4)]


def naive_tail(fills: list[tuple[int, int]], size: int) -> float:
    """The product-limit estimate, as it is written."""
    product = 1.0
    for below in range(size):
        ended = sum(1 for sent, filled in fills if filled == below and sent > below)
        tried = sum(1 for sent, filled in fills if filled >= below and sent > below)
        product *= 1 - (ended / tried if tried else 0.0)
    return product


def test_the_worked_example() -> None:
    ended, tried = _count_fills(FILLS)
    assert ended.tolist() == [1, 1, 0, 0, 1]
    assert tried.tolist() == [5, 4, 2, 1, 1]
    assert _binned_tails(ended, tried, 5).tolist() == pytest.approx([0.8, 0.6, 0.6, 0.6, 0.0])


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=40))
@settings(max_examples=30, deadline=None)
def test_tails_are_the_product_limit(raw: list[tuple[int, int]]) -> None:
    fills = [(sent, min(sent, filled)) for sent, filled in raw]
    found = _binned_tails(*_count_fills(fills), 14)
    assert found.tolist() == pytest.approx([naive_tail(fills, size) for size in range(1, 15)])


def test_without_cutting_off_the_estimate_is_the_share_of_sizes() -> None:
    """By another route: if nothing is cut off, Kaplan-Meier is the empirical distribution."""
    sizes = np.random.default_rng(2).integers(0, 20, 300)
    found = _binned_tails(*_count_fills([(100, int(size)) for size in sizes]), 20)
    assert found.tolist() == pytest.approx([(sizes >= size).mean() for size in range(1, 21)])


def test_bins_beyond_the_fine_ones_have_one_hazard() -> None:
    """Sizes of a geometric law have one hazard everywhere, which wide bins must find: 0.01, and 5 s.e. are 0.001."""
    assert (
        np.diff(_bin_edges(500))[FINE:].tolist() == [1, 1, 2, 4, 8, 16, 32, 64, 128][: len(_bin_edges(500)) - FINE - 1]
    )
    sizes = np.random.default_rng(3).geometric(0.01, 4000) - 1
    fills = [(600, int(min(size, 600))) for size in sizes]
    tails = _binned_tails(*_count_fills(fills), 600)
    assert np.abs(tails - 0.99 ** np.arange(1, 601)).max() < 0.04
    inside = tails[FINE + 140 : FINE + 250]
    assert np.ptp(inside[1:] / inside[:-1]) < 1e-12


@pytest.mark.parametrize(
    ("pools", "split", "fill", "even", "evenly"),
    [
        (TWO_POOLS, [82, 18], 20.7976, [50, 50], 18.0676),
        (THREE_POOLS, [47, 15, 38], 16.4079, [34, 33, 33], 15.6872),
    ],
)
def test_the_greedy_split_of_known_pools(pools: Any, split: list[int], fill: float, even: Any, evenly: float) -> None:
    tails = np.array([_power_tails(empty, exponent, 100) for empty, exponent in pools])
    assert _greedy_units(tails, 100).tolist() == split
    assert expected_fill(pools, split) == pytest.approx(fill, abs=1e-4)
    assert expected_fill(pools, even) == pytest.approx(evenly, abs=1e-4)


def test_the_greedy_split_by_all_splits_and_by_drawing() -> None:
    """Brute force over all splits of 100, and the fill by Monte Carlo: 4 s.e. of 40,000 rounds are 0.6."""
    fills = [expected_fill(TWO_POOLS, (first, 100 - first)) for first in range(101)]
    assert int(np.argmax(fills)) == 82
    sizes = draw_pools(TWO_POOLS, 40_000, seed=4)
    assert np.minimum(sizes, [82, 18]).sum(axis=1).mean() == pytest.approx(20.7976, abs=0.6)


def test_the_theorem_wants_more_than_there_ever_is() -> None:
    assert _theory_counts(10, 1.0, 0.1)[0] == pytest.approx(67_818, abs=0.5)
    tails = _optimistic_tails(np.array([0.5, 0.4]), np.array([5000.0, 3000.0]), _theory_counts(2, 1.0, 0.1) * 10)
    assert tails.tolist() == [1.0, 0.4], "one unit to every pool, and nothing else"


def test_the_first_bin_beyond_what_is_known_counts_as_likely() -> None:
    tails = np.linspace(0.9, 0.1, 4)
    assert _optimistic_tails(tails, np.full(4, 50.0), 20).tolist() == tails.tolist()
    assert _optimistic_tails(tails, np.zeros(4), 20).tolist() == [1.0, *tails[1:]]
    wide = _optimistic_tails(np.full(300, 0.5) - np.arange(300) / 1000, np.full(FINE + 2, 20.0), 20)
    assert wide[201] == wide[202] == wide[203] == pytest.approx(0.5 - 0.201)
    assert wide[204] == pytest.approx(0.5 - 0.204)


@pytest.mark.parametrize("kind", [KaplanMeier, ParMl])
@pytest.mark.parametrize(("pools", "best"), [(TWO_POOLS, 20.7976), (THREE_POOLS, 16.4079)])
def test_it_converges_to_the_greedy_split(kind: Any, pools: Any, best: float) -> None:
    """After 500 orders the average of the next 200 is within 0.5 % of the best.

    Pools that are given shares in proportion to their fills lose 1 % or more, and an even split 4 %. The fit does not
    explore, and may stay wrong with the luck of another seed.
    """
    sent = play_pools(kind(), draw_pools(pools, 700, seed=7), pools_context(len(pools), 100))
    assert np.mean([expected_fill(pools, split) for split in sent[500:]]) > 0.995 * best


def test_counts_that_fade_follow_pools_that_change() -> None:
    sizes = np.array([[60, 0]] * 150 + [[0, 60]] * 150)
    faded = KaplanMeier(mode="discounted", half_life=10.0)
    assert play_pools(faded, sizes, pools_context(2, 60))[-20:, 1].mean() > 50
    assert play_pools(KaplanMeier(), sizes, pools_context(2, 60))[160:180, 1].mean() < 50


def test_reports_that_come_late_have_faded() -> None:
    """An order 10 s older than the last counts half; the same in both orders of learning."""
    states = []
    for turn in ((0, 1), (1, 0)):
        router = KaplanMeier(mode="discounted", half_life=10.0)
        orders = [pools_context(1, 5, order=f"o{k}", time=k * 10**10) for k in range(2)]
        plans = [router.route(one) for one in orders]
        for k in turn:
            router.learn(reported(orders[k], plans[k], np.array([3 - k])))
        states.append(router.counts)
    counts = _BinCounts(10**10, [0, 0, 1, 0.5, 0], [1.5, 1.5, 1.5, 0.5, 0])
    assert states[0] == states[1] == {"P0 1": counts}


def test_lots_that_are_not_worth_the_delay_are_taken_at_once() -> None:
    """Saving 1 cent with probability 0.25 is not worth half a cent in the other cases."""
    router = KaplanMeier(delay_cost=0.005, least=1)
    context = pools_context(1, 4)
    for t in range(4):
        now = dataclasses.replace(context, order=f"o{t}")
        router.learn(reported(now, router.route(now), np.array([4 if t == 0 else 0])))
    cheap = KaplanMeier.restore(router.state() | {"parameters": router.parameters | {"delay_cost": 0.001}})
    last = dataclasses.replace(context, order="last")
    assert cheap.route(last).dark == {"P0": 4}
    plan = router.route(last)
    assert (plan.dark, plan.take) == ({}, {"A": 4})


def test_a_pool_that_saves_more_gets_more() -> None:
    sizes = draw_pools(((0.5, 0.5), (0.5, 0.5)), 600, seed=6)
    sent = play_pools(KaplanMeier(), sizes, pools_context(2, 100, fees=(0.0, 0.004)))
    assert sent[400:, 0].mean() > sent[400:, 1].mean() + 15


def naive_log_likelihood(fills: list[tuple[int, int]], empty: float, exponent: float, largest: int) -> float:
    sizes = np.concatenate([[empty], (1 - empty) * _power_sizes(exponent, largest)])
    return float(sum(np.log(sizes[r] if r < v else sizes[r:].sum()) for v, r in fills))


def test_the_fit_is_the_best_of_a_search_in_two_dimensions() -> None:
    sizes, sent = (
        draw_pools(((0.4, 0.8),), 200, seed=7, largest=30)[:, 0],
        np.random.default_rng(7).integers(1, 31, 200),
    )
    fills = [(int(v), int(min(v, size))) for v, size in zip(sent, sizes, strict=True)]
    grid = [(a, b) for a in np.linspace(0.02, 0.98, 49) for b in np.linspace(-1, 4, 51)]
    best = max(grid, key=lambda pair: naive_log_likelihood(fills, pair[0], pair[1], 30))
    full = np.bincount([v - 1 for v, r in fills if r == v], minlength=30).astype(float)
    known = [r for v, r in fills if 0 < r < v]
    exponent = _fit_exponent(len(known), float(np.log(known).sum()), full, 30)
    empty = sum(r == 0 for _, r in fills) / len(fills)
    assert empty == pytest.approx(best[0], abs=0.011)
    assert exponent == pytest.approx(best[1], abs=0.051)
    assert naive_log_likelihood(fills, empty, exponent, 30) >= naive_log_likelihood(fills, best[0], best[1], 30)


def test_the_fit_finds_the_pool_that_was_drawn() -> None:
    """4 s.e. of 20,000 sizes are about 0.03."""
    sizes = draw_pools(((0.0, 0.7),), 20_000, seed=8)[:, 0]
    assert _fit_exponent(len(sizes), float(np.log(sizes).sum()), np.zeros(100), 100) == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KaplanMeier(mode="other"), "mode must be one of theory, practical, discounted, was 'other'"),
        (lambda: KaplanMeier(least=0), "least must be a positive integer, was 0"),
        (lambda: KaplanMeier(delta=1.0), "delta must be a number of at least 1e-09 and below 1, was 1"),
        (lambda: ParMl(delay_cost=-1.0), "delay_cost must be a number of at least 0, was -1"),
    ],
)
def test_invalid_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0, 5))
@settings(max_examples=30, deadline=None)
def test_the_highest_chance_by_trying_all(successes: int, misses: int, less: float) -> None:
    trials = successes + misses
    if not trials:
        return
    grid = np.linspace(1e-6, 1 - 1e-6, 100_001)
    likelihood = successes * np.log(grid) + misses * np.log1p(-grid)
    found = _highest_chance(successes, trials, less)
    assert found == pytest.approx(grid[likelihood >= likelihood.max() - less - 1e-9].max(), abs=3e-5)


def test_the_optimistic_exponent_is_smaller() -> None:
    full, logs = np.zeros(50), float(np.log([1, 2, 3, 1, 8]).sum())
    fits = [_fit_exponent(5, logs, full, 50, less) for less in (0.0, 1.0, 3.0)]
    assert fits == sorted(fits, reverse=True)
    assert fits[0] > fits[1] + 0.2


@pytest.mark.parametrize(("pools", "best", "seed"), [(TWO_POOLS, 20.7976, 6), (THREE_POOLS, 16.4079, 5)])
def test_ra_ucb_converges_to_the_greedy_split(pools: Any, best: float, seed: int) -> None:
    """Within 4 % after 500 orders; the plain fit gives up a pool with the luck of the second seed."""
    sent = play_pools(RaUcb(), draw_pools(pools, 700, seed=seed), pools_context(len(pools), 100))
    assert np.mean([expected_fill(pools, split) for split in sent[500:]]) > 0.96 * best


def test_without_width_it_is_the_plain_fit() -> None:
    """But for draws among equals, and for pools that were always empty, which the plain fit keeps a chance for."""
    sizes, context = draw_pools(((0.1, 0.2), (0.1, 0.9)), 60, seed=3) + 1, pools_context(2, 40)
    plain, optimistic = (play_pools(kind, sizes, context) for kind in (ParMl(), RaUcb(width=0.0)))
    np.testing.assert_array_equal(plain[1:], optimistic[1:])


def test_ra_ucb_refuses_a_negative_width() -> None:
    with pytest.raises(InputError, match="width must be a number of at least 0 and of at most 1000, was -1"):
        RaUcb(width=-1.0)


def test_bins_tails_and_fits_by_hand() -> None:
    assert _bin_edges(210)[-5:].tolist() == [200, 201, 202, 204, 208]
    assert _bin_edges(3).tolist() == [0, 1, 2, 3]
    raised = _optimistic_tails(np.array([0.5, 0.4, 0.1, 0.05]), np.array([30.0, 20.0, 8.0]), 20)
    assert raised.tolist() == [0.5, 0.4, 0.4, 0.05]
    assert _power_sizes(1.0, 3).round(4).tolist() == [0.5455, 0.2727, 0.1818]
    assert _power_tails(0.6, 1.0, 3).round(4).tolist() == [0.4, 0.1818, 0.0727]
    assert _fit_exponent(3, float(np.log([1, 2, 4]).sum()), np.zeros(8), 8) == 1.24
    assert _fit_exponent(0, 0.0, np.eye(8)[3], 8) == -1.0  # one observation: at least 4
    assert round(_highest_chance(0, 10, 1.0), 6) == 0.095163  # (1 - p)^10 = 1 / e
