"""Tails of plans that wait: against simulated orders, and what is learned of fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from riskroute.routers.context import Context, read_context
from riskroute.routers.contextual.lit_belief import _FillModel, _posting_features
from riskroute.routers.contextual.market_features import MarketFeatures
from riskroute.routers.contextual.router import ContextualGreedy
from riskroute.routers.contextual.tail_guard import SHORTFALL_LEVEL
from riskroute.routers.contextual.wait_or_trade import (
    EXPOSURE_SAVED,
    WaitOrTrade,
    WaitOrTradeModel,
    WaitOrTradePlan,
    WaitOrTradeTables,
    _limit_excess,
    _PingedPools,
    _resting_excess,
)
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routers.risk import RiskProfile

SHARES = np.arange(0, 110, 10.0)
LAW = np.array([[-0.01, -1.0, 500.0, 800.0], [-0.008, 0.5, 50.0, 400.0]])
SLOPES = np.array([1.2, 0.6])
LATER, MOVE = 0.013, 0.03
HORIZON = WaitOrTradeModel(LAW, SLOPES, LATER, MOVE)
CORRELATION = 0.5  # of fills at two venues, given the move


def plan_tables(places: int, sweep: Any, pools: _PingedPools, prices: Any) -> tuple[WaitOrTrade, WaitOrTradeTables]:
    """Tables of a plan whose waiting shares cost nothing but their tails."""
    rows = np.zeros((places, len(SHARES)))
    tables = SHARES, sweep, sweep, rows, rows, rows, rows
    return WaitOrTrade(*tables, 0.0, pools), WaitOrTradeTables(*tables, HORIZON, prices, np.zeros(0), 0.013, 0.0)


def chances(law: Any, sizes: Any, move: Any) -> Any:
    """Probability not to fill."""
    return 1 / (1 + np.exp(-law[1] - SLOPES[0] * move - SLOPES[1] * np.log((law[2] + sizes) / law[3])))


def test_a_limit_order_costs_beyond_a_level_what_simulated_ones_do() -> None:
    """Filled as a whole or not at all, as its middle share is: 400,000 orders are worth about half a percent."""
    rng = np.random.default_rng(1)
    move, luck = rng.standard_normal(400_000), rng.random(400_000)
    for level in (-0.02, 0.0, 0.02):
        found = _limit_excess(HORIZON, SHARES, level)
        for v, law in enumerate(LAW):
            for k in (1, 10):
                missed = luck < chances(law, SHARES[k] / 2, move)
                costs = np.where(missed, LATER + MOVE * move, law[0])
                expected = SHARES[k] * np.maximum(costs - level, 0.0).mean()
                assert found[v, k] == pytest.approx(expected, rel=0.04)


def test_a_resting_order_costs_beyond_a_level_what_simulated_ones_do() -> None:
    rng = np.random.default_rng(2)
    move, luck = rng.standard_normal(400_000), rng.random(400_000)
    filled = np.array([0.7 * SHARES])
    (found,) = _resting_excess(HORIZON, np.array([0.001]), filled, SHARES, 0.005)
    costs = np.where(luck < 0.7, 0.001 + (1 - EXPOSURE_SAVED) * MOVE * move, LATER + MOVE * move)
    assert found[0] == 0.0
    np.testing.assert_allclose(found[1:], SHARES[1:] * np.maximum(costs - 0.005, 0.0).mean(), rtol=0.02)


@pytest.mark.parametrize("before", [False, True])
def test_a_plan_costs_beyond_a_level_what_simulated_ones_do(before: bool) -> None:
    """Limit orders at two venues that share some luck, one that rests, and pools that hold 60 shares or nothing."""
    rng = np.random.default_rng(3)
    count, units = 200_000, np.array([3, 2, 4])
    sweep, found = 0.013 * SHARES, np.minimum(SHARES, 60.0)
    nothing, price, resting = 0.4, 0.001, np.array([0.5 * SHARES])
    move = rng.standard_normal(count)
    lucky = rng.random(count) >= nothing
    shared = rng.standard_normal(count)
    now = 10.0
    size = 100.0 if before else now
    filled = min(60.0, size)
    left = max(now - filled, 0.0)
    factor = np.where(lucky, (100.0 - filled - left) / 90.0, 1.0)
    costs = np.where(lucky, 0.013 * left + price * filled, 0.013 * now)
    late = LATER + MOVE * move
    for v, law in enumerate(LAW):
        n = factor * SHARES[units[v]]
        luck = norm.cdf(CORRELATION**0.5 * shared + (1 - CORRELATION) ** 0.5 * rng.standard_normal(count))
        odds = (np.log(luck / (1 - luck)) - law[1] - SLOPES[0] * move) / SLOPES[1]
        done = np.clip(law[3] * np.exp(np.minimum(odds, 50)) - law[2], 0.0, n)
        costs += law[0] * done + late * (n - done)
    n = factor * SHARES[units[2]]
    costs += n * np.where(rng.random(count) < 0.5, price + (1 - EXPOSURE_SAVED) * MOVE * move, late)
    tables, order = plan_tables(3, sweep, _PingedPools(found, nothing, price, True), np.array([price]))
    for level in (-1.0, 0.5, 2.0):
        chance, beyond = tables.excess(order, WaitOrTradePlan(units, before), resting, level)
        assert chance == pytest.approx((costs > level).mean(), abs=0.06)  # 200 scenarios: 0.035 if they were by chance
        assert beyond == pytest.approx(np.maximum(costs - level, 0.0).mean(), rel=0.15, abs=0.02)


def test_no_level_gives_less_than_the_expected_shortfall() -> None:
    """What the guard rests on: a plan that costs less beyond the rule's level has a smaller shortfall than the rule."""
    costs = np.random.default_rng(4).standard_normal(20_000) ** 3
    shortfall = np.sort(costs)[-1000:].mean()
    for level in np.linspace(-3, 30, 50):
        assert level + np.maximum(costs - level, 0.0).mean() / SHORTFALL_LEVEL >= shortfall - 1e-9


def moment(number: int) -> Context:
    books = {
        "A": {"bids": [[10.00, 900]], "asks": [[10.02, 900]], "taker": 0.003},
        "B": {"bids": [[9.97, 900]], "asks": [[10.05, 900]], "taker": 0.003},
    }
    flows = {"outflow A": 5.0, "outflow B": 5.0}
    order = {"order": f"{number}", "side": "sell", "shares": 100, "lot": 100, "horizon": 60.0, "features": flows}
    return read_context({"venues": books}, **order, time=number * 10**9)


def outcome(number: int, rng: np.random.Generator) -> PublicData:
    """A's limit orders are safe; B's, three ticks behind, fill less often, and least when the mid moves away."""
    context, z = moment(number), rng.standard_normal()
    filled = {name: rng.random() < 1 / (1 + np.exp(1.5 * z - level)) for name, level in (("A", 4.0), ("B", 1.0))}
    moved = -0.03 * z  # of a sale: the mid falls
    sweep = 0.013 + 0.03 * z
    earned = {"A": 0.01, "B": 0.04}
    outcomes: dict[str, dict[str, tuple[float, ...]]]
    outcomes = {name: {"limit": (100 * (earned[name] if done else -sweep),)} for name, done in filled.items()}
    queues = {name: PublicQueueOutflow(10.02, 900, 5000 if done else 0) for name, done in filled.items()}
    return PublicData(context, outcomes, queues, PublicMarketAtHorizon(context.mid + moved, sweep))


def test_fills_are_learned_given_the_move_of_the_mid() -> None:
    rng, law = np.random.default_rng(5), _FillModel()
    for number in range(800):
        public = outcome(number, rng)
        now = MarketFeatures.of(public.context, 0.013)
        law.learn(public, now, _posting_features(public.context, now), 0.03)
    law.refresh()
    _, move, _, behind, _ = law.coefficients(60.0)
    assert move == pytest.approx(1.5, abs=0.25)
    assert behind == pytest.approx(1.0, abs=0.2)
    assert law.knows(60.0)
    assert not law.knows(1.0)
    law.discount(0.5)
    law.refresh()
    assert abs(law.coefficients(60.0)[1]) < abs(move)


def test_guarded_it_posts_where_limit_orders_are_safe() -> None:
    """Limit orders at B earn more and cost more in the tail; the simple rule posts at A, the best price.

    So the price of tails rises until they are no worse than the rule's.
    """
    plans = {}
    for guard in (False, True):
        rng, router = np.random.default_rng(6), ContextualGreedy(risk=RiskProfile("one", 0.0, capped=guard))
        for number in range(400):
            router.on_public_data(outcome(number, rng))
        for number in range(400, 800):
            plans[guard] = router.route(moment(number)).limit
    assert plans[False] == {"B": 100}
    assert plans[True] == {"A": 100}
    (tails,) = router.tails.values()
    assert tails.price > 0.001
    assert tails.gap < 0.5
