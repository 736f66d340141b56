"""Planning between now and later: against enumeration, a closed form of the literature, and what is known of risk."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from placement import one_exchange_placement
from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError
from riskroute.routers.contextual.wait_or_trade import (
    WaitOrTrade,
    WaitOrTradeModel,
    WaitOrTradePlan,
    WaitOrTradeTables,
    _PingedPools,
    _PlanForecast,
)
from riskroute.routers.literature.cont_kukanov import _PlacementPrices

NO_POOLS = _PingedPools(np.zeros(1), 1.0, 0.0, False)
SHARES: Floats = np.arange(0, 30, 10.0)
LIMIT = np.zeros((1, 3))  # tables of one venue


def order(seed: int, units: int = 6, places: int = 3, pools: bool = True) -> WaitOrTrade:
    """Convex tables, in shares of ten a unit, the last unit smaller."""
    rng = np.random.default_rng(seed)
    shares = np.minimum(np.arange(units + 1) * 10.0, units * 10 - 3)
    sweep = np.cumsum(np.sort(rng.random(units + 1))) * 0.1
    sweep -= sweep[0]
    cost = np.cumsum(np.sort(rng.normal(size=(places, units + 1)), axis=1), axis=1) * 0.2
    cost -= cost[:, :1]
    variance = shares**2 * rng.random((places, 1)) * 1e-3
    found = np.minimum(np.sort(rng.random(units + 1)) * 30, shares) * 0.6
    pinged = _PingedPools(found / 0.6, 0.4, 0.002, True) if pools else NO_POOLS
    late = np.cumsum(np.sort(rng.random(units + 1))) * 0.1
    left, exposed = shares * rng.random((places, 1)), shares * rng.random((places, 1))
    common = float(rng.random()) * 1e-3
    return WaitOrTrade(shares, sweep, late - late[0], cost, variance, left, exposed, common, pinged)


def enumerated(one: WaitOrTrade) -> list[WaitOrTradePlan]:
    count = range(one.units + 1)
    ways = [np.array(way) for way in itertools.product(count, repeat=len(one.cost)) if sum(way) <= one.units]
    return [
        WaitOrTradePlan(way, before) for way in ways for before in ((False, True) if one.pools.pinged else (False,))
    ]


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 3.0]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_plan_is_the_best_of_all(seed: int, price: float, pools: bool) -> None:
    """Of all that try pools with the remainder; one that tries them before is only sent if it is better still.

    Allocations are best under tangents, which may leave a slightly worse plan; objectives range over 1.7.
    """
    one = order(seed, pools=pools)
    found = one.forecast(one.best_plan(price)).objective(price)
    plans = enumerated(one)
    late = min(one.forecast(plan).objective(price) for plan in plans if not plan.before)
    best = min(one.forecast(plan).objective(price) for plan in plans)
    assert best - 1e-9 <= found <= late + 0.15


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_outlook_is_that_of_simulated_orders(seed: int) -> None:
    """Pools hold something or nothing by a coin; what they fill comes off what is done now, then off what waits."""
    one = order(seed)
    units = np.array([2, 0, 1])
    for before in (False, True):
        outlook = one.forecast(WaitOrTradePlan(units, before))
        waits = one.shares[units]
        total, now = one.shares[-1], one.shares[-1] - waits.sum()
        size = total if before else now
        filled = min(float(np.interp(size, one.shares, one.pools.fills_if_any)), size)
        costs = []
        for any_there in (False, True):
            left = max(now - filled, 0.0) if any_there else now
            kept = (total - filled - left) / waits.sum() if any_there else 1.0
            waiting = sum(float(np.interp(kept * w, one.shares, one.cost[k])) for k, w in enumerate(waits))
            swept = sum(float(np.interp(kept * w, one.shares, one.left[k])) for k, w in enumerate(waits))
            waiting += float(np.interp(swept, one.shares, one.late))
            costs.append(waiting + float(np.interp(left, one.shares, one.sweep)) + (0.002 * filled if any_there else 0))
        assert outlook.cost == pytest.approx(0.4 * costs[0] + 0.6 * costs[1], rel=1e-9, abs=1e-9)
        assert outlook.variance >= 0.24 * (costs[0] - costs[1]) ** 2 - 1e-9


def test_one_venue_with_known_outflow_is_the_closed_form_of_cont_and_kukanov() -> None:
    """The example of their paper: 728 shares to take and 272 to post, within a lot of ten."""
    prices = _PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
    market, posted = one_exchange_placement(1000, 2000, poisson(2200).cdf, prices)
    shares = np.arange(0, 1001, 10.0)
    outflows = np.arange(1500, 3000)
    weights = poisson(2200).pmf(outflows)
    fills = np.array([(np.clip(outflows - 2000, 0, n) * weights).sum() for n in shares])
    cost = -(0.02 + 0.002) * fills + 0.026 * (shares - fills)
    none = np.zeros((1, 101))
    one = WaitOrTrade(shares, 0.023 * shares, 0 * shares, cost[None], none, none, none, 0.0, NO_POOLS)
    (units,) = one.best_plan(0.0).units
    assert (market, posted) == (728, 272)
    assert abs(units * 10 - posted) <= 10


def test_the_common_variance_of_waiting_shares_is_not_diversified() -> None:
    """Two places with the same luck: the additive model splits evenly and claims half of the variance."""
    shares: Floats = np.arange(11.0)
    cost = np.tile(-0.1 * shares, (2, 1))
    sweep = 10.0 * shares
    none, waits = np.zeros((2, 11)), np.tile(shares, (2, 1))
    additive = WaitOrTrade(shares, sweep, 0 * shares, cost, np.tile(shares**2, (2, 1)), none, none, 0.0, NO_POOLS)
    factor = WaitOrTrade(shares, sweep, 0 * shares, cost, none, none, waits, 1.0, NO_POOLS)
    split = additive.best_plan(0.01)
    assert split.units.tolist() == [5, 5]
    claimed = additive.forecast(split)
    assert claimed.cost == pytest.approx(-1.0)
    assert claimed.variance == pytest.approx(50.0)
    for way in ([5, 5], [10, 0], [3, 7]):
        assert factor.forecast(WaitOrTradePlan(np.array(way), False)).variance == pytest.approx(100.0)


def test_the_objective_charges_variance() -> None:
    assert _PlanForecast(1.0, 4.0).objective(0.5) == pytest.approx(3.0)


def test_pool_fills_that_do_not_fit_the_order_are_refused() -> None:
    model = WaitOrTradeModel(np.zeros((1, 4)), np.zeros(2), 0.01, 0.0)
    sweep = 0.01 * SHARES
    tables = SHARES, sweep, sweep, LIMIT, LIMIT, LIMIT, LIMIT
    good = WaitOrTradeTables(*tables, model, np.zeros(1), np.zeros(1), 0.01, 0.0)
    two = np.zeros((2, 3))  # one pool: a ping and a resting order
    assert good.with_pools((two, two))[0].cost.shape == (2, 3)
    fills = r"^fills must have one row per ping and per resting order, and one column for 0, 1 .. U units$"
    for wrong in ((two, two[:1]), (two[:, :2].copy(), two[:, :2].copy()), (np.zeros((3, 3)), np.zeros((3, 3)))):
        with pytest.raises(InputError, match=fills):
            good.with_pools(wrong)
    with pytest.raises(InputError, match=fills):
        good._replace(extra=np.zeros(2)).with_pools((two, two))
    with pytest.raises(InputError, match=r"^tables of an order must have one row per place and one column for 0, 1 "):
        good._replace(cost=LIMIT[:, :2].copy()).with_pools((two, two))
