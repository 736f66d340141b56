"""The placement of Cont and Kukanov: the paper's example, brute force over integers, and what must hold at the best."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import poisson

from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError
from riskroute.routers.literature.cont_kukanov import (
    PlacementPrices,
    _into_overbooked,
    _into_simplex,
    one_exchange_placement,
    placement_costs,
    stochastic_placement,
)

SHARES, QUEUE, RATE = 1000, 2000, 2200
OUTFLOW = np.arange(4001)
MASS = poisson(RATE).pmf(OUTFLOW)


def example(under: float = 0.026, impact: float = 0.0, exchanges: int = 1) -> PlacementPrices:
    """The paper's numbers."""
    return PlacementPrices(0.02, 0.003, (0.002,) * exchanges, under=under, over=0.024, impact=impact)


def mean_cost(market: int, limit: int, prices: PlacementPrices, queue: int = QUEUE) -> float:
    """The exact mean with one exchange."""
    given_ = np.array([float(limit)]), np.array([float(queue)]), OUTFLOW[:, None].astype(float)
    return float(MASS @ placement_costs(SHARES, market, *given_, prices))


@lru_cache(maxsize=4096)
def fill_mass(limit: int) -> Floats:
    mass: Floats = np.bincount(np.clip(OUTFLOW - QUEUE, 0, limit), MASS, minlength=limit + 1).astype(np.float64)
    return mass


def mean_cost_of_two(market: int, one: int, two: int, prices: PlacementPrices) -> float:
    """The exact mean with two independent exchanges, worked out from the fills instead of the outflows."""
    mass = np.convolve(fill_mass(one), fill_mass(two))
    fills = np.arange(len(mass))
    missing, over = np.maximum(SHARES - market - fills, 0), np.maximum(market + fills - SHARES, 0)
    costs = 0.023 * market - 0.022 * fills + prices.under * missing + prices.over * over
    return float(mass @ (costs + prices.impact * (market + one + two + missing)))


@pytest.mark.parametrize(
    ("under", "impact", "placement", "cost"),
    [
        (0.026, 0.0, (728, 272), 14.278),
        (0.026, 0.0005, (731, 269), 14.814),
        (0.03, 0.0, (748, 252), 14.531),
        (0.05, 0.0, (785, 215), 15.282),
    ],
)
def test_the_papers_example(under: float, impact: float, placement: tuple[int, int], cost: float) -> None:
    prices = example(under, impact)
    assert prices.sound
    assert one_exchange_placement(SHARES, QUEUE, poisson(RATE).cdf, prices) == placement
    assert mean_cost(*placement, prices) == pytest.approx(cost, abs=5e-4)
    best = min(range(SHARES + 1), key=lambda limit: mean_cost(SHARES - limit, limit, prices))
    assert (SHARES - best, best) == placement


def test_the_example_beside_all_at_once_and_all_posted() -> None:
    assert mean_cost(1000, 0, example()) == pytest.approx(23.0)
    assert mean_cost(0, 1000, example()) == pytest.approx(16.4, abs=5e-4)
    prices = example()
    fraction = (prices.taking + prices.gains[0]) / (prices.under + prices.gains[0])
    assert fraction == pytest.approx(0.9375)
    fraction = (prices.taking + prices.gains[0]) / (prices.under + prices.gains[0] + 0.0005)
    assert fraction == pytest.approx(0.92784, abs=5e-6)


@pytest.mark.parametrize(
    ("impact", "placement", "cost"), [(0.0005, (499, 297, 297), 6.0077), (0.0, (497, 385, 385), 5.3966)]
)
def test_two_exchanges_exactly(impact: float, placement: tuple[int, int, int], cost: float) -> None:
    """No neighbour among whole numbers is better; the mean is convex, so nothing else is."""
    prices = example(impact=impact, exchanges=2)
    best = mean_cost_of_two(*placement, prices)
    assert best == pytest.approx(cost, abs=5e-5)
    for step in (1, 4):
        for move in itertools.product((-step, 0, step), repeat=3):
            market, one, two = (place + change for place, change in zip(placement, move, strict=True))
            assert mean_cost_of_two(market, one, two, prices) >= best - 1e-12


def poisson_outflows(exchanges: int, count: int = 50_000, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).poisson(RATE, (count, exchanges)).astype(np.float64)


def test_stochastic_approximation_finds_the_closed_form() -> None:
    """200,000 steps: within 4 shares of 272, where 4 shares change the mean cost by a tenth of a cent."""
    found = stochastic_placement(SHARES, np.array([2000.0]), poisson_outflows(1), example(), steps=200_000)
    assert found.sum() == pytest.approx(SHARES)
    assert found[1] == pytest.approx(272, abs=4)
    assert mean_cost(round(found[0]), round(found[1]), example()) == pytest.approx(14.278, abs=2e-3)


def test_stochastic_approximation_overbooks_two_exchanges() -> None:
    """The mean cost is within half a cent of the best, 6.0077, and 1,093 shares are sent but for a few."""
    prices = example(impact=0.0005, exchanges=2)
    found = stochastic_placement(
        SHARES, np.full(2, 2000.0), poisson_outflows(2), prices, steps=200_000, mode="overbook"
    )
    assert found == pytest.approx([499, 297, 297], abs=12)
    market, one, two = (round(shares) for shares in found)
    assert mean_cost_of_two(market, one, two, prices) == pytest.approx(6.0077, abs=5e-3)


def test_conditions_of_first_order_hold_at_what_is_found() -> None:
    """On new samples, within three standard errors and what three shares change (the density is below 1 % a share)."""
    prices = example(impact=0.0005, exchanges=2)
    queues = np.array([2000.0, 2050.0])
    found = stochastic_placement(SHARES, queues, poisson_outflows(2), prices, steps=400_000, mode="overbook")
    outflows = poisson_outflows(2, 200_000, seed=2)
    short = found[0] + np.clip(outflows - queues, 0, found[1:]).sum(axis=1) < SHARES
    scale = prices.under + prices.over + prices.impact
    expected = (prices.taking + prices.impact + prices.over) / scale
    assert short.mean() == pytest.approx(expected, abs=0.03)
    for k in range(2):
        full = outflows[:, k] > queues[k] + found[k + 1]
        right = (prices.impact / full.mean() + prices.over - prices.gains[k]) / scale
        assert short[full].mean() == pytest.approx(right, abs=0.05)


@given(queue=st.integers(1900, 2250), under=st.floats(0.024, 0.2), more=st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_limits_fall_with_the_queue_and_with_the_price_of_missing(queue: int, under: float, more: int) -> None:
    _, limit = one_exchange_placement(SHARES, queue, poisson(RATE).cdf, example(under))
    _, longer = one_exchange_placement(SHARES, queue + more, poisson(RATE).cdf, example(under))
    assert longer == (limit - more if 0 < limit < SHARES and limit > more else max(limit - more, 0))
    _, missing = one_exchange_placement(SHARES, queue, poisson(RATE).cdf, example(under * 1.5))
    assert missing <= limit


def test_limits_at_the_ends() -> None:
    """Missing shares that cost no more than taking are all posted; a queue nobody gets through gets none."""
    assert one_exchange_placement(SHARES, QUEUE, poisson(RATE).cdf, example(0.0229)) == (0, 1000)
    assert one_exchange_placement(SHARES, 2500, poisson(RATE).cdf, example()) == (1000, 0)
    assert not example(0.0229).sound


@given(st.lists(st.floats(-500, 1500), min_size=2, max_size=5))
@settings(max_examples=30, deadline=None)
def test_projections_are_the_nearest_points(values: list[float]) -> None:
    """A general optimiser finds nothing nearer."""
    start = np.array(values)
    near, booked = start.copy(), start.copy()
    _into_simplex(near, 100.0, np.zeros_like(near))
    _into_overbooked(booked, 100.0)
    assert near.sum() == pytest.approx(100)
    assert (near >= 0).all()
    room = 100 - booked[0]
    assert -1e-6 <= room <= 100 + 1e-6
    assert (booked[1:] >= -1e-6).all()
    assert (booked[1:] <= room + 1e-6).all()
    assert booked[1:].sum() >= room - 1e-6
    simple = [{"type": "eq", "fun": lambda x: x.sum() - 100}]
    cut = [
        {"type": "ineq", "fun": lambda x: x.sum() - 100},
        {"type": "ineq", "fun": lambda x: 100 - x[0] - x[1:]},
    ]
    for found, constraints in ((near, simple), (booked, cut)):
        other = minimize(
            lambda x: ((x - start) ** 2).sum() / 1e4,
            np.full(len(start), 100 / len(start)),
            bounds=[(0, 100)] * len(start),
            constraints=constraints,
            method="SLSQP",
        )
        if other.success:
            assert ((found - start) ** 2).sum() / 1e4 <= other.fun * (1 + 1e-5) + 1e-5


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match="expected outflows of 1 exchanges, got 2"):
        stochastic_placement(10, np.ones(1), np.ones((3, 2)), example())
    with pytest.raises(InputError, match="mode must be one of sum, overbook, was 'over'"):
        stochastic_placement(10, np.ones(1), np.ones((3, 1)), example(), mode="over")
    with pytest.raises(InputError, match="impact must be a number of at least 0, was -1"):
        example(impact=-1.0)
