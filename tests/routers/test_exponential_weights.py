"""Exponentiated gradient and Exp3: printed and derived constants, regret on any sequence, unbiased estimates."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.routers.literature.dark_allocation import _comb_sample, _greedy_units
from riskroute.routers.literature.exponential_weights import (
    Exp3,
    ExpGrad,
    _draw_units,
    _estimate_gradient,
    _exp3_mixing,
    _exp3_rate,
    _expgrad_rate,
    _mean_gradient,
    _softmax_weights,
)
from router_cases import TWO_POOLS, draw_pools, play_expgrad, play_pools, pools_context


def exp3_bound(rate: float, mixing: float, pools: int, units: int, rounds: int) -> float:
    """The paper's bound of the regret in units, as a function of rate and mixing."""
    spread = rounds * units + rounds * units * pools / mixing + rounds * pools
    return units * math.log(pools) / rate + 2 * rate * spread + mixing * rounds * pools


def regret(sizes: Any, units: Any, sent: Any) -> float:
    """What the best fixed list of pools fills more than was filled; for orders of one size, greedy finds the list."""
    most = int(units[0])
    tails = np.array([[(column >= size).sum() for size in range(1, most + 1)] for column in sizes.T], dtype=float)
    best = _greedy_units(tails, most)
    return float(np.minimum(sizes, best).sum() - np.minimum(sizes, sent).sum())


def naive_expgrad(sizes: Any, units: Any, rate: float) -> list[list[float]]:
    """Step by step as in the paper, weight by weight."""
    pools = sizes.shape[1]
    weights = [[1 / pools] * pools for _ in range(max(units))]
    sent = []
    for row, order in zip(sizes, units, strict=True):
        parts = [sum(weights[v][i] for v in range(order)) for i in range(pools)]
        sent.append(parts)
        for v in range(order):
            grown = [weights[v][i] * math.exp(rate * (min(parts[i], row[i]) == parts[i])) for i in range(pools)]
            weights[v] = [one / sum(grown) for one in grown]
    return sent


def test_the_worked_example() -> None:
    rate = _expgrad_rate(2, 100)
    assert rate == pytest.approx(0.0982348, abs=5e-8)
    sent = play_expgrad(np.array([[9.0, 0.0], [0.0, 0.0]]), np.array([2, 2]), rate)
    assert (sent[1] / 2).tolist() == pytest.approx([0.5245390, 0.4754610], abs=5e-8)
    assert 3 * 2 * math.sqrt(100 * math.log(2)) == pytest.approx(49.953, abs=5e-4)


def test_it_is_the_naive_algorithm() -> None:
    rng = np.random.default_rng(1)
    sizes, units = rng.integers(0, 5, (30, 3)).astype(float), rng.integers(1, 6, 30)
    found = play_expgrad(sizes, units, 0.2)
    np.testing.assert_allclose(found, naive_expgrad(sizes, units.tolist(), 0.2), rtol=1e-9)


@st.composite
def sequences(draw: st.DrawFn) -> tuple[Any, int]:
    """Sizes of pools over time: of one law, or of several that take turns."""
    pools, most = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    laws = draw(st.lists(st.lists(st.integers(0, 8), min_size=pools, max_size=pools), min_size=1, max_size=4))
    rounds, turn = draw(st.integers(1, 120)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    noisy = draw(st.booleans())
    highest = np.array(laws)[(np.arange(rounds) // turn) % len(laws)]
    return (rng.integers(0, highest + 1) if noisy else highest).astype(float), most


@given(sequences())
@settings(max_examples=40, deadline=None)
def test_regret_on_any_sequence(sequence: tuple[Any, int]) -> None:
    sizes, most = sequence
    rounds, pools = sizes.shape
    units = np.full(rounds, most)
    sent = play_expgrad(sizes, units, _expgrad_rate(pools, rounds))
    assert regret(sizes, units, sent) <= 3 * most * math.sqrt(rounds * math.log(pools)) + 1e-9


@given(sequences(), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_regret_against_every_list_when_orders_differ_in_size(sequence: tuple[Any, int], seed: int) -> None:
    """Brute force over all lists of pools; unit v of an order always goes to the v-th pool of the list."""
    sizes, most = sequence[0][:, :2], min(sequence[1], 4)
    rounds = len(sizes)
    units = np.random.default_rng(seed).integers(1, most + 1, rounds)
    units[0] = most
    sent = play_expgrad(sizes, units, _expgrad_rate(2, rounds))
    best = 0.0
    for some in itertools.product((0, 1), repeat=most):
        counts = np.array([[np.sum(np.array(some[:n]) == k) for k in (0, 1)] for n in range(most + 1)])
        best = max(best, float(np.minimum(sizes, counts[units]).sum()))
    assert best - np.minimum(sizes, sent).sum() <= 3 * most * math.sqrt(rounds * math.log(2)) + 1e-9


def test_the_derived_constants_minimise_the_bound() -> None:
    """Where the terms that were left out are small: no other pair on a fine grid around is better by more than 1 %."""
    pools, units, rounds = 5, 200, 10**8
    rate = _exp3_rate(pools, units, rounds)
    bound = exp3_bound(rate, _exp3_mixing(rate, units), pools, units, rounds)
    around = np.geomspace(0.2, 5, 41)
    best = min(
        exp3_bound(rate * some, _exp3_mixing(rate, units) * more, pools, units, rounds)
        for some in around
        for more in around
    )
    assert bound <= 1.01 * best
    printed = _exp3_rate(pools, units, rounds, printed=True)
    assert printed / rate == pytest.approx((2 * pools) ** (1 / 3))
    assert exp3_bound(printed, _exp3_mixing(printed, units), pools, units, rounds) > 1.05 * best
    logs = (units * rounds * pools) ** (2 / 3) * math.log(pools) ** (1 / 3)
    assert bound < 6 * logs, "the constant of the theorem"


@pytest.mark.parametrize("size", [0, 1, 2, 3])
@pytest.mark.parametrize("mixing", [0.0, 0.3])
def test_estimates_are_right_on_average(size: int, mixing: float) -> None:
    """Over a fine grid of starts of the draw, for a pool whose part lies between 1 and 2."""
    rng = np.random.default_rng(2)
    weights = rng.dirichlet(np.ones(3), 5)
    drawn = _draw_units(weights, mixing, rng)
    for k in range(3):
        total, count = np.zeros(5), 1000
        for start in (np.arange(count) + 0.5) / count:
            units = int(drawn.floors[k] + _comb_sample(drawn.chances, start)[k])
            sizes = (int(drawn.floors[k]), units, min(units, size), float(drawn.chances[k]), int(drawn.lower[k]))
            total += _estimate_gradient(5, *sizes)
        truth = float(size > drawn.floors[k])
        assert total / count == pytest.approx(np.full(5, truth), abs=0.01)


@given(st.integers(2, 5), st.integers(1, 8), st.floats(0, 0.5), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_draws_are_whole_and_sum_to_the_order(pools: int, units: int, mixing: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = _draw_units(rng.dirichlet(np.ones(pools), units), mixing, rng)
    assert drawn.units.sum() == units
    assert set((drawn.units - drawn.floors).tolist()) <= {0, 1}
    assert (drawn.chances <= 1 + 1e-9).all()
    assert (drawn.lower <= units).all()


def test_whole_units_need_no_draw() -> None:
    drawn = _draw_units(np.array([[1.0, 0.0], [0.0, 1.0]]), 0.5, np.random.default_rng(0))
    assert (drawn.units.tolist(), drawn.chances.tolist(), drawn.lower.tolist()) == ([1, 1], [0.0, 0.0], [2, 2])
    assert _estimate_gradient(2, 1, 1, 1, 0.0, 2).tolist() == [1.0, 1.0]
    assert _estimate_gradient(2, 1, 1, 0, 0.0, 2).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", [ExpGrad, Exp3])
def test_the_better_pool_gets_more_and_a_change_is_followed(kind: Any) -> None:
    sizes = np.array([[40, 4]] * 200 + [[4, 40]] * 300)
    sent = play_pools(kind(rounds=500), sizes, pools_context(2, 20))
    assert sent[150:200, 0].mean() > 12
    assert sent[-50:, 1].mean() > 12


def test_the_unknown_horizon_learns_too() -> None:
    """Marginal fills are equal near 82 of 100 for the first pool; even is 50."""
    sent = play_pools(ExpGrad(), draw_pools(TWO_POOLS, 700, seed=3), pools_context(2, 100))
    assert sent[500:, 0].mean() > 60


def test_savings_weigh_gradients() -> None:
    sent = play_pools(ExpGrad(), np.full((200, 2), 100), pools_context(2, 20, fees=(0.0, 0.005)))
    assert sent[-20:, 0].mean() > 15


def test_a_new_pool_weighs_as_much_as_the_others_on_average() -> None:
    known = [np.array([3.0, 0.0]), np.array([1.0, 2.0])]
    new = _mean_gradient(0.5, known, 2)
    weights = _softmax_weights(0.5, np.array([*known, new]).T)
    assert weights[:, 2].tolist() == pytest.approx([1 / 3, 1 / 3])
    assert _mean_gradient(0.0, known, 2).tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExpGrad(rounds=0), "rounds must be a positive integer, was 0"),
        (lambda: Exp3(printed=1), "printed must be True or False, was 1"),  # type: ignore[arg-type]
    ],
)
def test_invalid_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_rates_weights_and_gradients_by_hand() -> None:
    assert round(_expgrad_rate(2, 100), 7) == 0.0982348
    assert _softmax_weights(_expgrad_rate(2, 100), np.array([[1.0, 0.0]])).round(7).tolist() == [
        [0.524539, 0.475461]
    ]  # the first pool filled
    assert (round(_exp3_rate(2, 2, 100), 6), round(_exp3_rate(2, 2, 100, printed=True), 6)) == (0.022901, 0.036354)
    assert (round(_exp3_mixing(0.022901, 2), 4), _exp3_mixing(0.5, 100)) == (0.3027, 0.5)
    assert (_estimate_gradient(4, 1, 2, 1, 0.5, 2).tolist(), _estimate_gradient(4, 1, 2, 2, 0.5, 2).tolist()) == (
        [-1.0, -1.0, 0.0, 0.0],
        [1.0, 1.0, 2.0, 2.0],
    )
