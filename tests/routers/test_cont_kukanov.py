"""Optimal placement after Cont and Kukanov: the placement problem, and the routers that solve it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import poisson

import riskroute as rr
from placement import into_overbooked, one_exchange_placement, overbooked_placement, placement_costs
from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError, StateError
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import Context, read_context
from riskroute.routers.literature.cont_kukanov import (
    ContKukanov,
    DarkFirstContKukanov,
    _into_simplex,
    _nearest,
    _OutflowSample,
    _PlacementPrices,
    _stochastic_placement,
    cont_kukanov_queues,
)
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routers.router import Router
from riskroute.routers.rules import SweepRule
from riskroute.routing.fees import fee_rows
from riskroute.simulation.play_day import PlayableDay, play_day, spaced_playable_orders
from router_cases import sale

ONE: dict[str, Any] = {
    "venues": {"A": {"bids": [[10.00, 2000]], "asks": [[10.04, 5000]], "taker": 0.003, "maker": -0.002}},
}


def order(number: int = 0, **more: Any) -> Context:
    given: dict[str, Any] = {"side": "buy", "shares": 1000, "horizon": 60.0, "order": f"o{number}"}
    return read_context(ONE, **given | more)


def seen(context: Context, *outflows: int, sweep: float = 0.026) -> PublicData:
    """What became of the queues at the best prices, and of a sweep at the horizon."""
    queues = {
        venue: PublicQueueOutflow(10.0, int(ahead), outflow)
        for (venue, (_, ahead, _)), outflow in zip(cont_kukanov_queues(context).items(), outflows, strict=True)
    }
    return PublicData(context, {}, queues, PublicMarketAtHorizon(context.mid, sweep))


def test_the_papers_example_from_samples() -> None:
    """Outflows are Poisson(2200) and missing shares have cost 2.6 cents: 728 are taken, 272 posted, but for noise.

    300 samples put the quantile within 12 shares of where it is, three standard errors.
    """
    router = ContKukanov(steps=50_000)
    outflows = np.random.default_rng(0).poisson(2200, 300)
    for number, outflow in enumerate(outflows.tolist()):
        router.on_public_data(seen(order(number), outflow))
    context = order()
    prices = router.prices(context, {"A": 0.022})
    assert (prices.taking, prices.under, prices.over) == pytest.approx((0.023, 0.026, 0.026))
    plan = router.route(context)
    assert plan.limit["A"] == pytest.approx(272, abs=12)
    assert plan.take["A"] == 1000 - plan.limit["A"]
    samples = np.sort(outflows)
    exact = one_exchange_placement(1000, 2000, lambda x: float((samples <= x).mean()), prices)
    assert plan.limit["A"] == pytest.approx(exact[1], abs=4)
    assert one_exchange_placement(1000, 2000, poisson(2200).cdf, prices) == (728, 272)


def test_missing_shares_cost_more_than_taking_or_half_a_tick() -> None:
    router = ContKukanov(memory_weight=0.5)
    router.on_public_data(seen(order(0), 100, sweep=0.020))
    assert router.prices(order(), {"A": 0.022}).under == pytest.approx(0.023 + 0.005)
    router.on_public_data(seen(order(1), 100, sweep=0.035))  # weights 1/2 and 1: (-0.0015 + 0.012) / 1.5 more
    assert router.prices(order(), {"A": 0.022}).under == pytest.approx(0.023 + 0.007)
    assert router.missing == pytest.approx([1.5, 0.0105])
    router.on_public_data(seen(order(2), 2250, sweep=0.023))  # a quarter was filled
    assert router.missing == pytest.approx([1.5, 0.00525])


def test_adverse_moves_of_filled_orders_can_be_charged() -> None:
    router = ContKukanov(adverse=1.0)
    public = seen(order(0), 2500)
    public = dataclasses.replace(public, at_horizon=PublicMarketAtHorizon(10.01, 0.03))  # bought half, mid a cent lower
    router.on_public_data(public)
    assert router.moves["A"] == pytest.approx([0.5, 0.005])
    assert router.prices(order(), {"A": 0.022}).rebates == pytest.approx((0.002 - 0.01,))


def test_samples_are_scaled_to_the_trading_and_the_horizon() -> None:
    router = ContKukanov()
    router.on_public_data(seen(order(0, features={"outflow A": 4.0}), 600))
    now = order(1, features={"outflow A": 8.0}, horizon=30.0)
    assert router._outflows(now, "A", 0) == pytest.approx([600 * 2 / 2])
    assert ContKukanov.restore(router.state())._outflows(order(2), "A", 0) == pytest.approx([600])
    assert router._outflows(now, "A", 1) is None
    lively = order(3, features={"outflow A": 400.0})
    assert router._outflows(lively, "A", 0) == pytest.approx([2400])  # four times at most


def test_a_venue_that_stood_otherwise_counts_as_at_the_nearest_moment() -> None:
    assert _nearest(np.array([1, 4]), 6).tolist() == [0, 0, 0, 1, 1, 1]
    assert _nearest(np.array([2]), 3).tolist() == [0, 0, 0]


def test_queues_are_those_of_our_side() -> None:
    """Selling: A offers 100 and B 300 at 10.02, a cent above the mid; B charges 0.1 cents."""
    found = cont_kukanov_queues(sale())
    assert found["A"] == pytest.approx((0, 100.0, 0.01))
    assert found["B"] == pytest.approx((0, 300.0, 0.009))


def test_without_time_or_samples_it_sweeps() -> None:
    router = ContKukanov()
    assert router.route(sale(300, horizon=60, order="a")) == SweepRule().route(sale(300, order="a"))
    for number in range(30):
        router.on_public_data(seen(sale(300, horizon=60, order=f"past {number}"), 500, 500))
    assert router.route(sale(300, order="b")) == SweepRule().route(sale(300, order="b"))
    assert router.route(sale(300, order="c", horizon=60)).limit


def test_a_quick_queue_gets_more() -> None:
    router = ContKukanov()
    for number in range(30):
        router.on_public_data(seen(sale(300, horizon=60, order=f"past {number}"), 90 + number, 600))
    plan = router.route(sale(300, horizon=60))
    assert plan.limit["B"] > 250


def test_moments_and_state_are_bounded_and_go_on() -> None:
    router = ContKukanov(remembered=25)
    rng = np.random.default_rng(2)
    for number in range(60):
        router.on_public_data(
            seen(order(number, features={"outflow A": float(rng.integers(1, 9))}), int(rng.poisson(2200)))
        )
    assert len(router.moments) == 25
    again = ContKukanov.restore(json.loads(json.dumps(router.state())))
    assert again.route(order(99)) == router.route(order(99))
    assert again.state() == router.state()
    broken = router.state()
    broken["memory"] = broken["memory"] | {"missing": ["much", 0.0]}
    with pytest.raises(StateError, match="must be a number"):
        ContKukanov.restore(broken)


def test_pools_are_tried_with_the_whole_order_before() -> None:
    router = DarkFirstContKukanov()
    for number in range(30):
        router.on_public_data(seen(sale(300, horizon=60, order=f"past {number}"), 90, 600))
    plan = router.route(sale(300, horizon=60))
    assert (plan.dark, plan.in_turn, plan.before) == ({"P": 300, "Q": 300}, True, True)
    assert plan.limit["B"] > 250
    assert plan.take == {}  # shares to take are the remainder, which is swept
    again = DarkFirstContKukanov.restore(json.loads(json.dumps(router.state())))
    assert again.route(sale(300, horizon=60, order="z")) == router.route(sale(300, horizon=60, order="z"))
    assert DarkFirstContKukanov().route(sale(300)).rest == "sweep"


def test_unfilled_pool_shares_are_posted_first() -> None:
    plan = Plan("a", dark={"P": 10}, in_turn=True, before=True, take={"A": 100}, limit={"A": 150, "B": 50})
    assert plan.within(400) == ({"A": 100}, {}, {"A": 150, "B": 50})
    assert plan.within(250) == ({"A": 50}, {}, {"A": 150, "B": 50})
    assert plan.within(170) == ({"A": 0}, {}, {"A": 150, "B": 20})
    with pytest.raises(InputError, match="before requires in_turn"):
        Plan("order", dark={"P": 10}, before=True).checked(sale())


@pytest.mark.parametrize("kind", [ContKukanov, DarkFirstContKukanov])
def test_they_pass_the_router_checks(kind: type[Router]) -> None:
    rr.check_router(kind())


@pytest.fixture(scope="module")
def day(half_hour: rr.market.RecordingStore) -> PlayableDay:
    recordings = half_hour.of_symbol("QVEX")
    books: DayBooks = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=5)
    queue = QueueReplay(books, {one.venue: half_hour.events(one) for one in recordings})
    orders = spaced_playable_orders(books, 60, 20, horizon=30.0, rng=np.random.default_rng(0))
    fees = fee_rows([0.003, -0.001, 0.002]), fee_rows([-0.002, 0.002, -0.001])
    pools = (rr.DarkMarketPool("P", 0.5), rr.DarkMarketPool("Q", 0.2))
    return PlayableDay("d", books, orders, *fees, pools, queue)


@pytest.mark.parametrize("kind", [ContKukanov, DarkFirstContKukanov])
def test_on_a_recorded_day_it_learns_and_posts(kind: type[Router], day: PlayableDay) -> None:
    router = kind(least=5)  # type: ignore[call-arg]  # both kinds have it
    played = play_day(router, day)
    posted = sum(child.sent for one in played.orders for child in one.done.children if child.kind == "limit")
    assert posted > 100
    assert all(one.done.filled == 20 for one in played.orders)
    lit = router.lit if isinstance(router, DarkFirstContKukanov) else router
    assert isinstance(lit, ContKukanov)
    assert len(lit.moments) > 40


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"steps": 0}, "steps must be a positive integer, was 0"),
        ({"least": 400}, "least must be at most 300, was 400"),
        ({"memory_weight": 1.0}, "memory_weight must be a number of at least 0 and below 1, was 1"),
        ({"impact": -1.0}, "impact must be a number of at least 0"),
        ({"behind": 3}, "behind must be at most 2, was 3"),
        ({"scaled": 1}, "scaled must be True or False, was 1"),
    ],
)
def test_invalid_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ContKukanov(**parameters)


def test_past_outflows_are_those_of_the_moments_one_by_one() -> None:
    """Venues that come and go, behind the best price or not, and a memory that forgets; the naive way, a loop."""
    rng, router = np.random.default_rng(3), ContKukanov(remembered=40, least=5)
    for _ in range(90):
        queues = {
            venue: (int(rng.integers(0, 3)), int(rng.integers(0, 900)), float(rng.integers(0, 3)))
            for venue in rng.permutation(["A", "B", "C"])[: rng.integers(1, 4)].tolist()
        }
        router._remember(_OutflowSample(float(rng.integers(10, 60)), queues))
    again = ContKukanov.restore(json.loads(json.dumps(router.state())))
    assert len(router.moments) == 40
    for venue, ticks, rate in (("A", 0, 5.0), ("B", 1, 0.0), ("C", 2, 0.1), ("D", 0, 1.0)):
        context = order(features={f"outflow {venue}": rate})
        rows, values = [], []
        for row, moment in enumerate(router.moments):
            then = moment.queues.get(venue)
            if then is not None and then[0] == ticks:
                scale = min(max(rate / then[2], 0.25), 4.0) if rate * then[2] > 0 else 1.0
                rows.append(row)
                values.append(then[1] * scale * context.horizon / moment.horizon)
        for one in (router, again):
            found = one._outflows(context, venue, ticks)
            if not rows:
                assert found is None
            else:
                assert found is not None
                assert found.tolist() == pytest.approx(np.array(values)[_nearest(np.array(rows), 40)].tolist())


SHARES, QUEUE, RATE = 1000, 2000, 2200
OUTFLOW = np.arange(4001)
MASS = poisson(RATE).pmf(OUTFLOW)


def example(under: float = 0.026, impact: float = 0.0, exchanges: int = 1) -> _PlacementPrices:
    """The paper's numbers."""
    return _PlacementPrices(0.02, 0.003, (0.002,) * exchanges, under=under, over=0.024, impact=impact)


def mean_cost(market: int, limit: int, prices: _PlacementPrices, queue: int = QUEUE) -> float:
    """The exact mean with one exchange."""
    given_ = np.array([float(limit)]), np.array([float(queue)]), OUTFLOW[:, None].astype(float)
    return float(MASS @ placement_costs(SHARES, market, *given_, prices))


@lru_cache(maxsize=4096)
def fill_mass(limit: int) -> Floats:
    mass: Floats = np.bincount(np.clip(OUTFLOW - QUEUE, 0, limit), MASS, minlength=limit + 1).astype(np.float64)
    return mass


def mean_cost_of_two(market: int, one: int, two: int, prices: _PlacementPrices) -> float:
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
    assert prices.under > prices.taking
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
    found = _stochastic_placement(example().problem(SHARES, np.array([2000.0]), poisson_outflows(1)), 200_000)
    assert found.sum() == pytest.approx(SHARES)
    assert found[1] == pytest.approx(272, abs=4)
    assert mean_cost(round(found[0]), round(found[1]), example()) == pytest.approx(14.278, abs=2e-3)


def test_stochastic_approximation_overbooks_two_exchanges() -> None:
    """The mean cost is within half a cent of the best, 6.0077, and 1,093 shares are sent but for a few."""
    prices = example(impact=0.0005, exchanges=2)
    found = overbooked_placement(prices.problem(SHARES, np.full(2, 2000.0), poisson_outflows(2)), 200_000)
    assert found == pytest.approx([499, 297, 297], abs=12)
    market, one, two = (round(shares) for shares in found)
    assert mean_cost_of_two(market, one, two, prices) == pytest.approx(6.0077, abs=5e-3)


def test_first_order_conditions_hold_at_the_solution() -> None:
    """On new samples, within three standard errors and what three shares change (the density is below 1 % a share)."""
    prices = example(impact=0.0005, exchanges=2)
    queues = np.array([2000.0, 2050.0])
    found = overbooked_placement(prices.problem(SHARES, queues, poisson_outflows(2)), 400_000)
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


@given(st.lists(st.floats(-500, 1500), min_size=2, max_size=5))
@settings(max_examples=30, deadline=None)
def test_projections_are_the_nearest_points(values: list[float]) -> None:
    """A general optimiser finds nothing nearer."""
    start = np.array(values)
    near, booked = start.copy(), start.copy()
    _into_simplex(near, 100.0, np.zeros_like(near))
    into_overbooked(booked, 100.0)
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


def test_the_cost_of_a_placement_by_hand() -> None:
    prices = _PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
    outflows = np.array([[2100.0], [2300.0]])
    found = placement_costs(1000, 728, np.array([272.0]), np.array([2000.0]), outflows, prices)
    assert found.tolist() == pytest.approx([19.016, 10.76])


def test_queues_of_two_venues_by_hand() -> None:
    from riskroute.routers.context import read_context

    books: dict[str, Any] = {
        "A": {"bids": [[10.0, 5]], "asks": [[10.02, 5]]},
        "B": {"bids": [[9.99, 7]], "maker": -0.002},
    }
    found = cont_kukanov_queues(read_context({"venues": books}, side="buy", shares=1))
    assert {venue: (ticks, ahead, round(gain, 6)) for venue, (ticks, ahead, gain) in found.items()} == {
        "A": (0, 5.0, 0.01),
        "B": (1, 7.0, 0.022),
    }
    books["B"]["maker"] = "-10 bps"
    gain = cont_kukanov_queues(read_context({"venues": books}, side="buy", shares=1))["B"][2]
    assert gain == pytest.approx(0.02 + 0.00999)
